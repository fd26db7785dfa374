"""An audit of a judge of pairs: whether position, length or its own captions sway it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...metrics.neural.judge.pairs import ORDERS, PairJudgements
from ..runs.frames import make_frame
from ..statistics.preferences import wilson_interval
from .judged_pairs import count_words

#: A judge's biases: `value` is the judge's share with its interval, `people` that of people on the same pairs.
AUDIT_COLUMNS = ("bias", "value", "ci_low", "ci_high", "people", "n_pairs", "note")


def audit_judge(judgements: PairJudgements, own_systems: Collection[str] = ()) -> pd.DataFrame:
    """Measure a judge's biases on pairs that people judged as well.

    - `position`: of the answers that prefer a caption, the share that prefers the one shown first; 0.5 is fair.
    - `order`: of the pairs that both orders decide, the share in which they contradict each other; 0 is fair.
    - `length`: of the pairs that the judge decides, the share in which it prefers the caption with more words.
    - `self_preference`: of the pairs of one of the judge's own systems with another that it decides, the share in
      which it prefers its own.

    What is fair for the last two depends on the captions: `people` is the share of theirs, by the sign of a pair's summed
    strengths (all raters and dimensions), on the pairs that both decide.

    Args:
        own_systems: systems that are of the judge's own model or family; none leaves that row undefined.

    Returns:
        columns `AUDIT_COLUMNS`, a row a bias; Wilson's intervals, as if pairs were independent.

    Raises:
        InputError: where an own system wrote no caption.
    """
    captions = judgements.captions
    items = captions.items.set_index("item_id")

    strangers = set(own_systems) - set(items["system"])
    if strangers:
        raise InputError(f"dataset {captions.name}: no caption is of system '{min(strangers)}'")

    orders = judgements.orders.set_index("pair_id")
    signs = np.sign(orders[list(ORDERS)].to_numpy(dtype=np.float64))
    is_decided = (np.abs(signs) == 1).all(axis=1)
    is_contradiction = signs[:, 0] != signs[:, 1]
    # A sign of 1 prefers caption a, which the second order shows last.
    shown_first = np.concatenate([signs[:, 0], -signs[:, 1]])
    prefers_first = shown_first[np.abs(shown_first) == 1] > 0

    strengths = judgements.strengths
    judged = strengths.to_numpy(dtype=np.float64)
    # Several raters, and dimensions, say together whom people prefer.
    sums = captions.preferences.groupby("pair_id")["strength"].sum().loc[strengths.index]
    people = np.sign(sums.to_numpy(dtype=np.float64))

    words = count_words(captions.items)
    n_words: list[NDArray[Any]] = []
    is_own: list[NDArray[Any]] = []
    for column in ("item_a", "item_b"):
        side = orders.loc[strengths.index, column]
        n_words.append(side.map(words).to_numpy(dtype=np.float64))
        is_own.append(side.map(items["system"]).isin(set(own_systems)).to_numpy(int))

    rows = [
        _audit_row("position", prefers_first, note="answers, not pairs"),
        _audit_row("order", is_contradiction[is_decided]),
        _compare_shares("length", judged, people, np.sign(n_words[0] - n_words[1])),
        _compare_shares("self_preference", judged, people, is_own[0] - is_own[1]),
    ]
    return make_frame(rows, AUDIT_COLUMNS)


def _compare_shares(
    bias: str, judged: NDArray[Any], people: NDArray[Any], favoured: NDArray[Any]
) -> dict[str, object]:
    """Return the share of decided pairs that go to the favoured side (1: a, -1: b, 0: neither)."""
    by_judge = (judged == favoured)[(judged != 0) & (favoured != 0)]

    both = (judged != 0) & (favoured != 0) & (people != 0)
    by_people = float((people == favoured)[both].mean()) if both.any() else float("nan")

    return _audit_row(bias, by_judge, by_people, note=f"people on {both.sum()} pairs")


def _audit_row(
    bias: str, outcomes: NDArray[Any], people: float = float("nan"), note: str = ""
) -> dict[str, object]:
    value = float(outcomes.mean()) if len(outcomes) else float("nan")
    low, high = wilson_interval(value, len(outcomes))
    reason = "" if len(outcomes) else "undefined: no such pair"

    cells = (bias, value, low, high, people, len(outcomes), reason or note)
    return dict(zip(AUDIT_COLUMNS, cells, strict=True))
