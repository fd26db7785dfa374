"""How far a number has changed, and names of all metrics: worked by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.regression.differences import (
    Difference,
    _distance,
    cause_of,
    compare_scores,
    correlation_differences,
    difference_in_one,
    format_change,
    make_difference_table,
    signature_changes_of,
    version_differences,
)
from tests.benchmarks.printed import lines_of


@pytest.mark.parametrize(
    ("old", "new", "distance"),
    [
        (2.0, 5.0, 3.0),
        (5.0, 2.0, 3.0),
        (-1.0, 1.0, 2.0),
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
    ],
)
def test_what_is_undefined_on_one_side_is_farthest(old: float, new: float, distance: float) -> None:
    assert _distance(old, new) == distance


@pytest.mark.parametrize(
    ("n_metrics", "n_of_difference", "words"),
    [(3, 3, "m0, m1, m2"), (4, 4, "all 4"), (4, 3, "m0, m1, m2"), (1, 1, "m0")],
)
def test_a_difference_of_all_metrics_says_how_many(
    n_metrics: int, n_of_difference: int, words: str
) -> None:
    metrics = [f"m{n}" for n in range(n_metrics)]
    difference = Difference(
        **{
            **dict.fromkeys(Difference.__dataclass_fields__, ""),
            "part": "scores",
            "metrics": tuple(metrics[:n_of_difference]),
            "subject": "captions",
            "before": "1",
            "now": "2",
            "change": "+1",
            "cause": "version",
        }
    )
    table = make_difference_table("t", [difference], metrics, ("before", "now"))
    assert lines_of(table) == [("scores", [words, "captions", "1", "2", "+1", "version"])]
    assert (table.title, table.corner) == ("t", "part")
    assert table.heads == ["metric", "what", "before", "now", "by", "likely cause"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (1.0, 1.5, "+0.5"),
        (1.5, 1.0, "-0.5"),
        (0.0, 0.123456, "+0.123"),
        (0.0, 1234.0, "+1.23e+03"),
        (math.nan, 1.0, ""),
        (1.0, math.inf, ""),
    ],
)
def test_a_change_has_its_sign_and_three_digits(old: float, new: float, words: str) -> None:
    assert format_change(old, new) == words


def test_signatures_differ_by_their_name_parameters_and_packages() -> None:
    old = "cider|n:4|corpus:0123456789abcdefg|numpy:1.0"
    new = "ciderd|n:4|corpus:0123456789abcdef|scipy:2:0"
    assert signature_changes_of(old, new) == {
        "name": ("cider", "ciderd"),
        "corpus": ("0123456789ab…", "0123456789abcdef"),
        "numpy": ("1.0", "–"),
        "scipy": ("–", "2:0"),
    }
    assert signature_changes_of(old, old) == {}


@pytest.mark.parametrize(
    ("is_other_data", "signature_changes", "changed", "cause"),
    [
        (True, {"n": ("1", "2")}, {"numpy": ("1", "2")}, "changed data"),
        (False, {"n": ("1", "2"), "numpy": ("1.0", "2.0")}, {"numpy": ("1.0", "2.0")},
         "parameter n: 1 → 2; numpy 1.0 → 2.0"),
        (False, {}, {"numpy": ("1.0", "2.0"), "scipy": ("–", "3")}, "perhaps numpy 1.0 → 2.0, scipy – → 3"),
        (False, {}, {}, "the code"),
    ],
)  # fmt: skip
def test_the_likely_cause_is_the_nearest(is_other_data, signature_changes, changed, cause) -> None:
    assert cause_of(is_other_data, signature_changes, changed, "the code") == cause


@pytest.mark.parametrize(
    ("policy", "fails", "notes"),
    [
        ("all", (True, True), ("", "")),
        ("signatures", (True, False), ("", "told only (versions=signatures)")),
        ("none", (False, False), ("told only (versions=none)",) * 2),
    ],
)
@pytest.mark.parametrize(
    ("moving", "effects"),
    [
        (set(), ("no score moved", "no score moved")),
        ({"a"}, ("", "")),
        ({"b"}, ("no score moved", "")),  # by a package that no signature names anything may move
    ],
)
def test_versions_fail_by_the_policy_and_say_whether_scores_moved(
    policy, fails, notes, moving, effects
) -> None:
    changed = {"nltk": ("1", "2"), "numpy": ("–", "3")}
    signature_changes = {"a": {"nltk": ("1", "2")}, "b": {"n": ("1", "2")}}
    causes = ["; ".join(filter(None, pair)) for pair in zip(effects, notes, strict=True)]
    assert version_differences(changed, signature_changes, policy, moving) == [
        Difference("versions", ("a",), "nltk", "1", "2", "", causes[0], fails[0]),
        Difference("versions", (), "numpy", "–", "3", "", causes[1], fails[1]),
    ]


def test_a_subject_on_one_side_alone_is_there_or_not() -> None:
    words = ("scores", ("a",), "x")
    assert difference_in_one(*words, is_in_old=True, cause="c") == Difference(
        *words, "there", "–", "", "c", is_in_one=True
    )
    assert difference_in_one(*words, is_in_old=False) == Difference(
        *words, "–", "there", is_in_one=True
    )


def test_correlations_are_listed_that_moved_by_half_of_the_last_printed_digit() -> None:
    """Kendall's τ is printed x 100 with one decimal (half of it is 0.0005), ρ with three."""
    before = {
        **{"overall tau_c": 0.2, "overall tau_b": 0.2, "fluency of text spearman": 0.5},
        **{"a tau_c": math.nan, "b tau_c": 0.1},
    }
    now = {
        **{"overall tau_c": 0.2006, "overall tau_b": 0.1996, "fluency of text spearman": 0.25},
        **{"a tau_c": 0.25, "c tau_c": 0.1},
    }
    assert correlation_differences(before, now, "bleu_1", "why") == [
        Difference("correlations", ("bleu_1",), "overall τ_c", "20.000", "20.060", "+0.06", "why"),
        Difference(
            "correlations", ("bleu_1",), "fluency of text ρ", "50.000", "25.000", "-25", "why"
        ),
        Difference("correlations", ("bleu_1",), "a τ_c", "–", "25.000", "", "why"),
        difference_in_one("correlations", ("bleu_1",), "b τ_c", is_in_old=True, cause="why"),
        difference_in_one("correlations", ("bleu_1",), "c τ_c", is_in_old=False, cause="why"),
    ]


def test_where_mean_and_spread_stay_the_part_that_moved_most_is_named() -> None:
    before = SimpleNamespace(parts=[0.0] * 16, mean=0.0, std=1.0, undefined=0, items=32)
    now = SimpleNamespace(**{**vars(before), "parts": [0.1, 0.0, 0.0, -0.2, 0.1, *[0.0] * 11]})

    def baseline(figures: SimpleNamespace) -> Any:
        return SimpleNamespace(tolerance=1e-6, sample={}, metrics={"m": figures}, data={})

    measured: Any = SimpleNamespace(by_metric={"m": pd.Series(dtype=float)})
    (difference,) = compare_scores(baseline(before), baseline(now), measured, "m", "the code")
    assert (
        difference.subject == "means of 3 of the 16 groups of items (parts), most that of group 4"
    )
    assert (difference.metrics, difference.before, difference.now) == (
        ("m",),
        "0",
        "-0.2",
    )
