"""Bands of similar length, worked by hand, and the accuracies on pairs within them."""

from __future__ import annotations

import numpy as np
import pytest

import captau
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.length_bands import compute_band_accuracies, cut_bands
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from tests.conftest import run_captau, says


def test_bands_hold_equally_many_points() -> None:
    bands = cut_bands(np.array([1.0, 2, 3, 4, 5, 6, 7, 9]), "demo")
    assert [band.label for band in bands] == ["1–2 words", "3–4 words", "5–6 words", "7–9 words"]
    assert [int(band.is_in.sum()) for band in bands] == [2, 2, 2, 2]
    assert [band.label for band in cut_bands(np.array([0.0, 0, 0, 3]), "demo")] == [
        "0 words",
        "3 words",
    ]


@pytest.mark.parametrize(
    ("words", "message"), [([4.0, 4.0], "nearly all have 4 words"), ([], "there are none")]
)
def test_points_of_one_length_are_refused(words: list[float], message: str) -> None:
    with says("dataset demo: kind=length compares captions of several lengths", message):
        cut_bands(np.array(words), "demo")


def test_accuracies_of_bands_are_those_of_their_pairs() -> None:
    demo = captau.load("demo")
    selection = EvaluationSet.select(demo, Protocol.resolve("demo", usual_protocol("demo"), {}))
    pairs = selection.judged_pairs
    length = pairs.floors(selection.items)["floor_length"]
    wins = np.where(length == 0, 0.5, length * pairs.strengths > 0)
    accuracies = [a for a in compute_band_accuracies(selection, {}, 50, 0) if a.dimension == "mean"]
    for accuracy in accuracies:
        inside = accuracy.band.is_in
        dimensions = np.unique(pairs.dimension[inside])
        means = [wins[inside & (pairs.dimension == d)].mean() for d in dimensions]
        if len(dimensions) == len(pairs.dimensions):
            assert accuracy.value == pytest.approx(np.mean(means))
        assert accuracy.metric == "floor_length"
        assert accuracy.drawn.shape == (50,)
    assert sum(a.band.is_in.sum() for a in accuracies) == len(pairs.frame)


@pytest.mark.slow
def test_the_command_tables_pairs_by_difference_in_length(tmp_path, capsys) -> None:
    words = ["sensitivity", "dataset=demo", "kind=length", "metrics=rouge_1", "draws=20"]
    assert run_captau(*words, f"output_dir={tmp_path}") == 0
    printed = capsys.readouterr().out
    assert "by difference in length" in printed
    assert "| longer caption |" in printed
    assert "words apart" in (tmp_path / "sensitivity.csv").read_text()
