"""References by image id, for more images than memory holds: an LMDB file that processes share."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, cast

import pyarrow as pa

from ...datasets.errors import InputError
from ...datasets.reading.caption_files import read_references
from ...datasets.reading.object_stores import is_url
from ...datasets.reading.shard_files import find_shards, kind_of, local_copy
from ...datasets.reading.shard_rows import (
    check_size,
    count_text_bytes,
    has_reference_lists,
    read_rows,
)
from ...datasets.reading.table import Columns
from ...datasets.reading.table_folders import holds_table

#: The size of the file's address space; only what is written takes room on the disk.
_MAP_SIZE = 1 << 40
#: How many images are written in one transaction, and how many rows are read at a time.
_BATCH, _ROWS = 10_000, 1_000
#: LMDB's keys are 511 bytes at most.
_LONGEST_KEY = 500


class ReferenceLookup:
    """References by image id, read only; a context manager.

    Args:
        path: the folder that `build_reference_lookup` wrote.
    """

    def __init__(self, path: Path) -> None:
        import lmdb

        self._store = lmdb.open(str(path), readonly=True, lock=False, max_readers=1024)

    def get(self, image_id: str) -> list[str] | None:
        """Return the references of an image; None where it has none."""
        import msgpack

        with self._store.begin() as reader:
            packed = reader.get(_key(image_id))
        return None if packed is None else msgpack.unpackb(packed)

    def add_references(self, table: pa.Table, name: str) -> pa.Table:
        """Return the rows of a shard with the references of their images.

        Args:
            table: the rows.
            name: the shard's, for messages.

        Raises:
            InputError: where an image has none, or the references are too long for memory.
        """
        references: list[list[str]] = []
        rows = table["row"].to_pylist()
        n_bytes = 0
        for row, image_id in zip(rows, table["image_id"].to_pylist(), strict=True):
            texts = self.get(image_id)
            if texts is None:
                raise InputError(
                    f"{name}: row {row}: image '{image_id}' has no references in references=FILE; add them or "
                    f"leave the row out"
                )

            references.append(texts)
            n_bytes += count_text_bytes(texts)
            check_size(name, rows[0], len(references), n_bytes)

        index = table.schema.get_field_index("references")
        return table.set_column(index, "references", pa.array(references, pa.list_(pa.string())))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()


def build_reference_lookup(path: Path, sources: Sequence[str], columns: Columns) -> int:
    """Write the references of shards, or of a file in one of `captau score`'s other forms.

    Returns:
        How many images have references.

    Raises:
        InputError: where they cannot be read, or an image comes twice.
    """
    import lmdb
    import msgpack

    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    store = lmdb.open(str(path), map_size=_MAP_SIZE, sync=False)
    n_images = 0
    try:
        writer = store.begin(write=True)
        for location, image_id, texts in _read_references(sources, columns, path.parent):
            packed = cast("bytes", msgpack.packb(list(texts)))
            if not writer.put(_key(image_id), packed, overwrite=False):
                writer.abort()
                raise InputError(f"{location}: image '{image_id}' comes a second time; keep one")

            n_images += 1
            if n_images % _BATCH == 0:
                writer.commit()
                writer = store.begin(write=True)

        writer.commit()
        store.sync(True)
    finally:
        store.close()

    return n_images


def _read_references(
    sources: Sequence[str], columns: Columns, folder: Path
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield the location in its source, the id and the references of each image."""
    for source in sources:
        if _is_read_whole(source):
            yield from _read_whole_file(Path(source), source, columns)
            continue

        for shard in find_shards([source]):
            with local_copy(shard, folder) as local:
                if shard.kind in ("json", "csv") or not has_reference_lists(local, shard, columns):
                    yield from _read_whole_file(local, shard.path, columns)
                    continue

                for table in read_rows(
                    local, shard, columns, _ROWS, required=("image_id", "references")
                ):
                    for row in table.select(["row", "image_id", "references"]).to_pylist():
                        location = f"{shard.path}: row {row['row']}"
                        yield location, row["image_id"], row["references"] or []


def _is_read_whole(source: str) -> bool:
    """Tell whether a source is no shard: a file of another form, or a folder that holds one table."""
    if is_url(source):
        return False

    path = Path(source)
    return holds_table(path) if path.is_dir() else kind_of(source) is None and path.is_file()


def _read_whole_file(
    path: Path, name: str, columns: Columns
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield what `_read_references` does of a file in one of `captau score`'s other forms."""
    for image_id, texts in read_references(path, columns=columns).texts.items():
        if texts:
            yield name, image_id, texts


def _key(image_id: str) -> bytes:
    key = image_id.encode("utf-8", "surrogatepass")
    return key if 0 < len(key) <= _LONGEST_KEY else b"\0" + hashlib.sha256(key).digest()
