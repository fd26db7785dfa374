"""Which measure each row of a paper's tables stands for, on made-up data in which no two measures agree.

Source: SciPy and formulas written out here, on the same made-up ratings.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import captau
from captau.datasets.schema import split_of
from captau.metrics.registry import metric
from tests.conftest import run_captau

#: Rows of Scott et al. 2023, Table 4, whose metrics need neither weights nor Java.
METRICS = {
    "BLEU-1": "bleu_1",
    "BLEU-4": "bleu_4",
    "METEOR": "meteor",
    "ROUGE": "rouge_l",
    "CIDEr": "cider",
}
WORDS = ("a", "dog", "cat", "runs", "sleeps", "on", "the", "grass", "sofa", "two", "red", "small")
N_IMAGES = 60


def draw_captions(rng: np.random.Generator, number: int) -> list[str]:
    lengths = rng.integers(5, 9, size=number)
    return [" ".join(rng.choice(WORDS, size=length)) for length in lengths]


def draw_ratings(rng: np.random.Generator, number: int, highest: int) -> np.ndarray:
    """Ratings from 1 to `highest` by three raters who agree in part, shape (number, 3)."""
    quality = rng.integers(1, highest + 1, size=(number, 1))
    noise = rng.integers(-1, 3, size=(number, 3))
    return np.clip(quality + noise, 1, highest)


def write_game(root: Path, name: str, images: list[str], rng: np.random.Generator) -> None:
    captions = draw_captions(rng, len(images))
    ratings = draw_ratings(rng, len(images), highest=5)
    rows = [
        {
            "image": image,
            "caption": caption,
            "rater": f"{name}_{rater}",
            "value": int(value),
        }
        for image, caption, values in zip(images, captions, ratings, strict=True)
        for rater, value in enumerate(values)
    ]
    lines = [json.dumps(row) for row in rows]
    (root / name).mkdir()
    (root / name / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the four datasets of Scott et al. 2023 in their formats, of made-up words and ratings."""
    root = tmp_path_factory.mktemp("scott")
    rng = np.random.default_rng(4)
    coco_images = [str(100 + number) for number in range(N_IMAGES)]
    flickr_images = [f"{number}.jpg" for number in range(N_IMAGES)]

    # FlickrG has the pairs that were played, and of the experts' pairs those that all rated 1.
    experts = {
        image: {
            "image_path": f"Flickr8k_Dataset/{image}",
            "ground_truth": draw_captions(rng, 3),
            "human_judgement": [
                {"caption": caption, "rating": int(value)}
                for value in np.maximum(values, (1, 1, 2))
            ],
        }
        for image, caption, values in zip(
            flickr_images,
            draw_captions(rng, N_IMAGES),
            draw_ratings(rng, N_IMAGES, highest=4),
            strict=True,
        )
    }
    references = {image: draw_captions(rng, 3) for image in coco_images}

    for folder, file, content in (
        ("flickr8k", "flickr8k.json", experts),
        ("coco", "karpathy_test_references.json", references),
    ):
        (root / folder).mkdir()
        (root / folder / file).write_text(json.dumps(content), encoding="utf-8")
    write_game(root, "cocog", [*coco_images, *coco_images[:15]], rng)
    write_game(root, "flickrg", flickr_images, rng)
    return root


@pytest.fixture(scope="module")
def comparison(root: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """What `captau reproduce` writes of the paper."""
    folder = tmp_path_factory.mktemp("run") / "out"
    where = [f"data.root={root}", f"output_dir={folder}"]
    assert run_captau("reproduce", "paper=iicr_2023", "leave_out=[spice]", *where) == 0
    return pd.read_csv(folder / "comparison.csv")


def read_cells(comparison: pd.DataFrame, table: str, dataset: str, key: str) -> dict[str, float]:
    """The recomputed cells of a table by row or column."""
    is_of_table = (comparison["table"] == table) & (comparison["dataset"] == dataset)
    cells = comparison[is_of_table]
    return dict(zip(cells[key], cells["reproduced"], strict=True))


def compute_fleiss_kappa(ratings: np.ndarray) -> float:
    """Fleiss 1971: (P − P_e) / (1 − P_e), of counts by item and level."""
    levels = np.unique(ratings)
    counts = np.stack([(ratings == level).sum(axis=1) for level in levels], axis=1)
    n_raters = ratings.shape[1]
    observed = ((counts**2).sum(axis=1) - n_raters) / (n_raters * (n_raters - 1))
    chance = ((counts.sum(axis=0) / ratings.size) ** 2).sum()
    return (observed.mean() - chance) / (1 - chance)


def compute_agreement(ratings: np.ndarray) -> dict[str, float]:
    """The rows of Table 3 as section 4.1 defines them: each item's three ratings sorted, X lowest, Z highest."""
    x, y, z = np.sort(ratings, axis=1).T

    def tau(one: np.ndarray, *others: np.ndarray) -> float:
        return stats.kendalltau(np.tile(one, 2), np.concatenate(others), variant="c").statistic

    chi_square = stats.friedmanchisquare(*np.stack([x, y, z], axis=1)).statistic
    return {
        "tau_X-YZ": tau(x, y, z),
        "tau_Y-XZ": tau(y, x, z),
        "tau_Z-XY": tau(z, x, y),
        "W": chi_square / (3 * (len(x) - 1)),
        "kappa": compute_fleiss_kappa(ratings),
        "kappa_4=5": compute_fleiss_kappa(np.minimum(ratings, 4)),
    }


def are_distinct(values: Any) -> bool:
    """Say whether no two values print alike."""
    return all(high - low > 1e-3 for low, high in pairwise(sorted(values)))


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["flickr8k_expert", "cocog", "flickrg", "iicr16k"])
def test_each_row_of_table_3_is_its_own_measure(
    dataset: str, root: Path, comparison: pd.DataFrame
) -> None:
    """Of Flickr8k-Expert's four levels, which have no 5, both κ are one number, as the paper prints them."""
    ratings = captau.load(dataset, root).ratings
    values = ratings.groupby("item_id", sort=False)["value"].apply(list)
    expected = compute_agreement(np.array(values.tolist()))
    n_equal = dataset == "flickr8k_expert"
    if n_equal:
        assert expected["kappa"] == expected["kappa_4=5"]
    assert are_distinct([v for name, v in expected.items() if not (n_equal and name == "kappa")])

    found = read_cells(comparison, "Table 3", dataset, "row")
    assert set(found) == set(expected)
    for row, value in expected.items():
        assert found[row] == pytest.approx(100 * value, abs=1e-4), row


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["cocog", "flickrg", "iicr16k"])
def test_each_row_of_table_4_is_its_own_metric(
    dataset: str, root: Path, comparison: pd.DataFrame
) -> None:
    """τ_c over single ratings of the test split; CIDEr counts the words of each rating's row."""
    caption_set = captau.load(dataset, root)
    items = caption_set.items
    items = items[items["image_id"].map(split_of) == "test"]
    rows = caption_set.ratings.merge(items, on="item_id")
    expected: dict[str, float] = {}
    for row, spec in METRICS.items():
        scores = metric(spec).score(rows)
        expected[row] = stats.kendalltau(scores, rows["value"], variant="c").statistic
    assert are_distinct(expected.values())

    found = read_cells(comparison, "Table 4", dataset, "row")
    for row, value in expected.items():
        assert found[row] == pytest.approx(100 * value, abs=1e-4), row


@pytest.mark.slow
def test_the_counts_of_section_3_3_are_each_of_their_own(comparison: pd.DataFrame) -> None:
    """CocoG has 60 images with 75 captions, FlickrG 60 images with one each; three people rate every caption."""
    expected = {
        "cocog": {"Images": 60, "Pairs": 75, "Ratings": 225, "Raters": 3},
        "flickrg": {"Pairs": 60, "Ratings": 180},
        "iicr16k": {"Images": 120, "Pairs": 135, "Ratings": 405},
    }
    for dataset, counts in expected.items():
        assert read_cells(comparison, "Section 3.3", dataset, "column") == counts


def test_a_release_of_mean_ratings_has_no_agreement_and_says_so(tmp_path: Path) -> None:
    """Without raters the scale of means has no five levels whose highest two could count as one."""
    rows = [{"image": str(100 + n), "caption": f"dog {n}", "value": 1 + n % 4} for n in range(9)]
    (tmp_path / "cocog").mkdir()
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "cocog" / "cocog.jsonl").write_text("\n".join(lines), encoding="utf-8")
    where = [f"data.root={tmp_path}", f"output_dir={tmp_path / 'out'}"]
    assert run_captau("reproduce", "paper=iicr_2023", *where) == 0
    comparison = pd.read_csv(tmp_path / "out" / "comparison.csv", keep_default_na=False)
    of_cocog = comparison[(comparison["table"] == "Table 3") & (comparison["dataset"] == "cocog")]
    notes = dict(zip(of_cocog["row"], of_cocog["note"], strict=True))
    assert notes["kappa_4=5"].startswith(
        "missing: the scale of cocog's ratings has no measure fleiss_kappa_4=5"
    )
    assert notes["kappa"].startswith("undefined: no item has three ratings")
