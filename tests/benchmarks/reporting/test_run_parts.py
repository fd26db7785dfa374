"""Titles of scored captions: by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

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
