"""A backup of a site's database, made while the site runs."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from ...benchmarks.runs.output_folder import is_process_alive, temporary_of
from ...datasets.cache import store_names
from ...datasets.errors import InputError
from .database import Schema, copy_database, open_engine, opening_errors

#: What SQLite adds to the name of a database for the files that it keeps beside it; the database itself comes first.
ENDINGS = ("", "-wal", "-shm", "-journal")


def back_up(path: Path, schema: Schema, backup: Path) -> None:
    """Copy a site's database to one new file, and check the copy.

    A plain copy of the file would lack what SQLite keeps beside it while the site runs.

    Args:
        path: the database.
        schema: its tables.
        backup: the new file, which is the user's alone.

    Raises:
        InputError: if there is no such database, the file is there already, it cannot be written, or the copy
            is damaged.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such database; name the site's with database=FILE")
    if backup.exists():
        raise InputError(f"backup={backup}: it is there already; name a new file")

    temporary = temporary_of(backup)
    try:
        _remove_leftovers(backup)
        copy_database(path, temporary)
        _check_copy(temporary, schema, path)
        temporary.replace(backup)
        store_names(backup.parent)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: it cannot be copied to {backup} ({reason})") from error
    finally:
        for ending in ENDINGS:
            temporary.with_name(f"{temporary.name}{ending}").unlink(missing_ok=True)


def _remove_leftovers(backup: Path) -> None:
    """Remove what killed processes left of a backup of this name."""
    name = re.escape(backup.name.removeprefix("."))
    for path in backup.parent.glob(".*.tmp*"):
        match = re.fullmatch(rf"\.{name}\.(\d+)\.tmp({'|'.join(ENDINGS)})", path.name)
        if match is not None and not is_process_alive(int(match.group(1))):
            path.unlink(missing_ok=True)


def _check_copy(copy: Path, schema: Schema, path: Path) -> None:
    """Check that a copy is a whole database of the site, and leave it as one file.

    Raises:
        InputError: if it is not.
    """
    engine = open_engine(copy, read_only=True)
    try:
        with opening_errors(path):
            schema.check(engine, path)
    finally:
        engine.dispose()

    connection = sqlite3.connect(copy)
    try:
        fault = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if fault != "ok":
            raise InputError(f"{path}: the database is damaged ({fault})")
        connection.execute("PRAGMA journal_mode = DELETE")
    finally:
        connection.close()
