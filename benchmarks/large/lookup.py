"""References by image id, for more images than memory holds: an LMDB file that processes share."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

import lmdb
import msgpack

from ...datasets.errors import InputError
from ...datasets.shards.object_store import is_url
from ...datasets.shards.row_reader import Columns, read_rows
from ...datasets.shards.shard_files import find_shards, kind_of, local_copy
from ..scoring.caption_files import read_references

#: Of the file's address space, of which only what is written takes room.
_MAP = 1 << 40
#: Rows that are written at a time.
_BATCH = 10_000
#: LMDB's keys are 511 bytes at most.
_KEY = 500


class Lookup:
    """References by image id, read only; a context manager.

    Args:
        path: the folder that `build` wrote.
    """

    def __init__(self, path: Path) -> None:
        self._store = lmdb.open(str(path), readonly=True, lock=False, max_readers=1024)

    def get(self, image_id: str) -> list[str] | None:
        """The references of an image; None where it has none."""
        with self._store.begin() as reader:
            found = reader.get(_key(image_id))
        return None if found is None else msgpack.unpackb(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()


def build(path: Path, sources: Sequence[str], columns: Columns) -> tuple[int, int]:
    """Write the references of shards, or of a file in one of `captau score`'s other forms.

    Returns:
        how many images have some, and how many bytes were written.

    Raises:
        InputError: where they cannot be read, or an image comes twice.
    """
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    store = lmdb.open(str(path), map_size=_MAP, sync=False)
    images = 0
    try:
        writer = store.begin(write=True)
        for where, image_id, texts in _references(sources, columns, path.parent):
            if not writer.put(
                _key(image_id), cast("bytes", msgpack.packb(list(texts))), overwrite=False
            ):
                writer.abort()
                raise InputError(f"{where}: image '{image_id}' comes a second time; keep one")
            images += 1
            if images % _BATCH == 0:
                writer.commit()
                writer = store.begin(write=True)
        writer.commit()
        store.sync(True)
    finally:
        store.close()
    return images, sum(p.stat().st_blocks * 512 for p in path.iterdir())


def _references(
    sources: Sequence[str], columns: Columns, folder: Path
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Place, image id and references of each image."""
    for source in sources:
        if not is_url(source) and kind_of(source) in (None, "json") and Path(source).is_file():
            for image_id, texts in read_references(Path(source)).texts.items():
                if texts:
                    yield source, image_id, texts
            continue
        for shard in find_shards([source]):
            with local_copy(shard, folder) as local:
                for table in read_rows(
                    local, shard, columns, _BATCH, required=("image_id", "references")
                ):
                    rows: Any = table.select(["row", "image_id", "references"]).to_pylist()
                    for row in rows:
                        yield (
                            f"{shard.path}: row {row['row']}",
                            row["image_id"],
                            row["references"] or [],
                        )


def _key(image_id: str) -> bytes:
    key = image_id.encode("utf-8", "surrogatepass")
    return key if 0 < len(key) <= _KEY else b"\0" + hashlib.sha256(key).digest()
