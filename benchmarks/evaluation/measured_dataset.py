"""A dataset with metrics' scores, and how far these agree with what people said.

    selection = EvaluationSet.select(caption_set, protocol)
    scored = score_dataset(selection, metrics, store, progress)
    measured = correlate_dataset(scored, progress, statistics=StatisticsOptions())

`captau bench`, `compare`, `train`, `reproduce` and `check` and the evaluation of submitted metrics call these, or
`measure`, which does all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError, Lack
from ...datasets.schema import CaptionSet
from ...metrics.base import Floats, Metric
from ..runs.progress_bar import StepProgress
from ..runs.results import (
    SCORE_COLUMNS,
    make_correlations,
    make_significance,
)
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from ..statistics.bootstrap import Interval, StatisticsOptions, count_steps
from ..statistics.coefficients.coefficient import find_coefficient, list_coefficients
from ..statistics.intervals import (
    RowKey,
    Uncertainty,
    fisher_intervals,
    measure_uncertainty,
    wilson_intervals,
)
from ..statistics.panels import Panel, RatingPanel, make_rating_panel
from .correlation_rows import (
    Ceilings,
    Row,
    build_word_panels,
    ceiling_rows,
    disattenuated_rows,
    metric_rows,
    pair_ceiling_rows,
    pair_floor_rows,
    word_rows,
)
from .evaluation_set import EvaluationSet
from .headline import find_headline
from .judged_pairs import FLOOR_NOTES, floor_scores
from .pair_tests import PairTests
from .scored_dataset import ScoredDataset, score_dataset
from .wording import join_notes

#: Point estimates alone, without intervals or ranks.
NO_INTERVALS = StatisticsOptions(interval="none")


@dataclass(frozen=True)
class MeasuredDataset:
    """Scores of a dataset's items, and their agreement with people.

    Attributes:
        scored: the items and their scores.
        correlations: columns `CORRELATION_COLUMNS`: metrics, floors and what people reach.
        statistics: the kind of intervals and ranks.
        differences: columns `SIGNIFICANCE_COLUMNS`, of every two metrics; None without resampling.
        ranks: by metric, dimension and coefficient; metrics of equal rank do not differ significantly.
        disattenuated: columns `DISATTENUATED_COLUMNS`; empty where nobody asked.
        ceiling_remark: the reason why there is nothing that people reach; empty where none is to be given.
    """

    scored: ScoredDataset
    correlations: pd.DataFrame
    statistics: StatisticsOptions
    differences: pd.DataFrame | None
    ranks: Mapping[RowKey, int]
    disattenuated: pd.DataFrame
    ceiling_remark: str

    @property
    def selection(self) -> EvaluationSet:
        """The items, and what people said of them."""
        return self.scored.selection

    @property
    def caption_set(self) -> CaptionSet:
        """The dataset."""
        return self.selection.caption_set

    @property
    def protocol(self) -> Protocol:
        """The protocol, as it applies to the dataset."""
        return self.selection.protocol

    @property
    def printed_correlations(self) -> pd.DataFrame:
        """The correlations that tables print: those of the protocol's coefficients."""
        is_printed = self.correlations["coefficient"].isin(self.protocol.coefficients)
        return self.correlations[is_printed]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The dimensions and coefficients of the correlations.

        Those of the protocol on ratings are there even where no metric could be computed.
        """
        measured = zip(
            self.correlations["dimension"], self.correlations["coefficient"], strict=True
        )
        of_ratings = product(self.protocol.dimension, self.selection.measured_coefficients)
        return list(dict.fromkeys([*measured, *of_ratings]))

    @property
    def headline(self) -> tuple[str, str]:
        """The dimension and coefficient that stand for the dataset."""
        quoted = self.caption_set.card.headline
        return find_headline(self.columns, self.protocol.coefficients, quoted)

    def headline_value(self, metric: str) -> float | None:
        """Return a metric's headline coefficient; None where it was not measured."""
        dimension, coefficient = self.headline
        frame = self.correlations
        is_headline = (frame["dimension"] == dimension) & (frame["coefficient"] == coefficient)
        values = frame.loc[is_headline & (frame["metric"] == metric), "value"]
        return float(values.iloc[0]) if len(values) else None

    @property
    def n_systems(self) -> int | None:
        """The number of systems, where these are what is correlated; None where captions are."""
        if self.protocol.level != "system":
            return None
        return self.selection.items["system"].nunique()

    def find_pair_tests(self, dimension: str, coefficient: str) -> PairTests:
        """Return the tests of every two metrics in a dimension and coefficient, on which the ranks there rest."""
        if self.differences is None:
            return PairTests()
        return PairTests.of_significance(
            self.differences,
            (dimension, coefficient),
            self.statistics,
            self.n_systems,
        )

    @property
    def items(self) -> pd.DataFrame:
        """The items, in the order of the scores."""
        return self.selection.items

    @property
    def by_metric(self) -> Mapping[str, pd.Series]:
        """Scores by metric and item id."""
        return self.scored.by_metric


def measure(
    caption_set: CaptionSet,
    protocol: Protocol,
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: StepProgress,
) -> MeasuredDataset:
    """Select a dataset's items, score them, and correlate, without intervals, floors and what people reach.

    Raises:
        InputError: see `EvaluationSet.select`, `score_dataset` and `correlate_dataset`.
    """
    selection = EvaluationSet.select(caption_set, protocol)
    return correlate_dataset(score_dataset(selection, metrics, store, progress), progress)


def correlate_dataset(
    scored: ScoredDataset,
    progress: StepProgress,
    *,
    ceilings: bool = False,
    floors: bool = False,
    pair_floors: bool = False,
    compares: bool = True,
    statistics: StatisticsOptions = NO_INTERVALS,
    tests: Sequence[str] = (),
) -> MeasuredDataset:
    """Correlate scores with what people said, with intervals, rank clusters and tests of differences.

    Args:
        scored: the scores.
        progress: advanced by each block of replicates and pair of metrics.
        ceilings: whether to add rows of `rating_table.CEILINGS`.
        floors: whether to add rows of `judged_pairs.FLOORS`.
        pair_floors: whether to add rows of `judged_pairs.PAIR_FLOORS` to coefficients of preferences.
        compares: whether every two metrics are compared, for rank clusters and tests.
        statistics: the kind of intervals and ranks.
        tests: of differences, beside the bootstrap, on which rank clusters rest.

    Raises:
        InputError: where there is nothing to correlate with, the level has no such interval, or
            there are tests and fewer than two images or metrics.
    """
    # What draws at random takes the items in an order of their contents; the results keep that of the dataset.
    ordered = scored.in_order()
    selection = ordered.selection
    selection.require_coefficients()

    by_floor = floor_scores(selection.items) if floors else {}
    by_pair_floor = _pair_floors(selection, by_floor) if floors or pair_floors else {}
    word_panels = build_word_panels(selection, ordered.blame) if selection.has_words else []
    rows = _score_rows(ordered, by_floor, by_pair_floor, word_panels)
    people_ceilings = Ceilings([], {})
    if ceilings:
        people_ceilings = ceiling_rows(selection)
        rows += people_ceilings.rows + pair_ceiling_rows(selection)

    panels: list[Panel] = []
    if statistics.uses_resampling or statistics.disattenuate:
        panels = build_panels(selection, {**ordered.oriented, **by_floor}, by_pair_floor)
    uncertainty = _measure_uncertainty(
        ordered,
        rows=rows,
        panels=panels,
        word_panels=word_panels,
        ceilings=people_ceilings,
        statistics=statistics,
        tests=tests,
        progress=progress,
        compares=compares,
    )
    return _put_together(
        scored=scored,
        ordered=ordered,
        rows=rows,
        panels=panels,
        uncertainty=uncertainty,
        ceiling_remark=people_ceilings.remark,
    )


def _put_together(
    scored: ScoredDataset,
    ordered: ScoredDataset,
    rows: Sequence[Row],
    panels: Sequence[Panel],
    uncertainty: Uncertainty,
    ceiling_remark: str,
) -> MeasuredDataset:
    """Return the measured dataset.

    Args:
        scored, ordered: the scores, in the order of the dataset and in that of their contents.
        rows: the correlations, without intervals.
        panels: the data points, where anything is resampled or corrected.
        uncertainty: their intervals and differences.
        ceiling_remark: see `MeasuredDataset`.
    """
    statistics = uncertainty.options
    values: dict[tuple[str, str, str], float] = {}
    for row in rows:
        # Floors and what people reach are not ranked.
        if row["metric"] in ordered.oriented:
            values[row_key(row)] = row["value"]
    corrected_panels = panels if statistics.disattenuate else []

    return MeasuredDataset(
        scored=scored,
        correlations=make_correlations(_with_intervals(rows, uncertainty.intervals, statistics)),
        statistics=statistics,
        differences=_make_differences(ordered.selection, uncertainty, statistics),
        ranks=uncertainty.compute_ranks(values),
        disattenuated=disattenuated_rows(ordered.selection, corrected_panels, statistics),
        ceiling_remark=ceiling_remark,
    )


def _make_differences(
    selection: EvaluationSet, uncertainty: Uncertainty, statistics: StatisticsOptions
) -> pd.DataFrame | None:
    """Return the rows of `significance.csv`; None without resampling."""
    if not statistics.uses_resampling:
        return None

    return make_significance(
        selection.name, selection.protocol.name, uncertainty.differences, statistics.replicates
    )


def _score_rows(
    scored: ScoredDataset,
    by_floor: Mapping[str, pd.Series],
    by_pair_floor: Mapping[str, Floats],
    word_panels: Sequence[RatingPanel],
) -> list[Row]:
    """Return the rows of metrics, floors, metrics that blame words, and floors of preferences."""
    selection = scored.selection
    notes = dict(scored.caveats)
    for name in by_floor:
        notes[name] = FLOOR_NOTES[name]

    rows: list[Row] = []
    for name, scores in {**scored.oriented, **by_floor}.items():
        rows += metric_rows(selection, name, scores, notes.get(name, ""))

    rows += word_rows(selection, word_panels, notes)

    for name, pair_differences in by_pair_floor.items():
        rows += pair_floor_rows(selection, name, pair_differences, FLOOR_NOTES[name])

    return rows


def _pair_floors(selection: EvaluationSet, by_floor: Mapping[str, pd.Series]) -> dict[str, Floats]:
    """Return the floors of preferences that are no floors of captions, as differences of pairs."""
    pairs = selection.judged_pairs
    if not selection.uses_preferences or pairs.frame.empty:
        return {}

    # A floor of captions has its accuracy among the rows of its scores.
    floors = dict(pairs.floors(selection.items))
    for name in by_floor:
        floors.pop(name, None)
    # Where the order of a pair says whose captions they are, the first place is no floor.
    if selection.order_is_source:
        floors.pop("floor_position", None)
    return floors


def _with_intervals(
    rows: Sequence[Row], intervals: Mapping[RowKey, Interval], statistics: StatisticsOptions
) -> list[Row]:
    """Add its interval to each row; accuracies that have none get Wilson's."""
    if statistics.interval == "none":
        return list(rows)

    bare_rows: list[Row] = []
    for row in rows:
        interval = intervals.get(row_key(row))
        if interval is None or np.isnan(interval.low):
            bare_rows.append(row)

    interval_by_key = dict(intervals)
    for key, wilson in wilson_intervals(bare_rows, statistics.level).items():
        # A resampled interval that has no ends says why; Wilson's keeps what it says.
        remarks = intervals.get(key, Interval()).remarks
        interval_by_key[key] = replace(wilson, remarks=(*remarks, *wilson.remarks))

    return [_with_interval(row, interval_by_key.get(row_key(row))) for row in rows]


def _with_interval(row: Row, interval: Interval | None) -> Row:
    if interval is None or np.isnan(row["value"]):
        return row
    note = join_notes(row["note"], interval.note)
    return {**row, "ci_low": interval.low, "ci_high": interval.high, "note": note}


def row_key(row: Mapping[str, Any]) -> RowKey:
    """Return the metric, dimension and coefficient of a row of correlations."""
    return row["metric"], row["dimension"], row["coefficient"]


def join_scores(measured: Sequence[MeasuredDataset]) -> pd.DataFrame:
    """Join the datasets' scores in long form, columns `SCORE_COLUMNS`; empty without any."""
    if not measured:
        return pd.DataFrame(columns=pd.Index(SCORE_COLUMNS))
    return pd.concat([m.scored.frame for m in measured], ignore_index=True)


def join_correlations(measured: Sequence[MeasuredDataset]) -> pd.DataFrame:
    """Return the rows of `correlations.csv` of several datasets."""
    if not measured:
        return make_correlations([])
    return pd.concat([m.correlations for m in measured], ignore_index=True)


def build_panels(
    selection: EvaluationSet,
    scores: Mapping[str, pd.Series],
    pair_differences: Mapping[str, Floats] | None = None,
) -> list[Panel]:
    """Join scores to each rated dimension's data points, and to the preferences.

    Args:
        selection: the items.
        scores: by metric and item id, more is better.
        pair_differences: further rows of the preferences, see `JudgedPairs.floors`.
    """
    protocol = selection.protocol
    columns = {m: series.to_numpy(dtype=np.float64) for m, series in scores.items()}
    coefficients = selection.rating_coefficients

    panels: list[Panel] = []
    # Without a coefficient of ratings there is nothing to join them for.
    rated_dimensions = protocol.dimension if coefficients else ()
    for dimension in rated_dimensions:
        panel = make_rating_panel(
            items=selection.items,
            points=selection.points(dimension),
            scores=columns,
            dimension=dimension,
            coefficients=coefficients,
            drop=protocol.undefined == "drop",
            level=protocol.level,
        )
        panels.append(panel)

    return panels + _pair_panels(selection, scores, pair_differences or {})


def _pair_panels(
    selection: EvaluationSet,
    scores: Mapping[str, pd.Series],
    pair_differences: Mapping[str, Floats],
) -> list[Panel]:
    """Join scores to preferences: the panel of accuracies, and one of each graded dimension's other coefficients."""
    drop = selection.protocol.undefined == "drop"
    panels: list[Panel] = []

    pairs = selection.judged_pairs
    if selection.uses_preferences and len(pairs.frame):
        differences = {metric: pairs.differences(series) for metric, series in scores.items()}
        differences |= pair_differences
        panel = pairs.outcome_panel(differences, selection.pair_ceilings, drop=drop)
        panels.append(replace(panel, coefficients=selection.preference_coefficients))

    if coefficients := selection.graded_coefficients:
        answers = selection.all_pairs
        differences = {metric: answers.differences(series) for metric, series in scores.items()}
        for dimension in answers.graded_dimensions:
            panel = answers.graded_panel(differences, dimension, coefficients, drop=drop)
            panels.append(panel)

    return panels


def _measure_uncertainty(
    scored: ScoredDataset,
    rows: Sequence[Row],
    panels: Sequence[Panel],
    word_panels: Sequence[Panel],
    ceilings: Ceilings,
    statistics: StatisticsOptions,
    tests: Sequence[str],
    progress: StepProgress,
    *,
    compares: bool,
) -> Uncertainty:
    """Return intervals by formula, or intervals and differences by resampling.

    Raises:
        InputError: see `correlate_dataset`.
    """
    selection = scored.selection
    metrics = [m.spec for m in scored.metrics]
    if statistics.interval == "fisher":
        # The formula is of a coefficient of independent points, not of a mean over groups.
        if selection.protocol.level != "pooled":
            raise InputError(
                f"statistics.interval=fisher needs protocol.level=pooled; with "
                f"protocol.level={selection.protocol.level} set statistics.interval to expanded, percentile or bca"
            )
        return Uncertainty(statistics, fisher_intervals(rows, statistics.level), ())

    if not statistics.uses_resampling:
        return Uncertainty(statistics, {}, ())

    if tests:
        _check_comparable(selection, metrics, panels, tests)

    # The bar counts all steps beforehand: those of replicates, and one for each pair of metrics.
    competing = metrics if compares else []
    all_panels = [*_with_unranked(selection, panels), *word_panels]
    n_competing = [len(set(competing) & set(panel.metrics)) for panel in all_panels]
    steps = sum(count_steps(statistics.replicates, n) for n in n_competing)
    progress.add_steps(steps, f"{selection.name}: replicates")
    return measure_uncertainty(
        all_panels,
        competing,
        statistics,
        tests=tuple(dict.fromkeys(("bootstrap", *tests))),
        extras=ceilings.draws,
        advance=progress.advance,
    )


def _with_unranked(selection: EvaluationSet, panels: Sequence[Panel]) -> list[Panel]:
    """Add to the panels of ratings the coefficients that every paper quotes, beside the protocol's.

    These get intervals, but neither ranks nor tests.
    """
    # In the order of the protocol: that of a set would change from run to run.
    ranked = selection.rating_coefficients
    unranked = tuple(name for name in selection.measured_coefficients if name not in ranked)

    with_unranked: list[Panel] = []
    for panel in panels:
        is_of_ratings = isinstance(panel, RatingPanel)
        with_unranked.append(replace(panel, unranked=unranked) if is_of_ratings else panel)
    return with_unranked


def _check_comparable(
    selection: EvaluationSet, metrics: Sequence[str], panels: Sequence[Panel], tests: Sequence[str]
) -> None:
    """Check that the tests can compare the metrics.

    Raises:
        LackingError: where there is nothing to compare, too little, or no test for it.
    """
    if not panels:
        raise selection.lacking(
            Lack.JUDGEMENTS,
            "protocol.coefficients names only accuracy, and the dataset has no preferences; add a coefficient of "
            "ratings, such as tau_c",
        )

    fewest = min(panel.n_images for panel in panels)
    if fewest < 2:
        message = f"too few images with judgements ({fewest}); a comparison needs two"
        raise selection.lacking(Lack.TESTS, message)

    coefficients = set[str]()
    for panel in panels:
        is_of_ratings = isinstance(panel, RatingPanel)
        coefficients.update(
            selection.rating_coefficients if is_of_ratings else selection.preference_coefficients
        )

    possible_tests = set[str]()
    for coefficient in coefficients:
        possible_tests.update(find_coefficient(coefficient).tests)

    if possible_tests.isdisjoint(tests):
        tested: list[str] = []
        for test in tests:
            names = [c.name for c in list_coefficients() if test in c.tests]
            tested.append(",".join(names))
        raise selection.lacking(
            Lack.TESTS,
            f"tests={','.join(tests)} compare {' and '.join(tested)}, and the run has "
            f"{','.join(sorted(coefficients))}; name another test, or another of protocol.coefficients",
        )

    if len(metrics) < 2:
        message = f"only {','.join(metrics)} can be computed here; a comparison needs two metrics"
        raise selection.lacking(Lack.METRICS, message)
