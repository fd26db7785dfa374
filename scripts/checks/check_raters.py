"""Check whether raters learn the demo's rule: Spearman with it on unseen images, beside a control.

    python scripts/checks/check_raters.py icr qe umic --seeds 2

Each rater is trained as `captau train rater=NAME` trains it on the demo, and again on shuffled labels.
The rule is the ratings without the raters' bias and noise.
"""

from __future__ import annotations

import argparse
import time
from importlib import resources

import numpy as np
import torch
import yaml
from scipy.stats import spearmanr

import captau
from captau.benchmarks.evaluation.training.rater_training import (
    correlate_for_training,
    shuffle_labels,
)
from captau.benchmarks.evaluation.training.training_designs import TrainingCorpus
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.sources import demo
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.learned.common.training import TrainingSession


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raters", nargs="*", default=["icr", "qe", "umic"])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    corpus = TrainingCorpus.prepare(captau.load("demo"), protocol, None)
    splits = corpus.items["split"].to_numpy()
    sides = {
        split: corpus.examples.take(np.flatnonzero(splits == split))
        for split in ("train", "validation", "test")
    }
    rule = np.array(demo.rule())[splits == "test"]
    print("| rater | seed | Spearman with the rule | on shuffled labels | CPU seconds |")
    print("|:--|--:|--:|--:|--:|")
    for name in options.raters:
        for seed in range(options.seeds):
            start = time.process_time()
            predictions = train_and_predict(name, seed, sides, is_control=False)
            seconds = time.process_time() - start
            control = train_and_predict(name, seed, sides, is_control=True)
            learned, chance = (spearmanr(p, rule).statistic for p in (predictions, control))
            print(f"| {name} | {seed} | {learned:.3f} | {chance:.3f} | {seconds:.0f} |", flush=True)


def train_and_predict(
    name: str, seed: int, sides: dict[str, Examples], *, is_control: bool
) -> np.ndarray:
    """Train a rater with the demo's options; return predictions for the test side."""
    text = (resources.files("captau.conf") / "rater" / f"{name}.yaml").read_text(encoding="utf-8")
    options = yaml.safe_load(text)
    options |= options.pop("demo", {})
    recipe = make_recipe(options.pop("name"), options)
    train, validation = sides["train"], sides["validation"]
    if is_control:
        train, validation = (shuffle_labels(side, seed) for side in (train, validation))
    session = TrainingSession(seed, is_control=is_control, correlate=correlate_for_training)
    model = recipe.fit(train, validation, session)
    return model.predict(sides["test"].rows)


if __name__ == "__main__":
    main()
