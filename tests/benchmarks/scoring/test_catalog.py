"""Suites, sets of datasets, usual protocols and styles, by name."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytest

from captau.benchmarks.scoring import catalog
from captau.benchmarks.scoring.catalog import (
    MetricStyle,
    bibliography,
    changes_of,
    choices_of,
    dataset_names,
    describe_left_out,
    expand_sets,
    leave_out_absent,
    metric_style,
    optional_specs,
    resolve_metrics,
    usual_protocol,
)
from captau.datasets.errors import MissingFileError
from captau.metrics.base import Metric
from captau.metrics.registry import metric
from tests.conftest import says


def test_entries_of_the_bibliography_are_found_by_key():
    entries = bibliography()
    assert entries["papineni2002bleu"].startswith("@inproceedings{papineni2002bleu,\n")
    assert all(entry.count("\n@") == 0 for entry in entries.values())
    assert "" not in entries
    text = (catalog.resources.files("captau.conf") / "citations.bib").read_text(encoding="utf-8")
    assert "\n\n".join(entries.values()) == text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"ratings": "mean", "k": None}, {"ratings": "mean", "k": None}),
        ("usual", {}),
        ("mean_rating", {"ratings": "mean"}),
    ],
)
def test_changes_of_a_protocol(given, expected):
    assert {k: v for k, v in changes_of(given).items() if k != "name"} == expected


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("mean_ratings", ["unknown protocol 'mean_ratings'", "did you mean mean_rating"]),
        (["a"], ["protocol is ['a']; a name or a dict of options is expected"]),
        (3, ["protocol is 3; a name or a dict of options is expected"]),
        ({"rating": "mean"}, ["unknown option of protocol 'rating'", "did you mean ratings"]),
        ({1: "mean"}, ["unknown option of protocol '1'"]),
    ],
)
def test_protocols_that_are_none(given, parts):
    with says(*parts):
        changes_of(given)


def specs_of(selection):
    return [m.spec for m in resolve_metrics(selection)]


def test_suites_and_metrics_each_once_in_the_given_order():
    text = specs_of("text")
    assert text[:4] == ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]
    assert specs_of(["cider", "text"]) == ["cider", *(s for s in text if s != "cider")]
    assert specs_of([" text ", "cider"]) == text
    assert specs_of(metric("cider")) == specs_of(["cider", metric("cider")]) == ["cider"]
    assert specs_of(("cider(variant=plain)", "cider")) == ["cider(variant=plain)", "cider"]


def test_a_file_of_scores_with_another_ending_gets_the_way_to_name_it(tmp_path):
    path = tmp_path / "fleur.txt"
    path.write_text("0.5\n")
    with says(f"metrics={path}: scores in a file of this ending are named as file(path={path})"):
        specs_of(str(path))


def test_a_suite_says_what_it_leaves_out():
    """Each metric that `all` lacks, as its name promises them, is beyond captions, references and images, or SPICE's."""
    (line,) = describe_left_out(["cider", "all"])
    assert line.startswith("metrics=all leaves out SPICE")
    assert line.endswith("name them beside it")
    assert describe_left_out("text") == describe_left_out(metric("cider")) == []


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ([], "metrics is empty; name a suite or metrics, such as metrics=cider"),
        (None, "metrics is empty; name a suite or metrics, such as metrics=cider"),
        (5, "metrics is 5; suites or metrics are expected, as metrics=cider"),
        ({"a": 1}, "metrics is {'a': 1}; suites or metrics are expected, as metrics=cider"),
        ([5], "metrics: '5' is not a metric; quote what has brackets: 'metrics=cider(df=FILE)'"),
        ("mine.py", "metrics=mine.py: name a function or class in it, as mine.py:FUNCTION"),
        ("cidr", "unknown metric or suite 'cidr'"),
        ("txt", "unknown metric or suite 'txt': did you mean text or text_all?"),
    ],
)
def test_selections_of_no_metric(selection, message):
    with says(message):
        resolve_metrics(selection)


def test_which_metrics_suites_alone_name():
    free, text = (specs_of(name) for name in ("reference_free", "text"))
    assert optional_specs("reference_free") == set(free)
    assert optional_specs(["reference_free", " text "]) == {*free, *text}
    assert optional_specs(["text", "cider", metric("bleu_1")]) == set(text) - {"cider", "bleu_1"}
    assert optional_specs("cider") == optional_specs(metric("cider")) == frozenset()


@dataclass(frozen=True)
class Own(Metric):
    """A metric of nobody's."""

    @property
    def name(self):
        return "cider"

    @property
    def higher_is_better(self):
        return False

    def compute(self, rows):
        return np.zeros(len(rows))


def test_styles():
    cider = metric_style(metric("cider(variant=plain)"))
    assert (cider.label, cider.scale, cider.decimals) == ("CIDEr(variant=plain)", 100, 1)
    assert (cider.kind, cider.higher_is_better) == ("reference-based", True)
    keys = ("vedantam2015cider", "chen2015microsoft")
    assert cider.citation == "\n".join(bibliography()[key] for key in keys)
    assert metric_style(metric("clipscore")).kind == "reference-free"
    # A class of one's own is no metric of captau's, whatever it calls itself.
    assert metric_style(Own()) == MetricStyle("cider", 1000, 1, 3, "", "given", False, "")
    with says(
        "unknown kind of metric m 'own'",
        "known: given, learned, reference-based, reference-free, released",
    ):
        MetricStyle("m", 1, 1, 1, "", "own", True, "")


def test_names_of_sets_are_spelt_out_each_dataset_once():
    core = ["flickr8k_expert", "cocog", "flickrg", "iicr16k"]
    core += ["caption_quality", "capeval1k", "thumb"]
    assert expand_sets(["core"]) == (core, core)
    assert expand_sets(["demo", "thumb"]) == (["demo", "thumb"], [])
    rest = [name for name in core if name != "thumb"]
    assert expand_sets(["thumb", "core"]) == (["thumb", *rest], rest)
    classic = ["flickr8k_cf", "composite", "pascal50s", "nebula", "cxc_sits"]
    names, optional = expand_sets(["core", "classic"])
    assert names == optional == [*core, *classic]
    here, of_here = expand_sets(iter(["here"]))
    assert of_here == [*here, "here"]
    assert {"demo", "fleur", "file"}.isdisjoint(here)
    assert here == sorted(here)
    assert set(core) < set(here)


def test_datasets_that_are_not_here(monkeypatch, tmp_path, caplog):
    present = {"demo", "thumb", "composite", "composite_8k", "cocog"}
    monkeypatch.setattr(catalog, "is_here", lambda folder, card: card.name in present)
    names = ["thumb", "nebula", "cocog", "hat"]
    with caplog.at_level(logging.WARNING):
        assert leave_out_absent(names, names, tmp_path) == (["thumb", "cocog"], ["nebula", "hat"])
        gets = "captau data fetch dataset=nebula,hat gets them, or says where they are"
        assert caplog.messages == [f"left out, not here: nebula, hat; {gets}"]
        caplog.clear()
        # `here` asks for none, so that nothing is reported.
        assert leave_out_absent(names, [*names, "here"], tmp_path) == (["thumb", "cocog"], [])
        parts = ["composite", "composite_8k", "thumb"]
        assert leave_out_absent(parts, parts, tmp_path) == (["composite", "thumb"], [])
        assert leave_out_absent(parts, parts[:1], tmp_path) == (parts, [])
        assert leave_out_absent(parts[1:], parts, tmp_path) == (parts[1:], [])
        assert leave_out_absent([], [], tmp_path) == ([], [])
    assert caplog.messages == []
    with pytest.raises(MissingFileError) as both:
        leave_out_absent(["thumb", "nebula", "hat", "polaris"], ["polaris"], tmp_path)
    assert str(both.value) == f"not in the data folder {tmp_path}: nebula, hat; " + gets
    with pytest.raises(MissingFileError, match="nebula, hat; captau data fetch"):
        leave_out_absent(["nebula", "hat"], ["nebula", "hat"], tmp_path)
    with says("nebula", str(tmp_path)):
        leave_out_absent(["thumb", "nebula"], [], tmp_path)


def test_usual_protocols():
    assert usual_protocol("demo")["dimension"] == "overall"
    with says("unknown dataset 'dem'", "did you mean demo"):
        usual_protocol("dem")
    assert choices_of("dataset") == dataset_names() == sorted(set(dataset_names()))
    assert choices_of("protocol") == ["clipscore_2021", "mean_rating", "umic_2021", "usual"]


def test_own_datasets_and_protocols(monkeypatch, tmp_path):
    for folder, name, text in (
        ("dataset", "mine", "\ufeffprotocol: {ratings: mean}\n"),
        ("dataset", "plain", "file: {path: x.csv}\n"),
        ("protocol", "own", "ratings: median\n"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CAPTAU_CONFIG_DIR", str(tmp_path))
    assert {"mine", "plain", "demo"} <= set(dataset_names())
    assert usual_protocol("mine") == {"ratings": "mean"}
    assert usual_protocol("plain") == {}
    assert changes_of("own") == {"ratings": "median"}
    assert {"mine", "plain"}.isdisjoint(expand_sets(["here"])[0])
    assert leave_out_absent(["mine"], [], tmp_path) == (["mine"], [])
