"""The THumB rubric: precision, recall and three penalties (Kasai et al. 2022, section 2.2, Table 6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....datasets.normalisation import normalise_thumb
from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.registry import card
from ....datasets.schema import Scale
from .counted_answers import CountedAnswers
from .errors import FormError
from .form import Form, FormFields
from .wording import Dimension, Wording, numbered_levels


@dataclass(frozen=True)
class FluencyProblem:
    """A kind of fluency problem (Table 6): its penalties in tenths, to choose from if there are several."""

    name: str
    description: str
    tenths: tuple[int, ...]


FLUENCY_PROBLEMS = (
    FluencyProblem("spelling", "plain misspelling, or one word for two", (1,)),
    FluencyProblem("grammar", "grammar that is easily mended", (1,)),
    FluencyProblem("casing", "wrong capital or small letter", (1,)),
    FluencyProblem("hyphen", "missing hyphen", (1,)),
    FluencyProblem("wording", "unnatural wording that can be understood", (1,)),
    FluencyProblem("punctuation", "punctuation that takes thought to mend", (2,)),
    FluencyProblem("misleading", "misspelling that makes another word", (5,)),
    FluencyProblem("duplication", "the same thing said twice", (5,)),
    FluencyProblem("ambiguity", "two ways to read it", (5,)),
    FluencyProblem("awkward", "awkward construction", (1, 2, 3, 4, 5)),
    FluencyProblem("broken", "broken sentence", (5, 10, 15, 20)),
)
#: Penalties in tenths: for a subjective remark about somebody's looks, or worse; and for wordiness.
INCLUSIVE_PENALTIES = (0, 5, 20)
WORDY_PENALTY = 5
_MAX_FLUENCY_PENALTY = 50


_RELEASE_SCALES = card("thumb").scales
_WORDING = Wording(
    "Judge this caption by the rubric",
    dimensions=(
        Dimension(
            "precision",
            "Precision: is what it says right?",
            numbered_levels(),
            "5: nothing is wrong. 4: a small slip, or something the picture does not settle. Counts, colours, "
            "places and relations are part of it.",
        ),
        Dimension(
            "recall",
            "Recall: does it say what matters?",
            numbered_levels(),
            "Mend what precision has taken off already, then judge. Low where many other pictures would fit "
            "the caption.",
        ),
    ),
)


@dataclass(frozen=True)
class ThumbForm(Form):
    """Each caption by the rubric; the total is computed."""

    name = "thumb"
    template = "forms/thumb.html"
    settles_disagreements = True

    wording: Wording = field(default=_WORDING, kw_only=True)

    @property
    def scales(self) -> Mapping[str, Scale]:
        """The scales of the authors' release, where penalties are negative, or of the study's own levels."""
        own = super().scales
        low = sum(scale.low for scale in own.values()) / 2 + _RELEASE_SCALES["total"].low - 1
        high = sum(scale.high for scale in own.values()) / 2
        return {**_RELEASE_SCALES, **own, "total": Scale(low, high)}

    @property
    def main_dimension(self) -> str:
        """The total."""
        return "total"

    def check_counts(self, study: YamlFields, ratings: int, per_rater: int | None) -> None:
        """Check that at least two annotators judge each caption."""
        del per_rater
        if ratings < 2:
            raise study.error(
                "ratings", "1; thumb has two annotators at least, who settle differences"
            )

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the levels of precision and recall, and the penalties in tenths."""
        del n_captions
        penalties: dict[str, int] = {}
        problems = fields.get("fault", ())
        for problem in FLUENCY_PROBLEMS:
            if problem.name in problems:
                choices = fields.get(f"tenths_{problem.name}", ())
                tenths = choices[0] if choices else str(problem.tenths[0])
                if tenths not in map(str, problem.tenths):
                    raise FormError(
                        self.translate(
                            "Choose how much “%(problem)s” takes off.",
                            problem=self.translate(problem.description),
                        )
                    )
                penalties[problem.name] = int(tenths)
        if set(problems) - set(penalties):
            raise FormError(self.translate("Choose fluency problems from the list."))
        inclusive = (*fields.get("inclusive", ()), "0")[0]
        if inclusive not in map(str, INCLUSIVE_PENALTIES):
            raise FormError(self.translate("Choose what the language about people takes off."))
        return [
            {
                **{d.name: self.read_level(fields, d.name, d) for d in self.wording.dimensions},
                "faults": penalties,
                "wordy": "wordy" in fields,
                "inclusive": int(inclusive),
            }
        ]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the dimensions of the release; total = (P + R) / 2 - penalties (section 2.2)."""
        fluency = min(sum(value["faults"].values()), _MAX_FLUENCY_PENALTY)
        conciseness = WORDY_PENALTY if value["wordy"] else 0
        penalty = fluency + conciseness + value["inclusive"]
        # Tenths are whole numbers, so that no total is 3.9999999.
        return {
            "precision": float(value["precision"]),
            "recall": float(value["recall"]),
            "fluency": -fluency / 10 + 0.0,
            "inclusive": -value["inclusive"] / 10 + 0.0,
            "conciseness": -conciseness / 10 + 0.0,
            "total": (5 * (value["precision"] + value["recall"]) - penalty) / 10,
        }

    def describe_answer(self, value: Mapping[str, Any]) -> str:
        """Return the total."""
        return self.translate("Total: %(total)s", total=f"{self.ratings(value)['total']:g}")

    def template_variables(self) -> dict[str, Any]:
        """Return the rubric's penalties, and how captions are displayed."""
        return {
            "fluency_problems": FLUENCY_PROBLEMS,
            "inclusive_penalties": INCLUSIVE_PENALTIES,
            "wordy_penalty": WORDY_PENALTY,
            "normalise_caption": normalise_thumb,
        }

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return THumB's JSON lines: captions on which annotators agree or settled."""
        lines: list[str] = []
        references: dict[str, tuple[str, ...]] = {}
        for group in answers.by_item():
            unit, item = group[0].unit, group[0].item
            is_unanimous = len(group) > 1 and all(a.value == group[0].value for a in group)
            value = answers.settled.get(item.id) or (group[0].value if is_unanimous else None)
            if value is None:
                continue
            ratings = self.ratings(value)
            row = {
                "SYS": item.system or "unknown",
                "hyp": normalise_thumb(item.caption),
                "seg_id": unit.image_id,
                "P": ratings["precision"],
                "R": ratings["recall"],
                "Fl": ratings["fluency"],
                "Inc": ratings["inclusive"],
                "Con": ratings["conciseness"],
                "human_score": ratings["total"],
            }
            lines.append(json.dumps(row, ensure_ascii=False))
            references[unit.image_id] = item.references
        reference_lines = [
            json.dumps({"seg_id": image_id, "refs": list(texts)}, ensure_ascii=False)
            for image_id, texts in references.items()
        ]
        return {
            "mscoco_THumB-1.0.jsonl": "".join(f"{line}\n" for line in lines).encode(),
            "mscoco_references.json": "".join(f"{line}\n" for line in reference_lines).encode(),
        }

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return an opinion each for precision and recall; now and then a fault of grammar."""
        levels = {d.name: d.from_five(level(captions[0])) for d in self.wording.dimensions}
        problem = {"fault": ["grammar"]} if rng.random() < 0.1 else {}
        return {**levels, "inclusive": "0", **problem}
