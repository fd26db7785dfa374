"""The log of captau's libraries as lines on standard error, which `main` turns on."""

from __future__ import annotations

import logging
import sys

from ...datasets.errors import one_line


class StderrLines(logging.Handler):
    """A handler that prints `captau: warning: …`, and information without its level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record to what is standard error now."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        message = "\n".join(map(one_line, record.getMessage().split("\n")))
        print(f"captau: {level}{message}", file=sys.stderr)


def show_log() -> None:
    """Print what captau's modules log from `INFO` upwards, each record once."""
    logger = logging.getLogger("captau")
    if not any(isinstance(handler, StderrLines) for handler in logger.handlers):
        logger.addHandler(StderrLines())
    logger.setLevel(logging.INFO)
