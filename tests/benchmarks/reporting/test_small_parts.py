"""Titles and leading metrics of scored captions, disagreement in browsers, and columns to spare: by hand."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from captau.benchmarks.evaluation.correlation_tables import _spare_columns
from captau.benchmarks.evaluation.overview import DatasetsOverview
from captau.benchmarks.reporting.caption_browser import _View, script_json
from captau.benchmarks.reporting.figure_files import inline
from captau.benchmarks.reporting.run_parts import ScoredCaptions


def scored(n_systems: int, references: tuple[str, ...] = ("refs",)) -> ScoredCaptions:
    """Systems a, b and so on, scored by three metrics."""
    systems = "abcde"[:n_systems]
    corpus = pd.DataFrame(
        [
            (of, system, metric, agreement)
            for of in references
            for system in systems
            for metric, agreement in (("m", 0.1), ("n", 0.3), ("o", 0.2))
        ],
        columns=pd.Index(["references", "system", "metric", "agreement"]),
    )
    run = SimpleNamespace(corpus=corpus, run={"metrics": {m: {"order": 0} for m in "mno"}})
    return ScoredCaptions(cast(Any, run), references[0])


@pytest.mark.parametrize(
    ("n_systems", "references", "title"),
    [
        (1, ("refs",), "a"),
        (3, ("refs",), "a, b, c"),
        (4, ("refs",), "4 systems"),
        (2, ("refs", "more"), "a, b, references refs"),
        (5, ("refs", "more"), "5 systems, references refs"),
    ],
)
def test_a_title_names_up_to_three_systems(
    n_systems: int, references: tuple[str, ...], title: str
) -> None:
    part = scored(n_systems, references)
    assert part.title == title
    assert part.systems == list("abcde"[:n_systems])
    assert part.has_several_references is (len(references) > 1)
    assert len(part.rows) == 3 * n_systems


def view(*, by_image: bool) -> _View:
    """Ranks of two metrics that put the middle captions in other orders."""
    items = pd.DataFrame({"image_id": ["1", "1", "2", "2"]}, index=list("abcd"))
    oriented = pd.DataFrame({"m": [1.0, 2, 3, 4], "n": [1.0, 3, 2, 4]}, index=items.index)
    part = SimpleNamespace(
        items=items, oriented=oriented, metrics=["m", "n"], scales={}, is_by_image=by_image,
        people=lambda _: pd.Series(dtype=float),
    )  # fmt: skip
    return _View(cast(Any, part))


def test_captions_disagree_by_how_far_their_ranks_lie_apart() -> None:
    found = view(by_image=False)
    assert found.ranks["m"].tolist() == [0.125, 0.375, 0.625, 0.875]
    assert found.ranks["n"].tolist() == [0.125, 0.625, 0.375, 0.875]
    assert found.disagreement.tolist() == [0.0, 0.25, 0.25, 0.0]
    assert found.unit.tolist() == [0, 1, 2, 3]


def test_images_disagree_by_how_far_the_ranks_of_a_metric_lie_apart() -> None:
    found = view(by_image=True)
    assert found.disagreement.tolist() == [0.5, 0.5]
    assert found.unit.tolist() == [0, 0, 1, 1]


def test_the_most_disputed_and_some_evenly_spaced_captions_are_chosen() -> None:
    found = view(by_image=False)
    assert found.choose_rows(1.0) == [0, 1, 2, 3]
    assert found.choose_rows(0.75) == [0, 1, 2]
    assert found.choose_rows(0.5) == [0, 1]
    assert found.choose_rows(0.25) == [1]
    assert found.choose_rows(0.2) == []
    assert found.images_of([0, 3, 2]) == ["2", "1"]
    assert view(by_image=True).choose_rows(0.5) == [0, 1]


def test_texts_in_a_script_cannot_end_it() -> None:
    text = "</script><!--&\u2028\u2029\ud800é"
    script = script_json({"a": [text, 1.5]})
    assert script == ('{"a":["\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\u2029\\ud800é",1.5]}')
    assert json.loads(script) == {"a": [text, 1.5]}


def test_narrow_terminals_leave_out_the_last_coefficients_first() -> None:
    columns = [
        SimpleNamespace(dimension=dimension, coefficient=coefficient, content=content)
        for dimension in ("p", "x", "a")
        for coefficient in ("tau_c", "pearson", "accuracy")
        for content in ("value", "interval")
    ]
    spare = _spare_columns(cast(Any, columns), ("p", "tau_c"))
    assert spare == ((4, 5, 10, 11, 16, 17), (2, 3, 8, 9, 14, 15), (7, 13), (12,), (6,))


def test_columns_without_numbers_are_left_out_first_and_then_the_last() -> None:
    def column(dataset: str, value: float) -> SimpleNamespace:
        return SimpleNamespace(dataset=dataset, value=lambda _: value)

    overview = SimpleNamespace(
        columns=[
            *(column("in", 0.1), column("in", math.nan), column("out", 0.2), column("in", 0.3)),
            *(column("out", math.nan), column("out", 0.0)),
        ],
        joint=SimpleNamespace(datasets=["in"]),
        styles={"m": None},
    )
    assert DatasetsOverview._spare_columns(cast(Any, overview)) == [4, 1, 5, 2, 3]


def test_a_figure_in_a_page_is_as_wide_as_it_was_drawn() -> None:
    """Matplotlib draws in points, of which 72 are as long as a page's 96 pixels: 90 are 120."""

    def savefig(buffer: Any, **options: Any) -> None:
        assert options["transparent"]
        buffer.write(
            b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 60" width="90pt" height="60pt" version="1.1">'
            b"<metadata/><g/></svg>"
        )

    text = inline(SimpleNamespace(savefig=savefig), "one", "Title", "It says <this>")
    assert 'style="--drawn: 120px"' in text
    assert 'viewBox="0 0 90 60"' in text
    assert 'aria-labelledby="one-title one-desc"' in text
    for gone in ("metadata", "version=", "width=", "height="):
        assert gone not in text
    assert text.index('id="one-title">Title<') < text.index('id="one-desc">It says &lt;this&gt;<')
