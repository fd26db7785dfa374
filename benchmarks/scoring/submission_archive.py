"""Results in a submitted file or zip, and the faults of submissions.

Names and texts come from strangers: nothing is unpacked to disk, no name in an archive is used as a path, and
no more than `MOST_BYTES` are ever unpacked. `captau validate` and the challenge server call this.
"""

from __future__ import annotations

import io
import re
import reprlib
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ...datasets.download.archives import open_zip

#: The largest submission that is read, packed or not; one of 40,000 captions has some 4 MB.
MOST_BYTES = 64 << 20
#: The most members of an archive: results on one set or two (the paper asks for both), and hidden files.
MOST_MEMBERS = 20
_MOST_DIRECTORY_BYTES = 1 << 20
#: The file names that the COCO server accepts: captions_test2014_ALG_results.json.
CONVENTION = re.compile(r"captions_([a-z]+[0-9]*)_([A-Za-z0-9][\w.+-]*)_results\.json", re.ASCII)
_HIDDEN_FILES = re.compile(r"__MACOSX/.*|\.DS_Store|\._.*")
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_ARCHIVE_STARTS = (*_ZIP_STARTS, b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!")


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST_QUOTE = 80


def quote(value: Any) -> str:
    """Quote a stranger's value for a message: in one line, and shortened."""
    text = _SHORT.repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


@dataclass
class Faults:
    """The faults of a submission: the first `limit` lines, and the count of all."""

    limit: int
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, line: str) -> None:
        """Count a fault, and store its line within the limit."""
        self.count += 1
        if self.count <= self.limit:
            self.lines.append(line)

    def add_all(self, lines: Iterable[str]) -> None:
        """Count several faults, as `add` does one."""
        for line in lines:
            self.add(line)

    def add_places(self, lines: Sequence[str]) -> None:
        """Count the places where one check found something, and store the lines of some, so that no check hides another."""
        self.count += len(lines)
        self.lines += lines[: self.limit]
        if len(lines) > self.limit:
            n_more = len(lines) - self.limit
            self.lines.append(f"… and {n_more:,} more such lines, which a larger limit= lists")


def is_zip(path: Path, data: bytes) -> bool:
    """Tell whether a file is a zip, by its first bytes or its ending."""
    return data[:4] in _ZIP_STARTS or path.suffix.lower() == ".zip"


def results_in(path: Path, data: bytes, faults: Faults) -> dict[str, bytes]:
    """Return the results in a file: by their names in a zip, else under "".

    Args:
        path: the file's name for messages.
        data: its content.
        faults: takes the faults of a zip.
    """
    return dict(_read_members(path, data, faults)) if is_zip(path, data) else {"": data}


def _read_members(path: Path, data: bytes, faults: Faults) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each result in an archive; its faults go to `faults`."""
    try:
        with open_zip(io.BytesIO(data), _MOST_DIRECTORY_BYTES) as archive:
            bytes_left = MOST_BYTES
            for info in _select_results(path, archive.infolist(), faults):
                with archive.open(info) as stream:
                    content = _read_up_to(stream, bytes_left)
                if content is None:
                    faults.add(
                        f"{path}: {info.filename}: more than {MOST_BYTES:,} bytes when unpacked"
                    )
                    return

                bytes_left -= len(content)
                if content.startswith(_ARCHIVE_STARTS):
                    faults.add(f"{path}: {info.filename}: an archive within the archive")
                    continue
                yield info.filename, content
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
        faults.add(f"{path}: not a complete zip ({error or 'it ends too early'}); pack it again")
    except (NotImplementedError, RuntimeError) as error:  # raised on passwords and rare methods
        faults.add(f"{path}: cannot be unpacked ({error}); pack it with the usual method")


def _read_up_to(stream: IO[bytes], limit: int) -> bytes | None:
    """Read a stream; None where it is longer than the limit, whatever its header says."""
    content = stream.read(limit + 1)
    return None if len(content) > limit else content


def _select_results(
    path: Path, infos: list[zipfile.ZipInfo], faults: Faults
) -> list[zipfile.ZipInfo]:
    """Return the members of an archive that are results; all others are faults."""
    if len(infos) > MOST_MEMBERS:
        faults.add(f"{path}: {len(infos):,} files in it; results on one set or two are expected")
        return []

    results: dict[str, zipfile.ZipInfo] = {}
    before = faults.count
    for info in infos:
        name = info.filename
        where = f"{path}: {quote(name)}"
        if _HIDDEN_FILES.fullmatch(name):  # macOS adds them
            continue
        if stat.S_ISLNK(info.external_attr >> 16):
            faults.add(f"{where}: a link; pack the file itself")
        elif not name or info.is_dir() or re.search(r"[/\\]", info.orig_filename) or ":" in name:
            faults.add(f"{where}: a folder or a path; put the results at the top of the archive")
        elif not CONVENTION.fullmatch(name):
            faults.add(
                f"{where}: not the name of a results file; call it captions_test2014_ALG_results.json"
            )
        elif name in results:
            faults.add(f"{where}: it appears twice in the archive; keep one of them")
        elif info.flag_bits & 0x1:
            faults.add(f"{where}: has a password; pack it without")
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            faults.add(f"{where}: packed by a rare method; pack it with the usual one")
        else:
            results[name] = info

    if not results and faults.count == before:
        faults.add(f"{path}: it contains no results; add captions_test2014_ALG_results.json")

    # Split and system of each, as its name says.
    splits: list[str] = []
    systems: list[str] = []
    for match in map(CONVENTION.fullmatch, results):
        if match:
            split, system = match.groups()
            splits.append(split)
            systems.append(system)

    if len(results) > 2 or len(set(splits)) < len(splits):
        faults.add(f"{path}: {len(results)} results; send one for each set, and two sets at most")
    elif len(set(systems)) > 1:
        faults.add(f"{path}: results of {' and of '.join(systems)}; one at a time")

    return list(results.values())[:2]
