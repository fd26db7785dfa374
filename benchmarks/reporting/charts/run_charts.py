"""The charts of a finished run: what `captau report` shows and `captau plot` writes. Nothing is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....datasets.errors import InputError, unknown
from ...evaluation.overview import DatasetsOverview
from ...evaluation.threshold_curves import Conjunction
from ...runs.finished_run import FinishedRun, read_run
from ...runs.progress_bar import StepProgress
from ...runs.tables import join_titles
from ..part_tables import CoefficientTable
from ..run_parts import CHART_TITLES, RunDataset, RunPart, ScoredCaptions, run_parts
from . import figure_files
from .coefficient_charts import (
    category_charts,
    forest_charts,
    make_overview_chart,
    significance_charts,
)
from .figure_files import Chart, UnavailableChart
from .rating_charts import agreement_charts, rating_charts
from .score_charts import metric_correlation_charts, precision_recall_charts, violin_charts
from .system_charts import corpus_charts, difference_charts, system_violin_charts

#: The kinds that are drawn where none is named.
USUAL_KINDS = ("forest", "significance", "ratings", "agreement", "correlations")
#: The word for every kind.
ALL_KINDS = "all"


def draw_charts(
    folder: Path,
    kinds: Sequence[str] = (),
    formats: Sequence[str] = ("svg", "png"),
    good: float | Conjunction = 0.5,
    precision: float = 0.8,
) -> figure_files.Figures:
    """Draw a finished run's charts; equal results give equal bytes on one platform.

    Args:
        folder: the run's.
        kinds: of charts; `all` for all of them, and if it is empty those of `USUAL_KINDS`, of which a dataset's
            coefficients have their headline alone. Of a run that drew its own figures, the beginnings of their names,
            and all figures if it is empty.
        formats: `svg`, `png`, `pdf`, or several.
        good, precision: of precision-recall curves, as in `RunDataset`.

    Raises:
        InputError: where matplotlib is missing, a kind or format is unknown, the run is not a finished one, or
            there is nothing to draw.
    """
    for form in formats:
        if form not in figure_files.FORMATS:
            raise unknown("format", form, figure_files.FORMATS)
    run = read_run(folder)
    if not (run.has_correlations or run.has_corpus_scores):
        return _select_figures(run, kinds, formats)

    figure_files.require_packages("plot", "matplotlib")
    is_usual = not kinds
    kinds = _kinds_to_draw(kinds)
    overview = DatasetsOverview.of_run(run) if "overview" in kinds else None
    parts = run_parts(run, good, precision)
    files: dict[str, bytes] = {}
    undrawn: list[str] = []
    titles_by_reason: dict[tuple[str, str], list[str]] = {}
    if "overview" in kinds and overview is None:
        undrawn.append("no overview: a run of captau bench of several datasets has one")
    kinds = tuple(kind for kind in kinds if kind != "overview")

    with StepProgress(len(parts) * len(kinds)) as progress, figure_files.style():
        if overview is not None:
            chart = make_overview_chart(overview)
            files |= figure_files.files_of(chart.draw(), chart.name, formats)
        for part in parts:
            for kind in kinds:
                charts, reason = make_charts(part, kind)
                drawn_charts = _of_headline(part, charts) if is_usual else charts
                for chart in drawn_charts:
                    files |= figure_files.files_of(chart.draw(), chart.name, formats)
                if not charts:
                    titles_by_reason.setdefault((kind, reason), []).append(part.title)
                progress.advance()

    undrawn += _describe_reasons(titles_by_reason)
    if not files:
        raise InputError(f"nothing to draw ({'; '.join(undrawn)})")
    # Nobody asked for the usual kinds one by one, so that nothing is said of those without data.
    return figure_files.Figures(files, () if is_usual else undrawn)


def _describe_reasons(titles_by_reason: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    """Say why kinds of charts are not drawn: a reason of several datasets, or of several kinds, stands once.

    Args:
        titles_by_reason: the titles of datasets by kind and reason.
    """
    kinds_by_titles: dict[tuple[str, str], list[str]] = {}
    for (kind, reason), titles in titles_by_reason.items():
        kinds_by_titles.setdefault((join_titles(titles), reason), []).append(f"no {kind}")

    lines: list[str] = []
    for (titles, reason), kinds in kinds_by_titles.items():
        lines.append(f"{titles}: {', '.join(kinds)}: {reason}")
    return lines


def _kinds_to_draw(names: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of charts that are named: every one for `all`, and the usual ones where none is.

    Raises:
        InputError: on an unknown kind.
    """
    every_kind = ("overview", *CHART_TITLES)
    for name in names:
        if name not in (*every_kind, ALL_KINDS):
            raise unknown("kind", name, (*every_kind, ALL_KINDS))

    if ALL_KINDS in names:
        return every_kind
    return tuple(names) or ("overview", *USUAL_KINDS)


def _of_headline(part: RunPart, charts: Sequence[Chart]) -> list[Chart]:
    """Return the charts of a dataset's headline among those of coefficients; all of any other kind."""
    if not isinstance(part, RunDataset):
        return list(charts)
    dimension, coefficient = CoefficientTable(part).leading_column
    headline = figure_files.slug(*part.file_words, dimension, coefficient)
    of_coefficients = ("forest", "significance")
    quoted_charts: list[Chart] = []
    for chart in charts:
        # Of the charts of coefficients only the headline's is kept.
        if chart.kind not in of_coefficients or chart.name == f"{chart.kind}_{headline}":
            quoted_charts.append(chart)
    return quoted_charts


def _select_figures(
    run: FinishedRun, kinds: Sequence[str], formats: Sequence[str]
) -> figure_files.Figures:
    """Return figures that a run drew itself.

    Raises:
        InputError: where there are none of these kinds and formats, or one is not as the run drew it.
    """
    names = [name for name in run.files if name.endswith((".svg", ".png"))]
    # Every name begins with the empty text: all figures where no kind is named, or all are.
    beginnings = tuple(kinds)
    if not kinds or ALL_KINDS in kinds:
        beginnings = ("",)
    endings = tuple(formats)
    named: dict[str, bytes] = {}
    for name in names:
        if name.startswith(beginnings) and name.endswith(endings):
            named[name] = run.path_of(name).read_bytes()
    if not names:
        raise InputError(
            f"nothing to draw: {run.folder}, a run of captau {run.command}, has no figures; commands that draw them need "
            "matplotlib: where it is not installed, pip install 'captau[report]', and run it again"
        )
    if not named:
        raise InputError(
            f"no figure of this kind and format; {run.folder} has {', '.join(names)}, which its command drew"
        )
    return figure_files.Figures(named)


def make_charts(part: RunPart, kind: str) -> tuple[list[Chart], str]:
    """Make the charts of a kind; where there are none, return the reason.

    Raises:
        InputError: where a file of the run is damaged.
    """
    if reason := part.refuse_chart(kind):
        return [], reason
    makers: Any = _SYSTEM_MAKERS if isinstance(part, ScoredCaptions) else _MAKERS
    try:
        charts: list[Chart] = list(makers[kind](part))
    except UnavailableChart as error:
        return [], str(error)
    if not charts:
        return [], "the run has nothing of the kind"
    return charts, ""


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

#: Makers of charts of a user's own captions.
_SYSTEM_MAKERS: dict[str, Callable[[ScoredCaptions], Iterator[Chart]]] = {
    "forest": corpus_charts,
    "significance": difference_charts,
    "scores": system_violin_charts,
    "correlations": metric_correlation_charts,
}
