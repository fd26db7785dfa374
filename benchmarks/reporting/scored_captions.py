"""A user's own captions as `captau score` scored them: what its tables, charts and pages show."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ..evaluation.threshold_curves import Conjunction
from ..runs.finished_run import FinishedRun
from ..runs.tables import format_coefficient, format_number
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.registry import find_coefficient
from ..statistics.intervals import p_value_column, rank_clusters
from .run_dataset import CHART_TITLES, RunDataset, RunPart, run_datasets

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
        records: Any = self.corpus.to_dict("records")
        return {(row["system"], row["metric"]): row for row in records}

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
        names = (
            ", ".join(self.systems) if len(self.systems) <= 3 else f"{len(self.systems)} systems"
        )
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
        return self.metrics.index(self.leading_metric)

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
    def ranks(self) -> dict[str, dict[str, int]]:
        """The rank of each system by metric; systems that share a rank do not differ significantly."""
        ranks: dict[str, dict[str, int]] = {}
        for metric, rows in self.differences.groupby("metric", sort=False):
            pairs = zip(rows["system_a"], rows["system_b"], rows["p"], strict=True)
            p_values = {frozenset((a, b)): float(p) for a, b, p in pairs}
            values = {s: self.oriented_score(s, str(metric)) for s in self.systems}
            ranks[str(metric)] = rank_clusters(values, p_values, 1 - self.statistics.level)
        return ranks

    def oriented_score(self, system: str, metric: str) -> float:
        """Return a corpus score whose sign makes more better."""
        sign = 1 if self.styles[metric]["higher_is_better"] else -1
        return sign * float(self.rows[system, metric]["score"])

    def sort_systems(self, metric: str) -> list[str]:
        """Return the systems with a score, the best first."""
        scores = {s: self.oriented_score(s, metric) for s in self.systems}
        return sorted((s for s in scores if not math.isnan(scores[s])), key=lambda s: -scores[s])

    def format_score(self, value: float, metric: str) -> str:
        """Return a score as tables print it."""
        style = self.styles[metric]
        return format_number(value, style["scale"], style["decimals"])

    def describe_agreement(self, metric: str) -> str:
        """Return a metric's correlation with people, such as `τ_c 43.9 on flickr8k_expert`; empty if unknown."""
        row = self.rows[self.systems[0], metric]
        if not row["agreement_coefficient"]:
            return ""
        name = row["agreement_coefficient"]
        text = f"{find_coefficient(name).symbol} {format_coefficient(row['agreement'], name)}"
        return f"{text} on {row['agreement_on']}"

    @property
    def leading_metric(self) -> str:
        """The metric that agrees best with people, or the first where none is known to."""
        agreement = {m: float(self.rows[self.systems[0], m]["agreement"]) for m in self.metrics}
        rated = [m for m in self.metrics if not math.isnan(agreement[m])]
        return max(rated, key=lambda m: agreement[m]) if rated else self.metrics[0]


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
            f"{run.folder} is of an earlier captau, which kept no captions; run captau score "
            f"output_dir={run.folder} again"
        )
    return [ScoredCaptions(run, name) for name in dict.fromkeys(run.corpus["references"])]
