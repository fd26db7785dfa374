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
            job = JobReturn(status=JobStatus.COMPLETED if end == DONE else JobStatus.FAILED)
            job.return_value = None if end == DONE else ValueError("no\n\n memory\nleft")
            returned.append(job)
        return returned


def launch(folder, *ends, before=()):
    sweep = Sweep(folder, "bench", tuple((f"a={n}",) for n in range(len(ends))), (), str(folder))
    for number, state in before:
        write_outcome(
            sweep.job_folder(number), JobOutcome(state, message="before", captau=__version__)
        )
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
