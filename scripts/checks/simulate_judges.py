"""Do the intervals of `captau calibrate` cover the truth? By simulation of judges whose errors are known.

    python scripts/checks/simulate_judges.py                  # the table, in a minute or two
    python scripts/checks/simulate_judges.py draws=200

A judge says yes to good captions with probability TPR and no to bad ones with probability TNR. Images have three captions. With
`alike` of 0.5, half of the images lend all their captions one draw, both of being good and of the judge's answer, so that
captions of an image say less than as many of others. People judged `images` images; the judge also answered about as many
again that nobody judged, of which another share is bad.

Each row has the share of 95 % intervals over the draws that hold the true TPR, TNR, precision, and corrected share of bad
captions (Rogan and Gladen's, with Fieller's interval), and the share of draws in which the corrected share's interval says
nothing (0 to 1). The standard error of a share of 2,000 draws is half a point. Draws with fewer than ten good or bad captions,
which captau refuses, are drawn anew.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np

from captau.benchmarks.evaluation.judges.calibration import LEAST_OF_A_KIND
from captau.benchmarks.statistics.clustered_shares import ClusteredShare, correct_share

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


def main(n_draws: int) -> None:
    """Print the table."""
    heads = ["TPR", "TNR", "bad", "bad, unlabelled", "images", "alike"]
    heads += ["holds TPR", "TNR", "precision", "corrected", "says nothing"]
    print(f"| {' | '.join(heads)} |")
    print(f"|{' --: |' * len(heads)}")
    for number, judge in enumerate(judges()):
        rng = np.random.default_rng([0, number])
        drawn = [measure(judge, rng) for _ in range(n_draws)]
        shares = 100 * np.mean([holds for holds, _ in drawn], axis=0)
        n_open = 100 * np.mean([is_open for _, is_open in drawn])
        cells = [f"{v:g}" for v in vars(judge).values()]
        cells += [f"{share:.1f}" for share in [*shares, n_open]]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    typed = dict(word.split("=") for word in sys.argv[1:])
    main(int(typed.get("draws", 2000)))
