"""Completion in real shells: bash and zsh on a terminal, with keys typed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The commands that start a shell without a user's own files.
SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
#: The longest time for an answer, in seconds; each key asks captau, which starts anew.
PATIENCE = 90


class Shell:
    """A shell with captau's completion, on a terminal."""

    def __init__(self, name: str, folder: Path) -> None:
        self.process, self.terminal = pty.fork()
        if not self.process:
            programs = str(Path(sys.executable).parent)
            os.chdir(folder)
            os.environ.update(
                TERM="dumb",
                EDITOR="",
                HOME=str(folder),
                PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
            )
            os.execvp(SHELLS[name][0], SHELLS[name])
        self.type(f'eval "$(captau -sc install={name})"; echo READ""Y\n', "READY")

    def type(self, keys: str, awaited: str) -> None:
        """Type keys, and read until the text that is awaited stands on the terminal."""
        os.write(self.terminal, keys.encode())
        shown, end = "", time.monotonic() + PATIENCE
        while awaited not in shown:
            assert time.monotonic() < end, f"{keys!r} showed {shown!r} and not {awaited!r}"
            if select.select([self.terminal], [], [], 0.1)[0]:
                shown += os.read(self.terminal, 65536).decode(errors="replace")


@pytest.fixture(scope="module", params=SHELLS)
def shell(request, tmp_path_factory) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    for name in ("old.json", "new.json"):
        (folder / name).touch()
    run = folder / "results" / "runs" / "first"
    run.mkdir(parents=True)
    (run / "run.json").touch()
    started = Shell(request.param, folder)
    yield started
    os.close(started.terminal)  # hangs up, which ends the shell
    os.waitpid(started.process, 0)


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        ("captau bench metrics=bleu_1,cide", "r"),
        ("captau score candidates=mine=ol", "d.json"),
        pytest.param("captau ben", "ch", marks=pytest.mark.slow),
        pytest.param("captau score candidates=old.json,ne", "w.json", marks=pytest.mark.slow),
        pytest.param("captau cite run=last,results/runs/", "first", marks=pytest.mark.slow),
    ],
)
def test_a_tab_completes(shell, typed, rest):
    shell.type(typed, typed[-4:])
    shell.type("\t", rest)
    shell.type('\x15echo EMPT""Y\n', "EMPTY")
