"""Crisscrossed Captions (CxC): people's 0–5 similarity of a caption and an image, or of two captions (Parekh et al. 2021).

All captions are COCO's own, of the Karpathy test images, and are named by COCO's annotation ids. `cxc_sits` has captions of
the image itself (the dimension `original`) and of other images (`intrasim`). A caption of the first kind is one of its
image's references, so that `leave_out` is the usual rule there. `cxc_sts` has captions of the same image (`cocaption`)
and of images that look alike (`isim`), and both together (`overall`). A text metric scores the first caption with the
second as its only reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import InputError
from ..reading.source_files import bibtex, find, github_file
from ..reading.table import Table, read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, make_items, make_ratings
from .coco_captions import (
    COCO_CAPTIONS,
    TEST_CAPTION_IDS,
    TEST_REFERENCES,
    AnnotatedCaption,
    coco_id,
    read_annotated_captions,
)

_COMMIT = "7d6634be173a6f6a16ab1e61bebc217de8444513"
_PAGE = "google-research-datasets/Crisscrossed-Captions"
SCALE = Scale(0, 5)
#: The rater of the scores, each of which is a mean.
RATER = "mean"
#: What a single value of the scores is, in words.
_SCORE_WORDS = "the mean over its raters (agg_score)"

#: The dimension of each way in which the authors sampled.
SITS_DIMENSIONS = {"c2i_original": "original", "c2i_intrasim": "intrasim"}
STS_DIMENSIONS = {"c2c_cocaption": "cocaption", "c2c_isim": "isim"}
OVERALL = "overall"


def _card(name: str, sha256: str, **attributes: Any) -> Card:
    file_name = name.removeprefix("cxc_")
    judgements = github_file(
        f"cxc/{file_name}_test.csv", _PAGE, _COMMIT, f"data/{file_name}_test.csv", sha256
    )
    return Card(
        name=name,
        revision=_COMMIT,
        licence="free for any purpose, acknowledgement appreciated (CxC); CC BY 4.0 (COCO's captions)",
        citation=bibtex("parekh2021crisscrossed"),
        homepage=f"https://github.com/{_PAGE}",
        sources=(judgements, TEST_REFERENCES, TEST_CAPTION_IDS),
        items_by_dimension=True,
        **attributes,
    )


SITS = _card(
    "cxc_sits",
    "f92fd6d36329fb52fd5429eb5c2211f0ab3ad86bb737323f415375a144697ce6",
    title="Crisscrossed Captions SITS",
    short_title="CxC-SITS",
    scales=dict.fromkeys(("intrasim", "original"), SCALE),
    single_values=dict.fromkeys(("intrasim", "original"), _SCORE_WORDS),
    expected={"images": 5000, "items": 44833, "ratings": 44833},
    headline="intrasim",
)
STS = _card(
    "cxc_sts",
    "33eea25bf41061c513ef4b39282aaf64bdf9b17ff233e343a6d6ae44d73e0272",
    title="Crisscrossed Captions STS",
    short_title="CxC-STS",
    scales=dict.fromkeys((OVERALL, "cocaption", "isim"), SCALE),
    single_values=dict.fromkeys((OVERALL, "cocaption", "isim"), _SCORE_WORDS),
    summaries=dict.fromkeys(("cocaption", "isim"), OVERALL),
    expected={"images": 5000, "items": 44045, "ratings": 88090},
    headline=OVERALL,
)


@dataset(SITS)
def load_cxc_sits(root: Path) -> CaptionSet:
    """Read the captions with the images that they were compared with; an image's references are COCO's five captions."""
    captions = read_annotated_captions(root, SITS)
    references: dict[str, list[str]] = {}
    for image_id, text in captions.values():
        references.setdefault(image_id, []).append(text)
    references_by_image = {image_id: tuple(texts) for image_id, texts in references.items()}

    table = read_table(find(root, SITS, SITS.sources[0]))
    image_ids = [coco_id(name) for name in table.filled("image")]
    for location, image_id in zip(table.places, image_ids, strict=True):
        if image_id not in references_by_image:
            raise InputError(f"{location}: COCO's captions have none of the image {image_id}")

    items = make_items(
        image_ids,
        [caption.text for caption in _captions(table, "caption", captions)],
        [references_by_image[image_id] for image_id in image_ids],
    )
    dimensions = _dimensions(table, SITS_DIMENSIONS)
    scores = table.floats("agg_score", SCALE)
    ratings = _ratings(items["item_id"].tolist(), dimensions, scores)
    return CaptionSet(items, ratings, card=SITS)


@dataset(STS)
def load_cxc_sts(root: Path) -> CaptionSet:
    """Read the pairs of captions: the first is the candidate, and the second its only reference."""
    captions = read_annotated_captions(root, STS)
    table = read_table(find(root, STS, STS.sources[0]))
    candidates = _captions(table, "caption1", captions)
    items = make_items(
        [caption.image_id for caption in candidates],
        [caption.text for caption in candidates],
        [(caption.text,) for caption in _captions(table, "caption2", captions)],
    )

    item_ids = items["item_id"].tolist()
    dimensions = _dimensions(table, STS_DIMENSIONS)
    scores = table.floats("agg_score", SCALE)
    # Each score counts twice: in the dimension of its way of sampling, and in that of all.
    overall_ratings = _ratings(item_ids, [OVERALL] * len(item_ids), scores)
    sampled_ratings = _ratings(item_ids, dimensions, scores)
    ratings = pd.concat([overall_ratings, sampled_ratings], ignore_index=True)
    return CaptionSet(items, ratings, card=STS)


def _captions(
    table: Table, column: str, captions: dict[str, AnnotatedCaption]
) -> list[AnnotatedCaption]:
    """Return the captions whose annotation ids stand in a column, as in `COCO_val2014:sentid:732091`.

    Raises:
        InputError: where COCO has no caption of an id, or none of its captions is here.
    """
    named_captions: list[AnnotatedCaption] = []
    for location, name in zip(table.places, table.filled(column), strict=True):
        annotation_id = name.rpartition(":")[2]
        if annotation_id not in captions:
            raise InputError(
                f"{location}: {column} is '{name}', and no caption has this annotation id; the id of a caption of the "
                f"Karpathy test split is expected, or {COCO_CAPTIONS.path} for all validation images"
            )
        named_captions.append(captions[annotation_id])

    return named_captions


def _dimensions(table: Table, dimension_by_method: dict[str, str]) -> list[str]:
    """Return the dimension of each row, by the way in which it was sampled.

    Raises:
        InputError: on an unknown way.
    """
    dimensions: list[str] = []
    for location, method in zip(table.places, table.filled("sampling_method"), strict=True):
        if method not in dimension_by_method:
            raise InputError(
                f"{location}: sampling_method is '{method}'; {' or '.join(dimension_by_method)} is expected"
            )
        dimensions.append(dimension_by_method[method])

    return dimensions


def _ratings(
    item_ids: Sequence[str], dimensions: Sequence[str], scores: Sequence[float]
) -> pd.DataFrame:
    """Make the frame of one score an item."""
    return make_ratings(item_ids, dimensions, [RATER] * len(item_ids), scores)
