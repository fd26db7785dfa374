"""The scores of a challenge as columns of its leaderboard."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....benchmarks.scoring.catalog import metric_style
from ....benchmarks.statistics.coefficients.registry import find_coefficient
from ....benchmarks.statistics.preferences import MEAN_DIMENSION
from ..definition import Challenge

#: The decimals of a score that tables do not print.
DEFAULT_DECIMALS = 3


@dataclass(frozen=True)
class ScoreColumn:
    """A score that a challenge gives.

    Attributes:
        key: `metric@references`, or `coefficient dimension` for challenges of metrics.
        metric: the metric's spec; for challenges of metrics the same as `key`.
        references: the reference set; empty if there is only one, or none.
        label, scale, decimals: how tables print it.
        higher_is_better: whether higher scores are better.
    """

    key: str
    metric: str
    references: str
    label: str
    scale: float
    decimals: int
    higher_is_better: bool

    @property
    def shown_decimals(self) -> int:
        """Return the decimals of the unscaled score that tables print: 3 for CIDEr's 0.874 (87.4)."""
        return self.decimals + round(math.log10(self.scale))

    @property
    def heading(self) -> str:
        """Return the column's name with its reference set."""
        return f"{self.label}, {self.references}" if self.references else self.label


def column_key(score: Mapping[str, Any]) -> str:
    """Return the column of a row of `Result.scores`."""
    references = score.get("references")
    return f"{score['metric']}@{references}" if references else score["metric"]


def rank_keys(challenge: Challenge) -> list[str]:
    """Return the scores that can order a leaderboard: metrics, or `coefficient dimension`."""
    if challenge.kind == "captions":
        return [metric.spec for metric in challenge.metrics]
    protocol = challenge.bound_protocol(challenge.load_items())
    of_ratings = [c for c in protocol.coefficients if not find_coefficient(c).is_of_preferences]
    of_preferences = [c for c in protocol.coefficients if find_coefficient(c).is_of_preferences]
    keys = [f"{name} {dimension}" for dimension in protocol.dimension for name in of_ratings]
    return [*(f"{name} {MEAN_DIMENSION}" for name in of_preferences), *keys]


def make_columns(challenge: Challenge) -> list[ScoreColumn]:
    """Return the columns of a challenge: the one that ranks first, the others as in tables."""
    if challenge.kind == "metrics":
        keys = sorted(rank_keys(challenge), key=lambda key: key != challenge.rank_by)
        return [_coefficient_column(key) for key in keys]
    has_several_sets = len(challenge.reference_sets) > 1
    metrics = sorted(
        ((metric_style(metric), metric.spec) for metric in challenge.metrics),
        key=lambda pair: (pair[1] != challenge.rank_by, pair[0].order),
    )
    return [
        ScoreColumn(
            key=f"{spec}@{references.name}",
            metric=spec,
            references=references.name if has_several_sets else "",
            label=column_style.label,
            scale=column_style.scale,
            decimals=column_style.decimals,
            higher_is_better=column_style.higher_is_better,
        )
        for column_style, spec in metrics
        for references in challenge.reference_sets
    ]


def default_column(challenge: Challenge, columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return the column that orders a leaderboard unless the visitor chooses another."""
    return next(column for column in columns if column.metric == challenge.rank_by)


def _coefficient_column(key: str) -> ScoreColumn:
    coefficient, _, dimension = key.partition(" ")
    style = find_coefficient(coefficient)
    label = f"{style.symbol} {dimension}".strip()
    return ScoreColumn(key, key, "", label, style.scale, style.decimals, True)
