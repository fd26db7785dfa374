"""The jobs of a sweep: their folders, their outcomes, the function that runs one in its process, and the launchers.

`hydra/launcher=` chooses a launcher, which gives jobs their processes. joblib's launcher is Hydra's own. submitit's is
Hydra's but for how it waits: Hydra's gives all jobs up with the first whose process died. Ray's is captau's, as Hydra's
cannot join a cluster that is running. `sweep` plans and launches jobs; `gather` reads what they wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Launchers call back through this class alone; pyproject.toml holds Hydra below 1.4 for it.
from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from ...datasets.cores import count_cores
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..runs.output_folder import write_file
from ..runs.results import to_json
from .folder_claim import FolderClaim, FolderInUseError, claim_holder

SWEEP_FILE = "sweep.json"
JOB_FILE = "job.json"
#: The file of what a job printed, where it has no terminal.
LOG_FILE = "output.txt"

#: The states of a job: done; failed (by itself); running; killed (it was running, and its process is
#: gone); waiting (not begun).
STATES = ("done", "failed", "running", "killed", "waiting")
#: How often a job is started whose process dies.
ATTEMPTS = 2


@dataclass(frozen=True)
class JobOutcome:
    """The state of a job, with the keys of its job.json.

    Attributes:
        state: one of `STATES`.
        status: the exit status that `captau` alone would have had.
        message: why the job failed; empty elsewhere.
        trace: Python's traceback, where the fault is ours.
        captau: the version that ran.
        where: process and machine.
        started: when, in UTC.
        seconds: how long it took.
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
    """A sweep: its folder, and what its sweep.json says.

    Attributes:
        folder: the sweep's folder.
        command: the command that each job runs.
        jobs: the overrides of each job, by number.
        options: Hydra's options (the launcher's), as they were typed.
        directory: where relative paths start.
    """

    folder: Path
    command: str
    jobs: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]
    directory: str

    @cached_property
    def distinct_overrides(self) -> list[tuple[str, ...]]:
        """The overrides of each job in which jobs differ; all where they have none in common."""
        common = set.intersection(*map(set, self.jobs)) if len(self.jobs) > 1 else set[str]()
        return [tuple(word for word in job if word not in common) for job in self.jobs]

    def name(self, number: int) -> str:
        """Return a job's name for people: its number and its distinct overrides."""
        return f"job {number} ({' '.join(self.distinct_overrides[number])})"

    def job_folder(self, number: int) -> Path:
        """Return a job's folder."""
        return self.folder / str(number)

    def outcome(self, number: int) -> JobOutcome:
        """Return the present state of a job."""
        folder = self.job_folder(number)
        outcome = read_outcome(folder)
        if outcome.state == "running" and claim_holder(folder) is None:
            # The job may have ended between reading the outcome and looking for the claim.
            outcome = read_outcome(folder)
            if outcome.state == "running":
                message = f"its process ended without a word ({outcome.where})"
                return replace(outcome, state="killed", message=message)
        return outcome

    def arguments(self) -> list[str]:
        """Return the arguments of `captau` that run the jobs that are not done."""
        axes: dict[str, list[str]] = {}
        for job in self.jobs:
            for word in job:
                key, _, value = word.partition("=")
                values = axes.setdefault(key, [])
                if value not in values:
                    values.append(value)
        overrides = [f"{key}={','.join(values)}" for key, values in axes.items()]
        return [*self.command.split(), "--multirun", *overrides, *self.options]

    def save(self) -> None:
        """Write sweep.json; one that exists must be of the same jobs.

        Raises:
            InputError: where the folder is another sweep's, or cannot be written.
        """
        path = self.folder / SWEEP_FILE
        if path.exists():
            earlier = read_sweep(self.folder)
            if (earlier.command, earlier.jobs) != (self.command, self.jobs):
                raise InputError(
                    f"{self.folder} is the folder of another sweep, of {len(earlier.jobs)} jobs of captau "
                    f"{earlier.command}; set output_dir=DIR"
                )
        record = {**asdict(self), "format": 1, "captau": version("captau")}
        del record["folder"]
        write_file(path, to_json(record))


def read_sweep(folder: Path) -> Sweep:
    """Read the sweep of a folder.

    Raises:
        InputError: where there is none, or its file is damaged.
    """
    folder = expand_home(folder)
    path = folder / SWEEP_FILE
    if not path.is_file():
        raise InputError(
            f"{folder} has no {SWEEP_FILE}: it is no sweep's folder; captau bench --multirun says where it "
            f"wrote to"
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Sweep(
            folder,
            str(record["command"]),
            tuple(tuple(map(str, job)) for job in record["jobs"]),
            tuple(map(str, record["options"])),
            str(record["directory"]),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error}); name another folder") from error


def read_outcome(folder: Path) -> JobOutcome:
    """Read the outcome that a job wrote; a job without one is waiting."""
    try:
        return JobOutcome(**json.loads((folder / JOB_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not begun, or not a job's file
        return JobOutcome("waiting")


def write_outcome(folder: Path, outcome: JobOutcome) -> None:
    """Write the outcome of a job into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / JOB_FILE, to_json(asdict(outcome)))


@dataclass(frozen=True)
class JobTask:
    """The function that a job's process runs; it is pickled, and sent there with its attributes.

    Attributes:
        command: runs the command on a composed configuration, and returns its exit status.
        directory: where relative paths start.
        environment: captau's environment variables, for a machine where they are not set.
        is_quiet: whether what the job prints goes into a file of its folder.
    """

    command: Callable[[DictConfig], int | None]
    directory: str
    environment: Mapping[str, str]
    is_quiet: bool

    def __call__(self, config: DictConfig) -> None:
        """Run a job, unless it is done already, or another process runs it."""
        folder = Path(HydraConfig.get().runtime.output_dir)
        with contextlib.suppress(FolderInUseError), FolderClaim(folder):
            if is_done(read_outcome(folder)):
                return
            running = JobOutcome(
                "running",
                captau=version("captau"),
                where=f"process {os.getpid()} on {platform.node()}",
                started=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            write_outcome(folder, running)
            start = time.perf_counter()
            try:
                with (
                    self._restored_environment(),
                    _redirect_output(folder / LOG_FILE if self.is_quiet else None),
                ):
                    outcome = self._run(config, running)
            except BaseException:  # stopped, not failed
                (folder / JOB_FILE).unlink(missing_ok=True)
                raise
            seconds = round(time.perf_counter() - start, 3)
            write_outcome(folder, replace(outcome, seconds=seconds))

    def _run(self, config: DictConfig, running: JobOutcome) -> JobOutcome:
        """Run the command, and return the job's outcome."""
        try:
            status = self.command(config) or 0
        except InputError as error:
            message = " ".join(str(error).split())
            return replace(running, state="failed", status=2, message=message)
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            message += f" (a fault of captau's; {JOB_FILE} has the traceback)"
            trace = traceback.format_exc()
            return replace(running, state="failed", status=1, message=message, trace=trace)
        if status:
            return replace(running, state="failed", status=status, message=f"exit status {status}")
        return replace(running, state="done")

    @contextlib.contextmanager
    def _restored_environment(self) -> Generator[None]:
        """Work in the sweep's directory, with its variables; afterwards all variables are as before."""
        before = dict(os.environ)
        with contextlib.chdir(self.directory):
            os.environ.update({k: v for k, v in self.environment.items() if k not in before})
            try:
                yield
            finally:
                for name in os.environ.keys() - before.keys():
                    del os.environ[name]
                os.environ.update(before)


def is_done(outcome: JobOutcome) -> bool:
    """Say whether a job need not run again: it succeeded, under this version of captau."""
    return outcome.state == "done" and outcome.captau == version("captau")


@contextlib.contextmanager
def _redirect_output(path: Path | None) -> Generator[None]:
    """Write what is printed into a file; for None leave it to the terminal."""
    if path is None:
        yield
        return
    with (
        path.open("w", encoding="utf-8", errors="replace") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        yield


def check_installed(options: Sequence[str]) -> None:
    """Check that the modules of a launcher are installed; without them Hydra would not know its name.

    Raises:
        InputError: where one is not.
    """
    for word in options:
        name = word.partition("=")[2]
        if word.startswith("hydra/launcher=") and name in LAUNCHERS:
            extra, modules, _ = LAUNCHERS[name]
            for module in modules:
                if not _is_installed(module):
                    raise InputError(f"{word} needs {module}: pip install 'captau[{extra}]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False


def make_launcher(config: DictConfig, loader: Any, task: JobTask) -> Launcher:
    """Return the launcher that a configuration chooses, set up to run a task."""
    context = HydraContext(config_loader=loader, callbacks=Callbacks(config))
    name = config.hydra.runtime.choices["hydra/launcher"]
    if name not in LAUNCHERS:  # Hydra's basic launcher, or a plugin
        return Plugins.instance().instantiate_launcher(
            hydra_context=context, config=config, task_function=task
        )
    options: Any = OmegaConf.to_container(config.hydra.launcher, resolve=True)
    options.pop("_target_", None)
    launcher = LAUNCHERS[name][2](options)
    launcher.setup(hydra_context=context, config=config, task_function=task)
    return launcher


def _make_joblib(options: dict[str, Any]) -> Launcher:
    from hydra_plugins.hydra_joblib_launcher.joblib_launcher import JoblibLauncher

    # One job after another: a batch would have to be done again as a whole.
    return JoblibLauncher(**{**options, "batch_size": 1})


def _make_submitit_local(options: dict[str, Any]) -> Launcher:
    from .launch_submitit import SubmititLauncher

    limit = max(1, count_cores() // (options["cpus_per_task"] or 1))
    return SubmititLauncher("local", limit, **options)


def _make_slurm(options: dict[str, Any]) -> Launcher:
    from .launch_submitit import SubmititLauncher

    return SubmititLauncher("slurm", **options)


def _make_ray(options: dict[str, Any]) -> Launcher:
    from .launch_ray import RayLauncher

    return RayLauncher(**options)


_SUBMITIT = ("submitit", "hydra_plugins.hydra_submitit_launcher")
#: By name: the extra and the modules that a launcher needs, and the function that makes it of its options.
LAUNCHERS: dict[str, tuple[str, Sequence[str], Callable[[dict[str, Any]], Launcher]]] = {
    "joblib": ("sweeps", ("joblib", "hydra_plugins.hydra_joblib_launcher"), _make_joblib),
    "submitit_local": ("sweeps", _SUBMITIT, _make_submitit_local),
    "submitit_slurm": ("sweeps", _SUBMITIT, _make_slurm),
    "slurm": ("sweeps", _SUBMITIT, _make_slurm),
    "ray": ("ray", ("ray",), _make_ray),
}
