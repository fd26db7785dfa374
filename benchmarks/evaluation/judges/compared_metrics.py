"""The metrics of `captau agree metrics=…` beside people: what was measured of each dataset, and the printed tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....datasets.errors import Lack
from ....metrics.base import Metric
from ...runs.progress_bar import StepProgress
from ...runs.tables import AnyCell, ResultTable, Row, is_empty_column, number_cell
from ...scoring.catalog import metric_style
from ...scoring.protocol import Protocol
from ...scoring.score_store import Locations
from ...scoring.unavailable_metrics import record_reasons, warn_unavailable
from ...statistics.alternative_annotator import PASSING_RATE
from ..evaluation_set import EvaluationSet
from ..prepared_datasets import PreparedDataset, PreparedDatasets, prepare_datasets
from ..wording import synthetic_note
from .rater_comparison import PEOPLE, ComparedDimension, ComparedRaters

#: The columns of the printed table: the measure's name in files, and in print.
_COLUMNS = {
    "cohen_kappa": "κ",
    "cohen_kappa_quadratic": "κ, quadratic",
    "krippendorff_alpha_ordinal": "α, ordinal",
    "percent_agreement": "equal",
    "advantage_probability": "ρ",
    "winning_rate": "ω",
}
#: The columns of people's answers of yes and no, whose distances are all one.
_BINARY_COLUMNS = ("cohen_kappa", "krippendorff_alpha_ordinal", "percent_agreement")
_TEST_COLUMNS = ("advantage_probability", "winning_rate")
_PEOPLE_LABEL = "one person against another"


@dataclass(frozen=True)
class ComparedMetrics:
    """Metrics that were compared with people as raters.

    Attributes:
        prepared: the datasets; None where no metric was named.
        dimensions: what was measured.
        epsilon: of the alternative-annotator test.
    """

    prepared: PreparedDatasets | None = None
    dimensions: Sequence[ComparedDimension] = field(default_factory=tuple)
    epsilon: float = math.nan

    @classmethod
    def compare(
        cls,
        datasets: Mapping[str, Protocol],
        metrics: Sequence[Metric],
        locations: Locations,
        progress: StepProgress,
        *,
        epsilon: float,
        seed: int,
    ) -> ComparedMetrics:
        """Score datasets and compare the metrics with their raters.

        Raises:
            InputError: where no dataset has ratings.
        """

        def check(selection: EvaluationSet) -> None:
            if selection.ratings.empty:
                raise selection.lacking(
                    Lack.JUDGEMENTS,
                    "it has no ratings for metrics= to be compared with; captau bench takes preferences",
                )

        prepared_datasets = prepare_datasets(
            datasets, metrics, locations, progress, needs_ratings=False, check=check
        )
        dimensions: list[ComparedDimension] = []
        for prepared in prepared_datasets:
            dimensions += _compare_dataset(prepared, epsilon, seed)
        warn_unavailable([prepared.missing for prepared in prepared_datasets])
        return cls(prepared_datasets, dimensions, epsilon)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that were computed, each once."""
        metrics: dict[Metric, None] = {}
        for prepared in self.prepared or ():
            metrics.update(dict.fromkeys(prepared.metrics))
        return list(metrics)

    def record(self) -> dict[str, Any]:
        """Return what run.json says of the metrics; empty where none was named."""
        if self.prepared is None:
            return {}
        return {
            "epsilon": self.epsilon,
            "missing": {p.name: record_reasons(p.missing) for p in self.prepared},
            "left_out": self.prepared.left_out.record(),
            "marks": {p.name: p.caveats for p in self.prepared},
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `metric_raters.csv`."""
        rows: list[dict[str, Any]] = []
        for dimension in self.dimensions:
            rows += dimension.rows()
        return rows

    def tables(self) -> list[ResultTable]:
        """Return a table a dimension of a dataset."""
        labels = {metric.spec: metric_style(metric).label for metric in self.metrics}
        labels[PEOPLE] = _PEOPLE_LABEL
        return [_comparison_table(d, labels) for d in self.dimensions]


def _compare_dataset(
    prepared: PreparedDataset, epsilon: float, seed: int
) -> list[ComparedDimension]:
    """Compare the metrics of a dataset with its raters, dimension by dimension."""
    selection = prepared.selection
    card = selection.caption_set.card
    scores_by_metric = prepared.scores()
    clusters = selection.clusters.loc[selection.items["item_id"]]

    dimensions: list[ComparedDimension] = []
    sources = selection.dimension_sources(selection.protocol.dimension)
    for dimension in dict.fromkeys(sources.values()):
        raters = ComparedRaters.select(
            selection.ratings,
            clusters,
            prepared.name,
            dimension,
            scale=card.scales[dimension],
            is_fault=dimension in card.faults,
            is_anonymous=card.anonymous_raters,
            epsilon=epsilon,
            seed=seed,
        )
        measures = {m: raters.compare_metric(s) for m, s in scores_by_metric.items()}
        if people := raters.compare_people():
            measures[PEOPLE] = people
        notes = (synthetic_note("metrics"),) if card.synthetic else ()
        dimensions.append(ComparedDimension(raters, measures, notes))
    return dimensions


def _comparison_table(dimension: ComparedDimension, labels: Mapping[str, str]) -> ResultTable:
    """Return the table of a dimension: the metric with the largest κ first, people last."""
    raters = dimension.raters
    is_binary = raters.levels is not None and len(raters.levels) == 2
    measures = [*_BINARY_COLUMNS, *_TEST_COLUMNS] if is_binary else list(_COLUMNS)
    headline = "cohen_kappa" if is_binary else "cohen_kappa_quadratic"

    def place(metric: str) -> tuple[bool, float]:
        value = dimension.find(metric, headline).value
        return metric == PEOPLE, math.inf if math.isnan(value) else -value

    rows: list[Row] = []
    for metric in sorted(dimension.measures, key=place):
        cells: list[AnyCell] = []
        for name in measures:
            measure = dimension.find(metric, name)
            cells.append(number_cell(measure.value, 100, 1))
            if name != "winning_rate":
                cells.append(number_cell((measure.ci_high - measure.ci_low) / 2, 100, 1))
        rows.append(Row(labels[metric], cells, spec=metric))

    heads: list[str] = []
    for name in measures:
        heads += [_COLUMNS[name]] if name == "winning_rate" else [_COLUMNS[name], "±"]

    notes = [
        "All ×100. κ: Cohen's, of the metric's answer and each rating. α: Krippendorff's, with the metric as one more rater of each "
        "caption. equal: the share of a caption's ratings that the metric's answer equals. ±: half the width of the 95 % interval "
        "by images; both ends in metric_raters.csv.",
        *_test_notes(dimension),
        *dimension.notes,
        *_metric_notes(dimension, labels),
    ]
    table = ResultTable(
        f"{raters.dataset}, {raters.dimension}: metrics as raters",
        "metric",
        heads,
        rows,
        notes=notes,
        verdict=_verdict(dimension, labels),
    )
    empty = [n for n in range(len(heads)) if is_empty_column(rows, n)]
    return table.without_columns(empty)


def _test_notes(dimension: ComparedDimension) -> list[str]:
    """Explain ρ and ω, where some metric has them."""
    epsilon = dimension.raters.epsilon
    metrics = [m for m in dimension.measures if m != PEOPLE]
    notes: list[str] = []
    if any(not math.isnan(dimension.find(m, "advantage_probability").value) for m in metrics):
        notes.append(
            "ρ: the advantage probability, how often the metric's answer is as near to the other raters' as the answer of "
            "the rater who is left out, or nearer (Calderon et al. 2025)."
        )
    if any(not math.isnan(dimension.find(m, "winning_rate").value) for m in metrics):
        notes.append(
            f"ω: the share of raters who are not nearer more often than the metric by ε = {epsilon:g} or more, by a t test each "
            f"(Benjamini and Yekutieli at 5 %); a metric passes the alternative-annotator test from {100 * PASSING_RATE:g} on."
        )
    return notes


def _metric_notes(dimension: ComparedDimension, labels: Mapping[str, str]) -> list[str]:
    """Return what there is to say of single measures, each sentence once with its metrics."""
    # By note: the columns that it is of, and the metrics.
    columns_of: dict[str, dict[str, None]] = {}
    metrics_of: dict[str, dict[str, None]] = {}
    for metric in dimension.measures:
        if metric == PEOPLE:
            continue
        for name in ("cohen_kappa", *_TEST_COLUMNS):
            measure = dimension.find(metric, name)
            # What a winning rate's note says, the table and the notes above say.
            if not measure.note or (name == "winning_rate" and not math.isnan(measure.value)):
                continue
            columns_of.setdefault(measure.note, {})[_COLUMNS[name]] = None
            metrics_of.setdefault(measure.note, {})[labels[metric]] = None

    n_metrics = sum(metric != PEOPLE for metric in dimension.measures)
    notes: list[str] = []
    for note, columns in columns_of.items():
        metrics = metrics_of[note]
        subject = "" if len(metrics) == n_metrics else f"{', '.join(metrics)}, "
        notes.append(f"{subject}{', '.join(columns)}: {note}.")
    return notes


def _verdict(dimension: ComparedDimension, labels: Mapping[str, str]) -> str:
    """Say which metrics pass the alternative-annotator test, where it was made."""
    passing: list[str] = []
    n_tested = 0
    for metric in dimension.measures:
        rate = dimension.find(metric, "winning_rate").value
        if math.isnan(rate):
            continue
        n_tested += 1
        if rate >= PASSING_RATE:
            passing.append(labels[metric])

    if not n_tested:
        return ""
    if not passing:
        return "No metric passes the alternative-annotator test."
    verb = "passes" if len(passing) == 1 else "pass"
    return f"{', '.join(passing)} {verb} the alternative-annotator test."
