"""COCO's captions as references, and its image ids, which other datasets write in several ways."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.json_files import field, read_json, texts
from ..reading.source_files import find, github_file, locate
from ..schema import Card, SourceFile

#: How many captions of an image a table of annotation id → caption has, one after the other.
_CAPTIONS_PER_IMAGE = 5
_COMMIT = "21722d93c6d3d38ead5b4a3848c85ab2e85963ec"

#: Of the 5,000 images of the Karpathy test split.
COCO_REFERENCES = github_file(
    "coco/karpathy_test_references.json",
    "aimagelab/awesome-captioning-evaluation",
    _COMMIT,
    "test_captions/reference_captions.json",
    "2cc44f8e50d5aa420eeb7e6558b30af36754732704833d2b135ff8dde2b598b3",
)
#: Of all 40,504 validation images; not downloaded for want of a hash.
COCO_CAPTIONS = SourceFile(
    "coco/captions_val2014.json",
    "http://images.cocodataset.org/annotations/annotations_trainval2014.zip",
    alternative=True,
    also=("coco/annotations/captions_val2014.json",),
)
_CAPTION_FILES = (COCO_CAPTIONS.path, *COCO_CAPTIONS.also)

#: The same file; COCO's own captions may lie in its place.
TEST_REFERENCES = replace(COCO_REFERENCES, also=_CAPTION_FILES)
#: COCO's own captions as a file that adds references: those of the validation images beyond the test split.
ADDED_REFERENCES = replace(COCO_CAPTIONS, alternative=False, optional=True, adds="references")
#: COCO's annotation ids of the captions of these images, by image. In ascending order they are those of its references in
#: `COCO_REFERENCES`. A table of annotation id → caption may stand for it, and so may COCO's own captions.
TEST_CAPTION_IDS = github_file(
    "cxc/original_image_to_caption.json",
    "naver-ai/eccv-caption",
    "b51f56cfd1a5f530a04c8f54eba880d302ccd7a5",
    "eccv_caption/data/original_image_to_caption.json",
    "17e7673206edefd9cd227e8fafb703eba375671e43dd202a33b51567ebd4593e",
    also=("cxc/sentid_to_caption_test.json", *_CAPTION_FILES),
)


class AnnotatedCaption(NamedTuple):
    """One of COCO's captions."""

    image_id: str
    text: str


@lru_cache(maxsize=65536)
def coco_id(name: str) -> str:
    """`val2014/COCO_val2014_000000060623.jpg`, `000000060623.jpg`, `60623` → `60623`.

    Splits follow from image ids, so an image has one id in all datasets. What is no COCO name stays.
    """
    match = re.fullmatch(r"(?:.*/)?(?:COCO_\w+?_)?0*(\d+)(?:\.\w+)?", name.strip(), re.I)
    return match[1] if match else name


def coco_references(root: Path, card: Card) -> dict[str, tuple[str, ...]]:
    """Read COCO's references by image id, for the Karpathy test split.

    Raises:
        InputError: where the file is missing or malformed.
    """
    return _read_references(find(root, card, COCO_REFERENCES))


def all_coco_references(root: Path, card: Card) -> dict[str, tuple[str, ...]]:
    """Read COCO's references by image id: from the captions of all validation images if these are
    there, else for the Karpathy test split; empty where neither is there.

    Raises:
        InputError: where a file is malformed.
    """
    path = locate(root, card, COCO_CAPTIONS)
    if path is not None:
        return read_captions(path)

    path = locate(root, card, COCO_REFERENCES)
    return {} if path is None else _read_references(path)


def read_captions(path: Path) -> dict[str, tuple[str, ...]]:
    """Read COCO's own caption annotations, such as `captions_val2014.json`, by image id.

    Raises:
        InputError: where it is something else.
    """
    captions_by_image: dict[str, list[str]] = {}
    for number, row in enumerate(field(read_json(path), "annotations", list, str(path))):
        where = f"{path}: annotation {number}"
        image_id = str(field(row, "image_id", int, where))
        caption = collapse_blanks(field(row, "caption", str, where))
        captions_by_image.setdefault(image_id, []).append(caption)

    return {image_id: tuple(captions) for image_id, captions in captions_by_image.items()}


def read_annotated_captions(root: Path, card: Card) -> dict[str, AnnotatedCaption]:
    """Read COCO's captions by annotation id; those of an image follow in the order of their ids.

    They are those of all validation images if COCO's own file is there, else those of the Karpathy test split.

    Raises:
        InputError: where a file is missing or malformed, or two files do not fit together.
    """
    path = locate(root, card, COCO_CAPTIONS)
    if path is not None:
        return _read_annotations(path)

    references = coco_references(root, card)
    path = find(root, card, TEST_CAPTION_IDS)
    table = read_json(path)
    if not isinstance(table, dict):
        raise InputError(f"{path}: an object of annotation ids is expected")

    holds_texts = any(isinstance(value, str) for value in table.values())
    read = _join_texts if holds_texts else _join_ids
    captions: dict[str, AnnotatedCaption] = {}
    for annotation_id, (image_id, text) in read(table, references, path).items():
        captions[annotation_id] = AnnotatedCaption(image_id, collapse_blanks(text))

    return captions


def _read_annotations(path: Path) -> dict[str, AnnotatedCaption]:
    captions: dict[int, AnnotatedCaption] = {}
    for number, row in enumerate(field(read_json(path), "annotations", list, str(path))):
        where = f"{path}: annotation {number}"
        image_id = str(field(row, "image_id", int, where))
        text = collapse_blanks(field(row, "caption", str, where))
        captions[field(row, "id", int, where)] = AnnotatedCaption(image_id, text)

    in_order: dict[str, AnnotatedCaption] = {}
    # As numbers, by which COCO's captions of an image are in order.
    for annotation_id in sorted(captions):
        in_order[str(annotation_id)] = captions[annotation_id]
    return in_order


def _join_ids(
    table: dict[str, Any], references: dict[str, tuple[str, ...]], path: Path
) -> dict[str, AnnotatedCaption]:
    """Give the ids of an image, in ascending order, to its references.

    Raises:
        InputError: where an image has no references, or another number of them.
    """
    captions: dict[str, AnnotatedCaption] = {}
    for image_id in table:
        where = f"{path}: image {image_id}"
        annotation_ids = field(table, image_id, list, where)
        for annotation_id in annotation_ids:
            if not isinstance(annotation_id, int):
                raise InputError(f"{where}: the annotation id {annotation_id!r} is not a number")

        image_references = references.get(image_id, ())
        if len(annotation_ids) != len(image_references):
            raise InputError(
                f"{where}: {len(annotation_ids):,} annotation ids, where {COCO_REFERENCES.path} has "
                f"{len(image_references):,} references of the image"
            )

        for annotation_id, text in zip(sorted(annotation_ids), image_references, strict=True):
            captions[str(annotation_id)] = AnnotatedCaption(image_id, text)

    return captions


def _join_texts(
    table: dict[str, Any], references: dict[str, tuple[str, ...]], path: Path
) -> dict[str, AnnotatedCaption]:
    """Find the image of each caption: the five of an image follow one another, as its references do.

    Raises:
        InputError: where five captions are not the references of an image.
    """
    image_id_by_references = {texts: image_id for image_id, texts in references.items()}
    annotation_ids = list(table)
    captions: dict[str, AnnotatedCaption] = {}
    for start in range(0, len(annotation_ids), _CAPTIONS_PER_IMAGE):
        ids_of_image = annotation_ids[start : start + _CAPTIONS_PER_IMAGE]
        captions_of_image = tuple(table[annotation_id] for annotation_id in ids_of_image)
        if captions_of_image not in image_id_by_references:
            raise InputError(
                f"{path}: the captions {', '.join(ids_of_image)} are not the references of an image in "
                f"{COCO_REFERENCES.path}"
            )

        image_id = image_id_by_references[captions_of_image]
        for annotation_id, text in zip(ids_of_image, captions_of_image, strict=True):
            captions[annotation_id] = AnnotatedCaption(image_id, text)

    return captions


def _read_references(path: Path) -> dict[str, tuple[str, ...]]:
    table = read_json(path)
    if not isinstance(table, dict):
        raise InputError(f"{path}: an object image id → references is expected")

    references: dict[str, tuple[str, ...]] = {}
    for image_id in table:
        references[str(image_id)] = texts(table, image_id, f"{path}: image '{image_id}'")
    return references
