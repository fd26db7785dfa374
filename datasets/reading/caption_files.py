"""A user's captions and references, in each of the forms that they may have, among them the outputs of lmms-eval and VLMEvalKit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..caption_texts import replace_surrogates
from ..errors import InputError
from .caption_checks import Finding, PlacedText, check_captions, check_references
from .cells import parse_references
from .json_files import JsonSource, field
from .packed_files import without_packing
from .table import USUAL_COLUMNS, Columns, read_table


@dataclass(frozen=True)
class CaptionFileForm:
    """Name of a list's entries, and the description of a file in any accepted form."""

    entry: str
    description: str


RESULTS = CaptionFileForm(
    "entry", "COCO results, an object image id → caption, JSON lines or a table"
)
ANNOTATIONS = CaptionFileForm(
    "annotation",
    "COCO annotations, an object image id → captions, a list or JSON lines of objects with image_id and references, "
    "or a table",
)

#: The endings of tables; files of other endings are JSON.
_TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".pq", ".xlsx")
#: What VLMEvalKit calls image, caption and references in its tables.
_VLMEVALKIT = ("index", "prediction", "answer")
#: Among so many members of an object stand `image_id` and `caption`, where it is a line of JSON lines.
_ROW = 16


@dataclass(frozen=True)
class CandidateFile:
    """One caption an image, and the line of each, for messages."""

    source: JsonSource
    captions: dict[str, str]
    lines: dict[str, int]

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
    """The references of each image, and the line of the first of each, for messages."""

    source: JsonSource
    texts: dict[str, tuple[str, ...]]
    lines: dict[str, int] = dataclasses.field(default_factory=dict[str, int])

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
    path: Path, content: bytes | None = None, columns: Columns = USUAL_COLUMNS
) -> dict[str, CandidateFile]:
    """Read COCO results, an object image id → caption, or JSON lines or a table with `image_id` and `caption`.

    Args:
        path: the file.
        content: what to read instead, no table; the path is then its name.
        columns: the names of the columns, or the keys of objects.

    Returns:
        The captions by system, of the column `system` of a table or that key of JSON's rows; without it, the one key
        is empty.

    Raises:
        InputError: where it is none of them, some rows name a system and others do not, or a system has two captions
            of one image.
    """
    source = JsonSource(path, content)
    unit = "row" if path.suffix.lower() in (".parquet", ".pq") else "line"
    systems: dict[str, CandidateFile] = {}
    for kind, where, line, row in _rows(source, "caption", RESULTS, columns):
        image_id = image_key(row, where)
        caption = replace_surrogates(field(row, "caption", str, where))
        system = "" if kind == "member" else _find_system(row, where)
        candidates = systems.setdefault(system, CandidateFile(source, {}, {}))
        if image_id in candidates.captions:
            raise InputError(
                f"{where}: a second caption for image '{image_id}', whose first is on {unit} "
                f"{candidates.lines[image_id]}; keep one per image"
            )
        candidates.captions[image_id] = caption
        candidates.lines[image_id] = line

    if not systems:
        raise InputError(f"{source.name}: it contains no captions")
    if "" in systems and len(systems) > 1:
        nameless = systems[""]
        raise InputError(
            f"{nameless.locate(next(iter(nameless.captions)))} names no system, and others do; name it in 'system', "
            f"or leave 'system' out of all"
        )
    return systems


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
    path: Path, content: bytes | None = None, columns: Columns = USUAL_COLUMNS
) -> ReferenceFile:
    """Read COCO caption annotations, an object image id → captions, or objects or a table with `references`.

    A table may have a column `caption` instead, with a row for each reference. An image may come several times if its
    references are the same, as in the items of a `CaptionSet`.

    Args:
        path: the file.
        content: what to read instead, no table; the path is then its name.
        columns: as of `read_systems`.

    Raises:
        InputError: where it is none of them, or an image comes with two lists of references.
    """
    source = JsonSource(path, content)
    annotated: dict[str, list[str]] = {}
    references: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    for kind, where, line, row in _rows(source, "references", ANNOTATIONS, columns):
        image_id = image_key(row, where)
        lines.setdefault(image_id, line)
        if kind == "annotation" or (kind == "cells" and "caption" in row):
            caption = field(row, "caption", str, where)
            annotated.setdefault(image_id, []).extend(parse_references([caption], where, "caption"))
        else:
            # A text as an object's member would be the caption of a file of candidates.
            kinds = list if kind == "member" else (list, str)
            texts = parse_references(field(row, "references", kinds, where), where)
            if references.setdefault(image_id, texts) != texts:
                raise InputError(
                    f"{where}: image '{image_id}' has other references in an earlier row; keep one list"
                )

    for image_id, captions in annotated.items():
        references[image_id] = tuple(captions)
    if not references:
        raise InputError(f"{source.name}: it contains no references")
    return ReferenceFile(source, references, lines)


def image_key(row: Any, where: str) -> str:
    """Return an image id as text; COCO's numbers and file names are both legal."""
    # COCO's are numbers, and there are millions of them.
    if type(row) is dict:
        number = row.get("image_id")
        if type(number) is int:
            return str(number)
    return replace_surrogates(str(field(row, "image_id", (str, int), where)))


def _rows(
    source: JsonSource, content_field: str, form: CaptionFileForm, columns: Columns
) -> Iterator[tuple[str, str, int, Any]]:
    """Yield kind, place, line and row of each entry; a row is an object with `image_id` and the given field.

    Raises:
        InputError: where the file is of another form.
    """
    ending = Path(without_packing(source.path.name.lower())).suffix
    if source.is_file and ending in _TABLE_ENDINGS:
        yield from _table_rows(source.path, ending, content_field, columns)
        return

    pieces = source.read()
    head = list(islice(pieces, _ROW))
    members: dict[str, Any] = {}
    for kind, _, value in head:
        if kind == "member":
            members[value[0]] = value[1]
    row = _find_sample(members)
    if {"image_id", content_field} <= row.keys():  # JSON lines of one line
        yield "line", source.name, head[0][1], row
        return

    members_later: list[tuple[int, Any]] = []
    annotated = False
    number = 0
    for kind, line, value in chain(head, pieces):
        is_row = kind == "entry" and type(value) is dict
        if kind == form.entry or (is_row and (content_field in value or columns != USUAL_COLUMNS)):
            where = f"{source.name}:{line}: {kind} {number}"
            row = _unpack(value, content_field, columns, where) if is_row else value
            yield kind, where, line, row
            number += 1
        elif kind == "line":
            where = f"{source.name}:{line}"
            yield kind, where, line, _unpack(value, content_field, columns, where)
        elif kind == "annotations" and form.entry == "annotation":
            annotated = True
        elif kind == "member" and form.entry == "entry":
            yield kind, *_member(source, line, value, content_field)
        elif kind == "member":  # an image's, or what stands beside COCO's annotations
            members_later.append((line, value))
        else:
            raise InputError(f"{source.name}: {form.description} are expected")

    # Beside annotations, members are what COCO says of the whole file.
    if not annotated:
        for line, value in members_later:
            yield "member", *_member(source, line, value, content_field)


def _table_rows(
    path: Path, ending: str, content_field: str, columns: Columns
) -> Iterator[tuple[str, str, int, Any]]:
    """Yield the rows of a CSV, TSV or Parquet file as `_rows` does, of the kind `cells`.

    Raises:
        InputError: where it is malformed, or has no column of images or texts.
    """
    table = read_table(path, ending)
    hint = (
        f"; image_id and {content_field} are expected, or others that columns.image_id= and "
        f"columns.{content_field}= name"
    )
    names: dict[str, str] = {}
    for usual, name in vars(columns).items():
        has_usual_alone = usual in table and name not in table
        names[usual] = usual if has_usual_alone else name

    has_usual_names = columns != USUAL_COLUMNS or "image_id" in table
    if not has_usual_names and all(name in table for name in _VLMEVALKIT):
        names = dict(zip(names, _VLMEVALKIT, strict=True))

    texts: dict[str, list[Any]] = {"image_id": table.filled(names["image_id"], hint)}
    if content_field == "references" and names["references"] in table:
        texts["references"] = [list(row) for row in table.references(names["references"])]
    else:
        # An empty cell is an empty text in every kind of table.
        texts["caption"] = table.texts(names["caption"], hint, empty="")
    if content_field == "caption" and "system" in table:
        texts["system"] = table.filled("system")

    for row, where in enumerate(table.places):
        cells = {name: column[row] for name, column in texts.items()}
        line = int(re.split("[: ]", where)[-1])
        yield "cells", where, line, cells


def _unpack(
    row: dict[str, Any], content_field: str, columns: Columns, where: str
) -> dict[str, Any]:
    """Return an object with `image_id` and the given field, from the keys that the user names or a line of lmms-eval's samples.

    Raises:
        InputError: where the object has neither a key that the user names nor the usual one.
    """
    if columns != USUAL_COLUMNS:
        named: dict[str, Any] = {}
        for name in ("image_id", content_field):
            named[name] = _look_up(row, getattr(columns, name), name, where)
        if "system" in row:
            named["system"] = row["system"]
        return named

    row = _find_sample(row)
    for name in ("image_id", content_field):
        if name not in row:
            raise InputError(f"{where}: '{name}' is missing; columns.{name}=KEY names another key")

    return row


def _find_sample(row: dict[str, Any]) -> dict[str, Any]:
    """Return the sample in a line of lmms-eval's; other objects stay.

    These lines have an object with `image_id`, `pred` and `answer` below each metric, such as `coco_CIDEr`.
    """
    if "image_id" in row or "filtered_resps" not in row:
        return row

    for nested in row.values():
        if isinstance(nested, dict) and {"image_id", "pred"} <= nested.keys():
            sample = {"image_id": nested["image_id"], "caption": _only(nested["pred"])}
            if "answer" in nested:
                sample["references"] = nested["answer"]
            return sample

    return row


def _look_up(row: dict[str, Any], key: str, usual: str, where: str) -> Any:
    """Return what stands under `a.b.c` in nested objects, else under the usual key; a list of one object is that object.

    Raises:
        InputError: where there is neither.
    """
    value: Any = row
    # A key may have a dot in it, and then stands for itself.
    parts = [key] if key in row else key.split(".")
    for part in parts:
        value = _only(value)
        if not isinstance(value, dict) or part not in value:
            if usual in row:
                return row[usual]
            keys = ", ".join(value) if isinstance(value, dict) else "nothing, as it is no object"
            raise InputError(
                f"{where}: columns.{usual}={key}: '{part}' is not there; what is there: {keys}"
            )
        value = value[part]

    # A list of one reference stays a list.
    return value if usual == "references" else _only(value)


def _only(value: Any) -> Any:
    """Return the element of a list of one, however deep; other values stay."""
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value


def _member(source: JsonSource, line: int, member: Any, content_field: str) -> tuple[str, int, Any]:
    """Return place, line and row of an object's member: an image id and its value."""
    key, value = member
    return f"{source.name}:{line}: image '{key}'", line, {"image_id": key, content_field: value}
