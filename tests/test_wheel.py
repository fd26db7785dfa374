"""The wheel, installed into a fresh environment with its dependencies, runs the command there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
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
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.name != ".hydra") == [
        "correlations.csv",
        "items.parquet",
        "length.csv",
        "preferences.parquet",
        "ranks.csv",
        "ratings.parquet",
        "run.json",
        "scores.parquet",
        "table.csv",
        "table.md",
        "table.tex",
        "table_2.csv",
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


def test_a_simulated_study_runs_where_the_working_folder_has_a_captau(wheel, tmp_path):
    """As a clone has: the processes that serve the study take the modules that are installed."""
    venv, clone = tmp_path / "venv", tmp_path / "clone"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = venv / "lib" / python / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # What captau needs is here already; captau itself is not, as files .pth in that folder are not read.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (clone / "captau").mkdir(parents=True)
    (clone / "captau" / "__init__.py").write_text("")
    start = (
        "from captau.benchmarks.cli import run_program\nif __name__ == '__main__': run_program()\n"
    )
    (venv / "bin" / "captau").write_text(start, encoding="utf-8")
    words = ["players={honest: 1}", "answers=2", "output_dir=out"]
    done = subprocess.run(
        [str(venv / "bin" / "python"), str(venv / "bin" / "captau"), "collect", "simulate", *words],
        cwd=clone,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "| honest | 1 | 2 |" in done.stdout
