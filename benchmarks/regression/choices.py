"""Choices of a caller for `captau check`, of a baseline and of a system's captions.

They stand in a module of their own, as the options of the command hold them and must not load what computes scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError, unknown
from ...datasets.reading.table import USUAL_COLUMNS, Columns
from ...metrics.base import Metric
from ..scoring.score_store import Locations
from ..statistics.bootstrap import StatisticsOptions

#: Which changed versions fail a check by themselves: of any recorded package, of those in a checked
#: metric's signature, or none.
POLICIES = ("all", "signatures", "none")

#: Below the first, scores differ between machines; above the second, everything is alike.
TOLERANCES = (1e-12, 1.0)


@dataclass(frozen=True)
class CheckChoices:
    """Choices of a caller for a check; None where the baseline, or its default, decides.

    Attributes:
        dataset: its name.
        protocol: the differences from its usual protocol.
        metrics: those that are checked.
        optional: specs of those that are left out where they cannot be computed.
        sample: the number of items whose scores the file shows.
        seed: of their draw.
        tolerance: how far a score may move.
        versions: one of `POLICIES`.
        packages: more packages whose versions are recorded.
        allow: functions that the baseline may run, and `mllm_judge` if it may ask a judge.
        locations: where data lie.

    Raises:
        InputError: where a value makes no sense.
    """

    dataset: str | None = None
    protocol: Mapping[str, Any] | None = None
    metrics: tuple[Metric, ...] | None = None
    optional: frozenset[str] = frozenset()
    sample: int | None = None
    seed: int | None = None
    tolerance: float | None = None
    versions: str | None = None
    packages: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    locations: Locations = field(default_factory=Locations)

    def __post_init__(self) -> None:
        for name, smallest in (("sample", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise InputError(
                    f"{name} is {value}; a whole number from {smallest} on is expected"
                )

        if self.tolerance is not None and not TOLERANCES[0] <= self.tolerance <= TOLERANCES[1]:
            raise InputError(tolerance_fault(self.tolerance))

        if self.versions is not None and self.versions not in POLICIES:
            raise unknown("value of versions", self.versions, POLICIES)


@dataclass(frozen=True, kw_only=True)
class SystemCheckChoices:
    """Choices of a caller for a check of a system's captions.

    Attributes:
        candidates: the file of the new captions.
        against: the file of the old captions, the folder of a run of `captau score` that scored them, or a baseline
            (`.yaml`) that holds them and their scores; a held score that moved fails the check as well.
        references: the file of the references; None for metrics that need none.
        metrics: that are tested; those that cannot be computed here are left out with a warning. None for those of the
            baseline, else the suite text.
        statistics: the kind of intervals, which must resample.
        columns: the names of the columns, or keys, in all of these files.
        images: the folder of the images, for metrics that look at them.
        partial: whether to compare only the images that both have captioned.
        normalise: the text rule for captions and references.
        junit: where the JUnit report goes; None for none.
        update: whether to write the new captions and their scores as the baseline instead.
        tolerance: how far a metric's score of all captions may fall, as computed; None for the test.

    Raises:
        InputError: where a value makes no sense.
    """

    candidates: Path
    against: Path
    references: Path | None = None
    columns: Columns = USUAL_COLUMNS
    images: Path | None = None
    partial: bool = False
    metrics: tuple[Metric, ...] | None = None
    normalise: str = "none"
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)
    junit: Path | None = None
    update: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is None:
            return

        if not (0 <= self.tolerance < math.inf):
            raise InputError(
                f"tolerance is {self.tolerance:g}; with candidates=, a number from 0 on is expected"
            )
        if self.update:
            raise InputError(
                "tolerance= does not go with update=true of a system's baseline, which holds none; give it when you check"
            )


def tolerance_fault(tolerance: float) -> str:
    """Describe the fault of a tolerance out of range."""
    return f"tolerance is {tolerance:g}; a number from {TOLERANCES[0]:g} to {TOLERANCES[1]:g} is expected"
