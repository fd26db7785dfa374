"""ASGI middleware around a whole site: security headers, a limit on bodies, HEAD answered as GET."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The most bytes of a request's body where a site takes no files.
MAX_BODY_BYTES = 64 * 1024
#: The most bytes of an oversized body that are read nonetheless: a client that is still sending when the
#: connection closes would not see the answer.
_MAX_DRAINED_BYTES = 8 << 20

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


class RequestGuard:
    """Middleware that adds headers to every response and refuses bodies beyond a limit.

    Args:
        app: the application inside.
        secure: whether the site is served by https, so that browsers are told to stay there.
        body_limit: gives the most bytes of a body by path.
    """

    def __init__(
        self,
        app: AsgiApp,
        secure: bool = False,
        body_limit: Callable[[str], int] = lambda _: MAX_BODY_BYTES,
    ) -> None:
        self._app, self._body_limit = app, body_limit
        headers = dict(HEADERS)
        if secure:
            headers["strict-transport-security"] = "max-age=31536000"
        self._headers = [(k.encode(), v.encode()) for k, v in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(message, scope["path"])
            await send(message)

        limit = self._body_limit(scope["path"])
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            await _send_too_large(receive, send_with_headers, limit)
            return
        n_received = 0
        is_too_large = has_begun = False

        async def receive_bounded() -> Message:
            nonlocal n_received, is_too_large
            message = await receive()
            n_received += len(message.get("body", b""))
            if n_received > limit:
                is_too_large = True
                return {"type": "http.disconnect"}
            return message

        async def send_unless_too_large(message: Message) -> None:
            nonlocal has_begun
            if is_too_large and not has_begun:
                return
            has_begun = True
            await send_with_headers(message)

        if scope["method"] == "HEAD":  # the server leaves out the body
            scope = {**scope, "method": "GET"}
        try:
            await self._app(scope, receive_bounded, send_unless_too_large)
        except Exception:
            if not is_too_large:
                if not has_begun:
                    text = "Something went wrong here. Go back, try again.\n"
                    await _send_text(send_with_headers, 500, text)
                raise  # for the server's log
        if is_too_large and not has_begun:
            await _send_too_large(receive, send_with_headers, limit)

    def _add_headers(self, message: Message, path: str) -> None:
        """Add the headers that the application did not set itself."""
        names = {name.lower() for name, _ in message["headers"]}
        message["headers"] = [
            *message["headers"],
            *((name, value) for name, value in self._headers if name not in names),
        ]
        if b"cache-control" not in names:
            # Only scripts and styles are the same for everybody.
            caching = b"max-age=3600" if "/static/" in path else b"no-store"
            message["headers"].append((b"cache-control", caching))


async def _send_too_large(receive: Receive, send: Send, limit: int) -> None:
    """Refuse a body after reading what is on its way."""
    n_received = 0
    while n_received < _MAX_DRAINED_BYTES:
        message = await receive()
        n_received += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    await _send_text(send, 413, f"At most {limit // 1024:,} kB are taken.\n")


async def _send_text(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
