"""Do the intervals of `captau calibrate` cover the truth? By simulation of judges whose errors are known.

    python scripts/checks/simulate_judges.py                  # both tables, in a few minutes
    python scripts/checks/simulate_judges.py draws=200
    python scripts/checks/simulate_judges.py table=intervals  # the second table alone

The first table is of judges. A judge says yes to good captions with probability TPR and no to bad ones with probability TNR. Images have three captions. With
`alike` of 0.5, half of the images lend all their captions one draw, both of being good and of the judge's answer, so that
captions of an image say less than as many of others. People judged `images` images; the judge also answered about as many
again that nobody judged, of which another share is bad.

Each row has the share of 95 % intervals over the draws that hold the true TPR, TNR, precision, and corrected share of bad
captions (Rogan and Gladen's, with Fieller's interval), and the share of draws in which the corrected share's interval says
nothing (0 to 1). The standard error of a share of 2,000 draws is half a point. Draws with fewer than ten good or bad captions,
which captau refuses, are drawn anew.

The second table says why shares have the interval that they have. It is of shares of which 1, 3, 10 or 30 errors are
expected, of 40, 100 or 600 images with 1, 3 or 8 captions each, of which all or three of ten are counted, and of none, half
or all of the images that lend their captions one draw. Four intervals are held against the truth: Wilson's and Clopper and
Pearson's, each for the effective number of captions of Korn and Graubard (1998), and for the same with its design effect
drawn to that of images of one mind. A row has the lowest and the mean share of draws that an interval holds, over all of these
with so many errors, and the mean width as a multiple of the first interval's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.stats import beta

from captau.benchmarks.cli.script_options import read_options
from captau.benchmarks.evaluation.judges.calibration import LEAST_OF_A_KIND
from captau.benchmarks.statistics.clustered_shares import ClusteredShare, correct_share
from captau.benchmarks.statistics.distributions import normal_quantile, student_quantile
from captau.benchmarks.statistics.preferences import wilson_interval

CAPTIONS = 3
LEVEL = 0.95


@dataclass(frozen=True)
class Judge:
    """A judge, and the captions that it meets.

    Attributes:
        tpr, tnr: how often it is right about good and about bad captions.
        share_bad: of the captions that people judged.
        unlabelled_bad: of those that nobody judged.
        n_images: of each of the two.
        alike: how often an image's captions share one draw.
    """

    tpr: float
    tnr: float
    share_bad: float
    unlabelled_bad: float
    n_images: int
    alike: float


@dataclass(frozen=True)
class Answers:
    """Captions with what people and the judge say; all have shape (n_items,)."""

    is_good: np.ndarray
    says_yes: np.ndarray
    image: np.ndarray


def draw_answers(judge: Judge, share_bad: float, rng: np.random.Generator) -> Answers:
    """Draw captions and a judge's answers."""
    shape = (judge.n_images, CAPTIONS)
    is_alike = rng.random((judge.n_images, 1)) < judge.alike

    def draw() -> np.ndarray:
        own = rng.random(shape)
        return np.where(is_alike, own[:, :1], own)

    is_good = draw() >= share_bad
    luck = draw()
    says_yes = np.where(is_good, luck < judge.tpr, luck >= judge.tnr)
    image = np.repeat(np.arange(judge.n_images), CAPTIONS)
    return Answers(is_good.ravel(), says_yes.ravel(), image)


def draw_labelled(judge: Judge, rng: np.random.Generator) -> Answers:
    """Draw captions that people judged, with enough good and bad ones."""
    while True:
        answers = draw_answers(judge, judge.share_bad, rng)
        n_good = int(answers.is_good.sum())
        if min(n_good, len(answers.is_good) - n_good) >= LEAST_OF_A_KIND:
            return answers


def measure(judge: Judge, rng: np.random.Generator) -> tuple[list[bool], bool]:
    """Tell which intervals of one draw hold the truth, and whether the corrected share's says nothing."""
    labelled = draw_labelled(judge, rng)
    new = draw_answers(judge, judge.unlabelled_bad, rng)

    def share(hits: np.ndarray, of: np.ndarray) -> ClusteredShare:
        return ClusteredShare.measure(hits[of], labelled.image[of])

    good, yes = labelled.is_good, labelled.says_yes
    kept_good = (1 - judge.share_bad) * judge.tpr
    precision = kept_good / (kept_good + judge.share_bad * (1 - judge.tnr))
    truths = (
        (share(yes, good), judge.tpr),
        (share(~yes, ~good), judge.tnr),
        (share(good, yes), precision),
    )
    holds: list[bool] = []
    for measured, truth in truths:
        low, high = measured.interval(LEVEL)
        holds.append(low <= truth <= high)

    said_bad = ClusteredShare.measure(~new.says_yes, new.image)
    corrected = correct_share(said_bad, share(~yes, ~good), share(~yes, good), LEVEL)
    holds.append(corrected.low <= judge.unlabelled_bad <= corrected.high)
    return holds, corrected.is_open


def judges() -> list[Judge]:
    """Return the judges of the table."""
    rows: list[Judge] = []
    for tpr, tnr in ((0.9, 0.8), (0.7, 0.7), (0.97, 0.95), (0.6, 0.55)):
        for share_bad, unlabelled_bad in ((0.4, 0.4), (0.3, 0.05), (0.15, 0.6)):
            base = Judge(tpr, tnr, share_bad, unlabelled_bad, 100, 0.0)
            rows += [base, replace(base, alike=0.5), replace(base, n_images=600, alike=0.5)]
    return rows


def print_judges(n_draws: int) -> None:
    """Print the table of judges."""
    heads = ["TPR", "TNR", "bad", "bad, unlabelled", "images", "alike"]
    heads += ["holds TPR", "TNR", "precision", "corrected", "says nothing"]
    print_row(heads)
    print_row(["--:"] * len(heads))
    for number, judge in enumerate(judges()):
        rng = np.random.default_rng([0, number])
        drawn = [measure(judge, rng) for _ in range(n_draws)]
        shares = 100 * np.mean([holds for holds, _ in drawn], axis=0)
        n_open = 100 * np.mean([is_open for _, is_open in drawn])
        cells = [f"{v:g}" for v in vars(judge).values()]
        print_row([*cells, *(f"{share:.1f}" for share in [*shares, n_open])])


def print_row(cells: list[str]) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


#: How many errors are expected, and the images, their captions, the share of them that is counted, and `alike`.
ERRORS = (1, 3, 10, 30)
SHAPES = tuple(product((40, 100, 600), (1, 3, 8), (1.0, 0.3), (0.0, 0.5, 1.0)))
INTERVALS = ("Wilson", "Clopper–Pearson", "Wilson, drawn", "Clopper–Pearson, drawn")


def draw_share(
    shape: tuple[int, int, float, float], error_rate: float, rng: np.random.Generator
) -> ClusteredShare:
    """Draw captions with that rate of errors, and return the share that is right; at least ten captions are counted."""
    n_images, n_captions, counted, alike = shape
    image = np.repeat(np.arange(n_images), n_captions).reshape(n_images, n_captions)
    while True:
        is_alike = rng.random((n_images, 1)) < alike
        luck, choice = rng.random((2, n_images, n_captions))
        is_right = np.where(is_alike, luck[:, :1], luck) >= error_rate
        is_counted = np.where(is_alike, choice[:, :1], choice) < counted
        if is_counted.sum() >= LEAST_OF_A_KIND:
            return ClusteredShare.measure(is_right[is_counted], image[is_counted])


def clopper_pearson_interval(share: float, n: float, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a share (1934) of n captions, which need not be a whole number."""
    n_hits = share * n
    n_misses = n - n_hits
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, n_hits, n_misses + 1)) if share > 0 else 0.0
    high = float(beta.ppf(1 - tail, n_hits + 1, n_misses)) if share < 1 else 1.0
    return low, high


def intervals_of(share: ClusteredShare) -> list[tuple[float, float]]:
    """Return the four `INTERVALS` of a share."""
    upper = (1 + LEVEL) / 2
    ratio = normal_quantile(upper) / student_quantile(upper, share.degrees_of_freedom())
    intervals: list[tuple[float, float]] = []
    for n in (share.effective_n, share.cautious_n):
        intervals.append(wilson_interval(share.value, n * ratio**2, LEVEL))
        intervals.append(clopper_pearson_interval(share.value, n * ratio**2, LEVEL))
    return intervals


def print_intervals(n_draws: int) -> None:
    """Print the table of intervals."""
    heads = ["errors", "shares"]
    heads += [f"{name}: {what}" for name in INTERVALS for what in ("lowest", "mean", "width")]
    print_row(heads)
    print_row(["--:"] * len(heads))
    for n_errors in ERRORS:
        holds: list[np.ndarray] = []
        widths: list[np.ndarray] = []
        for number, shape in enumerate(SHAPES):
            n_images, n_captions, counted, alike = shape
            # An image that lends all its captions one draw counts with all of them, or with none.
            error_rate = n_errors / (n_images * n_captions * counted)
            has_draws_of_one_kind = n_captions == 1 and alike > 0
            if error_rate > 0.3 or has_draws_of_one_kind:
                continue

            rng = np.random.default_rng([1, n_errors, number])
            ends: list[list[tuple[float, float]]] = []
            for _ in range(n_draws):
                ends.append(intervals_of(draw_share(shape, error_rate, rng)))
            low, high = np.moveaxis(np.array(ends), 2, 0)
            truth = 1 - error_rate
            holds.append(100 * np.mean((low <= truth) & (truth <= high), axis=0))
            widths.append(np.mean(high - low, axis=0))

        lowest = np.min(holds, axis=0)
        mean = np.mean(holds, axis=0)
        width = np.mean(np.array(widths) / np.array(widths)[:, :1], axis=0)
        cells = [f"{n_errors}", f"{len(holds)}"]
        for least, usual, times in zip(lowest, mean, width, strict=True):
            cells += [f"{least:.1f}", f"{usual:.1f}", f"{times:.2f}"]
        print_row(cells)


def main(n_draws: int, table: str) -> None:
    """Print both tables, or one of them."""
    if table in ("judges", "all"):
        print_judges(n_draws)
    if table in ("intervals", "all"):
        print_intervals(n_draws)


if __name__ == "__main__":
    typed = read_options(__doc__, ("draws", "table"))
    main(int(typed.get("draws", 2000)), typed.get("table", "all"))
