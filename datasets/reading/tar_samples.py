"""The samples of a WebDataset's tar: neighbouring members with one name up to the first dot."""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from tarfile import HeaderError, ReadError
from typing import IO, Any, Self

from ..download.archives import BoundedHeader
from ..errors import InputError
from .json_files import MAX_ENTRY_BYTES, entry_too_long
from .packed_files import unpacked

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
        InputError: where such a member is a link, which has no content, or where something follows the archive's end.
    """
    for member in archive:
        # `tarfile` keeps each header that it has read: those of a large archive would fill the memory.
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
    stream: Any = archive.fileobj
    while block := stream.read(tarfile.RECORDSIZE):
        if block.strip(b"\0"):
            raise InputError(
                f"{name}: something follows the end of the archive, such as a second one; "
                f"give each archive its own file, or join them with tar --concatenate"
            )


@dataclass
class Sample:
    """The members of a WebDataset's tar under one key: their endings, and the content of those that are read."""

    key: str
    endings: set[str]
    parts: dict[str, bytes]


def read_samples(path: Path, name: str, *, images: bool) -> Iterator[Sample]:
    """Yield the samples of a tar that have a caption: neighbours whose names are equal up to the first dot.

    Args:
        images: whether to read images too.

    Raises:
        CorruptError: where the archive ends too early.
        InputError: where a caption would be lost, since a member is there twice or its name has further dots.
    """
    sample = Sample("", set(), {})
    with (
        path.open("rb") as packed,
        unpacked(packed, name) as stream,
        open_tar(stream) as archive,
    ):
        for member, key, ending in list_members(archive, name):
            if key != sample.key:
                if not sample.endings.isdisjoint(CAPTION_ENDINGS):
                    yield sample
                sample = Sample(key, set(), {})
            if ending in sample.endings:
                raise InputError(f"{name}: member '{member.name}' is there twice; keep one")
            sample.endings.add(ending)
            if ending not in CAPTION_ENDINGS and ending.rpartition(".")[2] in CAPTION_ENDINGS:
                raise InputError(
                    f"{name}: member '{member.name}' has dots in its name; a sample's name ends at the first dot, and "
                    f"'.{ending}' is no ending of a caption (.{', .'.join(CAPTION_ENDINGS)}); rename it"
                )
            if ending in CAPTION_ENDINGS or (images and ending in IMAGES):
                if member.size > MAX_ENTRY_BYTES:
                    raise entry_too_long(f"{name}: member '{member.name}'")
                content = archive.extractfile(member)
                sample.parts[ending] = content.read() if content else b""
    if not sample.endings.isdisjoint(CAPTION_ENDINGS):
        yield sample
