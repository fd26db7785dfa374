"""What `captau serve` and `captau submit` do; the command line finds these by entry points."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .web.app import Site


def serve(config: DictConfig) -> int:
    """Serve challenges until it is stopped."""
    from ...benchmarks.options import collect_config
    from ..web.listener import listen, public_url
    from ..web.listener import serve as serve_app
    from .web.app import make_app

    options = collect_config(config)
    taken = listen(options["host"], options["port"])
    site = open_site(options)
    url = public_url(options["url"], taken)
    print(f"{site.title}: {url}/")
    names = ", ".join(site.challenges)
    print(f"{names}, kept in {site.store.database.display_name} and {site.store.folder}")
    print(site.admin_account.sign_in_hint(url, site.setup_code), flush=True)
    serve_app(make_app(site), taken, proxy=options["proxy"])
    print("captau: stopped; every submission that was acknowledged is kept", file=sys.stderr)
    return 0


def open_site(options: dict[str, Any]) -> Site:
    """The challenges in their database, ready to be served.

    Args:
        options: as `captau serve` takes them.

    Raises:
        InputError: on a fault of a challenge, the database, the queue or the password.
    """
    from ..storage.database import Database
    from ..storage.database_url import parse_database_url
    from ..web.admin_account import password_from_environment
    from ..web.public_address import parse_public_address
    from .definition_file import read_challenges
    from .evaluation.evaluator import Prepared
    from .migrations import FOLDER
    from .submission_store import Store
    from .web.app import Site
    from .workers.work_queue import KINDS, Queue
    from .workers.worker import Workers

    if options["workers"] < 1:
        raise InputError(f"workers={options['workers']}: a whole number from 1 on is expected")
    root = options["data"]["root"]
    wanted = options["challenge"]
    challenges = read_challenges(wanted, Path(root).expanduser() if root else None)
    for one in challenges:
        Prepared(one).check()
    password = password_from_environment()
    public_address = parse_public_address(options["url"])
    name = "demo" if wanted == "demo" else challenges[0].name
    address = options["database"] or f"challenges/{name}.sqlite3"
    url = parse_database_url(address)
    usual = f"challenges/{name}" if url.database is None or "://" in address else url.database
    folder = Path(options["files"] or Path(usual).with_suffix("")).expanduser().resolve()
    queue = options["queue"] or str(folder / "queue.sqlite3")
    database = Database(
        address, FOLDER, "captau serve", lambda line: print(f"captau: {line}", file=sys.stderr)
    )
    try:
        store = Store(database, challenges, folder, rescore=options["rescore"])
        queues = {kind: Queue(queue, kind) for kind in KINDS}
        setup = {
            "challenge": wanted,
            "data_root": root,
            "database": address,
            "files": str(folder),
            "queue": queue,
        }
        workers = Workers(store, queues, setup, options["workers"])
        site = Site(store, workers, options["title"] or "", public_address)
        site.admin_account.adopt_password(password)
    except BaseException:
        database.close()
        raise
    return site


def submit(config: DictConfig) -> int:
    """Send a file to a challenge, and say what became of it."""
    from ...benchmarks.options import collect_config
    from .client import Client, report

    options = collect_config(config)
    token = options["token"] or os.environ.get("CAPTAU_TOKEN")
    if not token:
        raise InputError("a token is needed: $CAPTAU_TOKEN, or token=…; the site makes one for you")
    client = Client(options["url"], token)
    path = Path(options["file"]).expanduser()
    found = client.submit(path, options["challenge"], options["system"], options["note"])
    print(
        f"{found['challenge']}: received {found['file']} ({found['bytes']:,} bytes) as {found['id']}"
    )
    if not options["wait"]:
        return 0
    return report(client.wait(found["id"]))
