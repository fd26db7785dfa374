"""Neither the order of a file's rows, nor names, nor the scale of ratings moves an interval, a p-value or a rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.training.training_designs import (
    TrainingCorpus,
    TrainingPlan,
    plan_jobs,
)
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.registry import load
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.learned.common.recipe import make_recipe
from tests.conftest import run_captau

METRICS = "metrics=bleu_1,rouge_l,cider"
LABELS = (
    *("dimension", "kind", "metric", "metric_a", "metric_b", "coefficient", "test", "other"),
    *("criterion", "step", "measure"),
)


def rating_table(data_root: Path | None, dataset: str, n_images: int) -> pd.DataFrame:
    """A row a rating of a dataset's first images."""
    caption_set = load(dataset, data_root)
    items = caption_set.items
    items = items[items["image_id"].isin(items["image_id"].unique()[:n_images])]
    table = caption_set.ratings.merge(items.drop(columns="image"), on="item_id")
    table = table.rename(columns={"image_id": "image"})
    table["references"] = [" ||| ".join(texts) for texts in table["references"]]
    return table[["image", "caption", "value", "rater", "references"]].reset_index(drop=True)


def rename(column: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Other names, whose order is another one."""
    names = column.unique()
    return column.map(dict(zip(names, [f"x{n}" for n in rng.permutation(len(names))], strict=True)))


def shuffle(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    renamed = {name: rename(table[name], rng) for name in ("image", "rater")}
    return table.assign(**renamed).iloc[rng.permutation(len(table))]


def numbers(
    table: pd.DataFrame,
    folder: Path,
    command: str,
    file: str,
    *words: str,
    metrics: str = METRICS,
) -> pd.DataFrame:
    """The numbers of a command's file by their labels."""
    folder.mkdir(exist_ok=True)
    table.to_csv(folder / "ratings.csv", index=False)
    output = folder / command
    if not output.exists():
        path = f"file.path={folder / 'ratings.csv'}"
        words = (*filter(None, [metrics]), *words)
        assert not run_captau(command, "dataset=file", path, f"output_dir={output}", *words)
    read = pd.read_csv(output / file)
    read = read.set_index([name for name in LABELS if name in read]).sort_index()
    return read.select_dtypes("number")


def check(table: pd.DataFrame, folder: Path) -> None:
    scaled = shuffle(table).assign(value=lambda rows: rows["value"] * 10 - 3)
    quick = "statistics.replicates=200"
    permutation = ("tests=bootstrap,permutation", "statistics.swap=item", quick)
    for command, file, *words in (
        ("bench", "correlations.csv", "floors=true", quick),
        ("bench", "ranks.csv"),
        ("compare", "significance.csv", *permutation),
        ("complement", "complementarity.csv", "draws=5"),
    ):
        first = numbers(table, folder / "first", command, file, *words)
        assert first.notna().any(axis=None)
        for name, changed in (("shuffled", shuffle(table)), ("scaled", scaled)):
            other = numbers(changed, folder / name, command, file, *words)
            pd.testing.assert_frame_equal(first, other, check_exact=False, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_rows_and_names_of_a_small_set_move_nothing(tmp_path: Path) -> None:
    check(rating_table(None, "demo", 10), tmp_path)


def test_rows_and_names_of_a_real_set_move_nothing(data_root: Path, tmp_path: Path) -> None:
    """60 images of CapEval1k, of which shuffled rows once moved a p-value by .083."""
    check(rating_table(data_root, "capeval1k", 60), tmp_path)


def test_rows_and_names_move_no_rank_of_systems(tmp_path: Path) -> None:
    """Strengths, Elo ratings, tests and the orders of metrics, of 90 comparisons of three systems."""
    rng = np.random.default_rng(0)
    rows: list[tuple[str, ...]] = []
    for image in range(30):
        words = [" ".join(rng.choice(["a", "dog", "runs", "fast"], n)) for n in (2, 3, 4)]
        for i, j in ((0, 1), (1, 2), (2, 0)):
            winner = "ab"[int(rng.random() < (0.3 if i < j else 0.7))]
            rows.append((f"{image}", words[i], words[j], f"s{i}", f"s{j}", winner, "a dog runs"))
    columns = ["image", "caption_a", "caption_b", "system_a", "system_b", "winner", "references"]
    table = pd.DataFrame(rows, columns=pd.Index(columns))
    systems = {"s0": "z", "s1": "y", "s2": "x"}
    other = table.assign(
        image=rename(table["image"], rng),
        system_a=table["system_a"].map(systems),
        system_b=table["system_b"].map(systems),
    ).iloc[rng.permutation(len(table))]
    for file in ("systems.csv", "elo.csv", "metric_orders.csv"):
        first = numbers(table, tmp_path / "first", "rank", file).reset_index()
        second = numbers(other, tmp_path / "second", "rank", file).reset_index()
        assert len(first)
        by = [*first.columns]
        pd.testing.assert_frame_equal(
            first.sort_values(by, ignore_index=True), second.sort_values(by, ignore_index=True)
        )


def test_rows_and_names_move_no_agreement_of_preferences(tmp_path: Path) -> None:
    """Stability and split halves, which draw, of 60 pairs that three raters graded each."""
    rng = np.random.default_rng(0)
    rows = [
        (f"{pair}", f"caption {pair} {quality}", f"caption {pair}", f"r{rater}", int(strength))
        for pair, quality in enumerate(rng.normal(size=60).round(2))
        for rater, strength in enumerate(np.clip(np.round(rng.normal(quality, 1, 3)), -2, 2))
    ]
    columns = ["image", "caption_a", "caption_b", "rater", "strength"]
    table = pd.DataFrame(rows, columns=pd.Index(columns))
    first = numbers(table, tmp_path / "first", "agree", "agreement.csv", metrics="")
    other = numbers(shuffle(table), tmp_path / "other", "agree", "agreement.csv", metrics="")
    assert first["value"].notna().sum() > 5
    pd.testing.assert_frame_equal(first, other)


def make_corpus(table: pd.DataFrame) -> TrainingCorpus:
    """Return a table's captions with all their ratings, to train on."""
    captions = table.drop_duplicates(["image", "caption"])
    references = [tuple(text.split(" ||| ")) for text in captions["references"]]
    items = make_items(captions["image"].tolist(), captions["caption"].tolist(), references)
    item_ids = items.set_index(["image_id", "caption"])["item_id"]
    of_rows = pd.MultiIndex.from_frame(table[["image", "caption"]])
    ratings = table[["rater", "value"]].assign(
        item_id=item_ids.loc[of_rows].to_numpy(), dimension="overall"
    )
    card = Card("mine", "mine", "1", "", "", "", scales={"overall": Scale(1, 5)})
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    return TrainingCorpus.prepare(CaptionSet(items, ratings, card=card), protocol, None)


def test_rows_and_names_move_no_fold_of_a_training() -> None:
    """The captions that each fold of 30 images of the demo learns from and predicts, with their ratings."""
    table = rating_table(None, "demo", 30)
    recipe = make_recipe("icr", {"images": "demo", "texts": "demo"})
    plan = TrainingPlan(recipe, "folds", seeds=(0,), folds=3)
    folds: list[list[list[tuple[str, list[float]]]]] = []
    for rows in (table, shuffle(table)):
        corpus = make_corpus(rows)
        sides: list[list[tuple[str, list[float]]]] = []
        for job in plan_jobs(plan, {"mine": corpus}):
            for examples in (job.train, job.validation, corpus.examples.take(job.test["mine"])):
                ratings = [values.tolist() for values in examples.ratings]
                sides.append(sorted(zip(examples.rows.captions, ratings, strict=True)))
        folds.append(sides)

    assert len(folds[0]) == 9
    assert folds[0] == folds[1]
