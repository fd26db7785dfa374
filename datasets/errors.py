"""The error that a user's input can cause, and the message about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Beside near names, longer lists of known names are left out.
_MOST_LISTED = 12


class InputError(Exception):
    """Something the user gave is wrong: a file, a name, a parameter, a folder.

    The message is one line that names the file and line (or key) and the remedy. The command line
    prints it on stderr and exits with status 2; from Python it is raised as it is.
    """

    def __init__(self, message: str) -> None:
        # A name or path that it quotes may hold line breaks.
        super().__init__(message.replace("\r", "\\r").replace("\n", "\\n"))


class MissingFileError(InputError):
    """A dataset's file is not in the data folder; the message says how to get it."""


def unknown(kind: str, name: str, known_names: Iterable[str], *, listed_by: str = "") -> InputError:
    """Return the error for an unknown name, with the nearest known names first.

    Args:
        kind: the kind of name, as in "unknown dataset …".
        name: the name as it was typed.
        known_names: every valid name.
        listed_by: the command that lists them, where there are too many for a message.
    """
    names = sorted(set(known_names))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    near += [n for n in names if n not in near and (n.startswith(name) or name.startswith(n))][:3]
    hint = f"did you mean {' or '.join(near)}? " if near and name else ""
    if hint and not listed_by and len(names) > _MOST_LISTED:
        return InputError(f"unknown {kind} '{name}': {hint.strip()}")
    rest = f"{listed_by} lists them" if listed_by else f"known: {', '.join(names) or 'none'}"
    return InputError(f"unknown {kind} '{name}': {hint}{rest}")
