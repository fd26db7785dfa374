"""Systems ranked by preferences: strengths in closed form, and the tables of them, whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.systems.preference_ranking import (
    PreferenceRanking,
    rank_by_preferences,
)
from captau.benchmarks.evaluation.systems.preference_tables import preference_tables
from captau.benchmarks.evaluation.systems.system_ranking import SYSTEM_COLUMNS
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import (
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
)
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, make_items
from tests.benchmarks.printed import lines_of

#: Image, first and second system, strength: of seven images A wins four and B one; the last is of A alone.
GAMES = [
    *(("1", "A", "B", 1.0), ("2", "A", "B", 2.0), ("3", "A", "B", 1.0), ("4", "B", "A", -1.0)),
    *(("5", "A", "B", -1.0), ("6", "A", "B", 0.0), ("7", "A", "B", 0.0), ("7", "A", "A", 1.0)),
]
NONE = StatisticsOptions(interval="none")


def select(games: Sequence[tuple[str, str, str, float]], *dimensions: str) -> EvaluationSet:
    """Captions of two words by A, of one by B and of three by C."""
    keys = sorted({(image, s) for image, a, b, _ in games for s in (a, b)}, key=lambda k: k[::-1])
    texts = {"A": "a b", "B": "a", "C": "a b c"}
    items = make_items(
        [image for image, _ in keys],
        [texts[system] for _, system in keys],
        [("r",)] * len(keys),
        systems=[system for _, system in keys],
    )
    ids = dict(zip(keys, items["item_id"], strict=True))
    rows = [
        (f"p{n}{d}", ids[image, a], ids[image, b], d, strength)
        for d in dimensions
        for n, (image, a, b, strength) in enumerate(games)
    ]
    card = Card("made", "Made", "1", "", "", "", labels={"colour": "Colours"})
    captions = CaptionSet(items, preferences=make_preferences(rows), card=card)
    return EvaluationSet.select(captions, Protocol.resolve("made", usual_protocol("pascal50s"), {}))


def rank(
    selection: EvaluationSet, statistics: StatisticsOptions, ties: str = "davidson"
) -> PreferenceRanking:
    """With a metric that prefers the shorter caption."""
    items = selection.items
    scores = {"m": pd.Series([-float(len(c)) for c in items["caption"]], index=items["item_id"])}
    return rank_by_preferences(selection, scores, statistics, ties)


def elo_cells(ranking: PreferenceRanking, dimension: str) -> dict[str, list[str]]:
    rows = ranking.elo[ranking.elo["dimension"] == dimension].to_dict("records")
    return {
        str(r["system"]): [f"{r['elo']:.0f}", f"{r['lowest']:.0f}–{r['highest']:.0f}"] for r in rows
    }


def test_tables_without_resampling_by_hand() -> None:
    """Davidson: the strengths are ± ln(4 / 1) / 2, and ν is 2 / √(4 · 1)."""
    selection = select(GAMES, "colour", "overall")
    ranking = rank(selection, NONE)
    tables = preference_tables(selection, ranking, {"m": "M"}, NONE, "davidson")
    assert [(t.title, t.is_detail) for t in tables] == [
        ("made, Colours: strengths of 2 systems", True),
        ("made, Colours: who beats whom", True),
        ("made, overall: strengths of 2 systems", False),
        ("made, overall: who beats whom", True),
        ("made: how people and metrics order the systems", False),
    ]
    for table, dimension in ((tables[0], "colour"), (tables[2], "overall")):
        elo = elo_cells(ranking, dimension)
        assert table.corner == "system"
        assert table.heads == [
            *("strength", "low", "high", "rank", "wins %", "Elo", "Elo, by order"),
        ]
        assert lines_of(table) == [
            ("A", ["0.693", "–", "–", "1", "71.4", *elo["A"]]),
            ("B", ["-0.693", "–", "–", "2", "28.6", *elo["B"]]),
        ]
        assert table.notes == [
            "Strengths: logarithms with mean 0 of Davidson's Bradley–Terry model with ties (ν = 1.000), "
            "7 comparisons, 2 of them tied.",
            "Wins %: of a system's comparisons, ties counting half. Elo depends on the order of the "
            "comparisons: the mean, and from the least to the greatest, of 100 random orders.",
            "Of the 5 decided comparisons the longer caption wins 80.0 %, the first caption 60.0 %.",
            "Comparisons left out, of two captions of one system: 2.",
        ]
        assert table.spare == ((6,), (5,), (4,))
        assert table.verdict.startswith("People put A first (strength 0.693)")
    assert tables[3].corner == "wins of"
    assert tables[3].heads == ["A", "B"]
    assert lines_of(tables[3]) == [("A", ["", "4 (2)"]), ("B", ["1 (2)", ""])]
    assert tables[3].notes == [
        "Wins of the row's system over the column's; in brackets their ties."
    ]
    orders = tables[4]
    assert orders.corner == "order by"
    assert orders.heads == [
        "A",
        "B",
        "ρ",
        "interval of ρ",
        "τ_b",
        "interval of τ_b",
        "same order %",
    ]
    assert lines_of(orders) == [
        ("people", ["1", "2", "", "", "", "", ""]),
        ("M", ["2", "1", "-1.00", "–", "-1.00", "–", "0"]),
        ("longer caption", ["1", "2", "1.00", "–", "1.00", "–", "100"]),
        ("first caption", ["1", "2", "1.00", "–", "1.00", "–", "100"]),
    ]
    assert orders.notes == [
        "same order %: the share of pairs of systems that a metric's means put in people's order by "
        "overall (metric_orders.csv has the other dimensions)."
    ]
    assert orders.spare == ((2, 3, 4, 5),)


def test_rows_without_resampling_by_hand() -> None:
    """Rao and Kupper: π / (π + θ) = 4/7 and 1 / (1 + θ π) = 1/7, so π = √8 and θ = √4.5."""
    selection = select(GAMES, "overall")
    ranking = rank(selection, NONE, "rao_kupper")
    assert tuple(ranking.systems.columns) == SYSTEM_COLUMNS
    assert ranking.systems.drop(columns=["value", "ci_low", "ci_high"]).to_numpy().tolist() == [
        ["made", "overall", "A", 1, 7, 7, ""],
        ["made", "overall", "B", 2, 7, 7, ""],
    ]
    strength = math.log(8) / 4
    assert ranking.systems["value"].tolist() == pytest.approx([strength, -strength], abs=1e-6)
    assert ranking.systems[["ci_low", "ci_high"]].isna().all(axis=None)
    assert ranking.tests.empty
    assert {name: means.to_dict() for name, means in ranking.means.items()} == {
        "m": {"A": -3.0, "B": -1.0},
        "floor_length": {"A": 2.0, "B": 1.0},
        "floor_position": pytest.approx({"A": 6 / 7, "B": 1 / 7}),
    }
    assert ranking.orders[["metric", "coefficient", "value", "n_systems"]].to_numpy().tolist() == [
        [metric, measure, value, 2]
        for metric, values in (("m", (-1, -1, 0)), ("floor_length", (1, 1, 1)), ("floor_position", (1, 1, 1)))
        for measure, value in zip(("spearman", "tau_b", "pairwise_accuracy"), values, strict=True)
    ]  # fmt: skip
    assert set(ranking.orders["dataset"]) == {"made"}
    assert set(ranking.orders["dimension"]) == {"overall"}
    (table, _, orders) = preference_tables(selection, ranking, {"m": "M"}, NONE, "rao_kupper")
    assert table.notes[0] == (
        "Strengths: logarithms with mean 0 of Rao and Kupper's Bradley–Terry model with ties (θ = 2.121), "
        "7 comparisons, 2 of them tied."
    )
    assert orders.notes == [
        "same order %: the share of pairs of systems that a metric's means put in people's order by overall."
    ]


def test_systems_that_always_stand_in_one_place_are_told_by_it() -> None:
    selection = select([g for g in GAMES if g[1:3] == ("A", "B")], "overall")
    ranking = rank(selection, NONE)
    table = preference_tables(selection, ranking, {"m": "M"}, NONE, "davidson")[0]
    assert table.notes[2:] == [
        "Of the 4 decided comparisons the longer caption wins 75.0 %. The row of the first caption is "
        "left out: in every pair of this dataset the first place says whose caption it is."
    ]


def test_all_tied_and_no_ties_at_all() -> None:
    tied = [(f"{n}", *"AB", 0.0) if n % 2 else (f"{n}", *"BA", 0.0) for n in range(4)]
    selection = select(tied, "overall")
    table = preference_tables(selection, rank(selection, NONE), {"m": "M"}, NONE, "davidson")[0]
    assert "People tied every comparison." in table.notes
    assert "4 comparisons, 4 of them tied." in table.notes[0]
    decided = [("1", "A", "B", 1.0), ("2", "B", "A", 1.0), ("3", "A", "B", 1.0)]
    selection = select(decided, "overall")
    table = preference_tables(selection, rank(selection, NONE), {"m": "M"}, NONE, "davidson")[0]
    assert "3 comparisons, 0 of them tied." in table.notes[0]
    assert [cells[0] for _, cells in lines_of(table)] == ["0.347", "-0.347"]  # ln(2) / 2


def closed_form(games: Sequence[tuple[str, str, str, float]], *, is_lead: bool) -> Any:
    """ln(wins of A / wins of B), the lead, or half of it, the strength, as a function of the images' weights."""
    signs = np.array([strength * (1 if a == "A" else -1) for _, a, b, strength in games if a != b])

    def statistic(weights: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            lead = np.log((signs > 0) @ weights) - np.log((signs < 0) @ weights)
        return lead[None] / (1 if is_lead else 2)

    return statistic


MANY = [(f"{n:02}", "A", "B", 1.0 if n % 3 else -1.0) for n in range(12)]
MANY += [(f"{n:02}", "B", "A", 1.0 if n % 3 else -1.0) for n in range(12, 18)]


@pytest.mark.parametrize("interval", ["percentile", "expanded", "bca"])
def test_intervals_and_tests_are_those_of_resampled_images(interval: str) -> None:
    """A wins 8 of the first 12 and 2 of the last 6: 10 of 18."""
    statistics = StatisticsOptions(interval=interval, replicates=70, seed=2, correction="none")
    selection = select(MANY, "overall")
    steps: list[int] = []
    ranking = rank_by_preferences(selection, {}, statistics, "davidson", lambda: steps.append(1))
    assert len(steps) == 2
    n = 18
    found = ranking.systems.set_index("system")
    for is_lead in (False, True):
        statistic = closed_form(MANY, is_lead=is_lead)
        (drawn,) = resample([statistic], n, 70, 2)
        left_out = jackknife(statistic, n)[0] if interval == "bca" else None
        value = float(statistic(np.ones((n, 1)))[0, 0])
        expected = resampling_interval(value, drawn[0], n, statistics, left_out)
        if is_lead:
            (row,) = ranking.tests.to_dict("records")
            assert (row["system_a"], row["system_b"]) == ("A", "B")
            assert row["difference"] == pytest.approx(math.log(10 / 8), abs=1e-6)
        else:
            row = found.loc["A"]
            assert row["value"] == pytest.approx(math.log(10 / 8) / 2, abs=1e-6)
        ends = pytest.approx([expected.low, expected.high], abs=1e-5)
        assert [row["ci_low"], row["ci_high"]] == ends
    assert found["rank"].to_dict() == {"A": 1, "B": 1}
    table, _, orders = preference_tables(selection, ranking, {}, statistics, "davidson")
    assert table.notes[1] == (
        "low, high: 95 % intervals by resampling images; systems that share a rank do not differ "
        "significantly (system_tests.csv)."
    )
    assert orders.notes[1] == "Intervals of ρ and τ_b: 95 %, systems and images resampled."
    assert [cells[3] for _, cells in lines_of(orders)[1:]] == ["–", "–"]
    assert orders.notes[2:] == [
        "–: undefined. Systems are equal, or a strength has no bound; an interval is left out where that "
        "happens in more than 10 % of the resamples."
    ]


def test_an_end_is_infinite_where_a_tail_of_the_replicates_is() -> None:
    """B's only win is missing in (6/7)^7 = 34 % of the resamples; there A's strength has no bound."""
    statistics = StatisticsOptions(interval="percentile", replicates=64, seed=1)
    ranking = rank(select(GAMES, "overall"), statistics)
    in_order = sorted(
        GAMES, key=lambda game: game[1]
    )  # images count in the order of the first captions
    (drawn,) = resample([closed_form(in_order, is_lead=False)], 7, 64, 1)
    assert (drawn[0] == math.inf).mean() > 0.2
    rows = ranking.systems.set_index("system")
    low = float(np.quantile(np.minimum(drawn[0], 1e9), 0.025))
    assert rows.loc["A", ["ci_low", "ci_high"]].tolist() == [pytest.approx(low, abs=1e-5), math.inf]
    assert rows.loc["B", ["ci_low", "ci_high"]].tolist() == [
        -math.inf,
        pytest.approx(-low, abs=1e-5),
    ]
    (row,) = ranking.tests.to_dict("records")
    assert row["ci_high"] == math.inf


def test_one_image_has_no_interval() -> None:
    statistics = StatisticsOptions(replicates=8)
    games = [("1", "A", "B", 1.0), ("1", "B", "A", 1.0), ("1", "A", "B", 1.0)]
    selection = select(games, "overall")
    ranking = rank(selection, statistics)
    assert ranking.systems["ci_low"].isna().all()
    assert ranking.tests.empty
    orders = preference_tables(selection, ranking, {"m": "M"}, statistics, "davidson")[2]
    assert orders.notes[1:] == [
        "Intervals of ρ and τ_b: 95 %, systems and images resampled.",
        "–: no interval, since all comparisons are of one image.",
    ]


def test_a_system_without_bound_leads_by_the_systems_below_it() -> None:
    """A beats B and C always, B and C are equal; without tests there is no rank, and the reason is said."""
    games = [
        ("1", "A", "B", 1.0),
        ("2", "C", "A", -1.0),
        ("3", "B", "C", 1.0),
        ("4", "B", "C", -1.0),
    ]
    ranking = rank(select(games, "overall"), NONE)
    rows = ranking.systems
    assert rows["system"].tolist() == ["A", "B", "C"]
    assert rows["value"].tolist() == [math.inf, -math.inf, -math.inf]
    assert rows["rank"].isna().all()
    assert set(rows["note"]) == {"no other system beats or ties A, so that strengths have no bound"}
    assert rows["n_judgements"].tolist() == [2, 3, 3]
