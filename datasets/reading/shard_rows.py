"""The rows of a shard in Arrow tables with `SCHEMA`, some at a time, so that a shard's length does not matter.

Arrow reads Parquet, CSV and JSON lines. Lines that Arrow refuses, such as ids that are now numbers and now texts, are read
by the rules of small files, which also name the line of a fault. `tar_samples` reads the samples of a tar.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from ..caption_texts import replace_surrogates
from ..errors import InputError, escape_controls
from .cells import parse_references
from .conversations import with_answer
from .json_files import field, json_lines, parsed
from .packed_files import PACKED_ENDINGS, DamagedError, unpacked
from .shard_columns import find_columns, sample_types
from .shard_files import Shard
from .table import BUFFER_BYTES, Columns
from .tar_samples import IMAGES, TEXT_ENDINGS, Sample, read_samples

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
#: How many rows Arrow reads in one step: few, as a small Parquet file may repeat a long text in all rows.
STEP_ROWS = 256
#: How many bytes of rows from Python, or of JSON lines, are read in one step, and how many of CSV: no less than a row has.
_STEP_BYTES, _CSV_BYTES = 1 << 20, 1 << 24

#: The values of a row: image id, caption, references.
Row = tuple[str, str | None, tuple[str, ...] | None]


#: The most characters that an error repeats of what a library says.
_MOST_REPEATED = 200


class CorruptError(InputError):
    """A shard cannot be read to its end; `skip_corrupt=true` leaves it out."""

    def __init__(self, name: str, why: str) -> None:
        # Arrow repeats a row that it cannot read whole.
        words = escape_controls(" ".join(why.split()))
        if len(words) > _MOST_REPEATED:
            words = f"{words[:_MOST_REPEATED]}…"
        super().__init__(
            f"{name}: corrupt ({words}); get a new copy, or leave it out with skip_corrupt=true"
        )


def read_rows(
    path: Path,
    shard: Shard,
    columns: Columns,
    size: int,
    images: Path | None = None,
    required: Sequence[str] = ("image_id", "caption"),
) -> Iterator[pa.Table]:
    """Yield the rows of a shard in tables with `SCHEMA`, and `image` where a folder is given.

    Args:
        path: the shard's file on this machine.
        size: how many rows at a time; the last table may have fewer.
        images: where to put the images that a tar shard holds; None leaves them.
        required: the columns that have to be there; a missing other one is null.

    Raises:
        CorruptError: where the file is damaged.
        InputError: where a column is missing or a value is of another kind, with the row or line; where the texts of a
            table are too long for memory.
    """
    name = shard.path
    if not path.stat().st_size and (
        shard.kind == "parquet" or name.lower().endswith(PACKED_ENDINGS)
    ):
        raise CorruptError(name, "it is empty")  # which not every library minds

    if shard.kind == "parquet":
        tables = _read_parquet(path, name, columns, required)
    elif shard.kind == "csv":
        tables = _read_csv(path, name, columns, required)
    elif shard.kind == "lines":
        tables = _read_lines(path, name, columns, required)
    else:
        own_columns = columns.of_candidates() if "caption" in required else columns
        tables = _read_tar(path, name, own_columns, images)

    try:
        yield from join_tables(tables, name, size)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, tarfile.ReadError) as error:
        raise CorruptError(name, str(error)) from error
    except DamagedError as error:
        raise CorruptError(name, str(error).removeprefix(f"{name}: ")) from error
    except OSError as error:
        if error.errno is not None:  # the system's, not what Arrow says of the content
            raise
        raise CorruptError(name, str(error)) from error


def join_tables(tables: Iterable[pa.Table], name: str, size: int) -> Iterator[pa.Table]:
    """Yield tables of `size` rows, which are numbered from 0, of tables of any length.

    Args:
        tables: with the columns of `SCHEMA` but for `row`, and perhaps `image`.
        name: the shard's, for the message.
        size: how many rows; the last table may have fewer.

    Raises:
        InputError: where the texts of a table are too long for memory.
    """
    pending: list[pa.Table] = []
    first_row = n_rows = n_bytes = 0
    for table in tables:
        while len(table):
            part = table.slice(0, size - n_rows)
            table = table.slice(len(part))
            pending.append(part)
            n_rows += len(part)
            n_bytes += part.nbytes
            check_size(name, first_row, n_rows, n_bytes)
            if n_rows == size:
                yield _number_rows(pending, first_row)
                pending = []
                first_row += n_rows
                n_rows = n_bytes = 0
    if pending:
        yield _number_rows(pending, first_row)


def _number_rows(tables: list[pa.Table], first_row: int) -> pa.Table:
    table = pa.concat_tables(tables)
    numbers = pa.array(range(first_row, first_row + len(table)), pa.int64())
    return table.add_column(0, SCHEMA.field("row"), numbers)


def has_reference_lists(path: Path, shard: Shard, columns: Columns) -> bool:
    """Tell whether each row of a shard of references has them in a list, and not one of them or in some other form.

    Args:
        path: the shard's file on this machine.
        shard: which it is; of a tar this is not known.
        columns: the names that the user gave, else the usual ones.
    """
    if shard.kind not in ("parquet", "lines"):
        return shard.kind == "tar"
    try:
        if shard.kind == "parquet":
            samples = sample_types(pq.read_schema(path))
        else:
            samples = _read_first_object(path, shard.path) or {}
    except (pa.ArrowInvalid, OSError, InputError):
        # What is wrong with it is said where it is read.
        return True

    found = find_columns(samples, columns, ("image_id", "references"), shard.path).columns
    return found.references in samples


def describe_columns(path: Path, shard: Shard, columns: Columns) -> tuple[str, ...]:
    """Say which columns of a shard of captions have other names than the usual, and which are not read.

    Args:
        path: the shard's file on this machine.
        shard: which it is; of a tar or a JSON document nothing is said.
        columns: the names that the user gave, else the usual ones.
    """
    samples: Mapping[str, Any] = {}
    if shard.kind == "parquet":
        samples = sample_types(pq.read_schema(path))
    elif shard.kind == "csv":
        with _open_csv(path, shard.path) as reader:
            samples = sample_types(reader.schema)
    elif shard.kind == "lines":
        samples = _read_first_object(path, shard.path) or {}

    name = shard.path.rpartition("/")[2]
    required = ("image_id", "caption")
    return find_columns(samples, columns, required, name, is_text=shard.kind == "csv").notes


def has_column(path: Path, shard: Shard, column: str) -> bool:
    """Say whether a table, or the first row of JSON lines, has a column; of other shards this is not known.

    Args:
        path: the shard's file on this machine, which has been read.
        shard: which it is.
        column: the name of the column in the file.
    """
    if shard.kind == "parquet":
        return column in pq.read_schema(path).names
    if shard.kind == "csv":
        with _open_csv(path, shard.path) as reader:
            return column in reader.schema.names
    if shard.kind == "lines":
        return column in (_read_first_object(path, shard.path) or {})
    return False


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
    column_pairs: list[tuple[str, str]] = []
    for own_name, file_name in vars(columns).items():
        if file_name in schema.names:
            column_pairs.append((own_name, str(file_name)))
    return column_pairs


def missing_column(
    name: str, own_name: str, file_name: str, column_names: Iterable[str]
) -> InputError:
    """Return the error for a missing column."""
    return InputError(
        f"{name}: no column '{file_name}'; there are: {', '.join(column_names) or 'none'}; "
        f"columns.{own_name}=NAME names another"
    )


@contextmanager
def _open(path: Path, name: str) -> Generator[IO[bytes]]:
    """Open the content of a file, which may be packed."""
    with path.open("rb") as packed, unpacked(packed, name) as stream:
        yield stream


def _read_parquet(
    path: Path, name: str, columns: Columns, required: Sequence[str]
) -> Iterator[pa.Table]:
    # `pyarrow.dataset` would have a whole row group in memory: 316 MB where this takes 87 MB.
    with pq.ParquetFile(
        path, page_checksum_verification=True, buffer_size=BUFFER_BYTES, pre_buffer=False
    ) as file:
        found = find_columns(sample_types(file.schema_arrow), columns, required, name).columns
        column_pairs = _columns_to_read(file.schema_arrow, name, found, required)
        file_names = [file_name for _, file_name in column_pairs]
        first_row = 0
        for batch in file.iter_batches(STEP_ROWS, columns=file_names, use_threads=False):
            values = {own_name: batch.column(file_name) for own_name, file_name in column_pairs}
            yield _make_table(values, first_row, len(batch), name)
            first_row += len(batch)


class _TextStream(io.RawIOBase):
    """A stream of text, in which NUL bytes are a fault, as in a small file."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._line = 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, up to the buffer's size.

        Raises:
            CorruptError: where one of them is NUL.
        """
        data = self._stream.read(len(buffer))
        if b"\0" in data:
            line = self._line + data.count(b"\n", 0, data.index(b"\0"))
            raise CorruptError(self._name, f"NUL bytes on line {line:,}, which text has none of")
        self._line += data.count(b"\n")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _open_csv(
    path: Path, name: str, columns: Sequence[str] = ()
) -> Generator[pa_csv.CSVStreamingReader]:
    """Open a CSV table to read some columns, or all where none is named."""
    # An id of digits is a text as well.
    conversion = pa_csv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=False,
    )
    with _open(path, name) as stream:
        yield pa_csv.open_csv(
            _TextStream(stream, name),
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=_CSV_BYTES),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=conversion,
        )


def _read_csv(
    path: Path, name: str, columns: Columns, required: Sequence[str]
) -> Iterator[pa.Table]:
    with _open_csv(path, name) as reader:
        # In CSV any text may be a list of references.
        samples = sample_types(reader.schema)
        found = find_columns(samples, columns, required, name, is_text=True).columns
        column_pairs = _columns_to_read(reader.schema, name, found, required)
    file_names = [file_name for _, file_name in column_pairs]
    first_row = 0
    with _open_csv(path, name, file_names) as reader:
        for batch in reader:
            values = {own_name: batch.column(file_name) for own_name, file_name in column_pairs}
            if "references" in values:
                cells = values["references"].to_pylist()
                values["references"] = _parse_cells(cells, first_row, name)
            yield _make_table(values, first_row, len(batch), name)
            first_row += len(batch)


def _parse_cells(cells: Sequence[str], first_row: int, name: str) -> pa.Array:
    """Return the references of cells, null for an empty one."""
    lists: list[tuple[str, ...] | None] = []
    for row, cell in enumerate(cells, start=first_row):
        lists.append(parse_references(cell, f"{name}: row {row}") if cell else None)
    return pa.array(lists, pa.list_(pa.string()))


def _make_table(values: dict[str, pa.Array], first_row: int, n_rows: int, name: str) -> pa.Table:
    """Check columns and bring them into the form of `SCHEMA`, without `row`."""
    for own_name in ("image_id", "caption"):
        if own_name not in values:
            continue
        column = values[own_name]
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

    columns: dict[str, pa.Array] = {}
    for schema_field in list(SCHEMA)[1:]:
        column = values.get(schema_field.name)
        if column is None:
            column = pa.nulls(n_rows, schema_field.type)
        if schema_field.name == "references" and not _is_text_list(column.type):
            kind = _value_type(column.type)
            raise InputError(
                f"{name}: 'references' is {kind}, not a list of texts; write it as one"
            )
        columns[schema_field.name] = column.cast(schema_field.type)
    if columns["references"].flatten().null_count:
        raise InputError(f"{name}: 'references' holds a null; fill it or leave it out")

    table = pa.table(columns)
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
    path: Path, name: str, columns: Columns, required: Sequence[str]
) -> Iterator[pa.Table]:
    first_object = _read_first_object(path, name)
    if first_object is None:
        return

    first_row = _unfold(first_object, name, required)
    columns = find_columns(first_row, columns, required, name).columns
    n_rows = 0
    try:
        for table in _read_lines_by_arrow(path, name, columns, required, first_object):
            yield table
            n_rows += len(table)
        return
    except (pa.ArrowInvalid, InputError):
        pass  # the rules of small files allow more, and name the line of a fault

    with _open(path, name) as stream:
        rows = (
            _parse_row(
                _unfold(row, f"{name}:{line}", required), columns, f"{name}:{line}", required
            )
            for line, row in _read_objects(stream, name)
        )
        yield from tables_of_rows(islice(rows, n_rows, None))


def _read_lines_by_arrow(
    path: Path,
    name: str,
    columns: Columns,
    required: Sequence[str],
    first_object: Mapping[str, Any],
) -> Iterator[pa.Table]:
    """Yield the rows of JSON lines whose columns have one type each.

    Raises:
        pyarrow.ArrowInvalid: where a line has another type, or is no JSON.
        InputError: where a value is missing.
    """
    # Arrow would take a date for a time.
    has_number = type(first_object.get(columns.image_id)) is int
    types = {
        columns.image_id: pa.int64() if has_number else pa.string(),
        columns.caption: pa.string(),
        columns.references: pa.list_(pa.string()),
    }
    parsing = pa_json.ParseOptions(
        explicit_schema=pa.schema(types), unexpected_field_behavior="ignore"
    )
    reading = pa_json.ReadOptions(use_threads=False, block_size=_STEP_BYTES)
    own_names = [own_name for own_name in vars(columns) if own_name in (*required, "references")]
    first_row = 0
    with _open(path, name) as stream:
        for batch in pa_json.open_json(stream, read_options=reading, parse_options=parsing):
            values = {own_name: batch.column(getattr(columns, own_name)) for own_name in own_names}
            yield _make_table(values, first_row, len(batch), name)
            first_row += len(batch)


def _unfold(row: Mapping[str, Any], where: str, required: Sequence[str]) -> Mapping[str, Any]:
    """Return the caption and image of a conversation; another object stays."""
    return with_answer(row, where) if "caption" in required else row


def _read_first_object(path: Path, name: str) -> dict[str, Any] | None:
    """Return the first object of JSON lines; None where there is none."""
    with _open(path, name) as stream:
        _, first_object = next(_read_objects(stream, name), (0, None))
        return first_object


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


def tables_of_rows(rows: Iterable[Row], images: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield rows as tables with the columns of `SCHEMA` but for `row`.

    Args:
        rows: the rows.
        images: the images of the rows that were taken so far, which go into a column of their own.
    """
    batch: list[Row] = []
    n_bytes = 0
    for row in rows:
        batch.append(row)
        image_id, caption, references = row
        n_bytes += count_text_bytes((image_id, caption or "", *(references or ())))
        if len(batch) == STEP_ROWS or n_bytes > _STEP_BYTES:
            yield _table_of_rows(batch, images)
            batch = []
            n_bytes = 0
    if batch:
        yield _table_of_rows(batch, images)


def _table_of_rows(rows: list[Row], images: list[str] | None) -> pa.Table:
    columns = [list(values) for values in zip(*rows, strict=True)]
    table = pa.table(columns, schema=pa.schema(list(SCHEMA)[1:]))
    if images is None:
        return table
    image_column = pa.array(list(images))
    images.clear()
    return table.append_column("image", image_column)


def _read_tar(path: Path, name: str, columns: Columns, images: Path | None) -> Iterator[pa.Table]:
    paths: list[str] | None = None if images is None else []

    def read_sample_rows() -> Iterator[Row]:
        for number, sample in enumerate(read_samples(path, name, images=images is not None)):
            if images is not None and paths is not None:
                paths.append(_write_image(sample, images, number, name))
            yield _sample_row(sample, columns, f"{name}: sample '{sample.key}'")

    yield from tables_of_rows(read_sample_rows(), paths)


def _sample_row(sample: Sample, columns: Columns, where: str) -> Row:
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


def _write_image(sample: Sample, folder: Path, number: int, name: str) -> str:
    """Write a sample's image and return its path, a number, whatever the archive calls it."""
    ending = next((e for e in IMAGES if e in sample.parts), None)
    if ending is None:
        raise InputError(f"{name}: sample '{sample.key}' has no image; metrics asked for need it")
    path = folder / f"{number}.{ending}"
    path.write_bytes(sample.parts[ending])
    return str(path)
