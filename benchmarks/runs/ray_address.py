"""The address of a Ray cluster, and a check that it answers; Ray itself would try for minutes."""

from __future__ import annotations

import os
import socket

#: What Ray does not say where it fails: a cluster that wants a token answers nobody without one.
TOKEN = (
    "if it was begun with RAY_AUTH_MODE=token, so must captau be, with the same ~/.ray/auth_token"
)
#: How long somebody may take to answer, in seconds.
_PATIENCE = 10.0


def address_of(address: str | None) -> str | None:
    """The address that an option gives, or Ray's own variable; None where Ray is to be started here.

    Started here, that is by `address="local"`: without an address Ray would look for the cluster that was last
    begun on this machine, which may be somebody else's, or gone.
    """
    return address or os.environ.get("RAY_ADDRESS") or None


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
