"""Headlines of datasets: the table is that of the design, of what papers quote; the rest is worked by hand."""

from __future__ import annotations

import math

import pytest

from captau.benchmarks.evaluation.headline import find_headline, sort_by_headline
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets import registry

HEADLINES = {
    "flickr8k_expert": ("overall", "tau_c"),
    "composite": ("overall", "tau_c"),
    "composite_8k": ("overall", "tau_c"),
    "composite_30k": ("overall", "tau_c"),
    "composite_coco": ("overall", "tau_c"),
    "nebula": ("overall", "tau_c"),
    "polaris": ("overall", "tau_c"),
    "longcap_arena": ("descriptiveness", "tau_c"),
    "cocog": ("overall", "tau_c"),
    "flickrg": ("overall", "tau_c"),
    "iicr16k": ("overall", "tau_c"),
    "flickr8k_cf": ("overall", "tau_b"),
    "capeval1k": ("overall", "tau_b"),
    "thumb": ("total", "pearson"),
    "caption_quality": ("overall", "spearman"),
    "context_matters": ("overall_before", "spearman"),
    "context_matters_blv": ("overall", "spearman"),
    "pascal50s": ("mean", "accuracy"),
    "foil": ("mean", "accuracy"),
    "nocaps_foil": ("mean", "accuracy"),
    "iiw_400": ("mean", "accuracy"),
    "iiw_docci": ("mean", "accuracy"),
    "caparena": ("mean", "accuracy"),
    "hat": ("hallucination", "average_precision"),
}


@pytest.mark.parametrize("name", HEADLINES)
def test_headlines_are_what_papers_quote(name: str) -> None:
    protocol = Protocol.resolve(name, usual_protocol(name), {})
    columns = [
        (dimension, coefficient)
        for coefficient in protocol.coefficients
        for dimension in ("HC", *protocol.dimension, "mean")
        if (dimension in ("HC", "mean")) == (coefficient == "accuracy")
    ]
    found = find_headline(columns, protocol.coefficients, registry.card(name).headline)
    assert found == HEADLINES[name]


def test_a_changed_protocol_changes_the_headline() -> None:
    columns = [("precision", "tau_c"), ("recall", "tau_c"), ("recall", "tau_b")]
    assert find_headline(columns, ["accuracy", "tau_b", "tau_c"], "total") == ("recall", "tau_b")
    assert find_headline(columns, ["tau_c"], "recall") == ("recall", "tau_c")
    assert find_headline(columns, ["tau_c"]) == ("precision", "tau_c")


def test_metrics_stand_best_first_and_undefined_last() -> None:
    values = {"a": 0.1, "b": math.nan, "c": 0.3, "d": 0.1}
    assert sort_by_headline(values, {"a": 2, "b": 0, "c": 3, "d": 1}) == ["c", "d", "a", "b"]
