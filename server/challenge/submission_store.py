"""All work on a site's database: what was submitted, what became of it, each thing once.

The rows are the truth, and the queue wakes alone. A submission goes through `STATES`; each step is one
transaction that looks at the state it comes from, so that a step that is taken twice, or by a process
that was given up, changes nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from ...datasets.errors import InputError
from ..storage.clock import Clock
from ..storage.database import Database
from ..web.errors import NotFoundError, RefusedError
from .definition_file import Challenge, Phase
from .tables import accounts, audit, meta, results, submissions, teams, tokens
from .tables import challenges as challenge_rows

#: What a submission goes through: it is there; it is checked, and either not valid, or waits; it is
#: evaluated; it has a result, or none after all tries.
STATES = ("received", "invalid", "queued", "running", "scored", "failed")
#: The folder of a submission.
_KEY = re.compile("[0-9a-f]{16}")
#: What changes no more by itself.
ENDS = ("invalid", "scored", "failed")


@dataclass(frozen=True)
class Account:
    """Who asks."""

    id: int
    name: str
    team: int
    team_name: str


@dataclass(frozen=True)
class Submission:
    """A submission as its team sees it; columns as in `models.submissions`.

    Attributes:
        team_name: the team's name.
        result: its row, where there is one.
    """

    id: int
    key: str
    challenge: str
    phase: str
    team: int
    account: int
    system: str
    note: str
    file: str
    sha256: str
    bytes: int
    received_at: float
    state: str
    checked_at: float | None
    faults: list[str]
    n_faults: int
    summary: str
    counts: bool
    attempts: int
    worker: str | None
    started_at: float | None
    progress: float
    step: str
    finished_at: float | None
    reason: str
    standing: str
    standing_why: str
    team_name: str
    result: Result | None = None

    @property
    def done(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in ENDS


@dataclass(frozen=True)
class Result:
    """What came out; columns as in `models.results`."""

    made_at: float
    seconds: float
    digest: str
    scores: list[dict[str, Any]]
    run: dict[str, Any]


@dataclass(frozen=True)
class Left:
    """What a team may still submit in a phase: today, and in all; None for any number."""

    today: int | None
    in_all: int | None

    @property
    def none(self) -> bool:
        """Whether it is nothing."""
        return 0 in (self.today, self.in_all)


class Store:
    """A site's challenges in their database, and the folder of what was submitted.

    Args:
        database: opened; its tables are up to date.
        challenges: all of the site.
        folder: where files are kept.
        rescore: whether to evaluate all anew where a challenge's references, metrics or protocol changed.
        guest: whether this is a worker's, beside the server's.

    Attributes:
        secret: what sessions and forms are signed with; a worker has none.

    Raises:
        InputError: where a challenge's references, metrics or protocol are not those it was begun with.
    """

    def __init__(
        self,
        database: Database,
        challenges: Sequence[Challenge],
        folder: Path,
        *,
        rescore: bool = False,
        guest: bool = False,
    ) -> None:
        self.database, self.folder = database, folder
        self.challenges = {c.name: c for c in challenges}
        self.digests = {c.name: c.digest for c in challenges}
        self.secret = b""
        if guest:
            database.run_blocking(lambda c: self._check(self._known(c)))
            self.clock = Clock(database.run_blocking(_latest))
            return
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.secret = database.run_blocking(lambda c: self._begin(c, rescore))
        self.clock = Clock(database.run_blocking(_latest))
        self._tidy()

    def _own(self) -> None:
        """Say whose folder this is, so that no other site takes its files for its own leftovers.

        Raises:
            InputError: where it is another's, or holds what no site laid there.
        """
        mark, ours = self.folder / "site", hashlib.sha256(self.secret).hexdigest()
        if not mark.exists():
            if any(self.folder.iterdir()):
                raise InputError(
                    f"{self.folder}: submissions go into a folder of their own, and this one holds other "
                    f"files; name another, files=DIR"
                )
            mark.write_text(ours, encoding="ascii")
        elif mark.read_text(encoding="ascii") != ours:
            raise InputError(
                f"{self.folder}: it holds another site's files; name another, files=DIR"
            )

    def _begin(self, c: Connection, rescore: bool) -> bytes:
        found = {row.key: row.value for row in c.execute(select(meta))}
        if "secret" not in found:
            found["secret"] = secrets.token_hex(32)
            c.execute(insert(meta).values(key="secret", value=found["secret"]))
            if self.database.url.get_backend_name() == "sqlite":
                with suppress(OSError):  # on a file system without permissions
                    Path(str(self.database.url.database)).chmod(0o600)
        known = self._known(c)
        if not rescore:
            self._check(known)
        for name, digest in self.digests.items():
            if name not in known:
                c.execute(insert(challenge_rows).values(name=name, digest=digest))
            elif known[name] != digest:
                _rescore(c, name, digest)
        # Who was at work when the server went away is gone too, and that was no fault of theirs.
        again = {"worker": None, "attempts": submissions.c.attempts - 1}
        begun = update(submissions).where(submissions.c.worker.is_not(None))
        c.execute(begun.where(submissions.c.state == "running").values(state="queued", **again))
        c.execute(begun.where(submissions.c.state == "received").values(**again))
        return bytes.fromhex(found["secret"])

    def _known(self, c: Connection) -> dict[str, str]:
        """The digests that challenges were begun with."""
        return {row.name: row.digest for row in c.execute(select(challenge_rows))}

    def _check(self, known: Mapping[str, str]) -> None:
        for name, digest in self.digests.items():
            if known.get(name, digest) != digest:
                raise InputError(
                    f"{self.database.display_name}: the references, ratings, metrics or protocol of '{name}' "
                    f"are not those it was begun with; undo that, evaluate all anew with rescore=true, "
                    f"or begin anew with another database="
                )

    def _tidy(self) -> None:
        """Remove files of what was never acknowledged."""
        self._own()
        known = set(
            self.database.run_blocking(
                lambda c: c.execute(select(submissions.c.key)).scalars().all()
            )
        )
        for path in self.folder.iterdir():
            if _KEY.fullmatch(path.name) and path.name not in known and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)

    def challenge(self, name: str) -> Challenge:
        """
        Raises:
            NotFoundError: where there is none of that name.
        """
        try:
            return self.challenges[name]
        except KeyError as error:
            raise NotFoundError from error

    def file(self, key: str, name: str) -> Path:
        """A file of a submission: `upload.*`, `captions.json`, `items.parquet`, `draws.parquet`."""
        return self.folder / key / name

    # Submitting -------------------------------------------------------------------------------

    async def by_token(self, token: str) -> Account | None:
        """Whose token that is, if anybody's."""
        now = self.clock()

        def work(c: Connection) -> Account | None:
            row = c.execute(
                select(tokens.c.id, tokens.c.used_at, *_ACCOUNT)
                .join(accounts, accounts.c.id == tokens.c.account)
                .join(teams, teams.c.id == accounts.c.team)
                .where(
                    tokens.c.hash == token_hash(token),
                    tokens.c.revoked_at.is_(None),
                    accounts.c.blocked_at.is_(None),
                )
            ).one_or_none()
            if row is None:
                return None
            if row.used_at is None or now - row.used_at > 60:
                c.execute(update(tokens).where(tokens.c.id == row.id).values(used_at=now))
            return Account(*row[2:])

        return await self.database.run(work)

    def may_submit(self, c: Connection, challenge: Challenge, account: Account) -> Phase:
        """The phase that a submission would count in.

        Raises:
            RefusedError: where none is taken now; it says why.
        """
        now = self.clock()
        phase = challenge.phase(now)
        row = c.execute(select(challenge_rows).where(challenge_rows.c.name == challenge.name)).one()
        if phase is None:
            raise RefusedError(f"No phase of {challenge.title} takes submissions now.")
        if row.frozen_at is not None:
            raise RefusedError(f"{challenge.title} takes no submissions for the moment.")
        left = self.left(c, challenge, phase, account)
        if left.none:
            which = "on a day" if left.today == 0 else "in all"
            most = phase.per_day if left.today == 0 else phase.in_all
            raise RefusedError(
                f"Your team has made its {most:,} submissions {which} in the phase {phase.name}."
            )
        ours = submissions.c.account == account.id
        if c.execute(
            select(submissions.c.id).where(ours, submissions.c.state == "received")
        ).first():
            raise RefusedError("Your last submission is still being checked; wait for its verdict.")
        since = c.execute(
            select(func.count()).where(ours, submissions.c.received_at > now - 3600)
        ).scalar_one()
        if since >= challenge.limits.uploads:
            raise RefusedError(
                f"You have sent {since:,} files within the hour; {challenge.limits.uploads:,} are taken."
            )
        return phase

    def left(
        self,
        c: Connection,
        challenge: Challenge,
        phase: Phase,
        account: Account,
        at: float | None = None,
    ) -> Left:
        """What somebody may still submit, now or on the day of a time; their own count with them into
        another team.
        """
        midnight = day(self.clock() if at is None else at)
        query = select(func.count()).where(
            submissions.c.challenge == challenge.name,
            submissions.c.phase == phase.name,
            submissions.c.counts,
            or_(submissions.c.team == account.team, submissions.c.account == account.id),
        )
        in_all = c.execute(query).scalar_one()
        since, until = (
            submissions.c.received_at >= midnight,
            submissions.c.received_at < midnight + 86_400,
        )
        today = c.execute(query.where(since, until)).scalar_one()
        return Left(
            None if phase.per_day is None else max(phase.per_day - today, 0),
            None if phase.in_all is None else max(phase.in_all - in_all, 0),
        )

    async def receive(
        self, challenge: Challenge, account: Account, given: Mapping[str, Any]
    ) -> int:
        """Take down what lies in the folder of its key; returns the submission's number.

        Args:
            challenge: which it is of.
            account: whose it is.
            given: `key, system, note, file, sha256, bytes`.

        Raises:
            RefusedError: where it is not taken now.
        """

        def work(c: Connection) -> int:
            phase = self.may_submit(c, challenge, account)
            row = {
                **given,
                "challenge": challenge.name,
                "phase": phase.name,
                "team": account.team,
                "account": account.id,
                "received_at": self.clock(),
                "state": "received",
                "faults": [],
                "n_faults": 0,
                "summary": "",
                "counts": False,
                "attempts": 0,
                "progress": 0.0,
                "step": "",
                "reason": "",
                "standing": "",
                "standing_why": "",
            }
            return c.execute(
                insert(submissions).values(row).returning(submissions.c.id)
            ).scalar_one()

        return await self.database.run(work)

    async def submission(self, key: str) -> Submission:
        """
        Raises:
            NotFoundError: where there is none of that key.
        """
        found = await self.database.run(lambda c: found_in(c, submissions.c.key == key))
        if not found:
            raise NotFoundError
        return found[0]

    # Evaluating: what workers do on connections of their own ------------------------------------

    def waiting(self, c: Connection) -> dict[str, list[int]]:
        """The numbers of what waits to be checked and to be evaluated, oldest first.

        What waits in a challenge that the site has no more goes on waiting.
        """
        return {
            state: list(
                c.execute(
                    select(submissions.c.id)
                    .where(
                        submissions.c.state == state,
                        submissions.c.worker.is_(None),
                        submissions.c.challenge.in_(self.challenges),
                    )
                    .order_by(submissions.c.id)
                ).scalars()
            )
            for state in ("received", "queued")
        }

    def claim(self, c: Connection, number: int, worker: str, state: str) -> Submission | None:
        """Begin to check (`received`) or to evaluate (`queued`); None where that is another's, or done."""
        changes: dict[str, Any] = {
            "worker": worker,
            "attempts": submissions.c.attempts + 1,
            "started_at": self.clock(),
            "progress": 0.0,
            "step": "",
        }
        if state == "queued":
            changes["state"] = "running"
        done = c.execute(
            update(submissions)
            .where(
                submissions.c.id == number,
                submissions.c.state == state,
                submissions.c.worker.is_(None),
            )
            .values(**changes)
            .returning(submissions.c.id)  # PostgreSQL counts rows only once they are asked for
        )
        if done.first() is None:
            return None
        return found_in(c, submissions.c.id == number)[0]

    def checked(
        self, c: Connection, number: int, worker: str, faults: Sequence[str], n: int, summary: str
    ) -> None:
        """A submission's verdict; a valid one waits from here on, and counts.

        One that is checked again, against other references, was within the limits before, and counts as
        it did.
        """
        row = found_in(c, submissions.c.id == number)[0]
        challenge, again = self.challenges[row.challenge], row.checked_at is not None
        if not n and not again:
            phase = next((p for p in challenge.phases if p.name == row.phase), None)
            account = Account(row.account, "", row.team, row.team_name)
            # Others of the team may have been checked meanwhile, and it may be past midnight.
            left = phase and self.left(c, challenge, phase, account, row.received_at)
            if left and left.none:
                faults, n = ["the limit of submissions was reached while this one was checked"], 1
        c.execute(
            update(submissions)
            .where(
                submissions.c.id == number,
                submissions.c.state == "received",
                submissions.c.worker == worker,
            )
            .values(
                state="invalid" if n else "queued",
                counts=not n and (row.counts or not again),
                worker=None,
                attempts=0,
                checked_at=self.clock(),
                faults=list(faults),
                n_faults=n,
                summary=summary,
            )
        )

    def advance(self, c: Connection, number: int, worker: str, progress: float, step: str) -> None:
        """How far an evaluation is."""
        c.execute(
            update(submissions)
            .where(submissions.c.id == number, submissions.c.worker == worker)
            .values(progress=progress, step=step[:64])
        )

    def finish(self, c: Connection, number: int, worker: str, result: Mapping[str, Any]) -> bool:
        """Take down a result, unless the work was given to somebody else meanwhile.

        Args:
            c, number, worker: where, of which submission, by whom.
            result: `seconds, digest, scores, run`.
        """
        now = self.clock()
        done = c.execute(
            update(submissions)
            .where(
                submissions.c.id == number,
                submissions.c.state == "running",
                submissions.c.worker == worker,
            )
            .values(state="scored", worker=None, progress=1.0, step="", finished_at=now)
            .returning(submissions.c.id)
        )
        if done.first() is None:
            return False
        c.execute(insert(results).values(submission=number, made_at=now, **result))
        return True

    def too_long(self, c: Connection, worker: str) -> bool:
        """Whether a worker is at a submission for longer than its challenge gives it."""
        row = c.execute(
            select(submissions.c.challenge, submissions.c.started_at).where(
                submissions.c.worker == worker
            )
        ).first()
        if row is None:
            return False
        return self.clock() - row.started_at > self.challenges[row.challenge].limits.seconds

    def give_up(self, c: Connection, worker: str, reason: str, *, final: bool = False) -> list[int]:
        """Let go of what a worker had begun: to be tried again, or failed after all tries.

        Args:
            c: where.
            worker: who died, or gave up.
            reason: what its team is told; no word of references or ratings.
            final: whether another try would end alike.

        Returns:
            the numbers of what waits again.
        """
        again: list[int] = []
        for row in found_in(c, submissions.c.worker == worker):
            tries = self.challenges[row.challenge].limits.attempts
            over = final or row.attempts >= tries
            changes: dict[str, Any] = {"worker": None, "progress": 0.0, "step": ""}
            if row.state == "received" and over:
                changes |= {
                    "state": "invalid",
                    "counts": False,
                    "checked_at": self.clock(),
                    "faults": [reason],
                    "n_faults": 1,
                    "summary": f"{row.file}: could not be checked",
                }
            elif over:
                tried = f"; it was tried {row.attempts} times" if row.attempts > 1 else ""
                said = reason if final else f"{reason}{tried}"
                changes |= {"state": "failed", "finished_at": self.clock(), "reason": said}
            else:
                changes["state"] = "received" if row.state == "received" else "queued"
                again.append(row.id)
            c.execute(update(submissions).where(submissions.c.id == row.id).values(**changes))
        return again

    def human(self, c: Connection, name: str) -> list[dict[str, Any]] | None:
        """People's own scores of a challenge; None until they are computed."""
        query = select(challenge_rows.c.human).where(challenge_rows.c.name == name)
        rows = c.execute(query).scalar_one() or []
        # Its file may name another way to hold captions out since.
        same = all(row.get("held_out") == self.challenges[name].human for row in rows)
        return rows if rows and same else None

    def set_human(self, c: Connection, name: str, rows: list[dict[str, Any]]) -> None:
        """People's own scores of a challenge."""
        marked = [{**row, "held_out": self.challenges[name].human} for row in rows]
        c.execute(update(challenge_rows).where(challenge_rows.c.name == name).values(human=marked))


_ACCOUNT = (accounts.c.id, accounts.c.name, accounts.c.team, teams.c.name.label("team_name"))


def found_in(c: Connection, *where: ColumnElement[bool]) -> list[Submission]:
    """Submissions with their results, oldest first."""
    query = (
        select(
            submissions,
            teams.c.name.label("team_name"),
            results.c.made_at.label("r_made_at"),
            results.c.seconds.label("r_seconds"),
            results.c.digest.label("r_digest"),
            results.c.scores.label("r_scores"),
            results.c.run.label("r_run"),
        )
        .join(teams, teams.c.id == submissions.c.team)
        .outerjoin(results, results.c.submission == submissions.c.id)
        .where(*where)
        .order_by(submissions.c.id)
    )
    return [_submission(dict(row)) for row in c.execute(query).mappings()]


def _submission(found: dict[Any, Any]) -> Submission:
    result = {k[2:]: found.pop(k) for k in list(found) if k.startswith("r_")}
    return Submission(**found, result=Result(**result) if result["made_at"] else None)


def write_audit(
    c: Connection, at: float, account: int | None, action: str, what: str, why: str = ""
) -> None:
    """Take down who did what."""
    c.execute(insert(audit).values(at=at, account=account, action=action, what=what, why=why[:500]))


def token_hash(token: str) -> str:
    """What is kept of a token, which is random enough to need no salt."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def day(now: float) -> float:
    """When the day of a time began, in UTC."""
    return now - now % 86_400


def _rescore(c: Connection, name: str, digest: str) -> None:
    """Forget a challenge's results, and check and evaluate all anew that was valid."""
    ours = select(submissions.c.id).where(submissions.c.challenge == name)
    c.execute(delete(results).where(results.c.submission.in_(ours)))
    c.execute(
        update(submissions)
        .where(
            submissions.c.challenge == name,
            submissions.c.state.in_(("queued", "running", "scored", "failed")),
        )
        .values(
            state="received", worker=None, attempts=0, progress=0.0, finished_at=None, reason=""
        )
    )
    c.execute(
        update(challenge_rows)
        .where(challenge_rows.c.name == name)
        .values(digest=digest, human=None)
    )


def _latest(c: Connection) -> float:
    return max(
        c.execute(select(func.max(column))).scalar() or 0.0
        for column in (submissions.c.received_at, results.c.made_at, audit.c.at, tokens.c.used_at)
    )
