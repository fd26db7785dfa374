"""Results of a command as files, and the time that it took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from .results import table_files, to_csv, to_json
from .tables import ResultTable, html_of

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


@dataclass(frozen=True)
class RunOutput:
    """The results of a command whose files are tables of rows.

    Attributes:
        frames: the rows by file name.
        run: what it takes to recompute them.
        tables: the tables that are printed.
        figures: figures as files by name; none without matplotlib.
    """

    frames: Mapping[str, pd.DataFrame]
    run: dict[str, Any]
    tables: list[ResultTable]
    figures: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def _repr_html_(self) -> str:
        """Return the printed tables as a notebook shows them."""
        return "".join(html_of(table) for table in self.tables)

    def files(self) -> dict[str, bytes]:
        """Return the files by name; `run.json` comes last, so its presence says that all are there."""
        return {
            **{name: to_csv(frame) for name, frame in self.frames.items()},
            **table_files(self.tables),
            **self.figures,
            "run.json": to_json(self.run),
        }
