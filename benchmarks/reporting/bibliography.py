"""Entries of BibTeX, each once, with the keys by which a text cites them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_lowercase

from ...datasets.errors import InputError


@dataclass(frozen=True)
class BibtexEntry:
    """An entry of BibTeX: its key, the letters of its title, and all of its text."""

    key: str
    title: str
    text: str


def entries(bibtex: str) -> list[BibtexEntry]:
    """The entries of a text of BibTeX, by their braces.

    Raises:
        InputError: where an entry does not end, or has no title.
    """
    parsed: list[BibtexEntry] = []
    for match in re.finditer(r"^@\w+\{([^,\s]+),", bibtex, re.MULTILINE):
        depth, end = 1, match.end()
        while depth:
            if end >= len(bibtex):
                raise InputError(
                    f"BibTeX of {match.group(1)}: its last }} is missing; correct the citation"
                )
            if bibtex[end] == "{":
                depth += 1
            elif bibtex[end] == "}":
                depth -= 1
            end += 1
        text = bibtex[match.start() : end]
        title = re.search(r"\btitle\s*=\s*\{(.*?)\}\s*,?\s*$", text, re.MULTILINE | re.DOTALL)
        if title is None:
            raise InputError(
                f"BibTeX of {match.group(1)}: no title = {{…}}; add it to the citation"
            )
        letters = re.sub(r"[\W_]", "", title.group(1)).lower()
        parsed.append(BibtexEntry(match.group(1), letters, text))
    return parsed


class Bibliography:
    """Entries, each once: equal keys of one title are one work, and of two titles get letters."""

    def __init__(self) -> None:
        self.entries: dict[str, BibtexEntry] = {}

    def add(self, bibtex: str) -> list[str]:
        """Take entries in, and say what their keys are here."""
        return [self._key(entry) for entry in entries(bibtex)]

    def _key(self, entry: BibtexEntry) -> str:
        """Return the key of an entry, with a letter where another work has the same."""
        key = entry.key
        letters = iter(ascii_lowercase)
        while True:
            # A key that is free becomes this entry's.
            holder = self.entries.setdefault(key, entry)
            if holder.title == entry.title:
                return key
            key = entry.key + next(letters)

    def __str__(self) -> str:
        texts: list[str] = []
        for key, entry in self.entries.items():
            # The key stands behind the first brace, as in `@article{key,`.
            own_head = "{" + entry.key + ","
            head = "{" + key + ","
            texts.append(entry.text.replace(own_head, head, 1))
        return "\n\n".join(texts)
