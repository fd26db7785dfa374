"""The names that files give to images, captions and references, and how a row's are found."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping
from typing import Any

from ..errors import InputError, shorten
from .table import USUAL_COLUMNS, Columns

#: What files call each column, the usual name first. `index`, `prediction` and `answer` are VLMEvalKit's, and count
#: together alone.
ALIASES: dict[str, tuple[str, ...]] = {
    "image_id": (
        "image_id",
        "image",
        "file_name",
        "filename",
        "image_name",
        "img",
        "img_id",
        "video_id",
        "video",
        "audio_id",
    ),
    # `comment` is Flickr30k's on Kaggle.
    "caption": (
        "caption",
        "caption_predicted",
        "predicted_caption",
        "generated_caption",
        "prediction",
        "pred",
        "comment",
    ),
    "references": ("references", "refs", "reference_strs", "captions", "gts"),
}
_VLMEVALKIT = {"image_id": "index", "caption": "prediction", "references": "answer"}
#: Columns of one reference each: Clotho's `caption_1` to `caption_5`, and the like.
_NUMBERED = re.compile(r"((?:caption|reference|ref|comment|sentence)s?)([_ .]?)(\d+)")


class NameFinder:
    """Finds the columns of a file, and remembers which of them had another name than the usual one.

    Attributes:
        columns: the names that the user gave.
        used: what was found under another name than the usual, which the user did not give.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.used: dict[str, str] = {}

    def find(self, usual: str, names: Collection[str]) -> str | None:
        """Return the column of images, captions or references, by its usual name; None where there is none."""
        given = getattr(self.columns, usual)
        if given != usual and given in names:
            return given
        if usual in names:
            return usual

        is_vlmevalkit = all(name in names for name in _VLMEVALKIT.values())
        if is_vlmevalkit and "image_id" not in names:
            return _VLMEVALKIT[usual]
        for alias in ALIASES[usual]:
            if alias in names:
                self.used[usual] = alias
                return alias

        return None

    def find_numbered(self, names: Collection[str]) -> list[str]:
        """Return the columns of one reference each: those of the pattern that the user gave, else `caption_1` and the like."""
        pattern = self.columns.references
        if "*" in pattern:
            return [name for name in names if fnmatch.fnmatchcase(name, pattern)]

        matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
        numbered = {match[0] for match in matches}
        # The plain name is the first of `caption, caption_2, caption_3`, and of pandas' `caption, caption.1` for equal
        # heads. Beside `caption_1` it may be the other side's.
        numbered_from_one = {
            match[1] for match in matches if match[3] in ("0", "1") and match[2] != "."
        }
        numbered |= {match[1] for match in matches} - numbered_from_one

        found = [name for name in names if name in numbered]
        return found if len(found) > 1 else []

    def describe(self) -> str:
        """Say which columns had another name than the usual; empty where none had."""
        parts = [f"{usual} is '{name}'" for usual, name in self.used.items()]
        return ", ".join(parts)


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
    sample = find_sample(row) if finder.columns == USUAL_COLUMNS else row
    found: dict[str, Any] = {"image_id": _find_value(sample, finder, "image_id", where)}
    if "system" in sample:
        found["system"] = sample["system"]
    if content == "caption":
        found["caption"] = _find_value(sample, finder, "caption", where)
        return found

    given = finder.columns.references
    texts = None
    if given == "references" or "*" in given or given.partition(".")[0] not in sample:
        texts = find_reference_texts(sample, finder)
    if texts is not None:
        found["references"] = texts
    elif given.partition(".")[0] not in sample and finder.find("caption", sample) is not None:
        # One row a reference; BLIP's files have all of an image in a list.
        value = _find_value(sample, finder, "caption", where)
        found["references" if isinstance(value, list) else "caption"] = value
    else:
        found["references"] = _find_value(sample, finder, "references", where)
    return found


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


def is_name(key: str, value: Any) -> bool:
    """Tell whether a member of an object that describes an image may be a name or an id of it."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False

    return key.endswith(("id", "name", "image")) and key != "license_id"


def only(value: Any) -> Any:
    """Return the element of a list of one, however deep; other values stay."""
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value


def _is_filled(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value.strip())


def _find_value(row: Mapping[str, Any], finder: NameFinder, usual: str, where: str) -> Any:
    given = getattr(finder.columns, usual)
    if given != usual:
        return _look_up(row, finder, given, usual, where)

    name = finder.find(usual, row)
    if name is None:
        keys = shorten(", ".join(row))
        raise InputError(
            f"{where}: '{usual}' is missing; columns.{usual}=KEY names another key; there are: {keys or 'none'}"
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


def find_sample(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sample in a line of lmms-eval's; other objects stay.

    These lines have an object with `image_id`, `pred` and `answer` below each metric, such as `coco_CIDEr`.
    """
    if "image_id" in row or "filtered_resps" not in row:
        return row

    for nested in row.values():
        if isinstance(nested, dict) and {"image_id", "pred"} <= nested.keys():
            sample = {"image_id": nested["image_id"], "caption": only(nested["pred"])}
            if "answer" in nested:
                sample["references"] = nested["answer"]
            return sample

    return row
