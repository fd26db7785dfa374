"""The definition of a study: the units that are rated, by which form, and by whom."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from ..forms.form import Form
from ..items.units import StudyUnit


@dataclass(frozen=True)
class StudyLimits:
    """Limits on what an address or a rater may ask for: joins a minute, attempts to sign in, requests a second."""

    joins: int = 60
    logins: int = 10
    requests: int = 20


@dataclass(frozen=True)
class Study:
    """A study as its file defines it.

    Attributes:
        form: the way of judging.
        ratings: the answers that each unit is to have; where raters check each other's, the most.
        per_rater: the most answers of one person; None for no limit.
        participants: `open`, `invitation` or `crowd`.
        worker_parameter: the parameter of a crowd platform's link that names the worker.
        completion: the code that a crowd's worker gets in return; empty for one of their own.
        nicknames: whether raters may choose nicknames and see the board.
        attention_every: the answers after which an attention item comes.
        units: everything that is shown.
    """

    name: str
    title: str
    form: Form
    intro: str
    consent: str
    ratings: int
    per_rater: int | None
    participants: str
    worker_parameter: str
    completion: str
    nicknames: bool
    attention_every: int
    limits: StudyLimits
    units: tuple[StudyUnit, ...] = field(repr=False)

    @property
    def annotator_names(self) -> tuple[str, ...]:
        """The names of the annotators whose links the study's invitations are; none where anybody takes part."""
        names = {stage.annotator for unit in self.units for stage in unit.stages}
        return tuple(sorted(names - {""}))

    @property
    def digest(self) -> str:
        """A hash of what is rated and by which rules; other texts may change while a study runs.

        A game's computed ratings are not part of it: they stay as they were when the study began, even if
        their metrics change.
        """
        units = [
            (
                unit.pool,
                unit.image_id,
                [(i.caption, i.references, i.system, i.split) for i in unit.items],
                () if unit.pool == "main" else unit.fixed,
            )
            for unit in self.units
        ]
        rules = self.form.digest_rules()
        # Databases that were begun by the first version have the game's usual rules in the digest of every form.
        attempts = 3 if self.participants == "crowd" else None
        usual = {"wait": 0.0, "tutorial": 10, "pairs": 20, "points": 25, "attempts": attempts}
        content: list[Any] = [self.form.name, rules or usual, units]
        scales = self.form.wording.scales
        if scales != type(self.form).wording.scales and "dimensions" not in rules:
            content.append({name: str(scale) for name, scale in scales.items()})
        text = json.dumps(content, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()
