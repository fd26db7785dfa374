"""A dataset under one protocol, with metrics' scores by item: what commands beside `bench` start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...metrics.base import Floats, Metric
from ..options import ComplementOptions, SensitivityOptions, ThresholdsOptions
from ..runs.progress_bar import StepProgress
from ..scoring.protocol import Protocol
from ..scoring.scorer import Scorer, metric_caveats, score_all
from ..scoring.unavailable_metrics import UnavailableMetrics, find_unavailable
from ..statistics.bootstrap import number_images
from ..statistics.coefficients import Coefficient, undefined_reason
from ..statistics.levels import correlate_at_level
from ..statistics.weighted_coefficients import Ints
from .measured_dataset import no_dimension
from .provenance import provenance


@dataclass(frozen=True)
class Points:
    """The data points of one dimension on which a metric is defined.

    Attributes:
        scores, ratings, keys: as `levels.correlate_at_level` takes them.
        unit: the number of each point's image among those of all points.
        reason: why there is no value whatever the coefficient; empty else.
    """

    scores: Floats
    ratings: Floats
    keys: pd.DataFrame
    unit: Ints
    reason: str

    def agreement(self, protocol: Protocol, coefficient: str) -> Coefficient:
        return correlate_at_level(protocol.level, self.scores, self.ratings, self.keys, coefficient)


StudyConfig = SensitivityOptions | ComplementOptions | ThresholdsOptions


class Study:
    """One of a command's datasets, which has ratings, under its protocol.

    Attributes:
        set, protocol, metrics: what is studied.
        missing: the metrics of suites that cannot be computed here, and why.
        items: what `Protocol.select` gives.
        coefficients: the protocol's, those of ratings.

    Raises:
        InputError: where there are no ratings, or no coefficient of them.
    """

    def __init__(
        self,
        config: StudyConfig,
        name: str,
        progress: StepProgress,
    ) -> None:
        caption_set = config.locations.load(name)
        self.set = caption_set
        self.protocol = config.datasets[name].for_dataset(caption_set)
        self.progress = progress
        self._store = config.locations.store()
        if not self.protocol.dimension:
            raise no_dimension(caption_set, "it has preferences and no ratings to correlate with")
        self.items = self.protocol.select_items(caption_set)
        self.missing: UnavailableMetrics = find_unavailable(
            config.metrics, config.optional, self.items
        )
        self.metrics = [m for m in config.metrics if m not in self.missing]
        #: What must be said beside metrics' correlations, by spec.
        self.marks = metric_caveats(self.metrics, self.items)
        self._keys = self.items.set_index("item_id")[["image_id", "system"]]
        self.coefficients = [c for c in self.protocol.coefficients if c != "accuracy"]
        if not self.coefficients:
            raise InputError(
                f"dataset {caption_set.name}: protocol.coefficients has none of ratings; name one"
            )

    def scores(
        self, items: pd.DataFrame, protocol: Protocol, metrics: Sequence[Metric] | None = None
    ) -> dict[str, pd.Series]:
        """By metric and item id, more is better; companions of metrics are left out."""
        chosen = self.metrics if metrics is None else metrics
        if of_corpus := [m.spec for m in chosen if m.depends_on_corpus]:
            protocol.check_equal_weights(self.set, items, of_corpus[0])
        scorer = Scorer(self.set.name, items, protocol)
        found = score_all(scorer, chosen, self._store, self.progress)
        signs = {m.spec: 1 if m.higher_is_better else -1 for m in chosen}
        return {m: pd.Series(sign * found[m], index=items["item_id"]) for m, sign in signs.items()}

    def image_of(self, points: pd.DataFrame) -> pd.Series:
        return self._keys.loc[points["item_id"], "image_id"]

    def points(self, scores: pd.Series, points: pd.DataFrame) -> Points:
        """What of the data points counts: with protocol.undefined=drop those with a score."""
        given = scores.loc[points["item_id"]].to_numpy(dtype=np.float64)
        gaps = np.isnan(given)
        keep = ~gaps if self.protocol.undefined == "drop" else np.ones(len(given), dtype=bool)
        here = points[keep]
        return Points(
            given[keep],
            here["value"].to_numpy(dtype=np.float64),
            self._keys.loc[here["item_id"]],
            number_images(self.image_of(points))[0][keep],
            undefined_reason(given[keep], here["value"].to_numpy(dtype=np.float64)),
        )


def told(
    command: str,
    config: StudyConfig,
    studies: Sequence[Study],
    started: datetime,
    seconds: float,
) -> dict[str, Any]:
    """For run.json: what it takes to recompute a run, and what could not be computed, and why."""
    computed = list(dict.fromkeys(m for s in studies for m in s.metrics))
    return {
        "command": command,
        "config": dict(config.configuration),
        "protocols": {n: vars(p) for n, p in config.datasets.items()},
        **{k: getattr(config, k) for k in ("seed", "draws") if hasattr(config, k)},
        **provenance(computed, [s.set for s in studies], config.locations),
        "missing": {
            s.set.name: {m.spec: reason for m, reason in s.missing.items()} for s in studies
        },
        "marks": {s.set.name: s.marks for s in studies},
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }
