"""Agreement on words by part of speech, as Figure 3 of Chen et al. 2015 divides them."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest

from captau.benchmarks.commands.agree import run
from captau.benchmarks.evaluation import word_measures
from captau.benchmarks.evaluation.word_agreement import WordUses
from captau.benchmarks.evaluation.word_measures import find_parts, part_rows
from captau.metrics.text.tokens import ptb
from tests.benchmarks.evaluation.test_word_agreement import CAPTIONS, config
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
    labels = [label for label, _ in result.tables[1].rows]
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
        "mean over 1 words; std over words; people's precision on these is 0.1000"
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
