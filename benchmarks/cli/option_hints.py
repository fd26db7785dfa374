"""Hints at what to type instead of an option that a command does not have.

Spelling alone misleads where commands call one thing by several names: whoever types `candidates=` to `captau validate`
means its `file=`, and not `columns.candidate_rows`, which is spelt more alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home, is_file
from ..options.declaration import Option
from .command import Command

#: Names of one thing: those that commands have first, and then what else people type.
_NAMES_OF_ONE_THING = (
    ("candidates", "file", "captions", "hypotheses", "predictions", "system"),
    ("dataset", "data", "datasets"),
    ("references", "refs", "ground_truth"),
    ("file.path", "file", "path", "ratings"),
    ("study", "challenge"),
)
#: From here on two names are spelt alike (`metrix` and `metrics`).
_ALIKE = 0.75


def refuse_option(
    command: Command, key: str, options: Mapping[str, Option], value: str = ""
) -> InputError:
    """Return the error for an option that a command does not have, with the option or the command that is meant.

    Args:
        command: the command.
        key: the option as it was typed.
        options: the command's own, by name.
        value: what was typed behind it.
    """
    kind = f"option of captau {command.name}"
    listed_by = f"captau {command.name} --help all"
    names_file = value == "-" or is_file(expand_home(value))
    if names_file and "." not in key and "candidates" in command.options.positional:
        return InputError(
            f"unknown {kind} '{key}'; a file gets a name behind its option: candidates={key}={value} references=FILE"
        )
    for names in _NAMES_OF_ONE_THING:
        meant = [name for name in names if name in options]
        if key in names and meant:
            return InputError(
                f"unknown {kind} '{key}': did you mean {meant[0]}? {listed_by} lists them"
            )

    is_alike = bool(difflib.get_close_matches(key, options, n=1, cutoff=_ALIKE))
    is_known = any(key in names for names in _NAMES_OF_ONE_THING)
    name, owners = _find_owners(key)
    if owners and (is_known or not is_alike):
        from ..evaluation.wording import list_words

        take = "takes" if len(owners) == 1 else "take"
        hint = f"{list_words(owners, 2)} {take} {name}="
        return InputError(f"unknown {kind} '{key}': {hint}; {listed_by} lists its own options")
    return unknown(kind, key, options, listed_by=listed_by)


def _find_owners(key: str) -> tuple[str, list[str]]:
    """Return what other commands call an option, and which ones, those that score before all others."""
    from .registry import COMMANDS

    name = key
    for names in _NAMES_OF_ONE_THING:
        if key in names:
            name = names[0]
            break

    owners: list[str] = []
    for command in sorted(
        COMMANDS.values(), key=lambda other: other.name not in ("bench", "score")
    ):
        if any(option.key == name for option in command.declared()):
            owners.append(f"captau {command.name}")
    return name, owners
