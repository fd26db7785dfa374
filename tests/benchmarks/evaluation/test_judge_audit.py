"""The audit of a judge of pairs, worked by hand from made-up answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.judge_audit import PairLengths, audit_judge
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, make_items
from captau.metrics.neural.judge.pairs import PairJudgements
from tests.conftest import says

#: Words of a and of b, people's winner, and the judge's votes for a in the order ab and in ba.
PAIRS = [
    (4, 2, "a", 1, 1),
    (2, 4, "a", -1, -1),
    (3, 1, "b", 1, -1),
    (1, 3, "b", -1, 1),
    (2, 2, "a", 1, 1),
    (3, 2, "tie", 1, 0),
    (1, 2, "b", -2, -1),
]


def judgements() -> PairJudgements:
    texts = [" ".join(["word"] * n) for a, b, *_ in PAIRS for n in (a, b)]
    images = [f"i{n}" for n in range(len(PAIRS)) for _ in "ab"]
    items = make_items(images, texts, [("a",)] * len(texts), systems=["A", "B"] * len(PAIRS))
    ids = items["item_id"].tolist()
    sides = list(zip(ids[::2], ids[1::2], strict=True))
    rows = [(f"p{n}", *sides[n], "overall", PAIRS[n][2]) for n in range(len(PAIRS))]
    orders = pd.DataFrame(
        [(f"p{n}", *sides[n], *map(float, PAIRS[n][3:])) for n in range(len(PAIRS))],
        columns=pd.Index(["pair_id", "item_a", "item_b", "ab", "ba"]),
    )
    card = Card("pairs", "Pairs", "1", "", "", "")
    captions = CaptionSet(items, preferences=make_preferences(rows), card=card)
    return PairJudgements(captions, "judge", orders, 0)


def test_shares_are_those_counted_by_hand() -> None:
    """In `ab` a is shown first, in `ba` b.

    Position: of 13 deciding answers 4 of `ab` prefer a, and 3 of `ba` prefer b. Order: pairs 3 and 4 of the 6 that
    both decide contradict each other. Length: the judge decides pairs 1, 2 and 7 of those of unlike lengths, each for
    the longer; people prefer the longer in 1 and 7. System A: the judge prefers it in 1 and 5 of the four that it
    decides, people in 1, 2 and 5.
    """
    audit = audit_judge(judgements(), ["A"]).set_index("bias")
    assert audit["value"].to_dict() == pytest.approx(
        {"position": 7 / 13, "order": 2 / 6, "length": 1.0, "self_preference": 2 / 4}
    )
    assert audit["n_pairs"].to_dict() == {
        "position": 13, "order": 6, "length": 3, "self_preference": 4
    }  # fmt: skip
    assert audit["people"].tolist()[2:] == pytest.approx([2 / 3, 3 / 4])
    assert audit["people"].isna().tolist() == [True, True, False, False]
    assert audit["note"].tolist() == [
        *("answers, not pairs", "", "people on 3 pairs", "people on 4 pairs")
    ]
    # Wilson's interval (1927) of as many pairs as have the variance of 6 images: 5, by Student's t of 5 degrees fewer.
    z, t, share = 1.959964, 2.570582, 1 / 3
    n = 5 * (z / t) ** 2
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    ends = [(share + z**2 / (2 * n) + sign * half) / (1 + z**2 / n) for sign in (-1, 1)]
    assert audit.loc["order", ["ci_low", "ci_high"]].tolist() == pytest.approx(ends, abs=1e-6)


def test_a_system_that_wrote_nothing_is_named() -> None:
    with says("dataset pairs: no caption is of system 'C'"):
        audit_judge(judgements(), ["A", "C"])
    audit = audit_judge(judgements()).set_index("bias")
    assert audit.loc["self_preference", "note"] == "undefined: no such pair"


def test_a_metric_of_captions_is_held_against_length_alone() -> None:
    """Its scores prefer a in pairs 1 to 5, b in 6, and tie in 7: the longer in 1 and 3 of the five that it decides."""
    captions = judgements().captions
    scores = [1.0, 0.0] * 5 + [0.0, 1.0] + [1.0, 1.0]
    protocol = Protocol(name="usual", dimension=(), ratings="mean", coefficients=("accuracy",))
    selection = EvaluationSet.select(captions, protocol)
    by_item = pd.Series(scores, index=captions.items["item_id"])
    audit = PairLengths.of_selection(selection).audit(by_item)
    assert audit["bias"].tolist() == ["length"]
    assert audit["value"].tolist() == pytest.approx([2 / 5])
    # People prefer the longer caption in 1 and 4 of the four that both decide.
    assert audit["people"].tolist() == [0.5]
    assert audit["note"].tolist() == ["people on 4 pairs"]
