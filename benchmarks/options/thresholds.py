"""Options of `captau thresholds`, and those of its curves, which reports and plots have as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..evaluation.threshold_curves import Conjunction
from .declaration import Options, option
from .shared import MeasuringOptions, check_share


def _good_of(value: Any, key: str) -> float | Conjunction:
    try:
        return float(value)
    except (TypeError, ValueError):
        return Conjunction.parse(str(value), key)


def _check_good(value: float | Conjunction, key: str) -> None:
    if not isinstance(value, Conjunction):
        check_share(value, key)


@dataclass(frozen=True, kw_only=True)
class CurveOptions(Options):
    """Options of precision-recall curves."""

    good: float | Conjunction = option(
        0.5,
        "when a caption is good; SHARE means that most of its ratings are at least this share of "
        "the scale, and 0.5 is the middle. Or conditions on dimensions, each met by most ratings: "
        "'correct>=2 and helpful>=2'",
        takes="SHARE|CONDITIONS",
        read=_good_of,
        check=_check_good,
        is_literal=True,
    )
    precision: float = option(
        0.8,
        "the share of kept captions that should be good",
        takes="SHARE",
        check=check_share,
    )


@dataclass(frozen=True, kw_only=True)
class ThresholdsOptions(CurveOptions, MeasuringOptions):
    """Options of `captau thresholds`."""

    examples: ClassVar[str] = """
captau thresholds                                      the embedded demo
captau thresholds dataset=caption_quality 'metrics=rater(path=DIR),clipscore' precision=0.8
captau thresholds dataset=flickr8k_expert metrics=cider,spice good=0.66
captau thresholds dataset=thumb metrics=text 'good=precision>=4 and recall>=4'
"""
    writes: ClassVar[str] = """
Writes thresholds.csv (the curves), recall.csv, precision_recall.svg and .png, table.md, table.tex, run.json.
captau score keep.metric=… keep.above=… then filters your own captions.
"""
