"""The columns of a shard of a large set, which are found by the names that small files may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .caption_names import NameFinder
from .table import Columns


@dataclass(frozen=True)
class FoundColumns:
    """The columns of a shard.

    Attributes:
        columns: their names.
        notes: sentences on those with other names than the usual, and on those that are not read.
    """

    columns: Columns
    notes: tuple[str, ...] = ()


def find_columns(
    samples: Mapping[str, Any],
    columns: Columns,
    required: Sequence[str],
    file_name: str,
    *,
    is_text: bool = False,
) -> FoundColumns:
    """Return the columns of a shard: those that the user named, else those of the names that files give them.

    Args:
        samples: a value of each column: a row, or what `sample_types` returns.
        columns: the names that the user gave, else the usual ones.
        required: what is read, by its usual name; a shard of captions has `caption` in it.
        file_name: what notes call the shard.
        is_text: whether it is CSV, where lists are written as texts.
    """
    references = NameFinder(columns, "references")
    finder = references
    caption = columns.caption
    if "caption" in required:
        finder = NameFinder(columns, "caption")
        caption = _find_name(finder, samples, "caption")
        finder.note_unread(samples, caption)
    image_id = _find_name(finder, samples, "image_id")

    # A text under another name is one reference of several rows.
    reference_list = _find_name(references, samples, "references")
    references.used.pop("references", None)
    if not isinstance(samples.get(reference_list), str if is_text else list):
        reference_list = columns.references
    if reference_list != columns.references:
        finder.used["references"] = reference_list

    found = Columns(image_id=image_id, caption=caption, references=reference_list)
    return FoundColumns(found, tuple(finder.describe(file_name)))


def _find_name(finder: NameFinder, samples: Mapping[str, Any], usual: str) -> str:
    named_column = getattr(finder.columns, usual)
    # What the user names has to be there.
    if named_column != usual:
        return named_column
    return finder.find(usual, samples) or usual


def sample_types(schema: pa.Schema) -> dict[str, Any]:
    """Return a value of the type of each column; columns of structs, such as images, are left out."""
    samples: dict[str, Any] = {}
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_struct(kind):
            continue
        samples[field.name] = _sample_type(kind)
    return samples


def _sample_type(kind: Any) -> Any:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_sample_type(kind.value_type)]
    if pa.types.is_null(kind):
        return None

    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return 0 if is_number else "a text"
