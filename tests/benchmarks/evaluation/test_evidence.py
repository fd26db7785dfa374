"""The evidence of metrics' reliability, from papers and runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ruamel.yaml import YAML

from captau.benchmarks.evaluation.caption_ranges import CaptionRange, Spread
from captau.benchmarks.evaluation.evidence import load_evidence
from captau.benchmarks.evaluation.reliability import (
    MetricReliability,
    Reliability,
)
from captau.benchmarks.evaluation.trusted_metric import describe_trusted_metric
from captau.benchmarks.runs.finished_run import read_run
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.reporting.made_runs import made_run
from tests.conftest import says

ROOT = Path(__file__).parents[3]


WORDS = {"a": 0.2, "in": 0.05}


def range_of(**changes: Any) -> CaptionRange:
    fields = {"caption_words": Spread(8, 10, 12), "reference_words": Spread(8, 10, 12)}
    fields |= {"references": Spread(5, 5, 5), "script": "latin", "frequent_words": WORDS}
    return CaptionRange(**{"n_captions": 100, "n_words": 1000, **fields, **changes})


RANGES = {"flickr8k_expert": range_of(), "thumb": range_of(caption_words=Spread(20, 30, 40))}
RUN_ROWS = [
    ("flickr8k_expert", "overall", "tau_c", "bleu_1", 0.25, 0.2, 0.3, 1, ""),
    ("flickr8k_expert", "overall", "tau_c", "meteor", None, None, None, None, "undefined"),
    ("flickr8k_expert", "style", "tau_c", "bleu_1", 0.9, 0.8, 1.0, 1, ""),
    ("flickr8k_expert", "style", "tau_c", "meteor", 0.5, 0.4, 0.6, 1, ""),
    ("flickr8k_expert", "style", "tau_c", "cider", 0.125, 0.1, 0.2, 1, ""),
    ("thumb", "total", "pearson", "cider", 0.5, None, None, None, ""),
    ("thumb", "total", "pearson", "umic", 0.75, None, None, None, ""),
]


def change_record(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with edited_record(folder) as record:
        change(record)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = made_run(tmp_path / "run", RUN_ROWS)

    def add_ranges(record: dict[str, Any]) -> None:
        for name, captions in RANGES.items():
            record["data"][name]["range"] = captions.record()

    change_record(run, add_ranges)
    return run


def test_evidence_of_a_run_is_that_of_captions_like_the_users(folder: Path) -> None:
    """A dimension that rates a caption as a whole comes first, though another has more of the metrics."""
    assert load_evidence(["m"], None) is None
    specs = ["umic", "cider", "meteor", "bleu_1"]
    evidence = load_evidence(specs, folder)
    assert evidence is not None
    assert evidence.specs == specs
    found = evidence.apply_to({"": range_of()})
    assert list(found.by_spec) == ["cider", "meteor", "bleu_1"]
    assert {spec: str(number) for spec, number in found.by_spec.items()} == {
        "cider": "τ_c 12.5 ± 5.0 on flickr8k_expert (style)",
        "meteor": "τ_c 50.0 ± 10.0 on flickr8k_expert (style)",
        "bleu_1": "τ_c 25.0 ± 5.0 on flickr8k_expert",
    }
    one = found.by_spec["bleu_1"]
    assert (one.coefficient, one.value, one.low, one.high) == ("tau_c", 0.25, 0.2, 0.3)
    assert (one.citation, one.has_range) == ("", True)
    assert one.source == f"run {folder}, protocol usual"
    assert one.captions == "captions of 8 to 12 words, 5 references of 8 to 12 words, latin script"
    assert found.outside == {"umic": "have 10 words, the judged ones 20 to 40 (thumb (total))"}
    long = evidence.apply_to({"a": range_of(caption_words=Spread(20, 30, 40)), "b": range_of()})
    assert long.by_spec == {}
    assert long.outside == {
        "umic": "(b) have 10 words, the judged ones 20 to 40 (thumb (total))",
        "cider": "(b) have 10 words, the judged ones 20 to 40 (thumb (total))",
        "meteor": "(a) have 30 words, the judged ones 8 to 12 (flickr8k_expert (style))",
        "bleu_1": "(a) have 30 words, the judged ones 8 to 12 (flickr8k_expert)",
    }


def test_references_do_not_matter_to_metrics_without_them(folder: Path) -> None:
    evidence = load_evidence(["bleu_1", "meteor"], str(folder))
    assert evidence is not None
    captions = {"": range_of(references=Spread(1, 1, 1))}
    found = evidence.apply_to(captions, ["meteor"])
    assert list(found.by_spec) == ["meteor"]
    assert found.outside == {"bleu_1": "have 1 reference, the judged ones 5 (flickr8k_expert)"}


def test_the_range_of_a_run_is_that_of_its_protocol(folder: Path) -> None:
    def one_reference(record: dict[str, Any]) -> None:
        record["protocols"]["flickr8k_expert"] |= {"references": "first_k", "k": 1}

    change_record(folder, one_reference)
    evidence = load_evidence(["bleu_1"], folder)
    assert evidence is not None
    assert evidence.apply_to({"": range_of()}).outside == {
        "bleu_1": "have 5 references, the judged ones 1 (flickr8k_expert)"
    }
    assert list(evidence.apply_to({"": range_of(references=Spread(1, 1, 1))}).by_spec) == ["bleu_1"]


def test_a_run_that_cannot_vouch_is_refused(folder: Path, tmp_path: Path) -> None:
    with says(f"trust={tmp_path / 'no'} is neither 'published' nor the folder of a run"):
        load_evidence(["m"], tmp_path / "no")
    change_record(folder, lambda record: record["data"]["thumb"].pop("range"))
    with says(
        f"{folder}: run.json has no range of thumb's captions, so that its numbers cannot be applied to others; "
        "run captau bench again"
    ):
        load_evidence(["m"], folder)


def test_printed_numbers_are_in_their_natural_range() -> None:
    """Hessel et al. 2021, Table 1: CIDEr's τ_c is 43.9; Kasai et al. 2022, Table 4, prints .13."""
    cider, bleu = (
        evidence.apply_to({}).by_spec[spec]
        for spec in ("cider", "sacrebleu")
        if (evidence := load_evidence([spec], "published")) is not None
    )
    assert (cider.value, cider.coefficient, cider.judgements) == (0.439, "tau_c", "flickr8k_expert")
    assert cider.source == "Hessel et al. 2021, Table 1"
    assert (bleu.value, bleu.judgements) == (0.13, "thumb (total)")
    assert bleu.source == "Kasai et al. 2022, Table 4 (column w/ Human Total)"
    assert math.isnan(cider.low)
    assert cider.captions.startswith("captions of 6 to 20 words, 5 references of ")


def test_what_captau_measured_stands_where_no_paper_prints_a_number() -> None:
    evidence = load_evidence(["bleu_1", "bleu_2"], "published")
    assert evidence is not None
    found = evidence.apply_to({})
    assert str(found.by_spec["bleu_2"]) == "τ_c 32.5 on flickr8k_expert"
    assert found.by_spec["bleu_2"].source == "measured by captau (results/measured.csv)"
    # Of a metric that a paper has, the paper's number stands.
    assert found.by_spec["bleu_1"].source == "Hessel et al. 2021, Table 1"


def test_measured_numbers_are_those_of_the_committed_baseline() -> None:
    baseline = YAML(typ="safe").load(ROOT / "results/golden/flickr8k_expert.yaml")
    measured = pd.read_csv(ROOT / "results/measured.csv")
    rows = measured.to_dict("records")
    assert {row["metric"] for row in rows} == set(baseline["metrics"])
    for row in rows:
        correlations = baseline["metrics"][row["metric"]]["correlations"]
        assert row["value"] == correlations[f"{row['dimension']} {row['coefficient']}"]


def test_a_run_says_which_metrics_agree_best_by_its_tests(tmp_path: Path) -> None:
    """Metrics of one rank are named together, and what the ranks do not tell is not said: of A and C that they differ."""
    labels = {"cider": "A", "meteor": "B", "bleu_1": "C"}

    def sentence(name: str, ranks: tuple[int | None, ...], **choices: Any) -> str:
        rows = [
            ("flickr8k_expert", "overall", "tau_c", spec, value, 0.0, 1.0, rank, "")
            for spec, value, rank in zip(labels, (0.5, 0.4, 0.3), ranks, strict=True)
        ]
        run = made_run(tmp_path / name, rows)
        change_record(run, lambda record: record["protocols"]["flickr8k_expert"].update(choices))
        numbers = {
            row[3]: Reliability("tau_c", row[4], "flickr8k_expert", f"run {run}") for row in rows
        }
        return describe_trusted_metric(read_run(run), MetricReliability(numbers), labels)

    end = "; how metrics order systems was not tested"
    assert sentence("level", (1, 1, 2)) == (
        "Caption by caption on flickr8k_expert, A and B agree best with people, without a significant difference"
        f"{end} (run {tmp_path / 'level'})."
    )
    assert sentence("ahead", (1, 2, 2)) == (
        "Caption by caption on flickr8k_expert, A agrees best with people (τ_c 50.0), significantly ahead of B"
        f"{end} (run {tmp_path / 'ahead'})."
    )
    assert sentence("untested", (None, None, None)) == ""
    some_run = read_run(tmp_path / "level")
    assert describe_trusted_metric(some_run, MetricReliability(), labels) == ""
