"""Datasets of a command, those that are left out, and what a run rests on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.prepared_datasets import (
    LeftOutDatasets,
    prepare_datasets,
    provenance,
)
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.runs.results import RunClock, describe_environment
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import Locations
from captau.datasets.errors import InputError, Lack, LackingError
from captau.datasets.registry import load
from captau.metrics.registry import metric
from tests.conftest import says


def test_datasets_that_lack_something_are_left_out_while_some_are_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left_out = LeftOutDatasets()
    left_out.check(1)
    for name, message in (("a", "a lacks x"), ("b", "both lack y"), ("c", "both lack y")):
        with left_out.leave_out(name):
            raise LackingError(Lack.SYSTEM, message)
    with left_out.leave_out("d"):
        pass
    with pytest.raises(InputError, match="other"), left_out.leave_out("e"):
        raise InputError("other")
    assert left_out.record() == {
        "a": {"lack": "system", "message": "a lacks x"},
        "b": {"lack": "system", "message": "both lack y"},
        "c": {"lack": "system", "message": "both lack y"},
    }
    with caplog.at_level(logging.WARNING):
        left_out.check(4, is_logged=False)
        assert caplog.messages == []
        left_out.check(4)
    assert caplog.messages == [
        "left out a: a lacks x",
        "left out b: both lack y",
        "left out c: both lack y",
    ]
    with pytest.raises(InputError) as error:
        left_out.check(3)
    assert str(error.value) == "a lacks x; both lack y"


RATED = "image,caption,value,references\n1,a b,1,a b\n1,c,2,c\n2,d,3,d\n"
COMPARED = "image,caption_a,caption_b,winner,references\n1,a b,c,a,a b\n2,d,e f,b,d\n"


def prepare(folder: Path, table: str, *metrics: str, options: Any = None, **changes: Any) -> Any:
    path = folder / "file.csv"
    path.write_text(table, encoding="utf-8")
    locations = Locations(
        data_root=folder,
        use_cache=False,
        file_options={"path": str(path), "references": "references"},
    )
    protocol = Protocol.resolve("file", {}, changes)
    chosen = [metric(name) for name in metrics]
    return prepare_datasets(
        {"file": protocol}, chosen, locations, StepProgress(None), **(options or {})
    )


def test_a_study_has_the_metrics_that_can_be_computed_and_their_scores(tmp_path: Path) -> None:
    prepared = prepare(
        tmp_path, RATED, "bleu_1", "clipscore", "rouge_l", coefficients=["tau_b", "pearson"]
    )
    (one,) = prepared
    assert one.name == "file"
    assert [m.spec for m in one.metrics] == ["bleu_1", "rouge_l"]
    assert [m.spec for m in one.missing] == ["clipscore"]
    assert (one.coefficients, dict(one.caveats), dict(prepared.left_out)) == (
        ["tau_b", "pearson"],
        {},
        {},
    )
    assert {m: s.round(6).tolist() for m, s in one.scores().items()} == {
        "bleu_1": [1.0] * 3,
        "rouge_l": [1.0] * 3,
    }
    assert list(one.scores(metrics=one.metrics[:1])) == ["bleu_1"]
    fewer = one.selection.with_items(one.selection.items[:1])
    assert [len(s) for s in one.scores(fewer).values()] == [1, 1]
    record = prepared.record("probe", {"a": 1}, "measures it", RunClock(), seed=3, draws=None)
    assert (record["command"], record["config"], record["measures"]) == (
        "probe",
        {"a": 1},
        "measures it",
    )
    assert (record["seed"], record["draws"]) == (3, None)
    assert list(record["protocols"]) == ["file"]
    assert list(record["missing"]) == ["file"]
    assert list(record["missing"]["file"]) == ["clipscore"]
    assert record["marks"] == {"file": {}}
    assert record["left_out"] == {}
    assert list(record["signatures"]) == ["bleu_1", "rouge_l"]
    assert list(record["data"]) == ["file"]
    none = prepared.record("probe", {}, "", RunClock(), n_finished=0)
    assert (none["signatures"], none["data"], none["marks"]) == ({}, {}, {})


def test_what_a_study_needs_is_asked_for(tmp_path: Path) -> None:
    with says("dataset file: it has preferences and no ratings to correlate with"):
        prepare(tmp_path, COMPARED, "bleu_1")
    (one,) = prepare(tmp_path, COMPARED, "bleu_1", options={"needs_ratings": False})
    assert [m.spec for m in one.metrics] == ["bleu_1"]
    with says("dataset file: protocol.coefficients names none of ratings; add one, such as tau_c"):
        prepare(tmp_path, RATED, "bleu_1", coefficients=["accuracy"])
    with says("needs images"):
        prepare(tmp_path, RATED, "clipscore")
    (none,) = prepare(tmp_path, RATED, "clipscore", options={"needs_ratings": False})
    assert none.metrics == []

    def refuse(selection: EvaluationSet) -> None:
        raise LackingError(Lack.SYSTEM, f"{selection.name} is refused")

    with says("file is refused"):
        prepare(tmp_path, RATED, "bleu_1", options={"check": refuse})


def test_a_run_says_what_its_numbers_rest_on() -> None:
    demo = load("demo")
    found = provenance([metric("bleu_1")], [demo, demo], Locations())
    assert list(found["signatures"]) == ["bleu_1"]
    assert list(found["data"]) == ["demo"]
    record = found["data"]["demo"]
    card = demo.card
    assert record["range"]["n_captions"] == len(demo.items)
    assert {k: v for k, v in record.items() if k not in ("range", "files")} == {
        "revision": card.revision,
        "title": card.title,
        "synthetic": True,
        "headline": card.headline,
        "scales": {name: vars(scale) for name, scale in card.scales.items()},
        "faults": list(card.faults),
        "anonymous_raters": card.anonymous_raters,
        "licence": card.licence,
        "citation": card.citation,
        "digest": demo.digest,
    }
    assert {k: found[k] for k in describe_environment()} == describe_environment()
