"""Options of `captau thresholds`, and those of its curves, which reports and plots have as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .declaration import Options, option
from .shared import MeasuringOptions, check_share


@dataclass(frozen=True, kw_only=True)
class CurveOptions(Options):
    """Options of precision-recall curves."""

    good: float = option(
        0.5,
        "a caption is good where most of its ratings are this share of the scale or more; 0.5 is the scale's "
        "middle",
        takes="SHARE",
        check=check_share,
    )
    precision: float = option(
        0.8,
        "the share of the retained captions that shall be good",
        takes="SHARE",
        check=check_share,
    )


@dataclass(frozen=True, kw_only=True)
class ThresholdsOptions(CurveOptions, MeasuringOptions):
    """Options of `captau thresholds`."""

    examples: ClassVar[str] = """
captau thresholds                                      the embedded demo
captau thresholds dataset=caption_quality 'metrics=["rater(path=DIR)",clipscore]' precision=0.8
captau thresholds dataset=flickr8k_expert metrics=[cider,spice] good=0.66
"""
    writes: ClassVar[str] = """
Writes thresholds.csv (the curves), recall.csv, precision_recall.svg and .png, table.md, table.tex, run.json.
captau score keep.metric=… keep.above=… then filters your own captions.
"""
