"""Names that people choose for themselves: their characters, and how they are compared."""

from __future__ import annotations

import re
import unicodedata

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
