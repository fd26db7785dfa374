"""Choices of a caller for `captau check` of a baseline.

They stand in a module of their own, as the options of the command hold them and must not load what computes scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ..scoring.score_store import Locations

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


def tolerance_fault(tolerance: float) -> str:
    """Describe the fault of a tolerance out of range."""
    return f"tolerance is {tolerance:g}; a number from {TOLERANCES[0]:g} to {TOLERANCES[1]:g} is expected"
