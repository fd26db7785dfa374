"""Comparisons of two systems, counted and rated by Elo: worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.evaluation.system_battles import N_ORDERS, Battles


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
