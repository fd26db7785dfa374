"""The rows of a shard as metrics take them, with their references and images."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa

from ...datasets.errors import InputError
from ...datasets.reading.caption_files import read_candidates
from ...datasets.reading.shard_files import Shard, local_copy
from ...datasets.reading.shard_rows import (
    describe_columns,
    has_column,
    join_tables,
    read_rows,
    tables_of_rows,
)
from ...datasets.reading.tar_samples import IMAGES
from .plan import Plan
from .reference_lookup import ReferenceLookup


class OpenShard:
    """The rows of a shard, as metrics take them.

    Attributes:
        path: the shard's file on this machine.
    """

    def __init__(self, plan: Plan, shard: Shard, stack: ExitStack) -> None:
        self._plan = plan
        self._shard = shard
        self.path = stack.enter_context(local_copy(shard, Path(plan.work)))
        self._lookup: ReferenceLookup | None = None
        self._images: Path | None = None
        if plan.has_reference_lookup:
            lookup = ReferenceLookup(plan.file("references", "lookup"))
            self._lookup = stack.enter_context(lookup)

        if plan.needs_images and shard.kind == "tar":
            folder = tempfile.TemporaryDirectory(dir=plan.work)
            self._images = Path(stack.enter_context(folder))

    def frames(self) -> Iterator[pd.DataFrame]:
        """Yield the rows, some at a time, with `row`, `image_id`, `caption`, `references` and perhaps `image`.

        Raises:
            InputError: where a row is wrong; a CorruptError where the file is damaged.
        """
        name = self._shard.path
        for table in self._tables():
            if self._lookup is not None:
                table = self._lookup.add_references(table, name)

            columns = {column: table[column].to_pylist() for column in table.column_names}
            columns["references"] = [tuple(texts or ()) for texts in columns["references"]]
            if self._plan.needs_references:
                _check_references(columns["row"], columns["references"], name)

            frame = pd.DataFrame(
                {column: pd.Series(values, dtype=object) for column, values in columns.items()}
            )
            yield _add_image_files(self._plan, frame)

    def _tables(self) -> Iterator[pa.Table]:
        plan, shard = self._plan, self._shard
        if shard.kind != "json":
            return read_rows(self.path, shard, plan.columns, plan.rows, self._images)

        captions = read_candidates(self.path, columns=plan.columns).captions
        rows = ((image_id, caption, None) for image_id, caption in captions.items())
        return join_tables(tables_of_rows(rows), shard.path, plan.rows)

    def describe_columns(self) -> tuple[str, ...]:
        """Say which columns have other names than the usual, and which are not read."""
        return describe_columns(self.path, self._shard, self._plan.columns)

    @property
    def names_systems(self) -> bool:
        """True where the shard has a column `system`, which is not read."""
        return has_column(self.path, self._shard, "system")


@contextmanager
def open_shard(plan: Plan, shard: Shard) -> Generator[OpenShard]:
    """Open a shard; a context manager."""
    with ExitStack() as stack:
        yield OpenShard(plan, shard, stack)


def _check_references(rows: list[int], references: list[tuple[str, ...]], name: str) -> None:
    for row, texts in zip(rows, references, strict=True):
        if not texts:
            raise InputError(
                f"{name}: row {row}: no references; give references=FILE, or metrics that need none"
            )


def _add_image_files(plan: Plan, frame: pd.DataFrame) -> pd.DataFrame:
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
