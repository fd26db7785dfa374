"""Kinds of correlation: over all data points, averaged over images or systems, or of systems' means.

As in mt-metrics-eval: `pooled` is its average_by=none, `by_image` item, `by_system` sys, and `system`
its system level. What is undefined in a group is left out of the average and counted, never 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .coefficients import Coefficient, Floats, correlate, correlate_acc_eq, undefined_reason
from .pair_counts import count_pairs

LEVELS = ("pooled", "by_image", "by_system", "system")
#: What each level groups data points by.
_KEYS = {"by_image": "image_id", "by_system": "system", "system": "system"}
#: Defined in a group whose scores or ratings are all equal, too: ties count for what they are.
TIE_COEFFICIENTS = ("pairwise_accuracy", "acc_eq")
#: Coefficients of systems alone.
SYSTEM_COEFFICIENTS = ("soft_pairwise_accuracy",)

#: mt-metrics-eval's (pce.py); the same draws, so that its results can be compared with.
PERMUTATIONS, SEED = 1000, 4


def level_column(level: str) -> str | None:
    """The column by which a level groups data points; None where it does not."""
    return _KEYS.get(level)


def correlate_at_level(
    level: str, scores: Floats, ratings: Floats, keys: pd.DataFrame, coefficient: str
) -> Coefficient:
    """One coefficient at a level; see `correlation.correlate` for the coefficients.

    Args:
        level: one of `LEVELS`.
        scores, ratings: shape (n_points,), paired.
        keys: columns `image_id` and `system` of the points.
        coefficient: what `correlate` takes, and `soft_pairwise_accuracy` of systems.

    Returns:
        the coefficient; of `by_image` and `by_system` its mean over the groups in which it is
        defined, without a p-value; the note counts groups, and those in which it is not defined.
        NaN with a reason where a score is NaN, all scores or all ratings are equal, or no group has
        a value.
    """
    column = level_column(level)
    if column is None:
        return correlate(scores, ratings, coefficient)
    if reason := undefined_reason(scores, ratings):
        return Coefficient.undefined(reason)
    groups = group_indices(keys[column])
    if level != "system":
        return _averaged(scores, ratings, groups, coefficient, column.removesuffix("_id"))
    if len(groups) < 2:
        return Coefficient.undefined("one system alone; two are needed")
    if np.isinf(scores).any():
        return Coefficient.undefined("an infinite score, which has no mean")
    if coefficient == "soft_pairwise_accuracy":
        return soft_pairwise_accuracy(scores, ratings, keys)
    found = correlate(_means(scores, groups), _means(ratings, groups), coefficient)
    note = found.note.replace("all scores", "all systems' mean scores")
    note = note.replace("all ratings", "all systems' mean ratings")
    return replace(found, note="; ".join(n for n in (note, f"{len(groups)} systems") if n))


def soft_pairwise_accuracy(scores: Floats, ratings: Floats, keys: pd.DataFrame) -> Coefficient:
    """How alike scores and ratings are in how sure they are which of two systems is better.

    One less the mean, over pairs of systems, of |p of ratings - p of scores|, where p is the paired
    permutation test's of "the first is better" (Thompson et al. 2024, equation 3). Draws as in
    mt-metrics-eval; differences that are equal count as such, which its 4-byte sums may miss.

    Args:
        scores, ratings: shape (n_points,), paired, finite.
        keys: columns `image_id` and `system`; an image's points of one system are averaged, and
            images that lack a system are left out and counted.
    """
    cells = pd.DataFrame(
        {"image": keys["image_id"].to_numpy(), "system": keys["system"].to_numpy()}
    ).assign(score=scores, rating=ratings)
    n_images = cells["image"].nunique()
    means = cells.groupby(["image", "system"], sort=False)[["score", "rating"]].mean().unstack()
    # In the order in which they come, which is that of the draws.
    images, systems = cells["image"].unique(), cells["system"].unique()
    means = means.reindex(images).dropna()
    if len(means) < 2:
        return Coefficient.undefined(f"{len(means)} images have a caption of every system")
    p_values = _better({what: means[what][systems].to_numpy() for what in ("score", "rating")})
    value = 1 - float(np.abs(p_values["score"] - p_values["rating"]).mean())
    note = f"{len(systems)} systems, {PERMUTATIONS:,} permutations"
    if left_out := n_images - len(means):
        note += f"; {left_out} of {n_images} images left out, which lack a system"
    return Coefficient(value, float("nan"), note)


def _better(cells: Mapping[str, Floats]) -> dict[str, Floats]:
    """Of each pair of systems, the p-value of "the first is better", by what is compared.

    Args:
        cells: of equal shape (n_images, n_systems).
    """
    rng = np.random.default_rng(SEED)
    n_images, n_systems = next(iter(cells.values())).shape
    first, second = np.triu_indices(n_systems, 1)
    reached = {what: np.zeros(len(first)) for what in cells}
    for _ in range(PERMUTATIONS // 100):  # 100 at a time: the draws are as those of all at once
        signs = 2 * np.rint(rng.random((100, n_images), dtype=np.float32)).astype(float) - 1
        for what, table in cells.items():
            sums, drawn = table.sum(axis=0), signs @ table
            least = sums[first] - sums[second] - 1e-9 * np.abs(table).sum() / n_systems
            reached[what] += (drawn[:, first] - drawn[:, second] >= least).sum(axis=0)
    return {what: count / PERMUTATIONS for what, count in reached.items()}


def _means(values: Floats, groups: Sequence[NDArray[np.intp]]) -> Floats:
    """Each group's mean, rounded so that equal means are tied, whatever the order of their parts."""
    size = float(np.abs(values).max()) or 1.0  # by which numbers are shrunk, so that none overflows
    return np.round([math.fsum(values[g] / size) / len(g) for g in groups], 12) * size


def group_indices(keys: pd.Series) -> list[NDArray[np.intp]]:
    """The places of each key's points."""
    codes, unique = pd.factorize(keys)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, len(unique))))


def _averaged(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficient: str,
    what: str,
) -> Coefficient:
    """The mean of a coefficient over the groups in which it is defined."""
    if coefficient in TIE_COEFFICIENTS:
        used = [g for g in groups if len(g) > 1]
        if not used:
            return Coefficient.undefined(f"no {what} has two data points")
        parts = [(scores[g], ratings[g]) for g in used]
        found = _accuracies(parts) if coefficient != "acc_eq" else correlate_acc_eq(parts)
        reasons = Counter({"fewer than two data points": len(groups) - len(used)})
    else:
        each = [correlate(scores[g], ratings[g], coefficient) for g in groups]
        values = np.array([a.value for a in each])
        reasons = Counter(_reason(a) for a in each if np.isnan(a.value))
        if np.isnan(values).all():
            return Coefficient.undefined(f"in all {len(groups)} {what}s: {_list(reasons)}")
        found = Coefficient(float(np.nanmean(values)), float("nan"))
    left_out = sum(reasons.values())
    told = [f"mean over {len(groups) - left_out} {what}s"]
    if left_out:
        told.append(f"undefined in {left_out}: {_list(reasons)}")
    return replace(found, note="; ".join([n for n in (found.note,) if n] + told))


def _accuracies(parts: Sequence[tuple[Floats, Floats]]) -> Coefficient:
    return Coefficient(float(np.mean([count_pairs(x, y).accuracy for x, y in parts])), float("nan"))


def _reason(found: Coefficient) -> str:
    reason = found.note.removeprefix("undefined: ")
    return "fewer than two data points" if "two are needed" in reason else reason


def _list(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} ({n})" for reason, n in reasons.most_common() if n)


def remarks(frame: pd.DataFrame, labels: Mapping[str, str], level: str) -> list[str]:
    """What the notes of defined coefficients say of groups, systems and thresholds, each once.

    Args:
        frame: rows of `correlations.csv`.
        labels: what tables call each metric.
        level: at which they were taken.
    """
    told: dict[tuple[str, str, str], list[str]] = {}
    for row in frame.to_dict("records"):
        of_kind = row["coefficient"] == "acc_eq" or level != "pooled"
        if not of_kind or row["coefficient"] == "accuracy" or row["note"].startswith("undefined"):
            continue
        if row["note"]:
            key = (row["dimension"], row["coefficient"], row["note"])
            told.setdefault(key, []).append(labels[row["metric"]])
    everybody = frame["metric"].nunique()
    by_text: dict[tuple[str, str], list[str]] = {}
    for (dimension, coefficient, note), who in told.items():
        of = "" if len(who) == everybody else ", ".join(who)
        by_text.setdefault((of, note), []).append(f"{dimension} {coefficient}")
    return [
        f"{of + ', ' if of else ''}{', '.join(which)}: {note}."
        for (of, note), which in by_text.items()
    ]
