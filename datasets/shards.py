"""Large sets of captions in shards: Parquet, JSON lines, WebDataset tar files, here or behind a URL.

A shard is read once, batch by batch, so that its length does not matter. What lies behind a URL
(`s3://…`, anything that fsspec opens) is copied to this machine first.
"""

from __future__ import annotations

import bz2
import contextlib
import glob
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import tarfile
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tarfile import HeaderError, ReadError
from typing import IO, Any, Self, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .errors import InputError
from .files import field, json_lines, parsed, sha256, texts
from .schema import whole

Result = TypeVar("Result")

#: Rows of a shard. `row` counts from 0; `references` is null where a row has none of its own.
SCHEMA = pa.schema(
    {
        "row": pa.int64(),
        "image_id": pa.string(),
        "caption": pa.string(),
        "references": pa.list_(pa.string()),
    }
)

_LINES = (".jsonl", ".ndjson")
_PACKED = ("", ".gz", ".zst", ".bz2", ".xz", ".lz4")
#: How shards are told apart: by the ending of their names. JSON that is no JSON lines is read whole,
#: by `benchmarks.captions`.
ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "lines": tuple(end + packed for end in _LINES for packed in _PACKED),
    "tar": tuple(".tar" + packed for packed in _PACKED),
    "json": (".json", ".json.gz"),
}
KNOWN = "Parquet (.parquet), JSON lines (.jsonl, .jsonl.gz, .jsonl.zst) or tar (.tar, .tar.gz)"
#: How long a store may take to answer, in seconds, and of what it sends bytes a second at least.
_SECONDS, _SLOWEST = 60.0, 100_000
#: Whoever writes these into a folder of shards means no captions.
_BESIDE = ("_", ".")

#: What a WebDataset sample may hold its caption in.
_TEXTS = ("txt", "caption")
_SAYING = (*_TEXTS, "json")
#: And its image.
IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp")


class CorruptError(InputError):
    """A shard cannot be read to its end; `skip_corrupt=true` leaves it out."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name}: corrupt ({' '.join(why.split())}); get it anew, or leave it out with skip_corrupt=true"
        )


@dataclass(frozen=True)
class Columns:
    """What the columns (of JSON, the keys) are called."""

    image_id: str = "image_id"
    caption: str = "caption"
    references: str = "references"


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


def is_url(path: str) -> bool:
    """Whether it is a URL and no path."""
    return re.match(r"[a-z][a-z0-9+.-]+://", path) is not None


def kind_of(path: str) -> str | None:
    """Of `ENDINGS`; None where the ending is none of them."""
    name = path.lower()
    return next((kind for kind, ends in ENDINGS.items() if name.endswith(ends)), None)


def find_shards(given: Sequence[str]) -> list[Shard]:
    """The shards that paths, globs, folders and URLs name, each once, in the order of their names.

    Raises:
        InputError: where nothing is found, or of a kind that is not known.
    """
    found: dict[str, Shard] = {}
    for path in given:
        for shard in _remote(path) if is_url(path) else _local(path):
            found.setdefault(shard.path, shard)
    return list(found.values())


def stamp_of(path: str) -> Shard:
    """A shard as it is now.

    Raises:
        InputError: where it is gone, or of a kind that is not known.
    """
    kind = kind_of(path)
    if kind is None:
        raise InputError(f"{path}: its ending tells no kind; {KNOWN} is expected")
    if is_url(path):
        with reaching(path):
            system, inside = system_of(path)
            system.invalidate_cache()
            return _shard(path, kind, in_time(lambda: system.info(inside)))
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return Shard(path, kind, stat.st_size, str(stat.st_mtime_ns))


def _local(path: str) -> list[Shard]:
    place = Path(path).expanduser()
    if place.is_dir():
        names = [str(p) for p in place.iterdir() if kind_of(p.name) and p.name[0] not in _BESIDE]
    elif place.exists() or not glob.has_magic(path):
        names = [str(place)]
    else:
        names = glob.glob(str(place), recursive=True)  # noqa: PTH207 - of an absolute path as well
    if not names:
        raise InputError(f"{path}: no shards there; {KNOWN} is expected")
    return [stamp_of(name) for name in sorted(names, key=_natural)]


def _remote(url: str) -> list[Shard]:
    with reaching(url):
        system, inside = system_of(url)
        system.invalidate_cache()
        infos: dict[str, Any]
        if glob.has_magic(inside):
            infos = in_time(lambda: system.glob(inside, detail=True))
        elif in_time(lambda: system.isdir(inside)):
            listed = in_time(lambda: system.ls(inside, detail=True))
            infos = {i["name"]: i for i in listed if kind_of(i["name"])}
            infos = {name: i for name, i in infos.items() if _name(name)[0] not in _BESIDE}
        else:
            infos = {inside: in_time(lambda: system.info(inside))}
    infos = {name: info for name, info in infos.items() if info["type"] == "file"}
    if not infos:
        raise InputError(f"{url}: no shards there; {KNOWN} is expected")
    found: list[Shard] = []
    for name in sorted(infos, key=_natural):
        kind = kind_of(name)
        if kind is None:
            raise InputError(f"{name}: its ending tells no kind; {KNOWN} is expected")
        found.append(_shard(system.unstrip_protocol(name), kind, infos[name]))
    return found


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _shard(path: str, kind: str, info: Any) -> Shard:
    tags = ("ETag", "etag", "md5Hash", "LastModified", "mtime", "created")
    stamp = next((info[tag] for tag in tags if info.get(tag) is not None), "")
    # A listing may have a time as a number, where the object itself has it as a time.
    stamp = str(stamp.timestamp()) if isinstance(stamp, datetime) else str(stamp)
    return Shard(path, kind, int(info["size"]), stamp)


def _natural(name: str) -> list[tuple[int, str]]:
    """`part-9` before `part-10`."""
    return [(int(n or -1), text) for text, n in re.findall(r"(\D*)(\d*)", name)]


def system_of(url: str) -> tuple[Any, str]:
    """A URL's file system, and the path in it.

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
def reaching(url: str) -> Generator[None]:
    """What goes wrong with an object store is told in a line.

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
        said = " ".join(str(error).split()) or "no answer in time"
        raise InputError(
            f"{url}: cannot be reached ({type(error).__name__}: {said[:200]}); what is done is kept: "
            f"start the same command again once it can"
        ) from error


def in_time(do: Callable[[], Result], size: int = 0) -> Result:
    """What a call to a store gives; its client may wait for ever for a store that is silent.

    Args:
        do: the call.
        size: how many bytes it moves.

    Raises:
        TimeoutError: where it takes longer than the store's answer and the slowest line would.
    """
    seconds = float(os.environ.get("CAPTAU_STORE_SECONDS") or _SECONDS)
    answer: Future[Result] = Future()

    def call() -> None:
        try:
            answer.set_result(do())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    try:
        return answer.result(seconds + size / _SLOWEST)
    except TimeoutError as error:
        said = (
            str(error) or f"no answer in {seconds:g} s; CAPTAU_STORE_SECONDS= sets another patience"
        )
        raise TimeoutError(said) from error


@contextmanager
def at_hand(shard: Shard, folder: Path) -> Generator[Path]:
    """A shard's file on this machine, while the block lasts; it must not have changed meanwhile.

    Args:
        folder: where a copy of what is behind a URL may lie.

    Raises:
        InputError: where it cannot be got, or is another one than `shard` was made from.
    """
    path = Path(shard.path)
    if is_url(shard.path):
        path = folder / f".{hashlib.sha256(shard.path.encode()).hexdigest()[:16]}.copy"
        with reaching(shard.path):
            system, inside = system_of(shard.path)
            in_time(lambda: system.get_file(inside, str(path)), shard.size)
    try:
        check_same(shard)
        yield path
        check_same(shard)
    finally:
        if is_url(shard.path):
            path.unlink(missing_ok=True)


def check_same(shard: Shard) -> None:
    """That a shard is what it was.

    Raises:
        InputError: where it is not.
    """
    if stamp_of(shard.path) != shard:
        raise InputError(
            f"{shard.path}: changed since the run began; put it back, or score into another output_dir="
        )


def digest_of(path: Path) -> str:
    """The SHA-256 of a shard's file."""
    return sha256(path)


def read(
    path: Path,
    shard: Shard,
    columns: Columns,
    size: int,
    images: Path | None = None,
    needed: Sequence[str] = ("image_id", "caption"),
) -> Iterator[pa.Table]:
    """The rows of a shard, some at a time, with `SCHEMA`, and `image` where a folder is given.

    Args:
        path: the shard's file on this machine.
        size: how many rows at a time.
        images: where to put the images that a tar shard holds; None leaves them.
        needed: the columns that have to be there; what another lacks is null.

    Raises:
        CorruptError: where the file is damaged.
        InputError: where a column is missing or a value is of another kind; with the row or line.
    """
    rows = {"parquet": _parquet, "lines": _lines}.get(shard.kind)
    try:
        if rows is not None:
            yield from rows(path, shard.path, columns, size, needed)
        else:
            yield from _tar(path, shard.path, columns, size, images)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ReadError) as error:
        raise CorruptError(shard.path, str(error)) from error
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise CorruptError(shard.path, f"no whole packed file: {error}") from error
    except OSError as error:
        if error.errno is not None:  # the system's, not what unpacking says of the content
            raise
        raise CorruptError(shard.path, str(error)) from error


def schema_of(
    path: Path, shard: Shard, columns: Columns, needed: Sequence[str] = ("image_id", "caption")
) -> dict[str, str]:
    """The kinds of a Parquet shard's columns that are read, by what captau calls them.

    Raises:
        CorruptError: where it is no Parquet file.
        InputError: where a column is missing.
    """
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptError(shard.path, str(error)) from error
    chosen = _chosen(schema, shard.path, columns, needed)
    return {mine: str(schema.field(name).type) for mine, name in chosen}


def _chosen(
    schema: pa.Schema, name: str, columns: Columns, needed: Sequence[str]
) -> list[tuple[str, str]]:
    """Which columns are read, by what captau calls them."""
    for mine in needed:
        if getattr(columns, mine) not in schema.names:
            raise missing(name, mine, getattr(columns, mine), schema.names)
    wanted = [(mine, str(theirs)) for mine, theirs in vars(columns).items()]
    return [(mine, theirs) for mine, theirs in wanted if theirs in schema.names]


def missing(name: str, mine: str, theirs: str, there: Iterable[str]) -> InputError:
    """The error for a column that is not there."""
    return InputError(
        f"{name}: no column '{theirs}'; there are: {', '.join(there) or 'none'}; "
        f"columns.{mine}=NAME names another"
    )


def _parquet(
    path: Path, name: str, columns: Columns, size: int, needed: Sequence[str]
) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        chosen = _chosen(file.schema_arrow, name, columns, needed)
        first = 0
        for batch in file.iter_batches(size, columns=[theirs for _, theirs in chosen]):
            batch.validate(full=True)  # texts are UTF-8
            found = {mine: batch.column(theirs) for mine, theirs in chosen}
            yield _table(found, first, len(batch), name)
            first += len(batch)


def _table(found: dict[str, Any], first: int, size: int, name: str) -> pa.Table:
    """Columns as `SCHEMA` has them, checked."""
    for mine in ("image_id", "caption"):
        if mine not in found:
            continue
        column = found[mine]
        if column.null_count:
            row = first + int(pc.index(column.is_null(), True).as_py())
            raise InputError(f"{name}: row {row}: '{mine}' is null; fill it or leave the row out")
        if not (_is_text(column.type) or (mine == "image_id" and _is_number(column.type))):
            raise InputError(f"{name}: '{mine}' is {column.type}, not text; write it as text")
    columns: list[Any] = [pa.array(range(first, first + size), pa.int64())]
    for wanted in list(SCHEMA)[1:]:
        column = found.get(wanted.name, pa.nulls(size, wanted.type))
        if wanted.name == "references" and not _is_list(column.type):
            raise InputError(
                f"{name}: 'references' is {column.type}, not a list of texts; write it as one"
            )
        columns.append(column.cast(wanted.type))
    if columns[-1].flatten().null_count:
        raise InputError(f"{name}: 'references' holds a null; fill it or leave it out")
    return pa.table(columns, schema=SCHEMA)


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):  # of pandas' categories
        kind = kind.value_type
    # A view is how polars has texts.
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_number(kind: Any) -> bool:
    return pa.types.is_integer(kind)


def _is_list(kind: Any) -> bool:
    lists = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return (lists and _is_text(kind.value_type)) or pa.types.is_null(kind)


def _lines(
    path: Path, name: str, columns: Columns, size: int, needed: Sequence[str]
) -> Iterator[pa.Table]:
    with opened(path, name) as stream:
        rows = _objects(stream, name)
        yield from tables(
            (_row(row, columns, f"{name}:{line}", needed) for line, row in rows), size
        )


def _objects(stream: Iterable[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        yield from json_lines(stream, name)
    except InputError as error:
        raise CorruptError(name, str(error).removeprefix(f"{name}:")) from error


Row = tuple[str, str | None, tuple[str, ...] | None]


def _row(
    row: Any, columns: Columns, where: str, needed: Sequence[str] = ("image_id", "caption")
) -> Row:
    """The values of an object; an image id may be a number."""
    for mine in needed:
        if isinstance(row, dict) and getattr(columns, mine) not in row:
            raise missing(where, mine, getattr(columns, mine), row)
    image_id = whole(str(field(row, columns.image_id, (str, int), where)))
    caption = whole(field(row, columns.caption, str, where)) if "caption" in needed else None
    if row.get(columns.references) is None:
        return image_id, caption, None
    return image_id, caption, tuple(map(whole, texts(row, columns.references, where)))


def tables(rows: Iterable[Row], size: int, images: list[str] | None = None) -> Iterator[pa.Table]:
    """Rows as tables of `SCHEMA`, so many at a time.

    Args:
        images: the rows' images so far, which go into a column of their own.
    """
    first, some = 0, list[Row]()

    def table() -> pa.Table:
        found = [list(values) for values in zip(*some, strict=True)]
        made = pa.table([list(range(first, first + len(some))), *found], schema=SCHEMA)
        return made if images is None else made.append_column("image", [pa.array(_drained(images))])

    for row in rows:
        some.append(row)
        if len(some) == size:
            yield table()
            first, some = first + len(some), []
    if some:
        yield table()


def _drained(images: list[str]) -> list[str]:
    found = list(images)
    images.clear()
    return found


@contextmanager
def opened(path: Path, name: str) -> Generator[IO[bytes]]:
    """A file's bytes, unpacked as its name says.

    Raises:
        EOFError: where a packed file is cut short.
    """
    with contextlib.ExitStack() as stack:
        packed = "." + name.lower().rpartition(".")[2]
        if packed in _PACKED and not path.stat().st_size:
            raise EOFError("it is empty")  # which not every library minds
        if packed == ".gz":
            yield cast("IO[bytes]", stack.enter_context(gzip.GzipFile(path)))
        elif packed == ".bz2":
            yield stack.enter_context(bz2.open(path))
        elif packed == ".xz":
            yield stack.enter_context(lzma.open(path))
        elif packed in (".zst", ".lz4"):
            codec = {".zst": "zstd", ".lz4": "lz4"}[packed]
            source = stack.enter_context(pa.CompressedInputStream(pa.OSFile(str(path)), codec))
            yield stack.enter_context(io.BufferedReader(source, 1 << 20))
        else:
            yield stack.enter_context(path.open("rb"))


@dataclass
class _Sample:
    """What a WebDataset's tar holds under one key."""

    key: str
    parts: dict[str, bytes]

    @property
    def says(self) -> bool:
        """Whether it has a text; without one it is no row."""
        return any(ending in self.parts for ending in _SAYING)


def _tar(
    path: Path, name: str, columns: Columns, size: int, images: Path | None
) -> Iterator[pa.Table]:
    paths: list[str] | None = None if images is None else []

    def rows() -> Iterator[Row]:
        for number, sample in enumerate(samples(path, name, images is not None)):
            if images is not None and paths is not None:
                paths.append(_image(sample, images, number, name))
            yield _of_sample(sample, columns, f"{name}: sample '{sample.key}'")

    yield from tables(rows(), size, paths)


class _Header(tarfile.TarInfo):
    """A member's header; where one is damaged or lacking, `tarfile` itself takes the archive to end there."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":  # the end as it should be
                raise
            raise ReadError(f"{error} at byte {tarfile.offset:,}") from error


def _archive(stream: IO[bytes]) -> tarfile.TarFile:
    """A tar whose members are read one after another, to the mark of its end."""
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header)


def samples(path: Path, name: str, images: bool = False) -> Iterator[_Sample]:
    """The samples of a tar: neighbours whose names are equal up to the first dot.

    Args:
        images: whether to read images too.

    Raises:
        CorruptError: where the archive ends too early.
    """
    sample = _Sample("", {})
    with opened(path, name) as stream, _archive(stream) as archive:
        for member in archive:
            if not member.isfile():
                continue
            folder, _, base = member.name.rpartition("/")
            stem, _, ending = base.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if key != sample.key:
                if sample.says:
                    yield sample
                sample = _Sample(key, {})
            ending = ending.lower()
            if ending in _SAYING or (images and ending in IMAGES):
                content = archive.extractfile(member)
                sample.parts[ending] = content.read() if content else b""
    if sample.says:
        yield sample


def _of_sample(sample: _Sample, columns: Columns, where: str) -> Row:
    """A sample's JSON, or its text; its key is the image id where the JSON has none."""
    row: dict[str, Any] = {columns.image_id: sample.key}
    if "json" in sample.parts:
        found = parsed(_decoded(sample.parts["json"], where), where)
        if not isinstance(found, dict):
            raise InputError(f"{where}: its .json holds no object")
        row |= found
    for ending in _TEXTS:
        if ending in sample.parts:
            row[columns.caption] = _decoded(sample.parts[ending], where).strip("\n")
    return _row(row, columns, where)


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text; save it as UTF-8") from error


def _image(sample: _Sample, folder: Path, number: int, name: str) -> str:
    """Where a sample's image was put; its name is a number, whatever the archive calls it."""
    ending = next((e for e in IMAGES if e in sample.parts), None)
    if ending is None:
        raise InputError(f"{name}: sample '{sample.key}' has no image; metrics asked for need it")
    path = folder / f"{number}.{ending}"
    path.write_bytes(sample.parts[ending])
    return str(path)


def filtered(path: Path, name: str, kind: str, kept: Sequence[bool], stream: IO[bytes]) -> None:
    """Copy the rows of a shard that are kept, as they are and in its own format.

    Args:
        path: its file.
        name: its path or URL, whose ending says how it is packed.
        kind: of `ENDINGS`.
        kept: of each row, in order.
        stream: where to write; JSON lines and tar are packed by gzip where their name ends so, and
            not at all else.
    """
    if kind == "parquet":
        with pq.ParquetFile(path) as file, pq.ParquetWriter(stream, file.schema_arrow) as writer:
            first = 0
            for batch in file.iter_batches():
                writer.write_table(_chosen_rows(batch, kept[first : first + len(batch)]))
                first += len(batch)
        return
    packed: Any = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) if _zips(name) else stream
    try:
        if kind == "lines":
            with opened(path, name) as lines:
                rows = (line for line in lines if line.strip())
                packed.writelines(
                    line if line.endswith(b"\n") else line + b"\n"
                    for line, keep in zip(rows, kept, strict=True)
                    if keep
                )
        else:
            _filter_tar(path, name, kept, packed)
    finally:
        if packed is not stream:
            packed.close()


def _chosen_rows(batch: pa.RecordBatch, kept: Sequence[bool]) -> pa.Table:
    try:
        return pa.table(batch.filter(pa.array(kept, pa.bool_())))
    except pa.ArrowNotImplementedError:  # of views, which polars writes, pyarrow takes slices alone
        slices = [batch.slice(i, 1) for i, keep in enumerate(kept) if keep]
        return pa.Table.from_batches(slices, batch.schema)


def _zips(name: str) -> bool:
    return name.lower().endswith(".gz")


def plain_name(name: str) -> str:
    """What the kept rows of a shard are called: its own name, without a packing that is not gzip."""
    base = _name(name)
    packed = next((p for p in _PACKED[2:] if base.lower().endswith(p)), "")
    return base[: len(base) - len(packed)] if packed else base


def _filter_tar(path: Path, name: str, kept: Sequence[bool], stream: Any) -> None:
    number, before = -1, ""
    with (
        opened(path, name) as source,
        _archive(source) as archive,
        tarfile.open(fileobj=stream, mode="w|") as target,
    ):
        of_key: list[tuple[tarfile.TarInfo, bytes]] = []

        def flush() -> None:
            nonlocal number
            endings = [m.name.rpartition("/")[2].partition(".")[2].lower() for m, _ in of_key]
            if any(ending in _SAYING for ending in endings):
                number += 1
                if kept[number]:
                    for member, content in of_key:
                        target.addfile(member, io.BytesIO(content))
            of_key.clear()

        for member in archive:
            if not member.isfile():
                continue
            folder, _, base = member.name.rpartition("/")
            key = f"{folder}/{base.partition('.')[0]}"
            if key != before:
                flush()
                before = key
            content = archive.extractfile(member)
            of_key.append((member, content.read() if content else b""))
        flush()
    if number + 1 != len(kept):
        raise InputError(f"{name}: {number + 1:,} samples, where {len(kept):,} were scored")


def as_json(shard: Shard) -> dict[str, Any]:
    """A shard for a file."""
    return json.loads(json.dumps(vars(shard)))
