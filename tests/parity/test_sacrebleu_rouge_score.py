"""Tier 2: our scores are those of sacreBLEU's and rouge-score's own calls on the same captions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from captau.datasets.registry import load
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD

CASES = ["awkward", "flickr8k_expert", "thumb"]
#: Every value of every parameter at least once.
SACREBLEU = [
    "sacrebleu",
    "sacrebleu(tokenize=intl,lowercase=true)",
    "sacrebleu(tokenize=char,effective_order=false)",
    "sacrebleu(tokenize=zh)",
    "sacrebleu(tokenize=none,smooth_method=floor)",
    "sacrebleu(smooth_method=add-k)",
    "sacrebleu(smooth_method=none)",
]


@pytest.fixture(scope="session", params=CASES)
def rows(request: pytest.FixtureRequest) -> Rows:
    """The captions and references of one case."""
    if request.param == "awkward":
        pairs = [(c, (r,)) for c in AWKWARD for r in AWKWARD]
        pairs += [(c, tuple(r for r in AWKWARD if r != c)) for c in AWKWARD]
        return Rows(pd.DataFrame(pairs, columns=["caption", "references"]))
    items = load(request.param, request.getfixturevalue("data_root")).items
    return Rows(items.iloc[:: len(items) // 100].iloc[:100])


def settings(spec: str) -> dict[str, object]:
    """A metric's parameters as sacreBLEU's functions name them."""
    chosen = {f.name: getattr(metric(spec), f.name) for f in dataclasses.fields(metric(spec))}
    del chosen["backend"]
    chosen["use_effective_order"] = chosen.pop("effective_order")
    return chosen


@pytest.mark.parametrize("spec", SACREBLEU)
def test_sentence_scores_are_sacrebleus(spec, rows):
    expected = [
        sacrebleu.sentence_bleu(candidate, list(references), **settings(spec)).score
        for candidate, references in zip(rows.captions, rows.references, strict=True)
    ]
    np.testing.assert_allclose(metric(spec).score(rows), expected, rtol=1e-9, atol=1e-9)
    assert len(set(expected)) > 1


@pytest.mark.parametrize("spec", SACREBLEU)
def test_corpus_scores_are_sacrebleus(spec, rows):
    most = max(map(len, rows.references))
    streams = [[r[k] if k < len(r) else None for r in rows.references] for k in range(most)]
    chosen = settings(spec) | {"use_effective_order": False}
    expected = sacrebleu.corpus_bleu(rows.captions, streams, **chosen).score
    assert expected > 0
    assert metric(spec).corpus_score(rows) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("stemmer", ["false", "true"])
@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL"])
def test_scores_are_rouge_scores(kind, stemmer, rows):
    scorer = RougeScorer([kind], use_stemmer=stemmer == "true")
    expected = [
        scorer.score_multi(list(references), candidate)[kind].fmeasure
        for candidate, references in zip(rows.captions, rows.references, strict=True)
    ]
    one = metric(f"rouge_score_{kind[5:].lower()}(stemmer={stemmer})")
    np.testing.assert_allclose(one.score(rows), expected, rtol=1e-9, atol=1e-9)
    assert len(set(expected)) > 1
