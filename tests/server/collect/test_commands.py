"""`captau collect` as it is typed: served until it is stopped, and its errors."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

from captau.benchmarks.options.sites import (
    ExportOptions,
    SimulateOptions,
    StabilityOptions,
)
from captau.server.collect import commands, simulation
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.store.tables import SCHEMA
from captau.server.storage.database import Database
from tests.conftest import says
from tests.server.collect.conftest import make_site, serve_site, write_study
from tests.server.collect.test_rerun_stability import good_bad_answers, write_export

MAIN = "from captau.benchmarks.cli.main import main; main()"


def test_the_command_serves_until_it_is_stopped_and_resumes(tmp_path):
    path = write_study(tmp_path, "good_bad")
    arguments = ["collect", f"study={path}", "port=0", "database=kept/here.sqlite3"]
    server = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = [server.stdout.readline() for _ in range(3)]
    assert lines[0].startswith("A small study: http://127.0.0.1:")
    assert lines[1] == "18 to judge, kept in kept/here.sqlite3\n"
    assert "/admin/setup?code=" in lines[2]
    url = lines[0].split(": ")[1].strip().rstrip("/")
    browser = join_study(url)
    browser.post("/rate", {**browser.get("/rate").hidden, "answer": "good"})
    server.send_signal(signal.SIGINT)
    _, stderr = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "captau: stopped; every answer that was acknowledged is kept" in stderr
    assert "Traceback" not in stderr
    site = make_site(tmp_path, database=tmp_path / "kept" / "here.sqlite3")
    assert len(site.store.database.run_blocking(site.store.load_rows)["answers"]) == 1
    site.store.database.close()


def test_answers_are_exported_while_the_site_runs(captau, tmp_path):
    path = write_study(tmp_path, "good_bad")
    site = make_site(tmp_path, database=tmp_path / "small.sqlite3")
    arguments = ("collect", "export", f"study={path}", "database=small.sqlite3")
    with serve_site(site) as url:
        browser = join_study(url)
        for number in (1, 2):
            browser.post("/rate", {**browser.get("/rate").hidden, "answer": "good"})
            status, _, fault = captau(*arguments, f"output_dir=gathered{number}")
            assert status == 0, fault
            rows = (tmp_path / f"gathered{number}" / "ratings.csv").read_text().splitlines()
            assert len(rows) == 1 + number
        status, _, fault = captau("collect", f"study={path}", "database=small.sqlite3", "port=0")
        assert (status, "another captau collect is using it" in fault) == (2, True)


def test_an_export_needs_a_study_in_the_database(captau, tmp_path):
    path = write_study(tmp_path, "good_bad")
    Database(tmp_path / "empty.sqlite3", SCHEMA).close()
    status, _, fault = captau("collect", "export", f"study={path}", "database=empty.sqlite3")
    assert (status, "it holds no study yet" in fault) == (2, True)


def test_a_missing_extra_is_reported_in_one_line(tmp_path):
    path = write_study(tmp_path, "good_bad")
    program = f"import sys; sys.modules['fastapi'] = None; {MAIN}"
    process = subprocess.run(
        [sys.executable, "-c", program, "collect", f"study={path}", "port=0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert process.stderr == "captau: fastapi is not installed: pip install 'captau[server]'\n"


def test_an_export_lists_its_files_and_what_reads_them(tmp_path, capsys):
    site = make_site(tmp_path, "good_bad")
    store = site.store

    async def answer():
        rater = await store.participants.join("", "", "")
        shown = await store.assignment.next_unit(rater)
        await store.answers.record(rater, shown.key, [{"answer": "good"}])

    asyncio.run(answer())
    store.database.close()
    out = tmp_path / "out"
    fields = {"study": str(tmp_path / "study.yaml"), "database": tmp_path / "small.sqlite3"}
    commands.export(ExportOptions(**fields, output_dir=out))
    sizes = {path.name: path.stat().st_size for path in out.iterdir()}
    lines = capsys.readouterr().out.splitlines()
    names = ["ratings.csv", "ratings.yaml", "run.json"]
    assert lines == [
        *(f"{name}: {sizes[name]:,} bytes" for name in names),
        "",
        f"written to {out}",
        "these commands measure the raters and the metrics:",
        f"  captau agree dataset=file file.path={out}/ratings.csv",
        f"  captau bench dataset=file file.path={out}/ratings.csv",
    ]
    commands.export(ExportOptions(**fields, form="log", output_dir=tmp_path / "log"))
    assert capsys.readouterr().out.splitlines()[-1] == f"written to {tmp_path / 'log'}"


def test_a_re_run_is_compared_and_written(tmp_path, capsys):
    runs = [
        write_export(tmp_path / name, {"c": good_bad_answers(8, 0), "d": answers})
        for name, answers in (("a", good_bad_answers(4, 4)), ("b", good_bad_answers(6, 2)))
    ]
    commands.stability(StabilityOptions(runs=runs, output_dir=tmp_path / "out"))
    printed = capsys.readouterr().out
    table = (tmp_path / "out" / "table.md").read_text()
    assert printed == f"{table.rstrip()}\n\nwritten to {tmp_path / 'out'}\n"
    assert "| good: mean | -0.125 | 0.015 | 2 |" in table
    with says("no item has 9 ratings or more in both runs"):
        commands.stability(StabilityOptions(runs=runs, least=9, output_dir=tmp_path / "more"))


def test_players_that_were_stopped_are_an_error_after_the_report(monkeypatch, capsys):
    for fault in ("", "1 of 2 players were stopped: gone"):
        report = simulation.SimulationReport([], "the text", fault)
        monkeypatch.setattr(simulation, "run_simulation", lambda options, report=report: report)
        if fault:
            with says(fault):
                commands.simulate(SimulateOptions())
        else:
            commands.simulate(SimulateOptions())
        assert capsys.readouterr().out == "\nthe text\n"
