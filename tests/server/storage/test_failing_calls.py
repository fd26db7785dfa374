"""Each call on the files of a site fails in turn, or is the last of its process: nothing that was acknowledged is lost.

The site answers 507 where it has no room, or ends with one line where it cannot open; opened again it has all that it
acknowledged.
"""

from __future__ import annotations

import shutil

import pytest

from tests.benchmarks.runs.test_failing_calls import places
from tests.failing_calls import ERRORS, Outcome, Watch, run_function
from tests.server.storage import watched_sites
from tests.server.storage.test_power_loss import SITES

#: In the quick tier and in the full one only every so many calls fail; none shares a factor with the three errors.
QUICK_STRIDE = 97
STRIDES = {"collect": 5, "serve": 7}


class WatchedSite:
    """A site whose process has one call that fails.

    Args:
        name: the site, as in `SITES`.
        folder: an empty folder.
    """

    def __init__(self, name: str, folder) -> None:
        write_files, self._work, self._find_lost = SITES[name]
        self._files, self._folder = folder / "files", folder / "watched"
        self._files.mkdir()
        write_files(self._files)

    def run(self, failing: int | None = None, error: int | None = None) -> Outcome:
        """Run the site from its beginning."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        return run_function(
            self._work, (self._folder, self._files), Watch(self._folder, failing, error)
        )

    def count_calls(self) -> int:
        """Run undisturbed, and return how many calls it takes."""
        outcome = self.run()
        assert outcome.status == 0, outcome.stderr
        assert len(watched_sites.marks_of(outcome)) >= 2 * 3
        return sum(call.name != "mark" for call in outcome.calls)

    def fail_at(self, number: int) -> None:
        """Let one call fail, and check what was said and what is left."""
        outcome = self.run(number, ERRORS[number % len(ERRORS)])
        # The call that failed is the last one before whatever the site did about it.
        calls = [call for call in outcome.calls if call.name != "mark"]
        if len(calls) <= number:
            return  # in another order, the site took fewer calls

        what = (str(calls[number]), ERRORS[number % len(ERRORS)], outcome.stderr)
        assert outcome.status in (0, 2), what
        lines = [line for line in outcome.stderr if line.startswith("captau: ")]
        assert len(lines) == (outcome.status == 2), what
        assert not [line for line in outcome.stderr if "Traceback" in line], what
        assert not [line for line in outcome.stderr if line.startswith("answered")], what
        self.check_kept(outcome, what)

    def kill_at(self, number: int) -> None:
        """Kill the process before one call, and check what is left."""
        outcome = self.run(number)
        assert outcome.status in (-9, 0), outcome.stderr
        self.check_kept(outcome, str(outcome.calls[-1]))

    def check_kept(self, outcome: Outcome, what: object) -> None:
        """Check that the site opens again and has what was acknowledged."""
        marks = watched_sites.marks_of(outcome)
        assert self._find_lost(self._folder, self._files, marks) == [], what


def test_calls_of_a_sample_fail(tmp_path):
    site = WatchedSite("collect", tmp_path)
    for number in places(site.count_calls(), QUICK_STRIDE):
        site.fail_at(number)


@pytest.mark.slow
@pytest.mark.parametrize("name", SITES)
def test_each_call_fails(name, tmp_path):
    site = WatchedSite(name, tmp_path)
    for number in places(site.count_calls(), STRIDES[name]):
        site.fail_at(number)


@pytest.mark.kill
@pytest.mark.parametrize("name", SITES)
def test_a_process_is_killed_at_each_call(name, tmp_path):
    site = WatchedSite(name, tmp_path)
    for number in places(site.count_calls(), STRIDES[name]):
        site.kill_at(number)
