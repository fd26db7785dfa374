"""Measure how far CIDEr moves when its IDF is counted over a part of a set: the table of docs/own_captions.md.

    python scripts/checks/measure_cider_idf.py [REFERENCES] [--draws 20] [--seed 0]

REFERENCES is a JSON object, image → its captions; the default is `coco/karpathy_test_references.json` in the data folder
(`CAPTAU_DATA`). Each image's first caption is scored against the others. Of each size, images are drawn at random;
their captions are scored with the IDF of the drawn images, and with that of all. The captions and the references are the
same both times, so that nothing but the IDF differs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np

import captau
from captau.metrics.text.cider import document_frequencies

SIZES = (25, 50, 100, 200, 400, 1000, 2500)


def main() -> None:
    """Print a row a size: CIDEr with both IDFs, means over the draws, and the difference in percent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = Path(os.environ.get("CAPTAU_DATA", ".")) / "coco" / "karpathy_test_references.json"
    parser.add_argument("references", type=Path, nargs="?", default=default)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    captions = json.loads(options.references.read_text(encoding="utf-8"))
    images = sorted(captions)
    rows = [
        {"caption": captions[image][0], "references": tuple(captions[image][1:])}
        for image in images
    ]
    frequencies = document_frequencies(row["references"] for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frequencies.json"
        frequencies.write(file)
        whole = captau.metric(f"cider(df={file})").score(rows)

    random = np.random.default_rng(options.seed)
    print("| images | IDF of these images | IDF of all | difference |")
    print("|--:|--:|--:|--:|")
    for size in (*SIZES, len(images)):
        own_means: list[float] = []
        whole_means: list[float] = []
        n_draws = options.draws if size < len(images) else 1
        for _ in range(n_draws):
            drawn = sorted(random.choice(len(images), size, replace=False).tolist())
            scores = captau.metric("cider").score([rows[place] for place in drawn])
            own_means.append(float(scores.mean()))
            whole_means.append(float(whole[drawn].mean()))
        own, all_images = 100 * np.mean(own_means), 100 * np.mean(whole_means)
        change = 100 * (own / all_images - 1)
        print(f"| {size:,} | {own:.1f} | {all_images:.1f} | {change:+.1f} % |", flush=True)


if __name__ == "__main__":
    main()
