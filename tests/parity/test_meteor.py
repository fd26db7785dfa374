"""Tier 2: METEOR's statistics and scores, to the last bit, are those of its Java program."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from captau.datasets.registry import load
from captau.metrics.registry import metric
from captau.metrics.text.meteor import jar_process as meteor_jar
from captau.metrics.text.meteor.index import load_index
from captau.metrics.text.meteor.languages import LANGUAGES
from captau.metrics.text.tokens.ptb import tokenize
from tests.conftest import AWKWARD

pytestmark = pytest.mark.java

SCRIPT = Path(__file__).parents[2] / "scripts" / "checks" / "check_meteor.py"


@pytest.fixture(scope="module")
def check():
    """The maintainers' check, which lists what differs."""
    spec = importlib.util.spec_from_file_location("check_meteor", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    meteor_jar.running_process()
    spec.loader.exec_module(module)
    return module


def test_the_check_sees_differences(check, monkeypatch, capsys):
    rows = [("a dog runs", ("a dog ran",)), ("dog", ("dog",))]
    assert check.compare("equal", rows)
    other_delta = replace(LANGUAGES["en"], delta=0.7)
    monkeypatch.setattr(check.meteor.meteor_scores, "__defaults__", (other_delta,))
    assert not check.compare("another δ", rows)
    assert "2 rows; 0 differ in the statistics, 1 in the score" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr("captau.metrics.text.meteor.words.java_hash", len)
    check.meteor._aligner.cache_clear()
    assert not check.compare("other words", [("zqx", ("zqy",))])  # in no table
    monkeypatch.undo()
    check.meteor._aligner.cache_clear()
    assert "1 rows; 1 differ in the statistics" in capsys.readouterr().out


def test_awkward_captions(check):
    tokens = tokenize(AWKWARD)
    rows = [(c, (r,)) for c in tokens for r in tokens]
    rows += [(c, tuple(tokens[:i] + tokens[i + 1 :])) for i, c in enumerate(tokens)]
    assert check.compare("awkward", rows)


@pytest.mark.parametrize("dataset", ["flickr8k_expert", "thumb", "capeval1k", "pascal50s"])
def test_captions(check, dataset, data_root):
    whole, single = check.rows_of(dataset, data_root, every=20)
    assert len(whole) >= 50
    assert check.compare(dataset, whole)
    assert check.compare(dataset, single[::5])


def test_fuzzed_captions(check):
    captions = tokenize(load("demo").items["caption"].unique())
    rows = list(check.Fuzz(list(captions), load_index(), seed=5).rows(1500))
    assert check.compare("fuzzed", rows)


def test_long_captions(check):
    word = "dog"
    rows = [
        # With 10,000 words in the candidate Java's heap is too small.
        ("a very long caption " * 500, ("a long caption", "a very long cap")),
        ("a very long caption", ("a very long caption " * 2500,)),
        (f"{word} " * 100, (f"{word} " * 90 + "cat",)),
        (
            " ".join(f"dog {i} the" for i in range(80)),
            (" ".join(f"the {i} dog" for i in range(80)),),
        ),
        ("." * 500 + " a dog" + " ..." * 50, ("a dog",)),
    ]
    assert check.compare("long", rows)


def test_both_backends_agree():
    rows = [
        {
            "caption": "A man in a red shirt rides his bike.",
            "references": ("The guy rides a bicycle.",),
        },
        {"caption": "two dogs", "references": ("two dogs", "cats")},
    ]
    ours, java = metric("meteor"), metric("meteor(backend=pycocoevalcap)")
    assert ours.score(rows).tolist() == java.score(rows).tolist()
    assert ours.corpus_score(rows) == java.corpus_score(rows)
    assert len(np.unique(ours.score(rows))) == 2
    assert ours.signature != java.signature
