"""Completion in bash, zsh and fish: Hydra completes a command's options, and this completes the command."""

from __future__ import annotations

import contextlib
import io
import os
import re

from ...conf import CONFIG_DIR, group
from ...datasets.errors import InputError
from ..statistics.coefficients.coefficient import coefficient_names
from .arguments import OWN_FILES
from .command import Command
from .registry import COMMANDS, packaged_commands, split_command

#: Hydra's script for zsh uses bash's `complete`, which zsh has to load first.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
autoload -Uz bashcompinit && bashcompinit"""


def complete(arguments: list[str]) -> str:
    """Return what `-sc install=SHELL` and `-sc query=SHELL` print.

    Raises:
        InputError: on another shell.
    """
    if len(arguments) != 2 or not re.fullmatch(
        r"(install|uninstall|query)=(bash|fish|zsh)", arguments[1]
    ):
        raise InputError(f"{arguments[0]} install=bash, install=zsh or install=fish is expected")
    if not arguments[1].startswith("query"):
        script = _ask_hydra(COMMANDS["bench"], arguments).strip()
        return f"{_ZSH}\n{script}" if arguments[1] == "install=zsh" else script
    line = os.environ.get("COMP_LINE", "")
    if flag := re.search(rf"\s{OWN_FILES}[= ](\S+)(?=\s)", line):
        os.environ[CONFIG_DIR] = os.path.expanduser(flag[1])  # noqa: PTH111 - of a process that ends at once
        line = line.replace(flag[0], "")
    words = line.split()
    is_word_open = not line.endswith(" ") and len(words) > 1
    typed, last_word = (words[1:-1], words[-1]) if is_word_open else (words[1:], "")
    command = _command_of(typed)
    if command is None:
        rows = [name.split() for name in (*COMMANDS, *packaged_commands())]
        nexts = [row[len(typed)] for row in rows if row[: len(typed)] == typed != row]
        return "\n".join(dict.fromkeys(word for word in nexts if word.startswith(last_word)))
    # Hydra knows one program with options, so the command's words are taken out of its view.
    os.environ["COMP_LINE"] = re.sub(
        r"^(\S+)\s+" + r"\s+".join(map(re.escape, command.name.split())), r"\1", line
    )
    # Hydra offers every config group there is; a command has its own options.
    roots = {option.key.partition(".")[0] for option in command.declared()}
    offered = _ask_hydra(command, arguments).split()
    fitting = [word for word in offered if re.split(r"[.=]", word)[0] in roots]
    last_word = line.split(" ")[-1]
    if last_word[:2] == "--" and OWN_FILES.startswith(last_word):
        fitting.append(OWN_FILES)
    return "\n".join([*fitting, *_metric_words(command, last_word)])


def _command_of(words: list[str]) -> Command | None:
    """Return the command that words begin with; None where they do not."""
    try:
        return split_command(words)[0] if words else None
    except InputError:
        return None


def _ask_hydra(command: Command, arguments: list[str]) -> str:
    from .hydra_runner import run_hydra

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_hydra(command, arguments)
    return printed.getvalue()


def _metric_words(command: Command, last_word: str) -> list[str]:
    """Return completions of metrics, coefficients and `experiment=`, which are no config groups to Hydra."""
    key = last_word.partition("=")[0]
    names = {
        "metrics": [*group("suite"), *group("metric")],
        "experiment": group("experiment"),
        "protocol.coefficients": coefficient_names(),
    }
    if key not in names or all(option.key != key for option in command.declared()):
        return []
    return [word for name in names[key] if (word := f"{key}={name}").startswith(last_word)]
