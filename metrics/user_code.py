"""Calls into the user's Python code, whose exceptions become messages of one line."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..datasets.errors import InputError

Returned = TypeVar("Returned")

#: The files whose lines are no news to the user.
_OWN_FILES = (
    importlib.__file__,
    *(
        str(Path(__file__).with_name(name))
        for name in ("user_code.py", "base.py", "python_function.py")
    ),
)


def run_user_code(
    label: str, run: Callable[[], Returned], advice: str | Callable[[], str] = ""
) -> Returned:
    """Return the result of a function that calls the user's code.

    Args:
        label: the user's function or class as messages call it.
        run: the function.
        advice: the end of the message, or a function that makes it.

    Raises:
        InputError: whatever it raises, with file and line of the user's code.
    """
    try:
        return run()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        end = advice if isinstance(advice, str) else advice()
        raise InputError(f"{label}: {text}{_source_line(error)}{end}") from error


def _source_line(error: BaseException) -> str:
    """Name file and line in the user's code that an exception comes from, for the end of a message."""
    if isinstance(error, SyntaxError):
        # Its text names file and line.
        return ""

    frames: list[traceback.FrameSummary] = []
    for frame in traceback.extract_tb(error.__traceback__):
        is_own = frame.filename in _OWN_FILES or frame.filename.startswith("<frozen")
        if not is_own:
            frames.append(frame)
    if not frames:
        return ""

    # The deepest line in the file that came first: the libraries that it calls say less.
    frames_of_file = [frame for frame in frames if frame.filename == frames[0].filename]
    last = frames_of_file[-1]
    return f" ({last.filename}, line {last.lineno})"
