"""The package of docs/plugins.md, built and put on the path: the command line and Python know what it brings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

import captau
from captau.datasets.schema import CaptionSet

ROOT = Path(__file__).parents[1]


def run_with(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run captau with a folder of installed packages before the others."""
    code = "import sys; from captau.benchmarks.cli.main import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "CAPTAU_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package that docs/plugins.md prints, and unpack its wheel."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert set(files) == {"pyproject.toml", "word_metrics.py", "toy_dataset.py"}
    for name, content in files.items():
        (source / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(out)
    return out


@pytest.mark.wheel
def test_a_package_brings_a_metric_and_a_dataset(installed: Path) -> None:
    done = run_with(installed, "bench", "dataset=toy", "metrics=words,bleu_1", "output_dir=out")
    assert done.returncode == 0, done.stderr
    # r of 2, 3, 4 words and 2, 3, 4 points.
    rows = pd.read_csv(installed / "out" / "correlations.csv").set_index(["metric", "coefficient"])
    assert rows.loc[("words", "pearson"), "value"] == pytest.approx(1)
    overview = run_with(installed, "--help", "all").stdout
    assert re.search(r"datasets: .*\btoy\b", overview, re.DOTALL)
    assert re.search(r"metrics: .*\bwords\b", overview, re.DOTALL)
    assert "toy" in run_with(installed, "data", "list").stdout


def test_an_entry_point_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[captau.metrics]\nmine = no_such_module\n")
    done = run_with(tmp_path, "bench", "metrics=mine")
    assert done.returncode == 2
    assert re.fullmatch(
        r"captau: broken: its entry point mine of captau\.metrics cannot be loaded "
        r"\(ModuleNotFoundError: .*\); repair or uninstall broken\n",
        done.stderr,
    )


@pytest.mark.slow
def test_a_broken_coefficient_stops_only_the_commands_that_need_coefficients(
    tmp_path: Path,
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[captau.coefficients]\nmine = no_such_module\n")
    for words in (("data", "list"), ("collect", "--help"), ("--help",)):
        done = run_with(tmp_path, *words)
        assert (done.returncode, done.stderr) == (0, ""), words
    done = run_with(tmp_path, "bench", "metrics=bleu_1")
    assert done.returncode == 2
    assert done.stderr.startswith("captau: broken: its entry point mine of captau.coefficients")


def test_bench_takes_a_caption_set_in_memory() -> None:
    demo = captau.load("demo")
    own = CaptionSet(demo.items, demo.ratings, card=demo.card)
    by_name = captau.bench("demo", "bleu_1", protocol={"coefficients": ["tau_b"]})
    in_memory = captau.bench(own, "bleu_1", protocol={"coefficients": ["tau_b"]})
    columns = ["metric", "coefficient", "value", "n_items"]
    assert in_memory.correlations[columns].equals(by_name.correlations[columns])
