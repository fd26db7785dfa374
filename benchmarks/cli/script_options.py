"""The options `key=value` of the scripts in `scripts/`, and their manuals."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence


def show_manual(manual: str | None, words: Sequence[str] | None = None) -> None:
    """Print a script's manual, its docstring, and end it, where `--help` or `-h` was typed.

    Args:
        manual: the script's `__doc__`.
        words: what was typed behind the script's name; by default what this process was started with.
    """
    words = sys.argv[1:] if words is None else words
    if {"--help", "-h"} & set(words):
        print((manual or "").strip())
        raise SystemExit(0)


def read_options(
    manual: str | None, names: Collection[str], words: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the options that were typed as `key=value`; `--help` prints the manual.

    Args:
        manual: the script's `__doc__`.
        names: the options that there are.
        words: as in `show_manual`.

    Raises:
        SystemExit: on another word, with a line that names the options.
    """
    words = sys.argv[1:] if words is None else words
    show_manual(manual, words)
    options: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in names or not equals:
            raise SystemExit(
                f"{word}: one of {', '.join(f'{known}=' for known in names)} is expected"
            )
        options[name] = value
    return options
