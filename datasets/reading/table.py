"""Tables of judgements as people keep them: CSV, TSV, JSON, JSON lines, Parquet; and what they hold.

Parquet files are opened so that a small one cannot fill memory; shards are read in this way too.

A table knows where each of its rows stands, so that whatever is wrong with one can be said with its
place; `JudgementColumns` makes a `CaptionSet` of one row a rating.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError, shorten
from ..schema import CaptionSet, Card, Scale, make_items
from .cells import check_one_text, fill_empty, parse_number, parse_references, text_of
from .file_kinds import find_kind
from .json_rows import read_json_rows
from .table_folders import list_parts
from .table_rows import read_rows, read_sheet

#: The most characters of a table's names of columns in an error; where a file has no such line, they may be anything.
_MOST_OF_NAMES = 200
#: The bytes of a column that are read ahead; without a buffer Arrow reads the column of a row group whole.
BUFFER_BYTES = 1 << 20


def open_parquet(path: Path) -> Any:
    """Open a Parquet file with texts as dictionaries: a small file may hold a long text in each of many rows."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    leaves = [metadata.schema.column(i) for i in range(len(metadata.schema))]
    names = set(metadata.schema.to_arrow_schema().names)
    texts: list[str] = []
    for leaf in leaves:
        if leaf.physical_type == "BYTE_ARRAY" and leaf.path in names:
            texts.append(leaf.path)

    return pq.ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=texts,
        page_checksum_verification=True,
        buffer_size=BUFFER_BYTES,
        pre_buffer=False,
    )


@dataclass(frozen=True)
class Columns:
    """The names of the columns of captions; of JSON the keys, where `a.b.c` is what stands under `c` in nested objects.

    `rows` is where the list of rows stands in an object; empty where the object's keys tell. `candidate_id`,
    `candidate_caption` and `candidate_rows` are the names in a file of candidates alone; empty where they are those of
    both files.
    """

    image_id: str = "image_id"
    caption: str = "caption"
    references: str = "references"
    rows: str = ""
    candidate_id: str = ""
    candidate_caption: str = ""
    candidate_rows: str = ""

    def of_candidates(self) -> Columns:
        """Return the names in a file of candidates."""
        return Columns(
            image_id=self.candidate_id or self.image_id,
            caption=self.candidate_caption or self.caption,
            references=self.references,
            rows=self.candidate_rows or self.rows,
        )

    def of_references(self) -> Columns:
        """Return the names in a file of references."""
        return Columns(
            image_id=self.image_id,
            caption=self.caption,
            references=self.references,
            rows=self.rows,
        )


#: The names of captions' columns where nothing else is said.
USUAL_COLUMNS = Columns()


class Table:
    """Columns of equal length.

    Attributes:
        path: the file.
        names: its columns; `a.b` is what stands under `b` in the objects of column `a`.
        places: where each row stands, for messages: the file, and its line, entry or row.
        note: a sentence on what of the file is not read; empty where all of it is.
    """

    def __init__(
        self,
        path: Path,
        names: Iterable[str],
        places: list[str],
        read: Callable[[str], list[Any]],
        note: str = "",
    ) -> None:
        self.path = path
        self.note = note
        self.names = tuple(names)
        self.places = places
        self._read = read

        for name, count in Counter(self.names).items():
            # A line may end in delimiters.
            if count > 1 and name:
                raise InputError(f"{path}: the column '{name}' appears twice; keep one of them")

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def keep(self, numbers: Iterable[int]) -> Table:
        """Return the table of some rows, by their numbers from 0, which may repeat."""
        row_numbers = list(numbers)

        def read(name: str) -> list[Any]:
            column = self._read(name)
            return [column[number] for number in row_numbers]

        places = [self.places[number] for number in row_numbers]
        return Table(self.path, self.names, places, read, self.note)

    def with_columns(self, columns: Mapping[str, list[Any]]) -> Table:
        """Return the table with further columns, each as long as its own; one of the same name takes its place."""
        names = dict.fromkeys((*self.names, *columns))

        def read(name: str) -> list[Any]:
            return list(columns[name]) if name in columns else self._read(name)

        return Table(self.path, names, self.places, read, self.note)

    def first_of(self, *names: str) -> str | None:
        """Return the first of `names` that is a column; None where none is."""
        for name in names:
            if name in self:
                return name

        return None

    def column(self, name: str, hint: str = "") -> list[Any]:
        """Return a column as it stands in the file.

        Raises:
            InputError: where there is no such column; `hint` ends the message.
        """
        if name not in self:
            names = ", ".join(self.names) or "none"
            if len(names) > _MOST_OF_NAMES:
                names = f"{names[:_MOST_OF_NAMES]}…"
            note = f" ({self.note.removesuffix('.')})" if self.note else ""
            raise InputError(f"{self.path}: no column '{name}'; it has {names}{hint}{note}")

        return self._read(name)

    def texts(self, name: str, hint: str = "", empty: str | None = None) -> list[str]:
        """Return a column of texts; whole numbers become texts, as image ids are often numbers, and so does a list of one text.

        Args:
            name: the column.
            hint: ends the message where there is none.
            empty: what stands for an empty cell of Parquet or JSON; None makes it an error.
        """
        values = self.column(name, hint)
        for i, value in enumerate(values):
            # Nearly all cells are texts, at which there is nothing to do.
            if isinstance(value, str) and value:
                continue

            if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
                value = value[0]
                values[i] = value
            check_one_text(value, self.places[i], name)
            if empty is not None and fill_empty(value) == "":
                values[i] = empty
            elif isinstance(value, int) and not isinstance(value, bool):
                values[i] = str(value)
            elif isinstance(value, float) and value.is_integer():
                # A column of whole numbers with a gap in it is one of floats.
                values[i] = str(int(value))
            elif not isinstance(value, str):
                raise InputError(f"{self.places[i]}: {name} is {shorten(repr(value))}, not a text")

        return values

    def filled(self, name: str, hint: str = "") -> list[str]:
        """Return a column of texts, none of them empty."""
        values = self.texts(name, hint)
        if not all(map(str.strip, values)):
            for location, value in zip(self.places, values, strict=True):
                if not value.strip():
                    raise InputError(f"{location}: {name} is empty")

        return values

    def floats(self, name: str, scale: Scale | None, hint: str = "") -> list[float]:
        """Return a column of numbers, each on the scale; None asks only for finite ones."""
        values = self.column(name, hint)
        numbers = np.array([parse_number(value) for value in values])
        is_good = scale.fits(numbers) if scale else np.isfinite(numbers)
        bad = np.flatnonzero(~is_good)
        if bad.size:
            i = int(bad[0])
            reason = "not a number"
            if scale is not None and not np.isnan(numbers[i]):
                reason = f"not on the scale {scale}"
            raise InputError(f"{self.places[i]}: {name} is {shorten(repr(values[i]))}, {reason}")

        return numbers.tolist()

    def references(self, name: str, hint: str = "") -> list[tuple[str, ...]]:
        """Return a column of references, at least one each: see `cells.parse_references`."""
        references_by_text: dict[str, tuple[str, ...]] = {}
        rows: list[tuple[str, ...]] = []
        for row_place, value in zip(self.places, self.column(name, hint), strict=True):
            # Rows of an image mostly repeat its references, whose text is then parsed once.
            references = references_by_text.get(value) if isinstance(value, str) else None
            if references is None:
                texts = list(map(text_of, value)) if isinstance(value, list) else value
                references = parse_references(texts, row_place, name)
            if not references:
                raise InputError(f"{row_place}: no references in {name}; at least one is needed")
            if isinstance(value, str):
                references_by_text[value] = references
            rows.append(references)

        return rows

    def joined_references(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the references of several columns in their order, at least one a row; a cell may be empty.

        Args:
            names: columns of one reference each, or of several as `references` reads them.

        Raises:
            InputError: where a cell holds something else, or all cells of a row are empty.
        """
        columns = [self.column(name) for name in names]
        rows: list[tuple[str, ...]] = []
        for number, row_place in enumerate(self.places):
            references: list[str] = []
            for name, column in zip(names, columns, strict=True):
                value = fill_empty(column[number])
                texts = list(map(text_of, value)) if isinstance(value, list) else value
                references += parse_references(texts, row_place, name)
            if not references:
                listed = ", ".join(names)
                raise InputError(f"{row_place}: no references in {listed}; at least one is needed")
            rows.append(tuple(references))

        return rows


def read_table(path: Path) -> Table:
    """Read a table of the kind that the file's first bytes say.

    Raises:
        InputError: where it cannot be read, is empty, truncated or malformed, or is no table.
    """
    kind = find_kind(path)
    if kind == "folder":
        return _read_folder(path)
    if kind == "parquet":
        return _parquet(path)
    if kind == "arrow":
        return _read_arrow(path)
    if kind == "json":
        return _of_objects(path, read_json_rows(path))
    if kind == "xlsx":
        rows, note = read_sheet(path)
        return _of_rows(path, iter(rows), note)

    return _of_rows(path, read_rows(path, kind))


def _of_rows(path: Path, rows: Iterator[tuple[int, list[str]]], note: str = "") -> Table:
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: it is empty; a line with the names of the columns is expected")

    names = [name.strip("\ufeff \t\r\n") for name in first[1]]
    if len(names) > 1:
        names[0] = names[0].removeprefix("#")
    cells: list[list[str]] = []
    places: list[str] = []
    for line, row in rows:
        if row == first[1]:
            raise InputError(
                f"{path}:{line}: the names of the columns once more; take the line out"
            )
        if len(row) != len(names):
            cause = "is broken or the file truncated"
            if row[0].startswith("#"):
                cause = "is a comment, take it out"
            elif len(row) > len(names):
                cause += ", or a text with a delimiter in it has no quotes"
            raise InputError(
                f"{path}:{line}: {len(row)} cells, where the first line names {len(names)} columns; the line {cause}"
            )
        # Excel writes rows of delimiters alone.
        if len(names) > 1 and not any(map(str.strip, row)):
            continue
        cells.append(row)
        places.append(f"{path}:{line}")

    def column(name: str) -> list[str]:
        return list(map(itemgetter(names.index(name)), cells))

    return Table(path, names, places, column, note)


def _of_objects(path: Path, rows: Iterable[tuple[str, Any]]) -> Table:
    names: dict[str, None] = {}
    flat: list[dict[str, Any]] = []
    places: list[str] = []
    for row_place, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{row_place}: an object is expected, not {type(row).__name__}")

        columns: dict[str, Any] = {}
        for key, value in row.items():
            if isinstance(value, dict):
                for inner_key, inner_value in value.items():
                    columns[f"{key}.{inner_key}"] = inner_value
            else:
                columns[key] = value
        names |= dict.fromkeys(columns)
        flat.append(columns)
        places.append(row_place)

    return Table(path, names, places, lambda name: [row.get(name) for row in flat])


def _parquet(path: Path) -> Table:
    """Open a Parquet file, of which only the requested columns are read: images stay on the disk."""
    with _reporting_damage(path, "Parquet"):
        file = open_parquet(path)

    def column(name: str) -> list[Any]:
        with _reporting_damage(path, "Parquet"):
            return _read_arrow_column(file.read([name]), name)

    return Table(
        path, _list_columns(file.schema_arrow), _number_rows(path, file.metadata.num_rows), column
    )


def _read_arrow(path: Path) -> Table:
    """Open an Arrow file or stream, of which only the requested columns are made into Python's values."""
    import pyarrow as pa

    with _reporting_damage(path, "Arrow"):
        # What is mapped takes no memory, and a file knows its end, which a stream does not.
        source = pa.memory_map(str(path))
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        rows = reader.read_all()

    def column(name: str) -> list[Any]:
        outer_name = name if name in rows.column_names else name.partition(".")[0]
        with _reporting_damage(path, "Arrow"):
            return _read_arrow_column(rows.select([outer_name]), name)

    return Table(path, _list_columns(rows.schema), _number_rows(path, rows.num_rows), column)


@contextmanager
def _reporting_damage(path: Path, kind: str) -> Generator[None]:
    """Raise what Arrow says of a damaged file as an error in input."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or ["it ends early"])[0]
        raise InputError(
            f"{path}: not a complete {kind} file ({reason}); it may be truncated; get a new copy"
        ) from error


def _read_arrow_column(table: Any, name: str) -> list[Any]:
    """Return a column of an Arrow table as Python's values; `a.b` is what stands under `b` in the structs of `a`."""
    import pyarrow as pa

    values = (table if name in table.column_names else table.flatten()).column(name)

    # The shortest text of a 16-bit or 32-bit number, so that 0.1 is 0.1 here as it is in CSV.
    if pa.types.is_float32(values.type) or pa.types.is_float16(values.type):
        kind = values.type.to_pandas_dtype()
        return [None if v is None else float(str(kind(v))) for v in values.to_pylist()]

    # Rows share their texts, which are made once each.
    if pa.types.is_dictionary(values.type):
        cells: list[Any] = []
        for chunk in values.chunks:
            texts = chunk.dictionary.to_pylist()
            cells += [None if i is None else texts[i] for i in chunk.indices.to_pylist()]
        return cells

    return values.to_pylist()


def _list_columns(schema: Any) -> list[str]:
    """Return the names of an Arrow table's columns, of structs those of their members."""
    import pyarrow as pa

    names: list[str] = []
    for field in schema:
        inner = field.type if pa.types.is_struct(field.type) else ()
        if inner:
            names += [f"{field.name}.{part.name}" for part in inner]
        else:
            names.append(field.name)
    return names


def _number_rows(path: Path, n_rows: int) -> list[str]:
    return [f"{path}: row {number}" for number in range(1, n_rows + 1)]


def _read_folder(path: Path) -> Table:
    """Read the table that a folder holds in parts, with a column `split` where the folder names several splits.

    Raises:
        InputError: where it holds none, or its parts have other columns.
    """
    parts = list_parts(path)
    tables = [read_table(part.path) for part in parts]
    for part, table in zip(parts, tables, strict=True):
        if set(table.names) != set(tables[0].names):
            raise InputError(
                f"{part.path}: its columns are {shorten(', '.join(table.names))}, and those of {parts[0].path} "
                f"{shorten(', '.join(tables[0].names))}; name one of the files"
            )

    def column(name: str) -> list[Any]:
        return list(chain.from_iterable(table.column(name) for table in tables))

    places = list(chain.from_iterable(table.places for table in tables))
    joined = Table(path, tables[0].names, places, column)
    splits = list(dict.fromkeys(part.split for part in parts))
    if len(splits) < 2 or "split" in joined:
        return joined

    split_of_rows: list[Any] = []
    for part, table in zip(parts, tables, strict=True):
        split_of_rows += [part.split] * len(table)
    return joined.with_columns({"split": split_of_rows})


@dataclass
class JudgementColumns:
    """One row a rating, in columns of equal length.

    Attributes:
        places: where each row stands, for messages.
        image_ids, captions, values: what was rated, and how.
        raters: who rated; None where that is not known: an item's ratings are then numbered.
        references: of each row; None for none.
        systems, splits, images, dimensions, clusters: of each row, where there are any.
        apart: rows of the same image, caption and system with other references are of another item,
            and no fault.
    """

    places: Sequence[str]
    image_ids: Sequence[str]
    captions: Sequence[str]
    values: Sequence[float]
    raters: Sequence[str] | None = None
    references: Sequence[tuple[str, ...]] | None = None
    systems: Sequence[str | None] | None = None
    splits: Sequence[str] | None = None
    images: Sequence[str | None] | None = None
    dimensions: Sequence[str] | None = None
    clusters: Sequence[str] | None = None
    apart: bool = False

    def caption_set(self, card: Card) -> CaptionSet:
        """Make a `CaptionSet` in which the rows of one image, caption and system are one item.

        Raises:
            InputError: where such rows differ in references or split, or a rater rates twice.
        """
        items, item_of = self.make_items()
        dimensions = self.dimensions or ["overall"] * len(item_of)
        ids = items["item_id"].to_numpy(dtype=object)
        raters = name_raters(self.raters, item_of, dimensions, self.places)
        ratings = pd.DataFrame(
            {
                "item_id": ids[item_of],
                "dimension": dimensions,
                "rater": raters,
                "value": self.values,
            }
        )
        return CaptionSet(items, ratings, card=card)

    def make_items(self) -> tuple[pd.DataFrame, list[int]]:
        """Return the frame of items, and each row's item.

        Raises:
            InputError: where rows of one item differ in references or split.
        """
        item_of, first = self._items()

        def of_items(column: Sequence[Any] | None) -> list[Any] | None:
            if column is None:
                return None

            return [column[i] for i in first]

        optional = None
        if self.clusters is not None:
            optional = {"cluster": of_items(self.clusters) or []}

        items = make_items(
            [self.image_ids[i] for i in first],
            [self.captions[i] for i in first],
            of_items(self.references) or [()] * len(first),
            systems=of_items(self.systems),
            images=of_items(self.images),
            splits=of_items(self.splits),
            optional=optional,
        )

        return items, item_of

    def _items(self) -> tuple[list[int], list[int]]:
        """Return each row's item, and each item's first row."""
        item_by_key: dict[tuple[Any, ...], int] = {}
        item_of: list[int] = []
        first: list[int] = []

        # Rows of one item are alike in these columns; where references tell items apart, they are a part of the key.
        shared_columns = {"split": self.splits, "cluster": self.clusters}
        key_references = None
        if self.apart:
            key_references = self.references
        else:
            shared_columns = {"references": self.references, **shared_columns}
        alike = {name: column for name, column in shared_columns.items() if column}

        nothing = [None] * len(self.places)
        keys = zip(
            self.image_ids,
            self.captions,
            self.systems or nothing,
            key_references or nothing,
            strict=True,
        )
        for row, key in enumerate(keys):
            item = item_by_key.setdefault(key, len(item_by_key))
            item_of.append(item)
            if item == len(first):
                first.append(row)
            for column_name, column in alike.items():
                if column[row] != column[first[item]]:
                    raise InputError(
                        f"{self.places[row]}: {column_name} differs from {self.places[first[item]]}, which has "
                        f"the same image and caption"
                    )

        return item_of, first


def name_raters(
    raters: Sequence[str] | None,
    subjects: Sequence[int],
    dimensions: Sequence[str],
    places: Sequence[str],
) -> Sequence[str]:
    """Return each row's rater; where raters are not known, the judgements of a subject are numbered.

    Args:
        raters, dimensions, places: of each row.
        subjects: the number of what each row judges.

    Raises:
        InputError: where a rater judges twice.
    """
    if raters is None:
        numbered: list[str] = []
        counts: dict[tuple[int, str], int] = {}
        for key in zip(subjects, dimensions, strict=True):
            counts[key] = counts.get(key, 0) + 1
            numbered.append(f"rating_{counts[key]}")
        return numbered

    first_row: dict[tuple[int, str, str], int] = {}
    for row, key in enumerate(zip(subjects, dimensions, raters, strict=True)):
        before = first_row.setdefault(key, row)
        if before != row:
            raise InputError(
                f"{places[row]}: rater '{raters[row]}' already rated this caption "
                f"in {places[before]}; keep one of the ratings"
            )

    return raters
