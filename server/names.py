"""The names that people give themselves: what they may hold, and by what they are compared."""

from __future__ import annotations

import re
import unicodedata

#: What `fits` asks for, in words.
RULE = "up to 32 letters, digits and blanks, and begins with a letter or digit"
_NAME = re.compile(r"[^\W_](?:[\w .'-]{0,30}[^\W_.])?")


def tidy(name: str) -> str:
    """A name with single blanks."""
    return " ".join(name.split())


def fits(name: str) -> bool:
    """Whether a name is as `RULE` says."""
    return _NAME.fullmatch(name) is not None


def name_key(name: str) -> str:
    """What names are compared by: without the case of any script, and compatible forms made one."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)
