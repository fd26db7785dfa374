"""Options of `captau sensitivity`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ..scoring.protocol import Protocol
from .common import Locations, plain_of, scored

#: What `captau sensitivity` varies.
KINDS = ("images", "raters", "references", "power", "protocols")


@dataclass(frozen=True)
class SensitivityOptions:
    """What `captau sensitivity` does: datasets with their protocols, metrics, and what is varied."""

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    kinds: tuple[str, ...] = ("images",)
    seed: int = 0
    draws: int | None = None
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: As in `BenchOptions`.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise unknown("kind", kind, KINDS)
        if not self.kinds:
            raise InputError(f"kind is empty; name one at least: {', '.join(KINDS)}")
        if self.draws is not None and self.draws < 2:
            raise InputError(f"draws is {self.draws}; a whole number from 2 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


def sensitivity_config(config: DictConfig) -> SensitivityOptions:
    """From the composed configuration of `captau sensitivity`.

    Raises:
        InputError: on an unknown kind, or a number that makes no sense.
    """
    plain = plain_of(config)
    kind = plain["kind"]
    kinds = kind if isinstance(kind, list) else [kind]
    return SensitivityOptions(
        **scored(plain),
        kinds=tuple(dict.fromkeys(map(str, kinds))),
        seed=plain["seed"],
        draws=plain["draws"],
    )
