"""FENSE: the mean cosine of sentence embeddings, lowered where a caption is not fluent (Zhou et al. 2022).

The authors' detector of errors is a model that captau does not run; its probabilities come from a file.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...datasets.paths import expand_home
from ...datasets.reading.table import read_table
from ...datasets.schema import Scale
from ..base import Floats, UnavailableError
from ..registry import register
from ..rows import Rows, index_by_key, look_up_all, row_keys
from .sentence_cosine import SentenceCosine


@register("fense")
@dataclass(frozen=True)
class Fense(SentenceCosine):
    """The mean over the references of cos(e(candidate), e(reference)), times 1 - penalty where an error is probable.

    Args:
        references: `mean` alone: the score is the mean of the cosines.
        errors: a table with the columns `caption` and `error`, the probability from 0 to 1 that the caption has an error.
        threshold: the probability above which it counts as one.
        penalty: the share of the score that an error costs.
    """

    references: Literal["mean"] = "mean"  # pyright: ignore[reportIncompatibleVariableOverride]
    errors: str | None = None
    threshold: float = 0.9
    penalty: float = 0.9

    file_fields: ClassVar[tuple[str, ...]] = ("errors",)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        if self.errors is None:
            raise UnavailableError(
                f"metric {self.spec}",
                "needs the probabilities of errors in captions",
                "name a table of caption and error with errors=FILE (docs/metrics_from_files.md)",
            )

    def compute(self, rows: Rows) -> Floats:
        path = expand_home(str(self.errors))
        table = read_table(path)

        keys = [(caption,) for caption in table.texts("caption")]
        numbers = table.floats("error", Scale(0, 1))
        rows_of_table = zip(table.places, keys, numbers, strict=True)
        error_by_caption = index_by_key(rows_of_table, "probability", is_same=operator.eq)

        captions = row_keys(rows, ["caption"], path)
        errors = look_up_all(error_by_caption, captions, "probability of an error", path)
        has_error = np.array(errors) > self.threshold

        return super().compute(rows) * np.where(has_error, 1 - self.penalty, 1.0)
