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


class Annotations:
    """What `COCOEvalCap` takes of pycocotools' class."""

    def __init__(self, texts: dict[int, list[str]]) -> None:
        self.imgToAnns = {i: [{"caption": t} for t in of_image] for i, of_image in texts.items()}

    def getImgIds(self) -> list[int]:  # noqa: N802
        return list(self.imgToAnns)


TWO_IMAGES = Annotations({7: ["the dog runs", "a dog on grass"], 3: ["two cats sleep"]})
TWO_RESULTS = Annotations({3: ["two cats"], 7: ["a dog runs on grass"]})


def two_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_METHODS", {"Bleu_1": "bleu_1", "CIDEr": "cider"})


def test_the_scores_of_images_stand_by_image_and_in_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_methods(monkeypatch)
    rows = [ROWS[0], {"caption": "two cats", "references": ["two cats sleep"]}]
    bleu, cider = (metric(name).score(rows).tolist() for name in ("bleu_1", "cider"))
    of_all = {"Bleu_1": metric("bleu_1").corpus_score(rows), "CIDEr": sum(cider) / 2}
    one = compat.COCOEvalCap(TWO_IMAGES, TWO_RESULTS, spice=False)
    assert one.params == {"image_id": [7, 3]}
    assert one.evaluate() == pytest.approx(of_all, abs=1e-12)
    assert one.eval == pytest.approx(of_all, abs=1e-12)
    assert list(one.eval) == ["Bleu_1", "CIDEr"]
    expected = [
        {"image_id": i, "Bleu_1": b, "CIDEr": c}
        for i, b, c in zip((7, 3), bleu, cider, strict=True)
    ]
    assert one.evalImgs == expected
    assert one.imgToEval == {7: expected[0], 3: expected[1]}
    # 5 of 5 and 2 of 2 words are in the references; both captions have 7 words, the nearest references 4 + 3.
    assert capsys.readouterr().out == f"Bleu_1: 1.000\nCIDEr: {sum(cider) / 2:.3f}\n"
    assert compat.COCOEvalCap(TWO_IMAGES, TWO_RESULTS).spice is True


def test_spice_of_images_is_a_dict_by_kind_of_tuple(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_methods(monkeypatch)
    figures = {"All": {"pr": 1, "f": 0.5}, "Object": {"pr": None, "f": None}}
    monkeypatch.setattr(compat, "compute_figures", lambda rows: [(1, figures)])
    one = compat.COCOEvalCap(TWO_IMAGES, TWO_RESULTS)
    one.params["image_id"] = [7, 3]
    one.evaluate()
    first, second = (image["SPICE"] for image in one.evalImgs)
    assert repr(first) == "{'All': {'f': nan}}"
    assert repr(second) == "{'All': {'pr': 1.0, 'f': 0.5}, 'Object': {'pr': nan, 'f': nan}}"
    assert capsys.readouterr().out.endswith("SPICE: nan\n")
    monkeypatch.setattr(
        compat, "compute_figures", lambda rows: [(0, {"All": {"f": 0.25}}), (1, figures)]
    )
    assert one.evaluate()["SPICE"] == 0.375
    assert capsys.readouterr().out.endswith("SPICE: 0.375\n")


def test_images_without_just_one_result_or_without_annotations() -> None:
    two = Annotations({7: ["a", "b"], 3: ["c"]})
    with says("image 7 has 2 results; one is expected"):
        compat.COCOEvalCap(TWO_IMAGES, two).evaluate()
    with says("image 3 has 0 results; one is expected"):
        compat.COCOEvalCap(TWO_IMAGES, Annotations({7: ["a"]})).evaluate()
    one = compat.COCOEvalCap(Annotations({7: ["a"]}), TWO_RESULTS)
    one.params["image_id"] = [3]
    with says("image 3 has no annotations; take it from params['image_id']"):
        one.evaluate()


def test_add_takes_the_names_that_public_code_uses() -> None:
    """`metric.add(references=…, predictions=…)`, as in the documentation of Hugging Face's evaluate."""
    expected = EvaluateMetric("bleu_1")
    expected.add(prediction="a dog runs", reference=["a dog", "it runs"])
    found = EvaluateMetric("bleu_1")
    found.add(references=["a dog", "it runs"], predictions="a dog runs")
    assert found.compute() == expected.compute()
    with says("metric bleu_1: add takes one prediction= and one reference="):
        found.add(prediction="a dog")
    with says("metric bleu_1: add takes one prediction= and one reference="):
        found.add(prediction="a dog", predictions="a dog", reference="a dog")
