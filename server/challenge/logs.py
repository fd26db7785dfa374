"""Log messages of the server and its workers as lines on standard error."""

from __future__ import annotations

import logging
import sys


class _LineHandler(logging.Handler):
    """Prints a message as one line, without the text of an exception, which may quote a reference."""

    def __init__(self, prefix: str) -> None:
        super().__init__(logging.WARNING)
        self._prefix = prefix

    def emit(self, record: logging.LogRecord) -> None:
        exception = record.exc_info[0] if record.exc_info else None
        suffix = f": {exception.__name__}" if exception is not None else ""
        print(f"{self._prefix}{record.getMessage()}{suffix}", file=sys.stderr, flush=True)


def log_to_stderr(logger_name: str, prefix: str) -> None:
    """Print a logger's warnings and errors to standard error, each as a line that begins with `prefix`."""
    logger = logging.getLogger(logger_name)
    if not any(isinstance(handler, _LineHandler) for handler in logger.handlers):
        logger.addHandler(_LineHandler(prefix))
