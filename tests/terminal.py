"""A terminal of 80 columns for tests: commands ask, draw and cut lines there alone."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path


def run_in_terminal(
    *words: object, folder: Path, answers: str = "", columns: int = 80
) -> tuple[int, str]:
    """Run `captau` in a terminal of its own, and return the exit status and what it showed.

    Args:
        words: the command and its options.
        folder: where it runs.
        answers: what a person types.
        columns: how wide it is.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
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
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's end of a terminal that nobody holds any more
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(), shown.decode(errors="replace").replace("\r\n", "\n")
