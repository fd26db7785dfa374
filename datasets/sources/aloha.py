"""The release of ALOHa: HAT and nocaps-FOIL, captions with what they hallucinate (Petryk et al. 2024).

A caption's `hallucination` is 1 where it tells something that its image does not show, 0 where it does not: a fault,
so that low scores are to find it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..preferences import find_mismatch
from ..reading.json_files import field, read_json_entries, texts
from ..reading.source_files import bibtex, find, github_file
from ..registry import dataset
from ..schema import (
    CaptionSet,
    CaptionSetBuilder,
    Card,
    Scale,
    SourceFile,
)
from .coco_captions import coco_id

_COMMIT = "7da6b90ebe392228ea532a84d78eab830c2b3cb2"
DIMENSION = "hallucination"
#: The release does not name the people who gave its one rating a caption.
RATER = "release"


def _file(path: str, name: str, sha256: str) -> SourceFile:
    """Return a file of the release of ALOHa, which has no licence file, so that nothing of it may be passed on."""
    return github_file(path, "DavidMChan/aloha", _COMMIT, f"data/{name}", sha256)


CAPTIONS = _file(
    "hat/hat-trainval.json",
    "hat-trainval.json",
    "18abffb627ef6eb8252e21e2e9bfe55d6431f91056467179d7d17ad87ff8969f",
)
HAT = Card(
    name="hat",
    title="HAT",
    revision=_COMMIT,
    licence="not stated by the release: not to be passed on; references CC BY 4.0 (COCO)",
    citation=bibtex("petryk2024aloha"),
    homepage="https://github.com/DavidMChan/aloha",
    scales={DIMENSION: Scale(0, 1, 1)},
    sources=(CAPTIONS,),
    expected={"images": 385, "items": 400, "ratings": 400},
    single_values={DIMENSION: "whether a word of it is marked as a hallucination"},
    anonymous_raters=True,
    faults=(DIMENSION,),
)


@dataset(HAT)
def load_hat(root: Path) -> CaptionSet:
    """HAT: machine captions of COCO images; `words` are marked where people call them hallucinated.

    Raises:
        InputError: where the file is missing or malformed, or the marked words are not the caption's.
    """
    path = find(root, HAT, CAPTIONS)
    # Equal captions of an image would be two rows of the release, each with its own marks.
    builder = CaptionSetBuilder(joins_equal=False)
    words: list[tuple[int, int, str, str, int]] = []
    for where, row in read_json_entries(path):
        image_id = coco_id(field(row, "image_path", str, where))
        caption = field(row, "caption", str, where)
        item = builder.add_item(image_id, caption, texts(row, "references", where))
        is_fault = field(row, "contains_hallucination", bool, where)
        builder.rate(item, DIMENSION, RATER, float(is_fault))
        for position, (word, is_marked) in enumerate(_marked_words(row, caption, where)):
            words.append((item, position, word, DIMENSION, int(is_marked)))

    return builder.build(HAT, words=words)


def _marked_words(row: Any, caption: str, where: str) -> list[tuple[str, bool]]:
    """Return the words of a caption, each with whether it is hallucinated.

    Raises:
        InputError: where they are not the caption's words, in their order.
    """
    marked_words: list[tuple[str, bool]] = []
    for entry in field(row, "grounding", list, where):
        if not isinstance(entry, list) or list(map(type, entry)) != [str, bool]:
            raise InputError(f"{where}: 'grounding' holds {entry!r}, not a word and true or false")
        marked_words.append((entry[0], entry[1]))

    reason = find_mismatch([word for word, _ in marked_words], caption)
    if reason:
        raise InputError(f"{where}: 'grounding': {reason}")

    return marked_words


DOMAINS = ("in-domain", "near-domain", "out-domain")
PAIRS = _file(
    "nocaps_foil/nocaps-val-foil.json",
    "nocaps-val-foil.json",
    "ec15966bbaf4ba7faa5cb3eb6a5ebbd4b38bc3345de42b7f0e5f6cc333f642ca",
)
NOCAPS_FOIL = Card(
    name="nocaps_foil",
    title="nocaps-FOIL",
    revision=HAT.revision,
    licence="not stated by the release: not to be passed on; captions CC BY 2.0 (nocaps)",
    citation=HAT.citation,
    homepage=HAT.homepage,
    scales={DIMENSION: Scale(0, 1, 1)},
    sources=(PAIRS,),
    expected={"images": 2500, "items": 5000, "ratings": 5000, "preferences": 2500},
    single_values={DIMENSION: "whether an object in it was exchanged for another"},
    anonymous_raters=True,
    faults=(DIMENSION,),
)


@dataset(NOCAPS_FOIL)
def load_nocaps_foil(root: Path) -> CaptionSet:
    """nocaps-FOIL: captions of nocaps and the same with one object exchanged, by domain.

    The right caption is preferred to the foiled one; the preferences' dimension is the domain of the image.

    Raises:
        InputError: where the file is missing or malformed, or a pair is of one caption.
    """
    path = find(root, NOCAPS_FOIL, PAIRS)
    # Each pair has an item of its own for either caption, as each was judged by itself.
    builder = CaptionSetBuilder(joins_equal=False)
    for number, (where, row) in enumerate(read_json_entries(path)):
        right = collapse_blanks(field(row, "baseline", str, where))
        foil = collapse_blanks(field(row, "foil", str, where))
        if right == foil:
            raise InputError(f"{where}: 'baseline' and 'foil' are one caption, '{foil}'")

        domain = field(row, "domain", str, where)
        if domain not in DOMAINS:
            raise InputError(f"{where}: 'domain' is '{domain}', none of {', '.join(DOMAINS)}")

        image_id = field(row, "image_path", str, where)
        references = texts(row, "references", where)
        a = builder.add_item(image_id, right, references)
        b = builder.add_item(image_id, foil, references)
        builder.rate(a, DIMENSION, RATER, 0.0)
        builder.rate(b, DIMENSION, RATER, 1.0)
        builder.prefer(f"pair-{number:04d}", a, b, domain, "a")

    return builder.build(NOCAPS_FOIL)
