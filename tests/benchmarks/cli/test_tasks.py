"""What the tasks of commands print, write and return, on work that is made up."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.cli import tasks, terminal
from captau.benchmarks.cli.command import Command
from captau.benchmarks.runs.tables import ResultTable, Row
from captau.datasets.errors import InputError
from tests.conftest import run_captau

COMMAND = Command("made", "..options.bench:BenchOptions", lambda *_: 0, "", "")
NUMBERS = ResultTable(
    "Numbers", "row", ["a", "b"], [Row("x", ["1", "2"])], notes=["n"], details=(1,)
)
MORE = ResultTable("More", "row", ["c"], [Row("y", ["3"])], notes=["n", "m"])
DETAIL = ResultTable("Detail", "row", ["d"], [Row("z", ["4"])], is_detail=True)


def made_result(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(
        tables=[NUMBERS, MORE, DETAIL], files=lambda: {"a.txt": b"text"}, **values
    )


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def options_in(folder: str, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(locations=SimpleNamespace(output_dir=folder), **values)


def test_a_run_writes_its_files_and_shows_its_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Details only where they are asked for, or a command has no such option; each note once."""
    tasks.run_in_folder(COMMAND, options_in("all"), work=lambda _: made_result(summary="Done."))
    shown = capsys.readouterr().out
    assert (tmp_path / "all" / "a.txt").read_bytes() == b"text"
    assert all(text in shown for text in ("Numbers", "| x | 1 | 2 |", "More", "Detail"))
    assert (shown.count("n\n"), shown.count("m\n")) == (1, 1)
    assert shown.endswith("\n\nwritten to all\nDone.\n")
    tasks.run_in_folder(COMMAND, options_in("few", details=False), work=lambda _: made_result())
    shown = capsys.readouterr().out
    assert "Detail" not in shown
    assert "| x | 1 |\n" in shown
    assert shown.endswith(
        "\n\nwritten to few\ndetails=true prints all columns, tables and notes, which table.md has as well\n"
    )
    tasks.run_in_folder(COMMAND, options_in("more", details=True), work=lambda _: made_result())
    assert capsys.readouterr().out.endswith("| z | 4 |\n\nwritten to more\n")


def test_a_run_by_dataset_writes_what_is_done(tmp_path: Path) -> None:
    written: list[list[str]] = []

    def work(_: Any, write: Callable[[Any], None]) -> SimpleNamespace:
        write(SimpleNamespace(files=lambda: {"early.txt": b""}))
        written.append(sorted(p.name for p in tmp_path.glob("run*/*.txt")))
        return made_result()

    tasks.run_by_dataset(COMMAND, options_in("run"), work=work)
    assert written == [["early.txt"]]
    assert (tmp_path / "run" / "a.txt").is_file()


@pytest.mark.parametrize(("task", "has_figures"), [
    (tasks.run_with_figures, True), (tasks.run_in_folder, False),
    (lambda *a, **k: tasks.rank_systems(*a, work=lambda *_: made_result()), True),
])  # fmt: skip
def test_missing_figures_are_told(
    task: Callable[..., None],
    has_figures: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from captau.benchmarks.reporting.charts import figure_files

    with monkeypatch.context() as without_matplotlib:
        without_matplotlib.setitem(sys.modules, "matplotlib", None)
        task(COMMAND, options_in("a"), work=lambda _: made_result())
    assert capsys.readouterr().out.endswith(figure_files.NO_FIGURES + "\n") == has_figures
    task(COMMAND, options_in("b"), work=lambda _: made_result())
    assert figure_files.NO_FIGURES not in capsys.readouterr().out


@pytest.mark.parametrize(("missing", "raised"), [
    ("fastapi", InputError), ("captau.server", ModuleNotFoundError), (None, ModuleNotFoundError),
])  # fmt: skip
def test_a_missing_package_of_the_server_is_named(
    missing: str | None, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> Any:
        raise ModuleNotFoundError("no", name=missing)

    entries = {("captau.commands", "made"): [SimpleNamespace(load=load)]}
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda *, group, name: entries[group, name]
    )
    with pytest.raises(raised) as caught:
        tasks.run_web_command(COMMAND, None)
    assert missing != "fastapi" or str(caught.value) == (
        "fastapi is not installed: pip install 'captau[server]'"
    )
    entries["captau.commands", "made"] = [SimpleNamespace(load=lambda: lambda options: options)]
    assert tasks.run_web_command(COMMAND, 3) == 3


@pytest.mark.parametrize(("is_terminal", "expected"), [
    (True, "aa bb\ncc\n\n  aa bb cc dd\na-long-word-of-paths\n"),
    (False, "aa bb cc\n\n  aa bb cc dd\na-long-word-of-paths\n"),
])  # fmt: skip
def test_sentences_are_as_wide_as_the_terminal(
    is_terminal: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "6")
    file = io.StringIO()
    file.isatty = lambda: is_terminal
    terminal.show_text("aa bb cc\n\n  aa bb cc dd\na-long-word-of-paths", file)
    assert file.getvalue() == expected


def test_document_frequencies_are_written_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = {"1": ["a dog", "the dog"], "2": ["a cat"]}
    (tmp_path / "r.json").write_text(json.dumps(references))
    assert run_captau("score", "references=r.json", "save_df=df.json") == 0
    assert capsys.readouterr().out == "df.json: document frequencies of 2 images\n"
