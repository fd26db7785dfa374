"""The metric `file`: scores that are read from a file, such as `fleur.csv` or `file(path=fleur.csv,name=FLEUR)`."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..datasets.errors import InputError, shorten
from ..datasets.reading.cells import ANSWER_WORDS, is_missing, parse_answer
from ..datasets.reading.packed_files import without_packing
from ..datasets.reading.source_files import identify_image
from ..datasets.reading.table import Table, read_table
from .base import Floats, UnavailableError
from .outside_metric import OutsideMetric
from .registry import register
from .rows import Key, Rows, index_by_key, look_up_all, quote_key, row_keys


@register("file")
@dataclass(frozen=True)
class ScoreFile(OutsideMetric):
    """Scores read from CSV, JSON lines or Parquet, or from one of FLEUR's own files (`score_column="model score"` is its raw number).

    The file has `score` and either `item_id`, or `image_id` (or `image`) and `caption`, or the image and `system` where it
    has no captions. Where captions of an image are equal and their scores are not, the system tells them apart. If it
    also has `metric` (as `scores.parquet` of a run does), only the rows of one metric count. A score may be a judge's
    answer in words: yes, true and good are 1, no, false and bad are 0; a column `answer` is taken where there is no `score`.
    An empty cell and NaN are missing scores, as a row is that the file lacks.

    Args:
        path: the file, packed or not.
        name: the metric's name in results; by default the file's name without its ending.
        metric: the metric's name in the file's column `metric`; by default `name`, or the only one there.
        image: the column of images; by default `image_id`, which has the dataset's own ids, else `image`. Of another column
            names of files and COCO's numbers are compared as all datasets have them.
        caption, system, score: the columns of captions, of systems and of scores; by default these names.
        source: who published the scores, such as `BILLBOARD`: tables mark the metric, and say so below.
    """

    path: str
    name: str = ""  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    metric: str | None = None
    image: str | None = None
    caption: str = "caption"
    system: str = "system"
    score_column: str = "score"
    source: str | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    file_fields: ClassVar[tuple[str, ...]] = ("path",)
    later_fields: ClassVar[tuple[str, ...]] = (
        "image",
        "caption",
        "system",
        "score_column",
        "source",
    )

    @property
    def default_name(self) -> str:
        return Path(without_packing(self.path)).stem

    @property
    def label(self) -> str:
        return f"metric file(path={self.path})"

    @property
    def label_spec(self) -> str:
        return f"{self.name} (published)" if self.is_published else self.name

    @property
    def is_published(self) -> bool:
        return self.source is not None

    def check_dataset(self, rows: Rows) -> None:
        keys, scores = self._read_scores(rows, allows_gaps=True)
        if not scores.keys() & set(keys):
            raise UnavailableError(self.label, "has no score of these captions", "add their rows")

    def compute(self, rows: Rows) -> Floats:
        keys, scores = self._read_scores(rows, allows_gaps=rows.allows_gaps)
        if rows.allows_gaps and any(key in scores for key in keys):
            values = [scores.get(key, np.nan) for key in keys]
        else:
            values = look_up_all(scores, keys, "score", self.path)
        if n_others := len(scores.keys() - set(keys)):
            rows.add_remark(
                self.spec,
                f"{n_others:,} of {len(scores):,} scores in {self.path} are of no item that is scored here",
            )
        if self.source:
            rows.add_remark(self.spec, f"scores as {self.source} published them, not computed here")
        return np.array(values)

    def _read_scores(self, rows: Rows, *, allows_gaps: bool) -> tuple[list[Key], dict[Key, float]]:
        """Return the key of each row, and the file's scores by key; missing ones are left out where gaps are allowed.

        Raises:
            InputError: where the file lacks columns, a score is none, or two of an item differ.
        """
        table = self._read()
        score_column = self.score_column
        # A judge's file may call its yes and no so.
        if score_column == "score" and score_column not in table and "answer" in table:
            score_column = "answer"
        if score_column not in table:
            raise InputError(
                f"{self.path}: no column {score_column}, which has the scores; name it with "
                f"'metrics=file(path={self.path},score_column=NAME)'; it has {', '.join(table.names)}"
            )
        columns = self._find_key_columns(table)
        scores = table.column(score_column)

        def read_entries(key_columns: Mapping[str, str]) -> list[tuple[str, Key, float]]:
            keys = self._file_keys(table, key_columns)
            return list(self._entries(table, keys, scores, allows_gaps=allows_gaps))

        entries = read_entries(columns)
        # Equal captions of two systems may have scores of their own.
        if "caption" in columns and self.system in table and _has_contradiction(entries):
            columns = {**columns, "system": self.system}
            entries = read_entries(columns)

        keys = row_keys(rows, list(columns), self.path)
        if columns.get("image_id", "image_id") != "image_id":
            keys = [(identify_image(key[0]), *key[1:]) for key in keys]
        return keys, index_by_key(entries, "score", operator.eq)

    def _find_key_columns(self, table: Table) -> dict[str, str]:
        """Return the columns that identify an item, by those of the items to score.

        Raises:
            InputError: where the file has too few of them.
        """
        if "item_id" in table and self.image is None:
            return {"item_id": "item_id"}

        image = self.image or table.first_of("image_id", "image")
        key_column = "caption" if self.caption in table else "system"
        other_column = self.caption if key_column == "caption" else self.system
        # A file with neither is asked for captions.
        needed_columns = (
            image or "image_id",
            other_column if other_column in table else self.caption,
        )
        for column in needed_columns:
            if column not in table:
                raise InputError(
                    f"{self.path}: no column {column}; a score file has score and either item_id, or image_id (or image) "
                    "and caption (or system)"
                )

        return {"image_id": str(image), key_column: other_column}

    def _file_keys(self, table: Table, columns: Mapping[str, str]) -> list[Key]:
        """Return the key of each row of the file; images as datasets name them, unless they are a dataset's own ids."""
        cells: list[list[str]] = []
        for name, column in columns.items():
            texts = list(map(str, table.column(column)))
            if name == "image_id" and column != "image_id":
                texts = list(map(identify_image, texts))
            cells.append(texts)

        return list(zip(*cells, strict=True))

    def _entries(
        self, table: Table, keys: Sequence[Key], scores: Sequence[Any], *, allows_gaps: bool
    ) -> Iterator[tuple[str, Key, float]]:
        """Yield place, key and score of each row of this metric."""
        columns = (table.places, self._is_of_metric(table), keys, scores)
        for location, is_of_metric, key, score in zip(*columns, strict=True):
            if not is_of_metric:
                continue

            if is_missing(score):
                if allows_gaps:
                    continue
                raise InputError(
                    f"{location}: the score of {quote_key(key)} is missing ({shorten(repr(score))}); every item needs "
                    "one, unless protocol.undefined=drop"
                )

            number = parse_answer(score)
            if not math.isfinite(number):
                raise InputError(
                    f"{location}: the score of {quote_key(key)} is not a number, and none of {', '.join(ANSWER_WORDS)}: "
                    f"{shorten(repr(score))}"
                )
            yield location, key, number

    def _is_of_metric(self, table: Table) -> list[bool]:
        """Tell of each row whether it is of this metric: all are if the file has no column `metric`."""
        if "metric" not in table:
            return [True] * len(table)
        metrics = list(map(str, table.column("metric")))
        metric_name = self.name if self.metric is None else self.metric
        if metric_name not in metrics:
            names = sorted(set(metrics))
            if self.metric is not None or len(names) != 1:
                raise InputError(
                    f"{self.path}: no row is of metric '{metric_name}', but of {', '.join(names)}; choose one "
                    f"with metric=…"
                )
            (metric_name,) = names

        return [metric == metric_name for metric in metrics]

    def _read(self) -> Table:
        path = self.find_file(self.path)
        if Path(without_packing(self.path)).suffix == ".txt":
            # The one release of scores that is no table; a metric of any other file need not load its reader.
            from ..datasets.sources.fleur import read_score_table

            if table := read_score_table(path):
                return table
        return read_table(path)


def _has_contradiction(entries: Iterable[tuple[str, Key, float]]) -> bool:
    """Tell whether a key has two scores that differ."""
    scores: dict[Key, float] = {}
    return any(scores.setdefault(key, score) != score for _, key, score in entries)
