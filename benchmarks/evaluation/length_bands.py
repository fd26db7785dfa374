"""Bands of similar length: of captions, and of pairs by how much longer one caption is. `SensitivityAnalysis` calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...datasets.errors import Lack, LackingError
from ..runs.tables import count_of
from ..statistics.bootstrap import BLOCK, number_images
from ..statistics.preferences import MEAN_DIMENSION
from ..statistics.weighted_pairs import Floats, Mask
from .evaluation_set import EvaluationSet

#: The number of bands; fewer where many captions have equally many words.
N_LENGTH_BANDS = 4


@dataclass(frozen=True)
class LengthBand:
    """A range of numbers of words.

    Attributes:
        is_in: which points are in it.
        longest: its greatest number of words.
        label: its range, for tables.
    """

    is_in: Mask
    longest: int
    label: str


def cut_bands(words: Floats, where: str, unit: str = "words") -> list[LengthBand]:
    """Cut points into bands that hold about equally many of them.

    Args:
        words: of each point, shape (n_points,).
        where: names the dataset in messages.
        unit: of the labels.

    Raises:
        LackingError: where nearly all points are of one length.
    """
    quantiles = np.arange(1, N_LENGTH_BANDS + 1) / N_LENGTH_BANDS
    longest: list[float] = []
    if len(words):
        longest = np.unique(np.quantile(words, quantiles, method="inverted_cdf")).tolist()
    if len(longest) < 2:
        lengths = f"nearly all have {longest[0]:.0f} {unit}" if len(longest) else "there are none"
        raise LackingError(
            Lack.VARIATION,
            f"kind=length compares captions of several lengths, and {lengths}",
            where,
        )

    band_of = np.searchsorted(longest, words)
    bands: list[LengthBand] = []
    for number, length in enumerate(longest):
        upper = int(length)
        is_in = band_of == number
        shortest = int(words[is_in].min())
        label = f"{shortest}–{upper} {unit}" if shortest < upper else f"{upper} {unit}"

        bands.append(LengthBand(is_in, upper, label))

    return bands


@dataclass(frozen=True)
class BandAccuracy:
    """A metric's accuracy on the pairs of a band.

    Attributes:
        band, dimension, metric: where.
        value: the accuracy.
        drawn: in samples of the band's images, shape (n_draws,).
        note: how many pairs and images the band has.
    """

    band: LengthBand
    dimension: str
    metric: str
    value: float
    drawn: Floats
    note: str


def compute_band_accuracies(
    selection: EvaluationSet, scores: Mapping[str, pd.Series], n_draws: int, seed: int
) -> Iterator[BandAccuracy]:
    """Yield the accuracies of metrics, and of the longer caption, by how many words longer one caption is.

    Raises:
        LackingError: where all pairs differ equally in length.
    """
    pairs = selection.judged_pairs
    length = pairs.floors(selection.items)["floor_length"]
    differences = {metric: pairs.differences(s) for metric, s in scores.items()}
    differences["floor_length"] = length

    for band in cut_bands(np.abs(length), selection.name, "words apart"):
        image, n_images = number_images(pairs.image[band.is_in].tolist())
        part = replace(pairs.without(~band.is_in), image=image, n_images=n_images)
        inside = {metric: column[band.is_in] for metric, column in differences.items()}
        panel = part.outcome_panel(inside, {}, drop=selection.protocol.undefined == "drop")

        rng = np.random.default_rng([seed, band.longest])
        shares = np.full(n_images, 1 / n_images)
        weights = rng.multinomial(n_images, shares, n_draws).T.astype(np.float64)
        blocks = [weights[:, i : i + BLOCK] for i in range(0, n_draws, BLOCK)]

        note = f"{band.label}: {count_of(len(part.frame), 'answer')} about pairs of {count_of(n_images, 'image')}"
        for metric in differences:
            points = panel.defined_points(metric)
            # Without `undefined=drop`, one undefined score leaves the metric undefined.
            if not panel.drops_undefined:
                points = np.full(len(points), bool(points.all()))

            statistic = panel.statistic(metric, points)
            values = statistic(np.ones((n_images, 1)))[:, 0]
            drawn = np.concatenate([statistic(block) for block in blocks], axis=1)

            rows = zip(panel.keys, values.tolist(), drawn, strict=True)
            for (dimension, _), value, replicates in rows:
                # Of one dimension, the mean of the dimensions is the same number again.
                if dimension != MEAN_DIMENSION or len(panel.dimensions) > 1:
                    yield BandAccuracy(band, dimension, metric, value, replicates, note)
