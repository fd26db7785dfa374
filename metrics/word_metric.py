"""Metrics that blame words: beside a score, they say of each word of a caption how surely it is made up.

`metrics.text.chair` and `metrics.neural.aloha` are such metrics; `evaluation.word_detection` holds their blame against
the words that people mark, and the report page marks both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..datasets.errors import InputError
from .base import Floats, Metric
from .rows import Items, Rows


@dataclass(frozen=True)
class WordMetric(Metric):
    """A metric that blames words; a caption's words are what blanks part."""

    @abstractmethod
    def compute_blame(self, rows: Rows) -> Sequence[Floats]:
        """Compute the blame of checked rows.

        Returns:
            An array a row, with a number from 0 to 1 for each of its caption's words, 1 being blamed most.
        """

    def blame(self, items: Items) -> list[Floats]:
        """Blame the words of captions.

        Args:
            items: as for `score`.

        Returns:
            An array a caption, shape (n_words,), with 0 for a word that is not blamed.

        Raises:
            InputError: if an item lacks what the metric needs, or the metric blames words that are not in the caption.
        """
        rows = Rows.from_items(items)
        if not len(rows):
            return []
        with self.lock:
            self.check_rows(rows)
            distinct, inverse = (
                rows.unique if self.depends_only_on_content else (rows, np.arange(len(rows)))
            )
            blame = self.compute_blame(distinct)
        for index, (caption, values) in enumerate(zip(distinct.captions, blame, strict=True)):
            if np.shape(values) != (len(caption.split()),):
                raise InputError(
                    f"{distinct.label(index)}: metric {self.spec} blames {np.size(values)} words of a caption of "
                    f"{len(caption.split())}; one number for each word is expected"
                )
        return [np.asarray(blame[index], dtype=np.float64) for index in inverse.tolist()]
