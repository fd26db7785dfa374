"""Rows of a joined table on their way: those of runs and of papers, their names and their notes, by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

from captau.benchmarks.evaluation.papers.published_numbers import PublishedNumber
from captau.benchmarks.reporting.tables.coefficient_column import CoefficientColumn
from captau.benchmarks.reporting.tables.named_run import ColumnKey
from captau.benchmarks.reporting.tables.published_rows import PublishedRows, add_published_rows
from captau.benchmarks.reporting.tables.table_rows import (
    OWN_MARK,
    RowDraft,
    choose_rows,
    computed_rows,
    find_rows,
    group_by_rank,
    name_rows,
    order_rows,
    remove_ranks,
    tell_published_apart,
)
from captau.benchmarks.runs.tables import MISSING, Cell
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from tests.conftest import says

NAN = math.nan
KEY = ColumnKey("flickr8k_expert", ("p",), "overall", "tau_c")
OTHER = ColumnKey("thumb", ("p",), "total", "pearson")


def source(name: str, *rows: Any, signatures: dict[str, str] | None = None) -> Any:
    """A run whose metrics a, b and floor have kinds and orders."""
    styles = {
        "a": SimpleNamespace(kind="reference-based", order=2, label="A"),
        "b": SimpleNamespace(kind="given", order=1.5, label="B"),
        "floor": SimpleNamespace(kind="given", order=9, label="unused"),
    }
    columns = ("metric", "value", "note")
    made = [
        (key, dict(zip(columns, row, strict=True)) | {"ci_low": NAN, "ci_high": NAN, "coefficient": key[3], "protocol": "usual"})
        for key, *row in rows
    ]  # fmt: skip
    return SimpleNamespace(
        name=name,
        rows=made,
        mean_rows=[],
        styles=styles,
        below={"floors": {"floor": "by lot"}, "ceilings": {}},
        run=SimpleNamespace(
            run={"signatures": signatures or {}},
            find_reasons=lambda _: {},
            find_protocol=lambda *_: None,
        ),
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
    assert a.cells == {KEY: Cell("10.0", 0.1, 10.0, rank=3)}
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
    ordered = order_rows(DRAFTS)
    assert labels(ordered) == everything
    assert labels(choose_rows(ordered, ["floors", "mine", "given"])) == ["by lot", "Mine", "Yours"]
    assert labels(choose_rows(ordered, ["given", "floors"])) == ["Yours", "Mine", "by lot"]


def test_own_rows_are_marked_unless_they_are_named_or_a_papers() -> None:
    rows = [
        draft("given", "Mine", "mine"),
        draft("given", "Yours", "yours"),
        draft("given", "Theirs", "theirs", source="S"),
        draft("reference-based", "CIDEr", "cider"),
    ]
    name_rows(rows, {"yours": "X", "Theirs": "X"}, ["given", "cider"])
    # The heading above one's own metrics marks them already.
    assert labels(rows) == ["Mine", "X", "X", f"CIDEr{OWN_MARK}"]
    alone = [draft("given", "Mine", "mine"), draft("given", "Theirs", "theirs", source="S")]
    name_rows(alone, {}, ["given"])
    assert labels(alone) == [f"Mine{OWN_MARK}", "Theirs"]
    with says("names: the rows mine and yours would both be called 'Y'"):
        name_rows(rows, {"given": "Y", "cider": "Y"}, [])


def test_a_published_row_is_told_from_a_computed_one_of_its_name() -> None:
    def made() -> list[RowDraft]:
        published = [draft("reference-based", name, source="S 2020") for name in ("CIDEr", "X")]
        return [draft("reference-based", "CIDEr", "cider"), *published]

    rows = made()
    tell_published_apart(rows, has_sources=False)
    assert labels(rows) == ["CIDEr", "CIDEr (published)", "X"]
    rows = made()
    tell_published_apart(rows, has_sources=True)
    assert labels(rows) == ["CIDEr", "CIDEr (printed by S 2020)", "X (printed by S 2020)"]


def test_rows_of_one_rank_stand_under_a_heading() -> None:
    """The first column's ranks count, or those of the column that is named; rows without a rank come last."""
    ranks = {"a": (2, 1), "b": (1, 2), "c": (2, 2), "d": (None, 1)}
    rows: list[RowDraft] = []
    for name, (first, second) in ranks.items():
        cells = {KEY: Cell("1.0", 0.1, 1.0, rank=first), OTHER: Cell("2.0", 0.2, 2.0, rank=second)}
        rows.append(draft("reference-based", name, name, cells=cells))

    grouped = group_by_rank(rows, [KEY, OTHER], [])
    assert labels(grouped) == ["b", "a", "c", "d"]
    assert [row.heading for row in grouped] == ["rank 1", "rank 2", "rank 2", ""]
    assert labels(group_by_rank(rows, [KEY, OTHER], [OTHER[0]])) == ["a", "d", "b", "c"]
    remove_ranks(rows)
    assert not [row for row in rows for cell in row.cells.values() if cell.rank is not None]


def published(text: str, **changes: Any) -> PublishedNumber:
    protocol = Protocol.resolve("flickr8k_expert", usual_protocol("flickr8k_expert"), {})
    made: dict[str, Any] = {
        "paper": "clipscore_2021", "row": "CIDEr", "spec": "cider", "dataset": "flickr8k_expert",
        "dimension": "overall", "coefficient": "tau_c", "text": text, "protocol": protocol, "revision": "",
        "training": None, "table": "Table 1", "column": "", "source": "", "remark": "", "caveat": "",
    }  # fmt: skip
    return PublishedNumber(**(made | changes))


def column_of(dataset: str, **choices: Any) -> CoefficientColumn:
    protocol = Protocol.resolve(dataset, usual_protocol(dataset), choices)
    return CoefficientColumn(
        head="", dataset=dataset, dimension="", coefficient="", protocol=protocol, revision=""
    )


def test_notes_say_where_published_numbers_are_from() -> None:
    a, b, c = (draft("published", label) for label in "abc")
    refused = {("T", "1", "2"): {"W": 3, "X": 1}}
    left_out = (
        "Left out are numbers on other judgements of T (1) than those here (2): W (3), X (1)."
    )
    nothing = PublishedRows([], {}, {}, {}, is_asked=True)
    missing = ["No published number is of these datasets and coefficients."]
    assert nothing.notes([], has_details=True) == nothing.notes([], has_details=False) == missing
    assert PublishedRows([a], {}, {}, {}, is_asked=False).notes([a], has_details=True) == []
    rows = PublishedRows(
        [a], {"S": [a, b, a], "T": [c]}, {"U": [b], "V": [c]}, refused, is_asked=True
    )
    sentences = [
        left_out,
        "Published numbers stand as they are printed.",
        "The same numbers are printed by S (a, b).",
        "Left out, since a metric has one number in a column, are numbers of U (b).",
    ]
    assert rows.notes([a, b], has_details=True) == sentences
    assert rows.notes([c], has_details=False) == [
        left_out,
        "The same numbers are printed by T (c).",
        "Left out, since a metric has one number in a column, are numbers of V (c).",
    ]
    alone = PublishedRows([], {}, {}, refused, is_asked=True)
    assert alone.notes([], has_details=False) == [left_out]


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
    own = draft("given", "own", "cider", cells={KEY: Cell("1.0", 0.01, 1.0)})
    beside = add_published_rows(columns, [own], ("clipscore_2021",), has_remarks=False)
    assert beside.left_out == {"Hessel et al. 2021": [own]}
    assert "CIDEr" not in {row.label for row in beside.rows}
    assert not add_published_rows(columns, [], (), has_remarks=False).is_asked
