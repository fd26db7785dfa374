"""Copying the rows of a shard that are kept, in the shard's own format."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..cache import replacing
from ..errors import InputError
from .packed_files import unpacked
from .shard_rows import STEP_ROWS
from .table import BUFFER_BYTES
from .tar_samples import CAPTION_ENDINGS, IMAGES, list_members, open_tar

#: The most rows of a Parquet file that are read for a row group, and the most bytes of them.
_GROUP_ROWS, _GROUP_BYTES = 1 << 16, 1 << 29
#: The bytes of a sample of a tar that are held in memory; more of them wait in a temporary file.
_SAMPLE_BYTES = 1 << 26


def copy_kept_rows(path: Path, name: str, kind: str, is_kept: Sequence[bool], target: Path) -> None:
    """Copy the rows of a shard that are kept, as they are and in its own format.

    Args:
        path: its file.
        name: its path or URL, whose ending says how it is packed.
        kind: as of a `Shard`.
        is_kept: whether each row is kept, in order.
        target: the file to write; JSON lines and tar are packed by gzip where their name ends so, and
            not at all else.
    """
    with ExitStack() as stack:
        stream: Any = stack.enter_context(replacing(target))
        if kind == "parquet":
            _copy_kept_parquet_rows(path, is_kept, stream)
            return
        if name.lower().endswith(".gz"):
            packed_stream = gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0)
            stream = stack.enter_context(packed_stream)
        if kind == "tar":
            _copy_kept_samples(path, name, is_kept, stream, target.parent)
            return
        with path.open("rb") as packed, unpacked(packed, name) as lines:
            rows: Iterable[bytes] = lines
            if kind == "csv":
                rows = _join_csv_lines(lines)
            rows = (row for row in rows if row.strip())
            if kind == "csv":
                stream.write(_end_line(next(rows)))  # the names of the columns
            for row, row_is_kept in zip(rows, is_kept, strict=True):
                if row_is_kept:
                    stream.write(_end_line(row))


def _end_line(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


def _join_csv_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the rows of a CSV table, which go on over a line's end inside quotes."""
    row = b""
    for line in lines:
        row += line
        if row.count(b'"') % 2 == 0:
            yield row
            row = b""
    if row:
        yield row


def _copy_kept_parquet_rows(path: Path, is_kept: Sequence[bool], stream: IO[bytes]) -> None:
    """Write a row group for every `_GROUP_ROWS` rows that are read, or for fewer where these are long."""
    with (
        pq.ParquetFile(
            path, page_checksum_verification=True, buffer_size=BUFFER_BYTES, pre_buffer=False
        ) as file,
        pq.ParquetWriter(stream, file.schema_arrow) as writer,
    ):
        ends = {file.metadata.num_rows}
        if any(pa.types.is_dictionary(column.type) for column in file.schema_arrow):
            # Each row group has categories of its own.
            row_groups = map(file.metadata.row_group, range(file.num_row_groups))
            ends |= set(accumulate(row_group.num_rows for row_group in row_groups))
        end, n_bytes, tables = 0, 0, list[pa.Table]()
        for batch in file.iter_batches(STEP_ROWS):
            batch_bytes = batch.get_total_buffer_size()  # `nbytes` knows no views in PyArrow 21
            if tables and n_bytes + batch_bytes > _GROUP_BYTES:
                writer.write_table(_take_tables(tables))
                n_bytes = 0
            start, end = end, end + len(batch)
            tables.append(_kept_rows(batch, is_kept[start:end]))
            n_bytes += batch_bytes
            if end in ends or end % _GROUP_ROWS == 0:
                writer.write_table(_take_tables(tables))
                n_bytes = 0


def _take_tables(tables: list[pa.Table]) -> pa.Table:
    """Empty a list of tables, so that memory holds them once, and return them as one."""
    table = pa.concat_tables(tables)
    has_slices = any(table.column(0).num_chunks > 1 for table in tables)
    tables.clear()
    return table if has_slices else table.combine_chunks()


def _kept_rows(batch: pa.RecordBatch, is_kept: Sequence[bool]) -> pa.Table:
    try:
        return pa.table(batch.filter(pa.array(is_kept, pa.bool_())))
    except pa.ArrowNotImplementedError:  # of views, which polars writes, pyarrow takes slices alone
        slices = [batch.slice(i, 1) for i, row_is_kept in enumerate(is_kept) if row_is_kept]
        return pa.Table.from_batches(slices, batch.schema)


def _copy_kept_samples(
    path: Path, name: str, is_kept: Sequence[bool], stream: Any, work: Path
) -> None:
    number, last_key = -1, ""
    with (
        path.open("rb") as packed,
        unpacked(packed, name) as source,
        open_tar(source) as archive,
        tarfile.open(fileobj=stream, mode="w|") as filtered,
        tempfile.SpooledTemporaryFile(_SAMPLE_BYTES, dir=str(work)) as contents,
    ):
        members: list[tarfile.TarInfo] = []
        endings: set[str] = set()

        def flush() -> None:
            nonlocal number
            contents.seek(0)
            if not endings.isdisjoint(CAPTION_ENDINGS):
                number += 1
                if is_kept[number]:
                    for member in members:
                        filtered.addfile(member, contents)
                        # As in `list_members`.
                        filtered.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
            contents.seek(0)
            contents.truncate()
            members.clear()
            endings.clear()

        for member, key, ending in list_members(archive, name, (*CAPTION_ENDINGS, *IMAGES)):
            if key != last_key:
                flush()
                last_key = key
            endings.add(ending)
            members.append(member)
            if content := archive.extractfile(member):
                shutil.copyfileobj(content, contents)
        flush()
    if number + 1 != len(is_kept):
        raise InputError(f"{name}: {number + 1:,} samples, where {len(is_kept):,} were scored")
