"""FOIL: which of two captions is right, COCO's or the same with one noun exchanged (Shekhar et al. 2017).

Metrics with references see one or four of the image's other captions: `protocol.k=1` or `4`.

Two formats are read: the FOIL authors' own `foilv1.0_test_2017.json`, whose references are joined from
COCO's captions, and the FLEUR release's `foil.json`: a list of pairs (or an object of such lists, whose
keys are the categories then), each with `image`, the two captions and `references`. The captions are
under `captions` with a `label` (0: the first is right), or each under a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.json_files import field, read_json, texts
from ..reading.source_files import bibtex, find, locate
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card, SourceFile
from .coco_captions import COCO_CAPTIONS, coco_id, read_captions
from .fleur import COMMIT, fleur

CATEGORY = "FOIL"
#: Under which names a pair's image, captions and references may stand.
IMAGE = ("image", "image_path", "file_name", "image_id")
RIGHT = ("caption", "correct", "true", "orig", "original")
FOILED = ("foil", "foil_caption", "foiled", "wrong")
REFERENCES = ("references", "refs", "ground_truth")

JSON = fleur("foil/foil.json", git_blob="5a0bbcbc650a860a0d52dfd289d195373467d64d")
ORIGINAL = SourceFile(
    "foil/foilv1.0_test_2017.json", "https://foilunitn.github.io/", alternative=True
)

CARD = Card(
    name="foil",
    title="FOIL",
    revision=COMMIT,
    licence="CC BY 4.0 (COCO's captions); that of the foils is not stated",
    citation=bibtex("shekhar2017foil"),
    homepage="https://foilunitn.github.io/",
    sources=(JSON, ORIGINAL, COCO_CAPTIONS),
)

# (pair_id, image_id, right caption, foiled one, references, category).
Pair = tuple[str, str, str, str, tuple[str, ...], str]


@dataset(CARD)
def load_foil(root: Path) -> CaptionSet:
    """FOIL's pairs, from the release's JSON where it is there, else from the authors' own."""
    original = locate(root, CARD, ORIGINAL)
    captions = locate(root, CARD, COCO_CAPTIONS)
    if locate(root, CARD, JSON) is None and original is not None and captions is not None:
        return _caption_set(_from_original(original, captions))

    return _caption_set(_from_json(find(root, CARD, JSON)))


def _from_json(path: Path) -> Iterator[Pair]:
    table = read_json(path)
    groups = table if isinstance(table, dict) else {CATEGORY: table}
    for category in groups:
        for number, row in enumerate(field(groups, category, list, str(path))):
            where = f"{path}: {category}[{number}]"
            right, foiled = _captions(row, where)

            image_id = coco_id(str(field(row, _key(row, IMAGE, where), (str, int), where)))
            references = texts(row, _key(row, REFERENCES, where), where)
            if not references:
                raise InputError(f"{where}: no references; at least one is needed")
            yield f"{category}-{number:05d}", image_id, right, foiled, references, category


def _captions(row: Any, where: str) -> tuple[str, str]:
    """Return the right caption and the foiled one."""
    if isinstance(row, dict) and "captions" in row:
        captions = texts(row, "captions", where)
        label = field(row, "label", int, where)
        if len(captions) != 2 or label not in (0, 1):
            raise InputError(f"{where}: two captions and a label of 0 or 1 are expected")
        return captions[label], captions[1 - label]

    right = field(row, _key(row, RIGHT, where), str, where)
    foiled = field(row, _key(row, FOILED, where), str, where)
    return right, foiled


def _key(row: Any, names: tuple[str, ...], where: str) -> str:
    """Return the first of several names that a row has."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: an object is expected, not {type(row).__name__}")

    for name in names:
        if name in row:
            return name

    raise InputError(f"{where}: none of {', '.join(names)} is in it; it has {', '.join(row)}")


def _from_original(path: Path, captions: Path) -> Iterator[Pair]:
    """Return each foil with the caption that it was made of; they share the caption's `id`."""
    references = read_captions(captions)

    right: dict[int, str] = {}
    foils: list[tuple[str, int, str, str]] = []
    for number, row in enumerate(field(read_json(path), "annotations", list, str(path))):
        where = f"{path}: annotation {number}"
        key = field(row, "id", int, where)
        caption = field(row, "caption", str, where)
        if field(row, "foil", bool, where):
            foils.append((where, key, caption, str(field(row, "image_id", int, where))))
        else:
            right[key] = caption

    for number, (where, key, foiled, image_id) in enumerate(foils):
        if key not in right:
            raise InputError(f"{where}: no correct caption has its id, {key}")
        if image_id not in references:
            raise InputError(f"{where}: image {image_id} has no captions in {captions}")

        # The right caption is one of COCO's of this image, with which it would be compared.
        right_caption = collapse_blanks(right[key])
        other_references = tuple(text for text in references[image_id] if text != right_caption)
        pair_id = f"{CATEGORY}-{number:05d}"
        yield pair_id, image_id, right[key], foiled, other_references, CATEGORY


def _caption_set(pairs: Iterator[Pair]) -> CaptionSet:
    builder = CaptionSetBuilder(joins_equal=True)
    for pair_id, image_id, right, foiled, references, category in pairs:
        # Blanks alike, so that none of two captions is told by them.
        a = builder.add_item(image_id, collapse_blanks(right), references)
        b = builder.add_item(image_id, collapse_blanks(foiled), references)
        builder.prefer(pair_id, a, b, category, "a")

    return builder.build(CARD)
