"""The folder of docs/own_files.md, written out: every command knows its names, and errors name file and line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pandas as pd
import pytest

from captau.benchmarks.cli.completion import complete

PAGE = Path(__file__).parents[3] / "docs" / "own_files.md"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Write the files that the page prints."""
    text = PAGE.read_text(encoding="utf-8")
    files = re.findall(
        r"^`(my/[\w./]+)` (?:is|has|stores) .*?^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert len(files) == 7
    for name, content in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return tmp_path / "my"


def test_the_commands_of_the_page_run(own, captau, tmp_path):
    (block,) = re.findall(r"^```text\n(captau .*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    printed = [captau(*line.split()[1:]) for line in block.splitlines()]
    assert [status for status, _, _ in printed] == [0] * 5, printed
    overview, _, _, reproduced, table = [out for _, out, _ in printed]
    for names in ("datasets: .*street", "suites: .*short", "papers: .*doe_2026", "nts: quick"):
        assert re.search(names, overview, re.DOTALL)
    assert "1 of 1 recomputed cells match the printed digit" in reproduced
    assert "Streets" in table
    first = pd.read_csv(tmp_path / "run" / "correlations.csv")
    assert set(first["protocol"]) == {"one_reference references=first_k k=1"}
    assert set(first["metric"]) == {"bleu_1", "rouge_l", "cider(variant=plain)"}
    (quick,) = (tmp_path / "results" / "runs").glob("*-bench")
    rows = pd.read_csv(quick / "correlations.csv")
    assert set(rows["dataset"]) == {"street", "demo"}
    assert set(rows["coefficient"]) == {"tau_b"}
    assert "CAPTAU_CONFIG_DIR" not in os.environ


def test_typed_options_win_over_those_of_an_experiment(own, captau):
    words = ["experiment=quick", "dataset=demo", "--cfg", "job", "--config-dir", str(own)]
    _, out, err = captau("bench", *words)
    assert "replicates: 100" in out, err
    assert "street" not in out


def test_own_names_are_swept_and_completed(own, captau, monkeypatch):
    monkeypatch.setenv("CAPTAU_CONFIG_DIR", "")  # so that what completion sets is undone
    flag = f"--config-dir={own}"
    words = ("-m", "dataset=street,demo", "metrics=bleu_1", "statistics.interval=none")
    assert captau("bench", *words, "output_dir=sweep", flag)[0] == 0
    for typed, expected in {
        "dataset=st": "dataset=street",
        "metrics=sh": "metrics=short",
        "experiment=": "experiment=quick",
    }.items():
        monkeypatch.setenv("COMP_LINE", f"captau bench {flag} {typed}")
        assert expected in complete(["-sc", "query=bash"]).split()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("protocol/strict.yaml", "references: all\nratings: meen\n", ":2: ratings: unknown value"),
        ("protocol/strict.yaml", "dimesion: x\n", ":1: dimesion: unknown field"),
        ("protocol/strict.yaml", "ratings: [\n", ":2: "),
        ("protocol/usual.yaml", "k: 1\n", ": captau has a protocol of this name"),
        ("suite/mine.yaml", "# mine\nmetrics: [blue]\n", ":2: metrics: unknown metric"),
        ("suite/mine.yaml", "metric: [cider]\n", ":1: metrics: "),
        ("dataset/mine.yaml", "file:\n  path: none.csv\n", ":2: file.path: there is no file"),
        (
            "dataset/mine.yaml",
            "file:\n  path: ratings.csv\n  hi: 5\n",
            ":3: file.hi: unknown field",
        ),
        (
            "dataset/ratings.yaml",
            "file: {path: ratings.csv}\n",
            ":1: file.path: ratings.yaml would",
        ),
        ("dataset/a-b.yaml", "file: {}\n", ": rename it"),
        ("datasets/mine.yaml", "file: {}\n", ": unknown folder 'datasets'"),
        ("paper/mine.yaml", "title: A\n", ":1: citation: "),
        ("experiment/mine.yaml", "metrics: short\nmetrcis: a\n", ":2: metrcis: unknown option"),
        (
            "experiment/mine.yaml",
            "statistics:\n  replicates: many\n",
            ":2: statistics.replicates: 'many' is not of type int",
        ),
    ],
)
def test_an_error_in_an_own_file_names_file_and_line(file, text, message, own, captau):
    path = own / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    words = ["experiment=mine"] if file.startswith("experiment") else []
    status, _, err = captau("bench", *words, "--config-dir", str(own))
    assert status == 2
    assert err.startswith(f"captau: {path}{message}"), err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config-dir"], "--config-dir : a folder is expected"),
        (["--config-dir=nowhere"], "--config-dir nowhere: a folder is expected"),
        (["--config-dir=."], "no YAML file in it"),
        (["experiment=quick"], "unknown experiment 'quick'; known: none"),
    ],
)
def test_a_folder_or_experiment_that_is_not_there_is_one_line(words, message, captau):
    status, _, err = captau("bench", *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
