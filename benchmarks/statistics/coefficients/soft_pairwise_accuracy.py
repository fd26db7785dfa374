"""Soft pairwise accuracy of systems: how alike scores and ratings are in how sure they are of the better one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..remarks import Note, Undefined, remark
from ..weighted_pairs import Floats
from .coefficient import CoefficientValue, SystemCoefficient
from .registry import register

#: mt-metrics-eval's (pce.py); the same draws, so that results are comparable.
PERMUTATIONS, SEED = 1000, 4


@register
class SoftPairwiseAccuracy(SystemCoefficient):
    """One less the mean, over pairs of systems, of |p of ratings - p of scores|.

    p is the paired permutation test's of "the first is better" (Thompson et al. 2024, equation 3). Draws as in
    mt-metrics-eval; differences that are equal count as such, which its 4-byte sums may miss. An image's points of one
    system are averaged, and images that lack a system are left out and counted.
    """

    name = "soft_pairwise_accuracy"
    order = 9
    symbol = "SPA %"
    latex = r"SPA \%"
    words = "soft pairwise accuracy"
    source = "Thompson et al. 2024"
    bounds = (0.0, 1.0)

    def value(self, scores: Floats, ratings: Floats, keys: pd.DataFrame) -> CoefficientValue:
        cells = pd.DataFrame(
            {"image": keys["image_id"].to_numpy(), "system": keys["system"].to_numpy()}
        ).assign(score=scores, rating=ratings)
        n_images = cells["image"].nunique()
        means = cells.groupby(["image", "system"], sort=False)[["score", "rating"]].mean().unstack()
        # In order of first appearance, which is that of the draws.
        images, systems = cells["image"].unique(), cells["system"].unique()
        means = means.reindex(images).dropna()
        if len(means) < 2:
            reason = remark(Undefined.NO_COMMON_IMAGES, n_images=len(means))
            return CoefficientValue.undefined(reason)
        p_scores, p_ratings = _superiority_p_values(
            *(means[side][systems].to_numpy() for side in ("score", "rating"))
        )
        value = 1 - float(np.abs(p_scores - p_ratings).mean())
        remarks = [remark(Note.PERMUTED_SYSTEMS, n_systems=len(systems), permutations=PERMUTATIONS)]
        if n_left_out := n_images - len(means):
            counts = {"n_left_out": n_left_out, "n_images": n_images}
            remarks.append(remark(Note.INCOMPLETE_IMAGES, **counts))
        return CoefficientValue(value, remarks=tuple(remarks))


def _superiority_p_values(*tables: Floats) -> list[Floats]:
    """Return the p-values of "the first is better" of each pair of systems, for each table.

    Args:
        tables: of equal shape (n_images, n_systems).
    """
    rng = np.random.default_rng(SEED)
    n_images, n_systems = tables[0].shape
    first, second = np.triu_indices(n_systems, 1)
    counts = [np.zeros(len(first)) for _ in tables]
    for _ in range(PERMUTATIONS // 100):  # 100 at a time: the draws are as those of all at once
        signs = 2 * np.rint(rng.random((100, n_images), dtype=np.float32)).astype(float) - 1
        for count, table in zip(counts, tables, strict=True):
            sums, permuted = table.sum(axis=0), signs @ table
            bound = sums[first] - sums[second] - 1e-9 * np.abs(table).sum() / n_systems
            count += (permuted[:, first] - permuted[:, second] >= bound).sum(axis=0)
    return [count / PERMUTATIONS for count in counts]
