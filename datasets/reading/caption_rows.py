"""The rows of a file of captions or references, whatever its shape: what stands in one place about one image.

`caption_files` makes the captions of systems and the references of images of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, shorten
from .caption_names import (
    NameFinder,
    describe_judgements,
    is_of_rows,
    may_hold_captions,
    may_name_system,
)
from .cells import (
    SEPARATOR,
    check_one_text,
    fill_empty,
    is_printed_list,
    split_joined,
    text_of,
)
from .conversations import CONVERSATIONS, find_conversation, with_answer
from .file_kinds import find_kind
from .flags import FLAGS
from .json_faults import describe_encoded_twice
from .json_files import Report
from .json_rows import make_rows_of_columns
from .json_source import JsonSource
from .row_cells import find_reference_texts, find_sample, only, unpack_row
from .table import Table, read_table

#: What each kind of file may be, for messages.
_RESULTS = "COCO results, an object image id → caption, JSON lines or a table are expected"
_ANNOTATIONS = (
    "COCO annotations, an object image id → captions, a list or JSON lines of objects with image_id and references, "
    "or a table are expected"
)
#: What is no name of a column: a number, the name of an image's file, or a sentence.
_IS_DATA = re.compile(
    r"\d+|\S+\.(?:jpe?g|png|webp|wav|mp4)(?:#\d+)?|(?:\S+\s+){4,}\S+", re.IGNORECASE
)
#: What objects call both sides, whose members are then no images.
_LISTS_OF_SIDES = (
    "predictions",
    "preds",
    "hypotheses",
    "candidates",
    "generated",
    "res",
    "references",
    "refs",
    "gts",
    "targets",
    "labels",
    "ground_truths",
    "captions",
)
#: Among so many members of an object stand `image_id` and `caption`, where it is a line of JSON lines.
_ROW = 16


class CaptionRow(NamedTuple):
    """The caption or references of an image in one place of a file.

    Attributes:
        where: the place for messages.
        line: its line, or the number of a row of Parquet.
        cells: `image_id`, and `caption` or `references`.
        row: all that stands there.
        key: that of the list of rows in the object that is the file; empty where there is none.
        is_member: whether it is a member of an object image id → captions.
    """

    where: str
    line: int
    cells: dict[str, Any]
    row: Mapping[str, Any]
    key: str = ""
    is_member: bool = False


def read_caption_rows(
    source: JsonSource,
    content: str,
    finder: NameFinder,
    report: Report | None,
    describe_image: Callable[[dict[str, Any]], None] | None = None,
) -> Iterator[CaptionRow]:
    """Yield the rows of a file.

    Args:
        source: the file.
        content: `caption` or `references`.
        finder: knows the names of columns.
        report: takes each fault after which reading goes on; None raises the first.
        describe_image: takes what an object says of images beside their captions, such as COCO's `images`.

    Raises:
        InputError: where the file is of another form.
    """
    if source.is_file and find_kind(source.path) != "json":
        yield from _read_table_rows(source.path, content, finder)
        return

    yield from _JsonReader(source, content, finder, report, describe_image).rows()


def _read_table_rows(path: Path, content: str, finder: NameFinder) -> Iterator[CaptionRow]:
    """Yield the rows of a CSV, TSV, Excel or Parquet file.

    Raises:
        InputError: where it is malformed, or has no column of images or texts.
    """
    table = read_table(path)
    if table.note:
        finder.remarks.append(table.note)
    hint = (
        f"; image_id and {content} are expected, or others that columns.image_id= and "
        f"columns.{content}= name"
    )
    if finder.has_usual_columns:
        table = _read_answers(table)
    finder.note_judgements(table.names)
    if judged := finder.judgements:
        hint += f"; {describe_judgements(judged)}"
    image_column = finder.find("image_id", table.names) or finder.columns.image_id
    if image_column not in table and any(map(_IS_DATA.fullmatch, table.names)):
        raise InputError(
            f"{path}:1: the first line has no names of columns, but '{shorten(table.names[0])}'; write a line above it that names "
            f"them, such as image_id and {'caption' if content == 'caption' else 'caption or references'}, with the same "
            "delimiter"
        )
    texts: dict[str, list[Any]] = {"image_id": table.filled(image_column, hint)}
    texts |= _read_texts(table, content, finder, hint)
    if content == "caption" and "system" in table:
        texts["system"] = table.filled("system")

    extra_names = [name for name in (*FLAGS, "split") if name in table]
    if content == "caption":
        extra_names += filter(may_name_system, table.names)
    extra_columns = {name: table.column(name) for name in extra_names}
    for number, where in enumerate(table.places):
        cells = {name: column[number] for name, column in texts.items()}
        line = int(re.split("[: ]", where)[-1])
        row = {name: column[number] for name, column in extra_columns.items()}
        yield CaptionRow(where, line, cells, row)


def _read_texts(table: Table, content: str, finder: NameFinder, hint: str) -> dict[str, list[Any]]:
    """Return the column of captions, as `caption`, or of lists of references, as `references`.

    Args:
        content: `caption`, or what else the file holds, which may have several texts in a row.
        hint: the end of an error's sentence, on which columns are expected.
    """
    texts: dict[str, list[Any]] = {}
    reference_column = finder.find("references", table.names) if content != "caption" else None
    numbered = finder.find_numbered(table.names) if content != "caption" else []
    if reference_column is not None and not is_of_rows(reference_column, ""):
        texts["references"] = [list(row) for row in table.references(reference_column)]
    elif numbered:
        columns = [table.texts(name, empty="") for name in numbered]
        texts["references"] = []
        for row in zip(*columns, strict=True):
            texts["references"].append([text for text in row if text.strip()])
    else:
        samples = _find_samples(table)
        caption_column = reference_column or finder.find("caption", samples)
        caption_column = caption_column or finder.columns.caption
        finder.note_unread(samples, caption_column)
        cells = table.column(caption_column, hint)
        has_lists = any(isinstance(cell, list) for cell in cells)
        if content != "caption" and has_lists:
            texts["references"] = [list(row) for row in table.references(caption_column)]
        else:
            # An empty cell is an empty text in every kind of table.
            texts["caption"] = table.texts(caption_column, hint, empty="")
            if content != "caption":
                texts["caption"] = _split_texts(texts["caption"])
    return texts


def _read_answers(table: Table) -> Table:
    """Return a table of conversations with their machine's last answers as `caption`, and their images; other tables stay.

    Raises:
        InputError: where a machine says nothing.
    """
    name = table.first_of(*CONVERSATIONS)
    if name is None:
        return table

    images = None
    if "image_id" not in table:
        images = table.first_of("image", "images", "image.path", "id")
    image_cells = [None] * len(table) if images is None else table.column(images)
    answers: list[Any] = []
    image_names: list[Any] = []
    for number, conversation in enumerate(table.column(name)):
        row = {name: conversation, "image": image_cells[number]}
        if find_conversation(row) is None:
            return table
        unfolded = with_answer(row, table.places[number])
        answers.append(unfolded["caption"])
        image_names.append(unfolded.get("image"))

    columns: dict[str, list[Any]] = {"caption": answers}
    if "caption" in table:
        columns = {}
    if images is not None:
        columns["image_id" if images == "id" else "image"] = image_names
    return table.with_columns(columns)


def _split_texts(texts: Iterable[str]) -> list[Any]:
    """Return references, of those that hold the separator their parts."""
    split: list[Any] = []
    for text in texts:
        split.append(split_joined([text]) if SEPARATOR.strip() in text else text)
    return split


def _find_samples(table: Table) -> dict[str, Any]:
    """Return a value of each column that may hold captions, the first that is no empty cell; None of the others.

    A list that is printed into a text is a list.
    """
    samples: dict[str, Any] = {}
    for name in table.names:
        sample = None
        if may_hold_captions(name):
            # A column of empty cells alone has no sample.
            sample = next((cell for cell in table.column(name) if fill_empty(cell) != ""), None)
        if isinstance(sample, str) and (SEPARATOR in sample or is_printed_list(sample.strip())):
            sample = [sample]
        samples[name] = sample

    return samples


def _is_numbered(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a list of texts by their numbers: `{"0": "…", "1": "…"}`."""
    for key, text in value.items():
        if not key.isdecimal() or not isinstance(text, str):
            return False
    return bool(value)


class _JsonReader:
    """Reads the rows of JSON of any of the known shapes.

    Args:
        source, content, finder, report, describe_image: as of `read_caption_rows`.
    """

    def __init__(
        self,
        source: JsonSource,
        content: str,
        finder: NameFinder,
        report: Report | None,
        describe_image: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self._source = source
        self._content = content
        self._finder = finder
        self._report = report
        self._describe_image = describe_image
        self._lists: list[str] = []
        self._has_rows = False

    def rows(self) -> Iterator[CaptionRow]:
        """Yield the rows.

        Raises:
            InputError: where the file is of none of these shapes.
        """
        members: list[tuple[int, str, Any]] = []
        # Elements are counted from 0 in each list, as programs count them.
        number = 0
        for kind, line, value in self._source.read(self._report):
            row = None
            if kind == "member":
                members.append((line, *value))
            elif kind == "list":
                self._lists.append(value)
                number = 0
            elif kind == "element":
                row = self._guard(self._read_element, line, number, *value)
            elif kind == "entry":
                where = f"{self._source.name}:{line}: entry {number}"
                row = self._guard(self._read_entry, where, line, value)
            elif kind == "line":
                where = f"{self._source.name}:{line}"
                row = self._guard(self._unpack, where, line, value)
            else:
                error = self._unexpected(type(value).__name__)
                raise InputError(f"{error}{describe_encoded_twice(value)}")

            number += kind in ("entry", "line", "element")
            if row is not None:
                yield row

        # Beside a list of rows, members are what the file says of itself.
        if not self._has_rows:
            yield from self._read_members(members)

    def _guard(self, read: Callable[..., CaptionRow | None], *arguments: Any) -> CaptionRow | None:
        """Return a row, or None for a fault that was reported."""
        try:
            row = read(*arguments)
        except InputError as error:
            if self._report is None:
                raise
            self._report(error)
            self._has_rows = True
            return None
        self._has_rows = self._has_rows or row is not None
        return row

    def _unexpected(self, kind: str) -> InputError:
        expected = _RESULTS if self._content == "caption" else _ANNOTATIONS
        return InputError(f"{self._source.name}: {expected}, not {kind}")

    def _unpack(self, where: str, line: int, value: Mapping[str, Any], key: str = "") -> CaptionRow:
        cells = unpack_row(value, self._finder, self._content, where)
        cells = self._only_caption(cells, where)
        return CaptionRow(where, line, cells, value, key)

    def _only_caption(self, cells: dict[str, Any], where: str) -> dict[str, Any]:
        """Return cells whose caption, in a list of one, is that caption, and whose null is an empty one.

        Raises:
            InputError: where it is a list of several texts.
        """
        if self._content == "caption" and not isinstance(cells.get("caption", ""), str):
            caption = fill_empty(text_of(only(cells["caption"])))
            check_one_text(caption, where)
            return {**cells, "caption": caption}

        return cells

    def _read_entry(self, where: str, line: int, value: Any) -> CaptionRow:
        if isinstance(value, list):
            # pandas' orient="values" is one.
            raise InputError(
                f"{where}: a list, whose elements have no names; write objects with image_id and {self._content}, as pandas' "
                "to_json(orient='records') does"
            )
        if not isinstance(value, dict):
            if self._content == "caption":
                raise InputError(f"{where}: an object is expected, not {type(value).__name__}")
            raise self._unexpected(type(value).__name__)

        return self._unpack(where, line, value)

    def _read_element(self, line: int, number: int, key: str, value: Any) -> CaptionRow | None:
        """Return the row of a list's element; None of what describes an image."""
        where = f"{self._source.name}:{line}: {key} {number}"
        rows_key = self._finder.columns.rows
        if rows_key and key != rows_key:
            return None
        if not isinstance(value, dict):
            raise InputError(f"{where}: an object is expected, not {type(value).__name__}")
        if rows_key:
            return self._unpack(where, line, value, key)
        if key == "annotations":
            # COCO's have a caption each.
            location = where.replace(": annotations ", ": annotation ")
            cells = unpack_row(value, self._finder, "caption", location)
            return CaptionRow(location, line, self._only_caption(cells, location), value, key)

        if "sentences" in value and self._content == "references":
            return self._read_sentences(where, line, value, key)
        text = text_of(value)
        if isinstance(text, str) and self._finder.find("image_id", value) is None:
            value = {**value, "caption": text}
        if not self._has_content(value):
            if self._describe_image is not None:
                self._describe_image(value)
            return None

        # pycocoevalcap's own dictionaries have a list of annotations below each image.
        own_id = self._finder.find("image_id", value)
        if own_id is None or str(value[own_id]) == key:
            value = {**value, "image_id": key}
        return self._unpack(where, line, value, key)

    def _read_sentences(self, where: str, line: int, value: dict[str, Any], key: str) -> CaptionRow:
        """Return the references of an image in Karpathy's files, which is called by COCO's number or its file's name."""
        image_id = value.get("cocoid", value.get("filename"))
        if self._describe_image is not None:
            self._describe_image(value)
        cells = {"image_id": image_id, "references": value["sentences"]}
        return CaptionRow(where, line, cells, value, key)

    def _has_content(self, value: Mapping[str, Any]) -> bool:
        if self._content == "references" and find_reference_texts(value, self._finder) is not None:
            return True

        return self._finder.find("caption", value) is not None

    def _read_members(self, members: Sequence[tuple[int, str, Any]]) -> Iterator[CaptionRow]:
        """Yield the rows of an object: of one image each, of columns, or the one row that it is."""
        by_key = {key: value for _, key, value in members}
        rows_key = self._finder.columns.rows
        if rows_key and isinstance(named := self._follow(rows_key, by_key), Mapping):
            # An object image id → caption beside others; its place is that of the object.
            object_key = rows_key.partition(".")[0]
            line = next(line for line, key, _ in members if key == object_key)
            for key, value in named.items():
                row = self._guard(self._read_member, line, key, value)
                if row is not None:
                    yield row
            return

        rows = self._find_rows(by_key)
        if rows is not None:
            for number, row in enumerate(rows):
                where = f"{self._source.name}: row {number}"
                unpacked = self._guard(self._read_entry, where, number + 1, row)
                if unpacked is not None:
                    yield unpacked
            return

        if self._is_row(by_key):
            row = self._guard(self._unpack, self._source.name, members[0][0], by_key)
            if row is not None:
                yield row
            return
        if "annotations" in by_key and not by_key["annotations"]:
            return

        self._check_members(by_key)
        are_sides = all(key.lower() in _LISTS_OF_SIDES for key in by_key)
        if by_key and are_sides:
            keys = " and ".join(f"'{key}'" for key in by_key)
            raise InputError(
                f"{self._source.name}: {keys} are no image ids; write a list of objects with image_id, or name the member that "
                "has them by columns.rows=KEY (candidates.columns.rows= of the candidates alone)"
            )
        for line, key, value in members:
            row = self._guard(self._read_member, line, key, value)
            if row is not None:
                yield row

    def _find_rows(self, by_key: Mapping[str, Any]) -> list[Any] | None:
        """Return the rows that an object has in columns, or under the key that the user named; None for neither."""
        rows_key = self._finder.columns.rows
        if rows_key:
            value = self._follow(rows_key, by_key)
            if not isinstance(value, list):
                keys = shorten(", ".join((*by_key, *self._lists)))
                raise InputError(
                    f"{self._source.name}: columns.rows={rows_key} names no list; there are: {keys}"
                )
            return value

        has_split = {"columns", "data"} <= by_key.keys()
        image_key = self._finder.find("image_id", by_key)
        has_columns = image_key is not None and isinstance(by_key[image_key], list | dict)
        return make_rows_of_columns(by_key) if has_split or has_columns else None

    @staticmethod
    def _follow(rows_key: str, by_key: Mapping[str, Any]) -> Any:
        """Return what stands under the key that the user named; None where nothing does."""
        value: Any = by_key
        for part in rows_key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def _is_row(self, by_key: Mapping[str, Any]) -> bool:
        """Tell whether an object is a line of JSON lines that has one line."""
        if len(by_key) > _ROW:
            return False

        sample: Mapping[str, Any] = by_key
        if self._finder.has_usual_columns:
            sample = find_sample(by_key, self._source.name)
        return self._finder.find("image_id", sample) is not None and self._has_content(sample)

    def _check_members(self, by_key: Mapping[str, Any]) -> None:
        """Check that an object with lists that hold no captions is not taken for one of image ids.

        Raises:
            InputError: where it would be.
        """
        if not self._lists:
            return

        keys = shorten(", ".join((*self._lists, *by_key)))
        noun = "captions" if self._content == "caption" else "references"
        raise InputError(
            f"{self._source.name}: no {noun} are found in its lists; columns.rows=KEY names the list of rows, and "
            f"columns.image_id= and columns.{self._content}= its keys; it has {keys}"
        )

    def _read_member(self, line: int, key: str, value: Any) -> CaptionRow:
        where = f"{self._source.name}:{line}: image '{key}'"
        # pandas' orient="index" has a row below each key.
        if isinstance(value, dict) and self._has_content(value):
            own_id = self._finder.find("image_id", value)
            row = value if own_id is not None else {**value, "image_id": key}
            return self._unpack(where, line, row)

        if self._content == "references" and isinstance(value, dict) and _is_numbered(value):
            value = list(value.values())
        is_number = isinstance(value, bool | int) or (isinstance(value, float) and value == value)
        if is_number or isinstance(value, dict):
            noun = "no caption" if self._content == "caption" else "no references"
            raise InputError(
                f"{where}: '{key}' is {shorten(repr(value))}, {noun}; take it out, or name the member that has them by "
                "columns.rows=KEY"
            )
        cells = self._only_caption({"image_id": key, self._content: value}, where)
        return CaptionRow(where, line, cells, {}, is_member=True)
