"""Signed session cookies, the tokens that forms carry against forgery, and sessions that were signed out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import asdict, dataclass

from itsdangerous import BadData, URLSafeTimedSerializer
from sqlalchemy import Connection

from ..storage.database import Database
from ..storage.site_settings import delete_setting, put_setting, settings_with_prefix

#: Seconds that a session lasts: of participants, and of the admin.
MEMBER_AGE = 90 * 86_400
ADMIN_AGE = 12 * 3_600


@dataclass(frozen=True)
class Session:
    """A browser's identity.

    Attributes:
        name: random, new at every sign-in.
        member: the number of the participant or account; None before they joined or signed in.
        admin: whether it belongs to the admin's pages.
        epoch: how often all sessions had been ended when this one began.
    """

    name: str
    member: int | None
    admin: bool
    epoch: int

    @classmethod
    def new(cls, member: int | None = None, *, admin: bool = False, epoch: int = 0) -> Session:
        """Start a session under a new random name, as at every change of identity."""
        return cls(secrets.token_urlsafe(12), member, admin, epoch)


class Sessions:
    """Signer and reader of session cookies and form tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signer = URLSafeTimedSerializer(secret, salt="captau session")

    def write(self, session: Session) -> str:
        """Return a session as the value of a cookie."""
        return self._signer.dumps(asdict(session))

    def read(self, cookie: str | None, age: int) -> Session | None:
        """Return the session of a cookie; None if it is not ours or older than `age` seconds."""
        try:
            fields, signed_at = self._signer.loads(cookie or "", return_timestamp=True)
            session = Session(**fields)
        except (BadData, TypeError):
            return None

        # The signer's own limit would refuse a time that lies ahead of a clock that was put back.
        is_expired = time.time() - signed_at.timestamp() > age
        return None if is_expired else session

    def token(self, session: Session) -> str:
        """Return the token that every form of a session carries."""
        return hmac.new(self._secret, f"form {session.name}".encode(), hashlib.sha256).hexdigest()

    def is_token_of(self, session: Session, token: str) -> bool:
        """Return whether a form's token belongs to a session."""
        # As bytes, since texts with other characters than ASCII cannot be compared so.
        return hmac.compare_digest(self.token(session).encode(), token.encode("utf-8", "replace"))


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
        key = _PREFIX + session.name
        now = str(int(time.time()))
        await self._database.run(lambda c: put_setting(c, key, now))
        self._names.add(session.name)


def _load_names(c: Connection) -> set[str]:
    """Return the names of ended sessions, after forgetting those whose cookies have expired."""
    ended_at = settings_with_prefix(c, _PREFIX)
    for key, seconds in ended_at.items():
        if time.time() - int(seconds) > MEMBER_AGE:
            delete_setting(c, key)

    return {key.removeprefix(_PREFIX) for key in ended_at}
