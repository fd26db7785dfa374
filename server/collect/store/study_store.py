"""The store of a study: its database, and a component for each concern."""

from __future__ import annotations

from ...storage.database import Database
from ..study.definition import Study
from .answer_log import AnswerLog
from .assignment import Assignment
from .disagreements import Disagreements
from .participants import Participants
from .study_database import StudyDatabase, TableRows


class StudyStore(StudyDatabase):
    """A study in its database; pages, exports and figures work with it."""

    def __init__(self, database: Database, study: Study) -> None:
        super().__init__(database, study)
        self.participants = Participants(self)
        self.assignment = Assignment(self)
        self.answers = AnswerLog(self)
        self.disagreements = Disagreements(self)

    async def load_all_rows(self) -> TableRows:
        """Return all rows that the dashboard and exports need, by table."""
        return await self.database.run(self.load_rows)
