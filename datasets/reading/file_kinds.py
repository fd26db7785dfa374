"""The kind of a file, told from its first bytes: JSON, a table and its delimiter, Parquet, Arrow, Excel, or nothing that captau reads.

The ending of a file's name counts only where the bytes leave a choice, as between commas and tabs.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Literal

from ..errors import InputError
from .packed_files import find_packing, unpacked, without_packing
from .source_files import refuse_device

#: What `find_kind` tells apart; a table of text is called by what stands between its cells.
FileKind = Literal[
    "json", "comma", "tab", "semicolon", "pipe", "token", "parquet", "arrow", "xlsx", "folder"
]

#: How many bytes tell what a file is.
_HEAD = 1 << 16
_ZIP = b"PK\x03\x04"
_PARQUET = b"PAR1"
#: The beginnings of Arrow's files, which are Feather's as well, and of its streams, as Hugging Face keeps data sets.
_ARROW = (b"ARROW1\0\0", b"\xff\xff\xff\xff")
#: Files that are not read, by their first bytes: what they are, and what to do.
_FOREIGN = (
    (b"\x80\x02", "a pickle, which could run code and is not read", "write the data as JSON"),
    (b"\x80\x03", "a pickle, which could run code and is not read", "write the data as JSON"),
    (b"\x80\x04", "a pickle, which could run code and is not read", "write the data as JSON"),
    (b"\x80\x05", "a pickle, which could run code and is not read", "write the data as JSON"),
    (_ZIP, "a zip archive", "unpack it, and name the file in it"),
    (b"\x89PNG", "a PNG image, not a text", "name the file of captions"),
    (b"\xff\xd8\xff", "a JPEG image, not a text", "name the file of captions"),
    (b"GIF8", "a GIF image, not a text", "name the file of captions"),
    (
        b"\xd0\xcf\x11\xe0",
        "an Excel file of the old kind (.xls) or with a password",
        "save it as .xlsx or CSV",
    ),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it, and name the file in it"),
    (b"Rar!", "a rar archive", "unpack it, and name the file in it"),
    (b"\x89HDF", "an HDF5 file", "write the data as JSON or Parquet"),
    (b"\x93NUMPY", "a file of NumPy", "write the data as JSON or Parquet"),
    (b"FEA1", "a Feather file of the first version", "write it as Parquet"),
    (b"SQLite format 3", "an SQLite database", "write the table as CSV or JSON"),
    (b"%PDF", "a PDF", "write the data as CSV or JSON"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file", "fetch it by git lfs pull"),
    (b"<!DOCTYPE", "a web page", "download the file itself"),
    (b"<!doctype", "a web page", "download the file itself"),
    (b"<html", "a web page", "download the file itself"),
    (b"<HTML", "a web page", "download the file itself"),
    (b"<table", "a table of HTML", "write the data as CSV or JSON"),
    (b"<?xml", "an XML file", "write the data as CSV or JSON"),
    (b"{\\rtf", "a document of rich text", "save it as plain text"),
    (b"MATLAB 5.0", "a file of MATLAB", "write the data as CSV or JSON"),
)
#: The beginning of JSON that is a list or an object, or of what Python prints of one, whose reader tells it.
_JSON = re.compile(rb"""\[\s*(?:[\[{"'\]\-0-9tfnNTF]|\Z)|\{\s*(?:["'}]|\Z)""")
#: A line of Flickr8k's and Flickr30k's tokens: a file name, the number of the caption, a tab, and the caption.
TOKEN_LINE = re.compile(r"(?P<image>[^\t]*)#(?P<number>\d+)\t(?P<caption>.*)")
_TEXT_ENDINGS = {".csv": "comma", ".tsv": "tab"}
_JSON_ENDINGS = (".json", ".jsonl", ".ndjson", "")
DELIMITERS: dict[FileKind, bytes] = {"comma": b",", "tab": b"\t", "semicolon": b";", "pipe": b"|"}
#: The line in which Excel names the delimiter of the others.
SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n?', re.IGNORECASE)
#: The beginnings of pickles of the first two protocols, which have no mark.
_OLD_PICKLE = re.compile(
    rb"[(]?[\]}(]q\0|[(]?[ld]p\d+\r?\n|c(?:copy_?reg|__builtin__|builtins|collections|pandas|numpy)[\w.]*\n"
)
#: What the archives hold by which other programs' files are told.
_ZIPPED = (
    (
        re.compile(r".*\.npy"),
        "a file of NumPy's arrays (.npz)",
        "write the data as JSON or Parquet",
    ),
    (
        re.compile(r"(?:.*/)?data\.pkl"),
        "a file of PyTorch, which could run code and is not read",
        "write the data as JSON",
    ),
    (re.compile(r"content\.xml"), "a table of LibreOffice (.ods)", "save it as .xlsx or CSV"),
    (re.compile(r"word/.*"), "a document of Word", "save the table as .xlsx or CSV"),
)


def describe_foreign(head: bytes) -> str:
    """Say what a file that begins so is, and what to do; empty where it may be text."""
    for first, name, remedy in _FOREIGN:
        if head.startswith(first):
            article = "" if name.startswith("not ") else "it is "
            return f"{article}{name}; {remedy}"

    if _OLD_PICKLE.match(head):
        return "it is a pickle, which could run code and is not read; write the data as JSON"
    if head[257:262] == b"ustar":
        return "it is a tar archive; unpack it, and name the file in it"
    # A text may begin so too, and has no NUL bytes.
    if head.startswith(b"ORC") and b"\0" in head:
        return "it is an ORC file; write it as Parquet"
    return ""


def find_kind(path: Path) -> FileKind:
    """Return what a file is; a packed one is unpacked.

    Raises:
        InputError: where it cannot be read, or is of a kind that captau does not read.
    """
    if path.is_dir():
        return "folder"

    refuse_device(path)
    try:
        with path.open("rb") as packed, unpacked(packed, str(path)) as stream:
            head = stream.read(_HEAD)
            packed.seek(0)
            first = packed.read(len(_ZIP) + 2)
            is_packed = first[:4] != head[:4] or find_packing(first) is not None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    ending = Path(without_packing(path.name.lower())).suffix
    if head.startswith(_PARQUET) and is_packed:
        raise InputError(f"{path}: it is a Parquet file that is packed once more; unpack it")
    if is_packed and (packing := find_packing(head)) is not None:
        raise InputError(f"{path}: it is packed twice, in it is a {packing} file; unpack it once")
    # A file that was cut at its beginning is told by its name.
    is_text = bool(head) and b"\0" not in head and not head.startswith(b"PK")
    if head.startswith(_PARQUET) or (ending in (".parquet", ".pq") and not head):
        return "parquet"
    if head.startswith(_ARROW):
        if is_packed:
            raise InputError(f"{path}: it is an Arrow file that is packed; unpack it")
        return "arrow"
    names = _list_zip(path) if head.startswith(_ZIP) else []
    if any(name.startswith("xl/") for name in names) or (ending == ".xlsx" and not is_text):
        return "xlsx"
    foreign = describe_foreign(head.lstrip()) or describe_foreign(head)
    for pattern, kind, remedy in _ZIPPED:
        if any(map(pattern.fullmatch, names)):
            foreign = f"it is {kind}; {remedy}"
    if foreign:
        raise InputError(f"{path}: {foreign}")
    if ending in (".parquet", ".pq") and not is_text:
        return "parquet"

    return _find_text_kind(_skip_comments(head.lstrip(b"\xef\xbb\xbf\r\n \t")), ending)


def _list_zip(path: Path) -> list[str]:
    """Return the names of the files in a zip archive; none where it is damaged, or packed itself."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return []


def _skip_comments(text: bytes) -> bytes:
    """Return text without the lines with `#` at its beginning, which stand above tables."""
    rest = text
    while rest.startswith(b"#"):
        _, end, rest_of_lines = rest.partition(b"\n")
        if not end:
            return text
        # Its names may have the sign before them.
        if rest_of_lines.startswith(b"#") or not any(d in rest for d in DELIMITERS.values()):
            rest = rest_of_lines
            continue
        return rest_of_lines
    return rest


def _find_text_kind(text: bytes, ending: str) -> FileKind:
    """Return what text is, by its beginning, and by the ending where that leaves a choice."""
    usual = _TEXT_ENDINGS.get(ending)
    if _JSON.match(text):
        return "json"

    first_line, _, other_lines = text.partition(b"\n")
    named = SEPARATOR_LINE.fullmatch(first_line)
    if named is not None:
        for kind, delimiter in DELIMITERS.items():
            if delimiter == named[1]:
                return kind
        return _find_text_kind(other_lines, ending)
    if TOKEN_LINE.fullmatch(first_line.decode("utf-8", "replace").rstrip("\r")):
        return "token"

    order: list[FileKind] = ["comma", "tab", "semicolon", "pipe"]
    if usual == "tab":
        order = ["tab", "comma", "semicolon", "pipe"]
    for kind in order:
        if DELIMITERS[kind] in first_line and (usual or _is_header(first_line, kind, ending)):
            return kind

    # One column has no delimiter.
    if usual == "tab":
        return "tab"
    return "comma" if usual else "json"


def _is_header(line: bytes, kind: FileKind, ending: str) -> bool:
    """Tell whether a line may name columns: of a file whose ending says JSON, each name has to be a word."""
    if ending not in _JSON_ENDINGS:
        return True

    names = line.rstrip(b"\r").split(DELIMITERS[kind])
    return all(re.fullmatch(rb'"?[A-Za-z_][\w.\- ]*"?', name.strip()) for name in names)
