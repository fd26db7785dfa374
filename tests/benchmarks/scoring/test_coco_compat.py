"""Metrics behind the calls of evaluate and torchmetrics, and where the names are imported from."""

from __future__ import annotations

import subprocess
import sys

import pytest

import captau
from captau.benchmarks.scoring import coco_compat as compat
from captau.compat import AccumulatedMetric, EvaluateMetric
from captau.metrics.registry import metric
from tests.conftest import says

CAPTIONS = ["a dog runs on grass", "two cats", "a red bus"]
REFERENCES = [["the dog runs", "a dog on grass"], "two cats sleep", ["a bus is red"]]
ROWS = [{"caption": c, "references": r} for c, r in zip(CAPTIONS, REFERENCES, strict=True)]


@pytest.mark.parametrize("spec", ["bleu_2", "cider", "cider(variant=plain)"])
def test_calls_of_evaluate(spec: str) -> None:
    one = EvaluateMetric(spec)
    scores = metric(spec).score(ROWS).tolist()
    expected = {spec: metric(spec).corpus_score(ROWS), "scores": scores}
    assert one.compute(predictions=CAPTIONS, references=REFERENCES) == expected
    one.add_batch(predictions=CAPTIONS[:2], references=REFERENCES[:2])
    one.add(prediction=CAPTIONS[2], reference=REFERENCES[2])
    assert one.compute() == expected
    with says("there are no items to score"):
        one.compute()


@pytest.mark.parametrize("spec", ["bleu_2", "cider"])
def test_calls_of_torchmetrics(spec: str) -> None:
    one = AccumulatedMetric(spec)
    assert one(CAPTIONS[:2], REFERENCES[:2]) == metric(spec).corpus_score(ROWS[:2])
    assert one(CAPTIONS[2:], REFERENCES[2:]) == metric(spec).corpus_score(ROWS[2:])
    assert one.compute() == metric(spec).corpus_score(ROWS), "of all batches"
    assert one.compute() == metric(spec).corpus_score(ROWS)
    one.reset()
    one.update(CAPTIONS[:1], REFERENCES[:1])
    assert one.compute() == metric(spec).corpus_score(ROWS[:1])


def test_faults() -> None:
    with says("did you mean cider"):
        EvaluateMetric("cidr")
    with says("metric cider: 2 captions and 1 sets of references"):
        EvaluateMetric("cider").compute(predictions=["a", "b"], references=[["a"]])
    with says("lists of one length are expected"):
        AccumulatedMetric("cider").update("a dog", ["a dog"])
    with says("metric clipscore needs images"):
        EvaluateMetric("clipscore").compute(predictions=["a"], references=["a"])


def test_the_module_goes_by_a_shorter_name() -> None:
    import captau.compat as short

    assert captau.compat is short
    assert {name: getattr(short, name) for name in short.__all__} == {
        name: getattr(compat, name) for name in compat.__all__
    }
    with pytest.raises(ImportError):
        from captau.compat import nothing_like_it  # noqa: F401


def test_captau_imports_the_module_on_first_use() -> None:
    code = (
        "import captau, inspect, sys; inspect.getmodule(len)\n"
        "assert 'pandas' not in sys.modules and 'captau.compat' not in sys.modules\n"
        "assert captau.compat.COCOEvalCap"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
