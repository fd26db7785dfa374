"""`captau plot`: the charts of a finished run as SVG, PNG and PDF files. `cli.tasks` calls `run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...datasets.errors import InputError
from ..options.report import PlotOptions
from ..reporting import figure_files as figures
from ..reporting.charts import make_charts
from ..reporting.run_dataset import run_datasets
from ..runs.finished_run import read_run
from ..runs.output_folder import PLOTS_FOLDER, RUN_FILE, write_file
from ..runs.progress_bar import StepProgress


@dataclass(frozen=True)
class Plots:
    """The charts of a run.

    Attributes:
        folder: where they are written.
        files: of the formats asked for, by name.
        undrawn: a line for each kind of chart that the run has no data for.
    """

    folder: Path
    files: dict[str, bytes]
    undrawn: list[str]


def run(config: PlotOptions) -> Plots:
    """Draw the charts and write them.

    Raises:
        InputError: where matplotlib is missing, the run is not a finished one, there is nothing to
            draw, or the folder holds a run or cannot be written.
    """
    plots = draw(config)
    if (plots.folder / RUN_FILE).is_file():
        raise InputError(f"{plots.folder} holds a run; set output_dir= to another folder")
    for name, content in plots.files.items():
        write_file(plots.folder / name, content)
    return plots


def draw(config: PlotOptions) -> Plots:
    """Draw the charts; equal results give equal bytes on one platform.

    Raises:
        InputError: see `run`.
    """
    figures.needed("plot", "matplotlib")
    finished = read_run(config.run)
    parts = run_datasets(finished, config.options)
    files: dict[str, bytes] = {}
    undrawn: list[str] = []
    with StepProgress(len(parts) * len(config.kinds)) as progress, figures.style():
        for part in parts:
            for kind in config.kinds:
                charts, reason = make_charts(part, kind)
                for chart in charts:
                    files |= figures.files_of(chart.draw(), chart.name, config.formats)
                undrawn += [f"{part.dataset}: no {kind}: {reason}"] if not charts else []
                progress.advance()
    if not files:
        raise InputError(f"{finished.folder}: nothing to draw ({'; '.join(undrawn)})")
    return Plots(config.output_dir or finished.folder / PLOTS_FOLDER, files, undrawn)
