"""When a run of several datasets writes what is done."""

from __future__ import annotations

from functools import partial

import pytest

from captau.benchmarks.runs.interim_results import MOST_UNWRITTEN_SECONDS, InterimResults


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the clock shows, which a test may move."""
    seconds = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: seconds[0])
    return seconds


def test_computed_scores_are_written_at_once_and_others_in_time(clock: list[float]) -> None:
    written: list[str] = []
    with InterimResults(written.append) as interim:
        interim.offer(lambda: "computed", n_computed=2)
        assert written == ["computed"]

        # Nothing more was computed: these scores are read back by any further run.
        clock[0] += MOST_UNWRITTEN_SECONDS
        interim.offer(lambda: "read back", n_computed=2)
        assert written == ["computed"]

        clock[0] += 1
        interim.offer(lambda: "after a while", n_computed=2)
        assert written == ["computed", "after a while"]

        interim.offer(lambda: "read back again", n_computed=2)
        interim.offer(lambda: "computed again", n_computed=3)

    # The caller writes the last results itself.
    assert written == ["computed", "after a while", "computed again"]


def fail_after(written: list[str], *names: str, n_computed: int = 0) -> None:
    """Offer results, and fail."""
    with InterimResults(written.append) as interim:
        for name in names:
            interim.offer(partial(str, name), n_computed)
        raise KeyboardInterrupt


def test_what_is_done_is_written_where_the_run_fails(clock: list[float]) -> None:
    written: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        fail_after(written, "first", "both")
    assert written == ["both"]

    # What is written already is not written again.
    with pytest.raises(KeyboardInterrupt):
        fail_after(written, "computed", n_computed=1)
    assert written == ["both", "computed"]


def test_without_a_folder_nothing_is_joined() -> None:
    with InterimResults[str](None) as interim:
        interim.offer(lambda: pytest.fail("joined"), n_computed=1)
