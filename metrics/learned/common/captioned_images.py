"""Captioned images, from which QE and UMIC learn without ratings: references, a file, or the demo's scenes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ....datasets.reading.table import read_table
from ....datasets.sources import demo
from ....datasets.sources.umic_lmdb import named_image
from .examples import Examples
from .training import TrainingSession

#: The origins that are no files: the references of the examples' images, and further scenes of the demo.
OWN_REFERENCES = "references"
DEMO = "demo"
#: Further scenes of the demo; every tenth is for validation.
DEMO_SCENES = 2000
#: The share of a file's images that is for validation.
VALIDATION_SHARE = 0.1


#: Captions by image id, at least one each.
CaptionedImages = dict[str, tuple[str, ...]]


def load_captioned_images(
    origin: str, train: Examples, validation: Examples, session: TrainingSession
) -> tuple[CaptionedImages, CaptionedImages]:
    """Load captioned images to train on and to validate by.

    Args:
        origin: `references` (of the examples' images), `demo` (its further scenes), or a file (CSV, JSON
            lines, Parquet) with the columns `image_id` and `caption`; its column `split`, if it has one, says
            which images are to train on and which to validate by.
        train, validation: the examples; a file's images that are among `validation`, or that the
            session tests on, are left out.
        session: without a column `split` its seed draws a tenth of a file's images to validate by; the images
            that are read are added to its `extra_image_ids`.

    Raises:
        InputError: if there are none, or the column `split` has another word, two of an image, or one side alone.
    """
    if origin == OWN_REFERENCES:
        return _from_references(train), _from_references(validation)
    if origin == DEMO:
        return _demo_scenes(is_validation=False), _demo_scenes(is_validation=True)

    captions, sides_of_images = _read_captions(expand_home(origin))
    for image_id in {*map(str, validation.image_ids), *session.test_image_ids}:
        captions.pop(image_id, None)
    if sides_of_images:
        tested = [image_id for image_id in captions if sides_of_images[image_id] == "test"]
        for image_id in tested:
            del captions[image_id]
    if len(captions) < 2:
        raise InputError(
            f"{origin}: {len(captions)} captioned images to train on; at least two are needed"
        )
    session.extra_image_ids |= captions.keys()

    if sides_of_images:
        train_ids = _images_of_side("train", origin, captions, sides_of_images)
        validation_ids = _images_of_side("validation", origin, captions, sides_of_images)
    else:
        shuffled = session.rng("captioned").permutation(sorted(captions)).tolist()
        cut = max(1, round(VALIDATION_SHARE * len(shuffled)))
        train_ids = sorted(shuffled[cut:])
        validation_ids = sorted(shuffled[:cut])

    train_side = {image_id: tuple(captions[image_id]) for image_id in train_ids}
    validation_side = {image_id: tuple(captions[image_id]) for image_id in validation_ids}
    return train_side, validation_side


def _images_of_side(
    side: str, origin: str, captions: Mapping[str, list[str]], sides_of_images: Mapping[str, str]
) -> list[str]:
    """Return the ids of the images of a side.

    Raises:
        InputError: if they are fewer than two, among which negatives could be drawn.
    """
    image_ids = [image_id for image_id in captions if sides_of_images[image_id] == side]
    if len(image_ids) < 2:
        raise InputError(
            f"{origin}: the column split leaves {len(image_ids)} images of {side}; at least two are needed"
        )
    return image_ids


def _demo_scenes(*, is_validation: bool) -> CaptionedImages:
    captioned: CaptionedImages = {}
    for number in range(DEMO_SCENES):
        if (number % 10 == 0) == is_validation:
            scene, captions = demo.further(number)
            captioned[scene.image_id] = captions
    return captioned


def _from_references(examples: Examples) -> CaptionedImages:
    captions: CaptionedImages = {}
    for image_id, references in zip(examples.image_ids, examples.rows.references, strict=True):
        captions.setdefault(str(image_id), references)

    captions = {image_id: references for image_id, references in captions.items() if references}
    if not captions:
        raise InputError("no image has references to learn from; name a file of captions")
    return captions


#: The words of a column `split`, Karpathy's and other authors', and the sides that they mean.
_SIDES = {
    "train": "train",
    "training": "train",
    "restval": "train",
    "validation": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}


def _read_captions(path: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Read the captions of each image from a file, and its side of the split (empty without such a column).

    Raises:
        InputError: if a row's split is unknown, or another than that of its image's first row.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no such file of captions; a file, references or demo is expected"
        )
    table = read_table(path)
    for column in ("image_id", "caption"):
        if column not in table:
            raise InputError(f"{path}: no column {column}; image_id and caption are needed")

    captions: dict[str, list[str]] = {}
    image_ids = [short_image_id(str(image)) for image in table.column("image_id")]
    for image_id, caption in zip(image_ids, table.column("caption"), strict=True):
        captions.setdefault(image_id, []).append(str(caption))

    sides: dict[str, str] = {}
    splits = table.texts("split") if "split" in table else []
    for location, image_id, split in zip(table.places, image_ids, splits, strict=False):
        side = _SIDES.get(split.lower())
        if side is None:
            raise InputError(
                f"{location}: split is '{split}'; one of {', '.join(_SIDES)} is expected"
            )
        if sides.setdefault(image_id, side) != side:
            raise InputError(
                f"{location}: image '{image_id}' is in {side}, and on an earlier row in {sides[image_id]}"
            )

    return captions, sides


def short_image_id(image: str) -> str:
    """Return an image's id in our datasets, where a file has the long names of COCO's and UMIC's files."""
    return named_image(Path(image).stem.lower()) or image
