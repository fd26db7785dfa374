"""Write what captau measured itself of metrics' agreement with people: `results/measured.csv`.

`captau score` shows these numbers of metrics of which no paper prints one. They are those of the committed baseline
`results/golden/flickr8k_expert.yaml`, which `captau check` compares with every version.
Run it in the repository's root, after the baseline changed: `python scripts/published/write_measured.py`.
"""

from __future__ import annotations

import csv
from pathlib import Path

from ruamel.yaml import YAML

from captau.benchmarks.cli.script_options import show_manual

BASELINE = Path("results/golden/flickr8k_expert.yaml")
MEASURED = Path("results/measured.csv")


def main() -> None:
    """Write a row for each metric and coefficient of the baseline."""
    baseline = YAML(typ="safe").load(BASELINE)
    with MEASURED.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("dataset", "dimension", "metric", "coefficient", "value"))
        for metric, entry in baseline["metrics"].items():
            for column, value in entry["correlations"].items():
                dimension, coefficient = column.split()
                writer.writerow((baseline["dataset"], dimension, metric, coefficient, value))


if __name__ == "__main__":
    show_manual(__doc__)
    main()
