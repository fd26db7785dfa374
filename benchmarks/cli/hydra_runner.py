"""Hydra at the edge: a command as Hydra's program and its launchers run it, and Hydra's errors as one line.

Hydra composes and checks what is typed, makes the run's folder and starts the jobs of a sweep; the command makes its
options of the composed configuration and runs its task.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    OmegaConfBaseException,
)

from ...conf import CONFIG_DIR
from ...datasets.errors import InputError
from ...metrics.progress import draw_no_bars
from ...metrics.spec_text import split_at_commas
from ..options.declaration import Composed
from ..runs.output_folder import HYDRA_FOLDER, RUN_FILE, remove_leftovers, temporary_of
from .command import Command, Outcome
from .hydra_config import QUIET, register
from .hydra_errors import COMPOSITION_ERRORS, explain, explain_interpolation
from .registry import find_command
from .sweep_checks import check_sweep
from .terminal import hide_log, show_log, show_text

logger = logging.getLogger(__name__)


class FailedJobError(Exception):
    """A job of a sweep failed; the message names it and says why."""


@dataclass
class Job:
    """The work of a command, which Hydra calls with each composed configuration, and launchers pickle.

    Attributes:
        command_name: the name of the command.
        process: the number of the process that started the sweep.
        outcome: what the command returned, outside of sweeps.
        error: what it raised, outside of sweeps; Hydra would print a line of its own about it.
        failures: a line for each job of a sweep that failed in this process.
    """

    command_name: str
    process: int = field(default_factory=os.getpid)
    outcome: Outcome = field(default_factory=Outcome)
    error: Exception | None = None
    failures: list[str] = field(default_factory=list[str])

    def __call__(self, config: DictConfig) -> float | None:
        """Run the command, and return its headline value, which sweepers optimise.

        Raises:
            FailedJobError: where a job of a sweep fails.
        """
        _show_chosen_log()
        if os.getpid() != self.process:
            # Processes of a launcher share a terminal: they draw nothing there and ask nothing.
            draw_no_bars()
            sys.stdin = None
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            return self._run_in_sweep(config)
        try:
            self.outcome = self._run(config)
        except Exception as error:
            self.error = error
        return self.outcome.objective

    def _run(self, config: DictConfig) -> Outcome:
        command = find_command(self.command_name)
        composed = composed_of(command, config)
        # What a command sets for its child processes is not for the next job of a sweep.
        variables = dict(os.environ)
        try:
            return command.run(composed)
        finally:
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                os.environ.clear()
                os.environ.update(variables)

    def _run_in_sweep(self, config: DictConfig) -> float | None:
        cause: Exception | None = None
        try:
            outcome = self._run(config)
            if not outcome.status:
                _check_objective(self.command_name, outcome.objective)
                return outcome.objective
            reason = f"the exit status is {outcome.status}"
        except InputError as error:
            reason = str(error)
            cause = error
        except Exception as error:
            # A fault of captau's: its place would be lost on the way to the process of the sweep.
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
            cause = error

        hydra_config = HydraConfig.get()
        name = _name_job(Path(hydra_config.runtime.output_dir), hydra_config.overrides.task)
        line = f"{name} failed: {' '.join(reason.split())}"
        if os.getpid() == self.process:
            self.failures.append(line)
        else:
            show_text(f"captau: {line}", sys.stderr)
        raise FailedJobError(line) from cause


def _check_objective(command_name: str, objective: float | None) -> None:
    """Check that a sweeper which optimises has a value to optimise.

    Raises:
        InputError: where it has none.
    """
    sweeper = HydraConfig.get().runtime.choices["hydra/sweeper"]
    if sweeper != "basic" and (objective is None or math.isnan(objective)):
        raise InputError(
            f"captau {command_name} returned no headline value with these options, which hydra/sweeper={sweeper} "
            f"optimises; leave hydra/sweeper= out"
        )


def _name_job(folder: Path, overrides: Sequence[str]) -> str:
    """Return a job's name for people: its folder and its overrides."""
    working_folder = Path.cwd()
    if folder.is_relative_to(working_folder):
        folder = folder.relative_to(working_folder)
    words = [word for word in overrides if not word.startswith("output_dir=")]
    return f"job {folder} ({' '.join(words)})"


def _name_unfinished_jobs(sweep_folder: Path) -> list[str]:
    """Return the names of a sweep's jobs that began and wrote no run, as where their process was killed."""
    names: list[str] = []
    for file in sorted(sweep_folder.glob(f"**/{HYDRA_FOLDER}/overrides.yaml")):
        folder = file.parent.parent
        if not (folder / RUN_FILE).is_file():
            overrides = [str(word) for word in OmegaConf.load(file)]
            names.append(_name_job(folder.absolute(), overrides))
    return names


def _show_chosen_log() -> None:
    """Leave the log to Hydra where `hydra/job_logging=` says how it is printed; `hydra.verbose=` prints everybody's."""
    hydra_config = HydraConfig.get()
    if hydra_config.runtime.choices["hydra/job_logging"] == QUIET:
        show_log(of_all=bool(hydra_config.verbose))
    else:
        hide_log()


class FolderCallback(Callback):
    """Hydra's callback that knows which folders it makes, and says where a sweep writes.

    Attributes:
        new_folders: the folders that a run's folder needs and that were not there before.
        files_folder: the folder of Hydra's files under its temporary name; None where it has none.
        sweeps: the folder of the sweep that began; empty outside of sweeps.
    """

    new_folders: ClassVar[list[Path]] = []
    files_folder: ClassVar[Path | None] = None
    sweeps: ClassVar[list[Path]] = []

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Remember which folders of a run are new, and where Hydra's files wait for the run to be written."""
        try:
            folder = Path(config.hydra.run.dir).absolute()
        except OmegaConfBaseException:
            # Hydra meets the same error next, and raises it.
            return
        self.new_folders[:] = [path for path in (folder, *folder.parents) if not path.exists()]
        temporary = temporary_of(folder / HYDRA_FOLDER)
        if config.hydra.output_subdir == temporary.name:
            FolderCallback.files_folder = temporary

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Log the sweep's folder."""
        if config.hydra.verbose:
            show_log(of_all=True)
        self.sweeps[:] = [Path(config.hydra.sweep.dir)]
        logger.info("the jobs of the sweep write to %s", config.hydra.sweep.dir)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Print how the runs of a sweep are joined."""
        folder = config.hydra.sweep.dir
        show_text(f"\nwritten to {folder}: captau table 'run={folder}/*' joins the runs")


@contextlib.contextmanager
def _folders_settled(job: Job) -> Generator[None]:
    """Put Hydra's files beside the run that was written, or remove them where the run wrote nothing."""
    FolderCallback.new_folders.clear()
    FolderCallback.files_folder = None
    FolderCallback.sweeps.clear()
    is_done = False
    try:
        yield
        is_done = job.error is None
    finally:
        if FolderCallback.files_folder is not None:
            _settle_files(FolderCallback.files_folder, is_done)
        if FolderCallback.new_folders:
            _remove_if_unused(list(FolderCallback.new_folders))


def _settle_files(temporary: Path, is_done: bool) -> None:
    """Rename Hydra's files of a run that was written, and remove those of one that was not."""
    folder = temporary.with_name(HYDRA_FOLDER)
    # The run is whole without them.
    with contextlib.suppress(OSError):
        if is_done and temporary.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)
            # Those of a run that was killed here, and that this one went on with.
            remove_leftovers(folder.parent, HYDRA_FOLDER.removeprefix("."))
    shutil.rmtree(temporary, ignore_errors=True)


def _remove_if_unused(folders: Sequence[Path]) -> None:
    """Remove new folders, the innermost first, if Hydra's own files are all that is in them."""
    run_folder = folders[0]
    contents = list(run_folder.glob("*"))
    hydra_names = {"config.yaml", "hydra.yaml", "overrides.yaml"}
    for path in contents:
        if not path.is_dir() or {file.name for file in path.iterdir()} != hydra_names:
            return

    for path in contents:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()

    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            # Another run is in it by now.
            return


def composed_of(command: Command, config: DictConfig) -> Composed:
    """Return a composed configuration as plain data, with the keys that were typed and the run's folder.

    Raises:
        InputError: on the first option that is needed and missing.
    """
    try:
        OmegaConf.resolve(config)
    except OmegaConfBaseException as error:
        raise explain_interpolation(error) from error

    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise InputError(f"the option {missing[0]}=… is needed; see --help")

    plain: Any = OmegaConf.to_container(config)
    plain.pop("hydra", None)
    _check_complete(command, plain)
    _split_lists(command, plain)
    if not HydraConfig.initialized():
        return Composed(plain)

    words = HydraConfig.get().overrides.task
    composed = Composed(plain, frozenset(map(_key_of, words)))
    folder = _run_folder(command, composed)
    if folder is None:
        return composed
    return replace(composed, objects={"output_dir": folder})


def _key_of(word: str) -> str:
    """Return the key that a word of the command line sets: `metrics` of `+metrics=cider`."""
    key, _, _ = word.partition("=")
    return key.lstrip("+")


def _run_folder(command: Command, composed: Composed) -> Path | None:
    """Return the folder that Hydra made for a run, or for a job of a sweep; None for a command that writes no files there.

    Raises:
        InputError: where a folder was typed for a command that writes no run.
    """
    hydra_config = HydraConfig.get()
    if OmegaConf.is_missing(hydra_config.runtime, "output_dir"):
        return None

    folder = Path(hydra_config.runtime.output_dir)
    is_typed = any(word.startswith("hydra.run.dir=") for word in hydra_config.overrides.hydra)
    if is_typed:
        # It is another word for `output_dir=`.
        composed = replace(composed, objects={"output_dir": folder})
    if not command.options.has_run_folder(composed):
        if is_typed:
            raise InputError(f"captau {command.name} writes no run here; leave out hydra.run.dir=")
        # The jobs of a sweep would all write into the `output_dir=` that was typed: each gets a folder of its own.
        is_in_sweep = hydra_config.mode == RunMode.MULTIRUN
        would_share_folder = is_in_sweep and bool(composed.get("output_dir"))
        if not would_share_folder:
            return None

    working_folder = Path.cwd()
    # Under hydra.job.chdir=true the present folder is the run's.
    is_below = folder.is_relative_to(working_folder) and folder != working_folder
    return folder.relative_to(working_folder) if is_below else folder


def _check_complete(command: Command, plain: Mapping[str, Any]) -> None:
    """Check that no option was removed by `~key`, which a command cannot do without.

    Raises:
        InputError: where one was.
    """
    composed = Composed(plain)
    for option in command.options.declared():
        if option.config_group == "dataset":
            key = "datasets"
        elif option.config_group:
            continue
        else:
            key = option.key
        try:
            composed[key]
        except (KeyError, TypeError) as error:
            remedy = _find_remedy(command, key)
            raise InputError(
                f"captau {command.name} needs the option {key}=, which is not in the configuration; {remedy}"
            ) from error


def _find_remedy(command: Command, missing_key: str) -> str:
    """Say what puts a missing option back: to leave out the `~key` that removed it, or else defaults of the primary file."""
    remedy = f"begin your primary file with 'defaults: [{command.slug}, _self_]'"
    words: Sequence[str] = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    for word in words:
        if not word.startswith("~"):
            continue
        removed_key = word.partition("=")[0].removeprefix("~")
        # `~a` removes `a.b` too.
        if missing_key == removed_key or missing_key.startswith(f"{removed_key}."):
            remedy = f"leave out {word}"
    return remedy


def _split_lists(command: Command, plain: dict[str, Any]) -> None:
    """Make lists of texts such as `bleu_1,cider`, which YAML files may have as the command line does."""
    for option in command.declared():
        # OmegaConf has no type of a text or a list: options that take lists are declared as Any.
        may_be_list = option.type is Any and not option.is_literal and not option.config_group
        if not may_be_list:
            continue

        *parents, name = option.key.split(".")
        branch = plain
        for parent in parents:
            branch = branch[parent]
        value = branch[name]
        parts = split_at_commas(value) if isinstance(value, str) else None
        if parts and len(parts) > 1:
            branch[name] = [part.strip() for part in parts]


def run_hydra(
    command: Command,
    words: Sequence[str],
    experiments: Mapping[str, dict[str, Any]] | None = None,
) -> int:
    """Run a command, a sweep of it, or one of Hydra's flags, as Hydra's own program does, and return the exit status.

    Args:
        command: the command.
        words: what is typed after its name.
        experiments: the user's own experiments by name, as `read_experiments` returns them.

    Raises:
        InputError: on overrides that cannot be composed, and whatever else of the user's cannot be used.
    """
    register(command, experiments)
    check_sweep(command, words)
    job = Job(command.name)
    arguments = list(words)
    if folder := os.environ.get(CONFIG_DIR):
        arguments += ["--config-dir", folder]

    try:
        with (
            _folders_settled(job),
            _log_restored(),
            _argv(arguments),
            warnings.catch_warnings(),
        ):
            if any(word.startswith("hydra.verbose=") for word in words):
                # Hydra logs how it composes the options.
                show_log(of_all=True)
            # Hydra would go on without a folder of hydra.searchpath that is not there.
            warnings.filterwarnings("error", "provider=.* is not available")
            program = hydra.main(
                version_base="1.3", config_path="pkg://captau.conf", config_name=command.slug
            )
            program(job)()
    except SystemExit as error:
        # Hydra has printed a line of its own, such as on a package that --package names and that is not there.
        return 2 if error.code else 0
    except FailedJobError as error:
        job.failures = job.failures or [str(error)]
    except COMPOSITION_ERRORS as error:
        raise explain(error, command) from error
    except OSError as error:
        # The job keeps its own errors: this is the folder of the run or the sweep.
        raise InputError(
            f"output folder {error.filename} cannot be written ({error.strerror}); set output_dir=DIR"
        ) from error
    except Exception as error:
        if not FolderCallback.sweeps:
            raise explain(error, command) from error
        # A launcher's or a sweeper's error, as where a process was killed.
        first_line = str(error).strip().partition("\n")[0]
        job.failures.append(f"the sweep stopped: {first_line or type(error).__name__}")

    if job.error is not None:
        raise job.error
    return _report(job)


def _report(job: Job) -> int:
    """Print a line for each job of a sweep that failed, and return the exit status."""
    lines = list(job.failures)
    if lines:
        for folder in FolderCallback.sweeps:
            for name in _name_unfinished_jobs(folder):
                if not any(line.startswith(name) for line in lines):
                    lines.append(f"{name} wrote no run")
    for line in lines:
        show_text(f"captau: {line}", sys.stderr)
    return 1 if lines else job.outcome.status


@contextlib.contextmanager
def _log_restored() -> Generator[None]:
    """Give the root logger its handlers and its level back, which Hydra changes, when the block ends."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    level = root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _argv(words: Sequence[str]) -> Generator[None]:
    """Let Hydra's program read words as its command line, and leave its errors to us while the block lasts."""
    # Without this variable Hydra prints errors itself, over many lines, and exits with 1.
    full_error = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    argv = sys.argv
    sys.argv = ["captau", *words]
    try:
        yield
    finally:
        sys.argv = argv
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
