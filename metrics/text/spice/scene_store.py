"""Store of parsed captions in the user's cache folder, which `metric.parse_scenes` reads and fills.

It is an SQLite file: several processes share it, and a killed one only loses uncommitted captions.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

#: A caption's scene graph: objects `[dog]`, attributes `[dog, brown]`, relations `[dog, grass, run on]`.
Tuples = list[list[str]]

# Seconds to wait for another process that writes.
_PATIENCE = 60.0
# SQLite takes 32,766 question marks in a statement, older versions 999.
_BATCH = 500

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ParseFailure:
    """The reason why a caption could not be parsed, and the limits that applied."""

    reason: str
    limits: str


Scene = Tuples | ParseFailure


class SceneStore:
    """Parsed captions, by their text.

    A damaged file is renamed and replaced by a new one; a file that cannot be written costs time later,
    not this run. Either is logged as a warning.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path

    def get(self, captions: Sequence[str]) -> dict[str, Scene]:
        """Return the scenes of those captions that are stored."""
        scenes: dict[str, Scene] = {}

        def read(connection: sqlite3.Connection) -> None:
            for start in range(0, len(captions), _BATCH):
                batch = captions[start : start + _BATCH]
                marks = ",".join("?" * len(batch))
                query = (
                    f"SELECT caption, tuples, reason, limits FROM scenes WHERE caption IN ({marks})"
                )
                for caption, tuples, reason, limits in connection.execute(query, batch):
                    scenes[caption] = (
                        ParseFailure(reason, limits) if tuples is None else json.loads(tuples)
                    )

        self._use(read)
        return scenes

    def put(self, scenes: Mapping[str, Scene]) -> None:
        """Store scenes, all of them or none."""
        rows = [
            (caption, None, scene.reason, scene.limits)
            if isinstance(scene, ParseFailure)
            else (caption, json.dumps(scene, ensure_ascii=False), None, None)
            for caption, scene in scenes.items()
        ]

        def write(connection: sqlite3.Connection) -> None:
            with connection:  # one transaction
                connection.executemany("REPLACE INTO scenes VALUES (?, ?, ?, ?)", rows)

        if rows:
            self._use(write)

    def _use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Work on the file, creating it if needed, unless it cannot be used."""
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
            self._give_up(self.path, error)

    def _give_up(self, path: Path, error: Exception) -> None:
        self.path = None
        is_damaged = isinstance(error, ValueError) or type(error) is sqlite3.DatabaseError
        if is_damaged:
            renamed = path.with_suffix(".damaged")
            try:
                path.replace(renamed)
                self.path, remedy = path, f"it was renamed to {renamed.name}, and a new one begun"
            except OSError:
                remedy = "delete it"
        else:
            remedy = "parsed captions are not kept for the next run; set CAPTAU_CACHE=DIR"
        logger.warning("%s: %s; %s", path, error, remedy)
