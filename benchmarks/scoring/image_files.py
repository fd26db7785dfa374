"""The file of each image in a folder: named by the image's id, by the references' file, or as COCO names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...datasets.errors import InputError
from ...datasets.reading.caption_files import CandidateFile, ReferenceFile
from ...datasets.reading.caption_ids import RULES, match_forms


def find_image_files(
    candidates: CandidateFile,
    references: ReferenceFile | None,
    image_ids: Sequence[str],
    folder: Path,
) -> list[str]:
    """Return the path of each image's file.

    An image's own id comes first, with or without an ending, and then a name that the references' file gives it, such as
    COCO's `file_name`. The others may match by one rule for ids, such as 391895 and COCO_val2014_000000391895.jpg.

    Raises:
        InputError: where the folder is none, or lacks an image.
    """
    if not folder.is_dir():
        raise InputError(f"images={folder} is not a folder")

    by_name: dict[str, str] = {}
    by_stem: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file():
            by_name[path.name] = str(path)
            by_stem[path.stem] = str(path)

    names_by_image = _other_names(references)
    paths: dict[str, str] = {}
    for image_id in image_ids:
        for name in (image_id, *names_by_image.get(image_id, ())):
            # An id with a dot is first taken for a whole name.
            path = by_name.get(name) or by_stem.get(name)
            if path is not None:
                paths[image_id] = path
                break

    missing = [image_id for image_id in image_ids if image_id not in paths]
    if missing:
        paths |= _match_by_rule(missing, by_stem)

    for image_id in image_ids:
        if image_id not in paths:
            raise InputError(_describe_gap(candidates, references, image_id, folder))

    return [paths[image_id] for image_id in image_ids]


def _other_names(references: ReferenceFile | None) -> dict[str, list[str]]:
    """Return what the references' file calls each image beside its id, without folders."""
    names_by_image: dict[str, list[str]] = {}
    if references is None:
        return names_by_image

    for images in references.other_names.values():
        for name, image_id in images.items():
            names_by_image.setdefault(image_id, []).append(Path(name).name)

    return names_by_image


def _match_by_rule(image_ids: Sequence[str], by_stem: Mapping[str, str]) -> dict[str, str]:
    """Return the files that the first rule finds which finds all, each another one; nothing if none does."""
    for rule in RULES:
        # The number behind a word is no name: cat_1.jpg and dog_1.jpg are two images.
        if rule.needs_numbers:
            continue

        matched, _ = match_forms(image_ids, by_stem, rule.reduce)
        if len(matched) == len(image_ids) == len(set(matched.values())):
            return matched

    return {}


def _describe_gap(
    candidates: CandidateFile, references: ReferenceFile | None, image_id: str, folder: Path
) -> str:
    """Say which image has no file, and what a file would have to be called."""
    message = f"{candidates.locate(image_id)} has no file in {folder}"
    names = _other_names(references).get(image_id, [])
    others = [name for name in names if name != image_id]
    if others and references is not None:
        message += f", nor has '{others[0]}', as {references.source.name} calls it"
    return message
