"""The language that a study's file names, from captau's catalogues in `languages/` and a file of its own."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from ....datasets.paths import expand_home
from ....datasets.reading.yaml_fields import YamlFields, read_yaml_fields
from ...web.language import ENGLISH, Language

_CATALOGUES = resources.files("captau.server.collect") / "languages"
_PLACEHOLDER = re.compile(r"%\(\w+\)s|%")


def read_language(study: YamlFields, folder: Path) -> Language:
    """Return the language of a study's file, from its fields `lang` and `translations`.

    Args:
        study: the fields.
        folder: the file's folder, where the file of `translations` is looked up.

    Raises:
        InputError: if captau has no catalogue of the language and the study names no file either, or a
            translation has other placeholders than its text.
    """
    code, own_file = study.text("lang", ENGLISH.code, 35), study.optional("translations")
    catalogue_codes = sorted(entry.name.removesuffix(".yaml") for entry in _CATALOGUES.iterdir())
    translations: dict[str, str] = {}
    if code in catalogue_codes:
        translations = load_catalogue(code)
    elif code != ENGLISH.code and own_file is None:
        known_codes = ", ".join([ENGLISH.code, *catalogue_codes])
        raise study.error(
            "lang", f"'{code}': captau has {known_codes}; name your own texts with translations="
        )
    if own_file is not None:
        texts = read_yaml_fields(folder / expand_home(own_file))
        for english_text in texts:
            translation = texts.text(english_text)
            if _placeholders(translation) != _placeholders(english_text):
                raise texts.error(english_text, "its %-placeholders differ from the text's")
            translations[english_text] = translation
    return Language(code, translations)


def load_catalogue(code: str) -> dict[str, str]:
    """Return captau's own translations into a language, by English text."""
    path = _CATALOGUES / f"{code}.yaml"
    texts = YamlFields.parse(path.read_text(encoding="utf-8"), path.name)
    return {english_text: texts.text(english_text) for english_text in texts}


def _placeholders(text: str) -> list[str]:
    return sorted(_PLACEHOLDER.findall(text))
