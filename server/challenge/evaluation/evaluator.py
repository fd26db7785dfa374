"""What a submission scores: by the functions of `captau score` and `captau bench`, so that both agree.

What all submissions of a challenge share (its references, read and tokenised; its dataset) is prepared
once and kept, by each worker for itself.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....benchmarks.commands.agree_captions import run as agree
from ....benchmarks.evaluation.measured_dataset import measure
from ....benchmarks.options import HumanConfig
from ....benchmarks.runs.progress_bar import StepProgress
from ....benchmarks.runs.results import describe_environment
from ....benchmarks.scoring.caption_files import CandidateFile, read_candidates, read_references
from ....benchmarks.scoring.caption_files import ReferenceFile as Texts
from ....benchmarks.scoring.corpus_scores import (
    SystemScores,
    make_caption_items,
    score_system,
    select_images,
)
from ....benchmarks.scoring.score_store import ScoreStore
from ....benchmarks.scoring.system_comparison import SystemPanel, compare_systems
from ....benchmarks.scoring.unavailable_metrics import find_unavailable
from ....benchmarks.statistics.bootstrap import count_blocks, resample
from ....datasets.errors import InputError
from ....datasets.registry import load
from ....datasets.schema import CaptionSet
from ....datasets.streams import Source
from ....datasets.table import read_table
from ....metrics.base import Floats, Metric
from ....metrics.external import ScoreFile
from ....metrics.text.tokens.ptb import pin_tokens
from ..definition_file import Challenge, References

#: What a metric that was submitted is called.
SUBMITTED = "submitted"
#: Told how far an evaluation is, from 0 to 1, and what is being done.
Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Evaluated:
    """What came out.

    Attributes:
        scores: rows with `references` (the set; empty of metrics), `metric` (of metrics: coefficient and
            dimension), `value, ci_low, ci_high` (None where undefined), `n` (captions) and `note`.
        run: what it takes to recompute them.
        items: the score of each caption: `item_id, image_id`, a column a metric (and set).
        drawn: scores of drawn images, the same for every submission: a column a set and metric, shape
            (replicates,).
        seconds: what it took.
    """

    scores: list[dict[str, Any]]
    run: dict[str, Any]
    items: pd.DataFrame
    drawn: dict[tuple[str, str], Floats]
    seconds: float


class _Told(StepProgress):
    """Steps that are told to somebody, in place of a bar."""

    def __init__(self, total: int, tell: Tell) -> None:
        super().__init__(None)
        self._done, self._total, self._tell = 0, total, tell

    def more(self, steps: int, description: str) -> None:
        self._total += steps

    def advance(self) -> None:
        self._done += 1
        self._tell(min(self._done / max(self._total, 1), 0.99), "")

    @contextmanager
    def step(self, description: str) -> Generator[None]:
        self._tell(min(self._done / max(self._total, 1), 0.99), description.rpartition(": ")[2])
        yield
        self.advance()


class Prepared:
    """A challenge with what its submissions share."""

    def __init__(self, challenge: Challenge) -> None:
        self.challenge = challenge

    # Whose captions or scores are wanted ---------------------------------------------------------

    @cached_property
    def images(self) -> dict[str, None]:
        """Of captions: the images that need one, in the references' order."""
        return dict.fromkeys(i for texts in self.sets.values() for i in texts.texts)

    @cached_property
    def caption_set(self) -> CaptionSet:
        """Of metrics: the dataset whose items are scored."""
        return self.challenge.caption_set()

    @cached_property
    def items(self) -> pd.DataFrame:
        """Of metrics: the items that are scored."""
        protocol = self.challenge.protocol
        if protocol is None:
            raise ValueError("a challenge of captions has no items")
        return protocol.for_dataset(self.caption_set).select_items(self.caption_set)

    @cached_property
    def sets(self) -> dict[str, Texts]:
        """Of captions: the references by set."""
        return {
            one.name: _texts(one, self.challenge.data_root) for one in self.challenge.references
        }

    def check(self) -> None:
        """
        Raises:
            InputError: where references cannot be read, or a metric cannot be computed.
        """
        if self.challenge.kind == "metrics":
            _ = self.items
            return
        try:
            items = self._some()
            absent = find_unavailable(self.metrics, frozenset(m.spec for m in self.metrics), items)
            _ = [m.signature for m in self.metrics]  # which reads the files among their parameters
        except InputError as error:
            raise InputError(f"{self.challenge.source}: {error}") from error
        if absent:
            metric, reason = next(iter(absent.items()))
            raise InputError(f"{self.challenge.source}: metric {metric.spec} {reason}")

    def warm(self) -> None:
        """Do beforehand what the first submission would wait for."""
        self.check()
        if self.challenge.kind == "captions":
            texts = (refs for one in self.sets.values() for refs in one.texts.values())
            pin_tokens(t for refs in texts for t in refs)
            score_system("", "", self._some(), self.metrics, ScoreStore(None), _Told(0, _silent))

    def _some(self) -> pd.DataFrame:
        """Two rows, to see whether metrics run."""
        first = next(iter(self.sets.values()))
        ids = [i for i, texts in first.texts.items() if texts][:2]
        return make_caption_items(
            CandidateFile(first.source, dict.fromkeys(ids, "a man"), {}), first, ids, None
        )

    def listed(self) -> Iterator[dict[str, Any]]:
        """What a submission has to have a caption or score of; what is private stays out."""
        if self.challenge.kind == "captions":
            yield from ({"image_id": i} for i in self.images)
            return
        columns = ["item_id", "image_id", "caption", *(["references"] * self.challenge.shown)]
        rows: Any = self.items[columns].to_dict("records")
        yield from rows

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Of captions: what they are scored by."""
        return self.challenge.chosen

    # Evaluating ----------------------------------------------------------------------------------

    def evaluate(self, path: Path, tell: Tell) -> Evaluated:
        """Score a submission that was found valid.

        Args:
            path: captions as one file, or scores.
            tell: told of progress, from any thread.
        """
        began = time.perf_counter()
        one = self._captions if self.challenge.kind == "captions" else self._scores
        found = one(path, tell)
        return replace(found, seconds=round(time.perf_counter() - began, 3))

    def _captions(self, path: Path, tell: Tell) -> Evaluated:
        tell(0.0, "reading")
        candidates = read_candidates(path)
        options = self.challenge.statistics
        images = select_images({"": candidates}, self.sets, partial=True)
        places = {name: self._places(ids) for name, ids in images.items()}
        # Drawn once in the file's order and, where that is another one, in the references'.
        draws = sum(1 + _mixed(order) for order in places.values()) * options.uses_resampling
        steps = len(images) * len(self.metrics) + draws * count_blocks(options.replicates)
        progress = _Told(steps, tell)
        rows: list[dict[str, Any]] = []
        drawn: dict[tuple[str, str], Floats] = {}
        items = pd.DataFrame({"image_id": list(candidates.captions)})
        for name, ids in images.items():
            frame = make_caption_items(candidates, self.sets[name], ids, None)
            here = score_system("", name, frame, self.metrics, ScoreStore(None), progress)
            if options.uses_resampling:
                (here,), _ = compare_systems([here], options, progress.advance)
                drawn |= self._drawn(here, places[name], progress)
            rows += _rows(here, [m.spec for m in self.metrics])
            columns = {f"{spec}@{name}": values for spec, values in here.scores.items()}
            items = items.merge(pd.DataFrame({"image_id": ids, **columns}), "left", on="image_id")
        run = {
            "kind": "captions",
            "metrics": [m.spec for m in self.metrics],
            "statistics": vars(options),
            "signatures": {m.spec: m.signature for m in self.metrics},
            **describe_environment(),
        }
        return Evaluated(rows, run, items, drawn, 0.0)

    def _places(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Where each of some images stands among them in the order of the references."""
        wanted = set(ids)
        place = {image: at for at, image in enumerate(i for i in self.images if i in wanted)}
        return np.array([place[image] for image in ids])

    def _drawn(
        self, one: SystemScores, order: NDArray[np.int64], progress: _Told
    ) -> dict[tuple[str, str], Floats]:
        """Scores of drawn images in the order of the references, whatever a submission's is."""
        drawn = one.drawn
        if drawn and _mixed(order):
            panel = SystemPanel.of({one.system: one.pooled}, tuple(drawn), len(order))
            statistic = panel.corpus[one.system]
            options = self.challenge.statistics
            (found,) = resample(
                [lambda weights: statistic(weights[order])],
                len(order),
                options.replicates,
                options.seed,
                advance=progress.advance,
            )
            drawn = dict(zip(drawn, found, strict=True))
        return {(one.references, spec): row for spec, row in drawn.items()}

    def _scores(self, path: Path, tell: Tell) -> Evaluated:
        tell(0.0, "reading")
        protocol, options = self.challenge.protocol, self.challenge.statistics
        if protocol is None:
            raise ValueError("a challenge of metrics has a protocol")
        table = read_table(path)
        named = str(table.column("metric")[0]) if "metric" in table else None
        metric = ScoreFile(path=str(path), name=SUBMITTED, metric=named)
        found = measure(self.caption_set, protocol, [metric], ScoreStore(None), _Told(1, tell))
        tell(0.3, "intervals")
        progress = _Told(0, lambda share, _: tell(0.3 + 0.7 * share, "intervals"))
        found.judge(options, progress)
        rows = [
            {
                "references": "",
                "metric": f"{row['coefficient']} {row['dimension']}",
                "value": _number(row["value"]),
                "ci_low": _number(row["ci_low"]),
                "ci_high": _number(row["ci_high"]),
                "n": int(row["n_items"]),
                "note": row["note"],
            }
            for row in found.correlations.to_dict("records")
        ]
        drawn: dict[tuple[str, str], Floats] = {}
        for panel, _ in found.panels() if options.uses_resampling else ():
            keep = panel.comparable_points(SUBMITTED)
            if keep is None or panel.n_images < 2:
                continue
            (values,) = resample(
                [panel.statistic(SUBMITTED, keep)],
                panel.n_images,
                options.replicates,
                options.seed,
            )
            for (dimension, coefficient), row in zip(panel.keys, values, strict=True):
                drawn["", f"{coefficient} {dimension}"] = row
        items = found.items[["item_id", "image_id"]].reset_index(drop=True)
        items["score"] = np.asarray(found.by_metric[SUBMITTED])
        run = {
            "kind": "metrics",
            "protocol": vars(found.protocol),
            "statistics": vars(options),
            "dataset": self.caption_set.card.title,
            **describe_environment(),
        }
        return Evaluated(rows, run, items, drawn, 0.0)

    def human(self) -> list[dict[str, Any]]:
        """People's own scores, as `captau agree kind=captions` has them; rows as of a submission."""
        rows: list[dict[str, Any]] = []
        for one in self.challenge.references:
            found = agree(
                HumanConfig(
                    kind="captions",
                    datasets=() if one.dataset is None else (one.dataset,),
                    references=one.file,
                    metrics=self.metrics,
                    held_out=self.challenge.human,
                    k=None if one.k is None else one.k - 1,
                    seed=self.challenge.statistics.seed,
                )
            )
            last = found.choices.groupby("metric", sort=False).last()
            rows += [
                {
                    "references": one.name,
                    "metric": str(metric),
                    "value": _number(row["value"]),
                    "ci_low": _number(row["ci_low"]),
                    "ci_high": _number(row["ci_high"]),
                    "n": int(row["n_items"]),
                    "note": f"against {row['n_references']} others",
                }
                for metric, row in last.iterrows()
            ]
        return rows


def _mixed(order: NDArray[np.int64]) -> bool:
    """Whether images stand in another order than the references'."""
    return bool((np.diff(order) < 0).any())


def _silent(share: float, step: str) -> None:
    del share, step


def _texts(one: References, data_root: Path | None) -> Texts:
    """A set of references."""
    if one.file is not None:
        return read_references(one.file)
    items = load(str(one.dataset), data_root).items
    found: dict[str, tuple[str, ...]] = {}
    for image_id, references in zip(items["image_id"], items["references"], strict=True):
        if found.setdefault(image_id, references[: one.k]) != references[: one.k]:
            raise InputError(
                f"dataset {one.dataset}: rows of image '{image_id}' have different references; name a "
                f"file of them"
            )
    return Texts(Source(Path(one.name)), found)


def _rows(one: SystemScores, specs: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for spec in specs:
        ends = one.intervals.get(spec)
        rows.append(
            {
                "references": one.references,
                "metric": spec,
                "value": _number(one.corpus[spec]),
                "ci_low": _number(ends.low) if ends else None,
                "ci_high": _number(ends.high) if ends else None,
                "n": len(one.items),
                "note": one.undefined(spec) or (ends.note if ends else ""),
            }
        )
    return rows


def _number(value: Any) -> float | None:
    """As JSON has it: NaN is none."""
    return float(value) if math.isfinite(value) else None


#: Between the set and the metric in the name of a column of drawn scores.
_BETWEEN = "\t"


def pack(drawn: Mapping[tuple[str, str], Floats]) -> bytes:
    """Drawn scores as a file."""
    frame = pd.DataFrame({_BETWEEN.join(key): row for key, row in drawn.items()})
    return packed(frame)


def unpack(data: bytes) -> dict[tuple[str, str], Floats]:
    """What `pack` packed."""
    frame = pd.read_parquet(io.BytesIO(data))
    found: dict[tuple[str, str], Floats] = {}
    for name in frame.columns:
        references, _, metric = str(name).partition(_BETWEEN)
        found[references, metric] = frame[name].to_numpy(dtype=np.float64)
    return found


def packed(frame: pd.DataFrame) -> bytes:
    """A table as Parquet."""
    stream = io.BytesIO()
    frame.to_parquet(stream, index=False, compression="zstd")
    return stream.getvalue()
