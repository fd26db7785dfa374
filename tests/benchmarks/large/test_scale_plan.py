"""The scripts that make docs/scale_plan.md, one after the other, on small sets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts" / "speed"

pytestmark = pytest.mark.docs


def run_script(name, *words):
    """Return what a script prints."""
    command = [sys.executable, str(SCRIPTS / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plan_is_written_from_measured_runs_and_a_simulation(tmp_path):
    measured, simulated, page = (tmp_path / name for name in ("m.json", "s.json", "plan.md"))
    sizes = ["--rows", 20_000, 40_000, "--engines", "local"]
    run_script("benchmark_scale.py", *sizes, "--folder", tmp_path / "sets", "--output", measured)
    simulated.write_text(run_script("simulate_large_set.py", "--rows", 60_000), encoding="utf-8")
    run_script("plan_scale.py", measured, simulated, "--output", page)
    simulation = json.loads(simulated.read_text(encoding="utf-8"))
    # Three shards of 20,000 rows, each in five parts of 4,000.
    assert (simulation["rows"], simulation["parts"]) == (60_000, 15)
    tasks = simulation["tasks"]
    assert (tasks["read"], tasks["count"], tasks["score"]) == (3, 15, 15)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# A plan for 6e+04 captions\n")
    assert "| stage | 20,000 | 40,000 |" in text
    assert f"| tasks | {sum(tasks.values())} |" in text
