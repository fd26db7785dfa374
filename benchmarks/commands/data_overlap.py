"""`captau data overlap`: which images and captions two datasets share, and on which side of the split."""

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
    """Every two of the datasets: shared images, shared (image, caption) pairs, and leaks.

    A leak is an image whose split differs: a rater trained on the one set's training part would meet
    it in the other's test part.

    Raises:
        InputError: where fewer than two datasets are named, or one cannot be read.
    """
    names = list(dict.fromkeys(datasets))
    if len(names) < 2:
        raise InputError("two datasets are needed, such as dataset=[capeval1k,composite_coco]")
    sets = [registry.load(name, root) for name in names]
    rows = [_row(a, b) for a, b in combinations(sets, 2)]
    notes = ["Leaks: shared images whose split differs between the two."]
    notes += [_count_own_references(caption_set) for caption_set in sets]
    heads = ["images", "images", "shared images", "train", "validation", "test", "leaks"]
    heads += ["shared captions"]
    return ResultTable("Overlap", "datasets", heads, rows, notes=notes)


def _row(a: CaptionSet, b: CaptionSet) -> tuple[str, list[str]]:
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
    copies, n_items = find_own_references(caption_set.items), len(caption_set.items)
    return (
        f"{caption_set.name}: {copies.n_copies:,} of {n_items:,} captions are one of their image's references, "
        f"{copies.n_exact:,} letter by letter."
    )
