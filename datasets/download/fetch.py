"""Getting a dataset's files from the network: resumed, retried, checked, and never half-written.

A file grows under the name `NAME.part`. Where its hash is known, the part stays when a download is cut and is gone on
with by a range request, at any of its addresses: a part that belongs to another file shows in the hash, and the
download starts over. A file takes its own name when its hash is right, and not before.

pooch and fsspec download without resuming, and know neither mirrors nor members of archives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import InputError, unwritable
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
from .hub import address_of, files_of, headers_of, listing_of, remedy_of
from .writing import REMEDY, Note, arriving, locked, silent, write

if TYPE_CHECKING:
    import requests

# requests is imported where it is used: reading a dataset does not need it.

#: Takes what is being downloaded, the bytes that are here, and the bytes in all (0: not known).
Progress = Callable[[str, int, int], None]

_CHUNK = 1 << 16
_PATIENCE = 60.0


@dataclass(frozen=True)
class RetryLimits:
    """The limits of trying a download again.

    Attributes:
        tries: how often a server that fails, or a connection that breaks without having brought
            anything, is tried again before the next mirror is.
        backoff: the first pause in seconds; each further one is twice as long, up to a minute.
        timeout: seconds without an answer.
        offline: whether to leave the network alone.
    """

    tries: int = 4
    backoff: float = 1.0
    timeout: float = 30.0
    offline: bool = False


class _MirrorError(Exception):
    """An address that does not give the file; the next one may."""


def sources_to_fetch(root: Path, card: Card) -> list[SourceFile]:
    """List the files of a dataset that are missing or not of the card's revision."""
    states = [(s, state(root, card, s)) for s in used(root, card)]
    return [s for s, is_ in states if is_ == "missing" or (is_ == "differs" and s.is_downloaded)]


def fetch(
    card: Card,
    root: Path,
    how: RetryLimits | None = None,
    progress: Progress = silent,
    note: Note = silent,
) -> list[Path]:
    """Download what is missing of a dataset, or is there but not of the card's revision.

    Where a missing file cannot be had, the card's stand-ins are tried.

    Args:
        card: its `sources` say from where; a file without downloads has to be got by hand.
        root: the data folder.
        how: see `RetryLimits`.
        progress: called as bytes come in.
        note: called with a line for each file got, and each address that did not give one.

    Returns:
        The files that were written.

    Raises:
        InputError: where a file could not be downloaded (all others are), or cannot be written.
    """
    how = how or RetryLimits()
    missing_sources = sources_to_fetch(root, card)
    if not missing_sources:
        return []
    stand_ins = [s for s in card.sources if s.alternative]
    if not all(s.is_downloaded for s in stand_ins):
        stand_ins = []
    done: list[Path] = []
    failed: list[str] = []

    def get(sources: Sequence[SourceFile], session: requests.Session) -> None:
        files = _list_files(sources, root, session, how, note, failed)
        for group in _group_by_address(files):
            download = _FileDownload(root, group, session, how, progress, note)
            try:
                done.extend(download.run())
            except _MirrorError as error:
                failed.append(f"{download.name} could not be downloaded ({error})")

    if how.offline:
        there = [s for s in missing_sources if s.is_downloaded]
        if files := [f"{s.path} from {(s.downloads or [s.url])[0]}" for s in there]:
            failed.append(f"data.offline=true, so not fetched: {', '.join(files)}")
    elif stand_ins or any(s.is_downloaded for s in missing_sources):
        with locked(root, note), _session(how) as session:
            # Another run may have got some of them meanwhile.
            get([s for s in sources_to_fetch(root, card) if s.is_downloaded], session)
            if stand_ins and (still_missing := missing(root, card)):
                note(f"for {', '.join(s.path for s in still_missing)} another file can stand in")
                get([s for s in stand_ins if state(root, card, s) != "right"], session)
    missing_sources = sources_to_fetch(root, card)
    if by_hand := [s for s in missing_sources if not s.is_downloaded]:
        failed.append(_by_hand(card, by_hand))
    if missing_sources:
        raise InputError(f"dataset {card.name}: {'; '.join(failed)}")
    return done


def _list_files(
    sources: Sequence[SourceFile],
    root: Path,
    session: requests.Session,
    how: RetryLimits,
    note: Note,
    failed: list[str],
) -> list[SourceFile]:
    """List the files that sources stand for, and add a line to `failed` for each that has no list of its files."""
    files: list[SourceFile] = []
    for source in sources:
        try:
            files += _files_to_get(root, source, session, how, note)
        except (_MirrorError, InputError) as error:
            failed.append(f"{source.path} could not be downloaded ({error})")
    return files


def _files_to_get(
    root: Path, source: SourceFile, session: requests.Session, how: RetryLimits, note: Note
) -> list[SourceFile]:
    """List the files that a source stands for and that are not here, with their hashes as far as these are known.

    Raises:
        _MirrorError: where the hub gives no list of the files of a pattern, or an empty one.
        InputError: where that list, or the record of a hash, is malformed.
    """
    files = list(source.parts) or [with_recorded_hash(root, source)]
    if listing := listing_of(source):
        with _request(session, listing, {}, how) as response:
            try:
                entries: Any = response.json()
            except (ValueError, OSError) as error:
                raise _MirrorError(f"{address_of(listing)}: no list of files") from error
        files, n_bytes = files_of(source, entries, address_of(listing))
        if not files:
            raise _MirrorError(f"{address_of(listing)}: no file of that name")
        note(
            f"{source.path}: {len(files)} files, {n_bytes:,} bytes in all, with the hashes that "
            f"{address_of(listing)} lists"
        )
    return [f for f in files if not (root / f.path).is_file() or fits(root / f.path, f) is not True]


def _group_by_address(sources: Iterable[SourceFile]) -> list[list[SourceFile]]:
    """Group files that are downloaded together: the members of one archive, else each by itself."""
    groups: dict[object, list[SourceFile]] = {}
    for source in sources:
        key = source.downloads if source.member else source.path
        groups.setdefault(key, []).append(source)
    return list(groups.values())


def _by_hand(card: Card, sources: list[SourceFile]) -> str:
    ways: dict[str, list[str]] = {}
    for source in sources:
        forms = list(dict.fromkeys(Path(p).name for p in (source.path, *source.also)))
        file_names = " or ".join(forms[:3]) + (" or the like" if len(forms) > 3 else "")
        ways.setdefault(way_to_get(card, source), []).append(file_names)
    return "; ".join(f"{', '.join(n)} cannot be fetched: {remedy}" for remedy, n in ways.items())


@dataclass(frozen=True)
class _FileDownload:
    """One file, or the members of one archive, from the first of its addresses that gives it."""

    root: Path
    sources: list[SourceFile]
    session: requests.Session
    how: RetryLimits
    progress: Progress
    note: Note

    @property
    def name(self) -> str:
        return ", ".join(s.path for s in self.sources)

    @property
    def part(self) -> Path:
        first = self.sources[0]
        target = self.root / first.path
        name = (
            PurePosixPath(urlsplit(first.downloads[0]).path).name if first.member else target.name
        )
        return target.with_name(f"{name}.part")

    @property
    def is_checked(self) -> bool:
        """Tell whether hashes would reveal a wrong byte, so that what is here may be gone on with."""
        return all(source.sha256 or source.git_blob for source in self.sources)

    def run(self) -> list[Path]:
        """Return the files written; raise _MirrorError with the reason of each address."""
        reasons: list[str] = []
        for url in self.sources[0].downloads:
            try:
                return self._from(url)
            except _MirrorError as reason:
                reasons.append(f"{url}: {reason}")
                self.note(reasons[-1])
        raise _MirrorError("; ".join(reasons))

    def _from(self, url: str) -> list[Path]:
        in_pieces = self._download(url)
        try:
            return self._settle(url)
        except _MirrorError as reason:
            if not in_pieces:
                raise
            self.note(f"{url}: {reason}; what was here of it before is given up")
        self._download(url)
        return self._settle(url)

    def _settle(self, url: str) -> list[Path]:
        """Check the whole part and give its content its name; a part that is not right goes."""
        try:
            if self.sources[0].member:
                self._unpack()
            else:
                target = self.root / self.sources[0].path
                _check(self.part, self.sources[0])
                with arriving(target) as temporary:
                    self.part.replace(temporary)
        finally:
            _discard(self.part)
        written = [self.root / s.path for s in self.sources]
        for path, source in zip(written, self.sources, strict=True):
            note = "" if source.sha256 or source.git_blob else _record_hash(path)
            self.note(f"{path}: {path.stat().st_size:,} bytes from {address_of(url)}{note}")
        return written

    def _unpack(self) -> None:
        try:
            archive = Archive(self.part)
        except InputError as error:
            raise _MirrorError(str(error)) from error
        with archive:
            for source in self.sources:
                name = choose(source.member, archive.names)
                if name is None:
                    raise _MirrorError(f"'{source.member}' is not in it")
                with arriving(self.root / source.path) as temporary:
                    try:
                        write(archive.chunks(name), temporary)
                    except InputError as error:
                        raise _MirrorError(str(error)) from error
                    _check(temporary, source)

    def _download(self, url: str) -> bool:
        """Make the part whole. Returns whether it was put together from several answers."""
        best, idle, in_pieces = _length(self.part), 0, False
        while True:
            if not self.is_checked:
                _discard(self.part)
            offset = _length(self.part)
            with self._ask(url, offset) as response:
                start, total = _range(response)
                if offset and response.status_code == 416 and total == offset:
                    return True  # killed between the last byte and the new name
                if start in (0, offset):
                    in_pieces |= start > 0
                    if self._receive(response, start, total):
                        return in_pieces
                else:  # a part longer than the file, or a range that is not the one asked for
                    _discard(self.part)
            idle = 0 if _length(self.part) > best else idle + 1
            best = max(best, _length(self.part))
            if idle > self.how.tries:
                raise _MirrorError(f"the connection keeps breaking, at {best:,} bytes")
            time.sleep(min(_PATIENCE, self.how.backoff * 2**idle))

    def _ask(self, url: str, offset: int) -> requests.Response:
        """Request what comes after the first `offset` bytes."""
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        return _request(self.session, url, headers, self.how)

    def _receive(self, response: requests.Response, start: int, total: int) -> bool:
        """Write what comes; returns whether that is the rest of the file."""
        from urllib3.exceptions import HTTPError

        done, path = start, self.sources[0].path
        try:
            self.part.parent.mkdir(parents=True, exist_ok=True)
            with self.part.open("ab" if start else "wb") as stream:
                try:
                    for chunk in response.raw.stream(_CHUNK, decode_content=False):
                        stream.write(chunk)
                        done += len(chunk)
                        self.progress(path, done, total)
                except HTTPError:
                    return False
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            _discard(self.part)
            raise unwritable(self.part, error, REMEDY) from error
        return not total or done == total


def _request(
    session: requests.Session, url: str, headers: Mapping[str, str], how: RetryLimits
) -> requests.Response:
    """Ask for an address, whose body is yet to be read; raise _MirrorError with the reason where it does not answer."""
    from requests import exceptions

    address = address_of(url)
    headers = {**headers, **headers_of(url)}
    try:
        response = session.get(address, headers=headers, stream=True, timeout=how.timeout)
    except exceptions.TooManyRedirects as error:
        raise _MirrorError("it redirects without end") from error
    except exceptions.SSLError as error:
        raise _MirrorError("its TLS certificate is not trusted") from error
    except exceptions.Timeout as error:
        raise _MirrorError(f"no answer within {how.timeout:g} s") from error
    except exceptions.ConnectionError as error:
        raise _MirrorError("no connection") from error
    except (exceptions.RequestException, ValueError) as error:
        raise _MirrorError(f"the request failed ({type(error).__name__})") from error
    status = response.status_code
    if status not in (200, 206) and not ("Range" in headers and status == 416):
        response.close()
        raise _MirrorError(f"{status} {response.reason or ''}".strip() + remedy_of(url, status))
    if address.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise _MirrorError("it redirects to an address without TLS")
    return response


def _record_hash(path: Path) -> str:
    """Record the hash of a file whose card knows none, so that the next download has to be the same; say so."""
    digest, record = sha256(path), record_of(path)
    with arriving(record) as temporary:
        write([f"{digest}  {path.name}\n".encode()], temporary)
    return f"; no hash of it was known, {record.name} keeps SHA-256 {digest}"


def _session(how: RetryLimits) -> requests.Session:
    """Open a session that tries a failing server again, with growing pauses."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import BaseHTTPResponse, Retry

    class Patient(Retry):
        """Does not let a server's Retry-After keep us for hours."""

        def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
            seconds = super().get_retry_after(response)
            return None if seconds is None else min(seconds, _PATIENCE)

    retry = Patient(
        total=how.tries,
        connect=min(2, how.tries),
        read=min(2, how.tries),
        backoff_factor=how.backoff,
        backoff_max=_PATIENCE,
        status_forcelist=(408, 429, 500, 502, 503, 504),
        raise_on_status=False,
    )
    session = requests.Session()
    session.headers["User-Agent"] = f"captau/{version('captau')}"
    session.max_redirects = 10
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session


def _check(path: Path, source: SourceFile) -> None:
    if fits(path, source) is False:
        kind, right, actual = (
            ("SHA-256", source.sha256, sha256(path))
            if source.sha256
            else ("git blob id", source.git_blob, git_blob(path))
        )
        record = record_of(path.with_name(PurePosixPath(source.path).name))
        remedy = f"; delete {record} to take the new file" if record.is_file() else ""
        raise _MirrorError(f"the {kind} of {source.path} there is {actual}, not {right}{remedy}")


def _range(response: requests.Response) -> tuple[int, int]:
    """Return the byte at which an answer starts, and the length of the whole file (0: unknown)."""
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else 0
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    start = span.partition("-")[0]
    return int(start) if start.isdecimal() else -1, int(total) if total.isdecimal() else 0


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _discard(part: Path) -> None:
    if part.exists():  # where its folder is a file, `unlink` fails in another way than writing
        part.unlink()
