"""`captau table sweep=DIR`: the cells of the jobs' files in one table, and the jobs that are not done."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.options.finished_runs import SweepTableOptions
from captau.benchmarks.runs.finished_run import FinishedRun
from captau.benchmarks.sweeps import gather as gather_module
from captau.benchmarks.sweeps.gather import GatheredRuns
from captau.benchmarks.sweeps.jobs import JobOutcome, Sweep, read_sweep, write_outcome
from tests.benchmarks.reporting.made_runs import made_run
from tests.conftest import says

CHEAP = ("statistics.replicates=50", "protocol.coefficients=[tau_c,pearson]")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Run a sweep of three jobs, of which the last needs a file that is missing."""
    folder = tmp_path_factory.mktemp("swept")
    metrics = 'metrics=[rouge_1],[rouge_2],["file(path=mine.csv,name=Mine)"]'
    before = Path.cwd()
    os.chdir(folder)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["bench", "-m", metrics, *CHEAP, "output_dir=sweep"])
    finally:
        os.chdir(before)
    assert ended.value.code == 2
    return folder


@pytest.fixture
def captau(captau, tmp_path, swept):
    """The program beside a copy of that sweep."""
    shutil.copytree(swept, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "sweep" / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "directory": str(tmp_path)}))
    return captau


@pytest.fixture
def gathered(tmp_path):
    """What three jobs wrote by hand, of which the second has failed."""
    sweep = Sweep(tmp_path, "bench", (("b=x", "a=1"), ("b=y", "a=2"), ("b=x", "a=3")), (), "/from")
    outcomes = [
        JobOutcome("done"),
        JobOutcome("failed", 2, "no file", captau="1"),
        JobOutcome("done"),
    ]
    records = [
        {
            "command": "bench",
            "files": {"correlations.csv": ""},
            "config": {"statistics": {"replicates": 50, "interval": "percentile"}},
            "data": {"demo": {"synthetic": True, "digest": digest}},
        }
        for digest in ("d1", "d2")
    ]
    runs = {n: FinishedRun(tmp_path / str(n), r) for n, r in zip((0, 2), records, strict=True)}
    rows = [
        ("0", "a=1", "demo", "usual", "overall", "cider", "tau_c", "0.5", "0.25", "0.75", "12"),
        ("2", "a=3", "demo", "usual", "overall", "cider", "pearson", "", "", "", ""),
    ]
    columns = ["job", "overrides", "dataset", "protocol", "dimension", "metric", "coefficient"]
    columns += ["value", "ci_low", "ci_high", "n"]
    frame = pd.DataFrame(rows, columns=columns)
    return GatheredRuns(sweep, outcomes, runs, frame, [])


def test_the_table_of_a_sweep_to_the_letter(gathered):
    assert gathered.render("markdown").splitlines() == [
        "**2 of 3 jobs of captau bench**",
        "",
        "| job | a, b | dataset | protocol | dimension | metric | coefficient | value | low | high |",
        "|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|",
        "| 0 | a=1 | demo | usual | overall | cider | τ_c | 50.0 | 25.0 | 75.0 |",
        "| 2 | a=3 | demo | usual | overall | cider | r | – | – | – |",
        "",
        "3 jobs: 2 done, 1 failed",
        "",
        "job 1 (b=y a=2): failed: no file",
        "",
        "demo is SYNTHETIC, drawn by rule: nothing about real metrics follows.",
        "",
        "demo is not of the same content in all jobs.",
        "",
        "Coefficients ×100.",
        "",
        "low, high: the 95 % interval (percentile bootstrap over images, 50 replicates).",
    ]
    assert gathered.is_grid is False
    assert gathered.drawn is gathered.table


def test_the_record_of_a_sweep_has_numbers_where_texts_are_some(gathered):
    record = json.loads(gathered.render("json"))
    assert (record["format"], record["command"]) == (1, "bench")
    assert record["jobs"][1] == {
        **{"job": 1, "overrides": ["b=y", "a=2"], "state": "failed", "status": 2},
        **{"message": "no file", "trace": "", "captau": "1", "where": "", "started": ""},
        **{"seconds": 0.0, "folder": "1"},
    }
    names = {"job": 0, "overrides": "a=1", "dataset": "demo", "protocol": "usual"}
    names |= {"dimension": "overall", "metric": "cider", "coefficient": "tau_c"}
    numbers = {"value": 0.5, "ci_low": 0.25, "ci_high": 0.75, "n": 12}
    assert record["rows"][0] == names | numbers
    assert [record["rows"][1][key] for key in numbers] == [None] * 4
    assert type(record["rows"][0]["n"]) is int


def test_a_dataset_of_one_content_in_all_jobs_is_not_named(gathered):
    alike = {
        n: replace(run, run={**run.run, "data": {"demo": {"synthetic": False, "digest": "d"}}})
        for n, run in gathered.runs.items()
    }
    notes = replace(gathered, runs=alike).table.notes
    assert notes[:3] == [
        "3 jobs: 2 done, 1 failed",
        "job 1 (b=y a=2): failed: no file",
        "Coefficients ×100.",
    ]


def test_rows_of_all_jobs_are_numbered_through(tmp_path):
    """Two runs of two rows each, and a job that has not begun."""
    sweep = Sweep(tmp_path, "bench", (("a=1",), ("a=2",), ("a=3",)), (), "/from")
    tmp_path.joinpath("sweep.json").write_text(
        json.dumps({"command": "bench", "jobs": sweep.jobs, "options": [], "directory": "/from"})
    )
    for number, value in ((0, 0.5), (1, 0.25)):
        rows = [
            ("demo", "overall", c, "bleu_1", value, 0.1, 0.9, 1, "") for c in ("tau_c", "pearson")
        ]
        made_run(tmp_path / str(number), rows)
        write_outcome(tmp_path / str(number), JobOutcome("done"))
    found = gather_module.gather(tmp_path)
    assert found.rows.index.tolist() == [0, 1, 2, 3]
    assert found.rows[["job", "overrides", "coefficient", "value"]].to_numpy().tolist() == [
        ["0", "a=1", "tau_c", "0.5"],
        ["0", "a=1", "pearson", "0.5"],
        ["1", "a=2", "tau_c", "0.25"],
        ["1", "a=2", "pearson", "0.25"],
    ]
    assert [outcome.state for outcome in found.outcomes] == ["done", "done", "waiting"]
    assert (list(found.runs), found.damaged) == ([0, 1], [])
    (tmp_path / "1" / "correlations.csv").write_text("x")
    damaged = gather_module.gather(tmp_path)
    assert (list(damaged.runs), damaged.damaged) == ([0], [1])
    assert damaged.outcomes[1].state == "failed"
    assert "correlations.csv" in damaged.outcomes[1].message


def test_csv_is_that_of_the_rows_and_other_styles_that_of_the_table(gathered):
    assert gathered.render("csv").splitlines()[0] == ",".join(gathered.rows.columns)
    assert gathered.render("html").startswith("<table")
    assert "\\begin{tabular}" in gathered.render("latex")


def test_unfinished_jobs_and_how_to_run_them(gathered, monkeypatch, tmp_path):
    assert gathered.unfinished == ["job 1 (b=y a=2): failed: no file"]
    command = f"captau bench --multirun b=x,y a=1,2,3 output_dir={tmp_path.resolve()}"
    start = "rerun=true runs the jobs that are not done, and so does: "
    assert gathered.remedy == [f"{start}cd /from && {command}"]
    monkeypatch.setattr(gather_module.Path, "cwd", lambda: Path("/from"))
    assert gathered.remedy == [f"{start}{command}"]
    done = replace(gathered, runs=dict.fromkeys(range(3)))
    assert (done.unfinished, done.remedy) == ([], [])
    waiting = replace(gathered, outcomes=[JobOutcome("waiting")] * 3)
    assert waiting.unfinished == ["job 1 (b=y a=2): waiting"]


@pytest.mark.parametrize(
    ("command", "words", "digests", "expected"),
    [
        ("bench", ("dataset=a", "metrics=b"), ("d", "d"), True),
        ("bench", ("dataset=a", "metrics=b"), ("d", "e"), False),
        ("bench", ("dataset=a", "protocol.ratings=mean"), ("d", "d"), False),
        ("probe", ("dataset=a", "metrics=b"), ("d", "d"), False),
        ("bench", ("dataset=a",), (), False),
    ],
)
def test_jobs_of_datasets_and_metrics_make_a_grid(gathered, command, words, digests, expected):
    runs = {
        n: FinishedRun(Path(), {"data": {"demo": {"digest": digest}}})
        for n, digest in enumerate(digests)
    }
    sweep = replace(gathered.sweep, command=command, jobs=((), words))
    assert replace(gathered, sweep=sweep, runs=runs).is_grid is expected


def test_damaged_jobs_are_run_again_with_those_that_failed(gathered, tmp_path, monkeypatch):
    def run(words, **options):
        called.append((words[3:], options))

    def gather_again(folder):
        read.append(folder)
        return replace(gathered, damaged=[0])

    called, read = [], []
    monkeypatch.setattr(gather_module.subprocess, "run", run)
    monkeypatch.setattr(gather_module, "gather", gather_again)
    for number in (0, 1):
        write_outcome(tmp_path / str(number), JobOutcome("done"))
    options = SweepTableOptions(sweep=tmp_path, rerun=True)
    gather_module.run(options)
    words = ["bench", "--multirun", "b=x,y", "a=1,2,3", f"output_dir={tmp_path.resolve()}"]
    assert called == [(words, {"cwd": "/from", "check": False, "stdout": 2})]
    assert read == [tmp_path] * 2
    assert not (tmp_path / "0" / "job.json").exists()
    assert (tmp_path / "1" / "job.json").exists()
    gather_module.run(replace(options, rerun=False))
    assert len(called) == 1

    def refuse(words, **options):
        raise FileNotFoundError(2, "No such file or directory")

    write_outcome(tmp_path / "0", JobOutcome("done"))
    monkeypatch.setattr(gather_module.subprocess, "run", refuse)
    with says("/from, where the sweep was begun: No such file or directory"):
        gather_module.run(options)


def cells(path):
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def test_gathered_rows_are_those_of_single_runs(captau):
    status, table, err = captau("table", "sweep=sweep")
    assert status == 1
    assert err.startswith(
        'captau: job 2 (metrics=["file(path=mine.csv,name=Mine)"]): failed: metric'
    )
    assert "3 jobs: 2 done, 1 failed" in table
    for style in ("csv", "json", "latex", "html"):
        words = ("sweep=sweep", f"style={style}", f"output=all.{style}")
        assert captau("table", *words)[0] == 1
    head, *rows = cells("all.csv")
    assert head[:3] == ["job", "overrides", "dataset"]
    assert captau("bench", "metrics=[rouge_2]", *CHEAP, "output_dir=alone")[0] == 0
    alone_head, *alone = cells("alone/correlations.csv")
    assert head[2:] == alone_head
    assert [row[2:] for row in rows if row[:2] == ["1", "metrics=[rouge_2]"]] == alone
    assert len(rows) == 2 * len(alone)

    record = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert [job["state"] for job in record["jobs"]] == ["done", "done", "failed"]
    value = head.index("value")
    assert [row["value"] for row in record["rows"]] == [
        float(row[value]) if row[value] else None for row in rows
    ]
    assert "<td" in Path("all.html").read_text(encoding="utf-8")
    assert r"\begin{tabular}" in Path("all.latex").read_text(encoding="utf-8")
    row = next(line for line in table.splitlines() if line.startswith("| ROUGE-2 |"))
    assert f"{100 * float(alone[0][value - 2]):.1f}" in row
    assert "SYNTHETIC" in table
    assert "the 95 % interval (expanded percentile bootstrap over images, 50 replicates)." in table


def test_jobs_that_differ_in_other_choices_are_listed_one_below_the_other(captau):
    words = ("metrics=rouge_2", "protocol.ratings=mean,median", *CHEAP)
    assert captau("bench", "-m", *words, "output_dir=choices")[0] == 0
    table = captau("table", "sweep=choices")[1]
    assert "| 1 | protocol.ratings=median | demo |" in table
    assert "low, high: the 95 % interval" in table


def test_what_is_not_done_is_run_again_alone(captau, tmp_path):
    items = __import__("captau").load("demo").items
    items.assign(score=1.0 * items["caption"].str.len())[["item_id", "score"]].to_csv("mine.csv")
    _, _, err = captau("table", "sweep=sweep")
    command = shlex.split(err.partition("so does: ")[2])
    assert command[:3] == ["captau", "bench", "--multirun"]
    before = [(tmp_path / "sweep" / n / "run.json").stat().st_mtime_ns for n in "01"]

    status, out, err = captau("table", "sweep=sweep", "rerun=true", "style=csv")
    assert status == 0, err
    assert {row[0] for row in csv.reader(out.splitlines()[1:])} == {"0", "1", "2"}
    assert before == [(tmp_path / "sweep" / n / "run.json").stat().st_mtime_ns for n in "01"]

    assert captau(*command[1:])[0] == 0, "the printed command does as much"
    assert before == [(tmp_path / "sweep" / n / "run.json").stat().st_mtime_ns for n in "01"]


def test_killed_waiting_and_damaged_jobs_are_listed(captau, tmp_path):
    job = tmp_path / "sweep" / "0" / "job.json"
    job.write_text(json.dumps({**json.loads(job.read_text()), "state": "running"}))
    shutil.rmtree(tmp_path / "sweep" / "2")
    with (tmp_path / "sweep" / "1" / "correlations.csv").open("a") as stream:
        stream.write("demo,usual\n")
    status, out, err = captau("table", "sweep=sweep")
    assert status == 1
    killed, damaged, waiting, _ = err.splitlines()
    assert "job 0 (metrics=[rouge_1]): killed: its process ended without a word" in killed
    assert "job 1 (metrics=[rouge_2]): failed: " in damaged
    assert "cut short, or edited" in damaged
    assert waiting.endswith(": waiting")
    assert "3 jobs: 1 failed, 1 killed, 1 waiting" in out
    assert not captau("table", "sweep=sweep", "style=csv")[1].strip()


def test_the_tables_of_other_commands_are_gathered(captau):
    assert captau("agree", "-m", "dataset=demo", "seed=0,1", "draws=2", "output_dir=agreed")[0] == 0
    assert captau("table", "sweep=agreed", "style=csv", "output=agreed.csv")[0] == 0
    head, *rows = cells("agreed.csv")
    assert head[:3] == ["job", "overrides", "dataset"]
    single = [cells(f"agreed/{n}/agreement.csv")[1:] for n in "01"]
    assert [row[2:] for row in rows] == single[0] + single[1]
    assert {(row[0], row[1]) for row in rows} == {("0", "seed=0"), ("1", "seed=1")}


def test_a_folder_without_a_readable_sweep_is_one_line(captau, tmp_path):
    for folder, message in (
        ("nowhere", "nowhere has no sweep.json: it is no sweep's folder"),
        ("sweep/0", "has no sweep.json"),
    ):
        status, _, err = captau("table", f"sweep={folder}")
        assert status == 2
        assert message in err
    assert captau("data", "list", "-m", "data.root=null,.", "output_dir=lists")[0] == 2
    (tmp_path / "sweep" / "sweep.json").write_text("{")
    assert "cannot be read" in captau("table", "sweep=sweep")[2]


def test_a_sweep_of_a_command_without_numbers_is_not_gathered(captau, tmp_path):
    path = tmp_path / "sweep" / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "command": "table"}))
    for record in (tmp_path / "sweep").glob("*/run.json"):
        record.unlink()
    assert "a sweep of captau table, which has no numbers" in captau("table", "sweep=sweep")[2]
    assert read_sweep(tmp_path / "sweep").command == "table"


def test_options_of_runs_and_of_sweeps_do_not_mix(captau):
    for words, message in (
        (["sweep=sweep", "run=sweep/0"], "run= does not go with sweep="),
        (["sweep=sweep", "published=all"], "published= does not go with sweep="),
        (["run=sweep/0", "rerun=true"], "rerun=true needs a sweep: sweep=DIR"),
        ([], "there is no finished run in results/runs; name one with run=DIR"),
    ):
        status, _, err = captau("table", *words)
        assert status == 2
        assert message in err
