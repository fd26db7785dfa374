"""Members of a WebDataset's tar, whose samples are neighbours with one name up to the first dot."""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Iterator
from tarfile import HeaderError, ReadError
from typing import IO, Self

from ..download.archives import BoundedHeader
from ..errors import InputError

#: The endings under which a sample may hold its caption, as a text or in JSON, and its image.
TEXT_ENDINGS = ("txt", "caption")
CAPTION_ENDINGS = (*TEXT_ENDINGS, "json")
IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp")


class _Header(BoundedHeader):
    """A member's header; `tarfile` itself would take the archive to end at a damaged one."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":  # the end as it should be
                raise
            raise ReadError(f"{error} at byte {tarfile.offset:,}") from error


def open_tar(stream: IO[bytes]) -> tarfile.TarFile:
    """Open a tar whose members are read one after another, to the mark of its end."""
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header)


def list_members(
    archive: tarfile.TarFile, name: str, endings: Collection[str] = CAPTION_ENDINGS
) -> Iterator[tuple[tarfile.TarInfo, str, str]]:
    """Yield the files of a WebDataset's tar with the key of their sample and their ending in lower case.

    The key is the name up to the first dot, the ending what follows. Files that macOS adds (`._NAME`) are passed over.

    Args:
        archive: the tar.
        name: the shard's, for messages.
        endings: of the members that must not be lost.

    Raises:
        InputError: where such a member is a link, which has no content.
    """
    for member in archive:
        # Else it holds every header to its end.
        archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
        folder, _, base = member.name.rpartition("/")
        stem, _, ending = base.partition(".")
        ending = ending.lower()
        if base.startswith("._"):
            continue
        if member.isfile():
            yield member, f"{folder}/{stem}" if folder else stem, ending
        elif (member.issym() or member.islnk()) and ending in endings:
            remedy = "tar --dereference --hard-dereference packs the file"
            raise InputError(f"{name}: member '{member.name}' is a link; {remedy}")
