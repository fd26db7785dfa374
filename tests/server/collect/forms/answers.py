"""Answers that count, as tests of the files of forms need them."""

from __future__ import annotations

from captau.server.collect.forms.counted_answers import CountedAnswer, CountedAnswers
from captau.server.collect.items.units import StudyItem, StudyUnit


def make_unit(number, *captions, image="p0.png", **fields):
    """Return a unit of captions, which are items with numbers from ten times the unit's on."""
    texts = [caption if isinstance(caption, tuple) else (caption, "sys") for caption in captions]
    items = tuple(
        StudyItem(f"i{number}{k}", image, f"/x/{image}", text, ("a ref",), system, "", id=10 * number + k)
        for k, (text, system) in enumerate(texts)
    )  # fmt: skip
    return StudyUnit("main", image, f"/x/{image}", items, id=number, **fields)


def answer(unit, value, rater="r1", k=0, seconds=1.0, stage=""):
    """Return an answer to a unit's caption."""
    return CountedAnswer(unit, unit.items[k], rater, value, seconds, stage)


def gather(*answers, settled=None, left_out=None):
    units = tuple(dict.fromkeys(a.unit for a in answers))
    return CountedAnswers(answers, settled or {}, left_out or {}, units)
