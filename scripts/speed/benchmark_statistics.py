"""Speed of the statistics on Flickr8k-Expert: ten metrics, 1,000 images, 16,992 rows.

    python scripts/speed/benchmark_statistics.py [--data-root DIR]

1. 1,000 cluster-bootstrap replicates of τ_c and τ_b of every metric, against a loop that resamples the
   rows of the drawn images and calls scipy.stats.kendalltau. The loop is timed over 20 replicates of
   each metric and multiplied by 50. Both loop and captau are given the same replicates, and the
   largest difference between their values is printed.
2. PERM-BOTH, 1,000 permutations, τ_c of all 45 pairs of metrics.

Prints wall and CPU time, the ratio, and the peak memory; exits with status 1 where a value differs by
more than 1e-12, the ratio is below 100, memory reaches 1 GB or the permutations take a minute.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

import captau
from captau.benchmarks.statistics.bootstrap import StatisticsOptions, draw_weights, resample
from captau.benchmarks.statistics.panels import make_rating_panel
from captau.benchmarks.statistics.significance import PreparedMetric, compare_metrics

METRICS = [
    *("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"),
    *("rouge_1", "rouge_2", "sacrebleu", "rouge_score_l"),
]
REPLICATES, LOOPED = 1000, 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", type=Path)
    root = parser.parse_args().data_root

    judgements = captau.load("flickr8k_expert", root)
    with tempfile.TemporaryDirectory() as cache:
        scored = captau.bench(
            "flickr8k_expert",
            METRICS,
            statistics={"interval": "none"},
            ceilings=False,
            data_root=root,
            cache_root=cache,
        ).scores
    scores = {
        metric: scored.loc[scored["metric"] == metric, "score"].to_numpy() for metric in METRICS
    }
    # Compiled before the clock starts, as in every run after the first.
    rng = np.random.default_rng(0)
    warm = [s.iloc[:50] for s in (judgements.items, judgements.ratings)]
    small = warm[1][warm[1]["item_id"].isin(warm[0]["item_id"])]
    panel, _ = make_rating_panel(
        warm[0], small, {"m": rng.random(50)}, "overall", ["tau_c", "tau_b"], drop=False
    )
    PreparedMetric.prepare(panel, "m", panel.defined_points("m"))

    clocks = time.perf_counter(), time.process_time()
    panel, _ = make_rating_panel(
        judgements.items, judgements.ratings, scores, "overall", ["tau_c", "tau_b"], drop=False
    )
    keep = np.ones(len(panel.item), dtype=bool)
    prepared = {metric: PreparedMetric.prepare(panel, metric, keep) for metric in METRICS}
    statistics = [one.statistic for one in prepared.values()]
    drawn = resample(statistics, panel.n_images, REPLICATES)
    ours = time.perf_counter() - clocks[0], time.process_time() - clocks[1]

    rows_of = [np.flatnonzero(panel.image == image) for image in range(panel.n_images)]
    counts = draw_weights(panel.n_images, 0, 0)[:, :LOOPED].astype(int)
    apart = 0.0
    clocks = time.perf_counter(), time.process_time()
    for index, metric in enumerate(METRICS):
        for replicate in range(LOOPED):
            images = np.repeat(np.arange(panel.n_images), counts[:, replicate])
            rows = np.concatenate([rows_of[image] for image in images])
            x, y = panel.scores[metric][rows], panel.ratings[rows]
            for which, variant in enumerate("cb"):
                tau = stats.kendalltau(x, y, variant=variant).statistic
                apart = max(apart, abs(tau - drawn[index][which, replicate]))
    share = REPLICATES / LOOPED
    loop = share * (time.perf_counter() - clocks[0]), share * (time.process_time() - clocks[1])

    print(f"{len(METRICS)} metrics, {len(keep):,} rows, {panel.n_images:,} images")
    print(f"{REPLICATES:,} replicates of tau_c and tau_b: {ours[0]:.2f} s (CPU {ours[1]:.2f} s)")
    print(
        f"loop over SciPy: {loop[0]:.0f} s (CPU {loop[1]:.0f} s), "
        f"{share:.0f} times the measured {LOOPED} replicates"
    )
    ratio = loop[1] / ours[1]
    print(f"{loop[0] / ours[0]:.0f} times as fast by the wall clock, {ratio:.0f} by CPU time")
    print(f"largest difference between two values: {apart:.1e}")

    panel, _ = make_rating_panel(
        judgements.items, judgements.ratings, scores, "overall", ["tau_c"], drop=False
    )
    prepared = {metric: PreparedMetric.prepare(panel, metric, keep) for metric in METRICS}
    clocks = time.perf_counter(), time.process_time()
    options = StatisticsOptions(replicates=REPLICATES)
    found = compare_metrics(panel, METRICS, prepared, {}, options, ["permutation"])
    permuted = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
    print(
        f"PERM-BOTH, {len(found)} pairs, {REPLICATES:,} permutations: {permuted[0]:.1f} s "
        f"(CPU {permuted[1]:.1f} s)"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory: {peak:.2f} GB")
    return int(apart > 1e-12 or ratio < 100 or peak >= 1 or permuted[0] >= 60)


if __name__ == "__main__":
    sys.exit(main())
