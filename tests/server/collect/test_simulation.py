"""The simulator, through the real command line and HTTP."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from captau.server.collect.simulation import (
    DEFAULT_PLAYERS,
    Player,
    PlayRecord,
    _points_table,
    _speed_table,
    deserved_levels,
    list_players,
)
from captau.server.collect.study import read_study
from tests.conftest import says
from tests.server.collect.conftest import write_study


def test_honest_players_win_the_most_points(captau, tmp_path):
    """Honest players earn more than all others, who on the whole earn nothing."""
    status, output, fault = captau(
        "collect",
        "simulate",
        "players={honest: 4, random: 3, constant: 3, majority: 3}",
        "answers=40",
        "database=played.sqlite3",
        "output_dir=out",
    )
    assert status == 0, fault
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    points = {}
    for player in record["played"]:
        scores = [s for phase in player["scores"].values() for s in phase]
        points.setdefault(player["kind"], []).extend(scores)
    mean_points = {kind: sum(scores) / len(scores) for kind, scores in points.items()}
    assert mean_points["honest"] > 0.7
    assert max(mean_points[kind] for kind in ("random", "constant", "majority")) < 0.4
    assert "| honest | 4 | 160 |" in output
    # The run is one like every command's: readers open it, and notice an edit.
    status, table, fault = captau("table", "run=out")
    assert status == 0, fault
    assert "| honest | 4 | 160 |" in table
    status, cited, fault = captau("cite", "run=out")
    assert status == 0, fault
    assert "what players of given skill make of a study" in " ".join(cited.split())
    printed = tmp_path / "out" / "table.md"
    printed.write_text(printed.read_text().replace("160", "161"))
    status, _, fault = captau("table", "run=out")
    assert (status, fault.count("\n")) == (2, 1)
    assert "table.md" in fault
    # What was played is a dataset.
    status, _, fault = captau(
        "collect", "export", "study=demo_game", "database=played.sqlite3", "output_dir=gathered"
    )
    assert status == 0, fault
    status, agreement, fault = captau(
        "agree",
        "dataset=file",
        "file.path=gathered/ratings.csv",
        "file.low=1",
        "file.high=5",
        "output_dir=agreed",
    )
    assert status == 0, fault
    assert "| Krippendorff's α, ordinal | –" not in agreement


def test_a_faulty_study_is_reported_in_one_line(captau, tmp_path):
    path = write_study(tmp_path, ratings=0)
    for words in (["collect", "port=0"], ["collect", "simulate"], ["collect", "export"]):
        status, _, fault = captau(*words, f"study={path}")
        assert status == 2
        assert fault.count("\n") == 1
        assert "ratings: 0 is not a whole number" in fault
    status, _, fault = captau("collect", "export", "study=demo_thumb")
    assert status == 2
    assert "collected/demo_thumb.sqlite3: no such file" in fault


def test_players_are_listed_and_captions_have_deserved_levels():
    assert list_players({"honest": 2, "random": 1}) == ["honest", "honest", "random"]
    with says("unknown kind of player 'honset'", "honest"):
        list_players({"honset": 1})
    for counts in ({}, [], {"honest": -1}, {"honest": "x"}, {"honest": 0}):
        with says("players"):
            list_players(counts)
    levels = deserved_levels(read_study("demo_game"))
    assert levels["An orange rhombus placed right of a pink star on white."] == pytest.approx(
        5, abs=0.7
    )


@pytest.mark.parametrize(
    ("study", "levels"),
    [
        ("demo_good_bad", {"A small blue hexagon is above a large green circle.": 1}),
        (
            "demo_ab",
            {"A brown dog on a red sofa.": 1, "The picture shows coloured shapes on white.": 5},
        ),
    ],
)
def test_simulated_raters_know_the_captions_with_known_answers(study, levels):
    deserved = deserved_levels(read_study(study))
    assert {caption: deserved[caption] for caption in levels} == levels


def test_thumb_s_ratings_go_from_collecting_to_agree_rank_and_bench(captau, tmp_path):
    """The documented way: no scale is named, since the export writes them beside the ratings."""
    commands = [
        "collect simulate study=demo_thumb players={honest:2} answers=15 database=d.sqlite3 output_dir=s",
        "collect export study=demo_thumb database=d.sqlite3 output_dir=gathered",
        "agree dataset=file file.path=gathered/ratings.csv protocol.dimension=precision output_dir=a",
        "rank dataset=file file.path=gathered/settled.csv metrics=bleu_1 statistics.replicates=20 output_dir=r",
        "bench dataset=file file.path=gathered/settled.csv metrics=bleu_1 output_dir=b",
    ]
    outputs = []
    for command in commands:
        status, output, fault = captau(*command.split())
        assert status == 0, fault
        outputs.append(output)
    assert "| kind | players | answers |" in outputs[0]
    assert "points" not in outputs[0]
    settled = pd.read_csv(tmp_path / "gathered" / "settled.csv")
    systems = pd.read_csv(tmp_path / "r" / "systems.csv")
    precision = systems[systems["dimension"] == "precision"].set_index("system")["value"]
    by_hand = settled[settled["dimension"] == "precision"].groupby("system")["value"].mean()
    assert precision.loc[by_hand.index].tolist() == pytest.approx(by_hand.tolist())
    correlations = pd.read_csv(tmp_path / "b" / "correlations.csv")
    assert {"precision", "recall", "total"} <= set(correlations["dimension"])
    agreement = pd.read_csv(tmp_path / "a" / "agreement.csv")
    assert agreement["n_items"].max() == settled["caption"].count() // 6


def test_tables_of_players_have_their_means_and_quantiles():
    feedback = SimpleNamespace
    records = [PlayRecord("honest", 3, took=[0.001 * k for k in range(1, 21)])]
    for phase, score, turn in (
        ("tutorial", 2, ""),
        ("playing", 1, "trial_passed"),
        ("playing", 2, "tutorial_done"),
        ("probation", None, "trial_failed"),
    ):
        records[0].add_feedback(phase, feedback(score=score, turn=turn))
    records.append(PlayRecord("random", 1, {"playing": [-1]}, [0.5], "gone", ["trial_failed"]))
    records.append(PlayRecord("honest", 1, {"playing": [0]}, [], "", ["trial_failed"]))
    assert records[0].turns == ["trial_passed", "tutorial_done"]
    points = _points_table(records)
    columns = ["players", "answers", "points: tutorial", "game", "practice", "passed"]
    assert (points.columns, points.rows) == (
        columns,
        [
            ("honest", ["2", "4", "2.00", "1.00", "", "1 of 2"]),
            ("random", ["1", "1", "", "-1.00", "", "0 of 1"]),
        ],
    )
    without = _points_table([PlayRecord("honest", 3), PlayRecord("constant", 1)])
    assert (without.columns, without.rows) == (
        ["players", "answers"],
        [("honest", ["1", "3"]), ("constant", ["1", "1"])],
    )
    # 21 requests in 2 s: the 11th and the 20th of them, counted from 1.
    speed = _speed_table(records, 2.0)
    assert speed.rows == [("3", ["5", "2", "10", "11", "20", "1"])]
    assert _speed_table([PlayRecord("honest")], 1.0).rows == [("1", ["0", "0", "0", "0", "0", "0"])]


def test_each_kind_of_player_chooses_in_its_way():
    study, rng = read_study("demo_game"), np.random.default_rng(0)
    caption = next(iter(deserved_levels(study)))
    counts = Counter({2: 3, 5: 1})

    def draw(kind, counts, n=300, level=4.0):
        player = Player(kind, {caption: level}, study)
        return [player._draw_level(caption, rng, counts) for _ in range(n)]

    assert set(draw("constant", counts)) == {3}
    assert (set(draw("majority", counts)), set(draw("majority", Counter()))) == ({2}, {3})
    assert set(draw("random", counts)) == {1, 2, 3, 4, 5}
    for kind, deviation in (("honest", 0.5), ("careless", 1.2)):
        levels = draw(kind, counts, 3000, 3.0)
        assert np.mean(levels) == pytest.approx(3, abs=0.1)
        # Rounding adds a variance of a twelfth; the ends of the scale cut off some of the careless ones'.
        assert np.std(levels) == pytest.approx((deviation**2 + 1 / 12) ** 0.5, abs=0.12)
    assert set(draw("honest", counts, level=9.0)) == {5}
    assert set(draw("honest", counts, level=-9.0)) == {1}
    assert Player("honest", {}, study)._draw_level("no such caption", rng, counts) in range(1, 6)
    assert DEFAULT_PLAYERS == {
        "honest": 12,
        "careless": 4,
        "random": 4,
        "constant": 4,
        "majority": 4,
    }
