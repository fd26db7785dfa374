"""Captions of several sources in given shares, mismatched ones among them (Scott et al. 2023, section 3.3).

CocoG's captions are people's, those of two systems, and people's of other images, most images with one caption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ....datasets.errors import InputError, unknown
from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.schema import item_ids
from .units import StudyItem, shown_caption

#: The source of captions of other images.
MISMATCHED = "mismatched"


@dataclass(frozen=True)
class SourceShares:
    """The shares of sources among the captions of a study.

    Attributes:
        shares: of each system, and of `MISMATCHED`; together 1.
        n_captions: the captions in all.
        mismatched_from: the system whose captions are shown with other images; empty without such a share.
    """

    shares: Mapping[str, float]
    n_captions: int
    mismatched_from: str

    @classmethod
    def read(cls, source: YamlFields) -> Self | None:
        """Read `shares`, `limit` and `mismatched_from` of a study's items; None if there are no shares.

        Raises:
            InputError: on a fault of them.
        """
        if "shares" not in source:
            return None
        section = source.section("shares")
        weights = {name: section.number(name, None, 0, 1_000_000) for name in section}
        if not sum(weights.values()):
            raise source.error("shares", "a number for each system is expected, as {mine: 0.5}")
        n_captions = source.optional_count("limit")
        if n_captions is None:
            raise source.error(
                "limit", "this field is required: items.shares are shares of that many captions"
            )
        if (MISMATCHED in weights) != ("mismatched_from" in source):
            raise source.error(
                "mismatched_from", f"it goes with items.shares.{MISMATCHED}; name both, or neither"
            )
        total = sum(weights.values())
        return cls(
            {name: weight / total for name, weight in weights.items()},
            n_captions,
            source.text("mismatched_from", ""),
        )

    def draw(
        self, items: Sequence[StudyItem], source: YamlFields, rng: np.random.Generator
    ) -> list[StudyItem]:
        """Draw captions in these shares, of as many different images as there are.

        Args:
            items: the captions to draw from.
            source: the section `items`, for messages.
            rng: draws.

        Raises:
            InputError: if a system has no captions, or too few.
        """
        by_system: dict[str, list[StudyItem]] = {}
        for item in items:
            by_system.setdefault(item.system or "", []).append(item)
        for system in {*self.shares, *filter(None, [self.mismatched_from])} - {MISMATCHED}:
            if system not in by_system:
                raise source.error(
                    "shares", str(unknown("system", system, filter(None, by_system)))
                )
        captions_per_image: Counter[str] = Counter()
        drawn: list[StudyItem] = []
        for system, n_needed in self._counts().items():
            candidates = by_system.get(system, [])
            if system == MISMATCHED:
                candidates = _mismatch(items, by_system[self.mismatched_from], rng)
            if len(candidates) < n_needed:
                raise InputError(
                    f"{source.location}: items.shares.{system}: {n_needed:,} of items.limit={self.n_captions:,} "
                    f"captions are needed, {len(candidates):,} are there; lower either"
                )
            shuffled = [candidates[k] for k in rng.permutation(len(candidates)).tolist()]
            drawn += _take_spread(shuffled, n_needed, captions_per_image)
        return drawn

    def _counts(self) -> dict[str, int]:
        """Return the captions of each source; those that rounding leaves over go to the largest remainders."""
        exact = {name: share * self.n_captions for name, share in self.shares.items()}
        counts = {name: int(number + 1e-9) for name, number in exact.items()}
        by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
        for name in by_remainder[: self.n_captions - sum(counts.values())]:
            counts[name] += 1
        return counts


def _take_spread(
    candidates: Sequence[StudyItem], n_needed: int, captions_per_image: Counter[str]
) -> list[StudyItem]:
    """Take candidates in order, those first whose images have the fewest captions, and count them."""
    spread_items: list[StudyItem] = []
    waiting, n_captions = list(candidates), 0
    while len(spread_items) < n_needed:
        later: list[StudyItem] = []
        for item in waiting:
            if len(spread_items) < n_needed and captions_per_image[item.image_id] <= n_captions:
                captions_per_image[item.image_id] += 1
                spread_items.append(item)
            else:
                later.append(item)
        waiting, n_captions = later, n_captions + 1
    return spread_items


def _mismatch(
    items: Iterable[StudyItem], captions: Sequence[StudyItem], rng: np.random.Generator
) -> list[StudyItem]:
    """Return an item for each image, with a caption of another image that none of its own is equal to.

    Images without such a caption have none.
    """
    first_items: dict[str, StudyItem] = {}
    own_texts: dict[str, set[str]] = {}
    for item in items:
        first_items.setdefault(item.image_id, item)
        texts = own_texts.setdefault(item.image_id, set())
        texts |= {shown_caption(text) for text in (item.caption, *item.references)}
    order = rng.permutation(len(captions)).tolist()
    mismatched: list[StudyItem] = []
    for image_id, item in first_items.items():
        # Captions are used in a drawn order, each once, until all have been.
        position = next(
            (
                p
                for p, k in enumerate(order)
                if shown_caption(captions[k].caption) not in own_texts[image_id]
            ),
            None,
        )
        if position is None:
            continue
        caption = captions[order.pop(position)].caption
        order = order or rng.permutation(len(captions)).tolist()
        (item_id,) = item_ids([image_id], [caption], [MISMATCHED])
        mismatched.append(
            replace(item, item_id=item_id, caption=caption, system=MISMATCHED, mean_rating=None)
        )
    return mismatched
