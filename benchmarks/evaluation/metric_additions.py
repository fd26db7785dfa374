"""The additions of metrics to others: R² of a linear combination with it and without it, on images that the fit has not seen.

Forward selection begins with the best metric, so that it never says what that one adds to the rest; this does, of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..runs.frames import groups_of
from ..runs.tables import AnyCell, ResultTable, Row, count_of, format_number, number_cell
from ..statistics.metric_selection import FOLDS, CrossValidation

#: The share of resampled datasets in which a metric must add for a sentence to say that it does.
_SURE_SHARE = 0.975
#: The fewest resampled datasets of which such a share can be told.
_FEWEST_DRAWS = 40


def addition_rows(
    validation: CrossValidation, metrics: Sequence[str], *, draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield rows of each metric: alone, all others without it, what it adds to them, and how often it adds.

    Args:
        validation: of the metrics, two at least.
        metrics: their specs, in its order.
        draws: the number of resampled datasets.
        seed: of the draws.
    """
    everything = list(range(len(metrics)))
    ones = np.ones(len(validation.fold))
    with_all = validation.r2(everything, ones)
    n_gains = _count_gains(validation, draws=draws, seed=seed)

    for number, metric in enumerate(metrics):
        others = [other for other in everything if other != number]
        without = validation.r2(others, ones)
        names = {"metric": metric, "criterion": "r2", "coefficient": "r2"}
        yield {**names, "kind": "alone", "value": validation.r2([number], ones)}
        yield {**names, "kind": "without", "value": without}
        yield {**names, "kind": "addition", "value": with_all - without}
        share = float(n_gains[number] / draws)
        yield {"kind": "addition_share", "criterion": "r2", "metric": metric, "value": share}


def _count_gains(validation: CrossValidation, *, draws: int, seed: int) -> np.ndarray:
    """Count by metric the resampled datasets in which all metrics have a greater R² than all but it."""
    everything = list(range(validation.n_metrics))
    n_gains = np.zeros(len(everything))
    for weights in validation.draw_weights(draws, seed):
        with_all = validation.r2(everything, weights)
        for number in everything:
            others = [other for other in everything if other != number]
            n_gains[number] += with_all > validation.r2(others, weights)

    return n_gains


def make_addition_table(
    rows: pd.DataFrame,
    title: str,
    labels: Mapping[str, str],
    own_metrics: Collection[str],
    draws: int,
) -> ResultTable | None:
    """Make the table of what each metric adds, with a sentence on the metric that was asked about; None without rows.

    Args:
        rows: of a dimension, of which those of `addition_rows` count.
        title: of the dataset and the dimension.
        labels: of the metrics.
        own_metrics: the user's, which the sentences are about; without any, of two metrics the last.
        draws: the number of resampled datasets.
    """
    is_r2 = rows["criterion"] == "r2"
    kinds = ("alone", "without", "addition", "addition_share")
    of_kinds = rows[is_r2 & rows["kind"].isin(kinds)]
    if of_kinds.empty:
        return None

    values_by_metric: dict[str, dict[str, float]] = {}
    for metric, part in groups_of(of_kinds, "metric"):
        values_by_metric[metric] = dict(zip(part["kind"], part["value"], strict=True))

    table_rows: list[Row] = []
    for metric, values in values_by_metric.items():
        cells: list[AnyCell] = [number_cell(values[kind], 100, 1) for kind in kinds[:3]]
        cells.append(number_cell(values["addition_share"], 100, 0))
        table_rows.append(Row(labels[metric], cells))

    asked = [metric for metric in values_by_metric if metric in own_metrics]
    if not asked and len(values_by_metric) == 2:
        asked = [list(values_by_metric)[-1]]
    notes: list[str] = []
    for metric in asked:
        others = [labels[other] for other in values_by_metric if other != metric]
        notes.append(_describe_addition(labels[metric], others, values_by_metric[metric], draws))

    first, *_ = values_by_metric.values()
    with_all = format_number(first["without"] + first["addition"], 100, 1)
    notes.append(
        f"R² ×100 of a linear combination, on images that the fit has not seen ({FOLDS} folds, or one an image where there are "
        f"fewer); of all metrics together {with_all}. adds: what R² gains by the metric beside all others; draws %: the share of "
        f"{count_of(draws, 'resampled dataset')} in which R² is greater with it."
    )
    columns = ["alone", "the others", "adds", "draws %"]
    return ResultTable(
        f"{title}: what each metric adds", "metric", columns, table_rows, notes=notes
    )


def _describe_addition(
    label: str, others: Sequence[str], values: Mapping[str, float], draws: int
) -> str:
    """Say what a metric adds to the others, and whether the resampled datasets agree on that."""
    besides = others[0] if len(others) == 1 else f"the other {len(others)} metrics"
    without = format_number(values["without"], 100, 1)
    added = number_cell(values["addition"], 100, 1)
    count = f"{round(values['addition_share'] * draws)} of {count_of(draws, 'resampled dataset')}"

    change = f"{label} adds {added.text} to the R² of {without} that {besides} reach"
    if len(others) == 1:
        change += "es"
    if values["addition"] <= 0:
        change = f"{label} adds nothing to the R² of {without} of {besides} ({added.text})"
    if values["addition_share"] >= _SURE_SHARE and draws >= _FEWEST_DRAWS:
        return f"{change}, and R² is greater with it in {count}."
    return f"{change}; that it adds anything is not sure: R² is greater with it in {count}."
