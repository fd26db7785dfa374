"""The answers of a study that count, the dataset that they make, and figures of raters for the dashboard."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import StatisticsError, correlation, fmean, median
from typing import Any

import pandas as pd

from ...benchmarks.evaluation.judged_pairs import add_turned_pairs
from ...benchmarks.evaluation.wording import MEASURE_LABELS
from ...benchmarks.statistics.rater_agreement import compute_measures
from ...benchmarks.statistics.rating_table import RatingTable
from ...datasets.schema import CaptionSet, Card, make_items
from .forms.counted_answers import CountedAnswer, CountedAnswers
from .items.units import StudyItem, StudyUnit
from .store.study_database import TableRows
from .store.study_store import StudyStore


def collect_answers(store: StudyStore, rows: TableRows) -> CountedAnswers:
    """Return the answers that count.

    Answers of excluded raters, of tutorial and practice, and to attention items are left out.

    Args:
        store: the study.
        rows: all rows of its database (`StudyStore.load_all_rows`).
    """
    excluded = excluded_raters(rows)
    items_by_id = store.items_by_id()
    codes = {row["id"]: store.rater_code(row["id"]) for row in rows["raters"]}

    counted: list[tuple[StudyUnit, StudyItem, Mapping[str, Any]]] = []
    for row in rows["answers"]:
        unit, item = items_by_id[row["item"]]
        is_counted = unit.is_rated and store.form.is_counted(unit, item)
        if is_counted and row["rater"] not in excluded:
            counted.append((unit, item, row))
    n_answers = Counter(item.id for _, item, _ in counted)

    counted_answers: list[CountedAnswer] = []
    settled: dict[int, dict[str, Any]] = {}
    for unit, item, row in counted:
        answer = CountedAnswer(
            unit=unit,
            item=item,
            rater=codes[row["rater"]],
            value=row["value"],
            seconds=row["seconds"],
            stage=_stage(unit, row["phase"]),
        )
        counted_answers.append(answer)
        # Rows are in the order in which they came: the last rater who checked an item has the last word.
        if unit.stages and n_answers[item.id] > 1:
            settled[item.id] = {name: part for name, part in row["value"].items() if name != "only"}

    answers = CountedAnswers(
        answers=tuple(counted_answers),
        settled=settled,
        left_out={"excluded_raters": len(excluded)},
        units=tuple(store.units.values()),
    )
    return store.form.select_answers(answers, for_paper=False)


def excluded_raters(rows: TableRows) -> set[int]:
    """Return the numbers of the raters who are excluded."""
    excluded: set[int] = set()
    for row in rows["raters"]:
        if row["excluded_at"] is not None:
            excluded.add(row["id"])
    return excluded


def _stage(unit: StudyUnit, phase: str) -> str:
    """Return the part of an answer where raters check each other's; the first one scores."""
    if not unit.stages:
        return ""

    return "score" if phase == "main" else phase


def make_caption_set(store: StudyStore, answers: CountedAnswers) -> CaptionSet | None:
    """Return the answers as a dataset; None if there is no rating yet."""
    rows: list[tuple[int, str, str, float]] = []
    for answer in answers.answers:
        for dimension, value in store.form.ratings(answer.value).items():
            rows.append((answer.item.id, dimension, answer.rater, value))

    ratings = pd.DataFrame(rows, columns=pd.Index(["item", "dimension", "rater", "value"]))
    if ratings.empty:
        return None

    items_by_id = store.items_by_id()
    item_numbers = list(dict.fromkeys(ratings["item"]))
    image_ids: list[str] = []
    images: list[str] = []
    rated_items: list[StudyItem] = []
    for number in item_numbers:
        unit, item = items_by_id[number]
        image_ids.append(unit.image_id)
        images.append(unit.image)
        rated_items.append(item)

    items = make_items(
        image_ids,
        [item.caption for item in rated_items],
        [item.references for item in rated_items],
        systems=[item.system for item in rated_items],
        images=images,
        splits=[item.split for item in rated_items],
    )
    item_ids = dict(zip(item_numbers, items["item_id"], strict=True))

    card = Card(
        name=store.study.name,
        title=store.study.title,
        revision="1",
        licence="yours",
        citation="",
        homepage="",
        scales=store.form.scales,
        totals=store.form.totals,
        has_references=False,
    )
    ratings = ratings.assign(item_id=[item_ids[number] for number in ratings["item"]])

    return CaptionSet(items, ratings, card=card)


#: A rater with this many answers is pointed out if this share of them is the same.
_MIN_ANSWERS = 10
_UNIFORM_SHARE = 0.9
#: How the names of the measures begin that the dashboard shows (`captau agree`).
_MEASURE_PREFIXES = ("tau_", "kendall_w", "fleiss", "krippendorff", "percent")
#: The seconds after which agreement is measured again.
_AGREEMENT_AGE = 30.0


@dataclass(frozen=True)
class RaterFigures:
    """A rater's figures; None where there is nothing to compute them from.

    Attributes:
        n_answers: their answers that count.
        seconds: the median time of an answer.
        distance: the mean absolute difference from the mean of the others' ratings of the same items.
        correlation: Pearson's, with that mean.
        uniform_share: the share of their most frequent answer.
        longest_run: the longest run of equal answers.
        n_attention, n_attention_right: attention items that they answered, and answered rightly.
        notes: reasons to look at this rater.
    """

    n_answers: int
    seconds: float | None
    distance: float | None
    correlation: float | None
    uniform_share: float | None
    longest_run: int
    n_attention: int
    n_attention_right: int
    notes: tuple[str, ...]


@dataclass
class RaterAnswers:
    """A rater's answers: items and ratings (None for a skip), their times, and attention items."""

    ratings: list[tuple[int, float | None]] = field(default_factory=list[tuple[int, float | None]])
    seconds: list[float] = field(default_factory=list[float])
    attention: list[bool] = field(default_factory=list[bool])


def compute_rater_figures(store: StudyStore, rows: TableRows) -> dict[int, RaterFigures]:
    """Return the figures of every rater, excluded ones too, by number."""
    dimension = store.form.main_dimension or ""
    by_rater = {row["id"]: RaterAnswers() for row in rows["raters"]}
    excluded = excluded_raters(rows)

    ratings_by_item: dict[int, list[tuple[int, float]]] = {}
    items_by_id = store.items_by_id()

    for row in rows["answers"]:
        rater_answers = by_rater[row["rater"]]
        unit, item = items_by_id[row["item"]]
        if not store.form.is_counted(unit, item):
            continue

        rating = store.form.ratings(row["value"]).get(dimension)
        if row["phase"] == "attention":
            rater_answers.attention.append(store.form.is_known_answer(unit, row["value"]))
        elif unit.is_rated:
            rater_answers.ratings.append((row["item"], rating))
            rater_answers.seconds.append(row["seconds"])
            # Excluded raters have figures of their own, and no part in the others' means.
            if rating is not None and row["rater"] not in excluded:
                ratings_by_item.setdefault(row["item"], []).append((row["rater"], rating))

    figures: dict[int, RaterFigures] = {}
    for rater_id, answers in by_rater.items():
        figures[rater_id] = compute_figures(rater_id, answers, ratings_by_item)

    return figures


def compute_figures(
    rater_id: int,
    answers: RaterAnswers,
    ratings_by_item: Mapping[int, Sequence[tuple[int, float]]],
) -> RaterFigures:
    """Compute a rater's figures from their answers and, by item, everybody's raters and ratings."""
    own_ratings: list[float] = []
    means_of_others: list[float] = []
    for item_id, rating in answers.ratings:
        if rating is None:
            continue

        other_ratings: list[float] = []
        for other_rater, other_rating in ratings_by_item.get(item_id, ()):
            if other_rater != rater_id:
                other_ratings.append(other_rating)
        if other_ratings:
            # A rater is compared with the others alone: a mean of few holds much of their own rating.
            own_ratings.append(rating)
            means_of_others.append(fmean(other_ratings))

    ratings = [rating for _, rating in answers.ratings]
    uniform_share = None
    if ratings:
        ((_, n_most_frequent),) = Counter(ratings).most_common(1)
        uniform_share = n_most_frequent / len(ratings)
    runs = [len(list(run)) for _, run in groupby(ratings)]
    correlation = compute_pearson(own_ratings, means_of_others)

    attention = answers.attention
    notes: list[str] = []
    if (
        uniform_share is not None
        and len(ratings) >= _MIN_ANSWERS
        and uniform_share >= _UNIFORM_SHARE
    ):
        notes.append("nearly always the same answer")

    if attention and sum(attention) < len(attention) / 2:
        notes.append("missed most known answers")

    if correlation is not None and len(own_ratings) >= _MIN_ANSWERS and correlation < 0.2:
        notes.append("little agreement with the rest")

    distances = [abs(a - b) for a, b in zip(own_ratings, means_of_others, strict=True)]

    return RaterFigures(
        n_answers=len(ratings),
        seconds=median(answers.seconds) if answers.seconds else None,
        distance=fmean(distances) if distances else None,
        correlation=correlation,
        uniform_share=uniform_share,
        longest_run=max(runs, default=0),
        n_attention=len(attention),
        n_attention_right=sum(attention),
        notes=tuple(notes),
    )


def compute_pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Pearson's r; None of fewer than three pairs, or where it is not defined."""
    try:
        return correlation(x, y) if len(x) > 2 else None
    except StatisticsError:  # a side is constant
        return None


def measure_agreement(store: StudyStore, rows: TableRows) -> dict[str, tuple[float, str]]:
    """Return captau's measures of agreement so far by their labels (`captau agree`), each with its note."""
    dimension = store.form.main_dimension
    caption_set = make_caption_set(store, collect_answers(store, rows))
    if dimension is None or caption_set is None:
        return {}

    ratings = caption_set.ratings
    item_ids = list(caption_set.items["item_id"])
    n_orders = 1
    if store.form.judges_pairs:
        # Each pair in both orders, so that no measure depends on which of its captions is the first.
        ratings = add_turned_pairs(ratings, ratings["item_id"] + "|turned")
        item_ids += [f"{item_id}|turned" for item_id in item_ids]
        n_orders = 2

    table = RatingTable.from_ratings(ratings, item_ids, dimension, n_orders=n_orders)
    if not table.n_items:
        return {}

    measures, _ = compute_measures(table, store.form.scales[dimension], draws=5)

    agreement: dict[str, tuple[float, str]] = {}
    for name, measure in measures.items():
        if name.startswith(_MEASURE_PREFIXES):
            agreement[MEASURE_LABELS[name]] = (float(measure.value), measure.note)

    return agreement


class AgreementCache:
    """The agreement of a study, measured again when it is half a minute old."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._measured_at = -_AGREEMENT_AGE
        self._agreement: dict[str, tuple[float, str]] = {}

    def expire(self) -> None:
        """Have it measured again next time."""
        self._measured_at = -_AGREEMENT_AGE

    async def get(self, store: StudyStore, rows: TableRows) -> dict[str, tuple[float, str]]:
        """Return the agreement."""
        async with self._lock:
            if time.monotonic() - self._measured_at > _AGREEMENT_AGE:
                self._agreement = await asyncio.to_thread(measure_agreement, store, rows)
                self._measured_at = time.monotonic()
        return self._agreement
