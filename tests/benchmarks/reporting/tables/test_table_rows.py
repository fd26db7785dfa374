"""Order, labels and emphasis of a table's rows: by hand."""

from __future__ import annotations

from typing import Any, cast

from captau.benchmarks.reporting.tables.named_run import ColumnKey
from captau.benchmarks.reporting.tables.table_rows import (
    MEAN,
    RowDraft,
    check_labels,
    emphasise,
    sort_rows,
)
from captau.benchmarks.runs.tables import Cell, number_cell
from tests.conftest import says

KEYS = [
    ColumnKey("one", ("p",), "overall", "tau_c"),
    ColumnKey("two", ("p",), "recall", "pearson"),
]


def draft(kind: str, label: str, *values: float | None, spec: str = "") -> RowDraft:
    cells = {
        key: number_cell(value, 100, 1)
        for key, value in zip(KEYS, values, strict=False)
        if value is not None
    }
    return RowDraft(kind, (0, 0, ""), label, spec, cells=cells)


def labels(drafts: list[RowDraft], *words: str, columns: list[Any] = KEYS) -> str:
    return " ".join(row.label for row in sort_rows(drafts, columns, words))


def test_rows_are_sorted_within_their_group() -> None:
    drafts = [
        draft("given", "a", 0.1, 0.9),
        draft("given", "b", 0.3, 0.1),
        draft("floors", "low", 0.0, 0.0),
        draft("floors", "high", 0.2, 0.2),
        draft("published", "none", None, 0.5),
        draft("published", "c", 0.4, None),
    ]
    assert labels(drafts) == "b a low high c none"
    assert labels(drafts, "two") == "a b high low none c"
    assert labels(drafts, "overall", "tau_c") == "b a high low c none"
    mean = ColumnKey(MEAN, (), "", "")
    drafts[0].cells[cast(Any, mean)] = Cell("9", 9.0, 9.0)
    assert labels(drafts, columns=[*KEYS, mean]).startswith("a b")
    with says(
        "sort=two,tau_c: no column has these names; there are one overall tau_c two recall pearson"
    ):
        labels(drafts, "two", "tau_c")


def test_a_papers_row_stands_beside_the_metrics_own() -> None:
    drafts = [
        draft("given", "own", 0.1, spec="m"),
        draft("given", "paper", 0.9, spec="m"),
        draft("given", "other", 0.5, spec="n"),
    ]
    assert labels(drafts) == "other own paper"


def test_names_that_two_rows_would_share_are_refused() -> None:
    check_labels({"a": "X"}, [("a", "X"), ("a", "X"), ("b", "Y"), ("c", "Y")])
    with says("names: the rows a and b would both be called 'X'; give them different labels"):
        check_labels({"a": "X"}, [("a", "X"), ("b", "X")])


def test_the_best_of_a_column_are_those_as_printed() -> None:
    drafts = [draft("given", n, v) for n, v in zip("abcd", (0.3001, 0.3, 0.2, 0.1), strict=True)]
    drafts += [draft("floors", "e", 0.9), draft("given", "f", None)]
    emphasise(KEYS[0], drafts)
    marks = [d.cells[KEYS[0]].emphasis for d in drafts[:5]]
    assert marks == ["best", "best", "second", "", ""]


def test_a_papers_number_beside_ones_own_does_not_compete() -> None:
    own, paper, apart, alone = (
        draft("given", "own", 0.1, spec="m"),
        draft("given", "paper", 0.9, spec="m"),
        draft("published", "apart", 0.8, spec="n"),
        draft("published", "alone", 0.2, spec="o"),
    )
    for row in (paper, apart, alone):
        row.source = "somewhere"
    apart.apart.add(KEYS[0])
    emphasise(KEYS[0], [own, paper, apart, alone])
    marks = {d.label: d.cells[KEYS[0]].emphasis for d in (own, paper, apart, alone)}
    assert marks == {"own": "second", "paper": "", "apart": "", "alone": "best"}
    one = draft("given", "one", 0.1)
    emphasise(KEYS[0], [one, draft("floors", "low", 0.2)])
    assert one.cells[KEYS[0]].emphasis == ""


def test_a_rater_of_one_seed_does_not_compete_with_the_mean_over_seeds():
    one = draft("learned", "qe seed 0", 0.9, spec="qe seed 0")
    two = draft("learned", "qe seed 1", 0.1, spec="qe seed 1")
    mean = draft("learned", "qe mean", 0.5, spec="qe mean")
    other = draft("given", "CIDEr", 0.4, spec="cider")
    emphasise(KEYS[0], [one, two, mean, other])
    marks = [row.cells[KEYS[0]].emphasis for row in (one, two, mean, other)]
    assert marks == ["", "", "best", "second"]

    # Without their mean, raters compete for themselves.
    emphasise(KEYS[0], [one, other])
    assert one.cells[KEYS[0]].emphasis == "best"
