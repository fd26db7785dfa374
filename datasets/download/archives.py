"""Zip and tar archives, read so that nothing in one can reach beyond it."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import TracebackType
from typing import IO, Self

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


def open_zip(file: Path | IO[bytes], most_bytes: int = MAX_DIRECTORY_BYTES) -> zipfile.ZipFile:
    """Open a zip, whose directory zipfile reads whole, with hundreds of bytes of memory for a member.

    Args:
        file: its path or content.
        most_bytes: of the directory.

    Raises:
        BadZipFile: where the directory is larger, or the zip is damaged.
    """
    with file.open("rb") if isinstance(file, Path) else nullcontext(file) as stream:
        # The record that `ZipFile` itself goes by; its sixth field is the directory's size.
        end_record = zipfile._EndRecData(stream)  # pyright: ignore[reportAttributeAccessIssue]
    if end_record and end_record[5] > most_bytes:
        raise zipfile.BadZipFile(
            f"its directory has {end_record[5]:,} bytes, where {most_bytes:,} at most are read"
        )
    return zipfile.ZipFile(file)


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
        self._zip: zipfile.ZipFile | None = None
        self._tar: tarfile.TarFile | None = None
        try:
            if zipfile.is_zipfile(path):
                self._zip = open_zip(path)
                entries = [(i.filename, _kind(i)) for i in self._zip.infolist()]
            else:
                self._tar = tarfile.open(path, tarinfo=BoundedHeader)  # noqa: SIM115 - closed by __exit__
                entries = [
                    (m.name, "folder" if m.isdir() else "file" if m.isfile() else "link")
                    for m in islice(self._tar, MAX_MEMBERS + 1)
                ]
            if len(entries) > MAX_MEMBERS:
                self._close()
                raise InputError(
                    f"{path}: more than {MAX_MEMBERS:,} files in it; unpack those that are needed, and name their folder"
                )
        except _BROKEN as error:
            self._close()
            raise self._broken(error) from error
        for name, kind in entries:
            if kind == "link" or not _stays_inside(name):
                self._close()
                raise InputError(
                    f"{path}: '{name}' in it "
                    f"{'is a link or a device' if kind == 'link' else 'would lead out of the folder'}; "
                    f"the archive cannot be trusted; get another copy"
                )
        self.names = [name for name, kind in entries if kind == "file"]

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in the archive, chunk by chunk.

        Raises:
            InputError: where it is damaged.
        """
        try:
            with self._open(name) as stream:
                while chunk := stream.read(_CHUNK):
                    yield chunk
        except _BROKEN as error:
            raise self._broken(error, name) from error

    def _open(self, name: str) -> IO[bytes]:
        if self._zip is not None:
            return self._zip.open(name)
        stream = self._tar.extractfile(name) if self._tar is not None else None
        if stream is None:
            raise tarfile.ReadError("not a regular file")
        return stream

    def _broken(self, error: Exception, name: str = "") -> InputError:
        problem = f"'{name}' in it cannot be read" if name else "not a whole zip or tar archive"
        return InputError(f"{self._path}: {problem} ({error}); it may be truncated; get a new copy")

    def _close(self) -> None:
        for archive in (self._zip, self._tar):
            if archive is not None:
                archive.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()


def _kind(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16  # what Unix says of the file; 0 where another system packed it
    if info.is_dir():
        return "folder"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "link"


def _stays_inside(name: str) -> bool:
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
