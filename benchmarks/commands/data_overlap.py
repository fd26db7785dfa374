"""`captau data overlap`: the images and captions that two datasets share, and their sides of the split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from ...datasets import registry
from ...datasets.errors import InputError
from ...datasets.own_references import find_own_references
from ...datasets.schema import CaptionSet
from ..runs.tables import ResultTable


def overlap(datasets: Sequence[str], root: Path | None) -> ResultTable:
    """Compare every two datasets: shared images, shared (image, caption) pairs, and leaks.

    A leak is an image whose split differs: a rater trained on the training part of one dataset would meet
    it in the test part of the other.

    Raises:
        InputError: where fewer than two datasets are named, or one cannot be read.
    """
    names = list(dict.fromkeys(datasets))
    if len(names) < 2:
        raise InputError("two datasets are needed, such as dataset=[capeval1k,composite_coco]")
    sets = [registry.load(name, root) for name in names]
    rows = [_compare(a, b) for a, b in combinations(sets, 2)]
    notes = [
        "train, validation, test: shared images that both datasets have in this split; leaks: those whose splits differ."
    ]
    notes += [_count_own_references(caption_set) for caption_set in sets]
    columns = [
        "images, 1st",
        "images, 2nd",
        "shared images",
        "train",
        "validation",
        "test",
        "leaks",
    ]
    columns += ["shared captions"]
    return ResultTable("Overlap", "datasets", columns, rows, notes=notes)


def _compare(a: CaptionSet, b: CaptionSet) -> tuple[str, list[str]]:
    split_a, split_b = (
        dict(zip(s.items["image_id"], s.items["split"], strict=True)) for s in (a, b)
    )
    shared = split_a.keys() & split_b.keys()
    same = [split_a[i] for i in shared if split_a[i] == split_b[i]]
    pairs_a, pairs_b = (
        set(zip(s.items["image_id"], s.items["caption"], strict=True)) for s in (a, b)
    )
    counts = [len(split_a), len(split_b), len(shared)]
    counts += [same.count(split) for split in ("train", "validation", "test")]
    counts += [len(shared) - len(same), len(pairs_a & pairs_b)]
    return f"{a.name}, {b.name}", [f"{n:,}" for n in counts]


def _count_own_references(caption_set: CaptionSet) -> str:
    """Return a note on the captions of a dataset that are one of their image's references."""
    copies = find_own_references(caption_set.items)
    return f"{caption_set.name}: {copies.count()}, {copies.n_exact:,} letter by letter."
