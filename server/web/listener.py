"""A port that a site listens on, and the server that answers there."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from ...datasets.errors import InputError
from .application import MAX_HEAD_BYTES

#: The address of the proxy that `proxy=true` believes.
PROXY_ADDRESS = "127.0.0.1"


def listen(host: str, port: int) -> socket.socket:
    """Open a port, before anything else is read.

    Raises:
        InputError: if it cannot be opened.
    """
    if not 0 <= port <= 65_535:  # the system would take it modulo 65,536
        raise InputError(f"port={port}: 0 to 65535 is expected; 0 for any that is free")

    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except (OSError, OverflowError) as error:
        raise InputError(f"host={host} port={port}: {error}") from error

    try:
        if os.name == "posix":  # elsewhere it would let two servers share one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)  # early visitors wait until the site is ready
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"host={host} port={port}: {reason}; choose another with port=…, or port=0 for any"
        ) from error

    return listener


def public_url(url: str | None, listener: socket.socket) -> str:
    """Return the site's address without a slash at its end: the option `url=`, else the port's."""
    if url:
        return url.rstrip("/")

    host, port = listener.getsockname()[:2]
    bracketed = f"[{host}]" if ":" in host else host
    return f"http://{bracketed}:{port}"


def server_config(app: FastAPI, *, proxy: bool = False) -> uvicorn.Config:
    """Return uvicorn's configuration of a site.

    SECURITY.md lists its bounds. Slow requests, and many connections from one address, are left to a proxy such as
    `nginx.conf` sets up.

    Args:
        app: the site.
        proxy: whether a proxy on this machine names the visitors' addresses.
    """
    return uvicorn.Config(
        app,
        http="h11",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ws="none",
        log_level="error",  # a warning for each unreadable request would fill the log
        access_log=False,
        proxy_headers=proxy,
        forwarded_allow_ips=PROXY_ADDRESS,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        limit_concurrency=2000,
    )


def serve(app: FastAPI, listener: socket.socket, *, proxy: bool = False) -> None:
    """Serve a site on a port until the process is stopped, by Ctrl-C for instance."""
    server = uvicorn.Server(server_config(app, proxy=proxy))
    # uvicorn answers what was asked, closes the site, and then raises the Ctrl-C that it was stopped by.
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
