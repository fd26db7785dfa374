"""Files that hold something for each item: by which key, and that none is missing or there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from ..datasets.errors import InputError
from .rows import Rows

Key = tuple[str, ...]
Found = TypeVar("Found")


def row_keys(rows: Rows, columns: Sequence[str], path: str | Path) -> list[Key]:
    """Each row's key: its cells of these columns, as texts.

    Raises:
        InputError: where the items lack a column.
    """
    lacking = [c for c in columns if c not in rows.frame.columns]
    if lacking:
        raise InputError(f"{path}: the items to score have no {lacking[0]}")
    frame = rows.frame[list(columns)]
    return [tuple(map(str, key)) for key in frame.itertuples(index=False, name=None)]


def index_by_key(
    entries: Iterable[tuple[str, Key, Found]],
    what: str,
    same: Callable[[Found, Found], bool],
) -> dict[Key, Found]:
    """What a file holds, by key; the same thing twice is no fault.

    Args:
        entries: place (for messages), key, and what is there.
        what: what an entry is called in messages.
        same: whether two entries of one key say the same.

    Raises:
        InputError: where they do not.
    """
    found: dict[Key, Found] = {}
    for place, key, one in entries:
        if key in found and not same(found[key], one):
            raise InputError(f"{place}: two {what}s for {' '.join(key)}; keep one")
        found.setdefault(key, one)
    return found


def look_up_all(
    found: dict[Key, Found], wanted: Sequence[Key], what: str, path: str | Path
) -> list[Found]:
    """What was found for each wanted key.

    Raises:
        InputError: where there is none for some of them; the first are named, and all are counted.
    """
    gaps = [key for key in wanted if key not in found]
    if gaps:
        first = ", ".join(" ".join(key) for key in list(dict.fromkeys(gaps))[:3])
        raise InputError(
            f"{path}: no {what} for {first} ({len(gaps)} of {len(wanted)} items lack one); every "
            f"item needs one" + (", unless protocol.undefined=drop" if what == "score" else "")
        )
    return [found[key] for key in wanted]
