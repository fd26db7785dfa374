"""Two captions of one image, A and B: which is better, by how much, on one or several dimensions.

The sides are drawn for every rater. An answer is stored with each of the two captions, as the strength by
which that caption is preferred, so that the drawn sides matter to nobody who reads it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field

from ....benchmarks.runs.tables import count_of
from ....datasets.caption_texts import collapse_blanks
from ....datasets.preferences import derive_winners
from ....datasets.reading.rating_scales import format_scales
from ....datasets.reading.table import Table
from ....datasets.reading.yaml_model import fault
from ....datasets.schema import Scale
from ...web.visitors import field_value
from ..items.item_pool import CaptionPairFields, ItemPool
from ..items.item_source import pair_items
from ..items.units import StudyItem, StudyUnit
from .counted_answers import CountedAnswer, CountedAnswers, csv_bytes
from .form import Form, FormError, FormFields
from .study_fields import StudyFields
from .wording import Dimension, DimensionFields, Level, Wording, load_wording

logger = logging.getLogger(__name__)

_MAX_STRENGTH = 5
#: The signs of known answers, by the winner that `attention` names.
_SIGNS = {"a": 1, "b": -1, "tie": 0}


def _read_signs(value: Any) -> list[int]:
    """Return the signs of accepted answers: of `a`, `b` or `tie`, or of a list of them."""
    winners = value if isinstance(value, list) else [value]
    if not winners or not all(isinstance(winner, str) and winner in _SIGNS for winner in winners):
        raise fault(f"{', '.join(map(str, winners))}; a, b or tie is expected")

    return [_SIGNS[winner] for winner in winners]


class KnownCaptionPair(CaptionPairFields):
    """Two captions with the signs of the answers that are known to be right."""

    accepted: Annotated[list[int], BeforeValidator(_read_signs)]


class AbStudy(StudyFields):
    """A study's file whose known answers are of two captions each."""

    attention: list[KnownCaptionPair] = Field(default_factory=list)  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True)
class AbForm(Form):
    """A preference between two captions, or none, on one or several dimensions.

    The levels of a dimension are the strengths of a preference, from 1 on; 0, which may be left out, prefers neither.
    """

    name = "ab"
    template = "forms/ab.html"
    study_model = AbStudy
    unit_noun = "pairs"
    judges_pairs = True

    wording: Wording = field(default=load_wording("ab", has_free_dimensions=True), kw_only=True)

    @classmethod
    def check_levels(
        cls, fields: DimensionFields, levels: Sequence[Level], default: Dimension | None
    ) -> None:
        """Check that strengths are a row of numbers from 0 or 1 on, and that texts name the caption."""
        strengths = sorted(level.value for level in levels)
        # From 1 on where 0 is left out; a row that begins later has a gap before its first.
        first = min(strengths[0], 1)
        is_in_row = strengths == list(range(first, first + len(levels)))
        if not is_in_row or first < 0 or not 1 <= strengths[-1] <= _MAX_STRENGTH:
            numbers = ", ".join(map(str, strengths))
            raise fields.error(
                "levels",
                f"their values are {numbers}; 1 to {_MAX_STRENGTH} at most are expected, and 0 for neither",
            )

        for level in levels:
            n_letters = 1 if level.value > 0 else 0
            if level.text.count("{}") != n_letters:
                rule = "{} for the caption's letter once" if level.value else "no {}"
                raise fields.error("levels", f"the text of {level.value} has to have {rule}")

    @property
    def scales(self) -> Mapping[str, Scale]:
        """The strength of each dimension: positive prefers the caption."""
        return {d.name: Scale(-d.scale.high, d.scale.high, 1) for d in self.wording.dimensions}

    def digest_rules(self) -> dict[str, Any]:
        """Return the dimensions and the number of answers to choose from; their texts may change."""
        dimensions = self.wording.dimensions
        return {
            "dimensions": [dimension.name for dimension in dimensions],
            "levels": [int(dimension.scale.high) for dimension in dimensions],
            "ties": [dimension.scale.low == 0 for dimension in dimensions],
        }

    def read_table(self, table: Table, images: Path | None) -> pd.DataFrame:
        """Return the pairs that a table lists, or its captions."""
        if "caption_a" in table:
            return pair_items(table, images)

        return super().read_table(table, images)

    def special_units(self, study: StudyFields, pool: ItemPool) -> list[StudyUnit]:
        """Return pairs with known winners on the first dimension, whatever the grade."""
        pairs = cast(AbStudy, study).attention
        return [pool.listed_pair("attention", pair, pair.accepted) for pair in pairs]

    def is_known_answer(self, unit: StudyUnit, value: Mapping[str, Any]) -> bool:
        """Tell whether the answer stored with the first caption prefers a known winner."""
        return int(np.sign(value[self.wording.dimensions[0].name])) in unit.fixed

    def known_levels(self, unit: StudyUnit) -> list[float]:
        """Return 5 for a known winner, 1 for the other caption, and 3 for captions that are equal."""
        if not unit.fixed:
            return []

        sign = np.sign(sum(unit.fixed))
        return [3 + 2 * sign, 3 - 2 * sign]

    def is_counted(self, unit: StudyUnit, item: StudyItem) -> bool:
        """Tell whether an answer is the half that is stored with the pair's first caption."""
        return item.id == unit.items[0].id

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return the pairs that a table lists, or else all pairs of different captions of an image.

        Which of these captions is the first depends on a hash, so that no system always is.
        """
        by_pair: dict[int, list[StudyItem]] = {}
        by_image: dict[str, list[StudyItem]] = {}
        for item in items:
            if item.pair is None:
                by_image.setdefault(item.image_id, []).append(item)
            else:
                by_pair.setdefault(item.pair, []).append(item)

        pairs = [tuple(pair) for pair in by_pair.values() if len(pair) == 2]
        n_equal = 0
        for captions in by_image.values():
            captions.sort(key=lambda item: hashlib.blake2s(item.item_id.encode()).digest())
            for a, b in combinations(captions, 2):
                if collapse_blanks(a.caption) == collapse_blanks(b.caption):
                    n_equal += 1
                else:
                    pairs.append((a, b))

        if n_equal:
            logger.warning(
                "left out %s of equal captions, in which there is nothing to compare",
                count_of(n_equal, "pair"),
            )

        return [StudyUnit("main", pair[0].image_id, pair[0].image, pair) for pair in pairs]

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the strengths by which the first caption shown is preferred, and those of the second."""
        strengths: dict[str, int] = {}
        for number, dimension in enumerate(self.wording.dimensions, start=1):
            choices = {str(strength): strength for strength, _ in self.choices(dimension)}
            text = field_value(fields, f"preference_{number}")
            if text not in choices:
                request = self.translate("Choose one of the answers.")
                raise FormError(f"{request} {dimension.question}")
            strengths[dimension.name] = choices[text]

        return [strengths, {name: -strength for name, strength in strengths.items()}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the strength of each dimension."""
        return {d.name: float(value[d.name]) for d in self.wording.dimensions}

    def choices(self, dimension: Dimension) -> list[tuple[int, str]]:
        """Return the answers from the strongest for A to the strongest for B: strengths and texts."""
        levels = sorted(dimension.levels, key=lambda level: level.value)
        choices = [(level.value, level.text.replace("{}", "A")) for level in reversed(levels)]
        for level in levels:
            # The answer that prefers neither stands once, in the middle.
            if level.value:
                choices.append((-level.value, level.text.replace("{}", "B")))

        return choices

    def captau_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return the table of preferences that `dataset=file` reads: `winner`, or `strength` by grades.

        The scales of strengths stand beside it, for `captau collect stability`.
        """
        has_grades = any(scale.high > 1 for scale in self.scales.values())
        captions: list[StudyItem] = []
        for answer in answers.answers:
            captions += answer.unit.items

        # Columns that some pairs lack are left out, as `dataset=file` expects.
        has_systems = all(item.system for item in captions)
        has_references = all(item.references for item in captions)

        columns = ["image", "caption_a", "caption_b", "strength" if has_grades else "winner"]
        columns += ["dimension", "rater"]
        if has_systems:
            columns += ["system_a", "system_b"]
        if has_references:
            columns.append("references")
        columns.append("seconds")

        rows: list[list[Any]] = []
        for answer in answers.answers:
            for cells in self._preference_cells(answer):
                rows.append([cells[column] for column in columns])

        scales = format_scales(self.scales).encode()
        return {"preferences.csv": csv_bytes(columns, rows), "preferences.yaml": scales}

    def _preference_cells(self, answer: CountedAnswer) -> list[dict[str, Any]]:
        """Return the cells of an answer's rows, one row a dimension."""
        a, b = answer.unit.items
        references = dict.fromkeys((*a.references, *b.references))
        rows: list[dict[str, Any]] = []
        for dimension, strength in self.ratings(answer.value).items():
            cells = {
                "image": answer.unit.image_id,
                "caption_a": a.caption,
                "caption_b": b.caption,
                "winner": derive_winners([strength])[0],
                "strength": f"{strength:g}",
                "dimension": dimension,
                "rater": answer.rater,
                "system_a": a.system,
                "system_b": b.system,
                "references": json.dumps(list(references), ensure_ascii=False),
                "seconds": f"{answer.seconds:.1f}",
            }
            rows.append(cells)

        return rows

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the difference of the opinions of both captions, as far as there are levels."""
        answer: dict[str, Any] = {}
        for number, dimension in enumerate(self.wording.dimensions, start=1):
            difference = level(captions[0]) - level(captions[1])
            highest = int(dimension.scale.high)
            # Where neither is no answer, captions that seem equal are told apart by chance.
            if not difference and dimension.scale.low > 0:
                difference = int(rng.choice((-1, 1)))
            answer[f"preference_{number}"] = max(-highest, min(highest, difference))

        return answer
