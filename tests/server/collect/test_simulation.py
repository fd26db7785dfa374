"""The simulator, through the real command line and HTTP."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.options.sites import ExportOptions, SimulateOptions
from captau.server.collect import simulation
from captau.server.collect.commands import export
from captau.server.collect.forms.game import GameForm
from captau.server.collect.items.units import StudyItem, StudyUnit
from captau.server.collect.simulation import (
    Player,
    PlayRecord,
    deserved_levels,
    list_players,
    make_points_table,
    make_speed_table,
)
from captau.server.collect.study import read_study
from tests.benchmarks.printed import lines_of
from tests.conftest import says
from tests.server.collect.conftest import write_study


@pytest.mark.slow
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


@pytest.mark.slow
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
    points = make_points_table(records)
    columns = ["players", "answers", "points: tutorial", "game", "practice", "passed"]
    assert (points.heads, lines_of(points)) == (
        columns,
        [
            ("honest", ["2", "4", "2.00", "1.00", "", "1 of 2"]),
            ("random", ["1", "1", "", "-1.00", "", "0 of 1"]),
        ],
    )
    without = make_points_table([PlayRecord("honest", 3), PlayRecord("constant", 1)])
    assert (without.heads, lines_of(without)) == (
        ["players", "answers"],
        [("honest", ["1", "3"]), ("constant", ["1", "1"])],
    )
    # 21 requests in 2 s: the 11th and the 20th of them, counted from 1.
    speed = make_speed_table(records, 2.0)
    assert lines_of(speed) == [("3", ["5", "2", "10", "11", "20", "1"])]
    assert lines_of(make_speed_table([PlayRecord("honest")], 1.0)) == [
        ("1", ["0", "0", "0", "0", "0", "0"])
    ]


def page(key=None, status=200, heading="", **shown):
    """Return a page as players read it; with a key it asks for an answer."""
    hidden = {} if key is None else {"key": key, "token": "t"}
    facts = {"captions": [], "practice": None, "wait": 0.0, "score": None}
    facts |= {"consensus": None, "turn": None}
    return SimpleNamespace(status=status, heading=heading, hidden=hidden, **{**facts, **shown})


class ScriptedBrowser:
    """A browser to which a server answers with given pages; it notes what was asked."""

    def __init__(self, *pages):
        self.pages, self.asked, self.request_seconds = list(pages), [], [0.25, 0.5]

    def get(self, path):
        self.asked.append(path)
        return self.pages.pop(0)

    def post(self, path, fields, *, follow):
        self.asked.append((path, fields, follow))
        answered = self.pages.pop(0)
        if isinstance(answered, Exception):
            raise answered
        return answered


def play(monkeypatch, *pages, n_answers=9, kind="constant", study="demo_game", **options):
    """Let a player meet pages; return the record, the browser and the pauses on a clock that they move."""
    now, pauses, joined = [100.0], [], []

    def sleep(seconds):
        pauses.append(round(seconds, 6))
        now[0] += seconds

    def join(url, nickname, path):
        joined.append((url, nickname))
        return browser

    browser = ScriptedBrowser(*pages)
    monkeypatch.setattr(simulation, "join_study", join)
    monkeypatch.setattr(
        simulation, "time", SimpleNamespace(perf_counter=lambda: now[0], sleep=sleep)
    )
    player = Player(kind, {}, read_study(study), **options)
    record = player.play("http://x", n_answers, (7, 3))
    return record, browser, pauses, joined


def test_a_player_answers_until_nothing_is_left_and_notes_the_points(monkeypatch):
    """The majority's player says 3 first, and then the consensus that most feedback told."""
    pages = [
        page("a", captions=["one"], practice="tutorial", wait=2.0),
        page(score=2, turn="tutorial_done", consensus=5),
        page("b", captions=["two"]),
        page("c", captions=["three"], score=-1, consensus=4),  # feedback with the next pair
        page(score=0, turn="", consensus=5),
        page(),
    ]
    record, browser, pauses, joined = play(monkeypatch, *pages, kind="majority")
    assert joined == [("http://x", "majority 3")]
    posts = [asked[1:] for asked in browser.asked if asked[0] == "/rate" and len(asked) == 3]
    assert posts == [
        ({"key": key, "token": "t", "rating": rating}, True)
        for key, rating in (("a", 3), ("b", 5), ("c", 5))
    ]
    assert [asked for asked in browser.asked if asked == "/rate"] == ["/rate"] * 3
    assert pauses == [2.0, 0.0, 0.0]
    assert record == PlayRecord(
        *("majority", 3, {"tutorial": [2], "playing": [-1, 0]}, [0.25, 0.5], ""),
        ["tutorial_done"],
    )


def test_a_player_stops_after_its_answers_and_keeps_its_pace(monkeypatch):
    """The first answer is due within a pace of the beginning, the others a pace later each."""
    pages = [page("a"), page("b"), page("c", wait=30.0), page("d")]
    pages = [SimpleNamespace(**{**vars(p), "captions": ["x"]}) for p in pages]
    record, browser, pauses, _ = play(
        monkeypatch, *pages, n_answers=3, pace=10.0, reads_feedback=False
    )
    first = 10.0 * np.random.default_rng([7, 3]).random()
    assert pauses == [round(first + 10.0, 6), 10.0, 30.0]
    assert (record.answers, record.fault, record.took) == (3, "", [0.25, 0.5])
    assert [asked[2] for asked in browser.asked if len(asked) == 3] == [False] * 3


@pytest.mark.parametrize(
    ("answered", "fault"),
    [
        (page(status=429, heading="Too many"), "429 Too many"),
        (page(status=204, heading="x"), "204 x"),
        (ConnectionResetError("gone"), "gone"),
        (TimeoutError(), "TimeoutError"),
        (http.client.BadStatusLine("x"), "x"),
    ],
)
def test_a_player_that_is_stopped_says_by_what(monkeypatch, answered, fault):
    asked = page("a", captions=["x"])
    record, *_ = play(monkeypatch, asked, page("b", captions=["x"], status=303), answered)
    assert (record.answers, record.scores, record.took) == (1, {}, [])
    assert (
        record.fault in (fault, f"{fault}('')", "''") if "Bad" in fault else record.fault == fault
    )


def test_a_study_without_nicknames_gets_none_and_a_form_s_own_fields(monkeypatch):
    pages = [page("a", captions=["x"]), page()]
    _, browser, _, joined = play(monkeypatch, *pages, page(), study="demo_good_bad")
    assert joined == [("http://x", "")]
    assert browser.asked[1][1] in (
        {"key": "a", "token": "t", "answer": a} for a in ("good", "skip")
    )


def test_captions_deserve_their_mean_rating_or_what_is_known_or_three():
    items = [
        StudyItem("i", "p", "", caption, (), None, "", rating)
        for caption, rating in (("A dog.", 4.5), ("A dog", None), ("A cat", None), ("A cat", 2.0))
    ]
    units = [
        StudyUnit("main", "p", "", (items[0], items[1])),
        StudyUnit("main", "p", "", (items[2],), (5,)),
        StudyUnit("main", "p", "", (items[3],), (5,)),
    ]
    study = SimpleNamespace(units=units, form=GameForm())
    assert deserved_levels(study) == {"A dog.": (4.5 + 3) / 2, "A cat.": (5 + 2) / 2}


def test_players_are_whole_numbers_of_known_kinds():
    assert list_players({"honest": 0, "majority": 1}) == ["majority"]
    assert len(list_players({"constant": 10_000})) == 10_000
    for counts, message in (
        ({"honest": 10_001}, "players.honest=10001: a whole number is expected"),
        ({"honest": True}, "players.honest=True: a whole number is expected"),
        ({"honest": 1.0}, "players.honest=1.0: a whole number is expected"),
        ({"honest": 0}, "players: none"),
        (None, "players=None: {honest: 10, random: 5} is expected"),
    ):
        with says(message):
            list_players(counts)


class StubServer:
    """Stands for a study's server, which is stopped at the end."""

    log: list

    def __init__(self, options, wait):
        self.url = "http://stub"
        self.log.append((options, wait))

    def stop(self):
        self.log.append("stopped")


@pytest.mark.parametrize("fault", ["", "gone"])
def test_a_simulation_is_written_as_a_run(monkeypatch, tmp_path, fault):
    records = [PlayRecord("honest", 2, {"playing": [1, 2]}, [0.5], fault, ["trial_passed"])]
    calls = []

    def play_everyone(*args):
        calls.append(args)
        return records, 2.34567

    StubServer.log = []
    monkeypatch.setattr(simulation, "StudyServer", StubServer)
    monkeypatch.setattr(simulation, "play_all", play_everyone)
    options = SimulateOptions(
        study="demo_game",
        players={"honest": 1, "random": 2},
        answers=2,
        seed=5,
        wait=0.5,
        database=tmp_path / "kept.sqlite3",
        output_dir=tmp_path / "out",
    )
    report = simulation.run_simulation(options)
    ((url, study, *rest),) = calls
    assert (url, study.form.course.wait) == ("http://stub", 0.5)
    assert rest == [["honest", "random", "random"], 2, 5]
    ((served, wait), ended) = StubServer.log
    assert (served.database, served.study, wait, ended) == (
        tmp_path / "kept.sqlite3",
        "demo_game",
        0.5,
        "stopped",
    )
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    expected = {
        "command": "collect simulate",
        "config": {"study": "demo_game", "players": {"honest": 1, "random": 2}, "answers": 2},
        **{"study": "demo_game", "players": {"honest": 1, "random": 2}, "answers": 2},
        **{"wait": 0.5, "seed": 5, "noise": {"honest": 0.5, "careless": 1.2}, "seconds": 2.346},
        "played": [
            {
                **{"kind": "honest", "answers": 2, "scores": {"playing": [1, 2]}},
                **{"fault": fault, "turns": ["trial_passed"]},
            }
        ],
    }
    assert {name: run[name] for name in expected} == expected
    assert report.fault == ("1 of 1 players were stopped: gone" if fault else "")
    lines = report.text.splitlines()
    assert lines[-2:] == [
        f"written to {tmp_path / 'out'}",
        f"the answers are in {tmp_path / 'kept.sqlite3'}",
    ]
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| honest | 1 | 2 |  | 1.50 |  | 1 of 1 |" in table.splitlines()
    for changes, message in (
        ({"answers": 0}, "answers=0: a number from 1 on is expected"),
        ({"answers": 100_001}, "answers=100001: a number from 1 on is expected"),
    ):
        with says(message):
            simulation.run_simulation(replace(options, **changes))


@pytest.mark.parametrize("participants", ["invitation", "crowd"])
def test_studies_by_invitation_and_of_a_crowd_are_simulated_as_they_are(tmp_path, participants):
    path = write_study(tmp_path, "good_bad", participants=participants)
    database = tmp_path / "try.sqlite3"
    options = SimulateOptions(
        study=str(path),
        database=database,
        players={"honest": 2},
        answers=3,
        output_dir=tmp_path / "run",
    )
    assert not simulation.run_simulation(options).fault

    # What they answered is exported by the study's own file.
    export(ExportOptions(study=str(path), database=database, output_dir=tmp_path / "gathered"))
    ratings = pd.read_csv(tmp_path / "gathered" / "ratings.csv")
    assert ratings["rater"].nunique() == 2


def test_a_study_whose_annotators_have_names_is_not_simulated(tmp_path):
    annotators = [{"first": "Ann", "second": "Ben"}]
    path = write_study(
        tmp_path, "thumb", participants="invitation", ratings=None, thumb={"annotators": annotators}
    )
    with says("study small: its images are assigned to Ann, Ben; leave thumb.annotators out"):
        simulation.run_simulation(SimulateOptions(study=str(path), output_dir=tmp_path / "run"))
