"""`captau.table` is the table that `captau table` prints, as an object."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import captau
from tests.benchmarks.reporting.made_runs import made_run
from tests.conftest import run_captau


def test_a_joined_table_is_the_one_that_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = made_run(tmp_path / "mine")
    other = made_run(tmp_path / "other")
    for run in (mine, [mine, other]):
        folders = f"{mine},{other}" if isinstance(run, list) else str(mine)
        assert run_captau("table", f"run={folders}", "rows=cider", "names={cider: C-D}") == 0
        printed = capsys.readouterr().out
        table = captau.table(run, rows="cider", names={"cider": "C-D"})
        assert f"{table.to_markdown()}\n" == printed
        assert repr(table) == table.to_markdown()
        assert table.table().index.tolist() == ["C-D"]
        assert table._repr_html_().count("<table") == 1
        assert r"\toprule" in table.to_latex()


def test_notes_of_none_are_left_out(tmp_path: Path) -> None:
    run = made_run(tmp_path / "mine")
    assert captau.table(run).notes
    assert captau.table(run, notes="none").notes == []


@pytest.mark.parametrize("datasets", ["demo", ["demo", "file"]])
def test_a_number_of_fewer_captions_has_a_footnote(
    datasets: str | list[str], tmp_path: Path
) -> None:
    """`protocol.undefined=drop` leaves three data points of one caption out of a row, and none out of the other's."""

    def gap(items: pd.DataFrame) -> list[float]:
        return [math.nan, *range(1, len(items))]

    judgements = tmp_path / "mine.csv"
    lines = ["image,caption,references,value"]
    lines += [f"{n},a dog {n},a dog {n} runs,{n % 4}" for n in range(8)]
    judgements.write_text("\n".join(lines))
    options: Any = {"file": {"path": str(judgements)}} if "file" in datasets else {}
    captau.bench(
        datasets,
        ["rouge_l", gap],
        protocol={"undefined": "drop"},
        statistics={"replicates": 50},
        output_dir=tmp_path / "run",
        **options,
    )

    (table,) = captau.table(tmp_path / "run").tables
    reasons = dict(table.footnotes)
    marks = {row.label: row.cells[0].marks for row in table.rows if row.cells}
    text = "of 1,077 of 1,080 data points; of the others the score is undefined"
    assert [reasons[mark] for mark in marks["gap"]] == [text]
    assert not marks["ROUGE-L"]


def test_a_run_with_a_table_of_its_own_is_named_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "agreement"
    captau.agree("demo", draws=2, output_dir=folder)
    with pytest.raises(captau.InputError) as raised:
        captau.table(folder)
    assert str(raised.value) == (
        f"{folder} is a run of captau agree, which has a table of its own: {folder}/table.md, or table.tex beside it"
    )
