"""Tasks of the commands: each runs a command's module, shows what that returns, and returns an exit status.

A task takes the command's row and its options. Nothing else in `benchmarks` prints, progress bars aside.
Heavy imports stay inside the functions.
"""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError
from .command import Command, Outcome
from .terminal import escape_lines, show_tables, show_text

if TYPE_CHECKING:
    from pathlib import Path

    from ..runs.output_folder import OutputFolder
    from ..runs.tables import ResultTable


def _show_result(
    result: Any, folder: Path, *, has_details: bool = True, way_to_details: str = "details=true"
) -> None:
    """Print the tables of a run, without what is a detail unless they are asked for, its folder and its summary."""
    tables = result.tables
    if not has_details:
        tables = _without_details(tables)
    show_tables(tables)
    show_text(f"\nwritten to {folder}")
    if tables != result.tables:
        show_text(
            f"{way_to_details} prints all columns, tables and notes, which table.md has as well"
        )
    if summary := getattr(result, "summary", ""):
        show_text(summary)


def _without_details(tables: Iterable[ResultTable]) -> list[ResultTable]:
    """Return the tables that are no details, without the columns and notes that are."""
    shorter_tables: list[ResultTable] = []
    for table in tables:
        if not table.is_detail:
            shorter_tables.append(table.without_details())
    return shorter_tables


def _print_faults(lines: Iterable[str]) -> None:
    for line in lines:
        show_text(f"captau: {' '.join(line.split())}", sys.stderr)


def _print_or_write(text: str, output: Path | None) -> None:
    """Print a text with one line break at its end, or write it into a file."""
    from ..runs.output_folder import write_file

    text = text.rstrip("\n") + "\n"
    if output is None:
        print(escape_lines(text), end="")
    else:
        write_file(output, text.encode())
        show_text(f"written to {output}")


def _open_folder(output_dir: str | Path | None, command: Command) -> OutputFolder:
    """Open the run's folder."""
    from ..runs.output_folder import OutputFolder

    return OutputFolder(output_dir, command.name)


def run_in_folder(
    command: Command,
    options: Any,
    *,
    work: Callable[..., Any] | None = None,
    by_dataset: bool = False,
    has_figures: bool = False,
) -> Outcome:
    """Do a command's work, write its files into the run's folder, show its tables, and return the headline value.

    Args:
        command: the command.
        options: its options.
        work: does the work; None for the function of the command's module.
        by_dataset: whether the work also takes a function that writes the results of the datasets that are done,
            so that a killed run keeps them.
        has_figures: whether to say, where matplotlib is missing, that figures are.
    """
    work = work or command.load_work()

    with _open_folder(options.locations.output_dir, command) as folder:
        if by_dataset:
            result = work(options, lambda results_so_far: folder.write(results_so_far.files()))
        else:
            result = work(options)
        folder.write(result.files())

    _show_result(
        result,
        folder.path,
        has_details=getattr(options, "details", True),
        way_to_details=getattr(options, "way_to_details", "details=true"),
    )
    if has_figures:
        from ..reporting.charts.figure_files import NO_FIGURES, can_draw

        if not can_draw():
            show_text(NO_FIGURES)

    return Outcome(objective=getattr(result, "objective", None))


#: The most figures whose paths are printed one by one.
_MOST_LISTED_FIGURES = 20
#: Tasks of commands that write the results of each dataset, and of those with figures.
run_by_dataset = partial(run_in_folder, by_dataset=True)
run_with_figures = partial(run_in_folder, has_figures=True)
rank_systems = partial(run_in_folder, by_dataset=True, has_figures=True)


def compare_metrics(command: Command, options: Any) -> Outcome:
    """Run `captau compare` of metrics, or of two finished runs, of which it writes nothing."""
    from ..commands.bench import run
    from ..options.bench import RunComparisonOptions
    from ..regression.run_comparison import compare_runs

    if isinstance(options, RunComparisonOptions):
        comparison = compare_runs(options.before, options.now)
        if comparison.tables:
            show_tables(comparison.tables)
            print()
        show_text(comparison.summary)
        return Outcome()

    return run_by_dataset(command, options, work=run)


def measure_agreement(command: Command, options: Any) -> Outcome:
    """Run `captau agree` of ratings, captions or words, of which words have figures."""
    return run_in_folder(command, options, has_figures=options.kind == "words")


def estimate_ratings(command: Command, options: Any) -> Outcome:
    """Run `captau estimate`, whose estimates have a figure, and whose plans have none."""
    return run_in_folder(command, options, has_figures=not options.plan)


def train_rater(command: Command, options: Any) -> Outcome:
    """Run `captau train`, whose raters lie in the run's folder while they are trained."""
    from ..commands.train import run

    with _open_folder(options.locations.output_dir, command) as folder:
        training = run(options, folder.path)
        folder.write(training.files())

    # Raters that are not kept go only when all results are written.
    for spare in training.spare:
        shutil.rmtree(spare, ignore_errors=True)
    _show_result(training, folder.path, has_details=options.details)
    return Outcome(objective=training.objective)


def score_captions(command: Command, options: Any) -> Outcome | None:
    """Run `captau score` in one of its variants; `stdout=` prints one file alone."""
    from ..commands.score import run, save_document_frequencies
    from ..options.large import FilterOptions, LargeOptions
    from ..options.score import DocumentFrequencyOptions

    if isinstance(options, LargeOptions):
        return _score_large_set(command, options)

    if isinstance(options, FilterOptions):
        from ..large.filtering import run as run_filter

        filtered = run_filter(options)
        _show_result(filtered, filtered.folder)
        return None

    if isinstance(options, DocumentFrequencyOptions):
        n_images = save_document_frequencies(options)
        show_text(f"{options.output}: document frequencies of {n_images:,} images")
        return None

    if options.stdout == "table":
        return run_in_folder(command, options)

    # A pipe needs no folder.
    if options.locations.output_dir is None:
        scores = run(options)
    else:
        with _open_folder(options.locations.output_dir, command) as folder:
            scores = run(options)
            folder.write(scores.files())

    # What was printed as text must stand before the bytes.
    sys.stdout.flush()
    sys.stdout.buffer.write(scores.stream(options.stdout))
    sys.stdout.buffer.flush()
    return Outcome(objective=getattr(scores, "objective", None))


def _score_large_set(command: Command, options: Any) -> Outcome:
    from ...datasets.reading.object_stores import is_url
    from ..large.run import run

    if is_url(options.output):
        result = run(options)
    else:
        with _open_folder(options.output or None, command) as folder:
            result = run(replace(options, output=str(folder.path)))

    show_tables(result.tables)
    show_text(f"\n{result.summary}")
    return Outcome(objective=result.corpus.get(options.metrics[0].spec))


def validate_submission(_: Command, options: Any) -> int:
    """Run `captau validate`; the status is 2 where the submission has faults."""
    from ..commands.validate import validate

    verdict = validate(options)
    _print_faults([*verdict.faults, *verdict.remarks])
    show_text(verdict.summary)
    return 2 if verdict.n_faults else 0


def check_baseline(_: Command, options: Any) -> int:
    """Run `captau check`; the status is 1 where something moved, or a system fell."""
    from ..options.check import SystemCheckOptions
    from ..regression import check, system_check

    if isinstance(options, SystemCheckOptions):
        result = system_check.SystemCheck(options.choices).run()
    else:
        result = check.run(
            options.baseline, options.choices, update=options.update, junit=options.junit
        )

    if result.tables:
        show_tables(result.tables)
        print()
    show_text(result.summary)
    result.report()
    return result.status


def print_table(_: Command, options: Any) -> None:
    """Run `captau table`."""
    from ..reporting.tables.joined_table import join, written_table
    from ..reporting.tables.table_layouts import LAYOUTS, appendix
    from ..runs.finished_run import read_runs

    # On a terminal a table is drawn; whoever names a style or a file wants its text.
    is_drawn = options.style is None and options.output is None and sys.stdout.isatty()
    style = options.style or "markdown"
    runs = read_runs(options.runs)
    if runs[0].has_own_table:
        has_appendix = options.appendix is not None
        text = written_table(runs, options.choices, style, has_appendix=has_appendix)
        _print_or_write(text, options.output)
        return

    table = join(runs, options.choices)
    if is_drawn:
        brief_table = table if options.choices.notes == "full" else table.without_details()
        show_tables([brief_table])
        if brief_table.notes != table.notes and options.choices.notes != "none":
            show_text("notes=full prints all notes, which output= writes")
    else:
        _print_or_write(LAYOUTS[style](table), options.output)

    if options.appendix is not None:
        full_table = join(runs, replace(options.choices, notes="full"))
        is_latex = options.appendix.suffix == ".tex"
        _print_or_write(appendix(full_table, is_latex=is_latex), options.appendix)


def print_citations(_: Command, options: Any) -> None:
    """Run `captau cite`."""
    from ..reporting.citations import cite

    _print_or_write(cite(options.runs, options.published), options.output)


def write_report(_: Command, options: Any) -> None:
    """Run `captau report`."""
    from ..reporting.html_report import build
    from ..runs.output_folder import write_file

    curves = options.curves
    report = build(
        options.run,
        output=options.output,
        images=options.images,
        megabytes=options.megabytes,
        good=curves.good,
        precision=curves.precision,
    )
    write_file(report.path, report.content)
    show_text(report.summary)


def draw_figures(_: Command, options: Any) -> None:
    """Run `captau plot`: draw a finished run's charts, and write them into a folder without a run."""
    from ..reporting.charts.run_charts import draw_charts
    from ..runs.output_folder import PLOTS_FOLDER, RUN_FILE, write_file

    curves = options.curves
    charts = draw_charts(
        options.run,
        kinds=options.kinds,
        formats=options.formats,
        good=curves.good,
        precision=curves.precision,
    )

    folder = options.output_dir or options.run / PLOTS_FOLDER
    # Figures beside a run.json would pass for those of that run.
    if (folder / RUN_FILE).is_file():
        raise InputError(f"{folder} holds a run; set output_dir= to another folder")

    for name, content in charts.files.items():
        write_file(folder / name, content)
    for line in charts.undrawn:
        show_text(line)
    if len(charts.files) <= _MOST_LISTED_FIGURES:
        for name in charts.files:
            print(folder / name)
        return
    # Of many the list would push everything else off the screen.
    n_charts = len({name.rpartition(".")[0] for name in charts.files})
    forms = " and ".join(form.upper() for form in options.formats)
    show_text(f"{folder}: {n_charts} figures as {forms}; kind= chooses some of them")


def list_datasets(_: Command, options: Any) -> None:
    """Run `captau data list`."""
    from ..commands.data import details, overview

    if options.names:
        show_tables(details(options.names, options.root))
    else:
        show_tables([overview(options.root)])


def fetch_datasets(_: Command, options: Any) -> int:
    """Run `captau data fetch`; the status is 2 where a file could not be downloaded."""
    from ..commands.data import fetch, fetch_models

    faults = fetch(options.names, options.root, options.offline, print)
    if options.models:
        faults += fetch_models(options.offline, print)
    _print_faults(faults)
    return 2 if faults else 0


def import_datasets(_: Command, options: Any) -> int:
    """Run `captau data import`; the status is 2 where a file could not be taken."""
    from ..commands.data import take

    faults = take(options.names, options.source, options.root, print, named=options.named)
    _print_faults(faults)
    return 2 if faults else 0


def verify_datasets(_: Command, options: Any) -> int:
    """Run `captau data verify`; the status is 1 where a dataset is not as its card says."""
    from ..commands.data import verify

    table, is_good = verify(
        options.names,
        options.root,
        options.images,
        required=options.required,
        models=bool(options.models),
    )
    show_tables([table])
    return 0 if is_good else 1


def compare_datasets(_: Command, options: Any) -> None:
    """Run `captau data overlap`."""
    from ..commands.data import overlap

    show_tables([overlap(options.names, options.root)])


def run_web_command(command: Command, options: Any) -> int | None:
    """Run a command of the web side, which an entry point names: nothing here imports it."""
    from importlib.metadata import entry_points

    # Other commands hardly collect garbage, as they end soon; a server runs long.
    gc.set_threshold(50_000, 20, 100)
    (entry,) = entry_points(group="captau.commands", name=command.slug)
    try:
        return entry.load()(options)
    except ModuleNotFoundError as error:
        # A module of captau's own that is missing is a bug, and no package to install.
        is_bug = not error.name or error.name.startswith("captau")
        if is_bug:
            raise
        raise InputError(f"{error.name} is not installed: pip install 'captau[server]'") from error
