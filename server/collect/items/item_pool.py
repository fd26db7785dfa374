"""The items of a study, from which practice and attention pairs are taken, and the check of their images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from PIL import Image, UnidentifiedImageError
from pydantic import BeforeValidator

from ....datasets.caption_texts import collapse_blanks
from ....datasets.errors import InputError
from ....datasets.reading.source_files import find_image
from ....datasets.reading.yaml_model import LongText, YamlModel, fault, is_whole_number
from ....datasets.schema import item_ids
from .units import StudyItem, StudyUnit, unit_of_item

#: Media types of the images that browsers show, by Pillow's name of the format.
MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
IMAGES_REMEDY = "; items.images=FOLDER says where images lie, under their usual names"


def _as_list(value: Any) -> Any:
    """Return a whole number as a list of one, and such a list as it is."""
    levels = value if isinstance(value, list) else [value]
    if not levels or not all(is_whole_number(level, -1_000_000, 1_000_000) for level in levels):
        raise fault(f"{value!r}: a whole number, or a list of them, is expected")

    return levels


Levels = Annotated[list[int], BeforeValidator(_as_list)]


class PairFields(YamlModel):
    """An image and a caption that a study's file lists."""

    image: LongText
    caption: LongText
    explanation: LongText = ""

    def check_levels(self, name: str, levels: Sequence[int], low: int, high: int) -> None:
        """Check that the levels of a field are from `low` to `high`.

        Raises:
            InputError: if one is not.
        """
        if not all(low <= level <= high for level in levels):
            shown = ", ".join(map(str, levels))
            raise self.error(name, f"{shown}: whole numbers from {low} to {high} are expected")


class KnownPair(PairFields):
    """A pair with the answers that are known to be right."""

    accepted: Levels


class CaptionPairFields(YamlModel):
    """Two captions of an image that a study's file lists."""

    image: LongText
    caption_a: LongText
    caption_b: LongText


def check_images(units: Sequence[StudyUnit], location: str) -> None:
    """Check that every unit has an image that a browser can show.

    Args:
        units: the units of a study.
        location: file and line of the study, for messages.

    Raises:
        InputError: if an image is missing or unreadable.
    """
    without_image = [unit for unit in units if not unit.image]
    if without_image:
        raise InputError(
            f"{location}: {len(without_image)} of {len(units)} items have no image file, "
            f"'{without_image[0].image_id}' for one{IMAGES_REMEDY}"
        )

    # Several units may show the same image.
    for path in dict.fromkeys(unit.image for unit in units):
        try:
            with Image.open(path) as image:
                image_format = image.format
                # Opening reads the header alone; a file that was cut off shows itself only here.
                image.verify()
        except Image.DecompressionBombError as error:
            raise InputError(f"{path}: too many pixels; make it smaller") from error
        except (OSError, UnidentifiedImageError, SyntaxError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no image that can be read"
            raise InputError(f"{path}: {reason}; replace it or leave its items out") from error

        if image_format not in MEDIA_TYPES:
            raise InputError(
                f"{path}: {image_format} images are not shown by browsers; save it as PNG"
            )


class ItemPool:
    """Items by row number; rows that were taken for another pool are not rated.

    Args:
        frame: the items, as `read_items` returns them.
        images: the folder of images, for pairs that are not among the items.
    """

    def __init__(self, frame: pd.DataFrame, images: Path | None) -> None:
        self._frame = frame
        self._images = images
        self._image_files = dict(zip(frame["image_id"], frame["image"], strict=True))
        self._rows: list[Any] = frame.to_dict("records")  # a frame's own rows are slow
        # Of equal rows the last one counts.
        self._row_numbers: dict[tuple[str, str], int] = {}
        for number, row in enumerate(self._rows):
            self._row_numbers[row["image_id"], row["caption"]] = number
        self._used_rows: set[int] = set()

    def listed_unit(self, pool: str, pair: PairFields, fixed: Sequence[int]) -> StudyUnit:
        """Return the unit of a pair that the study's file lists.

        Args:
            pool: the unit's pool.
            pair: its image and caption, and perhaps an explanation.
            fixed: its known ratings.
        """
        number = self._row_numbers.get((pair.image, pair.caption))
        if number is None:
            item = self._unlisted_item(pair, pair.caption)
        else:
            self._used_rows.add(number)
            item = self._item(number)

        return unit_of_item(pool, item, fixed, pair.explanation)

    def listed_pair(self, pool: str, pair: CaptionPairFields, fixed: Sequence[int]) -> StudyUnit:
        """Return the unit of two captions of an image that the study's file lists.

        Args:
            pool: the unit's pool.
            pair: the image and its captions.
            fixed: its known answers.
        """
        captions = (pair.caption_a, pair.caption_b)
        if collapse_blanks(pair.caption_a) == collapse_blanks(pair.caption_b):
            raise pair.error("caption_b", "it is equal to caption_a; choose another caption")

        items = tuple(self._unlisted_item(pair, caption) for caption in captions)
        return StudyUnit(
            pool=pool,
            image_id=pair.image,
            image=items[0].image,
            items=items,
            fixed=tuple(fixed),
        )

    def _unlisted_item(self, pair: PairFields | CaptionPairFields, caption: str) -> StudyItem:
        """Return the item of a caption that is not rated.

        Raises:
            InputError: if its image is not there.
        """
        image_id = pair.image
        image = self._image_files.get(image_id)
        if image is None and self._images is not None:
            image = find_image(image_id, "", self._images)
        if image is None:
            raise pair.error("image", f"no image '{image_id}' among the items{IMAGES_REMEDY}")

        (item_id,) = item_ids([image_id], [caption], [None])
        return StudyItem(
            item_id=item_id,
            image_id=image_id,
            image=str(image),
            caption=caption,
            references=(),
            system=None,
            split="",
        )

    def take_unanimous(
        self, pool: str, n: int, levels: Sequence[int], game: YamlModel
    ) -> list[StudyUnit]:
        """Take up to `n` items whose ratings are all equal, as many of each level as there are.

        Raises:
            InputError: if the items come without ratings.
        """
        frame = self._frame
        if "min" not in frame:
            raise game.error(
                pool, "the items come without ratings; list the pairs, each with its ratings"
            )

        is_unanimous = (frame["min"] == frame["max"]) & (frame["size"] >= 2)
        is_free = ~frame.index.isin(self._used_rows)
        free = frame[is_unanimous & is_free & frame["mean"].isin(levels)]

        # The first item of each level comes first, then the second of each.
        turns = free.groupby("mean").cumcount()
        rows = free.assign(turn=turns).sort_values(["turn", "mean"]).index[:n].tolist()
        self._used_rows |= set(rows)

        units: list[StudyUnit] = []
        for row in rows:
            ratings = [int(frame["mean"][row])] * int(frame["size"][row])
            units.append(unit_of_item(pool, self._item(row), ratings))

        return units

    def remaining(self) -> list[StudyItem]:
        """Return the items that are left to rate.

        A caption that was taken is left out for every system that wrote it: its ratings are known.
        """
        used_pairs = {self._pair(row) for row in self._used_rows}
        items: list[StudyItem] = []
        for number, row in enumerate(self._rows):
            if not row.get("is_left_out") and self._pair(number) not in used_pairs:
                items.append(self._item(number))

        return items

    def _pair(self, number: int) -> tuple[str, str]:
        return self._rows[number]["image_id"], self._rows[number]["caption"]

    def _item(self, number: int) -> StudyItem:
        row = self._rows[number]
        # Joining leaves NaN, which equals nothing, where an item has no ratings.
        has_ratings = "mean" in row and row["mean"] == row["mean"]

        return StudyItem(
            item_id=row["item_id"],
            image_id=row["image_id"],
            image=row["image"] if isinstance(row["image"], str) else "",
            caption=row["caption"],
            references=row["references"],
            system=row["system"] if isinstance(row["system"], str) else None,
            split=row["split"],
            mean_rating=float(row["mean"]) if has_ratings else None,
            pair=row.get("pair"),
        )
