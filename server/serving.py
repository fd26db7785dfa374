"""A site on a port."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..datasets.errors import InputError

if TYPE_CHECKING:
    from fastapi import FastAPI


def serve(app: FastAPI, taken: socket.socket, *, proxy: bool = False) -> None:
    """Serve a site on a port until the process is told to stop."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        proxy_headers=proxy,
        forwarded_allow_ips="127.0.0.1",
        server_header=False,
        timeout_graceful_shutdown=5,
        limit_concurrency=2000,
    )
    uvicorn.Server(config).run(sockets=[taken])


def shown_url(url: str | None, taken: socket.socket) -> str:
    """The site's address, without a slash at its end: what somebody said, or the port's."""
    host, port = taken.getsockname()[:2]
    return (url or f"http://{f'[{host}]' if ':' in host else host}:{port}").rstrip("/")


def listen(host: str, port: int) -> socket.socket:
    """The port, taken before anything is read.

    Raises:
        InputError: where it is not to be had.
    """
    if not 0 <= port <= 65_535:  # the system would take it modulo 65,536
        raise InputError(f"port={port}: 0 to 65535 is expected; 0 for any that is free")
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind)
    except (OSError, OverflowError) as error:
        raise InputError(f"host={host} port={port}: {error}") from error
    try:
        if os.name == "posix":  # elsewhere it would let two servers have one port
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(where)
        taken.listen(2048)  # who comes before all is ready waits
    except (OSError, OverflowError) as error:
        taken.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"host={host} port={port}: {reason}; take another with port=…, or port=0 for any"
        ) from error
    return taken
