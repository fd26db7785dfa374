"""The database of a site, on which one thread works, and the clock whose times it stores.

Every job is a function of a connection. Jobs queue up; the thread does each in a transaction of its own, commits,
and only then answers the caller: what was acknowledged is on the disk, and no two jobs run at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, MetaData, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from .private_files import (
    database_files,
    make_missing_folders,
    make_private_file,
    protect_files,
    readable_by_others,
)
from .site_settings import renew_secret

Result = TypeVar("Result")

#: PostgreSQL's advisory lock that says a server is at work on a database.
_ADVISORY_LOCK = 0x6361_7074
#: The milliseconds for which SQLite tries again while another program has locked the database.
_BUSY_MILLISECONDS = 3000
#: The seconds in which PostgreSQL notices that a server was killed, and gives its lock back.
_LOCK_SECONDS = 3.0


class StoreError(Exception):
    """A change that the database could not store, such as on a full disk; nothing of it happened."""


class BusyError(StoreError):
    """Another program has locked the database for longer than a job waits."""


class OutdatedTablesError(InputError):
    """A database has the tables of another version of captau."""


class Clock:
    """Seconds since 1970 that never run backwards, even if the machine's clock is put back.

    Args:
        earliest: the latest time that the database holds.
    """

    def __init__(self, earliest: float = 0.0) -> None:
        self._offset = max(time.time(), earliest) - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


@dataclass(frozen=True)
class Schema:
    """The tables of a site's database.

    Attributes:
        tables: as they are now, with which a new database begins.
        migrations: the statements that change older tables, by the revision to which they lead; the first
            revision's are none.
        command_name: the command that such a database belongs to, for messages.
    """

    tables: MetaData
    migrations: Mapping[str, Sequence[str]]
    command_name: str

    @property
    def revision(self) -> str:
        """Return the revision of the tables as they are now."""
        return max(self.migrations)

    def create_or_migrate(self, engine: Engine, report: Callable[[str], None]) -> None:
        """Create a database's tables, or bring them up to date after a copy was made of the older ones.

        Args:
            engine: opens the database.
            report: receives a line that says what was changed and where the copy is.

        Raises:
            InputError: if the database belongs to something else, or a newer captau wrote it.
        """
        name = display_name(engine.url)
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            revision = _read_revision(connection, tables)
        if revision == self.revision:
            return
        if revision is None and tables:
            raise InputError(
                f"{name}: it holds {tables[0]} and is not a database of {self.command_name}; name another"
            )
        if revision is not None and revision not in self.migrations:
            raise InputError(f"{name}: a newer captau wrote it (tables {revision}); update captau")
        changes = f"{name}: tables {revision} → {self.revision}"
        if revision is not None and is_sqlite(engine.url):
            copy = _copy_file(sqlite_path(engine.url), revision)
            report(f"{changes}; a copy of it as it was is {copy}")
        with engine.begin() as connection:
            if revision is None:
                self.tables.create_all(connection)
                connection.exec_driver_sql(
                    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
                )
                insert = text("INSERT INTO alembic_version VALUES (:revision)")
                connection.execute(insert, {"revision": self.revision})
                return
            if not is_sqlite(engine.url):
                schema = _copy_tables(connection, revision, tables)
                report(f"{changes}; a copy of them as they were is the schema {schema}")
            for later_revision, statements in self.migrations.items():
                for statement in statements if later_revision > revision else ():
                    connection.exec_driver_sql(statement)
            update = text("UPDATE alembic_version SET version_num = :revision")
            connection.execute(update, {"revision": self.revision})

    def check(self, engine: Engine) -> None:
        """Check that a database has the newest tables.

        Raises:
            OutdatedTablesError: if it does not.
        """
        with engine.connect() as connection:
            revision = _read_revision(connection, inspect(connection).get_table_names())
        if revision != self.revision:
            raise OutdatedTablesError(
                f"{display_name(engine.url)}: tables {revision}, not {self.revision}"
            )


class Database:
    """An open database. `run` and `run_blocking` queue jobs; `close` ends the thread.

    Only the user can open SQLite's file and those beside it. If the server finds one that others could read, it
    moves the database to new files and makes the site's secret anew.

    Args:
        database: a path, for SQLite, or an address.
        schema: its tables.
        report: receives a line about each change on opening.
        guest: whether this is a worker of a server that has it open already.
        read_only: whether it is only read; each job sees a snapshot, while a server may be at work on it.

    Raises:
        InputError: if it cannot be opened, another server is at work on it, or a newer captau wrote it.
        OutdatedTablesError: if it is read only, and its tables are not those of this captau.
    """

    def __init__(
        self,
        database: str,
        schema: Schema,
        report: Callable[[str], None] = lambda _: None,
        *,
        guest: bool = False,
        read_only: bool = False,
    ) -> None:
        self.url: URL = parse_database_url(database)
        self.is_read_only = read_only
        self._command_name, self._is_locked = schema.command_name, not (guest or read_only)
        #: The driver's connection that holds PostgreSQL's advisory lock.
        self._locked_driver: Any = None
        exposed_files: list[Path] = []
        with ExitStack() as cleanup:
            if is_sqlite(self.url) and self._is_locked:
                exposed_files = readable_by_others(database_files(self._real_path))
                cleanup.callback(self._lock_file(database).release)
            self._engine = open_engine(self.url, read_only=read_only)
            cleanup.callback(self._engine.dispose)
            with opening_errors(database):
                self._connection = self._engine.connect()
                cleanup.callback(lambda: self._connection.close())
                if not self._lock_postgresql():  # nobody's tables change while they work
                    raise InputError(self._busy_text(self.display_name))
                if read_only:
                    schema.check(self._engine)
                elif not guest:
                    schema.create_or_migrate(self._engine, report)
                if exposed_files:
                    self._end_exposure(exposed_files, report)
            self._cleanup = cleanup.pop_all()
        self._thread = ThreadPoolExecutor(1, "captau-database")

    @property
    def display_name(self) -> str:
        """The address as messages show it, without a password."""
        return display_name(self.url)

    @property
    def _real_path(self) -> Path:
        """SQLite's file, beside which SQLite puts others; an address may name a link to it."""
        return sqlite_path(self.url).resolve()

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
            if not self._lock_postgresql():  # the connection may be another than before
                raise StoreError(self._busy_text(self.display_name))
            result = function(self._connection)
            self._connection.commit()
        except DBAPIError as error:
            self._roll_back()
            code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
            kind = BusyError if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else StoreError
            raise kind(str(error.orig).strip().splitlines()[0]) from error
        except BaseException:
            self._roll_back()
            raise
        return result

    def _roll_back(self) -> None:
        try:
            self._connection.rollback()
        except SQLAlchemyError:  # PostgreSQL went away: the next job tries anew
            with suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.rollback()

    def _busy_text(self, database: str) -> str:
        return f"{database}: another {self._command_name} is using it; stop that first"

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
            _copy_database(path, copy)
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
                f"{self.display_name}: other users of this machine could open {names}; now they cannot, and the "
                f"site's secret was made anew, so that everybody has to sign in or join again"
            )
        elif not is_private:
            report(
                f"{self.display_name}: other users of this machine may open it, since its file system keeps no "
                f"permissions; move it to one that does, and name it with database=FILE"
            )

    def _lock_file(self, database: str) -> FileLock:
        """Lock a file beside an SQLite database, so that only one server works on it.

        A new database's file is made as well, so that it is private before SQLite opens it.
        """
        path = sqlite_path(self.url)
        try:
            make_missing_folders(path.parent)
            lock_path = path.with_name(f"{path.name}.lock")
            make_private_file(lock_path)
            make_private_file(path)
            lock = FileLock(lock_path, thread_local=False)  # any thread may close
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(self._busy_text(database)) from error
        except OSError as error:
            raise InputError(f"{database}: {error.strerror}") from error
        return lock

    def _lock_postgresql(self) -> bool:
        """Take PostgreSQL's lock for as long as this connection lasts; return False if another server has it.

        Guests and readers take none, and SQLite has its file's.
        """
        if is_sqlite(self.url) or not self._is_locked:
            return True
        driver: Any = self._connection.connection.driver_connection
        if driver is self._locked_driver:
            return True
        statement = text(f"SELECT pg_try_advisory_lock({_ADVISORY_LOCK})")
        end = time.monotonic() + _LOCK_SECONDS
        while not self._connection.execute(statement).scalar():
            self._connection.commit()
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        self._connection.commit()
        self._locked_driver = driver
        return True


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


def open_engine(url: URL, *, read_only: bool) -> Engine:
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


def _read_revision(connection: Connection, tables: Sequence[str]) -> str | None:
    """Return a database's revision; None if captau did not make it."""
    if "alembic_version" not in tables:
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _copy_file(path: Path, revision: str) -> Path:
    """Copy an SQLite database and return the copy."""
    copy = path.with_name(f"{path.name}.{revision}.backup")
    unfinished_copy = path.with_name(f"{copy.name}.tmp")
    _copy_database(path, unfinished_copy)
    unfinished_copy.replace(copy)
    return copy


def _renew_secret(path: Path) -> bool:
    """Make the secret in an SQLite database anew; return False if it has none yet."""
    engine = open_engine(URL.create("sqlite", database=str(path)), read_only=False)
    try:
        with engine.begin() as connection:
            return renew_secret(connection)
    finally:
        engine.dispose()


def _copy_database(path: Path, copy: Path) -> None:
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


def _copy_tables(c: Connection, revision: str, tables: Sequence[str]) -> str:
    """Copy PostgreSQL tables into a new schema and return its name.

    The copy belongs to the transaction that changes the tables: both happen, or neither.
    """
    schemas = c.dialect.get_schema_names(c)
    names = (f"captau_backup_{revision}{k}" for k in ("", *(f"_{n}" for n in range(2, 1000))))
    schema = next(name for name in names if name not in schemas)
    quote = c.dialect.identifier_preparer.quote
    c.exec_driver_sql(f"CREATE SCHEMA {schema}")
    for table in map(quote, tables):
        c.exec_driver_sql(f"CREATE TABLE {schema}.{table} AS TABLE {table}")
    return schema
