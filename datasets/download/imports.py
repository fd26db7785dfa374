"""Taking a dataset's files from what a person got by hand: a folder, an archive or a single file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from .. import registry
from ..errors import InputError
from ..reading.source_files import fits, locate, state
from ..schema import Card, SourceFile
from .archives import Archive, is_archive
from .writing import Note, arriving, locked, silent, write

_CHUNK = 1 << 20


class NothingFoundError(InputError):
    """The folder or archive holds no file of the dataset."""


@dataclass(frozen=True)
class OfferedFile:
    """A file that may be one of ours: its name within what was given, and what it holds."""

    name: str
    chunks: Callable[[], Iterator[bytes]]

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def is_right(self, source: SourceFile) -> bool:
        """Tell whether the file has the hash of a source; it has not where the source has none."""
        if source.sha256 or not source.git_blob:
            return self.sha256 == source.sha256

        # Git hashes a file's size before its content.
        n_bytes = sum(map(len, self.chunks()))
        digest = hashlib.sha1(b"blob %d\0" % n_bytes, usedforsecurity=False)
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest() == source.git_blob


def take(
    card: Card, source_path: Path, root: Path, note: Note = silent, *, is_named: bool = True
) -> list[Path]:
    """Copy a dataset's files into the data folder, from wherever they are inside `source_path`.

    Files are recognised by the names that the authors give them. Where several have a name, the right
    hash decides, then the folders above; a file known to belong to another dataset is passed over.
    A file of another hash than the card's is still taken, since releases differ, and the note says so.

    Args:
        card: the dataset.
        source_path: a folder, a zip or tar archive, or one file.
        root: the data folder.
        note: called with a line for each file.
        is_named: whether the user named this dataset. If not, a file of another hash than the card's
            is passed over, and so is one of a common name (a pattern's) outside a folder, or an
            archive, of the dataset's name.

    Returns:
        The files that were written; one that is there with the right hash stays as it is.

    Raises:
        NothingFoundError: where none of the files is in it.
        InputError: where it cannot be read, two files in it may be the same source, or the
            data folder cannot be written to.
    """
    with ExitStack() as stack:
        entries = _entries(source_path, stack)
        present_sources: list[SourceFile] = []
        matches_by_source: dict[SourceFile, list[tuple[PurePosixPath, OfferedFile]]] = {}
        for source in card.sources:
            if state(root, card, source) == "right":
                present_sources.append(source)
                note(f"{locate(root, card, source)}: is there, and right")
        for source in card.sources:
            if source not in present_sources:
                matches_by_source[source] = _matches(source, entries, source_path, is_named)

        has_matches = any(matches_by_source.values())
        if not present_sources and not has_matches:
            file_names = dict.fromkeys(Path(source.path).name for source in card.sources)
            names = ", ".join(file_names) or "it has none"
            raise NothingFoundError(
                f"dataset {card.name}: {source_path} has none of its files ({names})"
            )

        written: list[Path] = []
        if has_matches:
            with locked(root, note):
                for source, matches in matches_by_source.items():
                    for path, entry in matches:
                        remark = _copy(entry, root / path, source)
                        note(f"{root / path}: from {entry.name}; {remark}")
                        written.append(root / path)
    return written


def _copy(entry: OfferedFile, path: Path, source: SourceFile) -> str:
    """Copy a file, and return a remark about its hash."""
    with arriving(path) as temporary:
        write(entry.chunks(), temporary)
        # Another form of the source has a name of its own, and no hash.
        is_own_form = path.name == Path(source.path).name
        has_right_hash = fits(temporary, source) if is_own_form else None

    if has_right_hash is None:
        return "no hash of it is known"
    if has_right_hash:
        return "of the card's revision"
    return "warning: its hash is not that of the card's revision; captau data verify counts it"


def _entries(source_path: Path, stack: ExitStack) -> list[OfferedFile]:
    if source_path.is_dir():
        files: list[OfferedFile] = []
        for path in sorted(source_path.rglob("*")):
            if path.is_file():
                name = path.relative_to(source_path).as_posix()
                files.append(OfferedFile(name, partial(_read, path)))
        return files
    if not source_path.is_file():
        raise InputError(
            f"source={source_path} does not exist; name a folder, an archive or a file"
        )
    try:
        is_packed = is_archive(source_path)
    except OSError as error:
        raise InputError(f"{source_path}: cannot be read ({error.strerror})") from error
    if is_packed:
        archive = stack.enter_context(Archive(source_path))
        return [OfferedFile(name, partial(archive.chunks, name)) for name in archive.names]
    return [OfferedFile(source_path.name, lambda: _read(source_path))]


def _read(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def shipped_names(source: SourceFile) -> set[str]:
    """Return the lower-case names of a file: in our data folder, and at its authors'."""
    own_path = PurePosixPath(source.path)
    author_paths = [PurePosixPath(source.member)]
    # Of an archive's member the address is the archive's.
    if not source.member:
        for address in (source.url, *source.downloads):
            author_paths.append(PurePosixPath(urlsplit(address).path))

    names: set[str] = set()
    for path in (own_path, *author_paths):
        if path.suffix == own_path.suffix:
            names.add(path.name.lower())
    return names


def _matches(
    source: SourceFile, entries: list[OfferedFile], source_path: Path, is_named: bool
) -> list[tuple[PurePosixPath, OfferedFile]]:
    """Match a source with its files, and each with its place in the data folder.

    It is one file; where that is missing, the files of another form of it, maybe in parts.
    """
    entry = _pick(source, entries, source_path)
    has_hash = bool(source.sha256 or source.git_blob)
    if entry and (is_named or not has_hash or entry.is_right(source)):
        return [(PurePosixPath(source.path), entry)]

    candidates = entries
    if not is_named:
        # A file of a common name counts only where a folder says whose it is.
        dataset_folder = PurePosixPath(source.path).parts[0].lower()
        candidates = []
        for entry in entries:
            if dataset_folder in f"{source_path.name}/{entry.name}".lower():
                candidates.append(entry)

    for pattern in map(PurePosixPath, source.also):
        matching: list[tuple[int, OfferedFile]] = []
        for entry in candidates:
            if fnmatch(PurePosixPath(entry.name).name, pattern.name):
                matching.append((count_common_folders(entry.name, str(pattern)), entry))

        # Of several folders with such files, the one that is called as ours is counts.
        n_common = max((n_folders for n_folders, _ in matching), default=0)
        parts: dict[PurePosixPath, OfferedFile] = {}
        for n_folders, entry in matching:
            if n_folders == n_common:
                parts[pattern.with_name(PurePosixPath(entry.name).name)] = entry
        if parts:
            return list(parts.items())

    return []


def _pick(source: SourceFile, entries: list[OfferedFile], source_path: Path) -> OfferedFile | None:
    """Return the file that is the card's, if any."""
    names = shipped_names(source)
    named = [entry for entry in entries if PurePosixPath(entry.name).name.lower() in names]
    if not named and len(entries) == 1 and entries[0].is_right(source):
        return entries[0]  # a file that was given another name
    for entry in named:
        if entry.is_right(source):
            return entry

    foreign: set[str] = set()
    for name in registry.names():
        for listed_source in registry.card(name).sources:
            if listed_source.path != source.path:
                foreign.add(listed_source.sha256)
    near: dict[str, tuple[int, OfferedFile]] = {}
    for entry in named:
        if entry.sha256 not in foreign:
            near.setdefault(entry.sha256, (count_common_folders(entry.name, source.path), entry))

    most_common = max((n_common for n_common, _ in near.values()), default=0)
    nearest = [entry for n_common, entry in near.values() if n_common == most_common]
    if len(nearest) > 1:
        raise InputError(
            f"{source_path}: both {nearest[0].name} and {nearest[1].name} may be {source.path}; "
            f"set source= to the right file or to its folder"
        )
    return nearest[0] if nearest else None


def count_common_folders(name: str, path: str) -> int:
    """Count the folders right above the file that are the same."""
    folders = PurePosixPath(name).parts[:-1]
    own_folders = PurePosixPath(path).parts[:-1]
    n_common = 0
    for folder, own_folder in zip(reversed(folders), reversed(own_folders), strict=False):
        if folder.lower() != own_folder.lower():
            break
        n_common += 1
    return n_common
