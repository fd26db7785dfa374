"""A user's captions and references, in each of the forms that they may have, among them the outputs of lmms-eval and VLMEvalKit."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..caption_texts import replace_surrogates
from ..errors import InputError, shorten
from .caption_checks import Finding, PlacedText, check_captions, check_references
from .caption_names import (
    NameFinder,
    find_reference_texts,
    find_sample,
    is_name,
    only,
    text_of,
    unpack_row,
)
from .cells import parse_references
from .file_kinds import find_kind
from .flags import FLAGS, find_flags
from .json_files import JsonSource, Report, field
from .json_rows import make_rows_of_columns
from .table import USUAL_COLUMNS, Columns, read_table

#: What each kind of file may be, for messages.
_RESULTS = "COCO results, an object image id → caption, JSON lines or a table are expected"
_ANNOTATIONS = (
    "COCO annotations, an object image id → captions, a list or JSON lines of objects with image_id and references, "
    "or a table are expected"
)
#: Among so many members of an object stand `image_id` and `caption`, where it is a line of JSON lines.
_ROW = 16


@dataclass(frozen=True)
class CandidateFile:
    """One caption an image, and the line of each, for messages.

    Attributes:
        source: the file.
        captions, lines: by image.
        notes: sentences on how it was read.
    """

    source: JsonSource
    captions: dict[str, str]
    lines: dict[str, int]
    notes: tuple[str, ...] = ()

    def locate(self, image_id: str) -> str:
        """Return the place of an image's caption, for messages."""
        return f"{self.source.name}:{self.lines[image_id]}: image '{image_id}'"

    def find_faults(self) -> list[Finding]:
        """Return what looks like a fault of the file."""
        name = Path(self.source.name).name
        texts: list[PlacedText] = []
        for image_id, caption in self.captions.items():
            texts.append(PlacedText(f"{name}:{self.lines[image_id]}", image_id, caption))
        return check_captions(texts)


@dataclass(frozen=True)
class ReferenceFile:
    """The references of each image.

    Attributes:
        source: the file.
        texts: by image; none of an image whose references are all flagged as void.
        lines: the line of the first of each, for messages.
        other_names: what else the file calls its images, such as `file_name`: by that key, each name's image.
        void_images: those whose references are all flagged as void.
        notes: sentences on how it was read, and on what was left out.
    """

    source: JsonSource
    texts: dict[str, tuple[str, ...]]
    lines: dict[str, int] = dataclasses.field(default_factory=dict[str, int])
    other_names: dict[str, dict[str, str]] = dataclasses.field(
        default_factory=dict[str, dict[str, str]]
    )
    void_images: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def find_faults(self) -> list[Finding]:
        """Return what looks like a fault of the file."""
        name = Path(self.source.name).name
        placed: list[PlacedText] = []
        for image_id, texts in self.texts.items():
            place = f"{name}:{self.lines[image_id]}" if image_id in self.lines else name
            placed += [PlacedText(place, image_id, text) for text in texts]
        return check_references(placed)


def read_candidates(
    path: Path, content: bytes | None = None, columns: Columns = USUAL_COLUMNS
) -> CandidateFile:
    """Read one system's captions; see `read_systems`.

    Raises:
        InputError: where `read_systems` does, or there are several systems.
    """
    candidates, *other_systems = read_systems(path, content, columns).values()
    if other_systems:
        raise InputError(
            f"{path}: captions of {1 + len(other_systems)} systems, where one is expected"
        )
    return candidates


def read_systems(
    path: Path,
    content: bytes | None = None,
    columns: Columns = USUAL_COLUMNS,
    report: Report | None = None,
) -> dict[str, CandidateFile]:
    """Read COCO results, an object image id → caption, or JSON lines or a table with `image_id` and `caption`.

    Args:
        path: the file.
        content: what to read instead, no table; the path is then its name.
        columns: the names of the columns, or the keys of objects.
        report: takes each fault after which reading goes on; by default the first is raised.

    Returns:
        The captions by system, of the column `system` of a table or that key of JSON's rows; without it, the one key
        is empty. There is none where all that the file has is a fault that was reported.

    Raises:
        InputError: where it is none of them, some rows name a system and others do not, or a system has two captions
            of one image.
    """
    source = JsonSource(path, content)
    finder = NameFinder(columns)
    unit = "row" if path.suffix.lower() in (".parquet", ".pq") else "line"
    systems: dict[str, CandidateFile] = {}
    n_faults = 0

    def count_fault(error: InputError) -> None:
        nonlocal n_faults
        n_faults += 1
        if report is None:
            raise error
        report(error)

    for row in _read_rows(source, "caption", finder, None if report is None else count_fault):
        try:
            image_id = image_key(row.cells, row.where)
            caption = field(row.cells, "caption", str, row.where)
            system = _find_system(row.cells, row.where)
            candidates = systems.setdefault(system, CandidateFile(source, {}, {}))
            if image_id in candidates.captions:
                raise InputError(
                    f"{row.where}: a second caption for image '{image_id}', whose first is on {unit} "
                    f"{candidates.lines[image_id]}; keep one per image{_swapped(row)}"
                )
        except InputError as error:
            count_fault(error)
            continue
        candidates.captions[image_id] = replace_surrogates(caption)
        candidates.lines[image_id] = row.line

    if not systems and not n_faults:
        raise InputError(f"{source.name}: it contains no captions")
    if "" in systems and len(systems) > 1:
        nameless = systems[""]
        raise InputError(
            f"{nameless.locate(next(iter(nameless.captions)))} names no system, and others do; name it in 'system', "
            f"or leave 'system' out of all"
        )

    notes = _describe_names(source, finder)
    return {name: dataclasses.replace(file, notes=notes) for name, file in systems.items()}


def _swapped(row: CaptionRow) -> str:
    if row.key != "annotations":
        return ""

    return "; COCO annotations are references: candidates= and references= may be swapped"


def _describe_names(source: JsonSource, finder: NameFinder) -> tuple[str, ...]:
    """Return the note on the columns of a file that had other names than the usual ones."""
    used = finder.describe()
    return (f"In {Path(source.name).name}, {used}.",) if used else ()


def _find_system(row: Mapping[str, Any], where: str) -> str:
    """Return the system that a row names; an empty text where it names none.

    Raises:
        InputError: where the name is no text, or blank.
    """
    if row.get("system") is None:
        return ""
    system = replace_surrogates(str(field(row, "system", (str, int), where)))
    if not system.strip():
        raise InputError(f"{where}: system is empty")
    return system


def read_references(
    path: Path,
    content: bytes | None = None,
    columns: Columns = USUAL_COLUMNS,
    *,
    keep_flagged: bool = False,
    split: str | None = None,
) -> ReferenceFile:
    """Read COCO caption annotations, an object image id → captions, or objects or a table with `references`.

    A table, or a list of objects, may have `caption` instead, with a row for each reference. An image may come several
    times if its references are the same, as in the items of a `CaptionSet`. References that the file itself flags as
    void (`reading.flags`) are left out.

    Args:
        path: the file.
        content: what to read instead, no table; the path is then its name.
        columns: as of `read_systems`.
        keep_flagged: whether to read what the file flags as void.
        split: of a file that names splits, the one to read; None for all.

    Raises:
        InputError: where it is none of them, an image comes with two lists of references, or no image is of the split.
    """
    source = JsonSource(path, content)
    finder = NameFinder(columns)
    collector = _ReferenceCollector()
    for row in _read_rows(source, "references", finder, None, collector.describe_image):
        flags = () if keep_flagged else find_flags(row.row)
        collector.add(row, flags)

    return collector.finish(source, split, _describe_names(source, finder))


class _ReferenceCollector:
    """Takes the rows of a file of references one by one."""

    def __init__(self) -> None:
        self._listed: dict[str, tuple[str, ...]] = {}
        self._single: dict[str, list[str]] = {}
        self._lines: dict[str, int] = {}
        self._splits: dict[str, str] = {}
        self._descriptions: list[dict[str, Any]] = []
        self._flags: Counter[str] = Counter()
        self._n_void = 0

    def describe_image(self, row: dict[str, Any]) -> None:
        """Take what a file says of an image beside its references."""
        self._descriptions.append(row)

    def add(self, row: CaptionRow, flags: tuple[str, ...]) -> None:
        """Take one reference, or all of an image.

        Raises:
            InputError: where it is malformed, or the image has other references already.
        """
        image_id = image_key(row.cells, row.where)
        self._lines.setdefault(image_id, row.line)
        split = row.row.get("split")
        if isinstance(split, str):
            self._splits[image_id] = split
        if flags:
            self._flags.update(flags)
            self._n_void += 1
            self._single.setdefault(image_id, [])
            return

        if "caption" in row.cells:
            caption = field({"caption": text_of(row.cells["caption"])}, "caption", str, row.where)
            texts = parse_references([caption], row.where, "caption")
            self._single.setdefault(image_id, []).extend(texts)
            return

        value = row.cells["references"]
        if row.is_member and isinstance(value, str):
            # A text as an object's member would be the caption of a file of candidates.
            field(row.cells, "references", list, row.where)
        if isinstance(value, list):
            value = list(map(text_of, value))
        if not isinstance(value, tuple):
            value = field({"references": value}, "references", (list, str), row.where)
        texts = parse_references(value, row.where)
        if self._listed.setdefault(image_id, texts) != texts:
            raise InputError(
                f"{row.where}: image '{image_id}' has other references in an earlier row; keep one list"
            )

    def finish(
        self, source: JsonSource, split: str | None, notes: tuple[str, ...]
    ) -> ReferenceFile:
        """Return the references of all images.

        Raises:
            InputError: where there are none, or none of the split.
        """
        texts = dict(self._listed)
        for image_id, captions in self._single.items():
            texts[image_id] = tuple(captions)
        if not texts:
            raise InputError(f"{source.name}: it contains no references")

        void_images = frozenset(i for i, captions in self._single.items() if not captions)
        other_names = self._name_images(texts)
        if split is not None:
            texts = self._select_split(source, split, texts)
        return ReferenceFile(
            source=source,
            texts=texts,
            lines=self._lines,
            other_names=other_names,
            void_images=void_images,
            notes=(*notes, *self._describe_flags(source, void_images)),
        )

    def _name_images(self, texts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        """Return what else the descriptions call images, by the key; a name of two images is left out."""
        named: dict[str, dict[str, str]] = {}
        ambiguous: set[tuple[str, str]] = set()
        for description in self._descriptions:
            names = {key: str(v) for key, v in description.items() if is_name(key, v)}
            image_id = next((name for name in names.values() if name in texts), None)
            if image_id is None:
                continue
            if isinstance(description.get("split"), str):
                self._splits.setdefault(image_id, description["split"])
            for key, name in names.items():
                if named.setdefault(key, {}).setdefault(name, image_id) != image_id:
                    ambiguous.add((key, name))

        for key, name in ambiguous:
            del named[key][name]
        return named

    def _select_split(
        self, source: JsonSource, split: str, texts: Mapping[str, tuple[str, ...]]
    ) -> dict[str, tuple[str, ...]]:
        selected = {i: captions for i, captions in texts.items() if self._splits.get(i) == split}
        if not selected:
            splits = ", ".join(sorted(set(self._splits.values()))) or "none"
            raise InputError(f"{source.name}: no image is of split={split}; its splits: {splits}")
        return selected

    def _describe_flags(self, source: JsonSource, void_images: frozenset[str]) -> list[str]:
        if not self._n_void:
            return []

        counts = ", ".join(f"{flag}: {n:,}" for flag, n in sorted(self._flags.items()))
        name = Path(source.name).name
        is_or_are = "reference is" if self._n_void == 1 else "references are"
        note = f"{self._n_void:,} {is_or_are} left out, which {name} flags as void ({counts})"
        if len(void_images) == 1:
            note += ", and with them 1 image that has no other"
        elif void_images:
            note += f", and with them {len(void_images):,} images that have no others"
        return [f"{note}; flagged=keep keeps them."]


def image_key(row: Any, where: str) -> str:
    """Return an image id as text; COCO's numbers and file names are both legal."""
    # COCO's are numbers, and there are millions of them.
    if type(row) is dict:
        number = row.get("image_id")
        if type(number) is int:
            return str(number)
        # A column of numbers with a gap in it was one of floats for a time.
        if type(number) is float and number.is_integer():
            return str(int(number))
    return replace_surrogates(str(field(row, "image_id", (str, int), where)))


@dataclass(frozen=True)
class CaptionRow:
    """What a file says of an image's caption or references in one place.

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


def _read_rows(
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
    hint = (
        f"; image_id and {content} are expected, or others that columns.image_id= and "
        f"columns.{content}= name"
    )
    image_column = finder.find("image_id", table.names) or finder.columns.image_id
    texts: dict[str, list[Any]] = {"image_id": table.filled(image_column, hint)}

    reference_column = finder.find("references", table.names) if content != "caption" else None
    numbered = finder.find_numbered(table.names) if content != "caption" else []
    if reference_column is not None:
        texts["references"] = [list(row) for row in table.references(reference_column)]
    elif numbered:
        columns = [table.texts(name, empty="") for name in numbered]
        rows = zip(*columns, strict=True)
        texts["references"] = [[text for text in row if text.strip()] for row in rows]
    else:
        # An empty cell is an empty text in every kind of table.
        caption_column = finder.find("caption", table.names) or finder.columns.caption
        texts["caption"] = table.texts(caption_column, hint, empty="")
    if content == "caption" and "system" in table:
        texts["system"] = table.filled("system")

    others = [name for name in (*FLAGS, "split") if name in table]
    beside = {name: table.column(name) for name in others}
    for number, where in enumerate(table.places):
        cells = {name: column[number] for name, column in texts.items()}
        line = int(re.split("[: ]", where)[-1])
        row = {name: column[number] for name, column in beside.items()}
        yield CaptionRow(where, line, cells, row)


class _JsonReader:
    """Reads the rows of JSON of any of the known shapes.

    Args:
        source, content, finder, report, describe_image: as of `_read_rows`.
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

    def rows(self) -> Iterator[CaptionRow]:
        """Yield the rows.

        Raises:
            InputError: where the file is of none of these shapes.
        """
        members: list[tuple[int, str, Any]] = []
        n_rows = 0
        for kind, line, value in self._source.read(self._report):
            row = None
            if kind == "member":
                members.append((line, *value))
            elif kind == "list":
                self._lists.append(value)
            elif kind == "element":
                row = self._guard(self._read_element, line, n_rows, *value)
            elif kind == "entry":
                where = f"{self._source.name}:{line}: entry {n_rows}"
                row = self._guard(self._read_entry, where, line, value)
            elif kind == "line":
                where = f"{self._source.name}:{line}"
                row = self._guard(self._unpack, where, line, value)
            else:
                raise self._unexpected(type(value).__name__)

            n_rows += kind in ("entry", "line", "element")
            if row is not None:
                yield row

        # Beside a list of rows, members are what the file says of itself.
        if not self._has_rows:
            yield from self._read_members(members)

    _has_rows = False

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
        cells = self._only_caption(cells)
        return CaptionRow(where, line, cells, value, key)

    def _only_caption(self, cells: dict[str, Any]) -> dict[str, Any]:
        """Return cells whose caption, in a list of one, is that caption."""
        if self._content == "caption" and isinstance(cells.get("caption"), list | dict):
            return {**cells, "caption": text_of(only(cells["caption"]))}

        return cells

    def _read_entry(self, where: str, line: int, value: Any) -> CaptionRow:
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
            place = where.replace(": annotations ", ": annotation ")
            cells = unpack_row(value, self._finder, "caption", place)
            return CaptionRow(place, line, self._only_caption(cells), value, key)

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
        rows = self._find_rows(by_key)
        if rows is not None:
            for number, row in enumerate(rows):
                where = f"{self._source.name}: row {number}"
                unpacked = self._guard(self._unpack, where, number + 1, row)
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
        for line, key, value in members:
            row = self._guard(self._read_member, line, key, value)
            if row is not None:
                yield row

    def _find_rows(self, by_key: Mapping[str, Any]) -> list[Any] | None:
        """Return the rows that an object has in columns, or under the key that the user named; None for neither."""
        rows_key = self._finder.columns.rows
        if rows_key:
            value: Any = by_key
            for part in rows_key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
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

    def _is_row(self, by_key: Mapping[str, Any]) -> bool:
        """Tell whether an object is a line of JSON lines that has one line."""
        if len(by_key) > _ROW:
            return False

        sample = find_sample(by_key) if self._finder.columns == USUAL_COLUMNS else by_key
        return self._finder.find("image_id", sample) is not None and self._has_content(sample)

    def _check_members(self, by_key: Mapping[str, Any]) -> None:
        """Check that an object with lists that hold no captions is not taken for one of image ids.

        Raises:
            InputError: where it would be.
        """
        if not self._lists:
            return

        keys = shorten(", ".join((*self._lists, *by_key)))
        what = "captions" if self._content == "caption" else "references"
        raise InputError(
            f"{self._source.name}: no {what} are found in its lists; columns.rows=KEY names the list of rows, and "
            f"columns.image_id= and columns.{self._content}= its keys; it has {keys}"
        )

    def _read_member(self, line: int, key: str, value: Any) -> CaptionRow:
        where = f"{self._source.name}:{line}: image '{key}'"
        # pandas' orient="index" has a row below each key.
        if isinstance(value, dict) and self._has_content(value):
            own_id = self._finder.find("image_id", value)
            row = value if own_id is not None else {**value, "image_id": key}
            return self._unpack(where, line, row)

        cells = self._only_caption({"image_id": key, self._content: value})
        return CaptionRow(where, line, cells, {}, is_member=True)
