"""Do the raters learn the demo's rule? Spearman with it, on images that they have not seen, beside a control.

    python scripts/check_raters.py icr qe umic --seeds 2

Each rater is trained as `captau train rater=NAME` trains it on the demo, and again on labels in another
order. The rule is what ratings were drawn from, without raters' bias and noise.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
import yaml
from scipy.stats import spearmanr

import captau
from captau.benchmarks.commands.train import Corpus, shuffled_labels
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets import demo
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.learned.common.training import Session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raters", nargs="*", default=["icr", "qe", "umic"])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    corpus = Corpus.of(captau.load("demo"), protocol, None)
    sides = {
        side: corpus.examples.take(np.flatnonzero(corpus.items["split"] == side))
        for side in ("train", "validation", "test")
    }
    rule = np.array(demo.rule())[(corpus.items["split"] == "test").to_numpy()]
    print("| rater | seed | Spearman with the rule | on shuffled labels | CPU seconds |")
    print("|:--|--:|--:|--:|--:|")
    for name in options.raters:
        for seed in range(options.seeds):
            begun = time.process_time()
            found = trained(name, seed, sides, shuffled=False)
            seconds = time.process_time() - begun
            control = trained(name, seed, sides, shuffled=True)
            value, other = (spearmanr(p, rule).statistic for p in (found, control))
            print(f"| {name} | {seed} | {value:.3f} | {other:.3f} | {seconds:.0f} |", flush=True)


def trained(name: str, seed: int, sides: dict, *, shuffled: bool) -> np.ndarray:
    """Predictions for the test side."""
    from importlib import resources

    text = (resources.files("captau.conf") / "rater" / f"{name}.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    values |= values.pop("demo", {})
    recipe = make_recipe(values.pop("name"), values)
    train, validation = (
        shuffled_labels(sides[s], seed) if shuffled else sides[s] for s in ("train", "validation")
    )
    model = recipe.fit(train, validation, Session(seed, is_control=shuffled))
    return model.predict(sides["test"].rows)


if __name__ == "__main__":
    main()
