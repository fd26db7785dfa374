"""Pairs of a right caption of a COCO image and the same with one fault, joined with COCO's references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..preferences import PEOPLE
from ..reading.json_files import field as json_field
from ..reading.json_files import read_json
from ..reading.source_files import find, locate
from ..schema import CaptionSet, CaptionSetBuilder, Card, SourceFile
from .coco_captions import COCO_CAPTIONS, TEST_REFERENCES, all_coco_references, coco_id


@dataclass(frozen=True)
class FoilPair:
    """A right caption and the same with a fault.

    Attributes:
        pair_id: its name.
        kind: that of the fault.
        image: the name of the image's file.
        right, foil: both captions.
        winners: who was preferred, by rater: `a` the right caption, `b` the faulty one, or `tie`.
    """

    pair_id: str
    kind: str
    image: str
    right: str
    foil: str
    winners: Mapping[str, str] = field(default_factory=lambda: {PEOPLE: "a"})


def read_rows(
    root: Path, card: Card, files: Mapping[str, SourceFile]
) -> Iterator[tuple[str, str, Any, str]]:
    """Yield the rows of files that are an object pair → row each: the file's key in `files`, the pair's, the row and its place.

    Raises:
        InputError: where a file is no object.
    """
    for name, source in files.items():
        path = find(root, card, source)
        # As a field of an object, so that the check of fields refuses a file that holds something else.
        content = {"pairs": read_json(path)}
        row_by_pair = json_field(content, "pairs", dict, str(path))
        for key, row in row_by_pair.items():
            yield name, key, row, f"{path}: {key}"


def join_references(root: Path, card: Card, pairs: Sequence[FoilPair]) -> CaptionSet:
    """Make a set of the pairs of images whose references are here; a remark on its card says how many others there are.

    The right caption stays among the references, as no reader leaves it out.

    Raises:
        InputError: where no pair is of an image with references.
    """
    references_by_image: dict[str, tuple[str, ...]] = {}
    for image_id, texts in all_coco_references(root, card).items():
        references_by_image[image_id] = tuple(map(collapse_blanks, texts))

    # A caption that several pairs of an image share is one item.
    builder = CaptionSetBuilder(joins_equal=True)
    n_joined = 0
    for pair in pairs:
        image_id = coco_id(pair.image)
        references = references_by_image.get(image_id)
        if not references:
            continue

        n_joined += 1
        a = builder.add_item(image_id, collapse_blanks(pair.right), references)
        b = builder.add_item(image_id, collapse_blanks(pair.foil), references)
        for rater, winner in pair.winners.items():
            builder.prefer(pair.pair_id, a, b, pair.kind, winner, rater)

    if not n_joined:
        raise InputError(
            f"dataset {card.name}: no pair is of an image with references; get {TEST_REFERENCES.path} from "
            f"{TEST_REFERENCES.url}, or {COCO_CAPTIONS.path} from {COCO_CAPTIONS.url}"
        )

    return builder.build(_describe(root, card, n_joined, len(pairs)))


def _describe(root: Path, card: Card, n_joined: int, n_pairs: int) -> Card:
    """Return the card with a remark on the pairs that have no references, and with the counts that hold for these files."""
    has_all = locate(root, card, COCO_CAPTIONS) is not None
    # The card's counts are those of the Karpathy test images.
    expected = {} if has_all else card.expected
    if n_joined == n_pairs:
        return replace(card, expected=expected)

    left_out = f"{n_pairs - n_joined:,} of {n_pairs:,} pairs are left out"
    if has_all:
        reason = f"their images are not in {COCO_CAPTIONS.path}"
    else:
        reason = (
            f"their images are not in {TEST_REFERENCES.path}, which has the references of the Karpathy test images; with "
            f"{COCO_CAPTIONS.path} those of all validation images count"
        )
    return replace(card, expected=expected, remarks=(*card.remarks, f"{left_out}: {reason}."))
