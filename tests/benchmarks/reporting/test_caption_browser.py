"""How far captions are in dispute, which rows are chosen, and texts in a script: by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from captau.benchmarks.reporting.caption_browser import _View, script_json


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
