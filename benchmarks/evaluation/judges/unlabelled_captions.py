"""Captions that nobody judged, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from ....datasets.reading.caption_files import CandidateFile, ReferenceFile
from ....datasets.reading.caption_ids import match_image_ids
from ....metrics.base import Floats, Metric
from ...runs.progress_bar import StepProgress
from ...scoring.corpus_scores import make_caption_items, make_scorer, select_images
from ...scoring.score_store import ScoreStore
from ...scoring.scorer import score_all
from ...scoring.unavailable_metrics import find_unavailable, warn_unavailable
from ...statistics.bootstrap import number_images
from ...statistics.weighted_pairs import Ints


@dataclass(frozen=True)
class UnlabelledCaptions:
    """Captions of one system that nobody judged.

    Attributes:
        name: as people call them.
        items: a row a caption.
        hashes: the SHA-256 of the files, by name.
        scores: by metric, more is better, shape (n_items,); empty before they are scored.
    """

    name: str
    items: pd.DataFrame
    hashes: Mapping[str, str] = field(default_factory=dict[str, str])
    scores: Mapping[str, Floats] = field(default_factory=dict[str, Floats])

    @classmethod
    def make(
        cls, name: str, captions: CandidateFile, references: ReferenceFile | None
    ) -> UnlabelledCaptions:
        """Match captions with references.

        Raises:
            InputError: where an image has no references.
        """
        sets = {} if references is None else {"": references}
        files, _ = match_image_ids({name: captions}, sets)
        # Only one of the sets of references.
        images = select_images(files, sets, False)[""]
        items = make_caption_items(
            files[name], sets.get(""), image_ids=images, images=None, system=None
        )
        hashes = {captions.source.path.name: captions.source.sha256}
        if references is not None:
            hashes[references.source.path.name] = references.source.sha256
        return cls(name, items, hashes)

    @property
    def image(self) -> Ints:
        """The number of each caption's image, shape (n_items,)."""
        return number_images(self.items["image_id"])[0]

    def scored(
        self, metrics: Sequence[Metric], store: ScoreStore, progress: StepProgress
    ) -> UnlabelledCaptions:
        """Return the captions with the scores of those metrics that can be computed for them."""
        missing = find_unavailable(metrics, self.items)
        warn_unavailable([missing])
        available = [metric for metric in metrics if metric not in missing]
        columns = score_all(make_scorer(self.items), available, store, progress)

        scores: dict[str, Floats] = {}
        for metric in available:
            sign = 1.0 if metric.higher_is_better else -1.0
            scores[metric.spec] = sign * columns[metric.spec]
        return replace(self, scores=scores)
