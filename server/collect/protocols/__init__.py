"""The forms by which people judge, one module each."""

from __future__ import annotations

from .base import Form, FormError
from .four import Four
from .game import Game
from .good_bad import GoodBad
from .references import References
from .thumb import Thumb

#: Every form by its protocol's name.
FORMS: dict[str, Form] = {f.name: f for f in (Game(), GoodBad(), Thumb(), Four(), References())}

__all__ = ["FORMS", "Form", "FormError"]
