"""Candidates that stand among their own references.

A caption that is one of its image's references scores as well as can be with every metric that compares words, and
people rate it well for another reason: a person wrote it. `find_own_references` is the rule by which
`protocol.own_references`, `captau data verify` and `captau sensitivity` recognise them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .writing_systems import letter_script

Booleans = NDArray[np.bool_]

#: Of ASCII, the capitals in lower case, and a blank for all that is no letter or digit.
_ASCII_FORM = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(256))


@lru_cache(maxsize=65536)
def comparison_form(text: str) -> str:
    """Return the form in which a caption and a reference are compared.

    The text is lower-cased, and every run of characters other than a–z and 0–9 becomes one blank, none at the ends:
    texts that were cut into word pieces and joined again are equal to their originals. Letters and digits of other
    scripts than the Latin follow as they are; the rule alone would make all Chinese texts equal. So do texts without
    any, such as emoji. Composed and decomposed accents are equal.
    """
    if text.isascii():
        return b" ".join(text.encode().translate(_ASCII_FORM).split()).decode()
    lowered = unicodedata.normalize("NFC", text.lower())
    form = re.sub(r"[^a-z0-9]+", " ", lowered).strip()
    if lowered.isascii():
        return form
    letters = "".join(c for c in lowered if _is_foreign(c))
    return f"{form}\0{letters}" if letters else form or lowered


def _is_foreign(character: str) -> bool:
    is_digit = not character.isascii() and unicodedata.category(character) == "Nd"
    return is_digit or letter_script(character) not in ("", "latin")


@dataclass(frozen=True)
class OwnReferences:
    """Marks of the items whose caption is one of their references.

    Attributes:
        is_copy: whether an item's caption is one of its references, in their `comparison_form`; shape (n_items,).
        is_exact: whether it is, letter by letter; shape (n_items,).
        is_single: whether an item has no references but copies; shape (n_items,).
    """

    is_copy: Booleans
    is_exact: Booleans
    is_single: Booleans

    @property
    def n_copies(self) -> int:
        """The number of copies."""
        return int(self.is_copy.sum())

    def count(self) -> str:
        """Return "12 of 360 captions are one of their image's references"."""
        share = f"{self.n_copies:,} of {len(self.is_copy):,} captions"
        is_one = self.n_copies == 1
        return f"{share} {'is' if is_one else 'are'} one of {'its' if is_one else 'their'} image's references"

    @property
    def n_exact(self) -> int:
        """The number of copies letter by letter."""
        return int(self.is_exact.sum())


def find_own_references(items: pd.DataFrame) -> OwnReferences:
    """Mark the items whose caption is one of their references.

    Args:
        items: of a `CaptionSet`; its columns `caption` and `references` count.
    """
    marks = [
        (len(rest) < len(references), caption in references, bool(references) and not rest)
        for (caption, references), rest in zip(_texts(items), leave_out_copies(items), strict=True)
    ]
    table = np.array(marks, dtype=bool).reshape(-1, 3)
    return OwnReferences(table[:, 0], table[:, 1], table[:, 2])


def leave_out_copies(items: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return each item's references without those that its caption is a copy of."""
    return [
        tuple(r for r in references if comparison_form(r) != form)
        for caption, references in _texts(items)
        for form in (comparison_form(caption),)
    ]


def _texts(items: pd.DataFrame) -> Iterator[tuple[str, tuple[str, ...]]]:
    return zip(items["caption"].tolist(), items["references"].tolist(), strict=True)
