"""Files packed by gzip, bzip2, xz, Zstandard, LZ4 or zip (of one file), and UTF-16, known by their first bytes whatever their names say."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
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
#: The marks with which UTF-16 begins.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
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
    head = packed.read(6)
    packing = "zip" if _is_zip_of_one_file(packed, head) else find_packing(head)
    packed.seek(0)
    if packing is None:
        yield _as_utf8(packed, name) if head.startswith(_UTF_16) else packed
        return
    try:
        stream = _open(packed, packing)
        begins = getattr(stream, "peek")(2)  # noqa: B009
        yield _as_utf8(stream, name) if begins.startswith(_UTF_16) else stream
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
    if find_packing(data) is None and not data.startswith((_ZIP, *_UTF_16)):
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


def _as_utf8(stream: IO[bytes], name: str) -> IO[bytes]:
    """Return UTF-16 text, as Excel writes it, as UTF-8."""
    return io.BufferedReader(_Utf8(stream, name), 1 << 16)


class _Utf8(io.RawIOBase):
    """A stream that reads UTF-16 from another and gives it as UTF-8 without its mark."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-16")()
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
                raise DamagedError(
                    f"{self._name}: not complete UTF-16 text; get a new copy"
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
