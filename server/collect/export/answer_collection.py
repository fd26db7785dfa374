"""The answers of a study that count, and the dataset that they make."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from ....datasets.schema import CaptionSet, Card, make_items
from ..forms.counted_answers import CountedAnswer, CountedAnswers
from ..items.units import StudyUnit
from ..store.study_database import TableRows
from ..store.study_store import StudyStore


def collect_answers(store: StudyStore, rows: TableRows) -> CountedAnswers:
    """Return the answers that count.

    Answers of excluded raters, of tutorial and practice, and to attention items are left out.

    Args:
        store: the study.
        rows: all rows of its database (`StudyStore.load_all_rows`).
    """
    excluded = {r["id"] for r in rows["raters"] if r["excluded_at"] is not None}
    items_by_id = store.items_by_id()
    codes = {r["id"]: store.rater_code(r["id"]) for r in rows["raters"]}
    counted_rows = [
        a
        for a in rows["answers"]
        if items_by_id[a["item"]][0].is_rated
        and store.form.is_counted(*items_by_id[a["item"]])
        and a["rater"] not in excluded
    ]
    n_answers = Counter(a["item"] for a in counted_rows)
    answers = CountedAnswers(
        answers=tuple(
            CountedAnswer(
                *items_by_id[a["item"]],
                codes[a["rater"]],
                a["value"],
                a["seconds"],
                stage=_stage(items_by_id[a["item"]][0], a["phase"]),
            )
            for a in counted_rows
        ),
        settled={
            a["item"]: {name: part for name, part in a["value"].items() if name != "only"}
            for a in counted_rows
            if items_by_id[a["item"]][0].stages and n_answers[a["item"]] > 1
        },
        left_out={"excluded_raters": len(excluded)},
        units=tuple(store.units.values()),
    )
    return store.form.drop_unusable(answers)


def _stage(unit: StudyUnit, phase: str) -> str:
    """Return the part of an answer where raters check each other's; the first one scores."""
    return ("score" if phase == "main" else phase) if unit.stages else ""


def make_caption_set(store: StudyStore, answers: CountedAnswers) -> CaptionSet | None:
    """Return the answers as a dataset; None if there is no rating yet."""
    ratings = pd.DataFrame(
        [
            (answer.item.id, dimension, answer.rater, value)
            for answer in answers.answers
            for dimension, value in store.form.ratings(answer.value).items()
        ],
        columns=pd.Index(["item", "dimension", "rater", "value"]),
    )
    if ratings.empty:
        return None
    items_by_id = store.items_by_id()
    item_numbers = list(dict.fromkeys(ratings["item"]))
    rated = [items_by_id[number] for number in item_numbers]
    items = make_items(
        [unit.image_id for unit, _ in rated],
        [item.caption for _, item in rated],
        [item.references for _, item in rated],
        systems=[item.system for _, item in rated],
        images=[unit.image for unit, _ in rated],
        splits=[item.split for _, item in rated],
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
