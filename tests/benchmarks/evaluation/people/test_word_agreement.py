"""`captau agree kind=words`: the counts of Chen et al. 2015, section 4.2, and its model."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from captau.benchmarks.commands.agree import run
from captau.benchmarks.evaluation.people.word_agreement import (
    ExpectedCounts,
    SystemWordScores,
    WordUses,
    fit_k,
    model_precision,
    precision_at,
    precision_at_human_recall,
)
from captau.benchmarks.evaluation.people.word_measures import WORD_COLUMNS
from captau.benchmarks.options.analyses import AgreeOptions
from captau.benchmarks.scoring.score_store import Locations
from tests.conftest import AWKWARD, run_captau, says

#: Three people; "dog" is used by 3, 1 and 0 of them, "red" by 0, 2 and 1.
CAPTIONS = {
    "1": ("A dog.", "the dog runs", "dog dog dog"),
    "2": ("a red dog?", "a RED cat", "one cat"),
    "3": ("a bus", "the bus", "a red bus"),
}


def of_pattern(pattern: np.ndarray) -> WordUses:
    """From who used one word: shape (n_images, k + 1)."""
    places = [csr_array(pattern[:, [j]].astype(float)) for j in range(pattern.shape[1])]
    return WordUses(["w"], [str(i) for i in range(len(pattern))], places)


def config(path, **options) -> AgreeOptions:
    return AgreeOptions(
        kind="words", datasets=(), references=path, locations=Locations(use_cache=False), **options
    )


@pytest.fixture
def references(tmp_path):
    path = tmp_path / "refs.json"
    path.write_text(json.dumps(CAPTIONS), encoding="utf-8")
    return path


def test_words_are_counted_once_a_caption():
    uses = WordUses.count(CAPTIONS, 3, ["red", "nobody's"])
    # a: 5 captions; dog 4; bus and red 3 each, by the alphabet.
    assert uses.words == ["a", "dog", "bus", "red"]
    dog = uses.words.index("dog")
    assert uses.counts.toarray()[:, dog].tolist() == [3, 1, 0]


def test_worked_by_hand():
    """dog: T = 3, 1, 0 of 3 people, so k = 2: tp = 3·2/3 = 2, fp = 1/3, cw = 2·4/3."""
    uses = WordUses.count(CAPTIONS, 10, [])
    every = np.ones((3, 1))
    dog, red = uses.words.index("dog"), uses.words.index("red")
    expected = ExpectedCounts.compute(uses, 2, "each")
    assert expected.precision(every)[dog, 0] == pytest.approx(2 / (2 + 1 / 3))
    assert expected.recall(every)[dog, 0] == pytest.approx(2 / (8 / 3))
    # The third caption against the first two: dog 1 of 1 with weight 2, missed in image 2; red is
    # said of image 3, where nobody else says it, and not of image 2, where two do.
    last = ExpectedCounts.compute(uses, 2, "last")
    assert last.precision(every)[dog, 0] == 1
    assert last.recall(every)[dog, 0] == pytest.approx(2 / 3)
    assert last.precision(every)[red, 0] == 0
    assert last.recall(every)[red, 0] == 0


patterns = st.integers(2, 4).flatmap(
    lambda people: st.lists(
        st.lists(st.booleans(), min_size=people, max_size=people), min_size=1, max_size=5
    )
)


@settings(max_examples=60)
@given(patterns, st.data())
def test_each_is_the_mean_over_all_choices(rows, data):
    """By the definition: every held-out caption, every choice of k others, sums of all."""
    pattern = np.array(rows)
    people = pattern.shape[1]
    k = data.draw(st.integers(1, people - 1))
    tp = fp = cw = ways = 0
    for held in range(people):
        for others in combinations([j for j in range(people) if j != held], k):
            count = pattern[:, list(others)].sum(axis=1)
            tp += count[pattern[:, held]].sum()
            fp += (count[pattern[:, held]] == 0).sum()
            cw += count.sum()
            ways += 1
    expected = ExpectedCounts.compute(of_pattern(pattern), k, "each")
    assert [m.sum() * ways for m in (expected.tp, expected.fp, expected.cw)] == pytest.approx(
        [tp, fp, cw]
    )


@settings(max_examples=60)
@given(patterns)
def test_recall_is_the_same_against_fewer_captions(rows):
    """Section 4.2: only precision falls; and with one caption the two are equal."""
    uses = of_pattern(np.array(rows))
    every = np.ones((len(rows), 1))
    recalls = [
        ExpectedCounts.compute(uses, k, "each").recall(every)[0, 0] for k in range(1, uses.k + 1)
    ]
    assert recalls == pytest.approx([recalls[0]] * uses.k, nan_ok=True)
    assert ExpectedCounts.compute(uses, 1, "each").precision(every)[0, 0] == pytest.approx(
        recalls[0], nan_ok=True
    )
    precisions = [
        ExpectedCounts.compute(uses, k, "each").precision(every)[0, 0] for k in range(1, uses.k + 1)
    ]
    assert np.isnan(precisions).all() or (np.diff(precisions) >= -1e-12).all()


def test_counting_changes_nothing():
    uses = WordUses.count(CAPTIONS, 10, [])
    before = uses.counts.toarray()
    ExpectedCounts.compute(uses, 2, "each"), ExpectedCounts.compute(uses, 1, "last")
    assert (uses.counts.toarray() == before).all()


def test_the_model_holds_for_what_is_drawn_from_it():
    """p and q are found again, and precision is the model's: equations of section 4.2."""
    rng = np.random.default_rng(1)
    p, q, k, n = 0.3, 0.2, 4, 200_000
    there = rng.random(n) < q
    uses = of_pattern(there[:, None] & (rng.random((n, k + 1)) < p))
    every = np.ones((n, 1))
    for fewer in (1, 2, k):
        expected = ExpectedCounts.compute(uses, fewer, "each")
        recall, precision = expected.recall(every)[0, 0], expected.precision(every)[0, 0]
        assert recall == pytest.approx(p, abs=0.005)
        assert precision == pytest.approx(model_precision(np.array(p), fewer), abs=0.006)
    assert expected.cw.sum() / (n * k * recall) == pytest.approx(q, abs=0.004)


def test_model_curve_and_fit():
    p = np.linspace(0.02, 0.98, 40)
    assert model_precision(np.array([0.0, 0.5, 1.0]), 4).tolist() == [0, 2 / (2 + 0.5**4), 1]
    assert model_precision(p, 1) == pytest.approx(p)
    for k in (0.5, 1.0, 2.5, 4.0, 39.0):
        assert fit_k(model_precision(p, k), p) == pytest.approx(k, rel=1e-4)
    assert fit_k(np.append(model_precision(p, 3), np.nan), np.append(p, 0.5)) == pytest.approx(3)
    assert np.isnan(fit_k(np.array([np.nan]), np.array([0.5])))
    # No k is large, or small, enough for these.
    assert fit_k(np.array([1.0]), np.array([0.1])) == pytest.approx(100, rel=1e-4)
    assert fit_k(np.array([0.0]), np.array([0.9])) == pytest.approx(0.01, rel=1e-4)


def test_precision_at_recall_by_hand():
    # Kept in turn: gain 2, then the two of equal score with gain 1 and loss 1, then gain 1.
    scores, gain = np.array([0.9, 0.5, 0.5, 0.1]), np.array([2.0, 1.0, 0.0, 1.0])
    loss = np.array([0.0, 0.0, 1.0, 0.0])
    assert precision_at(scores, gain, loss, 0.5) == 1
    assert precision_at(scores, gain, loss, 0.51) == 3 / 4
    assert precision_at(scores, gain, loss, 0.75) == 3 / 4
    assert precision_at(scores, gain, loss, 1.0) == 4 / 5


def test_a_system_that_knows_beats_people(references, tmp_path):
    """Scores that are the counts themselves: precision 1 but for what a lone user costs."""
    uses = WordUses.count(CAPTIONS, 10, [])
    rows = [
        {"image_id": i, "word": w, "score": float(uses.counts.toarray()[n, j])}
        for j, w in enumerate(uses.words)
        for n, i in enumerate(uses.image_ids)
    ]
    path = tmp_path / "scores.csv"
    pd.DataFrame([*rows, *({**r, "word": "zebra"} for r in rows[:3])]).to_csv(path, index=False)
    result = run(config(references, scores=path))
    found = result.frames["words.csv"].set_index("word")
    assert list(result.frames["words.csv"].columns) == list(WORD_COLUMNS)
    # dog: recall 3/4, reached with image 1 alone, 2 of 8/3.
    assert found.loc["dog", "precision_at_human_recall"] == 1
    known = found[found["recall"] > 0]
    assert (known["precision_at_human_recall"] >= known["precision"]).all()
    never = found[found["recall"] == 0]
    assert len(never)
    assert never["precision_at_human_recall"].isna().all()
    assert (never["note"] == "undefined: people never agree on the word").all()
    summary = result.frames["agreement.csv"].set_index("measure").loc["precision_at_human_recall"]
    assert summary["value"] == pytest.approx(known["precision_at_human_recall"].mean())
    assert "1 word of the scores that nobody uses left out" in summary["note"]


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (["1,dog,1", "2,dog,1"], ["'dog' has no score for image '3'"]),
        (["1,dog,1", "2,dog,1", "1,dog,2"], [":4", "a second score of 'dog' for image '1'"]),
        (["1,dog,1", "7,dog,1"], [":3", "image '7' is none of the 3 images"]),
        (["1,dog,much"], [":2", "score is 'much', not a number"]),
        (["1,dog,nan"], [":2", "not a number"]),
        (["1,,1"], [":2", "word is empty"]),
    ],
)
def test_bad_scores(tmp_path, rows, parts):
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["image_id,word,score", *rows]) + "\n")
    with says(str(path), *parts):
        SystemWordScores.read(path, ["1", "2", "3"])


def test_awkward_captions(tmp_path):
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({str(i): [t, "a dog"] for i, t in enumerate(AWKWARD)}))
    words = run(config(path)).frames["words.csv"].set_index("word")
    assert words.loc["dog", "n_images"] == len(AWKWARD)
    assert words[["precision", "recall"]].stack().between(0, 1).all()


def test_files_and_figure(tmp_path):
    folder = tmp_path / "out"
    assert not run_captau("agree", "kind=words", "words.label=[star,red]", f"output_dir={folder}")
    names = {p.name for p in folder.iterdir() if p.is_file()}
    assert names == {
        *("agreement.csv", "words.csv", "table.md", "table.tex", "run.json"),
        *("word_agreement.svg", "word_agreement.png"),
    }
    assert (folder / "word_agreement.png").read_bytes().startswith(b"\x89PNG")
    table = (folder / "table.md").read_text(encoding="utf-8")
    for label in ("people's precision, k = 1", "people's recall", "the model's best k"):
        assert f"| {label} |" in table
    agreement = pd.read_csv(folder / "agreement.csv").set_index("measure")
    frame = pd.read_csv(folder / "words.csv")
    assert agreement.loc["human_recall", "value"] == pytest.approx(frame["recall"].mean())
    for what in ("precision", "recall"):
        known = frame.dropna(subset=[f"{what}_low"])
        assert (known[f"{what}_low"] <= known[what] + 1e-12).all()
        assert (known[f"{what}_high"] >= known[what] - 1e-12).all()


def test_a_word_that_nobody_uses(references):
    with says("words.label: no caption of refs has the word 'zebra'"):
        run(config(references, label=("zebra",)))


def test_what_the_paper_says_of_coco(data_root):
    """Section 4.2 and Figure 3, on 5,000 of its images with k = 4."""
    path = data_root / "coco" / "karpathy_test_references.json"
    result = run(config(path))
    words = result.frames["words.csv"].set_index("word")
    assert len(words) == 1000
    assert (words["k"] == 4).all()
    # "Nouns like elephant and tennis have large p"; "an adjective like bright … low recall".
    assert words.loc[["elephant", "tennis"], "recall"].min() > 0.85
    assert words.loc["bright", "recall"] < 0.05
    # "words with high recall also have high precision", on a curve that the model explains.
    assert words["recall"].corr(words["precision"], method="spearman") > 0.98
    summary = result.frames["agreement.csv"].set_index("measure")["value"]
    assert summary["model_error"] < 0.05
    # "remain at the same recall value, but decrease in their precision"
    recalls = [summary[f"human_recall{of}"] for of in ("_k1", "_k2", "_k3", "")]
    assert recalls == pytest.approx([recalls[0]] * 4)
    precisions = [summary[f"human_precision{of}"] for of in ("_k1", "_k2", "_k3", "")]
    assert precisions == sorted(precisions)


@pytest.mark.parametrize(
    ("held_out", "expected"),
    [
        # dog: gains 2 T / 3 of 3, 1 and 0 users, losses 0, 1/3 and 1; half of 8/3 is reached with image 1 alone,
        # 0.8 of it with image 2. The scores of red are those of images 3, 1 and 2 in turn.
        (
            "each",
            {"dog": 1.0, "red": (2 / 3 + 4 / 3) / (2 / 3 + 4 / 3 + 1 / 3 + 1 + 0), "cat": None},
        ),
        # The first two captions alone: dog 2, 1 and 0 of them, red 0, 2 and 0.
        ("last", {"dog": 1.0, "red": 2 / (2 + 2), "cat": None}),
    ],
)
def test_a_systems_precision_is_that_where_it_reaches_peoples_recall(tmp_path, held_out, expected):
    uses = WordUses.count(CAPTIONS, 10, [])
    by_word = {"dog": [3.0, 2.0, 1.0], "red": [0.75, 0.5, 1.0], "cat": [1.0, 2.0, 3.0]}
    scores = SystemWordScores(tmp_path, {word: np.array(v) for word, v in by_word.items()})
    recall = np.array([{"dog": 0.5, "red": 1.0, "cat": 0.0}.get(word, 0.5) for word in uses.words])
    values, notes = precision_at_human_recall(scores, uses, held_out, recall)
    found = dict(zip(uses.words, zip(values.tolist(), notes, strict=True), strict=True))
    for word, value in expected.items():
        if value is None:
            assert np.isnan(found[word][0])
            assert found[word][1] == "undefined: people never agree on the word"
        else:
            assert found[word] == (pytest.approx(value), "")
    assert all(
        np.isnan(value) and not note
        for word, (value, note) in found.items()
        if word not in expected
    )
