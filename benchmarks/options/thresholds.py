"""Options of `captau thresholds`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from ...metrics.base import Metric
from ..scoring.protocol import Protocol
from .common import Locations, check_shares, plain_of, scored


@dataclass(frozen=True)
class ThresholdsOptions:
    """What `captau thresholds` does.

    Attributes:
        good: the share of the scale from which a rating is a good one.
        precision: what share of the kept captions shall be good.
    """

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    good: float = 0.5
    precision: float = 0.8
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: As in `BenchOptions`.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_shares(self.good, self.precision)


def thresholds_config(config: DictConfig) -> ThresholdsOptions:
    """From the composed configuration of `captau thresholds`."""
    plain = plain_of(config)
    return ThresholdsOptions(**scored(plain), good=plain["good"], precision=plain["precision"])
