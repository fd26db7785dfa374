"""Parts of shards: the stages `pool`, `read` and `filter`, and the rows of a part as metrics take them.

References by image id, for more images than memory holds, are an LMDB file that processes share: `pool` builds it, and
`read` looks references up.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.reading.caption_files import read_candidates, read_references
from ...datasets.reading.source_files import sha256
from ...datasets.shards.kept_rows import copy_kept_rows
from ...datasets.shards.shard_files import (
    Shard,
    find_shards,
    is_url,
    kind_of,
    local_copy,
    plain_name,
)
from ...datasets.shards.shard_rows import (
    IMAGES,
    Columns,
    batch_rows,
    check_size,
    count_text_bytes,
    has_column,
    read_rows,
)
from ...metrics.base import Floats
from .plan import RunPlan, part_name
from .run_folder import ResultFolder

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


def build_pool(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Build the lookup of references by image id (stage `pool`)."""
    n_images, size = build_reference_lookup(
        plan.path("pool", "references"), task["paths"], Columns(**task["columns"])
    )
    return {"images": n_images, "written": size}


def read_shard(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of a shard in pieces of a fixed length (stage `read`)."""
    number = int(task["id"])
    shard = plan.shards[number]
    sizes: list[int] = []
    bytes_by_piece: list[int] = []
    written = 0
    image_folder = None
    if plan.needs_images and shard.kind == "tar":
        image_folder = plan.path("images", task["id"])
        image_folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        lookup = None
        if plan.has_reference_lookup:
            lookup = stack.enter_context(ReferenceLookup(plan.path("pool", "references")))
        path = stack.enter_context(local_copy(shard, plan.path("read", "")))
        digest = sha256(path)
        for table in _read_tables(plan, shard, path, image_folder):
            if lookup is not None:
                table = _with_references(table, lookup, shard.path)
            if plan.needs_references:
                _check_references(table, shard.path)
            written += _write_rows(piece_file(plan, part_name(number, len(sizes))), table)
            sizes.append(len(table))
            bytes_by_piece.append(table.nbytes)
        names_systems = has_column(path, shard, "system")
    return {
        "sha256": digest,
        "parts": sizes,
        "bytes": bytes_by_piece,
        "rows": sum(sizes),
        "names_systems": names_systems,
        "read": shard.size,
        "written": written,
    }


def _read_tables(
    plan: RunPlan, shard: Shard, path: Path, image_folder: Path | None
) -> Iterator[pa.Table]:
    if shard.kind != "json":
        return read_rows(path, shard, plan.columns, plan.part_rows, image_folder)
    captions = read_candidates(path).captions
    rows = ((image_id, caption, None) for image_id, caption in captions.items())
    return batch_rows(rows, shard.path, plan.part_rows)


def _with_references(table: pa.Table, lookup: ReferenceLookup, name: str) -> pa.Table:
    """Return the rows with the references of their images.

    Raises:
        InputError: where an image has none, or the references are too long for memory.
    """
    references: list[list[str]] = []
    first_row, n_bytes = table["row"][0].as_py(), 0
    for row, image_id in zip(table["row"].to_pylist(), table["image_id"].to_pylist(), strict=True):
        texts = lookup.get(image_id)
        if texts is None:
            raise InputError(
                f"{name}: row {row}: image '{image_id}' has no references in references=FILE; add them or "
                f"leave the row out"
            )
        references.append(texts)
        n_bytes += count_text_bytes(texts)
        check_size(name, first_row, len(references), n_bytes)
    index = table.schema.get_field_index("references")
    return table.set_column(index, "references", pa.array(references, pa.list_(pa.string())))


def _check_references(table: pa.Table, name: str) -> None:
    """Raise InputError where a row has no references."""
    for row, texts in zip(table["row"].to_pylist(), table["references"].to_pylist(), strict=True):
        if not texts:
            raise InputError(
                f"{name}: row {row}: no references; give references=FILE, or metrics that need none"
            )


def _write_rows(path: Path, table: pa.Table) -> int:
    """Write the rows of a part, and return how many bytes they take."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with replacing(path) as stream:
        with pa.ipc.new_file(stream, table.schema, options=options) as writer:
            writer.write_table(table)
        return stream.tell()


def piece_file(plan: RunPlan, piece: str) -> Path:
    """Return the path of the rows of a piece."""
    return plan.path("rows", f"{piece}.arrow")


def read_part(plan: RunPlan, part: str) -> pd.DataFrame:
    """Read the rows of a part, as metrics take them."""
    tables: list[pa.Table] = []
    for piece in plan.pieces[part]:
        with pa.OSFile(str(piece_file(plan, piece))) as source:
            tables.append(pa.ipc.open_file(source).read_all())
    table = pa.concat_tables(tables)
    frame = pd.DataFrame(
        {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names}
    )
    frame["references"] = pd.Series(
        [tuple(texts or ()) for texts in frame["references"]], dtype=object
    )
    return frame


def read_first_row(plan: RunPlan, part: str) -> pd.DataFrame:
    """Read one row, to try metrics on."""
    return add_image_files(plan, read_part(plan, part).head(1))


def add_image_files(plan: RunPlan, frame: pd.DataFrame) -> pd.DataFrame:
    """Add the image file of each row, where there is a folder of images.

    Raises:
        InputError: where an image has no file.
    """
    if plan.image_folder is None or "image" in frame.columns:
        return frame
    folder = Path(plan.image_folder)
    files = [_find_image(folder, image_id) for image_id in frame["image_id"]]
    if None in files:
        row = frame.iloc[files.index(None)]
        raise InputError(f"row {row['row']}: image '{row['image_id']}' has no file in {folder}")
    return frame.assign(image=pd.Series(files, dtype=object))


def _find_image(folder: Path, image_id: str) -> str | None:
    """Return the image file whose name is an id, with or without an ending; None where there is none."""
    name = Path(image_id).name
    for path in (folder / name, *(folder / f"{name}.{ending}" for ending in IMAGES)):
        if path.is_file():
            return str(path)
    return None


def read_part_scores(folder: str, part: Mapping[str, Any], spec: str) -> Floats:
    """Read a metric's scores of a part, shape (n_rows,), which may be those of several small shards.

    Args:
        folder: of the parts, a path or a URL.
        part: as the manifest lists it.
        spec: the metric's.

    Raises:
        InputError: where its file is not there, or is not the one that the manifest lists.
    """
    name = part["name"]
    content = ResultFolder(folder).read(name)
    if content is None:
        raise InputError(f"{folder}/{name}: is not there; score the set anew")
    if hashlib.sha256(content).hexdigest() != part["sha256"]:
        raise InputError(f"{folder}/{name}: is not what was scored; score the set anew")
    return pq.read_table(pa.BufferReader(content), columns=[spec])[spec].to_numpy()


def filter_shard(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of a shard whose score reaches a threshold (stage `filter`)."""
    shard = plan.shards[int(task["id"])]
    if task["is_skipped"]:
        counts = dict.fromkeys(("rows", "kept_rows", "undefined"), 0)
        return {**counts, "texts": [], "file": "", "sha256": ""}
    parts = [
        read_part_scores(plan.scores, part, task["metric"])[part["first"] : part["end"]]
        for part in task["parts"]
    ]
    scores = np.concatenate([np.empty(0), *parts])
    is_kept = scores >= task["threshold"]
    example_rows = task["example_rows"]
    target = Path(task["folder"]) / f"{task['id']}-{plain_name(shard.path)}"
    texts: list[tuple[int, str, str]] = []
    with local_copy(shard, plan.path("filter", "")) as path:
        if sha256(path) != task["sha256"]:
            raise InputError(f"{shard.path}: is not what was scored; score the set anew")
        if shard.kind == "json":
            raise InputError(f"{shard.path}: write it as JSON lines to filter it")
        copy_kept_rows(path, shard.path, shard.kind, is_kept.tolist(), target)
        tables = read_rows(path, shard, plan.columns, plan.part_rows)
        while len(texts) < len(example_rows):
            table = next(tables).select(["row", "image_id", "caption"])
            is_example = np.isin(table["row"].to_numpy(), example_rows)
            texts += [tuple(row.values()) for row in table.filter(is_example).to_pylist()]
    return {
        "rows": len(scores),
        "kept_rows": int(is_kept.sum()),
        "undefined": int(np.isnan(scores).sum()),
        "texts": texts,
        "file": target.name,
        "sha256": sha256(target),
    }
