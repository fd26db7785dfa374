"""What is written as LaTeX compiles as it is; skipped where no LaTeX is on the PATH."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from captau.benchmarks.runs.latex_table import join_latex
from captau.benchmarks.runs.tables import ResultTable, Row, number_cell
from tests.conftest import run_captau

TABLES = [
    ResultTable(f"Table {n}", "metric", ["A", "B"], [Row("x", [number_cell(n, 1, 1)] * 2)])
    for n in range(40)
]


def test_many_tables_are_let_out_in_between() -> None:
    text = join_latex(TABLES)
    parts = text.split("\\clearpage")
    assert [part.count(r"\begin{table") for part in parts] == [12, 12, 12, 4]
    assert "clearpage" not in join_latex(TABLES[:12])


def compile_article(text: str, columns: str, folder: Path) -> str:
    """Compile tables in an article that loads what they name, and return what LaTeX prints."""
    packages = "\n".join(dict.fromkeys(re.findall(r"^% (\\usepackage.*)$", text, re.M)))
    source = f"\\documentclass[{columns}]{{article}}\n{packages}\n\\begin{{document}}\n{text}\n\\end{{document}}\n"
    (folder / "page.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
def test_many_tables_compile_without_an_overfull_box(columns: str, tmp_path: Path) -> None:
    assert "Overfull" not in compile_article(join_latex(TABLES), columns, tmp_path)


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
