"""Readers of text and JSON files whose errors name the file and the line, and checks of their fields."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..schema import Scale, format_rating, on_scale

#: Of JSON's escapes, in no group what UTF-8 cannot hold: half of a surrogate pair.
_ESCAPES = re.compile(
    r"(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\(?!ud[89a-f]).)|\\ud[0-9a-f]{3}", re.IGNORECASE
)


#: The longest line of JSON lines, and the longest entry of a JSON file, in bytes. No caption comes near; a small
#: packed file may hold gigabytes.
MAX_ENTRY_BYTES = 1 << 27
#: The most blank lines between two of JSON lines.
_MAX_BLANK_LINES = 1_000_000
#: The most lists and objects of an entry, or of a file that is read whole: each takes two bytes of a file and 64 in
#: memory. COCO's largest file of annotations has some 3 million.
MAX_CONTAINERS = 5_000_000


def entry_too_long(where: str) -> InputError:
    """Return the error for an entry that is longer than any that people write."""
    return InputError(
        f"{where}: longer than {MAX_ENTRY_BYTES >> 20} MB without an end; not a file of captions"
    )


def has_too_many_containers(text: str) -> bool:
    """Return whether JSON has more lists and objects than any file of captions; brackets in texts count too."""
    return text.count("[") + text.count("{") > MAX_CONTAINERS


def too_many_containers(where: str) -> InputError:
    """Return the error for JSON of more lists and objects than any file of captions has."""
    return InputError(
        f"{where}: more than {MAX_CONTAINERS:,} lists and objects; not a file of captions; get a new copy"
    )


def read_text(path: Path) -> str:
    """Read a UTF-8 file whole.

    Raises:
        InputError: where it cannot be opened or is not UTF-8 (with the line).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from error


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Half of a surrogate pair, which no encoding can hold, becomes U+FFFD; so in JSON lines.

    Raises:
        InputError: where it is truncated or malformed or has a number of thousands of digits (with
            the line), or an object has a key twice, of which JSON readers keep the last without a
            word.
    """
    return parsed(read_text(path), str(path))


def read_json_entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a JSON file that holds a list, each with its place for messages.

    Raises:
        InputError: where the file cannot be read, or holds anything but a list.
    """
    rows = read_json(path)
    if not isinstance(rows, list):
        raise InputError(f"{path}: a list is expected, not {type(rows).__name__}")
    for number, row in enumerate(rows):
        yield f"{path}: entry {number}", row


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON-lines file with their line numbers; see `json_lines`.

    Raises:
        InputError: where the file cannot be read, besides.
    """
    try:
        with path.open("rb") as stream:
            yield from json_lines(stream, str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def json_lines(stream: Iterable[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON lines with their line numbers, blank lines passed over.

    Lines end at `\\n` alone: U+2028 and its like are legal inside a JSON string.

    Raises:
        InputError: at a line that is not UTF-8, is no JSON object or has a key twice, with its number; at
            more blank lines than a person leaves, of which a small packed file may hold thousands of millions.
    """
    n_blank = 0
    for number, raw in enumerate(_bounded_lines(stream), start=1):
        if len(raw) > MAX_ENTRY_BYTES:
            raise entry_too_long(f"{name}:{number}")
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}:{number}: not UTF-8 text; save the file as UTF-8") from error
        if not line.strip():
            n_blank += 1
            if n_blank > _MAX_BLANK_LINES:
                raise InputError(
                    f"{name}:{number}: more than {_MAX_BLANK_LINES:,} blank lines; take them out"
                )
            continue
        n_blank = 0
        row = parsed(line, name, number)
        if not isinstance(row, dict):
            raise InputError(f"{name}:{number}: an object is expected, not {type(row).__name__}")
        yield number, row


def _bounded_lines(stream: Iterable[bytes]) -> Iterable[bytes]:
    """Return the lines of a stream, no more of one than tells that it is too long."""
    readline = getattr(stream, "readline", None)
    return stream if readline is None else iter(lambda: readline(MAX_ENTRY_BYTES + 1), b"")


class TwiceError(ValueError):
    """An object has a key twice."""


def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, as an `object_pairs_hook`.

    Raises:
        TwiceError: of a key that stands twice.
    """
    row = dict(pairs)
    if len(row) < len(pairs):
        raise TwiceError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return row


def parsed(text: str, name: str, line: int = 0) -> Any:
    """Parse the JSON of a whole file, or of one of its lines.

    Args:
        text: the JSON.
        name: how messages call the file.
        line: which line `text` is; 0 where it has lines of its own.

    Raises:
        InputError: as `read_json` has it.
    """
    where = f"{name}:{line}" if line else name
    if has_too_many_containers(text):
        raise too_many_containers(where)
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPES.sub(lambda escape: escape[1] or r"\ufffd", text)
    try:
        return json.loads(text, object_pairs_hook=only_once)
    except TwiceError as error:
        raise InputError(
            f"{where}: '{error}' appears twice in one object; keep one of them"
        ) from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply; get a new copy of the file") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{name}:{line or error.lineno}: not valid JSON ({error.msg}); the file may be truncated, "
            f"get a new copy"
        ) from error
    except ValueError as error:  # of json's own, the one that tells no line
        max_digits = sys.get_int_max_str_digits()
        match = re.search(rf"\d{{{max_digits + 1}}}", text)
        line_number = line or text.count("\n", 0, match.start() if match else 0) + 1
        raise InputError(
            f"{name}:{line_number}: a number of more than {max_digits} digits"
        ) from error


def field(row: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return `row[key]`, checked to be of a kind; an int passes for a float, a bool never for a number.

    Raises:
        InputError: where `row` is no object, lacks the key, or holds another kind there.
    """
    if type(row) is dict and type(value := row.get(key)) is kind:
        return value  # nearly always, and quickly
    if not isinstance(row, dict):
        raise InputError(f"{where}: an object is expected, not {type(row).__name__}")
    if key not in row:
        raise InputError(f"{where}: '{key}' is missing")
    value = row[key]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    accepted = (*kinds, int) if float in kinds else kinds
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(k.__name__ for k in kinds)
        raise InputError(f"{where}: '{key}' is {value!r}, not {expected}")
    return value


def rating(row: Any, key: str, scale: Scale, where: str) -> float:
    """Return the rating under `key`.

    Raises:
        InputError: where it is not a number or not on the scale.
    """
    value = field(row, key, float, where)
    try:
        value = float(value)
    except OverflowError as error:
        raise InputError(f"{where}: '{key}' is too large, not on the scale {scale}") from error
    if not on_scale(scale, value):
        raise InputError(f"{where}: '{key}' is {format_rating(value)}, not on the scale {scale}")
    return value


def texts(row: Any, key: str, where: str) -> tuple[str, ...]:
    """Return the list of texts under `key`, as a tuple.

    Raises:
        InputError: where it is anything else.
    """
    values = field(row, key, list, where)
    for value in values:
        if not isinstance(value, str):
            raise InputError(f"{where}: '{key}' holds {value!r}, not a text")
    return tuple(values)
