"""A judge's answers beyond the captions that people judged: to the same captions again, and to captions that nobody judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ...statistics.clustered_shares import ClusteredShare, correct_share
from ...statistics.coefficients.coefficient import find_coefficient
from ...statistics.weighted_pairs import Floats, Ints, Mask
from .calibration import Calibration, CalibrationChoices, Measure, share_measure


def measure_repeats(
    repeats: Sequence[Floats], image: Ints, threshold: float, choices: CalibrationChoices
) -> list[Measure]:
    """Measure how often a judge gives a caption the same answer again, the mean over every two of its repeats.

    Args:
        repeats: scores of the same captions, more is better, shape (n_items,) each; two at least. Captions without a
            finite score in one of them are left out.
        image: the number of each caption's image, shape (n_items,).
        threshold: captions of this score or more get a yes.
        choices: the level of the interval.
    """
    scores = np.stack(repeats)
    is_defined: Mask = np.isfinite(scores.sum(axis=0))
    n_items = int(is_defined.sum())
    if not n_items or math.isnan(threshold):
        note = "undefined: no caption has an answer in every repeat"
        return [Measure(name, math.nan, note=note) for name in ("self_agreement", "self_kappa")]

    answers = (scores[:, is_defined] >= threshold).astype(np.float64)
    coefficient: Any = find_coefficient("kappa")
    agreements: list[Mask] = []
    kappas: list[float] = []
    for first, second in combinations(answers, 2):
        agreements.append(first == second)
        kappas.append(coefficient.value(first, second).value)
    share = ClusteredShare.measure(np.mean(agreements, axis=0), image[is_defined])
    note = f"{len(repeats)} repeats"
    if n_lost := len(is_defined) - n_items:
        note += f"; {n_lost:,} captions left out without an answer in every repeat"

    kappa = float(np.mean(kappas))
    kappa_note = note if not math.isnan(kappa) else "undefined: a repeat has a single answer"
    measured = replace(share_measure("self_agreement", share, choices), note=note)
    return [measured, Measure("self_kappa", kappa, n_items=n_items, note=kappa_note)]


def measure_unlabelled(
    scores: Floats, image: Ints, calibration: Calibration, choices: CalibrationChoices, name: str
) -> list[Measure]:
    """Measure the share of bad captions among some that nobody judged, as the metric says and corrected for its errors.

    Args:
        scores: more is better, shape (n_items,).
        image: the number of each caption's image, shape (n_items,).
        calibration: the metric's, of captions that people judged.
        choices: the level of intervals.
        name: of the captions, for the notes.
    """
    names = ("said_bad", "corrected_bad")
    reason = "the metric has no threshold" if math.isnan(calibration.threshold) else ""
    if n_undefined := int((~np.isfinite(scores)).sum()):
        reason = f"{n_undefined} of {len(scores)} captions of {name} have no finite score"
    if reason or calibration.bad_said_bad is None or calibration.good_said_bad is None:
        note = f"undefined: {reason}"
        return [Measure(m, math.nan, n_items=len(scores), note=note) for m in names]

    said_bad = ClusteredShare.measure(scores < calibration.threshold, image)
    measured = replace(share_measure("said_bad", said_bad, choices), note=f"captions of {name}")
    corrected = correct_share(
        said_bad, calibration.bad_said_bad, calibration.good_said_bad, choices.statistics.level
    )
    notes = [f"captions of {name}"]
    if math.isnan(corrected.value):
        notes.insert(0, "undefined: bad captions get a yes as often as good ones")
    if corrected.is_clipped:
        notes.append(f"clipped from {corrected.unclipped:.3f}")
    if corrected.is_open and not math.isnan(corrected.value):
        notes.append("the metric's errors leave every share possible")

    low, high = (math.nan, math.nan)
    if choices.statistics.uses_resampling:
        low, high = corrected.low, corrected.high
    measure = Measure("corrected_bad", corrected.value, low, high, len(scores), "; ".join(notes))
    return [measured, measure]
