"""Disagreements between annotators, which they settle; their own answers stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Select, insert, select

from ...web.errors import NotFoundError
from ..forms.form import COUNTED_PHASES
from ..items.units import StudyItem, StudyUnit
from .study_database import StudyDatabase
from .tables import answers, items, raters, resolutions


@dataclass(frozen=True)
class Disagreement:
    """A caption that annotators judged differently, with each one's answer by their number."""

    unit: StudyUnit
    item: StudyItem
    values: dict[int, dict[str, Any]]


class Disagreements:
    """The disagreements of a study, in its database."""

    def __init__(self, study: StudyDatabase) -> None:
        self._data = study

    async def load_open(self, rater_id: int) -> list[Disagreement]:
        """Return an annotator's disagreements with others that are not settled yet."""

        def load(c: Connection) -> list[Disagreement]:
            own_items = select(answers.c.item).where(
                answers.c.rater == rater_id, answers.c.phase.in_(COUNTED_PHASES)
            )
            rows = c.execute(
                select(answers.c.item, answers.c.rater, answers.c.value)
                .join(raters, raters.c.id == answers.c.rater)
                .where(
                    answers.c.item.in_(own_items),
                    answers.c.item.not_in(_settled(resolutions.c.item)),
                    answers.c.phase.in_(COUNTED_PHASES),
                    raters.c.excluded_at.is_(None),
                )
                .order_by(answers.c.item, answers.c.id)
            ).all()
            values_by_item: dict[int, dict[int, dict[str, Any]]] = {}
            for row in rows:
                values_by_item.setdefault(row.item, {})[row.rater] = row.value
            items_by_id = self._data.items_by_id()
            return [
                Disagreement(*items_by_id[item_id], values)
                for item_id, values in values_by_item.items()
                if rater_id in values and any(v != values[rater_id] for v in values.values())
            ]

        return await self._data.database.run(load)

    async def settle(self, rater_id: int, item_id: int, value: Mapping[str, Any]) -> None:
        """Record the answer that annotators settled on.

        Raises:
            NotFoundError: if this annotator has no disagreement about the caption.
        """
        open_items = [disagreement.item.id for disagreement in await self.load_open(rater_id)]
        now = self._data.clock()

        def store(c: Connection) -> None:
            settled = _settled(resolutions.c.id).where(resolutions.c.item == item_id)
            is_settled = c.execute(settled).first() is not None
            if item_id not in open_items:
                raise NotFoundError
            if not is_settled:  # else the other annotator was quicker, or this came twice
                row = {"item": item_id, "rater": rater_id, "value": dict(value), "at": now}
                c.execute(insert(resolutions).values(row))

        await self._data.database.run(store)

    async def find_image(self, rater_id: int, item_id: int) -> str:
        """Return the file of the image of a caption that an annotator judged.

        Raises:
            NotFoundError: if they did not.
        """
        row = await self._data.database.run(
            lambda c: c.execute(
                select(items.c.unit)
                .join(answers, answers.c.item == items.c.id)
                .where(items.c.id == item_id, answers.c.rater == rater_id)
            ).first()
        )
        if row is None:
            raise NotFoundError
        return self._data.units[row.unit].image


def _settled(column: Column[int]) -> Select[Any]:
    """Select a column of what was settled; what excluded annotators settled is open again."""
    return (
        select(column)
        .join(raters, raters.c.id == resolutions.c.rater)
        .where(raters.c.excluded_at.is_(None))
    )
