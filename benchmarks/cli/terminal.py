"""Tables and sentences that commands print, as wide as the terminal is; elsewhere tables are Markdown, sentences lines.

What captau's modules log is printed as lines on stderr.
"""

from __future__ import annotations

import codecs
import logging
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from ...datasets.errors import escape_controls, one_line

if TYPE_CHECKING:
    from ..runs.tables import ResultTable


#: The error handler that writes what a locale lacks in the letters that all have.
PLAIN_LETTERS = "captau.plain_letters"
_PLAIN = {
    "τ": "tau", "ρ": "rho", "κ": "kappa", "α": "alpha", "ω": "omega", "ε": "epsilon", "π": "pi",
    "±": "+-", "×": "x", "−": "-", "–": "-", "…": "...", "·": "*", "→": "->", "≤": "<=", "≥": ">=",
    "‘": "'", "’": "'", "“": '"', "”": '"', "│": "|", "━": "-",
}  # fmt: skip


def _write_plainly(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for letters that a stream's encoding lacks: `tau` for τ, and `?` for what has no plain letters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in missing), error.end


codecs.register_error(PLAIN_LETTERS, _write_plainly)


def show_text(text: str, file: TextIO | None = None) -> None:
    """Print sentences: a terminal breaks lines between words, and not within paths; elsewhere they stay as they are.

    Args:
        text: its lines; one that begins with a blank is to be copied, and is never broken.
        file: standard output by default.
    """
    file = file or sys.stdout
    lines = escape_lines(text).split("\n")
    # A process that was started without standard streams has None in their place.
    if file is not None and file.isatty():
        width = shutil.get_terminal_size().columns
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        # A line to be copied, such as a command, begins with a blank.
        lines = [line if line.startswith(" ") else wrapper.fill(line) for line in lines]
    print("\n".join(lines), file=file)


def show_tables(tables: Sequence[ResultTable]) -> None:
    """Print tables, each note once: for a terminal as wide as it is, elsewhere as Markdown."""
    from ..runs.markdown_table import markdown_of

    tables = _say_notes_once(tables)
    if sys.stdout.isatty():
        from rich.console import Console

        from ..runs.terminal_table import rich_of

        console = Console()
        for table in tables:
            console.print(rich_of(table.map_texts(escape_lines), console.width))
    else:
        print(escape_lines("\n\n".join(markdown_of(table) for table in tables)))


def _say_notes_once(tables: Sequence[ResultTable]) -> list[ResultTable]:
    """Return tables without the notes that stand below one before."""
    notes_before: set[str] = set()
    shorter_tables: list[ResultTable] = []
    for table in tables:
        marked_table = table.with_marks()
        new_notes = [note for note in marked_table.notes if note not in notes_before]
        shorter_tables.append(replace(marked_table, notes=new_notes))
        notes_before.update(marked_table.notes)
    return shorter_tables


def escape_lines(text: str) -> str:
    """Return a text in which names of the user's data cannot steer a terminal."""
    return "\n".join(map(escape_controls, text.split("\n")))


class StderrLines(logging.Handler):
    """A handler that prints `captau: warning: …`, and information without its level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record to what is standard error now."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        message = "\n".join(map(one_line, record.getMessage().split("\n")))
        show_text(f"captau: {level}{message}", sys.stderr)


def show_log(*, of_all: bool = False) -> None:
    """Print what captau's modules log from `INFO` upwards, each record once.

    Args:
        of_all: whether to print what other packages log as well, at the levels that are set for them.
    """
    logger = logging.getLogger("captau")
    hide_log()
    printed_logger = logging.getLogger() if of_all else logger
    printed_logger.addHandler(StderrLines())
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def hide_log() -> None:
    """Print no more of what is logged."""
    for logger in (logging.getLogger("captau"), logging.getLogger()):
        for handler in list(logger.handlers):
            if isinstance(handler, StderrLines):
                logger.removeHandler(handler)
