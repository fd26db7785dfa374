"""Tables of systems ranked by preferences: strengths, wins, and the orders that metrics make; `captau rank` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.schema import Card
from ..runs.tables import MISSING, ResultTable, format_number
from ..statistics.bootstrap import MAX_UNDEFINED_SHARE, StatisticsOptions
from .evaluation_set import EvaluationSet
from .floors import FLOORS, PAIR_FLOORS
from .preference_ranking import MODEL_NAMES, PreferenceRanking
from .system_battles import Battles
from .system_ranking import leading_dimension, places_of


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
