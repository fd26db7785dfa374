"""The rows of tables as texts: CSV, TSV, cells between bars, Flickr's tokens and sheets of Excel, the names of columns first."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from ..errors import InputError
from .file_kinds import DELIMITERS, SEPARATOR_LINE, TOKEN_LINE, FileKind
from .json_files import read_text

#: A row of a table: its line, and its cells.
Row = tuple[int, list[str]]

#: A cell in quotes with quotes in it, as programs write it that quote cells which need it.
_QUOTED_CELL = re.compile(r'"((?:[^"]|"")*""(?:[^"]|"")*)"')
#: A cell of the line below the names of columns in a table of Markdown.
_RULE = re.compile(r"\s*:?-+:?\s*")


def read_rows(path: Path, kind: FileKind) -> Iterator[Row]:
    """Yield the rows of a table of text.

    Lines with `#` above the names of columns are comments, and so is `sep=;`, which Excel writes.

    Args:
        path: the file.
        kind: what it is, no JSON, Parquet or Excel.

    Raises:
        InputError: where it cannot be read, or a row is malformed.
    """
    if kind == "token":
        return _token(path)

    text = read_text(path)
    n_lines = _count_lines_before_names(text)
    if n_lines:
        # The rows keep the numbers of their lines.
        text = "\n" * n_lines + "".join(text.splitlines(keepends=True)[n_lines:])
    if kind == "tab":
        return _tsv(path, text)

    rows = _csv(path, text, DELIMITERS[kind].decode())
    return _trim(rows) if kind == "pipe" else rows


def _count_lines_before_names(text: str) -> int:
    """Return how many lines at the beginning are comments, or name the delimiter."""
    n_lines = 0
    lines = text.splitlines() if text.startswith(("#", "sep=", '"sep=', "\ufeff")) else []
    for line in lines:
        stripped = line.lstrip("\ufeff")
        is_comment = stripped.startswith("#") and not _has_names(stripped)
        if not is_comment and SEPARATOR_LINE.fullmatch(stripped.encode()) is None:
            break
        n_lines += 1

    # A file of comments alone has no names.
    return n_lines if n_lines < len(lines) else 0


def _has_names(line: str) -> bool:
    """Tell whether a line with `#` names columns, as in `#image_id,caption`."""
    names = re.split(r"[,\t;|]", line.lstrip("#").strip())
    are_names = all(re.fullmatch(r'\s*"?\w+"?\s*', name) for name in names)
    return len(names) > 1 and are_names


def _csv(path: Path, text: str, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            # A row of cells with line ends takes several lines, and is named by its first.
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}:{line}: not valid CSV ({error}); a quote is not closed, or the file is truncated; quotes within a "
            "cell are doubled"
        ) from error


def _trim(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows without the blanks around cells, which stand beside `|`, and without the frame of a Markdown table."""
    has_frame = False
    for number, (line, cells) in enumerate(rows):
        trimmed = [cell.strip() for cell in cells]
        if number == 0:
            has_frame = len(cells) > 2 and not trimmed[0] and not trimmed[-1]
        if has_frame:
            trimmed = trimmed[1:-1]
        if number == 1 and all(map(_RULE.fullmatch, trimmed)):
            continue
        yield line, trimmed


def _tsv(path: Path, text: str) -> Iterator[Row]:
    """Tab-separated values without quoting: a quote in a caption is a quote. Where every name of a column is in quotes,
    as VLMEvalKit writes them, all cells are. A cell of doubled quotes within quotes is one that pandas wrote.
    """
    text = text.replace("\r\n", "\n")
    if "\n" not in text:
        text = text.replace("\r", "\n")
    lines = text.split("\n")
    head = next((line for line in lines if line), "")
    if all(re.fullmatch('".*"', name) for name in head.split("\t")):
        yield from _csv(path, text, "\t")
        return

    for line, row in enumerate(lines, start=1):
        if row:
            yield line, [_unquote(cell) for cell in row.split("\t")]


def _unquote(cell: str) -> str:
    match = _QUOTED_CELL.fullmatch(cell) if cell.startswith('"') else None
    return cell if match is None else match[1].replace('""', '"')


def _token(path: Path) -> Iterator[Row]:
    """Yield the lines of Flickr8k's and Flickr30k's tokens as rows of an image and a caption."""
    yield 0, ["image_id", "caption"]
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        match = TOKEN_LINE.fullmatch(text.rstrip("\r"))
        if match is None:
            raise InputError(
                f"{path}:{line}: not NAME#NUMBER, a tab and a caption, as the lines before"
            )
        yield line, [match["image"], match["caption"]]


def read_sheet(path: Path) -> tuple[list[Row], str]:
    """Return the rows of an Excel file's first visible sheet that has some, cells as texts, and a note on other sheets.

    Raises:
        InputError: where it cannot be read, or openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook  # pyright: ignore[reportMissingModuleSource]
    except ImportError as error:
        raise InputError(
            f"{path}: Excel files need openpyxl: pip install openpyxl, or save the file as CSV"
        ) from error

    try:
        # openpyxl refuses the names of files that do not end in .xlsx.
        with path.open("rb") as stream:
            # Of a formula the value counts that was computed last.
            workbook = load_workbook(stream, read_only=True, data_only=True)
            sheets: dict[str, list[Row]] = {}
            hidden: set[str] = set()
            for sheet in workbook.worksheets:
                sheets[sheet.title] = _rows_of(sheet)
                if sheet.sheet_state != "visible":
                    hidden.add(sheet.title)
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise InputError(f"{path}: not a complete Excel file ({error}); get a new copy") from error

    filled = [title for title, rows in sheets.items() if rows]
    if not filled:
        return [], ""

    # Where all sheets with rows are hidden, the first of them is read.
    visible = [title for title in filled if title not in hidden]
    read = visible[0] if visible else filled[0]
    unread: list[str] = []
    for title in filled:
        if title != read:
            unread.append(f"'{title}' (hidden)" if title in hidden else f"'{title}'")
    note = f"Of {path.name}, the sheet '{read}' is read, and not {', '.join(unread)}."
    return sheets[read], note if unread else ""


def _rows_of(sheet: Any) -> list[Row]:
    rows: list[Row] = []
    for line, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        texts = ["" if cell is None else str(cell) for cell in cells]
        is_blank = cells.count(None) == len(cells)
        if not is_blank:
            rows.append((line, texts))
    return rows
