"""Sweeps: a run for each combination of options, by one of Hydra's launchers.

A sweep's folder holds `sweep.json` (what was asked for) and a folder a job, with the run's files and
`job.json` (how it went). Jobs run in whatever process and on whatever machine the launcher has; what
they have to say goes by way of these files, so that nothing is lost with the process that began them.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError
from ..runs.folder_claim import FolderClaim, FolderInUseError, claim_holder
from ..runs.output_folder import write_file
from ..runs.progress_bar import StepProgress
from ..runs.results import to_json

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from hydra.plugins.launcher import Launcher
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
        found = _read_outcome(self.place(number))
        if found.state == "running" and claim_holder(self.place(number)) is None:
            # It may have ended between the two looks.
            found = _read_outcome(self.place(number))
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


def _read_outcome(folder: Path) -> Outcome:
    try:
        return Outcome(**json.loads((folder / JOB).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not begun, or not ours
        return Outcome("waiting")


def _write_outcome(folder: Path, outcome: Outcome) -> None:
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
            if is_done(_read_outcome(folder)):
                return
            begun = Outcome(
                "running",
                captau=version("captau"),
                where=f"process {os.getpid()} on {platform.node()}",
                started=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            _write_outcome(folder, begun)
            began = time.perf_counter()
            try:
                with self._at_home(), _printing(folder / LOG if self.quiet else None):
                    ended = self._run(config, begun)
            except BaseException:  # stopped, not failed
                (folder / JOB).unlink(missing_ok=True)
                raise
            seconds = round(time.perf_counter() - began, 3)
            _write_outcome(folder, replace(ended, seconds=seconds))

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


@dataclass(frozen=True)
class Plan:
    """A sweep as Hydra composed it: what it takes to compose each job's configuration."""

    sweep: Sweep
    loader: Any
    config: DictConfig


def plan(command: str, overrides: Sequence[str], options: Sequence[str], folder: Path) -> Plan:
    """The jobs that overrides ask for.

    Args:
        command: the name of the command that each runs.
        overrides: its `key=value`s, with several values where they are swept.
        options: those of Hydra.
        folder: the sweep's own.

    Raises:
        InputError: where the launcher is not installed.
        HydraException, OmegaConfBaseException: of overrides that cannot be composed.
    """
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from hydra.types import RunMode

    from .launchers import check_installed

    check_installed(options)
    folder = folder.resolve()
    with initialize_config_module("captau.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        words = [*options, f"hydra.sweep.dir={_quoted(folder)}", "hydra.mode=MULTIRUN"]
        config = loader.load_configuration(
            f"command/{command.replace(' ', '_')}", [*overrides, *words], run_mode=RunMode.MULTIRUN
        )
        jobs = _product(loader, config)
    sweep = Sweep(folder, command, jobs, tuple(options), str(Path.cwd()))
    return Plan(sweep, loader, config)


def run_sweep(plan: Plan, work: Callable[[DictConfig], int | None]) -> int:
    """Run the jobs of a sweep that are not done; one that fails does not keep the others from running.

    Args:
        work: the command, as a function.

    Returns:
        the exit status: 0 where all jobs are done, else the greatest of theirs.

    Raises:
        InputError: where the folder is in use or another sweep's, or the launcher cannot start.
    """
    from .launchers import launcher_of

    sweep = plan.sweep
    alone = plan.config.hydra.runtime.choices["hydra/launcher"] == "basic"
    mine = {k: v for k, v in os.environ.items() if k.startswith("CAPTAU_")}
    task = Task(work, sweep.directory, mine, quiet=not alone)
    launcher = launcher_of(plan.config, plan.loader, task)
    with FolderClaim(sweep.folder):
        sweep.save()
        try:
            with _watched(sweep, shown=not alone):
                _launch(sweep, launcher)
        except InputError:
            if not any(sweep.place(n).exists() for n in range(len(sweep.jobs))):
                (sweep.folder / SWEEP).unlink()  # nothing has begun
            raise
    return _tell(sweep)


def _product(loader: Any, config: DictConfig) -> tuple[tuple[str, ...], ...]:
    """The jobs: every combination of the overrides' values.

    Raises:
        HydraException, OmegaConfBaseException: where a value cannot be composed.
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    if config.hydra.runtime.choices["hydra/sweeper"] != "basic":
        raise InputError("hydra/sweeper= is not known to captau, which runs every combination")
    typed = [str(word) for word in config.hydra.overrides.task]
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(typed)
    (jobs,) = BasicSweeper.split_arguments(parsed, None)
    seen: set[str] = set()
    for job in jobs:
        # Composing takes time: once for each value is enough to see that all can be.
        if not seen.issuperset(job):
            loader.load_sweep_config(config, list(job))
            seen.update(job)
    return tuple(dict.fromkeys(map(tuple, jobs)))  # a value that is named twice is one


def _launch(sweep: Sweep, launcher: Launcher) -> None:
    """Have every job done or failed, as far as a launcher can be had to do it.

    Raises:
        InputError: where the launcher cannot start.
    """
    for number in range(len(sweep.jobs)):
        if sweep.outcome(number).state in ("failed", "killed"):
            (sweep.place(number) / JOB).unlink(missing_ok=True)
    left = [n for n in range(len(sweep.jobs)) if not is_done(sweep.outcome(n))]
    tries: Counter[int] = Counter()
    while left:
        idle = [n for n in left if claim_holder(sweep.place(n)) is None]
        fresh = [n for n in idle if not tries[n]]
        # What went down with its process is begun again by itself, so that it takes no other along.
        batch = fresh or idle[:1]
        if batch and tries[batch[0]] < TRIES:
            tries.update(batch)
            _launch_batch(sweep, launcher, batch)
        elif batch:
            ended = sweep.outcome(batch[0])
            message = f"{ended.message or 'it was never begun'}; out of memory, or killed"
            _write_outcome(
                sweep.place(batch[0]),
                replace(ended, state="failed", status=1, message=message),
            )
        else:  # processes of an earlier call are still at them
            time.sleep(1)
        left = [n for n in left if _read_outcome(sweep.place(n)).state not in ("done", "failed")]


def _launch_batch(sweep: Sweep, launcher: Launcher, batch: Sequence[int]) -> None:
    from hydra.core.utils import JobStatus

    words = [[*sweep.jobs[n], f"hydra.sweep.subdir='{n}'"] for n in batch]
    try:
        returned: Sequence[JobReturn] = launcher.launch(words, initial_job_idx=0)
    except InputError:
        raise
    except Exception as error:
        # A pool of processes breaks when one of them is killed. What began shows in the jobs' folders.
        if all(sweep.outcome(n).state == "waiting" for n in batch):
            reason = _brief(error)
            raise InputError(f"hydra/launcher: no job could be started ({reason})") from error
        return
    for number, one in zip(batch, returned, strict=True):
        ended = sweep.outcome(number)
        if one.status == JobStatus.FAILED and ended.state not in ("done", "failed"):
            reason = _brief(one._return_value)  # pyright: ignore[reportPrivateUsage]
            message = f"its process died: {reason}"
            failed = replace(ended, state="failed", status=1, message=message)
            _write_outcome(sweep.place(number), failed)


def _brief(error: Any) -> str:
    """The first two lines of what a launcher says, which may go on over a job's whole log."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(error).__name__


@contextlib.contextmanager
def _watched(sweep: Sweep, *, shown: bool) -> Generator[None]:
    """A progress bar over the jobs, where somebody looks and the jobs show none themselves."""
    if not (shown and sys.stderr.isatty()):
        yield
        return
    over = threading.Event()
    left = set(range(len(sweep.jobs)))

    def look() -> None:
        while not over.wait(1):
            for number in sorted(left):
                if _read_outcome(sweep.place(number)).state in ("done", "failed"):
                    left.discard(number)
                    progress.advance()

    with StepProgress(len(sweep.jobs)) as progress:
        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _tell(sweep: Sweep) -> int:
    """A line on stderr for each job that failed, and a last one; the exit status."""
    outcomes = [sweep.outcome(number) for number in range(len(sweep.jobs))]
    for number, outcome in enumerate(outcomes):
        if outcome.state != "done":
            print(f"captau: {sweep.name(number)}: {outcome.message}", file=sys.stderr)
    print(f"\nwritten to {sweep.folder}: {counted(outcomes)}")
    return max(outcome.status for outcome in outcomes)


def counted(outcomes: Sequence[Outcome]) -> str:
    """How many jobs there are, and how many of each state."""
    counts = Counter(outcome.state for outcome in outcomes)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{len(outcomes)} job{'s' * (len(outcomes) != 1)}: {states}"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
