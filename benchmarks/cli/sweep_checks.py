"""Checks, before any work, that what is typed for a sweep has an effect; Hydra would run no job, or ignore it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from ...datasets.errors import InputError
from ..scoring.catalog import choices_of
from .command import Command
from .hydra_errors import explain
from .overrides import EXPERIMENT_GROUP

#: What Hydra reads of a sweep alone, its launcher and its sweeper.
_OF_SWEEPS = ("hydra/launcher", "hydra/sweeper", "hydra.launcher", "hydra.sweeper")
#: Flags that show the configuration of a run or of a sweep, and start neither.
_SHOWING_FLAGS = {"--cfg", "-c", "--info", "-i", "--hydra-help"}


def check_sweep(command: Command, words: Sequence[str]) -> None:
    """Check what is typed of a sweep, its sweeper and its folders.

    Raises:
        InputError: where something has no effect, or no value.
    """
    _check_sweeper(command, words)
    _check_log(words)
    try:
        _check_functions(command, words)
    except HydraException as error:
        raise explain(error, command) from error
    _check_folders(words)


def _check_sweeper(command: Command, words: Sequence[str]) -> None:
    """Check before any work that a sweeper which optimises is not asked of a command without a headline value.

    Raises:
        InputError: where it is.
    """
    for word in words:
        key, _, sweeper = word.partition("=")
        if key == "hydra.sweeper.direction" and "," in sweeper:
            raise InputError(
                f"{word}: a command returns one value; write hydra.sweeper.direction=maximize or minimize"
            )
        if key == "hydra/sweeper" and sweeper != "basic" and not command.options.objective:
            raise InputError(
                f"captau {command.name} returns no headline value, which {word} would optimise; leave it out"
            )


def _check_log(words: Sequence[str]) -> None:
    """Check that options of Hydra's log are typed where Hydra logs; else captau does, which they do not reach.

    Raises:
        InputError: where they have no effect.
    """
    keys = {word.partition("=")[0].lstrip("+") for word in words}
    for name in ("job_logging", "hydra_logging"):
        for key in keys:
            if key.startswith(f"hydra.{name}.") and f"hydra/{name}" not in keys:
                raise InputError(
                    f"{key}= is of Hydra's own log; add hydra/{name}=default, or write hydra.verbose=true for everybody's log"
                )


def _check_functions(command: Command, words: Sequence[str]) -> None:
    """Check that functions of a sweep have values: Hydra would run no job, and call this a success.

    Raises:
        InputError: where one has none, or needs another sweeper.
    """
    parser = OverridesParser.create()
    groups = {option.key: option.config_group for option in command.declared()}
    has_sweeper = any(word.startswith("hydra/sweeper=") for word in words)
    for word in words:
        key, _, value = word.partition("=")
        if value.startswith("range("):
            override = parser.parse_override(word)
            if override.is_sweep_override() and not any(True for _ in override.sweep_iterator()):
                raise InputError(f"{word}: the range has no values; give it a start below its stop")
        elif value.lstrip("[\"'").startswith("extend_list("):
            raise InputError(
                f"{key}=: Hydra 1.3 has no function extend_list; write the whole list, as {key}=A,B"
            )
        elif value.startswith("interval(") and not has_sweeper:
            raise InputError(
                f"{word}: an interval needs a sweeper such as hydra/sweeper=optuna; without one, write {key}=range(…)"
            )
        elif value.startswith("glob(") and key in groups:
            if not groups[key]:
                raise InputError(
                    f"{word}: glob() finds files of config groups, which {key}= is not of; write {key}=A,B"
                )
            pattern: Any = parser.parse_override(word).value()
            if not pattern.filter(choices_of(key)):
                raise InputError(f"{word}: no {key} matches; known: {', '.join(choices_of(key))}")


def _check_folders(words: Sequence[str]) -> None:
    """Check that a folder of Hydra's has an effect: a run has none of a sweep, nor a sweep that of a run.

    Raises:
        InputError: where one has none, or where the folder of a sweep hangs on a value that differs between its jobs.
    """
    keys = {word.partition("=")[0].lstrip("+") for word in words}
    for key in ("hydra.run.dir", "hydra.sweep.dir"):
        if {key, "output_dir"} <= keys:
            raise InputError(f"{key}= and output_dir= name the same folder; leave one of them out")

    # Files of one's own may say that a run is a sweep.
    if keys & {EXPERIMENT_GROUP, "--config-name", "-cn"} or keys & _SHOWING_FLAGS:
        return

    is_sweep = bool(keys & {"-m", "--multirun"}) or "hydra.mode=MULTIRUN" in words
    is_sweep = is_sweep and "hydra.mode=RUN" not in words
    swept_keys = _find_swept_keys(words) if is_sweep else set[str]()
    for word in words:
        key, _, folder = word.partition("=")
        if is_sweep and key == "hydra.run.dir":
            raise InputError(
                f"{word} is of a single run; write hydra.sweep.dir=, or leave --multirun out"
            )
        if not is_sweep and key in ("hydra.sweep.dir", "hydra.sweep.subdir"):
            raise InputError(f"{word} is of a sweep; add --multirun, or write hydra.run.dir=")
        if not is_sweep and key.startswith(_OF_SWEEPS):
            raise InputError(f"{word} is of a sweep; add --multirun, or leave it out")
        if key in ("output_dir", "hydra.sweep.dir"):
            for swept_key in swept_keys:
                if f"${{{swept_key}}}" in folder:
                    raise InputError(
                        f"{word}: a sweep has one folder for all jobs; write hydra.sweep.subdir=${{{swept_key}}} beside it"
                    )


def _find_swept_keys(words: Sequence[str]) -> set[str]:
    """Return the keys of the overrides that have several values."""
    parser = OverridesParser.create()
    swept_keys: set[str] = set()
    for word in words:
        # What Hydra cannot read it names itself, and flags are no overrides.
        with contextlib.suppress(HydraException):
            override = parser.parse_override(word)
            if override.is_sweep_override():
                swept_keys.add(override.get_key_element())

    return swept_keys
