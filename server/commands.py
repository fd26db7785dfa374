"""What `captau collect` and its kin do; the command line finds these by the package's entry points."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
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
    from ..benchmarks.config import collect_config
    from .store import password_hash

    options = collect_config(config)
    taken = listen(options["host"], options["port"])
    site = open_site(options)
    host, port = taken.getsockname()[:2]
    url = options["url"] or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    store = site.store
    print(f"{site.study.title}: {url.rstrip('/')}/")
    print(f"{store.pools['main']:,} to judge, kept in {store.database.shown}")
    if store.database.do(password_hash) is not None:
        print(f"dashboard: {url.rstrip('/')}/admin", flush=True)
    else:
        setup = f"{url.rstrip('/')}/admin/setup?code={site.setup}"
        print(f"dashboard: {setup} (choose a password)", flush=True)
    serve(site, taken, proxy=options["proxy"])
    print("captau: stopped; every answer that was acknowledged is kept", file=sys.stderr)
    return 0


def serve(site: Site, taken: socket.socket, *, proxy: bool = False) -> None:
    """Serve a study on a port until the process is told to stop."""
    import uvicorn

    from .app import make_app

    config = uvicorn.Config(
        make_app(site),
        log_level="warning",
        access_log=False,
        proxy_headers=proxy,
        forwarded_allow_ips="127.0.0.1",
        server_header=False,
        timeout_graceful_shutdown=5,
        limit_concurrency=2000,
    )
    uvicorn.Server(config).run(sockets=[taken])


def export(config: DictConfig) -> None:
    """Write what a study gathered."""
    from ..benchmarks.config import collect_config
    from ..benchmarks.output import OutputFolder
    from .export import files

    options = collect_config(config)
    site = open_site(options, create=False)
    try:
        with OutputFolder(options["output_dir"], "collect-export") as folder:
            rows = site.store.database.do(site.store.all_rows)
            found = files(site.store, rows, options["form"])
            folder.write(found)
    finally:
        site.store.database.close()
    for name, content in found.items():
        print(f"{name}: {len(content):,} bytes")
    print(f"\nwritten to {folder.path}")


def simulate(config: DictConfig) -> None:
    """Play raters of given skill through a study's own web site."""
    from ..benchmarks.config import collect_config
    from .simulate import run

    run(collect_config(config))


def open_site(options: dict[str, Any], *, create: bool = True, wait: float | None = None) -> Site:
    """The study in its database, ready to be served.

    Args:
        options: as `captau collect` takes them.
        create: whether to begin a database that is not there.
        wait: for simulated players: another wait than the study's, and no limits.

    Raises:
        InputError: on a fault of the study, the database or the password.
    """
    from urllib.parse import urlsplit

    from .app import Site
    from .database import Database
    from .security import PASSWORD_LENGTH, hash_password, right_password
    from .store import Store, password_hash
    from .studies import Limits, read_study

    study = read_study(options["study"], _path(options["data"]["root"]))
    if wait is not None:
        free = Limits(*[1_000_000] * 3)
        study = replace(study, rules=replace(study.rules, wait=wait), limits=free)
    password = os.environ.get(PASSWORD)
    if password is not None and len(password) < PASSWORD_LENGTH:
        raise InputError(f"{PASSWORD} has fewer than {PASSWORD_LENGTH} characters")
    address = urlsplit(options.get("url") or "")
    if options.get("url") and (address.scheme not in ("http", "https") or not address.netloc):
        raise InputError(f"url={options['url']}: http://… or https://… is expected")
    address_of = options["database"] or f"collected/{study.name}.sqlite3"
    if not create and "://" not in address_of and not Path(address_of).expanduser().is_file():
        raise InputError(f"{address_of}: no such file; name the study's with database=FILE")
    database = Database(
        address_of,
        lambda line: print(f"captau: {line}", file=sys.stderr),
    )
    try:
        store = Store(database, study)
        if password is not None:
            hashed = database.do(password_hash)
            if hashed is None or not right_password(hashed, password):
                store.set_password(hash_password(password), replace=True)
    except BaseException:
        database.close()
        raise
    origin = f"{address.scheme}://{address.netloc}" if address.netloc else ""
    return Site(store, address.path.rstrip("/"), address.scheme == "https", origin)


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


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
