"""Batches of a sweep's jobs by hand: which are launched, how often, and what becomes of those that die."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hydra.core.utils import JobReturn, JobStatus

from captau import __version__
from captau.benchmarks.sweeps import sweep as sweeps
from captau.benchmarks.sweeps.jobs import JobOutcome, Sweep, read_outcome, write_outcome
from tests.conftest import says

DONE, DIED, FAILS = "done", "dies", "fails"


class Launcher:
    """Each job ends as its number's list says, an attempt after the other."""

    def __init__(self, sweep, ends):
        self.sweep, self.ends, self.batches = sweep, ends, []

    def launch(self, words, initial_job_idx):
        assert initial_job_idx == 0
        numbers = [int(job[-1].removeprefix("hydra.sweep.subdir=").strip("'")) for job in words]
        assert [job[:-1] for job in words] == [list(self.sweep.jobs[n]) for n in numbers]
        self.batches.append(numbers)
        returned = []
        for number in numbers:
            end = self.ends[number].pop(0)
            if isinstance(end, Exception):
                raise end
            if end == DONE:
                write_outcome(self.sweep.job_folder(number), JobOutcome("done"))
            job = JobReturn(status=JobStatus.FAILED if end == FAILS else JobStatus.COMPLETED)
            job.return_value = ValueError("no\n\n memory\nleft") if end == FAILS else None
            returned.append(job)
        return returned


def launch(folder, *ends, before=(), captau=__version__):
    sweep = Sweep(folder, "bench", tuple((f"a={n}",) for n in range(len(ends))), (), str(folder))
    for number, state in before:
        write_outcome(sweep.job_folder(number), JobOutcome(state, message="before", captau=captau))
    launcher = Launcher(sweep, [list(end) for end in ends])
    sweeps._launch(sweep, launcher)
    return launcher.batches, [sweep.outcome(n) for n in range(len(ends))]


def test_jobs_are_launched_together_and_those_that_are_done_are_not(tmp_path):
    batches, outcomes = launch(
        tmp_path, [DONE], [], [DONE], [DONE], before=((1, "done"), (2, "failed"))
    )
    assert batches == [[0, 2, 3]]
    assert outcomes == [
        JobOutcome("done"),
        JobOutcome("done", message="before", captau=__version__),
        *[JobOutcome("done")] * 2,
    ]


def test_a_job_whose_process_died_has_failed(tmp_path):
    batches, outcomes = launch(tmp_path, [DONE], [FAILS])
    assert batches == [[0, 1]]
    assert outcomes[1] == JobOutcome("failed", 1, "its process died: no memory")


def test_what_a_broken_pool_leaves_is_launched_again_job_by_job(tmp_path, monkeypatch):
    """The pool breaks after the first job is done; the others run alone, one of which is never done."""
    broken = RuntimeError("a pool")
    batches, outcomes = launch(tmp_path, [DONE], [broken, DONE], [DONE])
    assert batches == [[0, 1, 2], [1], [2]]
    assert [outcome.state for outcome in outcomes] == ["done"] * 3


def test_a_job_that_leaves_nothing_twice_has_failed(tmp_path):
    def leave_nothing(words, initial_job_idx):
        attempts.append(len(words))
        return [JobReturn(status=JobStatus.COMPLETED) for _ in words]

    attempts = []
    sweep = Sweep(tmp_path, "bench", (("a=1",),), (), str(tmp_path))
    sweeps._launch(sweep, SimpleNamespace(launch=leave_nothing))
    assert attempts == [1, 1]
    assert read_outcome(sweep.job_folder(0)) == JobOutcome(
        "failed", 1, "it was never begun; out of memory, or killed"
    )


def test_jobs_that_leave_nothing_are_launched_again_one_by_one(tmp_path):
    batches, outcomes = launch(tmp_path, [DIED, DIED], [DIED, DONE], [DONE], [DIED, DIED])
    assert batches == [[0, 1, 2, 3], [0], [1], [3]]
    failed = JobOutcome("failed", 1, "it was never begun; out of memory, or killed")
    assert outcomes == [failed, JobOutcome("done"), JobOutcome("done"), failed]


@pytest.mark.parametrize("state", ["failed", "running"])
def test_what_a_job_left_before_does_not_count(tmp_path, state):
    """It has failed, or was killed while it ran; now its process leaves nothing."""
    batches, (again,) = launch(tmp_path / "a", [DIED, DONE], before=((0, state),))
    assert batches == [[0], [0]]
    assert again == JobOutcome("done")
    _, (never,) = launch(tmp_path / "b", [DIED, DIED], before=((0, state),))
    assert never == JobOutcome("failed", 1, "it was never begun; out of memory, or killed")


def test_what_another_version_did_is_done_again(tmp_path):
    batches, outcomes = launch(tmp_path, [DONE], before=((0, "done"),), captau="0.0")
    assert (batches, outcomes) == ([[0]], [JobOutcome("done")])


def test_jobs_of_an_earlier_call_are_waited_for(tmp_path, monkeypatch):
    """Another process is at work on job 1, and ends it after a while."""
    folder, waits = tmp_path / "1", []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            write_outcome(folder, JobOutcome("done"))

    monkeypatch.setattr(sweeps.time, "sleep", wait)
    monkeypatch.setattr(
        sweeps, "claim_holder", lambda path: "process 7" if path == folder else None
    )
    batches, outcomes = launch(tmp_path, [DONE], [])
    assert (batches, waits) == ([[0]], [1, 1])
    assert [outcome.state for outcome in outcomes] == ["done", "done"]


def test_a_pool_that_breaks_after_it_began_is_no_error(tmp_path):
    """The second job had begun, so that the pool's end is that of its process."""
    batches, outcomes = launch(tmp_path, [DONE, DONE], [RuntimeError("x"), DONE])
    assert batches == [[0, 1], [1]]
    assert [outcome.state for outcome in outcomes] == ["done"] * 2


def test_a_launcher_that_starts_no_job_is_an_error(tmp_path):
    with says("hydra/launcher: no job could be started (a pool)"):
        launch(tmp_path, [RuntimeError("a pool")], [DONE])
    with says("hydra/launcher: no job could be started (RuntimeError)"):
        launch(tmp_path / "b", [RuntimeError()])
    with says("as it is"):
        launch(tmp_path / "c", [sweeps.InputError("as it is")])


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        ("a\n\n b \nc", "a b"),
        ("a", "a"),
        (ValueError(), "ValueError"),
        ("", "str"),
    ],
)
def test_the_first_two_lines_of_an_error(error, lines):
    assert sweeps._first_lines(error) == lines
