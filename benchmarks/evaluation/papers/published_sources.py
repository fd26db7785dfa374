"""The cells of published tables, and what the tables of a run share: datasets, scores, measurements and protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....datasets import registry
from ....datasets.schema import CaptionSet
from ....metrics.base import Metric
from ....metrics.registry import metric, metric_names
from ...runs.progress_bar import StepProgress
from ...runs.results import missing_note
from ...scoring.catalog import usual_protocol
from ...scoring.protocol import Protocol
from ...scoring.score_store import Locations, ScoreStore
from ...statistics.bootstrap import StatisticsOptions
from ..evaluation_set import EvaluationSet
from ..judged_pairs import PAIR_FLOORS
from ..measured_dataset import NO_INTERVALS, MeasuredDataset, correlate_dataset
from ..scored_dataset import score_dataset
from .published_numbers import PaperTable
from .reference_draws import Pair, ReferenceDraws, judged_pairs_of


@dataclass(frozen=True)
class TableCell:
    """A recomputed cell in the table's unit, or NaN and the reason.

    Attributes:
        value: the number.
        note: a remark on it, or the reason.
        spread: how far a printed number may be from it by random draws alone, of references or of raters; None where nothing was drawn.
        is_other_split: whether it is of another split of the dataset than the printed number.
        is_own_rater: whether a rater of one's own fills it, which is not the paper's.
    """

    value: float
    note: str = ""
    spread: float | None = None
    is_other_split: bool = False
    is_own_rater: bool = False

    @classmethod
    def missing(cls, reason: str) -> TableCell:
        """Return a cell that is not computed."""
        return cls(float("nan"), missing_note(reason))


#: By row and column.
Cells = dict[tuple[str, str], TableCell]


@dataclass(frozen=True)
class TableSources:
    """The sources that the tables of a run share.

    Attributes:
        locations: where the datasets are.
        leave_out: the metrics that are left out.
        store, progress: where scores are kept and steps are counted.
        caption_sets: the datasets that were read, by name.
        measured: the measurements of `correlation` and `system_means` tables.
        metrics: those that were computed, by spec.
        draws: of references, by the pairs that they are for.
        protocols: by table, as `run.json` has them.
    """

    locations: Locations
    leave_out: tuple[str, ...]
    store: ScoreStore
    progress: StepProgress
    caption_sets: dict[str, CaptionSet] = field(default_factory=dict[str, CaptionSet])
    measured: list[MeasuredDataset] = field(default_factory=list[MeasuredDataset])
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    draws: dict[tuple[Pair, ...], ReferenceDraws] = field(
        default_factory=dict[tuple[Pair, ...], ReferenceDraws]
    )
    protocols: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _reasons: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def metric_reason(self, spec: str | None) -> str:
        """Return the reason why a row's metric is not computed on any data; empty where it is."""
        if spec is None:
            return "this metric is not part of captau"
        if spec in PAIR_FLOORS:
            return ""
        if spec.partition("(")[0] not in metric_names():
            return f"metric {spec} is not in this version of captau"

        return ""

    def unavailable_reason(self, table: PaperTable, spec: str | None) -> str:
        """Return the reason why a row's metric is not computed here; empty where it is."""
        reason = self.metric_reason(spec)
        if reason or spec is None or spec in PAIR_FLOORS:
            return reason

        name = spec.partition("(")[0]
        if name in self.leave_out:
            return f"leave_out={name}"

        key = (table.dataset, spec)
        if key not in self._reasons:
            items = self.load(table.dataset).items
            unavailability = metric(spec).find_unavailability(items)
            self._reasons[key] = f"metric {spec} {unavailability}" if unavailability else ""

        return self._reasons[key]

    def load(self, name: str) -> CaptionSet:
        """Read a dataset once."""
        if name not in self.caption_sets:
            self.caption_sets[name] = self.locations.load(name)

        return self.caption_sets[name]

    def resolve_protocol(
        self, table: PaperTable, label: str, changes: Mapping[str, Any]
    ) -> Protocol:
        """Resolve the protocol of a table, and note it for `run.json`."""
        merged = dict(table.protocol)
        for name, value in changes.items():
            # A null in a paper's file leaves what the table says.
            if value is not None:
                merged[name] = value
        merged["name"] = label

        protocol = Protocol.resolve(table.dataset, usual_protocol(table.dataset), merged)
        self.protocols[label] = vars(protocol)

        return protocol

    def measure(
        self,
        table: PaperTable,
        protocol: Protocol,
        specs: list[str],
        statistics: StatisticsOptions = NO_INTERVALS,
    ) -> MeasuredDataset:
        """Score a table's dataset with metrics, and correlate."""
        metrics: list[Metric] = []
        has_floors = False
        for spec in dict.fromkeys(specs):
            # A floor of preferences is computed from the pairs, not by a metric.
            if spec in PAIR_FLOORS:
                has_floors = True
            else:
                metrics.append(metric(spec))
        self.metrics.update({m.spec: m for m in metrics})

        selection = EvaluationSet.select(self.load(table.dataset), protocol)
        self.progress.add_steps(len(metrics), table.table)
        scored = score_dataset(selection, metrics, self.store, self.progress)

        measured = correlate_dataset(
            scored, self.progress, statistics=statistics, pair_floors=has_floors
        )

        self.measured.append(measured)
        return measured

    def draw_references(self, selection: EvaluationSet, pool: str, size: int) -> ReferenceDraws:
        """Return the draws of references of a set's pairs; sets of the same pairs have the same ones.

        Args:
            selection: the set.
            pool: the dataset that has all references of each image.
            size: the number of references of a draw.

        Raises:
            MissingFileError: where that dataset is not here.
        """
        items = self.load(pool).items
        references: dict[str, dict[str, None]] = {}
        for image, texts in zip(items["image_id"], items["references"], strict=True):
            references.setdefault(image, {}).update(dict.fromkeys(texts))
        references_by_image = {image: tuple(texts) for image, texts in references.items()}

        draws = ReferenceDraws.of_pairs(judged_pairs_of(selection), references_by_image, size)
        # Several tables are of the same pairs, whose draws are scored once.
        return self.draws.setdefault(draws.pairs, draws)

    def data_file(self, name: str) -> Path:
        """Return the path of a file in the data folder."""
        return registry.data_root(self.locations.data_root) / name
