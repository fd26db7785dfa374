"""Folders that hold one table in parts: what Hugging Face's `save_to_disk` writes, and Parquet or Arrow files of a data set on its Hub."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, shorten

_ENDINGS = (".arrow", ".parquet", ".pq")
#: Files that `save_to_disk` writes beside the data.
_SAVED = ("state.json", "dataset_dict.json")
#: The endings of large sets' shards.
_SHARDS = (".parquet", ".pq", ".jsonl", ".ndjson", ".csv", ".gz", ".json", ".tar")
#: The name of one of several parts: `test-00000-of-00002.parquet`, with or without a digest at its end.
_PART = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-\w+)?\.\w+")
#: The name of a part that Arrow, Spark or Dask wrote: `part-0.parquet`, `part-00000-ID-c000.snappy.parquet`, `part.0.parquet`.
_WRITTEN_PART = re.compile(r"part[-.]\d+(?:-[\w-]+)?(?:\.c\d+)?(?:\.\w+)?\.(?:parquet|pq)")
#: The name of a part in the Parquet files that the Hub makes itself, which stand in a folder of their split.
_NUMBERED_PART = re.compile(r"\d{4,5}\.\w+")
#: The names of splits, which files of one part may have alone: `test.parquet`.
_SPLITS = ("train", "test", "validation", "val", "dev")


@dataclass(frozen=True)
class TablePart:
    """A file with some rows of a table.

    Attributes:
        path: the file.
        split: the split that these rows are of; empty where the folder names none.
    """

    path: Path
    split: str = ""


def is_saved(folder: Path) -> bool:
    """Tell whether a folder is what `save_to_disk` wrote."""
    return any((folder / name).is_file() for name in _SAVED)


def holds_table(folder: Path) -> bool:
    """Tell whether a folder holds one table and no shards: what `save_to_disk` wrote, or a clone of a data set of the Hub.

    A folder with Parquet files in it, and not in folders below, is one of shards.
    """
    if is_saved(folder) or any(folder.glob("*.arrow")):
        return True

    endings = {path.suffix.lower() for path in folder.iterdir() if path.is_file()}
    return endings.isdisjoint(_SHARDS) and any(folder.rglob("*.parquet"))


def list_parts(folder: Path) -> list[TablePart]:
    """List the files of the one table that a folder holds, in their order.

    Raises:
        InputError: where it holds none, or several tables.
    """
    parts = _list_saved_parts(folder) or _list_files(folder)
    if not parts:
        found = shorten(", ".join(sorted(path.name for path in folder.iterdir()))) or "nothing"
        raise InputError(
            f"{folder}: it is a folder without a table in parts (Arrow or Parquet files); name a file, or files with commas "
            f"between them; it holds {found}"
        )

    return parts


def _list_saved_parts(folder: Path) -> list[TablePart]:
    """List the parts of what `save_to_disk` wrote: of a data set, or of the splits of one; none where it did not."""
    if (folder / "state.json").is_file():
        return [TablePart(path) for path in _read_state(folder)]

    if not (folder / "dataset_dict.json").is_file():
        return []
    parts: list[TablePart] = []
    for state in sorted(folder.glob("*/state.json")):
        split = state.parent
        parts += [TablePart(path, split.name) for path in _read_state(split)]
    return parts


def _read_state(folder: Path) -> list[Path]:
    """Return the files that `state.json` names, in their order.

    Raises:
        InputError: where it names none, or one that is not there.
    """
    path = folder / "state.json"
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: it cannot be read; save the data set anew") from error
    entries = state.get("_data_files") if isinstance(state, dict) else None
    names: list[str] = []
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("filename") if isinstance(entry, dict) else None
        # A name is that of a file in the folder, and no path out of it.
        if isinstance(name, str) and Path(name).name == name:
            names.append(name)
    if not names:
        raise InputError(f"{path}: it names no files of data; save the data set anew")

    files = [folder / name for name in names]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: it does not exist, and {path.name} names it")
    return files


def _list_files(folder: Path) -> list[TablePart]:
    """List the parts of a folder from the Hub, whose splits are in the names of files or of folders.

    Raises:
        InputError: where the files are no parts of one table.
    """
    paths: list[Path] = []
    for path in sorted(folder.rglob("*")):
        is_hidden = any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
        # Arrow files that `datasets` keeps of its own computations.
        is_cache = path.name.startswith("cache-")
        if path.suffix.lower() in _ENDINGS and path.is_file() and not (is_hidden or is_cache):
            paths.append(path)
    if len(paths) == 1:
        return [TablePart(paths[0])]

    parts: list[TablePart] = []
    for path in paths:
        split = _find_split(path)
        if split is None:
            raise InputError(
                f"{folder}: it holds several tables, such as {paths[0].relative_to(folder)} and "
                f"{paths[-1].relative_to(folder)}; name one of them"
            )
        parts.append(TablePart(path, split))

    configurations = {path.parent for path in paths}
    if len(configurations) > 1 and len({part.path.parent.parent for part in parts}) > 1:
        names = shorten(", ".join(sorted(str(c.relative_to(folder)) for c in configurations)))
        raise InputError(
            f"{folder}: it holds several tables, in {names}; name one of these folders"
        )
    return parts


def _find_split(path: Path) -> str | None:
    """Return the split that a part's name, or that of its folder, says; None where neither does."""
    match = _PART.fullmatch(path.name)
    if match is not None:
        return match["split"]
    if _WRITTEN_PART.fullmatch(path.name):
        return ""
    if _NUMBERED_PART.fullmatch(path.name):
        return path.parent.name

    return path.stem if path.stem in _SPLITS else None
