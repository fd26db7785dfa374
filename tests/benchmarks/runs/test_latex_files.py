"""What is written as LaTeX compiles as it is; skipped where no LaTeX is on the PATH."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from captau.benchmarks.runs.latex_table import join_latex
from captau.benchmarks.runs.tables import Column, ResultTable, Row, number_cell
from tests.conftest import run_captau
from tests.latex import compile_article

TABLES = [
    ResultTable(f"Table {n}", "metric", ["A", "B"], [Row("x", [number_cell(n, 1, 1)] * 2)])
    for n in range(40)
]


#: Twelve columns of long heads, and cells that fill a page.
WIDE = ResultTable(
    "Wide",
    "metric",
    [f"Long test set {n} of descriptions" for n in range(12)],
    [Row("x", [number_cell(n + 0.123, 1, 3) for n in range(12)])],
)


#: More rows than a page has lines, and notes that take a third of one.
TALL = ResultTable(
    "Tall",
    "metric",
    ["A"],
    [Row(f"metric {n}", [number_cell(n, 1, 1)]) for n in range(60)],
    notes=["A sentence that explains what the numbers of a column are. "] * 40,
)
#: Six dimensions of four columns each, with heads that they share.
BROAD = ResultTable(
    "Broad",
    "system",
    [
        Column(head, over=over)
        for over in ("precision", "recall", "fluency", "conciseness", "inclusive", "total")
        for head in ("mean", "low", "high", "rank")
    ],
    [Row(f"System {n}", [number_cell(n + k / 100, 1, 3) for k in range(24)]) for n in range(5)],
)


#: Greek letters, accents, signs of several scripts and a picture, in all places that a table has.
SPOKEN = "ν θ Σ ≤ ä ß ő « 法 и ع 👩 ½ ² “so”"
SPEAKING = ResultTable(
    f"Title {SPOKEN}",
    f"corner {SPOKEN}",
    [f"head {SPOKEN}"],
    [Row(f"label {SPOKEN}", [f"cell {SPOKEN}"])],
    notes=[f"A note: {SPOKEN}."],
    numeric=False,
)


def test_many_tables_stand_where_they_are_written() -> None:
    """As floats they would leave pages half empty."""
    text = join_latex(TABLES)
    assert text.count(r"\begin{table") == 0
    assert text.count(r"\begin{minipage}{\linewidth}") == text.count(r"\caption{") == 40
    few = join_latex(TABLES[:12])
    assert few.count(r"\begin{table}") == 12
    assert "minipage" not in few


def test_heads_that_are_wider_than_a_page_are_stacked() -> None:
    for number in (1, 13):
        assert r"Long \\ test \\ set \\ 0 \\ of \\ descriptions" in join_latex([WIDE] * number)


def test_a_table_much_wider_than_a_page_is_divided_where_heads_end() -> None:
    """Each panel has all rows, and whole dimensions."""
    text = join_latex([BROAD])
    panels = text.split(r"\begin{tabular}")[1:]
    assert len(panels) == 2
    heads = [re.findall(r"\{c\}\{(\w+)\}", panel) for panel in panels]
    assert heads == [["precision", "recall", "fluency"], ["conciseness", "inclusive", "total"]]
    for panel in panels:
        assert re.findall(r"System \d", panel) == [f"System {n}" for n in range(5)]
    assert "4.000 & 4.010" in panels[0]
    assert "4.220 & 4.230" in panels[1]
    assert text.count(r"\caption{") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
def test_many_tables_compile_without_an_overfull_box(columns: str, tmp_path: Path) -> None:
    """Forty small tables leave no page half empty, and the article goes on in its own number of columns."""
    text = join_latex([*TABLES, WIDE]) + "\nText behind them.\n" + join_latex([WIDE])
    assert text.count(r"\begin{table*}") == 1
    printed = compile_article(text, columns, tmp_path)
    assert "Overfull" not in printed
    match = re.search(r"\((\d+) pages", printed)
    assert match is not None
    assert int(match[1]) <= 8


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize("number", [1, 13])
def test_tall_and_broad_tables_fit_a_page(number: int, columns: str, tmp_path: Path) -> None:
    text = join_latex([TALL, BROAD, WIDE] * number)
    assert "Overfull" not in compile_article(text, columns, tmp_path)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
def test_characters_of_any_script_do_not_stop_latex(tmp_path: Path) -> None:
    text = join_latex([SPEAKING])
    assert r"$\nu$ $\theta$ $\Sigma$ $\leq$ ä ß ő" in text
    assert r"\ifdefined\Umathchar 法\else U+6CD5\fi{}" in text
    compile_article(text, "onecolumn", tmp_path)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
def test_tables_of_bench_compile_without_an_overfull_box(columns: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("dataset=demo", "metrics=bleu_1,rouge_l,cider", "statistics.replicates=20")
    assert run_captau("bench", *words, f"output_dir={folder}") == 0
    text = (folder / "table.tex").read_text(encoding="utf-8")
    assert text.count(r"\begin{table") > 0
    assert "Overfull" not in compile_article(text, columns, tmp_path)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
def test_metrics_as_raters_compile_without_an_overfull_box(columns: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_captau("agree", "metrics=bleu_1,cider", f"output_dir={folder}") == 0
    text = (folder / "table.tex").read_text(encoding="utf-8")
    assert r"$\omega$" in text
    assert "Overfull" not in compile_article(text, columns, tmp_path)
