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
        (
            "cider",
            {"references": "refs.json"},
            "references is 'refs.json', not a dict with an image",
        ),
        (
            "clipscore",
            {"image_paths": ["1.jpg"]},
            "image_paths is ['1.jpg'], not a dict with an image",
        ),
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
        (["a"], ["moon"], "it was not prepared for image 'moon'; an image of it is 'park'"),
        (["a", "b"], ["park"], "the number of captions is 2, and of images 1"),
        ("ab", ["park", "park"], "captions are 'ab', not a list of texts"),
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
    assert list(map(repr, rewards)) == ["0.0", {"chair_i": "-0.5", "chair_s": "-1.0"}[spec]]
    assert score.for_trl("image")(completions=["a pizza"], image=["1"]) == [-1.0]


def test_labels_are_found_by_the_rewards_images(tmp_path):
    """Worked: image 2 has a pizza by its labels alone; image 1 lacks one of the two objects mentioned."""
    labels = tmp_path / "labels.json"
    labels.write_text('{"1": ["dog"], "2": ["pizza"]}')
    score = captau.reward(f"chair_i(labels={labels})", references={1: ["a dog"], 2: ["a dog"]})
    assert score(["a dog and a pizza"] * 2, [1, 2]) == [-0.5, 0.0]


def test_ids_may_be_texts_or_numbers():
    """TRL's rows hold numbers where a JSON file's keys are texts, and the other way round."""
    score = captau.reward("cider", {"1": ["a dog runs"], 2: ["a cat sleeps"]})
    assert score(["a dog runs", "a cat"], [1, "2"]) == score(["a dog runs", "a cat"], ["1", 2])
    with says("image '2': the same id as a text and a number has other references"):
        captau.reward("cider", {2: ["a cat"], "2": ["a dog"]})


def test_a_call_may_bring_the_references(tmp_path):
    score = captau.reward("rouge_l")
    references = [REFERENCES["park"], "a cat sleeps"]
    found = score(CAPTIONS[:2], references=references)
    rows = [{"caption": c, "references": r} for c, r in zip(CAPTIONS, references, strict=False)]
    assert found == metric("rouge_l").score(rows).tolist()
    document_frequencies(tuple(r) for r in REFERENCES.values()).write(tmp_path / "df.json")
    alone = captau.reward("cider", df=tmp_path / "df.json")
    prepared = captau.reward("cider", REFERENCES)
    of_images = [REFERENCES[image] for image in IMAGES]
    assert alone(CAPTIONS, references=of_images) == prepared(CAPTIONS, IMAGES)


def test_a_call_without_what_the_metric_needs_says_so():
    with says("reward rouge_l: it needs the image or the references of each caption"):
        captau.reward("rouge_l")(["a dog"])
    with says("reward cider: references of a call need df=FILE"):
        captau.reward("cider", REFERENCES)(["a dog"], references=[["a dog"]])
    with says("reward rouge_l: the number of captions is 1, and of sets of references 2"):
        captau.reward("rouge_l")(["a dog"], references=["a", "b"])
    with says("caption 0 has no references"):
        captau.reward("rouge_l")(["a dog"], references=[[]])
    with says("reward rouge_l: captions are 'a dog', not a list of texts"):
        captau.reward("rouge_l")("a dog")


def test_a_mixture_is_the_weighted_sum():
    score = captau.reward({"cider": 0.7, "rouge_l": 0.3}, REFERENCES)
    cider, rouge = (
        captau.reward(name, REFERENCES)(CAPTIONS, IMAGES) for name in ("cider", "rouge_l")
    )
    assert score.__name__ == "0.7*cider+0.3*rouge_l"
    assert score(CAPTIONS, IMAGES) == pytest.approx(
        [0.7 * c + 0.3 * r for c, r in zip(cider, rouge, strict=True)]
    )
    assert score([], []) == []
    with says("the mixture is empty"):
        captau.reward({}, REFERENCES)


def test_the_unit_scale_by_hand():
    """CIDEr goes to 10, so that it is divided by that; of CHAIR less is better, so that 0 becomes 1."""
    own = captau.reward("cider", REFERENCES)(CAPTIONS, IMAGES)
    unit = captau.reward("cider", REFERENCES, scale="unit")(CAPTIONS, IMAGES)
    assert unit == pytest.approx([value / 10 for value in own])
    chair = captau.reward("chair_i", {"1": ["a dog on a couch"]}, scale="unit")
    assert chair(["a dog on a couch", "a dog and a pizza"], ["1", "1"]) == [1.0, 0.5]
    with says("scale=unit needs bounds, and it has none"):
        captau.reward(lambda caption: len(caption), scale="unit")
    with says("unknown value of scale 'half'"):
        captau.reward("cider", REFERENCES, scale="half")  # pyright: ignore[reportArgumentType]


def test_a_trl_reward_takes_references_from_the_row_and_names_a_missing_column():
    trl = captau.reward("rouge_l").for_trl(references_column="references")
    columns = {"prompts": ["?"], "references": [["a dog runs"]]}
    assert trl(completions=["a dog runs"], **columns) == [1.0]
    with says("reward rouge_l: the trainer's rows have no 'references'; there are prompts"):
        trl(completions=["a dog runs"], prompts=["?"])


def test_a_verl_reward_takes_one_caption_or_a_batch():
    rouge = captau.reward("rouge_l").for_verl()
    one = rouge(
        data_source="x", solution_str="a dog runs", ground_truth="a dog runs", extra_info={}
    )
    assert one == 1.0
    batch = {
        "data_sources": ["x"] * 2,
        "solution_strs": ["a dog runs", "a cat"],
        "extra_infos": [{}] * 2,
    }
    assert rouge(**batch, ground_truths=[["a dog runs", "x"], ["a dog"]])[0] == 1.0
    cider = captau.reward("cider", REFERENCES)
    by_image = cider.for_verl(image_key="image")
    expected = cider(["a dog runs", "a cat"], ["park", 7])
    infos = [{"image": "park"}, {"image": 7}]
    assert by_image(**batch | {"extra_infos": infos}, ground_truths=["", ""]) == expected
    assert by_image("x", "a cat", "", {"image": 7}) == pytest.approx(expected[1])
    with says("reward cider: extra_info has no 'image'; there are split"):
        by_image("x", "a cat", "", {"split": "train"})
