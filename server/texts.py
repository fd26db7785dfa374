"""Names that people choose for themselves, and the language of a site's pages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

#: The rule that `is_valid_name` checks, in words.
NAME_RULE = "up to 32 letters, digits and blanks, and begins with a letter or digit"
_NAME = re.compile(r"[^\W_](?:[\w .'-]{0,30}[^\W_.])?")


def is_valid_name(name: str) -> bool:
    """Return whether a name follows `NAME_RULE`."""
    return _NAME.fullmatch(name) is not None


def name_key(name: str) -> str:
    """Return the form by which names are compared: case-folded, with compatible characters made equal."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


#: Letters that most fonts draw as a Latin letter or a digit does (of Unicode TR 39, those of names in Latin, Cyrillic and Greek).
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u0261\u0131\u0142\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c71l|0",
    "abekmhopctyxsijhdqwgiiaikvoptuxiiio",
)


def look_of(name: str) -> str:
    """Return what names have in common that look alike: without accents, and with Latin letters for those that look so."""
    letters = unicodedata.normalize("NFKD", name_key(name))
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))

    return plain.translate(_LOOK_ALIKES)


def format_time(seconds: float | None) -> str:
    """Return a moment, in seconds since 1970, as pages show it in UTC; nothing for None."""
    if seconds is None:
        return ""

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


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
