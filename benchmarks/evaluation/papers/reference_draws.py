"""Draws of references: how much an accuracy on preferences depends on which of many references a paper happened to draw.

Of PASCAL-50S's 50 references of an image papers draw five at random, and print the mean accuracy of a few draws. Code that
draws as they do (a comment in issue 4 of jmhessel/clipscore, and `Pascal50sDataset` in several repositories after it)
draws for each pair anew, from the 48 sentences that people compared its captions with. Which 48 of the 50 these are is in a
file that was not to be had; here a pair's references are drawn from all of its image's but for its own two captions. Nor is
it known with which seed the papers drew. So a paper's number can be held against the spread of draws, and not recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ....metrics.base import Floats, Metric
from ....metrics.rows import Rows
from ...statistics.preferences import MEAN_DIMENSION
from ..evaluation_set import EvaluationSet

#: A pair: its image, and its two captions in the order of their texts.
Pair = tuple[str, str, str]


@dataclass(frozen=True)
class DrawOptions:
    """The draws of references of a table, as its paper describes them.

    Attributes:
        pool: the dataset that has all references of each image.
        references: how many references a draw has.
        averaged: the mean of how many draws the paper prints.
        rows: the rows of the table that are computed of draws.
        number: how many draws are made here.
        numbers: the same by row, of those whose draws take long.
    """

    pool: str
    references: int
    averaged: int
    rows: tuple[str, ...]
    number: int = 200
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class ReferenceDraws:
    """Pairs of captions, and the references that are drawn for each.

    Attributes:
        pairs: those that are judged, each once, in order.
        pools: the references that each is drawn from.
        size: the number of references of a draw.
        seed: of all draws; the n-th draw is the same however many are made.
    """

    pairs: tuple[Pair, ...]
    pools: tuple[tuple[str, ...], ...]
    size: int
    seed: int = 0
    _differences: dict[tuple[str, str, int], Floats] = field(
        default_factory=dict[tuple[str, str, int], Floats]
    )

    @classmethod
    def of_pairs(
        cls, pairs: Sequence[Pair], references: Mapping[str, tuple[str, ...]], size: int
    ) -> ReferenceDraws:
        """Make the draws of pairs.

        Args:
            pairs: may stand several times.
            references: all of an image's, by image.
            size: the number of references of a draw.

        Raises:
            InputError: where an image has fewer besides the captions of a pair.
        """
        distinct = tuple(sorted(set(pairs)))
        pools: list[tuple[str, ...]] = []
        for image, first, second in distinct:
            # A caption that is a reference of its image would be compared with itself.
            pool = [text for text in references[image] if text not in (first, second)]
            if len(pool) < size:
                raise InputError(
                    f"image '{image}' has {len(pool)} references beside the captions of a pair, and a draw takes {size}"
                )
            pools.append(tuple(pool))

        return cls(distinct, tuple(pools), size)

    def draw(self, number: int) -> NDArray[np.int64]:
        """Return the places in the pools of a draw's references, shape (n_pairs, size)."""
        rng = np.random.default_rng([self.seed, number])
        longest = max(map(len, self.pools))
        order = rng.random((len(self.pairs), longest))
        lengths = np.array([len(pool) for pool in self.pools])
        # Places beyond a pool's end come last.
        order[np.arange(longest) >= lengths[:, None]] = np.inf

        return np.argsort(order, axis=1, kind="stable")[:, : self.size]

    def differences(
        self, metrics: Sequence[Metric], policy: str, n_draws: int, advance: Callable[[], None]
    ) -> dict[str, Floats]:
        """Return the first caption's score less the second's in each draw, shape (n_draws, n_pairs), by metric.

        What several metrics make of the same references, such as tokens, is made once. Results are kept.

        Args:
            metrics: those that compare with references.
            policy: `all`, `mean_over_single` or `max_over_single`, as `Protocol.references`.
            n_draws: the number of draws.
            advance: called after each draw.
        """
        new = [m for m in metrics if (m.spec, policy, n_draws) not in self._differences]
        # The score against each reference is enough where scores are joined over single references.
        is_single = policy != "all"
        by_reference: dict[str, Floats] = {}
        scored_by_draw: list[Metric] = []
        for metric in new:
            if (is_single or metric.is_best_of_references) and not metric.depends_on_corpus:
                by_reference[metric.spec] = self._score_each_reference(metric)
            else:
                scored_by_draw.append(metric)

        differences: dict[str, list[Floats]] = {metric.spec: [] for metric in new}
        for number in range(n_draws):
            places = self.draw(number)
            scores = self._score_draw(scored_by_draw, policy, places)
            for spec, table in by_reference.items():
                drawn = np.take_along_axis(table, places[None], axis=2)
                is_mean = policy == "mean_over_single"
                scores[spec] = drawn.mean(axis=2) if is_mean else drawn.max(axis=2)

            for metric in new:
                first, second = scores[metric.spec]
                sign = 1.0 if metric.higher_is_better else -1.0
                differences[metric.spec].append(sign * (first - second))
            advance()

        for spec, rows in differences.items():
            self._differences[spec, policy, n_draws] = np.array(rows)

        return {m.spec: self._differences[m.spec, policy, n_draws] for m in metrics}

    @cached_property
    def _captions(self) -> list[str]:
        """The first captions of all pairs, then the second ones."""
        firsts: list[str] = []
        seconds: list[str] = []
        for _, first, second in self.pairs:
            firsts.append(first)
            seconds.append(second)
        return firsts + seconds

    def _score_draw(
        self, metrics: Sequence[Metric], policy: str, places: NDArray[np.int64]
    ) -> dict[str, Floats]:
        """Score both captions of each pair against the references of a draw, shape (2, n_pairs), by metric."""
        if not metrics:
            return {}

        drawn: list[tuple[str, ...]] = []
        for pool, row in zip(self.pools, places.tolist(), strict=True):
            drawn.append(tuple(pool[position] for position in row))
        passes = [drawn]
        if policy != "all":
            # One pass for each reference of a draw.
            passes = []
            for k in range(places.shape[1]):
                passes.append([texts[k : k + 1] for texts in drawn])

        scores: dict[str, list[Floats]] = {metric.spec: [] for metric in metrics}
        for references in passes:
            frame = pd.DataFrame({"caption": self._captions, "references": references + references})
            rows = Rows(frame)
            for metric in metrics:
                scores[metric.spec].append(metric.score(rows))

        join = np.max if policy == "max_over_single" else np.mean
        joined: dict[str, Floats] = {}
        for spec, columns in scores.items():
            joined[spec] = join(columns, axis=0).reshape(2, len(self.pairs))

        return joined

    def _score_each_reference(self, metric: Metric) -> Floats:
        """Score both captions of each pair against each reference of its pool, shape (2, n_pairs, n_references)."""
        longest = max(map(len, self.pools))
        # Each caption and reference is scored once, however many pairs have them.
        number_of: dict[tuple[str, str], int] = {}
        numbers = np.zeros((2, len(self.pairs), longest), dtype=np.int64)
        for row, (pair, pool) in enumerate(zip(self.pairs, self.pools, strict=True)):
            _, *captions = pair
            for side, caption in enumerate(captions):
                for column, reference in enumerate(pool):
                    texts = (caption, reference)
                    numbers[side, row, column] = number_of.setdefault(texts, len(number_of))

        captions_to_score: list[str] = []
        references: list[tuple[str]] = []
        for caption, reference in number_of:
            captions_to_score.append(caption)
            references.append((reference,))
        frame = pd.DataFrame({"caption": captions_to_score, "references": references})
        return metric.score(Rows(frame))[numbers]


@dataclass(frozen=True)
class DrawnMean:
    """A number's mean over random draws, as of an accuracy over draws of references.

    Attributes:
        mean: the mean over draws.
        deviation: their standard deviation.
        n_draws: their number.
    """

    mean: float
    deviation: float
    n_draws: int

    def spread(self, averaged: int) -> float:
        """Return two standard errors of the difference between `mean` and a mean of so many draws of someone else's."""
        return 2 * self.deviation * float(np.sqrt(1 / averaged + 1 / self.n_draws))


def judged_pairs_of(selection: EvaluationSet) -> list[Pair]:
    """Return the image and the captions of each comparison of `selection.judged_pairs`, the captions in order."""
    items = selection.items.set_index("item_id")
    images = items["image_id"].to_dict()
    captions = items["caption"].to_dict()
    frame = selection.judged_pairs.frame

    pairs: list[Pair] = []
    for item_a, item_b in zip(frame["item_a"], frame["item_b"], strict=True):
        first, second = sorted((captions[item_a], captions[item_b]))
        pairs.append((images[item_a], first, second))

    return pairs


def measure_draws(
    selection: EvaluationSet, draws: ReferenceDraws, differences: Floats
) -> dict[str, DrawnMean]:
    """Return a metric's accuracy by dimension, and as the mean over dimensions.

    Args:
        selection: whose preferences are judged.
        draws: those of its pairs.
        differences: of the metric, shape (n_draws, n_pairs of `draws`).
    """
    column_of = {pair: column for column, pair in enumerate(draws.pairs)}
    judged_columns = np.array([column_of[pair] for pair in judged_pairs_of(selection)])

    captions = selection.items.set_index("item_id")["caption"]
    frame = selection.judged_pairs.frame
    first_captions = captions.loc[frame["item_a"]].to_numpy()
    second_captions = captions.loc[frame["item_b"]].to_numpy()
    # A pair of `draws` has its captions in order; the judged one may have them the other way round.
    signs = np.where(first_captions <= second_captions, 1.0, -1.0)

    by_draw: list[list[float]] = []
    for row in differences:
        outcomes = selection.judged_pairs.outcomes(signs * row[judged_columns])
        by_draw.append([outcome.accuracy for outcome in outcomes])
    accuracies = np.array(by_draw)

    columns = dict(zip(selection.judged_pairs.dimensions, accuracies.T, strict=True))
    columns[MEAN_DIMENSION] = accuracies.mean(axis=1)

    measured: dict[str, DrawnMean] = {}
    for dimension, values in columns.items():
        deviation = float(values.std(ddof=1))
        measured[dimension] = DrawnMean(float(values.mean()), deviation, len(values))

    return measured
