"""Captions judged by the levels of one or several dimensions: the forms `extrinsic` and `four`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..items.units import StudyItem, StudyUnit, units_of_images
from .counted_answers import CountedAnswer, CountedAnswers, csv_bytes
from .form import Form, FormFields
from .wording import Dimension, Wording, load_wording


@dataclass(frozen=True)
class LevelsForm(Form):
    """A level of each of the study's dimensions for each caption shown.

    Attributes:
        shows_references: whether the captions that others wrote are shown.
    """

    template = "forms/levels.html"
    shows_references: ClassVar[bool] = False

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return a level for each caption and dimension."""
        levels_by_caption: list[dict[str, Any]] = []
        for k in range(1, n_captions + 1):
            # A fault names the caption only where there are several.
            number = k if n_captions > 1 else 0
            levels: dict[str, Any] = {}
            for dimension in self.wording.dimensions:
                field_name = f"{dimension.name}_{k}"
                levels[dimension.name] = self.read_level(fields, field_name, dimension, number)
            levels_by_caption.append(levels)

        return levels_by_caption

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the rating of each dimension."""
        return {name: float(rating) for name, rating in value.items()}

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return a level for each caption and dimension."""
        answer: dict[str, Any] = {}
        for k, caption in enumerate(captions, start=1):
            for dimension in self.wording.dimensions:
                answer[f"{dimension.name}_{k}"] = dimension.from_five(level(caption))

        return answer


#: The dimensions of which a caption that is extrinsically good needs a majority above the lowest level.
_EXT_GOOD_DIMENSIONS = ("correct", "helpful")


@dataclass(frozen=True)
class ExtrinsicForm(LevelsForm):
    """One caption, with levels of correctness, helpfulness and fluency."""

    name = "extrinsic"

    wording: Wording = field(
        default=load_wording("extrinsic", has_free_dimensions=True), kw_only=True
    )

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return which captions are Ext-Good (section 6.2), with the shares of raters behind it.

        A caption is if more than half of its raters find it at least partially correct, and more than half at
        least somewhat useful. A study without these dimensions has only the shares.
        """
        dimensions = self.wording.dimensions
        has_ext_good = set(_EXT_GOOD_DIMENSIONS) <= {d.name for d in dimensions}

        rows: list[list[Any]] = []
        for group in answers.by_item():
            unit = group[0].unit
            item = group[0].item
            shares = {d.name: _share_above_lowest(group, d) for d in dimensions}
            cells: list[Any] = [unit.image_id, item.caption, item.system or "", len(group)]
            cells += [f"{share:g}" for share in shares.values()]
            if has_ext_good:
                is_ext_good = all(shares[name] > 0.5 for name in _EXT_GOOD_DIMENSIONS)
                cells.append(int(is_ext_good))
            rows.append(cells)

        columns = ["image", "caption", "system", "ratings", *(d.name for d in dimensions)]
        if has_ext_good:
            columns.append("ext_good")

        return {"caption_ext.csv": csv_bytes(columns, rows)}


def _share_above_lowest(answers: list[CountedAnswer], dimension: Dimension) -> float:
    """Return the share of answers above the lowest level of a dimension."""
    above = [answer.value[dimension.name] > dimension.scale.low for answer in answers]
    return sum(above) / len(above)


_CAPTIONS_PER_UNIT = 4


@dataclass(frozen=True)
class FourForm(LevelsForm):
    """Ratings with fluency, relevance and descriptiveness in mind; references shown, order shuffled."""

    name = "four"
    unit_noun = "images"
    shows_references = True

    wording: Wording = field(default=load_wording("four", has_free_dimensions=True), kw_only=True)

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return units of up to four captions of an image."""
        return units_of_images(items, _CAPTIONS_PER_UNIT)

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return CapEval1k's targets: means of the first dimension, brought to 0-1 as in the authors' LMDB.

        They are a table, since an LMDB of word pieces would not preserve every caption's letters and blanks.
        """
        dimension = self.wording.dimensions[0]
        rows: list[list[Any]] = []
        for group in answers.by_item():
            mean = sum(answer.value[dimension.name] for answer in group) / len(group)
            unit = group[0].unit
            item = group[0].item
            references = json.dumps(list(item.references), ensure_ascii=False)
            caption_cells = [unit.image_id, item.caption, references, item.system or ""]
            rows.append([*caption_cells, len(group), dimension.scale.share(mean)])

        columns = ["image", "caption", "references", "system", "ratings", "value"]
        return {"capeval.csv": csv_bytes(columns, rows)}
