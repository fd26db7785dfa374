"""Options of `captau check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ..regression.baseline_file import POLICIES, TOLERANCES, tolerance_fault
from ..scoring.catalog import optional_specs, resolve_metrics
from .common import Locations, file_options_of, names_of, path_of, plain_of


@dataclass(frozen=True)
class CheckOptions:
    """What `captau check` does. What goes into a baseline is None where the file says it, or the default.

    Attributes:
        baseline: the file.
        update: whether to write it.
        dataset, protocol, metrics: what is scored, how (what differs from the usual), and with what.
        optional: as in `BenchOptions`.
        sample: how many items' scores the file shows; drawn with `seed`.
        tolerance: how far a score may move.
        versions: which changed versions fail by themselves, one of `baseline.POLICIES`.
        packages: distributions whose versions are recorded beside those that metrics name.
        junit: where to write a JUnit report.
    """

    baseline: Path
    update: bool = False
    dataset: str | None = None
    protocol: Mapping[str, Any] | None = None
    metrics: tuple[Metric, ...] | None = None
    optional: frozenset[str] = frozenset()
    sample: int | None = None
    seed: int | None = None
    tolerance: float | None = None
    versions: str | None = None
    packages: tuple[str, ...] = ()
    junit: Path | None = None
    locations: Locations = field(default_factory=Locations)

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 1:
            raise InputError(f"sample is {self.sample}; a whole number from 1 on is expected")
        if self.seed is not None and self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")
        if self.tolerance is not None and not TOLERANCES[0] <= self.tolerance <= TOLERANCES[1]:
            raise InputError(tolerance_fault(self.tolerance))
        if self.versions is not None and self.versions not in POLICIES:
            raise unknown("value of versions", self.versions, POLICIES)


def check_config(config: DictConfig, given: Iterable[str]) -> CheckOptions:
    """From the composed configuration of `captau check`.

    Args:
        given: the overrides as typed, `dataset=demo`: the dataset and the protocol that nobody typed are
            the baseline's.

    Raises:
        InputError: on several datasets, or an option that makes no sense.
    """
    plain = plain_of(config)
    typed = {word.partition("=")[0] for word in given}
    names = names_of(list(plain["datasets"]))
    if len(names) > 1:
        raise InputError(f"dataset is [{','.join(names)}]; a baseline is of one dataset")
    packages: Any = plain["packages"]
    return CheckOptions(
        baseline=Path(plain["baseline"]).expanduser(),
        update=plain["update"],
        dataset=names[0] if "dataset" in typed else None,
        protocol=plain["protocol"]
        if any(word.partition(".")[0] == "protocol" for word in typed)
        else None,
        metrics=None if plain["metrics"] is None else resolve_metrics(plain["metrics"]),
        optional=frozenset() if plain["metrics"] is None else optional_specs(plain["metrics"]),
        sample=plain["sample"],
        seed=plain["seed"],
        tolerance=plain["tolerance"],
        versions=plain["versions"],
        packages=(packages,) if isinstance(packages, str) else tuple(map(str, packages)),
        junit=path_of(plain["junit"]),
        locations=Locations(
            data_root=path_of(plain["data"]["root"]),
            cache_root=path_of(plain["cache"]["root"]),
            use_cache=False,
            file_options=file_options_of(plain),
        ),
    )
