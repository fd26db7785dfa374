"""Captioning systems compared by people's preferences: Bradley–Terry strengths with intervals, tests and tables.

`captau rank` calls `rank_by_preferences` and `preference_tables`; `statistics.bradley_terry` has the models,
`system_battles` the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...runs.frames import make_frame, records_by, records_of
from ...runs.tables import (
    MISSING,
    AnyCell,
    Cell,
    ResultTable,
    Row,
    TableNote,
    count_cell,
    format_number,
    number_cell,
)
from ...statistics.bootstrap import (
    MAX_UNDEFINED_SHARE,
    Interval,
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
    smallest_share_p_value,
    two_sided_p_value,
)
from ...statistics.bradley_terry import (
    ORDER_MEASURES,
    Strengths,
    compare_orders,
    draw_systems,
    fit_strengths,
)
from ...statistics.significance import MetricDifference, PairedTest
from ...statistics.weighted_pairs import Floats, Statistic
from ..evaluation_set import EvaluationSet
from ..judged_pairs import FLOORS, ORDER_NOTE, PAIR_FLOORS
from ..verdicts import order_verdict
from ..wording import dataset_notes, distinct_notes, join_notes
from . import system_ranking
from .system_battles import Battles, BattleSet, unbounded_reason

#: The models of ties, as texts name them.
MODEL_NAMES = {"davidson": "Davidson's", "rao_kupper": "Rao and Kupper's"}


@dataclass(frozen=True)
class PreferenceRanking(system_ranking.SystemRanking):
    """People's comparison of systems two at a time.

    Attributes:
        battles: the comparisons.
        fits: the strengths, by dimension.
        wins: columns `WIN_COLUMNS`.
        elo: columns `ELO_COLUMNS`.
        orders: columns `ORDER_COLUMNS`: each metric's and floor's means per system against people's order.
        means: of metrics and floors, by name and system, more is better.
    """

    battles: BattleSet
    fits: Mapping[str, Strengths]
    wins: pd.DataFrame
    elo: pd.DataFrame
    orders: pd.DataFrame
    means: Mapping[str, pd.Series]


@dataclass(frozen=True)
class _Resampled:
    """Values with their replicates.

    Attributes:
        values: shape (n_values,).
        replicates: shape (n_values, n_replicates); without columns where nothing is resampled.
        left_out: the jackknife's values, for BCa alone.
        n_images: the number of images that a replicate draws.
    """

    values: Floats
    replicates: Floats
    left_out: Floats | None
    n_images: int

    @classmethod
    def draw(
        cls,
        statistic: Statistic,
        n_images: int,
        options: StatisticsOptions,
        advance: Callable[[], None] | None,
    ) -> _Resampled:
        """Compute the values and, where the options resample, their replicates over images."""
        values = statistic(np.ones((n_images, 1)))[:, 0]
        if not options.uses_resampling or n_images < 2:
            return cls(values, np.empty((len(values), 0)), None, n_images)

        (replicates,) = resample(
            [statistic], n_images, options.replicates, options.seed, advance=advance
        )
        left_out = jackknife(statistic, n_images) if options.interval == "bca" else None

        return cls(values, replicates, left_out, n_images)

    def split(self, sizes: Sequence[int]) -> list[_Resampled]:
        """Cut the values into parts of the given sizes, in order."""
        parts: list[_Resampled] = []
        for stop, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
            rows = slice(stop - size, stop)
            left_out = None if self.left_out is None else self.left_out[rows]
            part = _Resampled(
                values=self.values[rows],
                replicates=self.replicates[rows],
                left_out=left_out,
                n_images=self.n_images,
            )
            parts.append(part)

        return parts

    def interval(self, row: int, options: StatisticsOptions) -> Interval:
        """Return the interval of a value; an end is infinite where a tail of the replicates is."""
        if not self.replicates.size:
            return Interval()
        value = float(self.values[row])
        replicates = self.replicates[row]
        # Infinite values have no mean, on which BCa's acceleration rests.
        left_out = None if self.left_out is None else self.left_out[row]
        if left_out is not None:
            left_out = np.where(np.isfinite(left_out), left_out, np.nan)

        # Quantiles lie between two replicates: a number that is greater than all others stands for infinity.
        largest = 2 * np.abs(np.append(replicates[np.isfinite(replicates)], 1.0)).max()
        bounded = np.clip(replicates, -largest, largest)
        interval = resampling_interval(
            np.clip(value, -largest, largest), bounded, self.n_images, options, left_out
        )

        limit = largest / 2
        low = -np.inf if interval.low < -limit else interval.low
        high = np.inf if interval.high > limit else interval.high

        return replace(interval, low=low, high=high)


def rank_by_preferences(
    selection: EvaluationSet,
    scores: Mapping[str, pd.Series],
    statistics: StatisticsOptions,
    tie_model: str,
    advance: Callable[[], None] | None = None,
) -> PreferenceRanking:
    """Compare systems by people's preferences, and the orders that metrics make with people's.

    People's ties count, whatever `protocol.ties` says of metrics; grades do not.

    Args:
        selection: the items, each with a system.
        scores: by metric and item id, more is better.
        statistics: how intervals and tests are made; without resampling there are neither.
        tie_model: one of `bradley_terry.TIE_MODELS`.
        advance: called after each block of replicates.

    Raises:
        InputError: where an item has no system, no comparison is of two systems, or systems never meet.
    """
    system_ranking.check_systems(selection)
    battles = BattleSet.make(selection)
    systems = battles.systems
    dataset = selection.name
    ones = np.ones((battles.n_images, 1))
    fits: list[Strengths] = []
    wins: list[pd.DataFrame] = []
    elo: list[pd.DataFrame] = []
    for of_dimension in battles.by_dimension:
        fits.append(fit_strengths(*of_dimension.count(ones), tie_model))
        wins.append(of_dimension.win_rows(dataset))
        elo.append(of_dimension.elo_rows(dataset, statistics.seed))
    means = battles.means(selection.items, scores)

    # All are one statistic, so that each replicate draws its images once for all of them.
    statistic = _join_statistics(battles, fits, means, tie_model)
    sample = _Resampled.draw(statistic, battles.n_images, statistics, advance)
    strengths, differences, means_by_metric = _split_sample(sample, battles, list(means))
    system_rows, tests = _compare_all(
        dataset,
        battles,
        fits,
        strengths=strengths,
        differences=differences,
        statistics=statistics,
    )

    return PreferenceRanking(
        systems=system_rows.astype({"rank": "Int64"}),
        tests=tests,
        n_images=battles.n_images,
        battles=battles,
        fits=dict(zip(strengths, fits, strict=True)),
        wins=_join(wins),
        elo=_join(elo),
        orders=_order_rows(dataset, strengths, means_by_metric, statistics),
        means={m: pd.Series(part.values, list(systems)) for m, part in means_by_metric.items()},
    )


def _split_sample(
    sample: _Resampled, battles: BattleSet, metrics: Sequence[str]
) -> tuple[dict[str, _Resampled], dict[str, _Resampled], dict[str, _Resampled]]:
    """Return systems' strengths and their differences by dimension, and systems' means by metric; see `_join_statistics`."""
    dimensions = [b.dimension for b in battles.by_dimension]
    n_systems = len(battles.systems)
    n_pairs = n_systems * (n_systems - 1) // 2
    parts = sample.split([n_systems, n_pairs] * len(dimensions) + [n_systems] * len(metrics))

    n_values = 2 * len(dimensions)
    strengths = dict(zip(dimensions, parts[:n_values:2], strict=True))
    differences = dict(zip(dimensions, parts[1:n_values:2], strict=True))
    means = dict(zip(metrics, parts[n_values:], strict=True))
    return strengths, differences, means


def _compare_all(
    dataset: str,
    battles: BattleSet,
    fits: Sequence[Strengths],
    strengths: Mapping[str, _Resampled],
    differences: Mapping[str, _Resampled],
    statistics: StatisticsOptions,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `systems.csv` and of `system_tests.csv`, a dimension after the other; see `_compare`."""
    system_rows: list[pd.DataFrame] = []
    tests: list[pd.DataFrame] = []
    for of_dimension, fit in zip(battles.by_dimension, fits, strict=True):
        rows, dimension_tests = _compare(
            dataset,
            of_dimension,
            fit,
            strengths=strengths[of_dimension.dimension],
            differences=differences[of_dimension.dimension],
            statistics=statistics,
        )
        system_rows.append(rows)
        tests.append(dimension_tests)

    return _join(system_rows), _join(tests)


def _join_statistics(
    battles: BattleSet,
    fits: Sequence[Strengths],
    means: Mapping[str, Statistic],
    tie_model: str,
) -> Statistic:
    """Return systems' strengths and their differences by dimension, then systems' means by metric, as one statistic."""
    first, second = np.triu_indices(len(battles.systems), 1)

    def statistic(weights: Floats) -> Floats:
        values: list[Floats] = []
        for b, fit in zip(battles.by_dimension, fits, strict=True):
            strengths = fit_strengths(*b.count(weights), tie_model, fit)
            values.append(strengths.values)
            values.append(strengths.differences[first, second])
        for mean in means.values():
            values.append(mean(weights))

        return np.concatenate(values)

    return statistic


def _join(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True)


def _compare(
    dataset: str,
    battles: Battles,
    fit: Strengths,
    strengths: _Resampled,
    differences: _Resampled,
    statistics: StatisticsOptions,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `systems.csv`, the best system first, and of `system_tests.csv`, of one dimension."""
    systems = battles.systems
    tested = _test_differences(battles, differences, statistics)
    tests = system_ranking.make_tests(dataset, [battles.dimension], tested, statistics.correction)

    # A system is the better, the more systems it is above without bound; infinite leads count as a million.
    leads = np.clip(np.nan_to_num(fit.differences[:, :, 0], nan=0.0), -1e6, 1e6).sum(axis=1)
    order = dict(zip(systems, leads.tolist(), strict=True))
    is_finite = bool(np.isfinite(strengths.values).all())
    reason = "" if is_finite else unbounded_reason(battles)
    ranks: dict[str, int] = {}
    if is_finite or len(tests):
        ranks = system_ranking.rank_values(order, tests, statistics)

    rows: list[dict[str, Any]] = []
    for i in np.argsort(-leads, kind="stable"):
        interval = strengths.interval(int(i), statistics)
        unranked = system_ranking.UNTESTED if len(tests) and systems[i] not in ranks else ""
        row = {
            "dataset": dataset,
            "dimension": battles.dimension,
            "system": systems[i],
            "value": strengths.values[i],
            "ci_low": interval.low,
            "ci_high": interval.high,
            "rank": ranks.get(systems[i]),
            "n_items": int(battles.n_items[i]),
            "n_judgements": int(battles.n_judgements[i]),
            "note": join_notes(reason or interval.note, unranked),
        }
        rows.append(row)

    return make_frame(rows, system_ranking.SYSTEM_COLUMNS), tests


def _test_differences(
    battles: Battles, differences: _Resampled, statistics: StatisticsOptions
) -> list[MetricDifference]:
    """Return the difference of every two systems' strengths, with its test; none where nothing is resampled."""
    tested: list[MetricDifference] = []
    if not differences.replicates.size:
        return tested

    for row, (a, b) in enumerate(combinations(battles.systems, 2)):
        test = PairedTest(
            two_sided_p_value(differences.replicates[row], battles.n_images, statistics),
            differences.interval(row, statistics),
        )
        difference = MetricDifference(
            dimension="",
            # `make_tests` groups by coefficient.
            coefficient=battles.dimension,
            metric_a=a,
            metric_b=b,
            test="bootstrap",
            value_a=float(differences.values[row]),
            value_b=0.0,
            result=test,
            n_points=len(battles.signs),
            n_images=battles.n_images,
        )
        tested.append(difference)

    return tested


def _order_rows(
    dataset: str,
    by_people: Mapping[str, _Resampled],
    by_metric: Mapping[str, _Resampled],
    statistics: StatisticsOptions,
) -> pd.DataFrame:
    """Return how far each metric's means per system are in people's order; intervals over systems and images.

    Intervals are percentile ones whatever `statistics.interval` is: the others are of resampled images alone, and here
    systems are resampled as well.
    """
    percentile = replace(statistics, interval="percentile")
    rows: list[dict[str, Any]] = []
    for dimension, people in by_people.items():
        n_systems, n_replicates = people.replicates.shape
        drawn = draw_systems(n_systems, n_replicates, statistics.seed)
        ones = np.ones((n_systems, 1))

        for metric, sample in by_metric.items():
            values = compare_orders(people.values[:, None], sample.values[:, None], ones)
            replicates = compare_orders(people.replicates, sample.replicates, drawn)

            for measure in ORDER_MEASURES:
                value = float(values[measure][0])
                interval = Interval()
                if n_replicates:
                    interval = resampling_interval(
                        value, replicates[measure], people.n_images, percentile
                    )
                row = {
                    "dataset": dataset,
                    "dimension": dimension,
                    "metric": metric,
                    "coefficient": measure,
                    "value": value,
                    "ci_low": interval.low,
                    "ci_high": interval.high,
                    "n_systems": n_systems,
                }
                rows.append(row)

    return make_frame(rows, system_ranking.ORDER_COLUMNS)


def preference_tables(
    selection: EvaluationSet,
    ranking: PreferenceRanking,
    labels: Mapping[str, str],
    statistics: StatisticsOptions,
    tie_model: str,
) -> list[ResultTable]:
    """Return a table of strengths and one of wins for each dimension, and one of metrics' orders.

    Args:
        labels: the metrics' names in tables.
        statistics, tie_model: how the ranking was made.
    """
    card = selection.caption_set.card
    dimensions = [battles.dimension for battles in ranking.battles.by_dimension]
    leading = system_ranking.leading_dimension(dimensions, card)

    tables: list[ResultTable] = []
    for battles in ranking.battles.by_dimension:
        title = f"{selection.name}, {card.label(battles.dimension)}"
        table = _strength_table(title, ranking, battles, statistics, tie_model)
        if battles.dimension == leading:
            of_dataset = dataset_notes(selection.caption_set, selection.protocol)
            table = replace(table, notes=[*table.notes, *of_dataset])
        tables.append(replace(table, is_detail=battles.dimension != leading))
        tables.append(_win_table(title, ranking, battles))

    return [*tables, _order_table(selection.name, ranking, labels, statistics, leading)]


def _of_dimension(frame: pd.DataFrame, dimension: str) -> pd.DataFrame:
    return frame[frame["dimension"] == dimension]


def _strength_table(
    title: str,
    ranking: PreferenceRanking,
    battles: Battles,
    statistics: StatisticsOptions,
    tie_model: str,
) -> ResultTable:
    shares = dict(zip(battles.systems, battles.win_shares, strict=True))
    elo_by_system = records_by(_of_dimension(ranking.elo, battles.dimension), "system")
    n_orders = next(iter(elo_by_system.values()))["n_orders"]
    rows: list[Row] = []

    systems = _of_dimension(ranking.systems, battles.dimension)
    for row in records_of(systems):
        rating = elo_by_system[row["system"]]
        cells: list[AnyCell] = [
            number_cell(row["value"], 1, 3),
            number_cell(row["ci_low"], 1, 3),
            number_cell(row["ci_high"], 1, 3),
            count_cell(None if pd.isna(row["rank"]) else row["rank"]),
            number_cell(shares[row["system"]], 100, 1),
            number_cell(rating["elo"], 1, 0),
            f"{rating['lowest']:.0f}–{rating['highest']:.0f}",
        ]
        rows.append(Row(row["system"], cells))
    columns = ["strength", "low", "high", "rank", "wins %", "Elo", "Elo, by order"]
    tie = ranking.fits[battles.dimension].tie[0]
    symbol = "ν" if tie_model == "davidson" else "θ"
    tie_text = MISSING if np.isnan(tie) else f"{tie:.3f}"
    notes: list[str] = [
        f"Strengths: logarithms with mean 0 of {MODEL_NAMES[tie_model]} Bradley–Terry model with ties ({symbol} = "
        f"{tie_text}), {len(battles.signs):,} comparisons, {int((battles.signs == 0).sum()):,} of them tied.",
        "Wins %: of a system's comparisons, ties counting half. Elo depends on the order of the comparisons: the mean, "
        f"and from the least to the greatest, of {n_orders} random orders.",
        _floor_note(battles, order_is_source=ranking.battles.order_is_source),
    ]
    if battles.dimension in set(ranking.tests["dimension"]):
        words = (
            f"low, high: {100 * statistics.level:g} % intervals by resampling images. Systems of equal rank do not differ "
            "significantly (system_tests.csv)."
        )
        notes.insert(1, TableNote(words, ("low", "high", "rank")))
    if n_same := ranking.battles.n_same_system:
        notes.append(f"Comparisons left out, of two captions of one system: {n_same:,}.")
    notes += distinct_notes(systems)
    title = f"{title}: strengths of {len(rows)} systems"
    tests = system_ranking.find_system_tests(
        ranking.tests,
        battles.dimension,
        statistics,
        ranking.n_images,
        smallest=smallest_share_p_value,
    )
    verdict = system_ranking.system_verdict(systems, tests, battles.dimension, "strength")
    spare = ((6,), (5,), (4,))
    return ResultTable(title, "system", columns, rows, notes=notes, spare=spare, verdict=verdict)


def _floor_note(battles: Battles, *, order_is_source: bool) -> str:
    length, position = battles.floor_shares()
    n_decided = int((battles.signs != 0).sum())

    if not n_decided:
        return "People tied every comparison."
    note = f"Of the {n_decided:,} decided comparisons the {FLOORS['floor_length']} wins {100 * length:.1f} %"
    if order_is_source:
        return f"{note}. {ORDER_NOTE}"
    return f"{note}, the {FLOORS['floor_position']} {100 * position:.1f} %."


def _win_table(title: str, ranking: PreferenceRanking, battles: Battles) -> ResultTable:
    """Return how often the system of a row beats that of a column, and how often they tie."""
    wins, ties = battles.totals
    systems = list(_of_dimension(ranking.systems, battles.dimension)["system"])
    order = [battles.systems.index(system) for system in systems]

    def cell(i: int, j: int) -> AnyCell:
        has_met = wins[i, j] + wins[j, i] + ties[i, j] > 0
        if not has_met:
            return ""
        return Cell(f"{wins[i, j]:.0f} ({ties[i, j]:.0f})", wins[i, j], wins[i, j])

    rows: list[Row] = []
    for i in order:
        rows.append(Row(battles.systems[i], [cell(i, j) for j in order]))

    title = f"{title}: who beats whom"
    notes = ["Wins of the row's system over the column's; in brackets their ties."]
    return ResultTable(title, "wins of", systems, rows, notes=notes, is_detail=True)


def _missing_note(n_images: int) -> str:
    """Say why an order or its interval is missing."""
    if n_images < 2:
        return f"{MISSING}: no interval, since all comparisons are of one image."

    return (
        f"{MISSING}: undefined. Systems are equal, or a strength has no bound; an interval is left out where that "
        f"happens in more than {100 * MAX_UNDEFINED_SHARE:g} % of the resamples."
    )


def _order_table(
    name: str,
    ranking: PreferenceRanking,
    labels: Mapping[str, str],
    statistics: StatisticsOptions,
    dimension: str,
) -> ResultTable:
    """Return each system's place by people and by each metric, and how far a metric's order is people's."""
    strengths = _of_dimension(ranking.systems, dimension).set_index("system")["value"]
    systems = list(strengths.index)

    rows = [Row("people", [*system_ranking.places_of(strengths, systems), *[""] * 5])]

    shares: dict[str, float] = {}
    lacks_interval = False
    rows_of_orders = records_of(_of_dimension(ranking.orders, dimension))
    orders = {(row["metric"], row["coefficient"]): row for row in rows_of_orders}

    for metric, means in ranking.means.items():
        cells = system_ranking.places_of(means, systems)
        for measure in ("spearman", "tau_b"):
            row = orders[metric, measure]
            cells.append(number_cell(row["value"], 1, 2))
            low = format_number(row["ci_low"], 1, 2)
            high = format_number(row["ci_high"], 1, 2)
            has_interval = pd.notna(row["ci_low"])
            lacks_interval = lacks_interval or not has_interval
            cells.append(f"{low} to {high}" if has_interval else MISSING)

        alike = orders[metric, "pairwise_accuracy"]["value"]
        is_floor = metric in PAIR_FLOORS
        label = FLOORS[metric] if is_floor else labels[metric]
        # A floor is no metric of which the verdict speaks.
        if not is_floor:
            shares[label] = alike
        rows.append(Row(label, [*cells, number_cell(alike, 100, 0)]))

    notes = [system_ranking.same_order_note(dimension, len(ranking.battles.by_dimension))]
    if statistics.uses_resampling:
        level = f"{100 * statistics.level:g} %"
        notes.append(f"Intervals of ρ and τ_b: {level}, systems and images resampled.")
        if lacks_interval:
            notes.append(_missing_note(ranking.battles.n_images))

    columns = [*systems, "ρ", "interval of ρ", "τ_b", "interval of τ_b", system_ranking.SAME_ORDER]
    spare = (tuple(range(len(systems), len(systems) + 4)),)
    title, verdict = f"{name}: how people and metrics order the systems", order_verdict(shares)
    return ResultTable(title, "order by", columns, rows, notes=notes, spare=spare, verdict=verdict)
