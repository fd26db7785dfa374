"""`captau bench` and `captau compare`: score datasets with metrics and correlate with people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.preferences import PREFERENCE_COLUMNS
from ...datasets.schema import ITEM_COLUMNS, RATING_COLUMNS, CaptionSet
from ...metrics.base import Metric
from ..evaluation.correlation_rows import blamed_words
from ..evaluation.correlation_tables import (
    correlation_table,
    difference_tables,
    disattenuated_tables,
    significance_frames,
)
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.judged_pairs import FLOORS
from ..evaluation.measured_dataset import MeasuredDataset, correlate_dataset, score_dataset
from ..evaluation.study import provenance
from ..options.bench import BenchOptions, CompareOptions
from ..options.shared import measuring_arguments
from ..reporting.run_results import Results
from ..runs.output_folder import run_into
from ..runs.progress_bar import StepProgress
from ..runs.results import BLAME_COLUMNS, RANK_COLUMNS, RunClock, tables_as_csv
from ..runs.tables import ResultTable
from ..scoring.catalog import metric_style
from ..scoring.score_store import ScoreStore
from ..scoring.unavailable_metrics import (
    UnavailableMetrics,
    add_unavailable_rows,
    describe_reasons,
    find_unavailable,
    make_unavailable_rows,
    warn_unavailable,
)
from ..statistics.bootstrap import TESTS
from ..statistics.rating_table import CEILINGS


def bench(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: str | Metric | Sequence[str | Metric] = "text",
    *,
    protocol: str | Mapping[str, Any] | None = None,
    ceilings: bool = True,
    floors: bool = False,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    cache_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Score datasets with metrics and correlate with people's ratings; `captau bench` from Python.

    Args:
        dataset: the names of datasets, or your own `CaptionSet` objects, which have the usual protocol of
            `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`) or `Metric` objects.
        protocol: the differences from each dataset's usual protocol, such as
            `{"dimension": "recall", "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol, such as
            `"umic_2021"`.
        ceilings: whether to add the ceilings, if items have several ratings.
        floors: whether to add the floors: random scores and caption length.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`; see
            `StatisticsOptions`.
        data_root: the folder of datasets; by default `CAPTAU_DATA`, else the user's cache folder.
        cache_root: the folder of stored scores; by default `CAPTAU_CACHE`, else the user's cache folder.
        output_dir: the folder for the run's files; None writes no files.
        file: options of the dataset `file`, which reads your own judgements, such as
            `{"path": "mine.csv", "value": "score"}`.

    Returns:
        `Results`, whose `correlations` and `scores` are DataFrames.

    Raises:
        InputError: on an unknown name, missing or malformed data, or an unwritable folder.
    """
    arguments = measuring_arguments(
        *(dataset, metrics),
        protocol=protocol,
        statistics=statistics,
        data_root=data_root,
        cache_root=cache_root,
        output_dir=output_dir,
        file=file,
    )
    arguments["configuration"] |= {"ceilings": ceilings, "floors": floors}
    config = BenchOptions(**arguments, ceilings=ceilings, floors=floors)
    return run_into(output_dir, "bench", lambda: run(config))


def compare(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: str | Metric | Sequence[str | Metric] = "text",
    *,
    tests: Sequence[str] = TESTS,
    protocol: str | Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    cache_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Test which metrics differ in their agreement with people; `captau compare` from Python.

    Args:
        dataset, metrics, protocol, statistics, data_root, cache_root, output_dir, file: as in `captau.bench`.
        tests: any of `bootstrap`, `permutation`, `williams` and `mcnemar` (docs/statistics.md).

    Returns:
        `Results`, whose `significance` holds a DataFrame with one row per pair of metrics, coefficient and test, and
        the matrix of corrected p-values.

    Raises:
        InputError: as in `captau.bench`, or if fewer than two metrics are named.
    """
    arguments = measuring_arguments(
        *(dataset, metrics),
        protocol=protocol,
        statistics=statistics,
        data_root=data_root,
        cache_root=cache_root,
        output_dir=output_dir,
        file=file,
    )
    arguments["configuration"] |= {"tests": list(tests)}
    config = CompareOptions(**arguments, tests=tuple(tests))
    return run_into(output_dir, "compare", lambda: run(config))


def run(config: BenchOptions, write: Callable[[Results], None] | None = None) -> Results:
    """Run `captau bench`, or `captau compare` where there are tests.

    Args:
        config: the options.
        write: takes the results of the datasets that are done, after each but the last one.

    Raises:
        InputError: see `bench`.
    """
    clock = RunClock()
    store = config.locations.store()
    measured: list[MeasuredDataset] = []
    missing: list[UnavailableMetrics] = []
    with StepProgress(len(config.datasets) * len(config.metrics)) as progress:
        for name, protocol in config.datasets.items():
            selection = EvaluationSet.select(config.locations.load(name), protocol)
            # Of preferences alone the floors stand without any metric, but there is nothing to compare.
            has_floors = not selection.protocol.dimension and len(selection.preferences) > 0
            unavailable = find_unavailable(
                config.metrics,
                selection.items,
                needs_one=bool(config.tests) or not has_floors,
            )
            metrics = [m for m in config.metrics if m not in unavailable]
            if config.tests and len(metrics) < 2:
                warn_unavailable([unavailable])  # the error below names the one that is left
            missing.append(unavailable)
            measured.append(
                correlate_dataset(
                    score_dataset(selection, metrics, store, progress),
                    progress,
                    ceilings=config.ceilings,
                    floors=config.floors,
                    pair_floors=True,
                    statistics=config.statistics,
                    tests=config.tests,
                )
            )
            if write is not None and len(measured) < len(config.datasets):
                write(_join(config, measured, missing, store, clock))
    warn_unavailable(missing)
    return _join(config, measured, missing, store, clock)


def _join(
    config: BenchOptions,
    measured: Sequence[MeasuredDataset],
    missing: Sequence[UnavailableMetrics],
    store: ScoreStore,
    clock: RunClock,
) -> Results:
    """Return the results of the datasets that are done; run.json names the others as unfinished."""
    specs = [m.spec for m in config.metrics]
    unfinished = list(config.datasets)[len(measured) :]
    frames = {
        "correlations.csv": pd.concat(
            [
                pd.concat([m.correlations, make_unavailable_rows(m.correlations, unavailable)])
                for m, unavailable in zip(measured, missing, strict=True)
            ],
            ignore_index=True,
        ),
        "scores.parquet": pd.concat([m.scored.frame for m in measured], ignore_index=True),
        **_judgements(measured),
        "ranks.csv": pd.DataFrame(
            [
                (m.caption_set.name, dimension, coefficient, metric, rank)
                for m in measured
                for (metric, dimension, coefficient), rank in m.ranks.items()
            ],
            columns=pd.Index(RANK_COLUMNS),
        ),
    }
    if config.tests:
        significance, matrix = significance_frames(measured, specs, config.tests)
        frames |= {"significance.csv": significance, "matrix.csv": matrix}
    if config.statistics.disattenuate:
        disattenuated = pd.concat([m.disattenuated for m in measured], ignore_index=True)
        frames["disattenuated.csv"] = disattenuated
    if (words := _words(measured)) is not None:
        frames["words.parquet"] = words
    tables = [
        table
        for m, unavailable in zip(measured, missing, strict=True)
        for table in _tables(m, unavailable, config)
    ]
    return Results(
        frames,
        _record(config, measured, missing, store)
        | clock.record()
        | ({"unfinished": unfinished} if unfinished else {}),
        tables,
        other_files={"table.csv": tables_as_csv(tables)},
    )


def _record(
    config: BenchOptions,
    measured: Sequence[MeasuredDataset],
    missing: Sequence[UnavailableMetrics],
    store: ScoreStore,
) -> dict[str, Any]:
    """Return what `run.json` says of the run, but for its time."""
    computed = [m for m in config.metrics if any(m not in lack for lack in missing)]
    return {
        "command": "compare" if config.tests else "bench",
        "config": dict(config.configuration),
        "protocols": {m.caption_set.name: vars(m.protocol) for m in measured},
        **provenance(
            computed,
            [m.caption_set for m in measured],
            config.locations,
            [m.protocol for m in measured],
        ),
        "metrics": {m.spec: vars(metric_style(m)) for m in config.metrics},
        "floors": FLOORS,
        "ceilings": CEILINGS,
        "missing": {
            m.caption_set.name: describe_reasons(unavailable)
            for m, unavailable in zip(measured, missing, strict=True)
        },
        "scores_computed": store.misses,
        "scores_read_back": store.hits,
    }


def _tables(
    measured: MeasuredDataset, unavailable: UnavailableMetrics, config: BenchOptions
) -> list[ResultTable]:
    """Return the correlations, with a row for each missing metric, and the tables that were asked for."""
    metrics = measured.scored.metrics
    labels = {m.spec: metric_style(m).label for m in config.metrics}
    correlations = correlation_table(measured, metrics)
    return [
        add_unavailable_rows(correlations, metrics, measured.scored.remarks, unavailable),
        *difference_tables(measured, config.tests, labels),
        *disattenuated_tables(measured, labels),
    ]


def _judgements(measured: Sequence[MeasuredDataset]) -> dict[str, pd.DataFrame]:
    """Return what people said of the measured items, in the items' order, by file name."""

    def joined(columns: Sequence[str], frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
        named = zip((m.caption_set.name for m in measured), frames, strict=True)
        parts = [frame[list(columns)].assign(dataset=name) for name, frame in named]
        return pd.concat(parts, ignore_index=True)[["dataset", *columns]]

    preferences = (m.selection.preferences for m in measured)
    return {
        "items.parquet": joined(ITEM_COLUMNS, (m.items for m in measured)),
        "ratings.parquet": joined(RATING_COLUMNS, (m.selection.ratings for m in measured)),
        "preferences.parquet": joined((*PREFERENCE_COLUMNS, "winner"), preferences),
    }


def _words(measured: Sequence[MeasuredDataset]) -> pd.DataFrame | None:
    """Return the words of the measured items that people mark and metrics blame; None where neither does."""
    parts = [frame for m in measured for frame in blamed_words(m.selection, m.scored.blame)]
    return pd.concat(parts, ignore_index=True)[list(BLAME_COLUMNS)] if parts else None
