"""Your own judgements, from a CSV, JSON, JSON lines or Parquet file with one row a rating.

`docs/own_judgements.md` walks through it. The options name columns; one that is not given is looked
for under its usual name, which is the option's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import registry
from ..errors import InputError
from ..reading.table import JudgementColumns, Table, read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile, on_scale, shown

CARD = Card(
    name="file",
    title="Your own judgements",
    revision="your own",
    licence="yours",
    citation="""@misc{own,
  title={Judgements of my own}
}""",
    homepage="",
    has_references=False,
)

_LONG = (
    "; one row a rating is expected: where each rater or dimension has a column, make rows of them"
)


@dataset(CARD)
def load_file(
    root: Path,
    *,
    path: str | Path | None = None,
    name: str = "file",
    image: str = "image",
    caption: str = "caption",
    value: str = "value",
    rater: str | None = None,
    references: str | None = None,
    dimension: str | None = None,
    system: str | None = None,
    split: str | None = None,
    low: float | None = None,
    high: float | None = None,
    step: float | None = None,
) -> CaptionSet:
    """Read judgements of your own.

    Args:
        root: not used; the file may lie anywhere.
        path: the file, by the place one is in.
        name: what results call the set.
        image, caption, value: the columns of the image (a name, a number or a path), of the candidate
            and of the rating.
        rater: the column of who rated; without it an item's ratings are numbered.
        references: the column of reference captions: a list, or text with ` ||| ` between them.
        dimension: the column of what was rated, or one name for all rows; else `overall`.
        system, split: the columns of who wrote the candidate, and of its split.
        low, high, step: the scale; its ends are the least and the greatest rating where not given.

    Raises:
        InputError: where the file is malformed, lacks a column, or a rating is not on the scale.
    """
    del root
    if path is None:
        raise InputError("dataset file: the option file.path=FILE is needed")
    _check_name(name)
    table = read_table(Path(path).expanduser())
    image_ids = table.filled(image, "; name the column with file.image=")
    captions = table.texts(caption, "; name the column with file.caption=")
    values = table.floats(value, None, f"; name the column with file.value={_LONG}")
    dimensions = _dimensions(table, _column_of(table, "dimension", dimension))
    scales = {d: _scale(d, dimensions, values, low, high, step) for d in dict.fromkeys(dimensions)}
    _check_scales(table, value, values, [scales[d] for d in dimensions])
    texts = {
        option: table.filled(name_of_column, f"; see file.{option}=") if name_of_column else None
        for option, column in (("rater", rater), ("system", system), ("split", split))
        for name_of_column in (_column_of(table, option, column),)
    }
    reference_column = _column_of(table, "references", references)
    card = replace(
        CARD,
        name=name,
        title=name if name != CARD.name else table.path.name,
        scales=scales,
        sources=(SourceFile(str(table.path.absolute()), "your own file"),),
        has_references=reference_column is not None,
        anonymous_raters=texts["rater"] is None,
    )
    return JudgementColumns(
        table.places,
        image_ids,
        captions,
        values,
        raters=texts["rater"],
        references=table.references(reference_column, "; see file.references=")
        if reference_column
        else None,
        systems=texts["system"],
        splits=texts["split"],
        images=_images(table.path.parent, image_ids),
        dimensions=dimensions,
    ).caption_set(card)


def _check_name(name: str) -> None:
    """Check that results can call a set by this name.

    Raises:
        InputError: where it has other characters than a file's name, or another dataset has it.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(f"file.name is '{name}'; letters, digits, '_', '-' and '.' are expected")
    if name in registry.names() and name != CARD.name:
        raise InputError(f"file.name={name} is one of captau's datasets; take another name")


def _column_of(table: Table, option: str, column: str | None) -> str | None:
    """Return the column that an option names; by default the one of the option's name, if it is there."""
    return column if column is not None else option if option in table else None


def _check_scales(
    table: Table, column: str, values: Sequence[float], scales: Sequence[Scale]
) -> None:
    """Check each row's rating against its scale.

    Raises:
        InputError: at the first that is not on it.
    """
    for place, number, scale in zip(table.places, values, scales, strict=True):
        if not on_scale(scale, number):
            raise InputError(f"{place}: {column} is {shown(number)}, not on the scale {scale}")


def _dimensions(table: Table, dimension: str | None) -> list[str]:
    """Return each row's dimension: from a column, or one name for all."""
    if dimension is not None and dimension in table:
        return table.filled(dimension)
    return [dimension or "overall"] * len(table)


def _scale(
    dimension: str,
    dimensions: Sequence[str],
    values: Sequence[float],
    low: float | None,
    high: float | None,
    step: float | None,
) -> Scale:
    rated = [v for d, v in zip(dimensions, values, strict=True) if d == dimension]
    scale = Scale(min(rated) if low is None else low, max(rated) if high is None else high, step)
    if scale.low > scale.high or (step is not None and step <= 0):
        raise InputError(
            f"file.low={scale.low:g}, file.high={scale.high:g}, file.step={step}: no scale; low is at "
            f"most high, and a step more than 0"
        )
    return scale


def _images(folder: Path, image_ids: Sequence[str]) -> list[str | None]:
    """Return the path of each image that is a file, seen from the table's folder."""
    path_by_image: dict[str, str | None] = {}
    for image_id in set(image_ids):
        try:
            path_by_image[image_id] = (
                str(folder / image_id) if (folder / image_id).is_file() else None
            )
        except OSError:  # too long for a file name
            path_by_image[image_id] = None
    return [path_by_image[image_id] for image_id in image_ids]
