"""`captau rank`: which captioning system people prefer, and how each metric orders the same systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ...datasets.errors import InputError
from ..evaluation.measured_dataset import correlate_dataset, score_dataset
from ..evaluation.study import StudiedDataset, load_studies, study_record
from ..evaluation.system_ranking import (
    WEIGHTED,
    SystemRanking,
    check_systems,
    count_best_worst,
    rank_systems,
    weigh_dimensions,
)
from ..options.rank import RankOptions
from ..reporting.system_figure import system_figure
from ..runs.progress_bar import StepProgress
from ..runs.run_output import RunClock, RunOutput
from ..runs.tables import ResultTable, format_number
from ..scoring.catalog import metric_style
from ..scoring.unavailable_metrics import installation_advice
from ..statistics.bootstrap import count_blocks

ORDER_COLUMNS = (
    "dataset",
    "dimension",
    "metric",
    "coefficient",
    "value",
    "ci_low",
    "ci_high",
    "n_systems",
)
#: Coefficients of a metric's means per system with people's.
ORDER_COEFFICIENTS = ("tau_b", "pearson", "pairwise_accuracy")


@dataclass(frozen=True)
class _DatasetRanking:
    """The results of one dataset.

    Attributes:
        study: the dataset.
        people: means, intervals and tests of people's ratings.
        best_worst: columns `BEST_WORST_COLUMNS`.
        orders: columns `ORDER_COLUMNS`.
        metric_means: by metric and system, more is better.
    """

    study: StudiedDataset
    people: SystemRanking
    best_worst: pd.DataFrame
    orders: pd.DataFrame
    metric_means: Mapping[str, pd.Series]


def run(options: RankOptions) -> RunOutput:
    """Rank the systems of datasets.

    Returns:
        `systems.csv`, `best_worst.csv`, `system_tests.csv` and `metric_orders.csv`.

    Raises:
        InputError: on missing or malformed data, a dataset without ratings or with fewer than two systems, or a
            dimension that it does not have.
    """
    clock = RunClock()
    with StepProgress(None) as progress:
        studies = load_studies(options, progress)
        for study in studies:
            check_systems(study.selection)
        rankings = [_rank_dataset(study, options) for study in studies]
    frames = {
        "systems.csv": [ranking.people.systems for ranking in rankings],
        "best_worst.csv": [ranking.best_worst for ranking in rankings],
        "system_tests.csv": [ranking.people.tests for ranking in rankings],
        "metric_orders.csv": [ranking.orders for ranking in rankings],
    }
    return RunOutput(
        {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()},
        study_record("rank", options, studies) | clock.record(),
        [table for ranking in rankings for table in _tables(ranking, options)],
        system_figure(pd.concat(frames["systems.csv"], ignore_index=True)),
        installation_advice([study.missing for study in studies]),
    )


def _rank_dataset(study: StudiedDataset, options: RankOptions) -> _DatasetRanking:
    selection, statistics = study.selection, options.statistics
    points = {d: selection.points(d) for d in selection.protocol.dimension}
    if options.weights:
        points[WEIGHTED] = weigh_dimensions(selection, options.weights)
    if statistics.uses_resampling:
        study.progress.add_steps(count_blocks(statistics.replicates), f"{study.name}: replicates")
    people = rank_systems(selection, points, statistics, study.progress.advance)
    best_worst = count_best_worst(selection, _best_worst_dimensions(study, options.best_worst))
    # Means per system: any coefficient of the protocol's is of captions.
    protocol = replace(selection.protocol, level="system", coefficients=ORDER_COEFFICIENTS)
    scored = score_dataset(
        replace(selection, protocol=protocol), study.metrics, study.store, study.progress
    )
    correlations = correlate_dataset(scored, study.progress, statistics=statistics).correlations
    systems = selection.keys["system"]
    means = {spec: scores.groupby(systems).mean() for spec, scores in scored.oriented.items()}
    orders = correlations.assign(n_systems=systems.nunique())[list(ORDER_COLUMNS)]
    return _DatasetRanking(study, people, best_worst, orders, means)


def _best_worst_dimensions(study: StudiedDataset, named: Sequence[str]) -> list[str]:
    """Return the dimensions in which a system has to be best at once.

    Raises:
        InputError: where the dataset lacks one that was named.
    """
    card = study.selection.caption_set.card
    rated = study.selection.protocol.dimension
    if missing := [dimension for dimension in named if dimension not in rated]:
        raise InputError(
            f"rank.best_worst: dataset {study.name} has no dimension '{missing[0]}' under this protocol; "
            f"it has {', '.join(rated)}"
        )
    usual = [d for d in rated if card.scales[d].high > 0 and d not in card.totals]
    return list(named) or usual or list(rated)


def _tables(ranking: _DatasetRanking, options: RankOptions) -> list[ResultTable]:
    tables = [_means_table(ranking, options), _best_worst_table(ranking)]
    return [*tables, _orders_table(ranking)] if ranking.metric_means else tables


def _means_table(ranking: _DatasetRanking, options: RankOptions) -> ResultTable:
    """Return the systems' mean ratings, a dimension after the other."""
    scales = ranking.study.selection.caption_set.card.scales
    by_dimension = dict(tuple(ranking.people.systems.groupby("dimension", sort=False)))
    columns: list[str] = []
    cells: dict[str, list[str]] = {system: [] for system in _systems_by_people(ranking)}
    spare: list[int] = []
    penalties: list[str] = []
    for dimension, rows in by_dimension.items():
        scale = scales.get(str(dimension))
        is_penalty = scale is not None and scale.high <= 0
        penalties += [str(dimension)] if is_penalty else []
        sign = -1.0 if is_penalty else 1.0
        spare += range(len(columns) + 1, len(columns) + 4)
        columns += [str(dimension), "low", "high", "rank"]
        for row in rows.to_dict("records"):
            low, high = sorted((sign * row["ci_low"], sign * row["ci_high"]))
            numbers = (sign * row["value"], low, high)
            rank = "" if pd.isna(row["rank"]) else str(row["rank"])
            cells[row["system"]] += [*(format_number(n, 1, 3) for n in numbers), rank]
    statistics = options.statistics
    notes = [
        f"Means over captions; low, high: {statistics.level:.0%} intervals by resampling images. Systems of equal "
        f"rank do not differ significantly (system_tests.csv)."
        if statistics.uses_resampling
        else "Means over captions."
    ]
    if penalties:
        notes.append(
            f"Of {', '.join(penalties)} the size of the penalty is printed: less is better."
        )
    if options.weights:
        total = " + ".join(f"{weight:g}·{d}" for d, weight in options.weights.items())
        notes.append(f"{WEIGHTED} = {total}.")
    n_images = ranking.study.selection.items["image_id"].nunique()
    title = f"{ranking.study.name}: mean ratings of {len(cells)} systems, {n_images:,} images"
    return ResultTable(
        title, "system", columns, list(cells.items()), notes=notes, spare=tuple(spare)
    )


def _systems_by_people(ranking: _DatasetRanking) -> list[str]:
    """List the systems, best first by the last dimension."""
    systems = ranking.people.systems
    return list(systems.loc[systems["dimension"] == systems["dimension"].iloc[-1], "system"])


def _best_worst_table(ranking: _DatasetRanking) -> ResultTable:
    counts = ranking.best_worst.set_index("system")
    rows = [
        (system, [str(counts.at[system, "best"]), str(counts.at[system, "worst"])])
        for system in _systems_by_people(ranking)
    ]
    dimensions = ranking.best_worst["dimensions"].iloc[0].replace("+", " and ")
    title = (
        f"{ranking.study.name}: how often a system is best, or worst, of its image in {dimensions}"
    )
    return ResultTable(title, "system", ["best", "worst"], rows, notes=["Ties count."])


def _orders_table(ranking: _DatasetRanking) -> ResultTable:
    """Return each system's place by people and by each metric, and how far a metric's order is people's."""
    systems = _systems_by_people(ranking)
    people = ranking.people.systems
    rows: list[tuple[str, list[str]]] = []
    for dimension, table in people.groupby("dimension", sort=False):
        means = table.set_index("system")["value"]
        rows.append((f"people: {dimension}", [*_places(means, systems), ""]))
    dimension = str(ranking.orders["dimension"].iloc[-1])
    orders = ranking.orders[ranking.orders["dimension"] == dimension]
    shares = orders[orders["coefficient"] == "pairwise_accuracy"].set_index("metric")["value"]
    for metric in ranking.study.metrics:
        places = _places(ranking.metric_means[metric.spec], systems)
        share = format_number(float(shares[metric.spec]), 100, 0)
        rows.append((metric_style(metric).label, [*places, share]))
    return ResultTable(
        f"{ranking.study.name}: how people and metrics order the systems",
        "place by",
        [*systems, "pairs alike %"],
        rows,
        notes=[f"Pairs alike: pairs of systems whose mean scores are in the order of {dimension}."],
    )


def _places(means: pd.Series, systems: Sequence[str]) -> list[str]:
    """Return each system's place by its mean, 1 for the greatest; systems with equal means share one."""
    places = means.rank(method="min", ascending=False)
    return ["" if pd.isna(places[system]) else f"{places[system]:.0f}" for system in systems]
