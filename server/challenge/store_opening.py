"""Opening of a submission store by the server or by a worker.

The server compares the challenges with those the database was begun with, lets go of the work that was
interrupted, and removes uploads that were never acknowledged.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from ...datasets.cache import replacing, store_names, sweep
from ...datasets.errors import InputError
from ..storage.clock import Clock, latest_time
from ..storage.database import Database
from ..storage.private_files import make_private_folder
from ..storage.site_settings import FIRST_SECRET, SECRET, get_setting, new_secret, put_setting
from .definition import Challenge
from .submissions import SubmissionState, SubmissionStore
from .tables import challenges as challenge_rows
from .tables import metadata, results, submissions

_KEY = re.compile("[0-9a-f]{16}")
#: The states of submissions that were found valid.
_VALID_STATES = tuple(
    state
    for state in SubmissionState
    if state not in (SubmissionState.RECEIVED, SubmissionState.INVALID)
)


def open_store(
    database: Database, challenges: Sequence[Challenge], folder: Path, *, rescore: bool = False
) -> SubmissionStore:
    """Open the store of a server.

    Args:
        database: open and up to date.
        challenges: all challenges of the site.
        folder: of the submitted files.
        rescore: whether to evaluate all submissions again if what they are scored by changed.

    Raises:
        InputError: if the references, ratings, metrics or protocol of a challenge changed and `rescore`
            is false, or the folder is not this site's.
    """
    digests = {challenge.name: challenge.digest for challenge in challenges}
    make_private_folder(folder)

    def begin(connection: Connection) -> tuple[bytes, bytes]:
        secret, first_secret = _load_secrets(connection)
        previous_digests = _load_digests(connection)

        if not rescore:
            _check_digests(database, digests, previous_digests)

        for name, digest in digests.items():
            if name not in previous_digests:
                connection.execute(insert(challenge_rows).values(name=name, digest=digest))
            elif previous_digests[name] != digest:
                _reset_results(connection, name, digest)

        # No worker of this site is alive yet, so that all that was begun was interrupted.
        _release_interrupted(connection)

        return secret, first_secret

    secret, first_secret = database.run_blocking(begin)

    _claim_folder(folder, first_secret)
    _remove_unacknowledged(folder, database)
    return _make_store(database, folder, challenges, digests, secret)


def open_store_for_worker(
    database: Database, challenges: Sequence[Challenge], folder: Path
) -> SubmissionStore:
    """Open the store of a worker, beside the server's.

    Raises:
        InputError: if what a challenge is scored by is not what the server has.
    """
    digests = {challenge.name: challenge.digest for challenge in challenges}

    database.run_blocking(lambda c: _check_digests(database, digests, _load_digests(c)))
    return _make_store(database, folder, challenges, digests, b"")


def _make_store(
    database: Database,
    folder: Path,
    challenges: Sequence[Challenge],
    digests: Mapping[str, str],
    secret: bytes,
) -> SubmissionStore:
    by_name = {challenge.name: challenge for challenge in challenges}
    clock = Clock(database.run_blocking(partial(latest_time, tables=metadata)))

    return SubmissionStore(
        database=database,
        folder=folder,
        challenges=by_name,
        digests=digests,
        clock=clock,
        secret=secret,
    )


def _load_secrets(connection: Connection) -> tuple[bytes, bytes]:
    """Return the site's secret and the one that it began with; a new site gets one."""
    secret = get_setting(connection, SECRET)
    if secret is None:
        secret = new_secret()
        put_setting(connection, SECRET, secret)

    first_secret = get_setting(connection, FIRST_SECRET) or secret
    return bytes.fromhex(secret), bytes.fromhex(first_secret)


def _load_digests(connection: Connection) -> dict[str, str]:
    """Return the digests by which the database holds results."""
    return {row.name: row.digest for row in connection.execute(select(challenge_rows))}


def _check_digests(
    database: Database, digests: Mapping[str, str], previous_digests: Mapping[str, str]
) -> None:
    for name, digest in digests.items():
        if previous_digests.get(name, digest) != digest:
            raise InputError(
                f"{database.path}: the references, ratings, metrics or protocol of '{name}' are not "
                f"those it was started with; undo the change, evaluate everything again with "
                f"rescore=true, or start again with another database="
            )


def _reset_results(connection: Connection, name: str, digest: str) -> None:
    """Delete a challenge's results, so that its valid submissions are checked and evaluated again."""
    ids = select(submissions.c.id).where(submissions.c.challenge == name)
    connection.execute(delete(results).where(results.c.submission.in_(ids)))

    connection.execute(
        update(submissions)
        .where(submissions.c.challenge == name, submissions.c.state.in_(_VALID_STATES))
        .values(
            state=SubmissionState.RECEIVED,
            worker=None,
            attempts=0,
            progress=0.0,
            finished_at=None,
            reason="",
        )
    )

    changes = {"digest": digest, "human": None}
    connection.execute(update(challenge_rows).where(challenge_rows.c.name == name).values(changes))


def _release_interrupted(connection: Connection) -> None:
    """Release what workers had begun when the server ended, which does not count as an attempt."""
    released = {"worker": None, "attempts": submissions.c.attempts - 1}
    next_states = {
        SubmissionState.RUNNING: SubmissionState.QUEUED,
        SubmissionState.RECEIVED: SubmissionState.RECEIVED,
    }
    for state, next_state in next_states.items():
        connection.execute(
            update(submissions)
            .where(submissions.c.worker.is_not(None), submissions.c.state == state)
            .values(state=next_state, **released)
        )


def _claim_folder(folder: Path, first_secret: bytes) -> None:
    """Mark the folder as this site's, so that no other site removes its files.

    Raises:
        InputError: if it is another site's, or holds other files.
    """
    mark = folder / "site"
    owner = hashlib.sha256(first_secret).hexdigest()
    if not mark.exists():
        # A start that was interrupted may have left a temporary file.
        if any(not path.match(".*.tmp") for path in folder.iterdir()):
            raise InputError(
                f"{folder}: submissions go into a folder of their own, and this one holds other files; "
                f"name another, files=DIR"
            )
        # Whole or not at all: half a mark would be another site's for ever.
        with replacing(mark, survives_power_loss=True) as file:
            file.write(owner.encode("ascii"))
        store_names(folder.parent)
    elif mark.read_text(encoding="ascii") != owner:
        raise InputError(f"{folder}: it holds another site's files; name another, files=DIR")


def _remove_unacknowledged(folder: Path, database: Database) -> None:
    """Remove the files of uploads that became no submission, and what killed processes left half written."""
    query = select(submissions.c.key)
    keys = set(database.run_blocking(lambda c: c.execute(query).scalars().all()))

    sweep(folder)
    for path in folder.iterdir():
        if path.name in keys:
            sweep(path)
        elif _KEY.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
