"""Opening of Parquet files so that a small one cannot fill memory; tables and shards are read by it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

#: The bytes of a column that are read ahead; without a buffer Arrow reads the column of a row group whole.
BUFFER_BYTES = 1 << 20


def open_parquet(path: Path, *, nested: bool) -> Any:
    """Open a Parquet file with texts as dictionaries: a small file may hold a long text in each of many rows.

    Args:
        path: the file.
        nested: whether texts in lists and structures become dictionaries too; Arrow then reads one row group at a time.
    """
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    leaves = [metadata.schema.column(i) for i in range(len(metadata.schema))]
    names = set(metadata.schema.to_arrow_schema().names)
    texts = [
        leaf.path
        for leaf in leaves
        if leaf.physical_type == "BYTE_ARRAY" and (nested or leaf.path in names)
    ]
    return pq.ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=texts,
        page_checksum_verification=True,
        buffer_size=BUFFER_BYTES,
        pre_buffer=False,
    )


def measure_row_group(row_group: Any, columns: Collection[str]) -> tuple[int, int]:
    """Return how many rows a row group has, and how many bytes the texts of some columns have at least.

    A text that is repeated may be stored once.

    Args:
        row_group: its metadata.
        columns: the names of columns, with or without lists.
    """
    n_bytes = 0
    for number in range(row_group.num_columns):
        chunk = row_group.column(number)
        is_text = chunk.physical_type == "BYTE_ARRAY"
        if is_text and chunk.path_in_schema.partition(".")[0] in columns:
            # Each text has its length before it.
            n_bytes += max(0, chunk.total_uncompressed_size - 4 * chunk.num_values)
    return row_group.num_rows, n_bytes


def count_rows_at_a_time(path: Path, most_rows: int, most_bytes: int) -> int:
    """Return how many rows of a Parquet file can be read at a time, a power of two, so that memory holds them.

    Rows are taken to be of the mean length that is stored, or, if that is more, to repeat the longest text of each
    column's dictionary.

    Args:
        path: the file.
        most_rows, most_bytes: what may be read at a time; a single row may be longer.
    """
    n_rows = most_rows
    with open_parquet(path, nested=True) as file:
        for group in range(file.num_row_groups):
            metadata = file.metadata.row_group(group)
            if not metadata.num_rows:
                continue
            n_bytes = 0
            for number in range(metadata.num_columns):
                chunk = metadata.column(number)
                width = max(8, file.metadata.schema.column(number).length)
                n_longest = max(width, _measure_longest_text(file, group, chunk))
                n_bytes += max(chunk.total_uncompressed_size, n_longest * chunk.num_values)
            n_rows = min(n_rows, most_bytes * metadata.num_rows // max(1, n_bytes))
    return 1 << max(0, n_rows.bit_length() - 1)


def _measure_longest_text(file: Any, group: int, chunk: Any) -> int:
    """Return how many bytes the longest text of a column's dictionary has; 0 where it has none."""
    if chunk.physical_type != "BYTE_ARRAY" or not any("DICT" in name for name in chunk.encodings):
        return 0
    import pyarrow as pa
    import pyarrow.compute as pc

    # A batch has the dictionary unless all its rows are null.
    for batch in file.iter_batches(1, row_groups=[group], columns=[chunk.path_in_schema]):
        for leaf in _find_leaves(batch.column(0)):
            if not pa.types.is_dictionary(leaf.type):
                return 0
            lengths = pc.call_function("binary_length", [leaf.dictionary])
            if len(lengths):
                return pc.call_function("max", [lengths]).as_py()
    return 0


def _find_leaves(array: Any) -> Iterator[Any]:
    """Yield the arrays inside a nested one, or the array itself."""
    import pyarrow as pa

    if pa.types.is_struct(array.type):
        parts = array.flatten()
    elif pa.types.is_map(array.type):
        parts = [array.keys, array.items]
    elif pa.types.is_nested(array.type):
        parts = [array.flatten()]
    else:
        yield array
        return
    for part in parts:
        yield from _find_leaves(part)
