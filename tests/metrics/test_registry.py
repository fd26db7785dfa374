"""Specs: names and parameters as a person types them."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass

import pytest

from captau.benchmarks.scoring.catalog import metric_style
from captau.datasets.errors import InputError
from captau.metrics import registry
from captau.metrics.base import Metric
from captau.metrics.registry import metric, metric_names, register, registered_name
from tests.metrics.metric_samples import (
    REQUIRED,
    Words,
    alternative_values,
)


@pytest.mark.parametrize("name", sorted(set(metric_names()) - set(REQUIRED)))
def test_a_spec_parses_back(name, tmp_path):
    instance = metric(name)
    assert instance.name == instance.spec == name
    hints = typing.get_type_hints(type(instance))
    for field in dataclasses.fields(instance):
        if field.name in instance.name_fields or len(typing.get_args(hints[field.name])) == 1:
            continue  # implied by the name, or nothing else is legal
        for value in alternative_values(instance, field.name, tmp_path):
            changed = dataclasses.replace(instance, **{field.name: value})
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
    instance = metric("cider")
    changed = dataclasses.replace(instance, df=path)
    assert metric(changed.spec) == changed


def test_the_registered_name_goes_by_the_class():
    assert all(registered_name(metric(n)) == n for n in set(metric_names()) - set(REQUIRED))
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
        "tokenize": "ptb",
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
    ("spelling", "name"),
    [
        ("BLEU-4", "bleu_4"),
        ("CIDEr", "cider"),
        ("ROUGE-L", "rouge_l"),
        ("RefPAC-S", "refpac_s"),
        ("CIDEr-D", "cider"),
        ("ciderD", "cider"),
    ],
)
def test_metrics_have_the_names_of_tables_too(spelling, name):
    assert metric(spelling) == metric(name)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cidr", "unknown metric 'cidr': did you mean cider"),
        ("bleu", r"unknown metric 'bleu': did you mean .*bleu_1"),
        ("BLEU_5", "unknown metric 'BLEU_5': did you mean bleu_4 or bleu_3"),
        ("cider(sigm=4)", "unknown parameter of metric cider 'sigm': did you mean sigma"),
        ("bleu_4(n=3)", "unknown parameter of metric bleu_4 'n'"),
        ("cider(variant=plane)", r"unknown value .*'plane': did you mean plain"),
        ("cider(backend=sacrebleu)", r"unknown value .*backend.*known: captau, pycocoevalcap"),
        ("cider(sigma=wide)", "sigma is 'wide', not float"),
        ("cider(sigma=true)", "sigma is 'true', not float"),
        (f"cider(sigma={'-' * 5000}1)", "sigma is '-+…-+1', not float"),
        ("cider(sigma=nan)", "sigma is 'nan', not float"),
        (f"cider(sigma={'9' * 400})", "sigma is '9+', not float"),
        (f"rouge_s(distance={'9' * 5000})", "distance is '9+…9+', not int"),
        ("rouge_s(distance=4.5)", "distance is '4.5', not int"),
        ("rouge_score_l(stemmer=1)", "stemmer is '1', not bool"),
        ("rouge_score_l(stemmer=yes)", "stemmer is 'yes', not bool"),
        ("cider(variant=d", "a name is expected"),
        ("cider)", "a name is expected"),
        ("cider(df=a(b)", "quotes or brackets do not match"),
        ("cider(df=a)b)", "quotes or brackets do not match"),
        ("cider(df=a)(b)", "quotes or brackets do not match"),
        ("cider(df='a)", "quotes or brackets do not match"),
        ("cider(plain,4)", "'4' is not of the form parameter=value"),
        ("meteor(4,5)", "'5' is not of the form parameter=value|unknown value"),
        ("python", "the parameter function is needed"),
        ("file", "the parameter path is needed"),
        ("", "a name is expected"),
        ("3", "a name is expected"),
        (5, "metric 5: a name is expected"),
        (None, "metric None: a name is expected"),
    ],
)
def test_a_wrong_spec_is_an_error_in_one_line(spec, message):
    with pytest.raises(InputError, match=message) as error:
        metric(spec)
    assert "\n" not in str(error.value)


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="bleu_4 is registered twice"):
        register("bleu_4")(Words)


def test_a_registered_class_has_the_name_that_it_is_registered_under(monkeypatch):
    """Fields that a name fixes tell several names apart; a class that extends another keeps its name."""
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))

    @register("counted_words", least=1)
    @register("counted_long_words", least=7)
    @dataclass(frozen=True)
    class Counted(Metric):
        least: int = 1

        def compute(self, rows):
            return [float(sum(len(w) >= self.least for w in c.split())) for c in rows.captions]

    class Extended(Counted):
        pass

    assert [Counted(n).name for n in (1, 7)] == ["counted_words", "counted_long_words"]
    assert Extended(7).name == "counted_long_words"
    assert metric("counted_long_words").spec == "counted_long_words(least=7)"
