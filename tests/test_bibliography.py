"""The BibTeX entries that captau puts into papers: one text for each key, and titles that keep their capitals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ENTRY = re.compile(r"^@\w+\{(?P<key>[^,]+),\n.*?^\}", re.MULTILINE | re.DOTALL)
#: Names of metrics, data and models in titles, whose capitals BibTeX's styles would change outside braces.
NAME = re.compile(r"\b[A-Za-z]*[A-Z][A-Za-z]*[A-Z][A-Za-z]*\b")


def read_entries() -> list[tuple[str, str, str]]:
    """Return the key, the place and the text of each entry, with single blanks."""
    texts = [
        (f"{folder}/citations.bib", (ROOT / folder / "citations.bib").read_text("utf-8"))
        for folder in ("conf", "datasets")
    ]
    # SPICE's own entries: it rests on another work's parser.
    models = "metrics/text/spice/models.py"
    texts.append((models, (ROOT / models).read_text("utf-8")))
    for path in sorted((ROOT / "conf" / "paper").glob("*.yaml")):
        texts.append((path.name, yaml.safe_load(path.read_text("utf-8"))["citation"]))

    entries: list[tuple[str, str, str]] = []
    for place, text in texts:
        for match in ENTRY.finditer(text):
            entries.append((match["key"], place, " ".join(match[0].split())))
    return entries


ENTRIES = read_entries()


def test_every_place_has_entries() -> None:
    """Each of the three files, and each paper."""
    places = {place for _, place, _ in ENTRIES}
    assert places >= {
        "conf/citations.bib",
        "datasets/citations.bib",
        "metrics/text/spice/models.py",
    }
    assert len(places) == 3 + len(list((ROOT / "conf" / "paper").glob("*.yaml")))


@pytest.mark.parametrize("key", sorted({key for key, _, _ in ENTRIES}))
def test_an_entry_is_the_same_wherever_it_stands(key: str) -> None:
    """A metric's, a dataset's and a paper's entry of one key end up in one bibliography."""
    texts = {text: place for entry_key, place, text in ENTRIES if entry_key == key}
    assert len(texts) == 1, texts


@pytest.mark.parametrize(("key", "place", "text"), ENTRIES)
def test_names_in_titles_keep_their_capitals(key: str, place: str, text: str) -> None:
    title = text.partition("title={")[2].partition("}, author=")[0]
    outside = re.sub(r"\{[^{}]*\}", "", title)
    assert not NAME.findall(outside), title
