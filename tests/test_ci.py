"""What CI runs, with a program in place of `make` that notes where and with what it was called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Notes the target, the folder, the data and whether the newcomer's file is there, and fails at one target.
MAKE = """#!/bin/sh
here=clone
test "$PWD" = "$CHECKOUT" && here=checkout
echo "$1 in $here, data: ${CAPTAU_DATA-none}, download: ${CAPTAU_DOWNLOAD-none}, $(cat file.txt)" >>"$NOTES"
echo "$PWD" >>"$NOTES.folders"
test "$1" != "$FAILING"
"""


@pytest.fixture
def run_ci(tmp_path):
    """Return a function that runs `.ci/run` in a checkout of one file, and returns its status and the calls of make."""
    checkout = tmp_path / "work" / "checkout"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    (checkout / "file.txt").write_text("committed")
    (checkout / ".gitignore").write_text(".venv\n")
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "-m", "One")):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "make").write_text(MAKE)
    (programs / "make").chmod(0o755)
    notes = tmp_path / "notes"
    clones = tmp_path / "clones"
    clones.mkdir()

    def run(failing="none", **environment):
        notes.write_text("")
        process = subprocess.run(
            ["bash", ".ci/run"],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": f"{programs}:{os.environ['PATH']}",
                "TMPDIR": str(clones),
                "CHECKOUT": str(checkout),
                "NOTES": str(notes),
                "FAILING": failing,
                **environment,
            },
        )
        assert list(clones.iterdir()) == []  # whatever happened
        return process, notes.read_text().splitlines()

    run.checkout = checkout
    run.folders = Path(f"{notes}.folders")
    return run


def test_ci_runs_what_a_newcomer_types_in_clones_and_then_every_test(run_ci):
    process, calls = run_ci(CAPTAU_DATA="/data", CAPTAU_DOWNLOAD="1")
    assert (process.returncode, process.stderr) == (0, "")
    assert calls == [
        "test in clone, data: none, download: none, committed",
        "bench in clone, data: none, download: none, committed",
        "test-all in checkout, data: /data, download: 1, committed",
    ]
    assert len(set(run_ci.folders.read_text().splitlines())) == 3


def test_ci_finds_the_data_beside_the_project_and_names_what_no_clone_has(run_ci):
    data = run_ci.checkout.parent / "shared" / "data"
    data.mkdir(parents=True)
    (run_ci.checkout / "file.txt").write_text("changed")
    process, calls = run_ci()
    assert process.stderr == (
        "captau: changes that are not committed are in no clone; only make test-all sees them\n"
    )
    assert calls == [
        "test in clone, data: none, download: none, committed",
        "bench in clone, data: none, download: none, committed",
        f"test-all in checkout, data: {data}, download: spice_models, changed",
    ]


@pytest.mark.parametrize(("failing", "n_calls"), [("test", 1), ("bench", 2), ("test-all", 3)])
def test_ci_fails_where_one_of_them_does(run_ci, failing, n_calls):
    process, calls = run_ci(failing)
    assert (process.returncode, len(calls)) == (1, n_calls)
