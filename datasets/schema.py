"""`CaptionSet`: captions, references and human judgements, validated when made, immutable after."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from html import escape
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from .caption_texts import OwnReferences, find_own_references, replace_surrogates
from .errors import InputError
from .preferences import (
    PEOPLE,
    PREFERENCE_COLUMNS,
    WORD_COLUMNS,
    check_preferences,
    check_words,
    make_preferences,
)

#: Split and its upper bound on the unit interval, in order.
SPLIT_BOUNDS = (("train", 0.64), ("validation", 0.80), ("test", 1.0))
_SPLIT_SEED = "captau split 1"  # with another number, results would not be comparable any more


@cache
def split_of(image_id: str) -> str:
    """Return the split of an image: a hash of its id, read as a number in [0, 1), against `SPLIT_BOUNDS`.

    These are the 64 %, 16 % and 20 % of Scott et al. 2023, section 4.2. The split follows from the id alone: not from
    row order, platform, library version or dataset. So splits are image-disjoint, and an image that two datasets share
    (COCO in CapEval1k, Composite and THumB; Flickr8k in Expert, CrowdFlower and Composite) falls on the same side in
    both: a rater trained on one can be tested on the other.
    """
    digest = hashlib.sha256(f"{_SPLIT_SEED}\0{image_id}".encode("utf-8", "surrogatepass")).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    for name, bound in SPLIT_BOUNDS:
        if position < bound:
            return name

    raise AssertionError  # a position is below 1


ITEM_COLUMNS = ("item_id", "image_id", "image", "caption", "references", "system", "split")
#: What items may have besides: the text around the image, and the unit that intervals resample (else the image).
OPTIONAL_ITEM_COLUMNS = ("context", "cluster")
RATING_COLUMNS = ("item_id", "dimension", "rater", "value")


def cluster_of(items: pd.DataFrame) -> pd.Series:
    """Return what intervals resample of each item: its cluster, or its image where the dataset has no clusters."""
    return items["cluster" if "cluster" in items.columns else "image_id"]


@dataclass(frozen=True)
class Scale:
    """A rating scale. `step` is None where any value between `low` and `high` is legal."""

    low: float
    high: float
    step: float | None = None

    def fits(self, values: np.ndarray) -> np.ndarray:
        """Tell which of `values` (shape (n,)) lie on the scale; NaN and infinity never do."""
        is_on_scale = (
            np.isfinite(values) & (values >= self.low - 1e-9) & (values <= self.high + 1e-9)
        )
        if self.step is not None:
            steps = (values - self.low) / self.step
            # Rounding infinity warns; such a value is off the scale already.
            finite_steps = np.where(np.isfinite(steps), steps, 0.0)
            is_on_scale &= np.abs(steps - np.round(finite_steps)) < 1e-6

        return is_on_scale

    def share(self, values: Any) -> Any:
        """Map numbers (one, or an array or column of them) to 0 at the low end and 1 at the high one."""
        return (values - self.low) / (self.high - self.low)

    def __str__(self) -> str:
        step = "" if self.step is None else f" in steps of {self.step:g}"
        return f"{self.low:g} to {self.high:g}{step}"


@lru_cache(maxsize=4096)
def on_scale(scale: Scale, value: float) -> bool:
    """Tell whether one value lies on a scale; `Scale.fits` is for many."""
    return bool(scale.fits(np.array([value], dtype=float))[0])


@dataclass(frozen=True)
class SourceFile:
    """One file a dataset is read from.

    Attributes:
        path: relative to `data.root`.
        url: the page or archive a person gets it from.
        sha256: of the revision the card names; empty where it is not known.
        alternative: it stands in for others, so that its absence is no fault.
        downloads: direct addresses, tried in order; empty where it has to be fetched by hand. The last part of an
            address on Hugging Face's hub may be a pattern, which stands for all files of such names.
        git_blob: the git blob id, where that and not the SHA-256 is known.
        member: where the downloads are archives, the file's path inside them.
        also: where else it may lie, as patterns relative to `data.root`: other formats, or parts.
        parts: the files that together stand for it, and are downloaded in its stead.
        split: the split that it alone holds; empty where it holds several.
        optional: it adds to others, such as addresses of images, so that its absence is no fault.
        adds: what the dataset is incomplete without, of an optional one: `references`.
        revision: that of this file, such as a commit; empty where the source names none.
    """

    path: str
    url: str
    sha256: str = ""
    alternative: bool = False
    downloads: tuple[str, ...] = ()
    git_blob: str = ""
    member: str = ""
    also: tuple[str, ...] = ()
    split: str = ""
    optional: bool = False
    adds: str = ""
    parts: tuple[SourceFile, ...] = ()
    revision: str = ""

    @property
    def is_downloaded(self) -> bool:
        """Tell whether it can be downloaded; otherwise it has to be got by hand."""
        return bool(self.downloads or self.parts)


@dataclass(frozen=True)
class Card:
    """The description of a dataset, before it is read; a `partial` one can be read without some files.

    Raters are anonymous where their names only number an item's ratings. `summaries` has the dimensions
    that are made of the ratings of another dimension, by name, with that dimension; `totals` names those
    that are sums of several others. `faults` names those on which more is worse, such as whether a caption tells
    what the image does not show. `labels` has the names that tables print for dimensions, where they differ.
    `headline` is the dimension that papers quote where there are several; empty for the first.
    `short_title` stands in the heads of narrow tables; empty for the title. `remarks` are sentences about what was unusual
    in the files and how the reader handled it. `conditions` says how judgements were collected. `single_values` says, by
    dimension, what a caption's value is where the release has one alone, such as the mean over its raters.
    `usual_protocol` has the choices that are usual for what a file of one's own holds, such as the majority of votes.
    `items_by_dimension` says that each dimension was judged of captions of its own, so that a protocol's items are those
    of its dimensions alone. `has_foils` says that preferences are between a right caption and the same with one fault,
    whose kind is the dimension. `judgements` names the version of the judgements as papers call it, where they print numbers
    on several.
    """

    name: str
    title: str
    revision: str
    licence: str
    citation: str
    homepage: str
    scales: Mapping[str, Scale] = field(default_factory=dict[str, Scale])
    sources: tuple[SourceFile, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict[str, int])
    has_references: bool = True
    synthetic: bool = False
    needs_images: bool = False
    partial: bool = False
    anonymous_raters: bool = False
    summaries: Mapping[str, str] = field(default_factory=dict[str, str])
    totals: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    headline: str = ""
    short_title: str = ""
    remarks: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict[str, str])
    single_values: Mapping[str, str] = field(default_factory=dict[str, str])
    usual_protocol: Mapping[str, Any] = field(default_factory=dict[str, Any])
    items_by_dimension: bool = False
    has_foils: bool = False
    judgements: str = ""

    def label(self, dimension: str) -> str:
        """Return a dimension's name in tables."""
        return self.labels.get(dimension, dimension)

    def _repr_html_(self) -> str:
        """Return the card as a notebook shows it."""
        return _html_rows(self.details())

    def details(self) -> dict[str, str]:
        """Return what a reader wants to know first, as texts by heading."""
        scales = "; ".join(f"{self.label(name)} {scale}" for name, scale in self.scales.items())
        return {
            "dataset": f"{self.title} ({self.name})",
            "rated": scales or "preferences alone",
            "licence": self.licence,
            "revision": self.revision,
            "homepage": self.homepage,
            "citation": self.citation,
        }


def item_ids(
    image_ids: Sequence[str], captions: Sequence[str], systems: Sequence[Any]
) -> list[str]:
    """Make item ids that depend on content alone, so they are equal over runs, readers and file orders.

    The id is the image id and eight hexadecimal digits of a hash of caption and system; a second
    item with the same three gets `-2` after it, and so on.

    Args:
        image_ids, captions, systems: of equal length; a system may be None.
    """
    counts: dict[str, int] = {}
    ids: list[str] = []
    for image_id, caption, system in zip(image_ids, captions, systems, strict=True):
        text = caption if system is None else f"{caption}\0{system}"
        digest = hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        item_id = f"{image_id}:{digest}"
        counts[item_id] = counts.get(item_id, 0) + 1
        ids.append(item_id if counts[item_id] == 1 else f"{item_id}-{counts[item_id]}")

    return ids


def make_items(
    image_ids: Sequence[str],
    captions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    systems: Sequence[str | None] | None = None,
    images: Sequence[str | None] | None = None,
    splits: Sequence[str] | None = None,
    optional: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Make the frame of a `CaptionSet`'s items, with their ids.

    Args:
        image_ids, captions, references, systems, images: of equal length, one entry a candidate.
        splits: the authors' own split of each; None gives the shared one (`split_of`).
        optional: columns of `OPTIONAL_ITEM_COLUMNS`.
    """
    # No file could hold half of a surrogate pair, and results are written to files. NumPy's texts become Python's, as which
    # the digest has them.
    image_ids = [str(replace_surrogates(image_id)) for image_id in image_ids]
    captions = [str(replace_surrogates(caption)) for caption in captions]
    # The captions of an image share their references, which are looked through once. Datasets of one's own may hold lists.
    texts_of_items = [tuple(texts) for texts in references]
    replaced = {texts: tuple(map(replace_surrogates, texts)) for texts in set(texts_of_items)}
    references = [replaced[texts] for texts in texts_of_items]
    system_names: list[str | None] = [None] * len(captions)
    if systems is not None:
        system_names = [s if s is None else replace_surrogates(s) for s in systems]

    if splits:
        split_names = [replace_surrogates(split) for split in splits]
    else:
        split_names = [split_of(image_id) for image_id in image_ids]

    columns: dict[str, Any] = {
        "item_id": item_ids(image_ids, captions, system_names),
        "image_id": image_ids,
        "image": pd.Series(list(images or [None] * len(captions)), dtype=object),
        "caption": captions,
        "references": pd.Series(references, dtype=object),
        "system": pd.Series(system_names, dtype=object),
        "split": split_names,
    }
    for name, texts in (optional or {}).items():
        columns[name] = [str(replace_surrogates(text)) for text in texts]

    # Without `dtype`, pandas would store the texts as Arrow's, and `CaptionSet` would turn them back into Python's.
    return pd.DataFrame(columns, dtype=object)


def make_ratings(
    item_ids: Sequence[str],
    dimensions: Sequence[str],
    raters: Sequence[str],
    values: Sequence[float],
) -> pd.DataFrame:
    """Make the frame of a `CaptionSet`'s ratings; its texts are stored as Python's, as `make_items` stores them.

    Args:
        item_ids, dimensions, raters, values: of equal length, one entry a rating.
    """
    columns = {
        "item_id": pd.Series(item_ids, dtype=object),
        "dimension": pd.Series(dimensions, dtype=object),
        "rater": pd.Series(raters, dtype=object),
        "value": pd.Series(values),
    }
    return pd.DataFrame(columns)


def print_rows(frame: pd.DataFrame) -> str:
    """Return the rows of items or judgements as Python prints tuples, without anything between them, for a digest.

    Args:
        frame: of two columns or more.
    """
    columns: list[list[str]] = []
    for name in frame.columns:
        cells = frame[name].tolist()
        if name == "references":
            # The captions of an image share their references, which are printed once.
            printed = {texts: repr(texts) for texts in set(cells)}
            columns.append([printed[texts] for texts in cells])
        else:
            columns.append(list(map(repr, cells)))

    return "".join([f"({', '.join(row)})" for row in zip(*columns, strict=True)])


class CaptionSet:
    """Candidates with their references and people's judgements.

    Attributes:
        items: one row per candidate, columns `ITEM_COLUMNS` and those of `OPTIONAL_ITEM_COLUMNS` that there are;
            `references` holds tuples of str, `image` a path or None.
        ratings: long form, columns `RATING_COLUMNS`.
        preferences: one row per judgement of a pair, columns `PREFERENCE_COLUMNS` and `winner`. A positive
            `strength` prefers a, a negative one b, and 0 is a tie; `winner` is derived from it.
        words: the words of captions that people marked, columns `WORD_COLUMNS`.
        card: the dataset's `Card`.

    Raises:
        InputError: on a missing column, a duplicate item, a candidate without references (if the card says that
            there are some), a rating that is NaN, outside its scale or of no item, a second rating by the same
            rater, an invalid preference (`preferences.check_preferences`), or marked words that the caption does not
            have (`check_words`).
    """

    def __init__(
        self,
        items: pd.DataFrame,
        ratings: pd.DataFrame | None = None,
        preferences: pd.DataFrame | None = None,
        *,
        card: Card,
        words: pd.DataFrame | None = None,
    ) -> None:
        self._extra = tuple(c for c in OPTIONAL_ITEM_COLUMNS if c in items.columns)
        self._items = _with_columns(items, (*ITEM_COLUMNS, *self._extra), "items", card)
        self._ratings = _with_columns(ratings, RATING_COLUMNS, "ratings", card)
        self._preferences = _with_columns(preferences, PREFERENCE_COLUMNS, "preferences", card)
        self._words = _with_columns(words, WORD_COLUMNS, "words", card)
        self._card = card

        self._validate_items()
        self._validate_ratings()

        known_ids = set(self._items["item_id"])
        where = f"dataset {self.name}"
        self._preferences = check_preferences(self._preferences, known_ids, where)
        if not self._words.empty:
            captions = dict(zip(self._items["item_id"], self._items["caption"], strict=True))
            check_words(self._words, captions, where)

    # Copy-on-write (pandas 3) makes these copies cheap and keeps what is inside unchanged.
    @property
    def items(self) -> pd.DataFrame:
        return self._items.copy(deep=False)

    def with_images(self, files: Sequence[str | None]) -> CaptionSet:
        """Return the set with the path of each item's image; None where there is none."""
        changed = copy.copy(self)
        changed._items = self._items.assign(image=pd.Series(list(files), dtype=object))
        return changed

    @property
    def ratings(self) -> pd.DataFrame:
        return self._ratings.copy(deep=False)

    @property
    def preferences(self) -> pd.DataFrame:
        return self._preferences.copy(deep=False)

    @property
    def words(self) -> pd.DataFrame:
        return self._words.copy(deep=False)

    @property
    def card(self) -> Card:
        return self._card

    @property
    def name(self) -> str:
        return self._card.name

    @cached_property
    def missing_splits(self) -> tuple[str, ...]:
        """The splits of which the card names a file, and of which there is no item."""
        splits = set(self._items["split"])
        missing: dict[str, None] = {}
        for source in self._card.sources:
            if source.split and source.split not in splits:
                missing[source.split] = None
        return tuple(missing)

    @cached_property
    def has_own_splits(self) -> bool:
        """True where its splits are its authors', and not those that captau gives every image (`split_of`)."""
        for image_id, split in zip(self._items["image_id"], self._items["split"], strict=True):
            if split != split_of(image_id):
                return True
        return False

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The rated dimensions, in the card's order."""
        rated = set(self._ratings["dimension"])
        return tuple(d for d in self._card.scales if d in rated)

    @cached_property
    def own_references(self) -> OwnReferences:
        """Marks of the items whose caption is one of their references."""
        return find_own_references(self._items)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over items, ratings, preferences and words: two equal sets have equal digests."""
        h = hashlib.sha256()
        # Paths of images differ from machine to machine.
        for frame in (self._items.drop(columns="image"), self._ratings, self._words):
            h.update(print_rows(frame).encode("utf-8", "surrogatepass"))

        for *pair, rater, strength, winner in self._preferences.itertuples(index=False, name=None):
            # As captau 0.1 wrote preferences without raters and grades, so that its digests stay.
            is_plain = rater == PEOPLE and abs(strength) in (0.0, 1.0)
            row = (*pair, winner) if is_plain else (*pair, winner, rater, strength)
            h.update(repr(row).encode("utf-8", "surrogatepass"))

        return h.hexdigest()

    def __repr__(self) -> str:
        return (
            f"CaptionSet({self.name!r}, images={self._items['image_id'].nunique()}, "
            f"items={len(self._items)}, ratings={len(self._ratings)}, "
            f"preferences={len(self._preferences)})"
        )

    def _repr_html_(self) -> str:
        """Return the card, the counts and the first items as a notebook shows them."""
        counts = {
            "images": f"{self._items['image_id'].nunique():,}",
            "items": f"{len(self._items):,}",
            "ratings": f"{len(self._ratings):,}",
            "preferences": f"{len(self._preferences):,}",
        }

        items = self._items[["item_id", "caption", "system"]].head(3)
        items.insert(2, "references", [len(texts) for texts in self._items["references"].head(3)])
        return _html_rows(self.card.details() | counts) + items.to_html()

    def _fail(self, message: str) -> InputError:
        return InputError(f"dataset {self.name}: {message}")

    def _validate_items(self) -> None:
        items = self._items
        if items.empty:
            raise self._fail("it has no items; its files are empty or of another format")

        for column in ("item_id", "image_id", "caption", *self._extra):
            for row_number, value in enumerate(items[column].tolist()):
                if not isinstance(value, str):
                    raise self._fail(f"row {row_number}: {column} is {value!r}, not a text")

        twice = items["item_id"][items["item_id"].duplicated()]
        if len(twice):
            raise self._fail(
                f"duplicate item '{twice.iloc[0]}' ({len(twice)} in all); keep one each"
            )

        for item_id, references in zip(items["item_id"], items["references"], strict=True):
            if not isinstance(references, tuple) or not all(isinstance(r, str) for r in references):
                raise self._fail(f"item '{item_id}': references are {references!r}, not texts")
            if not references and self._card.has_references:
                raise self._fail(
                    f"item '{item_id}' has no references; add at least one or drop the item"
                )

    def _validate_ratings(self) -> None:
        ratings = self._ratings
        if ratings.empty:
            return

        item_ids = set(self._items["item_id"].tolist())
        strangers = [i for i in ratings["item_id"].unique().tolist() if i not in item_ids]
        if strangers:
            raise self._fail(f"a rating is about '{strangers[0]}', which is not an item")
        # What is not a number becomes NaN, which no scale holds. Floats throughout: 1 and 1.0 are equal.
        try:
            numbers = pd.to_numeric(ratings["value"], errors="coerce").astype(float)
        except OverflowError as error:
            raise self._fail("a rating is too large for any scale") from error

        self._ratings = ratings.assign(value=numbers)
        # A rating without a dimension is found here too, as NaN has no scale.
        for dimension, group in ratings.groupby("dimension", sort=False, dropna=False):
            scale = self._card.scales.get(str(dimension))
            if scale is None:
                raise self._fail(f"dimension '{dimension}' has no scale on the dataset's card")

            values = numbers.loc[group.index].to_numpy()
            bad = np.flatnonzero(~scale.fits(values))
            if bad.size:
                row = group.iloc[int(bad[0])]
                raise self._fail(
                    f"item '{row['item_id']}', rater '{row['rater']}': {dimension} rating "
                    f"{format_rating(row['value'])} is not on the scale {scale}"
                )

        twice = ratings.duplicated(["item_id", "dimension", "rater"])
        if twice.any():
            row = ratings[twice].iloc[0]
            raise self._fail(
                f"rater '{row['rater']}' rated item '{row['item_id']}' twice on {row['dimension']}"
            )


class CaptionSetBuilder:
    """The items, ratings and preferences of a dataset, added one by one; an item is called by its number from 0.

    Args:
        joins_equal: whether equal items are one. A table of one rating a row needs it: without it each of its rows is an
            item of its own with a single rating, of which no agreement can be measured. A table of one item a row does
            not, where equal rows are two items.
    """

    def __init__(self, *, joins_equal: bool) -> None:
        self._joins_equal = joins_equal
        self._items: list[tuple[str, str, tuple[str, ...], str | None]] = []
        self._numbers: dict[tuple[str, str, tuple[str, ...], str | None], int] = {}
        self._ratings: list[tuple[int, str, str, float]] = []
        self._preferences: list[tuple[str, int, int, str, str | float]] = []
        self._preference_raters: list[str] = []

    def add_item(
        self,
        image_id: str,
        caption: str,
        references: tuple[str, ...] = (),
        system: str | None = None,
    ) -> int:
        """Add an item, if it is new or equal ones are not joined, and return its number."""
        item = (image_id, caption, references, system)
        if not self._joins_equal or item not in self._numbers:
            self._numbers[item] = len(self._items)
            self._items.append(item)

        return self._numbers[item]

    def rate(self, item: int, dimension: str, rater: str, value: float) -> None:
        """Add a rating of an item."""
        self._ratings.append((item, dimension, rater, value))

    def prefer(
        self,
        pair_id: str,
        item_a: int,
        item_b: int,
        dimension: str,
        winner: str | float,
        rater: str = PEOPLE,
    ) -> None:
        """Add a rater's preference between two items: a winner (`a`, `b`, `tie`), or a strength."""
        self._preferences.append((pair_id, item_a, item_b, dimension, winner))
        self._preference_raters.append(rater)

    def build(
        self,
        card: Card,
        *,
        images: Sequence[str | None] | None = None,
        words: Iterable[tuple[int, int, str, str, int]] = (),
        optional: Mapping[str, Sequence[str]] | None = None,
    ) -> CaptionSet:
        """Make the `CaptionSet`.

        Args:
            card: its card.
            images: the path of each item's image.
            words: marked words, as `WORD_COLUMNS` has them, with the numbers of their items.
            optional: columns of `OPTIONAL_ITEM_COLUMNS`, an entry an item.
        """
        items = make_items(
            [image_id for image_id, _, _, _ in self._items],
            [caption for _, caption, _, _ in self._items],
            [references for _, _, references, _ in self._items],
            systems=[system for _, _, _, system in self._items],
            images=images,
            optional=optional,
        )
        ids = items["item_id"].tolist()

        ratings = None
        if self._ratings:
            numbers, dimensions, raters, values = zip(*self._ratings, strict=True)
            rated_ids = [ids[number] for number in numbers]
            ratings = make_ratings(rated_ids, dimensions, raters, values)

        preferences = None
        if self._preferences:
            rows: list[tuple[Any, ...]] = []
            for pair_id, a, b, dimension, winner in self._preferences:
                rows.append((pair_id, ids[a], ids[b], dimension, winner))
            raters = pd.Series(self._preference_raters, dtype=object)
            preferences = make_preferences(rows).assign(rater=raters)

        marked_words = None
        word_rows = [(ids[item], *rest) for item, *rest in words]
        if word_rows:
            marked_words = pd.DataFrame(word_rows, columns=pd.Index(WORD_COLUMNS))

        return CaptionSet(items, ratings, preferences, card=card, words=marked_words)


def _with_columns(
    frame: pd.DataFrame | None, columns: tuple[str, ...], frame_name: str, card: Card
) -> pd.DataFrame:
    if frame is None:
        return pd.DataFrame({c: pd.Series(dtype=object) for c in columns})

    missing = [name for name in columns if name not in frame.columns]
    if missing:
        remedy = ""
        if frame_name == "preferences" and "category" in frame.columns:
            remedy = "; datasets.preferences.upgrade_preferences makes them of captau 0.1's `category` and `winner`"
        raise InputError(
            f"dataset {card.name}: {frame_name} lack the column {', '.join(missing)}{remedy}"
        )

    selected = frame.loc[:, list(columns)].reset_index(drop=True)
    if not selected.columns.is_unique:
        name = selected.columns[selected.columns.duplicated()][0]
        raise InputError(
            f"dataset {card.name}: {frame_name} have the column {name} twice; keep one of them"
        )

    # Every caption is passed over many times, and pandas takes ten times as long over texts that Arrow holds.
    texts = selected.select_dtypes("string").columns
    return selected.astype(dict.fromkeys(texts, object))


def _html_rows(rows: Mapping[str, str]) -> str:
    cells = ""
    for name, text in rows.items():
        if text:
            cells += f'<tr><th style="text-align: left">{name}</th>'
            cells += f'<td style="text-align: left">{escape(text)}</td></tr>'

    return f"<table>{cells}</table>"


def format_rating(value: Any) -> str:
    """Format a rating for a message."""
    if not isinstance(value, Real):
        return repr(value)

    return f"{value:g}".replace("nan", "NaN")
