"""What keeps strangers out: signed sessions, form tokens, password hashes, limits, headers."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from itsdangerous import BadData, URLSafeTimedSerializer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The most bytes of a request's body, where a site takes no files.
MOST_BYTES = 64 * 1024
#: How much of a body that is too large is read all the same, in bytes: who is still sending when the
#: connection closes would not see why.
_DRAINED = 8 << 20
#: How long sessions last, in seconds: of those who take part, and of whoever runs the site.
MEMBER_AGE, ADMIN_AGE = 90 * 86_400, 12 * 3_600
#: The fewest characters of the admin's password.
PASSWORD_LENGTH = 10

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Session:
    """Who a browser is: a random name for itself, and its owner's number once they joined.

    Attributes:
        epoch: of a dashboard's session: how often all were signed out before it began.
    """

    name: str
    member: int | None = None
    admin: bool = False
    epoch: int = 0

    @classmethod
    def new(cls, member: int | None = None, *, admin: bool = False, epoch: int = 0) -> Session:
        """One of a fresh name, as at every change of who somebody is."""
        return cls(secrets.token_urlsafe(12), member, admin, epoch)


class Sessions:
    """Sessions as signed texts, and the tokens that forms carry."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signer = URLSafeTimedSerializer(secret, salt="captau session")

    def write(self, session: Session) -> str:
        """A session as a cookie's value."""
        return self._signer.dumps(asdict(session))

    def read(self, cookie: str | None, age: int) -> Session | None:
        """What a cookie says; None where it is none of ours, or too old."""
        try:
            found, signed = self._signer.loads(cookie or "", return_timestamp=True)
            # Not by the signer's own limit: it refuses what a clock that was put back has not seen yet.
            return Session(**found) if time.time() - signed.timestamp() <= age else None
        except (BadData, TypeError):
            return None

    def token(self, session: Session) -> str:
        """What a form of this session has to carry."""
        return hmac.new(self._secret, f"form {session.name}".encode(), hashlib.sha256).hexdigest()

    def right(self, session: Session, token: str) -> bool:
        """Whether a form's token is this session's."""
        return hmac.compare_digest(self.token(session).encode(), token.encode("utf-8", "replace"))


_hasher = PasswordHasher()


def hash_password(password: str) -> str:
    """By Argon2id."""
    return _hasher.hash(password)


def right_password(hashed: str, password: str) -> bool:
    """Whether a password is the hashed one."""
    try:
        return _hasher.verify(hashed, password)
    except (Argon2Error, InvalidHashError):
        return False


class Buckets:
    """A limit for each of many: so many at once, and so many a second after that.

    Args:
        burst: how many at once.
        rate: how many a second.
    """

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._level: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> bool:
        """Count one; False where that is one too many."""
        now = time.monotonic()
        if len(self._level) > 50_000:  # those that are full again by now say nothing
            full = self._burst / self._rate
            self._level = {w: v for w, v in self._level.items() if now - v[1] < full}
        level, at = self._level.get(who, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        taken = level >= 1
        self._level[who] = (level - 1 if taken else level, now)
        return taken


class Guard:
    """Around the whole application: headers on every response, no body beyond a limit, HEAD as GET.

    Args:
        app: the application.
        secure: whether the site is served by https, so that browsers are told to stay there.
        most: the most bytes of a body to a path; everywhere `MOST_BYTES` where there is none.
    """

    def __init__(
        self, app: App, secure: bool = False, most: Callable[[str], int] = lambda _: MOST_BYTES
    ) -> None:
        self._app, self._most = app, most
        headers = dict(HEADERS)
        if secure:
            headers["strict-transport-security"] = "max-age=31536000"
        self._headers = [(k.encode(), v.encode()) for k, v in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k, v) for k, v in self._headers if k not in there),
                ]
                if b"cache-control" not in there:
                    # Of ours alone the scripts and styles are the same for everybody.
                    kept = b"max-age=3600" if "/static/" in scope["path"] else b"no-store"
                    message["headers"].append((b"cache-control", kept))
            await send(message)

        most = self._most(scope["path"])
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            await _too_much(receive, guarded, most)
            return
        seen = 0
        over = False

        async def bounded() -> Message:
            nonlocal seen, over
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                over = True
                return {"type": "http.disconnect"}
            return message

        if scope["method"] == "HEAD":  # whose body the server leaves out
            scope = {**scope, "method": "GET"}
        began = False

        async def once(message: Message) -> None:
            nonlocal began
            if over and not began:
                return
            began = True
            await guarded(message)

        try:
            await self._app(scope, bounded, once)
        except Exception:
            if not over:
                if not began:
                    await _plain(guarded, 500, "Something went wrong here. Go back, try again.\n")
                raise  # for the server's log
        if over and not began:
            await _too_much(receive, guarded, most)


async def _too_much(receive: Receive, send: Send, most: int) -> None:
    """Refuse a body, once what is on its way has come."""
    seen = 0
    while seen < _DRAINED:
        message = await receive()
        seen += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    await _plain(send, 413, f"At most {most // 1024:,} kB are taken.\n")


async def _plain(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
