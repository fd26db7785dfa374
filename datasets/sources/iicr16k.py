"""IICR16k: CocoG and FlickrG together (Scott et al. 2023)."""

from __future__ import annotations

from pathlib import Path

from ..registry import dataset
from ..schema import CaptionSet
from .flickr8k import JSON as EXPERT
from .iicr_layout import caption_set, cocog, flickrg, iicr_card, source_of

COCOG, FLICKRG = source_of("cocog"), source_of("flickrg")
CARD = iicr_card(
    "iicr16k",
    "IICR16k",
    (COCOG, FLICKRG, EXPERT),
    {"images": 9990, "items": 15646, "ratings": 68217},
)


@dataset(CARD)
def load_iicr16k(root: Path) -> CaptionSet:
    """IICR16k, from the interchange format that `iicr_layout` describes."""
    return caption_set([*cocog(root, CARD, COCOG), *flickrg(root, CARD, FLICKRG)], CARD)
