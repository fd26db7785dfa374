"""captau run as a program beside a package that lies in a folder as pip would install it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_beside(folder: Path, *words: str, **variables: str) -> str:
    """Run captau beside the package in a folder, and return what it prints."""
    code = "import sys; from captau.benchmarks.cli.main import main; main(sys.argv[1:])"
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
