"""Readers of text and JSON files whose errors name the file and the line, and checks of their fields."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import InputError, shorten
from ..schema import Scale, format_rating, on_scale
from .file_kinds import describe_foreign
from .json_faults import describe_encoded_twice, find_fault
from .packed_files import unpack
from .source_files import refuse_device

#: Of JSON's escapes, in no group what UTF-8 cannot hold: half of a surrogate pair.
_ESCAPES = re.compile(
    r"(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\(?!ud[89a-f]).)|\\ud[0-9a-f]{3}", re.IGNORECASE
)


#: The longest line of JSON lines, and the longest entry of a JSON file, in bytes. No caption comes near; a small
#: packed file may hold gigabytes.
MAX_ENTRY_BYTES = 1 << 27
#: The most bytes of a packed file that is read whole.
_MAX_UNPACKED_BYTES = 1 << 29
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
    """Read a UTF-8 file whole; a packed one is unpacked.

    Raises:
        InputError: where it cannot be opened or unpacked, or is not UTF-8 (with the line).
    """
    refuse_device(path)
    try:
        data = unpack(path.read_bytes(), str(path), _MAX_UNPACKED_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    if b"\0" in data and not describe_foreign(data):
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise InputError(
            f"{path}:{line}: NUL bytes, which text has none of; the file is damaged; get a new copy"
        )

    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        foreign = describe_foreign(data)
        if foreign:
            raise InputError(f"{path}: {foreign}") from error
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


#: What takes a fault after which reading goes on.
Report: TypeAlias = Callable[[InputError], None]


def raise_fault(error: InputError) -> None:
    """Raise a fault: the report of a reader that stops at the first."""
    raise error


def json_lines(
    stream: Iterable[bytes], name: str, report: Report = raise_fault
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON lines with their line numbers, blank lines passed over.

    Lines end at `\\n` alone: U+2028 and its like are legal inside a JSON string.

    Args:
        stream: the lines.
        name: how messages call the file.
        report: takes the fault of a line that is no JSON object, after which reading goes on.

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

        # Files that were written one behind the other have a mark each.
        line = line.lstrip("\ufeff")
        if not line.strip():
            n_blank += 1
            if n_blank > _MAX_BLANK_LINES:
                raise InputError(
                    f"{name}:{number}: more than {_MAX_BLANK_LINES:,} blank lines; take them out"
                )
            continue

        n_blank = 0
        try:
            row = parsed(line, name, number)
            if not isinstance(row, dict):
                kind = type(row).__name__
                advice = describe_encoded_twice(row)
                raise InputError(f"{name}:{number}: an object is expected, not {kind}{advice}")
        except InputError as error:
            report(error)
            continue
        yield number, row


def _bounded_lines(stream: Iterable[bytes]) -> Iterable[bytes]:
    """Return the lines of a stream, no more of one than tells that it is too long."""
    readline = getattr(stream, "readline", None)
    if readline is None:
        return stream

    return iter(lambda: readline(MAX_ENTRY_BYTES + 1), b"")


class TwiceError(ValueError):
    """An object has a key twice."""


def appears_twice(where: str, key: str) -> InputError:
    """Return the error for a key that an object has twice."""
    return InputError(f"{where}: '{key}' appears twice in one object; keep one of them")


def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, as an `object_pairs_hook`.

    Raises:
        TwiceError: of a key that stands twice.
    """
    row = dict(pairs)
    if len(row) < len(pairs):
        raise TwiceError(Counter(key for key, _ in pairs).most_common()[0][0])

    return row


#: Reads lines. `json.loads` would make a decoder for each line, which takes longer than reading a short one.
_DECODER = json.JSONDecoder(object_pairs_hook=only_once)


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
    # Most files have no such escape, which a search tells sooner than the expression.
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPES.sub(lambda escape: escape[1] or r"\ufffd", text)

    try:
        if line:
            return _DECODER.decode(text)
        return json.loads(text, object_pairs_hook=only_once)
    except TwiceError as error:
        raise appears_twice(where, str(error)) from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply; get a new copy of the file") from error
    except json.JSONDecodeError as error:
        position, words = find_fault(text, error.pos, error.msg)
        line_number = line or 1 + text.count("\n", 0, position)
        raise InputError(f"{name}:{line_number}: {words}") from error
    except ValueError as error:  # of json's own, the one that tells no line
        raise too_many_digits(text, name, line) from error


def too_many_digits(text: str, name: str, line: int = 0, first_line: int = 1) -> InputError:
    """Return the error for a number that Python does not read; `line` is 0 where the text has lines of its own."""
    max_digits = sys.get_int_max_str_digits()
    before = re.split(rf"\d{{{max_digits + 1}}}", text)[0]
    line_number = line or first_line + before.count("\n")
    return InputError(f"{name}:{line_number}: a number of more than {max_digits} digits")


def field(row: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return `row[key]`, checked to be of a kind; an int passes for a float, a bool never for a number.

    Raises:
        InputError: where `row` is no object, lacks the key, or holds another kind there.
    """
    # Nearly always it is of that very kind, which is told quickly.
    if type(row) is dict and type(value := row.get(key)) is kind:
        return value

    if not isinstance(row, dict):
        raise InputError(f"{where}: an object is expected, not {type(row).__name__}")
    if key not in row:
        raise InputError(f"{where}: '{key}' is missing")

    value = row[key]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    accepted = (*kinds, int) if float in kinds else kinds
    is_stray_bool = isinstance(value, bool) and bool not in kinds
    if not isinstance(value, accepted) or is_stray_bool:
        expected = " or ".join(k.__name__ for k in kinds)
        raise InputError(f"{where}: '{key}' is {shorten(repr(value))}, not {expected}")

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
            raise InputError(f"{where}: '{key}' holds {shorten(repr(value))}, not a text")

    return tuple(values)
