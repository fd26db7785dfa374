"""`captau table sweep=DIR`: the cells of the jobs' files in one table, and the jobs that are not done."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.sweeps.jobs import read_sweep

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
