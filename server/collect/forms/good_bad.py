"""Good, bad or skip: "Is this a good caption for the image?" (Levinboim et al. 2021, section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.sources.caption_quality import FEWEST, MOST_SKIPS, p_hat
from ...web.visitors import field_value
from .counted_answers import CountedAnswers
from .form import Form, FormError, FormFields, StabilityRule
from .wording import Wording, load_wording

_RATINGS = {"good": 1.0, "bad": 0.0}
#: Caption-Quality's folds by our names of splits.
_FOLDS = {"train": "train", "validation": "dev", "test": "test"}
#: The columns of the release's second file of each fold, with a row for each image. A study knows three of them; the file
#: of the image stands for its address.
_META_COLUMNS = (
    "Index",
    "Author",
    "AuthorProfileURL",
    "IMAGE_KEY",
    "License",
    "OriginalLandingURL",
    "OriginalMD5",
    "OriginalSize",
    "OriginalURL",
    "Rotation",
    "Subset",
    "Thumbnail300KURL",
    "Title",
)
_FILE_PREFIX = "OID-rated-image-captions.v1"


@dataclass(frozen=True)
class GoodBadForm(Form):
    """One caption, three buttons."""

    name = "good_bad"
    template = "forms/good_bad.html"
    default_ratings = 10
    keeps_levels = True  # p̂ counts good answers
    #: By the paper's p̂: round(8 mean) / 8.
    stability = StabilityRule(
        min_ratings=FEWEST,
        published={"mean": 0.015, "std": 0.212, "within_0.25": 0.85},
        source="Levinboim et al. 2021, section 3.3: 509 pairs, ten people each, 4 weeks apart",
        estimate=p_hat,
    )

    wording: Wording = field(default=load_wording("good_bad"), kw_only=True)

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return good, bad or skip."""
        answer = field_value(fields, "answer")
        if answer not in (*_RATINGS, "skip"):
            raise FormError(self.translate("Choose one of the answers."))

        return [{"answer": answer}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return 1 for good and 0 for bad; a skip is no rating."""
        answer = value["answer"]
        if answer not in _RATINGS:
            return {}

        return {"good": _RATINGS[answer]}

    def select_answers(self, answers: CountedAnswers, *, for_paper: bool) -> CountedAnswers:
        """Leave out pairs that more raters skipped than Caption-Quality allows.

        Of the paper's files, which have no skips, also leave out those with fewer answers than its reader accepts.
        """
        n_judgements: Counter[int] = Counter()
        n_skips: Counter[int] = Counter()
        for answer in answers.answers:
            counts = n_skips if answer.value["answer"] == "skip" else n_judgements
            counts[answer.item.id] += 1

        item_ids = {answer.item.id for answer in answers.answers}
        skipped = {item_id for item_id in item_ids if n_skips[item_id] > MOST_SKIPS}
        left_out = {f"pairs_of_more_than_{MOST_SKIPS}_skips": len(skipped)}

        rare: set[int] = set()
        if for_paper:
            rare = {i for i in item_ids - skipped if n_judgements[i] < FEWEST}
            left_out[f"pairs_of_fewer_than_{FEWEST}_answers"] = len(rare)

        return replace(
            answers,
            answers=tuple(a for a in answers.answers if a.item.id not in skipped | rare),
            left_out={**answers.left_out, **left_out},
        )

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return Caption-Quality's three folds and their images, in the columns of the released development fold."""
        # The column MODEL needs a system for every caption.
        has_models = all(a.item.system for a in answers.answers)
        folds: dict[str, list[list[str]]] = {fold: [] for fold in _FOLDS.values()}
        images_by_fold: dict[str, dict[str, str]] = {fold: {} for fold in _FOLDS.values()}

        for group in answers.by_item():
            is_good = [a.value["answer"] == "good" for a in group if a.value["answer"] in _RATINGS]
            estimate = float(p_hat(np.array([sum(is_good) / len(is_good)]))[0])
            unit = group[0].unit
            item = group[0].item

            name = _FOLDS.get(item.split, "test")
            images_by_fold[name].setdefault(unit.image_id, Path(unit.image).name)
            fold = folds[name]
            cells = [
                str(len(fold)),
                unit.image_id,
                " ".join(item.caption.split()),
                f"{len(is_good):.1f}",
                f"{sum(is_good):.1f}",
                str(estimate),
            ]
            if has_models:
                cells.append(str(item.system))
            fold.append(cells)

        columns = ["Index", "IMAGE_KEY", "CAPTION_PRED", "COUNT_RATINGS", "COUNT_GOOD_RATINGS"]
        columns.append("ROUNDED_AVG_USER_RATING")
        if has_models:
            columns.append("MODEL")

        files: dict[str, bytes] = {}
        for name, rows in folds.items():
            files[f"{_FILE_PREFIX}.{name}.tsv"] = _tsv_bytes([columns, *rows])
        for name, images in images_by_fold.items():
            rows = _meta_rows(images)
            files[f"{_FILE_PREFIX}.{name}.tsv.meta"] = _tsv_bytes([_META_COLUMNS, *rows])

        return files

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return good above level 2, else bad; now and then skip."""
        opinion = level(captions[0])
        if rng.random() < 0.03:
            return {"answer": "skip"}
        return {"answer": "good" if opinion > 2 else "bad"}


def _meta_rows(images: Mapping[str, str]) -> list[list[str]]:
    """Return the rows of a release's second file, from image files by image."""
    rows: list[list[str]] = []
    for number, (image_id, image) in enumerate(images.items()):
        cells = {"Index": str(number), "IMAGE_KEY": image_id, "OriginalURL": image}
        rows.append([cells.get(column, "") for column in _META_COLUMNS])

    return rows


def _tsv_bytes(rows: Sequence[Sequence[str]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()
