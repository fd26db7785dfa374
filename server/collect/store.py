"""All work on a study's database: who joined, what was shown, what was answered, each thing once."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    CursorResult,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from ...datasets.errors import InputError
from ..person_names import name_key
from ..storage.clock import Clock
from ..storage.database import Database
from ..web.errors import NotFoundError, RefusedError
from . import game
from .models import answers, events, invitations, items, meta, raters, resolutions, serves, units
from .protocols import FORMS
from .studies import Study

T = TypeVar("T")

#: The phases whose answers are the dataset.
COUNTED = ("main", "trial", "playing")
#: How long something shown, and not answered yet, is kept for whom it was shown to, in seconds.
KEPT = 600
#: Why there is nothing to answer: all is done, others are at the rest, or practice brought too little.
End = Literal["through", "reserved", "out"]
#: How many answers have computed ratings stand in for them.
_COMPUTED = 2


@dataclass(frozen=True)
class Item:
    """A caption as the database has it."""

    id: int
    item_id: str
    caption: str
    references: tuple[str, ...]
    system: str | None
    split: str


@dataclass(frozen=True)
class Unit:
    """What is shown at once."""

    id: int
    pool: str
    image_id: str
    image: str
    fixed: tuple[int, ...]
    explanation: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Rater:
    """A person, as far as the study knows them."""

    id: int
    nickname: str | None
    points: int
    given: int
    state: dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """Something that waits for its answer: its captions in the order in which they are shown."""

    key: str
    phase: str
    unit: Unit
    items: tuple[Item, ...]
    left: float
    rater: Rater


@dataclass(frozen=True)
class Answered:
    """A recorded answer: what was answered, and what the game told.

    Attributes:
        rater: who answered, as they are now.
        again: whether it had been recorded before.
        differs: whether another answer had been recorded before; that one stands.
    """

    key: str
    phase: str
    rater: Rater
    unit: Unit
    values: tuple[dict[str, Any], ...]
    told: dict[str, Any] | None
    again: bool = False
    differs: bool = False


class _Serve(NamedTuple):
    """What of a serving is needed to show it."""

    key: str
    unit: int
    phase: str
    order: list[int]
    served_at: float


@dataclass(frozen=True)
class _Said:
    """An answer as it arrived: of what was shown, a value a caption in the order shown, and when."""

    key: str
    values: Sequence[Mapping[str, Any]]
    at: float


#: The columns of `Rater` and `_Serve`, in their order.
_RATER = (raters.c.id, raters.c.nickname, raters.c.points, raters.c.given, raters.c.state)
_SERVE = (serves.c.key, serves.c.unit, serves.c.phase, serves.c.order, serves.c.served_at)

# What every rating takes, made once: to make a statement takes longer than SQLite takes to do it. Those with
# an `in_` do for all who ask at once: each is a way to PostgreSQL and back. Parameters bear names that no
# column has. -----------------------------------------------------------------------------------------

_WHO, _UNIT, _KEY = bindparam("who"), bindparam("which"), bindparam("shown")
_ALL, _KEYS = bindparam("all", expanding=True), bindparam("keys", expanding=True)
#: Participants, and what waits for their answer.
_NEXT = (
    select(*_RATER, *_SERVE, raters.c.excluded_at)
    .outerjoin(serves, (serves.c.rater == raters.c.id) & serves.c.answered_at.is_(None))
    .where(raters.c.id.in_(_ALL))
)
#: The units that somebody is at, and how many.
_WAITING = (
    select(serves.c.unit, func.count().label("many"))
    .join(raters, raters.c.id == serves.c.rater)
    .where(
        serves.c.answered_at.is_(None),
        serves.c.served_at > bindparam("since"),
        raters.c.excluded_at.is_(None),
    )
    .group_by(serves.c.unit)
    .subquery("waiting")
)
#: Which units still want answers.
_WANTED = (units.c.pool == "main", units.c.given < bindparam("ratings"))
_SEEN_BY = serves.c.unit == units.c.id
_LEFT = (
    select(units.c.id).where(*_WANTED, ~exists().where(serves.c.rater == _WHO, _SEEN_BY)).limit(1)
)
_ORDER = (units.c.given, units.c.last_served, units.c.position, units.c.id)
_FIRST = (
    select(*_ORDER).where(*_WANTED).order_by(*_ORDER).limit(bindparam("most")).subquery("first")
)
#: The units of the fewest answers, and how many are at them.
_FEWEST = (
    select(*_FIRST.c, func.coalesce(_WAITING.c.many, 0))
    .outerjoin(_WAITING, _WAITING.c.unit == _FIRST.c.id)
    .order_by(*_FIRST.c)
)
#: Which of these units participants have been shown.
_SEEN = (
    select(serves.c.rater, serves.c.unit)
    .join(units, _SEEN_BY)
    .where(serves.c.rater.in_(_ALL), *_WANTED, units.c.given <= bindparam("top"))
)
_SERVED = insert(serves).inline()
_LAST_SERVED = (
    update(units)
    .where(units.c.id == _UNIT)
    .values(last_served=select(serves.c.id).where(serves.c.key == _KEY).scalar_subquery())
)
#: What was shown, and to whom.
_SHOWN = (
    select(serves, *_RATER[1:], raters.c.excluded_at)
    .join(raters, raters.c.id == serves.c.rater)
    .where(serves.c.key.in_(_KEYS))
)
_VALUES = select(answers.c.item, answers.c.value, answers.c.told).where(
    answers.c.serve == bindparam("serving")
)
#: What people said of captions, of whom none is left out.
_PEOPLE = (
    select(answers.c.item, answers.c.value)
    .join(raters, raters.c.id == answers.c.rater)
    .where(
        answers.c.item.in_(bindparam("of", expanding=True)),
        answers.c.phase.in_(COUNTED),
        raters.c.excluded_at.is_(None),
    )
)
_IMAGE = select(serves.c.unit).where(serves.c.key == _KEY, serves.c.rater == _WHO)
_SAID = insert(answers).inline()
_ANSWERED = update(serves).where(serves.c.key == _KEY).values(answered_at=bindparam("now"))
_ONE_MORE = update(units).where(units.c.id == _UNIT).values(given=units.c.given + 1)
_CHANGED = update(raters).where(raters.c.id == _WHO)
#: How many units are looked at first, to find what has the fewest answers.
_MOST = 400


class _Fewest:
    """Of what participants have not been shown, what has the fewest answers, awaited ones counted.

    For all who ask at once: each of them is at what they took when the next one takes.

    Args:
        c: the database.
        who: their numbers.
        ratings: how many answers a unit is to have.
        since: nobody is at what was shown before.
    """

    def __init__(self, c: Connection, who: Sequence[int], ratings: int, since: float) -> None:
        self._c, self._who = c, who
        self._asked = {"ratings": ratings, "since": since}
        self._most = 0
        self._rows: list[tuple[int, ...]] = []
        self._seen: set[tuple[int, int]] = set()
        self._at: Counter[int] = Counter()
        self._moved: dict[int, int] = {}
        self._later = count(1 << 62)  # than all servings so far

    def take(self, rater: int, *, counts: bool) -> int | None:
        """The unit for one of them, None where there is none.

        Args:
            rater: their number.
            counts: whether the answer will; those of participants who are left out do not.
        """
        while True:
            best, free = self._best(rater)
            if free or len(self._rows) < self._most:
                break
            self._look()
        if best is None:
            return None
        unit = best[-1]
        self._at[unit] += counts
        self._moved[unit] = next(self._later)
        return unit

    def _best(self, rater: int) -> tuple[tuple[int, ...] | None, bool]:
        """Of the units looked at, the best for one; and whether no other can be better."""
        best: tuple[int, ...] | None = None
        for given, last_served, position, unit, many in self._rows:
            if (rater, unit) in self._seen:
                continue
            at, moved = many + self._at[unit], self._moved.get(unit)
            total = (given + at, moved or last_served, position, unit)
            if total[0] < self._asked["ratings"] and (best is None or total < best):
                best = total
            # By answers given, the first that nobody is at comes before all that could be no better.
            if not at and moved is None:
                return best, True
        return best, False

    def _look(self) -> None:
        """Look at more units."""
        self._most = 8 * self._most or _MOST
        rows = self._c.execute(_FEWEST, {**self._asked, "most": self._most})
        self._rows = [tuple(row) for row in rows]
        if self._rows:
            asked = {"all": _padded(self._who), "top": self._rows[-1][0], **self._asked}
            self._seen = {(rater, unit) for rater, unit in self._c.execute(_SEEN, asked)}


class Store:
    """A study in its database.

    Raises:
        InputError: where the database holds another study, or this one with other items.
    """

    def __init__(self, database: Database, study: Study) -> None:
        self.database, self.study, self.form = database, study, FORMS[study.protocol]
        self.secret = database.run_blocking(self._begin)
        self.units = database.run_blocking(lambda c: _units(c, study))
        self.pools = Counter(u.pool for u in self.units.values())
        self.clock = Clock(database.run_blocking(_latest))

    # Opening ----------------------------------------------------------------------------------

    def _begin(self, c: Connection) -> bytes:
        """The study's secret, in a database that is filled by the first to open it."""
        found = {row.key: row.value for row in c.execute(select(meta))}
        shown, study = self.database.display_name, self.study
        if "secret" not in found:
            values = {
                "study": study.name,
                "digest": study.digest,
                "secret": secrets.token_hex(32),
            }
            c.execute(insert(meta), [{"key": k, "value": v} for k, v in values.items()])
            self._fill(c)
            if self.database.url.get_backend_name() == "sqlite":
                with suppress(OSError):  # on a file system without permissions
                    Path(str(self.database.url.database)).chmod(0o600)
            return bytes.fromhex(values["secret"])
        if found["study"] != study.name:
            raise InputError(
                f"{shown}: it holds the study '{found['study']}'; name another database"
            )
        if found["digest"] != study.digest:
            raise InputError(
                f"{shown}: the items or rules of '{study.name}' are not those it was begun with; undo "
                f"that, or begin anew with another database="
            )
        return bytes.fromhex(found["secret"])

    def _fill(self, c: Connection) -> None:
        number = 0
        unit_rows: list[dict[str, Any]] = []
        item_rows: list[dict[str, Any]] = []
        for position, unit in enumerate(self.study.units, start=1):
            unit_rows.append(
                {
                    "id": position,
                    "pool": unit.pool,
                    "position": position,
                    "image_id": unit.image_id,
                    "fixed": list(unit.fixed),
                    "given": 0,
                    "last_served": 0,
                }
            )
            for item in unit.items:
                number += 1
                item_rows.append(
                    {
                        "id": number,
                        "unit": position,
                        "item_id": item.item_id,
                        "caption": item.caption,
                        "references": list(item.references),
                        "system": item.system,
                        "split": item.split,
                    }
                )
        c.execute(insert(units), unit_rows)
        c.execute(insert(items), item_rows)

    # People -----------------------------------------------------------------------------------

    def tag(self, *what: object) -> str:
        """A hexadecimal mark that only this study's secret can make."""
        text = "\0".join(map(str, what))
        return hmac.new(self.secret, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def code(self, rater: int) -> str:
        """What a person is called in exports."""
        return f"r{self.tag('rater', rater)[:8]}"

    def completion(self, rater: int) -> str:
        """What a crowd's worker hands in: the study's code, or else one of their own."""
        return self.study.completion or self.tag("completion", rater)[:10].upper()

    async def join(self, nickname: str, worker: str, token: str) -> int:
        """A new participant's number; an invitation that was used gives the one it was used by.

        Raises:
            RefusedError: where the study does not take them so.
        """
        study, now = self.study, self.clock()
        worker_hash = self.tag("worker", worker) if worker else None

        def work(c: Connection) -> int:
            invitation = None
            if study.participants == "invitation":
                invitation = c.execute(
                    select(invitations).where(invitations.c.hash == _hash(token))
                ).first()
                if invitation is None:
                    raise RefusedError("This study is by invitation. Open the link you were sent.")
                if invitation.rater is not None:
                    return invitation.rater
            if study.participants == "crowd":
                if worker_hash is None:
                    raise RefusedError(
                        "Open this study from the crowd platform: its link names you."
                    )
                if c.execute(select(raters.c.id).where(raters.c.worker == worker_hash)).first():
                    raise RefusedError("You have taken part already, in this or another browser.")
            if (
                nickname
                and c.execute(
                    select(raters.c.id).where(raters.c.nickname_key == name_key(nickname))
                ).first()
            ):
                raise RefusedError("Somebody has that nickname. Take another.")
            made = c.execute(
                insert(raters).values(
                    nickname=nickname or None,
                    nickname_key=name_key(nickname) or None,
                    worker=worker_hash if study.participants == "crowd" else None,
                    joined_at=now,
                    consented=study.consent,
                    state=asdict(game.start(study.rules)),
                    points=0,
                    given=0,
                )
            )
            rater = _number(made)
            if invitation is not None:
                c.execute(
                    update(invitations).where(invitations.c.id == invitation.id).values(rater=rater)
                )
            return rater

        return await self.database.run(work)

    async def invited(self, token: str) -> int | None:
        """Who used an invitation; None where nobody has yet.

        Raises:
            NotFoundError: where there is none.
        """
        row = await self.database.run(
            lambda c: c.execute(
                select(invitations.c.rater).where(invitations.c.hash == _hash(token))
            ).first()
        )
        if row is None:
            raise NotFoundError
        return row.rater

    async def is_of(self, number: int, worker: str) -> bool:
        """Whether there is a participant of that number, and a crowd's link does not name another."""
        row = await self.database.run(
            lambda c: c.execute(select(raters.c.worker).where(raters.c.id == number)).first()
        )
        if row is None:
            return False
        named = worker.strip() if self.study.participants == "crowd" else ""
        return not named or row.worker == self.tag("worker", named)

    # Showing and answering --------------------------------------------------------------------

    async def next(self, number: int) -> Shown | Rater:
        """What the participant is to answer now, the same until they do; themselves where all is done.

        Raises:
            NotFoundError: where there is no such participant.
        """
        return await self.database.run_grouped(self._next, number, self.clock())

    def _next(
        self, c: Connection, asked: Mapping[int, float]
    ) -> dict[int, Shown | Rater | Exception]:
        """What participants are to answer, by their numbers; when each asked is given."""
        rows = {row.id: row for row in c.execute(_NEXT, {"all": _padded(asked)})}
        idle = [number for number, row in rows.items() if row.key is None]
        fewest = _Fewest(c, idle, self.study.ratings, self.clock() - KEPT)
        found: dict[int, Shown | Rater | Exception] = {}
        served: list[dict[str, Any]] = []
        changed: list[dict[str, Any]] = []
        for number, now in asked.items():
            row = rows.get(number)
            if row is None:
                found[number] = NotFoundError()
                continue
            rater = Rater(*row[: len(_RATER)])
            serve = None if row.key is None else _Serve(*row[len(_RATER) : -1])
            take = partial(fewest.take, number, counts=row.excluded_at is None)
            if serve is None and (chosen := self._choose(c, rater, take)) is not None:
                unit, phase, attempt = chosen
                order = list(range(len(self.units[unit].items)))
                secrets.SystemRandom().shuffle(order)
                serve = _Serve(secrets.token_urlsafe(12), unit, phase, order, now)
                served.append({**serve._asdict(), "rater": number, "attempt": attempt})
                if phase in ("tutorial", "trial", "probation", "playing"):
                    state = game.serve(_state(rater), serve.key, now)
                    changed.append({"who": number, "state": asdict(state)})
            found[number] = rater if serve is None else self._shown(serve, rater, now)
        if served:
            c.execute(_SERVED, served)
            c.execute(_LAST_SERVED, [{"which": s["unit"], "shown": s["key"]} for s in served])
        if changed:
            c.execute(_CHANGED, changed)
        return found

    def _shown(self, serve: _Serve, rater: Rater, now: float) -> Shown:
        unit = self.units[serve.unit]
        left = 0.0
        if self.study.protocol == "game":
            left = max(0.0, serve.served_at + self.study.rules.wait - now)
        shown = tuple(unit.items[k] for k in serve.order)
        return Shown(serve.key, serve.phase, unit, shown, left, rater)

    def _choose(
        self, c: Connection, rater: Rater, fewest: Callable[[], int | None]
    ) -> tuple[int, str, int] | None:
        """A unit, its phase and attempt; None where this participant has nothing left to do."""
        study = self.study
        phase, attempt = "main", 0
        if study.protocol == "game":
            state = _state(rater)
            phase = state.phase
            attempt = state.attempt if phase == "probation" else 0
        if phase == "out":
            return None
        if phase in ("tutorial", "probation"):
            if not self._left(c, rater):
                return None  # nobody practises for nothing
            found = _unseen(c, rater.id, phase, attempt, shuffled=phase == "probation")
            return None if found is None else (found, phase, attempt)
        if study.per_rater is not None and rater.given >= study.per_rater:
            return None
        if self.pools["attention"] and phase != "trial" and rater.given:
            answered = c.execute(
                select(func.count())
                .select_from(serves)
                .where(serves.c.rater == rater.id, serves.c.phase == "attention")
            ).scalar_one()
            if rater.given >= study.every * (answered + 1):
                found = _unseen(c, rater.id, "attention", 0)
                if found is not None:
                    return found, "attention", 0
        found = fewest()
        return None if found is None else (found, phase, 0)

    async def end(self, rater: Rater) -> End:
        """Why a participant has nothing to answer now."""
        if self.study.protocol == "game" and _state(rater).phase == "out":
            return "out"
        left = await self.database.run(lambda c: self._left(c, rater))
        return "reserved" if left else "through"

    def _left(self, c: Connection, rater: Rater) -> bool:
        """Whether the study wants an answer of this participant still, now or later."""
        most = self.study.per_rater
        if most is not None and rater.given >= most:
            return False
        asked = {"who": rater.id, "ratings": self.study.ratings}
        return c.execute(_LEFT, asked).first() is not None

    async def answer(self, number: int, key: str, values: Sequence[Mapping[str, Any]]) -> Answered:
        """Record an answer, once; a second one to the same key gets what the first one got.

        Args:
            number: who answers.
            key: of what was shown.
            values: one a caption, in the order in which they were shown.

        Raises:
            NotFoundError: where nothing of that key was shown to them.
            game.RefusedError: where the game does not take it (yet).
        """
        said = _Said(key, values, self.clock())
        return await self.database.run_grouped(self._record, number, said)

    def _record(self, c: Connection, asked: Mapping[int, _Said]) -> dict[int, Answered | Exception]:
        """Record participants' answers, by their numbers."""
        keys = _padded(said.key for said in asked.values())
        rows = {row.key: row for row in c.execute(_SHOWN, {"keys": keys})}
        people = self._people(c, rows.values())
        found: dict[int, Answered | Exception] = {}
        recorded: list[dict[str, Any]] = []
        done: list[dict[str, Any]] = []
        counted: list[dict[str, Any]] = []
        changed: list[dict[str, Any]] = []
        for number, said in asked.items():
            serve = rows.get(said.key)
            if serve is None or serve.rater != number:
                found[number] = NotFoundError()
                continue
            if serve.answered_at is not None:
                found[number] = self._recorded(c, serve, said.values)
                continue
            before = _asked(serve)
            unit, rater, told = self.units[serve.unit], before, None
            if self.study.protocol == "game":
                try:
                    told, rater = self._play(serve, rater, said, people)
                except game.RefusedError as error:
                    found[number] = error
                    continue
            recorded += [
                {
                    "serve": serve.id,
                    "item": unit.items[k].id,
                    "rater": number,
                    "phase": serve.phase,
                    "value": dict(value),
                    "told": told,
                    "seconds": said.at - serve.served_at,
                    "at": said.at,
                }
                for k, value in zip(serve.order, said.values, strict=True)
            ]
            done.append({"shown": serve.key, "now": said.at})
            if serve.phase in COUNTED:
                rater = replace(rater, given=rater.given + 1)
                if serve.excluded_at is None:
                    counted.append({"which": unit.id})
            if rater != before:
                now = {"state": rater.state, "points": rater.points, "given": rater.given}
                changed.append({"who": number, **now})
            values = tuple(map(dict, said.values))
            found[number] = Answered(serve.key, serve.phase, rater, unit, values, told)
        for statement, these in (
            (_SAID, recorded),
            (_ANSWERED, done),
            (_ONE_MORE, counted),
            (_CHANGED, changed),
        ):
            if these:
                c.execute(statement, these)
        return found

    def _people(self, c: Connection, shown: Iterable[Row[Any]]) -> dict[int, list[float]]:
        """What people said of the captions that the game shows, by caption."""
        if self.study.protocol != "game":
            return {}
        people: dict[int, list[float]] = {
            self.units[serve.unit].items[0].id: [] for serve in shown if serve.phase in COUNTED
        }
        if people:
            for row in c.execute(_PEOPLE, {"of": _padded(people)}):
                people[row.item].append(float(row.value["overall"]))
        return people

    def _play(
        self, serve: Row[Any], rater: Rater, said: _Said, people: Mapping[int, list[float]]
    ) -> tuple[dict[str, Any], Rater]:
        """What the game tells, and the participant after it; `people` hear of it."""
        unit, rating, rules = (
            self.units[serve.unit],
            int(said.values[0]["overall"]),
            self.study.rules,
        )
        if serve.phase == "attention":
            # Known answers are no part of the game: nothing is won by them.
            alone = game.State(phase="playing", open=game.Served(serve.key, serve.served_at))
            _, outcome = game.answer(alone, serve.key, rating, said.at, unit.fixed, rules)
            return {**asdict(outcome), "score": 0}, rater
        others = people[unit.items[0].id] if serve.phase in COUNTED else []
        previous = [*others, *unit.fixed[min(len(others), _COMPUTED) :]]
        state, outcome = game.answer(_state(rater), serve.key, rating, said.at, previous, rules)
        if serve.excluded_at is None:
            others.append(float(rating))
        return asdict(outcome), replace(rater, state=asdict(state), points=state.points)

    def _recorded(
        self, c: Connection, serve: Row[Any], given: Sequence[Mapping[str, Any]] | None = None
    ) -> Answered:
        unit = self.units[serve.unit]
        rows = c.execute(_VALUES, {"serving": serve.id}).all()
        by_item = {row.item: row.value for row in rows}
        values = tuple(by_item[unit.items[k].id] for k in serve.order)
        differs = given is not None and list(map(dict, given)) != list(values)
        rater, told = _asked(serve), rows[0].told
        return Answered(serve.key, serve.phase, rater, unit, values, told, True, differs)

    async def answered(self, number: int, key: str) -> Answered:
        """A participant's own recorded answer.

        Raises:
            NotFoundError: where there is none of that key, or it is another's.
        """

        def work(c: Connection) -> Answered:
            serve = c.execute(_SHOWN, {"keys": [key]}).first()
            if serve is None or serve.rater != number or serve.answered_at is None:
                raise NotFoundError
            return self._recorded(c, serve)

        return await self.database.run(work)

    async def image(self, number: int, key: str) -> str:
        """The file of an image that was shown to a participant.

        Raises:
            NotFoundError: where it was not.
        """
        row = await self.database.run(
            lambda c: c.execute(_IMAGE, {"shown": key, "who": number}).first()
        )
        if row is None:
            raise NotFoundError
        return self.units[row.unit].image

    async def board(self, most: int = 20) -> list[tuple[str, int, int]]:
        """Nicknames, points and numbers of ratings, the best first."""
        rows = await self.database.run(
            lambda c: c.execute(
                select(raters.c.nickname, raters.c.points, raters.c.given)
                .where(
                    raters.c.nickname.is_not(None),
                    raters.c.excluded_at.is_(None),
                    raters.c.given > 0,
                )
                .order_by(raters.c.points.desc(), raters.c.given, raters.c.id)
                .limit(most)
            ).all()
        )
        return [(row.nickname, row.points, row.given) for row in rows]

    # Settling disagreements -------------------------------------------------------------------

    async def disagreements(
        self, number: int
    ) -> list[tuple[Unit, Item, dict[int, dict[str, Any]]]]:
        """Captions that this annotator and another judged otherwise, not settled yet; who said what."""

        def work(c: Connection) -> list[tuple[Unit, Item, dict[int, dict[str, Any]]]]:
            mine = select(answers.c.item).where(
                answers.c.rater == number, answers.c.phase.in_(COUNTED)
            )
            settled = _settled(resolutions.c.item)
            rows = c.execute(
                select(answers.c.item, answers.c.rater, answers.c.value)
                .join(raters, raters.c.id == answers.c.rater)
                .where(
                    answers.c.item.in_(mine),
                    answers.c.item.not_in(settled),
                    answers.c.phase.in_(COUNTED),
                    raters.c.excluded_at.is_(None),
                )
                .order_by(answers.c.item, answers.c.id)
            ).all()
            by_item: dict[int, dict[int, dict[str, Any]]] = {}
            for row in rows:
                by_item.setdefault(row.item, {})[row.rater] = row.value
            places = {i.id: (u, i) for u in self.units.values() for i in u.items}
            return [
                (*places[item], said)
                for item, said in by_item.items()
                if number in said and any(v != said[number] for v in said.values())
            ]

        return await self.database.run(work)

    async def settle(self, number: int, item: int, value: Mapping[str, Any]) -> None:
        """Record what two annotators settled on; their own versions stay as they are.

        Raises:
            NotFoundError: where this annotator has no disagreement about it.
        """
        open_ = [i.id for _, i, _ in await self.disagreements(number)]
        now = self.clock()

        def work(c: Connection) -> None:
            again = c.execute(_settled(resolutions.c.id).where(resolutions.c.item == item)).first()
            if item not in open_:
                raise NotFoundError
            if again is None:  # else the other one was quicker, or this came twice
                c.execute(
                    insert(resolutions).values(item=item, rater=number, value=dict(value), at=now)
                )

        await self.database.run(work)

    async def image_of(self, number: int, item: int) -> str:
        """The image of a caption that this annotator judged.

        Raises:
            NotFoundError: where they did not.
        """
        row = await self.database.run(
            lambda c: c.execute(
                select(items.c.unit)
                .join(answers, answers.c.item == items.c.id)
                .where(items.c.id == item, answers.c.rater == number)
            ).first()
        )
        if row is None:
            raise NotFoundError
        return self.units[row.unit].image

    # Running the study ------------------------------------------------------------------------

    async def invite(self, note: str, many: int) -> list[str]:
        """New invitations' tokens; the database keeps only their hashes."""
        tokens = [secrets.token_urlsafe(16) for _ in range(many)]
        now = self.clock()
        rows = [{"hash": _hash(t), "note": note, "created_at": now} for t in tokens]
        await self.database.run(lambda c: c.execute(insert(invitations), rows) and None)
        return tokens

    async def exclude(self, number: int, why: str, *, out: bool) -> None:
        """Leave a participant's answers out, or take them in again; both are written down.

        Raises:
            NotFoundError: where there is no such participant.
        """
        now = self.clock()

        def work(c: Connection) -> None:
            row = c.execute(select(raters.c.excluded_at).where(raters.c.id == number)).first()
            if row is None:
                raise NotFoundError
            if (row.excluded_at is not None) == out:
                return
            c.execute(
                update(raters).where(raters.c.id == number).values(excluded_at=now if out else None)
            )
            _event(c, now, "exclude" if out else "include", number, why)
            _count_again(c, number)

        await self.database.run(work)

    async def delete(self, number: int, why: str) -> None:
        """Delete a participant and all they said; that it was done is written down, not who they were.

        Raises:
            NotFoundError: where there is no such participant.
        """
        now = self.clock()

        def work(c: Connection) -> None:
            if c.execute(select(raters.c.id).where(raters.c.id == number)).first() is None:
                raise NotFoundError
            touched = list(
                c.execute(select(serves.c.unit).where(serves.c.rater == number)).scalars()
            )
            c.execute(delete(answers).where(answers.c.rater == number))
            c.execute(delete(resolutions).where(resolutions.c.rater == number))
            c.execute(delete(serves).where(serves.c.rater == number))
            c.execute(delete(invitations).where(invitations.c.rater == number))
            c.execute(delete(raters).where(raters.c.id == number))
            _event(c, now, "delete", number, why)
            _count_units(c, touched)

        await self.database.run(work)

    async def everything(self) -> dict[str, list[dict[str, Any]]]:
        """All rows that the dashboard and exports are made of, by table."""
        return await self.database.run(self.all_rows)

    def all_rows(self, c: Connection) -> dict[str, list[dict[str, Any]]]:
        """The same, on a connection."""
        tables = (answers, raters, resolutions, events, invitations, units)
        return {
            t.name: [dict(r) for r in c.execute(select(t).order_by(t.c.id)).mappings()]
            for t in tables
        }


def _number(made: CursorResult[Any]) -> int:
    """The number of a row that was just made."""
    key = made.inserted_primary_key
    assert key is not None
    return int(key[0])


def _padded(values: Iterable[T]) -> list[T]:
    """Some values, the last one repeated up to a power of two: few statements are to be prepared."""
    found = list(values)
    return found + found[-1:] * ((1 << (len(found) - 1).bit_length()) - len(found))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _latest(c: Connection) -> float:
    """The latest time there is in the database."""
    times = (serves.c.served_at, answers.c.at, raters.c.joined_at, events.c.at)
    return max(float(c.execute(select(func.max(t))).scalar() or 0.0) for t in times)


def _units(c: Connection, study: Study) -> dict[int, Unit]:
    """What the database holds; images and explanations, which may move and change, are the study's."""
    captions: dict[int, list[Item]] = {}
    for row in c.execute(select(items).order_by(items.c.id)).mappings():
        captions.setdefault(row["unit"], []).append(
            Item(
                row["id"],
                row["item_id"],
                row["caption"],
                tuple(row["references"]),
                row["system"],
                row["split"],
            )
        )
    return {
        row.id: Unit(
            row.id,
            row.pool,
            row.image_id,
            study.units[row.position - 1].image,
            tuple(row.fixed),
            study.units[row.position - 1].explanation,
            tuple(captions[row.id]),
        )
        for row in c.execute(select(units))
    }


def _settled(column: Column[int]) -> Select[Any]:
    """A column of what was settled, but for what annotators settled who are left out: that is open again."""
    return (
        select(column)
        .join(raters, raters.c.id == resolutions.c.rater)
        .where(raters.c.excluded_at.is_(None))
    )


def _asked(shown: Row[Any]) -> Rater:
    """Whom something was shown to, of a row of `_SHOWN`."""
    return Rater(shown.rater, shown.nickname, shown.points, shown.given, shown.state)


def _state(rater: Rater) -> game.State:
    found = dict(rater.state)
    waiting = found.pop("open")
    return game.State(**found, open=game.Served(**waiting) if waiting else None)


def _unseen(
    c: Connection, rater: int, pool: str, attempt: int, *, shuffled: bool = False
) -> int | None:
    """The next unit of a pool that a participant has not been shown in this attempt."""
    seen = exists().where(
        serves.c.rater == rater, serves.c.unit == units.c.id, serves.c.attempt == attempt
    )
    found = list(
        c.execute(
            select(units.c.id).where(units.c.pool == pool, ~seen).order_by(units.c.position)
        ).scalars()
    )
    if not found:
        return None
    return secrets.choice(found) if shuffled else found[0]


def _event(c: Connection, now: float, action: str, rater: int, why: str) -> None:
    c.execute(insert(events).values(at=now, action=action, rater=rater, why=why))


def _count_again(c: Connection, rater: int) -> None:
    _count_units(c, c.execute(select(serves.c.unit).where(serves.c.rater == rater)).scalars())


def _count_units(c: Connection, touched: Iterable[int]) -> None:
    """How many answers that count each unit has; an excluded participant's do not."""
    for unit in set(touched):
        given = c.execute(
            select(func.count(func.distinct(serves.c.id)))
            .join(raters, raters.c.id == serves.c.rater)
            .where(
                serves.c.unit == unit,
                serves.c.answered_at.is_not(None),
                serves.c.phase.in_(COUNTED),
                raters.c.excluded_at.is_(None),
            )
        ).scalar_one()
        c.execute(update(units).where(units.c.id == unit).values(given=given))
