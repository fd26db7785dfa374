"""Metrics that run a model, over shards: loaded once in each process."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest

from captau.metrics.neural import text
from captau.metrics.registry import metric
from tests.benchmarks.large.large_sets import plain, put, rows_of, score, scores_in, write


def test_a_text_model_is_loaded_once(weights, tmp_path, monkeypatch):
    rows = rows_of(40)
    loads: list[object] = []
    load = text.load_model
    text._on_device.cache_clear()
    monkeypatch.setattr(text, "load_model", lambda folder: loads.append(folder) or load(folder))
    score(write(tmp_path / "set.jsonl", rows), tmp_path / "out", ["sentence_cosine"], rows=10)
    assert len(loads) == 1
    expected = metric("sentence_cosine").score(plain(rows))
    scores = scores_in(tmp_path / "out")["sentence_cosine"]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    corpus = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert corpus["sentence_cosine"] == pytest.approx(expected.mean(), abs=1e-6)
    assert not list((tmp_path / "cache").rglob("*.arrow"))  # no features of so many texts are kept


def test_a_corrupt_shard_is_left_out_of_the_scores_of_models(weights, tmp_path):
    rows = rows_of(20)
    write(tmp_path / "set" / "a.jsonl", rows)
    whole = write(tmp_path / "set" / "b.jsonl.gz", rows)
    whole.write_bytes(whole.read_bytes()[:100])
    metrics = ["sentence_cosine", "bleu_1"]
    result = score(tmp_path / "set", tmp_path / "out", metrics, skip_corrupt=True)
    assert "1 of 2 shards were corrupt and left out" in result.summary
    alone = score(tmp_path / "set" / "a.jsonl", tmp_path / "alone", metrics)
    assert result.corpus == pytest.approx(alone.corpus, rel=1e-6)


CAPTIONS = [
    f"{number} {noun}".strip()
    for number in ("two", "some", "no")
    for noun in ("dogs", "red cars", "", "x")
]


def test_images_may_lie_in_tar_shards_or_in_a_folder(weights, tmp_path):
    """CLIPScore and PAC-S need no references."""
    from PIL import Image

    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    with tarfile.open(tmp_path / "set.tar", "w") as archive:
        for i, caption in enumerate(CAPTIONS):
            stream = io.BytesIO()
            Image.new("RGB", (32, 32), tuple(rng.integers(0, 255, 3).tolist())).save(stream, "PNG")
            put(archive, f"a/{i}.png", stream.getvalue())
            put(archive, f"a/{i}.txt", caption.encode())
            (tmp_path / "images" / f"{i}.png").write_bytes(stream.getvalue())
    lines = [{"image_id": f"{i}", "caption": caption} for i, caption in enumerate(CAPTIONS)]
    write(tmp_path / "set.jsonl", lines)
    metrics, images = ["clipscore", "pac_s"], tmp_path / "images"
    score(tmp_path / "set.tar", tmp_path / "tar", metrics, rows=5)
    score(tmp_path / "set.jsonl", tmp_path / "lines", metrics, rows=7, images=images)
    ours, theirs = scores_in(tmp_path / "tar"), scores_in(tmp_path / "lines")
    assert ours["image_id"].tolist() == [f"a/{i}" for i in range(len(CAPTIONS))]
    np.testing.assert_allclose(ours[metrics], theirs[metrics], atol=1e-6)
    assert (ours[metrics].to_numpy() > 0).any()  # models with weights by lot: most are cut off at 0
