"""FlickrG: 41 students' ratings of Flickr8k-Expert's pairs (Scott et al. 2023).

The pairs that all three experts rated 1 were not played; they are joined in with the experts' ratings.
"""

from __future__ import annotations

from pathlib import Path

from ..registry import dataset
from ..schema import CaptionSet
from .flickr8k import JSON as EXPERT
from .iicr_layout import caption_set, flickrg, iicr_card, source_of

SOURCE = source_of("flickrg")
CARD = iicr_card(
    "flickrg", "FlickrG", (SOURCE, EXPERT), {"images": 1000, "items": 5664, "ratings": 23965}
)


@dataset(CARD)
def load_flickrg(root: Path) -> CaptionSet:
    """FlickrG, from the interchange format that `iicr_layout` describes."""
    return caption_set(flickrg(root, CARD, SOURCE), CARD)
