"""`captau bench` and `captau compare`: score datasets with metrics and correlate with people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import ITEM_COLUMNS, PREFERENCE_COLUMNS, RATING_COLUMNS
from ...metrics.base import Metric
from ..evaluation.correlation_tables import (
    difference_tables,
    disattenuated_tables,
    significance_frames,
    table_of,
)
from ..evaluation.floors import FLOORS
from ..evaluation.measured_dataset import Measured, measure
from ..evaluation.provenance import provenance
from ..options import BenchOptions, changes_of, names_of, statistics_of
from ..runs.output_folder import OutputFolder
from ..runs.progress_bar import StepProgress
from ..runs.results import (
    RANK_COLUMNS,
    Judgements,
    Results,
)
from ..runs.tables import ResultTable
from ..scoring.catalog import metric_style, optional_specs, resolve_metrics, usual_protocol
from ..scoring.locations import Locations
from ..scoring.protocol import Protocol
from ..scoring.unavailable_metrics import (
    UnavailableMetrics,
    add_unavailable_rows,
    installation_advice,
    make_unavailable_rows,
    split_available,
)
from ..statistics.rater_agreement import CEILINGS


def bench(
    dataset: str | Sequence[str] = "demo",
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
        dataset: one dataset's name, or several.
        metrics: suites, metric specs (`"cider(variant=plain)"`) or `Metric` objects.
        protocol: what differs from each dataset's usual protocol, such as
            `{"dimension": "recall", "coefficients": ["tau_c"]}`; see `Protocol`. Or the name of one
            in `conf/protocol/`, such as `"umic_2021"`.
        ceilings: whether to add how well people agree with each other, where the dataset tells.
        floors: whether to add random scores and caption length.
        statistics: options of intervals and tests that differ from the usual ones, such as
            `{"interval": "bca", "replicates": 10000}`; see `Statistics`.
        data_root: where the data lies; by default `CAPTAU_DATA`, else the user's cache folder.
        cache_root: where scores are kept; by default `CAPTAU_CACHE`, else the user's cache folder.
        output_dir: where to write the run's files; None writes none.
        file: options of the dataset `file`, which reads judgements of your own, such as
            `{"path": "mine.csv", "value": "score"}`.

    Returns:
        `Results`, whose `correlations` and `scores` are DataFrames.

    Raises:
        InputError: on an unknown name, missing or malformed data, or an unwritable folder.
    """
    chosen = names_of(dataset)
    changes = changes_of(protocol)
    wanted = resolve_metrics(metrics)
    chosen_statistics = statistics_of(statistics)
    if file is not None and not isinstance(file, Mapping):
        raise InputError(f"file is {file!r}; a dict of options is expected")
    config = BenchOptions(
        datasets={name: Protocol.resolve(name, usual_protocol(name), changes) for name in chosen},
        metrics=wanted,
        locations=Locations(
            data_root=Path(data_root) if data_root else None,
            cache_root=Path(cache_root) if cache_root else None,
            output_dir=Path(output_dir) if output_dir else None,
            file_options=dict(file or {}),
        ),
        configuration={
            "dataset": chosen,
            "metrics": [m.spec for m in wanted],
            "protocol": changes,
            "ceilings": ceilings,
            "floors": floors,
            "statistics": vars(chosen_statistics),
            "data": {"root": data_root},
            "cache": {"root": cache_root},
            "output_dir": output_dir,
            "file": dict(file or {}),
        },
        ceilings=ceilings,
        floors=floors,
        statistics=chosen_statistics,
        optional=optional_specs(metrics),
    )
    if output_dir is None:
        return run(config)
    with OutputFolder(output_dir, "bench") as folder:
        results = run(config)
        folder.write(results.files())
    return results


def run(config: BenchOptions) -> Results:
    """Run a benchmark.

    Raises:
        InputError: see `bench`.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    store = config.locations.store()
    measured: list[Measured] = []
    missing: list[UnavailableMetrics] = []
    with StepProgress(len(config.datasets) * len(config.metrics)) as progress:
        for name, protocol in config.datasets.items():
            caption_set = config.locations.load(name)
            metrics, lacking = split_available(
                config.metrics, config.optional, protocol, caption_set
            )
            missing.append(lacking)
            found = measure(
                caption_set,
                protocol,
                metrics,
                store,
                progress,
                config.ceilings,
                config.floors,
            )
            found.judge(config.statistics, progress, config.tests)
            measured.append(found)
    reached = [m for m in config.metrics if any(m not in lacking for lacking in missing)]
    return Results(
        correlations=pd.concat(
            [
                pd.concat([m.correlations, make_unavailable_rows(m.correlations, lacking)])
                for m, lacking in zip(measured, missing, strict=True)
            ],
            ignore_index=True,
        ),
        scores=pd.concat([m.scores for m in measured], ignore_index=True),
        run={
            "command": "compare" if config.tests else "bench",
            "config": dict(config.configuration),
            "protocols": {m.caption_set.name: vars(m.protocol) for m in measured},
            **provenance(reached, [m.caption_set for m in measured], config.locations),
            "metrics": {m.spec: vars(metric_style(m)) for m in config.metrics},
            "floors": FLOORS,
            "ceilings": CEILINGS,
            "missing": {
                m.caption_set.name: {one.spec: reason for one, reason in lacking.items()}
                for m, lacking in zip(measured, missing, strict=True)
            },
            "scores_computed": store.misses,
            "scores_read_back": store.hits,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=[
            table
            for m, lacking in zip(measured, missing, strict=True)
            for table in (
                _listed(m, [x for x in config.metrics if x not in lacking], lacking),
                *difference_tables(m, config),
                *disattenuated_tables(m, config),
            )
        ],
        summary=installation_advice(missing),
        significance=significance_frames(measured, config) if config.tests else None,
        disattenuated=pd.concat([m.disattenuated for m in measured], ignore_index=True)
        if config.statistics.disattenuate
        else None,
        judgements=_judged(measured),
        ranks=pd.DataFrame(
            [
                (m.caption_set.name, dimension, coefficient, metric, rank)
                for m in measured
                for (metric, dimension, coefficient), rank in m.ranks.items()
            ],
            columns=pd.Index(RANK_COLUMNS),
        ),
    )


def _judged(measured: Sequence[Measured]) -> Judgements:
    """What people said of the measured items, in their order."""
    items: list[pd.DataFrame] = []
    ratings: list[pd.DataFrame] = []
    preferences: list[pd.DataFrame] = []
    for one in measured:
        of_set, name = one.caption_set, one.caption_set.name
        here = of_set.ratings["item_id"].isin(one.items["item_id"])
        for frames, frame, columns in (
            (items, one.items, ITEM_COLUMNS),
            (ratings, of_set.ratings[here], RATING_COLUMNS),
            (preferences, one.preferences(), PREFERENCE_COLUMNS),
        ):
            frames.append(frame[list(columns)].assign(dataset=name)[["dataset", *columns]])
    return Judgements(
        *(pd.concat(frames, ignore_index=True) for frames in (items, ratings, preferences))
    )


def _listed(
    measured: Measured, metrics: Sequence[Metric], lacking: UnavailableMetrics
) -> ResultTable:
    return add_unavailable_rows(table_of(measured, metrics), metrics, measured.remarks, lacking)
