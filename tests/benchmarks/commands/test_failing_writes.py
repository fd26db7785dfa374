"""Each call on the files of `table`, `cite`, `report`, `plot`, `train` and `data` fails in turn, or is the last of its process.

Afterwards each file is as it was or as the command writes it, whole; a fault is one line, and the same command then ends well.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from captau.datasets import registry
from tests.benchmarks.runs.test_failing_calls import places
from tests.conftest import run_captau
from tests.failing_calls import ERRORS, Outcome, Watch, run_command, run_function

#: THumB with two captions of one image.
RATED = [
    {
        **{"seg_id": "974", "hyp": f"caption {number}", "SYS": f"system {number}"},
        **{"P": 4, "R": 3, "Fl": 0.0, "Inc": 0.0, "Con": 0.0, "human_score": 3.5},
    }
    for number in range(2)
]
CONTENTS = {
    "mscoco_THumB-1.0.jsonl": "".join(f"{json.dumps(row)}\n" for row in RATED).encode(),
    "mscoco_references.json": json.dumps({"seg_id": "974", "refs": ["a", "b"]}).encode(),
}
TRAIN = ["train", "rater=icr", "rater.epochs=1", "rater.hidden=[4]", "statistics.interval=none"]
#: Commands as typed, below whose name `watched` all of their files are.
COMMANDS = {
    "table": ["table", "run=run", "style=latex", "output=watched/table.tex"],
    "cite": ["cite", "run=run", "output=watched/papers.bib"],
    "report": ["report", "run=run", "output=watched/page.html"],
    "plot": ["plot", "run=run", "kind=forest", "format=svg,pdf", "output_dir=watched/plots"],
    "import": ["data", "import", "dataset=thumb", "source=download", "data.root=watched/data"],
    "fetch": ["data", "fetch", "dataset=thumb", "data.root=watched/data"],
    "train": [*TRAIN, "output_dir=watched/run"],
}
#: Figures are written by many calls alike; those of training are many, and a case takes seconds.
STRIDES = {"plot": 11, "report": 5, "train": 17}
#: What differs from run to run, as the time does, or is of a training that goes on: its states and the rater's page.
NOT_COMPARED = ("run.json", "training.csv", "README.md", "checkpoint-icr.pt")


def use_small_thumb(address: str) -> None:
    """Let THumB be what the tests' server has, in this process."""
    card, reader = registry.card("thumb"), registry.reader("thumb")
    sources = []
    for source in card.sources:
        name = Path(source.path).name
        digest = hashlib.sha256(CONTENTS[name]).hexdigest()
        sources.append(replace(source, sha256=digest, downloads=(f"{address}/{name}",)))
    expected = {"images": 1, "items": 2, "ratings": 12}
    card = replace(card, sources=tuple(sources), expected=expected)
    registry._READERS["thumb"] = (card, reader)


def run_data(words: list[str], address: str) -> int:
    """Run a command on the small THumB, and return its exit status."""
    use_small_thumb(address)
    return run_captau(*words)


def read_visible(folder: Path) -> dict[str, bytes]:
    """Return the content of all visible files below a folder by path, but of those that are not compared."""
    contents: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        is_hidden = any(part.startswith(".") for part in Path(name).parts)
        if path.is_file() and not is_hidden and path.name not in NOT_COMPARED:
            contents[name] = path.read_bytes()
    return contents


@dataclass
class Writer:
    """A command that writes files into a folder, in which files of the same names may be already.

    Attributes:
        name: the command's, in `COMMANDS`.
        base: the present folder.
        address: of the server with the data.
        earlier: the files before the command, by path.
        written: the files that the command writes undisturbed.
    """

    name: str
    base: Path
    address: str
    earlier: dict[str, bytes] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)

    @property
    def watched(self) -> Path:
        return self.base / "watched"

    def reset(self) -> None:
        """Put the earlier files alone into the watched folder."""
        shutil.rmtree(self.watched, ignore_errors=True)
        self.watched.mkdir()
        for name, content in self.earlier.items():
            path = self.watched / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def run(self, failing: int | None = None, error: int | None = None) -> Outcome:
        """Run the command, of which one call fails."""
        words = COMMANDS[self.name]
        if words[0] == "data":
            watch = Watch(self.watched, failing, error)
            return run_function(run_data, (words, self.address), watch)
        return run_command(words, self.watched, failing, error)

    def count_calls(self) -> int:
        """Run undisturbed, keep what was written, and return how many calls it takes."""
        self.reset()
        outcome = self.run()
        assert outcome.status == 0, outcome.stderr
        self.written = read_visible(self.watched)
        assert self.written
        if words_replace(self.name):
            self.earlier = dict.fromkeys(self.written, b"an earlier file")
        return len(outcome.calls)

    def check_each_file(self, what: object) -> None:
        """Check that each file is as it was or as the command writes it."""
        for name, content in read_visible(self.watched).items():
            assert content in (self.earlier.get(name), self.written.get(name)), (name, what)

    def check_it_ends_well(self) -> None:
        """Check that the same command then writes all."""
        outcome = self.run()
        assert outcome.status == 0, outcome.stderr
        assert read_visible(self.watched) == self.written

    def fail_at(self, number: int) -> None:
        """Let one call fail, and check what is left."""
        self.reset()
        outcome = self.run(number, ERRORS[number % len(ERRORS)])
        lines = [line for line in outcome.stderr if line]
        what = (str(outcome.calls[number]), outcome.stderr)
        assert outcome.status in (0, 2), what
        assert all(line.startswith("captau: ") for line in lines), what
        if outcome.status == 2:
            assert lines, what
        else:
            assert read_visible(self.watched) == self.written, what
        self.check_each_file(what)
        self.check_it_ends_well()

    def kill_at(self, number: int) -> None:
        """Kill the process before one call, and check what is left."""
        self.reset()
        outcome = self.run(number)
        assert outcome.status == -9, outcome
        self.check_each_file(str(outcome.calls[-1]))
        self.check_it_ends_well()


def words_replace(name: str) -> bool:
    """Tell whether a command writes over files of any content that have the names it writes."""
    return name in ("table", "cite", "report", "plot")


@pytest.fixture
def make_writer(tmp_path, monkeypatch, site) -> Callable[[str], Writer]:
    monkeypatch.chdir(tmp_path)

    def make(name: str) -> Writer:
        if words_replace(name):
            assert run_captau("bench", "metrics=bleu_1", "output_dir=run") == 0
        (tmp_path / "download").mkdir()
        for file, content in CONTENTS.items():
            (tmp_path / "download" / file).write_bytes(content)
            site.files[f"/{file}"] = content
        return Writer(name, tmp_path, site.url)

    return make


def test_calls_of_a_sample_fail(make_writer):
    writer = make_writer("table")
    for number in places(writer.count_calls(), 5):
        writer.fail_at(number)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_each_call_fails(name, make_writer):
    writer = make_writer(name)
    for number in places(writer.count_calls(), STRIDES.get(name, 1)):
        writer.fail_at(number)


@pytest.mark.kill
@pytest.mark.parametrize("name", COMMANDS)
def test_a_process_is_killed_at_each_call(name, make_writer):
    writer = make_writer(name)
    for number in places(writer.count_calls(), STRIDES.get(name, 1)):
        writer.kill_at(number)
