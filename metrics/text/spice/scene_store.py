"""What SPICE's parser found in every caption it has ever met, in the user's cache folder.

It is an SQLite file: several processes share it, and a killed one loses what it had not committed.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

#: What a caption says: objects `[dog]`, attributes `[dog, brown]`, relations `[dog, grass, run on]`.
Tuples = list[list[str]]

# A process waits so many seconds for another one that writes.
_PATIENCE = 60.0
# SQLite takes 32,766 question marks in a statement, older ones 999.
_AT_ONCE = 500


@dataclass(frozen=True)
class Failure:
    """Why a caption could not be parsed, and within which limits."""

    reason: str
    limits: str


Parsed = Tuples | Failure


class SceneStore:
    """Captions that were parsed once, by their text.

    A file that is damaged is set aside and begun anew; one that cannot be written costs time later,
    not this run. Either is told on stderr.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path

    def get(self, captions: Sequence[str]) -> dict[str, Parsed]:
        """Those of the captions that are known."""
        found: dict[str, Parsed] = {}

        def read(connection: sqlite3.Connection) -> None:
            for start in range(0, len(captions), _AT_ONCE):
                some = captions[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = (
                    f"SELECT caption, tuples, reason, limits FROM scenes WHERE caption IN ({marks})"
                )
                for caption, tuples, reason, limits in connection.execute(query, some):
                    known = tuples is not None
                    found[caption] = json.loads(tuples) if known else Failure(reason, limits)

        self._use(read)
        return found

    def put(self, parsed: Mapping[str, Parsed]) -> None:
        """Keep what was found, all of it or nothing."""
        rows = [
            (caption, None, one.reason, one.limits)
            if isinstance(one, Failure)
            else (caption, json.dumps(one, ensure_ascii=False), None, None)
            for caption, one in parsed.items()
        ]

        def write(connection: sqlite3.Connection) -> None:
            with connection:  # one transaction
                connection.executemany("REPLACE INTO scenes VALUES (?, ?, ?, ?)", rows)

        if rows:
            self._use(write)

    def _use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Work on the file, which is made where it is not there, if it can be used."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS scenes "
                    "(caption TEXT PRIMARY KEY, tuples TEXT, reason TEXT, limits TEXT) WITHOUT ROWID"
                )
                work(connection)
        except (OSError, sqlite3.Error, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        assert self.path is not None
        place, self.path = self.path, None
        damaged = isinstance(error, ValueError) or type(error) is sqlite3.DatabaseError
        if damaged:
            aside = place.with_suffix(".damaged")
            try:
                place.replace(aside)
                self.path, remedy = place, f"it is begun anew, and lies aside as {aside.name}"
            except OSError:
                remedy = "delete it"
        else:
            remedy = "what is parsed is not kept for the next run; set CAPTAU_CACHE=DIR"
        print(f"captau: warning: {place}: {error}; {remedy}", file=sys.stderr)
