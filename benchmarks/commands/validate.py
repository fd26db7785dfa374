"""`captau validate FILE`: everything that is wrong with a submission, found offline.

A submission is a system's captions (COCO results, Chen et al. 2015, section 5: JSON, in a zip or not; JSON
lines) or a metric's scores. Its names and texts come from strangers: nothing is unpacked to disk, no name in
an archive is used as a path, and no more than `MOST_BYTES` are ever unpacked.
"""

from __future__ import annotations

import io
import json
import math
import re
import reprlib
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ...datasets.errors import InputError
from ...datasets.reading.table import Table, read_table
from ...datasets.registry import load
from ...metrics.text.tokens.ptb import tokenize
from ..options.validate import ValidateOptions
from ..scoring.caption_files import read_references

if TYPE_CHECKING:
    import pandas as pd

#: A submission of 40,000 captions has some 4 MB; what is larger, packed or not, is turned away unread.
MOST_BYTES = 64 << 20
#: Likewise of a Parquet file, whose rows may be packed into nothing.
MOST_ROWS = 5_000_000
#: An archive holds results on one set or two (the paper asks for both), and what computers add to it.
MOST_MEMBERS = 20
#: The names that the COCO server took: captions_test2014_ALG_results.json.
CONVENTION = re.compile(r"captions_([a-z]+[0-9]*)_([A-Za-z0-9][\w.+-]*)_results\.json", re.ASCII)
_ADDED = re.compile(r"__MACOSX/.*|\.DS_Store|\._.*")
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")
_PACKED = (*_ZIPS, b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!")


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _QUOTED = 80


def _shown(value: Any) -> str:
    """A stranger's value in a message: in a line, and not at length."""
    text = _SHORT.repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


@dataclass
class Faults:
    """What is wrong: a line each, the first `limit` of them, and how many in all."""

    limit: int
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, line: str) -> None:
        self.count += 1
        if self.count <= self.limit:
            self.lines.append(line)


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        faults: a line each, as many as the limit allows; empty where the file is valid.
        n_faults: how many there are in all.
        summary: the closing line.
    """

    faults: list[str]
    n_faults: int
    summary: str


def validate(config: ValidateOptions) -> Verdict:
    """Check a submission.

    Raises:
        InputError: where there is no such file, the references or the dataset to check it against
            cannot be read, or the options do not fit it. What is wrong with the submission itself is in
            the verdict.
    """
    path = config.file
    try:
        regular = path.is_file()
        size = path.stat().st_size if regular else 0
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    if not regular:
        raise InputError(f"{path}: no such file")
    faults = Faults(config.limit)
    if size > MOST_BYTES:
        faults.add(f"{path}: {size:,} bytes; {MOST_BYTES:,} at most are read")
        found = "nothing read"
    elif config.of_scores:
        found = _scores(config, faults)
    else:
        found = _captions(config, faults)
    if not faults.count:
        return Verdict([], 0, f"{path}: valid: {found}")
    word = "fault" if faults.count == 1 else "faults"
    rest = f", the first {config.limit:,} listed" if faults.count > config.limit else ""
    return Verdict(
        faults.lines, faults.count, f"{path}: not valid: {faults.count:,} {word}{rest}; {found}"
    )


def _captions(config: ValidateOptions, faults: Faults) -> str:
    """Check captions; returns what was found."""
    wanted = None if config.references is None else list(read_references(config.references).texts)
    try:
        data = config.file.read_bytes()
    except OSError as error:
        raise InputError(f"{config.file}: cannot be read ({error.strerror})") from error
    texts = results_in(config.file, data, faults)
    if config.member is not None:
        if not _zipped(config.file, data):
            raise InputError(f"member={config.member} is of a zip, and {config.file} is none")
        texts = {name: texts[name] for name in texts if name == config.member}
        if not texts and not faults.count:
            raise InputError(f"{config.file}: member={config.member} is not in it")
    if wanted is not None and len(texts) > 1:
        raise InputError(
            f"{config.file}: results on {len(texts)} sets; member=NAME says which the references are of"
        )
    counts = [
        check_captions(content, config.file, name, wanted, faults)
        for name, content in texts.items()
    ]
    return " and ".join(f"{n:,} captions" for n in counts) or "no captions"


def _zipped(path: Path, data: bytes) -> bool:
    return data[:4] in _ZIPS or path.suffix.lower() == ".zip"


def results_in(path: Path, data: bytes, faults: Faults) -> dict[str, bytes]:
    """The results in a file: by their names in a zip, or under "" where it is none.

    Args:
        path: how the file is called.
        data: what is in it.
        faults: where to tell what is wrong with a zip.
    """
    return dict(members(path, data, faults)) if _zipped(path, data) else {"": data}


def members(path: Path, data: bytes, faults: Faults) -> Iterator[tuple[str, bytes]]:
    """The results in an archive, by name; what is wrong with it goes to the faults.

    Args:
        path: how the archive is called.
        data: the archive.
        faults: where to tell.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            chosen = _chosen(path, archive.infolist(), faults)
            left = MOST_BYTES
            for info in chosen:
                with archive.open(info) as stream:
                    content = _at_most(stream, left)
                if content is None:
                    faults.add(
                        f"{path}: {info.filename}: more than {MOST_BYTES:,} bytes when unpacked"
                    )
                    return
                left -= len(content)
                if content.startswith(_PACKED):
                    faults.add(f"{path}: {info.filename}: an archive within the archive")
                    continue
                yield info.filename, content
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
        faults.add(f"{path}: no whole zip ({error or 'it ends too early'}); pack it anew")
    except (NotImplementedError, RuntimeError) as error:  # of passwords and rare methods
        faults.add(f"{path}: cannot be unpacked ({error}); pack it with the usual method")


def _at_most(stream: IO[bytes], limit: int) -> bytes | None:
    """What is in a stream; None where that is more than the limit, whatever its head says."""
    content = stream.read(limit + 1)
    return None if len(content) > limit else content


def _chosen(path: Path, infos: list[zipfile.ZipInfo], faults: Faults) -> list[zipfile.ZipInfo]:
    """The archive's results; odd members go to the faults."""
    if len(infos) > MOST_MEMBERS:
        faults.add(f"{path}: {len(infos):,} files in it; results on one set or two are expected")
        return []
    chosen: dict[str, zipfile.ZipInfo] = {}
    before = faults.count
    for info in infos:
        name = info.filename
        where = f"{path}: {_shown(name)}"
        if _ADDED.fullmatch(name):  # what a Mac puts beside the files
            continue
        if stat.S_ISLNK(info.external_attr >> 16):
            faults.add(f"{where}: a link; put the file itself in")
        elif info.is_dir() or re.search(r"[/\\]", info.orig_filename) or ":" in name:
            faults.add(f"{where}: a folder or a path; put the results at the top of the archive")
        elif not CONVENTION.fullmatch(name):
            faults.add(f"{where}: no name of results; call it captions_test2014_ALG_results.json")
        elif name in chosen:
            faults.add(f"{where}: stands twice in the archive; keep one")
        elif info.flag_bits & 0x1:
            faults.add(f"{where}: has a password; pack it without")
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            faults.add(f"{where}: packed by a rare method; pack it with the usual one")
        else:
            chosen[name] = info
    if not chosen and faults.count == before:
        faults.add(f"{path}: no results in it; put captions_test2014_ALG_results.json in")
    parts = [match.groups() for match in map(CONVENTION.fullmatch, chosen) if match]
    if len(chosen) > 2 or len({split for split, _ in parts}) < len(parts):
        faults.add(f"{path}: {len(chosen)} results; one a set, and two sets at most")
    elif len({who for _, who in parts}) > 1:
        faults.add(f"{path}: results of {' and of '.join(who for _, who in parts)}; one at a time")
    return list(chosen.values())[:2]


class _Twice(dict[str, Any]):
    """An object that has a key twice; JSON readers keep the last without a word."""

    key: str


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    seen: set[str] = set()
    twice = _Twice(row)
    twice.key = next(k for k, _ in pairs if k in seen or seen.add(k))
    return twice


def check_captions(
    data: bytes, path: Path, member: str, wanted: Collection[str] | None, faults: Faults
) -> int:
    """Check one file of captions: COCO results, an object image id → caption, or JSON lines.

    Args:
        data: the file.
        path: how it is called, or the archive that it is in.
        member: its name there; empty where there is no archive.
        wanted: the images that need a caption, and no others; None where that is not known.
        faults: where to tell.

    Returns:
        of how many images there is a caption.
    """
    name = f"{path}: {member}" if member else str(path)
    lines = name.lower().endswith((".jsonl", ".ndjson"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        faults.add(f"{name}:{line}: not UTF-8 text; save the file as UTF-8")
        return 0
    check = _Check(name, None if wanted is None else set(wanted), faults)
    if lines or _is_lines(text):
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                known, row = check.parsed(line, number)
                if known:
                    check.entry(f"{name}:{number}", row)
    else:
        known, table = check.parsed(text, 0)
        if not known:
            return 0
        check.table(table)
    if not check.first:
        faults.add(f"{name}: no captions in it")
    for image_id in wanted or ():
        if image_id not in check.first:
            faults.add(f"{name}: no caption of image {_shown(image_id)}")
    return len(check.first)


def _is_lines(text: str) -> bool:
    """Whether each line is an object of its own, as `captau score` tells."""
    # The first two lines that are not blank, without a copy of the rest; of a stranger's file each
    # character is looked at once.
    first: list[str] = []
    at = 0
    while at < len(text) and len(first) < 2:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if line := text[at:end].strip():
            first.append(line)
        at = end + 1
    return len(first) == 2 and all(s.startswith("{") and s.endswith("}") for s in first)


class _Check:
    """The images met so far, with the place of each."""

    def __init__(self, name: str, wanted: Collection[str] | None, faults: Faults) -> None:
        self.name, self.wanted, self.faults = name, wanted, faults
        self.first: dict[str, str] = {}

    def parsed(self, text: str, line: int) -> tuple[bool, Any]:
        """Whether this is JSON, and what it says."""
        try:
            return True, json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            place = f"{self.name}:{line or error.lineno}"
            self.faults.add(f"{place}: not valid JSON ({error.msg}, column {error.colno})")
        except RecursionError:
            self.faults.add(f"{self.name}: nested too deeply")
        except ValueError:  # of json's own, without a line: Python converts no longer ones
            place = f"{self.name}:{line}" if line else self.name
            self.faults.add(f"{place}: a number of thousands of digits")
        return False, None

    def table(self, table: Any) -> None:
        """A whole file."""
        if isinstance(table, list):
            for index, row in enumerate(table):
                self.entry(f"{self.name}: entry {index}", row)
        elif not isinstance(table, dict):
            kind = type(table).__name__
            self.faults.add(
                f'{self.name}: a list of {{"image_id", "caption"}} is expected, not {kind}'
            )
        elif {"image_id", "caption"} <= table.keys():  # JSON lines of one line
            self.entry(self.name, table)
        else:
            if isinstance(table, _Twice):
                self.faults.add(f"{self.name}: {_shown(table.key)} stands twice; keep one")
            for key, caption in table.items():
                self.caption(f"{self.name}: image {_shown(key)}", key, caption)

    def entry(self, where: str, row: Any) -> None:
        """An object with image id and caption."""
        if not isinstance(row, dict):
            self.faults.add(f"{where}: an object is expected, not {type(row).__name__}")
            return
        if isinstance(row, _Twice):
            self.faults.add(f"{where}: {_shown(row.key)} stands twice in one object; keep one")
        if absent := [key for key in ("image_id", "caption") if key not in row]:
            self.faults.add(f"{where}: {' and '.join(map(repr, absent))} missing")
        if "image_id" not in row:
            return
        image_id = row["image_id"]
        if not isinstance(image_id, str | int) or isinstance(image_id, bool):
            self.faults.add(
                f"{where}: 'image_id' is {_shown(image_id)}, not a whole number or a text"
            )
        elif "caption" in row:
            self.caption(where, str(image_id), row["caption"])

    def caption(self, where: str, image_id: str, caption: Any) -> None:
        """A caption, and whether its image may have one."""
        if image_id in self.first:
            self.faults.add(
                f"{where}: a second caption of image {_shown(image_id)}, whose first is at "
                f"{self.first[image_id]}; keep one"
            )
        elif self.wanted is not None and image_id not in self.wanted:
            self.faults.add(f"{where}: unknown image {_shown(image_id)}")
        self.first.setdefault(image_id, where.removeprefix(self.name).lstrip(": ") or "the start")
        if not isinstance(caption, str):
            self.faults.add(f"{where}: 'caption' is {_shown(caption)}, not a text")
        elif _broken(image_id) or _broken(caption):
            self.faults.add(f"{where}: half a character (a lone surrogate); write the text anew")
        elif not _says_something(caption):
            self.faults.add(f"{where}: the caption is empty, punctuation apart")


def _broken(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)


def _says_something(caption: str) -> bool:
    """Whether the caption has a token; one with a letter or a digit has."""
    return any(map(str.isalnum, caption)) or bool(next(iter(tokenize([caption]))))


def _scores(config: ValidateOptions, faults: Faults) -> str:
    """Check a metric's scores; returns what was found."""
    items = None if config.dataset is None else load(config.dataset, config.data_root).items
    _, found = check_scores(config.file, items, faults)
    return f"{found:,} scores" if found else "no scores"


def check_scores(path: Path, items: pd.DataFrame | None, faults: Faults) -> tuple[list[str], int]:
    """Check a file of scores.

    Args:
        path: the file; its ending says what it is.
        items: those that need a score each, and no others; None where that is not known.
        faults: where to tell.

    Returns:
        the metrics that it names, and how many scores are in it.
    """
    try:
        table = _table(path)
    except InputError as error:
        faults.add(str(error))
        return [], 0
    keys = ["item_id"] if "item_id" in table else ["image_id", "caption"]
    if absent := [name for name in (*keys, "score") if name not in table]:
        faults.add(
            f"{path}: no column {absent[0]}; a score file has score and either item_id or image_id and "
            f"caption"
        )
        return [], 0
    wanted: dict[tuple[str, ...], None] | None = None
    if items is not None:
        wanted = dict.fromkeys(zip(*(items[k].astype(str) for k in keys), strict=True))
    named = list(dict.fromkeys(map(str, table.column("metric")))) if "metric" in table else []
    return named, _rows(table, keys, wanted, faults)


def _table(path: Path) -> Table:
    """The file's rows.

    Raises:
        InputError: where it cannot be read, or has too many.
    """
    if path.suffix.lower() == ".parquet":
        import pyarrow
        from pyarrow import parquet

        try:
            rows = parquet.ParquetFile(path).metadata.num_rows
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: not valid Parquet ({error})") from error
        if rows > MOST_ROWS:
            raise InputError(f"{path}: {rows:,} rows; {MOST_ROWS:,} at most are read")
    return read_table(path)


def _rows(
    table: Table, keys: list[str], wanted: Collection[tuple[str, ...]] | None, faults: Faults
) -> int:
    """Check each row: its item, and that the score is a finite number; returns how many items."""
    metrics = map(str, table.column("metric")) if "metric" in table else [""] * len(table)
    columns = zip(*(map(str, table.column(k)) for k in keys), strict=True)
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    for place, metric, key, score in zip(
        table.places, metrics, columns, table.column("score"), strict=True
    ):
        called = " ".join(
            filter(None, [*map(_shown, key), metric and f"of metric {_shown(metric)}"])
        )
        if (metric, key) in first:
            faults.add(
                f"{place}: a second score of {called}, whose first is at {first[metric, key]}"
            )
        elif wanted is not None and key not in wanted:
            faults.add(f"{place}: unknown item {called}")
        first.setdefault((metric, key), place)
        if not _is_number(score):
            faults.add(f"{place}: the score of {called} is {_shown(score)}, not a finite number")
    if not first:
        faults.add(f"{table.path}: no scores in it")
    for metric in dict.fromkeys(m for m, _ in first):
        for key in wanted or ():
            if (metric, key) not in first:
                of = f" of metric {_shown(metric)}" if metric else ""
                faults.add(f"{table.path}: no score of {' '.join(map(_shown, key))}{of}")
    return len(first)


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
