"""Curves, drawn references, sizes and the power of a difference on small data: worked by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.prepared_datasets import PreparedDataset
from captau.benchmarks.evaluation.sensitivity_analysis import (
    SensitivityAnalysis,
    draw_references,
    find_duplicates,
    make_curve_point,
)
from captau.benchmarks.runs.tables import count_of
from captau.benchmarks.scoring.protocol import CHOICES, Protocol
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from tests.conftest import says

NAN = math.nan


@pytest.mark.parametrize(
    ("drawn", "reason", "note", "expected"),
    [
        ([1.0, 3.0], "", "n", (2.0, 1.05, 2.95, 2, "n")),
        ([1.0], "", "", (1.0, NAN, NAN, 1, "")),
        ([1.0, NAN, 3.0], "why", "n", (2.0, 1.05, 2.95, 3, "undefined in 1 of 3 draws: why; n")),
        ([1.0, NAN], "", "", (1.0, NAN, NAN, 2, "undefined in 1 of 2 draws")),
        ([NAN, NAN], "why", "n", (NAN, NAN, NAN, 2, "undefined: why; n")),
    ],
)
def test_a_point_is_the_mean_and_the_band_of_its_draws(
    drawn: list[float], reason: str, note: str, expected: tuple[Any, ...]
) -> None:
    point = make_curve_point(np.array(drawn), reason, note)
    assert list(point) == ["value", "low", "high", "draws", "note"]
    np.testing.assert_allclose(list(point.values())[:3], expected[:3])
    assert (point["draws"], point["note"]) == expected[3:]


def test_all_captions_of_an_image_have_the_references_that_were_drawn() -> None:
    items = make_items(
        ["1", "1", "2", "3"], ["a", "b", "c", "d"],
        [("p", "q", "r"), ("p", "q", "r"), ("s",), ("t", "u", "v", "w")],
    )  # fmt: skip
    drawn = draw_references(items, 2, np.random.default_rng(0))["references"].tolist()
    assert drawn[0] == drawn[1]
    assert [len(texts) for texts in drawn] == [2, 2, 1, 2]
    assert drawn[2] == ("s",)
    assert list(drawn[0]) == sorted(drawn[0])  # in their order
    assert list(drawn[3]) == sorted(drawn[3])
    whole = draw_references(items, 4, np.random.default_rng(0))["references"].tolist()
    assert whole == items["references"].tolist()


def test_duplicates_repeat_a_reference_or_an_earlier_caption_of_the_image() -> None:
    items = make_items(
        ["1", "1", "1", "2", "2"], ["A dog.", "a dog", "a cat", "a dog", "P q!"],
        [("p q",)] * 5, systems=list("abcab"),
    )  # fmt: skip
    assert find_duplicates(items).tolist() == [False, True, False, False, True]


def analysis(
    scores: Mapping[str, list[float]], ratings: list[list[float]], n_draws: int | None = 30
) -> SensitivityAnalysis:
    """An image with one caption for each list of ratings."""
    n = len(ratings)
    words = [["a", "b", "c", "d", "e", "f", "g", "h"][: k + 1] for k in range(n)]
    items = make_items([str(k) for k in range(n)], [" ".join(w) for w in words], [("r", "s")] * n)
    rows = [
        (item, "x", f"r{k}", value)
        for item, values in zip(items["item_id"], ratings, strict=True)
        for k, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    about = Card(*("made", "Made", "1", "none", "none", "none"), scales={"x": Scale(0, 10)})
    protocol = Protocol.resolve("made", {"dimension": "x"}, {"ratings": "mean"})
    selection = EvaluationSet.select(CaptionSet(items, ratings=frame, card=about), protocol)
    by_item = {m: pd.Series(v, index=items["item_id"]) for m, v in scores.items()}
    prepared = SimpleNamespace(
        selection=selection,
        name="made",
        metrics=list(scores),
        coefficients=["pearson"],
        scores=lambda *_: by_item,
    )
    return SensitivityAnalysis(cast(PreparedDataset, prepared), 3, n_draws)


SCORES = {"m": [1.0, 2.0, 4.0, 3.0], "n": [2.0, 1.0, 1.5, 4.0]}
RATINGS = [[1.0], [2.0], [3.0], [4.0]]


def test_sizes_are_parts_of_the_number_of_images() -> None:
    made = analysis(SCORES, RATINGS)
    assert sorted({row["size"] for row in made.rows("images")}) == [2, 4, 8]
    one = analysis({"m": [1.0]}, RATINGS[:1])
    with says(
        "dataset made: too few images with judgements (1); kind=images draws images and needs"
    ):
        one.rows("images")


def test_the_least_difference_is_z_of_test_and_power_times_the_error() -> None:
    """z of 0.975 is 1.959964 and of 0.8 is 0.841621."""
    made = analysis(SCORES, RATINGS, 200)
    rows = made.rows("power")
    assert [(r["size"], r["metric"], r["other"]) for r in rows] == [
        (size, "m", "n") for size in (2, 4, 8)
    ]
    points = made.selection.points("x")
    m, n = (np.corrcoef(SCORES[name], [1, 2, 3, 4])[0, 1] for name in "mn")
    drawn = made._resample(made.prepared.scores(), points, 8)
    differences = drawn["m"][0] - drawn["n"][0]
    row = rows[2]
    assert row["difference"] == pytest.approx(m - n)
    assert (row["kind"], row["dimension"], row["coefficient"], row["draws"]) == (
        "power", "x", "pearson", 200,
    )  # fmt: skip
    error = np.std(differences, ddof=1)
    assert row["value"] == pytest.approx(2.801585 * error, rel=1e-6)
    assert row["power"] == np.mean(np.abs(differences) > 1.959964 * error)
    assert row["note"] == ""
    assert math.isnan(rows[0]["power"])  # two draws of one image
    assert math.isnan(rows[0]["value"])
    assert rows[0]["note"] != ""
    with says("dataset made: kind=power compares metrics; name two at least"):
        analysis({"m": SCORES["m"]}, RATINGS).rows("power")


def test_raters_need_two_ratings_and_complete_items() -> None:
    with says("dataset made: most items have one rating of x; kind=raters needs two"):
        analysis(SCORES, RATINGS).rows("raters")


NAMES = ("dataset", "protocol", "dimension", "kind", "metric", "coefficient", "size")


def correlation(x: Any, y: Any, weights: Any) -> float:
    """Pearson's r of points that stand there as often as their weight says."""
    x, y = (np.repeat(side, np.asarray(weights, dtype=int)) for side in (x, y))
    with np.errstate(all="ignore"):
        return float(np.corrcoef(x, y)[0, 1])


def test_a_curve_over_images_is_of_resampled_images() -> None:
    made = analysis({"m": SCORES["m"], "flat": [1.0] * 4}, RATINGS, 40)
    rows = made.rows("images")
    assert [tuple(row[name] for name in NAMES) for row in rows] == [
        ("made", "usual ratings=mean", "x", "images", metric, "pearson", size)
        for size in (2, 4, 8)
        for metric in ("m", "flat")
    ]
    for row in rows[::2]:
        rng = np.random.default_rng([3, row["size"]])
        drawn = rng.multinomial(row["size"], [1 / 4] * 4, 40)
        values = np.array([correlation(SCORES["m"], [1, 2, 3, 4], w) for w in drawn])
        defined = values[~np.isnan(values)]
        assert row["value"] == pytest.approx(defined.mean())
        assert [row["low"], row["high"]] == pytest.approx(np.quantile(defined, [0.025, 0.975]))
        n_undefined = 40 - len(defined)
        note = f"undefined in {n_undefined} of 40 draws" if n_undefined else ""
        assert (row["draws"], row["note"]) == (40, note)
    for row in rows[1::2]:
        assert math.isnan(row["value"])
        assert (row["draws"], row["note"]) == (40, "undefined: all scores are equal")
    assert {row["draws"] for row in analysis({"m": SCORES["m"]}, RATINGS, None).images()} == {1000}


class Steps:
    """A progress bar that notes its steps."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        self.labels.append(label)
        yield


def with_steps(made: SensitivityAnalysis, **changes: Any) -> tuple[SensitivityAnalysis, Steps]:
    steps = Steps()
    prepared = SimpleNamespace(**{**vars(made.prepared), "progress": steps, **changes})
    return replace(made, prepared=cast(PreparedDataset, prepared)), steps


def test_a_curve_over_raters_is_of_the_items_that_have_them_all() -> None:
    """The last item has one rating of the usual two; with both, nothing is drawn, and the means are 1, 2, 3."""
    ratings = [[0.0, 2.0], [2.0, 2.0], [4.0, 2.0], [9.0]]
    made, steps = with_steps(analysis({"m": [1.0, 2.0, 4.0, 3.0]}, ratings, 20))
    one, two = made.rows("raters")
    assert [tuple(row[name] for name in NAMES) for row in (one, two)] == [
        ("made", "usual ratings=mean", "x", "raters", "m", "pearson", size) for size in (1, 2)
    ]
    assert two["value"] == pytest.approx(correlation([1, 2, 4], [1, 2, 3], [1, 1, 1]))
    assert (two["draws"], one["draws"]) == (1, 20)
    note = "1 items left out, with fewer than 2 ratings"
    assert two["note"] == note
    # Drawn one by one: 0 or 2 of the first, 4 or 2 of the third; two of four times the points are 2 in a row.
    cases = [correlation([1, 2, 4], [a, 2, b], [1] * 3) for a in (0, 2) for b in (4, 2)]
    defined = [value for value in cases if not math.isnan(value)]
    assert min(defined) - 1e-9 <= one["low"] < one["high"] <= max(defined) + 1e-9
    assert one["note"].startswith("undefined in ")
    assert one["note"].endswith(f" of 20 draws: all ratings are equal; {note}")
    assert steps.labels == [
        *(f"made: 1 of 2 raters, draw {n} of 20" for n in range(1, 21)),
        "made: 2 of 2 raters, draw 1 of 1",
    ]
    again = with_steps(analysis({"m": [1.0, 2.0, 4.0, 3.0]}, ratings, 20))[0].rows("raters")
    np.testing.assert_equal(again, [one, two])


def test_where_some_items_have_more_ratings_than_usual_all_sizes_are_drawn() -> None:
    ratings = [[0.0, 1.0, 5.0], [2.0, 3.0], [4.0, 5.0]]
    made, steps = with_steps(analysis({"m": [1.0, 2.0, 4.0]}, ratings, None))
    rows = made.rows("raters")
    assert [(row["size"], row["draws"], row["note"]) for row in rows] == [(1, 50, ""), (2, 50, "")]
    assert len(steps.labels) == 100
    assert steps.labels[-1] == "made: 2 of 2 raters, draw 50 of 50"


def test_a_curve_over_references_scores_each_draw() -> None:
    """The metric counts the letters of its references: with all three of them it is as the ratings are."""
    made = analysis({"m": [0.0] * 3}, [[1.0], [2.0], [4.0]], 3)
    items = made.selection.items.assign(
        references=pd.Series(
            [("a", "bb", "c"), ("aaaaa", "b"), ("aa", "bbbb", "ccc")], dtype=object
        )
    )
    calls: list[list[int]] = []

    def score(selection: EvaluationSet | None = None, metrics: Any = None) -> dict[str, pd.Series]:
        chosen = made.selection if selection is None else selection
        assert metrics == [reference_based]
        texts = chosen.items["references"]
        calls.append([len(t) for t in texts])
        return {"m": pd.Series([float(len("".join(t))) for t in texts], chosen.items["item_id"])}

    reference_based, free = (SimpleNamespace(needs=frozenset(n)) for n in (["references"], []))
    chosen = made.selection.with_items(items)
    made, steps = with_steps(made, selection=chosen, scores=score, metrics=[free, reference_based])
    rows = made.rows("references")
    assert [(row["size"], row["draws"]) for row in rows] == [(1, 3), (2, 3), (3, 1)]
    assert calls == [[1, 1, 1]] * 3 + [[2, 2, 2]] * 3 + [[3, 2, 3]]
    assert {row["note"] for row in rows} == {"1 items have fewer than 3 references"}
    assert rows[2]["value"] == pytest.approx(correlation([4, 6, 9], [1, 2, 4], [1] * 3))
    assert {(row["kind"], row["metric"], row["dimension"]) for row in rows} == {
        ("references", "m", "x")
    }
    assert steps.labels[0] == "made: 1 of 3 references, draw 1 of 3"
    assert steps.labels[-1] == "made: 3 of 3 references, draw 1 of 1"
    usual, steps = with_steps(replace(made, n_draws=None))
    assert [row["draws"] for row in usual.rows("references")] == [5, 5, 1]
    without, _ = with_steps(made, metrics=[free])
    with says("dataset made: kind=references: none of the metrics uses references"):
        without.rows("references")
    single = items.assign(references=pd.Series([("a",)] * 3, dtype=object))
    alone, _ = with_steps(made, selection=chosen.with_items(single))
    with says("dataset made: no item has two references; kind=references needs them"):
        alone.rows("references")


def test_bands_of_captions_have_their_own_coefficients() -> None:
    """Eight captions of 1 to 8 words: bands of two; then one image alone is a band without an interval."""
    scores = [1.0, 2.0, 2.0, 1.0, 5.0, 6.0, 0.0, 3.0]
    made = analysis({"m": scores}, [[float(n)] for n in (1, 2, 3, 4, 5, 7, 8, 9)], 16)
    rows = made.rows("length")
    assert [tuple(row[name] for name in NAMES) for row in rows] == [
        ("made", "usual ratings=mean", "x", "length", "m", "pearson", size) for size in (2, 4, 6, 8)
    ]
    assert [row["other"] for row in rows] == ["1–2 words", "3–4 words", "5–6 words", "7–8 words"]
    assert [row["value"] for row in rows] == pytest.approx([1.0, -1.0, 1.0, 1.0])
    for row in rows:
        drawn = np.random.default_rng([3, 2]).multinomial(2, [0.5] * 2, 16)
        n_undefined = int((drawn != 1).all(axis=1).sum())
        assert row["draws"] == 16
        assert row["note"] == (
            f"undefined in {n_undefined} of 16 draws; {row['other']}: 2 judgements of 2 images"
        )
        assert row["low"] == row["high"] == pytest.approx(row["value"])
    one = analysis({"m": [1.0, 2.0]}, [[1.0, 3.0], [2.0, 4.0]], 16).rows("length")
    assert [row["other"] for row in one] == ["1 words", "2 words"]
    for row in one:
        assert math.isnan(row["value"])
        assert math.isnan(row["low"])
        assert math.isnan(row["high"])


def test_a_band_of_one_image_has_no_interval() -> None:
    """Image 1 has both captions of one word, image 2 both of two words."""
    items = make_items(["1", "1", "2", "2"], ["a", "b", "a b", "b a"], [("r",)] * 4)
    ratings = pd.DataFrame(
        {"item_id": items["item_id"], "dimension": "x", "rater": "r", "value": [1.0, 2, 3, 4]}
    )
    about = Card(*("made", "Made", "1", "", "", ""), scales={"x": Scale(0, 10)})
    protocol = Protocol.resolve("made", {"dimension": "x"}, {})
    selection = EvaluationSet.select(CaptionSet(items, ratings=ratings, card=about), protocol)
    made = analysis({"m": [0.0, 1.0]}, RATINGS[:2], 16)
    scores = {"m": pd.Series([1.0, 2.0, 4.0, 3.0], index=items["item_id"])}
    prepared = {**vars(made.prepared), "selection": selection, "scores": lambda *_: scores}
    made = replace(made, prepared=cast(PreparedDataset, SimpleNamespace(**prepared)))
    rows = made.rows("length")
    assert [row["value"] for row in rows] == pytest.approx([1.0, -1.0])
    assert [(math.isnan(row["low"]), math.isnan(row["high"])) for row in rows] == [(True, True)] * 2
    assert [row["note"] for row in rows] == [f"{n} words: 2 judgements of 1 image" for n in (1, 2)]


def made_of(
    texts: list[str], references: list[tuple[str, ...]], n_ratings: int
) -> SensitivityAnalysis:
    """Captions of one image each; the metric counts their words, and ratings are 1, 2, 3 …"""
    items = make_items([str(n // 2) for n in range(len(texts))], texts, references)
    rows = [
        (item, "x", f"r{k}", float(n + k))
        for n, item in enumerate(items["item_id"])
        for k in range(n_ratings)
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    about = Card(*("made", "Made", "1", "", "", ""), scales={"x": Scale(0, 10)})
    protocol = Protocol.resolve("made", {"dimension": "x"}, {})
    selection = EvaluationSet.select(CaptionSet(items, ratings=frame, card=about), protocol)

    def score(chosen: EvaluationSet | None = None, *_: Any) -> dict[str, pd.Series]:
        table = (selection if chosen is None else chosen).items
        counts = {
            "words": [float(len(c.split())) for c in table["caption"]],
            "refs": [float(len("".join(r))) for r in table["references"]],
            "flat": [1.0] * len(table),
        }
        return {name: pd.Series(v, index=table["item_id"]) for name, v in counts.items()}

    prepared = SimpleNamespace(
        selection=selection, name="made", metrics=["words"], coefficients=["tau_c"], scores=score
    )
    return SensitivityAnalysis(cast(PreparedDataset, prepared), 3, 5)


TEXTS = ["a dog", "a dog runs", "u v w x", "A dog!", "q", "u v w x y"]
REFERENCES = [("A dog.", "rr"), ("A dog.", "rr"), ("u",), ("u",), ("q",), ("q",)]


def test_protocols_are_every_sensible_combination() -> None:
    """Captions 1 and 5 of 6 are copies, the latter of its only reference; none is written twice of an image."""
    made = made_of(TEXTS, REFERENCES, 1)
    rows = made.rows("protocols")
    single, left_out = ", own_references=drop", ", own_references=leave_out"
    references = list(CHOICES["references"].allowed())
    names = [
        f"per_rating, {reference}{' k=1' if reference == 'first_k' else ''}{suffix}"
        for suffix in ("", single, left_out)
        for reference in references
    ]
    assert list(dict.fromkeys(row["protocol"] for row in rows)) == names
    coefficients = ["tau_c", "tau_b", "spearman", "pearson"]
    assert len(rows) == len(names) * 4 * 3
    assert [(r["coefficient"], r["metric"]) for r in rows[:12]] == [
        (c, m) for c in coefficients for m in ("words", "refs", "flat")
    ]
    by_name = {name: [r for r in rows if r["protocol"] == name] for name in names}
    assert {r["size"] for r in by_name["per_rating, all"]} == {6}
    assert {r["size"] for r in by_name[f"per_rating, all{single}"]} == {4}
    assert {r["note"] for r in by_name["per_rating, all"] if r["metric"] != "flat"} == {""}
    assert {r["note"] for r in by_name["per_rating, all"] if r["metric"] == "flat"} == {
        "undefined: all scores are equal"
    }
    assert {r["note"] for r in by_name[f"per_rating, all{single}"] if r["metric"] == "words"} == {
        "2 copies of references left out"
    }
    assert {r["note"] for r in by_name[f"per_rating, all{left_out}"] if r["metric"] == "words"} == {
        "2 copies of references scored without these, but for 1 left out that have no other"
    }
    first = {r["metric"]: r for r in by_name["per_rating, all"] if r["coefficient"] == "pearson"}
    n_words = [len(text.split()) for text in TEXTS]
    n_letters = [len("".join(texts)) for texts in REFERENCES]
    expected = [np.corrcoef(side, range(6))[0, 1] for side in (n_words, n_letters)]
    assert [first[m]["value"] for m in ("words", "refs")] == pytest.approx(expected)
    assert [first[m]["rank"] for m in ("words", "refs")] == [1.0, 2.0]
    assert math.isnan(first["flat"]["rank"])
    assert (first["words"]["dataset"], first["words"]["kind"]) == ("made", "protocols")


def test_ratings_are_combined_where_items_have_several() -> None:
    rows = made_of(["a", "a b", "a b c"], [("r",)] * 3, 2).rows("protocols")
    ratings = CHOICES["ratings"].allowed()
    assert list(dict.fromkeys(row["protocol"] for row in rows)) == [f"{r}, all" for r in ratings]
    sizes = {row["protocol"]: row["size"] for row in rows}
    assert sizes["per_rating, all"] == 6
    assert sizes["mean, all"] == 3


def test_duplicates_are_left_out_where_they_are_more_than_copies() -> None:
    """Of an image with one caption three times, in other signs, two are duplicates; none is a copy."""
    texts = ["a b", "A b!", "c", "d e f", "g h i j", "g, h i j"]
    rows = made_of(texts, [("r",)] * 6, 1).rows("protocols")
    usual, without = "per_rating, all", "per_rating, all, without duplicates"
    assert list(dict.fromkeys(row["protocol"] for row in rows)) == [usual, without]
    assert {r["size"] for r in rows if r["protocol"] == without} == {4}
    notes = {r["note"] for r in rows if r["protocol"] == without and r["metric"] == "words"}
    assert notes == {"2 duplicates left out"}
    value = next(
        r["value"]
        for r in rows
        if (r["protocol"], r["metric"], r["coefficient"]) == (without, "words", "pearson")
    )
    assert value == pytest.approx(np.corrcoef([2, 1, 3, 4], [0, 2, 3, 4])[0, 1])


def test_a_dataset_without_copies_and_duplicates_has_one_variant() -> None:
    rows = made_of(["a", "a b", "a b c"], [("r",)] * 3, 1).rows("protocols")
    assert {row["protocol"] for row in rows} == {"per_rating, all"}
    copies = made_of(["r", "R.", "r!"], [("r",)] * 3, 1).rows("protocols")
    assert {row["protocol"] for row in copies} == {"per_rating, all"}


def test_bands_of_pairs_have_the_accuracies_of_their_answers() -> None:
    """The metric counts words; of pairs one or three words apart people prefer the longer, or the shorter, caption."""
    lengths = [1, 2, 3, 1, 4, 5, 8, 2]
    items = make_items(
        [str(n // 2) for n in range(8)], [" ".join(["w"] * n) for n in lengths], [("r",)] * 8
    )
    ids = items["item_id"].tolist()
    rows = [
        ("p0", ids[1], ids[0], "fit", 1.0),
        ("p1", ids[2], ids[3], "fit", -1.0),
        ("p2", ids[5], ids[4], "fit", 1.0),
        ("p3", ids[7], ids[6], "fit", 1.0),
    ]
    captions = CaptionSet(
        items, preferences=make_preferences(rows), card=Card(*("made", "Made", "1", "", "", ""))
    )
    protocol = Protocol.resolve("made", {}, {"coefficients": ["accuracy"]})
    selection = EvaluationSet.select(captions, protocol)
    scores = {"m": pd.Series([float(n) for n in lengths], index=ids)}
    prepared = SimpleNamespace(
        selection=selection, name="made", metrics=["m"], coefficients=[], scores=lambda *_: scores
    )
    made = SensitivityAnalysis(cast(PreparedDataset, prepared), 3, 8)
    found = made.rows("length")
    assert [(r["other"], r["size"], r["metric"], r["value"]) for r in found] == [
        (f"{n} words apart", n, metric, value)
        for n, value in ((1, 1.0), (2, 0.0), (6, 0.0))
        for metric in ("m", "floor_length")
    ]
    for row in found:
        n_answers = 2 if row["size"] == 1 else 1
        assert (row["dimension"], row["coefficient"], row["kind"]) == ("fit", "accuracy", "length")
        assert row["note"] == (
            f"{row['other']}: {count_of(n_answers, 'answer')} about pairs of {count_of(n_answers, 'image')}"
        )
        assert row["draws"] == 8
        assert row["low"] == row["high"] == row["value"]
    default = replace(made, n_draws=None).rows("length")
    assert {row["draws"] for row in default} == {1000}
