"""The items of a study: a dataset of captau's or a table of one's own, perhaps drawn in given shares of sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import pandas as pd
from pydantic import Field

from ....datasets.caption_texts import collapse_blanks
from ....datasets.errors import InputError, unknown
from ....datasets.paths import expand_home
from ....datasets.reading.source_files import find_image
from ....datasets.reading.table import Table, read_table
from ....datasets.reading.yaml_model import (
    LongText,
    Number,
    Text,
    YamlModel,
    number,
    one_of,
    whole_number,
)
from ....datasets.registry import load, names
from ....datasets.schema import item_ids, make_items
from .units import StudyItem


class ItemsFields(YamlModel):
    """The section `items` of a study's file: what is rated."""

    dataset: Annotated[LongText, one_of("dataset", names)] | None = None
    file: LongText | None = None
    images: LongText | None = None
    systems: list[Text] = Field(default_factory=list)
    leave_out_unanimous: Number | None = None
    shares: dict[str, Annotated[float, number(0, 1_000_000)]] | None = None
    mismatched_from: LongText | None = None
    limit: Annotated[int, whole_number(1)] | None = None
    seed: Annotated[int, whole_number(0)] = 0


def caption_items(table: Table, images: Path | None, captions: Sequence[str]) -> pd.DataFrame:
    """Return the items of a table with the column `image`, and perhaps `references` and `system`.

    Args:
        table: the table.
        images: the folder of the images; else they lie beside the table.
        captions: of each row; empty texts where captions are to be written.

    Raises:
        InputError: if a row has no image, or one that lies elsewhere.
    """
    return make_items(
        table.filled("image"),
        captions,
        _references(table),
        systems=_systems(table, "system"),
        images=_image_files(table, images),
    )


def pair_items(table: Table, images: Path | None) -> pd.DataFrame:
    """Return both captions of each row of a table of pairs, with the row's number as `pair`.

    Its columns are `image, caption_a, caption_b`, and perhaps `system_a, system_b, references`.

    Raises:
        InputError: if a caption is compared to itself, or a pair is listed twice.
    """
    captions_a = table.filled("caption_a")
    captions_b = table.filled("caption_b")
    image_ids = table.filled("image")

    rows_by_pair: dict[tuple[str, frozenset[str]], str] = {}
    rows = zip(table.places, image_ids, captions_a, captions_b, strict=True)
    for location, image, a, b in rows:
        if collapse_blanks(a) == collapse_blanks(b):
            raise InputError(
                f"{location}: caption_a and caption_b are equal, '{a}'; leave this pair out"
            )
        earlier = rows_by_pair.setdefault((image, frozenset((a, b))), location)
        if earlier != location:
            raise InputError(
                f"{location}: this pair stands at {earlier} already, in one order or the other; "
                f"leave one of them out"
            )

    systems_a = _systems(table, "system_a") or [None] * len(table)
    systems_b = _systems(table, "system_b") or [None] * len(table)
    references = _references(table)
    image_files = _image_files(table, images)

    items = make_items(
        [*image_ids, *image_ids],
        [*captions_a, *captions_b],
        [*references, *references],
        systems=[*systems_a, *systems_b],
        images=[*image_files, *image_files],
    )
    row_numbers = list(range(len(table)))
    return items.assign(pair=[*row_numbers, *row_numbers])


def _references(table: Table) -> list[tuple[str, ...]]:
    if "references" not in table:
        return [()] * len(table)

    return table.references("references")


def _systems(table: Table, column: str) -> list[str | None] | None:
    if column not in table:
        return None

    return [system or None for system in table.texts(column)]


def _image_files(table: Table, images: Path | None) -> list[str | None]:
    """Return the file of each row's image, in the folder of images or else beside the table."""
    image_ids = table.filled("image")
    base = images or table.path.parent.resolve()

    paths: dict[str, Path | None] = {}
    outside: set[str] = set()
    for image_id in set(image_ids):
        path = _file_inside(base, image_id) or find_image(image_id, "", base)
        paths[image_id] = path
        if path and not path.resolve().is_relative_to(base):
            outside.add(image_id)

    for location, image_id in zip(table.places, image_ids, strict=True):
        if image_id in outside:
            raise InputError(f"{location}: '{image_id}' lies outside of {base}")

    files = [paths[image_id] for image_id in image_ids]
    return [str(path) if path else None for path in files]


def _file_inside(base: Path, name: str) -> Path | None:
    try:
        path = (base / name).resolve()
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


def read_items(
    source: ItemsFields,
    folder: Path,
    data_root: Path | None,
    table_reader: Callable[[Table, Path | None], pd.DataFrame],
) -> tuple[pd.DataFrame, Path | None]:
    """Read the items that a study names.

    Args:
        source: the section `items` of a study's file.
        folder: the folder of that file.
        data_root: the folder of the datasets.
        table_reader: makes the items of a table and the folder of its images.

    Returns:
        The frame of the items, with `min`, `max`, `mean` (on 1 to 5) and `size` of their overall ratings
        if the dataset has any, `is_left_out` of those that the study does not rate, and `pair` of the pairs
        that a table lists; and the folder of the images, if the study names one.

    Raises:
        InputError: on a fault of the section or its table.
    """
    if (source.dataset is None) == (source.file is None):
        raise source.error(None, "either dataset or file is needed")

    images = (folder / expand_home(source.images)).resolve() if source.images else None
    if images and not images.is_dir():
        raise source.error("images", f"{images} is not a folder")

    if source.file is None:
        frame = _dataset_items(source, data_root, images)
    else:
        table = folder / source.file
        if not table.is_file():
            raise source.error("file", f"there is no file {table}")
        frame = table_reader(read_table(table), images)

    if source.leave_out_unanimous is not None and "min" not in frame:
        raise source.error("leave_out_unanimous", "the items come without ratings; leave it out")

    systems = source.systems
    for system in systems:
        if system not in set(frame["system"]):
            raise source.error("systems", str(unknown("system", system, map(str, frame["system"]))))
    if systems:
        frame = frame[frame["system"].isin(systems)]

    return frame.reset_index(drop=True), images


def _dataset_items(
    source: ItemsFields, data_root: Path | None, images: Path | None
) -> pd.DataFrame:
    name = source.dataset or ""
    caption_set = load(name, data_root)
    frame = caption_set.items

    if images:
        paths: dict[str, str | None] = {}
        for image_id in frame["image_id"].unique():
            path = find_image(image_id, name, images)
            paths[image_id] = str(path) if path else None
        frame["image"] = [paths[image_id] for image_id in frame["image_id"]]

    ratings = caption_set.ratings
    scale = caption_set.card.scales.get("overall")
    if scale is not None and len(ratings):
        ratings = ratings[ratings["dimension"] == "overall"]
        statistics = ratings.groupby("item_id")["value"].agg(["min", "max", "mean", "size"])
        frame = frame.join(statistics, on="item_id")

        # The dataset's own rating is compared, before ratings are brought to the levels 1 to 5.
        rating = source.leave_out_unanimous
        if rating is not None:
            frame["is_left_out"] = (frame["min"] == rating) & (frame["max"] == rating)

        for column in ("min", "max", "mean"):
            frame[column] = 1 + 4 * scale.share(frame[column])

    return frame


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
    def read(cls, source: ItemsFields) -> Self | None:
        """Read `shares`, `limit` and `mismatched_from` of a study's items; None if there are no shares.

        Raises:
            InputError: on a fault of them.
        """
        weights = source.shares
        if weights is None:
            return None

        if not sum(weights.values()):
            raise source.error("shares", "a number for each system is expected, as {mine: 0.5}")

        if source.limit is None:
            raise source.error(
                "limit", "this field is required: items.shares are shares of that many captions"
            )

        if (MISMATCHED in weights) != (source.mismatched_from is not None):
            raise source.error(
                "mismatched_from", f"it goes with items.shares.{MISMATCHED}; name both, or neither"
            )

        total = sum(weights.values())
        return cls(
            shares={name: weight / total for name, weight in weights.items()},
            n_captions=source.limit,
            mismatched_from=source.mismatched_from or "",
        )

    def draw(
        self, items: Sequence[StudyItem], source: ItemsFields, rng: np.random.Generator
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

        needed_systems = set(self.shares) - {MISMATCHED}
        if self.mismatched_from:
            needed_systems.add(self.mismatched_from)
        for system in needed_systems:
            if system not in by_system:
                raise source.error(
                    "shares", str(unknown("system", system, filter(None, by_system)))
                )

        # Counted over all systems, so that captions are spread over as many images as there are.
        captions_per_image: Counter[str] = Counter()
        drawn: list[StudyItem] = []
        for system, n_needed in self._counts().items():
            candidates = by_system.get(system, [])
            if system == MISMATCHED:
                candidates = mismatch_captions(items, by_system[self.mismatched_from], rng)
            if len(candidates) < n_needed:
                raise InputError(
                    f"{source.location}: items.shares.{system}: {n_needed:,} of items.limit={self.n_captions:,} "
                    f"captions are needed, {len(candidates):,} are there; lower either"
                )

            shuffled = [candidates[k] for k in rng.permutation(len(candidates)).tolist()]
            drawn += take_spread(shuffled, n_needed, captions_per_image)

        return drawn

    def _counts(self) -> dict[str, int]:
        """Return the captions of each source; those that rounding leaves over go to the largest remainders."""
        exact = {name: share * self.n_captions for name, share in self.shares.items()}
        # A share such as 0.29 times 100 may be 28.999999999999996.
        counts = {name: int(number + 1e-9) for name, number in exact.items()}

        remainders = {name: exact[name] - counts[name] for name in exact}
        by_remainder = sorted(remainders, key=remainders.__getitem__, reverse=True)
        for name in by_remainder[: self.n_captions - sum(counts.values())]:
            counts[name] += 1

        return counts


def take_spread(
    candidates: Sequence[StudyItem], n_needed: int, captions_per_image: Counter[str]
) -> list[StudyItem]:
    """Take candidates in order, those first whose images have the fewest captions, and count them."""
    # A candidate's turn is the number of captions that its image has by then, candidates before it included.
    turns: list[int] = []
    counts = Counter(captions_per_image)
    for item in candidates:
        turns.append(counts[item.image_id])
        counts[item.image_id] += 1

    order = sorted(range(len(candidates)), key=turns.__getitem__)
    spread_items = [candidates[k] for k in order[:n_needed]]
    captions_per_image.update(item.image_id for item in spread_items)

    return spread_items


def mismatch_captions(
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
        texts |= {collapse_blanks(text) for text in (item.caption, *item.references)}

    order = rng.permutation(len(captions)).tolist()
    mismatched: list[StudyItem] = []
    for image_id, item in first_items.items():
        # Captions are used in a drawn order, each once, until all have been.
        position = _first_other(captions, order, own_texts[image_id])
        if position is None:
            continue

        caption = captions[order.pop(position)].caption
        if not order:
            order = rng.permutation(len(captions)).tolist()

        (item_id,) = item_ids([image_id], [caption], [MISMATCHED])
        mismatched.append(
            replace(item, item_id=item_id, caption=caption, system=MISMATCHED, mean_rating=None)
        )

    return mismatched


def _first_other(
    captions: Sequence[StudyItem], order: Sequence[int], own_texts: set[str]
) -> int | None:
    """Return the place in an order of the first caption that an image has not; None if there is none."""
    for position, k in enumerate(order):
        if collapse_blanks(captions[k].caption) not in own_texts:
            return position

    return None
