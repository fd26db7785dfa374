"""A command of another package: the class of its options and its work in a module, and an entry point."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

MODULE = '''
from __future__ import annotations
from dataclasses import dataclass
import pandas as pd
from captau.benchmarks.options.declaration import option
from captau.benchmarks.options.shared import MeasuringOptions
from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.runs.results import RunClock, describe_environment
from captau.benchmarks.runs.tables import ResultTable, Row, count_cell


@dataclass(frozen=True, kw_only=True)
class CountOptions(MeasuringOptions):
    """Options of captau count."""

    least: int = option(1, "the fewest items that are worth a row")


def run(options):
    clock = RunClock()
    counts = {name: len(options.locations.load(name).items) for name in options.datasets}
    rows = [Row(name, [count_cell(n)]) for name, n in counts.items() if n >= options.least]
    record = {"command": "count", "config": dict(options.configuration), **describe_environment()}
    frame = pd.DataFrame({"dataset": list(counts), "n": list(counts.values())})
    table = ResultTable("Items", "dataset", ["n"], rows)
    return Results({"counts.csv": frame}, record | clock.record(), tables=[table])
'''


@pytest.mark.slow
def test_a_package_brings_a_command(tmp_path):
    (tmp_path / "counting.py").write_text(MODULE, encoding="utf-8")
    about = tmp_path / "counting-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[captau.commands]\ncount = counting:CountOptions\n")

    def run(*words):
        code = "import sys; from captau.benchmarks.cli.main import main; main(sys.argv[1:])"
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "CAPTAU_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("count", "least=2", "output_dir=run")
    assert done.returncode == 0, done.stderr
    assert "| demo | 360 |" in done.stdout
    assert (tmp_path / "run" / "counts.csv").read_text() == "dataset,n\ndemo,360\n"
    assert "least=N" in run("count", "--help").stdout
    assert "commands of other packages: count" in run("--help", "all").stdout
    assert "did you mean count or" in run("coumt").stderr
