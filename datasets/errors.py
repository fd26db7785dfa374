"""The one error that a user's input can cause, and how unknown names are reported."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """Something the user gave is wrong: a file, a name, a parameter, a folder.

    The message is one line that names the file and line (or key) and the remedy. The command line
    prints it on stderr and exits with status 2; from Python it is raised as it is.
    """

    def __init__(self, message: str) -> None:
        # A name or path that it quotes may hold line breaks.
        super().__init__(message.replace("\r", "\\r").replace("\n", "\\n"))


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not known, with the nearest known names first.

    Args:
        kind: what the name stands for, as in "unknown dataset …".
        name: what was typed.
        known: every name that would have been right.
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    near += [n for n in names if n not in near and (n.startswith(name) or name.startswith(n))][:3]
    hint = f"did you mean {' or '.join(near)}? " if near and name else ""
    return InputError(f"unknown {kind} '{name}': {hint}known: {', '.join(names) or 'none'}")
