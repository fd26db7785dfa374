"""What `captau collect` and its subcommands print, and which errors end them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from captau.benchmarks.options.sites import (
    CollectOptions,
    ExportOptions,
    SimulateOptions,
    StabilityOptions,
)
from captau.datasets.errors import InputError
from captau.server.collect import commands, simulation
from captau.server.collect.web import app
from captau.server.collect.web import site as site_module
from captau.server.web import listener
from tests.conftest import says
from tests.server.collect.conftest import make_site
from tests.server.collect.test_rerun_stability import good_bad_answers, write_export


def test_a_study_is_served_and_says_where(monkeypatch, capsys):
    served = []
    site = SimpleNamespace(
        study=SimpleNamespace(title="Small"),
        store=SimpleNamespace(
            pool_sizes={"main": 1800}, database=SimpleNamespace(display_name="x.sqlite3")
        ),
        admin_account=SimpleNamespace(sign_in_hint=lambda url, code: f"dashboard: {url} {code}"),
        setup_code="CODE",
    )
    opened = SimpleNamespace(getsockname=lambda: ("::1", 81))
    monkeypatch.setattr(listener, "listen", lambda host, port: opened)
    monkeypatch.setattr(listener, "serve", lambda *args, **options: served.append((args, options)))
    monkeypatch.setattr(site_module, "open_site", lambda options: site)
    monkeypatch.setattr(app, "make_app", lambda site: "app")
    assert commands.collect(CollectOptions(study="x.yaml", proxy=True)) == 0
    assert served == [(("app", opened), {"proxy": True})]
    assert capsys.readouterr() == (
        "Small: http://[::1]:81/\n"
        "1,800 to judge, kept in x.sqlite3\n"
        "dashboard: http://[::1]:81 CODE\n",
        "captau: stopped; every answer that was acknowledged is kept\n",
    )


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
    fields = {"study": str(tmp_path / "study.yaml"), "database": str(tmp_path / "small.sqlite3")}
    commands.export(ExportOptions(**fields, output_dir=out))
    sizes = {path.name: path.stat().st_size for path in out.iterdir()}
    lines = capsys.readouterr().out.splitlines()
    names = ["ratings.csv", "ratings.yaml", "run.json"]
    assert lines == [
        *(f"{name}: {sizes[name]:,} bytes" for name in names),
        "",
        f"written to {out}",
        f"captau agree dataset=file file.path={out}/ratings.csv measures the raters, and captau report shows it",
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
        report = simulation.SimulationReport("the text", fault)
        monkeypatch.setattr(simulation, "run_simulation", lambda options, report=report: report)
        if fault:
            with says(fault):
                commands.simulate(SimulateOptions())
        else:
            commands.simulate(SimulateOptions())
        assert capsys.readouterr().out == "the text\n"


def test_a_server_that_does_not_start_says_why(monkeypatch):
    """A stub of multiprocessing answers in place of the process."""
    ended = []

    class Receiver:
        def __init__(self, answer):
            self.answer = answer

        def recv(self):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    class Process:
        def __init__(self, target, args, daemon):
            self.setup = (target, args[:2], daemon)

        def __getattr__(self, name):
            return lambda: ended.append(name)

    for answer, fault in (
        (("", "no such study"), "no such study"),
        (EOFError(), "the server did not start"),
    ):
        context = SimpleNamespace(
            Pipe=lambda duplex, a=answer: (Receiver(a), SimpleNamespace(close=lambda: None)),
            Process=Process,
        )
        monkeypatch.setattr(simulation.multiprocessing, "get_context", lambda kind, c=context: c)
        with says(fault):
            simulation.StudyServer("options", 0.5)
    assert ended == ["start", "join"] * 2
    context = SimpleNamespace(
        Pipe=lambda duplex: (Receiver(("http://x", "")), SimpleNamespace(close=lambda: None)),
        Process=Process,
    )
    monkeypatch.setattr(simulation.multiprocessing, "get_context", lambda kind: context)
    server = simulation.StudyServer("options", 0.5)
    assert (server.url, server.process.setup) == (
        "http://x",
        (simulation._serve, ("options", 0.5), True),
    )
    server.stop()
    server.kill()
    assert ended[4:] == ["start", "terminate", "join", "kill", "join"]


@pytest.mark.parametrize("fault", ["", "a fault of the study"])
def test_a_server_s_process_sends_its_address_or_its_fault(monkeypatch, fault):
    sent, served = [], []

    def open_site(options, wait):
        if fault:
            raise InputError(fault)
        return f"site of {options}, {wait}"

    opened = SimpleNamespace(getsockname=lambda: ("127.0.0.1", 81))
    monkeypatch.setattr(
        simulation, "listen", lambda host, port: (host, port) == ("127.0.0.1", 0) and opened
    )
    monkeypatch.setattr(simulation, "open_site", open_site)
    monkeypatch.setattr(simulation, "make_app", lambda site: f"app of {site}")
    monkeypatch.setattr(simulation, "serve", lambda *args: served.append(args))
    simulation._serve("options", 0.5, SimpleNamespace(send=sent.append))
    if fault:
        assert (sent, served) == ([("", fault)], [])
    else:
        assert sent == [("http://127.0.0.1:81", "")]
        assert served == [("app of site of options, 0.5", opened)]
