"""Tier 2: `captau.compat.COCOEvalCap` is pycocoevalcap's own class, on pycocotools' own objects."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pycocoevalcap.eval as reference
import pytest
from pycocotools.coco import COCO

from captau.benchmarks.commands.score import run
from captau.benchmarks.options.score import ScoreOptions, files_of
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.compat import COCOEvalCap
from captau.metrics.registry import metric
from tests.conftest import AWKWARD, says
from tests.parity.test_pycocoevalcap import java_on_path

pytestmark = pytest.mark.java

#: pycocoevalcap loses step at these inside a caption; it is given blanks in their place.
ENDS = str.maketrans(dict.fromkeys("\r\v\f\u2028\u2029", " "))
METRICS = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider"]


class NoSpice:
    """SPICE is left out of the reference: it would download its parser into pycocoevalcap's folder."""

    def compute_score(self, gts: dict[Any, Any], _: Any) -> tuple[float, list[float]]:
        return 0.0, [0.0] * len(gts)

    def method(self) -> str:
        return "SPICE"


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """Annotations and results of awkward captions, and of real ones where they are; ids not in order."""
    folder = tmp_path_factory.mktemp("coco")
    texts = [t.translate(ENDS) for t in AWKWARD]
    captions = dict(enumerate(texts, start=900))
    references = {i: [t for t in texts if t != c][i % 3 :] for i, c in captions.items()}
    try:
        root = request.getfixturevalue("data_root")
    except pytest.skip.Exception:
        pass
    else:
        table = json.loads((root / "coco" / "karpathy_test_references.json").read_text())
        for image_id, refs in list(table.items())[:60]:
            captions[int(image_id)], references[int(image_id)] = refs[-1], refs[:-1]
    rows = [{"image_id": i, "caption": c} for i, refs in references.items() for c in refs]
    annotations = {
        "images": [{"id": i} for i in references],
        "annotations": [{"id": k, **row} for k, row in enumerate(rows)],
    }
    (folder / "a.json").write_text(json.dumps(annotations))
    results = [{"image_id": i, "caption": c} for i, c in captions.items()]
    (folder / "r.json").write_text(json.dumps(results))
    made = COCO(str(folder / "a.json"))
    return made, made.loadRes(str(folder / "r.json")), folder


@pytest.fixture(scope="module")
def theirs(coco: Any) -> Any:
    with java_on_path(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "Spice", NoSpice)
        found = reference.COCOEvalCap(*coco[:2])
        found.evaluate()
    return found


def without_spice(scores: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scores.items() if name != "SPICE"}


def test_all_values_are_pycocoevalcaps(
    coco: Any, theirs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = COCOEvalCap(*coco[:2], spice=False)
    assert ours.params == theirs.params
    assert (ours.eval, ours.imgToEval, ours.evalImgs) == ({}, {}, [])
    capsys.readouterr()
    ours.evaluate()
    assert "CIDEr: 0." in capsys.readouterr().out
    assert list(ours.eval) == list(without_spice(theirs.eval))
    assert ours.eval == pytest.approx(without_spice(theirs.eval), rel=1e-9, abs=1e-9)
    assert list(ours.imgToEval) == list(theirs.imgToEval)
    for image_id, scores in theirs.imgToEval.items():
        assert ours.imgToEval[image_id] == pytest.approx(without_spice(scores), rel=1e-9, abs=1e-9)
    assert ours.evalImgs == list(ours.imgToEval.values())


def test_captau_score_has_the_same_corpus_scores(coco: Any, theirs: Any) -> None:
    found = run(
        ScoreOptions(
            candidates=files_of(str(coco[2] / "r.json"), "candidates"),
            references=files_of(str(coco[2] / "a.json"), "references"),
            metrics=resolve_metrics(METRICS),
        )
    )
    expected = list(without_spice(theirs.eval).values())
    assert list(found.caption_scores.corpus.values()) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_subset_of_the_images(coco: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ours = COCOEvalCap(*coco[:2], spice=False)
    ours.params["image_id"] = [902, 901]
    ours.evaluate()
    assert list(ours.imgToEval) == [902, 901]
    annotations = [a["caption"] for a in coco[0].imgToAnns[902]]
    rows = [{"caption": AWKWARD[2], "references": annotations}]
    assert ours.imgToEval[902]["ROUGE_L"] == metric("rouge_l").score(rows)[0]


def test_images_without_just_one_result(coco: Any) -> None:
    made, results, _ = coco
    ours = COCOEvalCap(made, made.loadRes(results.dataset["annotations"][1:]), spice=False)
    with says("image 900 has 0 results; one is expected"):
        ours.evaluate()
    twice = [*results.dataset["annotations"], {"image_id": 901, "caption": "again"}]
    with says("image 901 has 2 results; one is expected"):
        COCOEvalCap(made, made.loadRes(twice), spice=False).evaluate()
    ours = COCOEvalCap(made, results, spice=False)
    ours.params["image_id"] = [1]
    with says("image 1 has 0 results"):
        ours.evaluate()


def test_spice_of_images(spice_jars: list[Path]) -> None:
    """The details by kind of tuple, at their own image also where ids are not in order."""

    references = {9: ["a red bus on a street", "one bus"], 3: ["two dogs run"]}
    captions = {9: ["a red bus"], 3: ["a cat"]}
    made, results = (
        SimpleNamespace(
            imgToAnns={i: [{"caption": t} for t in texts] for i, texts in table.items()},
            getImgIds=lambda: [9, 3],
        )
        for table in (references, captions)
    )
    ours = COCOEvalCap(made, results)
    ours.evaluate()
    rows = [
        {"caption": "a red bus", "references": ["a red bus on a street", "one bus"]},
        {"caption": "a cat", "references": ["two dogs run"]},
    ]
    parts = {"f": "spice", "pr": "spice_precision", "re": "spice_recall"}
    for key, spec in parts.items():
        found = [ours.imgToEval[i]["SPICE"]["All"][key] for i in (9, 3)]
        assert found == metric(spec).score(rows).tolist()
    assert ours.eval["SPICE"] == pytest.approx(metric("spice").corpus_score(rows))
    assert ours.imgToEval[9]["SPICE"]["All"]["f"] > 0
    assert set(ours.imgToEval[9]["SPICE"]["Object"]) >= {"pr", "re", "f", "tp", "fp", "fn"}
    assert math.isnan(ours.imgToEval[3]["SPICE"]["Color"]["f"])


def test_the_code_path_of_lmms_eval() -> None:
    """lmms-eval makes COCO's index by hand, of images that have an id alone, and loads results from a list."""
    table = COCO()
    captions = {9: "a dog runs", 4: "two cats"}
    references = {9: ["a dog runs fast", "a pup"], 4: ["two cats sit", "cats"]}
    rows = [(i, text) for i, texts in references.items() for text in texts]
    table.dataset = {
        "images": [{"id": i} for i in captions],
        "annotations": [{"image_id": i, "caption": c, "id": k} for k, (i, c) in enumerate(rows)],
    }
    table.createIndex()
    results = table.loadRes([{"image_id": i, "caption": c} for i, c in captions.items()])
    found = COCOEvalCap(table, results, spice=False).evaluate()
    items = [{"caption": c, "references": references[i]} for i, c in captions.items()]
    for name, spec in (("Bleu_4", "bleu_4"), ("ROUGE_L", "rouge_l"), ("CIDEr", "cider")):
        instance = metric(spec)
        assert found[name] == pytest.approx(instance.corpus_score(items), rel=1e-12)
