"""Agreement between the words that metrics blame and those that people mark: rows of `correlations.csv` and panels for intervals.

`measured_dataset` calls both, `bench` writes `blamed_words`. A word is a data point, what people mark counts as -1 and blame lowers a word's score,
as with every fault; images are resampled with all of their words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ...metrics.base import Floats
from ..runs.results import PEOPLE_SOURCE
from ..statistics.coefficients.registry import correlate
from ..statistics.panels import RatingPanel, make_rating_panel
from .correlation_rows import Row
from .evaluation_set import EvaluationSet
from .wording import join_notes

#: By metric, an array for each of the selection's items: a number for each of its words.
BlameByMetric = Mapping[str, Sequence[Floats]]


def word_dimension(dimension: str) -> str:
    """Return the name under which the words of a dimension stand in results."""
    return f"{dimension} of words"


def build_word_panels(selection: EvaluationSet, blame: BlameByMetric) -> list[RatingPanel]:
    """Join metrics' blame to the words that people marked, dimension by dimension."""
    if not blame:
        return []
    items = selection.items
    places = pd.Index(items["item_id"])
    panels: list[RatingPanel] = []
    for dimension, words in selection.words.groupby("dimension", sort=False):
        of_item = places.get_indexer(pd.Index(words["item_id"]))
        positions = words["position"].to_numpy(dtype=np.int64)
        word_ids = [str(number) for number in range(len(words))]
        panels.append(
            make_rating_panel(
                items.iloc[of_item].assign(item_id=word_ids),
                pd.DataFrame({"item_id": word_ids, "value": 0.0 - words["value"].to_numpy(float)}),
                {
                    metric: np.array(
                        [
                            -item_blame[item][position]
                            for item, position in zip(of_item.tolist(), positions, strict=True)
                        ]
                    )
                    for metric, item_blame in blame.items()
                },
                word_dimension(str(dimension)),
                selection.detection_coefficients,
                drop=False,
            )
        )
    return panels


def word_rows(
    selection: EvaluationSet, panels: Sequence[RatingPanel], notes: Mapping[str, str]
) -> list[Row]:
    """Return each metric's coefficients on marked words.

    Args:
        selection: the items.
        panels: as `build_word_panels` makes them.
        notes: added to each row's own, by metric.
    """
    n_items = selection.words.groupby("dimension", sort=False)["item_id"].nunique()
    n_items.index = n_items.index.map(word_dimension)
    rows: list[Row] = []
    for panel in panels:
        for metric, scores in panel.scores.items():
            for coefficient in panel.coefficients:
                correlation = correlate(scores, panel.ratings, coefficient)
                rows.append(
                    {
                        "dataset": selection.name,
                        "protocol": selection.protocol.name,
                        "metric": metric,
                        "dimension": panel.dimension,
                        "coefficient": coefficient,
                        "value": correlation.value,
                        "n_items": int(n_items[panel.dimension]),
                        "n_ratings": len(scores),
                        "p_value": correlation.p_value,
                        "note": join_notes(correlation.note, notes.get(metric, "")),
                    }
                )
    return rows


def blamed_words(selection: EvaluationSet, blame: BlameByMetric) -> list[pd.DataFrame]:
    """Return the marked words, and those of each metric that blames words; columns `results.BLAME_COLUMNS`."""
    names = {"dataset": selection.name}
    parts = [selection.words.assign(source=PEOPLE_SOURCE, **names)] if len(selection.words) else []
    items = selection.items
    words = [caption.split() for caption in items["caption"].tolist()]
    counts = list(map(len, words))
    for metric, item_blame in blame.items():
        parts.append(
            pd.DataFrame(
                {
                    **names,
                    "item_id": np.repeat(items["item_id"].to_numpy(dtype=object), counts),
                    "position": np.concatenate([np.arange(count) for count in counts]),
                    "word": [word for caption_words in words for word in caption_words],
                    "source": metric,
                    "value": np.concatenate(item_blame),
                }
            )
        )
    return parts
