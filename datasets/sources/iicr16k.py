"""The three datasets of Scott et al. 2023: CocoG, FlickrG, and both together, IICR16k.

Ratings of 1–5 from a game. The authors' release was not to be had, so captau reads one interchange
format, into which a release is easily brought: CSV or JSON lines, one row a rating, with the
columns `image` (COCO's or Flickr8k's file name), `caption`, `rater`, `value`, and if it is known
`source`: where the caption comes from, such as `coco`, `pythia`, `glacnet`, `mismatch`. It becomes the
item's system. A column `split` has the authors' own (`train`, `validation` or `test`),
which then takes the place of captau's.

A file without `rater` is an aggregated release: each row's value is the mean of a caption's ratings, between 1 and 5. How far raters
agree cannot be measured of it, nor single ratings correlated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.source_files import bibtex, find
from ..reading.table import JudgementColumns, Table, read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile, split_of
from .coco_captions import COCO_CAPTIONS, all_coco_references, coco_id
from .flickr8k import EXPERT_JSON, flickr8k_references, load_flickr8k_expert

logger = logging.getLogger(__name__)

_PAGE = "https://ai.youdescribe.org"
#: CocoG's images are any of COCO's validation images, so that Karpathy's test images are a part of them.
_REFERENCES = replace(COCO_CAPTIONS, alternative=False, optional=True, adds="references")
#: How a column `split` may call the splits, and what they are called here.
_SPLITS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}
#: The split of a pair that was held out, of an image that a release with splits does not name.
UNKNOWN_SPLIT = "unknown"
#: The scale of ratings, and that of their means in a release without raters.
_SCALE = Scale(1, 5, 1)
_MEAN_SCALE = Scale(1, 5)


def _source(name: str) -> SourceFile:
    return SourceFile(f"{name}/{name}.jsonl", _PAGE, also=(f"{name}/{name}.csv",))


def _card(
    name: str, title: str, sources: tuple[SourceFile, ...], expected: Mapping[str, int]
) -> Card:
    return Card(
        name=name,
        title=title,
        revision="2023",
        licence="not stated by the paper",
        citation=bibtex("scott2023improved"),
        homepage=_PAGE,
        scales={"overall": _SCALE},
        sources=sources,
        expected=expected,
        has_references=False,
    )


COCOG_FILE = _source("cocog")
FLICKRG_FILE = _source("flickrg")
COCOG = _card(
    "cocog", "CocoG", (COCOG_FILE, _REFERENCES), {"images": 8990, "items": 9982, "ratings": 44252}
)
FLICKRG = _card(
    "flickrg",
    "FlickrG",
    (FLICKRG_FILE, EXPERT_JSON),
    {"images": 1000, "items": 5664, "ratings": 23965},
)
IICR16K = _card(
    "iicr16k",
    "IICR16k",
    (COCOG_FILE, FLICKRG_FILE, EXPERT_JSON, _REFERENCES),
    {"images": 9990, "items": 15646, "ratings": 68217},
)


class IicrRating(NamedTuple):
    """One rating; where `rater` is None, the mean of all ratings of a caption."""

    location: str
    image_id: str
    caption: str
    rater: str | None
    value: float
    references: tuple[str, ...]
    system: str | None
    split: str | None


@dataset(COCOG)
def load_cocog(root: Path) -> CaptionSet:
    """CocoG: 72 students' ratings of four kinds of captions of COCO images."""
    return _caption_set(_cocog(root, COCOG), COCOG)


@dataset(FLICKRG)
def load_flickrg(root: Path) -> CaptionSet:
    """FlickrG: 41 students' ratings of Flickr8k-Expert's pairs.

    The pairs that all three experts rated 1 were not played; they are joined in with the experts' ratings. The pairs
    whose caption is one of the image's own references are left out (Scott et al. 2023, section 3.3).
    """
    return _caption_set(_flickrg(root, FLICKRG), FLICKRG)


@dataset(IICR16K)
def load_iicr16k(root: Path) -> CaptionSet:
    """IICR16k: CocoG and FlickrG together."""
    return _caption_set([*_cocog(root, IICR16K), *_flickrg(root, IICR16K)], IICR16K)


def read_game_raters(root: Path) -> list[str | None]:
    """Read who gave each rating of FlickrG's file; None in a release of means.

    Raises:
        InputError: where the file is missing or malformed.
    """
    return [row.rater for row in _read(find(root, FLICKRG, FLICKRG_FILE))]


def _caption_set(rows: list[IicrRating], card: Card) -> CaptionSet:
    """Make a set of ratings; its card promises references where every item has some."""
    references = [row.references for row in rows]
    complete_card = replace(card, has_references=all(references))

    if any(row.rater is None for row in rows):
        logger.warning(
            "dataset %s: without a column rater its values are means of ratings; the agreement of raters (captau agree) "
            "and correlations with single ratings cannot be measured",
            card.name,
        )
        expected = {name: card.expected[name] for name in ("images", "items")}
        complete_card = replace(
            complete_card,
            scales={"overall": _MEAN_SCALE},
            expected=expected,
            single_values={"overall": "the mean of its ratings"},
        )

    return JudgementColumns(
        places=[row.location for row in rows],
        image_ids=[row.image_id for row in rows],
        captions=[row.caption for row in rows],
        values=[row.value for row in rows],
        raters=[row.rater or "mean" for row in rows],
        references=references,
        systems=[row.system for row in rows],
        splits=_find_splits(rows, card),
    ).caption_set(complete_card)


def _find_splits(rows: list[IicrRating], card: Card) -> list[str]:
    """Return the split of each row: the release's where all rows have one, else captau's."""
    n_without = sum(row.split is None for row in rows)
    if 0 < n_without < len(rows):
        logger.warning(
            "dataset %s: %s of its %s ratings have no split of the authors'; captau's own splits are used for all",
            card.name,
            f"{n_without:,}",
            f"{len(rows):,}",
        )

    if n_without:
        return [split_of(row.image_id) for row in rows]

    return [str(row.split) for row in rows]


def _cocog(root: Path, card: Card) -> list[IicrRating]:
    """Read CocoG's ratings, with COCO's captions as references where these are at hand.

    Some of the captions are COCO's own, so that they are among their references; `protocol.own_references` decides.
    """
    rows = _read(find(root, card, COCOG_FILE))
    captions = all_coco_references(root, card)

    image_ids = {coco_id(row.image_id) for row in rows}
    absent = sorted(image_ids - captions.keys())
    if absent:
        logger.warning(
            "dataset %s: %s of the %s images of CocoG have no references, such as %s; %s has them (%s)",
            card.name,
            f"{len(absent):,}",
            f"{len(image_ids):,}",
            absent[0],
            _REFERENCES.path,
            _REFERENCES.url,
        )

    joined_rows: list[IicrRating] = []
    for row in rows:
        image_id = coco_id(row.image_id)
        references = captions.get(image_id, ())
        joined_rows.append(row._replace(image_id=image_id, references=references))

    return joined_rows


def _flickrg(root: Path, card: Card) -> list[IicrRating]:
    """Read FlickrG's ratings: the game's, and the experts' of the pairs that all three rated 1.

    The pairs whose caption is one of the image's own references are out (section 3.3).
    """
    game = _read(find(root, card, FLICKRG_FILE))
    references = flickr8k_references(root, card)

    rows: list[IicrRating] = []
    for row in game:
        # With its ending or without, and with folders before it, a name is of the same photo.
        image_id = f"{PurePosixPath(row.image_id).name.removesuffix('.jpg')}.jpg"
        if image_id not in references:
            raise InputError(f"{row.location}: image '{row.image_id}' is not one of Flickr8k's")

        # A caption that is one of its image's own references is out, as of Flickr8k-Expert.
        if row.caption not in references[image_id]:
            rows.append(row._replace(image_id=image_id, references=references[image_id]))

    rated = {(row.image_id, row.caption) for row in rows}
    experts = load_flickr8k_expert(root)

    raters: list[str | None] = ["expert_1", "expert_2", "expert_3"]
    # An aggregated release has means alone; the mean of three ratings of 1 stands beside them.
    if not all(row.rater for row in game):
        raters = [None]

    # A pair that was held out belongs to the split of its image; of an image that no row names it is not known.
    splits = {row.image_id: row.split for row in rows}
    split_elsewhere = UNKNOWN_SPLIT if any(splits.values()) else None

    best = experts.ratings.groupby("item_id", sort=False)["value"].max()
    for item in experts.items.to_dict("records"):
        key = item["image_id"], item["caption"]
        if best[item["item_id"]] != 1.0 or key in rated:
            continue

        for rater in raters:
            rating = IicrRating(
                location=f"Flickr8k-Expert, {item['item_id']}",
                image_id=item["image_id"],
                caption=item["caption"],
                rater=rater,
                value=1.0,
                references=item["references"],
                system=None,
                split=splits.get(item["image_id"], split_elsewhere),
            )
            rows.append(rating)

    return rows


def _read(path: Path) -> list[IicrRating]:
    table = read_table(path)
    hint = "; image, caption, rater and value are needed (an aggregated release has no rater)"
    has_raters = "rater" in table
    image_ids = table.filled("image", hint)
    captions = table.texts("caption", hint)
    raters = table.filled("rater", hint) if has_raters else [None] * len(table)
    values = table.floats("value", _SCALE if has_raters else _MEAN_SCALE, hint)
    systems = table.texts("source") if "source" in table else [None] * len(table)
    splits = _read_splits(table)

    rows: list[IicrRating] = []
    for k, location in enumerate(table.places):
        rating = IicrRating(
            location=location,
            image_id=image_ids[k],
            caption=collapse_blanks(captions[k]),
            rater=raters[k],
            value=values[k],
            references=(),
            system=systems[k] or None,
            split=splits[k],
        )
        rows.append(rating)

    return rows


def _read_splits(table: Table) -> list[str | None]:
    """Read the authors' split of each row; None where the file has no such column.

    Raises:
        InputError: where a split is none of `_SPLITS`.
    """
    if "split" not in table:
        return [None] * len(table)

    splits: list[str | None] = []
    for location, name in zip(table.places, table.filled("split"), strict=True):
        split = _SPLITS.get(name.strip().lower())
        if split is None:
            raise InputError(
                f"{location}: split is '{name}'; write one of train, validation and test, or leave the column out"
            )
        splits.append(split)

    return splits
