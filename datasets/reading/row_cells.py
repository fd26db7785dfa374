"""The image, caption and references of a row, wherever they stand in it: `caption_rows` reads every row by `unpack_row`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError, shorten
from .caption_names import NameFinder, describe_judgements, find_judgements, is_of_rows
from .conversations import with_answer


def unpack_row(
    row: Mapping[str, Any], finder: NameFinder, content: str, where: str
) -> dict[str, Any]:
    """Return a row's `image_id` and `caption`, or `image_id` and `references` or the `caption` that is one of them.

    Args:
        row: an object, or the cells of a table by column.
        finder: knows the names.
        content: `caption` or `references`.
        where: the place of the row, for messages.

    Raises:
        InputError: where one is missing.
    """
    sample = find_sample(row, where) if finder.has_usual_columns else row
    finder.note_judgements(sample)
    cells: dict[str, Any] = {"image_id": _find_value(sample, finder, "image_id", where)}
    if "system" in sample:
        cells["system"] = sample["system"]
    if content == "caption":
        cells["caption"] = _find_value(sample, finder, "caption", where)
        finder.note_unread(sample)
        return cells

    column = finder.columns.references
    # The key of an object stands before the dot.
    is_there = column.partition(".")[0] in sample
    texts = None
    if column == "references" or "*" in column or not is_there:
        texts = find_reference_texts(sample, finder)
    if texts is not None:
        name = finder.find("references", sample)
        cells["caption" if is_of_rows(name, texts) else "references"] = texts
    elif not is_there and finder.find("caption", sample) is not None:
        # One row a reference; BLIP's files have all of an image in a list.
        value = _find_value(sample, finder, "caption", where)
        cells["references" if isinstance(value, list) else "caption"] = value
        finder.note_unread(sample)
    else:
        cells["references"] = _find_value(sample, finder, "references", where)
    return cells


def find_reference_texts(row: Mapping[str, Any], finder: NameFinder) -> Any:
    """Return what a row has as its references; None where it has no list of them."""
    name = finder.find("references", row)
    if name is not None:
        return row[name]

    numbered = finder.find_numbered(row)
    if numbered:
        return [row[name] for name in numbered if _is_filled(row[name])]

    # Karpathy's files.
    sentences = row.get("sentences")
    return sentences if isinstance(sentences, list) else None


def only(value: Any) -> Any:
    """Return the element of a list of one, however deep; other values stay."""
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value


def _is_filled(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value.strip())


def _find_value(row: Mapping[str, Any], finder: NameFinder, usual: str, where: str) -> Any:
    """Return what a row has as its image, caption or references.

    Raises:
        InputError: where it has none.
    """
    key = getattr(finder.columns, usual)
    if key != usual:
        return _look_up(row, finder, key, usual, where)

    name = finder.find(usual, row)
    if name is None:
        keys = shorten(", ".join(row))
        judged = find_judgements(row)
        advice = f"; {describe_judgements(judged)}" if judged else ""
        raise InputError(
            f"{where}: '{usual}' is missing; columns.{usual}=KEY names another key; there are: {keys or 'none'}{advice}"
        )
    return row[name]


def _look_up(row: Mapping[str, Any], finder: NameFinder, key: str, usual: str, where: str) -> Any:
    """Return what stands under `a.b.c` in nested objects, else under a usual name; a list of one object is that object.

    Raises:
        InputError: where there is neither.
    """
    value: Any = row
    # A key may have a dot in it, and then stands for itself.
    parts = [key] if key in row else key.split(".")
    for part in parts:
        value = only(value)
        if not isinstance(value, Mapping) or part not in value:
            name = finder.find(usual, row)
            if name is not None:
                return row[name]
            keys = ", ".join(value) if isinstance(value, Mapping) else "nothing, as it is no object"
            raise InputError(
                f"{where}: columns.{usual}={key}: '{part}' is not there; what is there: {shorten(keys)}"
            )
        value = value[part]

    # A list of one reference stays a list.
    return value if usual == "references" else only(value)


def find_sample(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the sample in a line of lmms-eval's, or in a conversation; other objects stay.

    lmms-eval's lines have an object with `image_id`, `pred` and `answer` below each metric, such as `coco_CIDEr`.

    Args:
        row: an object, or the cells of a table by column.
        where: its place, for messages.

    Raises:
        InputError: where it is a conversation in which the machine says nothing.
    """
    if "filtered_resps" not in row:
        return with_answer(row, where)
    if "image_id" in row:
        return row

    for nested in row.values():
        if isinstance(nested, dict) and {"image_id", "pred"} <= nested.keys():
            sample = {"image_id": nested["image_id"], "caption": only(nested["pred"])}
            if "answer" in nested:
                sample["references"] = nested["answer"]
            return sample

    # Of a task without captioning's metrics the question stands in `doc`, with its references.
    question = row.get("doc")
    if isinstance(question, dict):
        return {**question, "prediction": only(row["filtered_resps"])}
    return row
