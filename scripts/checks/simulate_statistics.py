"""Do the tests of differences find nothing where nothing is? By simulation; `simulate_coverage.py` is of intervals.

Images differ in how good their captions are and in how kindly metrics see them; captions of systems
differ; three raters give each caption one of four levels. Of every simulated dataset the p-values are taken:

    python scripts/checks/simulate_statistics.py                 # some minutes
    python scripts/checks/simulate_statistics.py simulations=500 seed=1

`size` is the share of p ≤ 0.05 between two metrics that are equally good (5 % is right); ± is two standard errors of
the simulation. `explain` says where the size of a permutation test comes from.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import product

import numpy as np

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.statistics.bootstrap import StatisticsOptions, resample
from captau.benchmarks.statistics.panels import PreferencePanel, RatingPanel
from captau.benchmarks.statistics.significance import PreparedMetric, compare_metrics

COEFFICIENTS = ("tau_c", "tau_b", "spearman", "pearson")
CAPTIONS, RATERS = 4, 3
LEVELS = (-1.2, 0.0, 1.2)
#: Four systems: how much they differ in quality, and how much metrics lean to whole images and whole systems.
SYSTEMS = {
    "systems": (0.6, 0.0, 0.0),
    "leaning to images": (0.0, 0.8, 0.0),
    "leaning to systems": (0.0, 0.0, 0.5),
    "leaning systems": (0.0, 0.8, 0.5),
    "leaning unequal systems": (0.6, 0.8, 0.5),
}


def rated(
    rng: np.random.Generator,
    images: int,
    *,
    clustered: bool = True,
    systems: str = "",
) -> RatingPanel:
    """A dataset in which metrics `a` and `b` are equally good, rating by rating.

    Args:
        rng: whence it is drawn.
        images: how many.
        clustered: whether an image has several captions and effects of its own, and a caption
            several ratings; else every data point is independent.
        systems: a key of `SYSTEMS`; else captions have no systems, and metrics lean to whole images.
    """
    captions, raters = (CAPTIONS, RATERS) if clustered else (1, 1)
    image = np.repeat(np.arange(images), captions)
    system = np.tile(np.arange(captions), images)

    def effect(size: float) -> np.ndarray:
        return size * rng.normal(size=images)[image] if clustered else np.zeros(len(image))

    quality = effect(0.7) + rng.normal(size=len(image))
    difference, image_lean, system_lean = SYSTEMS.get(systems, (0.0, 0.8, 0.0))
    if difference:
        quality += difference * rng.normal(size=captions)[system]
    scores = {
        name: quality + effect(image_lean) + 1.2 * rng.normal(size=len(image))
        for name in ("a", "b")
    }
    if system_lean:
        for values in scores.values():
            values += system_lean * rng.normal(size=captions)[system]
    item = np.repeat(np.arange(len(image)), raters)
    opinion = quality[item] + 0.8 * rng.normal(size=len(item))
    return RatingPanel(
        image=image[item],
        n_images=images,
        item=item,
        system=system[item] if systems else None,
        drops_undefined=False,
        dimension="overall",
        coefficients=COEFFICIENTS,
        scores={name: values[item] for name, values in scores.items()},
        ratings=np.digitize(opinion, LEVELS).astype(float),
    )


def preferred(rng: np.random.Generator, images: int) -> PreferencePanel:
    """Five preference pairs an image in two dimensions; metrics `a` and `b` are equally good."""
    image = np.repeat(np.arange(images), 5)
    easy = 0.5 * rng.normal(size=images)[image]
    right = {name: (easy + rng.normal(size=len(image)) > -0.8).astype(float) for name in ("a", "b")}
    for values in right.values():
        values[rng.random(len(image)) < 0.1] = 0.5
    return PreferencePanel(
        image=image,
        n_images=images,
        item=np.arange(len(image)),
        system=None,
        drops_undefined=False,
        dimensions=("one", "two"),
        dimension=rng.integers(2, size=len(image)),
        outcomes=right,
        counted={metric: np.ones(len(image), dtype=bool) for metric in right},
        captions=np.arange(len(image)),
        mean_dimension="mean",
    )


#: Each test with data that it is made for: name, what it tests, kind of data, what it swaps.
TESTED = (
    ("bootstrap", "tau_c", "images", "both"),
    ("bootstrap", "pearson", "images", "both"),
    ("bootstrap", "accuracy", "preferences", "both"),
    ("permutation", "tau_c", "images", "image"),
    ("permutation", "pearson", "images", "image"),
    ("permutation", "accuracy", "preferences", "image"),
    ("permutation", "tau_c", "systems", "both"),
    ("permutation", "tau_c", "independent points", "item"),
    ("williams", "pearson", "independent points", "both"),
)
#: Data that a test is not made for, to see what it costs.
MISUSED = (
    ("williams", "pearson", "images", "both"),
    ("permutation", "tau_c", "images", "item"),
    ("permutation", "tau_c", "leaning systems", "both"),
    ("permutation", "tau_c", "leaning systems", "image"),
)


def size(
    case: tuple[str, str, str, str],
    simulations: int,
    images: int,
    options: StatisticsOptions,
    seed: int,
) -> float:
    """How often a test says at the 5 % level that two equally good metrics differ."""
    test, coefficient, data, swap = case
    chosen = replace(options, swap=swap)
    found = 0
    for number in range(simulations):
        rng = np.random.default_rng([seed, 3, number])
        if data == "preferences":
            panel = preferred(rng, images)
        else:
            whole = rated(
                rng,
                images if data != "independent points" else 3 * images,
                clustered=data != "independent points",
                systems=data if data in SYSTEMS else "",
            )
            panel = replace(whole, coefficients=(coefficient,))
        keep = np.ones(len(panel.item), dtype=bool)
        prepared = {name: PreparedMetric.prepare(panel, name, keep) for name in ("a", "b")}
        drawn = {}
        if test == "bootstrap":
            statistics = [one.statistic for one in prepared.values()]
            rows = resample(statistics, panel.n_images, chosen.replicates, number, workers=1)
            drawn = dict(zip(prepared, rows, strict=True))
        chosen = replace(chosen, seed=number)
        results = compare_metrics(panel, ["a", "b"], prepared, drawn, chosen, [test])
        found += results[-1].result.p_value <= 0.05
    return found / simulations


def explain(data: str, swap: str, simulations: int, images: int, seed: int) -> tuple[float, float]:
    """Compare the variance of a difference with the variance that a permutation test gives it.

    To first order, the difference of two metrics' Pearson's r is a sum over captions of
    c = (z_a - z_b) q - r (z_a² - z_b²) / 2, with z and q the standardised scores and ratings. Coins that
    swap images and systems multiply each c by a product of signs. These products are uncorrelated between
    captions, so that PERM-BOTH's variance is the sum of c², as if captions were independent. Swapped images
    keep what captions of an image share.

    Returns:
        The ratio of the variances, and the share of differences beyond 1.96 standard deviations of the test.
    """
    differences, variances = np.empty(simulations), np.empty(simulations)
    for number in range(simulations):
        panel = rated(np.random.default_rng([seed, 3, number]), images, systems=data)
        columns = (*panel.scores.values(), panel.ratings)
        a, b, rating = ((x - x.mean()) / x.std() for x in columns)
        r = (a + b) @ rating / (2 * len(rating))
        parts = (a - b) * rating - r * (a**2 - b**2) / 2
        sums = np.bincount(panel.item if swap == "both" else panel.image, parts)
        differences[number], variances[number] = sums.sum(), (sums**2).sum()
    found = float((np.abs(differences) > 1.96 * np.sqrt(variances)).mean())
    return float((differences**2).mean() / variances.mean()), found


def main(words: list[str]) -> None:
    given = {"simulations": 2000, "images": 100, "replicates": 1000, "seed": 0}
    for word in words:
        key, _, value = word.partition("=")
        if key not in given or not value.isdigit():
            raise SystemExit(f"{word}: one of {', '.join(given)}=N is expected")
        given[key] = int(value)
    simulations, images, seed = given["simulations"], given["images"], given["seed"]
    options = StatisticsOptions(replicates=given["replicates"])
    began = time.perf_counter()
    print(
        f"{simulations} simulated datasets of {images} images, {options.replicates} replicates, "
        f"seed {seed}\n"
    )

    def error(share: float) -> str:
        return f"{200 * np.sqrt(share * (1 - share) / simulations):.1f}"

    for title, cases in (("test", TESTED), ("misused test", MISUSED)):
        print(f"\n| {title} | of | data | swapped | size % | ± |\n|:--|:--|:--|:--|--:|--:|")
        for case in cases:
            share = size(case, simulations, images, options, seed)
            test, coefficient, data, swap = case
            swapped = swap if test == "permutation" else ""
            print(
                f"| {test} | {coefficient} | {data} | {swapped} | {100 * share:.1f} "
                f"| {error(share)} |",
                flush=True,
            )
    print("\n| data | swapped | variance ratio | finds % | ± |\n|:--|:--|--:|--:|--:|")
    for data, swap in product(SYSTEMS, ("both", "image")):
        ratio, share = explain(data, swap, simulations, images, seed)
        print(f"| {data} | {swap} | {ratio:.2f} | {100 * share:.1f} | {error(share)} |", flush=True)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    show_manual(__doc__)
    main(sys.argv[1:])
