"""A metric as a reward: equal to the metric's scores, whatever the batch, and safe to share."""

from __future__ import annotations

import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captau
from captau.metrics.registry import metric
from captau.metrics.text.cider import document_frequencies
from tests.conftest import says

REFERENCES = {
    "park": ["a dog runs in the park", "a brown dog runs"],
    "street": ["two men walk down a street", "men in a street"],
    "again": ["a dog runs in the park", "a brown dog runs"],
    7: ["a cat sleeps on a sofa"],
}
CAPTIONS = ["a dog runs in the park", "men walk", "a purple giraffe", "", "a cat sleeps on a sofa"]
IMAGES = ["park", "street", "park", 7, 7]

sentences = st.lists(
    st.sampled_from(["a", "dog", "runs", "in", "the", "park", "two", "men", "walk", "zebra"]),
    max_size=8,
).map(" ".join)


def rows_of(captions, images, references=REFERENCES):
    return [
        {"caption": c, "references": references[i]} for c, i in zip(captions, images, strict=True)
    ]


def test_cider_as_a_reward_worked_by_hand():
    # Two images, so that each n-gram of one of them has the weight log 2, which falls out of a cosine:
    # (1 + 1 + 1 + 1) / 4 for the same text; nothing in common with the other image's.
    references = {"1": ["a dog runs fast here"], "2": ["two cats sleep there too"]}
    score = captau.reward("cider", references=references)
    same, different = score(["a dog runs fast here"] * 2, ["1", "2"])
    assert same == pytest.approx(10.0)
    assert different == 0.0


@pytest.mark.parametrize("spec", ["cider", "cider(variant=plain)"])
def test_cider_takes_document_frequencies_of_all_references_and_not_of_the_batch(spec, tmp_path):
    document_frequencies(tuple(r) for r in REFERENCES.values()).write(tmp_path / "df.json")
    expected = metric(f"{spec[:-1] + ',' if '(' in spec else spec + '('}df={tmp_path}/df.json)")
    score = captau.reward(spec, references=REFERENCES)
    assert score(CAPTIONS, IMAGES) == expected.score(rows_of(CAPTIONS, IMAGES)).tolist()
    for caption, image in zip(CAPTIONS, IMAGES, strict=True):
        assert score([caption], [image])[0] == score(CAPTIONS, IMAGES)[CAPTIONS.index(caption)]


def test_cider_takes_document_frequencies_from_a_file_with_n_grams_that_no_reference_has(tmp_path):
    path = tmp_path / "df.json"
    document_frequencies([("a purple giraffe",), ("a dog runs",), ("x",)]).write(path)
    score = captau.reward("cider", REFERENCES, df=path)
    expected = metric(f"cider(df={path})").score(rows_of(CAPTIONS, IMAGES))
    assert score(CAPTIONS, IMAGES) == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.tuples(sentences, st.integers(0, 3)), min_size=1, max_size=6),
)
def test_a_reward_equals_its_metric_with_the_same_document_frequencies(texts, batch):
    references = dict(enumerate(texts))
    captions = [caption for caption, _ in batch]
    images = [image % len(texts) for _, image in batch]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "df.json"
        document_frequencies(tuple(r) for r in texts).write(path)
        expected = metric(f"cider(df={path})").score(rows_of(captions, images, references))
    assert captau.reward("cider", references)(captions, images) == expected.tolist()


@pytest.mark.parametrize("spec", ["bleu_4", "rouge_l", "meteor"])
def test_a_reward_of_any_metric_equals_its_scores(spec):
    score = captau.reward(spec, references=REFERENCES)
    assert score.__name__ == spec
    assert score(CAPTIONS, IMAGES) == metric(spec).score(rows_of(CAPTIONS, IMAGES)).tolist()


def test_a_reward_returns_python_floats_in_the_order_of_the_captions_and_nothing_for_nothing():
    score = captau.reward("cider", REFERENCES)
    scores = score(CAPTIONS, IMAGES)
    assert all(type(value) is float for value in scores)
    assert score(CAPTIONS[::-1], IMAGES[::-1]) == scores[::-1]
    assert score([], []) == []


def test_threads_may_share_a_reward():
    score = captau.reward("cider", REFERENCES)
    expected = [score([caption], [image]) for caption, image in zip(CAPTIONS, IMAGES, strict=True)]
    with ThreadPoolExecutor(8) as pool:
        batches = [([c], [i]) for c, i in zip(CAPTIONS, IMAGES, strict=True)] * 20
        assert list(pool.map(lambda batch: score(*batch), batches)) == expected * 20


def test_a_trl_reward_takes_texts_and_messages_by_name():
    score = captau.reward("cider", REFERENCES)
    trl = score.for_trl("image")
    columns = {"prompts": ["?"] * 2, "image": ["park", 7], "trainer_state": None}
    texts = ["a dog runs", "a cat"]
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    assert trl.__name__ == "cider"
    assert trl(completions=texts, **columns) == score(texts, ["park", 7])
    assert trl(completions=messages, **columns) == score(texts, ["park", 7])


def test_a_score_that_is_undefined_is_nan():
    @dataclass(frozen=True)
    class Undefined(captau.Metric):
        needs = frozenset()
        name = "undefined"

        def compute(self, rows):
            return [math.nan] * len(rows)

    assert math.isnan(captau.reward(Undefined())(["a"], ["unknown image"])[0])


@pytest.mark.parametrize(
    ("spec", "keywords", "message"),
    [
        ("cider", {}, "metric cider: a reward of it needs references={image: …}"),
        ("clipscore", {"references": REFERENCES}, "needs image_paths={image: …}"),
        ("cider", {"references": {"1": []}}, "image '1' has no references"),
        ("cider", {"references": {"1": [3]}}, "image '1': references holds 3, not a text"),
        ("bleu_4", {"references": REFERENCES, "df": "f"}, "metric bleu_4: it has no document freq"),
        (
            "cider(backend=pycocoevalcap)",
            {"references": REFERENCES},
            "metric cider(backend=pycocoevalcap): scores would depend on the batch",
        ),
    ],
)
def test_a_reward_that_cannot_be_made(spec, keywords, message):
    with says(message):
        captau.reward(spec, **keywords)


@pytest.mark.parametrize("spec", ["cider", "bleu_4"])
@pytest.mark.parametrize(
    ("captions", "images", "message"),
    [
        (["a"], ["moon"], "it was not prepared for image 'moon'"),
        (["a", "b"], ["park"], "2 captions and 1 images"),
        ("ab", ["park", "park"], "2 captions and 2 images"),
        ([None], ["park"], "caption 0 is None, not a text"),
    ],
)
def test_captions_that_a_reward_cannot_score(spec, captions, images, message):
    with says(message):
        captau.reward(spec, REFERENCES)(captions, images)


@pytest.mark.parametrize("spec", ["chair_i", "chair_s"])
def test_a_caption_with_an_object_that_is_not_there_earns_less(spec):
    """One of the caption's two objects is not in the references: CHAIR_i is 1/2, CHAIR_s is 1."""
    score = captau.reward(spec, references={"1": ["a dog on a couch"]})
    rewards = score(["a dog on a couch", "a dog and a pizza"], ["1", "1"])
    assert rewards == [0.0, {"chair_i": -0.5, "chair_s": -1.0}[spec]]
    assert score.for_trl("image")(completions=["a pizza"], image=["1"]) == [-1.0]


def test_labels_are_found_by_the_rewards_images(tmp_path):
    """Worked: image 2 has a pizza by its labels alone; image 1 lacks one of the two objects mentioned."""
    labels = tmp_path / "labels.json"
    labels.write_text('{"1": ["dog"], "2": ["pizza"]}')
    score = captau.reward(f"chair_i(labels={labels})", references={1: ["a dog"], 2: ["a dog"]})
    assert score(["a dog and a pizza"] * 2, [1, 2]) == [-0.5, 0.0]
