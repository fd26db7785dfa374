"""Options of `captau sensitivity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...datasets.errors import InputError
from .declaration import option
from .shared import MAX_DRAWS, MeasuringOptions, at_least, one_of, words_of

#: What `captau sensitivity` varies.
KINDS = ("images", "raters", "references", "power", "protocols", "length")


@dataclass(frozen=True, kw_only=True)
class SensitivityOptions(MeasuringOptions):
    """Options of `captau sensitivity`."""

    examples: ClassVar[str] = """
captau sensitivity                                     the embedded demo, by number of images
captau sensitivity dataset=flickr8k_expert kind=protocols
captau sensitivity dataset=flickr8k_expert kind=images,raters,power metrics=bleu_4,cider
captau sensitivity dataset=thumb kind=references metrics=cider draws=20
"""
    writes: ClassVar[str] = """
Writes sensitivity.csv, table.md, table.tex, run.json; curves also as sensitivity.svg and sensitivity.png where
matplotlib is installed (pip install 'captau[report]'). docs/sensitivity.md explains each kind.
"""

    kinds: tuple[str, ...] = option(
        "images",
        "which studies to run; images: a curve over the number of images, up to twice as many; "
        "raters: a curve over the number of ratings an item; references: a curve over the number "
        "of references, for which every metric scores again; power: the least difference between "
        "two metrics that the dataset can show; protocols: every combination of ratings, "
        "references, coefficient, copies of references and duplicates, and how far values and "
        "ranks move; length: coefficients within bands of captions of similar length",
        key="kind",
        takes="KIND|[A,B]",
        read=words_of,
        check=one_of(KINDS),
    )
    draws: int | None = option(
        None,
        "the number of random draws (default: 1000 for images, power and length, 50 for raters, 5 "
        "for references)",
        check=at_least(2, MAX_DRAWS),
    )
    seed: int = option(0, "the seed of all random draws", check=at_least(0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds:
            raise InputError(f"kind is empty; name at least one: {', '.join(KINDS)}")
