"""Sessions that were signed out before their cookies expire, kept in the site's own database."""

from __future__ import annotations

import time

from sqlalchemy import Connection

from ..storage.database import Database
from ..storage.site_settings import delete_setting, put_setting, settings_with_prefix
from .sessions import MEMBER_AGE, Session

_PREFIX = "ended session "


class EndedSessions:
    """The sessions of members who signed out; a copy of such a cookie opens nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names = database.run_blocking(_load_names)

    def __contains__(self, session: Session) -> bool:
        return session.name in self._names

    async def add(self, session: Session) -> None:
        """End a session."""
        key, now = _PREFIX + session.name, str(int(time.time()))
        await self._database.run(lambda c: put_setting(c, key, now))
        self._names.add(session.name)


def _load_names(c: Connection) -> set[str]:
    """Return the names of ended sessions, after forgetting those whose cookies have expired."""
    ended_at = settings_with_prefix(c, _PREFIX)
    for key, seconds in ended_at.items():
        if time.time() - int(seconds) > MEMBER_AGE:
            delete_setting(c, key)
    return {key.removeprefix(_PREFIX) for key in ended_at}
