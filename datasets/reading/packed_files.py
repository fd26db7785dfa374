"""Files packed by gzip, bzip2, xz, Zstandard or LZ4, which are known by their first bytes whatever their names say."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

from ..errors import InputError

#: How packings are called, by the bytes that packed files begin with.
_NAMES = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
}
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
    packing = find_packing(packed.read(6))
    packed.seek(0)
    if packing is None:
        yield packed
        return
    try:
        yield _open(packed, packing)
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
    if find_packing(data) is None:
        return data
    with unpacked(io.BytesIO(data), name) as stream:
        content = stream.read(n_bytes + 1)
    if len(content) > n_bytes:
        raise InputError(f"{name}: more than {n_bytes >> 20:,} MB when it is unpacked; unpack it")
    return content


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

    import pyarrow as pa

    codec = {"Zstandard": "zstd", "LZ4": "lz4"}[packing]
    stream: Any = pa.CompressedInputStream(pa.PythonFile(_KeptOpen(packed), mode="r"), codec)
    return io.BufferedReader(stream, 1 << 20)
