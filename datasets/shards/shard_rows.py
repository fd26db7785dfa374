"""Reading the rows of a shard, batch by batch, into Arrow tables with `SCHEMA`.

The samples of a WebDataset's tar are neighbouring members with one name up to the first dot.
"""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tarfile import HeaderError, ReadError
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..caption_texts import replace_surrogates
from ..download.archives import BoundedHeader
from ..errors import InputError
from ..reading.cells import parse_references
from ..reading.json_files import (
    MAX_ENTRY_BYTES,
    entry_too_long,
    field,
    json_lines,
    parsed,
)
from ..reading.table import Columns, measure_row_group, open_parquet
from .shard_files import Shard, open_unpacked

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
    stream: Any = archive.fileobj
    while block := stream.read(tarfile.RECORDSIZE):
        if block.strip(b"\0"):
            raise InputError(
                f"{name}: something follows the end of the archive, such as a second one; "
                f"give each archive its own file, or join them with tar --concatenate"
            )


#: Rows of a shard. `row` counts from 0; `references` is null where a row has none of its own.
SCHEMA = pa.schema(
    {
        "row": pa.int64(),
        "image_id": pa.string(),
        "caption": pa.string(),
        "references": pa.list_(pa.string()),
    }
)

#: The most bytes of the texts that are read at a time.
MOST_BYTES = 1 << 29
#: The most rows and bytes of a Parquet file that are read in one batch, if a table has no more rows.
_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 1 << 26

#: The values of a row: image id, caption, references.
Row = tuple[str, str | None, tuple[str, ...] | None]


class CorruptError(InputError):
    """A shard cannot be read to its end; `skip_corrupt=true` leaves it out."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name}: corrupt ({' '.join(why.split())}); get a new copy, or leave it out with skip_corrupt=true"
        )


def read_rows(
    path: Path,
    shard: Shard,
    columns: Columns,
    size: int,
    images: Path | None = None,
    required: Sequence[str] = ("image_id", "caption"),
) -> Iterator[pa.Table]:
    """Yield the rows of a shard in batches with `SCHEMA`, and `image` where a folder is given.

    Args:
        path: the shard's file on this machine.
        size: how many rows at a time.
        images: where to put the images that a tar shard holds; None leaves them.
        required: the columns that have to be there; a missing other one is null.

    Raises:
        CorruptError: where the file is damaged.
        InputError: where a column is missing or a value is of another kind; with the row or line.
    """
    rows = {"parquet": _read_parquet, "lines": _read_lines}.get(shard.kind)
    try:
        if rows is not None:
            yield from rows(path, shard.path, columns, size, required)
        else:
            yield from _read_tar(path, shard.path, columns, size, images)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ReadError) as error:
        raise CorruptError(shard.path, str(error)) from error
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise CorruptError(shard.path, f"not a complete packed file: {error}") from error
    except OSError as error:
        if error.errno is not None:  # the system's, not what unpacking says of the content
            raise
        raise CorruptError(shard.path, str(error)) from error


def column_types(path: Path, shard: Shard, columns: Columns) -> dict[str, str]:
    """Return the types of a Parquet shard's columns, by captau's own names of them.

    Raises:
        CorruptError: where it is no Parquet file.
        InputError: where a column is missing.
    """
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptError(shard.path, str(error)) from error
    column_pairs = _columns_to_read(schema, shard.path, columns, ("image_id", "caption"))
    return {own_name: str(schema.field(name).type) for own_name, name in column_pairs}


def has_column(path: Path, shard: Shard, column: str) -> bool:
    """Say whether a Parquet shard, or the first row of JSON lines, has a column; of other shards this is not known.

    Args:
        path: the shard's file on this machine, which has been read.
        shard: which it is.
        column: the name of the column in the file.
    """
    if shard.kind == "parquet":
        return column in pq.read_schema(path).names
    if shard.kind != "lines":
        return False
    with open_unpacked(path, shard.path) as stream:
        _, first_row = next(json_lines(stream, shard.path), (0, {}))
    return column in first_row


def _columns_to_read(
    schema: pa.Schema, name: str, columns: Columns, required: Sequence[str]
) -> list[tuple[str, str]]:
    """Return captau's name and the file's name of each column to read."""
    for own_name in required:
        if getattr(columns, own_name) not in schema.names:
            raise missing_column(name, own_name, getattr(columns, own_name), schema.names)
    for file_name in vars(columns).values():
        if schema.names.count(file_name) > 1:
            raise InputError(f"{name}: has two columns '{file_name}'; rename one")
    column_pairs = [(own_name, str(file_name)) for own_name, file_name in vars(columns).items()]
    return [
        (own_name, file_name) for own_name, file_name in column_pairs if file_name in schema.names
    ]


def missing_column(
    name: str, own_name: str, file_name: str, column_names: Iterable[str]
) -> InputError:
    """Return the error for a missing column."""
    return InputError(
        f"{name}: no column '{file_name}'; there are: {', '.join(column_names) or 'none'}; "
        f"columns.{own_name}=NAME names another"
    )


def _read_parquet(
    path: Path, name: str, columns: Columns, size: int, required: Sequence[str]
) -> Iterator[pa.Table]:
    with open_parquet(path, nested=True) as file:
        column_pairs = _columns_to_read(file.schema_arrow, name, columns, required)
        first_row = 0
        file_names = [file_name for _, file_name in column_pairs]
        for table in _read_row_groups(file, name, size, file_names):
            columns_by_name = {
                own_name: table.column(file_name) for own_name, file_name in column_pairs
            }
            yield _make_table(columns_by_name, first_row, len(table), name)
            first_row += len(table)


def _read_row_groups(file: Any, name: str, size: int, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file in tables of `size` rows, which may span several row groups.

    Raises:
        InputError: where the texts of a table are too long for memory.
    """
    batches: list[Any] = []
    first_row, n_bytes, n_missing = 0, 0, size
    for group in range(file.num_row_groups):
        n_rows, n_stored_bytes = measure_row_group(file.metadata.row_group(group), columns)
        # So many tables share them, so that one of these has the mean or more.
        n_tables = 1 + max(0, -((n_missing - n_rows) // size))
        check_size(
            name, first_row, size - n_missing + n_rows, (n_bytes + n_stored_bytes) // n_tables
        )
        # Each batch has the texts of all batches before in its dictionary, so that few are better.
        batch_rows = max(size, min(_BATCH_ROWS, n_rows * _BATCH_BYTES // max(1, n_stored_bytes)))
        for batch in file.iter_batches(batch_rows, row_groups=[group], columns=columns):
            while len(batch):
                batches.append(batch.slice(0, n_missing))
                batch = batch.slice(n_missing)
                n_missing -= len(batches[-1])
                n_bytes += sum(map(_count_bytes, batches[-1].columns))
                check_size(name, first_row, size - n_missing, n_bytes)
                if not n_missing:
                    yield pa.Table.from_batches(batches)
                    first_row += size
                    batches, n_bytes, n_missing = [], 0, size
    if batches:
        yield pa.Table.from_batches(batches)


def _make_table(columns_by_name: dict[str, Any], first_row: int, size: int, name: str) -> pa.Table:
    """Check columns and bring them into the form of `SCHEMA`."""
    for own_name in ("image_id", "caption"):
        if own_name not in columns_by_name:
            continue
        column = columns_by_name[own_name]
        if column.null_count:
            row = first_row + int(pc.index(column.is_null(), True).as_py())
            raise InputError(
                f"{name}: row {row}: '{own_name}' is null; fill it or leave the row out"
            )
        if not (
            _is_text(column.type) or (own_name == "image_id" and pa.types.is_integer(column.type))
        ):
            kind = _value_type(column.type)
            raise InputError(f"{name}: '{own_name}' is {kind}, not text; write it as text")
    columns: list[Any] = [pa.array(range(first_row, first_row + size), pa.int64())]
    for schema_field in list(SCHEMA)[1:]:
        missing = pa.chunked_array([pa.nulls(size, schema_field.type)])
        column = columns_by_name.get(schema_field.name, missing)
        if schema_field.name == "references" and not _is_text_list(column.type):
            kind = _value_type(column.type)
            raise InputError(
                f"{name}: 'references' is {kind}, not a list of texts; write it as one"
            )
        columns.append(column.cast(schema_field.type))
    if any(chunk.flatten().null_count for chunk in columns[-1].chunks):
        raise InputError(f"{name}: 'references' holds a null; fill it or leave it out")
    table = pa.table(columns, schema=SCHEMA)
    table.validate(full=True)  # texts are UTF-8
    return table


def check_size(name: str, first_row: int, n_rows: int, n_bytes: int) -> None:
    """Check that the texts of rows that are read at a time have no more than `MOST_BYTES`.

    Raises:
        InputError: where they have.
    """
    if n_bytes > MOST_BYTES:
        raise InputError(
            f"{name}: the texts of rows {first_row:,} to {first_row + n_rows - 1:,} have more than "
            f"{MOST_BYTES >> 20} MB, the most that is read at a time; not a file of captions"
        )


def count_text_bytes(texts: Iterable[str]) -> int:
    """Return how many bytes texts have as UTF-8."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


def _count_bytes(array: Any) -> int:
    """Return how many bytes the texts of an array or of its lists have that are read as a dictionary."""
    is_list = pa.types.is_nested(array.type) and _is_text_list(array.type)
    texts = array.flatten() if is_list else array
    if not pa.types.is_dictionary(texts.type):
        return 0
    lengths = pc.call_function("binary_length", [texts.dictionary]).take(texts.indices)
    return pc.call_function("sum", [lengths]).as_py() or 0


def _value_type(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    kind = _value_type(kind)
    # A view is how polars has texts.
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_text_list(kind: Any) -> bool:
    lists = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return (lists and _is_text(kind.value_type)) or pa.types.is_null(kind)


def _read_lines(
    path: Path, name: str, columns: Columns, size: int, required: Sequence[str]
) -> Iterator[pa.Table]:
    with open_unpacked(path, name) as stream:
        rows = _read_objects(stream, name)
        yield from batch_rows(
            (_parse_row(row, columns, f"{name}:{line}", required) for line, row in rows), name, size
        )


def _read_objects(stream: Iterable[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        yield from json_lines(stream, name)
    except InputError as error:
        raise CorruptError(name, str(error).removeprefix(f"{name}:")) from error


def _parse_row(
    row: Any, columns: Columns, where: str, required: Sequence[str] = ("image_id", "caption")
) -> Row:
    """Return the values of an object; an image id may be a number."""
    for own_name in required:
        if isinstance(row, dict) and getattr(columns, own_name) not in row:
            raise missing_column(where, own_name, getattr(columns, own_name), row)
    image_id = replace_surrogates(str(field(row, columns.image_id, (str, int), where)))
    caption = (
        replace_surrogates(field(row, columns.caption, str, where))
        if "caption" in required
        else None
    )
    if row.get(columns.references) is None:
        return image_id, caption, None
    references = field(row, columns.references, list, where)
    return image_id, caption, parse_references(references, where)


def batch_rows(
    rows: Iterable[Row], name: str, size: int, images: list[str] | None = None
) -> Iterator[pa.Table]:
    """Yield rows as tables of `SCHEMA`, each of `size` rows.

    Args:
        name: the shard's, for the message.
        images: the rows' images so far, which go into a column of their own.

    Raises:
        InputError: where the texts of a table's rows are too long for memory.
    """
    first_row, n_bytes, batch = 0, 0, list[Row]()

    def make_table() -> pa.Table:
        columns = [list(values) for values in zip(*batch, strict=True)]
        table = pa.table([range(first_row, first_row + len(batch)), *columns], schema=SCHEMA)
        if images is None:
            return table
        image_column = pa.array(list(images))
        images.clear()
        return table.append_column("image", [image_column])

    for row in rows:
        batch.append(row)
        image_id, caption, references = row
        n_bytes += count_text_bytes((image_id, caption or "", *(references or ())))
        check_size(name, first_row, len(batch), n_bytes)
        if len(batch) == size:
            yield make_table()
            first_row, n_bytes, batch = first_row + len(batch), 0, []
    if batch:
        yield make_table()


@dataclass
class _Sample:
    """The members of a WebDataset's tar under one key: their endings, and the content of those that are read."""

    key: str
    endings: set[str]
    parts: dict[str, bytes]


def _read_tar(
    path: Path, name: str, columns: Columns, size: int, images: Path | None
) -> Iterator[pa.Table]:
    paths: list[str] | None = None if images is None else []

    def rows() -> Iterator[Row]:
        for number, sample in enumerate(read_samples(path, name, images=images is not None)):
            if images is not None and paths is not None:
                paths.append(_write_image(sample, images, number, name))
            yield _sample_row(sample, columns, f"{name}: sample '{sample.key}'")

    yield from batch_rows(rows(), name, size, paths)


def read_samples(path: Path, name: str, *, images: bool) -> Iterator[_Sample]:
    """Yield the samples of a tar that have a caption: neighbours whose names are equal up to the first dot.

    Args:
        images: whether to read images too.

    Raises:
        CorruptError: where the archive ends too early.
        InputError: where a caption would be lost, since a member is there twice or its name has further dots.
    """
    sample = _Sample("", set(), {})
    with open_unpacked(path, name) as stream, open_tar(stream) as archive:
        for member, key, ending in list_members(archive, name):
            if key != sample.key:
                if not sample.endings.isdisjoint(CAPTION_ENDINGS):
                    yield sample
                sample = _Sample(key, set(), {})
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


def _sample_row(sample: _Sample, columns: Columns, where: str) -> Row:
    """Return a sample's JSON, or its text; its key is the image id where the JSON has none."""
    row: dict[str, Any] = {columns.image_id: sample.key}
    if "json" in sample.parts:
        values = parsed(_decode(sample.parts["json"], where), where)
        if not isinstance(values, dict):
            raise InputError(f"{where}: its .json holds no object")
        row |= values
    for ending in TEXT_ENDINGS:
        if ending in sample.parts:
            caption = _decode(sample.parts[ending], where).strip("\n")
            if row.get(columns.caption, caption) != caption:
                raise InputError(f"{where}: has two captions, one in .{ending}; keep one")
            row[columns.caption] = caption
    return _parse_row(row, columns, where)


def _decode(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text; save it as UTF-8") from error


def _write_image(sample: _Sample, folder: Path, number: int, name: str) -> str:
    """Write a sample's image and return its path, a number, whatever the archive calls it."""
    ending = next((e for e in IMAGES if e in sample.parts), None)
    if ending is None:
        raise InputError(f"{name}: sample '{sample.key}' has no image; metrics asked for need it")
    path = folder / f"{number}.{ending}"
    path.write_bytes(sample.parts[ending])
    return str(path)
