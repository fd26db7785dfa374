"""The metrics `umic` and `umic_c`: scores by hand in any order, signatures, and missing or faulty files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from captau.metrics.base import UnavailableError
from captau.metrics.learned.umic import metric as module
from captau.metrics.learned.umic.metric import (
    Umic,
    WordPieces,
    collate,
    read_vocabulary,
    save_uniter,
)
from captau.metrics.learned.umic.regions import Regions, hash_regions, write_regions
from captau.metrics.neural.models import MODEL_LOCK, hash_of
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, says

pytestmark = pytest.mark.neural

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "runs", "##ning", "."]
ITEMS = pd.DataFrame(
    {
        "item_id": ["x", "y", "z", "again"],
        "image_id": ["1", "2", "1", "1"],
        "caption": ["a dog runs", "a dog runs", "a cat .", "a dog runs"],
    }
)


@pytest.fixture
def network():
    from captau.metrics.learned.umic._uniter_network import Uniter, UniterSizes

    torch.manual_seed(7)
    shape = UniterSizes(16, 2, 2, 32, len(PIECES), 12, 5)
    network = Uniter(shape).eval()
    with torch.no_grad():  # fresh weights tell captions apart by 1e-5 alone
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    return network


@pytest.fixture
def home(tmp_path, monkeypatch, network):
    """A weights folder with all that the metrics look for."""
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    save_uniter(network, tmp_path / "umic.safetensors")
    save_uniter(network, tmp_path / "uniter-base.safetensors")
    (tmp_path / "bert-base-cased-vocab.txt").write_text("".join(f"{p}\n" for p in PIECES))
    rng = np.random.default_rng(1)
    for image_id, count in (("1", 3), ("2", 6)):
        boxes = np.sort(rng.uniform(0, 9, size=(count, 4)))
        write_regions(tmp_path / "img_db", image_id, rng.normal(size=(count, 5)), boxes, (10, 10))
    return tmp_path


def by_hand(home, network, image_id, caption, head):
    """One pair, without padding, through the network and the formula."""
    with Regions(home / "img_db") as regions, torch.inference_mode():
        texts = WordPieces(read_vocabulary(home / "bert-base-cased-vocab.txt"))([caption])
        pooled = network(*collate(texts, [regions[image_id]], "cpu"))
        if head == "rank":
            return 1 / (1 + np.exp(-network.rank_output(pooled).item()))
        return torch.softmax(network.itm_output(pooled), 1)[0, 1].item()


@pytest.mark.parametrize(("name", "head"), [("umic", "rank"), ("umic_c", "itm")])
def test_each_pair_is_scored_as_by_hand(home, network, name, head):
    scores = metric(name).score(ITEMS)
    expected = [
        by_hand(home, network, image, caption, head)
        for image, caption in zip(ITEMS["image_id"], ITEMS["caption"], strict=True)
    ]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert scores[0] == scores[3] != scores[1]  # one caption of two images
    order = [2, 0, 3, 1]
    for size in (1, 3):
        again = metric(f"{name}(batch_size={size})").score(ITEMS.iloc[order])
        np.testing.assert_allclose(again, scores[order], atol=1e-6)


def test_signatures_change_with_the_files(home):
    assert (Umic().name, Umic(head="itm").name) == ("umic", "umic_c")
    assert Umic(head="itm").spec == "umic_c"
    before = {name: metric(name).signature for name in ("umic", "umic_c")}
    assert len(set(before.values())) == 2
    (home / "umic.safetensors").write_bytes((home / "umic.safetensors").read_bytes() + b" ")
    assert metric("umic").signature != before["umic"]
    assert metric("umic_c").signature == before["umic_c"]
    write_regions(home / "img_db", "3", [[0.0] * 5], [[0, 0, 1, 1]], (2, 2))
    assert metric("umic_c").signature != before["umic_c"]


def test_needs_neither_references_nor_pictures(home):
    assert not Umic.needs
    assert "references" not in ITEMS.columns
    assert metric("umic").find_unavailability(ITEMS) is None


@pytest.mark.parametrize(
    ("missing", "parts"),
    [
        ("umic.safetensors", ("checkpoint 'umic.pt'", "hwanheelee1993/UMIC", "checkpoint=FILE")),
        ("img_db", ("region features", "img_db", "features=FOLDER")),
        ("bert-base-cased-vocab.txt", ("word pieces", "vocabulary=FILE")),
        ("img_db/2.npz", ("has none of 2 (1 of 2 images lack them)",)),
    ],
)
def test_missing_files_are_named(home, missing, parts):
    (home / missing).rename(home / "elsewhere")
    reason = metric("umic").find_unavailability(ITEMS)
    assert reason is not None
    for part in parts:
        assert part in str(reason)
    with pytest.raises(UnavailableError):
        metric("umic").score(ITEMS)


def test_a_vocabulary_beside_the_checkpoint_goes_first(home, network):
    folder = home / "mine"
    folder.mkdir()
    save_uniter(network, folder / "weights.safetensors")
    turned = [*PIECES[:5], *PIECES[5:][::-1]]
    (folder / "vocab.txt").write_text("".join(f"{p}\n" for p in turned))
    scores = metric("umic").score(ITEMS)
    assert not np.allclose(metric("umic(mine/weights.safetensors)").score(ITEMS), scores)
    given = f"umic(mine/weights.safetensors,vocabulary={home / 'bert-base-cased-vocab.txt'})"
    np.testing.assert_array_equal(metric(given).score(ITEMS), scores)


def test_a_vocabulary_of_another_size_is_refused(home):
    (home / "vocab.txt").write_text("".join(f"{p}\n" for p in [*PIECES, "more"]))
    with says("vocab.txt", "12 word pieces", "trained with 11"):
        metric("umic").score(ITEMS)


def test_features_of_another_detector_are_refused(home):
    write_regions(home / "img_db", "2", [[0.0] * 8], [[0, 0, 1, 1]], (2, 2))
    with says("img_db", "image '2' have 8 numbers", "metric umic reads 5"):
        metric("umic").score(ITEMS)


def test_awkward_captions_have_finite_scores(home):
    """Every caption has a score; the two of more than the model's 12 positions are cut, and counted."""
    rows = pd.DataFrame({"image_id": "1", "caption": AWKWARD})
    one = metric("umic")
    rows_with_remarks = Rows.from_items(rows)
    scores = one.score(rows_with_remarks)
    assert np.isfinite(scores).all()
    assert rows_with_remarks.remarks["umic"] == [
        "2 captions are longer than the model's context and were cut short"
    ]
    np.testing.assert_allclose(one.score(rows[::-1])[::-1], scores, atol=1e-6)


def test_items_without_image_ids_are_refused(home):
    with says("have no image_id"):
        metric("umic").score([{"caption": "a dog"}])


def test_features_with_nan_are_refused(home):
    np.savez(
        home / "img_db" / "2.npz", img_feat=np.full((2, 5), np.nan), img_pos_feat=np.ones((2, 7))
    )
    with says("2.npz", "img_feat holds NaN"):
        metric("umic").score(ITEMS)


def test_the_metric_s_options_and_what_it_depends_on(home):
    one = metric("umic")
    assert (one.checkpoint, one.features, one.vocabulary, one.head) == (None, None, None, "rank")
    assert (one.batch_size, one.device, one.backend) == (32, "auto", "captau")
    assert Umic.bounds == (0.0, 1.0)
    assert Umic.depends_only_on_content is False
    assert Umic.lock is MODEL_LOCK
    assert Umic.distributions == ("captau", "torch", "tokenizers")
    assert Umic.name_fields == ("head",)
    assert "torch" not in vars(module)  # importing it imports no PyTorch
    for head, name in (("rank", "umic"), ("itm", "uniter-base")):
        assert Umic(head=head, device="cpu").programs == (
            f"weights:{hash_of([home / f'{name}.safetensors'])}",
            f"pieces:{hash_of([home / 'bert-base-cased-vocab.txt'])}",
            f"regions:{hash_regions(home / 'img_db')}",
            "on:cpu",
        )
    missing = Umic(checkpoint="a", vocabulary="b", features="c", device="cpu")
    assert missing.programs == ("weights:missing", "pieces:missing", "regions:missing", "on:cpu")


def test_what_is_asked_of_the_network(home, monkeypatch):
    """Each pair once; captions of more than 12 pieces are cut; random weights say so."""
    (home / "RANDOM_WEIGHTS.txt").write_text("random\n")
    asked = []

    def score(network, texts, image_ids, regions, *, remark, **named):
        remark("memory was full")
        asked.append((network.training, texts, image_ids, regions.folder, named))
        return np.array([0.25, 0.5, 0.75])

    monkeypatch.setattr(module, "score_pairs", score)
    long = " ".join(["dog"] * 1200)
    rows = Rows.from_items(
        {"image_id": i, "caption": c}
        for i, c in ((1, "a cat"), (2, long), (1, "a cat"), (2, "a cat"))
    )
    assert metric("umic(batch_size=5)").score(rows).tolist() == [0.25, 0.5, 0.25, 0.75]
    texts = [[2, 5, 7, 3], [2, *[6] * 10, 3], [2, 5, 7, 3]]
    spec = "umic(batch_size=5)"
    named = {"head": "rank", "batch_size": 5, "metric": spec}
    assert asked == [(False, texts, ["1", "2", "2"], home / "img_db", named)]
    assert rows.remarks[spec] == [
        "1 captions are longer than the model's context and were cut short",
        "random",
        "memory was full",
    ]
    with pytest.raises(UnavailableError) as error:
        metric("umic").score([{"image_id": i, "caption": "a"} for i in (3, 1, 4, 5, 3, 6)])
    assert str(error.value) == (
        f"metric umic needs region features of every image, and {home}/img_db has none of 3, 4, 5 (4 of 5 "
        f"images lack them)"
    )
    (home / "vocab.txt").write_text("".join(f"{p}\n" for p in PIECES[:-1]))
    with says(
        f"{home}/vocab.txt: 10 word pieces, but {home}/umic.safetensors was trained with 11; another "
        f"vocabulary?"
    ):
        metric("umic").score(ITEMS)


def test_words_are_split_at_blanks_and_keep_their_case_and_accents():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "Dog", "##s", "é", "a", "."]
    assert WordPieces(pieces)(["Dogs\u2028a.", "dog é", ""]) == [
        [2, 4, 5, 7, 8, 3],
        [2, 1, 6, 3],
        [2, 3],
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "metric umic needs the checkpoint 'umic.pt', which is not here; put it at {root}/umic.pt, or give "
            "checkpoint=FILE (its authors offer it at github.com/hwanheelee1993/UMIC)",
        ),
        (
            {"head": "itm"},
            "metric umic_c needs the checkpoint 'uniter-base.pt', which is not here; put it at "
            "{root}/uniter-base.pt, or give checkpoint=FILE (its authors offer it at "
            "github.com/ChenRocks/UNITER)",
        ),
        (
            {"checkpoint": "mine.pt"},
            "metric umic(checkpoint=mine.pt) needs the checkpoint 'mine.pt', which is not here; put it at {root}/mine.pt, "
            "or give checkpoint=FILE (its authors offer it at github.com/hwanheelee1993/UMIC)",
        ),
    ],
)
def test_a_missing_checkpoint_is_named(options, message, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    with pytest.raises(UnavailableError) as error:
        Umic(**options)._checkpoint()
    assert str(error.value) == message.format(root=tmp_path)
