"""Units that a study shows and the items in them; forms, studies and the store all handle these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class StudyItem:
    """A caption to be judged; the caption is empty where one is to be written.

    Attributes:
        image: the image's file; empty if it has none.
        mean_rating: of the ratings in the source, on 1 to 5; None if it has none.
        pair: the row of the pair that a table lists it in; None where none does.
        id: its number in the study, from 1.
    """

    item_id: str
    image_id: str
    image: str
    caption: str
    references: tuple[str, ...]
    system: str | None
    split: str
    mean_rating: float | None = None
    pair: int | None = None
    id: int = 0


@dataclass(frozen=True)
class Stage:
    """A turn at a unit whose raters check each other's answers.

    Attributes:
        phase: recorded with the answer: `main` for the first one, `check`, or a form's own.
        annotator: the name of who does it; empty for anybody who has not been at the unit.
    """

    phase: str
    annotator: str = ""


@dataclass(frozen=True)
class StudyUnit:
    """Captions of one image that are shown together.

    Attributes:
        pool: `main`, whose answers are the dataset, or `tutorial`, `probation`, `attention`.
        image: the image's file.
        fixed: ratings of a tutorial or probation pair, accepted ratings of an attention item, or computed
            ratings of a pair of the game.
        explanation: the reason for a tutorial pair's ratings.
        stages: the turns of raters who check each other's answers; empty where each answers alone.
        id: its number in the study, from 1.
    """

    pool: str
    image_id: str
    image: str
    items: tuple[StudyItem, ...]
    fixed: tuple[int, ...] = ()
    explanation: str = ""
    stages: tuple[Stage, ...] = ()
    id: int = 0

    @property
    def is_rated(self) -> bool:
        """Tell whether its answers are part of the dataset, rather than practice or attention."""
        return self.pool == "main"


def unit_of_item(
    pool: str, item: StudyItem, fixed: Iterable[int] = (), explanation: str = ""
) -> StudyUnit:
    """Return a unit of a single caption."""
    return StudyUnit(
        pool=pool,
        image_id=item.image_id,
        image=item.image,
        items=(item,),
        fixed=tuple(fixed),
        explanation=explanation,
    )


def units_of_images(items: Iterable[StudyItem], size: int | None = None) -> list[StudyUnit]:
    """Return units of so many captions of an image each; of all its captions without a size."""
    by_image: dict[str, list[StudyItem]] = {}
    for item in items:
        by_image.setdefault(item.image_id, []).append(item)

    units: list[StudyUnit] = []
    for image_id, group in by_image.items():
        unit_size = size or len(group)
        for k in range(0, len(group), unit_size):
            captions = tuple(group[k : k + unit_size])
            units.append(StudyUnit("main", image_id, group[0].image, captions))

    return units


def number_units(units: Iterable[StudyUnit]) -> tuple[StudyUnit, ...]:
    """Number units and their items from 1, in order."""
    numbered: list[StudyUnit] = []
    n_items = 0
    for unit_id, unit in enumerate(units, start=1):
        items = tuple(replace(item, id=n_items + k) for k, item in enumerate(unit.items, start=1))
        n_items += len(items)
        numbered.append(replace(unit, items=items, id=unit_id))

    return tuple(numbered)
