"""Files that captau writes, read as columns of texts, and the rules by which `compare_results.py` compares them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import yaml


@dataclass(frozen=True)
class Column:
    """A column of a file.

    Attributes:
        kind: a `value` is equal to the last bit; a `printed` cell has the same numbers; `wording` is for people.
    """

    texts: list[str]
    kind: Literal["value", "printed", "wording"] = "value"


@dataclass(frozen=True)
class Rules:
    """Patterns of the files and columns that are skipped or for people.

    Attributes:
        skip: patterns of files and of columns, with the reason.
        wording: patterns of files and of columns.
    """

    skip: list[tuple[list[str], list[str], str]]
    wording: list[tuple[list[str], list[str]]]

    @classmethod
    def load(cls, path: Path) -> Rules:
        """Read the rules from the list of commands."""
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
        skip = [
            (r["files"].split("|"), r.get("columns", "").split("|"), r["reason"])
            for r in table["skip"]
        ]
        wording = [(r["files"].split("|"), r["columns"].split("|")) for r in table["wording"]]
        return cls(skip, wording)

    def reason_to_skip(self, file: str, column: str = "") -> str | None:
        """Return why a file, or a column of it, is not compared; None where it is."""
        return next((r for f, c, r in self.skip if fits(file, f) and fits(column, c)), None)

    def is_wording(self, file: str, column: str) -> bool:
        """Return whether a column of a file is for people."""
        return any(fits(file, f) and fits(column, c) for f, c in self.wording)


def fits(name: str, patterns: list[str]) -> bool:
    """Return whether a name fits one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def read_columns(path: Path) -> dict[str, Column]:
    """Return a file's columns by name, read as the file's ending says."""
    ending = path.name.removesuffix(".gz").rsplit(".", 1)[-1]
    if ending in ("parquet", "pq"):
        return read_parquet(path)
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ending not in READERS:
        return {"content": Column([hashlib.sha256(content).hexdigest()])}
    return READERS[ending](content.decode(encoding="utf-8"))


def read_parquet(path: Path) -> dict[str, Column]:
    """Return the columns of a Parquet file; `repr` keeps every bit of a number."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return {name: Column(list(map(repr, table[name].to_pylist()))) for name in table.column_names}


def read_csv(text: str) -> dict[str, Column]:
    """Return the columns of a CSV file; lines before the header are comments for people."""
    lines = text.splitlines(keepends=True)
    start = next((k for k, line in enumerate(lines) if not line.startswith("#")), len(lines))
    delimiter = "\t" if lines[start:] and "\t" in lines[start] else ","
    rows = list(csv.reader(lines[start:], delimiter=delimiter))
    header = rows[0] if rows else []
    columns = {"header": Column(header), "comment": Column(lines[:start], "wording")}
    for place, name in enumerate(header):
        columns[name] = Column([row[place] if place < len(row) else "" for row in rows[1:]])
    return columns


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested dictionaries and lists, each with its path."""
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from flatten(entry, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for place, entry in enumerate(value):
            yield from flatten(entry, f"{path}/{place}" if path else str(place))
    else:
        yield path, value if isinstance(value, str) else repr(value)


def read_json(text: str) -> dict[str, Column]:
    """Return a column for each leaf of a JSON file; some hold lines of JSON in spite of their ending."""
    try:
        return {path: Column([leaf]) for path, leaf in flatten(json.loads(text))}
    except json.JSONDecodeError:
        return read_json_lines(text)


def read_json_lines(text: str) -> dict[str, Column]:
    """Return a column for each path in the objects of JSON lines."""
    columns: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for path, leaf in flatten(json.loads(line)):
            columns.setdefault(path, []).append(f"{number}: {leaf}")
    return {path: Column(texts) for path, texts in columns.items()}


def read_yaml(text: str) -> dict[str, Column]:
    """Return a column for each leaf of a YAML file; comments are for people."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    leaves = {path: Column([leaf]) for path, leaf in flatten(yaml.safe_load(text))}
    return {**leaves, "comment": Column(comments, "wording")}


def make_table_columns(rows: list[list[str]], number: int) -> dict[str, Column]:
    """Return the columns of a printed table, whose header is for people."""
    columns = {f"table {number}, header": Column(rows[0], "wording")}
    for place, row in enumerate(rows[1:], 1):
        columns[f"table {number}, line {place}"] = Column(row, "printed")
    return columns


def read_text(text: str) -> dict[str, Column]:
    """Return the Markdown tables of a text as printed cells, and its other lines as wording."""
    columns: dict[str, Column] = {}
    lines, rows = [], list[list[str]]()
    number = 0
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            if not re.fullmatch(r"[|:\- ]+", line):
                rows.append([cell.strip() for cell in line.strip("| ").split("|")])
            continue
        if rows:
            number += 1
            columns |= make_table_columns(rows, number)
            rows = []
        if line.strip():
            lines.append(line)
    return {**columns, "line": Column(lines, "wording")}


def read_latex(text: str) -> dict[str, Column]:
    """Return the rows of LaTeX tables as printed cells, and its other lines as wording."""
    rows = [line for line in text.splitlines() if "&" in line]
    others = [line for line in text.splitlines() if "&" not in line]
    cells = [[cell.strip() for cell in row.split("&")] for row in rows]
    columns = make_table_columns(cells, 1) if cells else {}
    return {**columns, "line": Column(others, "wording")}


def read_bibtex(text: str) -> dict[str, Column]:
    """Return the keys of BibTeX entries as values, and all lines as wording."""
    keys = re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)
    return {"key": Column(keys), "line": Column(text.splitlines(), "wording")}


class Page(HTMLParser):
    """An HTML page's tables, embedded data and other texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.data: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a table, row or cell."""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "script":
            tag = "data" if ("type", "application/json") in attrs else "script"
        if tag in ("td", "th", "data", "script", "style", "svg"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close a cell, a script or a drawing."""
        if tag in ("td", "th", "script", "style", "svg") and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        """Put a text where it belongs; drawings are compared as the files of `captau plot`."""
        inside = self._open[-1] if self._open else ""
        if inside in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif inside == "data":
            self.data.append(data)
        elif not inside and data.strip():
            self.texts.append(data.strip())


def read_html(text: str) -> dict[str, Column]:
    """Return a page's tables as printed cells, the numbers in its embedded data as values, texts as wording."""
    page = Page(text)
    columns: dict[str, Column] = {"text": Column(page.texts, "wording")}
    for number, rows in enumerate(page.tables, 1):
        columns |= make_table_columns(rows, number) if rows else {}
    # The names of keys are the page's own business.
    leaves = [leaf for data in page.data for _, leaf in flatten(json.loads(data))]
    numbers = [leaf for leaf in leaves if re.fullmatch(r"-?[\d.]+(e-?\d+)?", leaf)]
    return {**columns, "data": Column(numbers), "data texts": Column([*leaves], "wording")}


def read_svg(text: str) -> dict[str, Column]:
    """Return a drawing's texts, and its lines and places, which move with the width of texts."""
    root = ElementTree.fromstring(text)
    texts = [(element.text or "") for element in root.iter() if element.tag.endswith("}text")]
    shapes = [
        f"{element.tag.rsplit('}', 1)[1]} {name}={' '.join(value.split())}"
        for element in root.iter()
        for name, value in sorted(element.attrib.items())
        if name in ("d", "x", "y", "transform", "points", "width", "height")
    ]
    return {"text": Column(texts, "printed"), "shape": Column(shapes)}


def read_xml(text: str) -> dict[str, Column]:
    """Return the attributes of XML elements as values, and their texts as wording."""
    elements = list(ElementTree.fromstring(text).iter())
    columns: dict[str, list[str]] = {}
    for element in elements:
        for name, value in element.attrib.items():
            columns.setdefault(f"{element.tag}/{name}", []).append(value)
    texts = [element.text or "" for element in elements]
    return {name: Column(c) for name, c in columns.items()} | {"text": Column(texts, "wording")}


READERS: dict[str, Callable[[str], dict[str, Column]]] = {
    "bib": read_bibtex,
    "csv": read_csv,
    "html": read_html,
    "json": read_json,
    "jsonl": read_json_lines,
    "latex": read_latex,
    "markdown": read_text,
    "md": read_text,
    "svg": read_svg,
    "tex": read_latex,
    "tsv": read_csv,
    "txt": read_text,
    "xml": read_xml,
    "yaml": read_yaml,
}
