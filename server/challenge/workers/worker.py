"""A worker: a process that checks or evaluates submissions, `python -m captau.server.challenge.workers.worker`.

It gets its setup on standard input, which stays open as long as the server lives, and ends when that closes. It
opens the server's database; rows tell whose work counts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....datasets.errors import InputError
from ...storage.database import Database, StoreError
from ..definition_file import read_challenges
from ..evaluation.evaluator import Evaluator, ReportProgress
from ..evaluation.evaluators import make_evaluator
from ..logs import log_to_stderr
from ..queries import load_status, save_human_scores
from ..store_opening import open_store_for_worker
from ..submission_files import write_item_scores, write_replicates
from ..submission_lifecycle import SubmissionLifecycle
from ..submissions import Submission
from ..tables import SCHEMA
from .work_queue import WorkKind, WorkQueue

# Not `__name__`, which is `__main__` in a worker.
_log = logging.getLogger("captau.server.challenge.workers.worker")

#: The least seconds between two records of progress.
_REPORT_INTERVAL = 0.5
#: The process priority (`nice`) by kind of work; pages go first.
_NICENESS = {WorkKind.CHECK: 10, WorkKind.EVALUATE: 15}


class Worker:
    """A worker in its own process.

    Args:
        setup: `challenge, database, files, queue, data_root, kind, name`.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        root = setup["data_root"]
        challenges = read_challenges(setup["challenge"], Path(root) if root else None)
        self._kind, self._name = WorkKind(setup["kind"]), str(setup["name"])
        self._database = Database(setup["database"], SCHEMA, guest=True)
        self._store = open_store_for_worker(self._database, challenges, Path(setup["files"]))
        self._lifecycle = SubmissionLifecycle(self._store)
        self._evaluators = {c.name: make_evaluator(c) for c in challenges}
        self._queue = WorkQueue(setup["queue"], self._kind, self.work)
        self._evaluation_queue = (
            self._queue
            if self._kind is WorkKind.EVALUATE
            else WorkQueue(setup["queue"], WorkKind.EVALUATE)
        )
        self._memory = max(c.limits.memory for c in challenges) << 20

    def run(self) -> None:
        """Work until the process ends, within the challenges' limit of memory."""
        _limit_resources(self._memory, _NICENESS[self._kind])
        self.warm_up()
        consumer = self._queue.huey.create_consumer(
            workers=1, periodic=False, initial_delay=0.05, max_delay=0.25, backoff=1.5
        )
        consumer.run()

    def warm_up(self) -> None:
        """Do what each challenge needs once, in advance of the first submission."""
        for evaluator in self._evaluators.values():
            if self._kind is WorkKind.CHECK:
                self._write_item_list(evaluator)
            else:
                evaluator.warm_up()
                self._score_human_captions(evaluator)

    def _write_item_list(self, evaluator: Evaluator) -> None:
        path = self._store.item_list(evaluator.challenge)
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8", newline="\n") as file:
            for row in evaluator.list_items():
                file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
        part.replace(path)

    def _score_human_captions(self, evaluator: Evaluator) -> None:
        """Score human captions, unless that is done or the challenge has none."""
        challenge = evaluator.challenge
        if not challenge.scores_people:
            return
        if not self._database.run_blocking(lambda c: load_status(c, challenge)).human_scores:
            rows = evaluator.score_human_captions()
            self._database.run_blocking(lambda c: save_human_scores(c, challenge, rows))

    def work(self, number: int) -> None:
        """Check or evaluate a submission, unless another worker does."""
        submission = self._lifecycle.claim(number, self._name, self._kind.waiting_state)
        if submission is None:
            return
        try:
            if self._kind is WorkKind.CHECK:
                self._check(submission)
            else:
                self._evaluate(submission)
        except BaseException as error:
            reason, is_final = _failure_reason(error, self._kind)
            # Without the error's text, which may quote a reference.
            _log.error("submission %d: %s", submission.id, _locate(error))
            try:
                waiting = self._lifecycle.give_up(self._name, reason, is_final=is_final)
            except StoreError:  # as on a full disk: the server releases what an ended worker had
                os._exit(2)
            self._queue.put(waiting)
            if not isinstance(error, Exception):
                raise

    def _check(self, submission: Submission) -> None:
        evaluator = self._evaluators[submission.challenge]
        folder = self._store.folder / submission.key
        verdict = evaluator.check_submission(folder, submission.file)
        self._lifecycle.record_verdict(submission.id, self._name, verdict)
        if not verdict.n_faults:
            self._evaluation_queue.put([submission.id])

    def _evaluate(self, submission: Submission) -> None:
        evaluator = self._evaluators[submission.challenge]
        folder = self._store.folder / submission.key
        began = time.perf_counter()
        evaluation = evaluator.evaluate(folder, self._make_reporter(submission.id))
        seconds = round(time.perf_counter() - began, 3)
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
        last_report = -_REPORT_INTERVAL
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


def _failure_reason(error: BaseException, kind: WorkKind) -> tuple[str, bool]:
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


def _locate(error: BaseException) -> str:
    """Return the type of an error and the innermost lines of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    lines = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {lines}"


def main() -> None:
    """Run a worker until standard input closes."""
    log_to_stderr("captau.server", "captau: ")
    log_to_stderr("huey", "captau: queue: ")
    setup = json.loads(sys.stdin.buffer.readline())

    def exit_when_closed() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=exit_when_closed, daemon=True).start()
    try:
        Worker(setup).run()
    except Exception as error:
        # Without its text, as above; `captau score` and `captau bench` on the same files tell more.
        _log.error("a worker ended: %s", _locate(error))
        os._exit(2)


if __name__ == "__main__":
    main()
