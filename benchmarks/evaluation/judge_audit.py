"""An audit of a judge of pairs: whether position, length or its own captions sway it.

`captau calibrate` makes it of judges that it asks in both orders, and of every metric that scores the captions of pairs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ..runs.frames import make_frame
from ..statistics.bootstrap import number_images
from ..statistics.clustered_shares import ClusteredShare
from ..statistics.preferences import CONFIDENCE, pair_differences
from ..statistics.weighted_pairs import Floats, Ints
from .evaluation_set import EvaluationSet
from .judged_pairs import count_words

if TYPE_CHECKING:
    from ...metrics.neural.judge.pairs import PairJudgements

#: A judge's biases: `value` is the judge's share with its interval, `people` that of people on the same pairs.
AUDIT_COLUMNS = ("bias", "value", "ci_low", "ci_high", "people", "n_pairs", "note")


@dataclass(frozen=True)
class _JudgedBy:
    """Pairs that a judge and people decided.

    Attributes:
        judge, people: 1 where the first caption is preferred, -1 where the second is, else 0 or NaN, shape (n_pairs,).
        image: the number of each pair's image, shape (n_pairs,).
        level: of the intervals.
    """

    judge: NDArray[Any]
    people: NDArray[Any]
    image: Ints
    level: float

    def compare_shares(self, bias: str, favoured: NDArray[Any]) -> dict[str, object]:
        """Return the share of decided pairs that go to the favoured side (1: the first, -1: the second, 0: neither)."""
        is_decided = (np.abs(self.judge) == 1) & (favoured != 0)
        share = ClusteredShare.measure((self.judge == favoured)[is_decided], self.image[is_decided])

        both = is_decided & (self.people != 0)
        by_people = float((self.people == favoured)[both].mean()) if both.any() else float("nan")
        return _audit_row(bias, share, self.level, by_people, f"people on {both.sum()} pairs")


def audit_judge(
    judgements: PairJudgements, own_systems: Collection[str] = (), level: float = CONFIDENCE
) -> pd.DataFrame:
    """Measure a judge's biases on pairs that people judged as well.

    - `position`: of the answers that prefer a caption, the share that prefers the one shown first; 0.5 is fair.
    - `order`: of the pairs that both orders decide, the share in which they contradict each other; 0 is fair.
    - `length`: of the pairs that the judge decides, the share in which it prefers the caption with more words.
    - `self_preference`: of the pairs of one of the judge's own systems with another that it decides, the share in
      which it prefers its own.

    What is fair for the last two depends on the captions: `people` is the share of theirs, by the sign of a pair's summed
    strengths (all raters and dimensions), on the pairs that both decide.

    Args:
        judgements: the judge's answers.
        own_systems: systems that are of the judge's own model or family; none leaves that row undefined.
        level: of the intervals, which are Wilson's and count images.

    Returns:
        columns `AUDIT_COLUMNS`, a row a bias.

    Raises:
        InputError: where an own system wrote no caption.
    """
    captions = judgements.captions
    items = captions.items.set_index("item_id")

    strangers = set(own_systems) - set(items["system"])
    if strangers:
        raise InputError(f"dataset {captions.name}: no caption is of system '{min(strangers)}'")

    orders = judgements.orders.set_index("pair_id")
    image, _ = number_images(items.loc[orders["item_a"], "image_id"])
    signs = judgements.signs

    strengths = judgements.strengths
    sides = orders.loc[strengths.index, ["item_a", "item_b"]]
    judged = _JudgedBy(
        judge=strengths.to_numpy(dtype=np.float64),
        people=_people_of(captions.preferences, strengths.index),
        image=image[orders.index.get_indexer(strengths.index)],
        level=level,
    )
    is_own_system = items["system"].isin(set(own_systems)).astype(int)
    own_a = is_own_system.loc[sides["item_a"]].to_numpy()
    own_b = is_own_system.loc[sides["item_b"]].to_numpy()
    position_note = "answers, not pairs"
    if judgements.asks_once:
        position_note += "; each pair was shown in one order, so that 50 is fair only if that was drawn at random"
    rows = [
        _audit_row("position", _measure_position(signs, image), level, note=position_note),
        _audit_row("order", _measure_contradictions(signs, image), level),
        judged.compare_shares("length", _which_is_longer(captions.items, sides)),
        judged.compare_shares("self_preference", own_a - own_b),
    ]
    return make_frame(rows, AUDIT_COLUMNS)


def _measure_position(signs: Floats, image: Ints) -> ClusteredShare:
    """Return how often the caption that is shown first is preferred; `signs` has a column for each order."""
    # A sign of 1 prefers caption a, which the second order shows last.
    first_is_preferred = np.concatenate([signs[:, 0], -signs[:, 1]])
    is_preference = np.abs(first_is_preferred) == 1
    return ClusteredShare.measure(
        first_is_preferred[is_preference] > 0, np.tile(image, 2)[is_preference]
    )


def _measure_contradictions(signs: Floats, image: Ints) -> ClusteredShare:
    """Return how often the two orders have unlike answers, of the pairs that are decided in both."""
    is_decided = (np.abs(signs) == 1).all(axis=1)
    is_contradiction = signs[:, 0] != signs[:, 1]
    return ClusteredShare.measure(is_contradiction[is_decided], image[is_decided])


@dataclass(frozen=True)
class PairLengths:
    """The longer caption of each pair and the one that people prefer: what the bias of every metric is measured with.

    Attributes:
        pairs: columns `pair_id`, `item_a` and `item_b` among others.
        image: the number of each pair's image, from 0, shape (n_pairs,).
        people: 1 where people prefer the first caption, -1 where they prefer the second, else 0, shape (n_pairs,).
        longer: 1 where the first caption has more words, -1 where the second has, else 0, shape (n_pairs,).
    """

    pairs: pd.DataFrame
    image: Ints
    people: NDArray[Any]
    longer: NDArray[Any]

    @classmethod
    def of_selection(cls, selection: EvaluationSet) -> PairLengths:
        """Compare the captions of each pair of a dataset with preferences."""
        pairs = selection.preferences.drop_duplicates("pair_id")
        image, _ = number_images(selection.clusters.loc[pairs["item_a"]])
        return cls(
            pairs=pairs,
            image=image,
            people=_people_of(selection.preferences, pd.Index(pairs["pair_id"])),
            longer=_which_is_longer(selection.items, pairs),
        )

    def audit(self, scores: pd.Series, level: float = CONFIDENCE) -> pd.DataFrame:
        """Measure how often a metric gives the longer caption of a pair the better score, the bias `length`.

        Args:
            scores: by item id, more is better; pairs of an undefined one are left out.
            level: of the interval.

        Returns:
            columns `AUDIT_COLUMNS`, one row.
        """
        judged = _JudgedBy(
            judge=np.sign(pair_differences(scores, self.pairs)),
            people=self.people,
            image=self.image,
            level=level,
        )
        return make_frame([judged.compare_shares("length", self.longer)], AUDIT_COLUMNS)


def _people_of(preferences: pd.DataFrame, pair_ids: pd.Index[Any]) -> NDArray[Any]:
    """Return whom people prefer in each pair: several raters, and dimensions, say it together."""
    sums = preferences.groupby("pair_id")["strength"].sum().loc[pair_ids]
    return np.sign(sums.to_numpy(dtype=np.float64))


def _which_is_longer(items: pd.DataFrame, pairs: pd.DataFrame) -> NDArray[Any]:
    """Return 1 where the first caption has more words, -1 where the second has, 0 where both have as many."""
    words = count_words(items)
    words_a = words.loc[pairs["item_a"]].to_numpy(dtype=np.float64)
    words_b = words.loc[pairs["item_b"]].to_numpy(dtype=np.float64)
    return np.sign(words_a - words_b)


def _audit_row(
    bias: str, share: ClusteredShare, level: float, people: float = float("nan"), note: str = ""
) -> dict[str, object]:
    low, high = share.interval(level)
    reason = "" if share.n_items else "undefined: no such pair"

    cells = (bias, share.value, low, high, people, share.n_items, reason or note)
    return dict(zip(AUDIT_COLUMNS, cells, strict=True))
