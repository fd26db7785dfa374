"""Lookup of rows in files that hold something for each item: scores, embeddings, word lists.

The metrics that read such files call `row_keys`, `index_by_key` and `look_up_all` in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from ..datasets.errors import InputError
from .rows import Rows

Key = tuple[str, ...]
Content = TypeVar("Content")


def row_keys(rows: Rows, columns: Sequence[str], path: str | Path) -> list[Key]:
    """Return each row's key: its cells of these columns, as texts.

    Raises:
        InputError: if the items lack a column.
    """
    missing = [c for c in columns if c not in rows.frame.columns]
    if missing:
        raise InputError(f"{path}: the items to score have no {missing[0]}")
    frame = rows.frame[list(columns)]
    return [tuple(map(str, key)) for key in frame.itertuples(index=False, name=None)]


def index_by_key(
    entries: Iterable[tuple[str, Key, Content]],
    label: str,
    is_same: Callable[[Content, Content], bool],
) -> dict[Key, Content]:
    """Index a file's entries by key, allowing equal ones to repeat.

    Args:
        entries: place (for messages), key and content of each.
        label: the name of one content in messages, such as "score".
        is_same: whether two contents of one key are equal.

    Raises:
        InputError: if two contents of one key differ.
    """
    contents: dict[Key, Content] = {}
    for place, key, content in entries:
        if key in contents and not is_same(contents[key], content):
            raise InputError(f"{place}: two {label}s for {' '.join(key)}; keep one")
        contents.setdefault(key, content)
    return contents


def look_up_all(
    contents: dict[Key, Content], keys: Sequence[Key], label: str, path: str | Path
) -> list[Content]:
    """Return the content of each key.

    Raises:
        InputError: if some keys have none; the message names the first of them and counts all.
    """
    gaps = [key for key in keys if key not in contents]
    if gaps:
        first = ", ".join(" ".join(key) for key in list(dict.fromkeys(gaps))[:3])
        raise InputError(
            f"{path}: no {label} for {first} ({len(gaps)} of {len(keys)} items lack one); every "
            f"item needs one" + (", unless protocol.undefined=drop" if label == "score" else "")
        )
    return [contents[key] for key in keys]
