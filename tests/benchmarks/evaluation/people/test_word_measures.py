"""Agreement on words by part of speech, as Figure 3 of Chen et al. 2015 divides them."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.commands.agree import run
from captau.benchmarks.evaluation.people import word_measures
from captau.benchmarks.evaluation.people.held_out_captions import ImageCaptions
from captau.benchmarks.evaluation.people.word_agreement import WordUses
from captau.benchmarks.evaluation.people.word_measures import (
    N_EXAMPLES,
    WORD_COLUMNS,
    WordMeasures,
    find_parts,
    measure_words,
    part_rows,
    select_examples,
    summary_rows,
    summary_table,
    word_table,
)
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.metrics.text.tokens import ptb
from tests.benchmarks.evaluation.people.test_word_agreement import CAPTIONS, config
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau, says


@pytest.fixture
def references(tmp_path):
    path = tmp_path / "refs.json"
    path.write_text(json.dumps(CAPTIONS), encoding="utf-8")
    return path


@pytest.mark.neural
def test_precision_at_human_recall_of_a_part_of_speech_is_the_mean_over_its_words(
    references, tmp_path
):
    path = tmp_path / "scores.csv"
    rows = [(i, w, float(n == 0)) for w in ("dog", "bus", "red") for n, i in enumerate(CAPTIONS)]
    pd.DataFrame(rows, columns=["image_id", "word", "score"]).to_csv(path, index=False)
    result = run(config(references, scores=path, has_parts=True))
    words = result.frames["words.csv"].set_index("word")
    parts = {"dog": "noun", "bus": "noun", "cat": "noun", "red": "adjective", "runs": "verb"}
    assert words.loc[list(parts), "part"].to_dict() == parts
    assert words.loc[["a", "the"], "part"].to_list() == ["other", "other"]
    assert len(words) == len(WordUses.count(CAPTIONS, 10, []).words)
    summary = result.frames["agreement.csv"].set_index("measure")
    nouns = words[words["part"] == "noun"]
    for name in ("recall", "precision"):
        value = summary.loc[f"human_{name}_noun", "value"]
        assert value == pytest.approx(nouns[name].mean())
    labels = [label for label, _ in lines_of(result.tables[1])]
    assert {"people's recall, noun", "precision at people's recall, noun"} <= set(labels)
    at_recall = summary.loc["precision_at_human_recall_noun"]
    of_two = nouns.loc[["dog", "bus"]]
    assert at_recall["value"] == pytest.approx(of_two["precision_at_human_recall"].mean())
    assert at_recall["note"].startswith("mean over 2 words; std over words")
    people = of_two["precision"].mean()
    assert f"people's precision on these is {people:.4f}" in at_recall["note"]
    assert "precision_at_human_recall_verb" not in summary.index  # verbs have no scores


def test_a_word_has_the_part_of_speech_that_it_has_most_often(monkeypatch):
    """By hand: "wave" is a noun and a verb once each, "run" a verb twice and a noun once; no caption has "zebra"."""
    tags = {"a wave": ["DT", "NN"], "they wave": ["PRP", "VBP"], "run run": ["VB", "VBP"]}
    tags["run"] = ["NN"]

    def tag(words):
        return list(zip(words, tags[" ".join(words)], strict=True))

    monkeypatch.setattr(word_measures, "tag_parts", tag)
    assert find_parts(tags, ["wave", "run", "a", "zebra"]) == ["noun", "verb", "other", "other"]


def test_a_part_of_speech_has_the_mean_and_deviation_over_its_words():
    """By hand: 0.2 and 0.6 have the mean 0.4 and, over n - 1, the deviation 0.2 √2; one word has none."""
    words = {
        "part": ["noun", "noun", "verb", "noun"],
        "recall": [0.2, 0.6, 0.5, float("nan")],
        "precision": [0.1, 0.3, 0.5, 0.9],
        "precision_at_human_recall": [0.4, float("nan"), float("nan"), float("nan")],
    }
    rows = {measure: row for measure, *row in part_rows(pd.DataFrame(words))}
    assert list(rows) == [
        *("human_recall_noun", "human_precision_noun", "precision_at_human_recall_noun"),
        *("human_recall_verb", "human_precision_verb"),
    ]
    assert rows["human_recall_noun"][:2] == pytest.approx([0.4, 0.2 * 2**0.5])
    assert rows["human_recall_noun"][2] == "mean over 2 words; std over words"
    assert rows["human_precision_noun"][:2] == pytest.approx([1.3 / 3, 0.41633320])
    assert rows["human_recall_verb"][0] == 0.5
    assert pd.isna(rows["human_recall_verb"][1])
    assert rows["precision_at_human_recall_noun"][2] == (
        "mean over 1 word; std over words; people's precision on these is 0.1000"
    )


def test_without_the_tagger_the_message_says_how_to_install_it(references, monkeypatch):
    monkeypatch.setitem(sys.modules, "textblob.en", None)
    ptb._load_tagger.cache_clear()
    with says("tagging words needs textblob", "pip install 'captau[neural]'"):
        run(config(references, has_parts=True))
    assert (run(config(references)).frames["words.csv"]["part"] == "").all()


@pytest.mark.neural
def test_nouns_adjectives_and_verbs_have_panels_of_their_own(tmp_path):
    counts = []
    for parts in ("false", "true"):
        folder = tmp_path / parts
        words = ["kind=words", f"words.parts={parts}", "words.label=[star,red]"]
        assert not run_captau("agree", *words, f"output_dir={folder}")
        counts.append((folder / "word_agreement.svg").read_text().count('id="axes_'))
    assert counts == [3, 6]  # the last is empty


FEW_CAPTIONS = {
    "1": ("A dog.", "the dog runs", "dog dog dog"),
    "2": ("a red dog?", "a RED cat", "one cat"),
    "3": ("a bus", "the bus", "a red bus"),
    "4": ("one",),
}


def made(*, at_recall: bool = False, note: str = "") -> WordMeasures:
    """Three words; with k = 2 the model's precision at recall 1/2 is 0.8, at 0.2 0.4 / 1.04."""
    frame = pd.DataFrame({name: [""] * 3 for name in WORD_COLUMNS}).assign(
        dataset="mine",
        word=["dog", "cat", "sky"],
        n_captions=[1234, 5, 2],
        precision=[0.9, 0.4 / 1.04, math.nan],
        precision_low=[0.8, 0.1, math.nan],
        precision_high=[1.0, 0.6, math.nan],
        recall=[0.5, 0.2, 0.1],
        recall_low=[0.4, 0.1, 0.0],
        recall_high=[0.6, 0.3, 0.2],
        q=[0.25, 1.5, 0.125],
        k=2,
        model_precision=[0.8, 0.4 / 1.04, 0.2 / 1.01],
        precision_at_human_recall=[0.25, 0.75, math.nan] if at_recall else math.nan,
    )
    one = pd.DataFrame({"precision": [0.4, 0.2, 0.6], "recall": [0.5, 0.1, math.nan]})
    by_k = {1: one, 2: frame[["precision", "recall"]]}
    people = ImageCaptions("mine", {str(n): ("a", "b", "c") for n in range(1500)}, 1)
    return WordMeasures(people, frame, by_k, 3.0, "each", at_recall, note)


def test_summaries_are_means_over_words() -> None:
    rows = {row["measure"]: row for row in summary_rows(made())}
    assert list(rows) == [
        *("human_precision_k1", "human_recall_k1", "human_precision", "human_recall"),
        *("model_k", "model_error", "model_error_fitted"),
    ]
    assert {(r["dataset"], r["n_items"]) for r in rows.values()} == {("mine", 1500)}
    values = {name: (row["value"], row["std"]) for name, row in rows.items()}
    p = [0.9, 0.4 / 1.04]
    assert values["human_precision_k1"] == pytest.approx((0.4, 0.2))
    assert values["human_recall_k1"] == pytest.approx((0.3, 0.4 / math.sqrt(2)))
    assert values["human_precision"] == pytest.approx((sum(p) / 2, (p[0] - p[1]) / math.sqrt(2)))
    assert values["human_recall"][0] == pytest.approx(0.8 / 3)
    assert values["model_k"][0] == 3.0
    # Errors of 0.1 and 0 with k = 2; with k = 3 the model has 1.5 / 1.625 and 0.6 / 1.112.
    assert values["model_error"][0] == pytest.approx(0.1 / math.sqrt(2))
    errors = np.array([1.5 / 1.625, 0.6 / 1.112]) - p
    assert values["model_error_fitted"][0] == pytest.approx(math.sqrt((errors**2).mean()))
    assert all(math.isnan(values[n][1]) for n in ("model_k", "model_error", "model_error_fitted"))
    left_out = "1 image with fewer captions left out"
    mean = "mean over 3 words; std over words"
    assert [row["note"] for row in rows.values()] == [
        f"{mean}; against 1 caption; {left_out}",
        f"{mean}; undefined of 1; against 1 caption; {left_out}",
        f"{mean}; undefined of 1; against 2 captions; {left_out}",
        f"{mean}; against 2 captions; {left_out}",
        f"least squares over the words; {left_out}",
        f"root mean square over 3 words of the model's precision with k = 2; {left_out}",
        f"root mean square over 3 words of the model's precision with the k that fits, 3.000; {left_out}",
    ]


def test_a_systems_precision_is_beside_peoples_on_the_same_words() -> None:
    *_, row = summary_rows(made(at_recall=True, note="2 words left out"))
    assert row["measure"] == "precision_at_human_recall"
    assert (row["value"], row["std"]) == pytest.approx((0.5, 0.5 / math.sqrt(2)))
    of_people = (0.9 + 0.4 / 1.04) / 2
    assert row["note"] == (
        f"mean over 2 words, of which people's precision is {of_people:.4f}; 2 words left out; "
        "1 image with fewer captions left out"
    )
    *_, without = summary_rows(made(note="2 words left out"))
    assert without["measure"] == "precision_at_human_recall"
    assert math.isnan(without["value"])


def test_the_table_of_summaries_names_its_measures() -> None:
    measures = made(at_recall=True)
    table = summary_table(measures, summary_rows(measures))
    assert table.title == "mine: agreement on words"
    assert (table.corner, table.heads) == ("measure", ["value", "±"])
    assert [label for label, _ in lines_of(table)] == [
        "people's precision, k = 1",
        "people's recall, k = 1",
        "people's precision",
        "people's recall",
        "the model's best k",
        "the model's error",
        "the model's error with its best k",
        "precision at people's recall",
    ]
    assert lines_of(table)[0][1] == ["0.400", "0.200"]
    assert lines_of(table)[7][1] == ["0.500", "0.354"]
    assert table.notes[0] == "1,500 images. ±: standard deviation over words."
    assert [note.partition(":")[0] for note in table.notes[1:]] == [
        "the model's best k",
        "the model's error",
        "the model's error with its best k",
        "precision at people's recall",
    ]
    assert all(note.endswith(".") for note in table.notes)


def test_the_table_of_words_has_a_systems_column_where_there_is_one() -> None:
    table = word_table(made(), ["cat", "dog"])
    head = ["captions", "recall = p", "95 %", "q", "precision", "95 %", "model's"]
    assert table.heads == head
    assert lines_of(table) == [
        (
            "cat",
            ["5", "0.200", "0.100 to 0.300", "1.5000", "0.385", "0.100 to 0.600", "0.385"],
        ),
        (
            "dog",
            ["1,234", "0.500", "0.400 to 0.600", "0.2500", "0.900", "0.800 to 1.000", "0.800"],
        ),
    ]
    assert table.notes == [
        "2 of 3 words; all are in words.csv. One of 3 captions held out (each); 95 %: expanded percentile bootstrap over images."
    ]
    of_system = word_table(made(at_recall=True), ["dog"])
    assert of_system.heads == [*head, "system's"]
    assert lines_of(of_system)[0][1][-1] == "0.250"


def test_examples_are_spread_over_the_more_frequent_words() -> None:
    """Of 48 words the half with the most captions, from the least recall to the greatest."""
    n = 48
    frame = pd.DataFrame(
        {"word": [f"w{i:02}" for i in range(n)], "n_captions": range(n), "recall": 0.5}
    )
    frame["recall"] = [1 - i / 100 for i in range(n)]
    chosen = select_examples(frame, [])
    assert len(chosen) == N_EXAMPLES == 12
    assert chosen["word"].tolist()[:2] == ["w47", "w45"]
    assert chosen["word"].tolist()[-1] == "w24"
    few = select_examples(frame[:3], [])
    assert few["word"].tolist() == ["w02", "w01"]
    undefined = frame.assign(recall=math.nan)
    assert select_examples(undefined, []).empty
    assert select_examples(frame, ["w03", "w01"])["word"].tolist() == ["w03", "w01"]


def test_words_of_a_few_captions_are_measured() -> None:
    """Of images 1 to 3: "dog" is used by 3, 1 and 0 people, "bus" by 0, 0 and 3."""
    people = ImageCaptions("mine", FEW_CAPTIONS)
    measures = measure_words(people, StepProgress(None), n_words=3, named_words=["cat"])
    frame = measures.frame.set_index("word")
    assert list(frame.index) == ["a", "dog", "bus", "cat"]
    assert (measures.k, measures.people.n_left_out, measures.held_out) == (2, 1, "each")
    assert frame["n_captions"].to_dict() == {"a": 5, "dog": 4, "bus": 3, "cat": 2}
    assert frame["n_images"].to_dict() == {"a": 3, "dog": 2, "bus": 1, "cat": 1}
    # tp = T (T - 1) / 3, cw = 2 T / 3, fp = [T = 1] / 3
    assert frame["recall"].to_list() == pytest.approx([(0 + 2 + 2) / 10, 6 / 8, 1.0, 2 / 4])
    assert frame["precision"].to_list() == pytest.approx([4 / 5, 6 / 7, 1.0, 1.0])
    weights = np.array([10, 8, 6, 4]) / 3
    q = weights / (3 * 2 * frame["recall"].to_numpy())
    assert frame["q"].to_list() == pytest.approx(q.tolist())
    recall = frame["recall"].to_numpy()
    model = 2 * recall / (2 * recall + (1 - recall) ** 2)
    assert frame["model_precision"].to_list() == pytest.approx(model.tolist())
    assert list(measures.by_k) == [1, 2]
    above = "q above 1: people agree on it more evenly than the model has it"  # 10 / 3 of 2.4
    assert frame["note"].to_list() == [above, "", "", ""]
    ends = frame[["precision_low", "precision_high", "recall_low", "recall_high"]]
    # A resample without the one image that has "bus" leaves its numbers undefined.
    assert ends.isna().all(axis=1).to_list() == [False, False, True, True]
    assert (ends[:2].min(axis=None), ends[:2].max(axis=None)) == (0.0, 1.0)
    one = measure_words(people, StepProgress(None), n_words=1, k=1)
    assert one.frame["n_captions"].to_list() == [4]  # "a" in the first two captions
    alone = ImageCaptions("mine", {"1": FEW_CAPTIONS["1"]})
    ends = measure_words(alone, StepProgress(None), n_words=1).frame
    assert ends[[c for c in WORD_COLUMNS if c.endswith(("low", "high"))]].isna().all(axis=None)
