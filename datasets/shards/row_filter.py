"""Copying the rows of a shard that are kept, in the shard's own format."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError
from .row_reader import CAPTION_ENDINGS, list_members, open_tar, open_unpacked


def copy_kept_rows(
    path: Path, name: str, kind: str, is_kept: Sequence[bool], stream: IO[bytes]
) -> None:
    """Copy the rows of a shard that are kept, as they are and in its own format.

    Args:
        path: its file.
        name: its path or URL, whose ending says how it is packed.
        kind: of `ENDINGS`.
        is_kept: whether each row is kept, in order.
        stream: where to write; JSON lines and tar are packed by gzip where their name ends so, and
            not at all else.
    """
    if kind == "parquet":
        with (
            pq.ParquetFile(path, page_checksum_verification=True) as file,
            pq.ParquetWriter(stream, file.schema_arrow) as writer,
        ):
            first = 0
            for batch in file.iter_batches():
                writer.write_table(_kept_rows(batch, is_kept[first : first + len(batch)]))
                first += len(batch)
        return
    packed_stream: Any = (
        gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0)
        if name.lower().endswith(".gz")
        else stream
    )
    try:
        if kind == "lines":
            with open_unpacked(path, name) as lines:
                rows = (line for line in lines if line.strip())
                packed_stream.writelines(
                    line if line.endswith(b"\n") else line + b"\n"
                    for line, row_is_kept in zip(rows, is_kept, strict=True)
                    if row_is_kept
                )
        else:
            _copy_kept_samples(path, name, is_kept, packed_stream)
    finally:
        if packed_stream is not stream:
            packed_stream.close()


def _kept_rows(batch: pa.RecordBatch, is_kept: Sequence[bool]) -> pa.Table:
    try:
        return pa.table(batch.filter(pa.array(is_kept, pa.bool_())))
    except pa.ArrowNotImplementedError:  # of views, which polars writes, pyarrow takes slices alone
        slices = [batch.slice(i, 1) for i, row_is_kept in enumerate(is_kept) if row_is_kept]
        return pa.Table.from_batches(slices, batch.schema)


def _copy_kept_samples(path: Path, name: str, is_kept: Sequence[bool], stream: Any) -> None:
    number, last_key = -1, ""
    with (
        open_unpacked(path, name) as source,
        open_tar(source) as archive,
        tarfile.open(fileobj=stream, mode="w|") as target,
    ):
        members: list[tuple[tarfile.TarInfo, bytes]] = []
        endings: set[str] = set()

        def flush() -> None:
            nonlocal number
            if not endings.isdisjoint(CAPTION_ENDINGS):
                number += 1
                if is_kept[number]:
                    for member, content in members:
                        target.addfile(member, io.BytesIO(content))
                        # As in `list_members`.
                        target.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
            members.clear()
            endings.clear()

        for member, key, ending in list_members(archive):
            if key != last_key:
                flush()
                last_key = key
            endings.add(ending)
            content = archive.extractfile(member)
            members.append((member, content.read() if content else b""))
        flush()
    if number + 1 != len(is_kept):
        raise InputError(f"{name}: {number + 1:,} samples, where {len(is_kept):,} were scored")
