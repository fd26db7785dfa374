"""UMIC's training: groups of negatives, the same weights from the same seed, and faulty options."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from captau.datasets.schema import make_items
from captau.datasets.sources import demo
from captau.metrics.base import UnavailableError
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.umic import recipe as module
from captau.metrics.learned.umic._uniter_network import Uniter, UniterSizes
from captau.metrics.learned.umic.metric import load_uniter, save_uniter
from captau.metrics.learned.umic.negatives import MatchingBatch, PairTable
from captau.metrics.learned.umic.recipe import Schedule, UmicRecipe
from captau.metrics.learned.umic.regions import DemoRegions, Regions, hash_regions, write_regions
from captau.metrics.neural.models import hash_of
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


#: A network to start from is pretrained already, and has its sizes.
FROM_INIT = {
    "regions": "demo",
    "batch_size": 10,
    "steps": 3,
    "validate_every": 2,
    "learning_rate": 1e-3,
    "dropout": 0.1,
}

#: A paper whose row a rater of one's own fills.
PAPER = """
# @package papers.mine_2026
title: "Mine 2026, A paper of one's own"
citation: "@misc{mine2026, title={A paper of one's own}, author={I, Me}, year={2026}}"
tables:
  - table: Table 1
    kind: correlation
    dataset: demo
    protocol: {ratings: per_rating}
    rows: {UMIC: umic}
    row_raters: {UMIC: {rater: umic, options: {head: rank}}}
    columns: {Demo: {coefficient: tau_b}}
"""


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
    tiny = FROM_INIT if "init" in options else TINY
    recipe = make_recipe("umic", {**tiny, **options})
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


def test_fewer_steps_shorten_the_pretraining_too(sides, parts):
    """Three steps of pretraining for each of contrastive training, as the demo's 3,000 and 1,000."""
    _, session = fit(sides, steps=2, pretrain_steps=None)
    stages = [(row["stage"], row["steps"]) for row in session.history]
    assert stages == [("umic-pretraining", 2)] * 3 + [("umic", 2)]
    _, session = fit(sides, steps=1, pretrain_steps=0)
    assert [row["stage"] for row in session.history] == ["umic"]


def test_a_pretrained_network_is_not_pretrained_again():
    with says("rater.pretrain_steps is 5, and rater.init=u.pt is pretrained already; leave out"):
        make_recipe("umic", {**FROM_INIT, "init": "u.pt", "pretrain_steps": 5})


@pytest.mark.parametrize("size", ["hidden", "layers", "heads", "intermediate"])
def test_a_size_beside_a_network_to_start_from_is_refused(size):
    """It would be ignored: the checkpoint's matrices say their sizes."""
    with says(
        f"rater.{size} is 8, and rater.init=u.pt has its own sizes; leave out one of the two"
    ):
        make_recipe("umic", {**FROM_INIT, "init": "u.pt", size: 8})


def test_the_seed_determines_the_weights(sides, parts):
    rows = sides[1].rows
    one, same, other = (fit(sides, seed)[0].predict(rows) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_a_stopped_training_goes_on_to_the_same_weights(
    sides, parts, tmp_path, checkpoint_each_step, monkeypatch
):
    whole = fit(sides)[0].predict(sides[1].rows)
    recipe = make_recipe("umic", TINY)
    draw = PairTable.make_groups
    calls = iter(range(100))

    def stop(self, rng, some):
        if next(calls) == 3:  # after the validation groups and the first epoch of two steps
            raise KeyboardInterrupt
        return draw(self, rng, some)

    with monkeypatch.context() as patch:
        patch.setattr(PairTable, "make_groups", stop)
        with pytest.raises(KeyboardInterrupt):
            recipe.fit(*sides, TrainingSession(0, tmp_path, "one"))
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
    for i in range(6):
        write_regions(
            tmp_path, f"demo_{i:03d}.png", [[0.5] * (4 + (i == 2))], [[0, 0, 1, 1]], (2, 2)
        )
    with says("image 'demo_002.png' has features of 5 numbers", "of 4"):
        fit(sides, regions=str(tmp_path))


def test_an_image_without_features_is_refused(sides, parts, tmp_path):
    write_regions(tmp_path, "demo_000.png", [[0.5] * 4], [[0, 0, 1, 1]], (2, 2))
    with says("no region features for image 'demo_001.png'"):
        fit(sides, regions=str(tmp_path))


def test_a_folder_may_be_called_as_the_rule_for_similar_images(tmp_path, monkeypatch):
    """docs/umic.md calls it `regions`; the rule of this name is no file, and a dataset without features is told."""
    monkeypatch.chdir(tmp_path)
    write_regions(Path("regions"), "1", [[0.5] * 4], [[0, 0, 1, 1]], (2, 2))
    recipe = UmicRecipe(regions="regions", captions="coco.csv", similar=("regions", "cider"))
    assert recipe.signature == UmicRecipe(regions="regions").signature

    items = make_items(["1", "2"], ["a dog", "a cat"], [(), ()])
    recipe.check_features(Rows(items[:1]))
    with says("regions has none of 1 of 2, such as '2'"):
        recipe.check_features(Rows(items))
    with says("no folder 'gone'"):
        UmicRecipe(regions="gone").check_features(Rows(items))


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


@pytest.mark.training
def test_a_rater_fills_the_row_of_a_paper_from_another_folder(parts, tmp_path, monkeypatch):
    """Its card keeps the whole path of the features; the row says whose rater it is."""
    demo_images = set(demo.load_demo(None).items["image_id"])
    scenes = [demo.further(number)[0] for number in range(30)]
    for image in [*demo_images, *(scene.image_id for scene in scenes)]:
        write_regions(tmp_path / "regions", image, [[0.5] * 4], [[0, 0, 1, 1]], (2, 2))
    lines = [f"{scene.image_id},a red circle" for scene in scenes]
    (tmp_path / "captions.csv").write_text("\n".join(["image_id,caption", *lines]))
    paper = tmp_path / "conf" / "paper"
    paper.mkdir(parents=True)
    (paper / "mine_2026.yaml").write_text(PAPER, encoding="utf-8")
    head = "table,dataset,row,column,published,trained,source,note"
    number = "Table 1,demo,UMIC,Demo,0.500,no,Mine 2026,"
    (paper / "mine_2026.csv").write_text(f"{head}\n{number}\n", encoding="utf-8")

    monkeypatch.chdir(tmp_path)
    options = {**TINY, "regions": "regions", "captions": "captions.csv", "init": "null"}
    words = [f"rater.{name}={value}" for name, value in options.items()]
    assert (
        run_captau("train", "rater=umic", "statistics.interval=none", *words, "output_dir=run") == 0
    )

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = ["paper=mine_2026", "raters=../run", "output_dir=out"]
    assert run_captau("--config-dir", tmp_path / "conf", "reproduce", *words) == 0
    cells = pd.read_csv("out/comparison.csv", keep_default_na=False).set_index("dataset")
    assert cells.loc["demo", "note"] == "1 rater of your own, not the paper's"
    assert float(cells.loc["demo", "reproduced"]) == pytest.approx(0, abs=1)


# By hand


def test_the_papers_options_are_the_defaults():
    assert UmicRecipe("demo").options == {
        "regions": "demo",
        "captions": "references",
        "init": None,
        "vocabulary": None,
        "head": "rank",
        "negatives": ("substitution", "random", "repetition", "permutation"),
        "substitution": "paper",
        "similar": None,
        "margin": 0.2,
        "learning_rate": 2e-6,
        "batch_size": 320,
        "steps": 4000,
        "validate_every": 1000,
        "dropout": 0.1,
        "hidden": 64,
        "layers": 2,
        "heads": 4,
        "intermediate": 256,
        "pretrain_steps": None,
        "pretrain_rate": 1e-3,
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", 4, "rater.batch_size is 4; 5 or more is expected"),
        *(
            (name, 0, f"rater.{name} is 0; 1 or more is expected")
            for name in ("steps", "validate_every", "hidden", "layers", "heads", "intermediate")
        ),
        ("pretrain_steps", -1, "rater.pretrain_steps is -1; 0 or more is expected"),
        ("margin", 0.0, "rater.margin is 0; more than 0 is expected"),
        ("learning_rate", -0.1, "rater.learning_rate is -0.1; 0 or more is expected"),
        ("pretrain_rate", -0.1, "rater.pretrain_rate is -0.1; 0 or more is expected"),
        ("dropout", 1.0, "rater.dropout is 1; 0 or more and less than 1 is expected"),
        ("dropout", -0.1, "rater.dropout is -0.1; 0 or more and less than 1 is expected"),
        (
            "negatives",
            (),
            "rater.negatives is empty; name at least one of "
            "substitution,random,repetition,permutation,hard",
        ),
    ],
)
def test_options_out_of_range_are_refused(name, value, message):
    with says(message):
        UmicRecipe(**{"regions": "demo", name: value})


def test_options_at_the_ends_of_their_ranges_are_taken():
    least = dict.fromkeys(("steps", "validate_every", "hidden", "layers", "heads"), 1)
    least |= {"intermediate": 1, "batch_size": 2, "negatives": ("hard",), "margin": 0.1}
    least |= {"learning_rate": 0.0, "pretrain_rate": 0.0, "dropout": 0.0, "pretrain_steps": 0}
    assert UmicRecipe("demo", **least).batch_size == 2


class Body(torch.nn.Module):
    """A network of two weights that decay, and three that do not."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 3)
        self.LayerNorm = torch.nn.LayerNorm(3)
        self.words = torch.nn.Embedding(4, 2)


def test_the_optimiser_is_the_authors(monkeypatch):
    clipped = []
    monkeypatch.setattr(module, "clip_gradients", lambda *words: clipped.append(words))
    network = Body()
    schedule = Schedule(network, 0.5, 10, 4)
    assert clipped == [(schedule.optimizer, network, 2.0)]
    assert isinstance(schedule.optimizer, torch.optim.AdamW)
    decaying, constant = schedule.optimizer.param_groups
    ids = [[id(p) for p in group["params"]] for group in (decaying, constant)]
    assert ids[0] == [id(network.dense.weight), id(network.words.weight)]
    assert ids[1] == [
        *(id(network.dense.bias), id(network.LayerNorm.weight), id(network.LayerNorm.bias))
    ]
    assert (decaying["weight_decay"], constant["weight_decay"]) == (0.01, 0.0)
    assert [(g["lr"], g["betas"]) for g in (decaying, constant)] == [(0.5, (0.9, 0.98))] * 2
    assert [Schedule(network, 0.5, n, 4).epochs for n in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("steps", "shares"),
    [
        (1, [1.0]),
        (3, [1.0, 1.0, 0.5]),
        (5, [1.0, 1.0, 0.75, 0.5, 0.25]),
        (20, [0.5, 1.0, 1.0, *(k / 18 for k in range(17, 0, -1))]),
        (40, [0.25, 0.5, 0.75, 1.0, 1.0, *(k / 36 for k in range(35, 0, -1))]),
    ],
)
def test_the_rate_rises_over_a_tenth_of_the_steps_and_falls_over_the_others(steps, shares):
    schedule = Schedule(Body(), 2.0, steps, 3)
    asked, rates = [], []

    class Table:
        def draw_rows(self, stage, first_step, n_steps, size):
            asked.append((stage, first_step, n_steps, size))
            return iter([[first_step + k] for k in range(n_steps)])

    for epoch in range(schedule.epochs):
        for (step,) in schedule.draw_rows("umic", epoch, Table(), 7):
            assert step == len(rates)
            (rate,) = {group["lr"] for group in schedule.optimizer.param_groups}
            rates.append(rate)
    assert rates == pytest.approx([2 * share for share in shares])
    assert asked == [("umic", start, min(3, steps - start), 7) for start in range(0, steps, 3)]


def test_the_signature_is_of_the_features_and_of_the_files_it_starts_from(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    for name in ("init.pt", "words.txt", "similar.json"):
        (tmp_path / name).write_text(name)
    write_regions(tmp_path / "db", "1", [[0.5] * 4], [[0, 0, 1, 1]], (2, 2))
    assert UmicRecipe("demo").signature == f"demo|{hash_of([])}"
    assert UmicRecipe("demo", init="nowhere.pt", similar=("cider",)).signature == (
        f"demo|{hash_of([])}"
    )
    files = {"init": "init.pt", "vocabulary": "words.txt", "similar": ("cider", "similar.json")}
    assert UmicRecipe("db", **files).signature == (
        f"{hash_regions(tmp_path / 'db')}|"
        f"{hash_of([tmp_path / name for name in ('init.pt', 'words.txt', 'similar.json')])}"
    )
    assert type(UmicRecipe("db").open_regions()) is Regions
    assert UmicRecipe("db").open_regions().folder == tmp_path / "db"
    assert type(UmicRecipe("demo").open_regions()) is DemoRegions
    with pytest.raises(UnavailableError) as error:
        UmicRecipe("elsewhere").open_regions()
    assert str(error.value) == (
        "rater umic needs region features, and there is no folder 'elsewhere'; docs/umic.md says where to "
        "get or how to write them"
    )


def test_a_network_to_start_from_has_word_pieces_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    asked = []
    monkeypatch.setattr(
        module, "load_uniter", lambda *words, **named: asked.append((words, named)) or "network"
    )
    monkeypatch.setattr(module, "read_vocabulary", lambda path: path)
    (tmp_path / "init").mkdir()
    for name in ("init/x.pt", "words.txt"):
        (tmp_path / name).touch()
    start = UmicRecipe("demo", init="init/x.pt", dropout=0.3)
    for options, name in (
        ({}, "vocab.txt"),
        ({"init": "y.pt"}, "vocab.txt"),
        ({"vocabulary": "none.txt"}, "none.txt"),
        ({"init": "y.pt", "vocabulary": "words.txt"}, "words.txt"),
        ({"vocabulary": "init"}, "init"),
    ):
        one = dataclasses.replace(start, **options)
        with pytest.raises(UnavailableError) as error:
            one._start({}, None, None)
        assert str(error.value) == (
            f"rater umic has no checkpoint '{one.init}', or no word pieces '{name}' beside it; give "
            f"rater.init=FILE and rater.vocabulary=FILE, or rater.init=null for a small network of its own"
        )
    with_words = dataclasses.replace(start, vocabulary="words.txt")
    assert with_words._start({}, None, None) == ("network", tmp_path / "words.txt")
    (tmp_path / "init" / "vocab.txt").touch()
    assert start._start({}, None, None) == ("network", tmp_path / "init" / "vocab.txt")
    assert asked == [((tmp_path / "init" / "x.pt", None), {"dropout": 0.3})] * 2


class Steps(TrainingSession):
    """A session that notes what it should train, and trains nothing."""

    def train(self, stage, network, **options):
        self.history.append((stage, network, options))


class Batches:
    """A table that notes what is asked of it; its batches are in a list by the first row."""

    def __init__(self, batches):
        self.batches, self.asked = batches, []

    def split_rows(self, size):
        self.asked.append(size)
        return [[k] for k in range(len(self.batches))]

    def make_groups(self, rng, rows):
        self.asked.append((rows, rng.random()))
        return self.batches[rows[0]]

    def make_matching(self, rng, rows, *, has_masks):
        self.asked.append((rows, rng.random(), has_masks))
        return self.batches[rows[0]]

    def draw_rows(self, stage, first_step, n_steps, size):
        self.asked.append((stage, first_step, n_steps, size))
        return iter([[(first_step + k) % 2] for k in range(n_steps)])


class Logits(torch.nn.Module):
    """A network whose pooled states are the batch, and whose rank logits are these."""

    def __init__(self):
        super().__init__()
        self.rank_output = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.rank_output.weight)
        torch.nn.init.zeros_(self.rank_output.bias)

    def forward(self, batch):
        return batch


@pytest.mark.parametrize(("n_kinds", "groups"), [(2, 21), (3, 16), (70, 1)])
def test_captions_are_to_be_above_each_negative_by_the_margin(n_kinds, groups):
    logits = np.array([[0.5, 0.4, -3.0], [-1.0, 0.0, 2.0]])
    batch = (torch.tensor(logits, dtype=torch.float32).reshape(-1, 1),)
    others = [(batch[0] + shift,) for shift in (1.0, 2.0)]
    train, validation = Batches([batch, batch]), Batches(others)
    recipe = UmicRecipe(
        *("demo", "references"),
        negatives=("random",) * n_kinds,
        **{"margin": 0.3, "learning_rate": 0.5, "batch_size": 214, "steps": 5, "validate_every": 2},
    )
    session, network = Steps(3), Logits()
    recipe._contrast(network, train, validation, session)
    ((stage, trained, options),) = session.history
    assert (stage, trained is network, options["epochs"]) == ("umic", True, 3)
    assert options["higher_is_better"] is False
    assert options["optimizer"].param_groups[0]["lr"] == 0.5
    rngs = [session.rng("validation", k).random() for k in range(2)]
    assert validation.asked == [groups, ([0], rngs[0]), ([1], rngs[1])]
    rng = np.random.default_rng(0)
    assert list(options["steps"](rng, 1)) == [batch, batch]
    numbers = np.random.default_rng(0).random(2).tolist()
    assert train.asked == [
        ("umic", 2, 2, 214 // (1 + n_kinds)),
        *(([k], number) for k, number in enumerate(numbers)),
    ]
    # The warm-up is of one step of five: step 3 has (5 - 3) / 4 of the rate.
    assert options["optimizer"].param_groups[0]["lr"] == pytest.approx(0.25)

    def hinge(logits):
        scores = 1 / (1 + np.exp(-logits))
        return np.maximum(0.3 - (scores[:, :1] - scores[:, 1:]), 0).mean()

    if n_kinds == 2:
        assert options["loss"](batch).item() == pytest.approx(hinge(logits))
        with torch.no_grad():
            validation_loss = options["validate"]()
        assert validation_loss == pytest.approx((hinge(logits + 1) + hinge(logits + 2)) / 2)


def test_pretraining_guesses_words_and_tells_matches_by_hand():
    """Cross entropies of the two logits of matching and, over the vocabulary, of the masked words."""
    torch.manual_seed(2)
    network = Uniter(UniterSizes(4, 2, 2, 3, 7, 5, 3)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    ids = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0], [2, 5, 5, 3]])
    pairs = (
        *(ids, torch.tensor([4, 3, 4]), torch.randn(3, 2, 3), torch.randn(3, 2, 7)),
        torch.tensor([2, 1, 2]),
    )
    masked = torch.tensor([[-1, 4, 6, -1], [-1] * 4, [-1, -1, 0, -1]])
    batch = MatchingBatch(pairs, torch.tensor([1, 0, 1]), masked)
    plain = dataclasses.replace(batch, masked_words=None)
    other = dataclasses.replace(plain, matches=torch.tensor([0, 0, 1]))
    train, validation = Batches([batch, batch]), Batches([plain, other])
    recipe = UmicRecipe(
        "demo", batch_size=9, pretrain_rate=0.5, pretrain_steps=5, validate_every=2, steps=99
    )
    session = Steps(3)
    before = network.itm_output.weight[1].tolist()
    recipe._pretrain(network, train, validation, session)
    ((stage, trained, options),) = session.history
    assert (stage, trained is network, options["epochs"]) == ("umic-pretraining", True, 3)
    assert options["higher_is_better"] is False
    assert network.rank_output.weight[0].tolist() == before
    assert network.rank_output.bias.item() == network.itm_output.bias[1].item()
    rngs = [session.rng("matching", k).random() for k in range(2)]
    assert validation.asked == [64, ([0], rngs[0], False), ([1], rngs[1], False)]
    assert options["optimizer"].param_groups[0]["lr"] == 0.5
    assert list(options["steps"](np.random.default_rng(0), 2)) == [batch]
    number = np.random.default_rng(0).random()
    assert train.asked == [("pretraining", 4, 1, 4), ([0], number, True)]
    assert options["optimizer"].param_groups[0]["lr"] == pytest.approx(0.125)

    states = network.uniter(*pairs, n_states=4).detach().double().numpy()
    words = network.uniter.embeddings.word_embeddings.weight.detach().double().numpy()
    sides = network.itm_output(network(*pairs)).detach().double().numpy()

    def cross_entropy(logits, right):
        return np.mean(
            [np.log(np.exp(row).sum()) - row[k] for row, k in zip(logits, right, strict=True)]
        )

    matching = cross_entropy(sides, [1, 0, 1])
    guessed = cross_entropy(states[[0, 0, 2], [1, 2, 2]] @ words.T, [4, 6, 0])
    assert options["loss"](batch).item() == pytest.approx(matching + guessed, rel=1e-5)
    assert options["loss"](plain).item() == pytest.approx(matching, rel=1e-5)
    second = cross_entropy(sides, [0, 0, 1])
    with torch.no_grad():
        assert options["validate"]() == pytest.approx((matching + second) / 2, rel=1e-5)
