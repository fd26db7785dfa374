"""A site opened from the options of `captau serve`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from ...benchmarks.options.serve import ServeOptions
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..storage.database import Database, parse_database_url
from ..web.admin_account import password_from_environment
from ..web.oidc import open_provider
from ..web.public_address import parse_public_address
from .definition_file import read_challenges
from .evaluation.evaluators import make_evaluator
from .site import Site
from .store_opening import open_store
from .submission_lifecycle import SubmissionLifecycle
from .tables import SCHEMA
from .workers.work_queue import WorkKind, WorkQueue
from .workers.worker_pool import WorkerPool

_log = logging.getLogger(__name__)


def open_site(options: ServeOptions) -> Site:
    """Return a site that is ready to be served.

    Args:
        options: of `captau serve`.

    Raises:
        InputError: if a challenge, the database, the queue or the admin's password has a fault.
    """
    n_workers = options.workers
    if n_workers < 1:
        raise InputError(f"workers={n_workers}: a whole number from 1 on is expected")
    challenges = read_challenges(options.challenge, options.data_root)
    for challenge in challenges:
        make_evaluator(challenge).check_challenge()
    password, provider = password_from_environment(), open_provider(options.oidc)
    public_address = parse_public_address(options.url)
    name = "demo" if options.challenge == "demo" else challenges[0].name
    address = options.database or f"challenges/{name}.sqlite3"
    folder = _choose_folder(options.files, address, name)
    setup: dict[str, Any] = {
        "challenge": options.challenge,
        "data_root": str(options.data_root) if options.data_root else None,
        "database": address,
        "files": str(folder),
        "queue": options.queue or str(folder / "queue.sqlite3"),
    }
    database = Database(address, SCHEMA, _log.warning)
    try:
        store = open_store(database, challenges, folder, rescore=options.rescore)
        queues = {kind: WorkQueue(setup["queue"], kind) for kind in WorkKind}
        workers = WorkerPool(SubmissionLifecycle(store), queues, setup, n_workers)
        site = Site(store, workers, options.title or "", public_address, provider)
        site.admin_account.adopt_password(password)
    except BaseException:
        database.close()
        raise
    return site


def _choose_folder(option: str | None, address: str, name: str) -> Path:
    """Return the folder of submitted files: the option's, or one beside the database's file."""
    if option is None:
        url = parse_database_url(address)
        is_file = url.database is not None and "://" not in address
        option = str(Path(str(url.database)).with_suffix("")) if is_file else f"challenges/{name}"
    return expand_home(option).resolve()
