"""Tables and citations of finished runs, to the letter, in forms that `test_joined_table.py` has no golden files of.

`CAPTAU_GOLDEN=write pytest tests/benchmarks/reporting/test_written_tables.py` writes `tests/golden/joined/` anew; read
the difference before it is committed. The numbers are made up.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from captau.benchmarks.reporting.citations import cite
from captau.benchmarks.reporting.tables.coefficient_column import heading_of, with_headings
from captau.benchmarks.reporting.tables.joined_table import join, written_table
from captau.benchmarks.reporting.tables.table_choices import TableChoices
from captau.benchmarks.reporting.tables.table_layouts import LAYOUTS, appendix
from captau.benchmarks.runs.finished_run import read_run, read_runs
from captau.benchmarks.runs.tables import MISSING, AnyCell, Cell, Column, ResultTable, Row
from captau.benchmarks.runs.terminal_table import rich_of
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.reporting.made_runs import ROWS, made_run
from tests.benchmarks.reporting.test_drawn_figures import compare
from tests.benchmarks.reporting.test_written_pages import RECORD
from tests.conftest import says

GOLDEN = Path(__file__).parents[2] / "golden" / "joined"


def row(dataset: str, dimension: str, coefficient: str, metric: str, value: float | None) -> Any:
    ends = (None, None) if value is None else (value - 0.02, value + 0.03)
    return (dataset, dimension, coefficient, metric, value, *ends, 1, "")


#: Headlines of datasets, and how far a metric's coefficient lies above the first metric's.
HEADLINES = [
    ("flickr8k_expert", "overall", "tau_c"),
    ("flickr8k_cf", "overall", "tau_b"),
    ("nebula", "overall", "tau_c"),
    ("polaris", "overall", "tau_c"),
]


def headlines(*metrics: str, n: int = 4, start: float = 0.3) -> list[Any]:
    return [
        row(*head, metric, start + 0.05 * k - 0.03 * j)
        for j, head in enumerate(HEADLINES[:n])
        for k, metric in enumerate(metrics)
    ]


def brief(**choices: Any) -> TableChoices:
    return TableChoices(**choices)


#: Rows of runs, and choices, by the name of the golden file.
CASES: dict[str, tuple[list[list[Any]], TableChoices]] = {
    "two_datasets": ([headlines("bleu_1", "cider", "Mine", n=2)], brief(own=("Mine",))),
    "four_datasets": ([headlines("bleu_1", "cider", "clipscore")], brief(notes="full")),
    "four_datasets_wide": (
        [headlines("bleu_1", "cider", "Mine with a name that is long")],
        brief(intervals="subscript", label="tab:four"),
    ),
    "three_datasets": ([headlines("bleu_1", "cider", n=3)], brief(intervals="plusminus")),
    "two_runs": (
        [headlines("bleu_1", "cider"), headlines("spice", "meteor", n=3, start=0.31)],
        brief(sort=("mean",)),
    ),
    "two_runs_of_pairs": (
        [
            [
                row("pascal50s", "mean", "accuracy", m, v)
                for m, v in (("cider", 0.8), ("bleu_1", 0.6))
            ],
            headlines("cider", "bleu_1", "spice", n=1),
        ],
        brief(coefficients=("headline",)),
    ),
    "two_runs_of_one_metric": (
        [headlines("bleu_1", n=1), headlines("bleu_1", "spice", n=2)],
        brief(notes="full"),
    ),
    "many_rows": (
        [[row("thumb", "total", "pearson", f"Mine {n}", 0.9 - n / 100) for n in range(31)]],
        brief(title="Many", own=()),
    ),
    "thirty_rows": (
        [[row("thumb", "total", "pearson", f"Mine {n}", 0.9 - n / 100) for n in range(30)]],
        brief(coefficients=("pearson",), notes="none"),
    ),
    "all_coefficients": ([ROWS], brief(coefficients=("all",), dimensions=("overall", "total"))),
    "some_rows": ([ROWS], brief(rows=("floors", "umic", "CIDEr"), coefficients=("tau_b",))),
    "headline_of_a_dimension": ([ROWS], brief(dimensions=("precision", "total"))),
}


def table_of(folder: Path, name: str) -> ResultTable:
    runs, choices = CASES[name]
    folders = []
    for number, rows in enumerate(runs, 1):
        statistics = {"replicates": 100 * number}
        folders.append(made_run(folder / f"run{number}", rows, statistics=statistics))
    return join(read_runs(folders), choices)


def tell(table: ResultTable) -> Iterator[str]:
    yield LAYOUTS["markdown"](table) + "\n"
    yield LAYOUTS["latex"](table) + "\n"
    yield LAYOUTS["csv"](table)
    for width in (120, 80):
        console = Console(width=width, file=io.StringIO(), record=True)
        console.print(rich_of(table, width))
        lines = [line.rstrip() for line in console.export_text().splitlines()]
        yield "\n".join([f"{width} columns:", *lines, ""])


@pytest.mark.parametrize("name", CASES)
def test_joined_tables(name: str, tmp_path: Path) -> None:
    compare("\n".join(tell(table_of(tmp_path, name))), GOLDEN / f"{name}.txt")


@pytest.fixture
def copied(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of one version."""
    copy = Path(shutil.copytree(finished_run, tmp_path / finished_run.name))
    with edited_record(copy) as record:
        record.update(RECORD)
        record["signatures"] = {spec: f"{spec}|made:1" for spec in record["signatures"]}
    return copy


SYSTEM_CHOICES = {
    "usual": TableChoices(),
    "full": TableChoices(
        notes="full", intervals="plusminus", own=("A",), names={"B": "Bee", "bleu_4": "B4"},
        sort=("rouge_l",), title="Mine", label="tab:mine",
    ),
    "none": TableChoices(notes="none", intervals="none", rows=("B",), coefficients=("rouge_l",)),
}  # fmt: skip


@pytest.mark.parametrize("finished_run", ["score"], indirect=True)
@pytest.mark.parametrize("name", SYSTEM_CHOICES)
def test_tables_of_systems(copied: Path, name: str) -> None:
    table = join([read_run(copied)], SYSTEM_CHOICES[name])
    made = [*tell(table), LAYOUTS["html"](table), LAYOUTS["json"](table)]
    compare("\n".join(made), GOLDEN / f"systems_{name}.txt")


@pytest.mark.parametrize("finished_run", ["score"], indirect=True)
def test_options_that_tables_of_systems_lack(copied: Path) -> None:
    for name in ("published", "dimensions"):
        with says(f"{name}= works on runs that measure agreement with people; captau score does"):
            join([read_run(copied)], TableChoices(**{name: ("x",)}))
    with says("unknown system of run=", "'C'", "A, B"):
        join([read_run(copied)], TableChoices(rows=("C",)))
    assert join([read_run(copied)], TableChoices(own=("given",))).rows[0].label == "A"


@pytest.mark.parametrize("finished_run", ["bench_datasets"], indirect=True)
@pytest.mark.parametrize("notes", ["brief", "full"])
def test_a_table_of_several_datasets_has_their_mean(copied: Path, notes: str) -> None:
    table = join([read_run(copied)], TableChoices(notes=notes))
    compare("\n".join(tell(table)), GOLDEN / f"datasets_{notes}.txt")


@pytest.mark.parametrize(
    "finished_run", ["compare", "score", "rank_pairs", "bench_datasets"], indirect=True
)
def test_citations_of_a_run(copied: Path) -> None:
    compare(cite([copied]), GOLDEN / f"cite_{copied.name}.txt")


def test_citations_of_made_up_runs(tmp_path: Path) -> None:
    first = made_run(tmp_path / "first")
    rows = [row("demo", "colour", "accuracy", "cider", 0.8), *headlines("spice", "Mine@home", n=2)]
    second = made_run(tmp_path / "second", rows, statistics={"replicates": 100, "seed": 3})
    protocol = {"name": "umic_2021", "references": "mean_over_single", "split": "test"}
    third = made_run(tmp_path / "third", ROWS[:3], protocol=protocol, command="reproduce")
    made = [cite([first]), cite([first, second]), cite([third])]
    compare("\n".join(made), GOLDEN / "cite.txt")


@pytest.mark.parametrize("finished_run", ["rank_pairs"], indirect=True)
def test_a_study_has_its_own_table(copied: Path) -> None:
    run = read_run(copied)
    for style, name in (("markdown", "table.md"), ("latex", "table.tex")):
        text = written_table([run], TableChoices(), style, has_appendix=False)
        assert text == (copied / name).read_text(encoding="utf-8")
    for runs, choices, style, has_appendix in (
        ([run, run], TableChoices(), "latex", False),
        ([run], TableChoices(notes="full"), "latex", False),
        ([run], TableChoices(), "csv", False),
        ([run], TableChoices(), "latex", True),
    ):
        with says(f"{copied} is a run of captau rank, which has a table of its own"):
            written_table(runs, choices, style, has_appendix=has_appendix)

    choices = TableChoices(rows=("cider",), published=("umic_2021",))
    with says("and takes no published=, rows=: name a run of captau bench, compare or score"):
        written_table([run], choices, "markdown", has_appendix=False)


NUMBER = Cell(
    "-4.5",
    -0.045,
    -4.5,
    low="-5.0",
    high="-4.0",
    reach="0.5",
    rank=2,
    emphasis="best",
    marks=("a", "b"),
)
PLAIN = Cell("44.4", 0.444, 44.4, emphasis="second")
ABSENT = Cell(MISSING, marks=("a",))


def by_hand(intervals: str, *overs: str, kinds: bool = True, **changes: Any) -> ResultTable:
    """A table of as many columns as there are heads above them."""
    cells: list[AnyCell] = [NUMBER, PLAIN, "", ABSENT]
    rows = [
        Row(f"L {label}_<b>", [cells[(n + k) % 4] for n, _ in enumerate(overs)], kind, source)
        for k, (label, source, kind) in enumerate(
            (("one", "", "given"), ("two", "S et al.", "given"), ("three", "", "floors"))
        )
    ]
    table = ResultTable(
        "Title | T",
        "metric",
        [Column(f"h {n}", latex=rf"$h_{n}$", over=over) for n, over in enumerate(overs)],
        with_headings(rows, [heading_of(row.kind) for row in rows])
        if kinds
        else [replace(rows[0], kind="systems")],
        notes=["Note *one*."],
        intervals=intervals,
        footnotes=(("a", "not there & gone"), ("b", "second")),
        signatures=(("L", "s|t:u"),),
        has_legend=True,
        latex_label="tab:x",
    )
    return replace(table, **changes)


@pytest.mark.parametrize("intervals", ["subscript", "plusminus", "none"])
def test_tables_by_hand(intervals: str) -> None:
    made = [
        by_hand(intervals, "A", "A", "B"),
        by_hand(intervals, "A", "B", "C"),
        by_hand(intervals, "A", "B", "C", "D"),
        by_hand(intervals, "A", "B", "C", "D", "E", "F", "G", "H", "I", "J"),
        by_hand(intervals, "", "", corner="system", has_legend=False),
        by_hand(intervals, "A", kinds=False, corner="system", signatures=()),
    ]
    texts = [text for table in made for text in (*tell(table), LAYOUTS["html"](table))]
    texts += [appendix(made[0], is_latex=is_latex) for is_latex in (True, False)]
    texts = [text.partition("<style>")[0] + text.partition("</style>")[2] for text in texts]
    compare("\n".join(texts), GOLDEN / f"by_hand_{intervals}.txt")
