"""Sweeps: a run for each combination of options, by one of Hydra's launchers.

A sweep's folder holds `sweep.json` (what was asked for) and a folder a job, with the run's files and
`job.json` (how it went). Jobs run in whatever process and on whatever machine the launcher has; what
they have to say goes by way of these files, so that nothing is lost with the process that began them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError
from ..runs.folder_claim import FolderClaim, claim_holder
from ..runs.progress_bar import StepProgress
from .jobs import (
    JOB,
    STATES,
    SWEEP,
    TRIES,
    Outcome,
    Sweep,
    Task,
    is_done,
    read_outcome,
    write_outcome,
)

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from hydra.plugins.launcher import Launcher
    from omegaconf import DictConfig


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
            write_outcome(
                sweep.place(batch[0]),
                replace(ended, state="failed", status=1, message=message),
            )
        else:  # processes of an earlier call are still at them
            time.sleep(1)
        left = [n for n in left if read_outcome(sweep.place(n)).state not in ("done", "failed")]


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
            write_outcome(sweep.place(number), failed)


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
                if read_outcome(sweep.place(number)).state in ("done", "failed"):
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
