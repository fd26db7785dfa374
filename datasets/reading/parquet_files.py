"""Opening of Parquet files so that a small one cannot fill memory; tables and shards are read by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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
        path, metadata=metadata, read_dictionary=texts, page_checksum_verification=True
    )
