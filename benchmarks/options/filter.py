"""Options of `captau filter`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError
from ..scoring.catalog import resolve_metrics
from .common import path_of, plain_of
from .large import check_engine


@dataclass(frozen=True)
class FilterOptions:
    """What `captau filter` does.

    Attributes:
        run: the folder or URL of a large run of `captau score`.
        metric: the spec of one of its metrics.
        above: the least score of a caption that is kept; None where `thresholds` says it.
        thresholds: the folder of a run of `captau thresholds`; None where nothing is known of precision.
        precision: what share of the kept captions shall be good.
        dataset, dimension: which of that run's curves, where it has several.
        engine, workers, address: as in `LargeOptions`.
    """

    run: str
    metric: str
    above: float | None = None
    thresholds: Path | None = None
    precision: float | None = None
    dataset: str | None = None
    dimension: str | None = None
    output_dir: Path | None = None
    engine: str = "local"
    workers: int | None = None
    address: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        check_engine(self.engine, self.workers, self.address)
        if (self.above is None) == (self.precision is None):
            raise InputError(
                "say which captions are kept: keep.above=SCORE, or thresholds=DIR precision=SHARE"
            )
        if self.above is not None and math.isnan(self.above):
            raise InputError("keep.above is nan; a number is expected")
        if self.precision is not None and self.thresholds is None:
            raise InputError("precision= wants thresholds=DIR, a finished run of captau thresholds")
        if self.precision is not None and not 0 < self.precision <= 1:
            raise InputError(
                f"precision is {self.precision}; a number above 0 and up to 1 is expected"
            )


def filter_config(config: DictConfig) -> FilterOptions:
    """From the composed configuration of `captau filter`.

    Raises:
        InputError: where it is not said which captions are kept.
    """
    plain = plain_of(config)
    if plain["keep"]["metric"] is None:
        raise InputError("say which metric decides: keep.metric=METRIC")
    return FilterOptions(
        run=str(plain["run"]),
        metric=resolve_metrics(plain["keep"]["metric"])[0].spec,
        above=plain["keep"]["above"],
        thresholds=path_of(plain["thresholds"]),
        precision=plain["precision"],
        dataset=plain["on"]["dataset"],
        dimension=plain["on"]["dimension"],
        output_dir=path_of(plain["output_dir"]),
        engine=plain["engine"],
        workers=plain["workers"],
        address=plain["ray"]["address"],
        configuration=plain,
    )
