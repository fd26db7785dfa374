"""A site opened from the options of `captau serve`."""

from __future__ import annotations

import json
import logging
from functools import partial
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
from .evaluation.evaluator import Evaluator
from .evaluation.evaluators import make_evaluator
from .queries import load_status
from .site import Site
from .store_opening import open_store
from .submission_lifecycle import SubmissionLifecycle
from .tables import SCHEMA
from .worker_pool import WorkerPool

_log = logging.getLogger(__name__)


def open_site(options: ServeOptions) -> Site:
    """Return a site that is ready to be served.

    Args:
        options: of `captau serve`.

    Raises:
        InputError: if a challenge, the database or the admin's password has a fault.
    """
    n_workers = options.workers
    if n_workers < 1:
        raise InputError(f"workers={n_workers}: a whole number from 1 on is expected")
    challenges = read_challenges(options.challenge, options.data_root)
    evaluators = [make_evaluator(challenge) for challenge in challenges]
    for evaluator in evaluators:
        evaluator.check_challenge()
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
    }
    database = Database(address, SCHEMA, _log.warning)
    try:
        store = open_store(database, challenges, folder, rescore=options.rescore)
        for evaluator in evaluators:
            _write_item_list(store.item_list(evaluator.challenge), evaluator)
        lacks_human_scores = any(
            challenge.scores_people
            and not database.run_blocking(partial(load_status, challenge=challenge)).human_scores
            for challenge in challenges
        )
        workers = WorkerPool(
            SubmissionLifecycle(store), setup, n_workers, starts_at_once=lacks_human_scores
        )
        site = Site(store, workers, options.title or "", public_address, provider)
        site.admin_account.adopt_password(password)
    except BaseException:
        database.close()
        raise
    return site


def _write_item_list(path: Path, evaluator: Evaluator) -> None:
    """Write the JSON lines of the items that a submission must caption or score."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="\n") as file:
        for row in evaluator.list_items():
            file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
    part.replace(path)


def _choose_folder(option: str | None, address: str, name: str) -> Path:
    """Return the folder of submitted files: the option's, or one beside the database's file."""
    if option is None:
        url = parse_database_url(address)
        is_file = url.database is not None and "://" not in address
        option = str(Path(str(url.database)).with_suffix("")) if is_file else f"challenges/{name}"
    return expand_home(option).resolve()
