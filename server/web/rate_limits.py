"""Limits on how often a visitor may ask for something."""

from __future__ import annotations

import time
from ipaddress import IPv6Address, ip_address

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
        self._burst, self._rate = burst, rate
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, client: str) -> bool:
        """Count a request of a client; return False if it is one too many."""
        now = time.monotonic()
        if len(self._levels) > _MAX_CLIENTS:  # a full bucket need not be remembered
            refill_seconds = self._burst / self._rate
            self._levels = {
                c: (level, time_)
                for c, (level, time_) in self._levels.items()
                if now - time_ < refill_seconds
            }
        level, last_request = self._levels.get(client, (self._burst, now))
        level = min(self._burst, level + (now - last_request) * self._rate)
        is_allowed = level >= 1
        self._levels[client] = (level - 1 if is_allowed else level, now)
        return is_allowed
