"""`captau rank`: which captioning system people prefer, and how each metric orders the same systems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from ...datasets.errors import InputError
from ..evaluation.measured_dataset import correlate_dataset
from ..evaluation.prepared_datasets import PreparedDataset, PreparedDatasets, prepare_datasets
from ..evaluation.scored_dataset import score_dataset
from ..evaluation.systems import system_ranking
from ..evaluation.systems.controlled_ranking import (
    FEATURES,
    ControlledRanking,
    hold_features,
    rank_controlled,
)
from ..evaluation.systems.preference_ranking import PreferenceRanking, rank_by_preferences
from ..evaluation.systems.preference_tables import preference_tables
from ..evaluation.verdicts import order_verdict
from ..evaluation.wording import dataset_notes, distinct_notes, list_words
from ..options.python_function import make_function
from ..options.rank import RankOptions
from ..reporting.charts.system_charts import system_figure, win_figures
from ..reporting.run_results import Results
from ..runs.frames import groups_of, make_frame, mean_of
from ..runs.interim_results import InterimResults
from ..runs.progress_bar import StepProgress
from ..runs.results import METRIC_ORDERS, ORDER_COLUMNS, RunClock
from ..runs.tables import (
    AnyCell,
    ResultTable,
    Row,
    TableNote,
    count_cell,
    count_of,
    number_cell,
)
from ..scoring.catalog import metric_labels, metric_style
from ..scoring.unavailable_metrics import warn_unavailable
from ..statistics.bootstrap import count_blocks, count_steps

#: Coefficients of a metric's means per system with people's.
ORDER_COEFFICIENTS = ("tau_b", "pearson", "pairwise_accuracy")


@dataclass(frozen=True)
class _DatasetRanking:
    """The results of one dataset, ranked by ratings.

    Attributes:
        prepared: the dataset.
        people: means, intervals and tests of people's ratings.
        best_worst: columns `BEST_WORST_COLUMNS`.
        orders: columns `ORDER_COLUMNS`.
        metric_means: by metric and system, more is better.
    """

    prepared: PreparedDataset
    people: system_ranking.SystemRanking
    best_worst: pd.DataFrame
    orders: pd.DataFrame
    metric_means: Mapping[str, pd.Series]

    @property
    def leading_dimension(self) -> str:
        """The dimension by which tables order the systems."""
        dimensions = list(dict.fromkeys(self.people.systems["dimension"]))
        return system_ranking.leading_dimension(
            dimensions, self.prepared.selection.caption_set.card
        )

    @property
    def systems(self) -> list[str]:
        """The systems, best first by the leading dimension."""
        systems = self.people.systems
        return list(systems.loc[systems["dimension"] == self.leading_dimension, "system"])


def run(options: RankOptions, write: Callable[[Results], None] | None = None) -> Results:
    """Rank the systems of datasets.

    Args:
        options: the options.
        write: takes the results of the datasets that are done, before the last one is; see `InterimResults`.

    Returns:
        `systems.csv`, `best_worst.csv`, `system_tests.csv` and `metric_orders.csv`; of preferences `wins.csv` and
        `elo.csv` besides.

    Raises:
        InputError: on missing or malformed data, where no dataset has two systems, or one has neither ratings nor
            preferences or not those of `rank.by`, or without a dimension that was named.
    """
    clock = RunClock()
    with InterimResults(write) as interim, StepProgress(None) as progress:
        prepared_datasets = prepare_datasets(
            options.datasets,
            options.metrics,
            options.locations,
            progress,
            needs_ratings=options.by == "ratings",
            check=system_ranking.check_systems,
        )
        n_scores = sum(len(prepared.metrics) for prepared in prepared_datasets)
        progress.add_steps(n_scores, "scores")
        parts: list[Results] = []
        n_computed = 0
        for prepared in prepared_datasets:
            is_preferred = _uses_preferences(prepared, options.by, options.control)
            rank_prepared = _rank_by_preferences if is_preferred else _rank_by_ratings
            parts.append(rank_prepared(prepared, options))
            # The last dataset is written with the rest, when the run is finished.
            n_computed += prepared.store.misses
            if len(parts) < len(prepared_datasets):
                # Of the datasets that are done now, whenever they are joined.
                join = partial(_join, options, prepared_datasets, list(parts), clock)
                interim.offer(join, n_computed)

    warn_unavailable([prepared.missing for prepared in prepared_datasets])
    return _join(options, prepared_datasets, parts, clock)


def _join(
    options: RankOptions,
    prepared_datasets: PreparedDatasets,
    parts: Sequence[Results],
    clock: RunClock,
) -> Results:
    """Return the results of the datasets that are done; run.json names the others as unfinished."""
    unfinished = [prepared.name for prepared in prepared_datasets[len(parts) :]]
    parts_by_name: dict[str, list[pd.DataFrame]] = {}
    tables: list[ResultTable] = []
    objectives: list[float] = []
    figures: dict[str, bytes] = {}
    for part in parts:
        # Datasets that are ranked by ratings have no wins.
        for name, frame in part.frames.items():
            parts_by_name.setdefault(name, []).append(frame)
        tables += part.tables
        figures |= part.figures
        if part.objective is not None:
            objectives.append(part.objective)

    frames: dict[str, pd.DataFrame] = {}
    for name, frames_of_name in parts_by_name.items():
        frames[name] = pd.concat(frames_of_name, ignore_index=True)

    # Only systems that were compared have wins, and strengths instead of mean ratings.
    wins = frames.get("wins.csv")
    preference_datasets = set() if wins is None else set(wins["dataset"])
    measures = "which captioning systems people prefer"
    record = prepared_datasets.record(
        "rank", options.configuration, measures, clock, n_finished=len(parts)
    )
    if unfinished:
        record["unfinished"] = unfinished

    return Results(
        frames,
        record,
        tables=tables,
        figures=system_figure(frames["systems.csv"], preference_datasets) | figures,
        objective=mean_of(objectives),
    )


def _find_objective(
    orders: pd.DataFrame, options: RankOptions, leading_dimension: str
) -> float | None:
    """Return the share of pairs of systems that the first metric puts in people's order."""
    is_share = orders["coefficient"] == "pairwise_accuracy"
    is_share &= orders["dimension"] == leading_dimension
    return mean_of(orders.loc[is_share & (orders["metric"] == options.metrics[0].spec), "value"])


def _uses_preferences(
    prepared: PreparedDataset, source: str | None, control: Sequence[str]
) -> bool:
    """Tell whether a dataset is ranked by preferences: where that is typed, or it has no ratings.

    Raises:
        InputError: where it has no preferences either, or has ratings and features are to be held equal.
    """
    if source != "preferences" and prepared.selection.protocol.dimension:
        if control:
            raise InputError(
                f"control= holds features of two compared captions equal, and {prepared.name} is ranked by ratings; leave it out"
            )
        return False

    if prepared.selection.preferences.empty:
        missing_kinds = "preferences" if source else "ratings and no preferences"
        raise InputError(f"dataset {prepared.name}: it has no {missing_kinds} to rank systems by")

    return True


def _rank_by_preferences(prepared: PreparedDataset, options: RankOptions) -> Results:
    """Return the tables and figures of one dataset, without the record of a run."""
    statistics = options.statistics
    progress = prepared.progress
    if statistics.uses_resampling:
        progress.add_steps(count_blocks(statistics.replicates), f"{prepared.name}: replicates")
    selection = prepared.selection
    scores = prepared.scores()
    ranking = rank_by_preferences(selection, scores, statistics, options.ties, progress.advance)
    labels = metric_labels(prepared.metrics)

    frames = {
        "systems.csv": ranking.systems,
        "best_worst.csv": make_frame([], system_ranking.BEST_WORST_COLUMNS),
        "system_tests.csv": ranking.tests,
        METRIC_ORDERS: ranking.orders,
        "wins.csv": ranking.wins,
        "elo.csv": ranking.elo,
    }
    tables = preference_tables(selection, ranking, labels, statistics, options.ties)
    if options.control:
        systems = [frames["systems.csv"]]
        controls: list[pd.DataFrame] = []
        for controlled in _rank_controlled(prepared, ranking, scores, options):
            tables.append(controlled.table)
            systems.append(controlled.systems)
            controls.append(controlled.controls)
        frames["systems.csv"] = pd.concat(systems, ignore_index=True)
        frames["controls.csv"] = pd.concat(controls, ignore_index=True)

    dimensions = [battles.dimension for battles in ranking.battles.by_dimension]
    leading = system_ranking.leading_dimension(dimensions, selection.caption_set.card)
    return Results(
        frames,
        {},
        tables=tables,
        figures=win_figures(ranking.battles, prepared.name),
        objective=_find_objective(ranking.orders, options, leading),
    )


def _rank_controlled(
    prepared: PreparedDataset,
    ranking: PreferenceRanking,
    scores: Mapping[str, pd.Series],
    options: RankOptions,
) -> list[ControlledRanking]:
    """Return the ranking of each dimension with the named features held equal."""
    items = prepared.selection.items
    captions = dict(zip(items["item_id"], items["caption"], strict=True))
    missing = [name for name in options.control if name not in FEATURES and name not in scores]
    if missing:
        raise InputError(f"control={missing[0]}: the metric has no scores of {prepared.name}")

    features = hold_features(options.control, captions, scores)
    controlled: list[ControlledRanking] = []
    for battles in ranking.battles.by_dimension:
        of_dimension = ranking.systems["dimension"] == battles.dimension
        ranked = rank_controlled(
            prepared.name,
            battles,
            features=features,
            statistics=options.statistics,
            plain=ranking.systems[of_dimension],
        )
        controlled.append(ranked)

    return controlled


def _rank_by_ratings(prepared: PreparedDataset, options: RankOptions) -> Results:
    """Return the tables of one dataset, without the record of a run."""
    ranking = _rank_dataset(prepared, options)
    frames = {
        "systems.csv": ranking.people.systems,
        "best_worst.csv": ranking.best_worst,
        "system_tests.csv": ranking.people.tests,
        METRIC_ORDERS: ranking.orders,
    }
    objective = _find_objective(ranking.orders, options, ranking.leading_dimension)
    return Results(frames, {}, tables=_tables(ranking, options), objective=objective)


def _rank_dataset(prepared: PreparedDataset, options: RankOptions) -> _DatasetRanking:
    selection = prepared.selection
    statistics = options.statistics
    if options.weights:
        totals = system_ranking.weigh_dimensions(selection, options.weights)
        selection = selection.with_dimension(system_ranking.WEIGHTED, totals)

    points = {d: selection.points(d) for d in selection.protocol.dimension}
    if statistics.uses_resampling:
        n_steps = count_steps(statistics.replicates, selection.items["system"].nunique())
        prepared.progress.add_steps(n_steps, f"{prepared.name}: systems")
    people = system_ranking.rank_systems(selection, points, statistics, prepared.progress.advance)

    dimensions = _best_worst_dimensions(prepared, options.best_worst)
    # Of the rated dimensions alone: a weighted sum would count each of them twice.
    best_worst = system_ranking.count_best_worst(prepared.selection, dimensions)

    scored = score_dataset(prepared.selection, prepared.metrics, prepared.store, prepared.progress)
    # Means per system: any coefficient of the protocol's is of captions.
    protocol = replace(selection.protocol, level="system", coefficients=ORDER_COEFFICIENTS)
    by_system = replace(scored, selection=replace(selection, protocol=protocol))
    measured = correlate_dataset(
        by_system, prepared.progress, compares=False, statistics=statistics
    )

    systems = selection.keys["system"]
    means = {spec: scores.groupby(systems).mean() for spec, scores in scored.oriented.items()}
    orders = measured.printed_correlations.assign(n_systems=systems.nunique())
    orders = orders[list(ORDER_COLUMNS)]

    return _DatasetRanking(prepared, people, best_worst, orders, means)


def _best_worst_dimensions(prepared: PreparedDataset, named: Sequence[str]) -> list[str]:
    """Return the dimensions in which a system has to be best at once.

    Raises:
        InputError: where the dataset lacks one that was named.
    """
    card = prepared.selection.caption_set.card
    rated = prepared.selection.protocol.dimension
    if missing := [dimension for dimension in named if dimension not in rated]:
        raise InputError(
            f"rank.best_worst: dataset {prepared.name} has no dimension '{missing[0]}' under this protocol; "
            f"it has {','.join(rated)}"
        )

    # Neither penalties, whose scales end at 0, nor sums of other dimensions.
    usual: list[str] = []
    for dimension in rated:
        if card.scales[dimension].high > 0 and dimension not in card.totals:
            usual.append(dimension)
    return list(named) or usual or list(rated)


def _tables(ranking: _DatasetRanking, options: RankOptions) -> list[ResultTable]:
    """Return the systems' means, how often each is the best, and, of metrics, their orders."""
    tables = [_means_table(ranking, options), _best_worst_table(ranking)]
    if ranking.metric_means:
        tables.append(_orders_table(ranking))

    return tables


def _mean_cells(
    ranking: _DatasetRanking, dimensions: Sequence[str], penalties: Collection[str]
) -> tuple[list[str], dict[str, list[AnyCell]]]:
    """Return the columns of some dimensions, four each, and the cells of each system; penalties without their sign."""
    by_dimension = dict(groups_of(ranking.people.systems, "dimension"))
    columns: list[str] = []
    cells: dict[str, list[AnyCell]] = {system: [] for system in ranking.systems}
    for dimension in dimensions:
        columns += [dimension, "low", "high", "rank"]
        sign = -1.0 if dimension in penalties else 1.0
        for row in by_dimension[dimension].to_dict("records"):
            # With the sign the ends change places.
            low, high = sorted((sign * row["ci_low"], sign * row["ci_high"]))
            for number in (sign * row["value"], low, high):
                cells[row["system"]].append(number_cell(number, 1, 3))
            rank = None if pd.isna(row["rank"]) else row["rank"]
            cells[row["system"]].append(count_cell(rank))

    return columns, cells


def _means_table(ranking: _DatasetRanking, options: RankOptions) -> ResultTable:
    """Return the systems' mean ratings, the leading dimension first; intervals and ranks of the others are details."""
    card = ranking.prepared.selection.caption_set.card
    leading = ranking.leading_dimension
    by_dimension = list(dict.fromkeys(ranking.people.systems["dimension"]))
    other_dimensions = [dimension for dimension in by_dimension if dimension != leading]
    # A scale that ends at 0 is of penalties; the weighted sum of dimensions has none.
    penalties = [d for d in by_dimension if d in card.scales and card.scales[d].high <= 0]
    columns, cells = _mean_cells(ranking, (leading, *other_dimensions), penalties)
    # Each dimension has four columns; its mean is the first of them.
    details: list[int] = []
    of_penalties: list[int] = []
    of_others: list[tuple[int, ...]] = []
    for number, dimension in enumerate(other_dimensions, start=1):
        mean_column = 4 * number
        details += range(mean_column + 1, mean_column + 4)
        if dimension in penalties:
            of_penalties.append(mean_column)
        else:
            of_others.append((mean_column,))

    people = ranking.people
    tests = system_ranking.find_system_tests(
        people.tests,
        leading,
        options.statistics,
        people.n_images,
        higher_is_better=leading not in card.faults,
    )
    faults = [dimension for dimension in by_dimension if dimension in card.faults]
    n_images = ranking.prepared.selection.items["image_id"].nunique()
    return ResultTable(
        f"{ranking.prepared.name}: mean ratings of {len(cells)} systems, {count_of(n_images, 'image')}",
        "system",
        columns,
        [Row(system, cells_of_system) for system, cells_of_system in cells.items()],
        notes=_mean_notes(ranking, options, penalties, faults),
        spare=(tuple(details), tuple(of_penalties), *reversed(of_others)),
        verdict=system_ranking.system_verdict(
            ranking.people.systems,
            tests,
            leading,
            f"mean {leading}",
            is_of_penalties=leading in penalties,
        ),
        details=tuple(details),
    )


def _mean_notes(
    ranking: _DatasetRanking,
    options: RankOptions,
    penalties: Sequence[str],
    faults: Sequence[str],
) -> list[str]:
    """Return the lines below the table of means."""
    notes: list[str] = [TableNote.detail("Means over captions.")]
    if ranking.leading_dimension in set(ranking.people.tests["dimension"]):
        notes.append(system_ranking.interval_note(options.statistics))
    if penalties:
        words = f"{list_words(penalties, len(penalties))}: the size of the penalty; less is better."
        notes.append(TableNote(words, tuple(penalties)))
    if faults:
        words = f"{list_words(faults, len(faults))}: faults; less is better."
        notes.append(TableNote(words, tuple(faults)))
    if options.weights:
        total = ""
        for dimension, weight in options.weights.items():
            # Of penalties and faults less is better, so that they enter with the other sign.
            if dimension in penalties or dimension in faults:
                weight = -weight
            total += f" {'−' if weight < 0 else '+'} {abs(weight):g}·{dimension}"
        notes.append(f"{system_ranking.WEIGHTED} = {total.removeprefix(' +').lstrip()}.")

    notes += distinct_notes(ranking.people.systems)
    selection = ranking.prepared.selection
    return [*notes, *dataset_notes(selection.caption_set, selection.protocol)]


def _best_worst_table(ranking: _DatasetRanking) -> ResultTable:
    counts = ranking.best_worst.set_index("system")[["best", "worst"]]
    rows: list[Row] = []
    for system in ranking.systems:
        best = count_cell(int(counts["best"][system]))
        worst = count_cell(int(counts["worst"][system]))
        rows.append(Row(system, [best, worst]))

    dimensions = ranking.best_worst["dimensions"].iloc[0].replace("+", " and ")
    title = f"{ranking.prepared.name}: how often a system's caption is the best, or the worst, of its image in {dimensions}"
    notes = ["A system that shares the first or the last place of an image counts as well."]
    return ResultTable(title, "system", ["best", "worst"], rows, notes=notes, is_detail=True)


def _orders_table(ranking: _DatasetRanking) -> ResultTable:
    """Return each system's place by people and by each metric, and how far a metric's order is people's."""
    systems = ranking.systems
    dimension = ranking.leading_dimension
    card = ranking.prepared.selection.caption_set.card
    people = ranking.people.systems
    means = people[people["dimension"] == dimension].set_index("system")["value"]
    means *= -1 if dimension in card.faults else 1

    rows = [Row("people", [*system_ranking.places_of(means, systems), ""])]

    orders = ranking.orders[ranking.orders["dimension"] == dimension]
    shares = orders[orders["coefficient"] == "pairwise_accuracy"].set_index("metric")["value"]
    shares_by_label: dict[str, float] = {}
    for metric in ranking.prepared.metrics:
        label = metric_style(metric).label
        share = float(shares[metric.spec])
        places = system_ranking.places_of(ranking.metric_means[metric.spec], systems)
        rows.append(Row(label, [*places, number_cell(share, 100, 0)]))
        shares_by_label[label] = share

    title = f"{ranking.prepared.name}: how people and metrics order the systems"
    columns, verdict = (
        [*systems, system_ranking.SAME_ORDER],
        order_verdict(shares_by_label, len(systems)),
    )
    notes = [system_ranking.same_order_note(dimension, people["dimension"].nunique())]
    return ResultTable(title, "order by", columns, rows, notes=notes, verdict=verdict)


rank = make_function(
    "rank",
    RankOptions,
    run,
    summary="Rank captioning systems by people's judgements of their captions",
    returns='The run\'s tables: `frames["systems.csv"]` and the others of docs/rank.md are DataFrames.',
    raises="as in `captau.bench`, or where no dataset has two systems or the judgements that `by` names.",
)
