"""The captions of systems with one set of references: their images matched and selected, and the items that are scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ...datasets.reading.caption_files import CandidateFile, ReferenceFile, describe_files
from ...datasets.reading.caption_ids import match_image_ids
from .corpus_scores import make_caption_items, select_images


@dataclass(frozen=True)
class SystemItems:
    """The captions of systems for the same images.

    Attributes:
        files: by system, with the image ids of the references.
        items: by system, a row a caption, in the order of `images`.
        images: those that count.
        notes: sentences on how the files were read, and on what looks like a fault of them.
    """

    files: dict[str, CandidateFile]
    items: dict[str, pd.DataFrame]
    images: list[str]
    notes: list[str]


def make_system_items(
    systems: Mapping[str, CandidateFile],
    references: ReferenceFile | None,
    *,
    partial: bool,
    images: Path | None,
    are_labelled: bool = False,
) -> SystemItems:
    """Match systems' images with those of the references, and make the items of each.

    Args:
        systems: the captions of each.
        references: None where there are none.
        partial: whether images may lack a caption or references; these are left out.
        images: the folder of images; None where no metric looks at them.
        are_labelled: whether items name their system.

    Raises:
        InputError: where images lack captions or references, or a file in the folder.
    """
    reference_sets = {} if references is None else {"references": references}
    files, id_notes = match_image_ids(systems, reference_sets)
    # One set of references at most, so that there is one selection of images.
    (image_ids,) = select_images(files, reference_sets, partial).values()

    items: dict[str, pd.DataFrame] = {}
    for system, file in files.items():
        items[system] = make_caption_items(
            file,
            references,
            image_ids=image_ids,
            images=images,
            system=system if are_labelled else None,
        )

    notes = [*id_notes, *describe_files([*reference_sets.values(), *files.values()])]
    return SystemItems(files, items, image_ids, notes)
