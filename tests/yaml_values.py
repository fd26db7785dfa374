"""Values of each type of YAML's in each key of a file, for tests of what a file may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: A value of each type of YAML's.
VALUES = (None, True, 3.5, "one", ["a"], [[]], {"a": 1})

Path = tuple[str | int, ...]


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the keys that lead to each value of a file, the file itself first."""
    yield path
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield from paths_of(entry, (*path, key))


def name_of(path: Path) -> str:
    """Return the name of a value as messages have it: `tables[1].title`."""
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path)[1:]


def replaced(value: Any, path: Path, new: Any) -> Any:
    """Return a file with another value at the end of a path."""
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy
