"""Forms by which people judge, one module each; `FORMS` has each by the name of its protocol."""

from __future__ import annotations

from .ab import AbForm
from .form import Form
from .game import GameForm
from .good_bad import GoodBadForm
from .levels import ExtrinsicForm, FourForm
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
