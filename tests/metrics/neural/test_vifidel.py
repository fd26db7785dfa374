"""VIFIDEL against values worked by hand, its laws, and broken files."""

from __future__ import annotations

import json
import math
import re
import struct

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics import base
from captau.metrics.neural import vifidel
from captau.metrics.neural.vifidel import (
    Vifidel,
    fidelity,
    movers_distance,
    read_labels,
    read_vectors,
)
from captau.metrics.registry import metric
from tests.conftest import AWKWARD, says

# Unit vectors of the plane, so that distances are √2 between those at right angles and 2 between
# opposite ones; bear is (0.6, 0.8): √0.8 from dog, √0.4 from cat.
WORDS = {
    "dog": [1, 0],
    "puppy": [2, 0],
    "cat": [0, 3],
    "ball": [-1, 0],
    "bear": [6, 8],
    "teddy": [0, -1],
}
UNIT = {w: np.array(v) / np.linalg.norm(v) for w, v in WORDS.items()}


def write_vectors(path, words=WORDS, header=True):
    """Word vectors of the kind that the file's ending says."""
    size = len(next(iter(words.values())))
    if path.suffix == ".npz":
        np.savez(path, word=np.array(list(words)), vector=np.array(list(words.values()), float))
    elif path.suffix == ".bin":
        data = f"{len(words)} {size}\n".encode()
        for word, vector in words.items():
            data += word.encode() + b" " + struct.pack(f"<{size}f", *vector) + b"\n"
        path.write_bytes(data)
    else:
        lines = [f"{w} {' '.join(map(str, v))}" for w, v in words.items()]
        path.write_text("\n".join([*([f"{len(words)} {size}"] if header else []), *lines, ""]))
    return path


def split_words(text):
    """scikit-learn's rule, with the stop words that are used here."""
    words = re.findall(r"\b\w\w+\b", text.lower())
    return [w for w in words if w not in {"and", "the", "it", "is", "with", "an", "on", "of", "in"}]


@pytest.fixture
def analyser(monkeypatch, all_extras):
    """Words are split without scikit-learn."""
    monkeypatch.setattr(vifidel, "_analyser", lambda: split_words)


@pytest.mark.dev
def test_words_are_scikit_learns():
    texts = ["A dog and a cat.", "a Teddy-bear, a dog!", "it is the", "gnu, dog x", *LABELS["2"]]
    assert [vifidel._analyser()(text) for text in texts] == [split_words(text) for text in texts]


def made(folder, labels, **changes):
    path = folder / "labels.json"
    path.write_text(json.dumps(labels))
    vectors = write_vectors(folder / "vectors.txt")
    return Vifidel(labels=str(path), vectors=str(vectors), **changes)


ITEMS = pd.DataFrame(
    {
        "image_id": ["1", "1", "2", "3"],
        "caption": ["A dog and a cat.", "the puppy", "a Teddy-bear, a dog!", "a cat with a ball"],
        "references": [("a dog",), ("a dog",), ("a cat",), ("a dog", "dog and ball")],
    }
)
LABELS = {"1": ["dog"], "2": ["teddy bear", "dog"], "3": ["dog", "dog", "cat"]}


def test_scores_worked_by_hand(tmp_path, analyser):
    """Of each the cheapest move is plain to see.

    1: half of the caption's weight is at dog already, half moves from dog to cat: √2 / 2.
    2: dog and puppy are one point. 3: the same words on both sides, whatever their order.
    4: dog ⅔, cat ⅓ to cat ½, ball ½: a sixth moves from dog to cat, a half from dog to ball.
    """
    distances = [math.sqrt(2) / 2, 0, 0, math.sqrt(2) / 6 + 2 / 2]
    scores = made(tmp_path, LABELS).score(ITEMS)
    np.testing.assert_allclose(scores, np.exp(-np.array(distances)), rtol=1e-9)


def test_importance_worked_by_hand(tmp_path, analyser):
    """Weights are (1 − cosine with the nearest word of a reference) / 2, averaged over references.

    Item 4, references "dog" and "dog, ball": dog 0; cat (1 + 1) / 2 · ½ = ½; ball (1 − −1) / 2 = 1 and
    0, so ½. So dog is at (0, 0), cat at (0, ½), ball at (−½, 0), and the same weights move as above:
    a sixth and a half, each by ½. Item 1: dog at (0, 0), cat at (0, ½), half of the weight moves ½.
    """
    one = made(tmp_path, LABELS, importance="references")
    assert one.needs == {"references"}
    scores = one.score(ITEMS)
    assert scores[[0, 3]] == pytest.approx([math.exp(-0.25), math.exp(-1 / 3)], abs=1e-9)
    with says("needs references, which these captions do not have"):
        one.score(ITEMS.drop(columns="references"))
    with says("needs references, which these captions do not have"):
        one.score(ITEMS.assign(references=[()] * 4))


def test_what_is_undefined(tmp_path, analyser):
    """No object, no word but stop words, or none with a vector."""
    one = made(tmp_path, {"1": [], "2": ["dog"], "3": ["xylophone", "dog"]})
    rows = pd.DataFrame(
        {"image_id": ["1", "2", "2", "3"], "caption": ["a dog", "it is the", "gnu", "gnu, dog"]}
    )
    scores = one.score(rows)
    assert np.isnan(scores[:3]).all()
    assert scores[3] == 1
    assert np.isnan(
        made(tmp_path, {"1": ["dog"]}, importance="references").score(
            [{"image_id": "1", "caption": "a cat", "references": ["it is the"]}]
        )
    )


def test_words_without_a_vector_are_counted(tmp_path, analyser):
    from captau.metrics.rows import Rows

    rows = Rows(pd.DataFrame({"image_id": ["1", "1"], "caption": ["a dog and a gnu", "the cat"]}))
    one = made(tmp_path, {"1": ["dog"]})
    one.score(rows)
    assert rows.remarks == {one.spec: ["1 of 3 words have no vector and are left out"]}


bags = st.lists(st.sampled_from(sorted(WORDS)), min_size=1, max_size=6)


@settings(max_examples=60)
@given(one=bags, other=bags, third=bags)
def test_laws(one, other, third):
    """In (0, 1], 1 for a bag against itself, symmetric, blind to order; −log keeps the triangle."""
    score = fidelity(one, other, UNIT)
    assert 0 < score <= 1
    assert fidelity(one, sorted(one), UNIT) == 1
    assert fidelity(other, one[::-1], UNIT) == pytest.approx(score, abs=1e-9)
    assert score >= fidelity(one, third, UNIT) * fidelity(third, other, UNIT) - 1e-9


@settings(max_examples=40)
@given(
    source=st.lists(st.integers(0, 5), min_size=6, max_size=6).filter(any),
    target=st.lists(st.integers(0, 5), min_size=6, max_size=6).filter(any),
)
def test_the_distance_is_scipys_on_a_line(source, target):
    """On a line the earth mover's distance is scipy's Wasserstein distance."""
    from scipy.stats import wasserstein_distance

    points = np.array([0.0, 1.0, 1.5, 4.0, -2.0, 0.25])
    a, b = (np.array(w) / sum(w) for w in (source, target))
    assert movers_distance(a, b, points[:, None]) == pytest.approx(
        wasserstein_distance(points, points, a, b), abs=1e-9
    )


@pytest.mark.dev
def test_any_caption_is_read(tmp_path):
    one = made(tmp_path, {"1": ["dog"]})
    scores = one.score([{"image_id": "1", "caption": c} for c in AWKWARD])
    assert np.isnan(scores[AWKWARD.index("")])
    assert scores[AWKWARD.index("A dog.")] == 1


# Labels


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.json", '{"1": ["dog", "teddy bear"], "2": []}'),
        (
            "l.json",
            '[{"image_id": 1, "labels": ["dog", "teddy bear"]}, {"image_id": 2, "labels": []}]',
        ),
        (
            "l.jsonl",
            '{"image_id": "1", "labels": ["dog", "teddy bear"]}\n{"image_id": "2", "labels": ""}\n',
        ),
        ("l.csv", 'image_id,labels\n1,dog ||| teddy bear\n2,\n1,"[""dog"", ""teddy bear""]"\n'),
    ],
)
def test_files_of_labels(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    assert read_labels(tmp_path / name) == {("1",): ("dog", "teddy bear"), ("2",): ()}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.json", '{"1": "dog", "2": [3]}', "'2': labels holds 3, not a text"),
        ("l.json", '{"1": null}', "'1': labels is None"),
        ("l.json", '{"1": ["dog"]', "l.json:1: not valid JSON"),
        ("l.json", '{"1": ["dog"], "1": ["cat"]}', "'1' appears twice"),
        ("l.csv", "image_id,labels\n1,dog\n1,cat\n", "l.csv:3: two label lists for 1"),
        ("l.csv", "image_id,labels\n,dog\n", "l.csv:2: image_id is empty"),
        ("l.csv", "image_id,objects\n1,dog\n", "no column 'labels'"),
        ("l.csv", 'image_id,labels\n1,"[dog"\n', "l.csv:2: labels is '[dog'"),
        ("l.txt", "", "l.txt:1: not valid JSON (nothing is in it)"),
    ],
)
def test_a_file_of_labels_that_is_wrong(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with says(message):
        read_labels(tmp_path / name)


def test_an_image_without_labels(tmp_path, analyser):
    with says("labels.json", "no label list for 2, 3 (2 of 4 items lack one)"):
        made(tmp_path, {"1": ["dog"]}).score(ITEMS)


# Word vectors


@pytest.mark.parametrize(
    ("name", "header"),
    [("v.txt", True), ("v.txt", False), ("v.vec", True), ("v.bin", True), ("v.npz", True)],
)
def test_files_of_word_vectors(name, header, tmp_path):
    path = write_vectors(tmp_path / name, {**WORDS, "zwölf": [3, 4], ". .": [1, 1]}, header)
    found = read_vectors(path, {"puppy", "zwölf", ". .", "absent"})
    assert set(found) == {"puppy", "zwölf", ". ."} - ({". ."} if name == "v.bin" else set())
    np.testing.assert_allclose(found["puppy"], [1, 0])
    np.testing.assert_allclose(found["zwölf"], [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("v.txt", b"dog 1 0\ncat 1\n", "v.txt:2: a word and 2 numbers are expected"),
        ("v.txt", b"dog 1 0\ncat 1 x\n", "v.txt:2: the vector of 'cat' is not numeric"),
        ("v.txt", b"dog 1 0\ncat 0 0\n", "the vector of 'cat' is zeros alone"),
        ("v.txt", b"cat nan 0\n", "the vector of 'cat' is zeros alone, or holds NaN"),
        ("v.bin", b"cat 1 0\n", "its first line is two numbers"),
        ("v.bin", b"2 2\ncat " + bytes(8) + b"\ndog " + bytes(5), "within word 2 of 2"),
        ("v.npz", b"PK", "not an npz file with `word`"),
        ("v.pkl", b"", "the name of a file of word vectors ends in"),
        ("absent.txt", None, "no such file of word vectors"),
    ],
)
def test_a_file_of_word_vectors_that_is_wrong(name, data, message, tmp_path):
    if data is not None:
        data = data.replace(bytes(8), struct.pack("<2f", 1, 0))
        (tmp_path / name).write_bytes(data)
    with says(name, message):
        read_vectors(tmp_path / name, {"cat"})


def test_word_vectors_in_npz_of_another_shape(tmp_path):
    np.savez(tmp_path / "v.npz", word=np.array(["a", "b"]), vector=np.ones((3, 2)))
    with says("v.npz", "2 of word, but vector is of shape (3, 2)"):
        read_vectors(tmp_path / "v.npz", {"a"})


def test_a_missing_extra_and_missing_files_are_said(tmp_path, monkeypatch, all_extras):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    assert "give labels=FILE" in str(metric("vifidel").find_unavailability(ITEMS))
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    assert "pip install 'captau[neural]'" in str(made(tmp_path, LABELS).find_unavailability(ITEMS))


# The functions one by one


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ([1, 0, 0], [1, 0, 0], 0.0),
        ([1, 0, 0], [0, 1, 0], 5.0),
        ([1, 0, 0], [0, 0, 1], 1.0),
        ([0, 1, 0], [0, 0, 1], math.hypot(3, 3)),
        # Half stays, half moves; a quarter from each of two points.
        ([0.5, 0.5, 0], [0.5, 0, 0.5], math.hypot(3, 3) / 2),
        ([0.5, 0.25, 0.25], [0, 0.5, 0.5], 0.25 * 5 + 0.25 * 1),
    ],
)
def test_the_distance_worked_by_hand(source, target, expected):
    points = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    found = movers_distance(np.array(source, float), np.array(target, float), points)
    assert found == pytest.approx(expected, abs=1e-12)


def test_fidelity_worked_by_hand():
    assert fidelity(["dog", "gnu"], ["puppy"], UNIT) == 1
    assert fidelity(["dog"], ["cat"], UNIT) == pytest.approx(math.exp(-math.sqrt(2)))
    assert math.isnan(fidelity([], ["cat"], UNIT))
    assert math.isnan(fidelity(["cat"], ["gnu"], UNIT))
    assert math.isnan(fidelity(["cat"], ["dog"], UNIT, [["gnu"]]))
    assert math.isnan(fidelity(["cat"], ["dog"], UNIT, []))
    # Weights ½ and 0: from (0, ½) to the origin.
    assert fidelity(["cat"], ["dog"], UNIT, [["dog"]]) == pytest.approx(math.exp(-0.5))


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.bin", "v.npz", "V.TXT"])
def test_vectors_have_length_1_and_the_first_of_a_word_counts(name, tmp_path):
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, word=np.array(["a", "b", "a"]), vector=np.array([[3.0, 4], [0, 2], [1, 0]]))
    elif name.endswith("bin"):
        cells = ((b"a", 3, 4), (b"b", 0, 2), (b"a", 1, 0))
        path.write_bytes(
            b"3 2\n" + b"\n".join(w + b" " + struct.pack("<2f", *v) for w, *v in cells)
        )
    else:
        path.write_bytes(b"3 2\na 3 4\nb 0 2\na 1 0\n")
    found = read_vectors(path, {"a", "b", "c"})
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "a": [pytest.approx(0.6), pytest.approx(0.8)],
        "b": [0.0, 1.0],
    }
    assert {vector.dtype.name for vector in found.values()} == {"float64"}


def test_vectors_in_text_may_have_no_first_line_and_words_may_hold_blanks(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(b"a 3 4\nb c 0 2\n5 1 0\n")
    found = read_vectors(path, {"a", "b c", "5", "b"})
    assert list(found) == ["a", "b c", "5"]
    # Two numbers are a first line there alone, and one number a vector of a word of one dimension.
    path.write_bytes(b"2 1\na 3\n5 1\n")
    assert {word: v.tolist() for word, v in read_vectors(path, {"a", "5", "2"}).items()} == {
        "a": [1.0],
        "5": [1.0],
    }
    path.write_bytes(b"a 3 x\nb 0 2\n")
    assert list(read_vectors(path, {"b"})) == ["b"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("v.txt", b"2 2\ndog 1\n", "v.txt:2: a word and 2 numbers are expected"),
        ("v.txt", b"dog\n", "v.txt:1: a word and its numbers are expected"),
        ("v.txt", b"1 0\ndog\n", "v.txt:2: a word and its numbers are expected"),
        ("v.txt", b"dog 1 0\ncat 1 inf\n", "the vector of 'cat' is zeros alone, or holds NaN"),
        ("v.bin", b"2\n", "v.bin: not word2vec's binary format: its first line is two numbers"),
        ("v.bin", b"a 2\n", "its first line is two numbers"),
        ("v.bin", b"1 2 3\n", "its first line is two numbers"),
        ("v.bin", b"1 2\ncat " + bytes(7), "v.bin: it ends within word 1 of 1; get a new copy"),
        ("v.bin", b"1 2\ncat", "v.bin: it ends within word 1 of 1"),
        (
            "v.pkl",
            b"",
            "v.pkl: the name of a file of word vectors ends in .npz or .bin or .txt or .vec",
        ),
    ],
)
def test_what_is_wrong_with_word_vectors_is_said_exactly(name, data, message, tmp_path):
    (tmp_path / name).write_bytes(data)
    with says(f"{tmp_path}/", message):
        read_vectors(tmp_path / name, {"cat", "dog"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"word": ["a", "b"], "vector": [[1.0], [2.0], [3.0]]},
            "2 of word, but vector is of shape (3, 1)",
        ),
        ({"word": ["a", "b"], "vector": [1.0, 2.0]}, "2 of word, but vector is of shape (2,)"),
        ({"word": ["a"], "vector": [[1]]}, "1 of word, but vector is of shape (1, 1)"),
        ({"words": ["a"], "vector": [[1.0]]}, "not an npz file with `word`, texts, and `vector`"),
    ],
)
def test_what_is_wrong_with_an_npz_file_is_said_exactly(content, message, tmp_path):
    np.savez(tmp_path / "v.npz", **{key: np.array(value) for key, value in content.items()})
    with says(f"{tmp_path}/v.npz: {message}"):
        read_vectors(tmp_path / "v.npz", {"a"})
