"""The language of a site's pages: captau's own texts, in English or translated by a catalogue.

As in gettext, the English text is the key of its translation, and stands where the catalogue has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
