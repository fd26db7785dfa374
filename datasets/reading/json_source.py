"""JSON of any size, read piece by piece: packed or not, or from standard input; one entry is in memory at a time.

ijson would tell neither the line of a fault nor a key that stands twice.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from ..errors import InputError
from .file_kinds import describe_foreign
from .json_faults import describe_beginning, find_fault, is_logged, is_yaml
from .json_files import (
    MAX_CONTAINERS,
    MAX_ENTRY_BYTES,
    Report,
    TwiceError,
    appears_twice,
    entry_too_long,
    json_lines,
    only_once,
    parsed,
    raise_fault,
    too_many_containers,
    too_many_digits,
)
from .packed_files import unpacked, without_packing
from .source_files import sha256
from .table_folders import list_parts

#: What stands for standard input.
STDIN = Path("-")

#: How many characters are read at a time, and how much of standard input is kept in memory.
_CHUNK = 1 << 20
_IN_MEMORY = 1 << 26
#: A line longer than this is no line of JSON lines, unless the file's ending says so.
_LINE = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
#: How near to the end of what was read a thing may be otherwise for what comes after: `-Infinity`.
_NEAR = 16
#: How a value begins that is no list and no object.
_VALUES = tuple('"-0123456789tfnNI')


class JsonSource:
    """A file, a pipe, standard input or content in memory, which may be read more than once; a packed one is unpacked.

    Attributes:
        path: where it is; `STDIN` for standard input; of content the name that messages use.
        name: how messages call it.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path = path
        self.name = "standard input" if path == STDIN else str(path)
        self._content = content

    @cached_property
    def _spool(self) -> IO[bytes]:
        """The content, or what a pipe gives once, in a file that lasts as long as this."""
        if self._content is not None:
            return io.BytesIO(self._content)

        spool = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        if self.path == STDIN:
            shutil.copyfileobj(sys.stdin.buffer, spool)
        else:
            with self.path.open("rb") as pipe:
                shutil.copyfileobj(pipe, spool)
        return spool

    @property
    def is_file(self) -> bool:
        """Tell whether it is read from its path, as often as it is asked for: a shell's `<(command)` gives its text once."""
        return self._content is None and self.path != STDIN and not self._is_pipe

    @cached_property
    def _is_pipe(self) -> bool:
        return self.path.is_fifo()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes as they come, packed or not, in hexadecimal."""
        if self.is_file and self.path.is_dir():
            # That of a folder is made of those of its files.
            digests = [sha256(part.path) for part in list_parts(self.path)]
            return hashlib.sha256("".join(digests).encode()).hexdigest()
        if self.is_file:
            return sha256(self.path)

        self._spool.seek(0)
        digest = hashlib.sha256()
        chunk = self._spool.read(_CHUNK)
        while chunk:
            digest.update(chunk)
            chunk = self._spool.read(_CHUNK)

        return digest.hexdigest()

    def read(self, report: Report | None = None) -> Iterator[tuple[str, int, Any]]:
        """Yield the content entry by entry.

        Args:
            report: takes a fault after which reading goes on: a broken line, or a key that stands twice. By default it
                is raised.

        Yields:
            `("line", line, object)` for each line of JSON lines; else `("entry", line, value)` for
            each value of a list, `("member", line, (key, value))` for each member of an object, or
            `("value", line, value)`. An object's member that is a list of objects is
            `("list", line, key)` and then `("element", line, (key, value))` for each. Objects one after another are
            lines, and lists one after another are one list.

        Raises:
            InputError: where it cannot be read, is not UTF-8, or is no JSON, with the line.
        """
        try:
            yield from self._read(report or raise_fault)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read ({error.strerror})") from error

    def _read(self, report: Report) -> Iterator[tuple[str, int, Any]]:
        packed = self.path.open("rb") if self.is_file else self._spool
        try:
            with unpacked(packed, self.name) as stream:
                is_lines = self._is_lines(stream)

            with unpacked(packed, self.name) as stream:
                if is_lines:
                    for number, row in json_lines(stream, self.name, report):
                        yield "line", number, row
                else:
                    yield from _JsonText(stream, self.name, report).pieces()
        finally:
            # Standard input is read once, and kept for the next time.
            if packed is not self.__dict__.get("_spool"):
                packed.close()

    def _is_lines(self, stream: IO[bytes]) -> bool:
        """Tell whether each line is an object of its own.

        Of a file whose name ends in .jsonl its first line tells: another one may be broken.
        """
        name = without_packing(self.path.name.lower())
        n_expected = 1 if name.endswith((".jsonl", ".ndjson")) else 2

        # Two lines that are objects as a whole are told from a file of one object that stands on a line.
        n_objects = 0
        n_bytes = 0
        while n_objects < n_expected:
            line = stream.readline(_LINE)
            if not line:
                return n_expected == 1
            n_bytes += len(line)
            if n_bytes > MAX_ENTRY_BYTES:
                return False
            line = line.strip().lstrip(codecs.BOM_UTF8)
            if b"}\r{" in line:  # lines end as on old Macs
                return False
            is_object = line.startswith(b"{") and line.endswith(b"}")
            if line and not is_object:
                # A list, or an object of several lines, is no line of its own.
                return n_expected == 1 and not line.startswith((b"[", b"{"))
            n_objects += 1 if line else 0

        return True


class _JsonText:
    """JSON text, as much of it as is needed, and the line that it has been read to."""

    def __init__(self, stream: IO[bytes], name: str, report: Report) -> None:
        self.line = 1
        self._stream = stream
        self._name = name
        self._report = report
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._position = 0
        self._is_at_end = False
        # The bytes and brackets since the last value.
        self._n_unyielded = 0
        self._n_containers = 0
        self._json = json.JSONDecoder(object_pairs_hook=only_once)

    def pieces(self) -> Iterator[tuple[str, int, Any]]:
        """Yield the pieces as `JsonSource.read` documents them."""
        kind = self._peek()
        beginning = self._text[self._position : self._position + _LINE]
        if not kind:
            raise InputError(f"{self._name}:{self.line}: not valid JSON (nothing is in it)")

        if is_logged(beginning):
            raise InputError(f"{self._name}:{self.line}: {describe_beginning(beginning)}")

        if kind == "[":
            # Each process of a parallel run may have written a list of its own.
            while self._peek() == "[":
                for line in self._items("]"):
                    yield "entry", line, self._value()
        elif kind == "{" and self._is_followed_by_object():
            while self._peek() == "{":
                yield "line", self.line, self._value()
        elif kind == "{":
            yield from self._members()
        elif kind in _VALUES and not is_yaml(beginning):
            line = self.line
            try:
                value = self._value()
            except InputError as error:
                # A word that begins as null, true or a number does.
                if kind == '"':
                    raise
                raise InputError(f"{self._name}:{line}: {describe_beginning(beginning)}") from error
            if self._peek():
                raise InputError(f"{self._name}:{line}: {describe_beginning(beginning)}")
            yield "value", line, value
        else:
            raise InputError(f"{self._name}:{self.line}: {describe_beginning(beginning)}")

        if self._peek():
            raise self._fault("Extra data")

    def _is_followed_by_object(self) -> bool:
        """Tell whether another object stands behind the one that begins here, both within the first megabyte."""
        while len(self._text) - self._position < _LINE and not self._is_at_end:
            self._more()
        try:
            _, end = self._json.raw_decode(self._text, self._position)
        except (ValueError, RecursionError):
            return False

        blanks = _BLANKS.match(self._text, end)
        return blanks is not None and self._text.startswith("{", blanks.end())

    def _members(self) -> Iterator[tuple[str, int, Any]]:
        keys: set[str] = set()
        for line in self._items("}"):
            if self._peek() != '"':
                raise self._fault("Expecting property name enclosed in double quotes")
            key = self._value()
            if key in keys:
                self._report(appears_twice(f"{self._name}:{line}", key))

            keys.add(key)
            self._take(":")

            if self._peek() == "[" and self._is_list_of_objects():
                yield "list", line, key
                for inside in self._items("]"):
                    yield "element", inside, (key, self._value())
            else:
                yield "member", line, (key, self._value())

    def _is_list_of_objects(self) -> bool:
        """Tell whether the list that begins here has an object first."""
        while True:
            blanks = _BLANKS.match(self._text, self._position + 1)
            first = self._position + 1 if blanks is None else blanks.end()
            if first < len(self._text) or self._is_at_end:
                return self._text.startswith("{", first)
            self._more()

    def _items(self, closing: str) -> Iterator[int]:
        """Return the line of each item of a list or object, which the caller reads from its first character."""
        self._advance(self._position + 1)
        if self._peek() == closing:
            self._advance(self._position + 1)
            return

        while True:
            yield self.line
            # A comma with what follows it is nearly always in the text that is there.
            comma = _COMMA.match(self._text, self._position)
            if comma and comma.end() < len(self._text):
                self._advance(comma.end())
                continue
            if self._peek() != ",":
                break
            self._advance(self._position + 1)
            self._peek()

        self._take(closing)

    def _take(self, char: str) -> None:
        if self._peek() != char:
            raise self._fault(f"Expecting '{char}' delimiter")
        self._advance(self._position + 1)

    def _peek(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while True:
            match = _BLANKS.match(self._text, self._position)
            self._advance(match.end() if match else self._position)
            if self._position < len(self._text):
                return self._text[self._position]
            if self._is_at_end:
                return ""
            self._more()

    def _value(self) -> Any:
        """Return the value that begins at the next character, which is not blank."""
        decoder = self._json
        twice: str | None = None
        while True:
            text = self._text
            try:
                value, end = decoder.raw_decode(text, self._position)
            except json.JSONDecodeError as error:
                cut = error.pos > len(text) - _NEAR or error.msg.startswith("Unterminated string")
                if self._is_at_end or not cut:
                    self._advance(error.pos)
                    raise self._fault(error.msg) from error
            except TwiceError as error:
                # The value is read again, by the rule that the last one counts, to find its end.
                twice = str(error)
                decoder = json.JSONDecoder()
                continue
            except RecursionError:
                parsed(text[self._position :], self._name, self.line)  # says it in a line
                raise
            except ValueError as error:
                rest = text[self._position :]
                raise too_many_digits(rest, self._name, first_line=self.line) from error
            else:
                if end < len(text) - _NEAR or self._is_at_end:  # a number may go on: 1.5
                    if twice is not None:
                        self._report(appears_twice(f"{self._name}:{self.line}", twice))
                    self._advance(end)
                    self._n_unyielded = 0
                    self._n_containers = 0
                    return value
            self._more()

    def _advance(self, position: int) -> None:
        self.line += self._text.count("\n", self._position, position)
        self._position = position

    def _more(self) -> None:
        unread_text = self._text[self._position :]
        # A long value is read in few steps, as each of them begins it anew.
        data = self._stream.read(max(_CHUNK, len(unread_text)))
        self._n_unyielded += len(data)
        if self._n_unyielded > MAX_ENTRY_BYTES:
            raise entry_too_long(f"{self._name}:{self.line}")

        self._n_containers += data.count(b"[") + data.count(b"{")
        if self._n_containers > MAX_CONTAINERS:
            raise too_many_containers(f"{self._name}:{self.line}")
        self._is_at_end = not data

        is_beginning = not self._position and not unread_text and self.line == 1
        try:
            text = self._decoder.decode(data, final=self._is_at_end)
            self._text = unread_text + (text.lstrip("\ufeff") if is_beginning else text)
            self._position = 0
        except UnicodeDecodeError as error:
            if is_beginning and (foreign := describe_foreign(data)):
                raise InputError(f"{self._name}: {foreign}") from error
            line = self.line + unread_text.count("\n") + error.object.count(b"\n", 0, error.start)
            raise InputError(
                f"{self._name}:{line}: not UTF-8 text; save the file as UTF-8"
            ) from error

    def _fault(self, problem: str) -> InputError:
        position, words = find_fault(self._text, self._position, problem)
        line = self.line - self._text.count("\n", position, self._position)
        return InputError(f"{self._name}:{line}: {words}")
