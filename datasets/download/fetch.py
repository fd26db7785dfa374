"""Getting a dataset's files from the network: from the first address that gives one, checked, and never half-written.

`web_file` downloads one file, by pooch. Here is what pooch does not know: the addresses of a file one after the other, members of
archives, the files of a pattern of names on Hugging Face's hub, git's hashes, stand-ins, and one run at a time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..reading.source_files import (
    fits,
    git_blob,
    missing,
    record_of,
    sha256,
    state,
    used,
    way_to_get,
    with_recorded_hash,
)
from ..schema import Card, SourceFile
from .archives import Archive, choose
from .hub import address_of, files_of, listing_of
from .web_file import AddressError, FetchLimits, download_file
from .writing import Note, arriving, locked, silent, write

#: The folder of files that are still arriving, below the data folder.
_STAGING = ".captau.downloads"

#: Takes what is being downloaded, the bytes that are here, and the bytes in all (0: not known).
Progress = Callable[[str, int, int], None]


def sources_to_fetch(root: Path, card: Card) -> list[SourceFile]:
    """List the files of a dataset that are missing or not of the card's revision."""
    sources: list[SourceFile] = []
    for source in used(root, card):
        file_state = state(root, card, source)
        # What is there and was got by hand stays, of whatever revision.
        if file_state == "missing" or (file_state == "differs" and source.is_downloaded):
            sources.append(source)
    return sources


def fetch(
    card: Card,
    root: Path,
    limits: FetchLimits | None = None,
    progress: Progress = silent,
    note: Note = silent,
) -> list[Path]:
    """Download what is missing of a dataset, or is there but not of the card's revision.

    Where a missing file cannot be had, the card's stand-ins are tried.

    Args:
        card: its `sources` say from where; a file without downloads has to be got by hand.
        root: the data folder.
        limits: the limits of each download.
        progress: called as bytes come in.
        note: called with a line for each file that was written, for each address that failed before another one gave the
            file, and for each file that could not be had where others stand in for it.

    Returns:
        The files that were written.

    Raises:
        InputError: where a file could not be downloaded (all others are), or cannot be written.
    """
    limits = limits or FetchLimits()
    missing_sources = sources_to_fetch(root, card)
    if not missing_sources:
        return []
    stand_ins = _stand_ins(card)
    done: list[Path] = []
    failed: list[str] = []

    def get(sources: Sequence[SourceFile]) -> None:
        files = _list_files(sources, root, limits, note, failed)
        for group in _group_by_address(files):
            download = _FileDownload(root, group, limits, progress, note)
            try:
                done.extend(download.run())
            except AddressError as error:
                failed.append(f"{download.name} could not be downloaded ({error})")

    downloaded = [source for source in missing_sources if source.is_downloaded]
    if limits.offline:
        if downloaded:
            failed.append(_refuse_offline(downloaded))
    elif stand_ins or downloaded:
        with locked(root, note), _staging(root):
            # Another run may have got some of them meanwhile.
            get([source for source in sources_to_fetch(root, card) if source.is_downloaded])
            if stand_ins and (still_missing := missing(root, card)):
                names = ", ".join(source.path for source in still_missing)
                note(f"for {names} another file can stand in")
                get([source for source in stand_ins if state(root, card, source) != "right"])

    _check_complete(root, card, failed)
    # Nothing is missing, as others stand in for the files that failed: no error would tell why they did.
    for reason in failed:
        note(reason)
    return done


def _check_complete(root: Path, card: Card, failed: Sequence[str]) -> None:
    """Check that a dataset is there after its download.

    Raises:
        InputError: where a file is missing, with what failed and how to get the files that cannot be downloaded.
    """
    missing_sources = sources_to_fetch(root, card)
    if missing_sources:
        reasons = [*failed, *_by_hand(card, missing_sources)]
        raise InputError(f"dataset {card.name}: {'; '.join(reasons)}")


def _stand_ins(card: Card) -> list[SourceFile]:
    """List the files that stand in for others; none where one of them cannot be downloaded."""
    stand_ins = [source for source in card.sources if source.alternative]
    return stand_ins if all(source.is_downloaded for source in stand_ins) else []


def _refuse_offline(sources: Sequence[SourceFile]) -> str:
    """Say which files are not fetched, as nothing may be, and where they are."""
    files: list[str] = []
    for source in sources:
        first_address = source.downloads[0] if source.downloads else source.url
        files.append(f"{source.path} from {first_address}")
    return f"data.offline=true, so not fetched: {', '.join(files)}"


@contextmanager
def _staging(root: Path) -> Generator[None]:
    """Keep what arrives in a folder of its own, without what a killed run left there; remove it at the end."""
    folder = root / _STAGING
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _list_files(
    sources: Sequence[SourceFile],
    root: Path,
    limits: FetchLimits,
    note: Note,
    failed: list[str],
) -> list[SourceFile]:
    """List the files that sources stand for, and add a line to `failed` for each that has no list of its files."""
    files: list[SourceFile] = []
    for source in sources:
        try:
            files += _files_to_get(root, source, limits, note)
        except (AddressError, InputError) as error:
            failed.append(f"{source.path} could not be downloaded ({error})")
    return files


def _files_to_get(
    root: Path, source: SourceFile, limits: FetchLimits, note: Note
) -> list[SourceFile]:
    """List the files that a source stands for and that are not here, with their hashes as far as these are known.

    Raises:
        AddressError: where the hub gives no list of the files of a pattern, or an empty one.
        InputError: where that list, or the record of a hash, is malformed.
    """
    files = list(source.parts) or [with_recorded_hash(root, source)]
    if listing := listing_of(source):
        entries = _download_list(root, listing, limits)
        files, n_bytes = files_of(source, entries, address_of(listing))
        if not files:
            raise AddressError(f"{address_of(listing)}: no file of that name")
        note(
            f"{source.path}: {len(files)} files, {n_bytes:,} bytes in all, with the hashes that "
            f"{address_of(listing)} lists"
        )
    files_to_get: list[SourceFile] = []
    for file in files:
        path = root / file.path
        # A file of which no hash is known is got anew.
        if not path.is_file() or fits(path, file) is not True:
            files_to_get.append(file)
    return files_to_get


def _download_list(root: Path, url: str, limits: FetchLimits) -> Any:
    """Return the list of the files of a folder of the hub, from its JSON.

    Raises:
        AddressError: where the hub gives none.
    """
    path = root / _STAGING / "listing.json"
    download_file(url, path, limits, silent)
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise AddressError(f"{address_of(url)}: no list of files") from error


def _group_by_address(sources: Iterable[SourceFile]) -> list[list[SourceFile]]:
    """Group files that are downloaded together: the members of one archive, else each by itself."""
    groups: dict[object, list[SourceFile]] = {}
    for source in sources:
        key = source.downloads if source.member else source.path
        groups.setdefault(key, []).append(source)
    return list(groups.values())


def _by_hand(card: Card, sources: Iterable[SourceFile]) -> list[str]:
    """Say of the files that cannot be downloaded how to get them."""
    ways: dict[str, list[str]] = {}
    for source in sources:
        if source.is_downloaded:
            continue
        names = dict.fromkeys(Path(path).name for path in (source.path, *source.also))
        forms = list(names)
        file_names = " or ".join(forms[:3])
        if len(forms) > 3:
            file_names += " or the like"
        ways.setdefault(way_to_get(card, source), []).append(file_names)

    sentences: list[str] = []
    for remedy, file_names in ways.items():
        sentences.append(f"{', '.join(file_names)} cannot be fetched: {remedy}")
    return sentences


@dataclass(frozen=True)
class _FileDownload:
    """One file, or the members of one archive, from the first of its addresses that gives it."""

    root: Path
    sources: list[SourceFile]
    limits: FetchLimits
    progress: Progress
    note: Note

    @property
    def name(self) -> str:
        return ", ".join(source.path for source in self.sources)

    def run(self) -> list[Path]:
        """Download and write the files, and return them; note them, and the addresses that failed before.

        Raises:
            AddressError: where no address gives them, with the reason of each.
        """
        reasons: dict[str, str] = {}
        for url in self.sources[0].downloads:
            try:
                self._download(url)
            except AddressError as error:
                reasons[url] = str(error)
                continue

            for failed_url, reason in reasons.items():
                self.note(f"{failed_url}: {reason}")
            return self._note_files(url)

        raise AddressError(_join_reasons(reasons))

    def _download(self, url: str) -> None:
        """Download what an address gives, and write the files that are in it."""
        first = self.sources[0]
        target = self.root / first.path
        arrived = self.root / _STAGING / target.name

        def progress(n_bytes: int, n_bytes_in_all: int) -> None:
            self.progress(first.path, n_bytes, n_bytes_in_all)

        download_file(url, arrived, self.limits, progress)
        if first.member:
            self._unpack(arrived)
        else:
            _check(arrived, first, target)
            with arriving(target) as temporary:
                arrived.replace(temporary)

    def _note_files(self, url: str) -> list[Path]:
        """Note the files that an address gave, and return them; a hash that the card lacks is recorded and noted too."""
        written = [self.root / s.path for s in self.sources]
        for path, source in zip(written, self.sources, strict=True):
            remark = "" if source.sha256 or source.git_blob else _record_hash(path)
            self.note(f"{path}: {path.stat().st_size:,} bytes from {address_of(url)}{remark}")
        return written

    def _unpack(self, path: Path) -> None:
        """Write the members of an archive that are asked for."""
        try:
            archive = Archive(path)
        except InputError as error:
            raise AddressError(str(error)) from error
        with archive:
            for source in self.sources:
                name = choose(source.member, archive.names)
                if name is None:
                    raise AddressError(f"'{source.member}' is not in it")
                with arriving(self.root / source.path) as temporary:
                    try:
                        write(archive.chunks(name), temporary)
                    except InputError as error:
                        raise AddressError(str(error)) from error
                    _check(temporary, source, self.root / source.path)


def _join_reasons(reasons: Mapping[str, str]) -> str:
    """Say why each address gave no file; addresses that failed in the same way, as without a network, stand together."""
    addresses_by_reason: dict[str, list[str]] = {}
    for url, reason in reasons.items():
        addresses_by_reason.setdefault(reason, []).append(url)

    return "; ".join(
        f"{' and '.join(urls)}: {reason}" for reason, urls in addresses_by_reason.items()
    )


def _record_hash(path: Path) -> str:
    """Record the hash of a file whose card knows none, so that the next download has to be the same; say so."""
    digest, record = sha256(path), record_of(path)
    with arriving(record) as temporary:
        write([f"{digest}  {path.name}\n".encode()], temporary)
    return f"; no hash of it was known, {record.name} keeps SHA-256 {digest}"


def _check(path: Path, source: SourceFile, target: Path) -> None:
    """Raise AddressError if a file that is to become `target` has another hash than the source's."""
    # Where no hash is known, that is None.
    has_other_hash = fits(path, source) is False
    if not has_other_hash:
        return

    kind, right, actual = "SHA-256", source.sha256, sha256(path)
    if not source.sha256:
        kind, right, actual = "git blob id", source.git_blob, git_blob(path)
    record = record_of(target)
    remedy = f"; delete {record} to take the new file" if record.is_file() else ""
    raise AddressError(f"the {kind} of {source.path} there is {actual}, not {right}{remedy}")
