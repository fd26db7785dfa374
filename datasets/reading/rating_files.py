"""Ratings of a user's own captions: a row a rating or a comparison, by image, as `captau collect export` writes them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError, shorten
from .caption_ids import match_forms, rules_for
from .cells import ANSWER_WORDS, parse_number
from .table import Table, read_table
from .winners import describe_strengths, read_strengths, read_winners

IMAGES = ("image_id", "image")
VALUES = ("value", "rating", "score", "answer")
#: The other columns that are read.
_OTHERS = (
    "dimension",
    "rater",
    "system",
    "caption",
    "winner",
    "strength",
    "system_a",
    "system_b",
    "caption_a",
    "caption_b",
)


@dataclass(frozen=True)
class RatingRow:
    """A rating of a caption, or of two.

    Attributes:
        place: the file and line, for messages.
        image_id: the image.
        systems: the system of the caption, or the two that were compared; empty texts where the file does not say.
        captions: the caption or the two; empty texts where the file does not say.
        rater: who rated; empty where the file does not say.
        value: the rating; of a comparison 1 where the first caption wins, ½ of a tie, 0 where the second does.
    """

    place: str
    image_id: str
    systems: tuple[str, ...]
    captions: tuple[str, ...]
    rater: str
    value: float


@dataclass(frozen=True)
class RatingFile:
    """Ratings, or comparisons of two captions.

    Attributes:
        path: the file.
        rows: in its order.
        is_compared: whether the rows are comparisons.
        is_binary: whether all ratings are yes or no, in words or as 1 and 0.
        has_raters: whether the file says who rated.
        notes: sentences on how it was read.
    """

    path: Path
    rows: tuple[RatingRow, ...]
    is_compared: bool
    is_binary: bool
    has_raters: bool
    notes: tuple[str, ...] = ()


def read_ratings(path: Path, dimension: str | None = None) -> RatingFile:
    """Read ratings: columns `image_id`, `value`, and perhaps `system`, `caption`, `rater` and `dimension`.

    Comparisons have `winner` or `strength`, with `system_a`, `system_b` or `caption_a`, `caption_b`.

    Args:
        path: the table.
        dimension: of which dimension; None where the file has one.

    Raises:
        InputError: where the file cannot be read, lacks a column, or has several dimensions and none is named.
    """
    table = _with_small_letters(read_table(path))
    image = table.first_of(*IMAGES)
    if image is None:
        raise InputError(
            f"{path}: no column 'image_id' or 'image'; it has {', '.join(table.names)}"
        )

    table = _select_dimension(table, dimension)
    if table.first_of("winner", "strength") is not None:
        return _read_comparisons(table, image)

    name = table.first_of(*VALUES)
    if name is None:
        raise InputError(
            f"{path}: no column 'value' of ratings and no 'winner' of comparisons; it has {', '.join(table.names)}"
        )

    values, is_binary = _values(table, name)
    systems = _texts(table, "system")
    captions = _texts(table, "caption")
    raters = _texts(table, "rater")
    rows: list[RatingRow] = []
    for i, image_id in enumerate(table.filled(image)):
        row = RatingRow(
            place=table.places[i],
            image_id=image_id,
            systems=(systems[i],),
            captions=(captions[i],),
            rater=raters[i],
            value=values[i],
        )
        rows.append(row)

    return RatingFile(
        path,
        tuple(rows),
        is_compared=False,
        is_binary=is_binary,
        has_raters=all(raters),
        notes=(table.note,) if table.note else (),
    )


def _with_small_letters(table: Table) -> Table:
    """Return a table whose columns of ratings are found in any case, as `captau score` finds those of captions."""
    columns: dict[str, list[Any]] = {}
    for name in table.names:
        small = name.strip().lower()
        if small in (*IMAGES, *VALUES, *_OTHERS) and small not in table:
            columns[small] = table.column(name)
    return table.with_columns(columns) if columns else table


def _select_dimension(table: Table, dimension: str | None) -> Table:
    """Return the rows of one dimension."""
    if "dimension" not in table:
        if dimension is not None:
            raise InputError(f"{table.path}: no column 'dimension'; leave dimension= out")
        return table

    dimensions = table.texts("dimension", empty="")
    names = list(dict.fromkeys(dimensions))
    if dimension is None and len(names) > 1:
        raise InputError(
            f"{table.path}: it has the dimensions {', '.join(names)}; name one with dimension={names[0]}"
        )
    if dimension is not None and dimension not in names:
        raise InputError(
            f"{table.path}: no rating of the dimension '{dimension}'; it has {', '.join(names)}"
        )
    if dimension is None:
        return table

    return table.keep(number for number, name in enumerate(dimensions) if name == dimension)


def _texts(table: Table, name: str) -> list[str]:
    if name not in table:
        return [""] * len(table)

    return table.texts(name, empty="")


def _values(table: Table, name: str) -> tuple[list[float], bool]:
    """Return the ratings, and whether all are yes or no, in words or as 1 and 0, as exports of Good or bad have them."""
    values: list[float] = []
    n_words = 0
    for location, cell in zip(table.places, table.column(name), strict=True):
        word = str(cell).strip().lower()
        if word in ANSWER_WORDS:
            values.append(ANSWER_WORDS[word])
            n_words += 1
            continue
        number = parse_number(cell)
        if math.isnan(number):
            raise InputError(
                f"{location}: {name} is {shorten(repr(cell))}, neither a number nor one of {', '.join(ANSWER_WORDS)}"
            )
        values.append(number)

    if n_words and n_words < len(values):
        raise InputError(
            f"{table.path}: {n_words:,} of {len(values):,} ratings are words such as yes, the others are numbers; use one"
        )
    return values, n_words > 0 or set(values) == {0.0, 1.0}


def _read_comparisons(table: Table, image: str) -> RatingFile:
    """Read comparisons, without those that have no verdict."""
    systems = (table.first_of("system_a"), table.first_of("system_b"))
    strength = table.first_of("strength")
    table, notes = read_winners(table, "winner", systems, words=None)
    strengths = read_strengths(table, "winner", strength)
    strength_notes = describe_strengths(table, strength)

    systems_a = _texts(table, "system_a")
    systems_b = _texts(table, "system_b")
    captions_a = _texts(table, "caption_a")
    captions_b = _texts(table, "caption_b")
    raters = _texts(table, "rater")
    rows: list[RatingRow] = []
    for i, image_id in enumerate(table.filled(image)):
        row = RatingRow(
            place=table.places[i],
            image_id=image_id,
            systems=(systems_a[i], systems_b[i]),
            captions=(captions_a[i], captions_b[i]),
            rater=raters[i],
            value=_value_of_strength(strengths[i]),
        )
        rows.append(row)

    return RatingFile(
        table.path,
        tuple(rows),
        is_compared=True,
        is_binary=False,
        has_raters=all(raters),
        notes=tuple(filter(None, (table.note, *notes, *strength_notes))),
    )


def _value_of_strength(strength: float) -> float:
    """Return 1 where the first caption wins, ½ of a tie, 0 where the second does."""
    if strength > 0:
        return 1.0
    return 0.0 if strength < 0 else 0.5


def match_rated_images(
    rows: Sequence[tuple[str, str]], images: Collection[str], file_name: str
) -> dict[str, str]:
    """Return the image of the captions for each image id of rated rows, by the first rule that matches all.

    Args:
        rows: the place and the image id of each.
        images: those of the captions.
        file_name: of the captions, for messages.

    Raises:
        InputError: where an image is not among them.
    """
    ids = dict.fromkeys(image_id for _, image_id in rows)
    if all(image_id in images for image_id in ids):
        return {image_id: image_id for image_id in ids}

    named = {image_id: image_id for image_id in images}
    for rule in rules_for(ids, images):
        matched, _ = match_forms(ids, named, rule.reduce)
        matches_all = len(matched) == len(ids)
        is_one_to_one = len(set(matched.values())) == len(matched)
        if matches_all and is_one_to_one:
            return matched

    # The first row of each image that is not there.
    locations: dict[str, str] = {}
    for location, image_id in rows:
        if image_id not in images:
            locations.setdefault(image_id, location)
    image_id, location = next(iter(locations.items()))
    raise InputError(
        f"{location}: image '{image_id}' is not among the captions of {file_name}, where an image is '{next(iter(images))}' "
        f"({len(locations):,} of {len(ids):,} rated images are not); give the captions that were rated"
    )


def is_same_caption(rated: str, caption: str) -> bool:
    """Return whether a rated caption is the system's, blanks aside."""
    return collapse_blanks(rated) == collapse_blanks(caption)
