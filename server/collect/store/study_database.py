"""A study's database, opened and filled: units, secret and clock, and the records that the store hands to pages."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from ....datasets.errors import InputError
from ...storage.clock import Clock, latest_time
from ...storage.database import Database
from ...storage.site_settings import FIRST_SECRET, SECRET, new_secret
from ..forms.course import RaterProgress
from ..items.units import StudyItem, StudyUnit
from ..study import Study
from .tables import (
    answers,
    events,
    invitations,
    items,
    metadata,
    raters,
    serves,
    site_settings,
    units,
)

#: All rows of some tables, by table.
TableRows = Mapping[str, Sequence[Mapping[str, Any]]]

#: Statements that every answer needs are made once, at import: making one takes longer than SQLite takes to run it.
#: Their parameters have names that no column has.
RATER_ID = bindparam("rater_id")
UNIT_ID = bindparam("unit_id")
KEY = bindparam("serve_key")
#: The columns of `Rater`, in its order.
RATER_COLUMNS = (raters.c.id, raters.c.nickname, raters.c.points, raters.c.given, raters.c.state)
UPDATE_RATER = update(raters).where(raters.c.id == RATER_ID)


class EndReason(StrEnum):
    """Reasons why a rater has nothing to answer."""

    #: The study has all the answers that this rater could give.
    THROUGH = auto()
    #: Other raters are at the remaining units; some may become free.
    RESERVED = auto()
    #: The form has ended for this rater, such as after the last attempt at practice.
    OUT = auto()


@dataclass(frozen=True)
class Rater:
    """A participant, as far as the study knows them; `n_answers` counts only the dataset's answers."""

    id: int
    nickname: str | None
    points: int
    n_answers: int
    state: dict[str, Any]

    @property
    def progress(self) -> RaterProgress:
        """The rater's points and state, as forms handle them."""
        return RaterProgress(self.state, self.points)


@dataclass(frozen=True)
class ShownUnit:
    """A unit that waits for a rater's answer.

    Attributes:
        key: makes its answer count once.
        items: the captions in the order in which they are shown.
        seconds_left: until an answer is accepted.
        previous: the answers that stand, which this one checks, in the same order; empty if there are none.
    """

    key: str
    phase: str
    unit: StudyUnit
    items: tuple[StudyItem, ...]
    seconds_left: float
    rater: Rater
    previous: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class RecordedAnswer:
    """A rater's recorded answer.

    Attributes:
        rater: the rater, as they are now.
        feedback: the form's feedback, if it gives any.
        is_repeat: whether it had been recorded before.
        differs: whether another answer had been recorded before; that one stands.
    """

    key: str
    phase: str
    rater: Rater
    unit: StudyUnit
    values: tuple[dict[str, Any], ...]
    feedback: dict[str, Any] | None
    is_repeat: bool = False
    differs: bool = False


class StudyDatabase:
    """A study and its database.

    Attributes:
        units: everything that is shown, by number.
        pool_sizes: the number of units by pool.
        most_answers: the most answers of one person; the study may have all that it needs before.
        secret: signs sessions.

    Raises:
        InputError: if the database holds another study, or this one with other items.
    """

    def __init__(self, database: Database, study: Study) -> None:
        self.database = database
        self.study = study
        self.form = study.form

        settings = database.run_blocking(self._begin)
        self.secret = bytes.fromhex(settings[SECRET])
        # Codes that raters have seen and exports hold stay where the secret was made anew.
        self._code_secret = bytes.fromhex(settings.get(FIRST_SECRET, settings[SECRET]))

        self.units = database.run_blocking(lambda c: _load_units(c, study))
        self.pool_sizes = Counter(unit.pool for unit in self.units.values())
        n_units = self.pool_sizes["main"]
        self.most_answers = min(study.per_rater or n_units, n_units)
        # The clock never goes back behind what the database holds, even if the machine's does.
        self.clock = Clock(database.run_blocking(partial(latest_time, tables=metadata)))

    def tag(self, *parts: object) -> str:
        """Return a hexadecimal tag that only this study's secret can make."""
        text = "\0".join(map(str, parts))
        return hmac.new(
            self._code_secret, text.encode("utf-8", "replace"), hashlib.sha256
        ).hexdigest()

    def rater_code(self, rater_id: int) -> str:
        """Return the code by which exports and the dashboard name a rater."""
        return f"r{self.tag('rater', rater_id)[:8]}"

    def completion_code(self, rater_id: int) -> str:
        """Return the code that a crowd's worker hands in: the study's, or else one of their own.

        The prefix keeps programs that read tables from taking one such as 12345678E9 for a number.
        """
        if self.study.completion:
            return self.study.completion

        return f"C{self.tag('completion', rater_id)[:10].upper()}"

    def items_by_id(self) -> dict[int, tuple[StudyUnit, StudyItem]]:
        """Return each item with its unit, by the item's number."""
        units_and_items: dict[int, tuple[StudyUnit, StudyItem]] = {}
        for unit in self.units.values():
            for item in unit.items:
                units_and_items[item.id] = (unit, item)

        return units_and_items

    def load_rows(self, c: Connection) -> dict[str, list[dict[str, Any]]]:
        """Return all rows that the dashboard and exports need, by table."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in (answers, raters, events, invitations, units):
            query = select(table).order_by(table.c.id)
            rows[table.name] = [dict(row) for row in c.execute(query).mappings()]

        return rows

    def _begin(self, c: Connection) -> dict[str, str]:
        """Return the database's settings, the secret among them; the first to open a database fills it."""
        settings = {row.key: row.value for row in c.execute(select(site_settings))}
        study = self.study
        path = self.database.path

        if SECRET not in settings and self.database.is_read_only:
            raise InputError(f"{path}: it holds no study yet; captau collect creates one")

        if SECRET not in settings:
            settings = {
                "study": study.name,
                "digest": study.digest,
                SECRET: new_secret(),
            }
            rows = [{"key": key, "value": value} for key, value in settings.items()]
            c.execute(insert(site_settings), rows)
            _fill(c, study)
        if settings["study"] != study.name:
            raise InputError(
                f"{path}: it holds the study '{settings['study']}'; name another database"
            )
        if settings["digest"] != study.digest:
            raise InputError(
                f"{path}: the items or rules of '{study.name}' are not those it was started with; "
                f"undo the change, or start again with another database="
            )

        return settings


def holds_study(database: Database) -> bool:
    """Tell whether a database has been filled with a study."""
    query = select(site_settings.c.value).where(site_settings.c.key == SECRET)
    return database.run_blocking(lambda c: c.execute(query).first() is not None)


def _fill(c: Connection, study: Study) -> None:
    """Write a study's units and items."""
    unit_rows: list[dict[str, Any]] = []
    item_rows: list[dict[str, Any]] = []
    for unit in study.units:
        unit_row = {
            "id": unit.id,
            "pool": unit.pool,
            "position": unit.id,
            "image_id": unit.image_id,
            "fixed": list(unit.fixed),
            "given": 0,
            "last_served": 0,
        }
        unit_rows.append(unit_row)
        for item in unit.items:
            item_row = {
                "id": item.id,
                "unit": unit.id,
                "item_id": item.item_id,
                "caption": item.caption,
                "references": list(item.references),
                "system": item.system,
                "split": item.split,
            }
            item_rows.append(item_row)

    c.execute(insert(units), unit_rows)
    c.execute(insert(items), item_rows)


def _load_units(c: Connection, study: Study) -> dict[int, StudyUnit]:
    """Return the study's units with the ratings that they had when the database was filled.

    The digest covers the rest but for images and explanations, which may change.
    """
    rows = c.execute(select(units.c.id, units.c.fixed).order_by(units.c.id)).all()
    loaded: dict[int, StudyUnit] = {}
    for unit, row in zip(study.units, rows, strict=True):
        loaded[unit.id] = replace(unit, fixed=tuple(row.fixed))

    return loaded


def log_event(c: Connection, now: float, action: str, rater_id: int | None, reason: str) -> None:
    """Record an action of the admin; `rater_id` is None where it concerns no rater."""
    c.execute(insert(events).values(at=now, action=action, rater=rater_id, why=reason))


def recount_units(c: Connection, unit_ids: Iterable[int]) -> None:
    """Count the answers of units again; those of excluded raters do not count."""
    for unit_id in set(unit_ids):
        n_answers = c.execute(
            select(func.count(func.distinct(serves.c.id)))
            .join(raters, raters.c.id == serves.c.rater)
            .join(units, units.c.id == serves.c.unit)
            .where(
                serves.c.unit == unit_id,
                units.c.pool == "main",
                serves.c.answered_at.is_not(None),
                raters.c.excluded_at.is_(None),
            )
        ).scalar_one()

        c.execute(update(units).where(units.c.id == unit_id).values(given=n_answers))
