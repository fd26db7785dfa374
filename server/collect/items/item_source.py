"""The items of a study: a dataset of captau's, or a table of one's own."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ....datasets.errors import InputError, unknown
from ....datasets.images import find_image
from ....datasets.reading.table import Table, read_table
from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.registry import load, names
from ....datasets.schema import make_items
from .units import shown_caption


def read_items(
    source: YamlFields,
    folder: Path,
    data_root: Path | None,
    *,
    has_captions: bool,
    shows_pairs: bool,
) -> tuple[pd.DataFrame, Path | None]:
    """Read the items that a study names.

    Args:
        source: the section `items` of a study's file.
        folder: the folder of that file.
        data_root: the folder of the datasets.
        has_captions: whether the form shows captions; without, a table needs none.
        shows_pairs: whether the form shows pairs of captions, which a table may list.

    Returns:
        The frame of the items, with `min`, `max`, `mean` (on 1 to 5) and `size` of their overall ratings
        if the dataset has any, `is_left_out` of those that the study does not rate, and `pair` of the pairs
        that a table lists; and the folder of the images, if the study names one.

    Raises:
        InputError: on a fault of the section or its table.
    """
    kinds = [key for key in ("dataset", "file") if key in source]
    if len(kinds) != 1:
        raise InputError(f"{source.location}: items: either dataset or file is needed")
    images_option = source.optional("images")
    images = (folder / Path(images_option).expanduser()).resolve() if images_option else None
    if images and not images.is_dir():
        raise source.error("images", f"{images} is no folder")
    if kinds[0] == "dataset":
        frame = _dataset_items(source, data_root, images)
    else:
        table = read_table(folder / source.text("file"))
        if shows_pairs and "caption_a" in table:
            frame = _listed_pairs(table, images)
        else:
            frame = _table_items(table, images, has_captions=has_captions)
    if "leave_out_unanimous" in source and "min" not in frame:
        raise source.error("leave_out_unanimous", "the items come without ratings; leave it out")
    systems = source.texts("systems")
    for system in systems:
        if system not in set(frame["system"]):
            raise source.error("systems", str(unknown("system", system, map(str, frame["system"]))))
    if systems:
        frame = frame[frame["system"].isin(systems)]
    return frame.reset_index(drop=True), images


def _dataset_items(source: YamlFields, data_root: Path | None, images: Path | None) -> pd.DataFrame:
    name = source.choice("dataset", names())
    caption_set = load(name, data_root)
    frame = caption_set.items
    if images:
        paths = {i: find_image(i, name, images) for i in frame["image_id"].unique()}
        frame["image"] = [paths[i] and str(paths[i]) for i in frame["image_id"]]
    ratings = caption_set.ratings
    scale = caption_set.card.scales.get("overall")
    if scale is not None and len(ratings):
        ratings = ratings[ratings["dimension"] == "overall"]
        statistics = ratings.groupby("item_id")["value"].agg(["min", "max", "mean", "size"])
        frame = frame.join(statistics, on="item_id")
        if (rating := source.optional_number("leave_out_unanimous")) is not None:
            frame["is_left_out"] = (frame["min"] == rating) & (frame["max"] == rating)
        for column in ("min", "max", "mean"):
            frame[column] = 1 + 4 * scale.share(frame[column])
    return frame


def _table_items(table: Table, images: Path | None, *, has_captions: bool) -> pd.DataFrame:
    """Return the items of a table with the columns `image`, `caption`, and perhaps `references`, `system`."""
    image_ids = table.filled("image")
    return make_items(
        image_ids,
        table.filled("caption") if has_captions else [""] * len(image_ids),
        _references(table),
        systems=_systems(table, "system"),
        images=_image_files(table, images),
    )


def _listed_pairs(table: Table, images: Path | None) -> pd.DataFrame:
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
