"""Options of `captau complement`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .declaration import option
from .shared import MAX_DRAWS, MeasuringOptions, at_least


@dataclass(frozen=True, kw_only=True)
class ComplementOptions(MeasuringOptions):
    """Options of `captau complement`."""

    examples: ClassVar[str] = """
captau complement                                      the embedded demo
captau complement dataset=flickr8k_expert
captau complement dataset=thumb metrics=sacrebleu,rouge_score_l,cider draws=1000
"""
    writes: ClassVar[str] = """
Writes complementarity.csv, table.md, table.tex, run.json. docs/sensitivity.md explains what they hold.
"""

    draws: int = option(
        100,
        "the number of resampled datasets; inclusion of a metric is counted in them",
        check=at_least(1, MAX_DRAWS),
    )
    seed: int = option(0, "the seed of the folds and of all random draws", check=at_least(0))
