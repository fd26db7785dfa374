"""The computed ratings that each pair of the rating game starts with (Scott et al. 2023, section 3.2).

The authors took VSE++ first, and their own models once they had trained them. Here they come from metrics or
trained raters, or from the ratings that a dataset has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ....benchmarks.scoring.catalog import resolve_metrics
from ....datasets.errors import InputError
from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.schema import Scale
from ....metrics.base import Floats, Metric
from ..items.units import StudyItem
from .game_rules import LEVELS

#: The computed ratings of a pair; people's ratings take their places.
N_COMPUTED = 2
_DEFAULT_METRICS = ("rouge_l", "cider")
_RATINGS = "ratings"


@dataclass(frozen=True)
class ColdStart:
    """The sources of computed ratings; none stands for the ratings that the items come with.

    Attributes:
        metrics: the spec of each metric, with the ends of its scale where the study names them.
    """

    metrics: tuple[tuple[str, Scale | None], ...]

    @classmethod
    def read(cls, game: YamlFields) -> Self:
        """Read `cold_start`: `ratings`, or one metric or two.

        Raises:
            InputError: if it is neither.
        """
        if "cold_start" not in game:
            return cls(tuple((spec, None) for spec in _DEFAULT_METRICS))
        value = game.plain_data("cold_start")
        if value == _RATINGS:
            return cls(())
        entries: list[Any] = value if isinstance(value, list) else []
        if not 1 <= len(entries) <= N_COMPUTED:
            raise game.error(
                "cold_start", "one metric or two are expected, in a list, or 'ratings'"
            )
        return cls(tuple(_read_entry(entry, game) for entry in entries))

    def compute_levels(self, items: Sequence[StudyItem], game: YamlFields) -> list[tuple[int, ...]]:
        """Return the computed ratings of each item, `N_COMPUTED` of them.

        Raises:
            InputError: if a metric cannot score the items, or an item comes without ratings.
        """
        columns = [
            self._metric_levels(spec, scale, items, game) for spec, scale in self.metrics
        ] or [_known_levels(items, game)]
        return list(
            zip(*(columns[k % len(columns)].tolist() for k in range(N_COMPUTED)), strict=True)
        )

    def _metric_levels(
        self, spec: str, scale: Scale | None, items: Sequence[StudyItem], game: YamlFields
    ) -> Floats:
        try:
            metric, *further_metrics = resolve_metrics([spec])
            if further_metrics:
                raise InputError(f"{spec} is a suite; name one metric or two")
            _check_references(metric, items)
            scores = metric.score(
                [
                    {
                        "item_id": item.item_id,
                        "image_id": item.image_id,
                        "image": item.image,
                        "caption": item.caption,
                        "references": list(item.references),
                        "system": item.system,
                    }
                    for item in items
                ]
            )
        except InputError as error:
            raise game.error("cold_start", str(error)) from error
        if not np.isfinite(scores).all():
            item = items[int(np.argmin(np.isfinite(scores)))]
            raise game.error(
                "cold_start", f"{spec} has no score for '{item.caption}'; name another metric"
            )
        ends = metric.rating_scale
        if scale is None and ends is not None:
            scale = Scale(*ends)
        if scale is not None:
            return _levels_on(scale, scores)
        return _fifths(scores if metric.higher_is_better else -scores)


def _read_entry(entry: Any, game: YamlFields) -> tuple[str, Scale | None]:
    """Return a metric's spec, and its scale where the entry has `low` and `high`."""
    if isinstance(entry, str):
        return entry, None
    if (
        isinstance(entry, dict)
        and set(entry) == {"metric", "low", "high"}
        and isinstance(entry["metric"], str)
        and all(
            isinstance(entry[end], int | float) and not isinstance(entry[end], bool)
            for end in ("low", "high")
        )
        and entry["low"] < entry["high"]
    ):
        return entry["metric"], Scale(entry["low"], entry["high"])
    raise game.error(
        "cold_start", f"{entry!r}: a metric, or {{metric: …, low: 0, high: 1}}, is expected"
    )


def _check_references(metric: Metric, items: Sequence[StudyItem]) -> None:
    """Check that the items have references if a metric needs them.

    Raises:
        InputError: with metrics to choose instead.
    """
    n_without = sum(not item.references for item in items)
    if n_without and "references" in metric.needs:
        raise InputError(
            f"{metric.spec} needs references, and {n_without:,} of {len(items):,} items have none; name metrics "
            "that need none, such as clipscore, vse_cosine(images=FILE,texts=FILE) or rater(path=FOLDER), "
            "or add the column references"
        )


def _known_levels(items: Sequence[StudyItem], game: YamlFields) -> Floats:
    """Return the items' own mean ratings, rounded; a half goes up."""
    means = [item.mean_rating for item in items if item.mean_rating is not None]
    if len(means) < len(items):
        raise game.error("cold_start", "not every item comes with ratings; name metrics")
    return np.floor(np.array(means) + 0.5).astype(int)


def _levels_on(scale: Scale, scores: Floats) -> Floats:
    """Return scores as the nearest of the five levels, whose ends are those of their scale."""
    lowest, highest = LEVELS[0], LEVELS[-1]
    levels = lowest + (highest - lowest) * scale.share(scores)
    return np.clip(np.floor(levels + 0.5), lowest, highest).astype(int)


def _fifths(scores: Floats) -> Floats:
    """Return scores as levels: the worst fifth is 1, the best 5; equal scores get equal levels."""
    ascending = np.sort(scores)
    low = np.searchsorted(ascending, scores, side="left")
    high = np.searchsorted(ascending, scores, side="right")
    share = (low + high) / 2 / len(scores)
    return np.clip(1 + np.floor(share * 5), 1, 5).astype(int)
