"""SPICE's Java processes, a parser of captions and a scorer of scene graphs, and the store of parsed captions.

Requests and answers are lines, described in `spice.js`. A parser works on one caption at a time, so a caption
that stalls it or needs too much memory is known.

The store is an SQLite file in the user's cache folder: several processes share it, and a killed one only loses uncommitted
captions.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....datasets.cores import count_cores
from ....datasets.errors import InputError
from ..java import (
    OPTIONS,
    SILENCE,
    JavaProcess,
    StalledError,
    java_program,
    pycocoevalcap_file,
    silence_message,
)
from .models import load_jars

#: A caption's scene graph: objects `[dog]`, attributes `[dog, brown]`, relations `[dog, grass, run on]`.
Tuples = list[list[str]]

# Seconds to wait for another process that writes.
_PATIENCE = 60.0
# SQLite takes 32,766 question marks in a statement, older versions 999.
_BATCH = 500

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ParseFailure:
    """The reason why a caption could not be parsed, and the limits that applied."""

    reason: str
    limits: str


Scene = Tuples | ParseFailure


class SceneStore:
    """Parsed captions, by their text.

    A damaged file is renamed and replaced by a new one; a file that cannot be written costs time later,
    not this run. Either is logged as a warning.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path

    def get(self, captions: Sequence[str]) -> dict[str, Scene]:
        """Return the scenes of those captions that are stored."""
        scenes: dict[str, Scene] = {}

        def read(connection: sqlite3.Connection) -> None:
            for start in range(0, len(captions), _BATCH):
                batch = captions[start : start + _BATCH]
                marks = ",".join("?" * len(batch))
                query = (
                    f"SELECT caption, tuples, reason, limits FROM scenes WHERE caption IN ({marks})"
                )
                for caption, tuples, reason, limits in connection.execute(query, batch):
                    if tuples is None:
                        scenes[caption] = ParseFailure(reason, limits)
                    else:
                        scenes[caption] = json.loads(tuples)

        self._use(read)
        return scenes

    def put(self, scenes: Mapping[str, Scene]) -> None:
        """Store scenes, all of them or none."""
        rows: list[tuple[str, str | None, str | None, str | None]] = []
        for caption, scene in scenes.items():
            if isinstance(scene, ParseFailure):
                rows.append((caption, None, scene.reason, scene.limits))
            else:
                rows.append((caption, json.dumps(scene, ensure_ascii=False), None, None))

        def write(connection: sqlite3.Connection) -> None:
            # One transaction.
            with connection:
                connection.executemany("REPLACE INTO scenes VALUES (?, ?, ?, ?)", rows)

        if rows:
            self._use(write)

    def _use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Work on the file, creating it if needed, unless it cannot be used."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS scenes "
                    "(caption TEXT PRIMARY KEY, tuples TEXT, reason TEXT, limits TEXT) WITHOUT ROWID"
                )
                work(connection)
        except (OSError, sqlite3.Error, ValueError) as error:
            self._give_up(self.path, error)

    def _give_up(self, path: Path, error: Exception) -> None:
        self.path = None
        is_damaged = isinstance(error, ValueError) or type(error) is sqlite3.DatabaseError
        if is_damaged:
            renamed = path.with_suffix(".damaged")
            try:
                path.replace(renamed)
                self.path = path
                remedy = f"it was renamed to {renamed.name}, and a new one begun"
            except OSError:
                remedy = "delete it"
        else:
            remedy = "parsed captions are not kept for the next run; set CAPTAU_CACHE=DIR"
        logger.warning("%s: %s; %s", path, error, remedy)


#: The parser's time grows with the cube of a caption's words: ten need 0.05 s, and 100 needed a minute
#: and a half on a busy machine. A caption that needs more seconds than this fails.
SECONDS = 900.0
#: Java's heap. The models take 0.8 GB, and a caption of 100 words as much again.
HEAP_GB = 4
#: Captions for which another parser is started: loading its models takes as long as parsing them.
_CAPTIONS_PER_PARSER = 200

# The file in which Linux states the memory that a container may use.
_CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
# Java's exit status if it runs out of memory and was told to exit then.
_OUT_OF_MEMORY = 3
# Seconds that an idle process waits for more work.
_IDLE_SECONDS = 15.0


class DiedError(Exception):
    """A process ended without an answer.

    Attributes:
        status: its exit status; negative where a signal killed it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class SpiceProcess(JavaProcess):
    """A Java that runs `spice.js`; `acquire` one, and `release` it.

    Args:
        can_parse: whether it loads CoreNLP's models; otherwise it only scores.

    Raises:
        InputError: if it does not start.
    """

    def __init__(self, *, can_parse: bool) -> None:
        self.can_parse = can_parse
        folder = pycocoevalcap_file("spice", "spice-1.0.jar").parent
        library = sorted((folder / "lib").glob("*.jar"))
        path = [folder / "spice-1.0.jar", *load_jars(), *library]

        command = [*OPTIONS, f"-Xmx{HEAP_GB}g", "-Xss64m", "-XX:+UseSerialGC"]
        command.append("-XX:+ExitOnOutOfMemoryError")
        # Scene graphs merge nodes in the order of a hash table whose hashes are random. With equal
        # hashes the order is that of insertion, and equal rows get equal scores.
        if not can_parse:
            command += ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"]
        command += ["-cp", os.pathsep.join(map(str, path))]
        command.append("org.mozilla.javascript.tools.shell.Main")
        command += ["-opt", "-1", str(Path(__file__).with_name("spice.js"))]
        if can_parse:
            command.append("parse")

        super().__init__(command, folder)
        try:
            self._answer(SILENCE)
        except StalledError as error:
            raise InputError(silence_message(self.program)) from error
        except DiedError as error:
            raise InputError(str(error)) from error
        except BaseException:
            self.stop()
            raise

    def ask(self, request: Any, seconds: float = SILENCE) -> Any:
        """Send a request, and return the answer.

        Raises:
            StalledError: if it takes longer than `seconds`.
            DiedError: if the process ends instead.
        """
        assert self.process.stdin is not None
        # A dead process gives no answer, which is raised below.
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

        return self._answer(seconds)

    def _answer(self, seconds: float) -> Any:
        line = self.read_line(seconds)
        try:
            return json.loads(line)
        except ValueError:
            # Java complains about too large a heap on its standard output.
            error = DiedError(*self.end(line))
            self.stop()
            raise error from None


# Idle processes. A reference at a time (`mean_over_single`) makes several passes over the rows, and
# would start processes for each pass.
_idle: dict[SpiceProcess, threading.Timer] = {}
_idle_lock = threading.Lock()


def acquire(*, can_parse: bool) -> SpiceProcess:
    """Return an idle process, or a new one.

    Raises:
        InputError: if it does not start.
    """
    with _idle_lock:
        for process in [p for p in _idle if p.can_parse == can_parse]:
            _idle.pop(process).cancel()
            if process.is_usable:
                return process
            process.stop()

    return SpiceProcess(can_parse=can_parse)


def release(process: SpiceProcess) -> None:
    """Let a process wait for work; it is stopped if none comes."""

    def stop() -> None:
        with _idle_lock:
            timer = _idle.pop(process, None)
        if timer is not None:
            process.stop()

    timer = threading.Timer(_IDLE_SECONDS, stop)
    timer.daemon = True
    with _idle_lock:
        _idle[process] = timer
    timer.start()


@atexit.register
def stop_idle() -> None:
    """Stop the idle processes."""
    with _idle_lock:
        processes = list(_idle)
        for process in processes:
            _idle.pop(process).cancel()
    for process in processes:
        process.stop()


def parse(captions: Sequence[str]) -> Generator[tuple[str, Scene]]:
    """Parse captions, several at a time.

    A process that is killed is started again once for the caption that it worked on.

    Args:
        captions: distinct ones, as PTB tokens.

    Yields:
        each caption with its scene, in the order in which they are done.

    Raises:
        InputError: if Java does not start, or dies twice over one caption.
    """
    clients = [_JarClient(can_parse=True) for _ in range(_count_parsers(len(captions)))]
    free_clients = queue.SimpleQueue[_JarClient]()
    for client in clients:
        free_clients.put(client)

    def parse_caption(caption: str) -> tuple[str, Scene]:
        client = free_clients.get()
        try:
            return caption, _parse_caption(client, caption)
        finally:
            free_clients.put(client)

    with ThreadPoolExecutor(len(clients)) as pool:
        try:
            for parsed in as_completed([pool.submit(parse_caption, c) for c in captions]):
                yield parsed.result()
            for client in clients:
                client.finish()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for client in clients:
                client.stop()


def _parse_caption(client: _JarClient, caption: str) -> Scene:
    try:
        answer = client.ask(caption, SECONDS)
    except StalledError:
        return _failure(f"it took longer than {SECONDS:g} s")
    except DiedError as error:
        if error.status == _OUT_OF_MEMORY:
            return _failure(f"it needs more than {HEAP_GB} GB")
        raise InputError(f"SPICE's parser died twice over one caption: {error}") from error

    return _failure(answer["error"]) if isinstance(answer, dict) else answer


def _count_parsers(n_captions: int) -> int:
    """Choose the number of parsers, by cores, memory and captions."""
    by_memory = int(_memory_gb() / (HEAP_GB + 1))
    return max(1, min(count_cores(), by_memory, n_captions // _CAPTIONS_PER_PARSER + 1))


def _memory_gb() -> float:
    """Return the memory of this machine or container, in GB; 0 if it is unknown."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    # Not on this system.
    except (AttributeError, ValueError, OSError):
        return 0.0

    try:
        container_memory = int(_CONTAINER_MEMORY.read_text(encoding="ascii")) / 2**30
        return min(memory, container_memory)
    # No container, or "max".
    except (OSError, ValueError):
        return memory


class _JarClient:
    """A client with a process of its own, which is started again once for a request over which it died."""

    def __init__(self, *, can_parse: bool) -> None:
        self.is_stopped = False
        self._can_parse = can_parse
        self._process: SpiceProcess | None = None

    def ask(self, request: Any, seconds: float) -> Any:
        is_retry = False
        while True:
            if self._process is None:
                self._process = acquire(can_parse=self._can_parse)
                # It may have been stopped while the process started.
                if self.is_stopped:
                    self._process.stop()

            try:
                return self._process.ask(request, seconds)
            except StalledError:
                self._process = None
                raise
            except DiedError as error:
                self._process = None
                if is_retry or self.is_stopped or error.status == _OUT_OF_MEMORY:
                    raise
                is_retry = True

    def finish(self) -> None:
        """Release the process for others, after the last request."""
        process = self._process
        self._process = None
        if process is not None:
            release(process)

    def stop(self) -> None:
        """Stop the process, even during a request."""
        self.is_stopped = True
        if self._process is not None:
            self._process.stop()


def score(requests: Iterable[Sequence[Tuples]]) -> Generator[dict[str, Any]]:
    """Score rows.

    Args:
        requests: the tuples of each row's candidate, then those of each of its references.

    Yields:
        each row's figures by kind of tuple, as SPICE prints them.

    Raises:
        InputError: if Java does not start, stalls, or dies twice over one row.
    """
    client = _JarClient(can_parse=False)
    try:
        for request in requests:
            answer = client.ask(request, SILENCE)
            if isinstance(answer, dict):
                raise InputError(f"SPICE failed: {answer['error']}")
            yield answer[0]["scores"]
        client.finish()
    except StalledError as error:
        raise InputError(silence_message(java_program())) from error
    except DiedError as error:
        raise InputError(f"SPICE died while it scored: {error}") from error
    finally:
        client.stop()


def _failure(reason: str) -> ParseFailure:
    return ParseFailure(reason, limits())


def limits() -> str:
    """Name the limits of parsing; a caption that failed is tried again if they changed."""
    return f"{SECONDS:g} s, {HEAP_GB} GB"
