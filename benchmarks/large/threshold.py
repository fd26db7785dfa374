"""The threshold of `captau score keep.run=`: a score, or the lowest that reaches a precision.

Levinboim et al. 2021, section 6.2: a caption is served where its score is at least a threshold, and the threshold is chosen
on captions that people judged, for the share of good ones among those that are served (`captau thresholds`).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.errors import InputError, unknown
from ..options.large import FilterOptions
from ..scoring.catalog import resolve_metrics
from ..statistics.preferences import wilson_interval

#: The level of the interval of a share.
LEVEL = 0.95


@dataclass(frozen=True)
class Threshold:
    """The least score that is kept, with what judged captions promise of the captions above it.

    Attributes:
        value: the least score.
        precision: the share of good captions among the judged ones above it; NaN where none were judged.
        low, high: its 95 % interval (Wilson 1927), the judged captions being a sample.
        n_above, n_judged: how many judged captions are above it, and how many there are.
        judgements: their dataset and dimension.
    """

    value: float
    precision: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n_above: int = 0
    n_judged: int = 0
    judgements: str = ""

    @property
    def precision_words(self) -> str:
        """The precision, in words; empty where there is none."""
        if math.isnan(self.precision):
            return ""
        return (
            f"expected precision {self.precision:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}; "
            f"of {self.n_judged:,} judged captions of {self.judgements}, {self.n_above:,} are above the "
            f"threshold)"
        )

    def as_record(self) -> dict[str, Any]:
        """Return the threshold as run.json has it."""
        return {
            "threshold": self.value,
            "precision": self.precision,
            "low": self.low,
            "high": self.high,
            "kept": self.n_above,
            "judged": self.n_judged,
            "on": self.judgements,
        }


def choose_threshold(
    options: FilterOptions, signature: str, lowest_score: float | None
) -> Threshold:
    """Choose the threshold: a score, or the lowest that reaches a precision.

    Args:
        options: the options.
        signature: the metric's, as the set was scored.
        lowest_score: the lowest score that is kept; None for the precision of the options.

    Raises:
        InputError: where the curve of `captau thresholds` cannot be read or does not suit the metric, or no
            threshold reaches the precision.
    """
    if options.thresholds is None:
        assert lowest_score is not None
        return Threshold(lowest_score)

    metric = resolve_metrics(options.metric)[0]
    if metric.depends_on_corpus and metric.parameters.get("df") is None:
        raise InputError(
            f"metric {options.metric} weighs words by the set that it scores, so a threshold found on another "
            f"set says nothing here; take a metric that scores each caption by itself, or cider(df=FILE)"
        )

    path = options.thresholds / "thresholds.csv"
    curve = read_curve(options, path, signature)
    if options.precision is not None:
        sufficient = curve[curve["precision"] >= options.precision]
        if sufficient.empty:
            raise InputError(
                f"{path}: no threshold of {options.metric} reaches precision {options.precision:g}; the most is "
                f"{curve['precision'].max():.3f}"
            )

        point = sufficient.sort_values("n_kept").iloc[-1]  # the most captions
        value = float(point["threshold"])
    else:
        assert lowest_score is not None
        value = lowest_score
        points_above = curve[curve["threshold"] >= value]
        if points_above.empty:
            return Threshold(value)

        # The curve's next threshold: of those above, the one that keeps the most captions.
        point = points_above.sort_values("n_kept").iloc[-1]

    precision = float(point["precision"])
    n_above = int(point["n_kept"])
    low, high = wilson_interval(precision, n_above)
    judgements = f"{point['dataset']}, {point['dimension']}"
    return Threshold(value, precision, low, high, n_above, int(point["n_items"]), judgements)


def read_curve(options: FilterOptions, path: Path, signature: str) -> pd.DataFrame:
    """Read the one curve of a run of `captau thresholds` that the options name.

    Raises:
        InputError: where there is none, there are several, or its metric had another signature.
    """
    try:
        points = pd.read_csv(path)
        record = json.loads((path.parent / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"keep.thresholds={options.thresholds}: no finished run of captau thresholds ({path} cannot be read)"
        ) from error

    requested = {
        "dataset": options.dataset,
        "dimension": options.dimension,
        "metric": options.metric,
    }
    for column, name in requested.items():
        if name is not None:
            if name not in set(points[column]):
                raise unknown(f"{column} of {path}", name, map(str, points[column].unique()))

            points = points[points[column] == name]

    curves = points[["dataset", "dimension"]].drop_duplicates()
    if len(curves) > 1:
        choices: list[str] = []
        for dataset, dimension in curves.itertuples(index=False):
            choices.append(f"keep.dataset={dataset} keep.dimension={dimension}")

        raise InputError(
            f"{path}: several curves of {options.metric}; choose one: {', '.join(choices)}"
        )

    curve_signature = (record.get("signatures") or {}).get(options.metric)
    if curve_signature is not None and curve_signature != signature:
        raise InputError(
            f"metric {options.metric} was another one when {path} was made ({curve_signature}) than when the "
            f"captions were scored ({signature}); run captau thresholds anew"
        )

    return points
