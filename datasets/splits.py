"""The shared split: 64 % train, 16 % validation, 20 % test (Scott et al. 2023, section 4.2).

An image's split follows from its id alone: not from row order, platform, library version or dataset.
So splits are image-disjoint, and an image that two datasets share (COCO in CapEval1k, Composite and
THumB; Flickr8k in Expert, CrowdFlower and Composite) falls on the same side in both: a rater trained
on one can be tested on the other.
"""

from __future__ import annotations

import hashlib
from functools import cache

#: Split and its upper bound on the unit interval, in order.
BOUNDS = (("train", 0.64), ("validation", 0.80), ("test", 1.0))

# Another number is another split; results would not be comparable any more.
_SEED = "captau split 1"


@cache
def split_of(image_id: str) -> str:
    """Return the split of an image: a hash of its id, read as a number in [0, 1), against the bounds."""
    digest = hashlib.sha256(f"{_SEED}\0{image_id}".encode("utf-8", "surrogatepass")).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    return next(name for name, bound in BOUNDS if position < bound)
