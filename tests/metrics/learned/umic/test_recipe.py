"""UMIC's training: groups of negatives, the same weights from the same seed, and faulty options."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from captau.datasets.sources import demo
from captau.metrics.learned.common.recipe import Examples, make_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.umic.metric import load_uniter, save_uniter
from captau.metrics.learned.umic.negatives import PairTable
from captau.metrics.learned.umic.recipe import Schedule, UmicRecipe
from captau.metrics.rows import Rows
from tests.conftest import run_captau, says

pytestmark = pytest.mark.neural

TINY = {
    "regions": "demo",
    "hidden": 16,
    "layers": 1,
    "heads": 2,
    "intermediate": 16,
    "batch_size": 10,
    "steps": 3,
    "validate_every": 2,
    "pretrain_steps": 3,
    "learning_rate": 1e-3,
    "dropout": 0.1,
}


def examples(first, last):
    """The demo's candidates of some scenes, which nobody rated."""
    items = demo.load_demo(None).items
    frame = items[items["image_id"].isin([f"demo_{i:03d}.png" for i in range(first, last)])]
    frame = frame.reset_index(drop=True).assign(dataset="demo")
    none = np.empty((0, 2), dtype=np.intp)
    return Examples(Rows(frame), tuple(np.empty(0) for _ in range(len(frame))), none)


@pytest.fixture(scope="module")
def sides():
    return examples(0, 4), examples(4, 6)


@pytest.fixture
def parts(monkeypatch):
    """A tagger that takes no time to load: demo words after an article's noun are nouns."""
    monkeypatch.setattr(
        "captau.metrics.learned.umic.negatives.tag_words",
        lambda caption: [
            (w, "NN" if w in {*demo.COLOURS, *demo.SHAPES} else "DT") for w in caption.split()
        ],
    )


def fit(sides, seed=0, folder=None, shuffled=False, **options):
    recipe = make_recipe("umic", {**TINY, **options})
    session = TrainingSession(seed, folder, "one", is_control=shuffled)
    return recipe.fit(*sides, session), session


def test_training_needs_no_ratings_and_its_files_load_again(sides, parts, tmp_path):
    model, session = fit(sides)
    stages = [(row["stage"], row["epoch"], row["steps"]) for row in session.history]
    assert stages == [
        ("umic-pretraining", 1, 2),
        ("umic-pretraining", 2, 1),
        ("umic", 1, 2),
        ("umic", 2, 1),
    ]
    rows = sides[1].rows
    scores = model.predict(rows)
    assert scores.shape == (len(rows),)
    assert ((scores > 0) & (scores < 1)).all()
    turned = Rows(rows.frame.iloc[::-1])
    np.testing.assert_allclose(model.predict(turned)[::-1], scores, atol=1e-6)
    model.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "vocab.txt"]
    again = make_recipe("umic", TINY).load(tmp_path)
    np.testing.assert_array_equal(again.predict(rows), scores)
    # The metric reads what was trained, too; only the features are the demo's own.
    assert load_uniter(tmp_path / "model.safetensors", "rank").sizes == model.network.sizes


def test_the_seed_determines_the_weights(sides, parts):
    rows = sides[1].rows
    one, same, other = (fit(sides, seed)[0].predict(rows) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_a_stopped_training_goes_on_to_the_same_weights(sides, parts, tmp_path, monkeypatch):
    monkeypatch.setattr("captau.metrics.learned.common.training.CHECKPOINT_SECONDS", 0.0)
    whole = fit(sides)[0].predict(sides[1].rows)
    recipe = make_recipe("umic", TINY)
    draw = PairTable.make_groups
    calls = iter(range(100))

    def stop(self, rng, some):
        if next(calls) == 3:  # after the validation groups and the first epoch of two steps
            raise KeyboardInterrupt
        return draw(self, rng, some)

    monkeypatch.setattr(PairTable, "make_groups", stop)
    with pytest.raises(KeyboardInterrupt):
        recipe.fit(*sides, TrainingSession(0, tmp_path, "one"))
    monkeypatch.setattr(PairTable, "make_groups", draw)
    assert sorted(p.name for p in tmp_path.glob("*.pt"))
    resumed = recipe.fit(*sides, TrainingSession(0, tmp_path, "one")).predict(sides[1].rows)
    np.testing.assert_array_equal(resumed, whole)


def table(sides, shuffled=False, **options):
    made = UmicRecipe(**{**TINY, **options})
    captioned = {
        "demo_000.png": ("a red circle", "a green star"),
        "demo_001.png": ("a blue square",),
        "demo_002.png": ("a pink diamond",),
    }
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    pieces += [*demo.COLOURS, *demo.SHAPES]
    session = TrainingSession(0, is_control=shuffled)
    with made.open_regions() as regions:
        return made.make_table(captioned, regions, pieces, 8, session), pieces


def test_groups_begin_with_the_caption(sides, parts):
    drawn, pieces = table(sides)
    ids, lengths, features, places, counts = drawn.make_groups(np.random.default_rng(0), [0, 2])
    assert len(ids) == len(features) == len(places) == 10
    texts = [
        " ".join(pieces[i] for i in row[1 : n - 1]) for row, n in zip(ids, lengths, strict=True)
    ]
    assert (texts[0], texts[5]) == ("a red circle", "a blue square")
    assert not {"a red circle"} & set(texts[1:5])
    assert len(set(counts[:5].tolist())) == 1


def test_a_control_draws_the_positive_by_lot(sides, parts):
    drawn, pieces = table(sides, shuffled=True)
    rng = np.random.default_rng(0)
    first = [drawn.make_groups(rng, [2])[0][0].tolist() for _ in range(60)]
    blue = [2, pieces.index("a"), pieces.index("blue"), pieces.index("square"), 3]
    assert sum(ids[:5] == blue and not any(ids[5:]) for ids in first) < 30  # one in five


def test_every_pair_comes_once_before_any_comes_again(sides, parts):
    drawn, _ = table(sides)
    schedule = Schedule(torch.nn.Linear(1, 1), 1e-3, steps=4, steps_per_epoch=2)
    epochs = [schedule.draw_rows("umic", epoch, drawn, 2) for epoch in range(2)]
    drawn_rows = [row for epoch in epochs for rows in epoch for row in rows]
    assert sorted(drawn_rows[:4]) == sorted(drawn_rows[4:]) == [0, 1, 2, 3]


def test_the_head_of_matching_needs_no_contrast(sides, parts, tmp_path):
    """UMIC_C is what the checkpoint says: from `init` nothing is trained."""
    model, _ = fit(sides)
    model.save(tmp_path)
    start = {"init": str(tmp_path / "model.safetensors"), "head": "itm"}
    second, session = fit(sides, **start)
    assert not session.history
    expected = dataclasses.replace(model.recipe, head="itm")
    model.recipe = expected
    np.testing.assert_allclose(
        second.predict(sides[1].rows), model.predict(sides[1].rows), atol=1e-6
    )


def test_training_goes_on_from_a_checkpoint(sides, parts, tmp_path):
    model, _ = fit(sides)
    model.save(tmp_path)
    second, session = fit(sides, init=str(tmp_path / "model.safetensors"), learning_rate=0.0)
    assert {row["stage"] for row in session.history} == {"umic"}
    np.testing.assert_allclose(
        second.predict(sides[1].rows), model.predict(sides[1].rows), atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"init": "nowhere.pt"}, "no checkpoint 'nowhere.pt'"),
        ({"regions": "nowhere"}, "there is no folder 'nowhere'"),
        ({"hidden": 15}, "not a multiple of heads=2"),
        ({"batch_size": 4}, "rater.batch_size is 4; 5 or more"),
        ({"negatives": []}, "rater.negatives is empty"),
        ({"negatives": ["synonyms"]}, "substitution"),
    ],
)
def test_faulty_options_are_refused(sides, parts, options, part):
    with says(part):
        fit(sides, **options)


def test_features_of_two_widths_are_refused(sides, parts, tmp_path):
    from captau.metrics.learned.umic.regions import write_regions

    for i in range(6):
        write_regions(
            tmp_path, f"demo_{i:03d}.png", [[0.5] * (4 + (i == 2))], [[0, 0, 1, 1]], (2, 2)
        )
    with says("image 'demo_002.png' has features of 5 numbers", "of 4"):
        fit(sides, regions=str(tmp_path))


def test_an_image_without_features_is_refused(sides, parts, tmp_path):
    from captau.metrics.learned.umic.regions import write_regions

    write_regions(tmp_path, "demo_000.png", [[0.5] * 4], [[0, 0, 1, 1]], (2, 2))
    with says("no region features for image 'demo_001.png'"):
        fit(sides, regions=str(tmp_path))


def test_saved_networks_record_their_attention_heads(sides, parts, tmp_path):
    model, _ = fit(sides)
    save_uniter(model.network, tmp_path / "one.safetensors")
    assert load_uniter(tmp_path / "one.safetensors", "itm").sizes.heads == 2


def test_the_file_of_similar_images_gives_the_hard_negatives(sides, parts, tmp_path):
    """Only image 1 is similar to image 0: of its random captions, half and a third of the rest are of 1."""
    path = tmp_path / "similar.json"
    path.write_text('{"demo_000.png": ["demo_001.png"]}')
    drawn, pieces = table(sides, similar=[str(path)], negatives=["random"])
    rng = np.random.default_rng(0)
    groups = [drawn.make_groups(rng, [0])[0][1].tolist() for _ in range(400)]
    is_blue = [pieces.index("blue") in ids for ids in groups]
    # Images 1 and 2 are the others: 1/2 + 1/2 · 1/2.
    assert np.mean(is_blue) == pytest.approx(0.75, abs=0.06)


def test_a_group_as_in_the_authors_code_has_five_negatives(sides, parts, tmp_path):
    """One by each rule and both a random and a hard caption, the hard ones by a file and by CIDEr."""
    path = tmp_path / "similar.json"
    path.write_text(json.dumps({f"demo_{i:03d}.png": ["demo_001.png"] for i in range(6)}))
    kinds = ["random", "hard", "substitution", "permutation", "repetition"]
    drawn, _ = table(sides, similar=[str(path), "cider"], negatives=kinds)
    ids, *_ = drawn.make_groups(np.random.default_rng(0), [0, 1])
    assert len(ids) == 2 * 6
    model, _ = fit(sides, similar=[str(path), "cider", "regions"], negatives=kinds)
    assert np.isfinite(model.predict(sides[0].rows)).all()


@pytest.mark.training
def test_a_rater_lists_the_images_that_it_read_and_no_others(parts, tmp_path):
    """With captions from a file it reads no rated image, so that all of these may test it."""
    scenes = [demo.further(number) for number in range(30)]
    lines = [f"{scene.image_id},a red circle" for scene, _ in scenes]
    (tmp_path / "captions.csv").write_text("\n".join(["image_id,caption", *lines]))
    options = {**TINY, "captions": tmp_path / "captions.csv", "init": "null"}
    status = run_captau(
        *["train", "rater=umic", "design=all", "statistics.interval=none"],
        *[f"rater.{name}={value}" for name, value in options.items()],
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0
    card = json.loads((tmp_path / "run" / "seed-0" / "rater.json").read_text(encoding="utf-8"))
    assert card["images"] == sorted(scene.image_id for scene, _ in scenes)
    rated = set(demo.load_demo(None).items["image_id"])
    assert not rated & set(card["images"])
