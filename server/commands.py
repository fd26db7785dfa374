"""What `captau collect` and its kin do; the command line finds these by the package's entry points."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .app import Site

#: Where the admin's password may be handed over; it is stored as a hash alone.
PASSWORD = "CAPTAU_ADMIN_PASSWORD"


def collect(config: DictConfig) -> int:
    """Serve a study until it is stopped."""
    import uvicorn

    from ..benchmarks.config import collect_config
    from .app import make_app

    options = collect_config(config)
    taken = _socket(options["host"], options["port"])
    site = open_site(options)
    host, port = taken.getsockname()[:2]
    url = options["url"] or f"http://{host}:{port}"
    app = make_app(site)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            proxy_headers=options["proxy"],
            forwarded_allow_ips="127.0.0.1",
            server_header=False,
            timeout_graceful_shutdown=5,
            limit_concurrency=2000,
        )
    )
    store = site.store
    print(f"{site.study.title}: {url}/", flush=True)
    print(f"{store.pools['main']:,} to judge, kept in {store.database.shown}")
    if store.database.do(lambda c: _has_password(c)):
        print(f"dashboard: {url}/admin", flush=True)
    else:
        print(f"dashboard: {url}/admin/setup?code={site.setup} (choose a password)", flush=True)
    server.run(sockets=[taken])
    print("captau: stopped; every answer that was acknowledged is kept", file=sys.stderr)
    return 0


def _has_password(c: Any) -> bool:
    from sqlalchemy import select

    from .models import meta

    return c.execute(select(meta.c.key).where(meta.c.key == "password")).first() is not None


def open_site(options: dict[str, Any]) -> Site:
    """The study in its database, ready to be served.

    Raises:
        InputError: on a fault of the study, the database or the password.
    """
    from urllib.parse import urlsplit

    from .app import Site
    from .database import Database
    from .security import PASSWORD_LENGTH, hash_password
    from .store import Store
    from .studies import read_study

    study = read_study(options["study"], _path(options["data"]["root"]))
    password = os.environ.get(PASSWORD)
    if password is not None and len(password) < PASSWORD_LENGTH:
        raise InputError(f"{PASSWORD} has fewer than {PASSWORD_LENGTH} characters")
    address = urlsplit(options["url"] or "")
    if options["url"] and (address.scheme not in ("http", "https") or not address.netloc):
        raise InputError(f"url={options['url']}: http://… or https://… is expected")
    database = Database(
        options["database"] or f"collected/{study.name}.sqlite3",
        lambda line: print(f"captau: {line}", file=sys.stderr),
    )
    try:
        store = Store(database, study)
        if password is not None:
            store.set_password(hash_password(password), replace=True)
    except BaseException:
        database.close()
        raise
    return Site(store, address.path.rstrip("/"), address.scheme == "https")


def _socket(host: str, port: int) -> socket.socket:
    """The port, taken before anything is read.

    Raises:
        InputError: where it is not to be had.
    """
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind)
    except (OSError, OverflowError) as error:
        raise InputError(f"host={host} port={port}: {error}") from error
    try:
        if os.name == "posix":  # elsewhere it would let two servers have one port
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(where)
    except (OSError, OverflowError) as error:
        taken.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"host={host} port={port}: {reason}; take another with port=…, or port=0 for any"
        ) from error
    return taken


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
