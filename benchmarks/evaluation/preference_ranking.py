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
from scipy.sparse.csgraph import connected_components

from ...datasets.schema import Card
from ..runs.tables import MISSING, ResultTable, format_number
from ..statistics.bootstrap import (
    MAX_UNDEFINED_SHARE,
    Interval,
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
)
from ..statistics.bradley_terry import (
    ORDER_MEASURES,
    Strengths,
    compare_orders,
    draw_systems,
    fit_strengths,
)
from ..statistics.significance import MetricDifference, PairedTest, two_sided_p_value
from ..statistics.weighted_pairs import Floats, Statistic
from .evaluation_set import EvaluationSet
from .judged_pairs import FLOORS, PAIR_FLOORS
from .system_battles import Battles, BattleSet
from .system_ranking import (
    ORDER_COLUMNS,
    SYSTEM_COLUMNS,
    SystemRanking,
    check_systems,
    leading_dimension,
    make_tests,
    places_of,
    rank_values,
)

#: The models of ties, as texts name them.
MODEL_NAMES = {"davidson": "Davidson's", "rao_kupper": "Rao and Kupper's"}


@dataclass(frozen=True)
class PreferenceRanking(SystemRanking):
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
    """

    values: Floats
    replicates: Floats
    left_out: Floats | None

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
            return cls(values, np.empty((len(values), 0)), None)
        (replicates,) = resample(
            [statistic], *(n_images, options.replicates, options.seed), advance=advance
        )
        left_out = jackknife(statistic, n_images) if options.interval == "bca" else None
        return cls(values, replicates, left_out)

    def split(self, n_values: int) -> list[_Resampled]:
        """Cut the values into parts of equal size, in order."""
        parts: list[_Resampled] = []
        for start in range(0, len(self.values), n_values):
            rows = slice(start, start + n_values)
            left_out = None if self.left_out is None else self.left_out[rows]
            parts.append(_Resampled(self.values[rows], self.replicates[rows], left_out))
        return parts

    def interval(self, weights: Floats, options: StatisticsOptions) -> Interval:
        """Return the interval of a weighted sum of the values."""
        if not self.replicates.size:
            return Interval()
        left_out = None if self.left_out is None else weights @ self.left_out
        return resampling_interval(
            float(weights @ self.values),
            weights @ self.replicates,
            options,
            left_out,
        )


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
    check_systems(selection)
    battles = BattleSet.make(selection)
    systems, dataset = battles.systems, selection.name
    fits = [
        fit_strengths(*b.count(np.ones((battles.n_images, 1))), tie_model)
        for b in battles.by_dimension
    ]
    means = battles.means(selection.items, scores)

    def statistic(weights: Floats) -> Floats:
        strengths = [
            fit_strengths(*b.count(weights), tie_model, fit).values
            for b, fit in zip(battles.by_dimension, fits, strict=True)
        ]
        return np.concatenate([*strengths, *(mean(weights) for mean in means.values())])

    # `statistic` returns the systems' strengths in each dimension, then their means by each metric.
    sample = _Resampled.draw(statistic, battles.n_images, statistics, advance)
    parts = sample.split(len(systems))
    dimensions = [b.dimension for b in battles.by_dimension]
    strengths_by_dimension = dict(zip(dimensions, parts[: len(dimensions)], strict=True))
    means_by_metric = dict(zip(means, parts[len(dimensions) :], strict=True))
    compared = [
        _compare(dataset, b, strengths_by_dimension[b.dimension], statistics)
        for b in battles.by_dimension
    ]
    return PreferenceRanking(
        systems=_join([rows for rows, _ in compared]).astype({"rank": "Int64"}),
        tests=_join([tests for _, tests in compared]),
        battles=battles,
        fits=dict(zip(dimensions, fits, strict=True)),
        wins=_join([b.win_rows(dataset) for b in battles.by_dimension]),
        elo=_join([b.elo_rows(dataset, statistics.seed) for b in battles.by_dimension]),
        orders=_order_rows(dataset, strengths_by_dimension, means_by_metric, statistics),
        means={
            metric: pd.Series(part.values, index=list(systems))
            for metric, part in means_by_metric.items()
        },
    )


def _join(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True)


def _compare(
    dataset: str, battles: Battles, sample: _Resampled, statistics: StatisticsOptions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `systems.csv`, the best system first, and of `system_tests.csv`, of one dimension."""
    systems = battles.systems
    unit = np.eye(len(systems))
    differences = [
        MetricDifference(
            dimension="",
            coefficient=battles.dimension,  # `make_tests` groups by coefficient
            metric_a=systems[i],
            metric_b=systems[j],
            test="bootstrap",
            value_a=float(sample.values[i]),
            value_b=float(sample.values[j]),
            result=PairedTest(
                two_sided_p_value((unit[i] - unit[j]) @ sample.replicates),
                sample.interval(unit[i] - unit[j], statistics),
            ),
            n_points=len(battles.signs),
            n_images=battles.n_images,
        )
        for i, j in (combinations(range(len(systems)), 2) if sample.replicates.size else ())
    ]
    tests = make_tests(dataset, [battles.dimension], differences, statistics.correction)
    strengths = dict(zip(systems, sample.values.tolist(), strict=True))
    ranks = rank_values(strengths, tests, statistics) if np.isfinite(sample.values).all() else {}
    reason = unbounded_reason(battles) if not ranks else ""
    rows: list[dict[str, Any]] = []
    for i in np.argsort(-np.nan_to_num(sample.values, nan=-np.inf), kind="stable"):
        interval = sample.interval(unit[i], statistics)
        rows.append(
            {
                "dataset": dataset,
                "dimension": battles.dimension,
                "system": systems[i],
                "value": sample.values[i],
                "ci_low": interval.low,
                "ci_high": interval.high,
                "rank": ranks.get(systems[i]),
                "n_items": int(battles.n_items[i]),
                "n_judgements": int(battles.n_judgements[i]),
                "note": reason or interval.note,
            }
        )
    return pd.DataFrame(rows, columns=pd.Index(SYSTEM_COLUMNS)), tests


def unbounded_reason(battles: Battles) -> str:
    """Say which systems are never beaten nor tied by the others, so that the likelihood has no maximum."""
    wins, ties = battles.totals
    beats = wins + ties > 0
    _, labels = connected_components(beats, directed=True, connection="strong")
    if not labels.any():
        return "undefined: too few wins beside the ties to tell strengths from the chance of ties"
    for group in range(labels.max() + 1):
        is_own = labels == group
        if not beats[~is_own][:, is_own].any():
            names = ", ".join(np.array(battles.systems)[is_own].tolist())
            return (
                f"undefined: no other system beats or ties {names}, so that strengths have no bound"
            )
    return "undefined: strengths have no bound"


def _order_rows(
    dataset: str,
    by_people: Mapping[str, _Resampled],
    by_metric: Mapping[str, _Resampled],
    statistics: StatisticsOptions,
) -> pd.DataFrame:
    """Return how far each metric's means per system are in people's order; intervals over systems and images.

    Intervals are percentile ones even with `statistics.interval=bca`, since BCa's jackknife leaves out images alone,
    and here systems are resampled as well.
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
                    interval = resampling_interval(value, replicates[measure], percentile)
                rows.append(
                    {
                        "dataset": dataset,
                        "dimension": dimension,
                        "metric": metric,
                        "coefficient": measure,
                        "value": value,
                        "ci_low": interval.low,
                        "ci_high": interval.high,
                        "n_systems": n_systems,
                    }
                )
    return pd.DataFrame(rows, columns=pd.Index(ORDER_COLUMNS))


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
    name = selection.name
    tables: list[ResultTable] = []
    for battles in ranking.battles.by_dimension:
        title = f"{name}, {selection.caption_set.card.label(battles.dimension)}"
        tables.append(_strength_table(title, ranking, battles, statistics, tie_model))
        tables.append(_win_table(title, ranking, battles))
    return [*tables, _order_table(name, ranking, labels, statistics, selection.caption_set.card)]


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
    elo: Any = _of_dimension(ranking.elo, battles.dimension).to_dict("records")
    elo_by_system = {row["system"]: row for row in elo}
    rows: list[tuple[str, list[str]]] = []
    systems = _of_dimension(ranking.systems, battles.dimension)
    records: Any = systems.to_dict("records")
    for row in records:
        numbers = [format_number(row[c], 1, 3) for c in ("value", "ci_low", "ci_high")]
        rank = "" if pd.isna(row["rank"]) else str(row["rank"])
        rating = elo_by_system[row["system"]]
        cells = [*numbers, rank, format_number(shares[row["system"]], 100, 1)]
        cells += [f"{rating['elo']:.0f}", f"{rating['lowest']:.0f}–{rating['highest']:.0f}"]
        rows.append((row["system"], cells))
    columns = ["strength", "low", "high", "rank", "wins %", "Elo", "Elo, other orders"]
    tie = ranking.fits[battles.dimension].tie[0]
    symbol = "ν" if tie_model == "davidson" else "θ"
    tie_text = MISSING if np.isnan(tie) else f"{tie:.3f}"
    notes = [
        f"Strengths: logarithms with mean 0 of {MODEL_NAMES[tie_model]} Bradley–Terry model with ties ({symbol} = "
        f"{tie_text}), {len(battles.signs):,} comparisons, {int((battles.signs == 0).sum()):,} of them tied.",
        "Wins %: of a system's comparisons, ties counting half. Elo depends on the order of the comparisons: the "
        f"file's order, and from the least to the greatest of {elo[0]['n_orders']} random orders.",
        _floor_note(battles),
    ]
    if statistics.uses_resampling:
        notes.insert(
            1,
            f"low, high: {100 * statistics.level:g} % intervals by resampling images. Systems of equal rank do not differ "
            "significantly (system_tests.csv).",
        )
    if n_same := ranking.battles.n_same_system:
        notes.append(f"Comparisons left out, of two captions of one system: {n_same:,}.")
    notes += [f"{note}." for note in dict.fromkeys(systems["note"]) if note]
    return ResultTable(
        f"{title}: strengths of {len(rows)} systems", "system", columns, rows, notes=notes
    )


def _floor_note(battles: Battles) -> str:
    length, position = battles.floor_shares()
    n_decided = int((battles.signs != 0).sum())
    if not n_decided:
        return "People tied every comparison."
    return (
        f"Of the {n_decided:,} decided comparisons the {FLOORS['floor_length']} wins {100 * length:.1f} %, the "
        f"{FLOORS['floor_position']} {100 * position:.1f} %."
    )


def _win_table(title: str, ranking: PreferenceRanking, battles: Battles) -> ResultTable:
    """Return how often the system of a row beats that of a column, and how often they tie."""
    wins, ties = battles.totals
    order = [
        battles.systems.index(system)
        for system in _of_dimension(ranking.systems, battles.dimension)["system"]
    ]
    rows = [
        (
            battles.systems[i],
            [
                f"{wins[i, j]:.0f} ({ties[i, j]:.0f})"
                if wins[i, j] + wins[j, i] + ties[i, j]
                else ""
                for j in order
            ],
        )
        for i in order
    ]
    return ResultTable(
        f"{title}: who beats whom",
        "wins of",
        [battles.systems[j] for j in order],
        rows,
        notes=["Wins of the row's system over the column's; in brackets their ties."],
    )


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
    card: Card,
) -> ResultTable:
    """Return each system's place by people and by each metric, and how far a metric's order is people's."""
    dimension = leading_dimension([b.dimension for b in ranking.battles.by_dimension], card)
    systems = list(_of_dimension(ranking.systems, dimension)["system"])
    rows: list[tuple[str, list[str]]] = []
    for battles in ranking.battles.by_dimension:
        strengths = _of_dimension(ranking.systems, battles.dimension).set_index("system")["value"]
        rows.append((f"people: {battles.dimension}", [*places_of(strengths, systems), *[""] * 5]))
    records: Any = _of_dimension(ranking.orders, dimension).to_dict("records")
    orders = {(row["metric"], row["coefficient"]): row for row in records}
    for metric, means in ranking.means.items():
        cells = places_of(means, systems)
        for measure in ("spearman", "tau_b"):
            row = orders[metric, measure]
            cells.append(format_number(row["value"], 1, 2))
            low, high = (format_number(row[c], 1, 2) for c in ("ci_low", "ci_high"))
            cells.append(f"{low} to {high}" if pd.notna(row["ci_low"]) else MISSING)
        alike = orders[metric, "pairwise_accuracy"]["value"]
        label = FLOORS[metric] if metric in PAIR_FLOORS else labels[metric]
        rows.append((label, [*cells, format_number(alike, 100, 0)]))
    notes = [
        f"ρ, τ_b and the pairs of systems in the same order are with people's strengths in {dimension}"
        + (" (metric_orders.csv has the others)." if len(ranking.battles.by_dimension) > 1 else ".")
    ]
    if statistics.uses_resampling:
        notes.append(f"{100 * statistics.level:g} % intervals, systems and images resampled.")
        if any(MISSING in cells for _, cells in rows):
            notes.append(_missing_note(ranking.battles.n_images))
    columns = [*systems, "ρ", "interval of ρ", "τ_b", "interval of τ_b", "pairs alike %"]
    return ResultTable(
        f"{name}: how people and metrics order the systems", "place by", columns, rows, notes=notes
    )
