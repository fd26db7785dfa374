"""Metrics from elsewhere: a Python function, or a file of scores."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.statistics.rating_table import CEILINGS
from captau.datasets.errors import InputError
from captau.metrics.external import PythonFunction, ScoreFile
from captau.metrics.registry import metric
from tests.metrics.metric_samples import (
    row,
)


def test_external_metrics_go_by_their_name():
    assert metric("file(path=fleur.csv,name=FLEUR)").spec == "FLEUR"
    assert metric("python(package.module:fluency)").spec == "fluency"
    assert metric("python(package.module:fluency,name=Mine)").spec == "Mine"


@pytest.mark.parametrize("name", ["bleu_4", "file", "item_id", "image_id", " ", *CEILINGS])
def test_a_name_that_results_need_themselves(name):
    for make in (lambda: ScoreFile("x.csv", name), lambda: PythonFunction("a:f", name)):
        with pytest.raises(InputError, match=r"its name is empty|is taken; give it another"):
            make()


def test_a_function_called_like_a_metric_needs_another_name():
    with pytest.raises(InputError, match=r"the name 'cider' is taken; .* name=…"):
        metric("python(mine:cider)")
    assert metric("python(mine:cider,name=my_cider)").name == "my_cider"
    with pytest.raises(InputError, match="its name is empty"):
        metric("file(path=x.csv,name='')")


# A Python function


@pytest.fixture
def functions(monkeypatch):
    """A module of metrics that a user might have."""
    module = types.ModuleType("users_metrics")
    monkeypatch.setitem(sys.modules, "users_metrics", module)
    return module


def test_a_python_function_gets_the_items_and_gives_one_number_each(functions):
    functions.words = lambda items: [len(c.split()) for c in items["caption"]]
    instance = metric("python(users_metrics:words)")
    assert instance.name == "words"
    scores = instance.score([{"caption": "a dog"}, {"caption": ""}, {"caption": "a dog"}])
    assert scores.tolist() == [2.0, 0.0, 2.0]


def test_a_python_function_sees_every_row_and_cannot_change_them(functions):
    def shout(items):
        assert list(items.columns) == ["item_id", "caption", "mood"]
        items["caption"] = items["caption"].str.upper()
        return np.where(items["mood"] == "glad", 1.0, np.nan)

    functions.shout = shout
    frame = pd.DataFrame({"item_id": ["1", "2"], "caption": "same", "mood": ["glad", "sad"]})
    np.testing.assert_array_equal(metric("python(users_metrics:shout)").score(frame), [1, np.nan])
    assert frame["caption"].tolist() == ["same", "same"]


def test_a_python_function_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "in_the_folder.py").write_text("def ones(items):\n    return [1] * len(items)\n")
    monkeypatch.chdir(tmp_path)
    assert metric("python(in_the_folder:ones)").score([row()]) == [1.0]


def test_a_series_goes_by_its_index(functions):
    functions.turned = lambda items: items["caption"].str.len()[::-1]
    functions.sorted = lambda items: items["caption"].str.len().sort_values()
    functions.new = lambda items: pd.Series([float(len(c)) for c in items["caption"]])
    functions.other = lambda items: items["caption"].str.len().set_axis(items["item_id"])
    functions.twice = lambda items: items["caption"].str.len().set_axis([0, 0, 1])
    frame = pd.DataFrame({"item_id": ["x", "y", "z"], "caption": ["aaa", "a", "aa"]})
    for function in ("turned", "sorted", "new"):
        for index in ([0, 1, 2], [7, 3, 5], [1, 1, 1]):
            instance = metric(f"python(users_metrics:{function})")
            assert instance.score(frame.set_axis(index)).tolist() == [3.0, 1.0, 2.0], function
    for function in ("other", "twice"):
        with pytest.raises(InputError, match="a Series came back whose index is not that"):
            metric(f"python(users_metrics:{function})").score(frame)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(items:\n", r"SyntaxError: .*broken\.py, line 1"),
        ("x = 1\nraise ValueError('no')\n", r"ValueError: no \(.*broken\.py, line 2\)"),
        ("raise SystemExit\n", r"SystemExit \(.*broken\.py, line 1\)"),
        (
            "def g(x):\n    return x['absent']\ndef f(items):\n    return g(items)\n",
            r"KeyError: 'absent' \(.*broken\.py, line 2\)",
        ),
        ("def f(items):\n    return [10**400] * len(items)\n", "no numbers came back"),
        (
            "def f(caption, references):\n    return 1.0\n",
            r"it is called with one argument, a DataFrame of the items, .* are \(caption, references\)",
        ),
    ],
)
def test_a_python_function_that_raises(source, message, tmp_path, monkeypatch):
    name = "broken"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=rf"metric python\({name}:f\): {message}") as error:
        PythonFunction(f"{name}:f").score([row()])
    assert "\n" not in str(error.value)


def test_an_input_error_of_a_python_function_is_not_changed(functions):
    def refuse(items):
        raise InputError("items.csv:3: no")

    functions.refuse = refuse
    with pytest.raises(InputError, match=r"^items\.csv:3: no$"):
        metric("python(users_metrics:refuse)").score([row()])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("users_metrics", "module:function is expected"),
        (":f", "module:function is expected"),
        (".users_metrics:f", "module:function is expected"),
        ("users_metric:words", "No module named 'users_metric'"),
        ("users_metrics:wrods", "unknown function of users_metrics 'wrods': did you mean words"),
        ("users_metrics:", "module:function is expected"),
        ("users_metrics:short", r"scores of shape \(1,\) for 2 items"),
        ("users_metrics:table", r"scores of shape \(2, 2\) for 2 items"),
    ],
)
def test_a_python_function_that_is_wrong(functions, function, message):
    functions.words = len
    functions.short = lambda items: [1.0]
    functions.table = lambda items: np.zeros((2, 2))
    with pytest.raises(InputError, match=message):
        PythonFunction(function).score([row(), row()])


# A file of scores

ITEMS = pd.DataFrame(
    {
        "item_id": ["007", "8:ab", "9"],
        "image_id": ["007.jpg", "008.jpg", "007.jpg"],
        "caption": ['a dog, "running"', "NA", "Ein Mädchen 🐕"],
    }
)
SCORES = [0.25, -1.5, 3.0]
KEYS = pytest.mark.parametrize("keys", [["item_id"], ["image_id", "caption"]], ids="+".join)


def write(path: Path, table: pd.DataFrame) -> ScoreFile:
    """A score file of the kind that its ending says."""
    if path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".jsonl":
        lines = [json.dumps(r, ensure_ascii=False) for r in table.to_dict("records")]
        path.write_text("\n".join([*lines, "", ""]), encoding="utf-8")
    else:
        table.to_csv(path, index=False, encoding="utf-8")
    return ScoreFile(path=str(path), name="Mine")


@KEYS
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_scores_from_a_file(ending, keys, tmp_path):
    table = ITEMS[keys].assign(score=SCORES, other="x").iloc[::-1]
    extra = pd.DataFrame([{**dict.fromkeys(keys, "unasked"), "score": 9.0, "other": "x"}])
    instance = write(tmp_path / f"scores{ending}", pd.concat([table, extra, table]))
    assert instance.score(ITEMS).tolist() == SCORES
    assert instance.score(ITEMS.iloc[[2, 0, 2]]).tolist() == [3.0, 0.25, 3.0]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("name", ["FLEUR", "007"])
def test_the_metric_column_picks_rows(ending, name, tmp_path):
    both = [
        ITEMS[["item_id"]].assign(metric=m, score=s)
        for m, s in [("8", [7.0, 7.0, 7.0]), (name, SCORES)]
    ]
    instance = write(tmp_path / f"scores{ending}", pd.concat(both))
    assert dataclasses.replace(instance, name=name).score(ITEMS).tolist() == SCORES
    with pytest.raises(InputError, match="no row is of metric 'absent'"):
        dataclasses.replace(instance, name="absent").score(ITEMS)


def test_the_metric_column_may_use_a_name_that_results_need(tmp_path):
    table = ITEMS[["item_id"]].assign(metric="cider", score=SCORES)
    instance = write(tmp_path / "scores.parquet", table)
    assert dataclasses.replace(instance, metric="cider").score(ITEMS).tolist() == SCORES
    assert (
        metric(f"file(path={instance.path},name=Old,metric=cider)").score(ITEMS).tolist() == SCORES
    )


@KEYS
def test_a_missing_score_is_an_error(keys, tmp_path):
    instance = write(tmp_path / "scores.csv", ITEMS[keys].assign(score=SCORES).iloc[:1])
    with pytest.raises(
        InputError, match=r"scores\.csv: no score for (8|008).*2 of 3 items lack one"
    ):
        instance.score(ITEMS)


@KEYS
def test_two_scores_for_an_item(keys, tmp_path):
    table = ITEMS[keys].assign(score=SCORES)
    instance = write(tmp_path / "scores.csv", pd.concat([table, table.iloc[:1].assign(score=0.5)]))
    with pytest.raises(InputError, match=r"scores\.csv:5: two scores for 007"):
        instance.score(ITEMS)


@pytest.mark.parametrize("bad", ["NaN", "", "inf", "high", "-Infinity", "9" * 400])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_score_that_is_no_number(ending, bad, tmp_path):
    scores = ["0.25", bad, "3"]
    instance = write(tmp_path / f"scores{ending}", ITEMS[["item_id"]].assign(score=scores))
    line = 3 if ending == ".csv" else 2
    with pytest.raises(
        InputError, match=rf"scores{ending}:{line}: the score of 8:ab is not a number"
    ):
        instance.score(ITEMS)


def test_a_score_that_is_no_float_in_json_lines(tmp_path):
    path = tmp_path / "scores.jsonl"
    for bad in ("9" * 400, "true", "[1]", "null"):
        path.write_text(f'{{"item_id": "007", "score": 1}}\n{{"item_id": "8", "score": {bad}}}\n')
        with pytest.raises(InputError, match=r"scores\.jsonl:2: the score of 8 is not a number"):
            ScoreFile(path=str(path), name="Mine").score(ITEMS)


def test_a_nan_in_parquet_and_an_absent_score_in_json_lines(tmp_path):
    table = ITEMS[["item_id"]].assign(score=[0.25, np.nan, 3.0])
    with pytest.raises(InputError, match="the score of 8:ab is not a number"):
        write(tmp_path / "scores.parquet", table).score(ITEMS)
    path = tmp_path / "scores.jsonl"
    path.write_text('{"item_id": "007", "score": 1}\n{"item_id": "8:ab"}\n')
    with pytest.raises(InputError, match="the score of 8:ab is not a number"):
        ScoreFile(path=str(path), name="Mine").score(ITEMS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, r"metric Mine: no file .*absent\.csv"),
        ("scores.txt", b"item_id,score\n", r"ends in \.csv, \.jsonl or \.parquet"),
        ("scores", b"item_id,score\n", r"ends in \.csv, \.jsonl or \.parquet"),
        ("scores.csv", b"", r"scores\.csv: it is empty"),
        ("scores.csv", b"item_id,score\n007,1,2\n", r"scores\.csv:2: 3 cells"),
        ("scores.csv", b"item_id,value\n007,1\n", "no column score"),
        ("scores.csv", b"image_id,score\n007.jpg,1\n", "no column caption"),
        ("scores.csv", b"score\n1\n", "no column image_id"),
        ("scores.csv", b"item_id,score\n007,1\n\xff,2\n", r"scores\.csv:3: not UTF-8"),
        ("scores.jsonl", b'{"item_id": "007", "score": 1}\n{"item', r"scores\.jsonl:2: not valid"),
        ("scores.jsonl", b"[1]\n", r"scores\.jsonl:1: an object is expected"),
        ("scores.parquet", b"PAR1", r"scores\.parquet: not a complete Parquet file"),
    ],
)
def test_a_score_file_that_is_wrong(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        ScoreFile(path=str(tmp_path / name), name="Mine").score(ITEMS)
    assert "\n" not in str(error.value)


def test_items_without_the_key_of_the_score_file(tmp_path):
    instance = write(tmp_path / "scores.csv", ITEMS[["item_id"]].assign(score=SCORES))
    with pytest.raises(InputError, match="the items to score have no item_id"):
        instance.score([row()])


def test_external_scores_are_not_kept_for_a_later_run():
    assert not ScoreFile.is_cacheable
    assert not PythonFunction.is_cacheable
