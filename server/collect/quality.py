"""How raters do: speed, agreement with the rest, always the same answer, known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Any

from ...benchmarks.statistics.rater_agreement import RatingTable, compute_measures
from .export import caption_set, gather, ratings
from .store import COUNTED, Store

#: The dimension by which raters of a protocol are compared.
MAIN = {"game": "overall", "good_bad": "good", "thumb": "total", "four": "overall"}
#: A rater of this many answers or more, of which this share are the same, is pointed out.
_ENOUGH, _SAME = 10, 0.9
#: How the names of the measures begin that the dashboard shows (`captau agree`).
_SHOWN = ("tau_", "kendall_w", "fleiss", "krippendorff", "percent")


@dataclass(frozen=True)
class Rated:
    """One rater's figures; None where there is nothing to compute them from.

    Attributes:
        seconds: the median time an answer took.
        apart: the mean absolute difference from the mean of the others' ratings of the same items.
        correlation: Pearson's, with that mean.
        same: the share of the answer they gave most often.
        run: the longest run of equal answers.
        known: how many attention items they answered, and how many of them rightly.
        notes: what to look at.
    """

    answers: int
    seconds: float | None
    apart: float | None
    correlation: float | None
    same: float | None
    run: int
    known: tuple[int, int]
    notes: tuple[str, ...]


def rated(store: Store, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[int, Rated]:
    """The figures of every rater, excluded ones too, by number."""
    dimension = MAIN.get(store.study.protocol)
    by_rater: dict[int, list[tuple[int, float | None, float]]] = {
        r["id"]: [] for r in rows["raters"]
    }
    excluded = {r["id"] for r in rows["raters"] if r["excluded_at"] is not None}
    known: dict[int, list[bool]] = {r["id"]: [] for r in rows["raters"]}
    values: dict[int, list[tuple[int, float]]] = {}
    unit_of = {i.id: u for u in store.units.values() for i in u.items}
    for a in rows["answers"]:
        value = store.form.ratings(a["value"]).get(dimension or "")
        if a["phase"] == "attention":
            known[a["rater"]].append(value in unit_of[a["item"]].fixed)
        elif a["phase"] in COUNTED:
            by_rater[a["rater"]].append((a["item"], value, a["seconds"]))
            if value is not None and a["rater"] not in excluded:
                values.setdefault(a["item"], []).append((a["rater"], value))
    return {rater: _figures(rater, said, values, known[rater]) for rater, said in by_rater.items()}


def _figures(
    rater: int,
    said: Sequence[tuple[int, float | None, float]],
    values: Mapping[int, Sequence[tuple[int, float]]],
    known: Sequence[bool],
) -> Rated:
    own: list[float] = []
    others: list[float] = []
    for item, value, _ in said:
        rest = [v for who, v in values.get(item, ()) if who != rater]
        if value is not None and rest:
            own.append(value)
            others.append(fmean(rest))
    given = [value for _, value, _ in said]
    runs = [len(list(group)) for _, group in groupby(given)]
    same = max((given.count(v) for v in set(given)), default=0) / len(given) if given else None
    notes: list[str] = []
    if same is not None and len(given) >= _ENOUGH and same >= _SAME:
        notes.append("nearly always the same answer")
    if known and sum(known) < len(known) / 2:
        notes.append("missed most known answers")
    correlation = _pearson(own, others)
    if correlation is not None and len(own) >= _ENOUGH and correlation < 0.2:
        notes.append("little agreement with the rest")
    return Rated(
        answers=len(said),
        seconds=median(s for _, _, s in said) if said else None,
        apart=fmean(abs(a - b) for a, b in zip(own, others, strict=True)) if own else None,
        correlation=correlation,
        same=same,
        run=max(runs, default=0),
        known=(len(known), sum(known)),
        notes=tuple(notes),
    )


def _pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    if len(x) < 3:
        return None
    mx, my = fmean(x), fmean(y)
    xx, yy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    if xx * yy <= 0:
        return None
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / (xx * yy) ** 0.5


def agreement(
    store: Store, rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, tuple[float, str]]:
    """Captau's own measures of agreement so far (`captau agree`), each with its note."""
    dimension = MAIN.get(store.study.protocol)
    gathered = gather(store, rows)
    if dimension is None or ratings(store, gathered).empty:
        return {}
    found = caption_set(store, gathered)
    if found is None:
        return {}
    table = RatingTable.from_ratings(found.ratings, found.items["item_id"], dimension)
    if not table.n_items:
        return {}
    measured, _ = compute_measures(table, store.form.scales[dimension], draws=5)
    return {
        name: (float(one.value), one.note)
        for name, one in measured.items()
        if name.startswith(_SHOWN)
    }
