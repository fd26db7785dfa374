"""`captau.reward` on new captions for COCO's Karpathy test split: milliseconds a call, after the first.

    python scripts/speed/benchmark_reward.py [--data-root DIR] [--captions 512] [--repeats 20]

Each call scores captions that were never scored before, each of another image (the most expensive case;
a trainer that samples several captions an image has fewer references a batch): the first words of one of the
image's references and words of other images' references, by a fixed seed. Prints a Markdown table with the
first call, the least and the median of the others, the median of the processor's time (which a busy machine
stretches less), and the machine's load before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from pathlib import Path

import captau

METRICS = ("bleu_4", "rouge_l", "cider", "meteor")


def main() -> None:
    """Measure each metric, by turns, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    parser.add_argument("--captions", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    path = options.data_root / "coco" / "karpathy_test_references.json"
    references: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    words = [w for texts in references.values() for text in texts for w in text.split()]
    rng = random.Random(0)
    load = os.getloadavg()[0]
    rewards = {spec: captau.reward(spec, references) for spec in METRICS}
    milliseconds: dict[str, list[float]] = {spec: [] for spec in METRICS}
    processor: dict[str, list[float]] = {spec: [] for spec in METRICS}
    for _ in range(options.repeats + 1):
        images = rng.sample(list(references), options.captions)
        heads = [rng.choice(references[image]).split()[:6] for image in images]
        captions = [" ".join([*head, *rng.choices(words, k=4)]) for head in heads]
        for spec, score in rewards.items():
            began, processor_began = time.perf_counter(), time.process_time()
            score(captions, images)
            processor[spec].append(1000 * (time.process_time() - processor_began))
            milliseconds[spec].append(1000 * (time.perf_counter() - began))
    print(
        "| metric | first call, ms | least, ms | median, ms | processor, ms |\n|:--|--:|--:|--:|--:|"
    )
    for spec, (first, *others) in milliseconds.items():
        medians = [statistics.median(values) for values in (others, processor[spec][1:])]
        print(f"| {spec} | {first:.0f} | {min(others):.1f} | {medians[0]:.1f} | {medians[1]:.1f} |")
    print(f"\nload before {load:.1f}, after {os.getloadavg()[0]:.1f}; {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
