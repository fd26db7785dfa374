"""Each call on a run's files fails in turn, or is the last before the process is killed: nothing is lost.

A run takes the place of an earlier one with other options. Afterwards the folder holds the one or the other, whole, and a
fault is one line.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import run_captau
from tests.failing_calls import ERRORS, run_command

#: Commands as typed, with the option in which the earlier run and the new one differ.
COMMANDS = {
    "bench": (["bench"], "metrics=bleu_1", "metrics=bleu_1,bleu_2"),
    "rank": (["rank", "dataset=demo"], "metrics=bleu_1", "metrics=cider"),
    "score": (
        ["score", "candidates=candidates.json", "references=references.json"],
        "metrics=bleu_1",
        "metrics=cider",
    ),
    "estimate": (
        ["estimate", "candidates=many.json", "references=many_references.json", "plan=true", "n=4"],
        "metrics=bleu_1",
        "metrics=cider",
    ),
    "calibrate": (
        ["calibrate", "statistics.replicates=20"],
        "metrics=bleu_1",
        "metrics=cider",
    ),
}
CAPTIONS = {"1": "a dog runs", "2": "a cat sits on a mat"}
REFERENCES = {"1": ["a dog runs", "the dog is running"], "2": ["a cat", "a cat on a mat"]}
#: Images of which a plan chooses four.
MANY = range(12)
#: In the quick tier, and of the commands that write as `score` does, only every so many calls fail; no stride shares a
#: factor with the three errors, so that each has its turn.
QUICK_STRIDE = 13
STRIDES = {"score": 1, "bench": 5, "rank": 7, "estimate": 5, "calibrate": 11}


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder by path: of run.json, which has the time, the metrics alone."""
    contents: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            contents[str(path.relative_to(folder))] = path.read_bytes()
    if "run.json" in contents:
        record = json.loads(contents["run.json"])
        contents["run.json"] = json.dumps(record["config"]["metrics"]).encode()
    return contents


def without_hydra(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in contents.items() if ".hydra" not in name}


class Replacement:
    """A run that takes the place of an earlier one.

    Args:
        name: the command's name.
        folder: an empty folder, which is the present one.
    """

    def __init__(self, name: str, folder: Path) -> None:
        (folder / "candidates.json").write_text(json.dumps(CAPTIONS))
        (folder / "references.json").write_text(json.dumps(REFERENCES))
        captions = {str(number): f"a dog number {number} runs" for number in MANY}
        references = {str(number): [f"the dog {number}", f"{number} dogs"] for number in MANY}
        (folder / "many.json").write_text(json.dumps(captions))
        (folder / "many_references.json").write_text(json.dumps(references))
        words, earlier_option, new_option = COMMANDS[name]
        self.stride = STRIDES[name]
        self.base = folder / "base"
        self.watched = folder / "watched"
        self.words = [*words, new_option, "output_dir=watched/run"]
        assert run_captau(*words, earlier_option, "output_dir=base/run") == 0
        assert run_captau(*words, new_option, "output_dir=alone/run") == 0
        self.earlier_run = read_files(self.base / "run")
        self.new_run = read_files(folder / "alone" / "run")

    def reset(self) -> None:
        """Put the earlier run alone into the watched folder."""
        shutil.rmtree(self.watched, ignore_errors=True)
        shutil.copytree(self.base, self.watched)

    def count_calls(self) -> int:
        """Run undisturbed, and return how many calls it takes."""
        self.reset()
        outcome = run_command(self.words, self.watched)
        assert outcome.status == 0, outcome.stderr
        self.check_replaced()
        return len(outcome.calls)

    def check_replaced(self) -> None:
        """Check that the new run is in place and the earlier one is kept beside it, and nothing else."""
        new_run = read_files(self.watched / "run")
        assert without_hydra(new_run) == without_hydra(self.new_run)
        assert new_run.keys() == self.new_run.keys()
        assert read_files(self.watched / "run-earlier") == self.earlier_run
        assert sorted(path.name for path in self.watched.iterdir()) == ["run", "run-earlier"]
        assert not list(self.watched.rglob("*.tmp"))

    def fail_at(self, number: int) -> None:
        """Let one call fail, and check what is left."""
        self.reset()
        error = ERRORS[number % len(ERRORS)]
        outcome = run_command(self.words, self.watched, number, error)
        what = (str(outcome.calls[number]), outcome.stderr)
        lines = [line for line in outcome.stderr if line.startswith("captau: ")]
        assert [line for line in outcome.stderr if line] == lines, what
        run = read_files(self.watched / "run")

        if outcome.status == 2:
            assert len(lines) == 1, what
            # A file of the failed run that could not be removed is there as a temporary one.
            kept = {name: content for name, content in run.items() if not name.endswith(".tmp")}
            assert kept == self.earlier_run, what
            return

        assert outcome.status == 0, what
        kept = {name: content for name, content in run.items() if not name.startswith(".")}
        assert kept == without_hydra(self.new_run), what
        earlier = self.watched / "run-earlier"
        if not earlier.exists():
            # The folder could not be named as people find it; the line says where it is.
            (earlier,) = (self.watched / "run").glob(".earlier.*.tmp")
            assert str(earlier.name) in lines[-1], what
        assert read_files(earlier) == self.earlier_run, what

    def kill_at(self, number: int) -> None:
        """Kill the process before one call, and check that the same command then ends as if nothing had been."""
        self.reset()
        outcome = run_command(self.words, self.watched, number)
        assert outcome.status == -9, outcome
        left = read_files(self.watched / "run")
        if "run.json" in left:
            visible = {name: text for name, text in left.items() if not name.startswith(".")}
            assert visible in (without_hydra(self.earlier_run), without_hydra(self.new_run))

        had_ended = left.get("run.json") == self.new_run["run.json"]
        assert run_captau(*self.words) == 0
        if had_ended and not (self.watched / "run-earlier").exists():
            pytest.fail(f"the earlier run is lost: {outcome.calls[-1]}")
        self.check_replaced()


@pytest.fixture
def replacement(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Replacement(request.param, tmp_path)


def places(n_calls: int, stride: int) -> Sequence[int]:
    """Return the numbers of the calls that fail: every so many, and the last."""
    return sorted({*range(0, n_calls, stride), n_calls - 1})


@pytest.mark.parametrize("replacement", ["score"], indirect=True)
def test_calls_of_a_sample_fail(replacement):
    for number in places(replacement.count_calls(), QUICK_STRIDE):
        replacement.fail_at(number)


@pytest.mark.slow
@pytest.mark.parametrize("replacement", COMMANDS, indirect=True)
def test_each_call_fails(replacement):
    for number in places(replacement.count_calls(), replacement.stride):
        replacement.fail_at(number)


@pytest.mark.kill
@pytest.mark.parametrize("replacement", COMMANDS, indirect=True)
def test_a_process_is_killed_at_each_call(replacement):
    for number in places(replacement.count_calls(), replacement.stride):
        replacement.kill_at(number)
