"""Comparisons of two systems, counted and rated by Elo: worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.systems.system_battles import (
    N_ORDERS,
    Battles,
    BattleSet,
    unbounded_reason,
)
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, make_items
from tests.conftest import says


def make_battles(systems, games):
    """Return battles of one dimension, each of an image of its own; a game is first, second and sign."""
    first, second, signs = (np.array(column) for column in zip(*games, strict=True))
    return Battles(
        dimension="overall",
        systems=tuple(systems),
        n_images=len(games),
        first=first,
        second=second,
        signs=signs.astype(float),
        image=np.arange(len(games)),
        lengths=np.zeros(len(games)),
        n_items=np.bincount(np.append(first, second)),
        first_items=[],
        second_items=[],
    )


def test_elo_is_the_mean_over_orders_and_within_its_range():
    """By hand: a win moves 16 points and the loss after it 32 e, with e = 1 / (1 + 10 ** (-32 / 400)).

    So A ends at 1016 - 32 e where it wins first, and at 984 + 32 e where it loses first.
    """
    elo = make_battles("AB", [(0, 1, 1), (0, 1, -1)]).elo_rows("made", 0).set_index("system")
    expected = 1 / (1 + 10 ** (-32 / 400))
    low, high = 1016 - 32 * expected, 984 + 32 * expected
    assert elo.loc["A", ["lowest", "highest"]].tolist() == pytest.approx([low, high])
    n_lost_first = N_ORDERS * (elo.at["A", "elo"] - low) / (high - low)
    assert n_lost_first == pytest.approx(round(n_lost_first))
    assert 0 < round(n_lost_first) < N_ORDERS
    assert elo["elo"].sum() == pytest.approx(2000)


def test_who_wins_twice_gains_and_who_loses_twice_loses():
    """By hand: the first win moves 16 points, the second 32 (1 - e), with e = 1 / (1 + 10 ** (-32 / 400))."""
    gain = 16 + 32 * (1 - 1 / (1 + 10 ** (-32 / 400)))
    for games in ([(0, 1, 1)] * 2, [(1, 0, -1)] * 2):
        elo = make_battles("AB", games).elo_rows("made", 0).set_index("system")["elo"]
        assert elo.to_dict() == pytest.approx({"A": 1000 + gain, "B": 1000 - gain})


def test_elo_lies_within_its_range_where_the_file_has_all_losses_last():
    """All of A's wins stand before all of its losses, which no order at random has."""
    games = [(0, 1, 1)] * 30 + [(0, 1, -1)] * 30
    elo = make_battles("AB", games).elo_rows("made", 0)
    assert (elo["lowest"] < elo["elo"]).all()
    assert (elo["elo"] < elo["highest"]).all()


#: A beats B twice and loses once, ties with C twice; B beats C.
GAMES = [(0, 1, 1), (1, 0, -1), (0, 1, -1), (0, 2, 0), (2, 0, 0), (1, 2, 1)]


def test_wins_and_ties_are_counted_for_both_orders():
    battles = make_battles("ABC", GAMES)
    wins, ties = battles.totals
    assert wins.tolist() == [[0, 2, 0], [1, 0, 1], [0, 0, 0]]
    assert ties.tolist() == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]
    assert battles.n_judgements.tolist() == [5, 4, 3]
    assert battles.win_shares == pytest.approx([3 / 5, 2 / 4, 1 / 3])
    assert battles.win_rows("made").to_numpy().tolist() == [
        ["made", "overall", "A", "B", 2, 1, 0],
        ["made", "overall", "A", "C", 0, 0, 2],
        ["made", "overall", "B", "C", 1, 0, 0],
    ]
    doubled, _ = battles.count(np.array([[2.0], [0], [1], [0], [0], [3]]))
    assert doubled[:, :, 0].tolist() == [[0, 2, 0], [1, 0, 3], [0, 0, 0]]
    without_c = make_battles("ABC", [(0, 1, 1), (0, 2, 1)]).win_rows("made")
    assert without_c[["system_a", "system_b"]].to_numpy().tolist() == [["A", "B"], ["A", "C"]]
    battles.check_groups("made")


def test_systems_that_never_meet_are_named():
    with says(
        "dataset made, overall: 2 groups of systems are never compared with each other",
        "A,B,E | C,D; protocol.systems=A,B,E ranks the largest",
    ):
        make_battles("ABCDE", [(0, 1, 1), (2, 3, 0), (1, 4, -1)]).check_groups("made")


def test_how_often_the_longer_and_the_first_caption_win():
    """Of five decided ones: the first wins three; the longer two, the shorter two, and one of equal length."""
    signs, lengths = [1, 1, -1, -1, 1, 0], [1, -1, -1, 1, 0, 1]
    battles = make_battles("AB", [(0, 1, sign) for sign in signs])
    battles = replace(battles, lengths=np.array(lengths, dtype=float))
    assert battles.floor_shares() == pytest.approx((2.5 / 5, 3 / 5))
    tied = make_battles("AB", [(0, 1, 0)]).floor_shares()
    assert np.isnan(tied).all()


@pytest.mark.parametrize(
    ("games", "reason"),
    [
        ([(0, 1, 1), (1, 2, 1), (2, 1, 1)], "no other system beats or ties A, so"),
        ([(0, 1, 1), (1, 0, 1), (1, 2, 1)], "no other system beats or ties A, B, so"),
        ([(0, 1, -1), (1, 2, 0), (2, 0, 1)], "no other system beats or ties B, C, so"),
        ([(0, 1, 0), (1, 2, 0)], "too few wins beside the ties to tell strengths from"),
    ],
)
def test_systems_that_are_never_beaten_are_named(games, reason):
    assert unbounded_reason(make_battles("ABC", games)).startswith(reason)


def comparisons(**changes):
    """Two images with captions of A, B and C; each answer is of two captions."""
    texts = {"A1": "a", "B1": "a b", "C1": "a b c", "A2": "a b c d", "B2": "a", "B3": "x y"}
    items = make_items(
        [name[1] for name in texts], list(texts.values()), [("r",)] * 6,
        systems=[name[0] for name in texts],
    )  # fmt: skip
    ids = dict(zip(texts, items["item_id"], strict=True))
    rows = [
        ("p1", ids["A1"], ids["B1"], "x", 1.0),
        ("p2", ids["B1"], ids["C1"], "x", 0.0),
        ("p3", ids["A2"], ids["B2"], "x", -2.0),
        ("p4", ids["B2"], ids["A2"], "y", -1.0),
        ("p5", ids["B1"], ids["C1"], "y", 1.0),
        ("p6", ids["B2"], ids["B3"], "x", 1.0),
    ]
    pairs = changes.pop("pairs", [row[0] for row in rows])
    rows = [row for row in rows if row[0] in pairs]
    card = Card("made", "Made", "1", "", "", "")
    caption_set = CaptionSet(items, preferences=make_preferences(rows), card=card)
    protocol = Protocol.resolve("made", usual_protocol("pascal50s"), changes)
    return EvaluationSet.select(caption_set, protocol)


def test_comparisons_of_a_dataset_are_battles_by_dimension():
    found = BattleSet.make(comparisons())
    assert found.systems == ("A", "B", "C")
    assert (found.n_images, found.n_same_system) == (2, 1)
    x, y = sorted(found.by_dimension, key=lambda battles: battles.dimension)
    assert (x.dimension, y.dimension) == ("x", "y")
    assert [x.first.tolist(), x.second.tolist(), x.signs.tolist()] == [
        [0, 1, 0],
        [1, 2, 1],
        [1.0, 0.0, -1.0],
    ]
    assert x.lengths.tolist() == [-1.0, -1.0, 1.0]
    assert x.n_items.tolist() == [2, 2, 1]
    assert y.n_items.tolist() == [1, 2, 1]
    assert x.image.tolist() == [0, 0, 1]
    assert (y.first.tolist(), y.second.tolist()) == ([1, 1], [2, 0])
    assert (y.signs.tolist(), y.lengths.tolist()) == ([1.0, -1.0], [-1.0, -1.0])


def test_means_are_of_the_captions_of_compared_images():
    selection = comparisons()
    found = BattleSet.make(selection)
    items = selection.items
    scores = {"m": pd.Series(np.arange(6.0), index=items["item_id"])}
    means = found.means(items, scores)
    once, ones = np.array([[2.0], [0.0]]), np.ones((2, 1))
    assert list(means) == ["m", "floor_length", "floor_position"]
    # B's caption of image 3 is not compared with another system's.
    assert means["m"](ones)[:, 0].tolist() == [1.5, 2.5, 2.0]
    assert means["m"](once)[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert means["floor_length"](ones)[:, 0].tolist() == [2.5, 1.5, 3.0]
    # A stands first in two of three; B in three of five; C never.
    assert means["floor_position"](ones)[:, 0] == pytest.approx([2 / 3, 3 / 5, 0.0])
    source = replace(found, order_is_source=True)
    assert list(source.means(items, scores)) == ["m", "floor_length"]


def test_a_dataset_without_two_systems_in_a_pair_is_refused():
    with says("dataset made: no pair has captions of two different systems, which captau rank"):
        BattleSet.make(comparisons(pairs=["p6"]))
