"""Help texts, made of the registry and of the options' declarations, and completion in bash, zsh and fish.

Hydra completes a command's options; `complete` completes the command and the names that Hydra does not know.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import textwrap
from typing import Any

from ...conf import CONFIG_DIR, group
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..options.declaration import NEEDED, Option
from ..options.shared import SCORING
from ..runs.output_folder import list_runs
from ..scoring.catalog import choices_of
from .command import Command
from .overrides import OWN_FILES
from .registry import COMMANDS, packaged_commands, split_command

#: The widest line of `--help all`.
_WIDEST = 110
_COLUMN = 25
#: The width of a terminal, for which `--help` is made, and the number of its examples.
_SCREEN = 80
_N_EXAMPLES = 3
_FLAGS = (
    "Flags (Hydra's): --cfg job shows the resolved options, --multirun runs every combination of "
    "comma-separated values (each into its own folder), 'eval \"$(captau -sc install=bash)\"' "
    "turns on completion of options, names, files and run folders in bash; install=zsh and install=fish exist too. "
    "--config-dir DIR adds your own datasets, protocols, suites, papers and experiments (docs/own_files.md)."
)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return [" ".join(block.split()) for block in blocks if block]


def short_help(command: Command) -> str:
    """Return the help text of `--help`, which fits a screen: summary, three examples, and options by group."""
    declared = sorted(command.declared(), key=lambda option: option.heading == SCORING)
    single = [option for option in declared if "." not in option.key]
    lines = [f"captau {command.name}: {command.summary}", ""]
    for example in _short_examples(command):
        lines += _fit(*_split_remark(example))

    lines += ["", "Options:"]
    for option in single:
        head = f"{option.key}={_placeholder(option)}"
        text = option.help_text.removeprefix(f"{_placeholder(option)} ")
        clause = re.split(r"; |\. ", text)[0] + _default_remark(option)
        # A default that does not fit is left to `--help all`.
        lines += _fit(
            head, clause if len(clause) <= _SCREEN - _COLUMN else clause.partition(" (")[0]
        )

    names_by_prefix: dict[str, list[str]] = {}
    for option in declared:
        prefix, dot, name = option.key.partition(".")
        if dot:
            names_by_prefix.setdefault(prefix, []).append(name)
    for prefix, names in names_by_prefix.items():
        text = f"  {prefix}.*".ljust(_COLUMN) + ", ".join(names)
        lines += textwrap.wrap(text, _SCREEN, subsequent_indent=" " * _COLUMN)
    lines += ["", f"captau {command.name} --help all explains options and files."]
    return "\n".join(lines)


def _split_remark(example: str) -> tuple[str, str]:
    """Return the command of an example, and the remark that may stand behind it, after two blanks or more."""
    command, *remarks = re.split(r"\s{2,}", example, maxsplit=1)
    return command, remarks[0] if remarks else ""


def _short_examples(command: Command) -> list[str]:
    """Return the first examples whose command fits a screen, or the first ones where none does."""
    examples = command.options.examples.strip().splitlines()
    fitting: list[str] = []
    for example in examples:
        typed, _ = _split_remark(example)
        if len(typed) + 2 <= _SCREEN:
            fitting.append(example)
    return (fitting or examples)[:_N_EXAMPLES]


def _fit(head: str, text: str) -> list[str]:
    """Return one line of a word and its text, or two where the word is long; the text is cut at the screen."""
    words = " ".join(text.split())
    room = _SCREEN - _COLUMN
    cut = words if len(words) <= room else textwrap.shorten(words, room, placeholder=" …")
    if len(head) + 4 <= _COLUMN:
        return [(f"  {head}".ljust(_COLUMN) + cut).rstrip()]

    lines = [f"  {head}"]
    if cut:
        lines.append(" " * _COLUMN + cut)
    return lines


def help_text(command: Command) -> str:
    """Return the text of `--help all`: summary, examples, notes, options by heading, files and flags."""
    options = command.options
    declared = command.declared()
    width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)
    blocks = [f"captau {command.name}: {command.summary}."]
    blocks.append("\n".join(_example_lines(options.examples, width)))
    blocks += [textwrap.fill(text, width) for text in paragraphs(options.notes)]

    lines_by_heading: dict[str, list[str]] = {"": []}
    for option in declared:
        lines_by_heading.setdefault(option.heading, []).append(_option_lines(option, width))
    # The options that many commands share come last.
    shared_lines = lines_by_heading.pop(SCORING, [])
    lines_by_heading[SCORING] = shared_lines
    for heading, lines in lines_by_heading.items():
        if lines:
            blocks.append("\n".join([f"{heading or 'Options'}:", *lines]))

    blocks += [textwrap.fill(text, width) for text in paragraphs(options.writes)]
    if options.objective:
        text = f"Sweepers that optimise get this value (docs/clusters.md): {options.objective}."
        blocks.append(textwrap.fill(text, width))
    if any(option.config_group for option in declared):
        blocks.append("captau --help all lists the datasets, metrics, suites and papers.")
    blocks.append(textwrap.fill(_FLAGS, width))
    return "\n\n".join(blocks)


def _example_lines(examples: str, width: int) -> list[str]:
    """Return the examples, one on each line; a remark that is too far right for the width moves left, or to the next line."""
    lines: list[str] = []
    for example in examples.strip().splitlines():
        line = f"  {example}"
        command, remark = _split_remark(example)
        line_with_near_remark = f"  {command}    {remark}"
        if len(line) <= width or not remark:
            lines.append(line)
        elif len(line_with_near_remark) <= width:
            lines.append(line_with_near_remark)
        else:
            lines += [f"  {command}", " " * _COLUMN + remark]
    return lines


def _option_lines(option: Option, width: int) -> str:
    """Return an option's lines of `--help all`; beside a long name there is no room, and its text begins on the next line."""
    placeholder = _placeholder(option)
    head = f"  {option.key}={placeholder}"
    text = textwrap.wrap(
        f"{option.help_text.removeprefix(f'{placeholder} ')}{_default_remark(option)}",
        width,
        initial_indent=" " * _COLUMN,
        subsequent_indent=" " * _COLUMN,
        break_on_hyphens=False,
    )
    if len(head) + 2 > _COLUMN:
        return "\n".join([head, *text])
    return "\n".join([head + text[0][len(head) :], *text[1:]])


def _placeholder(option: Option) -> str:
    if option.takes or option.type in (Any, str, str | None):
        return option.takes or ("PATH" if option.is_literal else "NAME")
    if option.type is bool:
        return str(not option.default).lower()
    return "N" if option.type in (int, int | None) else "NUMBER"


def _default_remark(option: Option) -> str:
    if option.default == NEEDED:
        return " (needed)"
    has_default = option.default not in (None, []) and not isinstance(option.default, bool)
    if not has_default or "(default" in option.help:
        return ""
    return f" (default: {default_text(option.default)})"


def default_text(value: Any) -> str:
    """Return a default as it would be typed."""
    if isinstance(value, list):
        return ",".join(map(default_text, value))
    return str(value).lower() if isinstance(value, bool) else f"{value}"


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
        next_words: dict[str, None] = {}
        for name in (*COMMANDS, *packaged_commands()):
            row = name.split()
            if row[: len(typed)] == typed != row and row[len(typed)].startswith(last_word):
                next_words[row[len(typed)]] = None
        return "\n".join(next_words)

    # Hydra knows one program with options, so the command's words are taken out of its view.
    name_pattern = r"\s+".join(map(re.escape, command.name.split()))
    os.environ["COMP_LINE"] = re.sub(r"^(\S+)\s+" + name_pattern, r"\1", line)

    # Hydra offers every config group there is; a command has its own options.
    roots = {option.key.partition(".")[0] for option in command.declared()}
    offered = _ask_hydra(command, arguments).split()
    fitting = [word for word in offered if re.split(r"[.=]", word)[0] in roots]
    last_word = line.split(" ")[-1]
    if last_word[:2] == "--" and OWN_FILES.startswith(last_word):
        fitting.append(OWN_FILES)
    # Hydra offers any file where a value begins like a path.
    return "\n".join(_value_words(command, last_word) or fitting)


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


def _value_words(command: Command, last_word: str) -> list[str]:
    """Return completions of an option's value, also behind a comma: names, runs and files, which Hydra does not know."""
    key, equals, value = last_word.partition("=")
    options = {option.key: option for option in command.declared()}
    option = options.get(key)
    if option is None or not equals:
        return []

    before, comma, part = value.rpartition(",")
    names = list(option.values())
    if option.config_group:
        names = choices_of(option.config_group)
    elif key == "experiment":
        names = group("experiment")
    elif key == "metrics":
        paths = _paths(part, _CODE_OR_SCORES) if part else []
        names = [*group("suite"), *group("metric"), *paths]
    elif key == "run":
        runs = list(map(str, list_runs()))
        names = ["last", *runs]
        for path in _paths(part, ()):
            # A run is completed without a slash at its end.
            if path[:-1] not in runs:
                names.append(path)
    elif option.is_literal:
        label, named, path = part.rpartition("=")  # candidates=mine=FILE
        names = [f"{label}{named}{name}" for name in _paths(path)]
    parts_before = before.split(",")
    words: list[str] = []
    for name in dict.fromkeys(names):
        is_new = name.startswith(part) and name not in parts_before
        # A shell would take a name with a blank for two words.
        if is_new and not re.search(r"\s", name):
            words.append(f"{key}={before}{comma}{name}")
    return words


#: Endings of the files that `metrics=` takes.
_CODE_OR_SCORES = (".py", ".csv", ".jsonl", ".parquet")


def _paths(typed: str, endings: tuple[str, ...] = ("",)) -> list[str]:
    """Return the files and folders whose path begins as typed: files of some endings, and folders with a slash."""
    folder, slash, name = typed.rpartition("/")
    paths: list[str] = []
    with contextlib.suppress(OSError, InputError):
        for entry in sorted(expand_home(folder + slash or ".").iterdir()):
            # As in a shell, hidden files have to be asked for.
            is_hidden = not name and entry.name[0] == "."
            if is_hidden or not entry.name.startswith(name):
                continue
            if entry.is_dir() or entry.name.endswith(endings):
                paths.append(f"{folder}{slash}{entry.name}{'/' * entry.is_dir()}")
    return paths
