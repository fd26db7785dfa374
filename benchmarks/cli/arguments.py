"""The words behind a command: flags apart from overrides, keys and names checked, paths quoted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ...conf import group
from ...datasets.errors import InputError, unknown
from ..options.declaration import Option
from .command import Command

#: Hydra's flags that make sense here, with the words that may follow each.
FLAGS: dict[str, tuple[str, ...]] = {
    "--help": (),
    "-h": (),
    "--hydra-help": (),
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--resolve": (),
    "--multirun": (),
    "-m": (),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}


def split_flags(command: Command, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return overrides and Hydra's flags; its own parser takes overrides only together.

    Raises:
        InputError: on another flag, or a word that is no key=value of an option of the command.
    """
    overrides: list[str] = []
    flags: list[str] = []
    for word in words:
        flag, equals, value = word.partition("=")
        if word.startswith("-"):
            if flag not in FLAGS:
                raise unknown(f"flag of captau {command.name}", word, FLAGS)
            if equals and value not in FLAGS[flag]:
                raise InputError(f"{word}: {_expected_words(flag)}")
            flags += [flag, value] if equals else [flag]
        elif flags and word in FLAGS.get(flags[-1], ()):
            flags.append(word)
        elif equals:
            overrides += read_override(command, word)
        elif (positional := command.options.positional) and not any(
            override.startswith(f"{positional}=") for override in overrides
        ):
            overrides += read_override(command, f"{positional}={word}")
        else:
            raise InputError(
                f"'{word}' is not of the form key=value; see captau {command.name} --help"
            )
    for flag, follower in pairwise([*flags, ""]):
        if flag in ("--cfg", "-c") and follower not in FLAGS[flag]:
            raise InputError(f"{flag}: {_expected_words(flag)}")
    if "--resolve" in flags and not {"--cfg", "-c"} & set(flags):
        raise InputError("--resolve goes with --cfg: --cfg job --resolve")
    return overrides, flags


def _expected_words(flag: str) -> str:
    words = FLAGS[flag]
    return f"one of {', '.join(words)} is expected" if words else "it takes no value"


def read_override(command: Command, word: str) -> list[str]:
    """Return a key=value as Hydra reads it: names checked, a path quoted, `all` spelt out, models apart.

    Raises:
        InputError: on an unknown option or name.
    """
    key, _, value = word.partition("=")
    if key == "hydra.mode":
        raise InputError("hydra.mode is not for typing; --multirun sweeps")
    if key.startswith(("hydra.", "hydra/", "datasets.")):
        return [word]
    if key.startswith("rater.") and command.name == "train":
        return [word]  # an option of the chosen rater, which checks it
    options = {option.key: option for option in command.declared()}
    if key not in options:
        # `+key` would add an option that nothing reads, and `~key` remove one that is needed.
        raise unknown(f"option of captau {command.name}", key, options)
    if options[key].config_group:
        return _read_names(command, key, value)
    if options[key].is_literal and value and value[0] not in "'\"" and value != "null":
        return [f"{key}={_quoted_value(options[key], value)}"]
    return [word]


def _read_names(command: Command, key: str, value: str) -> list[str]:
    """Return the overrides for files of a config group."""
    options = command.options
    models = options.model_names if key == "dataset" else ()
    choices = [*group(key), *models, *(["all"] if key == options.takes_all else [])]
    if value == "all" and "all" in choices:
        return [f"{key}=[{','.join(group(key))}]"]
    names = re.findall(r"[^\[\],\s'\"]+", value)
    if not names:
        raise InputError(f"{key}= is empty; known: {', '.join(choices)}")
    for name in names:
        if name not in (*group(key), *models):
            raise unknown(key, name, choices)
    if not (named_models := [name for name in names if name in models]):
        return [f"{key}={value}"]
    datasets = [name for name in names if name not in models]
    return [
        f"models=[{','.join(named_models)}]",
        *([f"{key}=[{','.join(datasets)}]"] if datasets else []),
    ]


def _quoted_value(option: Option, value: str) -> str:
    if option.has_several and value[0] == "[" and value[-1] == "]":
        paths = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^,])+", value[1:-1])
        bare = (re.sub(r"^(\w+=)?(['\"])(.*)\2$", r"\1\3", path.strip()) for path in paths)
        return f"[{','.join(map(_quoted, bare))}]"
    return _quoted(value)


def _quoted(path: str) -> str:
    """Return a path in quotes of Hydra's grammar, its `~` spelt out."""
    path = str(Path(path).expanduser()) if path.startswith("~") else path
    escaped = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
