"""The clock whose times a site stores."""

from __future__ import annotations

import time


class Clock:
    """Seconds since 1970 that never run backwards, even if the machine's clock is put back.

    Args:
        earliest: the latest time that the database holds.
    """

    def __init__(self, earliest: float = 0.0) -> None:
        self._offset = max(time.time(), earliest) - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset
