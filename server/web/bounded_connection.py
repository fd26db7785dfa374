"""Connections of visitors, bounded in the size of a request's head, in time, and in number by address.

uvicorn's own protocol reads a request's head without an end, and waits for it without an end.
`listener.server_config` puts `BoundedConnection` in its place.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .rate_limits import limited_address


class WaitingConnections:
    """Connections that wait for their visitor: for the next request, or for the rest of one.

    Args:
        limit: how many an address may have; one more closes the one that has waited longest. Requests
            that have arrived whole do not count, however many people share the address.
    """

    def __init__(self, limit: int = 200) -> None:
        self._limit = limit
        self._by_address: dict[str, dict[BoundedConnection, None]] = {}

    def add(self, address: str, connection: BoundedConnection) -> None:
        """Count a connection that begins to wait."""
        connections = self._by_address.setdefault(address, {})
        connections[connection] = None
        if len(connections) > self._limit:
            longest = next(iter(connections))
            del connections[longest]  # it is lost later than the next may come
            longest.transport.abort()

    def discard(self, address: str, connection: BoundedConnection) -> None:
        """Forget a connection that waits no longer."""
        connections = self._by_address.get(address, {})
        connections.pop(connection, None)
        if not connections:
            self._by_address.pop(address, None)


class BoundedConnection(HttpToolsProtocol):
    """A visitor's connection.

    Args:
        waiting: shared by all connections of a site.
        proxy: the address of the proxy whose `X-Forwarded-For` is believed; empty for none. Its idle
            connections are its own affair; a request is counted for the address that it is forwarded for.
        arguments: those of `HttpToolsProtocol`.
    """

    #: The most bytes of a request's head (also of trailers and of chunks' extensions), the most bytes
    #: of one of its lines, and the most lines.
    max_head_bytes: ClassVar[int] = 32 * 1024
    max_line_bytes: ClassVar[int] = 8 * 1024
    max_headers: ClassVar[int] = 100
    #: The most requests that wait for the answer to the one before them; uvicorn would take any number.
    max_pipelined: ClassVar[int] = 32
    #: Seconds until a head is whole, and until a body is, with a second more for each of these bytes.
    head_seconds: ClassVar[float] = 15
    body_seconds: ClassVar[float] = 30
    body_bytes_per_second: ClassVar[int] = 8 * 1024
    #: Seconds until a visitor who does not read the answer is cut off.
    write_seconds: ClassVar[float] = 60

    def __init__(self, *, waiting: WaitingConnections, proxy: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self._waiting, self._proxy = waiting, proxy
        self._address = ""
        #: The part of a request that is awaited: "head", "body" or "".
        self._awaited = ""
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._n_head_bytes = self._n_body_bytes = 0
        self._body_began = 0.0
        self._refusal = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._update_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._n_head_bytes += len(data)  # unless the parser makes a head or a body of them
        super().data_received(data)
        if self._n_head_bytes > self.max_head_bytes and not self.transport.is_closing():
            self._refusal = 431
            self.send_400_response("The request's head is too large.")
        self._update_waiting()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._n_body_bytes = 0

    def on_headers_complete(self) -> None:
        lines = [len(self.url), *(len(name) + len(value) for name, value in self.headers)]
        if (
            sum(lines) > self.max_head_bytes
            or max(lines) > self.max_line_bytes
            or len(self.headers) > self.max_headers
        ):
            self._refusal = 431
            raise ValueError("the head of a request is too large")  # the parser answers it
        if len(self.pipeline) >= self.max_pipelined:
            raise ValueError("too many requests wait for an answer")
        self._n_head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._n_head_bytes = 0
        self._n_body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._n_head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_waiting()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, or is too large, and close the connection."""
        lines = [b"content-type: text/plain; charset=utf-8", b"content-length: %d" % len(msg)]
        head = STATUS_LINE[self._refusal] + b"\r\n".join([*lines, b"connection: close", b"", b""])
        self.transport.write(head + msg.encode("ascii"))
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def _update_waiting(self) -> None:
        """Count the time from when a head or a body is awaited; a visitor's every byte does not renew it."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            awaited = "head"
        else:
            awaited = "body" if cycle.more_body else ""
        if awaited == self._awaited or self.transport.is_closing():
            return
        self._stop_waiting()
        self._awaited = awaited
        if not awaited:
            return
        self._address = limited_address(self._find_address())
        if self._address:
            self._waiting.add(self._address, self)
        if awaited == "head":
            self._timer = self.loop.call_later(self.head_seconds, self.transport.abort)
        else:
            self._body_began = self.loop.time()
            self._timer = self.loop.call_later(self.body_seconds, self._check_body)

    def _stop_waiting(self) -> None:
        self._waiting.discard(self._address, self)
        self._awaited = ""
        if self._timer is not None:
            self._timer.cancel()

    def _check_body(self) -> None:
        """Close the connection if its body comes too slowly, else look again when it should be whole."""
        seconds = self.body_seconds + self._n_body_bytes / self.body_bytes_per_second
        remaining = self._body_began + seconds - self.loop.time()
        if remaining <= 0:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(remaining, self._check_body)

    def _find_address(self) -> str:
        """Return the visitor's address; empty for a proxy that waits for its next request."""
        peer = self.client[0] if self.client else ""
        if not self._proxy or peer != self._proxy:
            return peer
        if self._awaited == "head":
            return ""
        values = [value for name, value in self.headers if name == b"x-forwarded-for"]
        return b",".join(values).decode("latin-1").rpartition(",")[2].strip()
