"""The columns of `agreement.csv`, and the time that a run took."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

#: The columns of `agreement.csv`, whatever kind of agreement it is.
AGREEMENT_COLUMNS = ("dataset", "measure", "value", "std", "n_items", "note")


class RunClock:
    """The time since a run began."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._began = time.perf_counter()

    def record(self) -> dict[str, Any]:
        """Return `started` and `seconds` until now, for `run.json`."""
        seconds = round(time.perf_counter() - self._began, 3)
        return {"started": self._started.isoformat(timespec="seconds"), "seconds": seconds}
