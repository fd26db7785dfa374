"""The SQLite database of a site, on which one thread works.

Every job is a function of a connection. Jobs queue up; the thread does each in a transaction of its own, commits,
and only then answers the caller: what was acknowledged is on the disk, and no two jobs run at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, MetaData, create_engine, event, inspect
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from ...datasets.errors import InputError
from .private_files import (
    database_files,
    make_missing_folders,
    make_private_file,
    protect_files,
    readable_by_others,
)
from .site_settings import renew_secret

Result = TypeVar("Result")

#: The milliseconds for which SQLite tries again while another program has locked the database.
_BUSY_MILLISECONDS = 3000


class StoreError(Exception):
    """A change that the database could not store, such as on a full disk; nothing of it happened."""


class BusyError(StoreError):
    """Another program has locked the database for longer than a job waits."""


@dataclass(frozen=True)
class Schema:
    """The tables of a site's database.

    Attributes:
        tables: those with which a new database begins.
        application_id: the number in SQLite's header by which a database of this site is known.
        revision: the number of the tables' version, in SQLite's header as well. A change of the tables raises it and
            comes with the statements that change the tables of released versions.
        command_name: the command that such a database belongs to, for messages.
    """

    tables: MetaData
    application_id: int
    revision: int
    command_name: str

    def create_or_check(self, engine: Engine, path: Path) -> None:
        """Create the tables of a new database, and check those of another.

        Raises:
            InputError: as `check` does.
        """
        with engine.begin() as connection:
            if not inspect(connection).get_table_names():
                self.tables.create_all(connection)
                connection.exec_driver_sql(f"PRAGMA application_id = {self.application_id}")
                connection.exec_driver_sql(f"PRAGMA user_version = {self.revision}")
                return

        self.check(engine, path)

    def check(self, engine: Engine, path: Path) -> None:
        """Check that a database has these tables.

        Raises:
            InputError: if it belongs to something else, or another version of captau wrote it.
        """
        with engine.connect() as connection:
            application_id = connection.exec_driver_sql("PRAGMA application_id").scalar()
            revision = connection.exec_driver_sql("PRAGMA user_version").scalar()

        if application_id != self.application_id:
            raise InputError(f"{path}: it is not a database of {self.command_name}; name another")
        if revision != self.revision:
            raise InputError(
                f"{path}: it has the tables of another version of captau (revision {revision}, not "
                f"{self.revision}); open it with that version, or name another"
            )


class Database:
    """An open database. `run` and `run_blocking` queue jobs; `close` ends the thread.

    Only the user can open SQLite's file and those beside it. If the server finds one that others could read, it
    moves the database to new files and makes the site's secret anew.

    Args:
        path: the file.
        schema: its tables.
        report: receives a line if other users could open the file.
        guest: whether this is a worker of a server that has it open already.
        read_only: whether it is only read; each job sees a snapshot, while a server may be at work on it.

    Raises:
        InputError: if it cannot be opened, another server is at work on it, or its tables are not those of this captau.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        report: Callable[[str], None] = lambda _: None,
        *,
        guest: bool = False,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.is_read_only = read_only
        self._command_name = schema.command_name
        is_server = not (guest or read_only)
        exposed_files: list[Path] = []

        with ExitStack() as cleanup:
            if is_server:
                exposed_files = readable_by_others(database_files(self._real_path))
                cleanup.callback(self._lock_file().release)

            self._engine = open_engine(path, read_only=read_only)
            cleanup.callback(self._engine.dispose)
            with opening_errors(path):
                self._connection = self._engine.connect()
                cleanup.callback(lambda: self._connection.close())
                if read_only:
                    schema.check(self._engine, path)
                elif not guest:
                    schema.create_or_check(self._engine, path)
                if exposed_files:
                    self._end_exposure(exposed_files, report)
            self._cleanup = cleanup.pop_all()

        self._thread = ThreadPoolExecutor(1, "captau-database")

    @property
    def _real_path(self) -> Path:
        """The file beside which SQLite puts others; `path` may be a link to it."""
        return self.path.resolve()

    def run_blocking(self, function: Callable[[Connection], Result]) -> Result:
        """Run a job and wait until it is committed; for threads other than the event loop's.

        Raises:
            StoreError: if the database could not store it, such as on a full disk.
        """
        return self._thread.submit(self._transact, function).result()

    async def run(self, function: Callable[[Connection], Result]) -> Result:
        """Run a job and await its commit.

        Raises:
            StoreError: if the database could not store it, such as on a full disk.
        """
        return await asyncio.wrap_future(self._thread.submit(self._transact, function))

    def close(self) -> None:
        """Finish the queued jobs and release the database."""
        self._thread.shutdown()
        self._cleanup.close()

    def _transact(self, function: Callable[[Connection], Result]) -> Result:
        """Run a job in a transaction, and commit."""
        try:
            result = function(self._connection)
            self._connection.commit()
        except DBAPIError as error:
            self._connection.rollback()
            code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
            kind = BusyError if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else StoreError
            raise kind(str(error.orig).strip().splitlines()[0]) from error
        except BaseException:
            self._connection.rollback()
            raise
        return result

    def _end_exposure(self, exposed_files: Sequence[Path], report: Callable[[str], None]) -> None:
        """Move a database that others could read to a private file, and make its secret anew there.

        Whoever has the former files open can read on in them. The new file takes their place only when it has the
        new secret, so that a start that is interrupted leaves the work to the next.

        Args:
            exposed_files: those that others could read.
            report: receives a line if a secret was made anew, or the files cannot be protected.
        """
        path = self._real_path
        copy = path.with_name(f"{path.name}.private")
        self._connection.close()
        self._engine.dispose()
        try:
            copy.unlink(missing_ok=True)
            copy_database(path, copy)
            is_private = not readable_by_others([copy])
            is_renewed = is_private and _renew_secret(copy)
            if is_private:
                copy.replace(path)
                for ending in ("-wal", "-shm"):
                    path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
                protect_files(database_files(path))
            copy.unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{path}: it cannot be copied to a private file ({error})") from error
        self._connection = self._engine.connect()

        if is_renewed:
            names = ", ".join(file.name for file in exposed_files)
            report(
                f"{self.path}: other users of this machine could open {names}; now they cannot, and the "
                f"site's secret was made anew, so that everybody has to sign in or join again"
            )
        elif not is_private:
            report(
                f"{self.path}: other users of this machine may open it, since its file system keeps no "
                f"permissions; move it to one that does, and name it with database=FILE"
            )

    def _lock_file(self) -> FileLock:
        """Lock a file beside the database, so that only one server works on it.

        A new database's file is made as well, so that it is private before SQLite opens it.
        """
        path = self.path
        try:
            make_missing_folders(path.parent)
            lock_path = path.with_name(f"{path.name}.lock")
            make_private_file(lock_path)
            make_private_file(path)
            lock = FileLock(lock_path, thread_local=False)  # any thread may close
            lock.acquire(timeout=0)
        except Timeout as error:
            busy = f"{path}: another {self._command_name} is using it; stop that first"
            raise InputError(busy) from error
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        return lock


class _HasDatabase(Protocol):
    @property
    def database(self) -> Database: ...


Owner = TypeVar("Owner", bound=_HasDatabase)
Arguments = ParamSpec("Arguments")
Method = Callable[Concatenate[Owner, Connection, Arguments], Result]


def transaction(
    method: Method[Owner, Arguments, Result],
) -> Callable[Concatenate[Owner, Arguments], Coroutine[Any, Any, Result]]:
    """Make a method that receives a connection a coroutine that is done once it is committed."""

    @wraps(method)
    async def run(owner: Owner, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return await owner.database.run(lambda c: method(owner, c, *args, **options))

    return run


def blocking_transaction(
    method: Method[Owner, Arguments, Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Do the same for threads other than the event loop's: the method returns once it is committed."""

    @wraps(method)
    def run(owner: Owner, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return owner.database.run_blocking(lambda c: method(owner, c, *args, **options))

    return run


def open_engine(path: Path, *, read_only: bool) -> Engine:
    """Return an engine of an SQLite file, which is written through to the disk and locked by transactions.

    Args:
        path: the file.
        read_only: whether transactions only read, each a snapshot, while another process writes.
    """
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, connect_args={"check_same_thread": False, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
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
def opening_errors(path: Path) -> Generator[None]:
    """Turn errors of a site's database, and of files beside it, into an `InputError` of one line while it is opened."""
    try:
        yield
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise InputError(f"{path}: {reason}") from error
    except StoreError as error:
        raise InputError(f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}") from error


def _renew_secret(path: Path) -> bool:
    """Make the secret in an SQLite database anew; return False if it has none yet."""
    engine = open_engine(path, read_only=False)
    try:
        with engine.begin() as connection:
            return renew_secret(connection)
    finally:
        engine.dispose()


def copy_database(path: Path, copy: Path) -> None:
    """Copy an SQLite database to a private file.

    Raises:
        OSError, sqlite3.Error: if it cannot be copied.
    """
    make_private_file(copy)
    source, target = sqlite3.connect(path), sqlite3.connect(copy)
    try:
        with source, target:
            source.backup(target)
    finally:
        source.close()
        target.close()
