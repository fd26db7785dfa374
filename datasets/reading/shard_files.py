"""Shards of large sets: finding them by path, glob, folder or URL, and having them at hand on this machine."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..paths import expand_home
from .object_stores import call_in_time, is_url, open_file_system, reporting_store_errors
from .packed_files import PACKED_ENDINGS, without_packing
from .table_folders import is_saved

#: The endings of shards' names by kind, without those of packed files. JSON that is no JSON lines is read whole, by
#: `reading.caption_files`.
_ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "lines": (".jsonl", ".ndjson"),
    "csv": (".csv",),
    "tar": (".tar",),
    "json": (".json",),
}
_EXPECTED = (
    "Parquet (.parquet), JSON lines (.jsonl, .jsonl.gz), CSV (.csv, .csv.gz) or tar (.tar, .tar.gz)"
)
#: Files in a folder of shards whose names begin so are no shards.
_HIDDEN = ("_", ".")


@dataclass(frozen=True)
class Shard:
    """One file of a set.

    Attributes:
        path: where it is, a path or a URL.
        kind: `parquet`, `lines`, `csv`, `tar` or `json`.
        size: in bytes.
        stamp: what changes when the file does: its time, or a store's tag.
    """

    path: str
    kind: str
    size: int
    stamp: str


def kind_of(path: str) -> str | None:
    """Return a shard's kind by its ending; None where the ending is that of no shard."""
    name = path.lower()
    for kind, endings in _ENDINGS.items():
        # Parquet packs its columns by itself.
        plain_name = name if kind == "parquet" else without_packing(name)
        if plain_name.endswith(endings):
            return kind
    return None


def find_shards(paths: Sequence[str]) -> list[Shard]:
    """List the shards that paths, globs, folders and URLs name, each once, in the order of their names.

    Raises:
        InputError: where nothing is found, or of a kind that is not known.
    """
    shards: dict[str, Shard] = {}
    for path in paths:
        for shard in _remote(path) if is_url(path) else _local(path):
            shards.setdefault(shard.path, shard)
    return list(shards.values())


def stat_shard(path: str) -> Shard:
    """Return a shard as it is now.

    Raises:
        InputError: where it is gone, or of a kind that is not known.
    """
    kind = kind_of(path)
    if kind is None:
        raise InputError(f"{path}: its ending tells no kind; {_EXPECTED} is expected")
    if is_url(path):
        with reporting_store_errors(path):
            system, inside = open_file_system(path)
            system.invalidate_cache()
            return _shard(path, kind, call_in_time(lambda: system.info(inside)))
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return Shard(path, kind, stat.st_size, str(stat.st_mtime_ns))


def _local(path: str) -> list[Shard]:
    location = expand_home(path)
    if location.is_dir() and is_saved(location):
        raise InputError(
            f"{path}: Arrow files of save_to_disk are no shards of a large set; leave out engine=, or write the data set as "
            "Parquet by to_parquet"
        )
    if location.is_dir():
        names: list[str] = []
        for file in location.iterdir():
            # Spark and others leave files beside their shards that hold no rows.
            if kind_of(file.name) and file.name[0] not in _HIDDEN:
                names.append(str(file))
    elif location.exists() or not glob.has_magic(path):
        names = [str(location)]
    else:
        names = glob.glob(str(location), recursive=True)  # noqa: PTH207 - of an absolute path as well
    if not names:
        if location.is_dir() and any(location.glob("*.txt")):
            raise InputError(
                f"{path}: no shards there, but a text file for each caption; write all into one file, such as a JSON object "
                "image → caption"
            )
        raise InputError(f"{path}: no shards there; {_EXPECTED} is expected")
    return [stat_shard(name) for name in sorted(names, key=_natural)]


def _remote(url: str) -> list[Shard]:
    with reporting_store_errors(url):
        system, inside = open_file_system(url)
        system.invalidate_cache()
        infos: dict[str, Any]
        if glob.has_magic(inside):
            infos = call_in_time(lambda: system.glob(inside, detail=True))
        elif call_in_time(lambda: system.isdir(inside)):
            listed = call_in_time(lambda: system.ls(inside, detail=True))
            infos = {}
            for info in listed:
                name = info["name"]
                if kind_of(name) and _base_name(name)[0] not in _HIDDEN:
                    infos[name] = info
        else:
            infos = {inside: call_in_time(lambda: system.info(inside))}
    infos = {name: info for name, info in infos.items() if info["type"] == "file"}
    if not infos:
        raise InputError(f"{url}: no shards there; {_EXPECTED} is expected")
    shards: list[Shard] = []
    for name in sorted(infos, key=_natural):
        kind = kind_of(name)
        if kind is None:
            raise InputError(f"{name}: its ending tells no kind; {_EXPECTED} is expected")
        shards.append(_shard(system.unstrip_protocol(name), kind, infos[name]))
    return shards


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _shard(path: str, kind: str, info: Any) -> Shard:
    tags = ("ETag", "etag", "md5Hash", "LastModified", "mtime", "created")
    values = (info.get(tag) for tag in tags)
    stamp = next((value for value in values if value is not None), "")
    # A listing may have a time as a number, where the object itself has it as a time.
    stamp = str(stamp.timestamp()) if isinstance(stamp, datetime) else str(stamp)
    return Shard(path, kind, int(info["size"]), stamp)


def _natural(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that puts `part-9` before `part-10`, and both before `z-1`."""
    parts: list[str | int] = []
    for part in re.split(r"(\d+)", name):
        parts.append(int(part) if part.isdecimal() else part)
    return parts, name


@contextmanager
def local_copy(shard: Shard, folder: Path) -> Generator[Path]:
    """Yield a shard's file on this machine; the shard must not change until the block ends.

    Args:
        folder: where a copy of what is behind a URL may lie.

    Raises:
        InputError: where it cannot be got, or is another one than `shard` was made from.
    """
    path = Path(shard.path)
    if is_url(shard.path):
        path = folder / f".{hashlib.sha256(shard.path.encode()).hexdigest()[:16]}.copy"
        with reporting_store_errors(shard.path):
            system, inside = open_file_system(shard.path)
            call_in_time(lambda: system.get_file(inside, str(path)), shard.size)
    try:
        check_unchanged(shard)
        yield path
        check_unchanged(shard)
    finally:
        if is_url(shard.path):
            path.unlink(missing_ok=True)


def check_unchanged(shard: Shard) -> None:
    """Check that a shard is unchanged.

    Raises:
        InputError: where it is not.
    """
    if stat_shard(shard.path) != shard:
        raise InputError(
            f"{shard.path}: changed since the run began; put it back, or score into another output_dir="
        )


def name_of_copy(name: str) -> str:
    """Name the file of a shard's kept rows: its own name, without a packing that is not gzip."""
    base = _base_name(name)
    is_packed = base.lower().endswith(PACKED_ENDINGS) and not base.lower().endswith(".gz")
    return without_packing(base) if is_packed else base
