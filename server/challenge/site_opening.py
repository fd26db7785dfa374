"""A site opened from the options of `captau serve`, and the example submissions to its demo challenges."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...benchmarks.options.sites import ServeOptions
from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.registry import load
from ...metrics.registry import metric
from ..storage.backup import back_up
from ..storage.clock import reset_times
from ..storage.database import Database, opening_errors
from ..storage.private_files import make_private_folder
from ..web.errors import RefusedError
from ..web.passwords import password_from_environment
from ..web.site import parse_public_address
from .definition import Challenge
from .definition_file import read_challenges
from .evaluation import make_evaluator
from .site import Site
from .store_opening import open_store
from .submission_files import store_upload, submit_upload
from .submission_lifecycle import SubmissionLifecycle
from .submissions import load_status
from .tables import SCHEMA
from .worker_pool import WorkerPool

_log = logging.getLogger(__name__)

#: The folder of databases and submissions that no option names.
_DEFAULT_FOLDER = Path("challenges")


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
    password = password_from_environment()
    public_address = parse_public_address(options.url)
    database_path = _find_database(options, challenges)
    folder = _find_files(options, database_path)
    setup: dict[str, Any] = {
        "challenge": options.challenge,
        "data_root": str(options.data_root) if options.data_root else None,
        "database": str(database_path),
        "files": str(folder),
    }

    database = Database(database_path, SCHEMA, _log.warning)
    try:
        with opening_errors(database_path):
            if options.database is None:  # it may have been made for everybody to read
                make_private_folder(_DEFAULT_FOLDER)
            if options.reset_times:
                _log.warning(database.run_blocking(partial(reset_times, tables=SCHEMA.tables)))
            store = open_store(database, challenges, folder, rescore=options.rescore)

            for evaluator in evaluators:
                # Written anew at each start, as the challenge's file may have changed.
                with replacing(store.item_list(evaluator.challenge)) as file:
                    for row in evaluator.list_items():
                        file.write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())

            lacks_human_scores = False
            for challenge in challenges:
                if challenge.scores_people:
                    status = database.run_blocking(partial(load_status, challenge=challenge))
                    lacks_human_scores = lacks_human_scores or not status.human_scores

            workers = WorkerPool(
                SubmissionLifecycle(store), setup, n_workers, starts_at_once=lacks_human_scores
            )
            if store.clock.warning:
                _log.warning(store.clock.warning)
            site = Site(store, workers, options.title or "", public_address)
            site.admin_account.adopt_password(password)
    except BaseException:
        database.close()
        raise
    return site


def back_up_site(options: ServeOptions, backup: Path) -> str:
    """Copy the database of a site to a new file, also while it runs; return what to say of it.

    Raises:
        InputError: if a challenge has a fault, or as `backup.back_up` does.
    """
    path = _find_database(options, read_challenges(options.challenge, options.data_root))
    back_up(path, SCHEMA, backup)
    return (
        f"{path}: copied to {backup}\n"
        f"now copy the submissions' files, which do not change any more: {_find_files(options, path)}"
    )


def _find_database(options: ServeOptions, challenges: Sequence[Challenge]) -> Path:
    name = "demo" if options.challenge == "demo" else challenges[0].name
    return options.database or _DEFAULT_FOLDER / f"{name}.sqlite3"


def _find_files(options: ServeOptions, database_path: Path) -> Path:
    """Return the folder of the submissions' files."""
    return (options.files or database_path.with_suffix("")).resolve()


#: The systems of the dataset `demo` that are submitted, from good to poor.
DEMO_SYSTEMS = ("exact", "wrong_colour", "unrelated")
#: The metrics whose scores are submitted.
DEMO_METRICS = ("rouge_l", "cider", "bleu_1")


async def add_demo_submissions(site: Site) -> None:
    """Submit the captions of `DEMO_SYSTEMS` and the scores of `DEMO_METRICS`, each as a team of its own.

    Nothing is submitted where an earlier start did so.
    """
    for number, (challenge_name, name, rows) in enumerate(_submissions(), 1):
        password = secrets.token_urlsafe(24)  # nobody signs in to these accounts
        try:
            member, _ = await site.accounts.sign_up(f"Example {number}", password, password, "", "")
        except RefusedError:
            return

        challenge = site.store.get_challenge(challenge_name)
        body = _in_one_piece("\n".join(map(json.dumps, rows)).encode())
        upload = await store_upload(site.store, challenge, f"{name}.jsonl", body)
        await submit_upload(site.store, challenge, member, upload, name, "")


def _submissions() -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the challenge, the name and the rows of each submission."""
    items = load("demo").items
    rows: Any
    for system in DEMO_SYSTEMS:
        rows = items[items["system"] == system][["image_id", "caption"]]
        yield "demo_captions", system, rows.to_dict("records")

    for name in DEMO_METRICS:
        rows = items[["item_id"]].assign(score=metric(name).score(items))
        yield "demo_metrics", name, rows.to_dict("records")


async def _in_one_piece(content: bytes) -> AsyncGenerator[bytes]:
    yield content
