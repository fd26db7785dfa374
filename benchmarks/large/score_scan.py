"""A scan of a scored set for `captau score keep.run=`: counts, percentiles and examples on both sides of a threshold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...metrics.base import Floats
from .exact import DigitCounts, add_digit_counts, compute_percentiles, count_digits
from .part_rows import read_part_scores
from .run_folder import SCORES, ResultFolder
from .score_report import SHARES

#: How many captions are shown of the worst, and on each side of the threshold.
EXAMPLES = 5

#: The score, the number of the shard and the row of a caption.
Example = tuple[float, int, int]
#: The parts of each shard, as the manifest lists them.
ShardParts = Sequence[Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class ScoreReader:
    """A reader of the scores that a finished run gave by one metric, part by part.

    Attributes:
        folder: of the parts, a path or a URL.
        parts: the parts of each shard, as the manifest lists them, each with the shard's `first` row in it and their
            `end`.
        metric: the metric's spec.
    """

    folder: str
    parts: ShardParts
    metric: str

    @classmethod
    def of_run(cls, source: ResultFolder, manifest: Mapping[str, Any], metric: str) -> ScoreReader:
        """Return the scores in a run's folder."""
        part_by_name = {part["name"]: part for part in manifest["parts"]}
        ends = dict.fromkeys(part_by_name, 0)
        parts: list[list[dict[str, Any]]] = []
        for shard in manifest["shards"]:
            parts.append([])
            rows_left = shard["rows"]
            # A part may have rows of several small shards, one after another.
            for name in shard["parts"]:
                part, first = part_by_name[name], ends[name]
                ends[name] = min(part["rows"], first + rows_left)
                rows_left -= ends[name] - first
                parts[-1].append({**part, "first": first, "end": ends[name]})
        return cls(f"{source.location}/{SCORES}", parts, metric)

    def __iter__(self) -> Iterator[tuple[int, int, Floats]]:
        """Yield the number of the shard, the first row and the scores of each part of a shard.

        Raises:
            InputError: where a part's scores are not what the manifest lists.
        """
        name, part_scores = "", np.empty(0)
        for shard, shard_parts in enumerate(self.parts):
            first_row = 0
            for part in shard_parts:
                if part["name"] != name:  # neighbouring small shards share a part
                    name = part["name"]
                    part_scores = read_part_scores(self.folder, part, self.metric)
                scores = part_scores[part["first"] : part["end"]]
                yield shard, first_row, scores
                first_row += len(scores)

    def find_best(self, share: float) -> tuple[int, float]:
        """Return how many captions are the best share of those with a score, rounded up, and the least score of these.

        Raises:
            InputError: where no caption has a score.
        """
        n_scored = sum(int((~np.isnan(scores)).sum()) for _, _, scores in self)
        if not n_scored:
            raise InputError(f"{self.folder}: no caption has a score by {self.metric}")
        n_best = math.ceil(Fraction(str(share)) * n_scored)  # 0.1 of 30 are 3
        percentile = Fraction(100 * (n_scored - n_best), max(1, n_scored - 1))

        value = self.compute_percentiles(
            {"all": n_scored}, [percentile], lambda scores: {"all": scores}
        )
        return n_best, value["all"][0]

    def compute_percentiles(
        self,
        sizes: Mapping[str, int],
        shares: Sequence[float | Fraction],
        split: Callable[[Floats], Mapping[str, Floats]],
    ) -> dict[str, list[float]]:
        """Compute percentiles of the groups into which a function splits the scores of a part.

        Args:
            sizes: how many scores each group has.
            shares: 0 to 100.
            split: returns the scores of each group.
        """

        def count_pass(
            position: int, prefixes: Mapping[str, Sequence[int]]
        ) -> Mapping[str, DigitCounts]:
            counts: defaultdict[str, DigitCounts] = defaultdict(dict)
            for _, _, scores in self:
                for name, group in split(scores).items():
                    if name in prefixes:
                        digits = count_digits(group, position, prefixes[name])
                        add_digit_counts(counts[name], digits)
            return counts

        return compute_percentiles(sizes, shares, count_pass)


@dataclass(frozen=True)
class ScoreScan:
    """Counts, percentiles and examples of a set's scores on both sides of a threshold, `kept` and `dropped`.

    Attributes:
        n_rows, n_kept, n_undefined: how many captions there are, are kept, and have no score.
        n_tied: how many score exactly the threshold.
        examples: captions to show, by the side on which they are.
        percentiles: by side, in the order of `SHARES`.
    """

    n_rows: int
    n_kept: int
    n_undefined: int
    n_tied: int
    examples: dict[str, list[Example]]
    percentiles: dict[str, list[float]]

    def percentile_rows(self) -> pd.DataFrame:
        """Return the rows of percentiles.csv."""
        return pd.DataFrame(
            [
                {"captions": side, "percentile": share, "score": value}
                for side, values in self.percentiles.items()
                for share, value in zip(SHARES, values, strict=True)
            ]
        )

    def example_rows(self) -> dict[int, list[int]]:
        """Return the sorted rows of the examples by the number of their shard."""
        places = {(shard, row) for side in self.examples.values() for _, shard, row in side}
        rows: defaultdict[int, list[int]] = defaultdict(list)
        for shard, row in sorted(places):
            rows[shard].append(row)
        return rows


def scan_scores(stored: ScoreReader, threshold: float) -> ScoreScan:
    """Scan the scores of a run by one metric.

    Args:
        stored: the scores.
        threshold: the least score that is kept.

    Raises:
        InputError: where a part's scores are not what the manifest lists.
    """
    sizes = {"kept": 0, "dropped": 0}
    n_rows = n_undefined = n_tied = 0
    examples: dict[str, list[Example]] = {"lowest": [], "just below": [], "just above": []}
    for shard, first_row, scores in stored:
        n_rows += len(scores)
        n_tied += int((scores == threshold).sum())
        n_undefined += int(np.isnan(scores).sum())
        for side, side_scores in _split(scores, threshold).items():
            sizes[side] += len(side_scores)
        _add_examples(examples, shard, first_row, scores, threshold)
    percentiles = stored.compute_percentiles(sizes, SHARES, partial(_split, threshold=threshold))
    return ScoreScan(n_rows, sizes["kept"], n_undefined, n_tied, examples, percentiles)


def _split(scores: Floats, threshold: float) -> dict[str, Floats]:
    return {"kept": scores[scores >= threshold], "dropped": scores[scores < threshold]}


def _add_examples(
    examples: dict[str, list[Example]],
    shard: int,
    first_row: int,
    scores: Floats,
    threshold: float,
) -> None:
    """Add a part's captions to the examples, of which each side keeps the first few."""
    is_below, is_above = scores < threshold, scores >= threshold
    for name, is_candidate, sign in (
        ("lowest", is_below, 1),
        ("just below", is_below, -1),
        ("just above", is_above, 1),
    ):
        indices = np.flatnonzero(is_candidate)
        first = indices[np.argsort(sign * scores[indices], kind="stable")[:EXAMPLES]]
        added = [(float(scores[i]), shard, first_row + int(i)) for i in first]
        ordered = sorted([*examples[name], *added], key=lambda e, sign=sign: (sign * e[0], e[1:]))
        examples[name] = ordered[:EXAMPLES]
