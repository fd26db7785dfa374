"""Files of embeddings: three layouts that hold the same, and what can be wrong with them."""

from __future__ import annotations

import json
import math
import zipfile
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captau.metrics.base import Unavailability, UnavailableError
from captau.metrics.neural.embedding_files import ENDINGS, Embeddings
from captau.metrics.neural.embeddings import ViLBERTScore, VseCosine, greedy_match
from captau.metrics.registry import metric
from tests.conftest import AWKWARD, says


def write(path, vectors, lengths=None, **keys):
    """A file of embeddings of the kind that its ending says; `lengths` makes it one of tokens."""
    vectors = np.asarray(vectors, dtype=np.float32)
    if path.suffix == ".npz":
        extra = {} if lengths is None else {"length": np.array(lengths)}
        named = {k: np.array(v, dtype=str) for k, v in keys.items()}
        np.savez(path, embedding=vectors, **extra, **named)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        extra = {} if lengths is None else {"length": np.array(lengths)}
        save_file(
            {"embedding": vectors, **extra}, path, {k: json.dumps(v) for k, v in keys.items()}
        )
    else:
        rows = vectors.tolist()
        if lengths is not None:
            ends = np.cumsum([0, *lengths])
            rows = [rows[a:b] for a, b in pairwise(ends)]
        kind = pa.list_(pa.float32()) if lengths is None else pa.list_(pa.list_(pa.float32()))
        pq.write_table(pa.table({**keys, "embedding": pa.array(rows, type=kind)}), path)
    return path


#: Each way of writing embeddings; safetensors comes with the extra [neural].
EACH_ENDING = [
    pytest.param(ending, marks=pytest.mark.neural if ending == ".safetensors" else ())
    for ending in ENDINGS
]


@pytest.fixture(params=EACH_ENDING)
def ending(request):
    return request.param


def test_all_layouts_hold_the_same(ending, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(len(AWKWARD), 3)).astype(np.float32)
    ids = [f"{i}.jpg" for i in range(len(AWKWARD))]
    file = Embeddings.read(write(tmp_path / f"a{ending}", vectors, image_id=ids, caption=AWKWARD))
    assert file.keys == {"image_id": ids, "caption": AWKWARD}
    np.testing.assert_array_equal(file.vectors, vectors)
    assert file.dimensions == 3
    assert file.columns(("item_id",), ("image_id", "caption")) == ("image_id", "caption")


def test_tokens(ending, tmp_path):
    vectors = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    path = write(tmp_path / f"a{ending}", vectors, lengths=[1, 0, 3], caption=["a", "", "b c d"])
    file = Embeddings.read(path, tokens=True)
    found = file.entries(("caption",))
    assert [found[c,] for c in ("a", "", "b c d")] == [slice(0, 1), slice(1, 1), slice(1, 4)]
    np.testing.assert_array_equal(file.vectors, vectors)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_precision(kind, tmp_path):
    np.savez(tmp_path / "a.npz", embedding=np.ones((1, 2), dtype=kind), item_id=np.array(["x"]))
    wide = {np.float16: np.float32, np.float64: np.float64}[kind]
    assert Embeddings.read(tmp_path / "a.npz").vectors.dtype == wide


def test_numbers_as_ids_and_fixed_size_lists(tmp_path):
    np.savez(tmp_path / "a.npz", embedding=np.ones((1, 2)), image_id=np.array([391895]))
    assert Embeddings.read(tmp_path / "a.npz").keys == {"image_id": ["391895"]}
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2)
    pq.write_table(pa.table({"image_id": [1, 2], "embedding": lists}), tmp_path / "b.parquet")
    file = Embeddings.read(tmp_path / "b.parquet")
    assert file.keys == {"image_id": ["1", "2"]}
    assert file.vectors.tolist() == [[1, 2], [3, 4]]


def test_the_same_embedding_twice_is_no_fault_and_another_is(ending, tmp_path):
    path = tmp_path / f"a{ending}"
    same = Embeddings.read(write(path, [[1, 2], [3, 4], [1, 2]], caption=["a", "b", "a"]))
    assert same.entries(("caption",)) == {("a",): slice(0, 1), ("b",): slice(1, 2)}
    other = Embeddings.read(write(path, [[1, 2], [3, 4], [1, 9]], caption=["a", "b", "a"]))
    with says(f"a{ending}", "two embeddings for a; keep one"):
        other.entries(("caption",))


@pytest.mark.parametrize(
    ("bad", "what"),
    [(np.nan, "NaN or infinity"), (-np.inf, "NaN or infinity"), (0.0, "zeros alone")],
)
def test_a_vector_that_has_no_direction_is_named(ending, bad, what, tmp_path):
    path = write(
        tmp_path / f"a{ending}",
        [[1, 2], [3, 4], [bad, 0]],
        [1, 2],
        image_id=["1", "2"],
        caption=["a", "b"],
    )
    with says(f"a{ending}", "the embedding of 2 b", what):
        Embeddings.read(path, tokens=True)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file(ending, share, tmp_path):
    path = write(tmp_path / f"a{ending}", np.ones((50, 40)), caption=[str(i) for i in range(50)])
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with says(f"a{ending}", "truncated" if ending != ".parquet" else "not a complete Parquet file"):
        Embeddings.read(path)


@pytest.mark.parametrize(
    ("content", "tokens", "message"),
    [
        ({"embedding": np.ones((2, 3))}, False, "none of item_id, image_id, caption"),
        ({"item_id": np.array(["a"])}, False, "no 'embedding'"),
        ({"item_id": np.array(["a"]), "embedding": np.ones((1, 2))}, True, "no 'length'"),
        ({"item_id": np.array(["a"]), "embedding": np.ones(3)}, False, "of shape (3,)"),
        ({"item_id": np.array(["a"]), "embedding": np.ones((1, 0))}, False, "of shape (1, 0)"),
        ({"item_id": np.array(["a"]), "embedding": np.ones((1, 2), int)}, False, "int64"),
        ({"item_id": np.array(["a"]), "embedding": np.ones((2, 2))}, False, "but there are 2"),
        (
            {"item_id": np.array([1.5]), "embedding": np.ones((1, 2))},
            False,
            "entry 0: item_id is 1.5",
        ),
        (
            {
                "item_id": np.array(["a"]),
                "caption": np.array(["b", "c"]),
                "embedding": np.ones((1, 2)),
            },
            False,
            "1 of item_id, but 2 of caption",
        ),
        *[
            (
                {
                    "item_id": np.array(["a"]),
                    "embedding": np.ones((1, 2)),
                    "length": np.array(lengths),
                },
                True,
                message,
            )
            for lengths, message in [
                ([2], "the lengths of its 1 entries add up to 2 vectors, but there are 1"),
                ([-1], "not one whole number"),
                ([1.0], "not one whole number"),
                ([1, 1], "not one whole number"),
            ]
        ],
    ],
)
def test_an_npz_file_of_another_layout(content, tokens, message, tmp_path):
    np.savez(tmp_path / "a.npz", **content)
    with says("a.npz", message):
        Embeddings.read(tmp_path / "a.npz", tokens=tokens)


def test_nothing_is_unpickled(tmp_path):
    """An object array is a pickle, which runs code when it is read."""
    np.savez(tmp_path / "a.npz", embedding=np.ones((1, 2)), caption=np.array(["a"], dtype=object))
    with says("a.npz", "Python objects, which are not read", "np.array(texts, dtype=str)"):
        Embeddings.read(tmp_path / "a.npz")


def test_a_zip_file_that_is_no_npz(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("embedding.npy", b"not an array")
    with says("a.npz", "no npz file"):
        Embeddings.read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        (pa.array([1.0]), "embedding is double, or lacking; a list of numbers"),
        (pa.array([["x"]]), "the numbers of embedding are string"),
        (pa.array([[1.0], [1.0, 2.0]]), "an embedding has 1 numbers, another 2"),
        (pa.array([None], type=pa.list_(pa.float32())), "or lacking"),
        (pa.array([[1.0, None]]), "or lacking; not floats"),
    ],
)
def test_a_parquet_file_of_another_layout(embedding, message, tmp_path):
    table = pa.table({"item_id": [str(i) for i in range(len(embedding))], "embedding": embedding})
    pq.write_table(table, tmp_path / "a.parquet")
    with says("a.parquet", message):
        Embeddings.read(tmp_path / "a.parquet")


@pytest.mark.neural
def test_a_safetensors_file_without_a_list_of_names(tmp_path):
    from safetensors.numpy import save_file

    save_file({"embedding": np.ones((1, 2))}, tmp_path / "a.safetensors", {"caption": "a dog"})
    with says("a.safetensors", "caption in its metadata is not a JSON list"):
        Embeddings.read(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.npz", "no such file"), ("a.csv", "the name of a file of embeddings ends in .npz")],
)
def test_a_file_that_is_none(name, message, tmp_path):
    (tmp_path / "a.csv").write_text("item_id,embedding\n")
    with says(name, message):
        Embeddings.read(tmp_path / name)


def test_a_pair_worked_by_hand():
    # Cosines: a·r1 = 1, a·r2 = 0, b·r1 = 0.6, b·r2 = 0.8, c·r1 = −1 → 0, c·r2 = 0.
    # P = (1 + 0.8 + 0) / 3 = 0.6, R = (1 + 0.8) / 2 = 0.9, F = 2 · 0.54 / 1.5 = 0.72.
    candidate = np.array([[2.0, 0], [3, 4], [-1, 0]])
    reference = np.array([[5.0, 0], [0, 0.5]])
    assert greedy_match(candidate, reference) == pytest.approx((0.6, 0.9, 0.72), abs=1e-12)


#: The pair above as a candidate and its first reference, beside image 1; the second reference is the
#: candidate's second token alone: P = (0.6 + 1 + 0) / 3, R = 1, F = 2P / (P + 1) = 16/23.
ITEMS = pd.DataFrame(
    {
        "image_id": ["1", "2"],
        "caption": ["x y z", "x y z"],
        "references": [("p q", "y"), ("p q",)],
    }
)
ENTRIES = {
    "image_id": ["1", "1", "1", "2", "2"],
    "caption": ["x y z", "p q", "y", "x y z", "p q"],
}
VECTORS = [[2, 0], [3, 4], [-1, 0], [5, 0], [0, 0.5], [3, 4], [1, 0], [1, 0], [0, 1]]
LENGTHS = [3, 2, 1, 1, 2]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("p", [(0.6 + 1.6 / 3) / 2, 1.0]),
        ("r", [(0.9 + 1) / 2, 0.5]),
        ("f", [(0.72 + 16 / 23) / 2, 2 / 3]),
    ],
)
@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_scores_average_over_references_and_know_the_image(ending, measure, expected, tmp_path):
    path = write(tmp_path / f"v{ending}", VECTORS, LENGTHS, **ENTRIES)
    one = metric(f"vilbertscore(embeddings='{path}',measure={measure})")
    np.testing.assert_allclose(one.score(ITEMS), expected, rtol=1e-7)
    turned = ITEMS.assign(references=[refs[::-1] for refs in ITEMS["references"]])
    np.testing.assert_allclose(one.score(turned[::-1]), expected[::-1], rtol=1e-7)


def test_one_reference_at_a_time(tmp_path):
    path = write(tmp_path / "v.npz", VECTORS, LENGTHS, **ENTRIES)
    first = ITEMS.assign(references=[refs[:1] for refs in ITEMS["references"]])
    assert ViLBERTScore(str(path)).score(first) == pytest.approx([0.72, 2 / 3], abs=1e-7)


tokens = st.integers(1, 4).flatmap(
    lambda n: arrays(
        np.float64, (n, 3), elements=st.floats(-10, 10).filter(lambda x: abs(x) > 1e-3)
    )
)


@settings(max_examples=100)
@given(candidate=tokens, reference=tokens, order=st.randoms())
def test_laws(candidate, reference, order):
    """Within 0 and 1; 1 for a caption against itself; swapping sides swaps P and R; order is idle."""
    p, r, f = greedy_match(candidate, reference)
    assert 0 <= min(p, r) <= f + 1e-12 <= max(p, r) + 2e-12 <= 1 + 1e-9
    assert greedy_match(candidate, candidate) == pytest.approx((1, 1, 1), abs=1e-9)
    assert greedy_match(reference, candidate) == pytest.approx((r, p, f), abs=1e-12)
    shuffled = list(range(len(candidate)))
    order.shuffle(shuffled)
    assert greedy_match(candidate[shuffled], reference) == pytest.approx((p, r, f), abs=1e-12)


def test_nothing_alike_is_0_and_no_tokens_are_undefined():
    one, other = np.array([[1.0, 0]]), np.array([[0.0, 1]])
    assert greedy_match(one, other) == (0, 0, 0)
    assert greedy_match(one, -one) == (0, 0, 0)
    assert all(map(math.isnan, greedy_match(one, np.empty((0, 2)))))


def test_a_reference_without_embeddings(tmp_path):
    path = write(
        tmp_path / "v.npz",
        VECTORS[:8],
        [*LENGTHS[:4], 1],
        **{**ENTRIES, "caption": ["x y z", "p q", "y", "x y z", "other"]},
    )
    with says("v.npz", "no embedding for 2 p q (1 of 5 items lack one)"):
        ViLBERTScore(str(path)).score(ITEMS)


@pytest.mark.parametrize("column", ["image_id", "caption"])
def test_a_file_that_lacks_a_key(column, tmp_path):
    path = write(tmp_path / "v.npz", VECTORS, LENGTHS, **{column: ENTRIES[column]})
    with says("v.npz", "token embeddings need both"):
        ViLBERTScore(str(path)).score(ITEMS)


def test_a_file_of_whole_captions_is_no_file_of_tokens(tmp_path):
    path = write(tmp_path / "v.parquet", [[1, 2]], image_id=["1"], caption=["a"])
    with says("v.parquet", "a list of numbers is expected"):
        ViLBERTScore(str(path)).score(ITEMS)


IMAGE_ITEMS = pd.DataFrame(
    {
        "item_id": ["x1", "x2", "x3"],
        "image_id": ["1.jpg", "2.jpg", "1.jpg"],
        "caption": ["a dog", "a cat", "a cat"],
    }
)


def made(folder, images, texts, image_ids=("1.jpg", "2.jpg"), **keys):
    keys = keys or {"caption": ["a dog", "a cat"]}
    return VseCosine(
        images=str(write(folder / "images.npz", images, image_id=list(image_ids))),
        texts=str(write(folder / "texts.parquet", texts, **keys)),
    )


def test_cosines_worked_by_hand(tmp_path):
    # (3, 4)·(4, 3) / 25 = 0.96; (2, 0)·(1, 1) / (2 √2) = √½; (3, 4)·(1, 1) / (5 √2) = 7 / (5 √2).
    one = made(tmp_path, [[3, 4], [2, 0]], [[4, 3], [1, 1]])
    expected = [0.96, math.sqrt(0.5), 7 / (5 * math.sqrt(2))]
    np.testing.assert_allclose(one.score(IMAGE_ITEMS), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "keys",
    [
        {"item_id": ["x3", "x2", "x1"]},
        {"image_id": ["1.jpg", "2.jpg", "1.jpg"], "caption": ["a cat", "a cat", "a dog"]},
    ],
    ids=["item", "pair"],
)
def test_texts_may_be_named_by_item_or_beside_their_image(keys, tmp_path):
    # One caption, a cat, with another embedding beside each image.
    one = made(tmp_path, [[1, 0], [0, 1]], [[-1, 0], [1, 1], [0, 1]], **keys)
    np.testing.assert_allclose(one.score(IMAGE_ITEMS), [0, math.sqrt(0.5), -1], atol=1e-7)


def test_images_may_be_named_by_item(tmp_path):
    images = write(tmp_path / "i.npz", [[1, 0], [0, 1], [0, -1]], item_id=["x1", "x2", "x3"])
    texts = write(tmp_path / "t.npz", [[1, 0], [0, 1]], caption=["a dog", "a cat"])
    one = metric(f"vse_cosine(images='{images}',texts='{texts}')")
    assert one.score(IMAGE_ITEMS).tolist() == [1, 1, -1]


finite = st.floats(-1e3, 1e3, width=32).filter(lambda x: abs(x) > 1e-3)
pairs = arrays(np.float32, (2, 3), elements=finite)


@settings(max_examples=30)
@given(images=pairs, texts=pairs, factor=st.floats(0.01, 100))
def test_laws_of_cosines(images, texts, factor, tmp_path_factory):
    """Within −1 and 1, the same in any order and at any length, and 1 for equal vectors."""
    folder = tmp_path_factory.mktemp("vse")
    one = made(folder, images, texts)
    scores = one.score(IMAGE_ITEMS)
    assert np.all(np.abs(scores) <= 1)
    np.testing.assert_array_equal(one.score(IMAGE_ITEMS[::-1]), scores[::-1])
    np.testing.assert_allclose(
        made(folder, images, texts * factor).score(IMAGE_ITEMS), scores, atol=1e-6
    )
    np.testing.assert_allclose(made(folder, images, images).score(IMAGE_ITEMS)[:2], 1, atol=1e-6)


def test_two_spaces(tmp_path):
    with says("texts.parquet", "texts have 3 dimensions, but images 2", "of one model"):
        made(tmp_path, [[3, 4], [2, 0]], [[4, 3, 1], [1, 1, 1]]).score(IMAGE_ITEMS)


def test_an_item_without_an_embedding(tmp_path):
    with says("images.npz", "no embedding for 2.jpg (1 of 3 items lack one)"):
        made(tmp_path, [[3, 4]], [[4, 3], [1, 1]], image_ids=["1.jpg"]).score(IMAGE_ITEMS)
    with says("texts.parquet", "no embedding for a cat (2 of 3 items lack one)"):
        made(tmp_path, [[3, 4], [2, 0]], [[4, 3]], caption=["a dog"]).score(IMAGE_ITEMS)


def test_embeddings_without_the_keys_they_need(tmp_path):
    images = write(tmp_path / "i.npz", [[1, 0]], caption=["a dog"])
    with says("i.npz", "are named by caption; item_id, or image_id is needed"):
        VseCosine(str(images), str(images)).score(IMAGE_ITEMS)
    one = made(tmp_path, [[3, 4], [2, 0]], [[4, 3], [1, 1]])
    with says("images.npz", "the items to score have no image_id"):
        one.score(IMAGE_ITEMS[["item_id", "caption"]])


def test_files_that_are_not_given_are_looked_for_in_the_weights_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    one = metric("vse_cosine")
    assert one.find_unavailability(IMAGE_ITEMS) == Unavailability(
        "needs a file",
        f"give images=FILE, or put it at {tmp_path / 'vse_cosine_images.npz'} (its layout: "
        f"docs/metrics_from_files.md)",
    )
    with pytest.raises(UnavailableError, match=r"give images=FILE"):
        one.score(IMAGE_ITEMS)
    before = one.signature
    write(tmp_path / "vse_cosine_images.npz", [[3, 4], [2, 0]], image_id=["1.jpg", "2.jpg"])
    write(tmp_path / "vse_cosine_texts.parquet", [[4, 3], [1, 1]], caption=["a dog", "a cat"])
    assert one.find_unavailability(IMAGE_ITEMS) is None
    assert one.score(IMAGE_ITEMS)[0] == pytest.approx(0.96, abs=1e-7)
    assert one.signature != before


def test_alignment_is_the_share_of_its_logit_in_the_softmax(tmp_path):
    """Worked by hand: e² / (e² + e¹) = 1 / (1 + e⁻¹), and 1 / (1 + e³)."""
    keys = {"image_id": ["1.jpg", "2.jpg"], "caption": ["a dog", "a cat"]}
    path = write(tmp_path / "logits.npz", [[2, 1], [-1, 2]], **keys)
    rows = pd.DataFrame({"item_id": ["a", "b"], "image": [None, None], **keys})
    expected = [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(3))]
    assert metric(f"vilbert_alignment(logits='{path}')").score(rows) == pytest.approx(expected)
    other = metric(f"vilbert_alignment(logits='{path}',aligned=second)").score(rows)
    assert other == pytest.approx([1 - e for e in expected])
    path = write(tmp_path / "three.npz", [[2, 1, 0], [-1, 2, 0]], **keys)
    with says("three.npz: vectors of 3 numbers; two logits are expected"):
        metric(f"vilbert_alignment(logits='{path}')").score(rows)
