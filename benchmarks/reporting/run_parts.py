"""Parts of a finished run, for charts and pages: a dataset under one protocol, or a user's own captions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.preferences import PREFERENCE_COLUMNS
from ...datasets.schema import RATING_COLUMNS, Scale
from ..evaluation.judged_pairs import FLOORS
from ..evaluation.pair_tests import PairTests, Standing
from ..evaluation.threshold_curves import Conjunction
from ..runs.finished_run import FinishedRun
from ..runs.frames import records_of
from ..runs.results import BLAME_COLUMNS
from ..runs.tables import Cell, number_cell
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.intervals import p_value_column
from ..statistics.rating_table import CEILINGS
from .tables.corpus_score_tables import (
    describe_agreement,
    find_leading_metric,
    find_score_tests,
    rank_by_score,
)

#: The kinds of charts of datasets, with their titles.
CHART_TITLES = {
    "forest": "Coefficients with intervals",
    "categories": "Accuracy by dimension of preferences",
    "significance": "Which metrics differ",
    "ratings": "How people rated",
    "agreement": "How well people agree",
    "scores": "Scores against ratings",
    "correlations": "Metrics against one another",
    "precision_recall": "Filtering captions by a metric",
}


@dataclass(frozen=True)
class RunPart:
    """The captions of a run that are charted and browsed together.

    Attributes:
        run: the run.
        dataset: the dataset, or the set of references against which own captions are scored.
    """

    run: FinishedRun
    dataset: str

    @cached_property
    def title(self) -> str:
        """The part's title."""
        raise NotImplementedError

    @property
    def file_words(self) -> tuple[str, ...]:
        """Words that tell the part from others in the names of files."""
        raise NotImplementedError

    @property
    def chart_titles(self) -> Mapping[str, str]:
        """The kinds of charts that a page shows, with their titles."""
        return CHART_TITLES

    def refuse_chart(self, kind: str) -> str:
        """Return the reason why there are no charts of a kind; empty where there may be some."""
        raise NotImplementedError

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics in the order of tables."""
        raise NotImplementedError

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row an item and a column a metric, companions after what was asked for; as computed."""
        raise NotImplementedError

    @property
    def is_by_image(self) -> bool:
        """Tell whether pages show the captions of an image together, so that systems can be compared."""
        return False

    @property
    def leading_position(self) -> int:
        """The position in `metrics` of the metric that a page shows first."""
        return 0

    @cached_property
    def styles(self) -> dict[str, dict[str, Any]]:
        """The fields of each metric's `MetricStyle`, by spec."""
        return self.run.run.get("metrics", {})

    def label(self, metric: str) -> str:
        """Return the label of a metric in tables."""
        return self.styles.get(metric, {}).get("label", metric)

    def sort_metrics(self, metrics: Iterable[str]) -> list[str]:
        """Return metrics in the order of tables."""
        return sorted(metrics, key=lambda m: self.styles.get(m, {}).get("order", np.inf))

    @cached_property
    def items(self) -> pd.DataFrame:
        """The run's, of this part; by item id."""
        items = self.run.items
        return items[items["dataset"] == self.dataset].set_index("item_id", drop=False)

    @cached_property
    def oriented(self) -> pd.DataFrame:
        """`scores` where more is better for every metric."""
        signs: dict[Any, int] = {}
        for metric in self.scores:
            is_high = self.styles.get(str(metric), {}).get("higher_is_better", True)
            signs[metric] = 1 if is_high else -1
        return self.scores * pd.Series(signs, dtype=float)

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """People's ratings; none."""
        return pd.DataFrame(columns=pd.Index(RATING_COLUMNS))

    @cached_property
    def preferences(self) -> pd.DataFrame:
        """People's preferences; none."""
        return pd.DataFrame(columns=pd.Index([*PREFERENCE_COLUMNS, "winner"]))

    @cached_property
    def words(self) -> pd.DataFrame:
        """The words that people mark and metrics blame; none."""
        return pd.DataFrame(columns=pd.Index(BLAME_COLUMNS))

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """The scale of each rated dimension; none."""
        return {}

    def people(self, dimension: str) -> pd.Series:
        """The mean rating of each item; NaN where there is none."""
        ratings = self.ratings[self.ratings["dimension"] == dimension]
        return ratings.groupby("item_id")["value"].mean().reindex(self.items.index)


@dataclass(frozen=True)
class RunDataset(RunPart):
    """One dataset of a run under one protocol.

    Attributes:
        protocol: its name.
        good: when a caption is good, for precision-recall curves: a share of the scale, or conditions.
        precision: the share of kept captions that should be good.
    """

    protocol: str
    good: float | Conjunction = 0.5
    precision: float = 0.8

    @cached_property
    def title(self) -> str:
        """The dataset's title."""
        return self.run.run.get("data", {}).get(self.dataset, {}).get("title", self.dataset)

    @property
    def file_words(self) -> tuple[str, ...]:
        return self.dataset, self.protocol

    @cached_property
    def correlations(self) -> pd.DataFrame:
        """The run's that tables print, of this part."""
        frame = self.run.printed_correlations
        in_part = (frame["dataset"] == self.dataset) & (frame["protocol"] == self.protocol)
        return frame[in_part].reset_index(drop=True)

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics correlated with people, in the order of tables; neither floors nor what people reach."""
        metrics = dict.fromkeys(self.correlations["metric"])
        return self.sort_metrics(m for m in metrics if m not in FLOORS_AND_CEILINGS)

    def label(self, metric: str) -> str:
        """Return the label of a metric, a floor or what people reach in tables."""
        if metric in FLOORS_AND_CEILINGS:
            return FLOORS_AND_CEILINGS[metric]
        return super().label(metric)

    @property
    def has_anonymous_raters(self) -> bool:
        """Tell whether the names of raters only number an item's ratings."""
        return self.run.run["data"][self.dataset].get("anonymous_raters", False)

    def metric_kind(self, metric: str) -> str:
        """One of `METRIC_KINDS`, or what stands beside metrics."""
        if metric in FLOORS_AND_CEILINGS:
            return "people" if metric in CEILINGS else "floor"
        return self.styles.get(metric, {}).get("kind", "given")

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
        scores = self.run.scores
        scores = scores[scores["dataset"] == self.dataset]
        wide = scores.pivot(index="item_id", columns="metric", values="score")
        scored_metrics = set(wide.columns)
        names = [metric for metric in self.metrics if metric in scored_metrics]
        columns = [*names, *sorted(scored_metrics - set(names))]
        return wide.reindex(self.items.index)[columns].astype(float)

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """By rated dimension that the protocol looks at and has ratings here."""
        chosen_dimensions = self.run.run["protocols"][self.dataset]["dimension"] or ()
        rated = set(self.ratings["dimension"])
        scales = self.run.run["data"][self.dataset].get("scales", {})
        rated_scales: dict[str, Scale] = {}
        for dimension in chosen_dimensions:
            if dimension in rated:
                rated_scales[str(dimension)] = Scale(**scales[dimension])
        return rated_scales

    @cached_property
    def n_systems(self) -> int | None:
        """The number of systems, where these are what is correlated; None where captions are, or it is not known."""
        options = self.run.find_protocol(self.dataset, self.protocol) or {}
        if options.get("level") != "system" or not self.run.has_file("items.parquet"):
            return None
        return self.items["system"].nunique()

    @property
    def faults(self) -> tuple[str, ...]:
        """The dimensions on which more is worse."""
        return tuple(self.run.run["data"][self.dataset].get("faults", ()))

    def refuse_chart(self, kind: str) -> str:
        if kind not in _CHARTS_OF_ITEMS or self.run.has_file("items.parquet"):
            return ""
        return f"captau {self.run.command} keeps no items and ratings; captau bench does"


_CHARTS_OF_ITEMS = ("ratings", "agreement", "scores", "correlations", "precision_recall")
FLOORS_AND_CEILINGS = {**FLOORS, **CEILINGS}


def run_datasets(
    run: FinishedRun, good: float | Conjunction = 0.5, precision: float = 0.8
) -> list[RunDataset]:
    """Return a run's datasets with their protocols; `good` and `precision` are as in `RunDataset`."""
    frame = run.correlations
    pairs = dict.fromkeys(zip(frame["dataset"], frame["protocol"], strict=True))
    return [RunDataset(run, dataset, protocol, good, precision) for dataset, protocol in pairs]


_CHART_TITLES = {
    "forest": "Scores with intervals",
    "significance": "Which systems differ",
    "scores": "Captions' scores by system",
    "correlations": CHART_TITLES["correlations"],
}


@dataclass(frozen=True)
class ScoredCaptions(RunPart):
    """The captions of one or several systems, scored against one set of references."""

    @cached_property
    def corpus(self) -> pd.DataFrame:
        """The rows of `corpus.csv` with these references."""
        corpus = self.run.corpus
        return corpus[corpus["references"] == self.dataset]

    @cached_property
    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The same by system and metric."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for row in records_of(self.corpus):
            rows[row["system"], row["metric"]] = row
        return rows

    @cached_property
    def systems(self) -> list[str]:
        """The systems, in the order of the command."""
        return list(dict.fromkeys(self.corpus["system"]))

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics in the order of tables."""
        return self.sort_metrics(dict.fromkeys(self.corpus["metric"]))

    @cached_property
    def has_several_references(self) -> bool:
        """Tell whether the run has other sets of references."""
        return self.run.corpus["references"].nunique() > 1

    @cached_property
    def title(self) -> str:
        """The systems, and the references where there are several sets."""
        n_systems = len(self.systems)
        names = ", ".join(self.systems) if n_systems <= 3 else f"{n_systems} systems"
        return f"{names}, references {self.dataset}" if self.has_several_references else names

    @property
    def chart_titles(self) -> Mapping[str, str]:
        return _CHART_TITLES

    def refuse_chart(self, kind: str) -> str:
        return "" if kind in _CHART_TITLES else "nobody rated these captions"

    @property
    def is_by_image(self) -> bool:
        return True

    @property
    def leading_position(self) -> int:
        return self.metrics.index(find_leading_metric(self.corpus, self.metrics))

    @property
    def file_words(self) -> tuple[str, ...]:
        return (self.dataset,) if self.dataset else ()

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row a caption and a column a metric, as computed."""
        frame = self.run.caption_scores.set_index("item_id")
        suffix = f"@{self.dataset}" if self.has_several_references else ""
        columns = {f"{metric}{suffix}": metric for metric in self.metrics}
        return frame.reindex(self.items.index)[list(columns)].rename(columns=columns).astype(float)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the images with their references; runs of equal digest can be compared."""
        images = self.items.drop_duplicates("image_id").sort_values("image_id")
        pairs = zip(images["image_id"], map(list, images["references"]), strict=True)
        return hashlib.sha256(json.dumps(list(pairs)).encode()).hexdigest()

    @cached_property
    def statistics(self) -> StatisticsOptions:
        """The options of the run's intervals and tests."""
        return StatisticsOptions(**self.run.run["config"]["statistics"])

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Differences of every two systems with `p`, the corrected p-value; empty without tests."""
        if not self.run.has_file("differences.csv"):
            return pd.DataFrame(columns=pd.Index(["metric", "system_a", "system_b", "p"]))
        rows = self.run.differences
        rows = rows[rows["references"] == self.dataset]
        return rows.assign(p=rows[p_value_column(self.statistics.correction)])

    @cached_property
    def standings(self) -> dict[str, list[Standing]]:
        """The systems with a score by metric, the best first; equal ranks do not differ significantly."""
        standings: dict[str, list[Standing]] = {}
        for metric in self.metrics:
            corpus = self.corpus[self.corpus["metric"] == metric]
            differences = self.differences[self.differences["metric"] == metric]
            is_high = self.styles[metric]["higher_is_better"]
            standings[metric] = rank_by_score(
                corpus, differences, self.statistics, higher_is_better=is_high
            )
        return standings

    @cached_property
    def tests(self) -> dict[str, PairTests]:
        """The findings of the tests of every two systems, by metric."""
        tests: dict[str, PairTests] = {}
        for metric in self.metrics:
            differences = self.differences[self.differences["metric"] == metric]
            is_high = self.styles[metric]["higher_is_better"]
            tests[metric] = find_score_tests(differences, self.statistics, higher_is_better=is_high)
        return tests

    def score_cell(self, value: float, metric: str) -> Cell:
        """Return the cell of a score."""
        style = self.styles[metric]
        return number_cell(value, style["scale"], style["decimals"])

    @cached_property
    def agreement(self) -> dict[str, str]:
        """The metrics' agreement with people in words, such as `τ_c 43.9 on flickr8k_expert`; empty if unknown."""
        first_system = self.systems[0]
        agreement: dict[str, str] = {}
        for metric in self.metrics:
            agreement[metric] = describe_agreement(self.rows[first_system, metric])
        return agreement


def run_parts(
    run: FinishedRun, good: float | Conjunction, precision: float
) -> list[RunDataset] | list[ScoredCaptions]:
    """Return the parts of a run of any command; `good` and `precision` are as in `RunDataset`.

    Raises:
        InputError: see `scored_parts`.
    """
    return scored_parts(run) if run.has_corpus_scores else run_datasets(run, good, precision)


def scored_parts(run: FinishedRun) -> list[ScoredCaptions]:
    """Return the captions of a run by set of references.

    Raises:
        InputError: where the run kept no captions, or has no score.
    """
    if not (run.has_file("items.parquet") and run.run.get("metrics")):
        raise InputError(
            f"{run.folder} was written by an earlier captau, which stored no captions; run captau score "
            f"output_dir={run.folder} again"
        )
    return [ScoredCaptions(run, name) for name in dict.fromkeys(run.corpus["references"])]
