"""JSON read piece by piece: a file of any size, gzipped or not, or standard input.

One entry is in memory at a time, and whatever is wrong with one is said with its line.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import re
import shutil
import sys
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from .errors import InputError
from .files import json_lines, only_once, parsed, sha256

#: What stands for standard input.
STDIN = Path("-")

#: How many characters are read at a time, and how much of standard input is kept in memory.
_CHUNK = 1 << 20
_IN_MEMORY = 1 << 26
#: A line longer than this is no line of JSON lines, unless the file's ending says so.
_LINE = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")
#: How near to the end of what was read a thing may be otherwise for what comes after: `-Infinity`.
_NEAR = 16


class Source:
    """A file, or standard input, which may be read more than once; gzip is unpacked.

    Attributes:
        path: where it is; `STDIN` for standard input.
        name: how messages call it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = "standard input" if path == STDIN else str(path)

    @cached_property
    def _kept(self) -> IO[bytes]:
        """Standard input, which is there once, in a file that lasts as long as this."""
        kept = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        shutil.copyfileobj(sys.stdin.buffer, kept)
        return kept

    @property
    def sha256(self) -> str:
        """Of the bytes as they come, packed or not, in hexadecimal."""
        if self.path != STDIN:
            return sha256(self.path)
        self._kept.seek(0)
        digest = hashlib.sha256()
        while chunk := self._kept.read(_CHUNK):
            digest.update(chunk)
        return digest.hexdigest()

    def read(self) -> Iterator[tuple[str, int, Any]]:
        """What is in it, entry by entry.

        Yields:
            `("line", line, object)` for each line of JSON lines; else `("entry", line, value)` for
            each value of a list, `("member", line, (key, value))` for each member of an object, or
            `("value", line, value)`. An object's member `annotations`, where that is a list, is
            `("annotations", line, None)` and then `("annotation", line, value)` for each.

        Raises:
            InputError: where it cannot be read, is not UTF-8, or is no JSON, with the line.
        """
        try:
            yield from self._read()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self.name}: no whole gzip file ({error}); get it anew") from error
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read ({error.strerror})") from error

    def _read(self) -> Iterator[tuple[str, int, Any]]:
        packed = self._kept if self.path == STDIN else self.path.open("rb")
        try:
            packed.seek(0)
            zipped = packed.read(2) == b"\x1f\x8b"
            packed.seek(0)
            stream: Any = gzip.GzipFile(fileobj=packed, mode="rb") if zipped else packed
            lines = self._is_lines(stream)
            stream.seek(0)
            if lines:
                yield from (("line", n, row) for n, row in json_lines(stream, self.name))
            else:
                yield from _Text(stream, self.name).pieces()
        finally:
            if packed is not self.__dict__.get("_kept"):
                packed.close()

    def _is_lines(self, stream: IO[bytes]) -> bool:
        """Whether each line is an object of its own; an ending of .jsonl says so, else the text."""
        name = self.path.name.lower().removesuffix(".gz")
        if name.endswith((".jsonl", ".ndjson")):
            return True
        found = 0
        while found < 2 and (line := stream.readline(_LINE)):
            line = line.strip().removeprefix(codecs.BOM_UTF8)
            if line and not (line.startswith(b"{") and line.endswith(b"}")):
                return False
            found += bool(line)
        return found == 2


class _Text:
    """JSON text, as much of it as is needed, and the line that it has been read to."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.line = 1
        self._stream, self._name = stream, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False
        self._json = json.JSONDecoder(object_pairs_hook=only_once)

    def pieces(self) -> Iterator[tuple[str, int, Any]]:
        """As `Source.read` gives them."""
        kind = self._peek()
        if not kind:
            raise InputError(f"{self._name}:{self.line}: not valid JSON (nothing is in it)")
        if kind == "[":
            for line in self._items("]"):
                yield "entry", line, self._value()
        elif kind == "{":
            yield from self._members()
        else:
            yield "value", self.line, self._value()
        if self._peek():
            raise self._fault("Extra data")

    def _members(self) -> Iterator[tuple[str, int, Any]]:
        seen: set[str] = set()
        for line in self._items("}"):
            if self._peek() != '"':
                raise self._fault("Expecting property name enclosed in double quotes")
            key = self._value()
            if key in seen:
                raise InputError(
                    f"{self._name}:{line}: '{key}' stands twice in one object; keep one"
                )
            seen.add(key)
            self._take(":")
            if self._peek() == "[" and key == "annotations":
                yield "annotations", line, None
                for inside in self._items("]"):
                    yield "annotation", inside, self._value()
            else:
                yield "member", line, (key, self._value())

    def _items(self, closing: str) -> Iterator[int]:
        """The line of each item of a list or object, which the caller reads."""
        self._advance(self._at + 1)
        if self._peek() == closing:
            self._advance(self._at + 1)
            return
        while True:
            self._peek()
            yield self.line
            if self._peek() != ",":
                break
            self._advance(self._at + 1)
        self._take(closing)

    def _take(self, char: str) -> None:
        if self._peek() != char:
            raise self._fault(f"Expecting '{char}' delimiter")
        self._advance(self._at + 1)

    def _peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            match = _BLANKS.match(self._text, self._at)
            self._advance(match.end() if match else self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more()

    def _value(self) -> Any:
        self._peek()
        while True:
            text = self._text
            try:
                value, end = self._json.raw_decode(text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos > len(text) - _NEAR or error.msg.startswith("Unterminated string")
                if self._ended or not cut:
                    self._advance(error.pos)
                    raise self._fault(error.msg) from error
            except (ValueError, RecursionError):
                parsed(text[self._at :], self._name, self.line)  # says it in a line
                raise
            else:
                if end < len(text) - _NEAR or self._ended:  # a number may go on: 1.5
                    self._advance(end)
                    return value
            self._more()

    def _advance(self, at: int) -> None:
        self.line += self._text.count("\n", self._at, at)
        self._at = at

    def _more(self) -> None:
        left = self._text[self._at :]
        data = self._stream.read(max(_CHUNK, len(left)))  # a long value is read in few steps
        self._ended = not data
        try:
            self._text, self._at = left + self._decoder.decode(data, final=self._ended), 0
        except UnicodeDecodeError as error:
            line = self.line + left.count("\n") + error.object.count(b"\n", 0, error.start)
            raise InputError(
                f"{self._name}:{line}: not UTF-8 text; save the file as UTF-8"
            ) from error

    def _fault(self, what: str) -> InputError:
        return InputError(
            f"{self._name}:{self.line}: not valid JSON ({what}); the file may be truncated, get it anew"
        )
