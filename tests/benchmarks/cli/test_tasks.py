"""What the tasks of commands print, write and return, on work that is made up."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.cli import tasks, terminal
from captau.benchmarks.cli.command import Command
from captau.benchmarks.options.bench import RunComparisonOptions
from captau.benchmarks.options.check import CheckOptions, SystemCheckOptions
from captau.benchmarks.options.finished_runs import SweepTableOptions, TableOptions
from captau.benchmarks.options.large import FilterOptions, LargeOptions
from captau.benchmarks.options.score import DocumentFrequencyOptions
from captau.benchmarks.regression.choices import CheckChoices
from captau.benchmarks.runs.tables import ResultTable
from captau.datasets.errors import InputError
from tests.conftest import says

COMMAND = Command("made", "..options.bench:BenchOptions", lambda *_: 0, "", "")
NUMBERS = ResultTable("Numbers", "row", ["a", "b"], [("x", ["1", "2"])], notes=["n"], details=(1,))
MORE = ResultTable("More", "row", ["c"], [("y", ["3"])], notes=["n", "m"])
DETAIL = ResultTable("Detail", "row", ["d"], [("z", ["4"])], is_detail=True)
MODULES = "captau.benchmarks.commands"


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
        "\n\nwritten to few\ndetails=true prints the other columns and tables, which table.md has as well\n"
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

    monkeypatch.setattr(figure_files, "can_draw", lambda: False)
    task(COMMAND, options_in("a"), work=lambda _: made_result())
    assert capsys.readouterr().out.endswith(figure_files.NO_FIGURES + "\n") == has_figures
    monkeypatch.setattr(figure_files, "can_draw", lambda: True)
    task(COMMAND, options_in("b"), work=lambda _: made_result())
    assert figure_files.NO_FIGURES not in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "has_figures"), [("words", True), ("ratings", False)])
def test_the_agreement_of_words_has_figures(
    kind: str, has_figures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(tasks, "run_in_folder", lambda *a, **k: seen.append(k))
    tasks.measure_agreement(COMMAND, SimpleNamespace(kind=kind))
    assert seen == [{"has_figures": has_figures}]


@pytest.mark.parametrize("tables", [[], [MORE]])
def test_two_runs_are_compared_without_a_folder(
    tables: list[ResultTable],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    comparison = SimpleNamespace(tables=tables, summary="Nothing moved.")
    target = "captau.benchmarks.regression.run_comparison.compare_runs"
    monkeypatch.setattr(target, lambda *folders: comparison if folders == ("a", "b") else None)
    tasks.compare_metrics(COMMAND, RunComparisonOptions("a", "b"))  # pyright: ignore[reportArgumentType]
    shown = capsys.readouterr().out
    assert shown.endswith("\n\nNothing moved.\n") if tables else shown == "Nothing moved.\n"
    assert ("| y | 3 |" in shown) == bool(tables)
    assert not list(tmp_path.iterdir())


def test_a_training_drops_its_spare_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: Any, folder: Path) -> SimpleNamespace:
        (folder / "spare").mkdir()
        return made_result(spare=[folder / "spare", folder / "gone"])

    monkeypatch.setattr(f"{MODULES}.train.run", run)
    tasks.train_rater(COMMAND, options_in("run"))
    assert (tmp_path / "run" / "a.txt").is_file()
    assert not (tmp_path / "run" / "spare").exists()
    assert capsys.readouterr().out.endswith("written to run\n")


def bare(cls: type[Any], **values: Any) -> Any:
    """Options of a class without its checks."""
    made = object.__new__(cls)
    vars(made).update(values)
    return made


def test_document_frequencies_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"{MODULES}.score.save_document_frequencies", lambda _: 1234)
    tasks.score_captions(COMMAND, bare(DocumentFrequencyOptions, output=Path("df.json")))
    assert capsys.readouterr().out == "df.json: document frequencies of 1,234 images\n"


def test_kept_captions_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = made_result(folder=Path("kept"), summary="Kept 1 of 2.")
    monkeypatch.setattr("captau.benchmarks.large.filtering.run", lambda _: kept)
    tasks.score_captions(COMMAND, bare(FilterOptions))
    assert capsys.readouterr().out.endswith("\n\nwritten to kept\nKept 1 of 2.\n")


@pytest.mark.parametrize("output", ["s3://bucket/out", "", "mine"])
def test_a_large_set_is_written_into_a_folder_or_to_a_url(
    output: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[str] = []

    def run(options: Any) -> SimpleNamespace:
        seen.append(options.output)
        return made_result(summary="Scored 5.")

    monkeypatch.setattr("captau.benchmarks.large.run.run", run)
    values = dict.fromkeys(LargeOptions.__dataclass_fields__) | {"engine": "local"}
    options = bare(LargeOptions, **(values | {"output": output}))
    tasks.score_captions(COMMAND, options)
    assert capsys.readouterr().out.endswith("| z | 4 |\n\nScored 5.\n")
    if output == "":
        assert Path(seen[0]).parent == Path("results/runs")
    else:
        assert seen == [output]


@pytest.mark.parametrize("folder", [None, "run"])
def test_one_file_is_printed_alone(
    folder: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    scores = made_result(stream=lambda name: f"bytes of {name}".encode())
    monkeypatch.setattr(f"{MODULES}.score.run", lambda _: scores)
    tasks.score_captions(COMMAND, options_in(folder, stdout="scores.csv"))  # pyright: ignore[reportArgumentType]
    assert capsysbinary.readouterr().out == b"bytes of scores.csv"
    assert (tmp_path / "run" / "a.txt").is_file() == (folder is not None)
    assert bool(list(tmp_path.iterdir())) == (folder is not None)


@pytest.mark.parametrize(("faults", "status"), [([], 0), (["a  fault\n here", "more"], 2)])
def test_a_submission_with_faults_has_status_2(
    faults: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verdict = SimpleNamespace(faults=faults, n_faults=len(faults), summary="So it is.")
    monkeypatch.setattr(f"{MODULES}.validate.validate", lambda _: verdict)
    assert tasks.validate_submission(COMMAND, None) == status
    shown = capsys.readouterr()
    assert shown.out == "So it is.\n"
    assert shown.err == ("captau: a fault here\ncaptau: more\n" if faults else "")


@pytest.mark.parametrize(("tables", "status"), [([], 0), ([MORE], 1)])
def test_a_check_shows_what_moved_and_reports_it(
    tables: list[ResultTable],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reported: list[bool] = []
    result = SimpleNamespace(
        tables=tables, summary="Checked.", status=status, report=lambda: reported.append(True)
    )
    seen: list[Any] = []

    def run(baseline: Path, choices: Any, **more: Any) -> SimpleNamespace:
        seen.append((baseline, choices.sample, more))
        return result

    monkeypatch.setattr("captau.benchmarks.regression.check.run", run)
    options = CheckOptions(
        baseline=Path("a.yaml"),
        choices=CheckChoices(sample=3),
        update=True,
        junit=Path("j.xml"),
    )
    assert tasks.check_baseline(COMMAND, options) == status
    assert seen == [(Path("a.yaml"), 3, {"update": True, "junit": Path("j.xml")})]
    shown = capsys.readouterr().out
    assert ("| y | 3 |" in shown, shown.endswith("\n\nChecked.\n")) == (bool(tables), bool(tables))
    assert tables or shown == "Checked.\n"
    system = SimpleNamespace(run=lambda: result)
    monkeypatch.setattr(
        "captau.benchmarks.regression.system_check.SystemCheck",
        lambda **values: system if values == {"candidates": "c"} else None,
    )
    assert tasks.check_baseline(COMMAND, bare(SystemCheckOptions, candidates="c")) == status
    assert reported == [True, True]


@pytest.mark.parametrize("output", [None, Path("out.md")])
def test_citations_are_printed_or_written(
    output: Path | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("captau.benchmarks.reporting.citations.cite", lambda runs: f"{runs}\n")
    tasks.print_citations(COMMAND, SimpleNamespace(runs="runs", output=output))
    shown = capsys.readouterr().out
    assert shown == ("runs\n" if output is None else "written to out.md\n")
    assert output is None or output.read_text() == "runs\n"


def test_a_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(run: str, **values: Any) -> SimpleNamespace:
        assert run == "run"
        assert values == {
            "output": "out",
            "images": "images",
            "megabytes": 5,
            "good": 0.5,
            "precision": 0.8,
        }
        return SimpleNamespace(path=tmp_path / "r.html", content=b"<p>", summary="Written.")

    monkeypatch.setattr("captau.benchmarks.reporting.html_report.build", build)
    curves = SimpleNamespace(good=0.5, precision=0.8)
    places = {"run": "run", "output": "out", "images": "images", "megabytes": 5}
    tasks.write_report(COMMAND, SimpleNamespace(options=curves, **places))
    assert (tmp_path / "r.html").read_bytes() == b"<p>"
    assert capsys.readouterr().out == "Written.\n"


def test_figures_lie_in_the_run_or_in_a_folder_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    charts = SimpleNamespace(files={"a.svg": b"a", "b.png": b"b"}, undrawn=["c: no data"])
    monkeypatch.setattr(
        "captau.benchmarks.reporting.charts.run_charts.draw_charts", lambda *_, **__: charts
    )
    curves = SimpleNamespace(good=0.5, precision=0.8)
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").touch()
    values = {"run": run, "kinds": (), "formats": (), "options": curves}
    tasks.draw_figures(COMMAND, SimpleNamespace(**values, output_dir=None))
    assert (run / "plots" / "b.png").read_bytes() == b"b"
    assert capsys.readouterr().out == f"c: no data\n{run}/plots/a.svg\n{run}/plots/b.png\n"
    tasks.draw_figures(COMMAND, SimpleNamespace(**values, output_dir=tmp_path / "figures"))
    assert (tmp_path / "figures" / "a.svg").read_bytes() == b"a"
    with says(f"{run} holds a run; set output_dir= to another folder"):
        tasks.draw_figures(COMMAND, SimpleNamespace(**values, output_dir=run))


def test_tasks_of_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = f"{MODULES}.data"
    monkeypatch.setattr(f"{data}.overview", lambda root: MORE)
    monkeypatch.setattr(f"{data}.details", lambda names, root: [NUMBERS, DETAIL])
    monkeypatch.setattr(f"{data}.overlap", lambda names, root: DETAIL)
    monkeypatch.setattr(f"{data}.fetch", lambda *values: list(values[0]))
    monkeypatch.setattr(f"{data}.fetch_models", lambda *_: ["no model"])
    monkeypatch.setattr(f"{data}.take", lambda *values, named: ["f"] if named else [])
    monkeypatch.setattr(f"{data}.verify", lambda names, root, images, named, models: (MORE, models))
    options = SimpleNamespace(names=(), root=None, offline=True, models=(), source="s", named=False)

    def outcome(task: Callable[..., Any], **values: Any) -> tuple[Any, str, str]:
        vars(options).update(values)
        status = task(COMMAND, options)
        return status, *capsys.readouterr()

    assert "| y | 3 |" in outcome(tasks.list_datasets)[1]
    assert "| z | 4 |" not in outcome(tasks.list_datasets)[1]
    assert "| z | 4 |" in outcome(tasks.list_datasets, names=("a",))[1]
    assert "| z | 4 |" in outcome(tasks.compare_datasets)[1]
    assert outcome(tasks.fetch_datasets, names=()) == (0, "", "")
    assert outcome(tasks.fetch_datasets, names=("x y",)) == (2, "", "captau: x y\n")
    assert outcome(tasks.fetch_datasets, names=(), models=("m",)) == (2, "", "captau: no model\n")
    assert outcome(tasks.import_datasets) == (0, "", "")
    assert outcome(tasks.import_datasets, named=True) == (2, "", "captau: f\n")
    options.images = None
    assert outcome(tasks.verify_datasets, models=("m",))[0] == 0
    assert outcome(tasks.verify_datasets, models=())[0] == 1


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


def test_notes_stand_below_the_first_table_that_has_them() -> None:
    shown = terminal._say_notes_once([NUMBERS, MORE, MORE])
    assert [table.notes for table in shown] == [["n"], ["m"], []]


@pytest.mark.parametrize("appendix", [None, Path("a.tex"), Path("a.md")])
@pytest.mark.parametrize("output", [None, Path("o.md")])
def test_a_table_is_printed_or_written_with_its_appendix(
    appendix: Path | None,
    output: Path | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporting = "captau.benchmarks.reporting"
    run = SimpleNamespace(has_correlations=True, has_corpus_scores=False)
    monkeypatch.setattr("captau.benchmarks.runs.finished_run.read_runs", lambda _: [run])
    monkeypatch.setattr(f"{reporting}.joined_table.join", lambda _, choices: choices.notes)
    monkeypatch.setattr(
        f"{reporting}.table_layouts.appendix", lambda table, is_latex: f"{table} {is_latex}\n"
    )
    monkeypatch.setattr(
        f"{reporting}.table_layouts.LAYOUTS",
        {"markdown": lambda table: f"markdown {table}\n", "csv": lambda table: f"csv {table}\n"},
    )
    monkeypatch.setattr(
        f"{reporting}.joined_table.written_table",
        lambda runs, choices, style, *, has_appendix: f"{style} {has_appendix}\n",
    )
    options = TableOptions(runs=(Path("a"),), output=output, appendix=appendix)
    printed = "" if output is None else "written to o.md\n"
    beside = "" if appendix is None else f"written to {appendix}\n"
    assert tasks.print_table(COMMAND, options) == 0
    assert capsys.readouterr().out == (printed or "markdown brief\n") + beside
    assert output is None or output.read_text() == "markdown brief\n"
    assert appendix is None or appendix.read_text() == f"full {appendix.suffix == '.tex'}\n"
    run.has_correlations = False
    assert tasks.print_table(COMMAND, options) == 0
    text = f"markdown {appendix is not None}\n"
    assert capsys.readouterr().out == (printed or text)
    run.has_corpus_scores = True
    assert tasks.print_table(COMMAND, TableOptions(runs=(Path("a"),), style="csv")) == 0
    assert capsys.readouterr().out == "csv brief\n"


@pytest.mark.parametrize("unfinished", [[], ["job 1: killed"]])
def test_a_sweep_that_is_not_done_has_status_1(
    unfinished: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gathered = SimpleNamespace(
        unfinished=unfinished, remedy=["Run it again."] * bool(unfinished), render="in {}\n".format
    )
    monkeypatch.setattr("captau.benchmarks.sweeps.gather.run", lambda _: gathered)
    options = SweepTableOptions(sweep=Path("s"), style=None, output=None)
    assert tasks.print_table(COMMAND, options) == len(unfinished)
    said = "captau: job 1: killed\ncaptau: Run it again.\n" if unfinished else ""
    assert capsys.readouterr() == ("in markdown\n", said)
