"""The datasets of a command, with what can be computed on each, and the data, metrics and versions that a run rests on.

`captau sensitivity`, `complement`, `thresholds` and `rank` begin with `prepare_datasets`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd

from ...datasets import registry
from ...datasets.errors import InputError, Lack, LackingError
from ...datasets.reading.source_files import fits, locate, sha256, used, with_recorded_hash
from ...datasets.schema import CaptionSet, Card
from ...metrics.base import Metric
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock, describe_environment
from ..scoring.protocol import Protocol, record_protocols, sign
from ..scoring.score_store import Locations, ScoreStore
from ..scoring.scorer import metric_caveats
from ..scoring.unavailable_metrics import UnavailableMetrics, find_unavailable, record_reasons
from .caption_ranges import CaptionRange, dataset_range
from .evaluation_set import EvaluationSet
from .scored_dataset import score_dataset
from .wording import shorten_revision

logger = logging.getLogger(__name__)

#: The ranges of datasets that are in memory.
_RANGES: WeakKeyDictionary[CaptionSet, CaptionRange] = WeakKeyDictionary()


class LeftOutDatasets(dict[str, LackingError]):
    """The datasets that lack what a run asks of them, by name, with the reasons."""

    @contextmanager
    def leave_out(self, dataset: str) -> Generator[None]:
        """Go on where what is inside finds that a dataset lacks something."""
        try:
            yield
        except LackingError as error:
            self[dataset] = error

    def check(self, n_datasets: int, *, is_logged: bool = True) -> None:
        """Log what was left out, once all datasets were tried, unless the run's table says it.

        Raises:
            InputError: where nothing is left.
        """
        if len(self) == n_datasets:
            reasons = dict.fromkeys(str(error) for error in self.values())
            raise InputError("; ".join(reasons))

        if is_logged:
            for dataset, error in self.items():
                logger.warning("left out %s: %s", dataset, error)

    def record(self) -> dict[str, dict[str, str]]:
        """Return the code and message of each reason, for run.json."""
        record: dict[str, dict[str, str]] = {}
        for name, error in self.items():
            record[name] = {"lack": error.lack, "message": str(error)}
        return record


def provenance(
    metrics: Sequence[Metric],
    caption_sets: Sequence[CaptionSet],
    locations: Locations,
    protocols: Collection[Protocol] = (),
) -> dict[str, Any]:
    """Return the data, metrics and versions that numbers rest on, for `run.json`.

    Logs a warning for each file that is not of its card's revision.

    Args:
        metrics: those that were computed.
        caption_sets: each named once in the result, however often it stands here.
        locations: its `data_root` says where the datasets' files lie.
        protocols: those by which the metrics were computed.
    """
    root = registry.data_root(locations.data_root)
    data: dict[str, Any] = {}
    # The last one of each name; a dataset may stand here once a protocol.
    caption_set_by_name = {caption_set.name: caption_set for caption_set in caption_sets}
    for caption_set in caption_set_by_name.values():
        card = caption_set.card
        sources = _describe_sources(root, card)
        digests = {path: source["sha256"] for path, source in sources}
        data[card.name] = {
            "revision": card.revision,
            "title": card.title,
            "synthetic": card.synthetic,
            "headline": card.headline,
            "scales": {name: vars(scale) for name, scale in card.scales.items()},
            "faults": list(card.faults),
            "anonymous_raters": card.anonymous_raters,
            "licence": card.licence,
            "citation": card.citation,
            "digest": caption_set.digest,
            "range": _range_of(caption_set).record(),
            "files": digests,
        }
        if sources:
            data[card.name]["sources"] = [source for _, source in sources]
        if card.single_values:
            data[card.name]["single_values"] = dict(card.single_values)

    signatures = {metric.spec: sign(metric, protocols) for metric in metrics}
    return {"signatures": signatures, "data": data, **describe_environment()}


def _range_of(caption_set: CaptionSet) -> CaptionRange:
    """Return a dataset's range, measured once: a run of several datasets describes, after each, all that are done."""
    if caption_set not in _RANGES:
        n_copies = caption_set.own_references.n_copies
        _RANGES[caption_set] = dataset_range(caption_set.name, caption_set.items, n_copies)
    return _RANGES[caption_set]


def _describe_sources(root: Path, card: Card) -> list[tuple[str, dict[str, str]]]:
    """Return the files of a dataset that are there: the path on the card, and what `run.json` says of each.

    Logs a warning for each file that is not of its card's revision.
    """
    described: list[tuple[str, dict[str, str]]] = []
    for source in used(root, card):
        path = locate(root, card, source)
        if path is None:
            continue

        is_known = fits(path, with_recorded_hash(root, source))
        # The card knows no hash of another form of the file.
        is_own_form = path.name == Path(source.path).name
        if source.sha256 and is_own_form and not is_known:
            logger.warning(
                "%s is not revision %s of %s; its numbers may differ from published ones",
                path,
                shorten_revision(source.revision or card.revision),
                card.title,
            )

        # A file of one's own lies anywhere, and where is nobody else's business.
        is_below_root = path.is_relative_to(root)
        description = {
            "path": path.relative_to(root).as_posix() if is_below_root else path.name,
            "split": source.split,
            "revision": source.revision if is_known else "",
            "sha256": sha256(path),
        }
        described.append((source.path, description))

    return described


@dataclass(frozen=True)
class PreparedDataset:
    """A dataset, and the metrics that can be computed on it.

    Attributes:
        selection: the items that the protocol selects.
        metrics: those that can be computed for them.
        missing: those that cannot, and why.
        caveats: notes on metrics that were trained on related data, by spec.
        coefficients: the protocol's, without the accuracy on preferences.
        store, progress: where scores are kept and steps are counted.
    """

    selection: EvaluationSet
    metrics: list[Metric]
    missing: UnavailableMetrics
    caveats: Mapping[str, str]
    coefficients: list[str]
    store: ScoreStore
    progress: StepProgress

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.selection.name

    def scores(
        self, selection: EvaluationSet | None = None, metrics: Sequence[Metric] | None = None
    ) -> dict[str, pd.Series]:
        """Return scores of which more is better, by metric and item id.

        Args:
            selection: other items of the dataset, or the same under another protocol.
            metrics: some of the dataset's; None for all.
        """
        scored_metrics = self.metrics if metrics is None else metrics
        scored = score_dataset(
            selection or self.selection, scored_metrics, self.store, self.progress
        )
        return scored.oriented


class PreparedDatasets(list[PreparedDataset]):
    """The datasets of a command.

    Attributes:
        protocols: of all of the command's datasets, by name.
        locations: where they and the scores are.
        left_out: the datasets that lack what is asked.
    """

    def __init__(self, protocols: Mapping[str, Protocol], locations: Locations) -> None:
        super().__init__()
        self.protocols = protocols
        self.locations = locations
        self.left_out = LeftOutDatasets()

    def record(
        self,
        command: str,
        configuration: Mapping[str, Any],
        measures: str,
        clock: RunClock,
        *,
        n_finished: int | None = None,
        **choices: int | None,
    ) -> dict[str, Any]:
        """Return what `run.json` says of a run: what it takes to recompute it, and what is missing.

        Args:
            command, configuration: as they were typed.
            measures: what the command measures, in words.
            clock: begun with the command.
            n_finished: how many of the datasets are done; None for all.
            choices: seed and number of draws, where the command has them.
        """
        prepared_datasets = self[:n_finished]
        metrics: dict[Metric, None] = {}
        caption_sets: list[CaptionSet] = []
        missing: dict[str, Any] = {}
        marks: dict[str, Any] = {}
        for prepared in prepared_datasets:
            # Each metric once, in the order in which datasets have them.
            metrics.update(dict.fromkeys(prepared.metrics))
            caption_sets.append(prepared.selection.caption_set)
            missing[prepared.name] = record_reasons(prepared.missing)
            marks[prepared.name] = prepared.caveats

        return {
            "command": command,
            "config": dict(configuration),
            "protocols": record_protocols(self.protocols),
            **choices,
            **provenance(list(metrics), caption_sets, self.locations, self.protocols.values()),
            "missing": missing,
            "left_out": self.left_out.record(),
            "marks": marks,
            "measures": measures,
            **clock.record(),
        }


def prepare_datasets(
    datasets: Mapping[str, Protocol],
    metrics: Sequence[Metric],
    locations: Locations,
    progress: StepProgress,
    *,
    needs_ratings: bool = True,
    check: Callable[[EvaluationSet], None] | None = None,
) -> PreparedDatasets:
    """Load a command's datasets; those that lack what is asked are in `left_out` of the result.

    Args:
        datasets: the protocol of each.
        metrics: those to compute.
        locations: where the datasets and scores are.
        progress: counts steps.
        needs_ratings: whether nothing can be measured without ratings.
        check: raises LackingError where a dataset lacks something else.

    Raises:
        InputError: where that leaves none.
    """
    prepared_datasets = PreparedDatasets(datasets, locations)

    for name, protocol in datasets.items():
        with prepared_datasets.left_out.leave_out(name):
            # In an order of contents, on which whatever is drawn at random may rest.
            selection = EvaluationSet.select(locations.load(name), protocol).in_order()
            if needs_ratings:
                selection.require_ratings("it has preferences and no ratings to correlate with")

            missing = find_unavailable(metrics, selection.items, needs_one=needs_ratings)
            if check is not None:
                check(selection)

            coefficients = selection.rating_coefficients
            if needs_ratings and not coefficients:
                message = "protocol.coefficients names none of ratings; add one, such as tau_c"
                raise selection.lacking(Lack.JUDGEMENTS, message)

            computed = [m for m in metrics if m not in missing]
            prepared = PreparedDataset(
                selection=selection,
                metrics=computed,
                missing=missing,
                caveats=metric_caveats(computed, selection.items),
                coefficients=coefficients,
                store=locations.store(),
                progress=progress,
            )
            prepared_datasets.append(prepared)

    prepared_datasets.left_out.check(len(datasets))
    return prepared_datasets
