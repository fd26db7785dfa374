"""`captau plot`: the charts of a finished run as SVG, PNG and PDF files. `cli.tasks` calls `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...datasets.errors import InputError
from ..options.report import PlotOptions
from ..reporting.charts import draw_charts
from ..runs.output_folder import PLOTS_FOLDER, RUN_FILE, write_file


@dataclass(frozen=True)
class Plots:
    """The charts of a run.

    Attributes:
        folder: where they are written.
        files: of the formats asked for, by name.
        undrawn: a line for each kind of chart that the run has no data for.
    """

    folder: Path
    files: Mapping[str, bytes]
    undrawn: Sequence[str]


def run(config: PlotOptions) -> Plots:
    """Draw the charts and write them.

    Raises:
        InputError: where matplotlib is missing, the run is not a finished one, there is nothing to
            draw, or the folder holds a run or cannot be written.
    """
    curves = config.options
    figures = draw_charts(config.run, config.kinds, config.formats, curves.good, curves.precision)
    plots = Plots(config.output_dir or config.run / PLOTS_FOLDER, figures.files, figures.undrawn)
    if (plots.folder / RUN_FILE).is_file():
        raise InputError(f"{plots.folder} holds a run; set output_dir= to another folder")
    for name, content in plots.files.items():
        write_file(plots.folder / name, content)
    return plots
