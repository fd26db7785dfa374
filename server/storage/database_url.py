"""Addresses of databases: SQLite files and PostgreSQL servers, and engines that open them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from ...datasets.errors import InputError
from ...datasets.paths import expand_home


def parse_database_url(database: str) -> URL:
    """Return the address of a database; the path of a file stands for SQLite.

    Raises:
        InputError: on an invalid address, or a kind of database that captau does not support.
    """
    if "://" not in database:
        return URL.create("sqlite", database=str(expand_home(database)))
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise InputError(
            f"database={database}: not an address; postgresql://… or a path"
        ) from error
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise InputError(f"database={backend}://…: a path (SQLite) or postgresql://… is expected")


def is_sqlite(url: URL) -> bool:
    """Return whether an address is that of an SQLite file."""
    return url.get_backend_name() == "sqlite"


def sqlite_path(url: URL) -> Path:
    """Return the file of an SQLite database."""
    return Path(str(url.database))


def display_name(url: URL) -> str:
    """Return an address as messages show it, without a password."""
    return str(url.database) if is_sqlite(url) else url.render_as_string(hide_password=True)


def open_engine(url: URL, *, read_only: bool = False) -> Engine:
    """Return an engine; an SQLite database is written through to the disk and locked by transactions.

    Args:
        url: the database.
        read_only: whether transactions only read, each a snapshot, while another process writes.
    """
    if not is_sqlite(url):
        options: dict[str, Any] = (
            {
                "isolation_level": "REPEATABLE READ",
                "execution_options": {"postgresql_readonly": True},
            }
            if read_only
            else {}
        )
        try:
            return create_engine(url, pool_pre_ping=True, **options)
        except ImportError as error:
            raise InputError("PostgreSQL needs: pip install 'captau[postgres]'") from error
    engine = create_engine(url, connect_args={"check_same_thread": False, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, record: Any) -> None:
        del record
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=10000")
        if read_only:
            cursor.execute("PRAGMA query_only=ON")
        else:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    # By itself the driver would begin a transaction at the first change only.
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def opening_errors(database: str) -> Generator[None]:
    """Turn errors of the database into an `InputError` of one line."""
    try:
        yield
    except DBAPIError as error:
        name = database
        with suppress(ArgumentError):
            name = make_url(database).render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise InputError(f"{name}: {reason}") from error
