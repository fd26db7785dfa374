"""The tables of results by name, of made-up frames."""

from __future__ import annotations

import pandas as pd
import pytest

from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.runs.tables import ResultTable

FILES = {
    "correlations": "correlations.csv",
    "overview": "overview.csv",
    "scores": "scores.parquet",
    "disattenuated": "disattenuated.csv",
    "comparison": "comparison.csv",
    "words": "words.parquet",
    "ranks": "ranks.csv",
}


@pytest.mark.parametrize("name", FILES)
def test_a_table_has_its_file(name: str) -> None:
    frames = {file: pd.DataFrame({"file": [file]}) for file in FILES.values()}
    found = getattr(Results(frames, {}), name)
    assert found["file"].tolist() == [FILES[name]]
    if name not in ("correlations", "scores"):
        assert getattr(Results({}, {}), name) is None


def test_differences_and_their_matrix_come_together() -> None:
    frames = {name: pd.DataFrame({"n": [name]}) for name in ("significance.csv", "matrix.csv")}
    found = Results(frames, {}).significance
    assert found is not None
    assert [frame["n"].tolist() for frame in found] == [["significance.csv"], ["matrix.csv"]]
    assert Results({"significance.csv": pd.DataFrame()}, {}).significance is None


def test_judgements_need_all_of_their_files() -> None:
    assert Results({}, {}).judgements is None
    assert Results({"items.parquet": pd.DataFrame()}, {}).judgements is None


def test_tables_are_printed_one_below_the_other() -> None:
    tables = [ResultTable(t, "row", ["x"], [("r", [t])]) for t in ("one", "two")]
    results = Results({}, {}, tables)
    text = results.to_markdown()
    assert text.startswith("**one**\n")
    assert text.count("\n\n**two**\n") == 1
    assert repr(results) == text
    assert results.table().loc["r", "x"] == "one"
    assert results.table(1).loc["r", "x"] == "two"
    page = results._repr_html_()
    assert page.count("<table") == 2
    assert page.index("one") < page.index("two")
