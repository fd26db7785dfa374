"""Sweeps: a run for each combination of options, by one of Hydra's launchers.

A sweep's folder holds `sweep.json` (the jobs) and a folder for each job, with the run's files and
`job.json` (its outcome). A launcher runs jobs in processes of its own, perhaps on other machines; they
report by these files alone, so that nothing is lost with the process that started them.
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
from itertools import product
from pathlib import Path
from typing import Any

from hydra import initialize_config_module

# Launchers call back through this class alone; pyproject.toml holds Hydra below 1.4 for it.
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import RunMode
from omegaconf import DictConfig

from ...datasets.errors import InputError
from ..runs.progress_bar import StepProgress
from ..runs.tables import count_of
from .folder_claim import FolderClaim, claim_holder
from .jobs import (
    ATTEMPTS,
    JOB_FILE,
    STATES,
    SWEEP_FILE,
    JobOutcome,
    JobTask,
    Sweep,
    check_installed,
    is_done,
    make_launcher,
    read_outcome,
    write_outcome,
)


@dataclass(frozen=True)
class ComposedSweep:
    """A sweep with what composes the configuration of each job.

    Attributes:
        sweep: the jobs.
        loader: Hydra's loader of configurations.
        config: the configuration of the sweep.
    """

    sweep: Sweep
    loader: Any
    config: DictConfig


def compose_sweep(
    command: str, overrides: Sequence[str], options: Sequence[str], folder: Path
) -> ComposedSweep:
    """Compose the jobs that overrides ask for.

    Args:
        command: the name of the command that each job runs.
        overrides: its `key=value`s, with several values where they are swept.
        options: Hydra's options.
        folder: the sweep's folder.

    Raises:
        InputError: where the launcher is not installed.
        HydraException, OmegaConfBaseException: on overrides that cannot be composed.
    """
    check_installed(options)
    folder = folder.resolve()
    with initialize_config_module("captau.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        words = [*options, f"hydra.sweep.dir={_quoted(folder)}", "hydra.mode=MULTIRUN"]
        config = loader.load_configuration(
            f"command/{command.replace(' ', '_')}", [*overrides, *words], run_mode=RunMode.MULTIRUN
        )
        jobs = _combine_values(loader, config)
    sweep = Sweep(folder, command, jobs, tuple(options), str(Path.cwd()))
    return ComposedSweep(sweep, loader, config)


def run_sweep(
    composed: ComposedSweep, command: Callable[[DictConfig], int | None]
) -> list[JobOutcome]:
    """Run the jobs of a sweep that are not done; one that fails does not keep the others from running.

    Args:
        composed: the sweep.
        command: runs the command on a composed configuration, and returns its exit status.

    Returns:
        The outcome of each job.

    Raises:
        InputError: where the folder is in use or another sweep's, or the launcher cannot start.
    """
    sweep, config = composed.sweep, composed.config
    is_in_process = config.hydra.runtime.choices["hydra/launcher"] == "basic"
    environment = {k: v for k, v in os.environ.items() if k.startswith("CAPTAU_")}
    task = JobTask(command, sweep.directory, environment, is_quiet=not is_in_process)
    launcher = make_launcher(config, composed.loader, task)
    with FolderClaim(sweep.folder):
        sweep.save()
        try:
            # Jobs in this process show progress bars of their own.
            with contextlib.nullcontext() if is_in_process else _show_progress(sweep):
                _launch(sweep, launcher)
        except InputError:
            if not any(sweep.job_folder(n).exists() for n in range(len(sweep.jobs))):
                (sweep.folder / SWEEP_FILE).unlink()  # nothing has begun
            raise
    return [sweep.outcome(number) for number in range(len(sweep.jobs))]


def _combine_values(loader: Any, config: DictConfig) -> tuple[tuple[str, ...], ...]:
    """Return the jobs: every combination of the overrides' values.

    Raises:
        HydraException, OmegaConfBaseException: where a value cannot be composed.
    """
    if config.hydra.runtime.choices["hydra/sweeper"] != "basic":
        raise InputError("hydra/sweeper= cannot be set; captau runs every combination")
    typed = [str(word) for word in config.hydra.overrides.task]
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(typed)
    jobs = list(product(*map(_list_values, parsed)))
    checked_overrides: set[str] = set()
    for job in jobs:
        # Composing takes time, so that each value is checked in one job only.
        if not checked_overrides.issuperset(job):
            loader.load_sweep_config(config, list(job))
            checked_overrides.update(job)
    return tuple(dict.fromkeys(jobs))  # a value that is named twice makes one job


def _list_values(override: Override) -> list[str]:
    """Return an override for each of its values."""
    key = override.get_key_element()
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise InputError(f"{override.input_line}: name the values, as {key}=1,2 does")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def _launch(sweep: Sweep, launcher: Launcher) -> None:
    """Launch jobs until every one is done or failed.

    Raises:
        InputError: where the launcher cannot start.
    """
    for number in range(len(sweep.jobs)):
        if sweep.outcome(number).state in ("failed", "killed"):
            (sweep.job_folder(number) / JOB_FILE).unlink(missing_ok=True)
    unfinished = [n for n in range(len(sweep.jobs)) if not is_done(sweep.outcome(n))]
    attempts: Counter[int] = Counter()
    while unfinished:
        idle = [n for n in unfinished if claim_holder(sweep.job_folder(n)) is None]
        if untried := [n for n in idle if not attempts[n]]:
            attempts.update(untried)
            _launch_batch(sweep, launcher, untried)
        elif not idle:  # processes of an earlier call still run them
            time.sleep(1)
        elif attempts[idle[0]] < ATTEMPTS:
            # A job whose process died is started again by itself, so that no other job dies with it.
            attempts.update(idle[:1])
            _launch_batch(sweep, launcher, idle[:1])
        else:
            message = sweep.outcome(idle[0]).message or "it was never begun"
            _write_failure(sweep, idle[0], f"{message}; out of memory, or killed")
        unfinished = [n for n in unfinished if not _has_ended(read_outcome(sweep.job_folder(n)))]


def _has_ended(outcome: JobOutcome) -> bool:
    return outcome.state in ("done", "failed")


def _write_failure(sweep: Sweep, number: int, message: str) -> None:
    failure = replace(sweep.outcome(number), state="failed", status=1, message=message)
    write_outcome(sweep.job_folder(number), failure)


def _launch_batch(sweep: Sweep, launcher: Launcher, batch: Sequence[int]) -> None:
    words = [[*sweep.jobs[n], f"hydra.sweep.subdir='{n}'"] for n in batch]
    try:
        returned: Sequence[JobReturn] = launcher.launch(words, initial_job_idx=0)
    except InputError:
        raise
    except Exception as error:
        # A pool of processes breaks when one of them is killed. What began shows in the jobs' folders.
        if all(sweep.outcome(n).state == "waiting" for n in batch):
            reason = _first_lines(error)
            raise InputError(f"hydra/launcher: no job could be started ({reason})") from error
        return
    for number, job in zip(batch, returned, strict=True):
        if job.status == JobStatus.FAILED and not _has_ended(sweep.outcome(number)):
            reason = _first_lines(job._return_value)  # pyright: ignore[reportPrivateUsage]
            _write_failure(sweep, number, f"its process died: {reason}")


def _first_lines(error: Any) -> str:
    """Return the first two lines of a launcher's error, which may hold a job's whole log."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(error).__name__


@contextlib.contextmanager
def _show_progress(sweep: Sweep) -> Generator[None]:
    """Show a progress bar over the jobs on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    stop = threading.Event()
    unfinished = set(range(len(sweep.jobs)))

    def watch() -> None:
        while not stop.wait(1):
            for number in sorted(unfinished):
                if _has_ended(read_outcome(sweep.job_folder(number))):
                    unfinished.discard(number)
                    progress.advance()

    with StepProgress(len(sweep.jobs)) as progress:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def count_states(outcomes: Sequence[JobOutcome]) -> str:
    """Return words on how many jobs there are, and how many of each state."""
    counts = Counter(outcome.state for outcome in outcomes)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{count_of(len(outcomes), 'job')}: {states}"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
