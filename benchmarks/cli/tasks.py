"""Tasks of the commands: each takes a command's options, shows what its module returns, and returns a status.

Nothing else in `benchmarks` prints, progress bars aside. Heavy imports stay inside the functions.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from ..runs.output_folder import OutputFolder
    from ..runs.tables import ResultTable


def show_tables(tables: Sequence[ResultTable]) -> None:
    """Print tables: for a terminal as wide as it is, elsewhere as Markdown."""
    from rich.console import Console

    from ..runs.tables import markdown_of, rich_of

    if sys.stdout.isatty():
        console = Console()
        for table in tables:
            console.print(rich_of(table, console.width))
    else:
        print("\n\n".join(markdown_of(table) for table in tables))


def _print_faults(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"captau: {' '.join(line.split())}", file=sys.stderr)


def _print_or_write(text: str, output: Path | None) -> None:
    """Print a text, or write it into a file."""
    from ..runs.output_folder import write_file

    if output is None:
        print(text, end="")
    else:
        write_file(output, text.encode())
        print(f"written to {output}")


def _open_folder(output_dir: str | Path | None, command: str) -> OutputFolder:
    """Open the run's folder; each job of a sweep has its own."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from ..runs.output_folder import OutputFolder

    hydra = HydraConfig.get()
    if hydra.mode == RunMode.MULTIRUN:
        output_dir = hydra.runtime.output_dir
    return OutputFolder(output_dir, command)


def run_in_folder(module: str, command: str, draws: bool, options: Any) -> None:
    """Run a module of `benchmarks.commands`, write its files into the run's folder, and show its tables.

    Args:
        module: its name.
        command: the command's name, for the folder's.
        draws: whether it draws figures where matplotlib is installed.
        options: the command's options.
    """
    from ..reporting.figure_files import NO_FIGURES, can_draw

    run = import_module(f"..commands.{module}", __package__).run
    with _open_folder(options.locations.output_dir, command) as folder:
        result = run(options)
        folder.write(result.files())
    show_tables(result.tables)
    print(f"\nwritten to {folder.path}")
    if summary := getattr(result, "summary", ""):
        print(summary)
    if draws and not can_draw():
        print(NO_FIGURES)


def measure_agreement(options: Any) -> None:
    """Run `captau agree` of ratings, captions or words."""
    run_in_folder("agree", "agree", options.kind == "words", options)


def train_rater(options: Any) -> None:
    """Run `captau train`, whose raters lie in the run's folder while they are trained."""
    from ..commands.train import run

    with _open_folder(options.locations.output_dir, "train") as folder:
        training = run(options, folder.path)
        folder.write(training.files())
    for spare in training.spare:
        shutil.rmtree(spare, ignore_errors=True)
    show_tables(training.tables)
    print(f"\nwritten to {folder.path}")
    if training.summary:
        print(training.summary)


def score_captions(options: Any) -> None:
    """Run `captau score` of files or of shards; `stdout=` prints one file alone."""
    from ..commands.score import run
    from ..options.large import LargeOptions

    if isinstance(options, LargeOptions):
        _score_large_set(options)
        return
    if options.stdout == "table":
        run_in_folder("score", "score", False, options)
        return
    if options.locations.output_dir is None:  # in a pipe nobody asked for a folder
        scores = run(options)
    else:
        with _open_folder(options.locations.output_dir, "score") as folder:
            scores = run(options)
            folder.write(scores.files())
    sys.stdout.flush()
    sys.stdout.buffer.write(scores.stream(options.stdout))
    sys.stdout.buffer.flush()


def _score_large_set(options: Any) -> None:
    from dataclasses import replace

    from ...datasets.shards.object_store import is_url
    from ..large.run import run

    if is_url(options.output):
        result = run(options)
    else:
        with _open_folder(options.output or None, "score") as folder:
            result = run(replace(options, output=str(folder.path)))
    show_tables(result.tables)
    print(f"\n{result.summary}")


def filter_captions(options: Any) -> None:
    """Run `captau filter`."""
    from ..large.filtering import run

    result = run(options)
    show_tables(result.tables)
    print(f"\nwritten to {result.folder}")
    print(result.summary)


def validate_submission(options: Any) -> int:
    """Run `captau validate`; the status is 2 where the submission has faults."""
    from ..commands.validate import validate

    verdict = validate(options)
    _print_faults(verdict.faults)
    print(verdict.summary)
    return 2 if verdict.n_faults else 0


def check_baseline(options: Any) -> int:
    """Run `captau check`; the status is 1 where something moved."""
    from ..regression.check import run

    result = run(options)
    if result.tables:
        show_tables(result.tables)
        print()
    print(result.summary)
    result.report()
    return result.status


def gather_sweep(options: Any) -> int:
    """Run `captau gather`; the status is 1 where a job is not done."""
    from ..sweeps.gather import run

    gathered = run(options)
    if gathered.runs:
        show_tables([gathered.table])
    _print_faults(gathered.unfinished)
    print(f"\nwritten to {gathered.folder}: {gathered.summary}")
    return 1 if gathered.unfinished else 0


def print_table(options: Any) -> None:
    """Run `captau table`."""
    from ..reporting.joined_table import join
    from ..reporting.table_layouts import LAYOUTS

    _print_or_write(LAYOUTS[options.style](join(options)), options.output)


def print_citations(options: Any) -> None:
    """Run `captau cite`."""
    from ..reporting.citations import cite

    _print_or_write(cite(options.runs), options.output)


def write_report(options: Any) -> None:
    """Run `captau report`."""
    from ..reporting.html_report import run

    print(run(options).summary)


def draw_figures(options: Any) -> None:
    """Run `captau plot`."""
    from ..commands.plot import run

    plots = run(options)
    for line in plots.lacking:
        print(line)
    print(f"{plots.folder}: {len(plots.files)} files")


def list_datasets(options: Any) -> None:
    """Run `captau data list`."""
    from ..commands.data import overview

    show_tables([overview(options.root)])


def fetch_datasets(options: Any) -> int:
    """Run `captau data fetch`; the status is 2 where a file could not be had."""
    from ..commands.data import fetch, fetch_models

    faults = fetch(options.names, options.root, options.offline, print)
    faults += fetch_models(options.offline, print) if options.models else []
    _print_faults(faults)
    return 2 if faults else 0


def import_datasets(options: Any) -> int:
    """Run `captau data import`; the status is 2 where a file could not be taken."""
    from ..commands.data import take

    faults = take(options.names, options.source, options.root, print, named=options.named)
    _print_faults(faults)
    return 2 if faults else 0


def verify_datasets(options: Any) -> int:
    """Run `captau data verify`; the status is 1 where a dataset is not as its card says."""
    from ..commands.data import verify

    table, is_good = verify(
        options.names,
        options.root,
        options.images,
        named=options.named,
        models=bool(options.models),
    )
    show_tables([table])
    return 0 if is_good else 1


def compare_datasets(options: Any) -> None:
    """Run `captau data overlap`."""
    from ..commands.data_overlap import overlap

    show_tables([overlap(options.names, options.root)])


def count_document_frequencies(options: Any) -> None:
    """Run `captau data df`."""
    from ..commands.data import save_df

    n_images = save_df(options.references, options.output)
    print(f"{options.output}: document frequencies of {n_images:,} images")


def run_web_command(name: str, options: Any) -> int | None:
    """Run a command of the web side, which an entry point names: nothing here imports it."""
    (entry,) = entry_points(group="captau.commands", name=name)
    try:
        return entry.load()(options)
    except ModuleNotFoundError as error:
        if (error.name or "captau").startswith("captau"):
            raise  # our own fault
        raise InputError(f"{error.name} is not installed: pip install 'captau[server]'") from error
