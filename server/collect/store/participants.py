"""Participants of a study: joining, invitations, exclusion and deletion."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from ....benchmarks.runs.tables import count_of
from ...storage.database import transaction
from ...texts import look_of, name_key
from ...web.errors import NotFoundError, RefusedError
from .study_database import StudyDatabase, log_event, recount_units
from .tables import answers, invitations, raters, serves


class Participants:
    """The raters of a study, in its database."""

    def __init__(self, study: StudyDatabase) -> None:
        self.database = study.database
        self._data = study
        self._study = study.study

    @transaction
    def join(self, c: Connection, nickname: str, worker: str, token: str) -> int:
        """Add a participant and return their number.

        Args:
            nickname: empty for none.
            worker: the crowd platform's name of them, of which a hash is stored.
            token: of an invitation; a used one returns the number of its user.

        Raises:
            RefusedError: if the study does not accept them.
        """
        study = self._study
        is_crowd = study.participants == "crowd"
        name = nickname

        worker_hash = self._data.tag("worker", worker) if worker and is_crowd else None
        invitation = None
        if study.participants == "invitation":
            invitation = _find_invitation(c, token)
            if invitation.rater is not None:
                return invitation.rater
            # Links name the annotators of such a study, whose names say what they may check.
            if study.annotator_names:
                name = invitation.note

        if is_crowd and worker_hash is None:
            raise RefusedError("Open this study from the crowd platform; its link identifies you.")
        # A worker who opens the link in a second browser would else be a second participant.
        if worker_hash and _exists(c, raters.c.worker == worker_hash):
            raise RefusedError("You have taken part already, in this or another browser.")
        if name and _is_taken(c, name):
            raise RefusedError("That nickname is taken. Choose another.")

        row = {
            "nickname": name or None,
            "nickname_key": name_key(name) or None,
            "worker": worker_hash,
            "joined_at": self._data.clock(),
            "consented": study.consent,
            "state": study.form.course.begin().state,
            "points": 0,
            "given": 0,
        }
        rater_id = c.execute(insert(raters).values(row).returning(raters.c.id)).scalar_one()

        if invitation is not None:
            used = update(invitations).where(invitations.c.id == invitation.id)
            c.execute(used.values(rater=rater_id))

        return rater_id

    @transaction
    def find_invited(self, c: Connection, token: str) -> int | None:
        """Return the participant who used an invitation; None if nobody has yet.

        Raises:
            NotFoundError: if there is no such invitation.
        """
        query = select(invitations.c.rater).where(invitations.c.hash == _hash(token))
        row = c.execute(query).first()
        if row is None:
            raise NotFoundError

        return row.rater

    @transaction
    def is_participant(self, c: Connection, rater_id: int, worker: str) -> bool:
        """Return whether a participant exists, and is the worker that a crowd's link names, if any."""
        row = c.execute(select(raters.c.worker).where(raters.c.id == rater_id)).first()
        if row is None:
            return False

        # Elsewhere than on a crowd platform a link names nobody.
        name = worker.strip() if self._study.participants == "crowd" else ""
        return not name or row.worker == self._data.tag("worker", name)

    @transaction
    def invite(self, c: Connection, note: str, n_invitations: int) -> list[str]:
        """Create invitations and return their tokens, of which the database stores only hashes."""
        tokens = [secrets.token_urlsafe(16) for _ in range(n_invitations)]
        now = self._data.clock()
        rows = [{"hash": _hash(t), "note": note, "created_at": now} for t in tokens]

        c.execute(insert(invitations), rows)
        # Without the note: a participant who is deleted leaves no name behind.
        log_event(c, now, "invite", None, count_of(n_invitations, "link"))

        return tokens

    @transaction
    def withdraw(self, c: Connection, note: str) -> None:
        """Withdraw the invitations of a note that nobody has used, and log it; their links no longer work.

        Raises:
            NotFoundError: if there is none.
        """
        is_unused = (invitations.c.note == note) & invitations.c.rater.is_(None)
        n_withdrawn = c.execute(delete(invitations).where(is_unused)).rowcount
        if not n_withdrawn:
            raise NotFoundError
        log_event(c, self._data.clock(), "withdraw", None, count_of(n_withdrawn, "link"))

    @transaction
    def set_excluded(self, c: Connection, rater_id: int, reason: str, *, excluded: bool) -> None:
        """Leave a participant's answers out, or include them again, and log it.

        Raises:
            NotFoundError: if there is no such participant.
        """
        row = c.execute(select(raters.c.excluded_at).where(raters.c.id == rater_id)).first()
        if row is None:
            raise NotFoundError
        # A button that is pressed twice is logged once, with the first reason.
        if (row.excluded_at is not None) == excluded:
            return

        now = self._data.clock()
        # The answers stay, so that an exclusion can be taken back.
        excluded_at = now if excluded else None
        c.execute(update(raters).where(raters.c.id == rater_id).values(excluded_at=excluded_at))
        log_event(c, now, "exclude" if excluded else "include", rater_id, reason)
        recount_units(c, _unit_ids(c, rater_id))

    @transaction
    def delete(self, c: Connection, rater_id: int, reason: str) -> None:
        """Delete a participant with all their answers; the log has the deletion, but not who they were.

        Raises:
            NotFoundError: if there is no such participant.
        """
        if not _exists(c, raters.c.id == rater_id):
            raise NotFoundError

        # Which units were theirs is known only until the rows are gone.
        unit_ids = _unit_ids(c, rater_id)
        # Answers refer to serves, and all of these to the rater.
        for table in (answers, serves, invitations):
            c.execute(delete(table).where(table.c.rater == rater_id))
        c.execute(delete(raters).where(raters.c.id == rater_id))
        log_event(c, self._data.clock(), "delete", rater_id, reason)
        recount_units(c, unit_ids)

    @transaction
    def load_scoreboard(self, c: Connection) -> list[tuple[str, int, int]]:
        """Return nicknames, points and numbers of answers of the best twenty, the best first."""
        query = (
            select(raters.c.nickname, raters.c.points, raters.c.given)
            .where(
                raters.c.nickname.is_not(None), raters.c.excluded_at.is_(None), raters.c.given > 0
            )
            .order_by(raters.c.points.desc(), raters.c.given, raters.c.id)
            .limit(20)
        )

        return [(row.nickname, row.points, row.given) for row in c.execute(query)]


def _find_invitation(c: Connection, token: str) -> Row[Any]:
    """Return the invitation of a link; raise RefusedError if there is none."""
    invitation = c.execute(select(invitations).where(invitations.c.hash == _hash(token))).first()
    if invitation is None:
        raise RefusedError("This study is by invitation. Open the link that you were sent.")

    return invitation


def _is_taken(c: Connection, nickname: str) -> bool:
    """Return whether a participant's nickname looks like this one."""
    nicknames = c.scalars(select(raters.c.nickname).where(raters.c.nickname.is_not(None)))
    return look_of(nickname) in map(look_of, nicknames)


def _exists(c: Connection, condition: ColumnElement[bool]) -> bool:
    return c.execute(select(raters.c.id).where(condition)).first() is not None


def _unit_ids(c: Connection, rater_id: int) -> list[int]:
    """Return the units that a rater was shown."""
    return list(c.execute(select(serves.c.unit).where(serves.c.rater == rater_id)).scalars())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
