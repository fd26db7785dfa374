"""Columns, letters, titles and notes of joined tables, and named runs, by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.evaluation.papers.published_numbers import COMPARED_CHOICES
from captau.benchmarks.reporting.citations import _listed, _second_sentence
from captau.benchmarks.reporting.tables.joined_table import (
    _average_runs,
    _describe_dataset,
    _finish_cells,
    _letter,
    _row,
    _title,
    _without_clusters,
)
from captau.benchmarks.reporting.tables.latex_table import (
    _choose_size,
    _stack_head,
    _turn_head,
    breaking,
)
from captau.benchmarks.reporting.tables.named_run import (
    NamedRun,
    describe_statistics,
    name_runs,
    shorten_hashes,
    style_of,
)
from captau.benchmarks.reporting.tables.printed_table import (
    CoefficientColumn,
    JoinedTable,
    PrintedNumber,
    RowGroup,
    TableRow,
)
from captau.benchmarks.reporting.tables.table_rows import RowDraft
from captau.benchmarks.runs.tables import MISSING
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.joint_mean import JOINT_KEY

KEYS: list[Any] = [("one", ("p",), "overall", "tau_c"), ("two", ("p",), "overall", "tau_b")]


def column(over: str, head: str = "h", latex: str = "h") -> CoefficientColumn:
    protocol: Any = None
    return CoefficientColumn("d", "p", "c", protocol, "", over, head, latex)


def draft(kind: str, label: str, *values: float | None, source: str = "") -> RowDraft:
    cells = {
        key: PrintedNumber(f"{100 * value:.1f}", value, rank=1)
        for key, value in zip(KEYS, values, strict=False)
        if value is not None
    }
    return RowDraft(kind, (0, 0, ""), label, label, source=source, cells=cells)


def test_footnotes_have_letters() -> None:
    numbers = (0, 1, 25, 26, 27, 51, 52, 701, 702)
    letters = ["a", "b", "z", "aa", "ab", "az", "ba", "zz", "aaa"]
    assert [_letter(number) for number in numbers] == letters


def test_letters_are_given_out_in_the_order_of_reading() -> None:
    first, second = draft("given", "a", 0.1, 0.2), draft("given", "b", None, 0.2)
    first.texts = {KEYS[0]: ["x", "y"], KEYS[1]: ["y"]}
    second.texts = {KEYS[1]: ["z"]}
    letters: dict[str, str] = {}
    rows = [_row(d, KEYS, letters) for d in (first, second)]
    assert [[cell and cell.marks for cell in row.cells] for row in rows] == [
        [("a", "b"), ("b",)],
        [None, ("c",)],
    ]
    assert letters == {"x": "a", "y": "b", "z": "c"}
    assert (rows[0].label, rows[0].source, rows[0].spec, rows[0].signature) == ("a", "", "a", "")


@pytest.mark.parametrize(
    ("overs", "title"),
    [
        ("AAB", "Agreement of metrics with people: A, B"),
        ("ABC", "Agreement of metrics with people: A, B, C"),
        ("ABCD", "Agreement of metrics with people on four datasets"),
    ],
)
def test_a_title_names_up_to_three_datasets(overs: str, title: str) -> None:
    columns: Any = {n: column(over) for n, over in enumerate(overs)}
    assert _title(columns | {"mean": column("")}) == title


def test_a_dataset_is_described_by_what_its_protocols_differ_in() -> None:
    usual = usual_protocol("thumb")
    all_references, first = (Protocol.resolve("thumb", usual, c) for c in ({}, {"split": "test"}))
    both = [[getattr(p, name) for name in COMPARED_CHOICES] for p in (all_references, first)]
    data = {"title": "T", "synthetic": False}
    assert _describe_dataset(data, first, both[1:]) == "T"
    assert _describe_dataset(data, first, both) == "T, split test"
    assert _describe_dataset(data | {"synthetic": True}, first, both[:1]) == "T (synthetic)"


def test_clusters_of_one_run_stay() -> None:
    """In the first column two runs meet; in the second one has metrics, and the other a floor."""
    a, b, floor = draft("given", "a", 0.1, 0.2), draft("given", "b", 0.3), draft("floors", "f", 0, 0)  # fmt: skip
    a.runs, b.runs, floor.runs = dict.fromkeys(KEYS, 0), {KEYS[0]: 1}, dict.fromkeys(KEYS, 1)
    assert _without_clusters(KEYS, [a, b, floor])
    ranks = [[d.cells[k].rank for k in d.cells] for d in (a, b, floor)]
    assert ranks == [[None, 1], [None], [1, 1]]
    assert not _without_clusters(KEYS, [a, b, floor])


def test_gaps_of_computed_metrics_are_told() -> None:
    mean: Any = ("mean", (), "", "mean")
    rows = [
        draft("given", "a", 0.3),
        draft("learned", "b", 0.1, 0.2),
        draft("floors", "f", 0.0),
        draft("given", "paper", 0.2, source="S"),
    ]
    _finish_cells({KEYS[0]: column("One"), KEYS[1]: column("Two"), mean: column("")}, rows)
    assert rows[0].cells[KEYS[1]].text == MISSING
    assert math.isnan(rows[0].cells[KEYS[1]].value)
    assert rows[0].texts == {KEYS[1]: ["not computed on Two"]}
    assert [len(row.cells) for row in rows] == [2, 2, 1, 1]
    assert [row.cells[KEYS[0]].emphasis for row in rows] == ["best", "", "", "second"]
    assert all(row.texts == {} for row in rows[1:])


def test_the_mean_of_several_runs_is_over_what_all_have() -> None:
    rows = [
        draft("given", "a", 0.1, 0.2),
        draft("learned", "b", 0.3, 0.6),
        draft("floors", "f", 0.9, 0.9),
        draft("given", "paper", 0.9, 0.9, source="S"),
    ]
    columns = dict(zip(KEYS, (column("One"), column("Two")), strict=True))
    assert _average_runs(columns, rows) == (
        "mean: over One, Two. Of several runs it has no interval and no rank."
    )
    key = list(columns)[2]
    assert key == ("mean", ("one", "two"), "", "mean")
    assert [row.cells[key].value if key in row.cells else None for row in rows] == [
        *(pytest.approx(0.15), pytest.approx(0.45), None, None)
    ]
    assert (rows[0].cells[key].text, rows[0].cells[key].rank) == ("15.0", None)
    assert JOINT_KEY[1] != "mean"
    assert _average_runs(columns, rows) == ""  # there is a mean now
    assert _average_runs({KEYS[0]: column("One")}, rows) == ""
    twice: Any = {KEYS[0]: column("One"), ("one", ("q",), "overall", "tau_c"): column("One")}
    assert _average_runs(twice, rows) == ""


def sized(label: str, *columns: CoefficientColumn, cell: PrintedNumber | None = None) -> Any:
    row = TableRow(label, "", "", "", tuple(cell for _ in columns))
    return JoinedTable("t", "", columns, (RowGroup("given", (row,)),), (), (), (), "subscript")


@pytest.mark.parametrize(
    ("n", "is_beside", "size"),
    [
        *((43, False, ("", False)), (44, False, (r"\scriptsize", False))),
        *((57, False, (r"\scriptsize", False)), (58, False, (r"\scriptsize", True))),
        *((45, True, ("", False)), (46, True, (r"\scriptsize", False))),
        *((60, True, (r"\scriptsize", False)), (61, True, (r"\scriptsize", True))),
    ],
)
def test_a_table_has_the_size_in_which_it_fits(
    n: int, is_beside: bool, size: tuple[str, bool]
) -> None:
    """Of 225 points a column takes 12, or 3 beside others; a character takes 4.9 or 3.7 of the rest."""
    assert _choose_size(sized("x" * n, column("", "")), is_beside=is_beside) == size


def test_the_widest_of_numbers_and_heads_counts() -> None:
    """A head of ten letters, or a number with its ends and marks, 4 + 8 + 1 + 1, beside a label of 33 or 29."""
    head = column("", "x" * 10)
    assert _choose_size(sized("x" * 33, head), is_beside=False) == ("", False)
    assert _choose_size(sized("x" * 34, head), is_beside=False) == (r"\scriptsize", False)
    assert _choose_size(sized("x" * 45, head), is_beside=True) == ("", False)
    number = PrintedNumber("44.4", 0.4, "40.0", "50.0", "5.0", 3, marks=("a",))
    assert _choose_size(sized("x" * 29, head, cell=number), is_beside=False) == ("", False)
    assert _choose_size(sized("x" * 30, head, cell=number), is_beside=False)[0] == r"\scriptsize"


def test_heads_in_latex_are_stacked_or_turned() -> None:
    named = column("A_b: C", latex=r"total $r$")
    assert _turn_head(named) == r"\rotatebox{90}{\scriptsize A\_b: C total $r$}"
    assert _turn_head(column("", latex="$r$")) == r"\rotatebox{90}{\scriptsize $r$}"
    begin, end = r"\scriptsize\begin{tabular}[b]{@{}c@{}}", r"\end{tabular}"
    assert _stack_head(column("", latex=r"a\ b $r$")) == rf"{begin}a\ b \\ $r${end}"
    assert _stack_head(named).endswith(rf" \\ total \\ $r${end}")
    assert breaking("a|b:c_d") == r"a\textbar\allowbreak{}b:\allowbreak{}c\_d"


def test_hashes_are_cut_to_twelve_digits() -> None:
    long, short = "0a" * 16, "0a" * 15 + "0"
    assert shorten_hashes(f"x:{long}|y:{short}") == f"x:{'0a' * 6}|y:{short}"
    assert shorten_hashes(f"z{long}") == f"z{long}"


def run_of(folder: str, **statistics: Any) -> Any:
    path = SimpleNamespace(name=folder.rpartition("/")[2], __str__=lambda: folder)
    return SimpleNamespace(folder=path, run={"config": {"statistics": statistics}, "data": {}})


def test_statistics_have_the_names_of_runs_where_they_differ() -> None:
    runs = [
        NamedRun(run_of(name, **options), name)
        for name, options in (("a", {"seed": 1}), ("b", {"seed": 2}), ("c", {"seed": 1}), ("d", {}))
    ]
    words: Any = lambda options: f"seed {options.seed}"  # noqa: E731
    assert describe_statistics(runs, words) == ["seed 1 (a, c)", "seed 2 (b)"]
    assert describe_statistics(runs[2:], words) == ["seed 1"]
    assert describe_statistics(runs[3:], words) == []


def test_runs_are_named_by_their_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "captau.benchmarks.reporting.tables.named_run.check_same_data", lambda _: None
    )
    a, b = run_of("x/a"), run_of("x/b")
    assert [named.name for named in name_runs([a, b])] == ["a", "b"]
    again = [named.name for named in name_runs([a, run_of("y/a")])]
    assert again == [str(a.folder), again[1]]
    assert again[0] != "a"


def test_a_label_is_a_metric_of_its_own_style() -> None:
    style = style_of("not a metric", "given")
    assert vars(style) == {
        "label": "not a metric", "order": 1000, "scale": 1, "decimals": 3, "note": "",
        "kind": "given", "higher_is_better": True, "citation": "",
    }  # fmt: skip
    assert (style_of("cider", "given").label, style_of("cider", "given").kind) == (
        *("CIDEr", "reference-based"),
    )


@pytest.mark.parametrize(
    ("names", "kind", "text"),
    [
        (["a"], "", "a"),
        (["a", "b", "a"], "", "a and b"),
        (list("abc"), "x", "a, b and c"),
        (list("abcdef"), "x", "a, b, c, d, e and f"),
        (list("abcdefg"), "x", "7 x"),
        (list("abcdefg"), "", "a, b, c, d, e, f and g"),
    ],
)
def test_names_are_listed_or_counted(names: list[str], kind: str, text: str) -> None:
    assert _listed(names, kind) == text


@pytest.mark.parametrize(
    ("intervals", "ranks", "text"),
    [
        ([], [], "We report r"),
        (["i", "i"], ["k"], "We report r with the i; k"),
        (["i", "j"], ["k", "l"], "We report r"),
        (["i"], ["k", "k"], "We report r with the i; k"),
    ],
)
def test_the_second_sentence_has_what_all_runs_share(
    intervals: list[str], ranks: list[str], text: str
) -> None:
    end = "; the appendix has the protocol and all versions."
    assert _second_sentence("r", intervals, ranks) == text + end
