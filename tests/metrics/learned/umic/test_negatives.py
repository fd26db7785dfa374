"""Negative captions: changes of each kind, their frequencies, and randomness from one generator; similar images."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.learned.umic import similar_images
from captau.metrics.learned.umic.negatives import (
    NEGATIVE_KINDS,
    Negatives,
    Substitution,
    tag_words,
)
from captau.metrics.learned.umic.regions import ImageRegions
from captau.metrics.learned.umic.similar_images import (
    compute_mean_features,
    find_images_by_cider,
    find_nearest_images,
    load_similar_images,
)
from captau.metrics.text.cider import Cider
from tests.conftest import AWKWARD, says

CAPTIONS = {
    "1": ["a woman hugging a small girl", "two women and a suitcase"],
    "2": ["Two dogs running in the green grass ."],
    "3": ["a man riding a big wave"],
    "4": ["a red kite", "a child holding the kite"],
}
#: Parts of speech by hand, so that the tests of what is done with them rest on no tagger.
PARTS = {
    "NN": "woman girl suitcase grass man wave kite child",
    "NNS": "women dogs",
    "VBG": "hugging running riding holding",
    "JJ": "small green big red",
}
PART = {word: part for part, words in PARTS.items() for word in words.split()}


def tags(caption):
    return [(word, PART.get(word, "DT")) for word in caption.split()]


@pytest.fixture
def negatives():
    return Negatives(CAPTIONS, [{"1": ["3", "2"]}], tags)


def drawn(negatives, kind, n=400, image="1", caption=CAPTIONS["1"][0]):
    rng = np.random.default_rng(0)
    return [negatives.draw(rng, image, negatives.tagged_words(caption), kind) for _ in range(n)]


def test_the_shares_of_substituted_words_are_those_of_the_docs(data_root):
    """The table of docs/umic.md: verbs, nouns and adjectives are 55 % of the words of COCO's references.

    The authors' `make_st` (hwanheelee1993/UMIC, data/ce.py) changes each of these with the probability
    that one of 0 to 99 is above 70, which is 0.29, and is called again until one is drawn.
    """
    pytest.importorskip("textblob")
    text = (data_root / "coco" / "karpathy_test_references.json").read_text(encoding="utf-8")
    captions = dict(list(json.loads(text).items())[:1000])
    assert sum(map(len, captions.values())) == 5000
    tagged = {c: tag_words(c) for texts in captions.values() for c in texts}
    words = [word for texts in captions.values() for caption in texts for word in tagged[caption]]
    n_words = sum(word[0].isalnum() for word, _ in words)
    n_substitutable = sum(part.startswith(("V", "N", "J")) for _, part in words)
    assert round(n_substitutable / n_words, 2) == 0.55
    assert round(0.29 * n_substitutable / n_words, 2) == 0.16
    shares = {}
    for substitution in get_args(Substitution):
        negatives = Negatives(captions, [], tagged.__getitem__, substitution)
        rng = np.random.default_rng(0)
        n_changed = 0
        for image, texts in captions.items():
            for caption in texts:
                substituted = negatives.draw(rng, image, tagged[caption], "substitution").split(" ")
                pairs = zip(substituted, (word for word, _ in tagged[caption]), strict=True)
                n_changed += sum(new != old for new, old in pairs)
        shares[substitution] = round(n_changed / n_words, 2)
    assert shares == {"keywords": 0.18, "paper": 0.30, "code": 0.18}


def test_the_papers_substitution_changes_three_of_ten_words():
    """Lee et al. 2021, section 3.2: 30 % of the words, of which only verbs, adjectives and nouns change."""
    ten = "a woman hugging a small girl in the green grass"
    negatives = Negatives({**CAPTIONS, "5": [ten]}, [], tags, "paper")
    original = ten.split()
    for caption, n_expected in ((ten, 3), (CAPTIONS["4"][0], 1), (CAPTIONS["1"][1], 2)):
        for text in drawn(negatives, "substitution", 50, caption=caption):
            pairs = list(zip(text.split(), caption.split(), strict=True))
            assert sum(new != old for new, old in pairs) == n_expected
    changed = [t.split() for t in drawn(negatives, "substitution", 2000, "5", ten)]
    shares = [np.mean([w[i] != original[i] for w in changed]) for i in range(10)]
    # Each of the six keywords alike: 3 / 6.
    assert [round(s, 1) for s in shares] == [0, 0.5, 0.5, 0, 0.5, 0.5, 0, 0, 0.5, 0.5]


def test_the_codes_substitution_may_put_in_the_same_word():
    """Of two nouns in the vocabulary, each drawn word stays what it was with the word's own frequency."""
    negatives = Negatives({"1": ["a kite"], "2": ["a man"]}, [], tags, "code")
    found = Counter(drawn(negatives, "substitution", 4000, caption="a kite"))
    assert set(found) == {"a kite", "a man"}
    assert found["a kite"] / 4000 == pytest.approx(0.5, abs=0.03)


def test_substitution_keeps_places_and_parts_of_speech(negatives):
    original = CAPTIONS["1"][0].split()
    changes = []
    for text in drawn(negatives, "substitution"):
        words = text.split()
        assert len(words) == len(original)
        assert [PART.get(w) for w in words] == [PART.get(w) for w in original]
        changed = [
            i for i, pair in enumerate(zip(words, original, strict=True)) if len({*pair}) > 1
        ]
        assert changed
        assert set(changed) <= {1, 2, 4, 5}  # woman, hugging, small, girl
        changes.append(len(changed))
    # 30 % of four words; where none was drawn, one is: 1.2 + 0.7⁴ on average, standard error 0.04.
    assert np.mean(changes) == pytest.approx(4 * 0.3 + 0.7**4, abs=0.15)


def test_substitutes_are_as_frequent_as_in_the_captions(negatives):
    """Of the nouns beside "woman", kite is there twice and each of the other six once."""
    nouns = Counter(text.split()[1] for text in drawn(negatives, "substitution", 4000))
    del nouns["woman"]
    assert set(nouns) == set(PARTS["NN"].split()) - {"woman"}
    assert nouns["kite"] / nouns.total() == pytest.approx(2 / 8, abs=0.04)


def test_random_captions_are_of_other_images_half_of_them_similar(negatives):
    found = Counter(drawn(negatives, "random", 4000))
    assert not set(found) & set(CAPTIONS["1"])
    # Images 2, 3 and 4 with 1/3 each of one half; 2 and 3 with 1/2 each of the other.
    assert found[CAPTIONS["2"][0]] / 4000 == pytest.approx(1 / 6 + 1 / 4, abs=0.03)
    assert sum(found[c] for c in CAPTIONS["4"]) / 4000 == pytest.approx(1 / 6, abs=0.03)
    others = Counter(drawn(negatives, "random", 4000, "4", "a red kite"))
    assert others[CAPTIONS["3"][0]] / 4000 == pytest.approx(
        1 / 3, abs=0.03
    )  # nothing similar is known


def test_the_authors_code_draws_a_random_and_a_hard_caption():
    """`CeRankNegDataset` in the authors' `data/ce.py`: hard ones half of one list and half of another."""
    ways = [
        {"1": ["2"]},
        {"1": ["4", "2", "9", "3"]},
    ]  # the fourth is never drawn; 9 has no captions
    negatives = Negatives(CAPTIONS, ways, tags, similar_share=0.0)
    hard = Counter(drawn(negatives, "hard", 4000))
    # Image 2 from the first list, and half of the second; 4 has two captions.
    assert hard[CAPTIONS["2"][0]] / 4000 == pytest.approx(1 / 2 + 1 / 4, abs=0.03)
    assert [hard[c] / 4000 for c in CAPTIONS["4"]] == pytest.approx([1 / 8] * 2, abs=0.02)
    assert hard.total() == hard[CAPTIONS["2"][0]] + sum(hard[c] for c in CAPTIONS["4"])
    random = Counter(drawn(negatives, "random", 4000))
    assert random[CAPTIONS["3"][0]] / 4000 == pytest.approx(1 / 3, abs=0.03)
    without = Counter(drawn(negatives, "hard", 4000, "4", "a red kite"))  # no list has image 4
    assert without[CAPTIONS["3"][0]] / 4000 == pytest.approx(1 / 3, abs=0.03)


def test_images_with_the_most_similar_captions_are_those_of_the_highest_mean_cider():
    """Source: captau's own plain CIDEr, a caption at a time; each image has two captions, so that document frequencies agree."""
    captioned = {
        "1": ("a red kite flies over the beach", "a kite in the sky"),
        "2": ("two dogs run on the beach", "dogs in the sand"),
        "3": ("a red kite is in the sky", "a child holds the kite"),
        "4": ("a man rides a wave", "the man is on a board over a wave"),
        "5": ("a child holds two dogs", "a child in the sand"),
    }
    pairs = [(i, j, c) for i, captions in captioned.items() for j in captioned for c in captions]
    frame = pd.DataFrame(
        {
            "image_id": [j for _, j, _ in pairs],
            "caption": [c for _, _, c in pairs],
            "references": [captioned[j] for _, j, _ in pairs],
        }
    )
    scores = Cider(variant="plain").score(frame)
    means = (
        frame.assign(of=[i for i, _, _ in pairs], score=scores)
        .groupby(["of", "image_id"])["score"]
        .mean()
    )
    expected = {
        i: means[i].drop(i).sort_values(ascending=False, kind="stable").index[:3].tolist()
        for i in captioned
    }
    assert find_images_by_cider(captioned) == expected
    assert expected["1"][0] == "3"


def test_repetition_and_removal(negatives):
    original = CAPTIONS["1"][0].split()
    lengths = []
    for text in drawn(negatives, "repetition"):
        assert text != " ".join(original)
        counts = Counter(text.split())
        assert set(counts) <= set(original)
        order = [original.index(w) for w in text.split() if original.count(w) == 1]
        assert order == sorted(order)  # nothing moves
        lengths.append(len(text.split()))
    assert min(lengths) < len(original) < max(lengths)
    assert np.mean(lengths) == pytest.approx(len(original), abs=0.3)


def test_permutation_keeps_the_words(negatives):
    for text in drawn(negatives, "permutation"):
        assert text != CAPTIONS["1"][0]
        assert sorted(text.split()) == sorted(CAPTIONS["1"][0].split())


def test_nothing_to_substitute_gives_a_random_caption():
    negatives = Negatives({"1": ["over there"], "2": ["a red kite"]}, [], tags)
    assert set(drawn(negatives, "substitution", 5, caption="over there")) == {"a red kite"}


@pytest.mark.parametrize("kind", NEGATIVE_KINDS)
def test_chance_comes_from_the_generator_alone(negatives, kind):
    assert drawn(negatives, kind, 20) == drawn(negatives, kind, 20)


WORDS = st.lists(st.sampled_from(["a", "dog", "Dog", "red", "runs", "."]), max_size=7).map(" ".join)


@settings(max_examples=60)
@given(captions=st.lists(WORDS, min_size=2, max_size=4, unique=True), seed=st.integers(0, 99))
@pytest.mark.parametrize("kind", NEGATIVE_KINDS)
def test_a_negative_is_another_text(kind, captions, seed):
    negatives = Negatives({str(i): [c] for i, c in enumerate(captions)}, [], tags)
    rng = np.random.default_rng(seed)
    for i, caption in enumerate(captions):
        assert (
            negatives.draw(rng, str(i), negatives.tagged_words(caption), kind) != caption
            or not caption
        )


@pytest.mark.neural
@pytest.mark.parametrize("kind", NEGATIVE_KINDS)
def test_awkward_captions_have_negatives_of_each_kind(kind):
    negatives = Negatives({str(i): [c] for i, c in enumerate(AWKWARD)}, [])
    rng = np.random.default_rng(2)
    for i, caption in enumerate(AWKWARD):
        assert isinstance(negatives.draw(rng, str(i), negatives.tagged_words(caption), kind), str)


def test_captions_of_one_image_are_refused():
    with says("the captions of two images at least"):
        Negatives({"1": ["a dog"], "2": []}, [], tags)


@pytest.mark.neural
def test_the_tagger_knows_parts_of_speech():
    """Penn's tags by Brill's rules; a word may be several parts, and its place tells which."""
    found = tag_words("Two dogs are running on the green grass, don't they?")
    assert [w for w, _ in found] == [
        *["Two", "dogs", "are", "running", "on", "the", "green", "grass", ",", "don't", "they", "?"]
    ]
    kinds = dict(found)
    assert [kinds[w] for w in ("dogs", "running", "green", "grass")] == ["NNS", "VBG", "JJ", "NN"]
    assert dict(tag_words("a man surfing a wave"))["wave"] == "NN"
    assert tag_words("") == []


CAPTIONED = {"60623": ("a dog",), "2": ("a cat",), "3": ("a kite",)}


def test_nearest_images_by_hand():
    """Cosines with the first: 0.8, 0, 1 (a longer vector), −1; itself is left out."""
    means = np.array([[1, 0], [0.8, 0.6], [0, 1], [5, 0], [-1, 0]])
    found = find_nearest_images(means, list("abcde"))
    assert found["a"] == ["d", "b", "c"]
    assert all(len(near) == 3 and image not in near for image, near in found.items())
    assert find_nearest_images(means[:2], list("ab")) == {"a": ["b"], "b": ["a"]}


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_same_similarities_from_three_kinds_of_files(tmp_path):
    """An image is not similar to itself, and the most similar comes first; COCO's file names are its ids."""
    lists = {"60623": [60623, 3, 2], "2": ["COCO_val2014_000000060623.jpg"], "3": []}
    table = "image_id,similar_image_id,similarity\n60623,60623,1\n60623,2,0.5\n60623,3,0.7\n2,60623,0.1\n"
    ordered = "image_id\tsimilar_image_id\nCOCO_val2014_000000060623\t3\n60623\t2\n2\t60623\n"
    loaded = [
        load_similar_images(write(tmp_path, name, text), CAPTIONED)
        for name, text in (("a.json", json.dumps(lists)), ("b.csv", table), ("c.tsv", ordered))
    ]
    assert loaded[0].pop("3") == []
    assert loaded == [{"60623": ["3", "2"], "2": ["60623"]}] * 3


def test_embeddings_of_the_captioned_images_are_compared_by_their_cosine(tmp_path):
    """The image that has no caption is nobody's neighbour, near as it is."""
    path = tmp_path / "clip.npz"
    vectors = np.array([[1, 0], [0, 1], [2, 1], [1, 0.1]])
    np.savez(path, image_id=np.array(["60623", "2", "3", "9"]), embedding=vectors)
    similar = load_similar_images(path, CAPTIONED)
    assert similar == {"60623": ["3", "2"], "2": ["3", "60623"], "3": ["60623", "2"]}


def test_images_that_a_file_lacks_are_counted(tmp_path, caplog):
    path = write(tmp_path, "a.json", json.dumps({"2": ["3"]}))
    with caplog.at_level(logging.WARNING):
        load_similar_images(path, CAPTIONED)
    assert "no similar images of 2 of the 3 captioned images" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[1]", "an object is expected"),
        ("a.json", '{"2": "3"}', "image '2': '3' is not a list of image ids"),
        ("a.json", '{"other": ["3"]}', "none of the 3 captioned images is in it, such as '60623'"),
        ("a.csv", "image_id,other\n2,3\n", "no column 'similar_image_id'"),
        ("a.csv", "image_id,similar_image_id,similarity\n2,3,much\n", "a.csv:2"),
        ("a.txt", "", "ends in .json, .csv"),
    ],
)
def test_faulty_files_of_similar_images_are_refused(tmp_path, name, text, message):
    path = write(tmp_path, name, text)
    with says(str(path), message):
        load_similar_images(path, CAPTIONED)
    with says("no such file of similar images"):
        load_similar_images(tmp_path / "nowhere.json", CAPTIONED)


# By numbers that are given


class Numbers:
    """A generator whose numbers are given, in the order in which they are asked for."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def next(self):
        return self.numbers.pop(0)

    def random(self, size=None):
        return self.next() if size is None else np.array([self.next() for _ in range(size)])

    def integers(self, high):
        number = self.next()
        assert number < high
        return number

    def permutation(self, n):
        order = self.next()
        assert len(order) == n
        return np.array(order)

    def choice(self, values, size, replace):
        assert replace is False
        chosen = self.next()
        assert (len(chosen), set(chosen) <= set(values)) == (size, True)
        return np.array(chosen)


THREE = {"1": ["Red kite"], "2": ["a red dog", "big dog"], "3": ["the dogs"]}


def by_numbers(kind, numbers, *, caption="a red dog", image="2", ways=(), **options):
    rng = Numbers(*numbers)
    made = Negatives(
        THREE, list(ways), lambda c: [(w, PART_OF[w.lower()]) for w in c.split()], **options
    )
    text = made.draw(rng, image, made.tagged_words(caption), kind)
    assert rng.numbers == []
    return text


PART_OF = {**PART, "a": "DT", "the": "DT", "dog": "NN"}


@pytest.mark.parametrize(
    ("kind", "numbers", "options", "expected"),
    [
        # Adjectives: big 1/3, red 2/3; nouns: dog 2/3, kite 1/3. Words: red and dog, below 0.3 are drawn.
        ("substitution", [0.3, 0.29, 0.7], {}, "a red kite"),
        ("substitution", [0.3, 0.3, 0, 0.4, 0.33], {}, "a big dog"),
        ("substitution", [0.3, 0.3, 1, 0.66, 0.1, 0.67], {}, "a red kite"),
        ("substitution", [0.0, 0.0, 0.2, 0.9], {}, "a big kite"),
        ("substitution", [0.2, 0.9, 0.2], {"caption": "Red kite", "image": "1"}, "Big kite"),
        # The authors' code: below 0.29, again until one is; the same word may come back.
        ("substitution", [0.29, 0.3, 0.28, 0.3, 0.9], {"substitution": "code"}, "a red dog"),
        ("substitution", [0.5, 0.1, 0.7], {"substitution": "code"}, "a red kite"),
        # The paper: 30 % of three words is one, rounded half up.
        ("substitution", [[2], 0.7], {"substitution": "paper"}, "a red kite"),
        # Words that nothing can stand for: a random caption, here of image 1.
        ("substitution", [0, 0], {"caption": "the dogs", "image": "3"}, "Red kite"),
        # Another image's caption; 1 draws itself first, then the second of image 2.
        ("random", [0, 0, 1, 1], {"caption": "Red kite", "image": "1"}, "big dog"),
        ("random", [0.49, 0, 0], {"ways": [{"2": ["3"]}]}, "the dogs"),
        ("random", [0.5, 0, 0], {"ways": [{"2": ["3"]}]}, "Red kite"),
        ("random", [0.2, 0, 0], {"ways": [{"2": ["3"]}], "similar_share": 0.2}, "Red kite"),
        ("random", [1, 0.1, 1, 0], {"ways": [{}, {"2": ["9", "1", "3", "2"]}]}, "the dogs"),
        ("random", [0, 0, 0], {"ways": [{}, {"2": ["3"]}]}, "Red kite"),
        ("hard", [0.99, 0, 0], {"ways": [{"2": ["3", "1"]}]}, "the dogs"),
        ("hard", [2, 0], {}, "the dogs"),
        # Similar images that are no others: one of all instead.
        ("hard", [0.5, 0, 1, 0, 0], {"ways": [{"2": ["2"]}]}, "Red kite"),
        # Below 0.3 a word is repeated or removed: twice below ½.
        ("repetition", [0.1, 0.3, 0.29, 0.49, 0.5], {}, "a a red"),
        ("repetition", [0.3, 0.3, 0.3, 1, 0.1], {}, "a red red dog"),
        ("repetition", [0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.3, 0.3, 0.1, 0.9], {}, "a red"),
        ("permutation", [[0, 1, 2], [2, 0, 1]], {}, "dog a red"),
    ],
)
def test_negatives_by_numbers(kind, numbers, options, expected):
    assert by_numbers(kind, numbers, **options) == expected


def test_a_hundred_draws_are_enough_where_all_captions_are_the_same():
    made = Negatives({"1": ["a kite"], "2": ["a kite"]}, [], tags)
    rng = Numbers(*[1, 0] * 100)
    assert made.draw(rng, "1", made.tagged_words("a kite"), "random") == "a kite"
    assert rng.numbers == []


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [("kite", "permutation", "kite kite"), ("red red", "permutation", "red red red red")],
)
def test_captions_of_one_word_are_doubled(text, kind, expected):
    made = Negatives({"1": [text], "2": ["a kite"]}, [], tags)
    assert made.draw(Numbers(), "1", made.tagged_words(text), kind) == expected


@pytest.mark.parametrize(
    ("n_others", "n_drawn"), [(0, 1), (1, 1), (2, 2), (3, 2), (5, 2), (6, 3), (20, 3)]
)
def test_the_paper_draws_three_tenths_of_all_words_rounded_half_up(n_others, n_drawn):
    """Of 2 to 22 words two are nouns and one is an adjective; a dot is no word."""
    caption = " ".join(["dog", "kite", "red", ".", *["the"] * n_others])
    indices = [[0], [0, 1], [0, 1, 2]][n_drawn - 1]
    made = Negatives({"1": [caption], "2": ["big man"]}, [], tags, "paper")
    words = made.tagged_words(caption)
    assert made._draw_keywords(Numbers(indices[::-1]), [0, 1, 2], words) == indices


# Similar images


class Folder(dict):
    """Regions in memory."""

    folder = "memory"


def test_mean_features_of_images():
    boxes = np.zeros((1, 7), np.float32)
    regions = Folder(
        {
            "60623": ImageRegions(np.array([[1.0, 2.0], [3.0, 6.0]]), boxes),
            "2": ImageRegions(np.array([[5.0, 7.0]]), boxes),
            "3": ImageRegions(np.array([[0.0, -1.0]]), boxes),
        }
    )
    found = compute_mean_features(CAPTIONED, regions)
    assert found.tolist() == [[2, 4], [5, 7], [0, -1]]
    assert found.dtype == np.float32
    regions["3"] = ImageRegions(np.zeros((1, 3)), boxes)
    with says("memory: image '3' has features of 3 numbers, and '60623' of 2; of two detectors?"):
        compute_mean_features(CAPTIONED, regions)


def test_images_are_compared_in_blocks_and_equal_ones_keep_their_order(monkeypatch):
    monkeypatch.setattr(similar_images, "_BLOCK", 2)
    vectors = np.array([[1.0, 0], [0, 0], [1, 0], [0, 1], [2, 0]])
    assert find_nearest_images(vectors, list("abcde")) == {
        "a": ["c", "e", "b"],
        "b": ["a", "c", "d"],
        "c": ["a", "e", "b"],
        "d": ["a", "b", "c"],
        "e": ["a", "c", "b"],
    }
    assert find_nearest_images(vectors[:1], ["a"]) == {"a": []}


def test_cider_counts_n_grams_of_one_to_four_words(monkeypatch):
    """The cosine of each order is 1 where captions are the same; two of five words have one order in common."""
    seen = []
    monkeypatch.setattr(
        similar_images, "_take_nearest", lambda compare, images: seen.append(compare(slice(0, 9)))
    )
    find_images_by_cider({"a": ("p q r s t",), "b": ("p q r s t",), "c": ("u v",), "d": ("x u",)})
    (found,) = seen
    assert found[0, :2].tolist() == pytest.approx([4, 4])
    assert found[2, 2] == pytest.approx(2)
    # idf of u is ln 2, and of v and x ln 4, twice that.
    assert found[2, 3] == pytest.approx(1 / 5)
    assert found[0, 2:].tolist() == [0, 0]


def test_mean_cider_by_hand(monkeypatch):
    """Images a: "x y", "x"; b: "x"; c: "z". idf: x ln 3/2, y ln 3, z ln 3, x y ln 3."""
    seen = []
    monkeypatch.setattr(
        similar_images, "_take_nearest", lambda compare, images: seen.append(compare(slice(0, 9)))
    )
    find_images_by_cider({"a": ("x y", "x"), "b": ("x",), "c": ("z", "")})
    x, y = math.log(3 / 2), math.log(3)
    length = math.hypot(x, y)
    a = np.array([x / length / 2 + 0.5, y / length / 2, 0, 0.5])
    b = np.array([1, 0, 0, 0])
    c = np.array([0, 0, 0.5, 0])
    vectors = np.stack([a, b, c])
    np.testing.assert_allclose(seen[0], vectors @ vectors.T, rtol=1e-12)


def test_files_of_similar_images_in_full(tmp_path, caplog):
    path = tmp_path / "none.json"
    for name, text, message in (
        ("none.json", None, f"{path}: no such file of similar images"),
        ("a.json", "[1]", "a.json: an object is expected, image id → a list of similar images"),
        ("a.json", '{"2": [1.5]}', "a.json: image '2': [1.5] is not a list of image ids"),
        (
            "a.json",
            json.dumps({"2": {"x": "y" * 80}}),
            f"image '2': {{'x': '{'y' * 53} is not a list",
        ),
        (
            "a.json",
            '{"other": ["3"]}',
            "a.json: none of the 3 captioned images is in it, such as '60623'; are its image ids those of the "
            "captions?",
        ),
        (
            "a.txt",
            "",
            "a.txt: the name of a file of similar images ends in .json, .csv, .tsv, .jsonl, .npz, .safetensors, "
            ".parquet",
        ),
    ):
        if text is not None:
            write(tmp_path, name, text)
        with says(message):
            load_similar_images(tmp_path / name, CAPTIONED)
    path = write(tmp_path, "a.JSON", '{"2": ["2", 3], "COCO_val2014_000000060623.jpg": []}')
    with caplog.at_level(logging.WARNING):
        assert load_similar_images(path, CAPTIONED) == {"2": ["3"], "60623": []}
    assert caplog.messages == [
        f"{path}: no similar images of 1 of the 3 captioned images, whose random captions are of any image"
    ]
    caplog.clear()
    pairs = [
        {"image_id": i, "similar_image_id": j} for i, j in (("2", "3"), ("3", "2"), ("60623", "2"))
    ]
    lines = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, pairs)))
    assert load_similar_images(lines, CAPTIONED) == {"2": ["3"], "3": ["2"], "60623": ["2"]}
    assert caplog.messages == []
    np.savez(tmp_path / "x.npz", image_id=np.array(["9"]), embedding=np.ones((1, 2)))
    with says("none of the 3 captioned images is in it"):
        load_similar_images(tmp_path / "x.npz", CAPTIONED)
