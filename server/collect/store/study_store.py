"""The store of a study: its database, and a component for each concern."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, update

from ...storage.database import Database
from ...web.errors import RefusedError
from ..study import Study
from .answer_log import AnswerLog
from .assignment import Assignment
from .participants import Participants
from .study_database import StudyDatabase, TableRows, log_event
from .tables import units


class StudyStore(StudyDatabase):
    """A study in its database; pages, exports and figures work with it."""

    def __init__(self, database: Database, study: Study) -> None:
        super().__init__(database, study)
        self.participants = Participants(self)
        self.assignment = Assignment(self)
        self.answers = AnswerLog(self)

    @property
    def starts_with_ratings(self) -> bool:
        """Tell whether units start with ratings, which can be computed again."""
        return any(unit.fixed for unit in self.units.values() if unit.is_rated)

    async def replace_starting_ratings(self, study: Study) -> None:
        """Replace the ratings that units start with by those of the study's file, read again.

        Ratings of people, and the points that were won, stay.

        Raises:
            RefusedError: if the file's items or rules are no longer those of the database.
        """
        if (study.name, study.digest) != (self.study.name, self.study.digest):
            raise RefusedError(
                "The study's file has other items or rules than the running study; undo that first."
            )

        changed = [
            unit
            for unit in study.units
            if unit.pool == "main" and unit.fixed != self.units[unit.id].fixed
        ]

        now = self.clock()

        def write(c: Connection) -> None:
            for unit in changed:
                fixed = list(unit.fixed)
                c.execute(update(units).where(units.c.id == unit.id).values(fixed=fixed))
            log_event(c, now, "starting ratings", None, f"{len(changed)} units have other ones")

        await self.database.run(write)
        for unit in changed:
            self.units[unit.id] = replace(self.units[unit.id], fixed=unit.fixed)

    async def load_all_rows(self) -> TableRows:
        """Return all rows that the dashboard and exports need, by table."""
        return await self.database.run(self.load_rows)
