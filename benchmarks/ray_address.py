"""Whether a Ray cluster answers; Ray itself would try for minutes."""

from __future__ import annotations

import socket

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
