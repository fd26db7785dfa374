"""Four captions of an image at once, rated overall (CapEval1k; Lee et al. 2021, section 4.3, appendix B)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..items.units import StudyItem, StudyUnit, units_of_images
from .counted_answers import CountedAnswers, csv_bytes
from .levels import LevelsForm
from .wording import NUMBERED_LEVELS, Dimension, Wording

_CAPTIONS_PER_UNIT = 4
#: The instructions of Figure 7 in our own words, with examples of our own.
_WORDING = Wording(
    "Rate each caption of the picture",
    "Look at the picture, read its captions and the captions that others wrote, then give each caption one rating. "
    "Keep three things in mind.\n\n"
    "Fluency: it reads naturally and its grammar is right. Grammatical and still strange: “a bench and a bench”.\n\n"
    "Relevance: it tells what the picture shows. Right but for a small part: “a man with a blue umbrella”, whose "
    "umbrella is green.\n\n"
    "Descriptiveness: it is precise and tells the details that matter. Too general: “a man outdoors”.\n\n"
    "The captions that others wrote are for comparison. They are not always perfect: do not take off points for "
    "what only they say, or for other words.",
    (Dimension("overall", "Overall, from 1 (worst) to 5 (best)", NUMBERED_LEVELS),),
    has_free_dimensions=True,
)


@dataclass(frozen=True)
class FourForm(LevelsForm):
    """Ratings with fluency, relevance and descriptiveness in mind; references shown, order shuffled."""

    name = "four"
    unit_noun = "images"
    shows_references = True

    wording: Wording = field(default=_WORDING, kw_only=True)

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
            unit, item = group[0].unit, group[0].item
            references = json.dumps(list(item.references), ensure_ascii=False)
            caption_cells = [unit.image_id, item.caption, references, item.system or ""]
            rows.append([*caption_cells, len(group), dimension.scale.share(mean)])
        columns = ["image", "caption", "references", "system", "ratings", "value"]
        return {"capeval.csv": csv_bytes(columns, rows)}
