"""The server's side of the workers: starts their processes, keeps them alive and wakes them."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from ...storage.database import StoreError
from ..submission_lifecycle import SubmissionLifecycle
from .work_queue import WorkKind, WorkQueue

_log = logging.getLogger(__name__)

#: The seconds between looks at the workers, and between searches for submissions whose message was lost.
_LOOK_INTERVAL, _SWEEP_INTERVAL = 0.2, 5.0
#: Names of the work for messages.
_ACTIVITY = {WorkKind.CHECK: "checking", WorkKind.EVALUATE: "evaluating"}


class WorkerPool:
    """The worker processes of a site.

    Args:
        lifecycle: of the site's submissions.
        queues: by kind of work, to wake workers.
        setup: what each worker gets on its standard input (`worker.Worker`).
        n_evaluating: the number of workers that evaluate; another one checks.
    """

    def __init__(
        self,
        lifecycle: SubmissionLifecycle,
        queues: Mapping[WorkKind, WorkQueue],
        setup: Mapping[str, Any],
        n_evaluating: int = 1,
    ) -> None:
        self._lifecycle, self._queues = lifecycle, queues
        kinds = [WorkKind.CHECK, *([WorkKind.EVALUATE] * n_evaluating)]
        self._workers = [WorkerProcess(kind, setup) for kind in kinds]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="captau-workers", daemon=True)

    def start(self) -> None:
        """Start the workers and wake them for all submissions that wait."""
        for queue in self._queues.values():
            queue.clear()
        self._wake_for_waiting()
        self._thread.start()

    def stop(self) -> None:
        """End the workers; the submissions that they had begun wait for the next start."""
        self._stopping.set()
        self._thread.join()
        for worker in self._workers:
            worker.kill()

    def wake(self, kind: WorkKind, number: int) -> None:
        """Wake a worker for a submission; blocks, so not for the event loop's thread."""
        # If the queue is away for a moment, the next sweep sends the message.
        with contextlib.suppress(Exception):
            self._queues[kind].put([number])

    def _wake_for_waiting(self) -> None:
        """Send messages for all submissions that wait, unless there are messages."""
        waiting = self._lifecycle.list_waiting()
        for kind, queue in self._queues.items():
            numbers = waiting[kind.waiting_state]
            with contextlib.suppress(Exception):
                if numbers and not queue.size:
                    queue.put(numbers)

    def _supervise(self) -> None:
        last_sweep, last_error = time.monotonic(), ""
        while not self._stopping.wait(_LOOK_INTERVAL):
            try:
                for worker in self._workers:
                    self._look_after(worker)
                if time.monotonic() - last_sweep > _SWEEP_INTERVAL:
                    last_sweep = time.monotonic()
                    self._wake_for_waiting()
                last_error = ""
            except (StoreError, OSError) as error:  # no database, process or file: tried again
                if last_error != str(error):  # once, for a log on the same full disk
                    _log.warning("workers: %s", error)
                last_error = str(error)

    def _look_after(self, worker: WorkerProcess) -> None:
        """Start a worker that is not running; end one that exceeds the time for a submission."""
        if worker.is_alive:
            if self._lifecycle.is_overdue(worker.name):
                worker.kill()
                self._release(worker, f"{_ACTIVITY[worker.kind]} it took too long")
        elif worker.is_started:
            self._release(worker, f"the process that was at work on it ended ({worker.exit_text})")
        if not worker.is_alive and worker.may_restart:
            worker.start()

    def _release(self, worker: WorkerProcess, reason: str) -> None:
        """Give up the submission that an ended worker had begun."""
        waiting = self._lifecycle.give_up(worker.name, reason)
        worker.is_started = False
        for number in waiting:
            self.wake(worker.kind, number)


class WorkerProcess:
    """A worker's process. Each start gets a new name, by which rows tell whose work counts.

    Attributes:
        is_started: whether the process was started and its end not noticed yet.
    """

    def __init__(self, kind: WorkKind, setup: Mapping[str, Any]) -> None:
        self.kind, self._setup = kind, setup
        self.name = ""
        self.is_started = False
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at, self._pause = -1e9, 0.0

    @property
    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_text(self) -> str:
        """Return the exit status or signal of an ended process, for messages."""
        code = 0 if self._process is None else self._process.returncode
        return f"signal {-code}" if code < 0 else f"status {code}"

    @property
    def may_restart(self) -> bool:
        """Return whether its pause is over; a process that ends soon after its start pauses longer."""
        return time.monotonic() - self._started_at > self._pause

    def start(self) -> None:
        """Start the process and send its setup."""
        ended_soon = time.monotonic() - self._started_at < 10
        self._pause = min(max(2 * self._pause, 0.2), 30.0) if ended_soon else 0.0
        self._started_at = time.monotonic()
        self.name, self.is_started = secrets.token_hex(8), True
        self._process = subprocess.Popen(
            [sys.executable, "-m", "captau.server.challenge.workers.worker"],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the server, which ends the workers
        )
        line = json.dumps({**self._setup, "kind": self.kind, "name": self.name})
        with contextlib.suppress(OSError):  # it ended at once
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
