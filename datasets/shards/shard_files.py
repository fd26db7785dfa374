"""Finding shards by path, glob, folder or URL, and having them at hand on this machine.

Object stores and other file systems behind a URL are opened by fsspec, with a time limit.
"""

from __future__ import annotations

import bz2
import contextlib
import glob
import gzip
import hashlib
import io
import lzma
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from ..errors import InputError
from ..paths import expand_home

Result = TypeVar("Result")

#: How long a store may take to answer, in seconds, and the fewest bytes a second that it must send.
_SECONDS, _SLOWEST = 60.0, 100_000


def is_url(path: str) -> bool:
    """Tell whether a place is a URL rather than a path."""
    return re.match(r"[a-z][a-z0-9+.-]+://", path) is not None


def open_file_system(url: str) -> tuple[Any, str]:
    """Open a URL's file system, and return it with the path in it.

    Raises:
        InputError: where fsspec, or what it needs for this store, is not installed.
    """
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise InputError(f"{url}: fsspec is not installed: pip install 'captau[remote]'") from error
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:  # the store's own client
        raise InputError(f"{url}: {error}; for s3:// pip install 'captau[remote]'") from error
    except ValueError as error:
        raise InputError(f"{url}: {error}") from error


@contextmanager
def reporting_store_errors(url: str) -> Generator[None]:
    """Report whatever goes wrong with an object store in one line.

    Raises:
        InputError: in place of whatever its client raises.
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{url}: is not there") from error
    except Exception as error:  # each store's client has errors of its own
        reason = " ".join(str(error).split()) or "no answer in time"
        raise InputError(
            f"{url}: cannot be reached ({type(error).__name__}: {reason[:200]}); what is done is kept: "
            f"start the same command again once it can"
        ) from error


def call_in_time(call: Callable[[], Result], size: int = 0, seconds: float | None = None) -> Result:
    """Return the result of a call to a store, whose client might wait for a silent store for ever.

    Args:
        call: the call.
        size: how many bytes it moves.
        seconds: how long the call may take, whatever its size; None for `CAPTAU_STORE_SECONDS`, else the
            usual time, and what the slowest line takes for the bytes.

    Raises:
        TimeoutError: where it takes longer than the store's answer and the slowest line would.
    """
    if seconds is not None:
        size = 0
    else:
        seconds = float(os.environ.get("CAPTAU_STORE_SECONDS") or _SECONDS)
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result(seconds + size / _SLOWEST)
    except TimeoutError as error:
        reason = (
            str(error) or f"no answer in {seconds:g} s; CAPTAU_STORE_SECONDS= sets another patience"
        )
        raise TimeoutError(reason) from error


class RemotePath:
    """A file or folder in an object store; its methods do what those of `Path` do, within a time limit.

    Args:
        url: the address, as people know it.
        reporting: a context manager that turns errors of the store's client into errors for people, whose
            messages name the URL that it takes.
        seconds: how long a call may take; see `call_in_time`.

    Raises:
        InputError: where fsspec, or what it needs for this store, is not installed.
    """

    def __init__(
        self,
        url: str,
        reporting: Callable[[str], AbstractContextManager[None]] = reporting_store_errors,
        seconds: float | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.reporting, self.seconds = reporting, seconds
        with reporting(url):
            self.system, path = open_file_system(url)
        self.path = path.rstrip("/")

    def __truediv__(self, name: str) -> RemotePath:
        below = copy(self)
        below.url, below.path = f"{self.url}/{name}", f"{self.path}/{name}"
        return below

    def __str__(self) -> str:
        return self.url

    def _call(self, method: Callable[..., Result], *arguments: Any, size: int = 0) -> Result:
        with self.reporting(self.url):
            return call_in_time(lambda: method(*arguments), size, self.seconds)

    def exists(self) -> bool:
        """Say whether there is a file or folder."""
        return bool(self._call(self.system.exists, self.path))

    def is_file(self) -> bool:
        """Say whether there is a file; False where the store cannot be reached and errors are OSErrors."""
        try:
            return self.exists()
        except OSError:
            return False

    def size(self) -> int:
        """Return how many bytes a file has."""
        return int(self._call(self.system.size, self.path))

    def read_bytes(self, size: int = 0) -> bytes:
        """Return the content of a file, which has `size` bytes as far as that is known."""
        return self._call(self.system.cat_file, self.path, size=size)

    def write_bytes(self, content: bytes) -> None:
        """Write a file, whole or not at all."""
        self._call(self.system.pipe_file, self.path, content, size=len(content))

    def copy_from(self, source: Path) -> None:
        """Write a file with the content of one of this machine."""
        size = source.stat().st_size
        self._call(self.system.put_file, str(source), self.path, size=size)

    def list_names(self) -> list[str]:
        """Return the names in a folder; none where it does not exist."""
        if not self._call(self.system.isdir, self.path):
            return []
        paths = self._call(self.system.ls, self.path, False)
        return [path.rpartition("/")[2] for path in paths]

    def unlink(self) -> None:
        """Remove a file."""
        self._call(self.system.rm_file, self.path)


_LINES = (".jsonl", ".ndjson")
PACKINGS = ("", ".gz", ".zst", ".bz2", ".xz", ".lz4")
#: The endings of shards' names by kind. JSON that is no JSON lines is read whole, by
#: `datasets.reading.caption_files`.
ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "lines": tuple(end + packing for end in _LINES for packing in PACKINGS),
    "tar": tuple(".tar" + packing for packing in PACKINGS),
    "json": (".json", ".json.gz"),
}
_EXPECTED = "Parquet (.parquet), JSON lines (.jsonl, .jsonl.gz, .jsonl.zst) or tar (.tar, .tar.gz)"
#: Files in a folder of shards whose names begin so are no shards.
_HIDDEN = ("_", ".")


@dataclass(frozen=True)
class Shard:
    """One file of a set.

    Attributes:
        path: where it is, a path or a URL.
        kind: of `ENDINGS`.
        size: in bytes.
        stamp: what changes when the file does: its time, or a store's tag.
    """

    path: str
    kind: str
    size: int
    stamp: str


def kind_of(path: str) -> str | None:
    """Return a shard's kind by its ending; None where the ending is none of `ENDINGS`."""
    name = path.lower()
    return next((kind for kind, ends in ENDINGS.items() if name.endswith(ends)), None)


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
    if location.is_dir():
        names = [str(p) for p in location.iterdir() if kind_of(p.name) and p.name[0] not in _HIDDEN]
    elif location.exists() or not glob.has_magic(path):
        names = [str(location)]
    else:
        names = glob.glob(str(location), recursive=True)  # noqa: PTH207 - of an absolute path as well
    if not names:
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
            infos = {i["name"]: i for i in listed if kind_of(i["name"])}
            infos = {name: i for name, i in infos.items() if _base_name(name)[0] not in _HIDDEN}
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
    stamp = next((info[tag] for tag in tags if info.get(tag) is not None), "")
    # A listing may have a time as a number, where the object itself has it as a time.
    stamp = str(stamp.timestamp()) if isinstance(stamp, datetime) else str(stamp)
    return Shard(path, kind, int(info["size"]), stamp)


def _natural(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that puts `part-9` before `part-10`, and both before `z-1`."""
    return [int(p) if p.isdecimal() else p for p in re.split(r"(\d+)", name)], name


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


@contextmanager
def open_unpacked(path: Path, name: str) -> Generator[IO[bytes]]:
    """Open a file's bytes, unpacked as its name says.

    Raises:
        EOFError: where a packed file is cut short.
    """
    with contextlib.ExitStack() as stack:
        packed = "." + name.lower().rpartition(".")[2]
        if packed in PACKINGS and not path.stat().st_size:
            raise EOFError("it is empty")  # which not every library minds
        if packed == ".gz":
            yield cast("IO[bytes]", stack.enter_context(gzip.GzipFile(path)))
        elif packed == ".bz2":
            yield stack.enter_context(bz2.open(path))
        elif packed == ".xz":
            yield stack.enter_context(lzma.open(path))
        elif packed in (".zst", ".lz4"):
            codec = {".zst": "zstd", ".lz4": "lz4"}[packed]
            import pyarrow as pa

            source = stack.enter_context(pa.CompressedInputStream(pa.OSFile(str(path)), codec))
            yield stack.enter_context(io.BufferedReader(source, 1 << 20))
        else:
            yield stack.enter_context(path.open("rb"))


def check_unchanged(shard: Shard) -> None:
    """Check that a shard is unchanged.

    Raises:
        InputError: where it is not.
    """
    if stat_shard(shard.path) != shard:
        raise InputError(
            f"{shard.path}: changed since the run began; put it back, or score into another output_dir="
        )


def plain_name(name: str) -> str:
    """Name the file of a shard's kept rows: its own name, without a packing that is not gzip."""
    base = _base_name(name)
    packed = next((p for p in PACKINGS[2:] if base.lower().endswith(p)), "")
    return base[: len(base) - len(packed)] if packed else base
