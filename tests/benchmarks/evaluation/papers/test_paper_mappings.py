"""What every cell of every paper is computed of, on made data in which no two measures agree.

The rows and columns of `conf/paper/` are held against what the papers call them, which stands here by hand. Scores are
made up by metric and protocol, so that a cell that rests on another metric, dimension, split, policy or coefficient has
another value. The expected values are SciPy's, or of a few lines here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.judged_pairs import PAIR_FLOORS
from captau.benchmarks.evaluation.measured_dataset import (
    NO_INTERVALS,
    MeasuredDataset,
    correlate_dataset,
)
from captau.benchmarks.evaluation.papers.published_numbers import PaperTable, read_published
from captau.benchmarks.evaluation.papers.published_sources import Cells
from captau.benchmarks.evaluation.papers.published_tables import TableRebuilder
from captau.benchmarks.evaluation.papers.rater_rows import fits_row
from captau.benchmarks.evaluation.scored_dataset import ScoredDataset
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.runs.results import find_missing_reason
from captau.benchmarks.scoring.catalog import read_config
from captau.benchmarks.scoring.score_store import Locations, ScoreStore
from captau.conf import group
from captau.datasets import registry
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, make_items
from captau.metrics.learned.rater import RaterCard
from captau.metrics.registry import metric

#: The metric behind each name that papers print; `null` in a paper's file is no metric here.
METRICS = {
    "BLEU-1": "bleu_1",
    "BLEU-4": "bleu_4",
    "BLEU": "sacrebleu",
    "ROUGE-L": "rouge_l",
    "ROUGE": "rouge_l",
    "METEOR": "meteor",
    "CIDEr": "cider",
    "SPICE": "spice",
    "BERT-S": "bertscore",
    "BERT-S (RoBERTa-F)": "bertscore",
    "BERTScore": "bertscore",
    "BERT-S++": "bert_tbr",
    "BERT-TBR": "bert_tbr",
    "VBTScore": "vilbertscore",
    "ViLBERTScore": "vilbertscore",
    "ViLBERTScore-F": "vilbertscore",
    "VIFIDEL": "vifidel",
    "CLIP-S": "clipscore",
    "CLIP-S (no refs)": "clipscore",
    "CLIPScore": "clipscore",
    "RefCLIP-S": "refclipscore",
    "RefCLIPScore": "refclipscore",
    "RefOnlyC": "refonlyclipscore",
    "PAC-S": "pac_s",
    "RefPAC-S": "refpac_s",
    "VSEPP": "vse_cosine",
    "VBAalignment": "vilbert_alignment",
    "UMIC": "umic",
    "UMIC_C": "umic_c",
    "length": "length",
}
#: Kasai et al. 2022, appendix A.2, take ROUGE-L of the package rouge-score.
THUMB_METRICS = {**METRICS, "ROUGE-L": "rouge_score_l", "ROUGE": "rouge_score_l"}
#: What a row prints that captau has no metric for, or whose scores or models it is of.
NOT_METRICS = {"LEIC", "TIGEr", "NUBIA", "Polos", "EXPERT", "VELA", "DENEB", "FLEUR", "RefFLEUR"}

MACHINES = ("VinVL-large", "VinVL-base", "Unified-VLP", "Up-Down")
SYSTEMS = ("Human", *MACHINES)
SPLITS = ("train", "validation", "test", "test_a", "test_b")
CATEGORIES = {"foil": ("FOIL",)}
N_IMAGES = 60


@dataclass(frozen=True)
class Meaning:
    """What a printed number is of.

    Attributes:
        coefficient: `tau_c`, `tau_b`, `spearman`, `pearson` or `accuracy`.
        dimension: the ratings, or the category of pairs.
        ratings: `per_rating` or `mean`.
        references, k: how references are used.
        own: what becomes of a caption among its own references.
        corpus: where words are counted.
        split: the only one; empty for all.
        systems: the only ones.
        bound: the end of an interval, whose made-up distance is printed.
    """

    coefficient: str
    dimension: str = "overall"
    ratings: str = "per_rating"
    references: str = "all"
    k: int | None = None
    own: str = "keep"
    corpus: str = "dataset"
    split: str = ""
    systems: tuple[str, ...] = SYSTEMS
    bound: str = ""


def meaning_of(paper: str, table: str, dataset: str, row: str, column: str) -> Meaning:
    """Say what a printed number is of, as its paper says."""
    if paper == "thumb_2022":
        return _meaning_in_thumb(column)
    if paper == "iicr_2023":
        # "method A" in aggregation and τ_C; the test subset of each dataset.
        own = "leave_out" if dataset in ("cocog", "iicr16k") else "keep"
        return Meaning("tau_c", split="test", own=own)
    if paper == "umic_2021":
        return _meaning_in_umic(dataset, row)
    if paper == "vela_2025":
        words = column.split()
        split = f"test_{words[1].lower()}"
        return Meaning(words[3], dimension=words[2].lower(), split=split)
    if dataset in ("pascal50s", "pascal50s_votes"):
        # Rows that are not drawn anew are of the released draw, or of the first five of all references.
        category = column.replace("Mean", "mean")
        if dataset == "pascal50s_votes":
            return Meaning("accuracy", category, references="first_k", k=5)
        return Meaning("accuracy", category)
    if dataset in ("polaris", "nebula"):
        return Meaning("tau_c", split="test")
    if dataset == "foil":
        return Meaning("accuracy", "FOIL", references="first_k", k=int(column[0]))

    own = "keep"
    if dataset == "composite" and "w/ GT" not in column:
        own = "leave_out_image"
    return Meaning(column.split()[0], own=own)


def _meaning_in_thumb(column: str) -> Meaning:
    scope, _, name = column.partition(" Human ")
    name, _, end = name.partition(", ")
    dimensions = {"P": "precision", "R": "recall", "Total": "total", "Fluency": "fluency"}
    return Meaning(
        "pearson",
        dimension=dimensions[name],
        ratings="mean",
        corpus="per_system",
        systems=MACHINES if scope == "w/o" else SYSTEMS,
        bound=end,
    )


def _meaning_in_umic(dataset: str, row: str) -> Meaning:
    """Section 5.2: the mean over references, BERTScore's the maximum; appendix A.2: τ_c on Flickr8k, τ_b elsewhere."""
    references = {"BERTScore": "max_over_single", "BERT-TBR": "all"}.get(row, "mean_over_single")
    if dataset == "pascal50s_votes":
        references = "first_k" if row == "BERT-TBR" else references
        return Meaning("accuracy", "mean", references=references, k=5)

    coefficient = "tau_c" if dataset == "flickr8k_expert" else "tau_b"
    ratings = "mean" if dataset == "capeval1k" else "per_rating"
    return Meaning(coefficient, ratings=ratings, references=references)


def made_set(name: str) -> CaptionSet:
    """Make a set of a dataset's own dimensions: five systems' captions of 60 images, rated by three people."""
    card = replace(registry.card(name), sources=(), expected={})
    rng = np.random.default_rng(crc32(name.encode()))
    image_ids = [f"i{n}" for n in range(N_IMAGES) for _ in SYSTEMS]
    captions = [" ".join(["w"] * int(k)) + f" {n}" for n, k in enumerate(rng.integers(1, 6, 300))]

    items = make_items(
        image_ids,
        captions,
        [(f"one {image}", f"two {image}") for image in image_ids],
        systems=list(SYSTEMS) * N_IMAGES,
        splits=[SPLITS[n % 5] for n in range(N_IMAGES) for _ in SYSTEMS],
    )
    ratings = [
        (item, dimension, rater, value)
        for dimension, scale in card.scales.items()
        for item in items["item_id"]
        for rater, value in zip("rst", _rate(scale, rng), strict=True)
    ]
    columns = pd.Index(["item_id", "dimension", "rater", "value"])
    preferences = None if card.scales else _prefer(items, CATEGORIES.get(name), rng)
    return CaptionSet(items, pd.DataFrame(ratings, columns=columns), preferences, card=card)


def _rate(scale: Any, rng: np.random.Generator) -> list[float]:
    """Draw three ratings from a skewed distribution, in ascending order, as Flickr8k-Expert releases them."""
    n_steps = round((scale.high - scale.low) / (scale.step or (scale.high - scale.low) / 8))
    steps = np.sort(rng.binomial(n_steps, 0.3, 3) + rng.integers(0, 2, 3))
    steps = np.minimum(steps, n_steps)
    return (scale.low + steps * (scale.high - scale.low) / n_steps).tolist()


def _prefer(
    items: pd.DataFrame, categories: Sequence[str] | None, rng: np.random.Generator
) -> pd.DataFrame:
    """Prefer one of two captions of each image, in one category after the other."""
    ids = items["item_id"].tolist()
    rows: list[tuple[str, str, str, str, float]] = []
    names = categories or ("HC", "HI", "HM", "MM")
    for n in range(N_IMAGES):
        category = names[n % len(names)]
        strength = float(rng.choice([-1, 1]))
        rows.append((f"p{n}", ids[5 * n], ids[5 * n + 1], category, strength))
    return make_preferences(rows)


def made_scores(items: pd.DataFrame, key: str) -> pd.Series:
    """Make up scores with ties, which depend on an item and a key alone."""
    values = [crc32(f"{key} {item}".encode()) % 17 for item in items["item_id"]]
    return pd.Series(values, index=items["item_id"], dtype=float)


def score_key(spec: str, references: str, k: int | None, own: str, corpus: str) -> str:
    """Name what a made-up score depends on."""
    return f"{spec} {references} {k} {own} {corpus}"


class MadeRebuilder(TableRebuilder):
    """A rebuilder of tables whose scores are made up by metric and protocol."""

    def unavailable_reason(self, table: PaperTable, spec: str | None) -> str:
        return self.metric_reason(spec)

    def measure(
        self, table: PaperTable, protocol: Any, specs: list[str], statistics: Any = NO_INTERVALS
    ) -> MeasuredDataset:
        selection = EvaluationSet.select(self.load(table.dataset), protocol)
        metrics = tuple(metric(spec) for spec in specs if spec not in PAIR_FLOORS)
        by_metric: dict[str, pd.Series] = {}
        for one in metrics:
            key = score_key(
                one.spec,
                protocol.references,
                protocol.k,
                protocol.own_references,
                protocol.corpus,
            )
            by_metric[one.spec] = made_scores(selection.items, key)

        has_floors = len(metrics) < len(specs)
        measured = correlate_dataset(
            ScoredDataset(selection, metrics, by_metric),
            self.progress,
            statistics=NO_INTERVALS,
            pair_floors=has_floors,
        )
        value = measured.correlations["value"]
        bounds = {"ci_low": value - 0.125, "ci_high": value + 0.25}
        return replace(measured, correlations=measured.correlations.assign(**bounds))


def rebuild(table: Mapping[str, Any], tmp_path: Path, **sets: CaptionSet) -> Cells:
    """Rebuild a table of a paper's file on made data, without draws of references, which have a test of their own."""
    fields: dict[str, Any] = {**table, "draws": {}, "protocol": table.get("protocol") or {}}
    one = PaperTable(**fields)
    caption_sets = dict(sets)
    if one.dataset in registry.names():
        caption_sets.setdefault(one.dataset, made_set(one.dataset))
    rebuilder = MadeRebuilder(
        Locations(data_root=tmp_path, use_cache=False),
        (),
        ScoreStore(None),
        StepProgress(None),
        caption_sets=caption_sets,
    )
    return rebuilder.rebuild("paper", one)


def expected_value(caption_set: CaptionSet, spec: str, meaning: Meaning) -> float:
    """Compute a cell from made data by what it is of."""
    items = caption_set.items
    items = items[items["system"].isin(meaning.systems)]
    if meaning.split:
        items = items[items["split"] == meaning.split]

    key = score_key(spec, meaning.references, meaning.k, meaning.own, meaning.corpus)
    scores = made_scores(items, key)
    if spec == "length":
        lengths = [float(len(caption.split())) for caption in items["caption"]]
        scores = pd.Series(lengths, index=items["item_id"])
    if meaning.coefficient == "accuracy":
        return _accuracy(caption_set.preferences, scores, meaning.dimension)
    if meaning.bound:
        return {"above": 0.25, "below": 0.125}[meaning.bound]

    ratings = caption_set.ratings
    ratings = ratings[ratings["dimension"] == meaning.dimension]
    ratings = ratings[ratings["item_id"].isin(items["item_id"])]
    if meaning.ratings == "mean":
        ratings = ratings.groupby("item_id", as_index=False)["value"].mean()

    x = scores[ratings["item_id"]].to_numpy()
    y = ratings["value"].to_numpy()
    if meaning.coefficient == "pearson":
        return float(stats.pearsonr(x, y).statistic)
    if meaning.coefficient == "spearman":
        return float(stats.spearmanr(x, y).statistic)
    return kendall(x, y, meaning.coefficient)


def kendall(x: Any, y: Any, name: str) -> float:
    """Compute `tau_b` or `tau_c`."""
    result = stats.kendalltau(x, y, variant="c") if name == "tau_c" else stats.kendalltau(x, y)
    return float(result.statistic)


def _accuracy(preferences: pd.DataFrame, scores: pd.Series, category: str) -> float:
    """Compute the share of pairs whose preferred caption has the higher score, ties a half; or its mean over categories."""
    higher = np.sign(
        scores[preferences["item_a"]].to_numpy() - scores[preferences["item_b"]].to_numpy()
    )
    is_right = pd.Series((1 + higher * np.sign(preferences["strength"].to_numpy())) / 2)
    by_category = is_right.groupby(preferences["dimension"].to_numpy()).mean()
    return float(by_category.mean() if category == "mean" else by_category[category])


def tables_of(*kinds: str) -> list[Any]:
    """List the tables of some kinds of all papers, as parameters."""
    found: list[Any] = []
    for paper in group("paper"):
        for number, table in enumerate(read_config("paper", paper)["tables"]):
            if table["kind"] in kinds:
                name = f"{paper}-{table['table']}-{table['dataset']}-{number}"
                found.append(pytest.param(paper, table, id=name))
    return found


@pytest.mark.parametrize(("paper", "table"), tables_of("correlation", "bounds"))
def test_a_correlation_is_of_the_metric_and_judgements_that_its_paper_says(
    paper: str, table: dict[str, Any], tmp_path: Path
) -> None:
    caption_set = made_set(table["dataset"])
    cells = rebuild(table, tmp_path, **{table["dataset"]: caption_set})
    names = THUMB_METRICS if paper == "thumb_2022" else METRICS
    printed = read_published(paper)
    of_table = printed[
        (printed["table"] == table["table"]) & (printed["dataset"] == table["dataset"])
    ]

    values: list[float] = []
    for row, column in zip(of_table["row"], of_table["column"], strict=True):
        if column not in table["columns"]:
            continue
        cell = cells[row, column]
        if find_missing_reason(cell.note):
            is_told = row in NOT_METRICS or "missing" in str(table["rows"][row])
            is_told |= "missing" in table["columns"][column]
            # Hirano et al. 2025 print numbers on scores of Nebula that captau does not have.
            assert is_told or table.get("revision"), (row, column, cell.note)
            continue

        meaning = meaning_of(paper, table["table"], table["dataset"], row, column)
        expected = expected_value(caption_set, names[row], meaning)
        assert cell.value == pytest.approx(expected * table["scale"]), (row, column)
        # Accuracies are too coarse to differ all; each is held against its own.
        if not meaning.bound and meaning.coefficient != "accuracy":
            values.append(cell.value)

    # No two measures agree, so that no cell can stand for another.
    assert len({round(value, 9) for value in values}) == len(values)


def virtual_raters(ratings: pd.DataFrame) -> np.ndarray:
    """Return the three ratings of each item, the lowest first."""
    return np.sort(ratings["value"].to_numpy().reshape(-1, 3), axis=1)


def _fleiss(table: np.ndarray, levels: Sequence[float]) -> float:
    """Compute Fleiss' κ (1971) of n items by 3 raters."""
    counts = np.stack([(table == level).sum(axis=1) for level in levels], axis=1)
    agreement = ((counts**2).sum(axis=1) - 3) / 6
    by_chance = (counts.sum(axis=0) / counts.sum()) ** 2
    return float((agreement.mean() - by_chance.sum()) / (1 - by_chance.sum()))


def _kendall_w(table: np.ndarray) -> float:
    """Compute Kendall's W with the correction for ties (Kendall 1948), of n items by 3 raters."""
    n = len(table)
    ranks = np.stack([stats.rankdata(column) for column in table.T], axis=1)
    sums = ranks.sum(axis=1)
    ties = 0.0
    for column in table.T:
        sizes = np.unique(column, return_counts=True)[1]
        ties += float((sizes**3 - sizes).sum())
    return float(12 * ((sums - sums.mean()) ** 2).sum() / (9 * (n**3 - n) - 3 * ties))


def expected_agreement(ratings: pd.DataFrame) -> dict[str, float]:
    """Compute Scott et al. 2023, Table 3, by its printed rows, of three ratings an item."""
    table = virtual_raters(ratings)

    def tau(one: int, others: tuple[int, int]) -> float:
        both = np.concatenate([table[:, others[0]], table[:, others[1]]])
        return kendall(np.tile(table[:, one], 2), both, "tau_c")

    return {
        "tau_X-YZ": tau(0, (1, 2)),
        "tau_Y-XZ": tau(1, (0, 2)),
        "tau_Z-XY": tau(2, (0, 1)),
        "W": _kendall_w(table),
        "kappa": _fleiss(table, range(1, 6)),
        "kappa_4=5": _fleiss(np.minimum(table, 4), range(1, 5)),
    }


@pytest.mark.parametrize(("paper", "table"), tables_of("agreement"))
def test_agreement_is_the_measure_that_its_row_says(
    paper: str, table: dict[str, Any], tmp_path: Path
) -> None:
    caption_set = made_set(table["dataset"])
    cells = rebuild(table, tmp_path, **{table["dataset"]: caption_set})
    if paper != "iicr_2023":
        assert all(find_missing_reason(cell.note) for cell in cells.values())
        return

    expected = expected_agreement(caption_set.ratings)
    for (row, _), cell in cells.items():
        assert cell.value == pytest.approx(100 * expected[row]), row
        # Of three ratings an item nothing is drawn.
        assert cell.spread is None
    # The experts' scale ends at 4, where both κ are one.
    n_different = 5 if table["dataset"] == "flickr8k_expert" else 6
    assert len({round(value, 9) for value in expected.values()}) == n_different


@pytest.mark.parametrize("dataset", ["cocog", "flickrg", "iicr16k"])
def test_virtual_raters_that_are_drawn_are_held_against_the_spread_of_the_papers_20_draws(
    dataset: str, tmp_path: Path
) -> None:
    """Scott et al. 2023, section 4.1: three of each pair's ratings are drawn 20 times; other draws have other means."""
    (table,) = (
        table
        for table in read_config("paper", "iicr_2023")["tables"]
        if (table["table"], table["dataset"]) == ("Table 3", dataset)
    )
    made = made_set(dataset)
    rng = np.random.default_rng(5)
    quality = rng.uniform(1, 5, size=(len(made.items), 1))
    grid = np.clip(np.rint(quality + rng.normal(0, 0.8, size=(len(made.items), 6))), 1, 5)
    ratings = pd.DataFrame(
        {
            "item_id": np.repeat(made.items["item_id"].to_numpy(), 6),
            "dimension": "overall",
            "rater": [f"r{k}" for k in range(6)] * len(made.items),
            "value": grid.ravel(),
        }
    )
    rated = CaptionSet(made.items, ratings, card=made.card)
    cells = rebuild(table, tmp_path, **{dataset: rated})

    draws: list[dict[str, float]] = []
    for _ in range(200):
        drawn = np.sort(rng.permuted(grid, axis=1)[:, :3], axis=1)
        three = pd.DataFrame({"value": drawn.ravel()})
        draws.append(expected_agreement(three))
    measures = 100 * pd.DataFrame(draws)

    for (row, _), cell in cells.items():
        of_row = measures[row]
        assert cell.spread is not None
        # Two standard errors of the difference between two means of 20; the deviation of 20 draws is itself uncertain.
        expected_spread = 2 * of_row.std() * np.sqrt(2 / 20)
        assert cell.spread == pytest.approx(expected_spread, rel=0.5)
        assert abs(cell.value - of_row[:20].mean()) <= cell.spread, row
        assert abs(cell.value - of_row.mean()) <= cell.spread, row


def test_penalties_are_of_all_captions_or_of_peoples(tmp_path: Path) -> None:
    """Kasai et al. 2022, section 2.2.2: the mean fluency penalty of all captions, and how many lack conciseness."""
    table = table_of_thumb("Section 2.2.2")
    caption_set = made_set("thumb")
    cells = rebuild(table, tmp_path, thumb=caption_set)

    penalties = caption_set.ratings.pivot_table(
        index="item_id", columns="dimension", values="value"
    )
    is_human = (caption_set.items["system"] == "Human").to_numpy()
    humans = penalties.loc[caption_set.items.loc[is_human, "item_id"]]
    fluency = "Mean fluency penalty"
    conciseness = "Captions with a conciseness penalty"
    expected = {
        ("All captions", fluency): -penalties["fluency"].mean(),
        ("Human", fluency): -humans["fluency"].mean(),
        ("All captions", conciseness): (penalties["conciseness"] < 0).sum(),
        ("Human", conciseness): (humans["conciseness"] < 0).sum(),
    }
    assert {key: cell.value for key, cell in cells.items()} == pytest.approx(expected)
    assert len(set(expected.values())) == len(expected)


def table_of_thumb(name: str) -> dict[str, Any]:
    """Return the table of that name in THumB's file."""
    tables = {table["table"]: table for table in read_config("paper", "thumb_2022")["tables"]}
    return tables[name]


def test_means_are_of_the_system_and_dimension_that_their_paper_says(tmp_path: Path) -> None:
    """Kasai et al. 2022, Table 2: penalties are printed positive, text metrics in hundredths."""
    table = table_of_thumb("Table 2")
    caption_set = made_set("thumb")
    cells = rebuild(table, tmp_path, thumb=caption_set)
    dimensions = {
        "P": ("precision", 1),
        "R": ("recall", 1),
        "Flu.": ("fluency", -1),
        "Con.": ("conciseness", -1),
        "Inc.": ("inclusive", -1),
        "Total": ("total", 1),
    }
    units = {"ROUGE": 100, "SPICE": 100, "CIDEr": 100}
    items = caption_set.items

    values: dict[str, set[float]] = {}
    for (row, column), cell in cells.items():
        ids = items.loc[items["system"] == row, "item_id"]
        if column.startswith("Total, "):
            expected = expected_bound(caption_set, ids, column)
            assert cell.value == pytest.approx(expected, abs=0.01), (row, column)
            continue
        if column in dimensions:
            dimension, sign = dimensions[column]
            ratings = caption_set.ratings
            is_of_cell = ratings["item_id"].isin(ids) & (ratings["dimension"] == dimension)
            expected = sign * ratings.loc[is_of_cell, "value"].mean()
        else:
            key = score_key(THUMB_METRICS[column], "all", None, "keep", "per_system")
            expected = units.get(column, 1) * made_scores(items, key)[ids].mean()
        assert cell.value == pytest.approx(expected), (row, column)
        values.setdefault(row, set()).add(round(cell.value, 9))

    assert {len(of_system) for of_system in values.values()} == {13}


def expected_bound(caption_set: CaptionSet, ids: pd.Series, column: str) -> float:
    """Return how far the 90 % percentile interval of a mean total reaches, of 20,000 resamples of its images."""
    ratings = caption_set.ratings
    total = ratings[(ratings["dimension"] == "total") & ratings["item_id"].isin(ids)]
    means = total.groupby("item_id")["value"].mean().to_numpy()
    draws = np.random.default_rng(0).choice(means, (20_000, len(means))).mean(axis=1)
    low, high = np.percentile(draws, [5, 95])
    return float({"Total, above": high - means.mean(), "Total, below": means.mean() - low}[column])


#: Whose caption each row of THumB's Tables 1, 5 and 7 and of its Figure 1 is, as the paper prints them; of several
#: systems with one caption the first that it names.
WRITERS = {
    "Up-Down": "1-A 2-A 4-A 5-A 6-A 7-A 8-A 9-A 10-A spewing",
    "Unified-VLP": "2-B 3-A 4-B 6-B 7-B 8-B 9-B 10-B spraying",
    "VinVL-base": "1-B 7-C 8-C 9-C 10-C",
    "VinVL-large": "1-C 3-B 5-B 7-D 8-D 9-D 10-D",
    "Human": "2-C 3-C 4-C 5-C 6-C 7-E 8-E 9-E 10-E Human",
}
#: What a column of such a table is of, and in which unit; of the release of CapEval1k, whose ratings are shares of 5.
CAPTION_COLUMNS = {
    "P": ("precision", 1),
    "R": ("recall", 1),
    "Flu.": ("fluency", -1),
    "Total": ("total", 1),
    "CIDEr": ("", 100),
    "Human rating": ("overall", 1),
    "Human Judgments": ("overall", 5),
}


def set_of_shown_captions(table: Mapping[str, Any]) -> CaptionSet:
    """Make the captions of all systems of the images that a table shows, rated by chance."""
    images: dict[str, None] = {}
    systems: dict[str, None] = {}
    for spec in table["rows"].values():
        image, _, system = spec.partition("/")
        images[image.partition(":")[0]] = None
        systems[system] = None
    if table["dataset"] == "thumb":
        systems |= dict.fromkeys(SYSTEMS)
    pairs = [(image, system) for image in images for system in systems]
    captions = [f"{system} writes {image}" for image, system in pairs]
    # CapEval1k names no systems; its caption is the printed one, in small letters.
    if table["dataset"] == "capeval1k":
        captions = [row.lower() for row in table["rows"]]

    items = make_items(
        [image for image, _ in pairs],
        captions,
        [("one", "two")] * len(pairs),
        systems=[system or None for _, system in pairs],
        splits=["validation"] * len(pairs),
    )
    card = replace(registry.card(table["dataset"]), sources=(), expected={})
    rng = np.random.default_rng(3)
    rows: list[tuple[str, str, str, float]] = []
    for dimension, scale in card.scales.items():
        shares = rng.permutation(len(items)) / len(items)
        for item, share in zip(items["item_id"], shares, strict=True):
            rows.append((item, dimension, "r", scale.low + share * (scale.high - scale.low)))
    columns = pd.Index(["item_id", "dimension", "rater", "value"])
    wide = {name: replace(scale, step=None) for name, scale in card.scales.items()}
    return CaptionSet(items, pd.DataFrame(rows, columns=columns), card=replace(card, scales=wide))


@pytest.mark.parametrize(("paper", "table"), tables_of("captions"))
def test_a_shown_caption_has_the_ratings_of_its_writer_and_column(
    paper: str, table: dict[str, Any], tmp_path: Path
) -> None:
    caption_set = set_of_shown_captions(table)
    items = caption_set.items
    ratings = caption_set.ratings.pivot_table(index="item_id", columns="dimension", values="value")
    cells = rebuild(table, tmp_path, **{table["dataset"]: caption_set})

    writers = {row: system for system, rows in WRITERS.items() for row in rows.split()}
    values: list[float] = []
    for (row, column), cell in cells.items():
        if find_missing_reason(cell.note):
            assert "missing" in table["columns"][column]
            continue
        spec = table["rows"][row]
        image, _, system = spec.partition("/")
        if paper == "thumb_2022":
            assert system == writers[row], row
        is_shown = (items["image_id"] == image) & (items["system"] == system)
        is_shown |= items["item_id"] == spec
        (item,) = items.loc[is_shown, "item_id"]

        dimension, unit = CAPTION_COLUMNS[column]
        if dimension:
            expected = unit * ratings.loc[item, dimension]
        else:
            key = score_key("cider", "all", None, "keep", "per_system")
            expected = unit * made_scores(items, key)[item]
        assert cell.value == pytest.approx(expected), (row, column)
        values.append(cell.value)
    assert len({round(value, 9) for value in values}) > len(values) / 2


def test_every_kind_of_table_is_held_against_its_paper() -> None:
    """A table of another kind needs a test like those here; of three kinds other modules hold the numbers by hand."""
    kinds: set[str] = set()
    for paper in group("paper"):
        kinds |= {table["kind"] for table in read_config("paper", paper)["tables"]}
    here = {"correlation", "bounds", "agreement", "system_means", "best_worst", "captions"}
    here |= {"fold_counts", "counts", "human", "author_scores"}
    # test_rater_rows.py, test_extrinsic_cells.py and test_count_cells.py
    assert kinds == here | {"histories", "extrinsic", "game_counts"}


@pytest.mark.parametrize(("paper", "table"), tables_of("best_worst"))
def test_best_and_worst_are_of_both_dimensions(
    paper: str, table: dict[str, Any], tmp_path: Path
) -> None:
    caption_set = made_set("thumb")
    cells = rebuild(table, tmp_path, thumb=caption_set)
    of_item = caption_set.ratings.pivot_table(index="item_id", columns="dimension", values="value")
    items = caption_set.items.join(of_item[["precision", "recall"]], on="item_id")
    both = items.groupby("image_id")[["precision", "recall"]]
    at_top = (items[["precision", "recall"]] == both.transform("max")).all(axis=1)
    at_bottom = (items[["precision", "recall"]] == both.transform("min")).all(axis=1)

    systems: dict[str, str] = dict(
        zip(("Human", "Vin-large", "Vin-base", "U-VLP", "Up-Down"), SYSTEMS, strict=True)
    )
    for (row, column), cell in cells.items():
        is_extreme = {"# Best": at_top, "# Worst": at_bottom}[row]
        assert cell.value == is_extreme[items["system"] == systems[column]].sum(), (row, column)


def counted(caption_set: CaptionSet, split: str, column: str) -> float:
    """Count what a column of counts is called."""
    items = caption_set.items
    if split:
        items = items[items["split"] == split]
    ratings = caption_set.ratings[caption_set.ratings["item_id"].isin(items["item_id"])]
    counts = {
        "Samples": len(items),
        "Pairs": len(items),
        "Unique images": items["image_id"].nunique(),
        "Images": items["image_id"].nunique(),
        "Unique captions": items["caption"].nunique(),
        "Unique models": items["system"].nunique(),
        "Ratings": len(ratings),
        "Judgments": len(ratings),
        "Raters": ratings["rater"].nunique(),
        "Triplets": caption_set.preferences["pair_id"].nunique(),
    }
    return float(len(items) if column == "Captions" else counts[column])


def uneven_set(name: str) -> CaptionSet:
    """Leave out of a made set what makes its counts alike: captions occur twice, and raters rate some items alone."""
    made = made_set(name)
    items = made.items
    keep = np.arange(len(items)) % 7 != 3
    items = items[keep]
    items["caption"] = [f"caption {number % 23}" for number in range(len(items))]
    ratings = made.ratings[made.ratings["item_id"].isin(items["item_id"])]
    preferences = made.preferences
    is_kept = preferences["item_a"].isin(items["item_id"])
    is_kept &= preferences["item_b"].isin(items["item_id"])
    return CaptionSet(items, ratings[:-50], preferences[is_kept], card=made.card)


@pytest.mark.parametrize(("paper", "table"), tables_of("fold_counts"))
def test_counts_are_of_what_their_column_says(
    paper: str, table: dict[str, Any], tmp_path: Path
) -> None:
    caption_set = uneven_set(table["dataset"])
    (tmp_path / "flickr8k").mkdir()
    lines = "line\n" * 77
    (tmp_path / "flickr8k" / "ExpertAnnotations.txt").write_text(lines, encoding="utf-8")
    cells = rebuild(table, tmp_path, **{table["dataset"]: caption_set})

    folds = {"Train": "train", "Dev": "validation", "Test": "test"}
    for (row, column), cell in cells.items():
        if find_missing_reason(cell.note):
            assert "missing" in table["rows"][row]
            continue
        # The two papers count Flickr8k-Expert's pairs in the original file.
        is_in_file = table["dataset"] == "flickr8k_expert" and column == "Pairs"
        expected = 77.0 if is_in_file else counted(caption_set, folds.get(row, ""), column)
        assert cell.value == expected, (row, column)

    for row in table["rows"]:
        values = [cells[row, column].value for column in table["columns"]]
        assert len(set(values)) == len(values), row


def test_cocos_counts_and_peoples_scores_are_of_the_files_that_their_rows_name(
    tmp_path: Path,
) -> None:
    """Chen et al. 2015: counts of section 2, and Table I, where more references score the same captions higher."""
    counts = {"captions_train2014": 7, "captions_val2014": 6, "c5": 5, "c40": 4}
    for number, (name, n_images) in enumerate(counts.items(), start=2):
        folder = tmp_path / "coco" / ("annotations" if name.startswith("captions") else "")
        folder.mkdir(parents=True, exist_ok=True)
        file = name if name.startswith("captions") else f"captions_test2014_{name}"
        annotations = [
            {"image_id": i, "id": 100 * i + k, "caption": f"a dog number {i + k} runs to the sea"}
            for i in range(n_images)
            for k in range(number)
        ]
        (folder / f"{file}.json").write_text(
            json.dumps({"annotations": annotations}), encoding="utf-8"
        )
    held_out = [
        {"image_id": i, "caption": f"a dog number {i + 2} runs to a lake"} for i in range(5)
    ]
    path = tmp_path / "coco" / "captions_test2014_human_results.json"
    path.write_text(json.dumps(held_out), encoding="utf-8")

    tables = {t["table"]: t for t in read_config("paper", "coco_captions_2015")["tables"]}
    cells = rebuild(tables["Section 2"], tmp_path)
    found = {key: cell.value for key, cell in cells.items() if not find_missing_reason(cell.note)}
    # n images with 2, 3, 4 and 5 captions each.
    assert found == {
        ("training", "images"): 7,
        ("training", "captions"): 14,
        ("validation", "images"): 6,
        ("validation", "captions"): 18,
        ("test c5", "images"): 5,
        ("test c5", "captions"): 20,
        ("test c40", "images"): 4,
        ("test c40", "captions"): 20,
    }

    without_meteor = {r: s for r, s in tables["Table I"]["rows"].items() if r != "METEOR"}
    assert tables["Table I"]["rows"]["METEOR"] == "meteor"
    cells = rebuild({**tables["Table I"], "rows": without_meteor}, tmp_path)
    for column in ("MS COCO c5", "MS COCO c40"):
        bleus = [cells[f"BLEU {n}", column].value for n in (1, 2, 3, 4)]
        assert bleus == sorted(bleus, reverse=True)
        values = [cells[row, column].value for row in without_meteor]
        assert len(set(values)) == len(values)
    # "a dog number 2 runs to" are 6 of 8 words; of "a lake" the second "a" has no match left.
    assert cells["BLEU 1", "MS COCO c5"].value == pytest.approx(6 / 8)


def test_fleurs_cells_are_of_its_authors_scores(tmp_path: Path) -> None:
    """Lee et al. 2024: the smoothed number, and in the lines of their script the raw one beside it."""
    for table in read_config("paper", "fleur_2024")["tables"]:
        if table["kind"] != "author_scores":
            continue
        people = made_set(table["dataset"])
        part = next(iter(table["columns"].values()))["part"]
        authors = made_authors(people, [o["part"] for o in table["columns"].values()])
        cells = rebuild(table, tmp_path, **{table["dataset"]: people, "fleur": authors})
        for (row, column), cell in cells.items():
            if row == "RefFLEUR":
                continue
            kind = "raw" if "raw" in row else "smoothed"
            scores = made_scores(people.items, f"{kind} {part}") / 17
            if table["dataset"] == "pascal50s":
                # The labels are those of the authors' files, which are turned about here.
                scores = -made_scores(people.items, f"{kind} pascal_{column}")
                expected = _accuracy(people.preferences, scores, column)
            else:
                ratings = people.ratings
                x = scores[ratings["item_id"]].to_numpy()
                expected = kendall(x, ratings["value"], column)
            assert cell.value == pytest.approx(100 * expected), (row, column)


def made_authors(people: CaptionSet, parts: Sequence[str]) -> CaptionSet:
    """Make the two scores of each of a set's captions, once a part; the labels of pairs are the opposite ones."""
    frames: list[pd.DataFrame] = []
    rows: list[tuple[str, str, str, float]] = []
    card = replace(registry.card("fleur"), sources=(), expected={})
    preferences: list[pd.DataFrame] = []
    for part in dict.fromkeys(parts):
        items = make_items(
            people.items["image_id"].tolist(),
            people.items["caption"].tolist(),
            people.items["references"].tolist(),
            systems=[part] * len(people.items),
        )
        frames.append(items)
        names = dict(zip(people.items["item_id"], items["item_id"], strict=True))
        for kind in ("raw", "smoothed"):
            scores = made_scores(people.items, f"{kind} {part}") / 17
            rows += [(names[item], kind, "fleur", value) for item, value in scores.items()]
        category = part.removeprefix("pascal_")
        of_part = people.preferences[people.preferences["dimension"] == category]
        of_part = of_part.assign(
            item_a=of_part["item_a"].map(names),
            item_b=of_part["item_b"].map(names),
            strength=-of_part["strength"],
        )
        preferences.append(of_part.drop(columns="winner"))
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    items = pd.concat(frames, ignore_index=True)
    return CaptionSet(items, ratings, pd.concat(preferences, ignore_index=True), card=card)


#: The raters whose rows papers print: recipe, training data, and the options that were given.
RATERS = {
    "UMIC": ("umic", "capeval1k", {"head": "rank"}),
    "UMIC_C": ("umic", "capeval1k", {"head": "itm"}),
    "Model Flickr8k": ("icr", "flickr8k_expert", {}),
    "Model FlickrG": ("icr", "flickrg", {}),
    "Model cocoG": ("icr", "cocog", {}),
    "Model IICR16k": ("icr", "iicr16k", {}),
    "Bilinear": ("qe", "caption_quality", {"epochs": 9}),
    "Bilinear + 20 object labels": ("qe", "caption_quality", {"labels": "f", "epochs": 9}),
    "Bilinear (Pretrained)": ("qe", "caption_quality", {"pretrain": "f", "labels": "f"}),
    "Bilinear (Pretrained), fine-tuned": (
        "qe",
        "caption_quality",
        {"pretrain": "f", "labels": "f", "epochs": 9},
    ),
}


@pytest.mark.parametrize(
    ("paper", "table"), tables_of("correlation", "histories", "extrinsic", "bounds")
)
def test_a_rater_of_ones_own_fills_its_row_and_no_other(paper: str, table: dict[str, Any]) -> None:
    descriptions = table.get("row_raters") or {}
    for row in descriptions:
        recipe, data, options = RATERS[row]
        rater = RaterCard(recipe, options, 0, (), "f", {"data": {data: {}}})
        fitting = [other for other, about in descriptions.items() if fits_row(rater, about)]
        assert fitting == [row]
