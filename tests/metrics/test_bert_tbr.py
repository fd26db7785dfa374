"""BERT-TBR worked by hand, its laws, and on a tiny model against a plain reading of its formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.neural.bert_tbr import BertTbr, Tokens, recall
from captau.metrics.registry import metric
from tests.conftest import AWKWARD, says

pytestmark = pytest.mark.neural

IDF = {"dog": 0.5, "runs": 1.0, "grass": 2.0, "a": 0.1}


def tokens(words, *vectors):
    """[CLS], a vector a word, [SEP]."""
    table = np.array(vectors, dtype=float)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    return Tokens(table, words.split(), np.array([IDF[w] for w in words.split()]))


CANDIDATE = tokens("dog grass", (1, 1), (1, 0), (-4, 3), (1, 1))
FIRST = tokens("dog runs", (1, -1), (1, 0), (0, 1), (0, 1))
SECOND = tokens("dog grass", (1, -1), (1, 0), (-1, 0), (1, 0))


@pytest.mark.parametrize(
    ("stop_words", "own_vectors", "expected"),
    [
        # Each reference lacks a word of the other, so both become dog, runs, grass, whose best cosines
        # are 1, 0.6 and 0.8: (0.5 + 0.6 + 2 · 0.8) / 3.5, times their mean.
        ((), True, 2.7 / 3.5 * 0.8),
        # runs is none of those that the second factor counts.
        (("runs",), True, 2.7 / 3.5 * 0.9),
        # Of the candidate dog alone is left: 1, 0, 0.
        (("grass", "runs"), True, 2.7 / 3.5 * 1),
        # As released, grass has the [SEP] of the first, (0, 1), with 0.6; runs that of the second,
        # (1, 0), with 1.
        ((), False, (2.3 / 3.5 * (2.2 / 3) + 3.1 / 3.5 * (2.8 / 3)) / 2),
        (("runs",), False, (2.3 / 3.5 * 0.8 + 3.1 / 3.5 * 0.9) / 2),
        # Nothing but stop words.
        (("dog", "grass", "runs"), True, 0.0),
    ],
)
def test_worked_by_hand(stop_words, own_vectors, expected):
    found = recall(CANDIDATE, [FIRST, SECOND], stop_words, 0.4, own_vectors=own_vectors)
    assert found == pytest.approx(expected, abs=1e-12)


def test_one_reference_is_not_completed():
    # dog and runs alone: (0.5 + 0.6) / 1.5 · 0.8; above 0.7 dog alone is matched: 1 · 1.
    assert recall(CANDIDATE, [FIRST], (), 0.4, own_vectors=False) == pytest.approx(1.1 / 1.5 * 0.8)
    assert recall(CANDIDATE, [FIRST], (), 0.7, own_vectors=False) == 1


def test_a_token_that_a_reference_before_matches_is_not_added_again():
    """The second and the third have grass; the first gets it from the second alone, so that with

    dog 1, grass 0.8 in all of them the weights are 0.5 and 2; twice it would be 0.5 and 4.
    """
    dog = tokens("dog", (1, 1), (1, 0), (1, 1))
    grass = tokens("grass", (1, 1), (-1, 0), (1, 1))
    candidate = tokens("dog grass", (1, 1), (1, 0), (-4, 3), (1, 1))
    once = (0.5 + 1.6) / 2.5 * 0.9
    assert recall(candidate, [dog, grass, grass], (), 0.4, own_vectors=True) == pytest.approx(once)


def test_nothing_matches_nothing():
    empty = tokens("", (1, 1), (1, 1))
    for candidate, references in (
        (empty, [FIRST]),
        (CANDIDATE, [empty]),
        (empty, [empty]),
        (tokens("dog", (1, 1), (0, -1), (1, 1)), [tokens("dog", (1, 1), (0, 1), (1, 1))]),
    ):
        for own in (True, False):
            assert recall(candidate, references, (), 0.4, own_vectors=own) == 0


vectors = st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(0.1, 1))
texts = st.lists(st.tuples(st.sampled_from(sorted(IDF)), vectors), max_size=4).map(
    lambda pairs: tokens(
        " ".join(word for word, _ in pairs), (1, 1, 1), *(v for _, v in pairs), (1, -1, 1)
    )
)


@settings(max_examples=100)
@given(
    candidate=texts, references=st.lists(texts, min_size=1, max_size=4), own_vectors=st.booleans()
)
def test_laws(candidate, references, own_vectors):
    """Within 0 and 1; a text that is its own and only reference has 1."""
    score = recall(candidate, references, {"a"}, 0.4, own_vectors=own_vectors)
    assert 0 <= score <= 1 + 1e-9
    if set(candidate.words) - {"a"}:
        alone = recall(candidate, [candidate], {"a"}, 0.4, own_vectors=own_vectors)
        assert alone == pytest.approx(1, abs=1e-9)


# The metric, on a tiny model

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *["a", "dog", "runs", "grass", "on", "the", "cat", ".", "##s"],
]
ROWS = [
    {
        "caption": "A dog runs",
        "references": ["a dog on the grass .", "the cat runs", "dogs"],
        "weight": 1,
    },
    {
        "caption": "the cats on grass",
        "references": ["a cat .", "the cat on the grass"],
        "weight": 1,
    },
    {"caption": "a dog", "references": ["the dog runs"], "weight": 3},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A BERT of two layers, drawn by lot, with a list of stop words beside it."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "stop.txt").write_text("a\nthe\non\n.\n")
    return folder


def by_the_book(folder, rows, layer, threshold, own_vectors):
    """The formula written out token by token, with hidden states of transformers itself."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    bert = AutoModel.from_pretrained(folder).eval()
    stop = {"a", "the", "on", "."}
    hidden, words, documents = {}, {}, []
    for row in rows:
        for text in [row["caption"], *row["references"]]:
            ids = tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                states = bert(**ids, output_hidden_states=True).hidden_states[layer][0].numpy()
            hidden[text] = [h / np.linalg.norm(h) for h in states]
            words[text] = tokenizer.convert_ids_to_tokens(ids["input_ids"][0].tolist())[1:-1]
            documents += [set(words[text])] * row.get("weight", 1)

    def idf(word):
        return np.log((len(documents) + 1) / (sum(word in d for d in documents) + 1))

    def best(vector, text, content=False):
        pairs = zip(words[text], hidden[text][1:-1], strict=True)
        return max([0.0] + [float(vector @ h) for w, h in pairs if not (content and w in stop)])

    scores = []
    for row in rows:
        refs, total = row["references"], 0.0
        for r in refs:
            tokens = list(zip(words[r], hidden[r][1:-1], strict=True))
            new = []
            for o in refs:
                for k, word in enumerate(words[o]):
                    others = [r, *(e for e in refs[: refs.index(o)] if e != r)]
                    if o != r and all(best(hidden[o][k + 1], e) <= threshold for e in others):
                        new.append((word, hidden[o][k], hidden[o][k + 1]))
            slipped = [hidden[r][-1], *(before for _, before, _ in new)]
            for (word, _, own), vector in zip(new, slipped, strict=False):
                tokens.append((word, own if own_vectors else vector))
            matched = [(w, best(v, row["caption"])) for w, v in tokens]
            matched = [(idf(w), b) for w, b in matched if b > threshold]
            content = [best(v, row["caption"], content=True) for w, v in tokens if w not in stop]
            content = [b for b in content if b > threshold]
            weight = sum(w for w, _ in matched)
            if weight and content:
                total += sum(w * b for w, b in matched) / weight * np.mean(content)
        scores.append(total / len(refs))
    return scores


@pytest.mark.parametrize("added", ["released", "intended"])
@pytest.mark.parametrize(("layer", "threshold"), [(1, 0.4), (2, 0.4), (2, 0.0), (2, 0.8)])
def test_a_tiny_model(model, layer, threshold, added):
    one = BertTbr(str(model), layer, threshold, str(model / "stop.txt"), added, device="cpu")
    expected = by_the_book(model, ROWS, layer, threshold, added == "intended")
    assert len(set(expected)) == len(ROWS)
    np.testing.assert_allclose(one.score(ROWS), expected, rtol=1e-5)
    np.testing.assert_allclose(one.score(ROWS[::-1]), expected[::-1], rtol=1e-5)


def test_what_is_missing_is_said(model, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    one = metric("bert_tbr")
    assert "give stop_words=FILE" in str(one.find_unavailability(ROWS))
    (tmp_path / "bert_tbr_stop_words.txt").write_text("a\n")
    assert "needs the model 'bert-base-uncased'" in str(one.find_unavailability(ROWS))
    (tmp_path / "bert-base-uncased").symlink_to(model)
    assert one.find_unavailability(ROWS) is None
    with says("layer is 8; the model has 1 to 2"):
        one.score(ROWS)


def test_captions_that_break_things(model):
    one = BertTbr(str(model), 2, 0.4, str(model / "stop.txt"), device="cpu")
    scores = one.score([{"caption": c, "references": [c, "a dog"]} for c in AWKWARD])
    assert scores[AWKWARD.index("")] == 0
    assert np.all((scores >= 0) & (scores <= 1 + 1e-6))
