"""Captions a second that a rater of `captau train` scores once its encoder's states are stored, and its folder's size.

    python scripts/speed/benchmark_rater.py FOLDER [--dataset flickr8k_expert] [--repeats 5]

The first scoring stores the states and is not counted. Prints the fastest and the median of the others by the clock, the
median by the processor's time (which a busy machine stretches less), and the machine's load before and after.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import captau


def main() -> None:
    """Score the dataset's captions several times, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dataset", default="flickr8k_expert")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    items = captau.load(options.dataset).items
    rater = captau.metric(f"rater(path='{options.folder}')")
    load = os.getloadavg()[0]
    rater.score(items)
    seconds: list[float] = []
    processor_seconds: list[float] = []
    for _ in range(options.repeats):
        began, processor_began = time.perf_counter(), time.process_time()
        rater.score(items)
        processor_seconds.append(time.process_time() - processor_began)
        seconds.append(time.perf_counter() - began)
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    shortest, median, processor = (
        len(items) / t
        for t in (min(seconds), statistics.median(seconds), statistics.median(processor_seconds))
    )
    print(f"{len(items):,} captions of {options.dataset}, {os.cpu_count()} cores")
    print(f"captions a second: fastest {shortest:,.0f}, median {median:,.0f}")
    print(f"captions a second of the processor's time: {processor:,.0f}")
    print(f"size of the folder: {size / 1e6:.1f} MB")
    print(f"load before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
