"""The options of a finished run, which `run=DIR` stores: they become words before those that are typed, which win."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..options.declaration import Option
from ..options.shared import STORED
from ..runs.finished_run import read_run
from ..runs.output_folder import find_run
from .command import Command
from .overrides import quoted
from .registry import COMMANDS

_KEYS = tuple(option.key for option in STORED)
RUN = "run"
#: A text that means the same in Hydra's grammar with and without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")


def expand_stored_options(command: Command, words: Sequence[str]) -> list[str]:
    """Return the words of a command with `run=` replaced by the options that the run stored.

    Raises:
        InputError: on a folder without a run, or an option that the command lacks.
    """
    options = {option.key: option for option in command.declared()}
    if not _has_stored(options):
        return list(words)

    typed = [word for word in words if word.partition("=")[0] != RUN]
    stored: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key == RUN:
            folders = [str(find_run(folder)) for folder in split_folders(value)]
            if len(folders) == 1:
                stored |= _read_run_options(command, options, folders[0], typed)
            elif command.name == "compare":
                typed.append(f"run=[{','.join(map(quoted, folders))}]")
            else:
                raise InputError(f"{word}: one folder is expected; captau compare takes two")

    typed_keys = {word.partition("=")[0] for word in typed}
    check_programs(stored, typed_keys)
    if "dataset" in typed_keys:
        # Options of a stored file belong to the stored dataset.
        typed_keys.add("file")

    expanded: list[str] = []
    for key, value in stored.items():
        # A typed `protocol=` takes the place of all stored options of the protocol.
        if key not in typed_keys and key.partition(".")[0] not in typed_keys:
            expanded.append(f"{key}={value}")
    return [*expanded, *typed]


def check_programs(stored: Mapping[str, Any], typed_keys: Collection[str]) -> None:
    """Check that programs to run are typed, and not only stored.

    Raises:
        InputError: where one is not.
    """
    for key in ("java.home", "java.spice"):
        if key in stored and key not in typed_keys:
            raise InputError(
                f"{key} of a stored run or experiment names programs to run; if you trust {stored[key]}, type {key}= as well"
            )


def _has_stored(options: Mapping[str, Option]) -> bool:
    """Say whether a command can take stored options; `run` of other commands is another option."""
    return all(options.get(option.key) == option for option in STORED)


def split_folders(value: str) -> list[str]:
    """Return the folders of `A,B` or `[A,B]`; a folder that is there may have commas in its name."""
    if expand_home(value).is_dir():
        return [value]
    parts = value.removeprefix("[").removesuffix("]").split(",")
    return [part.strip(" '\"") for part in parts]


def _commands_of_runs(command: Command, options: Mapping[str, Option]) -> list[str]:
    """Return the commands whose runs a command takes the stored options of."""
    if "dataset" not in options:
        return [peer.name for peer in COMMANDS.values() if peer is command]

    # Commands that take datasets and stored options take the runs of one another.
    names: list[str] = []
    for peer in COMMANDS.values():
        by_key = {option.key: option for option in peer.declared()}
        if peer is command or (_has_stored(by_key) and "dataset" in by_key):
            names.append(peer.name)
    return names


def _read_run_options(
    command: Command, options: Mapping[str, Option], folder: str, typed: Sequence[str]
) -> dict[str, str]:
    """Return the options of a finished run that this command has too and that are not its defaults.

    Raises:
        InputError: where Python objects were scored, which no file holds, and `typed` names none instead; where the
            run's datasets are no names.
    """
    commands = _commands_of_runs(command, options)
    run = read_run(folder, checks_numbers=False)
    if (run.folder / "manifest.json").is_file():
        raise InputError(
            f"{folder} is the run of a large set, which run= does not take: captau score candidates=SHARDS "
            f"output_dir={folder} continues it, captau score keep.run={folder} filters it, and table.md in it is its table"
        )
    if run.command not in commands:
        raise InputError(
            f"{folder} is a run of captau {run.command}; one of {', '.join(commands)} is expected"
        )

    config = dict(run.run.get("config") or {})
    replaced = {word.partition("=")[0] for word in typed}
    in_memory = [key for key in config.get("in_memory", ()) if key not in replaced]
    if in_memory:
        remedy = " ".join(f"{key}=…" for key in in_memory)
        raise InputError(
            f"{folder} was run from Python objects that were not saved ({', '.join(in_memory)}); run it again from "
            f"Python, or type {remedy} as well"
        )

    for group_name, key in (("dataset", "datasets"), ("paper", "papers")):
        names: Any = config.get(key) or config.get(group_name) or ()
        if not isinstance(names, list | dict | str | tuple):
            raise InputError(
                f"{folder}/run.json: config.{key} is {names!r}; names are expected; run it again"
            )
        config[group_name] = list(names)

    options = _with_rater_options(options, config)
    is_of_other_command = run.command != command.name
    left_out = command.options.own_meaning if is_of_other_command else ()
    stored: dict[str, str] = {}
    for key, option in options.items():
        value = _look_up(config, key, option.default)
        if value is None and is_of_other_command:
            # Another command may leave open what this one has a default for, as `agree` does its metrics.
            continue
        is_choice = key in ("protocol", "output_dir", *_KEYS, "rater.name", "rater.demo", *left_out)
        if not is_choice and value not in ([], option.default):
            stored[key] = _hydra_text(value)
    return stored


def _with_rater_options(
    options: Mapping[str, Option], config: dict[str, Any]
) -> Mapping[str, Option]:
    """Return options with those of a stored rater, which its own file declares; their values move to their keys."""
    rater = config.get("rater")
    if not isinstance(rater, Mapping):
        return options

    by_key = dict(options)
    for name, value in rater.items():
        key = f"rater.{name}"
        by_key[key] = Option(key, None, "")
        config[key] = value
    config["rater"] = rater.get("name")
    return by_key


def _look_up(config: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return the value of a dotted key, or the default where there is none."""
    value: Any = config
    if key in config:
        return config[key]
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return default
        value = value[name]
    return value


def _hydra_text(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, Mapping):
        entries: list[str] = []
        for key, entry in value.items():
            entries.append(f"{_hydra_text(key)}:{_hydra_text(entry)}")
        return "{" + ",".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_hydra_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return quoted(value)
    text = str(value)
    return text.lower() if isinstance(value, bool) else text
