"""Values of each type of YAML's in each key of a file, for tests of what a file may hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from captau.datasets.errors import InputError

#: A value of each type of YAML's.
VALUES = (None, True, 3.5, "one", ["a"], [[]], {"a": 1})

Keys = tuple[str | int, ...]


def paths_of(value: Any, path: Keys = ()) -> Iterator[Keys]:
    """Yield the keys that lead to each value of a file, the file itself first."""
    yield path
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield from paths_of(entry, (*path, key))


def name_of(path: Keys) -> str:
    """Return the name of a value as messages have it: `tables[1].title`."""
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path)[1:]


def replaced(value: Any, path: Keys, new: Any) -> Any:
    """Return a file with another value at the end of a path."""
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def check_change(read: Callable[[], Any], path: Path, content: Any, keys: Keys, value: Any) -> None:
    """Check that a file with one value changed is read, or that one line names it, its line and a field."""
    path.write_text(yaml.safe_dump(replaced(content, keys, value)))
    message = ""
    try:
        read()
    except InputError as error:
        message = str(error)

    is_named = re.match(rf"{re.escape(str(path))}:\d+: ", message) and "\n" not in message
    assert not message or is_named, (name_of(keys), value, message)
    # A list of lists, or a mapping, is never taken for a text or a number.
    for key in keys:
        content = content[key]
    if not isinstance(content, dict | list) and isinstance(value, dict | list) and value != ["a"]:
        assert message, (name_of(keys), value)
