"""SPICE's Java programs: started, asked a line at a time, and given up where they stall or die.

`spice.js` says what is asked and answered. A parser has one caption in hand at a time, so the one
that stalls it or needs more memory than there is is known by name.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....datasets.errors import InputError
from ..java import OPTIONS, SILENCE, exit_message, java_program, pycocoevalcap_file, silence_message
from .models import jars
from .scene_store import Failure, Parsed, Tuples

#: The parser's time grows with the cube of a caption's words: ten need 0.05 s, and 100 needed a minute
#: and a half on a busy machine. A caption that needs more seconds than this is given up.
SECONDS = 900.0
#: Java's heap. The models take 0.8 GB, and a caption of 100 words as much again.
HEAP_GB = 4
#: A further parser is started for so many captions, since loading the models takes as long.
_WORTH_A_PARSER = 200

# Where Linux tells the memory that a container may use.
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
# The status that Java ends with when it is told to end for want of memory.
_OUT_OF_MEMORY = 3
# So many seconds are left to a program that stopped answering before it is killed.
_DYING = 5.0
# So many seconds a program waits for more work.
_IDLE = 15.0


class StalledError(Exception):
    """No answer within the time limit; the program was ended."""


class DiedError(Exception):
    """The program ended without an answer.

    Attributes:
        status: its exit status; negative where a signal killed it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Program:
    """One Java that runs `spice.js`; `take` one, and `give` it back.

    Args:
        parses: whether it loads CoreNLP's models; else it can score alone.

    Raises:
        InputError: where it does not start.
    """

    def __init__(self, *, parses: bool) -> None:
        self.parses = parses
        self._java = java_program()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        folder = pycocoevalcap_file("spice", "spice-1.0.jar").parent
        library = sorted((folder / "lib").glob("*.jar"))
        path = [folder / "spice-1.0.jar", *jars(), *library]
        # Scene graphs merge nodes in the order of a hash table whose hashes are drawn by lot. All
        # hashes equal, the order is that of insertion, and equal rows get equal scores.
        orders = ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"]
        command = [self._java, *OPTIONS, f"-Xmx{HEAP_GB}g", "-Xss64m", "-XX:+UseSerialGC"]
        command += ["-XX:+ExitOnOutOfMemoryError", *([] if parses else orders)]
        command += [
            "-cp",
            os.pathsep.join(map(str, path)),
            "org.mozilla.javascript.tools.shell.Main",
        ]
        command += ["-opt", "-1", str(Path(__file__).with_name("spice.js"))]
        command += ["parse"] if parses else []
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._errors, cwd=folder
            )
        except OSError as error:
            raise InputError(f"Java did not start: {self._java} ({error.strerror})") from error
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._answer(SILENCE)
        except StalledError as error:
            raise InputError(silence_message(self._java)) from error
        except DiedError as error:
            raise InputError(str(error)) from error
        except BaseException:
            self.stop()
            raise

    def ask(self, request: Any, seconds: float = SILENCE) -> Any:
        """The answer to a request.

        Raises:
            StalledError: where it takes longer than `seconds`.
            DiedError: where the program ends instead.
        """
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # what has died gives no answer, which is told below
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        return self._answer(seconds)

    @property
    def serves(self) -> bool:
        """Whether it still runs, and is the Java that is to be used."""
        return self.process.poll() is None and self._java == java_program()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            with suppress(OSError):
                if stream is not None:
                    stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # closed by `stop`
            for line in self.process.stdout:
                self._answers.put(line)
        self._answers.put(b"")

    def _answer(self, seconds: float) -> Any:
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty as error:
            self.stop()
            raise StalledError from error
        try:
            return json.loads(line)
        except ValueError:
            raise self._end(line) from None

    def _end(self, said: bytes) -> DiedError:
        """How the program ended; one that says what is no answer is ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_DYING)
        self.process.kill()
        status = self.process.wait()
        self._errors.seek(0)
        # Of a heap that it cannot have, Java complains on its standard output.
        error = DiedError(status, exit_message(self._java, status, self._errors.read() or said))
        self.stop()
        return error


# Programs without work. A reference at a time (`mean_over_single`) makes several passes over the
# rows, and each program would be started for each pass.
_idle: dict[Program, threading.Timer] = {}
_idling = threading.Lock()


def take(*, parses: bool) -> Program:
    """A program that is idle, else a new one.

    Raises:
        InputError: where it does not start.
    """
    with _idling:
        for program in [p for p in _idle if p.parses == parses]:
            _idle.pop(program).cancel()
            if program.serves:
                return program
            program.stop()
    return Program(parses=parses)


def give(program: Program) -> None:
    """Let a program wait for work; it is stopped when none comes."""

    def stop() -> None:
        with _idling:
            waits = _idle.pop(program, None)
        if waits is not None:
            program.stop()

    timer = threading.Timer(_IDLE, stop)
    timer.daemon = True
    with _idling:
        _idle[program] = timer
    timer.start()


@atexit.register
def stop_idle() -> None:
    """Stop the programs without work."""
    with _idling:
        programs = list(_idle)
        for program in programs:
            _idle.pop(program).cancel()
    for program in programs:
        program.stop()


def parse(captions: Sequence[str]) -> Generator[tuple[str, Parsed]]:
    """Parse captions, several at a time.

    A program that is killed is started again once for the caption it had in hand.

    Args:
        captions: distinct ones, as PTB tokens.

    Yields:
        each caption with what was found in it, or why nothing was, as it is done.

    Raises:
        InputError: where Java does not start, or dies twice over one caption.
    """
    waiting = iter(captions)
    taking = threading.Lock()
    done: queue.Queue[tuple[str, Parsed] | BaseException | None] = queue.Queue()
    workers = [_Worker(waiting, taking, done) for _ in range(_parsers(len(captions)))]
    for worker in workers:
        worker.start()
    try:
        left = len(workers)
        while left:
            one = done.get()
            if isinstance(one, BaseException):
                raise one
            if one is None:
                left -= 1
            else:
                yield one
    finally:
        for worker in workers:
            worker.stop()


def _parsers(captions: int) -> int:
    """How many programs parse at once: by cores, memory, and what there is to do."""
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable else os.cpu_count() or 1
    return max(1, min(cores, int(_memory() / (HEAP_GB + 1)), captions // _WORTH_A_PARSER + 1))


def _memory() -> float:
    """The memory of this machine, or what a container has of it, in GB; 0 where nothing tells."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):  # not on this system
        return 0.0
    try:
        return min(memory, int(_CONTAINER.read_text(encoding="ascii")) / 2**30)
    except (OSError, ValueError):  # no container, or "max"
        return memory


class _Worker(threading.Thread):
    """Parses one caption after the other, with a program of its own.

    Args:
        waiting: the captions that nobody has taken yet.
        taking: held while one is taken.
        done: gets each caption with what was found; what was raised; and None at the end.
    """

    def __init__(
        self,
        waiting: Iterator[str],
        taking: threading.Lock,
        done: queue.Queue[tuple[str, Parsed] | BaseException | None],
    ) -> None:
        super().__init__(daemon=True)
        self._waiting = waiting
        self._taking = taking
        self._done = done
        self._asker = _Asker(parses=True)

    def run(self) -> None:
        try:
            while not self._asker.stopped:
                with self._taking:
                    caption = next(self._waiting, None)
                if caption is None:
                    self._asker.rest()
                    break
                self._done.put((caption, self._parse(caption)))
        except BaseException as error:
            self._done.put(error)
        finally:
            self.stop()
            self._done.put(None)

    def stop(self) -> None:
        self._asker.stop()

    def _parse(self, caption: str) -> Parsed:
        try:
            answer = self._asker.ask(caption, SECONDS)
        except StalledError:
            return _failure(f"it took longer than {SECONDS:g} s")
        except DiedError as error:
            if error.status == _OUT_OF_MEMORY:
                return _failure(f"it needs more than {HEAP_GB} GB")
            raise InputError(f"SPICE's parser died twice over one caption: {error}") from error
        return _failure(answer["error"]) if isinstance(answer, dict) else answer


class _Asker:
    """Asks a program of its own, which is started again once for a request over which it died."""

    def __init__(self, *, parses: bool) -> None:
        self.stopped = False
        self._parses = parses
        self._program: Program | None = None

    def ask(self, request: Any, seconds: float) -> Any:
        retried = False
        while True:
            if self._program is None:
                self._program = take(parses=self._parses)
                if self.stopped:  # while it started
                    self._program.stop()
            try:
                return self._program.ask(request, seconds)
            except StalledError:
                self._program = None
                raise
            except DiedError as error:
                self._program = None
                if retried or self.stopped or error.status == _OUT_OF_MEMORY:
                    raise
                retried = True

    def rest(self) -> None:
        """Nothing more is asked: the program may serve others."""
        self.stopped = True
        program, self._program = self._program, None
        if program is not None:
            give(program)

    def stop(self) -> None:
        """Whatever is being asked is given up."""
        self.stopped = True
        if self._program is not None:
            self._program.stop()


def score(requests: Iterable[Sequence[Tuples]]) -> Generator[dict[str, Any]]:
    """Score rows.

    Args:
        requests: the tuples of each row's candidate, then those of each of its references.

    Yields:
        each row's figures by kind of tuple, as SPICE prints them.

    Raises:
        InputError: where Java does not start, stalls, or dies twice over one row.
    """
    asker = _Asker(parses=False)
    try:
        for request in requests:
            answer = asker.ask(request, SILENCE)
            if isinstance(answer, dict):
                raise InputError(f"SPICE failed: {answer['error']}")
            yield answer[0]["scores"]
        asker.rest()
    except StalledError as error:
        raise InputError(silence_message(java_program())) from error
    except DiedError as error:
        raise InputError(f"SPICE died while it scored: {error}") from error
    finally:
        asker.stop()


def _failure(reason: str) -> Failure:
    return Failure(reason, limits())


def limits() -> str:
    """Within which a caption has to be parsed: one that failed is tried again within others."""
    return f"{SECONDS:g} s, {HEAP_GB} GB"
