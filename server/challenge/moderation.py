"""What the pages ask of the database, and what whoever runs the site decides."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select, update

from ...benchmarks.runs.tables import COEFFICIENT_STYLE
from ...benchmarks.scoring.catalog import metric_style
from ...benchmarks.statistics.weighted_coefficients import Floats
from ..web.errors import NotFoundError, RefusedError
from .definition_file import Challenge, ranked
from .evaluation.evaluator import unpack
from .leaderboard.board import Column, Entry, clusters_of, entry_scores
from .submission_store import Account, Left, Store, Submission, found_in, write_audit
from .tables import accounts, submissions, teams
from .tables import challenges as challenge_rows

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: How many leaderboards' ranks, and submissions' drawn scores by one column (8 kB each), are kept.
_RANKS, _DRAWN = 200, 5_000


@dataclass(frozen=True)
class State:
    """What became of a challenge since it was begun.

    Attributes:
        published: whether everybody sees its leaderboard.
        frozen: whether it takes no submissions for the moment.
        human: people's own scores, rows as results have them.
    """

    published: bool
    frozen: bool
    human: Sequence[Mapping[str, Any]]


def columns_of(challenge: Challenge) -> list[Column]:
    """What a challenge's submissions are scored by: what ranks them first, the others as in tables."""
    if challenge.kind == "metrics":
        names = sorted(ranked(challenge), key=lambda name: name != challenge.rank_by)
        return [_coefficient(name) for name in names]
    several = len(challenge.references) > 1
    metrics = sorted(
        ((metric_style(m), m.spec) for m in challenge.chosen),
        key=lambda pair: (pair[1] != challenge.rank_by, pair[0].order),
    )
    return [
        Column(
            f"{spec}@{one.name}",
            spec,
            one.name if several else "",
            how.label,
            how.scale,
            how.decimals,
            how.higher_is_better,
        )
        for how, spec in metrics
        for one in challenge.references
    ]


def _coefficient(name: str) -> Column:
    coefficient, _, dimension = name.partition(" ")
    label, _, scale, decimals = COEFFICIENT_STYLE[coefficient]
    return Column(name, name, "", f"{label} {dimension}".strip(), scale, decimals, True)


class Ranks:
    """Rank clusters by the drawn scores beside the submissions; those asked for last are kept.

    Args:
        store: whose files are read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._ranks: OrderedDict[tuple[str, ...], dict[int, int]] = OrderedDict()
        self._drawn: OrderedDict[tuple[str, ...], Floats | None] = OrderedDict()

    def of(
        self,
        challenge: Challenge,
        column: Column,
        entries: Iterable[Entry],
        digits: int | None = None,
    ) -> dict[int, int]:
        """Ranks by submission; not for the loop's thread.

        Args:
            challenge: which.
            column: by what.
            entries: who is compared.
            digits: how many decimals of their scores are told; None for all.
        """
        scored = {e.number: e for e in entries if e.number is not None and column.key in e.scores}
        # After other references, or another metric, the drawn scores are others.
        about = (challenge.name, self._store.digests[challenge.name], column.key)

        def ranks() -> dict[int, int]:
            found = {n: self._of(about, e.key, column) for n, e in scored.items()}
            drawn = {
                n: row if digits is None else row.round(digits)
                for n, row in found.items()
                if row is not None
            }
            values = {n: e.scores[column.key].value for n, e in scored.items()}
            return clusters_of(values, drawn, higher=column.higher)

        with self._lock:
            which = (*about, str(digits), *sorted(e.key for e in scored.values()))
            return _kept(self._ranks, which, _RANKS, ranks)

    def _of(self, about: tuple[str, ...], key: str, column: Column) -> Floats | None:
        references = column.key.rpartition("@")[2] if "@" in column.key else ""

        def read() -> Floats | None:
            try:
                found = unpack(self._store.file(key, "drawn.parquet").read_bytes())
            except OSError:  # of a challenge without intervals
                return None
            return found.get((references, column.metric))

        return _kept(self._drawn, (*about, key), _DRAWN, read)


def _kept(kept: OrderedDict[K, V], key: K, most: int, make: Callable[[], V]) -> V:
    """What was made for a key, or is made now; of more than `most` the one asked for longest ago goes."""
    if key not in kept:
        kept[key] = make()
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
    return kept[key]


def usual_column(challenge: Challenge, columns: Sequence[Column]) -> Column:
    """What a leaderboard is ordered by where nobody says otherwise."""
    return next(c for c in columns if c.metric == challenge.rank_by)


class Records:
    """A site's records, as its pages need them."""

    def __init__(self, store: Store) -> None:
        self._store, self._database = store, store.database

    async def state(self, challenge: Challenge) -> State:
        """How a challenge stands."""
        return await self._database.run(lambda c: self._state(c, challenge))

    def _state(self, c: Connection, challenge: Challenge) -> State:
        row = c.execute(select(challenge_rows).where(challenge_rows.c.name == challenge.name)).one()
        return State(
            challenge.public or row.published_at is not None,
            row.frozen_at is not None,
            self._store.human(c, challenge.name) or (),
        )

    async def left(self, challenge: Challenge, account: Account) -> Left | None:
        """What somebody may still submit now; None where no phase is open."""
        phase = challenge.phase(self._store.clock())
        if phase is None:
            return None
        return await self._database.run(lambda c: self._store.left(c, challenge, phase, account))

    async def of_team(self, team: int) -> list[Submission]:
        """A team's submissions to what the site has now, the newest first."""
        ours = (submissions.c.team == team, submissions.c.challenge.in_(self._store.challenges))
        found = await self._database.run(lambda c: found_in(c, *ours))
        return found[::-1]

    async def everything(self) -> list[Submission]:
        """All submissions, the newest first."""
        return (await self._database.run(lambda c: found_in(c)))[::-1]

    async def board(
        self, challenge: Challenge, onlooker: int | None, *, all_: bool = False
    ) -> tuple[State, list[Submission], list[Entry]]:
        """What an onlooker sees of a challenge's leaderboard.

        Args:
            challenge: which.
            onlooker: their team, None for strangers.
            all_: whether they see all, whatever is published.

        Returns:
            how the challenge stands; the scored submissions; and the same as entries, with people. Where
            it is not published, a team sees its own alone.
        """

        def work(c: Connection) -> tuple[State, list[Submission]]:
            state = self._state(c, challenge)
            wanted = [submissions.c.challenge == challenge.name, submissions.c.state == "scored"]
            if not all_:
                wanted.append(submissions.c.standing != "hidden")
                if not state.published:
                    wanted.append(submissions.c.team == (onlooker or 0))
            return state, found_in(c, *wanted)

        state, found = await self._database.run(work)
        entries = [
            Entry(
                one.id,
                one.team,
                one.team_name,
                one.system,
                one.phase,
                one.received_at,
                entry_scores(one.result.scores if one.result else ()),
                one.team == onlooker,
                one.key,
            )
            for one in found
            if one.standing != "disqualified"
        ]
        if state.human:
            people = entry_scores(state.human)
            entries.append(Entry(None, None, "people", "captions held out", "", 0.0, people))
        return state, found, entries

    # What whoever runs the site decides ---------------------------------------------------------

    async def publish(self, challenge: Challenge, why: str, *, on: bool) -> None:
        """Let everybody see a challenge's leaderboard, or no more.

        Raises:
            RefusedError: where the challenge's file says that it is public.
        """
        if challenge.public and not on:
            raise RefusedError("Its file says that everybody sees it: visibility.leaderboard.")
        await self._mark(challenge, "publish" if on else "unpublish", "published_at", on, why)

    async def freeze(self, challenge: Challenge, why: str, *, on: bool) -> None:
        """Take no submissions for the moment, or take them again."""
        await self._mark(challenge, "freeze" if on else "unfreeze", "frozen_at", on, why)

    async def _mark(
        self, challenge: Challenge, action: str, column: str, on: bool, why: str
    ) -> None:
        now = self._store.clock()

        def work(c: Connection) -> None:
            c.execute(
                update(challenge_rows)
                .where(challenge_rows.c.name == challenge.name)
                .values({column: now if on else None})
            )
            write_audit(c, now, None, action, challenge.name, why)

        await self._database.run(work)

    async def stand(self, key: str, standing: str, why: str) -> None:
        """Say that a submission is hidden or disqualified, or (with nothing) neither.

        Raises:
            NotFoundError: where there is none of that key.
        """
        now = self._store.clock()

        def work(c: Connection) -> None:
            done = c.execute(
                update(submissions)
                .where(submissions.c.key == key)
                .values(standing=standing, standing_why=why if standing else "")
                .returning(submissions.c.id)  # PostgreSQL counts rows only once they are asked for
            )
            if done.first() is None:
                raise NotFoundError
            write_audit(c, now, None, standing or "reinstate", f"submission {key}", why)

        await self._database.run(work)

    async def forgive(self, challenge: Challenge, team: int, why: str) -> int:
        """Let a team's submissions so far count no more against its limits; how many these were.

        Raises:
            NotFoundError: where there is no such team.
        """
        now = self._store.clock()

        def work(c: Connection) -> int:
            if c.execute(select(teams.c.id).where(teams.c.id == team)).first() is None:
                raise NotFoundError
            done = c.execute(
                update(submissions)
                .where(
                    submissions.c.challenge == challenge.name,
                    submissions.c.team == team,
                    submissions.c.counts,
                )
                .values(counts=False)
                .returning(submissions.c.id)
            )
            many = len(done.all())
            write_audit(c, now, None, "forgive", f"team {team} in {challenge.name}", why)
            return many

        return await self._database.run(work)

    async def requeue(self, key: str, why: str) -> int:
        """Evaluate a submission that failed once more; its number.

        Raises:
            RefusedError: where it did not fail.
        """
        now = self._store.clock()

        def work(c: Connection) -> int:
            number = c.execute(
                update(submissions)
                .where(submissions.c.key == key, submissions.c.state == "failed")
                .values(state="queued", attempts=0, progress=0.0, finished_at=None, reason="")
                .returning(submissions.c.id)
            ).scalar()
            if number is None:
                raise RefusedError("Only what failed is evaluated once more.")
            write_audit(c, now, None, "requeue", f"submission {key}", why)
            return number

        return await self._database.run(work)

    async def teams(self) -> list[dict[str, Any]]:
        """Every team: id, name, created_at, members, submissions."""
        members = (
            select(func.count()).where(accounts.c.team == teams.c.id).correlate(teams)
        ).scalar_subquery()
        sent = (
            select(func.count()).where(submissions.c.team == teams.c.id).correlate(teams)
        ).scalar_subquery()
        query = select(
            teams.c.id,
            teams.c.name,
            teams.c.created_at,
            members.label("members"),
            sent.label("submissions"),
        ).order_by(teams.c.id)
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])
