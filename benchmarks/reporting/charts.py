"""The charts of a finished run: what `captau report` shows and `captau plot` writes. Nothing is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...datasets.errors import InputError
from ..options.report import PlotOptions
from ..runs.finished_run import read_run
from ..runs.progress_bar import StepProgress
from . import figure_files
from .chart import Chart, UnavailableChart
from .coefficient_charts import category_charts, forest_charts, significance_charts
from .rating_charts import agreement_charts, rating_charts
from .run_dataset import RunDataset, run_datasets
from .score_charts import metric_correlation_charts, precision_recall_charts, violin_charts


def draw_charts(config: PlotOptions) -> figure_files.Figures:
    """Draw a finished run's charts; equal results give equal bytes on one platform.

    Raises:
        InputError: where matplotlib is missing, the run is not a finished one, or there is nothing to draw.
    """
    figure_files.needed("plot", "matplotlib")
    finished = read_run(config.run)
    parts = run_datasets(finished, config.options)
    files: dict[str, bytes] = {}
    undrawn: list[str] = []
    with StepProgress(len(parts) * len(config.kinds)) as progress, figure_files.style():
        for part in parts:
            for kind in config.kinds:
                charts, reason = make_charts(part, kind)
                for chart in charts:
                    files |= figure_files.files_of(chart.draw(), chart.name, config.formats)
                undrawn += [f"{part.dataset}: no {kind}: {reason}"] if not charts else []
                progress.advance()
    if not files:
        raise InputError(f"nothing to draw ({'; '.join(undrawn)})")
    return figure_files.Figures(files, undrawn)


def make_charts(part: RunDataset, kind: str) -> tuple[list[Chart], str]:
    """Make the charts of a kind; where there are none, return the reason.

    Raises:
        InputError: where a file of the run is damaged.
    """
    if kind in _NEED_ITEMS and not part.has_judgements:
        return [], f"captau {part.run.command} keeps no items and ratings; captau bench does"
    try:
        charts = list(_MAKERS[kind](part))
    except UnavailableChart as reason:
        return [], str(reason)
    return charts, "" if charts else "the run has nothing of the kind"


_MAKERS: dict[str, Callable[[RunDataset], Iterator[Chart]]] = {
    "forest": forest_charts,
    "categories": category_charts,
    "significance": significance_charts,
    "ratings": rating_charts,
    "agreement": agreement_charts,
    "scores": violin_charts,
    "correlations": metric_correlation_charts,
    "precision_recall": precision_recall_charts,
}

_NEED_ITEMS = ("ratings", "agreement", "scores", "correlations", "precision_recall")
