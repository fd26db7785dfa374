"""`captau bench` and `captau compare`: score datasets with metrics and correlate with people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...datasets import registry
from ...datasets.preferences import PREFERENCE_COLUMNS
from ...datasets.schema import ITEM_COLUMNS, RATING_COLUMNS
from ...metrics.base import Metric, Unavailability
from ..evaluation.correlation_rows import blamed_words
from ..evaluation.correlation_tables import correlation_table
from ..evaluation.difference_tables import (
    difference_tables,
    disattenuated_tables,
    significance_frames,
)
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.judged_pairs import FLOORS
from ..evaluation.like_length import LikeLength, measure_like_length
from ..evaluation.measured_dataset import MeasuredDataset, correlate_dataset, join_scores
from ..evaluation.prepared_datasets import LeftOutDatasets, provenance
from ..evaluation.scored_dataset import score_dataset
from ..options.bench import BenchOptions, CompareOptions
from ..options.python_function import make_function
from ..reporting.run_results import Results
from ..runs.frames import make_frame
from ..runs.interim_results import InterimResults
from ..runs.progress_bar import StepProgress
from ..runs.results import BLAME_COLUMNS, RANK_COLUMNS, RunClock, tables_as_csv
from ..runs.tables import ResultTable
from ..scoring.catalog import metric_labels, metric_style, record_styles
from ..scoring.protocol import Protocol, record_protocols
from ..scoring.score_store import ScoreStore
from ..scoring.unavailable_metrics import (
    UnavailableMetrics,
    add_unavailable_rows,
    find_unavailable,
    make_unavailable_rows,
    record_reasons,
    warn_unavailable,
)
from ..statistics.rating_table import CEILINGS

if TYPE_CHECKING:
    from ..evaluation.overview import DatasetsOverview


@dataclass(frozen=True)
class _BenchedDataset:
    """A measured dataset, the metrics that cannot be computed on it, its tables, and its pairs of like length."""

    measured: MeasuredDataset
    missing: UnavailableMetrics
    tables: Sequence[ResultTable]
    like_length: LikeLength | None

    @property
    def correlations(self) -> pd.DataFrame:
        """The correlations, and a row for each that a missing metric would have."""
        m = self.measured
        columns = m.columns
        rows = make_unavailable_rows(m.caption_set.name, m.protocol.name, columns, self.missing)
        return pd.concat([m.correlations, rows])


def run(options: BenchOptions, write: Callable[[Results], None] | None = None) -> Results:
    """Run `captau bench`, or `captau compare` where there are tests.

    Args:
        options: the options.
        write: takes the results of the datasets that are done, before the last one is; see `InterimResults`.

    Raises:
        InputError: on missing or malformed data, or metrics that cannot be computed on any dataset.
    """
    clock = RunClock()
    store = options.locations.store()
    benched: list[_BenchedDataset] = []
    left_out = LeftOutDatasets()
    n_steps = len(options.datasets) * len(options.metrics)
    with InterimResults(write) as interim, StepProgress(n_steps) as progress:
        for number, name in enumerate(options.datasets, start=1):
            with left_out.leave_out(name):
                benched.append(_bench_dataset(options, name, store, progress))
            # What was not computed counts as done.
            uncomputed = options.metrics if name in left_out else benched[-1].missing
            for _ in uncomputed:
                progress.advance()
            if benched and number < len(options.datasets):
                # Of the datasets that are done now, whenever they are joined.
                done = list(benched)
                lacking = LeftOutDatasets(left_out)
                join = partial(_join, options, done, lacking, store=store, clock=clock)
                interim.offer(join, store.misses)

        has_overview = len(options.datasets) > 1 and not options.tests
        left_out.check(len(options.datasets), is_logged=not has_overview)
        measured_rows = pd.concat([part.measured.correlations["metric"] for part in benched])
        # Floors are no rows of an overview, in which nothing would be left.
        no_metrics = [*CEILINGS, *FLOORS] if has_overview else [*CEILINGS]
        if measured_rows.isin(no_metrics).all():
            # This raises, since no dataset has a metric.
            find_unavailable(options.metrics, benched[0].measured.items, is_one_of_several=True)
        overview = _survey(options, benched, left_out, progress) if has_overview else None

    # The notes of an overview have the reasons.
    if not has_overview:
        warn_unavailable([part.missing for part in benched])
    return _join(options, benched, left_out, store=store, clock=clock, overview=overview)


def _survey(
    options: BenchOptions,
    benched: Sequence[_BenchedDataset],
    left_out: LeftOutDatasets,
    progress: StepProgress,
) -> DatasetsOverview:
    """Return the overview of all datasets, those among them that lack what was asked."""
    # Most runs are of one dataset.
    from ..evaluation.overview import DatasetsOverview, OverviewColumn, compute_joint_mean

    specs = [metric.spec for metric in options.metrics]
    measured = [part.measured for part in benched]
    measured_columns: list[OverviewColumn] = []
    for part in benched:
        reasons = {metric.spec: reason for metric, reason in part.missing.items()}
        measured_columns.append(OverviewColumn.of_dataset(part.measured, reasons))

    # Benched datasets stand in the order of the options, under names of their own: `file.name=` gives one.
    remaining = iter(measured_columns)
    columns: list[OverviewColumn] = []
    for name, protocol in options.datasets.items():
        if name not in left_out:
            columns.append(next(remaining))
            continue

        title = registry.card(name).title if name in registry.names() else name
        reasons = dict.fromkeys(specs, Unavailability(left_out[name].problem))
        columns.append(
            OverviewColumn(
                name, title, dimension="", coefficient=protocol.coefficients[0], reasons=reasons
            )
        )

    joint = compute_joint_mean(
        measured,
        measured_columns,
        metrics=specs,
        options=options.statistics,
        progress=progress,
    )
    return DatasetsOverview(
        columns=columns,
        joint=joint,
        styles={metric.spec: metric_style(metric) for metric in options.metrics},
        statistics=options.statistics,
        absent=options.configuration.get("absent", ()),
    )


def _bench_dataset(
    options: BenchOptions, name: str, store: ScoreStore, progress: StepProgress
) -> _BenchedDataset:
    """Score one dataset and correlate.

    Raises:
        LackingError: where it lacks what is asked of it.
    """
    selection = EvaluationSet.select(options.locations.load(name), options.datasets[name])
    selection.require_coefficients()

    # Of preferences alone the floors stand without any metric, but there is nothing to compare.
    has_floors = not selection.protocol.dimension and len(selection.preferences) > 0
    is_several = len(options.datasets) > 1
    needs_one = bool(options.tests) or not (has_floors or is_several)
    missing = find_unavailable(
        options.metrics, selection.items, needs_one=needs_one, is_one_of_several=is_several
    )
    metrics = [m for m in options.metrics if m not in missing]
    if options.tests and len(metrics) < 2:
        # The error below names the one that is left, and not the reason of the others.
        warn_unavailable([missing])

    measured = correlate_dataset(
        score_dataset(selection, metrics, store, progress),
        progress,
        ceilings=options.ceilings,
        floors=options.floors,
        pair_floors=True,
        statistics=options.statistics,
        tests=options.tests,
    )
    like_length: LikeLength | None = None
    if not options.tests:
        labels = metric_labels(options.metrics)
        like_length = measure_like_length(measured, labels, options.statistics)
    tables = _tables(measured, missing, options)
    return _BenchedDataset(measured, missing, tables, like_length)


def _join(
    options: BenchOptions,
    benched: Sequence[_BenchedDataset],
    left_out: LeftOutDatasets,
    store: ScoreStore,
    clock: RunClock,
    overview: DatasetsOverview | None = None,
) -> Results:
    """Return the results of the datasets that are done; run.json names the others as unfinished."""
    specs = [m.spec for m in options.metrics]
    measured = [part.measured for part in benched]
    unfinished = list(options.datasets)[len(measured) + len(left_out) :]
    # As `RANK_COLUMNS`: the metric behind what it is ranked by.
    ranks: list[tuple[str, str, str, str, int]] = []
    for m in measured:
        for (metric, dimension, coefficient), rank in m.ranks.items():
            ranks.append((m.caption_set.name, dimension, coefficient, metric, rank))

    frames = {
        "correlations.csv": pd.concat([part.correlations for part in benched], ignore_index=True),
        "scores.parquet": join_scores(measured),
        **_judgements(measured),
        "ranks.csv": make_frame(ranks, RANK_COLUMNS),
    }
    if options.tests:
        significance, matrix = significance_frames(measured, specs, options.tests)
        frames |= {"significance.csv": significance, "matrix.csv": matrix}
    if options.statistics.disattenuate:
        disattenuated = pd.concat([m.disattenuated for m in measured], ignore_index=True)
        frames["disattenuated.csv"] = disattenuated
    if (words := _words(measured)) is not None:
        frames["words.parquet"] = words

    tables: list[ResultTable] = []
    for part in benched:
        tables += part.tables
    length_rows: list[pd.DataFrame] = []
    for part in benched:
        if part.like_length is not None:
            length_rows.append(part.like_length.rows)
            tables.append(part.like_length.table)
    if length_rows:
        frames["length.csv"] = pd.concat(length_rows, ignore_index=True)
    if overview is not None:
        frames["overview.csv"] = overview.frame()
        details = [replace(table, is_detail=True) for table in tables]
        tables = [overview.table(), *details]

    record = _record(options, benched, left_out, store) | clock.record()
    if unfinished:
        record["unfinished"] = unfinished
    return Results(
        frames,
        record,
        tables=tables,
        other_files=tables_as_csv(tables),
        objective=_find_objective(options, measured, overview),
    )


def _find_objective(
    options: BenchOptions,
    measured: Sequence[MeasuredDataset],
    overview: DatasetsOverview | None,
) -> float | None:
    """Return the headline of the first metric: its mean over the datasets, or its coefficient on the only one."""
    metric = options.metrics[0].spec
    if overview is not None:
        return overview.joint.values.get(metric)
    return measured[0].headline_value(metric) if len(measured) == 1 else None


def _record(
    options: BenchOptions,
    benched: Sequence[_BenchedDataset],
    left_out: LeftOutDatasets,
    store: ScoreStore,
) -> dict[str, Any]:
    """Return what `run.json` says of the run, but for its time."""
    computed: list[Metric] = []
    for metric in options.metrics:
        n_missing = sum(metric in part.missing for part in benched)
        # A metric that one dataset had is part of the run.
        if n_missing < len(benched):
            computed.append(metric)

    protocols: dict[str, Protocol] = {}
    n_images: dict[str, int] = {}
    missing: dict[str, Any] = {}
    for part in benched:
        name = part.measured.caption_set.name
        protocols[name] = part.measured.protocol
        n_images[name] = part.measured.selection.n_images
        missing[name] = record_reasons(part.missing)

    caption_sets = [part.measured.caption_set for part in benched]
    return {
        "command": "compare" if options.tests else "bench",
        "config": dict(options.configuration),
        "protocols": record_protocols(protocols),
        "n_images": n_images,
        **provenance(computed, caption_sets, options.locations, list(protocols.values())),
        "metrics": record_styles(options.metrics),
        "floors": FLOORS,
        "ceilings": CEILINGS,
        "missing": missing,
        "left_out": left_out.record(),
        "scores_computed": store.misses,
        "scores_read_back": store.hits,
    }


def _tables(
    measured: MeasuredDataset, missing: UnavailableMetrics, options: BenchOptions
) -> list[ResultTable]:
    """Return the correlations, with a row for each missing metric, and the tables that were asked for."""
    # The overview has the reasons.
    if measured.correlations.empty:
        return []

    metrics = measured.scored.metrics
    labels = metric_labels(options.metrics)
    correlations = correlation_table(measured, metrics, has_differences=bool(options.tests))
    return [
        add_unavailable_rows(correlations, metrics, measured.scored.remarks, missing),
        *difference_tables(measured, options.tests, labels),
        *disattenuated_tables(measured, labels),
    ]


def _judgements(measured: Sequence[MeasuredDataset]) -> dict[str, pd.DataFrame]:
    """Return what people said of the measured items, in the items' order, by file name."""
    columns_by_file = {
        "items.parquet": ITEM_COLUMNS,
        "ratings.parquet": RATING_COLUMNS,
        "preferences.parquet": (*PREFERENCE_COLUMNS, "winner"),
    }
    parts: dict[str, list[pd.DataFrame]] = {}
    for m in measured:
        frames = (m.items, m.selection.ratings, m.selection.preferences)
        for (file, columns), frame in zip(columns_by_file.items(), frames, strict=True):
            of_dataset = frame[list(columns)].assign(dataset=m.caption_set.name)
            parts.setdefault(file, []).append(of_dataset)

    joined: dict[str, pd.DataFrame] = {}
    for file, columns in columns_by_file.items():
        joined[file] = pd.concat(parts[file], ignore_index=True)[["dataset", *columns]]
    return joined


def _words(measured: Sequence[MeasuredDataset]) -> pd.DataFrame | None:
    """Return the words of the measured items that people mark and metrics blame; None where neither does."""
    parts: list[pd.DataFrame] = []
    for m in measured:
        parts += blamed_words(m.selection, m.scored.blame)
    if not parts:
        return None
    return pd.concat(parts, ignore_index=True)[list(BLAME_COLUMNS)]


bench = make_function(
    "bench",
    BenchOptions,
    run,
    summary="Score datasets with metrics and correlate with people's ratings",
    returns="`Results`, whose `correlations` and `scores` are DataFrames.",
)
compare = make_function(
    "compare",
    CompareOptions,
    run,
    summary="Test which metrics differ in their agreement with people",
    returns="`Results`, whose `significance` holds a DataFrame with one row per pair of metrics, coefficient and test, "
    "and the matrix of corrected p-values.",
    raises="as in `captau.bench`, or if fewer than two metrics are named.",
)
