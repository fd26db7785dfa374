"""`captau train`: designs that keep images apart, runs that go on, and raters that are metrics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy
from filelock import FileLock

import captau
from captau.benchmarks.commands.train import design_notes, make_plan
from captau.benchmarks.commands.train import run as train
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.papers.rater_rows import (
    compute_rating_error,
    read_best_validation,
)
from captau.benchmarks.evaluation.training.rater_training import shuffle_labels
from captau.benchmarks.evaluation.training.training_designs import TrainingCorpus, plan_jobs
from captau.benchmarks.options.train import TrainOptions
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import Locations
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.base import Floats
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import RaterModel, Recipe, make_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.rater import RaterCard, RaterMetric
from captau.metrics.rows import Rows
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau, says
from tests.metrics.learned.word_counter import word_counter

__all__ = ["word_counter"]  # the fixture
trains = pytest.mark.training

QUICK = ("rater=icr", "rater.epochs=3", "rater.hidden=[8]", "statistics.interval=none")


def run(*words: str) -> int:
    return run_captau("train", *words)


def corpus(name: str, images: list[str], split: str | None = None) -> TrainingCorpus:
    """Two captions an image; the second is the next image's reference."""
    ids = [i for i in images for _ in range(2)]
    captions = [
        c
        for n, i in enumerate(images)
        for c in (f"about {i}", f"of {images[(n + 1) % len(images)]}")
    ]
    items = make_items(
        ids,
        captions,
        [(f"Of {i}.",) for i in ids],
        splits=[split] * len(ids) if split else None,
    )
    ratings = pd.DataFrame(
        {
            "item_id": items["item_id"],
            "dimension": "overall",
            "rater": "r",
            "value": [1.0 + n % 4 for n in range(len(ids))],
        }
    )
    card = Card(name, name, "1", "", "", "", scales={"overall": Scale(1, 4)})
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    return TrainingCorpus.prepare(CaptionSet(items, ratings, card=card), protocol, None)


def config(design: str, **options) -> TrainOptions:
    made = make_recipe("icr", {"images": "demo", "texts": "demo"})
    return TrainOptions(recipe=made, datasets={}, design=design, **options)


PICTURES = [f"p{i}.jpg" for i in range(20)]


@pytest.mark.slow
def test_folds_predict_each_row_once_by_a_rater_that_has_not_seen_its_image():
    one = corpus("one", PICTURES)
    jobs = plan_jobs(make_plan(config("folds", seeds=(0, 1))), {"one": one})
    assert len(jobs) == 10
    for seed in (0, 1):
        tested = np.concatenate([job.test["one"] for job in jobs if job.seed == seed])
        assert sorted(tested) == list(range(40))
    for job in jobs:
        images = set(one.examples.image_ids[job.test["one"]])
        assert not images & {*job.train.image_ids, *job.validation.image_ids}
        assert not set(job.train.image_ids) & set(job.validation.image_ids)
        assert len(job.train) + len(job.validation) + len(job.test["one"]) == 40
    assert set(one.examples.image_ids[jobs[0].test["one"]]) != set(
        one.examples.image_ids[jobs[5].test["one"]]
    )


def test_strict_folds_leave_out_the_images_that_tested_captions_are_of():
    one = corpus("one", PICTURES)
    for job in plan_jobs(make_plan(config("folds", strict=True)), {"one": one}):
        tested = one.examples.image_ids[job.test["one"]]
        # A caption "of p3.jpg" is image p3's reference but for case and full stop.
        lent = {PICTURES[(PICTURES.index(i) + 1) % 20] for i in tested} - set(tested)
        assert lent
        assert not lent & {*job.train.image_ids, *job.validation.image_ids}
        assert job.n_dropped == 2 * len(lent)


def test_the_control_of_strict_folds_leaves_out_as_many_images_at_random():
    one = corpus("one", PICTURES)
    strict, control = (
        plan_jobs(make_plan(config("folds", **{name: True})), {"one": one})
        for name in ("strict", "strict_control")
    )
    assert [job.n_dropped for job in control] == [job.n_dropped for job in strict]
    sides = [
        [{*job.train.image_ids, *job.validation.image_ids} for job in jobs]
        for jobs in (strict, control)
    ]
    assert sides[0] != sides[1]
    assert [set(job.test_image_ids) for job in control] == [
        set(job.test_image_ids) for job in strict
    ]
    with says("strict=true and strict_control=true are two runs"):
        config("folds", strict=True, strict_control=True)


def test_everything_is_trained_on_and_nothing_tested():
    sets = {"one": corpus("one", PICTURES), "two": corpus("two", ["x.jpg", "y.jpg"])}
    (job,) = plan_jobs(make_plan(config("all")), sets)
    assert set(job.train.image_ids) == {*PICTURES, "x.jpg", "y.jpg"}
    assert not len(job.validation)
    assert job.test == {}


def test_leave_one_out_drops_shared_images():
    sets = {
        "one": corpus("one", PICTURES),
        "two": corpus("two", [*PICTURES[15:], "x.jpg", "y.jpg"]),
    }
    first, second = plan_jobs(make_plan(config("leave_one_out")), sets)
    assert set(first.train.image_ids) | set(first.validation.image_ids) <= {"x.jpg", "y.jpg"}
    assert first.n_dropped == 10
    assert len(first.test["one"]) == 40
    assert second.n_dropped == 10
    assert set(second.test) == {"two"}


def test_leave_one_out_drops_images_that_share_a_reference():
    """Other ids for the same images: "of p15.jpg" is a reference of p15.jpg and of 15.jpg; a split is a selection."""
    one, two = corpus("one", PICTURES), corpus("two", ["15.jpg", "x.jpg", "y.jpg"]).selection
    items = two.caption_set.items
    items["references"] = [("OF P15.JPG",), ("OF P15.JPG",), *items["references"][2:]]
    items["split"] = ["test"] * 4 + ["train"] * 2
    caption_set = CaptionSet(items, two.caption_set.ratings, card=two.caption_set.card)
    protocol = replace(two.protocol, split="test")
    sets = {"one": one, "two": TrainingCorpus.prepare(caption_set, protocol, None)}
    first, _ = plan_jobs(make_plan(config("leave_one_out")), sets)
    assert first.train.image_ids.tolist() == ["x.jpg", "x.jpg"]
    assert first.n_dropped == 2


def test_transfer_tests_each_on_all():
    sets = {"one": corpus("one", PICTURES), "two": corpus("two", [f"q{i}" for i in range(20)])}
    jobs = plan_jobs(make_plan(config("transfer")), sets)
    assert [job.label for job in jobs] == ["icr on one", "icr on two"]
    assert all(set(job.test) == {"one", "two"} for job in jobs)
    assert set(jobs[0].train.rows.frame["dataset"]) == {"one"}


def test_a_split_that_leaks_is_refused():
    sets = {"one": corpus("one", PICTURES), "two": corpus("two", PICTURES[:3], split="test")}
    both = corpus("three", PICTURES[:3], split="train")
    joined = pd.concat([sets["two"].items, both.items.assign(item_id=lambda f: f["item_id"] + "x")])
    assert len(joined)
    with says("is in training and in test", "leave_one_out"):
        plan_jobs(
            make_plan(config("transfer")),
            {"one": sets["one"], "two": _mixed(sets["two"], PICTURES)},
        )


def _mixed(one: TrainingCorpus, images: list[str]) -> TrainingCorpus:
    """All three sides, and among the tested images those that the shared split trains on."""
    found = corpus("two", images)
    items = found.items.assign(
        split=[
            "test" if s == "train" else "train" if s == "test" else s for s in found.items["split"]
        ]
    )
    return TrainingCorpus(found.selection.with_items(items), found.examples)


def test_the_note_names_the_shared_split_or_that_of_the_data():
    shared = corpus("shared", PICTURES)
    own = corpus("own", [f"q{p}" for p in PICTURES])
    items = own.items.assign(split=["train"] * 20 + ["validation"] * 10 + ["test"] * 10)
    own = TrainingCorpus(own.selection.with_items(items), own.examples)

    def note(corpora):
        options = config("split")
        return design_notes(options, plan_jobs(make_plan(options), corpora), corpora)[0]

    assert "training images of the shared split, chosen" in note({"shared": shared})
    assert "training images of the split that the data come with, chosen" in note({"own": own})
    both = note({"shared": shared, "own": own})
    assert "the shared split (own: the split that the data come with)" in both
    recipe = make_recipe("icr", {"images": "demo", "texts": "demo", "select": "last"})
    options = replace(config("split"), recipe=recipe)
    corpora = {"shared": shared}
    notes = design_notes(options, plan_jobs(make_plan(options), corpora), corpora)
    assert "training images of the shared split, the last epoch taken; all rows" in notes[0]


def test_designs_want_their_number_of_datasets():
    one = {"one": corpus("one", PICTURES)}
    with says("two datasets at least"):
        plan_jobs(make_plan(config("leave_one_out")), one)
    with says("nothing is left to learn from; the other datasets share all their images with it"):
        plan_jobs(make_plan(config("leave_one_out")), {**one, "two": corpus("two", PICTURES)})
    with says("one dataset at a time"):
        plan_jobs(make_plan(config("folds")), {**one, "two": corpus("two", PICTURES)})
    with says("too few for 15 folds"):
        plan_jobs(make_plan(config("folds", folds=15)), one)
    with says("no row has the split"):
        plan_jobs(make_plan(config("split")), {"one": corpus("one", PICTURES, split="train")})


def test_the_control_has_the_same_ratings_elsewhere():
    one = corpus("one", PICTURES).examples
    control = shuffle_labels(one, 0)
    assert sorted(control.mean_ratings) == sorted(one.mean_ratings)
    assert list(control.mean_ratings) != list(one.mean_ratings)
    assert control.rows is one.rows


def words_options(word_counter, **changes) -> TrainOptions:
    datasets = {"demo": Protocol.resolve("demo", usual_protocol("demo"), {})}
    statistics = StatisticsOptions(interval="none")
    changes = {"recipe": word_counter(), "statistics": statistics, **changes}
    return TrainOptions(**{"datasets": datasets, **changes})


def test_a_training_prints_a_row_a_dataset_unless_details_are_asked_for(word_counter, tmp_path):
    """SciPy's τ_c of the numbers of words; two seeds are alike, as this rater draws nothing."""
    found = train(words_options(word_counter, seeds=(0, 1)), tmp_path / "two")
    demo = captau.load("demo")
    items = demo.items[demo.items["split"] == "test"].set_index("item_id")
    words = items["caption"].str.split().str.len()
    ratings = demo.ratings[demo.ratings["item_id"].isin(items.index)]
    tau = scipy.stats.kendalltau(words[ratings["item_id"]], ratings["value"], variant="c").statistic

    short, *others = found.tables
    assert not short.is_detail
    assert all(table.is_detail for table in others)
    assert short.heads == ["coefficient", "mean", "std", "captions"]
    assert lines_of(short) == [("demo, overall", ["τ_c", f"{100 * tau:.1f}", "0.0", "48"])]
    assert any(note.startswith("SYNTHETIC") for note in short.notes)

    alone = train(words_options(word_counter), tmp_path / "one").tables[0]
    assert alone.heads == ["coefficient", "value", "captions"]


def test_what_a_training_writes_is_what_its_rater_predicts(word_counter, tmp_path):
    """A rater that counts words, on the demo: SciPy's τ_c, the errors by NumPy, and the card's figures."""
    found = train(words_options(word_counter, seeds=(0, 1)), tmp_path)
    demo = captau.load("demo")
    items = demo.items[demo.items["split"] == "test"].set_index("item_id")
    words = items["caption"].str.split().str.len()
    ratings = demo.ratings[demo.ratings["item_id"].isin(items.index)]
    tau = scipy.stats.kendalltau(words[ratings["item_id"]], ratings["value"], variant="c").statistic
    use = f"as a metric: 'metrics=rater(path={tmp_path / 'seed-0'})' protocol.split=test"
    assert found.summary == use
    correlations = found.frames["correlations.csv"]
    assert correlations.index.tolist() == [*range(len(correlations))]
    rows = correlations.query("coefficient == 'tau_c'")
    assert rows["metric"].tolist() == ["words seed 0", "words seed 1", "words mean"]
    assert rows["value"].tolist() == pytest.approx([tau] * 3)
    assert rows["note"].tolist()[2] == "mean of 2 seeds, standard deviation 0.000000"
    scores = found.frames["scores.parquet"].set_index(["item_id", "metric"])["score"]
    assert scores.xs("words seed 0", level="metric")[words.index].tolist() == words.tolist()
    training = found.frames["training.csv"]
    n_train = int((demo.items["split"] == "train").sum())
    assert training.to_dict("list") == {
        "rater": ["seed-0", "seed-1"],
        "stage": ["words"] * 2,
        "epoch": [1] * 2,
        "steps": [n_train] * 2,
        "learning_rate": [0.5] * 2,
        "loss": [0.25] * 2,
        "validation": [0.125] * 2,
        "best": [True] * 2,
    }
    means = ratings.groupby("item_id")["value"].mean()[items.index]
    errors = found.frames["rating_errors.csv"].set_index(["rater", "split"])
    assert errors.loc[("words seed 0", "test"), "mse"] == pytest.approx(
        ((words - means) ** 2).mean()
    )
    rater = RaterMetric(str(tmp_path / "seed-0"), seen="mark")
    protocol = Protocol.resolve(
        "demo", usual_protocol("demo"), {"split": "test", "ratings": "mean"}
    )
    selection = EvaluationSet.select(demo, protocol)
    assert compute_rating_error(rater, selection) == pytest.approx(
        (((words - means) / 4) ** 2).mean()  # both scales are 1 to 5
    )
    assert np.isnan(compute_rating_error(captau.metric("bleu_1"), selection))
    assert read_best_validation(rater, "wor") == 0.125
    assert np.isnan(read_best_validation(rater, "pretraining"))
    card = RaterCard.read(tmp_path / "seed-1")
    assert (card.rater, card.seed, card.options) == ("words", 1, {"factor": 1.0, "texts": "words"})
    trained = demo.items[demo.items["split"].isin(["train", "validation"])]
    assert card.images == tuple(sorted(set(trained["image_id"])))
    assert card.about["train"] == {
        "demo": {
            "captions": n_train,
            "images": demo.items.query("split == 'train'")["image_id"].nunique(),
        }
    }
    page = (tmp_path / "seed-1" / "README.md").read_text()
    assert f"| demo | overall | τ_c {100 * tau:.1f} | {len(items)} |" in page
    again = train(words_options(word_counter, seeds=(0, 1)), tmp_path)  # reads what it wrote
    assert again.frames["correlations.csv"].equals(found.frames["correlations.csv"])
    changed = words_options(word_counter, recipe=word_counter(factor=2.0))
    with says("a rater of another training lies there"):
        train(changed, tmp_path)


def test_folds_are_predicted_and_no_rater_is_kept(word_counter, tmp_path):
    options = words_options(word_counter, design="folds", folds=3, keep=False, shuffled=True)
    found = train(options, tmp_path)
    demo = captau.load("demo")
    scores = found.frames["scores.parquet"].set_index("item_id")["score"]
    assert scores.to_dict() == dict(
        zip(demo.items["item_id"], demo.items["caption"].str.split().str.len(), strict=True)
    )
    assert [path.name for path in found.spare] == [f"seed-0-fold-{k}" for k in (1, 2, 3)]
    assert found.summary == ""
    (table,) = found.tables[:1]
    assert "words: predicted by raters that had not seen the image (3 folds)" in table.notes[-2]
    assert table.notes[-1] == "CONTROL: trained on shuffled ratings."


@trains
def test_a_run_and_its_rater_as_a_metric(tmp_path, capsys):
    out = tmp_path / "run"
    assert run(*QUICK, f"output_dir={out}", "seeds=[0,1]", "metrics=[bleu_1]") == 0
    assert sorted(p.name for p in out.iterdir() if not p.name.startswith(".")) == [
        "correlations.csv",
        "rating_errors.csv",
        "run.json",
        "scores.parquet",
        "seed-0",
        "seed-1",
        "table.md",
        "table.tex",
        "training.csv",
    ]
    assert sorted(p.name for p in (out / "seed-0").iterdir()) == [
        "README.md",
        "model.safetensors",
        "rater.json",
        "training.csv",
    ]
    training = pd.read_csv(out / "training.csv")
    assert list(training.columns)[:3] == ["rater", "stage", "epoch"]
    assert training.groupby("rater")["epoch"].max().to_dict() == {"seed-0": 3, "seed-1": 3}
    found = pd.read_csv(out / "correlations.csv")
    wanted = found[found["coefficient"] == "tau_c"].set_index("metric")["value"]
    assert wanted["icr mean"] == pytest.approx(wanted[["icr seed 0", "icr seed 1"]].mean())
    card = json.loads((out / "seed-0" / "rater.json").read_text())
    assert card["rater"] == "icr"
    assert len(card["images"]) == 52
    assert [r["value"] for r in card["about"]["test"] if r["coefficient"] == "tau_c"] == [
        wanted["icr seed 0"]
    ]
    capsys.readouterr()
    results = captau.bench(
        "demo",
        [f"rater(path='{out / 'seed-0'}',name=Mine)", "bleu_1"],
        protocol={"split": "test"},
        ceilings=False,
        statistics={"interval": "none"},
    )
    again = results.correlations
    again = again[again["coefficient"] == "tau_c"].set_index("metric")["value"]
    assert again["Mine"] == wanted["icr seed 0"]
    assert again["bleu_1"] == wanted["bleu_1"]
    with says("52 of the 60 images", "protocol.split=test"):
        captau.bench("demo", [f"rater(path='{out / 'seed-0'}')"])
    marked = captau.bench(
        "demo", [f"rater(path='{out / 'seed-0'}',seen=mark)"], statistics={"interval": "none"}
    )
    notes = marked.correlations.loc[marked.correlations["metric"].str.startswith("rater"), "note"]
    assert notes.str.contains("52 of the 60 images").all()
    assert "52 of the 60 images" in marked.files()["table.md"].decode()


class ReferenceCounter(RaterModel):
    """Predicts the number of references."""

    def predict(self, rows: Rows) -> Floats:
        return np.array([float(len(references)) for references in rows.references])

    def save(self, folder: Path) -> None:
        (folder / "model.json").write_text("{}")


@dataclass(frozen=True)
class CountReferences(Recipe):
    """A rater that reads references, as none of captau's own does."""

    name: ClassVar[str] = "count_references"
    needs: ClassVar[frozenset[str]] = frozenset({"references"})

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        row = {"stage": "none", "epoch": 1, "steps": 1, "learning_rate": 0.5}
        session.history.append({**row, "loss": 0.25, "validation": 0.125, "best": True})
        return ReferenceCounter()

    def load(self, folder: Path) -> RaterModel:
        return ReferenceCounter()


@pytest.mark.parametrize(("references", "n_seen"), [("all", 5), ("mean_over_single", 1)])
def test_predictions_obey_the_protocols_references(references, n_seen, tmp_path):
    """As `bench` scores a metric: against one reference at a time, if the protocol says so."""
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {"references": references})
    statistics = StatisticsOptions(interval="none")
    datasets = {"demo": protocol}
    options = TrainOptions(recipe=CountReferences(), datasets=datasets, statistics=statistics)
    scores = train(options, tmp_path).frames["scores.parquet"]
    assert set(scores["score"]) == {float(n_seen)}


@trains
def test_a_finished_run_is_not_done_again_and_another_is_refused(tmp_path, capsys):
    out = tmp_path / "run"
    words = (*QUICK, f"output_dir={out}")
    assert run(*words) == 0
    weights = out / "seed-0" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert run(*words) == 0
    assert weights.stat().st_mtime_ns == before
    capsys.readouterr()
    assert run(*words, "rater.learning_rate=0.5") == 2
    said = capsys.readouterr().err
    assert "another training" in said
    assert "output_dir" in said
    assert weights.stat().st_mtime_ns == before


@trains
def test_folds_leave_no_raters_behind(tmp_path):
    out = tmp_path / "run"
    assert run(*QUICK, "design=folds", "folds=2", f"output_dir={out}") == 0
    assert [p.name for p in out.iterdir() if p.is_dir()] == [".hydra"]
    scores = pd.read_parquet(out / "scores.parquet")
    assert len(scores) == 360
    assert scores["score"].notna().all()
    kept = (*QUICK, "design=folds", "folds=2", f"output_dir={out}-2")
    for more in (("keep=true",), ()):  # what was asked to stay, a later run does not remove
        assert run(*kept, *more) == 0
        card = json.loads((tmp_path / "run-2" / "seed-0-fold-2" / "rater.json").read_text())
        assert "test" not in card["about"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "rater=… is needed"),
        (("rater=icrr",), "unknown rater 'icrr'"),
        (("rater=icr", "rater.epoch=3"), "'rater.epoch' is not an option of this rater"),
        (("rater=icr", "design=halves"), "unknown value of design"),
        (("rater=icr", "seeds=x"), "seeds"),
        (("rater=icr", "seeds=[1,1]"), "different whole numbers"),
        (("rater=icr", "strict=true"), "design=folds"),
        (("rater=icr", "protocol.split=test"), "divides the images by itself"),
        (("rater=icr", "rater.images=x.npz"), "images=x.npz is not a file"),
        (("rater=icr", "target=beauty"), "it has no ratings of 'beauty'; target=overall"),
        (("rater=icr", "device=nope"), "unknown device 'nope'"),
        (("rater=icr", "rater.foo=1"), "'rater.foo' is not an option of this rater"),
        ((*QUICK, 'metrics=["python(math:sqrt,name=icr)"]'), "two different metrics are called"),
    ],
)
def test_what_a_person_types_wrong(words, said, tmp_path, capsys):
    assert run(*words, f"output_dir={tmp_path / 'run'}") == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("captau: ")
    assert said in message
    assert not list((tmp_path / "run").glob("*/rater.json"))


def test_features_have_to_be_named_elsewhere_than_on_the_demo(tmp_path, capsys):
    judgements = tmp_path / "mine.csv"
    judgements.write_text("image,caption,value\na.jpg,a dog,1\nb.jpg,a cat,2\n")
    words = (
        "rater=icr",
        "dataset=file",
        f"file.path={judgements}",
        f"output_dir={tmp_path / 'run'}",
    )
    assert run(*words) == 2
    assert "rater.images=… is needed" in capsys.readouterr().err


def write_rated_captions(path: Path) -> Path:
    """Write forty images with four captions each, whose ratings rise from the first to the last."""
    captions = ("a dog runs", "a cat", "two men play ball", "red")
    lines = ["image,caption,value,references"]
    for image in range(40):
        for value, caption in enumerate(captions, start=1):
            lines.append(f"i{image}.jpg,{caption} {image},{value},a dog runs {image}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_vectors(folder: Path, *tables: pd.DataFrame) -> list[str]:
    """Write a vector of each image and each caption; return the options that name the files."""
    table = pd.concat(tables)
    rng = np.random.default_rng(0)
    options = []
    for option_name, key in (("images", "image_id"), ("texts", "caption")):
        names = sorted(set(table[key]))
        path = folder / f"{option_name}.npz"
        np.savez(path, embedding=rng.normal(size=(len(names), 4)), **{key: names})
        options.append(f"rater.{option_name}={path}")
    return options


@trains
def test_a_file_of_ones_own_has_one_name_everywhere(tmp_path):
    path = write_rated_captions(tmp_path / "ratings.csv")
    folder = tmp_path / "run"
    rated = pd.read_csv(path).rename(columns={"image": "image_id"})
    words = (*QUICK, *write_vectors(tmp_path, rated))
    file = ("dataset=file", f"file.path={path}", "file.name=mine")
    assert run(*words, *file, f"output_dir={folder}") == 0

    card = json.loads((folder / "seed-0" / "rater.json").read_text(encoding="utf-8"))
    assert set(card["about"]["data"]) == {"mine"}
    assert {row["dataset"] for row in card["about"]["test"]} == {"mine"}
    page = (folder / "seed-0" / "README.md").read_text(encoding="utf-8")
    assert "| mine |" in page
    assert "No figures" not in page
    assert set(pd.read_csv(folder / "correlations.csv")["dataset"]) == {"mine"}


@trains
def test_transfer_prints_what_is_learned_from_each_dataset_on_each(tmp_path, capsys):
    path = write_rated_captions(tmp_path / "ratings.csv")
    folder = tmp_path / "run"
    rated = pd.read_csv(path).rename(columns={"image": "image_id"})
    words = (*QUICK, *write_vectors(tmp_path, captau.load("demo").items, rated))
    data = ("dataset=demo,file", f"file.path={path}", "file.name=mine", "design=transfer")
    status = run(*words, *data, f"output_dir={folder}")
    out, err = capsys.readouterr()
    assert status == 0, err
    assert len(out.splitlines()) <= 20
    matrix = out.split("Learned from one dataset, tested on each")[1]
    lines = [line for line in matrix.splitlines() if line.startswith("|")][:4]
    assert lines[0] == "| learned from | demo | mine |"

    correlations = pd.read_csv(folder / "correlations.csv").set_index(["metric", "dataset"])
    for line, learned_from in zip(lines[2:], ["demo", "mine"], strict=True):
        cells = [learned_from]
        for tested in ("demo", "mine"):
            rows = correlations.loc[[(f"icr on {learned_from}", tested)]]
            tau_c = rows.loc[rows["coefficient"] == "tau_c", "value"].iloc[0]
            cells.append(f"{100 * tau_c:.1f}")
        assert line == f"| {' | '.join(cells)} |"


def start(out: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "captau.benchmarks.cli.main",
        "train",
        *words,
        f"output_dir={out}",
    ]
    code = "import sys; from captau.benchmarks.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *command[3:]]
    return subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.02)


@trains
def test_two_runs_at_once_do_not_meet(tmp_path, capsys):
    out = tmp_path / "run"
    out.mkdir()
    with FileLock(out / ".lock"):
        assert run(*QUICK, f"output_dir={out}") == 2
    assert "another run trains there" in capsys.readouterr().err
    assert run(*QUICK, f"output_dir={out}") == 0


@trains
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path):
    """SIGKILL while it trains; the second run starts from the checkpoint, a third from nothing."""
    words = ("rater=icr", "rater.epochs=2500", "rater.hidden=[64,16]", "threads=1")
    words = (*words, "statistics.interval=none")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(killed, *words)
    checkpoint = killed / "seed-0" / "checkpoint-icr.pt"
    wait_for(checkpoint, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert checkpoint.is_file()
    assert not (killed / "seed-0" / "rater.json").exists()
    for out in (killed, whole):
        done = start(out, *words)
        _, said = done.communicate()
        assert done.returncode == 0, said.decode()
    files = ("seed-0/model.safetensors", "training.csv", "correlations.csv")
    for name in files:
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert not checkpoint.exists()


@trains
def test_a_rater_of_everything_has_a_card_with_licences_and_ranges_and_refuses_its_images(
    tmp_path, capsys
):
    out = tmp_path / "run"
    assert (
        run(
            *QUICK,
            "rater.select=last",
            "design=all",
            f"output_dir={out}",
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "trained on every row: no image of these datasets can test it" in printed
    card = json.loads((out / "seed-0" / "rater.json").read_text())
    assert card["about"]["design"] == "all"
    data = card["about"]["data"]["demo"]
    demo = captau.load("demo")
    assert data["licence"] == demo.card.licence
    words = [len(caption.split()) for caption in demo.items["caption"]]
    assert data["ranges"]["caption_words"][::4] == [min(words), max(words)]
    counts = demo.items["references"].map(len)
    assert data["ranges"]["references"] == [counts.min(), counts.max()]
    page = (out / "seed-0" / "README.md").read_text()
    assert "trained on every caption" in page
    assert demo.card.licence in page
    with says("was trained on, or chosen by"):
        captau.bench("demo", [f"rater(path='{out / 'seed-0'}')"])


@trains
def test_the_lead_over_other_metrics_is_printed_and_written(tmp_path, capsys):
    out = tmp_path / "run"
    options = ("rater=icr", "rater.epochs=3", "rater.hidden=[8]")
    assert (
        run(*options, "metrics=[bleu_1,bleu_4]", "statistics.replicates=50", f"output_dir={out}")
        == 0
    )
    printed = capsys.readouterr().out
    assert "Lead over the best of the other metrics" in printed
    assert len(printed.splitlines()) <= 20
    assert "agreement with people" not in printed
    assert "agreement with people" in (out / "table.md").read_text(encoding="utf-8")
    significance = pd.read_csv(out / "significance.csv")
    tau = significance[significance["coefficient"].eq("tau_b")].set_index(["metric_a", "metric_b"])
    values = (
        pd.read_csv(out / "correlations.csv")
        .query("coefficient == 'tau_b'")
        .set_index("metric")["value"]
    )
    for other in ("bleu_1", "bleu_4"):
        lead = tau.loc[("icr", other), "difference"]
        assert lead == pytest.approx(values["icr"] - values[other])


def test_a_training_without_a_lead_to_show_keeps_the_differences(word_counter, tmp_path):
    """The tested images have no preferences, so no lead in accuracy, the first coefficient; τ_c has its differences."""
    demo = captau.load("demo")
    train_ids = demo.items.loc[demo.items["split"] == "train", "item_id"]
    is_of_train = demo.preferences["item_a"].isin(train_ids)
    caption_set = CaptionSet(
        demo.items, demo.ratings, demo.preferences[is_of_train], card=demo.card
    )
    protocol = Protocol.resolve(
        "demo", usual_protocol("demo"), {"coefficients": ("accuracy", "tau_c")}
    )
    options = words_options(
        word_counter,
        datasets={"demo": protocol},
        locations=Locations(loaded={"demo": caption_set}),
        metrics=(captau.metric("bleu_1"),),
        statistics=StatisticsOptions(replicates=50),
    )
    found = train(options, tmp_path)

    assert not any(table.title.startswith("Lead over") for table in found.tables)
    significance = found.frames["significance.csv"]
    row = significance.query("coefficient == 'tau_c'").iloc[0]
    assert (row["metric_a"], row["metric_b"]) == ("words", "bleu_1")
    values = found.frames["correlations.csv"].query("coefficient == 'tau_c'")
    by_metric = values.set_index("metric")["value"]
    assert row["difference"] == pytest.approx(by_metric["words"] - by_metric["bleu_1"])
