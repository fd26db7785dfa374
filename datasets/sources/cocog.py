"""CocoG: 72 students' ratings of four kinds of captions of COCO images (Scott et al. 2023)."""

from __future__ import annotations

from pathlib import Path

from ..registry import dataset
from ..schema import CaptionSet
from .iicr_layout import caption_set, cocog, iicr_card, source_of

SOURCE = source_of("cocog")
CARD = iicr_card("cocog", "CocoG", (SOURCE,), {"images": 8990, "items": 9982, "ratings": 44252})


@dataset(CARD)
def load_cocog(root: Path) -> CaptionSet:
    """CocoG, from the interchange format that `iicr_layout` describes."""
    return caption_set(cocog(root, CARD, SOURCE), CARD)
