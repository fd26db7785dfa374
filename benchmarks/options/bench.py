"""Options of `captau bench` and `captau compare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import TESTS, StatisticsOptions
from .common import Locations, plain_of, scored, statistics_of


@dataclass(frozen=True)
class BenchOptions:
    """What `captau bench` does: datasets with their protocols, and metrics; and `captau compare`, which
    has `tests` besides.
    """

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ceilings: bool = True
    floors: bool = False
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)
    tests: tuple[str, ...] = ()
    #: Specs that suites alone asked for: what cannot be computed of them is listed as missing.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for test in self.tests:
            if test not in TESTS:
                raise unknown("test", test, TESTS)
        if self.tests and len(self.metrics) < 2:
            named = ", ".join(metric.spec for metric in self.metrics)
            raise InputError(f"metrics is [{named}]; two are needed to compare")
        if self.tests and not self.statistics.uses_resampling:
            raise InputError(
                f"statistics.interval={self.statistics.interval} draws no images, which a comparison "
                "needs; choose percentile or bca"
            )


def bench_config(config: DictConfig) -> BenchOptions:
    """From the composed configuration of `captau bench` or `captau compare`."""
    plain = plain_of(config)
    return BenchOptions(
        **scored(plain),
        ceilings=plain["ceilings"],
        floors=plain["floors"],
        statistics=statistics_of(plain["statistics"]),
        tests=_tests(plain["tests"]) if "tests" in plain else (),
    )


def _tests(wanted: Any) -> tuple[str, ...]:
    """Tests, from one or several; at least one."""
    tests: Any = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(tests, Iterable) or isinstance(tests, Mapping) or not list(tests):
        raise InputError(f"tests is {wanted!r}; one or several of {', '.join(TESTS)} are expected")
    return tuple(dict.fromkeys(str(test) for test in tests))
