"""Do the intervals of `captau estimate` cover the truth, and what are ratings worth with a metric's help? By simulation.

    CAPTAU_DATA=DATA python scripts/checks/simulate_estimates.py                     # both tables, in a quarter of an hour
    CAPTAU_DATA=DATA python scripts/checks/simulate_estimates.py draws=100 seeds=0   # in a minute

The ratings are real: of every dataset all captions are rated, so that the mean of all ratings is known. A draw forgets all
but 30, 100 or 300 of them, taken at random, and estimates that mean from these and from the scores of all captions by
BLEU-4, ROUGE-L, METEOR and CIDEr. Of pairs the rating is the share of people who prefer the first caption, and the score is
the difference of both captions' scores. 300 are drawn only of sets of 3,000 and more.

The first table has the share of 95 % intervals that hold the truth: of the ratings alone (classical), with each metric and
with all of them joined, and of all joined with `stratified` and `guided` choices of what is rated. Its standard error is
that of a share of so many draws. The second table has the number of ratings without metrics that would give an interval
as narrow as the ratings with the metric's help (the median over draws), and what the spread of the estimates over draws
says of the same: the ratio of the mean squared errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import captau
from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.statistics.prediction_powered import RatedSample, Scores, estimate_mean
from captau.benchmarks.statistics.rating_plan import allocate, draw, normal_scores, stratify

METRICS = ("bleu_4", "rouge_l", "meteor", "cider")
#: Datasets with the dimension that is rated; of pairs `all`.
DATASETS = {
    "thumb": "total",
    "cxc_sits": "intrasim",
    "nebula": "overall",
    "composite": "overall",
    "pascal50s_votes": "all",
}
SIZES = (30, 100, 300)
#: The least captions of which the greatest number is drawn.
CAPTIONS_OF_MOST = 3000
LEVEL = 0.95
JOINT = "all"
CHOICES = ("stratified", "guided")


@dataclass(frozen=True)
class Population:
    """Captions or pairs that are all rated.

    Attributes:
        scores: shape (n_captions, n_metrics).
        ratings: shape (n_captions,).
        images: the number of each one's image, shape (n_captions,).
    """

    scores: np.ndarray
    ratings: np.ndarray
    images: np.ndarray


def load_population(name: str, dimension: str) -> Population:
    """Score a dataset, and take each caption's mean rating or each pair's share of votes."""
    results = captau.bench(name, list(METRICS), statistics={"interval": "none"})
    scores = results.scores.pivot(index="item_id", columns="metric", values="score")[list(METRICS)]
    judged: Any = captau.load(name)
    image_of_item = judged.items.set_index("item_id")["image_id"]

    if len(judged.preferences):
        votes = judged.preferences
        votes = votes.assign(share=0.5 + np.sign(votes["strength"]) / 2)
        pairs = votes.groupby("pair_id", sort=False)
        first = pairs["item_a"].first()
        second = pairs["item_b"].first()
        differences = scores.loc[first].to_numpy() - scores.loc[second].to_numpy()
        images = pd.factorize(image_of_item.loc[first])[0]
        return Population(differences, pairs["share"].mean().to_numpy(), images)

    ratings = judged.ratings[judged.ratings["dimension"] == dimension]
    means = ratings.groupby("item_id", sort=False)["value"].mean()
    means = means[means.index.isin(scores.index)]
    images = pd.factorize(image_of_item.loc[means.index])[0]
    return Population(scores.loc[means.index].to_numpy(), means.to_numpy(), images)


def list_columns() -> dict[str, list[int]]:
    """Return the metrics' columns by what they are called: each alone, and all."""
    columns = {metric: [i] for i, metric in enumerate(METRICS)}
    return {**columns, JOINT: list(range(len(METRICS)))}


class Tally:
    """What draws gave: how often an interval covered, what ratings were worth, and the squared errors."""

    def __init__(self) -> None:
        self.covered: list[bool] = []
        self.worth: list[float] = []
        self.squares: list[float] = []

    def add(self, value: float, interval: tuple[float, float], worth: float, truth: float) -> None:
        """Add a draw."""
        self.covered.append(interval[0] <= truth <= interval[1])
        self.worth.append(worth)
        self.squares.append((value - truth) ** 2)


def simulate(population: Population, n_rated: int, n_draws: int, seed: int) -> dict[str, Tally]:
    """Draw ratings again and again, and estimate the mean of all each time."""
    truth = float(population.ratings.mean())
    n_captions = len(population.ratings)
    scores_by_name = {
        name: Scores.of(population.scores[:, columns]) for name, columns in list_columns().items()
    }
    tallies = {name: Tally() for name in ("classical", *scores_by_name, *CHOICES)}
    strata_by_choice = {
        choice: make_strata(population.scores, choice, n_rated) for choice in CHOICES
    }
    rng = np.random.default_rng([seed, n_rated])

    for number in range(n_draws):
        rated = rng.choice(n_captions, n_rated, replace=False)
        mean = None
        for name, scores in scores_by_name.items():
            sample = RatedSample.draw(scores, population.images, rated, population.ratings[rated])
            mean = estimate_mean(sample, number)
            interval = mean.powered.interval(LEVEL, "captions")
            tallies[name].add(mean.powered.value, interval, mean.effective_n, truth)
        assert mean is not None
        classical = mean.classical
        interval = classical.interval(LEVEL, "captions")
        tallies["classical"].add(classical.value, interval, n_rated, truth)

        for choice, (strata, counts) in strata_by_choice.items():
            is_rated = np.zeros(n_captions, dtype=bool)
            chosen_captions = draw(strata, counts, is_rated, int(rng.integers(2**31)))
            sample = RatedSample(
                scores=scores_by_name[JOINT],
                images=population.images,
                strata=strata,
                caption=chosen_captions,
                rater=np.zeros(n_rated, dtype=np.int64),
                values=population.ratings[chosen_captions],
            )
            powered = estimate_mean(sample, number).powered
            interval = powered.interval(LEVEL, "captions")
            tallies[choice].add(powered.value, interval, np.nan, truth)

    return tallies


def make_strata(scores: np.ndarray, choice: str, n_rated: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the strata of a choice, as `captau estimate plan=true` makes them, and the captions rated in each."""
    normal = normal_scores(scores)
    disagreement = normal.std(axis=1)
    strata = stratify(disagreement if choice == "guided" else normal.mean(axis=1), n_rated)
    errors = np.ones(int(strata.max()) + 1)
    if choice == "guided":
        errors = np.bincount(strata, weights=disagreement) / np.bincount(strata)
    return strata, allocate(strata, errors, n_rated, np.zeros(len(errors), dtype=np.int64))


def read_words(words: Sequence[str]) -> dict[str, list[str]]:
    """Read options such as `draws=100`."""
    options = {"draws": ["2000"], "seeds": ["0", "1"], "datasets": list(DATASETS)}
    options["sizes"] = [str(size) for size in SIZES]
    for word in words:
        key, _, text = word.partition("=")
        if key not in options or not text:
            raise SystemExit(f"{word}: one of {', '.join(options)}=A,B is expected")
        options[key] = text.split(",")
    return options


def main(words: list[str]) -> None:
    options = read_words(words)
    n_draws = int(options["draws"][0])
    names = ["classical", *METRICS, JOINT, *CHOICES]
    error = 100 * np.sqrt(0.05 * 0.95 / n_draws)
    print(f"{n_draws} draws; the standard error of coverage is {error:.1f}\n")
    head = "| dataset | captions | rated | seed |"
    print(f"{head} {' | '.join(names)} |\n|:--|--:|--:|--:|{'--:|' * len(names)}", flush=True)

    gains: list[str] = []
    least = 100.0
    for dataset in options["datasets"]:
        population = load_population(dataset, DATASETS[dataset])
        n_captions = len(population.ratings)
        for n_rated in map(int, options["sizes"]):
            if n_rated == SIZES[-1] and n_captions < CAPTIONS_OF_MOST:
                continue
            for seed in map(int, options["seeds"]):
                tallies = simulate(population, n_rated, n_draws, seed)
                covered = {name: 100 * float(np.mean(tallies[name].covered)) for name in names}
                least = min(least, covered[JOINT])
                cells = " | ".join(f"{covered[name]:.1f}" for name in names)
                print(f"| {dataset} | {n_captions} | {n_rated} | {seed} | {cells} |", flush=True)
                gains.append(_gain_row(dataset, n_rated, seed, tallies))

    print(f"\nthe least coverage with all metrics: {least:.1f} %\n")
    print(f"| dataset | rated | seed | {' | '.join([*METRICS, JOINT])} |")
    print(f"|:--|--:|--:|{'--:|' * (len(METRICS) + 1)}")
    print("\n".join(gains))


def _gain_row(dataset: str, n_rated: int, seed: int, tallies: dict[str, Tally]) -> str:
    squares = float(np.mean(tallies["classical"].squares))
    cells: list[str] = []
    for name in (*METRICS, JOINT):
        by_spread = n_rated * squares / float(np.mean(tallies[name].squares))
        cells.append(f"{median(tallies[name].worth):.0f} ({by_spread:.0f})")
    return f"| {dataset} | {n_rated} | {seed} | {' | '.join(cells)} |"


if __name__ == "__main__":
    show_manual(__doc__)
    main(sys.argv[1:])
