"""Tables of systems that people compared: their strengths, who beats whom, and the orders that metrics make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ...runs.frames import records_by, records_of
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
    StatisticsOptions,
    smallest_share_p_value,
)
from ..evaluation_set import EvaluationSet
from ..judged_pairs import FLOORS, ORDER_NOTE, PAIR_FLOORS
from ..verdicts import order_verdict
from ..wording import dataset_notes, distinct_notes
from . import system_ranking
from .preference_ranking import PreferenceRanking
from .system_battles import Battles

#: The models of ties, as texts name them.
MODEL_NAMES = {"davidson": "Davidson's", "rao_kupper": "Rao and Kupper's"}


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
        TableNote.detail(
            f"Strengths: logarithms with mean 0 of {MODEL_NAMES[tie_model]} Bradley–Terry model with ties ({symbol} = "
            f"{tie_text}), {len(battles.signs):,} comparisons, {int((battles.signs == 0).sum()):,} of them tied."
        ),
        TableNote.detail(
            "Wins %: of a system's comparisons, ties counting half. Elo depends on the order of the comparisons: the mean, "
            f"and from the least to the greatest, of {n_orders} random orders."
        ),
        _floor_note(battles, order_is_source=ranking.battles.order_is_source),
    ]
    if battles.dimension in set(ranking.tests["dimension"]):
        notes.insert(1, system_ranking.interval_note(statistics))
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

    notes: list[str] = [
        system_ranking.same_order_note(dimension, len(ranking.battles.by_dimension))
    ]
    if statistics.uses_resampling:
        level = f"{100 * statistics.level:g} %"
        notes.append(
            TableNote.detail(f"Intervals of ρ and τ_b: {level}, systems and images resampled.")
        )
        if lacks_interval:
            notes.append(_missing_note(ranking.battles.n_images))

    columns = [*systems, "ρ", "interval of ρ", "τ_b", "interval of τ_b", system_ranking.SAME_ORDER]
    spare = (tuple(range(len(systems), len(systems) + 4)),)
    title, verdict = (
        f"{name}: how people and metrics order the systems",
        order_verdict(shares, len(systems)),
    )
    return ResultTable(title, "order by", columns, rows, notes=notes, spare=spare, verdict=verdict)
