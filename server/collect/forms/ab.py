"""Two captions of one image, A and B: which is better, by how much, on one or several dimensions.

The sides are drawn for every rater. An answer is stored with each of the two captions, as the strength by
which that caption is preferred, so that the drawn sides matter to nobody who reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Self

import numpy as np

from ....datasets.preferences import derive_winners
from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.schema import Scale
from ...web.forms import field_value
from ...web.language import Language
from ..items.units import StudyItem, StudyUnit, shown_caption
from .counted_answers import CountedAnswer, CountedAnswers, csv_bytes
from .errors import FormError
from .form import Form, FormFields
from .wording import Wording

#: The answers in favour of a caption without grades; `{}` is its letter.
DEFAULT_LEVELS = ("{} is better",)
_MAX_LEVELS = 5
_WORDING = Wording("Compare two captions of the picture")


@dataclass(frozen=True)
class AbForm(Form):
    """A preference between two captions, or none.

    Attributes:
        questions: the question of each dimension.
        levels: the answers in favour of a caption, from the weakest on; `{}` is its letter.
        equal: the answer that prefers neither; empty where one has to be preferred.
    """

    name = "ab"
    template = "forms/ab.html"
    study_fields = ("ab",)
    shows_pairs = True
    exports_ratings = False
    unit_noun = "pairs"

    questions: Mapping[str, str] = field(
        default_factory=lambda: {"overall": "Which caption describes the picture better?"}
    )
    levels: tuple[str, ...] = DEFAULT_LEVELS
    equal: str = "Equally good"
    wording: Wording = field(default=_WORDING, kw_only=True)

    @classmethod
    def from_study(cls, study: YamlFields, participants: str, language: Language) -> Self:
        """Read the dimensions and levels in the section `ab`."""
        del participants
        ab, default = study.section("ab"), cls()
        questions = ab.section("dimensions").all_texts() or {
            name: language.translate(question) for name, question in default.questions.items()
        }
        levels = ab.texts("levels", tuple(map(language.translate, default.levels)))
        if not 1 <= len(levels) <= _MAX_LEVELS or any(text.count("{}") != 1 for text in levels):
            raise ab.error(
                "levels",
                f"from 1 to {_MAX_LEVELS} texts, each with {{}} for the caption's letter, are expected",
            )
        has_ties = ab.flag("ties", True)
        if not has_ties and "equal" in ab:
            raise ab.error("equal", "ab.ties is false; leave it out")
        equal = ab.text("equal", language.translate(default.equal)) if has_ties else ""
        return cls(questions, levels, equal, wording=cls.read_wording(study, language))

    @property
    def scales(self) -> Mapping[str, Scale]:
        """The strength of each dimension: positive prefers the caption."""
        return dict.fromkeys(self.questions, Scale(-len(self.levels), len(self.levels), 1))

    def digest_rules(self, participants: str) -> dict[str, Any]:
        """Return the dimensions and the number of answers to choose from; their texts may change."""
        del participants
        return {
            "dimensions": list(self.questions),
            "levels": len(self.levels),
            "ties": bool(self.equal),
        }

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
        for captions in by_image.values():
            pairs += [
                (a, b)
                for a, b in combinations(sorted(captions, key=_hash_item), 2)
                if shown_caption(a.caption) != shown_caption(b.caption)
            ]
        return [StudyUnit("main", pair[0].image_id, pair[0].image, pair) for pair in pairs]

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the strengths by which the first caption shown is preferred, and those of the second."""
        del n_captions
        strengths: dict[str, int] = {}
        choices = {str(strength): strength for strength, _ in self.choices()}
        for number, (dimension, question) in enumerate(self.questions.items(), start=1):
            text = field_value(fields, f"preference_{number}")
            if text not in choices:
                raise FormError(f"{self.translate('Choose one of the answers.')} {question}")
            strengths[dimension] = choices[text]
        return [strengths, {dimension: -strength for dimension, strength in strengths.items()}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the strength of each dimension."""
        return {dimension: float(value[dimension]) for dimension in self.questions}

    def choices(self) -> list[tuple[int, str]]:
        """Return the answers from the strongest for A to the strongest for B: strengths and texts."""
        steps = list(enumerate(self.levels, start=1))
        equal = [(0, self.equal)] if self.equal else []
        return [
            *((step, text.replace("{}", "A")) for step, text in reversed(steps)),
            *equal,
            *((-step, text.replace("{}", "B")) for step, text in steps),
        ]

    def template_variables(self) -> dict[str, Any]:
        """Return the questions and the answers to choose from."""
        return {"questions": self.questions, "choices": self.choices()}

    def drop_unusable(self, answers: CountedAnswers) -> CountedAnswers:
        """Keep the half of each answer that is stored with the pair's first caption."""
        first = tuple(a for a in answers.answers if a.item.id == a.unit.items[0].id)
        return replace(answers, answers=first)

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return the table of preferences that `dataset=file` reads: `winner`, or `strength` by grades."""
        n_levels = len(self.levels)
        captions = [item for answer in answers.answers for item in answer.unit.items]
        systems = ["system_a", "system_b"] if all(item.system for item in captions) else []
        references = ["references"] if all(item.references for item in captions) else []
        columns = ["image", "caption_a", "caption_b", "winner" if n_levels == 1 else "strength"]
        columns += ["dimension", "rater", *systems, *references, "seconds"]
        rows = [
            [cells[column] for column in columns]
            for answer in answers.answers
            for cells in self._preference_cells(answer)
        ]
        return {"preferences.csv": csv_bytes(columns, rows)}

    def _preference_cells(self, answer: CountedAnswer) -> list[dict[str, Any]]:
        """Return the cells of an answer's rows, one row a dimension."""
        a, b = answer.unit.items
        references = dict.fromkeys((*a.references, *b.references))
        return [
            {
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
            for dimension, strength in self.ratings(answer.value).items()
        ]

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the difference of the opinions of both captions, as far as there are levels."""
        n_levels = len(self.levels)
        answer: dict[str, Any] = {}
        for number in range(1, len(self.questions) + 1):
            difference = level(captions[0]) - level(captions[1])
            if not difference and not self.equal:
                difference = int(rng.choice((-1, 1)))
            answer[f"preference_{number}"] = max(-n_levels, min(n_levels, difference))
        return answer


def _hash_item(item: StudyItem) -> bytes:
    return hashlib.blake2s(item.item_id.encode()).digest()
