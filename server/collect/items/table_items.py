"""The items of a study's own table: a caption a row, or a pair of captions a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ....datasets.errors import InputError
from ....datasets.images import find_image
from ....datasets.reading.table import Table
from ....datasets.schema import make_items
from .units import shown_caption


def caption_items(table: Table, images: Path | None, captions: Sequence[str]) -> pd.DataFrame:
    """Return the items of a table with the column `image`, and perhaps `references` and `system`.

    Args:
        table: the table.
        images: the folder of the images; else they lie beside the table.
        captions: of each row; empty texts where captions are to be written.

    Raises:
        InputError: if a row has no image, or one that lies elsewhere.
    """
    return make_items(
        table.filled("image"),
        captions,
        _references(table),
        systems=_systems(table, "system"),
        images=_image_files(table, images),
    )


def pair_items(table: Table, images: Path | None) -> pd.DataFrame:
    """Return both captions of each row of a table of pairs, with the row's number as `pair`.

    Its columns are `image, caption_a, caption_b`, and perhaps `system_a, system_b, references`.

    Raises:
        InputError: if a caption is compared to itself, or a pair is listed twice.
    """
    captions_a, captions_b = table.filled("caption_a"), table.filled("caption_b")
    rows_by_pair: dict[tuple[str, frozenset[str]], str] = {}
    rows = zip(table.places, table.filled("image"), captions_a, captions_b, strict=True)
    for location, image, a, b in rows:
        if shown_caption(a) == shown_caption(b):
            raise InputError(
                f"{location}: caption_a and caption_b are equal, '{a}'; leave this pair out"
            )
        earlier = rows_by_pair.setdefault((image, frozenset((a, b))), location)
        if earlier != location:
            raise InputError(
                f"{location}: this pair stands at {earlier} already, in one order or the other; "
                f"leave one of them out"
            )
    systems = [_systems(table, name) or [None] * len(table) for name in ("system_a", "system_b")]
    image_ids, references, image_files = (
        table.filled("image"),
        _references(table),
        _image_files(table, images),
    )
    return make_items(
        [*image_ids, *image_ids],
        [*captions_a, *captions_b],
        [*references, *references],
        systems=[*systems[0], *systems[1]],
        images=[*image_files, *image_files],
    ).assign(pair=[*range(len(table))] * 2)


def _references(table: Table) -> list[tuple[str, ...]]:
    return table.references("references") if "references" in table else [()] * len(table)


def _systems(table: Table, column: str) -> list[str | None] | None:
    return [s or None for s in table.texts(column)] if column in table else None


def _image_files(table: Table, images: Path | None) -> list[str | None]:
    """Return the file of each row's image, in the folder of images or else beside the table."""
    image_ids = table.filled("image")
    base = images or table.path.parent.resolve()
    paths = {i: _file_inside(base, i) or find_image(i, "", base) for i in set(image_ids)}
    outside = {i for i, path in paths.items() if path and not path.resolve().is_relative_to(base)}
    for location, image_id in zip(table.places, image_ids, strict=True):
        if image_id in outside:
            raise InputError(f"{location}: '{image_id}' lies outside of {base}")
    return [str(paths[i]) if paths[i] else None for i in image_ids]


def _file_inside(base: Path, name: str) -> Path | None:
    try:
        path = (base / name).resolve()
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None
