"""The figure of people's agreement on words: where names stand, by hand, and what is drawn, in a golden file."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from captau.benchmarks.evaluation.people.word_measures import WordMeasures
from captau.benchmarks.reporting.charts import figure_files, word_charts
from captau.benchmarks.reporting.charts.word_charts import place_labels, word_figure
from tests.benchmarks.reporting.test_drawn_figures import GOLDEN, compare

NAN = float("nan")


def measures(name: str, fitted_k: float, *, parts: tuple[str, ...], ks: int) -> WordMeasures:
    rows = [
        (word, parts[n % len(parts)], 0.1 * n, 1 - 0.1 * n, 3)
        for n, word in enumerate(("dog", "red", "runs", "the", "cat", "blue", "sits", "a"))
    ]
    frame = pd.DataFrame(rows, columns=["word", "part", "recall", "precision", "k"])
    frame["n_captions"] = range(20, 12, -1)
    by_k = {k + 1: frame[["recall", "precision"]].head(k + 1) for k in range(ks)}
    people = cast(Any, SimpleNamespace(name=name))
    return WordMeasures(people, frame, by_k, fitted_k, "each", has_system=False, note="")


def test_words_of_each_part_have_a_panel(
    drawn_figures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ("noun", "adjective", "verb", "other")
    one = measures("one", 2.5, parts=parts, ks=7)
    two = measures("two", NAN, parts=("", ""), ks=1)
    files = word_figure([one, two], ["cat", "sits"])
    assert files == {"word_agreement.svg": b"x", "word_agreement.png": b"x"}
    compare(drawn_figures[0], GOLDEN / "words_by_part.txt")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert word_figure([one], []) == {}


def test_names_that_are_near_stand_one_below_the_other() -> None:
    """Each stands 0.03 below its point, and 0.045 below the names within 0.25 of it; c is 0.25 from a."""
    points = {
        "a": (0.5, 0.9),
        "b": (0.5, 0.9),
        "c": (0.25, 0.9),
        "d": (0.375, 0.95),
        "e": (0.625, 0.5),
        "f": (NAN, 0.5),
        "g": (0.5, NAN),
    }
    frame = pd.DataFrame(
        [(word, *point) for word, point in points.items()], columns=["word", "recall", "precision"]
    )
    placed = place_labels(frame)
    assert [label[:3] for label in placed] == [(w, *points[w]) for w in "dcabe"]
    heights = [0.92, 0.87, 0.87, 0.825, 0.47]
    assert [label[3] for label in placed] == pytest.approx(heights)


@pytest.mark.parametrize(("x", "side", "shift"), [(0.6, "left", 0.64), (0.61, "right", 0.57)])
def test_a_name_stands_on_the_side_with_room(x: float, side: str, shift: float) -> None:
    one = measures("one", 2.0, parts=("",), ks=1)
    one.frame.loc[0, ["recall", "precision"]] = x, 0.5
    _, axis = figure_files.make_figure(1, 1)
    word_charts.draw_named_words(axis, one, ["dog"], "")
    (text,) = axis.texts
    assert (text.get_text(), text.get_ha()) == ("dog", side)
    assert text.xyann == pytest.approx((shift, 0.47))
