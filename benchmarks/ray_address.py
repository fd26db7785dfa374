"""Whether a Ray cluster answers; Ray itself would try for minutes."""

from __future__ import annotations

import socket

#: What Ray does not say where it fails: a cluster that wants a token answers nobody without one.
TOKEN = (
    "if it was begun with RAY_AUTH_MODE=token, so must captau be, with the same ~/.ray/auth_token"
)
#: How long somebody may take to answer, in seconds.
_PATIENCE = 10.0


def fault_of(address: str) -> str | None:
    """Why nobody can be reached at a cluster's address; None where somebody listens, or it is this machine's.

    Args:
        address: `HOST:PORT`, with or without `ray://`; or a word of Ray's own, such as `auto`.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return None
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    except (ValueError, OverflowError) as error:
        return str(error)
    return None
