"""Options of `captau complement`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError
from ...metrics.base import Metric
from ..scoring.protocol import Protocol
from .common import Locations, plain_of, scored


@dataclass(frozen=True)
class ComplementOptions:
    """What `captau complement` does: datasets with their protocols, metrics, and how often to draw."""

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    seed: int = 0
    draws: int = 100
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: As in `BenchOptions`.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"draws is {self.draws}; a whole number from 1 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


def complement_config(config: DictConfig) -> ComplementOptions:
    """From the composed configuration of `captau complement`."""
    plain = plain_of(config)
    return ComplementOptions(**scored(plain), seed=plain["seed"], draws=plain["draws"])
