"""The entries of a file of embeddings, by hand."""

from __future__ import annotations

import numpy as np

from captau.metrics.neural import (
    embedding_files,
)
from tests.conftest import raises_exactly


def test_entries_of_embeddings_in_full(tmp_path, monkeypatch):
    path = tmp_path / "e.NPZ"
    np.savez(tmp_path / "e.npz", embedding=np.ones((3, 2)), item_id=np.array(["a", "b", "c"]))
    (tmp_path / "e.npz").rename(path)
    found = embedding_files.Embeddings.read(path)
    assert found.ends.tolist() == [0, 1, 2, 3]
    with raises_exactly(
        f"{path}: the embeddings are named by item_id; image_id and caption, or caption is needed"
    ):
        found.columns(("image_id", "caption"), ("caption",))
    with raises_exactly(f"{path}: no 'length'; it is needed, see docs/metrics_from_files.md"):
        embedding_files.Embeddings.read(path, tokens=True)
    with raises_exactly(f"{tmp_path}/x.npz: no such file of embeddings"):
        embedding_files.Embeddings.read(tmp_path / "x.npz")
    monkeypatch.setattr(embedding_files, "_SLICE", 2)
    vectors = np.ones((5, 2))
    vectors[4] = [np.nan, 0]
    keys = {"image_id": np.array(["1", "2", "3"]), "caption": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "f.npz", embedding=vectors, length=np.array([2, 0, 3]), **keys)
    with raises_exactly(f"{tmp_path}/f.npz: the embedding of 3 c holds NaN or infinity"):
        embedding_files.Embeddings.read(tmp_path / "f.npz", tokens=True)
    vectors[4], vectors[1] = 1, 0
    np.savez(tmp_path / "f.npz", embedding=vectors, length=np.array([2, 0, 3]), **keys)
    with raises_exactly(f"{tmp_path}/f.npz: the embedding of 1 a holds zeros alone"):
        embedding_files.Embeddings.read(tmp_path / "f.npz", tokens=True)
    (tmp_path / "g.csv").touch()
    with raises_exactly(
        f"{tmp_path}/g.csv: the name of a file of embeddings ends in .npz or .parquet or .safetensors"
    ):
        embedding_files.Embeddings.read(tmp_path / "g.csv")
