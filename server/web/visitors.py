"""Fields and addresses that visitors send, read defensively, and limits on how often they may ask."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Any

from fastapi import Path, Request

#: A path below this site that no browser takes for another site's address ("//host", "/\\host"): visible ASCII without
#: backslashes (5c), and behind the first slash not another one (2f).
_LOCAL_PATH = re.compile(r"/(?:[\x21-\x2e\x30-\x5b\x5d-\x7e][\x21-\x5b\x5d-\x7e]{0,1000})?")
#: The number of a database row in an address.
RowNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


def form_schema(*field_names: str) -> dict[str, Any]:
    """Describe a form's fields for the interface's OpenAPI document."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in field_names}}
    content = {"application/x-www-form-urlencoded": {"schema": schema}}
    return {"requestBody": {"content": content}}


def field_value(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """Return the value of a field, stripped; empty if it was sent not at all or more than once."""
    values = fields.get(name, ())
    return values[0].strip() if len(values) == 1 else ""


def client_address(request: Request) -> str:
    """Return the client's address as limits count it; behind a proxy it is the one that the proxy names."""
    if request.client is None:
        return ""

    return limited_address(request.client.host)


def local_path(path: str) -> str:
    """Return the page to go on to after signing in, or the first page if the path is not this site's.

    Args:
        path: from an address or a form, which anybody may have written.
    """
    return path if _LOCAL_PATH.fullmatch(path) else "/"


#: The most visitors whose requests are remembered before idle ones are forgotten.
_MAX_CLIENTS = 50_000


def limited_address(address: str) -> str:
    """Return the address that limits count a client by.

    Of IPv6 it is the network of 64 bits, since a client has as many addresses in it as they like.
    """
    try:
        parsed = ip_address(address)
    except ValueError:  # no address, as of a Unix socket
        return address

    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


class RateLimiter:
    """A token bucket for each client.

    Args:
        burst: the requests that a client may send at once.
        rate: the requests a second that a client may send after that.
    """

    def __init__(self, burst: float, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, client: str) -> bool:
        """Count a request of a client; return False if it is one too many."""
        now = time.monotonic()
        if len(self._levels) > _MAX_CLIENTS:
            self._forget_idle(now)

        level, last_request = self._levels.get(client, (self._burst, now))
        # A bucket fills while the client waits, and is counted up only when they come back.
        level = min(self._burst, level + (now - last_request) * self._rate)

        is_allowed = level >= 1
        self._levels[client] = (level - 1 if is_allowed else level, now)
        return is_allowed

    def _forget_idle(self, now: float) -> None:
        """Forget the clients whose buckets are full again, which says no more than none does."""
        refill_seconds = self._burst / self._rate
        levels: dict[str, tuple[float, float]] = {}
        for client, (level, last_request) in self._levels.items():
            if now - last_request < refill_seconds:
                levels[client] = (level, last_request)
        self._levels = levels
