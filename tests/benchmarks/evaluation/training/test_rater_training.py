"""Predictions against mean ratings: ρ and squared error by hand, and the file that `captau train` writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.training.rater_training import (
    RatingEstimates,
    TrainedRater,
    error_rows,
    error_table,
    estimate_ratings,
    lead_table,
    make_card,
    shuffle_labels,
    train_rater,
    write_card,
)
from captau.benchmarks.evaluation.training.training_designs import (
    TrainingCorpus,
    TrainingJob,
    TrainingPlan,
)
from captau.benchmarks.runs.results import describe_environment
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.base import Floats
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import RaterModel, Recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.rater import RaterCard
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau, says


def estimates(split: str, predictions: list[float], means: list[float]) -> RatingEstimates:
    return RatingEstimates("one", "qe", split, np.array(predictions), np.array(means))


def test_errors_are_those_of_table_3_by_hand():
    """Levinboim et al. 2021, section 6: the mean of (y − ŷ)², and ρ of y and ŷ, on each side."""
    parts = [
        estimates("validation", [0.5, 0.25], [0.5, 0.75]),
        estimates("test", [0.1, 0.2], [0.1, 0.4]),
        estimates("test", [0.3], [0.2]),  # another fold
        estimates("test", [], []),
    ]
    validation, test = error_rows(parts).to_dict("records")
    assert validation["mse"] == pytest.approx(0.125)
    assert validation["spearman"] == pytest.approx(-1)
    assert validation["n_items"] == 2
    # ranks 1, 2, 3 and 1, 3, 2: 1 − 6 · 2 / (3 · 8)
    assert test["spearman"] == pytest.approx(0.5)
    assert test["mse"] == pytest.approx((0 + 0.04 + 0.01) / 3)
    assert (test["rater"], test["n_items"]) == ("qe", 3)


def test_shuffled_labels_are_the_same_ones_in_other_places():
    """About half of the winners change: of 400, between 150 and 250 but once in a million draws."""
    ratings = tuple(np.array([float(n)]) for n in range(50))
    pairs = np.column_stack([np.arange(400), np.arange(400) + 1000])
    examples = Examples(range(50), ratings, pairs)
    shuffled = shuffle_labels(examples, seed=3)
    assert shuffled.rows is examples.rows
    assert sorted(rating[0] for rating in shuffled.ratings) == list(range(50))
    assert sum(a is not b for a, b in zip(shuffled.ratings, ratings, strict=True)) > 40
    np.testing.assert_array_equal(np.sort(shuffled.preferences, axis=1), pairs)
    assert 150 < (shuffled.preferences[:, 0] >= 1000).sum() < 250
    again, other = shuffle_labels(examples, 3), shuffle_labels(examples, 4)
    assert again.ratings == shuffled.ratings
    np.testing.assert_array_equal(again.preferences, shuffled.preferences)
    assert other.ratings != shuffled.ratings
    assert (other.preferences != shuffled.preferences).any()


def test_errors_are_printed_with_three_decimals():
    errors = error_rows([estimates("test", [0.1, 0.2, 0.3], [0.1, 0.4, 0.2])] * 400)
    table = error_table(errors)
    assert (table.title, table.corner) == ("Predictions and mean ratings", "rater: dataset, rows")
    assert table.heads == ["Spearman", "MSE", "captions"]
    assert lines_of(table) == [("qe: one, test", ["0.500", "0.017", "1,200"])]


class LengthModel(RaterModel):
    """Predicts the number of words."""

    def predict(self, rows: Rows) -> Floats:
        return np.array([float(len(caption.split())) for caption in rows.captions])

    def save(self, folder: Path) -> None:
        (folder / "model.txt").write_text("a model")


class LengthRecipe(Recipe):
    """Notes what it was given."""

    name = "length"
    signature = "features 1"
    scale: tuple[float, float] | None = (1.0, 5.0)

    def __init__(self) -> None:
        self.given: list[Any] = []

    @property
    def options(self) -> dict[str, Any]:
        return {"deep": True}

    @property
    def rating_scale(self) -> tuple[float, float] | None:
        return self.scale

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        self.given.append((train, validation, session))
        session.extra_image_ids.add("x9")
        row = {"stage": "s", "epoch": 1, "steps": 2, "learning_rate": 0.5, "loss": 0.25}
        session.history.append({**row, "validation": 0.125, "best": True})
        return LengthModel()

    def load(self, folder: Path) -> RaterModel:
        return LengthModel()


def examples_of(name: str, first: int, ratings: list[list[float]]) -> Examples:
    """Captions of 1, 2, 3 … words, of images "1", "1", "2", "2" … from `first` on, with 1, 2, 3 … references."""
    n = range(1, len(ratings) + 1)
    items = make_items(
        [str(first + (i - 1) // 2) for i in n],
        [" ".join(["w"] * i) for i in n],
        [("r",) * i for i in n],
    )
    rows = Rows(items.assign(dataset=name))
    return Examples(rows, tuple(map(np.array, ratings)), np.empty((0, 2), dtype=np.intp))


def corpus_of(name: str, examples: Examples) -> TrainingCorpus:
    card = Card(name, f"The {name}", "r7", "CC0", "", "", scales={"overall": Scale(0, 1)})
    items = examples.rows.frame.drop(columns="dataset")
    value = [1.0] * len(items)
    ratings = pd.DataFrame(
        {"item_id": items["item_id"], "dimension": "overall", "rater": "r", "value": value}
    )
    protocol = Protocol.resolve("made", {}, {})
    caption_set = CaptionSet(items, ratings, card=card)
    return TrainingCorpus(EvaluationSet.select(caption_set, protocol), examples)


def made_job() -> tuple[TrainingPlan, TrainingJob, dict[str, TrainingCorpus]]:
    """Two datasets are learnt from, one chosen by, one tested on."""
    one = examples_of("one", 1, [[0.0, 1.0], [0.25], [], [0.5]])
    two = examples_of("two", 5, [[0.75], [1.0]])
    other = examples_of("other", 8, [[1.0]])
    corpora = {
        name: corpus_of(name, e) for name, e in (("one", one), ("two", two), ("other", other))
    }
    train = Examples.join([one.take(np.array([0, 1])), two])
    validation = one.take(np.array([2, 3]))
    plan = TrainingPlan(LengthRecipe(), "split", (3,), 5)
    test = {"other": np.array([0])}
    job = TrainingJob("seed-3", "length", 3, train, validation, test, 4, frozenset({"8"}))
    return plan, job, corpora


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is asked of torch, a light one, whose number of threads is 6 beforehand."""
    told: list[object] = []

    @contextmanager
    def fork() -> Iterator[None]:
        told.append("fork")
        yield
        told.append("restored")

    torch = ModuleType("torch")
    torch.__spec__ = cast(Any, object())
    attributes = {"get_num_threads": lambda: 6, "set_num_threads": told.append}
    torch.__dict__.update(attributes, random=SimpleNamespace(fork_rng=fork))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return told


def test_a_trained_rater_has_a_card_a_history_and_a_page(
    tmp_path: Path, threads: list[object]
) -> None:
    plan, job, corpora = made_job()
    folder = tmp_path / "new" / "rater"
    model, card = train_rater(replace(plan, device="cpu", threads=1), job, corpora, folder)
    assert isinstance(model, LengthModel)
    assert threads == ["fork", 1, 6, "restored"]
    ((train, validation, session),) = cast(Any, plan.recipe).given
    assert (train, validation) == (job.train, job.validation)
    assert (session.seed, session.folder, session.device, session.is_control) == (
        *(3, folder, "cpu"),
        False,
    )
    assert session.test_image_ids == {"8"}
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "model.txt", "rater.json", "training.csv"),
    ]
    assert (folder / "training.csv").read_text() == (
        "stage,epoch,steps,learning_rate,loss,validation,best\ns,1,2,0.5,0.25,0.125,True\n"
    )
    digests = {name: c.selection.caption_set.digest for name, c in corpora.items()}
    data = {"revision": "r7", "licence": "CC0"}
    assert card.about == {
        "design": "split",
        "shuffled": False,
        "control": "shuffled ratings",
        "data": {
            "one": {
                **data,
                "title": "The one",
                "digest": digests["one"],
                "ranges": {"caption_words": [1, 1, 3, 4, 4], "references": [1, 4]},
            },
            "two": {
                **data,
                "title": "The two",
                "digest": digests["two"],
                "ranges": {"caption_words": [1, 1, 1, 2, 2], "references": [1, 2]},
            },
        },
        "train": {"one": {"captions": 2, "images": 1}, "two": {"captions": 2, "images": 1}},
        "validation": {"one": {"captions": 2, "images": 1}},
        "dropped": 4,
        "validation_images": ["2"],
        "test_images": ["8"],
        "features": "features 1",
        **describe_environment(),
    }
    assert (card.rater, card.options, card.seed) == ("length", {"deep": True}, 3)
    assert card.images == ("1", "2", "5", "x9")
    assert RaterCard.read(folder) == card
    read, again = train_rater(plan, job, corpora, folder)
    assert (read.predict(job.train.rows).tolist(), again) == ([1, 2, 1, 2], card)
    assert len(cast(Any, plan.recipe).given) == 1
    session.reads_examples = False
    session.note_captions("coco.csv", {"x9": ["a dog", "a big dog"]}, {"y1": ["a cat here now"]})
    other = make_card(plan, job, corpora, session, "f")
    assert other.images == ("x9",)
    assert (other.about["data"], other.about["train"], other.about["validation_images"]) == (
        {},
        {},
        [],
    )
    write_card(other, tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| captions: coco.csv | 3 | 2 | 2 to 4, median 3 | none | not known |" in page
    assert "The one" not in page


class SourcedRecipe(LengthRecipe):
    """Reads regions from somewhere."""

    regions = ""
    source_options = ("regions",)

    @property
    def options(self) -> dict[str, Any]:
        return {"regions": self.regions}


@pytest.mark.usefixtures("threads")
def test_a_card_names_its_features_for_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of regions that was named from where the training ran is found from elsewhere; a word stays."""
    plan, job, corpora = made_job()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "features").mkdir()
    (tmp_path / "demo").mkdir()
    for source, expected in (("features", str(tmp_path / "features")), ("demo", "demo")):
        recipe = SourcedRecipe()
        recipe.regions = source
        _, card = train_rater(replace(plan, recipe=recipe), job, corpora, tmp_path / f"of-{source}")
        assert card.options == {"regions": expected}


def test_threads_are_those_of_torch_where_none_are_named(
    tmp_path: Path, threads: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, job, corpora = made_job()
    train_rater(plan, job, corpora, tmp_path / "one")
    assert threads == ["fork", 6, 6, "restored"]
    monkeypatch.setitem(sys.modules, "torch", None)
    train_rater(plan, job, corpora, tmp_path / "two")
    assert threads == ["fork", 6, 6, "restored"]


@pytest.mark.usefixtures("threads")
def test_another_training_in_a_folder_is_refused(tmp_path: Path) -> None:
    """Whatever the weights depend on makes another training; the number of threads does not."""
    plan, job, corpora = made_job()
    train_rater(plan, job, corpora, tmp_path)
    train_rater(replace(plan, threads=1, folds=3, seeds=(3, 4)), job, corpora, tmp_path)
    other_recipe = LengthRecipe()
    other_recipe.name = "words"
    other_features = LengthRecipe()
    other_features.signature = "features 2"
    turned = replace(job.train, preferences=np.array([[0, 1]]))
    rated = replace(job.train, ratings=(*job.train.ratings[:3], np.array([0.5])))
    for changed, changed_job in [
        (replace(plan, recipe=other_recipe), job),
        (replace(plan, recipe=other_features), job),
        (replace(plan, shuffled=True), job),
        (replace(plan, device="cuda"), job),
        (plan, replace(job, seed=4)),
        (plan, replace(job, test_image_ids=frozenset())),
        (plan, replace(job, train=turned)),
        (plan, replace(job, train=rated)),
        (plan, replace(job, validation=job.validation.take(np.array([0])))),
    ]:
        with says(
            f"{tmp_path}: a rater of another training lies there (other options, data or versions); "
            "remove it, or set another output_dir"
        ):
            train_rater(changed, changed_job, corpora, tmp_path)


@pytest.mark.usefixtures("threads")
def test_a_control_learns_from_shuffled_labels_on_both_sides(tmp_path: Path) -> None:
    plan, job, corpora = made_job()
    _, card = train_rater(replace(plan, shuffled=True), job, corpora, tmp_path)
    ((train, validation, session),) = cast(Any, plan.recipe).given
    for given, own in ((train, job.train), (validation, job.validation)):
        expected = shuffle_labels(own, 3)
        assert [r.tolist() for r in given.ratings] == [r.tolist() for r in expected.ratings]
        assert given.rows is own.rows
    assert session.is_control
    assert card.about["shuffled"]
    assert "CONTROL: it was trained on shuffled ratings." in (tmp_path / "README.md").read_text()


ABOUT: dict[str, Any] = {
    "design": "split",
    "shuffled": False,
    "control": "shuffled ratings",
    "data": {
        "one": {
            "title": "The one",
            "revision": "r7",
            "licence": "CC0",
            "ranges": {"caption_words": [1, 2, 6, 9, 1200], "references": [0, 5]},
        }
    },
    "train": {"one": {"captions": 1000, "images": 1500}},
    "validation": {"one": {"captions": 234, "images": 20}},
}
HEAD = (
    "| learned from | captions | images | words a caption | references | licence |\n"
    "|:--|--:|--:|:--|:--|:--|\n"
)
LICENCES = "\nThe ratings and captions remain under the licences above, which bind the use of this rater.\n"


def page_of(folder: Path, **changes: Any) -> str:
    card = RaterCard("qe", {}, 3, ("1",), "f", {**ABOUT, **changes})
    write_card(card, folder)
    assert RaterCard.read(folder) == card
    return (folder / "README.md").read_text(encoding="utf-8")


def test_a_page_says_what_a_rater_learnt_from_and_how_it_agrees(tmp_path: Path) -> None:
    test = [
        {"dataset": "d", "dimension": "overall", "coefficient": "tau_c", "value": v, "n_items": n}
        for v, n in ((0.45678, 1234), (-0.0001, 5))
    ]
    assert page_of(tmp_path, test=test) == (
        "# A rater of captau: qe\n\n"
        "Trained with design=split, seed 3. As a metric: `rater(path=FOLDER)`.\n\n"
        + HEAD
        + "| The one (r7) | 1,234 | 1,520 | 1 to 1200, median 6 | 0 to 5 | CC0 |\n"
        + LICENCES
        + "\n| tested on | dimension | coefficient ×100 | captions |\n|:--|:--|--:|--:|\n"
        "| d | overall | τ_c 45.7 | 1,234 |\n| d | overall | τ_c 0.0 | 5 |\n"
    )


def test_a_page_of_a_rater_of_captions_elsewhere_does_not_say_that_no_dataset_can_test_it(
    tmp_path: Path,
) -> None:
    captions = {"origin": "coco.csv", "captions": 1000, "images": 10, "words": [3, 5, 8, 9, 20]}
    changes: dict[str, Any] = {"data": {}, "train": {}, "validation": {}, "captions": captions}
    page = page_of(tmp_path, design="all", shuffled=True, control="random order", **changes)
    assert "It was trained on every caption" not in page
    assert "| captions: coco.csv | 1,000 | 10 | 3 to 20, median 8 | none | not known |" in page
    assert "CONTROL: it was trained on random order." in page


def test_a_page_warns_of_controls_and_of_raters_that_nothing_can_test(tmp_path: Path) -> None:
    page = page_of(tmp_path, design="all", shuffled=True, validation={}, test=[])
    assert page == (
        "# A rater of captau: qe\n\n"
        "Trained with design=all, seed 3. As a metric: `rater(path=FOLDER)`.\n"
        "CONTROL: it was trained on shuffled ratings.\n"
        "It was trained on every caption of the datasets below, so none of their images can test it; "
        "`captau train design=leave_one_out` measures raters that were made alike.\n\n"
        + HEAD
        + "| The one (r7) | 1,000 | 1,500 | 1 to 1200, median 6 | 0 to 5 | CC0 |\n"
        + LICENCES
        + "\nNo figures: design=all leaves nothing to test it on.\n"
    )


def test_estimates_are_beside_mean_ratings_on_the_scale_of_the_predictions() -> None:
    """On 1 to 5: captions of 3 and 4 words are chosen by, of which one has a rating, a half; 1.0 is 5."""
    plan, job, corpora = made_job()
    found = list(
        estimate_ratings(plan.recipe, job, LengthModel(), {"other": np.array([0.5])}, corpora)
    )
    assert [
        (e.dataset, e.rater, e.split, e.predictions.tolist(), e.mean_ratings.tolist())
        for e in found
    ] == [
        ("one", "length", "validation", [4.0], [3.0]),
        ("other", "length", "test", [0.5], [5.0]),
    ]
    plan.recipe.scale = None  # pyright: ignore
    assert list(estimate_ratings(plan.recipe, job, LengthModel(), {}, corpora)) == []


def test_a_rater_in_training_scores_what_its_model_predicts() -> None:
    rater = TrainedRater("words seed 1", LengthModel(), frozenset({"references"}))
    assert (rater.name, rater.spec) == ("words seed 1", "words seed 1")
    assert rater.needs == {"references"}
    assert not rater.is_cacheable
    assert not rater.depends_only_on_content
    rows = examples_of("one", 1, [[], []]).rows
    assert rater.compute(rows).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"^words has predictions and no model$"):
        TrainedRater("words").compute(rows)


def test_a_lead_is_over_the_greatest_of_the_other_metrics() -> None:
    """Of the first coefficient alone; dimensions of preferences are told by their mean."""
    names = ["dimension", "coefficient", "metric_a", "metric_b"]
    names += ["value_a", "value_b", "difference", "ci_low", "ci_high"]
    cells = [
        ("fit", "tau_c", "s", "bleu_1", 0.1, 0.25, -0.15, -0.2, -0.1),
        ("fit", "tau_c", "r", "bleu_1", 0.5, 0.25, 0.25, 0.2, 0.3),
        ("fit", "tau_c", "r", "rouge_l", 0.5, 0.45678, 0.04322, -0.01, 0.09),
        ("fit", "tau_c", "r", "s", 0.5, 0.9, -0.4, 0, 0),
        ("fit", "tau_c", "bleu_1", "rouge_l", 0.25, 0.99, -0.74, 0, 0),
        ("fit", "spearman", "r", "bleu_1", 0.5, 0.25, 0.25, 0, 0),
        ("fit", "tau_d", "r", "bleu_1", 0.5, 0.25, 0.25, 0, 0),
    ]
    measured = SimpleNamespace(
        differences=pd.DataFrame(cells, columns=pd.Index(names)),
        protocol=SimpleNamespace(coefficients=("tau_c", "spearman")),
        selection=SimpleNamespace(name="made"),
    )
    pairs = [
        (dimension, "accuracy", "r", "bleu_1", 0.75, 0.5, 0.25, 0.1, 0.4)
        for dimension in ("colour", "mean")
    ]
    preferred = SimpleNamespace(
        differences=pd.DataFrame(pairs, columns=pd.Index(names)),
        protocol=SimpleNamespace(coefficients=("accuracy",)),
        selection=SimpleNamespace(name="pairs"),
    )
    without = SimpleNamespace(differences=None)
    metrics = [metric("bleu_1"), metric("rouge_l")]
    table = lead_table(cast(Any, [without, measured, preferred]), metrics)
    assert lines_of(table) == [
        ("s: made, fit", ["τ_c", "10.00", "BLEU-1", "25.00", "-15.00", "-20.00 to -10.00"]),
        ("r: made, fit", ["τ_c", "50.00", "ROUGE-L", "45.68", "4.32", "-1.00 to 9.00"]),
        ("r: pairs, mean", ["acc. %", "75.00", "BLEU-1", "50.00", "25.00", "10.00 to 40.00"]),
    ]
    assert table.title == "Lead over the best of the other metrics"
    assert table.corner == "rater: dataset, dimension"
    assert table.heads == [*("coefficient", "rater", "best other", "its value", "lead", "interval")]
    assert table.notes == [
        "×100. The interval is the paired bootstrap's over images; significance.csv has every two."
    ]


@pytest.mark.neural
@pytest.mark.training
def test_a_training_writes_errors_in_the_units_of_its_scale(tmp_path):
    """Errors of 1 to 5 are 16 times those of 0 to 1: (4 · difference)²."""
    tables: list[pd.DataFrame] = []
    for scale in ("[0,1]", "[1,5]"):
        folder = tmp_path / scale
        quick = ["rater.epochs=2", "rater.hidden=[4]", f"rater.scale={scale}"]
        words = ["rater=icr", *quick, "statistics.interval=none", f"output_dir={folder}"]
        assert run_captau("train", *words) == 0
        tables.append(pd.read_csv(folder / "rating_errors.csv").set_index("split"))
    share, five = tables
    assert list(share.index) == ["validation", "test"]
    np.testing.assert_allclose(five["mse"], 16 * share["mse"])
    np.testing.assert_allclose(five["spearman"], share["spearman"])
    assert share["n_items"].to_list() == [60, 48]
