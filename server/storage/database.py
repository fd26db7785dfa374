"""The database of a site, on which one thread works.

Every job is a function of a connection. Jobs queue up; the thread takes those that have come in since
the last commit, does them in one transaction, commits, and only then answers the callers: what was
acknowledged is on the disk, and no two jobs run at once. A job that fails fails alone; the others of its
transaction are done again without it. Jobs that many people ask for at once (`run_grouped`) are done for
all of them by a few statements, so that round trips to the database do not grow with their number.

PostgreSQL is a round trip away, so changes are sent without waiting for it (a pipeline): whether they
succeeded is known with the next rows that are read, and before the commit at the latest.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ...datasets.errors import InputError
from .database_url import (
    display_name,
    is_sqlite,
    open_engine,
    opening_errors,
    parse_database_url,
    sqlite_path,
)
from .migration import check_revision, migrate

Result = TypeVar("Result")
Argument = TypeVar("Argument")

#: The most jobs in one transaction.
_MAX_BATCH = 64
#: PostgreSQL's advisory lock that says a server is at work on a database.
_ADVISORY_LOCK = 0x6361_7074
#: The seconds in which PostgreSQL notices that a server was killed, and gives its lock back.
_LOCK_SECONDS = 3.0


class StoreError(Exception):
    """A change that the database could not store, such as on a full disk; nothing of it happened."""


@dataclass(frozen=True, eq=False)
class _Job:
    """A function to run on the database, and the future of its result.

    Attributes:
        person: for `run_grouped`, the one who asks; None for a job that runs alone.
        argument: for `run_grouped`, the argument for this person.
    """

    function: Callable[..., Any]
    future: Future[Any]
    person: int | None = None
    argument: Any = None


class Database:
    """An open database. `run`, `run_grouped` and `run_blocking` queue jobs; `close` ends the thread.

    Args:
        database: a path, for SQLite, or an address.
        migrations: the folder of the scripts that bring its tables up to date.
        command_name: the command that it belongs to, for messages.
        report: receives a line about each change on opening.
        guest: whether this is a worker of a server that has it open already.
        read_only: whether it is only read; each job sees a snapshot, while a server may be at work on it.
        pipelined: whether changes need not wait for PostgreSQL; their row counts are unknown then.

    Raises:
        InputError: if it cannot be opened, another server is at work on it, or a newer captau wrote it.
        OutdatedTablesError: if it is read only, and its tables are not those of this captau.
    """

    def __init__(
        self,
        database: str,
        migrations: Path,
        command_name: str,
        report: Callable[[str], None] = lambda _: None,
        *,
        guest: bool = False,
        read_only: bool = False,
        pipelined: bool = False,
    ) -> None:
        self.url: URL = parse_database_url(database)
        self.is_read_only = read_only
        self._command_name, self._is_locked = command_name, not (guest or read_only)
        self._is_pipelined = pipelined and not is_sqlite(self.url)
        self._pipeline: Any = None
        #: The driver's connection that holds PostgreSQL's advisory lock.
        self._locked_driver: Any = None
        with ExitStack() as cleanup:
            if is_sqlite(self.url) and self._is_locked:
                cleanup.callback(self._lock_file(database).release)
            self._engine = open_engine(self.url, read_only=read_only)
            cleanup.callback(self._engine.dispose)
            if self._is_pipelined:
                event.listen(self._engine, "after_cursor_execute", self._sync_pipeline)
            with opening_errors(database):
                self._connection = self._engine.connect()
                cleanup.callback(self._connection.close)
                if not is_sqlite(self.url):
                    self._lock_postgresql()  # nobody's tables change while they work
                if read_only:
                    check_revision(self._engine, migrations)
                elif not guest:
                    migrate(self._engine, migrations, command_name, report)
            self._cleanup = cleanup.pop_all()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="captau-database", daemon=True)
        self._thread.start()

    @property
    def display_name(self) -> str:
        """The address as messages show it, without a password."""
        return display_name(self.url)

    def run_blocking(self, function: Callable[[Connection], Result]) -> Result:
        """Run a job and wait until it is committed; for threads other than the event loop's."""
        future: Future[Result] = Future()
        self._jobs.put(_Job(function, future))
        return future.result()

    async def run(self, function: Callable[[Connection], Result]) -> Result:
        """Run a job and await its commit.

        Raises:
            StoreError: if the database could not store it, such as on a full disk.
        """
        future: Future[Result] = Future()
        self._jobs.put(_Job(function, future))
        return await asyncio.wrap_future(future)

    async def run_grouped(
        self,
        function: Callable[[Connection, Mapping[int, Argument]], Mapping[int, Result | Exception]],
        person: int,
        argument: Argument,
    ) -> Result:
        """Run a job that is done for many people at once, and return one person's result.

        Args:
            function: receives each person's argument and returns each one's result; an exception is
                raised for that person alone, and must leave nothing of theirs in the database.
            person: the one who asks; their further jobs are done after this.
            argument: the argument for this person.
        """
        future: Future[Result] = Future()
        self._jobs.put(_Job(function, future, person, argument))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish the queued jobs and release the database."""
        self._jobs.put(None)
        self._thread.join()
        self._cleanup.close()

    def _busy(self, database: str) -> InputError:
        return InputError(f"{database}: another {self._command_name} is using it; stop that first")

    def _lock_file(self, database: str) -> FileLock:
        """Lock a file beside an SQLite database, so that only one server works on it."""
        path = sqlite_path(self.url)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(f"{path}.lock", thread_local=False)  # any thread may close
            lock.acquire(timeout=0)
        except Timeout as error:
            raise self._busy(database) from error
        except OSError as error:
            raise InputError(f"{database}: {error.strerror}") from error
        return lock

    def _lock_postgresql(self) -> None:
        """Take PostgreSQL's lock for as long as this connection lasts; guests and readers take none."""
        driver: Any = self._connection.connection.driver_connection
        if driver is not self._locked_driver and self._is_locked:
            statement = text(f"SELECT pg_try_advisory_lock({_ADVISORY_LOCK})")
            end = time.monotonic() + _LOCK_SECONDS
            while not self._connection.execute(statement).scalar():
                self._connection.commit()
                if time.monotonic() > end:
                    raise self._busy(self.display_name)
                time.sleep(0.05)
            self._connection.commit()
        self._locked_driver = driver

    def _loop(self) -> None:
        is_open = True
        while is_open:
            batch: list[_Job] = []
            job = self._jobs.get()
            while True:
                if job is None:
                    is_open = False
                    break
                # A caller may have cancelled; from here on they cannot.
                if job.future.set_running_or_notify_cancel():
                    batch.append(job)
                if len(batch) == _MAX_BATCH:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._run_batch(batch)

    def _run_batch(self, batch: Sequence[_Job]) -> None:
        """Run jobs in one transaction and set their results; after a failure, each in its own."""
        try:
            with self._pipelining():
                results = [self._call(jobs) for jobs in _group_by_call(batch)]
            self._connection.commit()
        except Exception as error:
            self._roll_back()
            if len(batch) == 1:
                batch[0].future.set_exception(self._as_store_error(error))
                return
            for job in batch:
                self._run_batch([job])
            return
        for job, result in chain.from_iterable(results):
            if job.person is not None and isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    def _call(self, jobs: Sequence[_Job]) -> list[tuple[_Job, Any]]:
        """Call the jobs' common function; return each job with its result."""
        function = jobs[0].function
        if jobs[0].person is None:
            return [(jobs[0], function(self._connection))]
        results = function(self._connection, {job.person: job.argument for job in jobs})
        return [(job, results[job.person]) for job in jobs]

    @contextmanager
    def _pipelining(self) -> Generator[None]:
        """Let changes on PostgreSQL wait for nothing until rows are read (`_sync_pipeline`), or the end."""
        if not is_sqlite(self.url):
            try:
                self._lock_postgresql()  # the connection may be another than before
            except InputError as error:
                raise StoreError(str(error)) from error
        if not self._is_pipelined:
            yield
            return
        with self._locked_driver.pipeline() as self._pipeline:
            try:
                yield
            finally:
                self._pipeline = None

    def _sync_pipeline(self, *event_arguments: Any) -> None:
        """After a statement that returns rows, fetch them and the results of pending changes."""
        context = event_arguments[4]
        is_change = context.isinsert or context.isupdate or context.isdelete
        if self._pipeline is not None and not (
            is_change and not context.compiled.effective_returning
        ):
            self._pipeline.sync()

    def _as_store_error(self, error: Exception) -> Exception:
        """Return an error of the database as `StoreError`; the driver itself raises a pipeline's."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, self._engine.dialect.loaded_dbapi.Error):
            return error
        return StoreError(str(cause).strip().splitlines()[0])

    def _roll_back(self) -> None:
        try:
            self._connection.rollback()
        except SQLAlchemyError:  # PostgreSQL went away: the next job tries anew
            with suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.rollback()


def _group_by_call(batch: Sequence[_Job]) -> list[list[_Job]]:
    """Group jobs by call: those of the same function for different people share one."""
    calls: dict[tuple[Any, int], list[_Job]] = {}
    earlier_jobs: Counter[tuple[Any, int | None]] = Counter()
    for job in batch:
        key = (job.function, job.person)
        calls.setdefault((job.function, earlier_jobs[key]), []).append(job)
        earlier_jobs[key] += 1
    return list(calls.values())
