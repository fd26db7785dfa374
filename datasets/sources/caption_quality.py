"""Caption-Quality 1.0: crowd workers' yes and no to "Is this a good caption for the image?".

Levinboim et al. 2021. Captions of Open Images by twelve models (`MODEL_0` to `MODEL_11` in the development
fold), without references. Each pair was shown to ten people, who could skip it. Pairs with more than two
skips are dropped, so 8 answers or more remain (11 at most in the development fold), and
p̂ = round(8 × their mean) / 8 (section 3.2).

`overall` is p̂. Where a fold says how many answered and how many said yes, these are ratings on `good`
(1 yes, 0 no). Each fold can be read without the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..reading.source_files import bibtex, find, locate
from ..reading.table import Table, read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile, make_items

_PAGE = "https://github.com/google-research-datasets/Image-Caption-Quality-Dataset"
#: What the page links, at the address that asks for no account; it was not tried.
_ZIP = (
    "https://storage.googleapis.com/gcc-data/OID-rated-image-caption/v1/"
    "oid.rated-image-captions.v1.zip"
)
#: A pair of fewer answers than this, or of more skips than that, is dropped (section 3.2).
FEWEST = 8
MOST_SKIPS = 2
_FOLDS = {"train": "train", "dev": "validation", "test": "test"}
_HASHES = {"dev.tsv": "c674649390b0541b67e721264943daf7f7218afe30509964e142474a4b0e1d1d"}
_NAME = "OID-rated-image-captions.v1."
_VERSION = "v1.0"

#: How many answered and how many of them said yes; a fold without these has p̂ alone.
TOTAL = "COUNT_RATINGS"
GOOD = "COUNT_GOOD_RATINGS"
P_HAT = "ROUNDED_AVG_USER_RATING"


def _file(name: str, **attributes: Any) -> SourceFile:
    return SourceFile(
        f"caption_quality/{_NAME}{name}",
        _PAGE,
        _HASHES.get(name, ""),
        downloads=(_ZIP,),
        member=f"{_NAME}{name}",
        revision=_VERSION,
        **attributes,
    )


CARD = Card(
    name="caption_quality",
    title="Caption-Quality",
    short_title="Capt.-Qual.",
    revision=_VERSION,
    licence="free for any purpose; Google asks to be named as the source",
    citation=bibtex("levinboim2021quality"),
    homepage=_PAGE,
    scales={"overall": Scale(0, 1, 1 / 8), "good": Scale(0, 1, 1)},
    sources=(
        *(_file(f"{fold}.tsv", split=split) for fold, split in _FOLDS.items()),
        *(
            _file(f"{f}.meta", optional=True, also=(f"caption_quality/{_NAME}{f}.tsv.meta",))
            for f in _FOLDS
        ),
    ),
    expected={"images": 12918, "items": 65338},
    has_references=False,
    needs_images=True,
    partial=True,
    anonymous_raters=True,
    summaries={"overall": "good"},
    single_values={"overall": "the share of its raters who said yes, rounded to eighths"},
)

Floats = NDArray[np.float64]


@dataset(CARD)
def load_caption_quality(root: Path) -> CaptionSet:
    """Read Caption-Quality, its folds as splits, whichever are there.

    Raises:
        InputError: where none is there, or one is malformed.
    """
    paths_by_split = _existing(root, CARD.sources[: len(_FOLDS)])
    tables = [read_table(path) for path in paths_by_split.values()]
    judged_tables = [_judged(table) for table in tables]
    row_indices: list[NDArray[np.intp]] = []
    n_kept: list[int] = []
    for _, _, is_kept in judged_tables:
        rows = np.flatnonzero(is_kept)
        row_indices.append(rows)
        n_kept.append(len(rows))
    has_models = all("MODEL" in table for table in tables)

    pairs = sum(map(len, tables))
    if pairs and not sum(n_kept):
        raise InputError(
            f"{root / CARD.name}: none of {pairs} pairs has {FEWEST} answers or more; the others are dropped as in "
            "the paper"
        )

    def joined(name: str) -> list[str]:
        texts: list[str] = []
        for table, rows in zip(tables, row_indices, strict=True):
            column = table.filled(name)
            texts += [column[row] for row in rows]

        return texts

    items = make_items(
        joined("IMAGE_KEY"),
        joined("CAPTION_PRED"),
        [()] * sum(n_kept),
        systems=joined("MODEL") if has_models else None,
        splits=np.repeat(list(paths_by_split), n_kept).tolist(),
    )

    ids = items["item_id"].to_numpy(dtype=object)
    scores = np.concatenate([score[is_kept] for score, _, is_kept in judged_tables])
    frames = [_frame(ids, "overall", "mean", scores)]

    start = 0
    for (_, answers, is_kept), n_rows in zip(judged_tables, n_kept, strict=True):
        # A fold without counts has p̂ alone.
        if answers is not None:
            kept_answers = answers[is_kept]
            row, rater = np.nonzero(~np.isnan(kept_answers))
            rater_names = [f"rater_{k + 1}" for k in range(kept_answers.shape[1])]
            raters = np.array(rater_names, dtype=object)[rater]
            frames.append(_frame(ids[start + row], "good", raters, kept_answers[row, rater]))
        start += n_rows

    return CaptionSet(items, pd.concat(frames, ignore_index=True), card=CARD)


def _existing(root: Path, sources: Sequence[SourceFile]) -> dict[str, Path]:
    """Return the files that are there by split, of sources in the order of `_FOLDS`."""
    paths: dict[str, Path] = {}
    for split, source in zip(_FOLDS.values(), sources, strict=True):
        path = locate(root, CARD, source)
        if path:
            paths[split] = path

    if not paths:
        find(root, CARD, sources[0])  # raises the error that says how to get it

    return paths


def p_hat(mean: Floats) -> Floats:
    """Round a mean rating to the nearest eighth (section 3.2, equation 1)."""
    return np.round(mean * 8) / 8


def _frame(ids: NDArray, dimension: str, rater: str | NDArray, values: Floats) -> pd.DataFrame:
    return pd.DataFrame({"item_id": ids, "dimension": dimension, "rater": rater, "value": values})


def _judged(table: Table) -> tuple[Floats, Floats | None, NDArray[np.bool_]]:
    """Return p̂ of each pair, its answers (NaN for none) if the table has counts, and which pairs stay."""
    if TOTAL not in table or GOOD not in table:
        hint = f"; it, or {GOOD} and {TOTAL}, is needed"
        scores = np.array(table.floats(P_HAT, Scale(0, 1), hint))
        return p_hat(scores), None, np.ones(len(table), dtype=bool)

    good = np.array(table.floats(GOOD, Scale(0, 1000, 1))).astype(np.int64)
    total = np.array(table.floats(TOTAL, Scale(0, 1000, 1))).astype(np.int64)

    bad = np.flatnonzero(good > total)
    if bad.size:
        raise InputError(
            f"{table.places[bad[0]]}: {GOOD} {good[bad[0]]} is more than {TOTAL} {total[bad[0]]}"
        )

    # A pair without answers is dropped below, and is not divided by 0 before.
    return p_hat(good / np.maximum(total, 1)), _dealt(good, total), total >= FEWEST


def _dealt(good: NDArray[np.int64], total: NDArray[np.int64]) -> Floats:
    """Deal out answers of which only the counts are known, in a seeded random order.

    Who gave which answer is unknown, and raters' columns must not differ by rule.
    """
    width = int(total.max(initial=0))
    column_index = np.arange(width)
    answers = np.where(column_index < good[:, None], 1.0, 0.0)
    order = np.random.default_rng(0).random((len(total), width))

    # Empty cells are sorted behind all answers, and stay empty.
    order[column_index >= total[:, None]] = np.inf
    answers[column_index >= total[:, None]] = np.nan

    return np.take_along_axis(answers, np.argsort(order, axis=1), axis=1)
