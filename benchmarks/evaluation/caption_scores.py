"""Scores of a user's captions, as `captau score` computes them, with the `reliability` of metrics beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import ITEM_COLUMNS
from ..scoring.corpus_scores import SystemScores
from ..statistics.bootstrap import Interval
from .reliability import OUTSIDE, MetricReliability
from .wording import join_notes


@dataclass(frozen=True)
class CaptionScores:
    """Scores of a user's captions.

    Attributes:
        systems: each system against each set of references.
        reliability: the metrics' correlations with people.
        differences: of every two systems, columns `system_comparison.COLUMNS`; None where there is
            one, or no image is drawn.
        kept_captions: the captions above the threshold, as a COCO results list; None where no
            threshold is set.
    """

    systems: Sequence[SystemScores]
    reliability: MetricReliability
    differences: pd.DataFrame | None = None
    kept_captions: list[dict[str, Any]] | None = None

    @property
    def has_several_systems(self) -> bool:
        """Tell whether two systems are scored."""
        return len({s.system for s in self.systems}) > 1

    @property
    def has_several_references(self) -> bool:
        """Tell whether there are two sets of references."""
        return len({s.references for s in self.systems}) > 1

    @property
    def corpus(self) -> dict[str, Any]:
        """Each metric's corpus score; below system and set of references, where there are several."""
        tree: dict[str, Any] = {}
        for scored in self.systems:
            branch = tree.setdefault(scored.system, {}) if self.has_several_systems else tree
            if self.has_several_references:
                branch = branch.setdefault(scored.references, {})
            branch.update(scored.corpus)

        return tree

    @property
    def undefined(self) -> dict[str, Any]:
        """The reasons why metrics have no corpus score, by metric; by system where there are several."""
        reasons: dict[str, dict[str, str]] = {}
        for scored in self.systems:
            reasons_of_system: dict[str, str] = {}
            for spec in scored.corpus:
                note = scored.undefined_note(spec)
                if note:
                    reasons_of_system[spec] = note
            system = f"{scored.system} {scored.references}".strip()
            reasons[system] = reasons_of_system

        return next(iter(reasons.values())) if len(self.systems) == 1 else reasons

    @property
    def corpus_rows(self) -> pd.DataFrame:
        """One row a system, set of references and metric: score, interval, agreement with people."""
        rows: list[dict[str, Any]] = []
        for scored in self.systems:
            for spec, score in scored.corpus.items():
                interval = scored.intervals.get(spec, Interval())
                reliability = self.reliability.by_spec.get(spec)
                mismatch = self.reliability.outside.get(spec, "")

                row = {
                    "system": scored.system,
                    "references": scored.references,
                    "metric": spec,
                    "score": score,
                    "ci_low": interval.low,
                    "ci_high": interval.high,
                    "n_images": len(scored.items),
                    "agreement": reliability.value if reliability else math.nan,
                    "agreement_coefficient": reliability.coefficient if reliability else "",
                    "agreement_on": reliability.on if reliability else "",
                    "agreement_source": reliability.source if reliability else "",
                    "note": join_notes(
                        scored.undefined_note(spec) or interval.note,
                        f"agreement: {OUTSIDE}: your captions {mismatch}" if mismatch else "",
                    ),
                }
                rows.append(row)

        return pd.DataFrame(rows)

    @property
    def items(self) -> pd.DataFrame:
        """The scored captions, columns `dataset` (the set of references) and `ITEM_COLUMNS`."""
        parts: list[pd.DataFrame] = []
        for scored in self.systems:
            part = scored.items.assign(dataset=scored.references, system=scored.system)
            parts.append(part[["dataset", *ITEM_COLUMNS]])

        return pd.concat(parts, ignore_index=True)

    @property
    def frame(self) -> pd.DataFrame:
        """One row a caption: `item_id, image_id`, `system` where there are several, a column a metric.

        Of several sets of references each has its columns, `cider@c5`, empty for images that it lacks.
        """
        keys = ["item_id", "image_id"]
        if self.has_several_systems:
            keys.append("system")

        parts: dict[str, list[pd.DataFrame]] = {}
        for scored in self.systems:
            part = scored.items[keys].assign(**scored.scores)
            parts.setdefault(scored.references, []).append(part)

        by_references = {name: pd.concat(p, ignore_index=True) for name, p in parts.items()}
        if len(by_references) == 1:
            return next(iter(by_references.values()))

        captions = pd.concat([scores[keys] for scores in by_references.values()])
        joined = captions.drop_duplicates(ignore_index=True)
        for name, scores in by_references.items():
            renamed = scores.set_index(keys).add_suffix(f"@{name}").reset_index()
            joined = joined.merge(renamed, on=keys, how="left")

        return joined


def keep_captions(
    scored: SystemScores, captions: Mapping[str, str], metric: str, threshold: float
) -> list[dict[str, Any]]:
    """Return the captions with at least a score, as COCO has results: an image's number is a number.

    Args:
        scored: the system's scores.
        captions: the captions as they were given, by image; the scored ones may be normalised.
        metric: whose scores count.
        threshold: the lowest score that is kept.

    Raises:
        InputError: where a caption has no score, or the metric could not be computed.
    """
    if metric not in scored.scores:
        raise InputError(f"keep.metric={metric}: it cannot be computed here")

    scores = scored.scores[metric]
    if np.isnan(scores).any():
        row = scored.items.iloc[int(np.argmax(np.isnan(scores)))]
        raise InputError(f"keep.metric={metric}: image '{row['image_id']}' has no score")

    results: list[dict[str, Any]] = []
    for image_id in scored.items.loc[scores >= threshold, "image_id"]:
        number = int(image_id) if str(image_id).isdecimal() else image_id
        results.append({"image_id": number, "caption": captions[image_id]})

    return results
