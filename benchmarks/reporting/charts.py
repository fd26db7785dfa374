"""The charts of a finished run: what `captau report` shows and `captau plot` writes. Nothing is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .chart import Chart, UnavailableChart
from .coefficient_charts import category_charts, forest_charts, significance_charts
from .rating_charts import agreement_charts, rating_charts
from .run_dataset import RunDataset
from .score_charts import metric_correlation_charts, precision_recall_charts, violin_charts


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
