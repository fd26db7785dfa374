"""A worker: a process that checks or evaluates submissions, `python -m captau.server.challenge.worker`.

It gets its setup on standard input, which stays open as long as the server lives, and ends when that closes. It
opens the server's database, where submissions wait; rows tell whose work counts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ..storage.database import Database
from .definition_file import read_challenges
from .evaluation import make_evaluator
from .evaluation.evaluator import Evaluator, ReportProgress
from .store_opening import open_store_for_worker
from .submission_files import write_item_scores, write_replicates
from .submission_lifecycle import SubmissionLifecycle
from .submissions import Submission, load_status, save_human_scores
from .tables import SCHEMA
from .worker_pool import WorkKind, log_to_stderr

# Not `__name__`, which is `__main__` in a worker.
_log = logging.getLogger("captau.server.challenge.worker")

#: The seconds between looks for work, and the least seconds between two records of progress.
_LOOK_INTERVAL = 0.2
_REPORT_INTERVAL = 0.5
#: The seconds without work after which a worker ends, so that an idle site needs no memory for it.
_IDLE_SECONDS = 300.0
#: The process priority (`nice`) by kind of work; pages go first.
_NICENESS = {WorkKind.CHECK: 10, WorkKind.EVALUATE: 15}


class Worker:
    """A worker in its own process.

    Args:
        setup: `challenge, database, files, data_root, kind, name`.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        root = setup["data_root"]
        challenges = read_challenges(setup["challenge"], Path(root) if root else None)

        self._kind = WorkKind(setup["kind"])
        self._name = str(setup["name"])
        self._database = Database(Path(setup["database"]), SCHEMA, guest=True)
        self._store = open_store_for_worker(self._database, challenges, Path(setup["files"]))
        self._lifecycle = SubmissionLifecycle(self._store)

        self._evaluators = {c.name: make_evaluator(c) for c in challenges}
        megabytes = max(c.limits.memory for c in challenges)
        self._memory = megabytes * 1024 * 1024

    def run(self) -> None:
        """Work until nothing has come for a while, within the challenges' limit of memory."""
        _limit_resources(self._memory, _NICENESS[self._kind])
        self.warm_up()

        last_work = time.monotonic()
        while time.monotonic() - last_work < _IDLE_SECONDS:
            if self.work():
                last_work = time.monotonic()
            else:
                time.sleep(_LOOK_INTERVAL)

    def warm_up(self) -> None:
        """Do what each challenge needs once for its evaluations."""
        if self._kind is not WorkKind.EVALUATE:
            return

        for evaluator in self._evaluators.values():
            evaluator.warm_up()
            self._score_human_captions(evaluator)

    def _score_human_captions(self, evaluator: Evaluator) -> None:
        """Score human captions, unless that is done or the challenge has none."""
        challenge = evaluator.challenge
        if not challenge.scores_people:
            return

        status = self._database.run_blocking(lambda c: load_status(c, challenge))
        if not status.human_scores:
            rows = evaluator.score_human_captions()
            self._database.run_blocking(lambda c: save_human_scores(c, challenge, rows))

    def work(self) -> bool:
        """Check or evaluate the submission that has waited longest; return False if none waits."""
        submission = self._lifecycle.claim_next(self._name, self._kind.waiting_state)
        if submission is None:
            return False

        try:
            if self._kind is WorkKind.CHECK:
                self._check(submission)
            else:
                self._evaluate(submission)
        except Exception as error:
            reason, is_final = explain_failure(error, self._kind)
            # Without the error's text, which may quote a reference.
            _log.error("submission %d: %s", submission.id, locate_error(error))
            self._lifecycle.give_up(self._name, reason, is_final=is_final)

        return True

    def _check(self, submission: Submission) -> None:
        evaluator = self._evaluators[submission.challenge]
        folder = self._store.folder / submission.key
        verdict = evaluator.check_submission(folder, submission.file)
        self._lifecycle.record_verdict(submission.id, self._name, verdict)

    def _evaluate(self, submission: Submission) -> None:
        evaluator = self._evaluators[submission.challenge]
        folder = self._store.folder / submission.key

        began = time.perf_counter()
        evaluation = evaluator.evaluate(folder, self._make_reporter(submission.id))
        seconds = round(time.perf_counter() - began, 3)

        # Files come before the result, so that a page that shows it finds them.
        write_item_scores(folder, evaluation.items)
        write_replicates(folder, evaluation.replicates)

        result = {
            "seconds": seconds,
            "digest": self._store.digests[submission.challenge],
            "scores": evaluation.scores,
            "run": evaluation.run,
        }
        self._lifecycle.record_result(submission.id, self._name, result)

    def _make_reporter(self, number: int) -> ReportProgress:
        """Return a function that records progress from time to time, called from any thread."""
        # The first report is recorded at once.
        last_report = -math.inf
        lock = threading.Lock()

        def report(share: float, step: str) -> None:
            nonlocal last_report
            with lock:
                if time.monotonic() - last_report < _REPORT_INTERVAL:
                    return
                last_report = time.monotonic()
            self._lifecycle.record_progress(number, self._name, share, step)

        return report


def _limit_resources(memory: int, niceness: int) -> None:
    """Limit the process to a number of bytes of memory, and lower its priority."""
    # Some systems know no such limits.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        os.nice(niceness)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def explain_failure(error: BaseException, kind: WorkKind) -> tuple[str, bool]:
    """Return the text for the team about an error of ours, and whether another attempt is useless."""
    if _is_memory_error(error):
        return "it took more memory than is given", False
    if isinstance(error, InputError):
        if kind is WorkKind.CHECK:
            return "it could not be read", True
        return "the metrics could not be computed; ask whoever runs the challenge", True
    return "something went wrong here", False


def _is_memory_error(error: BaseException | None) -> bool:
    """Return whether an error is a lack of memory, or was raised from one."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__
    return error is not None


def locate_error(error: BaseException) -> str:
    """Return the type of an error and the innermost lines of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    locations: list[str] = []
    for frame in reversed(frames):
        locations.append(f"{Path(frame.filename).name}:{frame.lineno}")

    return f"{type(error).__name__} at {' < '.join(locations)}"


def main() -> None:
    """Run a worker until standard input closes."""
    log_to_stderr()
    setup = json.loads(sys.stdin.buffer.readline())

    def end_with_the_server() -> None:
        # Not `sys.stdin.buffer.read()`: a thread that waits there holds the stream's lock, and Python aborts
        # a process that ends while it is held.
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_the_server, daemon=True).start()
    try:
        Worker(setup).run()
    except Exception as error:
        # Without its text, as above; `captau score` and `captau bench` on the same files tell more. The server
        # releases what the worker had begun.
        _log.error("a worker ended: %s", locate_error(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
