"""Four captions of an image at once, one overall rating each (CapEval1k; Lee et al. 2021, section 4.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ....datasets.schema import Scale
from ..items.units import StudyItem, StudyUnit
from .counted_answers import CountedAnswers, csv_bytes
from .form import Form, FormFields, read_level

_CAPTIONS_PER_UNIT = 4


class FourForm(Form):
    """Ratings with fluency, relevance and descriptiveness in mind; references shown, order shuffled."""

    name = "four"
    template = "forms/four.html"
    scales: ClassVar[Mapping[str, Scale]] = {"overall": Scale(1, 5, 1)}
    main_dimension = "overall"
    shows_several = True
    unit_noun = "images"

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return units of up to four captions of an image."""
        by_image: dict[str, list[StudyItem]] = {}
        for item in items:
            by_image.setdefault(item.image_id, []).append(item)
        return [
            StudyUnit("main", image_id, group[0].image, tuple(group[k : k + _CAPTIONS_PER_UNIT]))
            for image_id, group in by_image.items()
            for k in range(0, len(group), _CAPTIONS_PER_UNIT)
        ]

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return a rating for each caption."""
        return [
            {"overall": read_level(fields, f"overall_{k}", f"a rating for caption {k}")}
            for k in range(1, n_captions + 1)
        ]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the overall rating."""
        return {"overall": float(value["overall"])}

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return CapEval1k's targets: mean ratings, brought to 0-1 as in the authors' LMDB.

        They are a table, since an LMDB of word pieces would not preserve every caption's letters and blanks.
        """
        scale = self.scales["overall"]
        rows: list[list[Any]] = []
        for group in answers.by_item():
            mean = sum(answer.value["overall"] for answer in group) / len(group)
            unit, item = group[0].unit, group[0].item
            references = json.dumps(list(item.references), ensure_ascii=False)
            caption_cells = [unit.image_id, item.caption, references, item.system or ""]
            rows.append([*caption_cells, len(group), scale.share(mean)])
        columns = ["image", "caption", "references", "system", "ratings", "value"]
        return {"capeval.csv": csv_bytes(columns, rows)}

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return a rating for each caption."""
        del rng
        return {f"overall_{k}": level(caption) for k, caption in enumerate(captions, start=1)}
