"""Options of `captau thresholds`, and those of its curves, which reports and plots have as well."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, ClassVar

from ...datasets.errors import InputError
from .declaration import Options, option
from .shared import MeasuringOptions, check_share

_COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_CONDITION = re.compile(
    r"(?P<dimension>.*?\S)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[-+]?(\d+\.?\d*|\.\d+))"
)


@dataclass(frozen=True)
class Condition:
    """A condition on a rating of one dimension, such as `correct>=2`; `sign` is one of >=, <=, >, <."""

    dimension: str
    sign: str
    number: float

    def __str__(self) -> str:
        return f"{self.dimension}{self.sign}{self.number:g}"

    def compare(self, values: Any) -> Any:
        """Tell of ratings, an array or a column, which meet the condition."""
        return _COMPARISONS[self.sign](values, self.number)


@dataclass(frozen=True)
class Conjunction:
    """Conditions that all have to hold for a good caption, each by a majority of its ratings."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))

    @classmethod
    def parse(cls, text: str, key: str) -> Conjunction:
        """Parse conditions with `and` between them.

        Raises:
            InputError: where one is none, or names no dimension.
        """
        conditions: list[Condition] = []
        for part in re.split(r"\s+and\s+", text.strip()):
            match = _CONDITION.fullmatch(part.strip())
            if match is None:
                raise InputError(
                    f"{key} is '{text}': '{part}' is not a condition on a dimension; a share of the scale, as "
                    f"0.5, or conditions, as 'correct>=2 and helpful>=2', are expected"
                )
            conditions.append(Condition(match["dimension"], match["sign"], float(match["number"])))
        return cls(tuple(conditions))


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
