"""The wheel, installed into a fresh environment with its dependencies, runs the command there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import lend_tables

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("captau-*.whl")
    return path


def test_wheel_holds_every_module_yaml_and_table(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    for package in ("benchmarks", "conf", "datasets", "metrics", "results", "server"):
        for path in (ROOT / package).rglob("*"):
            if (
                path.suffix in (".py", ".js", ".css", ".svg", ".html", ".yaml", ".csv", ".bib")
                and "runs" not in path.parts
            ):
                assert f"captau/{path.relative_to(ROOT).as_posix()}" in held
    assert "captau/py.typed" in held


def test_command_runs_from_the_wheel(wheel, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel)], check=True)
    home = tmp_path / "home"
    lend_tables(home / ".cache" / "captau")
    # Else an empty home folder, no Java on the PATH, no data.
    environment = {"HOME": str(home), "PATH": str(venv / "bin"), "LC_ALL": "C"}
    run = subprocess.run(
        [str(venv / "bin" / "captau"), "bench", "output_dir=out"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "correlations.csv",
        "items.parquet",
        "preferences.parquet",
        "ranks.csv",
        "ratings.parquet",
        "run.json",
        "scores.parquet",
        "table.csv",
        "table.md",
        "table.tex",
    ]
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert record["data"]["demo"]["synthetic"] is True
    public = "from captau.testing import assert_scores; print(assert_scores.__module__)"
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-c", public],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "captau.benchmarks.regression.assert_scores"
    assert not any(k.startswith("CAPTAU") for k in os.environ if k in environment)
