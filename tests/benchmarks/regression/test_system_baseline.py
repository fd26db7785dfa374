"""Baselines of a captioning system: what is written, read back and compared, in whole."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from captau.benchmarks.regression.system_baseline import (
    BaselineScore,
    SystemBaseline,
    digest_references,
    is_baseline,
)
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.datasets.reading.caption_files import CandidateFile, ReferenceFile
from captau.datasets.reading.json_source import JsonSource
from tests.conftest import says

SIGNATURE = "bleu_1|n:1"
TEXT = """\
# A captioning system's baseline: what `captau check candidates=NEW against=FILE` compares with; docs/ci_gate.md explains it.
# Review it like code. With update=true the command writes the new captions and their scores.
format: 1
references: "12ab"
metrics:
  bleu_1: {made: bleu_1, signature: "bleu_1|n:1", score: 0.123456789}
  "mine:f": {made: null, signature: f, score: -2}
captions:
  "7": "a \\"dog\\": yes"
  "a b": "plain"
  "é": "\\u2028"
"""


@pytest.fixture
def baseline() -> SystemBaseline:
    captions = {"7": 'a "dog": yes', "a b": "plain", "é": "\u2028"}
    return SystemBaseline(
        CandidateFile(JsonSource(Path("x.json")), captions, dict.fromkeys(captions, 1)),
        "12ab",
        {
            "bleu_1": BaselineScore("bleu_1", SIGNATURE, 0.12345678901),
            "mine:f": BaselineScore(None, "f", -2.0),
        },
    )


def test_the_written_file_in_whole_and_what_is_read_back(baseline, tmp_path):
    assert baseline.written() == TEXT
    path = tmp_path / "b.yaml"
    path.write_text(TEXT, encoding="utf-8")
    read = SystemBaseline.read(path)
    assert read.captions.captions == baseline.captions.captions
    assert read.captions.lines == {"7": 9, "a b": 10, "é": 11}
    assert read.captions.locate("é") == f"{path}:11: image 'é'"
    assert read.references == "12ab"
    assert read.scores == baseline.scores | {
        "bleu_1": BaselineScore("bleu_1", SIGNATURE, 0.123456789)
    }
    assert read.written() == TEXT
    with says(f"{path}:7", "mine:f was made in Python; name metrics=…"):
        read.make_metrics()


def test_what_cannot_be_made_is_named_with_its_line(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(TEXT.replace("made: bleu_1", "made: blue_1"), encoding="utf-8")
    with says(f"{path}:6", "unknown metric 'blue_1'"):
        SystemBaseline.read(path).make_metrics()
    path.write_text(TEXT.replace("made: null", "made: rouge_l"), encoding="utf-8")
    assert [m.spec for m in SystemBaseline.read(path).make_metrics()] == ["bleu_1", "rouge_l"]


@pytest.mark.parametrize(
    ("now", "references", "expected"),
    [
        # A BLEU is printed x 100 with one decimal: half of the last digit is 0.0005.
        (0.12345 + 0.0004, "12ab", None),
        (0.12345 - 0.0004, "12ab", None),
        (0.12345 + 0.0006, "12ab", ("12.345", "12.405", "+0.06", "neither references nor signature changed: the code of captau or of another package")),
        (0.12345 - 0.0006, "other", ("12.345", "12.285", "-0.06", "other references")),
    ],
)  # fmt: skip
def test_scores_that_moved_by_half_of_the_last_digit_are_listed(
    baseline, now, references, expected
):
    metrics = resolve_metrics(["rouge_l", "bleu_1"])  # the file holds the second alone
    old = replace(baseline, scores={"bleu_1": BaselineScore("bleu_1", SIGNATURE, 0.12345)})
    new = {
        "bleu_1": BaselineScore("bleu_1", SIGNATURE, now),
        "rouge_l": BaselineScore("rouge_l", "", 1.0),
    }
    lines = old.compare(replace(baseline, scores=new, references=references), metrics)
    found = [(x.before, x.now, x.change, x.cause) for x in lines]
    assert found == ([] if expected is None else [expected])
    assert all((x.part, x.metrics, x.fails) == ("scores", ("bleu_1",), True) for x in lines)
    assert all(x.subject == "BLEU-1 of the old captions" for x in lines)


def test_a_changed_signature_is_the_cause(baseline):
    metrics = resolve_metrics(["bleu_1"])
    old = replace(baseline, scores={"bleu_1": BaselineScore("bleu_1", SIGNATURE, 0.5)})
    new = replace(baseline, scores={"bleu_1": BaselineScore("bleu_1", "bleu_1|n:2", 0.25)})
    (line,) = old.compare(new, metrics)
    assert (line.before, line.now, line.change, line.cause) == (
        *("50.000", "25.000", "-25"),
        "parameter n: 1 → 2",
    )


def test_references_are_hashed_in_the_order_of_their_images():
    references = ReferenceFile(JsonSource(Path("r.json")), {"b": ("x", "y"), "a": ("é",), "c": ()})
    text = '[["a", "\\u00e9"], ["b", "x", "y"]]'
    assert (
        digest_references(references, ["b", "a"]) == hashlib.sha256(text.encode()).hexdigest()[:16]
    )
    assert digest_references(None, ["a"]) == ""


def test_baselines_are_known_by_their_names(tmp_path):
    (tmp_path / "run.yaml").mkdir()
    names = ["b.yaml", "b.YML", "b.yaml.json", "yaml", "run.yaml"]
    assert [is_baseline(tmp_path / name) for name in names] == [True, True, False, False, False]
