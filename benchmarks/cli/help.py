"""Help texts, made of the registry and of the options' declarations."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from ..options.declaration import NEEDED, Option
from ..options.shared import SCORING
from .command import Command

_WIDTH = 110
_COLUMN = 25
#: The width of a terminal, for which `--help` is made, and the number of its examples.
_SCREEN = 80
_N_EXAMPLES = 3
_FLAGS = (
    "Flags (Hydra's): --cfg job shows the resolved options, --multirun runs every combination of "
    "comma-separated values (each into its own folder), 'eval \"$(captau -sc install=bash)\"' "
    "turns on completion in bash; install=zsh and install=fish exist too. "
    "--config-dir DIR adds your own datasets, protocols, suites, papers and experiments (docs/own_files.md)."
)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line."""
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", text.strip()) if block]


def short_help(command: Command) -> str:
    """Return the help text of `--help`, which fits a screen: summary, three examples, and options by group."""
    declared = sorted(command.declared(), key=lambda o: o.heading == SCORING)
    single = [o for o in declared if "." not in o.key]
    lines = [f"captau {command.name}: {command.summary}", ""]
    for example in _short_examples(command):
        lines += _fit(*re.split(r"\s{2,}", f"{example}  ", maxsplit=1))
    lines += ["", "Options:"]
    for option in single:
        head = f"{option.key}={_placeholder(option)}"
        text = option.help.removeprefix(f"{_placeholder(option)} ")
        clause = re.split(r"; |\. ", text)[0] + _default_remark(option)
        # A default that does not fit is left to `--help all`.
        lines += _fit(
            head, clause if len(clause) <= _SCREEN - _COLUMN else clause.partition(" (")[0]
        )
    for prefix in dict.fromkeys(o.key.partition(".")[0] for o in declared if "." in o.key):
        names = [o.key.partition(".")[2] for o in declared if o.key.startswith(f"{prefix}.")]
        text = f"  {prefix}.*".ljust(_COLUMN) + ", ".join(names)
        lines += textwrap.wrap(text, _SCREEN, subsequent_indent=" " * _COLUMN)
    lines += ["", f"captau {command.name} --help all explains options and files."]
    return "\n".join(lines)


def _short_examples(command: Command) -> list[str]:
    """Return the first examples whose command fits a screen, or the first ones where none does."""
    examples = command.options.examples.strip().splitlines()
    fitting = [e for e in examples if len(re.split(r"\s{2,}", e)[0]) + 2 <= _SCREEN]
    return (fitting or examples)[:_N_EXAMPLES]


def _fit(head: str, text: str) -> list[str]:
    """Return one line of a word and its text, or two where the word is long; the text is cut at the screen."""
    words = " ".join(text.split())
    room = _SCREEN - _COLUMN
    cut = words if len(words) <= room else textwrap.shorten(words, room, placeholder=" …")
    if len(head) + 4 > _COLUMN:
        return [f"  {head}", *([" " * _COLUMN + cut] if cut else [])]
    return [f"  {head}".ljust(_COLUMN) + cut]


def help_text(command: Command) -> str:
    """Return the text of `--help all`: summary, examples, notes, options by heading, files and flags."""
    options, declared = command.options, command.declared()
    blocks = [f"captau {command.name}: {command.summary}."]
    blocks.append("\n".join(f"  {line}" for line in options.examples.strip().splitlines()))
    blocks += [textwrap.fill(text, _WIDTH) for text in paragraphs(options.notes)]
    headings = dict.fromkeys(["", *(o.heading for o in declared if o.heading != SCORING)])
    for heading in [*headings, SCORING]:
        lines = [_option_lines(o) for o in declared if o.heading == heading]
        if lines:
            blocks.append("\n".join([f"{heading or 'Options'}:", *lines]))
    blocks += [textwrap.fill(text, _WIDTH) for text in paragraphs(options.writes)]
    if any(o.config_group for o in declared):
        blocks.append("captau --help all lists the datasets, metrics, suites and papers.")
    blocks.append(textwrap.fill(_FLAGS, _WIDTH))
    return "\n\n".join(blocks)


def _option_lines(option: Option) -> str:
    placeholder = _placeholder(option)
    head = f"  {option.key}={placeholder}"
    text = textwrap.wrap(
        f"{option.help.removeprefix(f'{placeholder} ')}{_default_remark(option)}",
        _WIDTH,
        initial_indent=" " * _COLUMN,
        subsequent_indent=" " * _COLUMN,
        break_on_hyphens=False,
    )
    if len(head) + 2 > _COLUMN:
        return "\n".join([f"{head}  {text[0].strip()}", *text[1:]])
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
        return f"[{','.join(map(default_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else f"{value}"
