"""The error that a user's input can cause, and the message about an unknown name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

#: Beside a name that is close, longer lists of known names are left out.
_MOST_LISTED = 12
#: Characters that end a line, steer a terminal, turn the direction of the text, have no width, or cannot be written.
_STEERING = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
#: The most characters of a word, and of a message, that a person reads.
_WORD_LENGTH = 600
_MESSAGE_LENGTH = 2000
#: The most characters of a text or value of the input in a message.
_MOST_QUOTED = 80


def escape_controls(text: str) -> str:
    """Return a text whose control characters are escaped, line ends among them."""
    return _STEERING.sub(lambda match: repr(match[0]).strip("'"), text)


def one_line(text: str) -> str:
    """Return a text as a line for a terminal: control characters escaped, and the middle of what is too long left out."""

    def leave_out_middle(text: str, length: int) -> str:
        if len(text) <= length:
            return text

        return f"{text[: length - 160]}…{text[-160:]}"

    line = escape_controls(text)
    long_word = rf"\S{{{_WORD_LENGTH},}}"
    line = re.sub(long_word, lambda match: leave_out_middle(match[0], _WORD_LENGTH), line)
    return leave_out_middle(line, _MESSAGE_LENGTH)


def shorten(text: str) -> str:
    """Return a text of the input as a message shows it: cut after 80 characters."""
    if len(text) <= _MOST_QUOTED:
        return text

    return f"{text[:_MOST_QUOTED]}…"


class InputError(Exception):
    """Wrong input: a file, a name, a parameter or a folder that captau cannot use.

    The message is one line that names the file and line (or key) and the remedy. The command line
    prints it on stderr and exits with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))  # a name, path or cell that it quotes may hold anything

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of the error, by IPython's protocol: the line alone.

        The traceback stays where Python keeps the last one: `traceback.print_last()` prints it.
        """
        return [f"{type(self).__name__}: {self}"]


class MissingFileError(InputError):
    """A dataset's file is not in the data folder; the message says how to get it."""


def unwritable(path: Path, error: OSError, remedy: str) -> InputError:
    """Return the error for a full disk, a folder without the right to write, and the like."""
    return InputError(f"{path}: cannot be written ({error.strerror}); make room or {remedy}")


class Lack(StrEnum):
    """Parts that a dataset may lack."""

    SYSTEM = "system"
    SPLIT = "split"
    DIMENSION = "dimension"
    JUDGEMENTS = "judgements"
    METRICS = "metrics"
    TESTS = "tests"
    VARIATION = "variation"
    RATERS = "raters"


class LackingError(InputError):
    """A dataset lacks what is asked of it; a run of several datasets goes on without it.

    Args:
        lack: what it lacks.
        problem: see `InputError`.
        dataset: the name that stands before the problem; empty where the problem names what lacks something.
    """

    def __init__(self, lack: Lack, problem: str, dataset: str = "") -> None:
        self.lack = lack
        self.problem = problem
        super().__init__(f"dataset {dataset}: {problem}" if dataset else problem)


def unknown(kind: str, name: str, known_names: Iterable[str], *, listed_by: str = "") -> InputError:
    """Return the error for an unknown name, with the nearest known names first.

    Args:
        kind: the kind of name, as in "unknown dataset …".
        name: the name as it was typed.
        known_names: every valid name.
        listed_by: the command that lists them, where there are too many for a message.
    """
    names = sorted(set(known_names))
    near, is_close = _find_near(name, names)
    if not near:
        # CIDEr-D is looked for as cider_d.
        near, is_close = _find_near(name.lower().replace("-", "_"), names)

    hint = f"did you mean {' or '.join(near)}? " if near and name else ""
    if hint and is_close and not listed_by and len(names) > _MOST_LISTED:
        return InputError(f"unknown {kind} '{name}': {hint.strip()}")

    rest = f"{listed_by} lists them" if listed_by else f"known: {', '.join(names) or 'none'}"
    return InputError(f"unknown {kind} '{name}': {hint}{rest}")


def _find_near(name: str, names: Sequence[str]) -> tuple[list[str], bool]:
    """Return the names that are nearest to one, and whether one of them is so near that no others need be listed."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    # A part of a name, or a name with more at its end, need not be similar as a whole.
    longer: list[str] = []
    for known_name in names:
        if known_name.startswith(name) or name.startswith(known_name):
            longer.append(known_name)
    near += [longer_name for longer_name in longer if longer_name not in near][:3]

    is_close = bool(longer or difflib.get_close_matches(name, names, n=1, cutoff=0.75))
    return near, is_close
