"""HAT: machine captions of COCO images with the words that people call hallucinated (Petryk et al. 2024).

A caption's `hallucination` is 1 where it tells something that its image does not show, 0 where it does not: a fault,
so that low scores are to find it. The words by which it does are `words`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import InputError
from ..reading.json_files import field, read_json_entries, texts
from ..reading.source_files import find
from ..registry import dataset
from ..schema import (
    RATING_COLUMNS,
    WORD_COLUMNS,
    CaptionSet,
    Card,
    Scale,
    SourceFile,
    find_mismatch,
    github,
    make_items,
)
from .coco_captions import coco_id

_COMMIT = "7da6b90ebe392228ea532a84d78eab830c2b3cb2"
DIMENSION = "hallucination"
#: The release does not name the people who gave its one rating a caption.
RATER = "release"


def aloha(path: str, name: str, *, sha256: str = "") -> SourceFile:
    """Return a file of the release of ALOHa, which has no licence file, so that nothing of it may be passed on."""
    return SourceFile(
        path,
        f"https://github.com/DavidMChan/aloha/blob/{_COMMIT}/data/{name}",
        sha256,
        downloads=github("DavidMChan/aloha", _COMMIT, f"data/{name}"),
    )


CAPTIONS = aloha(
    "hat/hat-trainval.json",
    "hat-trainval.json",
    sha256="18abffb627ef6eb8252e21e2e9bfe55d6431f91056467179d7d17ad87ff8969f",
)
CARD = Card(
    name="hat",
    title="HAT",
    revision=_COMMIT,
    licence="not stated by the release: not to be passed on; references CC BY 4.0 (COCO)",
    citation="""@inproceedings{petryk2024aloha,
  title={{ALOHa}: A New Measure for Hallucination in Captioning Models},
  author={Petryk, Suzanne and Chan, David M. and Kachinthaya, Anish and Zou, Haodi and Canny, John and
          Gonzalez, Joseph E. and Darrell, Trevor},
  booktitle={NAACL},
  year={2024}
}""",
    homepage="https://github.com/DavidMChan/aloha",
    scales={DIMENSION: Scale(0, 1, 1)},
    sources=(CAPTIONS,),
    expected={"images": 385, "items": 400, "ratings": 400},
    anonymous_raters=True,
    faults=(DIMENSION,),
)


@dataset(CARD)
def load_hat(root: Path) -> CaptionSet:
    """Read HAT's captions.

    Raises:
        InputError: where the file is missing or malformed, or the marked words are not the caption's.
    """
    path = find(root, CARD, CAPTIONS)
    images: list[str] = []
    captions: list[str] = []
    references: list[tuple[str, ...]] = []
    faults: list[float] = []
    marked_words: list[list[tuple[str, bool]]] = []
    for where, row in read_json_entries(path):
        images.append(coco_id(field(row, "image_path", str, where)))
        captions.append(field(row, "caption", str, where))
        references.append(texts(row, "references", where))
        faults.append(float(field(row, "contains_hallucination", bool, where)))
        marked_words.append(_marked_words(row, captions[-1], where))
    items = make_items(images, captions, references)
    ratings = pd.DataFrame(
        [
            (item_id, DIMENSION, RATER, fault)
            for item_id, fault in zip(items["item_id"], faults, strict=True)
        ],
        columns=pd.Index(RATING_COLUMNS),
    )
    words = pd.DataFrame(
        [
            (item_id, position, word, DIMENSION, int(is_fault))
            for item_id, caption_words in zip(items["item_id"], marked_words, strict=True)
            for position, (word, is_fault) in enumerate(caption_words)
        ],
        columns=pd.Index(WORD_COLUMNS),
    )
    return CaptionSet(items, ratings, card=CARD, words=words)


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
    if reason := find_mismatch([word for word, _ in marked_words], caption):
        raise InputError(f"{where}: 'grounding': {reason}")
    return marked_words
