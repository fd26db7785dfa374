"""The data, metrics and versions that a run rests on, for its `run.json`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ...datasets import registry
from ...datasets.reading.source_files import locate, sha256, used
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ..runs.results import describe_environment
from ..scoring.protocol import Protocol, sign
from ..scoring.score_store import Locations
from .caption_ranges import dataset_range

logger = logging.getLogger(__name__)


def provenance(
    metrics: Sequence[Metric],
    caption_sets: Sequence[CaptionSet],
    locations: Locations,
    protocols: Iterable[Protocol] = (),
) -> dict[str, Any]:
    """Return the data, metrics and versions that numbers rest on, for `run.json`.

    Logs a warning for each file that is not of its card's revision.

    Args:
        metrics: those that were computed.
        caption_sets: each named once in the result, however often it stands here.
        locations: its `data_root` says where the datasets' files lie.
        protocols: those by which the metrics were computed.
    """
    rules = [protocol.normalise for protocol in protocols]
    root = registry.data_root(locations.data_root)
    data: dict[str, Any] = {}
    for caption_set in {c.name: c for c in caption_sets}.values():
        card = caption_set.card
        files: dict[str, str] = {}
        for source in used(root, card):
            path = locate(root, card, source)
            if path is None:
                continue
            files[source.path] = sha256(path)
            if source.sha256 and files[source.path] != source.sha256:
                logger.warning(
                    "%s is not revision %s of %s; its numbers may differ from published ones",
                    path,
                    card.revision[:12],
                    card.title,
                )
        data[card.name] = {
            "revision": card.revision,
            "title": card.title,
            "synthetic": card.synthetic,
            "scales": {name: vars(scale) for name, scale in card.scales.items()},
            "faults": list(card.faults),
            "anonymous_raters": card.anonymous_raters,
            "licence": card.licence,
            "citation": card.citation,
            "digest": caption_set.digest,
            "range": dataset_range(card.name, caption_set.items).record(),
            "files": files,
        }
    return {
        "signatures": {m.spec: sign(m, rules) for m in metrics},
        "data": data,
        **describe_environment(),
    }
