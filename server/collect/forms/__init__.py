"""Forms by which people judge, one module each; `FORMS` has each by the name of its protocol."""

from __future__ import annotations

from .ab import AbForm
from .extrinsic import ExtrinsicForm
from .form import Form
from .four import FourForm
from .game import GameForm
from .good_bad import GoodBadForm
from .references import ReferencesForm
from .thumb import ThumbForm

FORMS: dict[str, type[Form]] = {
    form.name: form
    for form in (
        GameForm,
        GoodBadForm,
        ExtrinsicForm,
        ThumbForm,
        FourForm,
        AbForm,
        ReferencesForm,
    )
}

__all__ = ["FORMS"]
