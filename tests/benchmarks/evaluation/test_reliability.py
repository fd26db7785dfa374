"""The reliability of metrics beside a user's captions: worked by hand."""

from __future__ import annotations

import pytest

from captau.benchmarks.evaluation.reliability import (
    OUTSIDE,
    UNKNOWN,
    MetricReliability,
    Reliability,
    reliability_notes,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Reliability("tau_c", 0.4567, "d", "s"), "τ_c 45.7 on d"),
        (Reliability("tau_c", 0.4567, "d", "s", low=0.4, high=0.5), "τ_c 45.7 ± 5.0 on d"),
        (Reliability("tau_c", -0.1, "d", "s", high=0.0), "τ_c -10.0 ± – on d"),
        (
            Reliability("accuracy", 0.75, "d (x)", "s", has_range=False),
            "acc. 75.0 on d (x), range not known",
        ),
        (
            Reliability("pairwise_accuracy", 0.9, "d (x)", "s", n_systems=5),
            "same order 90.0 on d (x), 5 systems",
        ),
    ],
)
def test_a_reliability_in_words(number: Reliability, text: str) -> None:
    assert str(number) == text


def test_a_reliability_is_recorded_with_all_it_says() -> None:
    number = Reliability("tau_c", 0.5, "d", "s", "c", 0.25, 0.75, "r")
    assert number.record() == {
        "coefficient": "tau_c",
        "value": 0.5,
        "on": "d",
        "source": "s",
        "citation": "c",
        "low": 0.25,
        "high": 0.75,
        "captions": "r",
        "has_range": True,
        "n_systems": None,
    }


def test_what_there_is_of_some_metrics() -> None:
    one, two = Reliability("tau_c", 0.5, "d", "s"), Reliability("tau_c", 0.25, "d", "s")
    found = MetricReliability({"a": one, "b": two}, {"c": "long", "d": "short"})
    assert [found.cell(spec) for spec in "abcx"] == [
        "τ_c 50.0 on d",
        "τ_c 25.0 on d",
        OUTSIDE,
        UNKNOWN,
    ]
    assert found.select(["b", "c"]) == MetricReliability({"b": two}, {"c": "long"})
    assert found.select([]) == MetricReliability()


def test_notes_name_sources_captions_and_what_is_missing() -> None:
    reliability = MetricReliability(
        {
            "a": Reliability("tau_c", 0.5, "d", "paper 1", captions="of 1 word"),
            "b": Reliability("tau_c", 0.5, "d", "paper 2", captions="of 1 word"),
            "c": Reliability("tau_c", 0.5, "e", "paper 1", captions="of 2 words"),
        },
        {"f": "have 9 words (d)", "g": "have 9 words (d)", "h": "are long (e)"},
    )
    labels = {spec: spec.upper() for spec in "abcfghx"}
    bench = "run captau bench dataset=NAME output_dir=DIR on {}, and give trust=DIR here."
    alike = bench.format("rated captions that are like yours")
    told = [
        "d: of 1 word.",
        "e: of 2 words.",
        f"none for such captions, F, G: your captions have 9 words (d). To measure the agreement, {alike}",
        f"none for such captions, H: your captions are long (e). To measure the agreement, {alike}",
    ]
    head = "agreement with people: correlations ×100 of captions' scores with people's ratings, not of these captions but as"
    sources = "(A, C: paper 1; B: paper 2)."
    rated = bench.format("a dataset with ratings")
    assert list(reliability_notes("published", reliability, labels)) == [
        f"{head} published {sources}",
        *told,
        f"not known: no published number is known. To measure it, {rated}",
    ]
    assert list(reliability_notes("a/run", reliability, labels)) == [
        f"{head} measured {sources}",
        *told,
        "not known: not in the run a/run.",
    ]
    # In brief all of it is one line, with the first of the reasons.
    briefs = [note.brief for note in reliability_notes("published", reliability, labels)]
    assert briefs == [
        "agreement with people: correlations ×100 on the captions of d and e, not on yours. none for such captions: your "
        "captions have 9 words (d). not known: not measured yet; trust= takes a run of captau bench.",
        *[""] * (len(briefs) - 1),
    ]
    del labels["x"]
    assert list(reliability_notes("a/run", reliability, labels)) == [
        f"{head} measured {sources}",
        *told,
    ]
    assert list(reliability_notes("a/run", MetricReliability(), {})) == []


def test_a_share_of_pairs_of_systems_is_called_no_correlation() -> None:
    number = Reliability("pairwise_accuracy", 0.7, "d", "run r", captions="of 1 word", n_systems=5)
    share = "agreement with people: the share (%) of pairs of systems that a metric puts in people's order"
    notes = list(reliability_notes("r", MetricReliability({"a": number}), {"a": "A"}))
    assert notes[0] == f"{share}, not of yours but as measured (A: run r)."
    assert notes[0].brief == f"{share}, on d, 5 systems, not on yours."
