"""Files packed by gzip, bzip2, xz, Zstandard, LZ4 or zip (of one file), and UTF-16, known by their first bytes whatever their names say."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from ..errors import InputError

#: How packings are called, by the bytes that packed files begin with.
_NAMES = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
}
_ZIP = b"PK\x03\x04"
#: The methods of packing in zip archives that Python reads.
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
#: The marks with which wide text begins, and its code; that of UTF-32 begins as that of UTF-16 does.
_WIDE_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
#: The beginnings of wide text without a mark, whose first letters are of ASCII.
_WIDE_LETTERS = (
    (re.compile(rb"(?:[\t\n\r -~]\0\0\0){2}"), "utf-32-le"),
    (re.compile(rb"(?:\0\0\0[\t\n\r -~]){2}"), "utf-32-be"),
    (re.compile(rb"(?:[\t\n\r -~]\0){4}"), "utf-16-le"),
    (re.compile(rb"(?:\0[\t\n\r -~]){4}"), "utf-16-be"),
)
#: So many bytes tell the code of a text.
_HEAD = 16
#: The endings of packed files' names.
PACKED_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".lz4")


class DamagedError(InputError):
    """A packed file is cut short or damaged."""


def without_packing(name: str) -> str:
    """Return a file's name without the ending of a packing: `a.jsonl` of `a.jsonl.gz`."""
    ending = next((e for e in PACKED_ENDINGS if name.lower().endswith(e)), "")
    return name[: len(name) - len(ending)]


def find_packing(head: bytes) -> str | None:
    """Return the name of the packing of a file that begins so; None where it is none."""
    return next((name for first, name in _NAMES.items() if head.startswith(first)), None)


@contextmanager
def unpacked(packed: IO[bytes], name: str) -> Generator[IO[bytes]]:
    """Yield the content of a file from its beginning, unpacked as it is read.

    Args:
        packed: the file; it stays open.
        name: how messages call it.

    Raises:
        DamagedError: where a packed file is cut short or damaged, also while the block reads it.
    """
    packed.seek(0)
    head = packed.read(_HEAD)
    packing = "zip" if _is_zip_of_one_file(packed, head) else find_packing(head)
    packed.seek(0)
    if packing is None:
        yield _as_utf8(packed, head, name)
        return
    try:
        stream = _open(packed, packing)
        # All streams that `_open` returns can peek, which their type does not say.
        begins = getattr(stream, "peek")(_HEAD)  # noqa: B009
        yield _as_utf8(stream, begins[:_HEAD], name)
    except BadZipFile as error:
        raise DamagedError(f"{name}: not a complete zip file ({error}); get a new copy") from error
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's
            raise
        raise DamagedError(
            f"{name}: not a complete {packing} file ({error}); get a new copy"
        ) from error


def unpack(data: bytes, name: str, n_bytes: int) -> bytes:
    """Return the content of a file that is in memory.

    Args:
        data: the file.
        name: how messages call it.
        n_bytes: the most that the content of a packed file may have.

    Raises:
        InputError: where a packed file is cut short or damaged, or has more bytes.
    """
    is_wide = _find_wide_code(data[:_HEAD]) is not None
    if find_packing(data) is None and not is_wide and not data.startswith(_ZIP):
        return data
    with unpacked(io.BytesIO(data), name) as stream:
        content = stream.read(n_bytes + 1)
    if len(content) > n_bytes:
        raise InputError(f"{name}: more than {n_bytes >> 20:,} MB when it is unpacked; unpack it")
    return content


def _files_in(archive: ZipFile) -> list[ZipInfo]:
    """Return the files of an archive but for what macOS adds."""
    files: list[ZipInfo] = []
    for entry in archive.infolist():
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/"):
            files.append(entry)
    return files


def _is_zip_of_one_file(packed: IO[bytes], head: bytes) -> bool:
    """Return whether a file is a zip archive of one file, which needs no password."""
    if not head.startswith(_ZIP):
        return False
    try:
        files = _files_in(ZipFile(packed))
    except (BadZipFile, ValueError):
        return False
    if len(files) != 1:
        return False
    is_encrypted = bool(files[0].flag_bits & 1)
    return files[0].compress_type in _ZIP_METHODS and not is_encrypted


def _find_wide_code(head: bytes) -> str | None:
    """Return the code of text of two or four bytes a letter that begins so; None for other text."""
    for mark, code in _WIDE_MARKS:
        if head.startswith(mark):
            return code

    return next((code for pattern, code in _WIDE_LETTERS if pattern.match(head)), None)


def _as_utf8(stream: IO[bytes], head: bytes, name: str) -> IO[bytes]:
    """Return text that begins so as UTF-8: as it is, or, of UTF-16 as Excel writes it and UTF-32, in that code."""
    code = _find_wide_code(head)
    return stream if code is None else io.BufferedReader(_Utf8(stream, code, name), 1 << 16)


class _Utf8(io.RawIOBase):
    """A stream that reads UTF-16 or UTF-32 from another and gives it as UTF-8 without its mark."""

    def __init__(self, stream: IO[bytes], code: str, name: str) -> None:
        self._stream = stream
        self._name = name
        self._code = code
        self._decoder = codecs.getincrementaldecoder(code)()
        self._unread = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, up to the buffer's size."""
        while not self._unread:
            data = self._stream.read(1 << 16)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                # Without the order of bytes: `UTF-16` of `utf-16-le`.
                standard = self._code[: len("utf-16")].upper()
                raise DamagedError(
                    f"{self._name}: not complete {standard} text; get a new copy"
                ) from error
            self._unread = text.encode("utf-8")
            if not data:
                break

        piece = self._unread[: len(buffer)]
        self._unread = self._unread[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


class _KeptOpen(io.RawIOBase):
    """A stream that reads another and leaves it open when it is closed itself, as Arrow does with what it reads."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, up to the buffer's size."""
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _open(packed: IO[bytes], packing: str) -> IO[bytes]:
    if packing == "gzip":
        return gzip.GzipFile(fileobj=packed, mode="rb")  # pyright: ignore[reportReturnType]
    if packing == "bzip2":
        return bz2.BZ2File(packed)
    if packing == "xz":
        return lzma.LZMAFile(packed)
    if packing == "zip":
        archive = ZipFile(packed)
        return archive.open(_files_in(archive)[0])

    import pyarrow as pa

    codec = {"Zstandard": "zstd", "LZ4": "lz4"}[packing]
    stream: Any = pa.CompressedInputStream(pa.PythonFile(_KeptOpen(packed), mode="r"), codec)
    return io.BufferedReader(stream, 1 << 20)
