"""The items of a study: a dataset of captau's, or a table of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ....datasets.errors import InputError, unknown
from ....datasets.images import find_image
from ....datasets.paths import expand_home
from ....datasets.reading.table import Table, read_table
from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.registry import load, names


def read_items(
    source: YamlFields,
    folder: Path,
    data_root: Path | None,
    table_reader: Callable[[Table, Path | None], pd.DataFrame],
) -> tuple[pd.DataFrame, Path | None]:
    """Read the items that a study names.

    Args:
        source: the section `items` of a study's file.
        folder: the folder of that file.
        data_root: the folder of the datasets.
        table_reader: makes the items of a table and the folder of its images.

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
    images = (folder / expand_home(images_option)).resolve() if images_option else None
    if images and not images.is_dir():
        raise source.error("images", f"{images} is not a folder")
    if kinds[0] == "dataset":
        frame = _dataset_items(source, data_root, images)
    else:
        frame = table_reader(read_table(folder / source.text("file")), images)
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
