"""What `captau serve` prints, in which order it opens what, and how it logs; `test_client` has `captau submit`."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from captau.benchmarks.cli.main import StderrLines
from captau.benchmarks.options.sites import ServeOptions
from captau.server.challenge import commands, site_opening, worker_pool
from captau.server.challenge.web import app
from captau.server.web import listener


@pytest.mark.parametrize("challenge", ["demo", "small.yaml"])
def test_a_site_is_served_and_says_where(monkeypatch, capsys, challenge):
    steps = []

    async def add_demo_submissions(site):
        steps.append("demo")

    def listen(host, port):
        steps.append((host, port))
        return SimpleNamespace(getsockname=lambda: ("127.0.0.1", 81))

    site = SimpleNamespace(
        title="Lab",
        challenges={"a": 1, "b": 2},
        store=SimpleNamespace(database=SimpleNamespace(display_name="x.sqlite3"), folder="files"),
        admin_account=SimpleNamespace(sign_in_hint=lambda url, code: f"dashboard: {url} {code}"),
        setup_code="CODE",
    )
    monkeypatch.setattr(listener, "listen", listen)
    monkeypatch.setattr(site_opening, "open_site", lambda options: steps.append("open") or site)
    monkeypatch.setattr(site_opening, "add_demo_submissions", add_demo_submissions)
    monkeypatch.setattr(app, "make_app", lambda opened: f"app of {opened.title}")
    monkeypatch.setattr(
        listener,
        "serve",
        lambda made, socket, proxy: steps.append((made, socket.getsockname(), proxy)),
    )
    monkeypatch.setattr(worker_pool, "log_to_stderr", lambda: steps.append("log"))
    assert commands.serve(ServeOptions(challenge=challenge, port=81, proxy=True)) == 0
    assert steps == [
        *("log", ("127.0.0.1", 81), "open"),
        *(["demo"] if challenge == "demo" else []),
        ("app of Lab", ("127.0.0.1", 81), True),
    ]
    assert capsys.readouterr() == (
        "Lab: http://127.0.0.1:81/\n"
        "a, b, kept in x.sqlite3 and files\n"
        "dashboard: http://127.0.0.1:81 CODE\n",
        "captau: stopped; every submission that was acknowledged is kept\n",
    )


def test_warnings_are_single_lines_without_the_text_of_an_error(monkeypatch, capsys):
    logger = logging.getLogger("captau.server")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logging.getLogger("captau"), "handlers", [StderrLines()])
    for _ in range(2):
        worker_pool.log_to_stderr()
    assert len(logger.handlers) == 1
    log = logging.getLogger("captau.server.test")
    log.info("too little")
    log.warning("%s went wrong", "it")
    try:
        raise KeyError("a private reference")
    except KeyError:
        log.exception("failed")
    assert capsys.readouterr().err == "captau: it went wrong\ncaptau: failed: KeyError\n"
