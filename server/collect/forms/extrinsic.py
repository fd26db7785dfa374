"""The fine-grained form: is a caption correct, helpful, fluent (Levinboim et al. 2021, section 4)?

The paper names the levels "partially-correct" and "somewhat-useful" (section 6.2); the outer ones are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .counted_answers import CountedAnswer, CountedAnswers, csv_bytes
from .levels import LevelsForm
from .wording import Dimension, Level, Wording

_WORDING = Wording(
    "Would this caption help somebody who cannot see the picture?",
    "Answer each question by itself: a caption may be right and of no use, or useful and partly wrong.\n\n"
    "Right but of no use: “a person at an event”, or “what I saw from my seat”, which tells more about the camera than "
    "about the picture.",
    (
        Dimension(
            "correct",
            "Is what the caption says correct?",
            (
                Level(3, "Correct", "All of it is right."),
                Level(2, "Partially correct", "Some of it is right, some wrong."),
                Level(1, "Incorrect", "It is wrong in what matters."),
            ),
        ),
        Dimension(
            "helpful",
            "Is it a helpful description for a person who cannot see the picture?",
            (
                Level(3, "Useful", "They would know what the picture shows."),
                Level(2, "Somewhat useful", "They would have an idea of it."),
                Level(1, "Not useful", "They would know no more than before."),
            ),
        ),
        Dimension(
            "fluent",
            "Does it read fluently?",
            (
                Level(3, "Fluent", "It reads as a person would write it."),
                Level(2, "Somewhat fluent", "It can be understood, with faults."),
                Level(1, "Not fluent", "It is hard to understand."),
            ),
        ),
    ),
    has_free_dimensions=True,
)
#: The dimensions of which a caption that is extrinsically good needs a majority above the lowest level.
_EXT_GOOD_DIMENSIONS = ("correct", "helpful")


@dataclass(frozen=True)
class ExtrinsicForm(LevelsForm):
    """One caption, with levels of correctness, helpfulness and fluency."""

    name = "extrinsic"

    wording: Wording = field(default=_WORDING, kw_only=True)

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return which captions are Ext-Good (section 6.2), with the shares of raters behind it.

        A caption is if more than half of its raters find it at least partially correct, and more than half at
        least somewhat useful. A study without these dimensions has only the shares.
        """
        dimensions = self.wording.dimensions
        has_ext_good = set(_EXT_GOOD_DIMENSIONS) <= {d.name for d in dimensions}
        rows: list[list[Any]] = []
        for group in answers.by_item():
            unit, item = group[0].unit, group[0].item
            shares = {d.name: _share_above_lowest(group, d) for d in dimensions}
            cells: list[Any] = [unit.image_id, item.caption, item.system or "", len(group)]
            cells += [f"{share:g}" for share in shares.values()]
            if has_ext_good:
                cells.append(int(all(shares[name] > 0.5 for name in _EXT_GOOD_DIMENSIONS)))
            rows.append(cells)
        columns = ["image", "caption", "system", "ratings", *(d.name for d in dimensions)]
        return {
            "caption_ext.csv": csv_bytes([*columns, *(["ext_good"] if has_ext_good else [])], rows)
        }


def _share_above_lowest(answers: list[CountedAnswer], dimension: Dimension) -> float:
    """Return the share of answers above the lowest level of a dimension."""
    above = [answer.value[dimension.name] > dimension.scale.low for answer in answers]
    return sum(above) / len(above)
