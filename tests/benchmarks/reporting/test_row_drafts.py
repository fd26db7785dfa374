"""Rows of a joined table on their way: those of runs and of papers, their names and their notes, by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from captau.benchmarks.evaluation.papers.published_numbers import PublishedNumber
from captau.benchmarks.reporting.tables.printed_table import CoefficientColumn, PrintedNumber
from captau.benchmarks.reporting.tables.table_rows import (
    OWN_MARK,
    PublishedRows,
    RowDraft,
    _cell,
    _describe_gap,
    _fill_row,
    _find_own,
    _is_printed,
    add_published_rows,
    choose_rows,
    computed_rows,
    find_rows,
    name_rows,
)
from captau.benchmarks.runs.results import missing_note
from captau.benchmarks.runs.tables import MISSING
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from tests.conftest import says

NAN = math.nan
KEY: Any = ("flickr8k_expert", ("p",), "overall", "tau_c")
OTHER: Any = ("thumb", ("p",), "total", "pearson")


@pytest.mark.parametrize(
    ("value", "low", "high", "intervals", "cell"),
    [
        (0.5, 0.4, 0.7, "subscript", PrintedNumber("50.0", 0.5, "40.0", "70.0", "15.0", 2)),
        (0.5, 0.4, 0.7, "plusminus", PrintedNumber("50.0", 0.5, "40.0", "70.0", "15.0", 2)),
        (0.5, 0.4, 0.7, "none", PrintedNumber("50.0", 0.5, rank=2)),
        (0.5, NAN, 0.7, "subscript", PrintedNumber("50.0", 0.5, rank=2)),
        (0.5, 0.4, NAN, "subscript", PrintedNumber("50.0", 0.5, rank=2)),
    ],
)
def test_a_number_has_its_interval(
    value: float, low: float, high: float, intervals: str, cell: PrintedNumber
) -> None:
    row = {"value": value, "ci_low": low, "ci_high": high, "coefficient": "tau_c"}
    assert _cell(row, 2, intervals) == cell


def test_a_gap_has_its_reason_without_the_remedy() -> None:
    assert _describe_gap("") == "undefined"
    assert _describe_gap("undefined: few") == "undefined: few"
    assert _describe_gap(missing_note("needs images; get some")) == "needs images"


def source(name: str, *rows: Any, signatures: dict[str, str] | None = None) -> Any:
    """A run whose metrics a, b and floor have kinds and orders."""
    styles = {
        "a": SimpleNamespace(kind="reference-based", order=2, label="A"),
        "b": SimpleNamespace(kind="given", order=1.5, label="B"),
        "floor": SimpleNamespace(kind="given", order=9, label="unused"),
    }
    columns = ("metric", "value", "note")
    made = [
        (key, dict(zip(columns, row, strict=True)) | {"ci_low": NAN, "ci_high": NAN, "coefficient": key[3]})
        for key, *row in rows
    ]  # fmt: skip
    return SimpleNamespace(
        name=name,
        rows=made,
        mean_rows=[],
        styles=styles,
        below={"floors": {"floor": "by lot"}, "ceilings": {}},
        run=SimpleNamespace(run={"signatures": signatures or {}}),
        ranks={("flickr8k_expert", "overall", "tau_c", "a"): 3},
    )


def test_rows_of_runs_are_by_kind_metric_and_signature() -> None:
    first = source(
        "one",
        (KEY, "a", 0.1, ""),
        (KEY, "b", NAN, "undefined: x"),
        (KEY, "floor", 0.0, ""),
        (OTHER, "a", 0.3, ""),
        signatures={"a": "a|1"},
    )
    second = source("two", (KEY, "a", 0.9, ""), (KEY, "b", 0.5, ""), signatures={"a": "a|2"})
    third = source("three", (KEY, "a", 0.8, ""), signatures={"a": "a|1"})
    a, b, floor, other = computed_rows([first, second, third], cast(Any, {KEY: None}), "none")
    assert (a.kind, a.order, a.label, a.spec, a.signature, a.source) == (
        *("reference-based", (2, 0, ""), "A", "a", "a|1", ""),
    )
    assert a.cells == {KEY: PrintedNumber("10.0", 0.1, rank=3)}
    assert (a.runs, a.texts) == ({KEY: 0}, {})
    assert (b.kind, b.order, b.label, b.runs) == ("given", (1.5, 0, ""), "B", {KEY: 0})
    assert (b.cells[KEY].text, b.texts) == (MISSING, {KEY: ["undefined: x"]})
    assert (floor.kind, floor.order, floor.label) == ("floors", (0, 0, ""), "by lot")
    assert (other.label, other.signature, other.runs) == ("A (two)", "a|2", {KEY: 1})
    assert other.cells[KEY].value == 0.9


def draft(kind: str, label: str, spec: str = "", order: float = 0, **changes: Any) -> RowDraft:
    return RowDraft(kind, (order, 0, ""), label, spec, **changes)


DRAFTS = [
    draft("floors", "by lot", "floor_random"),
    draft("given", "Mine", "mine", 2),
    draft("given", "Yours", "yours", 1),
    draft("reference-based", "CIDEr", "cider", 5),
    draft("published", "TIGEr", order=0),
]


def labels(rows: list[RowDraft]) -> list[str]:
    return [row.label for row in rows]


def test_rows_are_found_by_metric_label_or_group() -> None:
    assert labels(find_rows(DRAFTS, "CIDER", "rows")) == ["CIDEr"]
    assert labels(find_rows(DRAFTS, "Floor_Random", "rows")) == ["by lot"]
    assert labels(find_rows(DRAFTS, "Given", "rows")) == ["Mine", "Yours"]
    assert labels(find_rows(DRAFTS, "ceilings", "rows")) == []
    with says("unknown row of own 'spice'", "cider", "TIGEr", "mine"):
        find_rows(DRAFTS, "spice", "own")


def test_rows_are_chosen_in_the_order_of_names_and_once() -> None:
    everything = ["CIDEr", "Yours", "Mine", "TIGEr", "by lot"]
    assert labels(choose_rows(DRAFTS, [])) == everything
    assert labels(choose_rows(DRAFTS, ["floors", "mine", "given"])) == ["by lot", "Mine", "Yours"]


def test_own_rows_are_marked_unless_they_are_named_or_a_papers() -> None:
    rows = [
        draft("given", "Mine", "mine"),
        draft("given", "Yours", "yours"),
        draft("given", "Theirs", "theirs", source="S"),
        draft("reference-based", "CIDEr", "cider"),
    ]
    name_rows(rows, {"yours": "X", "Theirs": "X"}, ["given"])
    assert labels(rows) == [f"Mine{OWN_MARK}", "X", "X", "CIDEr"]
    with says("names: the rows mine and yours would both be called 'Y'"):
        name_rows(rows, {"given": "Y", "cider": "Y"}, [])


def published(text: str, **changes: Any) -> PublishedNumber:
    protocol = Protocol.resolve("flickr8k_expert", usual_protocol("flickr8k_expert"), {})
    made: dict[str, Any] = {
        "paper": "clipscore_2021", "row": "CIDEr", "spec": "cider", "dataset": "flickr8k_expert",
        "dimension": "overall", "coefficient": "tau_c", "text": text, "protocol": protocol, "revision": "",
        "training": None, "table": "Table 1", "column": "", "source": "", "remark": "", "caveat": "",
    }  # fmt: skip
    return PublishedNumber(**(made | changes))


@pytest.mark.parametrize(
    ("value", "text", "is_equal"),
    [(0.4386, "43.9", True), (0.4386, "43.86", True), (0.4386, "44", True), (0.4386, "43.8", False)],
)  # fmt: skip
def test_a_number_is_printed_at_the_papers_digits(value: float, text: str, is_equal: bool) -> None:
    row = draft("given", "x", cells={KEY: PrintedNumber("", value)})
    assert _is_printed(row, KEY, published(text)) is is_equal


def test_a_run_has_a_metrics_number_where_it_is_one() -> None:
    gap = draft("given", "gap", "a", cells={KEY: PrintedNumber(MISSING, NAN)})
    other = draft("given", "other", "b", cells={KEY: PrintedNumber("1", 0.01)})
    own = draft("given", "own", "a", cells={KEY: PrintedNumber("2", 0.02)})
    assert _find_own([gap, other, own], {"a", None}, KEY) is own
    assert _find_own([gap, other], {"a"}, KEY) is None
    assert _find_own([own], {"a"}, OTHER) is None


def column_of(dataset: str, **choices: Any) -> CoefficientColumn:
    protocol = Protocol.resolve(dataset, usual_protocol(dataset), choices)
    return CoefficientColumn(dataset, "", "", protocol, "", "", "", "")


def test_a_papers_row_is_called_as_by_the_paper_that_prints_most_of_it() -> None:
    third: Any = ("flickr8k_cf", ("p",), "overall", "tau_b")
    numbers = {
        KEY: published("43.9", paper="umic_2021", row="Cider", remark="R", caveat="averages draws"),
        OTHER: published("0.5", dataset="thumb", coefficient="pearson"),
        third: published("24.6", dataset="flickr8k_cf"),
    }
    columns = {KEY: column_of("flickr8k_expert"), OTHER: column_of("flickr8k_expert"), third: column_of("flickr8k_expert")}  # fmt: skip
    row = draft("published", "first")
    _fill_row(row, numbers, columns, {"cider": "given"}, has_remarks=True)
    assert (row.label, row.source, row.kind, row.spec) == (
        *("CIDEr", "Hessel et al. 2021", "given", "cider"),
    )
    assert row.order[1:] == (1, "Hessel et al. 2021")
    assert row.cells[KEY] == PrintedNumber("43.9", 0.439)
    assert row.apart == {KEY}
    assert row.texts[KEY][-1] == "Lee et al. 2021: averages draws"
    assert row.texts[third] == []
    brief = draft("published", "first")
    _fill_row(brief, numbers, columns, {}, has_remarks=False)
    assert brief.texts[KEY] == ["Lee et al. 2021: averages draws"]
    assert brief.kind == "reference-based"
    unknown = {k: published("1.0", spec=None, paper=p) for k, p in ((KEY, "umic_2021"), (third, "clipscore_2021"), (OTHER, "clipscore_2021"))}  # fmt: skip
    plain = draft("published", "first")
    _fill_row(plain, unknown, columns, {}, has_remarks=True)
    assert (plain.kind, plain.spec, plain.order) == ("published", "", (0, 0, ""))
    assert plain.texts == {KEY: ["printed by Lee et al. 2021"], third: [], OTHER: []}


def test_notes_say_where_published_numbers_are_from() -> None:
    a, b, c = (draft("published", label) for label in "abc")
    nothing = PublishedRows([], {}, {}, {}, is_asked=True)
    missing = ["No published number is of these datasets and coefficients."]
    assert nothing.notes([], has_details=True) == nothing.notes([], has_details=False) == missing
    assert PublishedRows([a], {}, {}, {}, is_asked=False).notes([a], has_details=True) == []
    rows = PublishedRows(
        [a], {"S": [a, b, a], "T": [c]}, {"U": [b], "V": [c]}, {("W", "why"): 3}, is_asked=True
    )
    sentences = [
        "Left out: 3 of W, why.",
        "Published numbers stand as they are printed.",
        "The same numbers are printed by S (a, b).",
        "Left out, since a metric has one number in a column, are numbers of U (b).",
    ]
    assert rows.notes([a, b], has_details=True) == sentences
    assert rows.notes([c], has_details=False) == [
        "Left out: 3 of W, why.",
        "The same numbers are printed by T (c).",
        "Left out, since a metric has one number in a column, are numbers of V (c).",
    ]
    refused = PublishedRows([], {}, {}, {("W", "why"): 3}, is_asked=True)
    assert refused.notes([], has_details=False) == ["Left out: 3 of W, why."]


def test_a_metric_that_captau_lacks_has_a_row_by_its_papers_name() -> None:
    """Hessel et al. 2021 print TIGEr, which is in no kind of captau's, and CIDEr, which is."""
    columns = {KEY: column_of("flickr8k_expert")}
    made = add_published_rows(columns, [], ("clipscore_2021",), has_remarks=False)
    rows = {row.label: row for row in made.rows}
    tiger, cider = rows["TIGEr"], rows["CIDEr"]
    assert (tiger.kind, tiger.order, tiger.spec) == ("published", (0, 0, ""), "")
    assert (cider.kind, cider.spec, cider.order[1:]) == (
        *("reference-based", "cider", (1, "Hessel et al. 2021")),
    )
    assert tiger.source == "Hessel et al. 2021"
    assert (made.is_asked, made.equal, made.left_out, made.refused) == (True, {}, {}, {})
    own = draft("given", "own", "cider", cells={KEY: PrintedNumber("1.0", 0.01)})
    beside = add_published_rows(columns, [own], ("clipscore_2021",), has_remarks=False)
    assert beside.left_out == {"Hessel et al. 2021": [own]}
    assert "CIDEr" not in {row.label for row in beside.rows}
    assert not add_published_rows(columns, [], (), has_remarks=False).is_asked
