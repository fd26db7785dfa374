"""Do intervals cover the truth, and do tests find nothing where nothing is, with few images? By simulation.

    python scripts/checks/simulate_coverage.py                          # an hour
    python scripts/checks/simulate_coverage.py images=10 simulations=200   # seconds

A dataset of every size in `images` is drawn `simulations` times from each of two populations. In `even` images differ
in how good their captions are by a normal distribution; in `skewed` the captions of most images are good, a
long tail of images is hard, and scores are skewed as CIDEr's are. `raters` people give each caption one of four levels.
Their single ratings and their means are correlated with two metrics that are equally good. Of preferences there
are five pairs of captions an image, or one.

Every row is a coefficient of a population. `covers` is the share of 95 % intervals that hold the coefficient of a sample
of 60,000 images, of each kind of interval; `finds` is the share of p ≤ 0.05 between the two metrics, by the test of
percentile and of expanded intervals. The error is the standard error of the simulation at 95 %.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.statistics.bootstrap import (
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
    student_p_value,
)
from captau.benchmarks.statistics.panels import Panel, PreferencePanel, RatingPanel
from captau.benchmarks.statistics.significance import PreparedMetric

POPULATIONS = ("even", "skewed")
KINDS = ("percentile", "bca", "expanded")
#: The kinds whose bootstrap test differs.
TESTED_KINDS = ("percentile", "expanded")
METRICS = ("a", "b")
LEVELS = (-1.2, 0.0, 1.2)
TRUTH_IMAGES = 60_000


@dataclass(frozen=True)
class Design:
    """The options of the command.

    Attributes:
        images: the numbers of images.
        captions: of an image.
        raters: of a caption.
        coefficients: of ratings.
        replicates, simulations, seed: of each number of images.
    """

    images: tuple[int, ...] = (10, 20, 50, 100)
    captions: int = 4
    raters: int = 3
    coefficients: tuple[str, ...] = ("tau_c", "tau_b", "spearman", "pearson")
    replicates: int = 1000
    simulations: int = 1000
    seed: int = 0

    @classmethod
    def parse(cls, words: Sequence[str]) -> Design:
        """Read options such as `images=10,20`."""
        values: dict[str, int | tuple[int, ...] | tuple[str, ...]] = {}
        for word in words:
            key, _, text = word.partition("=")
            if key == "coefficients":
                values[key] = tuple(text.split(","))
                continue
            if key not in cls.__dataclass_fields__ or not text.replace(",", "").isdigit():
                raise SystemExit(
                    f"{word}: one of {', '.join(cls.__dataclass_fields__)}=N is expected"
                )
            values[key] = tuple(map(int, text.split(","))) if key == "images" else int(text)
        return cls(**values)  # pyright: ignore[reportArgumentType]


def draw_quality(
    rng: np.random.Generator, population: str, n_images: int, n_each: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw each caption's image and quality."""
    image = np.repeat(np.arange(n_images), n_each)
    noise = rng.normal(size=len(image))
    if population == "even":
        return image, 0.7 * rng.normal(size=n_images)[image] + noise
    hardness = rng.exponential(size=n_images)[image]
    return image, 1.2 - hardness + (0.5 + 0.3 * hardness) * noise


def draw_ratings(
    rng: np.random.Generator, population: str, n_images: int, design: Design, *, means: bool
) -> RatingPanel:
    """Draw a dataset of ratings, each rating a data point or the mean of each caption."""
    image, quality = draw_quality(rng, population, n_images, design.captions)
    scores = {
        metric: quality + 0.8 * rng.normal(size=n_images)[image] + 1.2 * rng.normal(size=len(image))
        for metric in METRICS
    }
    if population == "skewed":
        scores = {metric: np.exp(0.4 * values) for metric, values in scores.items()}
    opinions = quality[:, None] + 0.8 * rng.normal(size=(len(image), design.raters))
    ratings = np.digitize(opinions, LEVELS).astype(float)
    points = ratings.mean(axis=1, keepdims=True) if means else ratings
    item = np.repeat(np.arange(len(image)), points.shape[1])
    return RatingPanel(
        image=image[item],
        n_images=n_images,
        item=item,
        system=None,
        drops_undefined=False,
        dimension="overall",
        coefficients=design.coefficients,
        scores={metric: values[item] for metric, values in scores.items()},
        ratings=points.ravel(),
    )


def draw_preferences(
    rng: np.random.Generator, population: str, n_images: int, pairs: int
) -> PreferencePanel:
    """Draw a dataset of so many pairs of captions an image, which metrics order rightly more often than not."""
    image, clarity = draw_quality(rng, population, n_images, pairs)
    outcomes = {
        metric: (clarity + 1.5 * rng.normal(size=len(image)) > -1.0).astype(float)
        for metric in METRICS
    }
    for values in outcomes.values():
        values[rng.random(len(image)) < 0.05] = 0.5
    return PreferencePanel(
        image=image,
        n_images=n_images,
        item=np.arange(len(image)),
        system=None,
        drops_undefined=False,
        dimensions=("all",),
        dimension=np.zeros(len(image), dtype=np.int64),
        outcomes=outcomes,
        counted={metric: np.ones(len(image), dtype=bool) for metric in METRICS},
        captions=np.arange(len(image)),
        mean_dimension="mean",
    )


#: From a generator and a number of images to a dataset.
Draw = Callable[[np.random.Generator, int], Panel]


def list_datasets(population: str, design: Design) -> dict[str, Draw]:
    """Return the kinds of datasets of a population by their name."""
    return {
        "ratings": lambda rng, n: draw_ratings(rng, population, n, design, means=False),
        "means": lambda rng, n: draw_ratings(rng, population, n, design, means=True),
        "5 pairs": lambda rng, n: draw_preferences(rng, population, n, 5),
        "1 pair": lambda rng, n: draw_preferences(rng, population, n, 1),
    }


def prepare(panel: Panel) -> list[PreparedMetric]:
    """Prepare both metrics on all points of a dataset."""
    return [PreparedMetric.prepare(panel, m, np.ones(len(panel.item), dtype=bool)) for m in METRICS]


def simulate(draw: Draw, n_images: int, design: Design) -> dict[str, Counter[str]]:
    """Count by coefficient how often each kind of interval covers, and each test finds a difference.

    Args:
        draw: of a dataset.
        n_images: its size.
        design: the numbers of simulations and replicates.

    Returns:
        By coefficient: `defined`, and `covers KIND` and `finds KIND`.
    """
    large = draw(np.random.default_rng([design.seed, 1]), TRUTH_IMAGES)
    truths = prepare(large)[0].values
    counts: dict[str, Counter[str]] = {coefficient: Counter() for _, coefficient in large.keys}
    options = {
        kind: StatisticsOptions(interval=kind, replicates=design.replicates) for kind in KINDS
    }
    for number in range(design.simulations):
        panel = draw(np.random.default_rng([design.seed, 2, n_images, number]), n_images)
        metrics = prepare(panel)
        statistics = [metric.statistic for metric in metrics]
        samples = resample(statistics, n_images, design.replicates, number, workers=1)
        left_out = jackknife(statistics[0], n_images, workers=1)
        # Of the rows of accuracy, which are alike, the last one counts.
        row_of_coefficient = {coefficient: row for row, (_, coefficient) in enumerate(panel.keys)}
        for coefficient, row in row_of_coefficient.items():
            value = float(metrics[0].values[row])
            if np.isnan(value) or np.isnan(metrics[1].values[row]):
                continue
            count = counts[coefficient]
            count["defined"] += 1
            for kind in KINDS:
                interval = resampling_interval(
                    value, samples[0][row], n_images, options[kind], left_out[row]
                )
                count[f"covers {kind}"] += interval.low <= truths[row] <= interval.high
            differences = samples[0][row] - samples[1][row]
            for kind in TESTED_KINDS:
                difference = float(metrics[0].values[row] - metrics[1].values[row])
                p_value = student_p_value(difference, differences, n_images, options[kind])
                count[f"finds {kind}"] += p_value <= 0.05
    return counts


def main(words: list[str]) -> None:
    design = Design.parse(words)
    print(
        f"{design.simulations} datasets of each kind, {design.captions} captions an image, "
        f"{design.raters} raters, {design.replicates} replicates, seed {design.seed}; the error of coverage is "
        f"{100 * np.sqrt(0.05 * 0.95 / design.simulations):.1f}\n"
    )
    columns = [f"covers, {kind}" for kind in KINDS] + [f"finds, {kind}" for kind in TESTED_KINDS]
    print(f"| images | population | data | of | {' | '.join(columns)} |")
    print("|--:|:--|:--|:--|" + "--:|" * len(columns))
    for n_images in design.images:
        for population in POPULATIONS:
            for name, draw in list_datasets(population, design).items():
                for coefficient, count in simulate(draw, n_images, design).items():
                    keys = [f"covers {kind}" for kind in KINDS]
                    keys += [f"finds {kind}" for kind in TESTED_KINDS]
                    cells = [f"{100 * count[key] / count['defined']:.1f}" for key in keys]
                    print(
                        f"| {n_images} | {population} | {name} | {coefficient} | {' | '.join(cells)} |",
                        flush=True,
                    )


if __name__ == "__main__":
    show_manual(__doc__)
    main(sys.argv[1:])
