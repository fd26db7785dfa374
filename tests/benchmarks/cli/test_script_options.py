"""Options `key=value` of scripts, and their manuals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from captau.benchmarks.cli.script_options import read_options

SCRIPTS = Path(__file__).parents[3] / "scripts"


def test_options_are_read_and_others_are_refused():
    assert read_options("Manual.", ("seed", "only"), ["seed=1", "only=a=b"]) == {
        "seed": "1",
        "only": "a=b",
    }
    assert read_options(None, ("seed",), []) == {}
    for word in ("sed=1", "seed"):
        with pytest.raises(SystemExit, match=f"^{word}: one of seed=, only= is expected$"):
            read_options("Manual.", ("seed", "only"), [word])


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_prints_the_manual(word, capsys):
    with pytest.raises(SystemExit) as ended:
        read_options("\nManual.\n\n    script seed=1\n", ("seed",), [word])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "Manual.\n\n    script seed=1\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(SCRIPTS.rglob("*.py"))
        if "script_options" in path.read_text(encoding="utf-8")
    ],
    ids=lambda path: path.name,
)
def test_a_script_prints_its_manual(path):
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first = path.read_text(encoding="utf-8").split('"""')[1].splitlines()[0]
    assert done.stdout.startswith(first)
