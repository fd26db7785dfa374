"""Options of `captau reproduce`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import unknown
from ...metrics.registry import metric_names
from .common import Locations, locations_of, plain_of


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper, as its file in `conf/paper/` describes it."""

    table: str
    kind: str
    dataset: str
    title: str
    scale: float
    protocol: dict[str, Any]
    rows: dict[str, Any]
    columns: dict[str, dict[str, Any]]
    note: str


@dataclass(frozen=True)
class ReproduceOptions:
    """What `captau reproduce` does: papers with their tables, but for some metrics."""

    papers: dict[str, tuple[PaperTable, ...]]
    leave_out: tuple[str, ...] = ()
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])


def reproduce_config(config: DictConfig) -> ReproduceOptions:
    """From the composed configuration of `captau reproduce`."""
    plain = plain_of(config)
    papers = {
        name: tuple(PaperTable(**table) for table in paper["tables"])
        for name, paper in plain["papers"].items()
    }
    for name in plain["leave_out"]:
        if name not in metric_names():
            raise unknown("metric", name, metric_names())
    return ReproduceOptions(papers, tuple(plain["leave_out"]), locations_of(plain), plain)
