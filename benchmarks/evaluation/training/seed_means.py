"""Means over seeds: how raters of one training that differ by their seed agree with people on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ...runs.frames import groups_of
from ...runs.tables import ResultTable, Row, number_cells
from ...statistics.coefficients.coefficient import find_coefficient
from .training_designs import name_mean


def compute_seed_means(correlations: pd.DataFrame, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Average over seeds: rows of correlations with `std` besides; none of a single seed."""
    if len(seeds) < 2:
        return []

    mean_names = correlations["metric"].map(name_mean)
    keys = ["dataset", "protocol", "dimension", "coefficient"]
    is_of_seed = mean_names != ""
    of_raters = correlations[is_of_seed].assign(mean=mean_names)

    means: list[dict[str, Any]] = []
    for (mean_name, *names), group in groups_of(of_raters, "mean", *keys):
        values = group["value"].to_numpy(dtype=float)
        std = float(values.std(ddof=1))
        mean = {
            **dict(zip(keys, names, strict=True)),
            "metric": mean_name,
            "value": float(values.mean()),
            "std": std,
            "n_items": int(group["n_items"].iloc[0]),
            "n_ratings": int(group["n_ratings"].iloc[0]),
            "p_value": float("nan"),
            "note": f"mean of {len(values)} seeds, standard deviation {std:.6f}",
        }
        means.append(mean)

    return means


def make_mean_tables(means: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> list[ResultTable]:
    """Return the table of means over seeds; none without means."""
    if not means:
        return []

    rows: list[Row] = []
    for mean in means:
        label = f"{mean['metric'].removesuffix(' mean')}: {mean['dataset']}, {mean['dimension']}"
        numbers = number_cells((mean["value"], mean["std"]), 100, 2)
        rows.append(Row(label, [find_coefficient(mean["coefficient"]).symbol, *numbers]))
    title = f"Mean of {len(seeds)} seeds"
    columns = ["coefficient", "mean", "std"]
    return [ResultTable(title, "rater: dataset, dimension", columns, rows)]
