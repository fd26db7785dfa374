"""The jobs of a sweep: their folders, their outcomes, and the task that runs one.

`sweep` plans and launches them; `launchers` give them processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ...datasets.errors import InputError
from ..runs.folder_claim import FolderClaim, FolderInUseError, claim_holder
from ..runs.output_folder import write_file
from ..runs.results import to_json

if TYPE_CHECKING:
    from omegaconf import DictConfig

SWEEP = "sweep.json"
JOB = "job.json"
#: What a job printed, where it has no terminal.
LOG = "output.txt"

#: How a job stands: done; failed (by itself); running; killed (it was running, and its process is
#: gone); waiting (not begun).
STATES = ("done", "failed", "running", "killed", "waiting")
#: How often a job is begun whose process goes down with it.
TRIES = 2


@dataclass(frozen=True)
class Outcome:
    """How a job stands, as its job.json has it.

    Attributes:
        state: one of `STATES`.
        status: the exit status that `captau` alone would have had.
        message: why it failed; empty elsewhere.
        trace: Python's traceback, where the fault is ours.
        captau: the version that ran.
        where: process and machine.
        started: when, in UTC; seconds: how long it took.
    """

    state: str
    status: int = 0
    message: str = ""
    trace: str = ""
    captau: str = ""
    where: str = ""
    started: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Sweep:
    """What a sweep's folder is for.

    Attributes:
        folder: where it lies.
        command: which command each job runs.
        jobs: the overrides of each, by number.
        options: those of Hydra (the launcher's), as they were typed.
        directory: from where relative paths count.
    """

    folder: Path
    command: str
    jobs: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]
    directory: str

    @cached_property
    def swept(self) -> list[tuple[str, ...]]:
        """Of each job's overrides those in which jobs differ; all where they have none in common."""
        common = set(self.jobs[0]).intersection(*self.jobs) if len(self.jobs) > 1 else set[str]()
        return [tuple(word for word in job if word not in common) for job in self.jobs]

    def name(self, number: int) -> str:
        """A job for people: its number and what is its own."""
        return f"job {number} ({' '.join(self.swept[number])})"

    def place(self, number: int) -> Path:
        """A job's folder."""
        return self.folder / str(number)

    def outcome(self, number: int) -> Outcome:
        """How a job stands now."""
        found = read_outcome(self.place(number))
        if found.state == "running" and claim_holder(self.place(number)) is None:
            # It may have ended between the two looks.
            found = read_outcome(self.place(number))
            if found.state == "running":
                message = f"its process ended without a word ({found.where})"
                return replace(found, state="killed", message=message)
        return found

    def words(self) -> list[str]:
        """The arguments of `captau` that run what is not done."""
        axes: dict[str, list[str]] = {}
        for job in self.jobs:
            for word in job:
                key, _, value = word.partition("=")
                values = axes.setdefault(key, [])
                if value not in values:
                    values.append(value)
        swept = [f"{key}={','.join(values)}" for key, values in axes.items()]
        return [*self.command.split(), "--multirun", *swept, *self.options]

    def save(self) -> None:
        """Write sweep.json; one that is there must be of the same jobs.

        Raises:
            InputError: where the folder is another sweep's, or cannot be written.
        """
        if (self.folder / SWEEP).exists():
            there = read_sweep(self.folder)
            if (there.command, there.jobs) != (self.command, self.jobs):
                raise InputError(
                    f"{self.folder} is the folder of another sweep, of {len(there.jobs)} jobs of captau "
                    f"{there.command}; set output_dir=DIR"
                )
        told = {**asdict(self), "format": 1, "captau": version("captau")}
        write_file(self.folder / SWEEP, to_json({k: v for k, v in told.items() if k != "folder"}))


def read_sweep(folder: Path) -> Sweep:
    """A sweep's folder.

    Raises:
        InputError: where there is none.
    """
    folder = folder.expanduser()
    path = folder / SWEEP
    if not path.is_file():
        raise InputError(
            f"{folder} has no {SWEEP}: it is no sweep's folder; captau bench --multirun says where it "
            f"wrote to"
        )
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Sweep(
            folder,
            str(told["command"]),
            tuple(tuple(map(str, job)) for job in told["jobs"]),
            tuple(map(str, told["options"])),
            str(told["directory"]),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error}); name another folder") from error


def read_outcome(folder: Path) -> Outcome:
    try:
        return Outcome(**json.loads((folder / JOB).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not begun, or not ours
        return Outcome("waiting")


def write_outcome(folder: Path, outcome: Outcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / JOB, to_json(asdict(outcome)))


@dataclass(frozen=True)
class Task:
    """What a job's process does; it is sent there, and so are these.

    Attributes:
        work: the command.
        directory: from where relative paths count.
        environment: captau's own variables, for a machine where they are not set.
        quiet: whether what the job prints goes into a file of its folder.
    """

    work: Callable[[DictConfig], int | None]
    directory: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    quiet: bool = False

    def __call__(self, config: DictConfig) -> None:
        """Run a job, unless it was done already, or somebody else is at it."""
        from hydra.core.hydra_config import HydraConfig

        folder = Path(HydraConfig.get().runtime.output_dir)
        with contextlib.suppress(FolderInUseError), FolderClaim(folder):
            if is_done(read_outcome(folder)):
                return
            begun = Outcome(
                "running",
                captau=version("captau"),
                where=f"process {os.getpid()} on {platform.node()}",
                started=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            write_outcome(folder, begun)
            began = time.perf_counter()
            try:
                with self._at_home(), _printing(folder / LOG if self.quiet else None):
                    ended = self._run(config, begun)
            except BaseException:  # stopped, not failed
                (folder / JOB).unlink(missing_ok=True)
                raise
            seconds = round(time.perf_counter() - began, 3)
            write_outcome(folder, replace(ended, seconds=seconds))

    def _run(self, config: DictConfig, begun: Outcome) -> Outcome:
        """What became of the command."""
        try:
            status = self.work(config) or 0
        except InputError as error:
            message = " ".join(str(error).split())
            return replace(begun, state="failed", status=2, message=message)
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            message += f" (a fault of captau's; {JOB} has the traceback)"
            trace = traceback.format_exc()
            return replace(begun, state="failed", status=1, message=message, trace=trace)
        if status:
            return replace(begun, state="failed", status=status, message=f"exit status {status}")
        return replace(begun, state="done")

    @contextlib.contextmanager
    def _at_home(self) -> Generator[None]:
        """Where the sweep was typed; a job leaves no variable behind for the next one."""
        before = dict(os.environ)
        with contextlib.chdir(self.directory):
            os.environ.update({k: v for k, v in self.environment.items() if k not in before})
            try:
                yield
            finally:
                for name in os.environ.keys() - before.keys():
                    del os.environ[name]
                os.environ.update(before)


def is_done(outcome: Outcome) -> bool:
    """Whether a job need not run again: it went well, under this version of captau."""
    return outcome.state == "done" and outcome.captau == version("captau")


@contextlib.contextmanager
def _printing(path: Path | None) -> Generator[None]:
    """What is printed goes into a file; where None is given, onto the terminal as ever."""
    if path is None:
        yield
        return
    with (
        path.open("w", encoding="utf-8", errors="replace") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        yield
