"""COCO's captions as references, and its image ids, which other datasets write in several ways."""

from __future__ import annotations

import re
from pathlib import Path

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.json_files import field, read_json, texts
from ..reading.source_files import find, github_file, locate
from ..schema import Card, SourceFile

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


def _read_references(path: Path) -> dict[str, tuple[str, ...]]:
    table = read_json(path)
    if not isinstance(table, dict):
        raise InputError(f"{path}: an object image id → references is expected")

    return {str(k): texts(table, k, f"{path}: image '{k}'") for k in table}
