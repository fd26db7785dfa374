"""The judge of pairs and its audit, by endpoints that answer by rule."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.evaluation.judge_audit import audit_judge
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, make_items
from captau.metrics.neural.judge.pairs import PairJudgements, judge_pairs
from captau.metrics.neural.judge.presets import UnusableError, choice_of
from tests.conftest import run_captau, says
from tests.metrics.neural.judge.judge_stub import cache, completion, judge, pauses, stub, sure

__all__ = ["cache", "pauses", "stub"]  # the fixtures

CARD = Card(
    name="pairs", title="Pairs", revision="1", licence="", citation="", homepage="", sources=()
)
#: By image: a caption of system "long", one of system "short", and people's winner.
PAIRS = [
    ("1", "a brown dog runs in the park", "a dog", "a"),
    ("2", "two cats on a red sofa at home", "two cats", "b"),
    ("3", "a man with a hat and a stick", "a man", "a"),
    ("4", "a street at night in the rain", "a street", "tie"),
]


def caption_set(pairs=PAIRS, references=("a text",)):
    images = [image for image, *_ in pairs for _ in "ab"]
    texts = [text for _, a, b, _ in pairs for text in (a, b)]
    items = make_items(
        images, texts, [references] * len(texts), systems=["long", "short"] * len(pairs)
    )
    ids = items["item_id"].tolist()
    rows = [
        (f"p{image}", ids[2 * i], ids[2 * i + 1], "overall", winner)
        for i, (image, *_, winner) in enumerate(pairs)
    ]
    return CaptionSet(items, preferences=make_preferences(rows), card=CARD)


def by_rule(rule):
    """Replies with 1, 2 or 0 as the rule says of the two captions that are shown."""

    def reply(body):
        text = body["messages"][0]["content"]
        captions = re.search(r"Caption 1: (.*)\n\nCaption 2: (.*)\n", text).groups()
        choice = rule(*captions)
        verdict = f"Caption {choice}" if choice else "Tie"
        return completion(*sure(f"Reason: so it is.\nJudgement: {verdict}"))

    return reply


def longest(first, second):
    return 1 if len(first) > len(second) else 2


def ask(stub, rule, pairs=PAIRS, **changes):
    stub.reply = by_rule(rule)
    return judge_pairs(judge(stub, **changes), caption_set(pairs), "pairwise_references")


def row_of(audit, bias):
    return audit.set_index("bias").loc[bias]


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("Reason: Caption 2 is short.\nJudgement: Caption 1", 1),
        ("judgment: <Caption 2 is better>", 2),
        ("**Judgement:** Tie.", 0),
        ("Judgement: Caption 1\nOn second thoughts, Judgement: tie", 0),
    ],
)
def test_a_judgement_is_read_from_its_line(text, choice):
    assert choice_of(completion(*sure(text))) == choice


@pytest.mark.parametrize("text", ["Caption 1", "", "Judgement: both", "Judgement: Caption 3"])
def test_an_answer_without_a_judgement_is_unusable(text):
    with pytest.raises(UnusableError, match="has no judgement"):
        choice_of(completion(*sure(text)))


def test_a_judge_that_both_orders_agree_on_prefers_a_caption(stub):
    judgements = ask(stub, longest)
    assert judgements.preferences["strength"].tolist() == [1.0] * 4
    assert set(judgements.preferences["rater"]) == {"m"}
    assert len(stub.asked) == 8


def test_orders_that_contradict_each_other_are_a_tie(stub):
    judgements = ask(stub, lambda first, second: 1)
    assert judgements.strengths.tolist() == [0.0] * 4
    audit = audit_judge(judgements)
    assert row_of(audit, "position")["value"] == 1.0
    assert row_of(audit, "position")["n_pairs"] == 8
    assert row_of(audit, "order")["value"] == 1.0
    assert row_of(audit, "length")["n_pairs"] == 0
    assert row_of(audit, "length")["note"] == "undefined: no such pair"


def test_one_order_that_is_tied_makes_a_tie(stub):
    judgements = ask(stub, lambda first, second: 1 if len(first) > len(second) else 0)
    assert judgements.strengths.tolist() == [0.0] * 4
    assert row_of(audit_judge(judgements), "order")["n_pairs"] == 0


def test_an_audit_sets_length_and_own_systems_against_people_worked_by_hand(stub):
    # The judge prefers the longer caption in 4 of 4 pairs, people in 2 of the 3 that they decide.
    audit = audit_judge(ask(stub, longest), own_systems=["short"])
    length, own = row_of(audit, "length"), row_of(audit, "self_preference")
    assert (length["value"], length["n_pairs"]) == (1.0, 4)
    assert length["people"] == pytest.approx(2 / 3)
    assert length["note"] == "people on 3 pairs"
    assert (own["value"], own["people"]) == (0.0, pytest.approx(1 / 3))
    assert row_of(audit, "position")["value"] == 0.5
    assert row_of(audit, "order")["value"] == 0.0
    # Wilson 1927 by hand, 4 of 4: 1 / (1 + t² / 4); of so few images with Student's t of 3 degrees of freedom, 3.182446.
    assert length["ci_low"] == pytest.approx(1 / (1 + 3.182446**2 / 4), abs=1e-6)


def test_votes_of_an_order_are_counted(stub):
    turns = iter([1, 2, 1] * 8)
    judgements = ask(
        stub, lambda first, second: next(turns), temperature=1.0, votes=3, concurrency=1
    )
    assert judgements.orders["ab"].tolist() == [1.0] * 4
    assert judgements.orders["ba"].tolist() == [-1.0] * 4


def test_unusable_answers_are_an_error_or_leave_the_pair_out(stub):
    stub.reply = lambda body: completion(*sure("I like both."))
    with says("judge m: pair p1: the answer 'I like both.' has no judgement"):
        judge_pairs(judge(stub), caption_set(), "pairwise_references")
    judgements = judge_pairs(
        judge(stub, unusable="undefined"), caption_set(), "pairwise_references"
    )
    assert judgements.preferences.empty
    assert judgements.n_unusable == 8


def test_a_judges_preferences_are_a_table_that_rank_and_bench_read(stub, tmp_path, monkeypatch):
    path = tmp_path / "judged.csv"
    ask(stub, longest).write(path)
    again = captau.load("file", path=path)
    assert again.preferences["winner"].tolist() == ["a"] * 4
    assert set(again.items["system"]) == {"long", "short"}
    monkeypatch.chdir(tmp_path)
    assert run_captau("bench", "dataset=file", "file.path=judged.csv", "metrics=[rouge_l]") == 0


def test_pairs_are_repeated_from_a_file_of_answers(stub, tmp_path, monkeypatch):
    path = tmp_path / "answers.jsonl"
    first = ask(stub, longest, answers=str(path))
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "elsewhere"))
    again = ask(stub, longest, answers=str(path), max_requests=0)
    pd.testing.assert_frame_equal(first.preferences, again.preferences)


def test_sets_and_pairs_that_cannot_be_judged(stub):
    plain = CaptionSet(make_items(["1"], ["a"], [("b",)]), card=CARD)
    with says("dataset pairs: it has no pairs of captions to be judged"):
        judge_pairs(judge(stub), plain)
    with says("pair p1: its image is not here; preset=pairwise_references does without"):
        judge_pairs(judge(stub), caption_set())
    with says("dataset pairs: no caption is of system 'mine'"):
        audit_judge(ask(stub, longest), own_systems=["mine"])


@pytest.mark.parametrize(
    ("ab", "ba", "strength"),
    [(3, 1, 1), (-1, -2, -1), (0, 0, 0), (1, -1, 0), (1, 0, 0), (0, -1, 0), (math.nan, 1, None)],
)
def test_both_orders_have_to_agree(ab, ba, strength):
    orders = pd.DataFrame(
        {"pair_id": ["p"], "item_a": ["x"], "item_b": ["y"], "ab": [ab], "ba": [ba]}
    )
    judged = PairJudgements(SimpleNamespace(), "m", orders.astype({"ab": float, "ba": float}), 0)
    assert judged.strengths.to_dict() == ({} if strength is None else {"p": strength})
    rows = judged.preferences[["pair_id", "item_a", "item_b", "rater", "dimension", "strength"]]
    assert rows.to_numpy().tolist() == (
        [] if strength is None else [["p", "x", "y", "m", "overall", strength]]
    )
    assert np.isfinite(judged.preferences["strength"]).all()
