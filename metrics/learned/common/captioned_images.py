"""Captioned images, from which QE and UMIC learn without ratings: references, a file, or the demo's scenes."""

from __future__ import annotations

from pathlib import Path

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ....datasets.reading.table import read_table
from ....datasets.sources import demo
from ....datasets.sources.umic_lmdb import named_image
from .recipe import Examples
from .training import TrainingSession

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
            lines, Parquet) with the columns `image_id` and `caption`.
        train, validation: the examples; a file's images that are among `validation`, or that the
            session tests on, are left out.
        session: its seed splits a file's images, and these are added to its `extra_image_ids`.

    Raises:
        InputError: if there are none.
    """
    if origin == "references":
        return _from_references(train), _from_references(validation)
    if origin == "demo":
        return _demo_scenes(is_validation=False), _demo_scenes(is_validation=True)
    captions = _read_captions(expand_home(origin))
    for image_id in {*map(str, validation.image_ids), *session.test_image_ids}:
        captions.pop(image_id, None)
    if len(captions) < 2:
        raise InputError(
            f"{origin}: {len(captions)} captioned images to train on; at least two are needed"
        )
    session.extra_image_ids |= captions.keys()
    shuffled = [str(i) for i in session.rng("captioned").permutation(sorted(captions))]
    cut = max(1, round(VALIDATION_SHARE * len(shuffled)))
    sides = sorted(shuffled[cut:]), sorted(shuffled[:cut])
    train_side, validation_side = ({i: tuple(captions[i]) for i in side} for side in sides)
    return train_side, validation_side


def _demo_scenes(*, is_validation: bool) -> CaptionedImages:
    numbers = [n for n in range(DEMO_SCENES) if (n % 10 == 0) == is_validation]
    return {scene.image_id: captions for scene, captions in map(demo.further, numbers)}


def _from_references(examples: Examples) -> CaptionedImages:
    captions: CaptionedImages = {}
    for image_id, references in zip(examples.image_ids, examples.rows.references, strict=True):
        captions.setdefault(str(image_id), references)
    captions = {image_id: references for image_id, references in captions.items() if references}
    if not captions:
        raise InputError("no image has references to learn from; name a file of captions")
    return captions


def _read_captions(path: Path) -> dict[str, list[str]]:
    """Read the captions of each image from a file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file of captions; or say references, or demo")
    table = read_table(path)
    for column in ("image_id", "caption"):
        if column not in table:
            raise InputError(f"{path}: no column {column}; image_id and caption are needed")
    captions: dict[str, list[str]] = {}
    for image, caption in zip(table.column("image_id"), table.column("caption"), strict=True):
        captions.setdefault(short_image_id(str(image)), []).append(str(caption))
    return captions


def short_image_id(image: str) -> str:
    """Return an image's id in our datasets, where a file has the long names of COCO's and UMIC's files."""
    return named_image(Path(image).stem.lower()) or image
