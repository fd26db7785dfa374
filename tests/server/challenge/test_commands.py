"""What `captau serve` prints and how it logs; `test_client` has `captau submit`."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import pytest
import requests

from captau.benchmarks.cli.terminal import StderrLines
from captau.server.challenge import worker_pool
from tests.server.challenge.conftest import write_challenge

MAIN = "from captau.benchmarks.cli.main import main; main()"


@pytest.mark.slow
def test_a_site_is_served_and_says_where_until_it_is_stopped(tmp_path):
    path = write_challenge(tmp_path)
    arguments = ["serve", f"challenge={path}", "port=0", "database=kept/here.sqlite3"]
    server = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    address, kept, setup = [server.stdout.readline() for _ in range(3)]
    assert ": http://127.0.0.1:" in address
    assert "small_captions, kept in kept/here.sqlite3 and " in kept
    assert "/setup?code=" in setup
    assert requests.get(address.split(": ")[1].strip(), timeout=60).status_code == 200
    server.send_signal(signal.SIGINT)
    _, stderr = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "captau: stopped; every submission that was acknowledged is kept" in stderr
    assert "Traceback" not in stderr


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
