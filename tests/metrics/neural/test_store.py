"""The feature store: nothing is encoded twice, files are whole or absent, memory is bounded."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.datasets import cache
from captau.metrics.neural import (
    store,
)
from captau.metrics.neural import store as store_module
from captau.metrics.neural.models import RANDOM
from captau.metrics.neural.sentence_cosine import SentenceCosine
from captau.metrics.neural.store import FeatureStore, key_of
from captau.metrics.neural.text import TextModel
from captau.metrics.rows import Rows
from tests.conftest import raises_exactly


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))


class Encoder:
    """Features that tell their text: (length of the text, 1, 2, …), and a log of what was asked."""

    def __init__(self, texts, batch=3, ragged=False, dtype=np.float32):
        self.texts, self.batch, self.ragged, self.dtype = texts, batch, ragged, dtype
        self.asked = []

    def feature(self, text):
        row = np.array([len(text), hash(text) % 97, 2], dtype=self.dtype)
        return np.tile(row, (len(text) + 1, 1)) if self.ragged else row

    def __call__(self, todo):
        self.asked += [self.texts[i] for i in todo]
        for start in range(0, len(todo), self.batch):
            some = todo[start : start + self.batch]
            yield some, [self.feature(self.texts[i]) for i in some]


def keys(texts):
    return [key_of(t) for t in texts]


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.text(max_size=4), max_size=12), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([np.float16, np.float32]),
)
def test_each_text_is_encoded_once_and_comes_back_in_order(tmp_path_factory, runs, ragged, dtype):
    folder = tmp_path_factory.mktemp("store")
    seen = set()
    for texts in runs:
        encoder = Encoder(texts, ragged=ragged, dtype=dtype)
        found = FeatureStore(folder, "s").get(keys(texts), encoder)
        assert len(encoder.asked) == len(set(encoder.asked))
        assert set(encoder.asked) == set(texts) - seen
        seen |= set(texts)
        assert len(found) == len(texts)
        for got, text in zip(found[:] if texts else [], texts, strict=True):
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, encoder.feature(text))
        assert found.lengths.tolist() == [len(t) + 1 if ragged else 1 for t in texts]


def test_shards_are_written_as_batches_finish(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "SHARD_BYTES", 100)
    texts = [str(i) for i in range(100)]
    at_hand = []

    def encode(todo):
        for i in todo:
            at_hand.append(len(list(tmp_path.glob("*.arrow"))))
            yield [i], [np.full(8, i, dtype=np.float32)]

    found = FeatureStore(tmp_path, "s").get(keys(texts), encode)
    # 32 bytes each: a shard holds four, so memory never holds more than those.
    assert at_hand == [i // 4 for i in range(100)]
    np.testing.assert_array_equal(found[[99, 0, 50]][:, 0], [99, 0, 50])


def test_a_shard_is_written_when_time_has_passed(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "SHARD_SECONDS", 0.0)
    FeatureStore(tmp_path, "s").get(keys(["a", "bb"]), Encoder(["a", "bb"], batch=1))
    assert len(list(tmp_path.glob("*.arrow"))) == 2


def test_what_fails_midway_loses_nothing_that_was_computed(tmp_path):
    texts = ["a", "bb", "ccc", "dddd"]

    def fails(todo):
        yield todo[:2], [np.zeros(3, dtype=np.float32)] * 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FeatureStore(tmp_path, "s").get(keys(texts), fails)
    encoder = Encoder(texts)
    FeatureStore(tmp_path, "s").get(keys(texts), encoder)
    assert encoder.asked == ["ccc", "dddd"]
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_shard_is_computed_anew(tmp_path):
    texts = ["a", "bb"]
    FeatureStore(tmp_path, "s").get(keys(texts), Encoder(texts))
    (path,) = tmp_path.glob("*.arrow")
    path.write_bytes(path.read_bytes()[:-20])
    encoder = Encoder(texts)
    FeatureStore(tmp_path, "s").get(keys(texts), encoder)
    assert encoder.asked == texts


def test_what_a_killed_run_left_behind_is_removed(tmp_path):
    old, young = tmp_path / ".a.tmp", tmp_path / ".b.tmp"
    for path in (old, young):
        path.write_text("half")
    os.utime(old, (time.time() - 2 * cache.STALE,) * 2)
    FeatureStore(tmp_path, "s").get(keys(["a"]), Encoder(["a"]))
    assert not old.exists()
    assert young.exists()


def test_two_processes_at_once_and_a_kill(tmp_path):
    code = (
        "import sys, time, numpy as np\n"
        "from pathlib import Path\n"
        "from captau.metrics.neural import store\n"
        "store.SHARD_BYTES = 1\n"
        "def encode(todo):\n"
        "    for i in todo:\n"
        "        time.sleep(0.005)\n"
        "        yield [i], [np.full(3, i, dtype=np.float32)]\n"
        "keys = [store.key_of(str(i)) for i in range(60)]\n"
        f"found = store.FeatureStore(Path({str(tmp_path)!r}), 's').get(keys, encode)\n"
        "assert (found[:][:, 0] == np.arange(60)).all()\n"
    )
    killed, *others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    deadline = time.time() + 60
    while not list(tmp_path.glob("*.arrow")) and time.time() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert [p.wait() for p in others] == [0, 0]
    texts = [str(i) for i in range(60)]
    encoder = Encoder(texts)
    found = FeatureStore(tmp_path, "s").get(keys(texts), encoder)
    assert not encoder.asked
    np.testing.assert_array_equal(found[:][:, 0], np.arange(60))


def test_signatures_do_not_share(tmp_path):
    FeatureStore.of("one").get(keys(["a"]), Encoder(["a"]))
    encoder = Encoder(["a"])
    FeatureStore.of("another").get(keys(["a"]), encoder)
    assert encoder.asked == ["a"]


def test_a_folder_that_cannot_be_written_costs_time_and_not_the_run(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    found = FeatureStore(blocked / "x", "s").get(keys(["a"]), Encoder(["a"]))
    assert found[0:1][0, 0] == 1
    assert "cannot be written" in caplog.text


def test_nothing_is_kept_where_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    cache.keep(False)
    try:
        FeatureStore.of("s").get(keys(["a"]), Encoder(["a"]))
        assert not list(tmp_path.iterdir())
    finally:
        cache.keep(True)


def test_a_key_may_end_in_zeros(tmp_path):
    odd = [b"\1" * 14 + b"\0\0", b"\0" * 16, b"\1" * 16]
    encoder = Encoder(["a", "bb", "ccc"])
    FeatureStore(tmp_path, "s").get(odd, encoder)
    found = FeatureStore(tmp_path, "s").get(odd, encoder)
    assert encoder.asked == ["a", "bb", "ccc"]
    assert found[:][:, 0].tolist() == [1, 2, 3]


def test_keys_are_sixteen_bytes_of_a_hash():
    for content, data in (("é", "é".encode()), (b"x", b"x"), ("\udc80", b"\xed\xb2\x80")):
        assert key_of(content) == hashlib.blake2b(data, digest_size=16).digest()
    name = hashlib.sha256(b"signature").hexdigest()[:24]
    assert FeatureStore.of("signature").folder.name == name
    assert FeatureStore.of("signature").signature == "signature"


def test_features_are_encoded_once_in_order(tmp_path):
    one = FeatureStore(tmp_path / "s", "sig")
    keys = [key_of(t) for t in ("b", "a", "b", "c")]
    asked = []

    def encode(todo):
        asked.append(todo)
        yield todo[:2], [np.array([[1.0, 2]]), np.array([[3.0, 4], [5, 6]])]
        yield todo[2:], [np.zeros((0, 2))]

    found = one.get(keys, encode)
    assert asked == [[0, 1, 3]]
    assert found.lengths.tolist() == [1, 2, 1, 0]
    assert len(found) == 4
    assert [f.tolist() for f in found[[1, 3, 0]]] == [[[3, 4], [5, 6]], [], [[1, 2]]]
    again = FeatureStore(tmp_path / "s", "sig").get([key_of("c"), key_of("a")], encode)
    assert again.lengths.tolist() == [0, 2]
    assert len(asked) == 1
    with raises_exactly("features of 1 items were not computed"):
        one.get([key_of("x"), key_of("y")], lambda todo: [(todo[:1], [np.zeros((1, 2))])])
    empty = FeatureStore(tmp_path / "none", "sig").get([], encode)
    assert (len(empty), empty[:].shape) == (0, (0, 0))


def test_a_note_of_random_weights_is_a_remark(tmp_path):
    (tmp_path / RANDOM).write_text("drawn\n")
    rows = Rows.from_items([{"caption": "a"}])
    one = SentenceCosine()
    one.note_random_weights(rows, TextModel("m", tmp_path, "cpu", 1))
    assert rows.remarks == {one.spec: ["drawn"]}


def test_features_that_can_be_written_nowhere_are_an_error(tmp_path, monkeypatch, caplog):
    tried = []

    def save(self, folder, keys, features):
        tried.append(folder)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FeatureStore, "_save_in", save)
    monkeypatch.setattr(store, "_temporary", [tmp_path / "temporary"])
    one = FeatureStore(tmp_path / "s", "sig")
    with raises_exactly(
        f"{tmp_path}/temporary/s: features cannot be written (No space left on device); set cache.root=DIR"
    ):
        one.get([key_of("a")], lambda todo: [(todo, [np.zeros((1, 2))])])
    assert tried == [tmp_path / "s", tmp_path / "temporary" / "s"]
    assert caplog.messages == [
        f"features are not kept for the next run: {tmp_path}/s cannot be written (No space left on device); set "
        f"cache.root=DIR"
    ]
