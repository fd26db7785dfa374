"""`captau.testing`: other projects gate their own metric in three lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.regression.baseline_file import read
from captau.testing import assert_scores
from tests.conftest import run_captau, says

DOCS = Path(__file__).parents[3] / "docs" / "ci_gate.md"


def words(items):
    """A metric: the number of words."""
    return items["caption"].str.split().str.len()


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "golden" / "words.yaml"
    assert_scores(words, baseline=path, update=True, sample=5)
    return path


def test_a_function(base):
    assert_scores(words, baseline=base)
    assert_scores(words, baseline=str(base), sample=5, dataset="demo")
    found = read(base)
    assert list(found.metrics) == ["words"]
    assert len(found.sample) == 5
    items = captau.load("demo").items.set_index("item_id")
    for item, scores in found.sample.items():
        assert scores["words"] == len(items.loc[item, "caption"].split())


def test_its_code_changed(base):
    with pytest.raises(AssertionError) as caught:
        assert_scores(lambda items: words(items) + 1, baseline=base, name="words")
    text = str(caught.value)
    assert "| scores | words | 5 of 5 sampled items" in text
    assert "+1" in text
    assert (
        "no recorded version, parameter or data changed: the code of the function, or a package that"
        in text
    )
    # The one remedy that works: the command cannot make the test's function.
    assert "If that is meant: CAPTAU_UPDATE=1 pytest" in text
    assert "captau check" not in text


def test_a_package_it_rests_on_is_suspected(tmp_path):
    path = tmp_path / "b.yaml"
    assert_scores(words, path, update=True, packages=["regex"])
    assert "regex" in read(path).packages
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'regex: ".+"', 'regex: "1.0"', text), encoding="utf-8")
    assert_scores(words, path)  # told only
    with pytest.raises(AssertionError, match=r"perhaps regex 1\.0 → "):
        assert_scores(lambda items: words(items) + 1, path, name="words")
    with pytest.raises(AssertionError, match="versions differ"):
        assert_scores(words, path, versions="all")


def test_a_file_of_scores_may_be_made_anew(tmp_path):
    """Its bytes are not what counts, and where it lies is nobody's business."""
    items = captau.load("demo").items
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"item_id": items["item_id"], "score": rng.random(len(items))})
    (tmp_path / "a").mkdir()
    frame.to_csv(tmp_path / "a" / "mine.csv", index=False)
    frame.assign(score=frame["score"] + 1e-12).to_csv(tmp_path / "mine.csv", index=False)
    path = tmp_path / "b.yaml"
    assert_scores(tmp_path / "a" / "mine.csv", path, update=True)
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert_scores(tmp_path / "mine.csv", path)
    frame.assign(score=frame["score"] * 1.01).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(AssertionError, match="parameter path: sha256"):
        assert_scores(tmp_path / "mine.csv", path)


def test_metrics_of_captau(tmp_path):
    path = tmp_path / "b.yaml"
    assert_scores("cider", path, update=True)
    assert_scores(captau.metric("cider"), path)
    with says("has no metric", "but cider", "name=", "CAPTAU_UPDATE=1"):
        assert_scores("rouge_1", path)
    with says("has other metrics as well (cider)"):
        assert_scores("rouge_1", path, update=True)


def test_the_environment_says_update(tmp_path, monkeypatch):
    path = tmp_path / "b.yaml"
    with says(f"no baseline {path}; run the test once with CAPTAU_UPDATE=1"):
        assert_scores(words, path)
    monkeypatch.setenv("CAPTAU_UPDATE", "1")
    assert_scores(words, path)
    monkeypatch.setenv("CAPTAU_UPDATE", "0")
    assert_scores(words, path)


def broken(items):
    raise KeyError("wrd")


@pytest.mark.parametrize(
    ("metric", "options", "said"),
    [
        (words, {"tolerance": 1e-3}, "tolerance=… was given, and"),
        (words, {"name": "cider"}, "the name 'cider' is taken"),
        (7, {}, "a function, the Path of a file of scores"),
        ("cider", {"name": "x"}, "name=x is for a function or a file of scores"),
        (Path("none.csv"), {"name": "words"}, "no file none.csv"),
        (broken, {"name": "words"}, "KeyError: 'wrd'"),
        (lambda items: [1], {"name": "words"}, "of shape (1,) for 360 items"),
    ],
)
def test_what_makes_no_sense(base, metric, options, said):
    with says(said):
        assert_scores(metric, baseline=base, **options)


def test_the_command_says_that_a_test_made_it(base, capsys):
    ended = run_captau("check", f"baseline={base}")
    assert ended == 2
    assert re.search(r"words\.yaml:\d+: words is handed over by a test", capsys.readouterr().err)


def test_the_public_module_is_imported_on_first_use_by_every_form_of_import():
    code = """
import sys
import captau
assert "captau.testing" not in sys.modules and "numpy" not in sys.modules
module = captau.testing
import captau.testing
from captau import testing
assert module is captau.testing is testing is sys.modules["captau.testing"]
from captau.testing import *
from captau.benchmarks.regression import assert_scores as home
assert assert_scores is home.assert_scores
try: from captau.testing import nothing
except ImportError: pass
else: raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_error_of_a_relative_path_names_the_folder(base, tmp_path, monkeypatch):
    """A test that starts elsewhere would make a second baseline, and pass."""
    assert_scores(words, baseline=base)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with says(f"no baseline golden/words.yaml in {elsewhere}; ", "Path(__file__).parent"):
        assert_scores(words, baseline="golden/words.yaml")


def test_an_error_shows_the_tests_line_and_none_of_captaus(tmp_path):
    with pytest.raises(captau.InputError) as caught:
        assert_scores(words, baseline=tmp_path / "none.yaml")
    files = {Path(entry.path).name for entry in caught.traceback}
    assert files == {"test_assert_scores.py", "assert_scores.py"}
    # pytest leaves hidden frames out.
    shown = caught.traceback.filter(caught)
    assert {Path(entry.path).name for entry in shown} == {"test_assert_scores.py"}


@pytest.mark.slow
def test_the_three_lines_of_the_docs(tmp_path):
    """As they stand there: a metric, its test, first the baseline, then green, then red."""
    python = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    metric, test = (
        next(p for p in python if f"# {name}" in p) for name in ("mine.py", "test_mine.py")
    )
    (tmp_path / "mine.py").write_text(metric)
    (tmp_path / "test_mine.py").write_text(test)
    assert len([line for line in test.splitlines() if "assert_scores" in line]) == 2

    def pytest_run(**environment):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    assert pytest_run(CAPTAU_UPDATE="1").returncode == 0
    assert pytest_run().returncode == 0
    (tmp_path / "mine.py").write_text(metric.replace("len(", "1 + len("))
    red = pytest_run()
    assert red.returncode == 1
    assert "the code of the function" in red.stdout
