"""References by image id, for more images than memory holds: an LMDB file that processes share.

The stage `pool` builds it; the stage `read` looks references up.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

from ...datasets.errors import InputError
from ...datasets.shards.object_store import is_url
from ...datasets.shards.shard_files import find_shards, kind_of, local_copy
from ...datasets.shards.shard_rows import Columns, read_rows
from ..scoring.caption_files import read_references

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()


def build_reference_lookup(path: Path, sources: Sequence[str], columns: Columns) -> tuple[int, int]:
    """Write the references of shards, or of a file in one of `captau score`'s other forms.

    Returns:
        How many images have references, and how many bytes were written.

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
    return n_images, sum(file.stat().st_blocks * 512 for file in path.iterdir())


def _read_references(
    sources: Sequence[str], columns: Columns, folder: Path
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield the location in its source, the id and the references of each image."""
    for source in sources:
        if not is_url(source) and kind_of(source) in (None, "json") and Path(source).is_file():
            for image_id, texts in read_references(Path(source)).texts.items():
                if texts:
                    yield source, image_id, texts
            continue
        for shard in find_shards([source]):
            with local_copy(shard, folder) as local:
                for table in read_rows(
                    local, shard, columns, _ROWS, required=("image_id", "references")
                ):
                    rows: Any = table.select(["row", "image_id", "references"]).to_pylist()
                    for row in rows:
                        location = f"{shard.path}: row {row['row']}"
                        yield location, row["image_id"], row["references"] or []


def _key(image_id: str) -> bytes:
    key = image_id.encode("utf-8", "surrogatepass")
    return key if 0 < len(key) <= _LONGEST_KEY else b"\0" + hashlib.sha256(key).digest()
