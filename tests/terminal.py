"""A terminal of 80 columns for tests: commands ask, draw and cut lines there alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

#: The width of the terminal, in cells.
WIDTH = 80
#: What moves the cursor, colours text and names the window.
_CONTROLS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")


@contextlib.contextmanager
def own_terminal() -> Iterator[list[str]]:
    """Let this process's standard streams be a terminal while the block lasts, and list the lines that it showed.

    Yields:
        A list that is filled when the block ends: the lines as they stand at last, without colours.
    """
    ours, theirs = _open_terminal()
    _refuse_downloads(ours)
    kept = [os.dup(fd) for fd in range(3)]
    streams = sys.stdin, sys.stdout, sys.stderr
    shown = bytearray()
    is_done = threading.Event()
    reader = threading.Thread(target=_read_until, args=(ours, shown, is_done))
    reader.start()
    lines: list[str] = []
    try:
        for fd in range(3):
            os.dup2(theirs, fd)
        os.close(theirs)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
        yield lines
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
        for fd, file in enumerate(kept):
            os.dup2(file, fd)
            os.close(file)
        is_done.set()
        reader.join()
        os.close(ours)
        lines += _lines_of(shown.decode(errors="replace"))


def _open_terminal(columns: int = WIDTH) -> tuple[int, int]:
    """Return our end and the program's end of a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return ours, theirs


def _refuse_downloads(terminal: int) -> None:
    """Type a no, which is not shown, to each question before a download."""
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    os.write(terminal, b"n\n" * 9)


def _read_until(terminal: int, shown: bytearray, is_done: threading.Event) -> None:
    """Read what is shown until all is; a command's worker processes may hold the terminal for longer."""
    is_last = False
    while not is_last:
        was_done = (
            is_done.is_set()
        )  # before the look: what is written between the two is read in the next turn
        is_ready = bool(select.select([terminal], [], [], 0.05)[0])
        try:
            shown += os.read(terminal, 65536) if is_ready else b""
        except OSError:  # Linux's end of a terminal that nobody holds any more
            return
        is_last = was_done and not is_ready


def _read_all(terminal: int, shown: bytearray) -> None:
    with contextlib.suppress(OSError):  # Linux's end of a terminal that nobody holds any more
        while piece := os.read(terminal, 65536):
            shown += piece


def _lines_of(shown: str) -> list[str]:
    """Return the lines of what a terminal got: what a bar wrote over a line, after a return, replaces it."""
    text = _CONTROLS.sub("", shown).replace("\r\n", "\n")
    return [line.rpartition("\r")[2] for line in text.split("\n")]


def run_in_terminal(
    *words: object, folder: Path, answers: str = "", columns: int = WIDTH
) -> tuple[int, str]:
    """Run `captau` in a terminal of its own, and return the exit status and what it showed.

    Args:
        words: the command and its options.
        folder: where it runs.
        answers: what a person types.
        columns: how wide it is.
    """
    ours, theirs = _open_terminal(columns)
    process = subprocess.Popen(
        [Path(sys.executable).with_name("captau"), *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": ""},
    )
    os.close(theirs)
    os.write(ours, answers.encode())
    shown = bytearray()
    _read_all(ours, shown)
    os.close(ours)
    return process.wait(), shown.decode(errors="replace").replace("\r\n", "\n")
