"""Checks and evaluates submissions in processes of their own, and keeps those processes alive.

`Workers` is the server's side. A worker is `python -m captau.server.challenge.workers.worker`: it gets what it
needs on standard input, which stays open as long as the server lives, and ends when that closes. It
works on the database beside the server; whose work counts, the rows say.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ....datasets.errors import InputError
from ...storage.database import Database, StoreError
from ..definition_file import Challenge, read_challenges
from ..submission_store import Store, Submission
from .work_queue import Queue

#: How often the server looks after its workers, and after messages that were lost, in seconds.
_LOOK, _SWEEP = 0.2, 5.0
#: How often progress is written down at most, in seconds.
_TELL = 0.5
#: The states in which submissions wait for each kind of work.
_WAITS = {"check": "received", "evaluate": "queued"}
#: What is told of each kind.
_DOES = {"check": "checking", "evaluate": "evaluating"}


class Workers:
    """The worker processes of a site.

    Args:
        store: the site's.
        queues: by kind, whom to wake.
        setup: what a worker gets on its standard input.
        evaluating: how many evaluate at once; one more checks.
    """

    def __init__(
        self,
        store: Store,
        queues: Mapping[str, Queue],
        setup: Mapping[str, Any],
        evaluating: int = 1,
    ) -> None:
        self._store, self._queues, self._setup = store, queues, setup
        kinds = ["check"] + ["evaluate"] * evaluating
        self._all = [_Process(kind, self._setup) for kind in kinds]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="captau-workers", daemon=True)

    def start(self) -> None:
        """Wake them for all that waits, and keep them alive."""
        for queue in self._queues.values():
            queue.clear()
        self._wake()
        self._thread.start()

    def stop(self) -> None:
        """End them; what they had begun waits for the next start."""
        self._stop.set()
        self._thread.join()
        for one in self._all:
            one.kill()

    def wake(self, kind: str, number: int) -> None:
        """There is work; not for the loop's thread."""
        # Where the queue is away for a moment, the sweep sees to it.
        with contextlib.suppress(Exception):
            self._queues[kind].put([number])

    def _wake(self) -> None:
        """Send the messages of all that waits, and nobody knows of."""
        waiting = self._store.database.run_blocking(self._store.waiting)
        for kind, state in _WAITS.items():
            with contextlib.suppress(Exception):
                if waiting[state] and not self._queues[kind].size:
                    self._queues[kind].put(waiting[state])

    def _look_after(self) -> None:
        swept, said = time.monotonic(), ""
        while not self._stop.wait(_LOOK):
            try:
                for one in self._all:
                    self._look_at(one)
                if time.monotonic() - swept > _SWEEP:
                    swept = time.monotonic()
                    self._wake()
                said = ""
            except (StoreError, OSError) as error:  # no database, process or file for now: later
                if said != str(error):  # once, for a log on the same full disk
                    print(f"captau: workers: {error}", file=sys.stderr)
                said = str(error)

    def _look_at(self, one: _Process) -> None:
        """Start a process that is not there; end one that is at a submission for too long."""
        store = self._store
        if one.alive:
            over = store.database.run_blocking(lambda c: store.too_long(c, one.name))
            if over:
                one.kill()
                self._gone(one, f"{_DOES[one.kind]} it took too long")
        elif one.started:
            self._gone(one, f"the process that was at work on it ended ({one.ended})")
        if not one.alive and one.rested:
            one.start()

    def _gone(self, one: _Process, reason: str) -> None:
        again = self._store.database.run_blocking(
            lambda c: self._store.give_up(c, one.name, reason)
        )
        one.started = False
        for number in again:
            self.wake(one.kind, number)


class _Process:
    """A worker's process; each has a name of its own, by which rows tell whose work counts."""

    def __init__(self, kind: str, setup: Mapping[str, Any]) -> None:
        self.kind, self._setup = kind, setup
        self.name = ""
        self.started = False
        self._process: subprocess.Popen[bytes] | None = None
        self._at, self._rest = -1e9, 0.0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> str:
        """How."""
        code = 0 if self._process is None else self._process.returncode
        return f"signal {-code}" if code < 0 else f"status {code}"

    @property
    def rested(self) -> bool:
        """Whether it may start again: one that ends soon after its start rests longer each time."""
        return time.monotonic() - self._at > self._rest

    def start(self) -> None:
        short = time.monotonic() - self._at < 10
        self._rest = min(max(2 * self._rest, 0.2), 30.0) if short else 0.0
        self._at = time.monotonic()
        self.name, self.started = secrets.token_hex(8), True
        self._process = subprocess.Popen(
            [sys.executable, "-m", "captau.server.challenge.workers.worker"],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the server's, which ends them
        )
        line = json.dumps({**self._setup, "kind": self.kind, "name": self.name})
        with contextlib.suppress(OSError):  # it ended at once
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Worker:
    """A worker in its own process.

    Args:
        setup: `challenge, database, files, queue, data_root, kind, name`.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        from ..evaluation.evaluator import Prepared
        from ..migrations import FOLDER

        root = setup["data_root"]
        challenges = read_challenges(setup["challenge"], Path(root) if root else None)
        self._kind: Literal["check", "evaluate"] = setup["kind"]
        self._name: str = setup["name"]
        self._database = Database(setup["database"], FOLDER, "captau serve", guest=True)
        self._store = Store(self._database, challenges, Path(setup["files"]), guest=True)
        self._prepared = {c.name: Prepared(c) for c in challenges}
        self._queue = Queue(setup["queue"], self._kind, self.work)
        self._next = Queue(setup["queue"], "evaluate") if self._kind == "check" else self._queue
        self._memory = max(c.limits.memory for c in challenges) << 20

    def run(self) -> None:
        """Work until the process ends, in no more memory than is given."""
        _bound(self._memory, 10 if self._kind == "check" else 15)
        self.warm()
        huey = logging.getLogger("huey")
        huey.addHandler(_Short(logging.ERROR))
        huey.propagate = False
        consumer = self._queue.huey.create_consumer(
            workers=1, periodic=False, initial_delay=0.05, max_delay=0.25, backoff=1.5
        )
        consumer.run()

    def warm(self) -> None:
        """What challenges need once, before the first submission waits for it."""
        for one in self._prepared.values():
            if self._kind == "check":
                lines = (json.dumps(row, ensure_ascii=False) for row in one.listed())
                content = "".join(f"{line}\n" for line in lines).encode()
                _write(listing(self._store, one.challenge), content)
            else:
                one.warm()
                self._human(one.challenge)

    def _human(self, challenge: Challenge) -> None:
        """People's own scores, once."""
        name = challenge.name
        if challenge.human == "none" or self._database.run_blocking(
            lambda c: self._store.human(c, name)
        ):
            return
        rows = self._prepared[name].human()
        self._database.run_blocking(lambda c: self._store.set_human(c, name, rows))

    def work(self, number: int) -> None:
        """Check or evaluate a submission, unless somebody else does."""
        store, do = self._store, self._database.run_blocking
        row = do(lambda c: store.claim(c, number, self._name, _WAITS[self._kind]))
        if row is None:
            return
        one = self._check if self._kind == "check" else self._evaluate
        try:
            one(row)
        except BaseException as error:
            reason, final = _reason(error, self._kind)
            # Names and places in our code alone: what an error says may quote a reference.
            print(f"captau: submission {row.id}: {_where(error)}", file=sys.stderr, flush=True)
            try:
                again = do(lambda c: store.give_up(c, self._name, reason, final=final))
            except StoreError:  # as on a full disk: the server lets go of it for who is gone
                os._exit(2)
            self._queue.put(again)
            if not isinstance(error, Exception):
                raise

    def _check(self, row: Submission) -> None:
        from ..intake.uploads import check

        folder = self._store.folder / row.key
        verdict = check(self._prepared[row.challenge], folder, row.file)
        faults, n, summary = verdict.faults, verdict.n_faults, verdict.summary
        store = self._store
        self._database.run_blocking(
            lambda c: store.checked(c, row.id, self._name, faults, n, summary)
        )
        if not n:
            self._next.put([row.id])

    def _evaluate(self, row: Submission) -> None:
        from ..evaluation.evaluator import pack, packed
        from ..intake.uploads import evaluated_file

        prepared, store = self._prepared[row.challenge], self._store
        folder = store.folder / row.key
        found = prepared.evaluate(evaluated_file(prepared.challenge, folder), self._teller(row.id))
        for name, content in (("items", packed(found.items)), ("drawn", pack(found.drawn))):
            _write(folder / f"{name}.parquet", content)
        result = {
            "seconds": found.seconds,
            "digest": store.digests[row.challenge],
            "scores": found.scores,
            "run": found.run,
        }
        self._database.run_blocking(lambda c: store.finish(c, row.id, self._name, result))

    def _teller(self, number: int) -> Callable[[float, str], None]:
        """Writes progress down, now and then."""
        last = [-_TELL]
        lock = threading.Lock()

        def tell(share: float, step: str) -> None:
            with lock:
                if time.monotonic() - last[0] < _TELL:
                    return
                last[0] = time.monotonic()
            store = self._store
            self._database.run_blocking(lambda c: store.advance(c, number, self._name, share, step))

        return tell


def listing(store: Store, challenge: Challenge) -> Path:
    """The file of what a submission has to have: JSON lines with `image_id`, or items.

    A worker writes it, so that the server never holds references or ratings.
    """
    return store.folder / f"{challenge.name}.jsonl"


class _Short(logging.Handler):
    """What the queue says of its errors, in a line."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        said = f": {kind.__name__}" if kind is not None else ""
        print(f"captau: queue: {record.getMessage()}{said}", file=sys.stderr, flush=True)


def _bound(memory: int, nice: int) -> None:
    """No more memory than is given, and pages go first."""
    with contextlib.suppress(
        ImportError, OSError, ValueError
    ):  # where the system knows no such bounds
        import resource

        os.nice(nice)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _write(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


def _reason(error: BaseException, kind: str) -> tuple[str, bool]:
    """What a team is told of an error of ours, and whether another try would end alike."""
    if _of_memory(error):
        return "it took more memory than is given", False
    if isinstance(error, InputError):
        if kind == "check":
            return "it could not be read", True
        return "the metrics could not be computed; ask whoever runs the challenge", True
    return "something went wrong here", False


def _of_memory(error: BaseException | None) -> bool:
    """Whether an error is a lack of memory, or was raised from one."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__
    return error is not None


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    return f"{type(error).__name__} at {places}"


def main() -> None:
    """A worker, until standard input closes."""
    setup = json.loads(sys.stdin.buffer.readline())

    def until_closed() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=until_closed, daemon=True).start()
    try:
        Worker(setup).run()
    except Exception as error:
        # Without its text, as above; `captau score` and `captau bench` on the same files tell more.
        print(f"captau: a worker ended: {_where(error)}", file=sys.stderr, flush=True)
        os._exit(2)


if __name__ == "__main__":
    main()
