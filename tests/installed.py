"""captau run as a program beside a package that lies in a folder as pip would install it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: A program that runs commands one after the other and prints what each of them printed, as JSON.
RUN_ALL = """
import contextlib, io, json, sys
from captau.benchmarks.cli.main import main

printed = []
for words in json.loads(sys.argv[1]):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        try:
            main(words)
        except SystemExit as ended:
            if ended.code:
                sys.exit(f"captau {' '.join(words)}: status {ended.code}")
    printed.append(stream.getvalue())
print(json.dumps(printed))
"""


def run_all_beside(folder: Path, commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Run captau's commands beside the package in a folder, in one process, and return what each prints, by name."""
    printed = _run(folder, RUN_ALL, json.dumps(list(commands.values())))
    return dict(zip(commands, json.loads(printed), strict=True))


def run_beside(folder: Path, *words: str, **variables: str) -> str:
    """Run captau beside the package in a folder, and return what it prints."""
    code = "import sys; from captau.benchmarks.cli.main import main; main(sys.argv[1:])"
    return _run(folder, code, *words, **variables)


def _run(folder: Path, code: str, *words: str, **variables: str) -> str:
    """Run a program beside the package in a folder, and return what it prints."""
    environment = {"PYTHONPATH": str(folder), "CAPTAU_CACHE": str(folder / "cache"), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
