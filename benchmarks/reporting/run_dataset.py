"""One dataset of a finished run under one protocol: its correlations, scores and ratings, for charts and pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from ...datasets.schema import Scale
from ..evaluation.floors import FLOORS
from ..options.thresholds import CurveOptions
from ..runs.finished_run import FinishedRun
from ..statistics.virtual_raters import CEILINGS


@dataclass(frozen=True)
class RunDataset:
    """One dataset of a run under one protocol.

    Attributes:
        run, dataset, protocol: whose, and which.
        options: see `CurveOptions`.
    """

    run: FinishedRun
    dataset: str
    protocol: str
    options: CurveOptions = field(default_factory=CurveOptions)

    @cached_property
    def title(self) -> str:
        """The dataset's title."""
        return self.run.run.get("data", {}).get(self.dataset, {}).get("title", self.dataset)

    @cached_property
    def correlations(self) -> pd.DataFrame:
        """The run's, of this part."""
        frame = self.run.correlations
        in_part = (frame["dataset"] == self.dataset) & (frame["protocol"] == self.protocol)
        return frame[in_part].reset_index(drop=True)

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics correlated with people, in the order of tables; neither floors nor ceilings."""
        metrics = [
            m for m in dict.fromkeys(self.correlations["metric"]) if m not in FLOORS_AND_CEILINGS
        ]
        styles = self.run.run.get("metrics", {})
        return sorted(metrics, key=lambda metric: styles.get(metric, {}).get("order", np.inf))

    def label(self, metric: str) -> str:
        """Return the label of a metric, floor or ceiling in tables."""
        if metric in FLOORS_AND_CEILINGS:
            return FLOORS_AND_CEILINGS[metric]
        return self.run.run.get("metrics", {}).get(metric, {}).get("label", metric)

    @property
    def has_anonymous_raters(self) -> bool:
        """Tell whether the names of raters only number an item's ratings."""
        return self.run.run["data"][self.dataset].get("anonymous_raters", False)

    def metric_kind(self, metric: str) -> str:
        """One of `METRIC_KINDS`, or what stands beside metrics."""
        if metric in FLOORS_AND_CEILINGS:
            return "ceiling" if metric in CEILINGS else "floor"
        return self.run.run.get("metrics", {}).get(metric, {}).get("kind", "given")

    @cached_property
    def items(self) -> pd.DataFrame:
        """The run's, of this dataset; by item id."""
        items = self.run.items
        return items[items["dataset"] == self.dataset].set_index("item_id", drop=False)

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """The run's, of this dataset."""
        ratings = self.run.ratings
        return ratings[ratings["dataset"] == self.dataset]

    @cached_property
    def preferences(self) -> pd.DataFrame:
        """The run's, of this dataset."""
        preferences = self.run.preferences
        return preferences[preferences["dataset"] == self.dataset]

    @cached_property
    def words(self) -> pd.DataFrame:
        """The words of this dataset that people mark and metrics blame."""
        words = self.run.words
        return words[words["dataset"] == self.dataset]

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row an item and a column a metric, companions after what was asked for; as computed."""
        scores = self.run.scores
        wide = scores[scores["dataset"] == self.dataset].pivot(
            index="item_id", columns="metric", values="score"
        )
        scored_metrics = set(wide.columns)
        names = [m for m in self.metrics if m in scored_metrics]
        columns = [*names, *sorted(scored_metrics - set(names))]
        return wide.reindex(self.items.index)[columns].astype(float)

    @cached_property
    def oriented(self) -> pd.DataFrame:
        """`scores` where more is better for every metric."""
        styles = self.run.run.get("metrics", {})
        sign = {
            m: 1 if styles.get(m, {}).get("higher_is_better", True) else -1 for m in self.scores
        }
        return self.scores * pd.Series(sign, dtype=float)

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """By rated dimension that the protocol looks at and has ratings here."""
        chosen_dimensions = self.run.run["protocols"][self.dataset]["dimension"] or ()
        rated = set(self.ratings["dimension"])
        scales = self.run.run["data"][self.dataset]["scales"]
        return {str(d): Scale(**scales[d]) for d in chosen_dimensions if d in rated}

    @property
    def faults(self) -> tuple[str, ...]:
        """The dimensions on which more is worse."""
        return tuple(self.run.run["data"][self.dataset].get("faults", ()))

    def people(self, dimension: str) -> pd.Series:
        """The mean rating of each item; NaN where there is none."""
        ratings = self.ratings[self.ratings["dimension"] == dimension]
        return ratings.groupby("item_id")["value"].mean().reindex(self.items.index)

    @property
    def has_judgements(self) -> bool:
        """Tell whether the run kept its items and their ratings."""
        return self.run.has_file("items.parquet")


FLOORS_AND_CEILINGS = {**FLOORS, **CEILINGS}


def run_datasets(run: FinishedRun, options: CurveOptions | None = None) -> list[RunDataset]:
    """A run's datasets with their protocols."""
    frame = run.correlations
    pairs = dict.fromkeys(zip(frame["dataset"], frame["protocol"], strict=True))
    return [
        RunDataset(run, dataset, protocol, options or CurveOptions()) for dataset, protocol in pairs
    ]
