"""Zip and tar archives, read so that nothing in one can reach beyond it."""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, Self

from ..errors import InputError

#: What zipfile and tarfile raise at an archive that is damaged, encrypted or of an unknown method.
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)
_CHUNK = 1 << 20
#: The most members of an archive (COCO's images of one split are 82,783), and the most bytes of a zip's directory.
MAX_MEMBERS, MAX_DIRECTORY_BYTES = 100_000, 16 << 20
#: The most bytes of a tar's headers that hold a name or attributes.
_MAX_HEADER_BYTES = 1 << 20
_LONG_HEADERS = (*b"LKxgX",)


class BoundedHeader(tarfile.TarInfo):
    """A member's header in a tar, whose long name is read only if it is no bomb."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type[0] in _LONG_HEADERS and header.size > _MAX_HEADER_BYTES:
            raise tarfile.HeaderError(f"a name of {header.size:,} bytes")
        return header


class _BoundedReader(io.BufferedReader):
    """A zip's bytes, of which no more than `most_bytes` are read at once as long as that is a number."""

    most_bytes: int | None

    def read(self, size: int | None = -1) -> bytes:
        if self.most_bytes is not None and size is not None and size > self.most_bytes:
            raise zipfile.BadZipFile(
                f"its directory has {size:,} bytes, where {self.most_bytes:,} at most are read"
            )
        return super().read(size)


@contextmanager
def open_zip(
    file: Path | io.BytesIO, most_bytes: int = MAX_DIRECTORY_BYTES
) -> Generator[zipfile.ZipFile]:
    """Open a zip, whose directory zipfile reads at once, with hundreds of bytes of memory for a member.

    Args:
        file: its path or content.
        most_bytes: of the directory.

    Raises:
        BadZipFile: where the directory is larger, or the zip is damaged.
    """
    raw: Any = io.FileIO(file) if isinstance(file, Path) else file
    with _BoundedReader(raw) as reader:
        reader.most_bytes = most_bytes
        with zipfile.ZipFile(reader) as archive:
            reader.most_bytes = None
            yield archive


def is_archive(path: Path) -> bool:
    """Tell whether a file is a zip or a tar archive, packed or not, whatever its name says."""
    if zipfile.is_zipfile(path):
        return True
    try:
        with tarfile.open(path, tarinfo=BoundedHeader):
            return True
    except tarfile.TarError as error:
        return isinstance(error, tarfile.HeaderError)  # `Archive` says what is wrong


class Archive:
    """The files in an archive; a context manager.

    Nothing is ever unpacked by the names inside: a caller reads a member and decides where to write
    it. An archive with a name or a link that leads out of the folder is still refused whole.

    Attributes:
        names: of the regular files in it.

    Raises:
        InputError: where the archive is damaged or not to be read, or a name in it is absolute or
            holds `..`, or a member is a link or a device.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with ExitStack() as stack:
            try:
                entries = (
                    self._list_zip(stack) if zipfile.is_zipfile(path) else self._list_tar(stack)
                )
            except _BROKEN as error:
                raise self._broken(error) from error
            if len(entries) > MAX_MEMBERS:
                raise InputError(
                    f"{path}: more than {MAX_MEMBERS:,} files in it; unpack those that are needed, and name their folder"
                )
            for name, kind in entries:
                if kind == "link" or not stays_inside(name):
                    fault = (
                        "is a link or a device"
                        if kind == "link"
                        else "would lead out of the folder"
                    )
                    raise InputError(
                        f"{path}: '{name}' in it {fault}; the archive cannot be trusted; get another copy"
                    )
            self._stack = stack.pop_all()
        self.names = [name for name, kind in entries if kind == "file"]

    def _list_zip(self, stack: ExitStack) -> list[tuple[str, str]]:
        """Open a zip, and return the names and kinds of its members."""
        archive = stack.enter_context(open_zip(self._path))
        self._open: Callable[[str], IO[bytes] | None] = archive.open
        return [(info.filename, find_member_kind(info)) for info in archive.infolist()]

    def _list_tar(self, stack: ExitStack) -> list[tuple[str, str]]:
        """Open a tar, and return the names and kinds of its members."""
        archive = stack.enter_context(tarfile.open(self._path, tarinfo=BoundedHeader))  # noqa: SIM115
        self._open = archive.extractfile
        return [
            (member.name, "folder" if member.isdir() else "file" if member.isfile() else "link")
            for member in islice(archive, MAX_MEMBERS + 1)
        ]

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in the archive, chunk by chunk.

        Raises:
            InputError: where it is damaged.
        """
        try:
            with self._open(name) or io.BytesIO() as stream:
                while chunk := stream.read(_CHUNK):
                    yield chunk
        except _BROKEN as error:
            raise self._broken(error, name) from error

    def _broken(self, error: Exception, name: str = "") -> InputError:
        problem = f"'{name}' in it cannot be read" if name else "not a whole zip or tar archive"
        return InputError(f"{self._path}: {problem} ({error}); it may be truncated; get a new copy")

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def find_member_kind(info: zipfile.ZipInfo) -> str:
    """Return whether a member is a `folder`, a plain `file` or, as anything else counts, a `link`."""
    mode = info.external_attr >> 16  # what Unix says of the file; 0 where another system packed it
    if info.is_dir():
        return "folder"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "link"


def stays_inside(name: str) -> bool:
    """Tell whether a member's name is relative and never climbs, as read by Unix and by Windows."""
    windows = PureWindowsPath(name)
    return not (
        PurePosixPath(name).is_absolute() or windows.drive or windows.root or ".." in windows.parts
    )


def choose(name: str, archive_names: list[str]) -> str | None:
    """Return the full name of a member: `name` itself, else the only one that ends in it."""
    if name in archive_names:
        return name
    ends = [n for n in archive_names if n.endswith(f"/{name}")]
    return ends[0] if len(ends) == 1 else None
