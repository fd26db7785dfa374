"""Files of embeddings: three layouts that hold the same, and what can be wrong with them."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.metrics.neural.embeddings import ENDINGS, Embeddings
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
                ([2], "1 entries are of 2 vectors, but there are 1"),
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
    ("name", "message"), [("absent.npz", "no such file"), ("a.csv", "embeddings end in .npz")]
)
def test_a_file_that_is_none(name, message, tmp_path):
    (tmp_path / "a.csv").write_text("item_id,embedding\n")
    with says(name, message):
        Embeddings.read(tmp_path / name)
