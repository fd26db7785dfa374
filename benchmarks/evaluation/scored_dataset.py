"""The items of an evaluation set with metrics' scores: read from the store, or computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ...metrics.base import Floats, Metric, WordMetric
from ..runs.progress_bar import StepProgress
from ..runs.results import SCORE_COLUMNS
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from ..scoring.scorer import Scorer, metric_caveats, score_all
from .data_points import find_places
from .evaluation_set import EvaluationSet


@dataclass(frozen=True)
class ScoredDataset:
    """Metrics' scores of the items of an evaluation set.

    Attributes:
        selection: the items.
        metrics: the metrics that correlate with people; companions that came with them do not.
        by_metric: scores by metric and item id, companions' last.
        caveats: notes on metrics that were trained on related data, by spec.
        remarks: what metrics had to say while they scored, by spec; caveats included.
    """

    selection: EvaluationSet
    metrics: tuple[Metric, ...]
    by_metric: Mapping[str, pd.Series]
    caveats: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @property
    def oriented(self) -> dict[str, pd.Series]:
        """Scores of which more is better, by metric and item id, without companions."""
        scores: dict[str, pd.Series] = {}
        for metric in self.metrics:
            sign = 1.0 if metric.higher_is_better else -1.0
            scores[metric.spec] = sign * self.by_metric[metric.spec]

        return scores

    def in_order(self) -> ScoredDataset:
        """Return the scores with the items in the order of `EvaluationSet.in_order`; they are ordered once."""
        return self._in_order

    @cached_property
    def _in_order(self) -> ScoredDataset:
        columns = [series.to_numpy(dtype=np.float64) for series in self.by_metric.values()]
        selection = self.selection.in_order(columns)

        places = find_places(pd.Index(self.selection.items["item_id"]), selection.items["item_id"])
        in_order = {
            spec: column[places] for spec, column in zip(self.by_metric, columns, strict=True)
        }
        by_metric = by_item(in_order, selection.items)
        return replace(self, selection=selection, by_metric=by_metric)

    @cached_property
    def blame(self) -> dict[str, list[Floats]]:
        """By metric that blames words, an array for each item: a number for each of its words."""
        blame: dict[str, list[Floats]] = {}
        for metric in self.metrics:
            if isinstance(metric, WordMetric):
                blame[metric.spec] = metric.blame(self.selection.items)

        return blame

    @property
    def frame(self) -> pd.DataFrame:
        """The scores in long form, columns `SCORE_COLUMNS`."""
        items = self.selection.items.assign(dataset=self.selection.name)
        frames: list[pd.DataFrame] = []
        for metric, scores in self.by_metric.items():
            frames.append(items.assign(metric=metric, score=scores.to_numpy()))

        # pandas joins no empty list; without metrics the frame has its columns and no row.
        if not frames:
            frames.append(items.iloc[:0].assign(metric="", score=0.0))
        return pd.concat(frames, ignore_index=True)[list(SCORE_COLUMNS)]


def score_dataset(
    selection: EvaluationSet, metrics: Sequence[Metric], store: ScoreStore, progress: StepProgress
) -> ScoredDataset:
    """Score the selected items with metrics, reading from the store what is there.

    Raises:
        InputError: where a metric has corpus statistics and the dimensions give items different
            weights, or a metric was trained on these images and may not be judged by them.
    """
    items = selection.items
    if corpus_metrics := [m for m in metrics if m.depends_on_corpus]:
        # One error names one metric; the others have the same remedy.
        first = corpus_metrics[0].spec
        selection.protocol.check_equal_weights(selection.caption_set, items, first)

    caveats = metric_caveats(metrics, items)
    scorer = Scorer(selection.name, items, selection.protocol)
    columns = score_all(scorer, metrics, store, progress)

    remarks: dict[str, list[str]] = {}
    for metric in metrics:
        remarks[metric.spec] = list(scorer.remarks.get(metric.spec, []))
        if metric.spec in caveats:
            remarks[metric.spec].append(caveats[metric.spec])
        if gaps := describe_gaps(columns[metric.spec], selection.protocol):
            remarks[metric.spec].append(gaps)

    return ScoredDataset(selection, tuple(metrics), by_item(columns, items), caveats, remarks)


def describe_gaps(scores: Floats | pd.Series, protocol: Protocol) -> str:
    """Say of how many items a metric's score is undefined, and what becomes of them; empty where it is of none.

    Metrics with unlike gaps are measured on unlike captions, which a reader of their table must know.
    """
    n_undefined = int(np.isnan(scores).sum())
    if not n_undefined:
        return ""

    counted = f"undefined for {n_undefined:,} of {len(scores):,} items"
    if protocol.undefined == "drop":
        return f"{counted}, left out of its row"
    if n_undefined == len(scores):
        return ""
    return f"{counted}; protocol.undefined=drop leaves such items out"


def by_item(columns: Mapping[str, Floats], items: pd.DataFrame) -> dict[str, pd.Series]:
    """Index columns of scores by item id; they share one index, which looks items up."""
    index = pd.Index(items["item_id"])
    return {spec: pd.Series(column, index=index) for spec, column in columns.items()}
