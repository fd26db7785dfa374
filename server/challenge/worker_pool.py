"""The server's side of the workers: it starts their processes when submissions wait, and keeps them alive."""

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
from enum import StrEnum, auto
from typing import Any

from ..storage.database import StoreError
from .submission_lifecycle import SubmissionLifecycle
from .submissions import SubmissionState

_log = logging.getLogger(__name__)

#: The seconds between looks at the workers, and at the submissions that wait.
_LOOK_INTERVAL = 0.2


class WorkKind(StrEnum):
    """The kinds of work; each has its own workers, so that checks do not wait for evaluations."""

    CHECK = auto()
    EVALUATE = auto()

    @property
    def waiting_state(self) -> SubmissionState:
        """Return the state of submissions that wait for this work."""
        if self is WorkKind.CHECK:
            return SubmissionState.RECEIVED

        return SubmissionState.QUEUED


#: Names of the work for messages.
_ACTIVITY = {WorkKind.CHECK: "checking", WorkKind.EVALUATE: "evaluating"}


class WorkerPool:
    """The worker processes of a site; they start when a submission waits, find their work, and end when none is left.

    Args:
        lifecycle: of the site's submissions.
        setup: what each worker gets on its standard input (`worker.Worker`).
        n_evaluating: the number of workers that evaluate; another one checks.
        starts_at_once: whether evaluators have work before the first submission, as human captions to score.
    """

    def __init__(
        self,
        lifecycle: SubmissionLifecycle,
        setup: Mapping[str, Any],
        n_evaluating: int = 1,
        *,
        starts_at_once: bool = False,
    ) -> None:
        self._lifecycle = lifecycle
        self._starts_at_once = starts_at_once
        kinds = [WorkKind.CHECK]
        kinds += [WorkKind.EVALUATE] * n_evaluating
        self._workers = [WorkerProcess(kind, setup) for kind in kinds]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="captau-workers", daemon=True)

    def start(self) -> None:
        """Begin to look for submissions that wait."""
        self._thread.start()

    def stop(self) -> None:
        """End the workers; the submissions that they had begun wait for the next start."""
        # The supervisor ends first: it would start the workers anew.
        self._stopping.set()
        self._thread.join()
        for worker in self._workers:
            worker.kill()

    def _supervise(self) -> None:
        last_error = ""
        while not self._stopping.wait(_LOOK_INTERVAL):
            try:
                is_needed = self._starts_at_once or self._lifecycle.has_unfinished()
                for worker in self._workers:
                    self._look_after(worker, is_needed=is_needed)
                self._starts_at_once = False
                last_error = ""
            except (StoreError, OSError) as error:  # no database, process or file: tried again
                if last_error != str(error):  # once, for a log on the same full disk
                    _log.warning("workers: %s", error)
                last_error = str(error)

    def _look_after(self, worker: WorkerProcess, *, is_needed: bool) -> None:
        """Start a worker that is needed and not running; end one that exceeds the time for a submission."""
        if worker.is_alive:
            if self._lifecycle.is_overdue(worker.name):
                worker.kill()
                self._release(worker, f"{_ACTIVITY[worker.kind]} it took too long")
        elif worker.is_started:
            self._release(worker, f"the process that was at work on it ended ({worker.exit_text})")

        if is_needed and not worker.is_alive and worker.may_restart:
            worker.start()

    def _release(self, worker: WorkerProcess, reason: str) -> None:
        """Give up the submission that an ended worker had begun."""
        self._lifecycle.give_up(worker.name, reason)
        worker.is_started = False


class WorkerProcess:
    """A worker's process. Each start gets a new name, by which rows tell whose work counts.

    Attributes:
        is_started: whether the process was started and its end not noticed yet.
    """

    def __init__(self, kind: WorkKind, setup: Mapping[str, Any]) -> None:
        self.kind = kind
        self._setup = setup
        self.name = ""
        self.is_started = False
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = -1e9
        self._pause = 0.0

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
        # A former process that is still at work can record nothing under a new name.
        self.name = secrets.token_hex(8)
        self.is_started = True

        self._process = subprocess.Popen(
            [sys.executable, "-m", "captau.server.challenge.worker"],
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


class _LineHandler(logging.Handler):
    """Prints a message as one line, without the text of an exception, which may quote a reference."""

    def emit(self, record: logging.LogRecord) -> None:
        exception = record.exc_info[0] if record.exc_info else None
        suffix = f": {exception.__name__}" if exception is not None else ""
        print(f"captau: {record.getMessage()}{suffix}", file=sys.stderr, flush=True)


def log_to_stderr() -> None:
    """Print the warnings and errors of `captau.server` to standard error, each once as a line."""
    logger = logging.getLogger("captau.server")
    logger.propagate = False  # the command line prints what reaches `captau`
    if not any(isinstance(handler, _LineHandler) for handler in logger.handlers):
        logger.addHandler(_LineHandler(logging.WARNING))
