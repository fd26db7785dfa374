"""A site's database: opened, brought up to date, and worked on by one thread.

Every piece of work is a function of a connection. They queue up; the thread takes what has come in
since the last commit, does it in one transaction, commits, and only then are the callers answered:
what was acknowledged is on the disk, and two answers never run at once. A piece of work that fails
fails alone; the others are done again without it. What many ask for at once (`run_each`) is done
for all of them by few statements, so that the ways to the database do not grow with them.

PostgreSQL is a way there and back from here, so changes are sent without waiting: whether they went
well is known with the next rows that are asked for, and before the commit at the latest.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..datasets.errors import InputError

T = TypeVar("T")
A = TypeVar("A")

#: The most pieces of work in one transaction.
_BATCH = 64
#: PostgreSQL's advisory lock that says a server is at work on a database.
_LOCK = 0x6361_7074


class StoreError(Exception):
    """The database could not take something; what was asked for did not happen."""


class Clock:
    """Seconds since 1970 that never run backwards, whatever is done to the machine's clock.

    Args:
        least: the latest time the database knows.
    """

    def __init__(self, least: float = 0.0) -> None:
        self._offset = max(time.time(), least) - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


def url_of(database: str) -> URL:
    """The address of a database: a file's path stands for SQLite.

    Raises:
        InputError: on an address that is none, or of a kind that captau does not know.
    """
    if "://" not in database:
        return URL.create("sqlite", database=str(Path(database).expanduser()))
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise InputError(f"database={database}: no address; postgresql://… or a path") from error
    kind = url.get_backend_name()
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise InputError(f"database={kind}://…: a path (SQLite) or postgresql://… is expected")


@dataclass(frozen=True, eq=False)
class _Job:
    """A piece of work, and who waits for it.

    Attributes:
        who: of `run_each`: whose it is; None where the work is done for itself.
        asked: of `run_each`: what they ask for.
    """

    work: Callable[..., Any]
    done: Future[Any]
    who: int | None = None
    asked: Any = None


class Database:
    """An open database. `run`, `run_each` and `do` queue work; `close` ends the thread.

    Args:
        database: a path, for SQLite, or an address.
        migrations: the folder of the scripts that bring its tables up to date.
        command: the command whose database it is, for messages.
        note: told of what is changed on opening.
        guest: whether a server has it open already, whose worker this is.
        pipelined: whether changes need not wait for PostgreSQL; how many rows they changed is not
            known then.

    Raises:
        InputError: where it cannot be opened, another server is at work on it, or a newer captau
            wrote it.
    """

    def __init__(
        self,
        database: str,
        migrations: Path,
        command: str,
        note: Callable[[str], None] = lambda _: None,
        *,
        guest: bool = False,
        pipelined: bool = False,
    ) -> None:
        self.url = url_of(database)
        self._command, self._guest = command, guest
        self._lock: FileLock | None = None
        self._pipeline: Any = None
        self._held: Any = None
        self._engine = _engine(self.url)
        self._pipelines = pipelined and self.url.get_backend_name() == "postgresql"
        if self._pipelines:
            event.listen(self._engine, "after_cursor_execute", self._fetch)
        try:
            if not guest:
                self._hold(database)
            with _told(database):
                self._connection = self._engine.connect()
                try:
                    if self.url.get_backend_name() == "postgresql":
                        self._hold_postgresql()  # nobody's tables change at their work
                    if not guest:
                        self._migrate(migrations, note)
                except BaseException:
                    self._connection.close()
                    raise
        except BaseException:
            self._release()
            raise
        self._work: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="captau-database", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[Connection], T]) -> T:
        """Do a piece of work and wait until it is committed; for threads other than the loop's."""
        done: Future[T] = Future()
        self._work.put(_Job(work, done))
        return done.result()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The same for coroutines.

        Raises:
            StoreError: where the database could not take it, as on a full disk.
        """
        done: Future[T] = Future()
        self._work.put(_Job(work, done))
        return await asyncio.wrap_future(done)

    async def run_each(
        self,
        work: Callable[[Connection, Mapping[int, A]], Mapping[int, T | Exception]],
        who: int,
        asked: A,
    ) -> T:
        """The same for work that is done for many people at once.

        Args:
            work: gets what each of them asked for, and returns what each of them gets; an exception
                is for that one alone, and must leave nothing of theirs in the database.
            who: one of them; what the same one asks for meanwhile is done after this.
            asked: what they ask for.
        """
        done: Future[T] = Future()
        self._work.put(_Job(work, done, who, asked))
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Finish what is queued, and let go of the database."""
        self._work.put(None)
        self._thread.join()
        self._connection.close()
        self._release()

    def _release(self) -> None:
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def _hold(self, database: str) -> None:
        """A lock file beside an SQLite database: one server works on it."""
        if self.url.get_backend_name() != "sqlite":
            return
        path = Path(str(self.url.database))
        busy = InputError(f"{database}: another {self._command} is at work on it; stop that first")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(f"{path}.lock", thread_local=False)  # any thread may close
            lock.acquire(timeout=0)
        except Timeout as error:
            raise busy from error
        except OSError as error:
            raise InputError(f"{database}: {error.strerror}") from error
        self._lock = lock

    def _hold_postgresql(self) -> None:
        """The same on PostgreSQL, for as long as this connection to it lasts; a guest holds nothing."""
        driver: Any = self._connection.connection.driver_connection
        if driver is self._held:
            return
        if self._guest:
            self._held = driver
            return
        got = self._connection.execute(text(f"SELECT pg_try_advisory_lock({_LOCK})")).scalar()
        self._connection.commit()
        if not got:
            raise InputError(
                f"{self.shown}: another {self._command} is at work on it; stop that first"
            )
        self._held = driver

    def _migrate(self, migrations: Path, note: Callable[[str], None]) -> None:
        """Bring the tables up to date, a copy of an older database kept."""
        from alembic import command
        from alembic.config import Config
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(migrations))
        config.set_main_option("path_separator", "os")
        script = ScriptDirectory.from_config(config)
        newest = script.get_current_head()
        with self._engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            tables = connection.dialect.get_table_names(connection)
        if found == newest:
            return
        if found is None and tables:
            raise InputError(
                f"{self.shown}: it holds {tables[0]} and is no database of {self._command}; name another"
            )
        if found is not None:
            if found not in {s.revision for s in script.walk_revisions()}:
                raise InputError(
                    f"{self.shown}: a newer captau wrote it (tables {found}); update captau"
                )
            if self.url.get_backend_name() == "sqlite":
                note(f"{self.shown}: tables {found} → {newest}; {self._back_up(found)}")
        with self._engine.begin() as connection:
            if found is not None and self.url.get_backend_name() == "postgresql":
                kept = _copied(connection, found, tables)
                note(f"{self.shown}: tables {found} → {newest}; {kept}")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def _back_up(self, revision: str) -> str:
        """Keep a copy of an older SQLite database; returns what is to be said of it."""
        path = Path(str(self.url.database))
        copy = path.with_name(f"{path.name}.{revision}.backup")
        with sqlite3.connect(path) as old, sqlite3.connect(f"{copy}.tmp") as new:
            old.backup(new)
        old.close()
        new.close()
        Path(f"{copy}.tmp").replace(copy)
        return f"a copy of it as it was is {copy}"

    @property
    def shown(self) -> str:
        """The address as messages show it, without a password."""
        if self.url.get_backend_name() == "sqlite":
            return str(self.url.database)
        return self.url.render_as_string(hide_password=True)

    def _loop(self) -> None:
        open_ = True
        while open_:
            batch: list[_Job] = []
            job = self._work.get()
            while True:
                if job is None:
                    open_ = False
                    break
                # Whoever asked may have gone; from here on they can't.
                if job.done.set_running_or_notify_cancel():
                    batch.append(job)
                if len(batch) == _BATCH:
                    break
                try:
                    job = self._work.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._together(batch)

    def _together(self, batch: Sequence[_Job]) -> None:
        try:
            with self._pipelined():
                results = [self._call(jobs) for jobs in _calls(batch)]
            self._connection.commit()
        except Exception as error:
            self._undo()
            if len(batch) == 1:
                batch[0].done.set_exception(self._stored(error))
                return
            for job in batch:  # one of them failed: each on its own
                self._together([job])
            return
        for job, result in chain.from_iterable(results):
            if job.who is not None and isinstance(result, Exception):
                job.done.set_exception(result)
            else:
                job.done.set_result(result)

    def _call(self, jobs: Sequence[_Job]) -> list[tuple[_Job, Any]]:
        """Do what one call does; each job with its result."""
        work = jobs[0].work
        if jobs[0].who is None:
            return [(jobs[0], work(self._connection))]
        found = work(self._connection, {job.who: job.asked for job in jobs})
        return [(job, found[job.who]) for job in jobs]

    @contextmanager
    def _pipelined(self) -> Generator[None]:
        """On PostgreSQL: changes wait for nothing until rows are asked for (`_fetch`), or the end."""
        if self.url.get_backend_name() == "postgresql":
            try:
                self._hold_postgresql()  # the connection may be another than before
            except InputError as error:
                raise StoreError(str(error)) from error
        if not self._pipelines:
            yield
            return
        with self._held.pipeline() as self._pipeline:
            try:
                yield
            finally:
                self._pipeline = None

    def _fetch(
        self, c: Connection, cursor: Any, sql: str, given: Any, context: Any, _: bool
    ) -> None:
        """After each statement: get the rows of one that has some, and whatever was not waited for."""
        del c, cursor, sql, given
        change = context.isinsert or context.isupdate or context.isdelete
        if self._pipeline is not None and not (change and not context.compiled.effective_returning):
            self._pipeline.sync()

    def _stored(self, error: Exception) -> Exception:
        """What the database says, as `StoreError`; at the pipeline's end the driver says it itself."""
        said = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(said, self._engine.dialect.loaded_dbapi.Error):
            return error
        return StoreError(str(said).strip().splitlines()[0])

    def _undo(self) -> None:
        try:
            self._connection.rollback()
        except SQLAlchemyError:  # PostgreSQL went away: the next piece of work tries anew
            with suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.rollback()


def _calls(batch: Sequence[_Job]) -> list[list[_Job]]:
    """The jobs of one call each: the same work, for different people."""
    calls: dict[tuple[Any, int], list[_Job]] = {}
    before: Counter[tuple[Any, int | None]] = Counter()
    for job in batch:
        of = (job.work, job.who)
        calls.setdefault((job.work, before[of]), []).append(job)
        before[of] += 1
    return list(calls.values())


def _copied(c: Connection, revision: str, tables: Sequence[str]) -> str:
    """Keep a copy of older tables on PostgreSQL, in a schema of their own; returns what is to be said.

    It is of the transaction that changes the tables: both are there in the end, or neither.
    """
    schemas = c.dialect.get_schema_names(c)
    names = (f"captau_backup_{revision}{k}" for k in ("", *(f"_{n}" for n in range(2, 1000))))
    schema = next(name for name in names if name not in schemas)
    quoted = c.dialect.identifier_preparer.quote
    c.exec_driver_sql(f"CREATE SCHEMA {schema}")
    for table in map(quoted, tables):
        c.exec_driver_sql(f"CREATE TABLE {schema}.{table} AS TABLE {table}")
    return f"a copy of them as they were is the schema {schema}"


@contextmanager
def _told(database: str) -> Generator[None]:
    """What a database says while it is opened, as one line."""
    try:
        yield
    except DBAPIError as error:
        where = database
        with suppress(ArgumentError):
            where = make_url(where).render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise InputError(f"{where}: {reason}") from error


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True)
        except ImportError as error:
            raise InputError("PostgreSQL needs: pip install 'captau[server]'") from error
    engine = create_engine(url, connect_args={"check_same_thread": False, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        del record
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "busy_timeout=10000",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    # The driver's own way with transactions would begin one at the first change only.
    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
