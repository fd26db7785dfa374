"""Metrics from elsewhere: a Python function, or a file of scores."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.statistics.rating_table import CEILINGS
from captau.datasets.errors import InputError
from captau.metrics.external import metric as make_metric
from captau.metrics.python_function import PythonFunction
from captau.metrics.registry import metric, recipe_of
from captau.metrics.score_file import ScoreFile
from tests.conftest import says
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
    with pytest.raises(InputError, match=r"the name 'cider' is taken; .* name=…"):
        metric("some/cider.csv")


def test_external_scores_are_not_kept_for_a_later_run():
    assert not ScoreFile.is_cacheable
    assert not PythonFunction.is_cacheable


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
        (
            "def f(caption):\n    return 1 / 0\n",
            r"ZeroDivisionError: .*broken\.py, line 2\); it was called for row 0$",
        ),
        ("def f(items:\n", r"SyntaxError: .*broken\.py, line 1"),
        ("x = 1\nraise ValueError('no')\n", r"ValueError: no \(.*broken\.py, line 2\)"),
        ("raise SystemExit\n", r"SystemExit \(.*broken\.py, line 1\)"),
        (
            "def g(x):\n    return x['absent']\ndef f(items):\n    return g(items)\n",
            r"KeyError: 'absent' \(.*broken\.py, line 2\)",
        ),
        ("def f(items):\n    return [10**400] * len(items)\n", "no numbers came back"),
        (
            "def f(a, b, c, d):\n    return 1.0\n",
            r"its parameters are \(a, b, c, d\); \(caption\), \(caption, references\), ",
        ),
        ("def f():\n    return 1.0\n", r"its parameters are \(\); "),
        (
            "def f(c):\n    return len(c.caption[0].nothing)\n",
            r"AttributeError: .*line 2\); a parameter called caption",
        ),
        ("f = int\n", r"the class int does not extend captau\.Metric"),
    ],
)
def test_a_python_function_that_raises(source, message, tmp_path, monkeypatch):
    name = "broken"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=rf"metric python\({name}:f\): {message}") as error:
        make_metric(f"{name}:f").score([row()])
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
        ("users_metrics", "module:function or FILE.py:function is expected"),
        (":f", "module:function or FILE.py:function is expected"),
        (".users_metrics:f", "module:function or FILE.py:function is expected"),
        (
            "users_metric:words",
            "no module users_metric is here or installed; .* metrics=FILE.py:words",
        ),
        ("users_metrics:wrods", "unknown function of users_metrics 'wrods': did you mean words"),
        ("users_metrics:", "module:function or FILE.py:function is expected"),
        ("users_metrics:short", r"scores of shape \(1,\) for 2 items"),
        (
            "users_metrics:table",
            r"scores of shape \(2, 2\) for 2 items came back; a parameter called caption",
        ),
    ],
)
def test_a_python_function_that_is_wrong(functions, function, message):
    functions.words = len
    functions.short = lambda items: [1.0]
    functions.table = lambda items: np.zeros((2, 2))
    with pytest.raises(InputError, match=message):
        PythonFunction(function).score([row(), row()])


# A function that is called for each caption

PAIRS = [
    {"item_id": "x", "caption": "a dog runs", "references": ("a dog", "dogs"), "image": "x.jpg"},
    {"item_id": "y", "caption": "a cat", "references": ("the cat", "a cat"), "image": "y.jpg"},
]


def overlap(caption, references):
    """The largest share of a reference's words that the caption has."""
    words = set(caption.split())
    return max(len(words & set(r.split())) / len(set(r.split())) for r in references)


class Overlap:
    def __call__(self, caption, references):
        return overlap(caption, references)


def scaled(factor, caption, references):
    return factor * overlap(caption, references)


def test_a_function_is_a_metric():
    """By hand: "a dog runs" has both words of "a dog"; "a cat" has both of "a cat", and half of "the cat"."""
    made = make_metric(overlap)
    assert (made.spec, made.needs) == ("overlap", {"references"})
    assert made.score(PAIRS).tolist() == [1.0, 1.0]
    for function, name, scores in (
        (lambda caption: len(caption.split()), "lambda", [3, 2]),
        (lambda candidate, texts: len(texts[0]), "lambda", [5, 7]),
        (lambda c, r, i: ord(i[0]), "lambda", [ord("x"), ord("y")]),
        (lambda caption, image: len(caption + image), "lambda", [15, 10]),
        (lambda caption, /, references: len(references), "lambda", [2, 2]),
        (lambda caption, *, references: len(references), "lambda", [2, 2]),
        (lambda caption, references=None, n=7: n + len(references), "lambda", [9, 9]),
        (lambda items: items["caption"].str.len(), "lambda", [10, 5]),
        (lambda caption: np.float32(0.5), "lambda", [0.5, 0.5]),
        (functools.partial(scaled, 3.0), "scaled", [3, 3]),
        (Overlap(), "Overlap", [1, 1]),
    ):
        made = make_metric(function)
        assert (made.spec, made.score(PAIRS).tolist()) == (name, scores)


def test_what_a_function_needs_follows_from_its_parameters():
    assert make_metric(lambda caption: 1).needs == frozenset()
    assert make_metric(lambda items: items).needs == frozenset()
    assert make_metric(lambda c, r, i: 1).needs == {"references", "images"}
    assert make_metric(lambda caption, image: 1).needs == {"images"}
    with pytest.raises(InputError, match="metric overlap needs references, and row 0 has none"):
        make_metric(overlap).score([{"caption": "a dog"}])


def test_a_function_cannot_change_the_references():
    make_metric(lambda caption, references: float(len(references.pop()))).score(PAIRS)
    assert PAIRS[0]["references"] == ("a dog", "dogs")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda caption: None, "metric lambda: it returned None for x; a number is expected"),
        (lambda caption: "1", "it returned '1' for x"),
        (lambda caption: [1.0], r"it returned \[1\.0\] for x"),
        (lambda caption: 1j, "it returned 1j for x"),
        (lambda caption: caption.nothing, r"AttributeError: .*test_external\.py, line \d+\)"),
        (lambda caption: sys.exit(3), r"SystemExit: 3"),
        (lambda a, b, c, d: 1, r"its parameters are \(a, b, c, d\)"),
    ],
)
def test_a_function_that_is_wrong(function, message):
    with pytest.raises(InputError, match=message) as error:
        make_metric(function).score(PAIRS)
    assert "\n" not in str(error.value)


def test_nan_is_an_undefined_score():
    scores = make_metric(lambda caption: float("nan") if "cat" in caption else 1).score(PAIRS)
    np.testing.assert_array_equal(scores, [1.0, np.nan])


def test_metrics_that_captau_named_are_told_apart(tmp_path):
    def first(caption):
        return 1.0

    functions = [lambda caption: 1.0, lambda caption: 2.0, first]
    specs = [
        m.spec for m in resolve_metrics([*functions, functions[1], "a/mine.csv", "b/mine.csv"])
    ]
    assert specs == ["lambda", "lambda_2", "first", "mine", "mine_2"]
    with pytest.raises(InputError, match="two different metrics are called 'Mine'"):
        resolve_metrics(["a.csv(name=Mine)", "b.csv(name=Mine)"])
    assert make_metric(first, name="Mine").spec == "Mine"


SOURCE = """
from dataclasses import dataclass
import captau

@captau.register("words_of_a_file")
@dataclass(frozen=True)
class Words(captau.Metric):
    def compute(self, rows):
        return [float(len(caption.split())) for caption in rows.captions]

@dataclass(frozen=True)
class Times(captau.Metric):
    factor: int = 2
    def compute(self, rows):
        return [float(self.factor)] * len(rows)

@dataclass(frozen=True)
class Needy(Times):
    path: str = None
    def __post_init__(self):
        raise TypeError("a path is needed")

thrice = Times(3)

def overlap(caption, references):
    return FACTOR * len(references)

FACTOR = 1
"""


def test_python_code_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE)
    for spec, name, scores in (
        ("mine.py:overlap", "overlap", [2, 2]),
        ("./mine.py:overlap", "overlap", [2, 2]),
        (f"{tmp_path}/mine.py:overlap", "overlap", [2, 2]),
        ("python(mine.py:overlap,name=Mine)", "Mine", [2, 2]),
        ("mine.py:overlap(name=Mine)", "Mine", [2, 2]),
        ("mine.py:Words", "words_of_a_file", [3, 2]),
        ("mine.py:Times", "Times", [2, 2]),
        ("mine.py:thrice", "Times(factor=3)", [3, 3]),
    ):
        made = make_metric(spec)
        assert (made.spec, made.score(PAIRS).tolist()) == (name, scores)
        assert make_metric(recipe_of(made)) == made
    with pytest.raises(InputError, match=r"cannot be made without parameters \(a path is needed\)"):
        make_metric("mine.py:Needy")
    with pytest.raises(
        InputError, match=r"unknown function of mine\.py 'overlpa': did you mean overlap"
    ):
        make_metric("mine.py:overlpa")
    with pytest.raises(InputError, match=r"no file nowhere\.py"):
        make_metric("nowhere.py:f")
    with pytest.raises(InputError, match=r"name a function or class in it, as mine\.py:FUNCTION"):
        resolve_metrics("mine.py")


def test_a_file_that_changed_is_read_again(tmp_path, monkeypatch):
    """Its size and time may be those from before, in which Python's own cache of modules would see no change."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "changing.py"
    path.write_text(SOURCE.replace("words_of_a_file", "changing_words"))
    made = make_metric("changing.py:overlap")
    stat = path.stat()
    assert made.score(PAIRS).tolist() == [2, 2]
    path.write_text(path.read_text().replace("FACTOR = 1", "FACTOR = 5"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert made.score(PAIRS).tolist() == [10, 10]
    assert make_metric("changing.py:Words").name == "changing_words"


def test_what_python_code_gave_has_no_recipe():
    assert recipe_of(make_metric(overlap)) is None
    assert (
        recipe_of(metric("python(any:thing,name=Mine)")) == "python(function=any:thing,name=Mine)"
    )
    assert recipe_of(metric("x.csv")) == "file(path=x.csv,name=x)"


def test_a_class_without_a_name_needs_or_bounds():
    """The class of the docs, before it is registered."""

    @dataclasses.dataclass(frozen=True)
    class Letters(captau.Metric):
        def compute(self, rows):
            return [float(len(caption)) for caption in rows.captions]

    for made in (make_metric(Letters), make_metric(Letters())):
        assert (made.name, made.spec, made.needs) == ("Letters", "Letters", frozenset())
        assert made.score(PAIRS).tolist() == [10, 5]
    with pytest.raises(AttributeError, match="Letters has no attribute 'nothing'"):
        _ = Letters().nothing


CLASSES = """
from dataclasses import dataclass
import captau

@dataclass(frozen=True)
class Words(captau.Metric):
    def compute(self, rows): return ["many"] * len(rows.captions)

@dataclass(frozen=True)
class Power(captau.Metric):
    power: float
    def compute(self, rows): return [len(caption) ** self.power for caption in rows.captions]

square = Power(2)
"""


def test_a_class_that_returns_words_or_has_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classes.py").write_text(CLASSES)
    with says("metric Words returned no numbers (could not convert string to float: 'many')"):
        make_metric("classes.py:Words").score(PAIRS)
    with says("name an object of it instead, as mine = Power(…) in the file makes one"):
        make_metric("classes.py:Power")
    lengths = [len(pair["caption"]) for pair in PAIRS]
    assert make_metric("classes.py:square").score(PAIRS).tolist() == [n**2 for n in lengths]


def test_an_exception_in_a_class_names_metric_file_and_line(tmp_path, monkeypatch):
    """As in a function, in one line; line 6 of the file is the one that raises."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\nimport captau\n\n@dataclass(frozen=True)\n"
        "class Broken(captau.Metric):\n    def compute(self, rows): return [1 / len(rows.images[0:0])]\n"
    )
    with pytest.raises(InputError) as error:
        make_metric("broken.py:Broken").score(PAIRS)
    expected = f"metric Broken: ZeroDivisionError: division by zero ({tmp_path}/broken.py, line 6)"
    assert str(error.value) == expected
