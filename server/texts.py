"""Names that people choose for themselves, and the language of a site's pages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The rule that `is_valid_name` checks, in words.
NAME_RULE = "up to 32 letters, digits and blanks, and begins with a letter or digit"
_NAME = re.compile(r"[^\W_](?:[\w .'-]{0,30}[^\W_.])?")


def collapse_blanks(name: str) -> str:
    """Return a name with single blanks."""
    return " ".join(name.split())


def is_valid_name(name: str) -> bool:
    """Return whether a name follows `NAME_RULE`."""
    return _NAME.fullmatch(name) is not None


def name_key(name: str) -> str:
    """Return the form by which names are compared: case-folded, with compatible characters made equal."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


@dataclass(frozen=True)
class Language:
    """A language.

    Attributes:
        code: such as `de`; pages name it in their `lang`.
        translations: by English text.
    """

    code: str = "en"
    translations: Mapping[str, str] = field(default_factory=dict[str, str])

    def translate(self, text: str, **values: Any) -> str:
        """Return a text in this language, its `%(name)s` replaced by values."""
        translation = self.translations.get(text, text)
        return translation % values if values else translation


ENGLISH = Language()
