"""Options of `captau rank`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ..evaluation.systems.controlled_ranking import FEATURES
from ..scoring.protocol import ALL_DIMENSIONS, Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.bradley_terry import TIE_MODELS
from . import shared
from .declaration import Composed, option, part

#: What systems can be ranked by.
SOURCES = ("ratings", "preferences")


def _weights_of(value: Any, _: str) -> dict[str, float]:
    """Return weights by dimension; none for None.

    Raises:
        InputError: where there is anything else.
    """
    is_number = isinstance(value, Mapping) and all(type(w) in (int, float) for w in value.values())
    if value is not None and not is_number:
        raise InputError(
            f"rank.weights is {value!r}; a number for each dimension is expected, as "
            "rank.weights={precision: 0.5, recall: 0.5}"
        )
    return {str(dimension): float(weight) for dimension, weight in (value or {}).items()}


def _protocols_of_systems(composed: Composed) -> dict[str, Protocol]:
    """Return each dataset's protocol, of every dimension unless some are named."""
    protocols = shared.protocols_of_people(composed)
    if composed.get("protocol.dimension") is not None:
        return protocols
    by_dataset: dict[str, Protocol] = {}
    for name, protocol in protocols.items():
        by_dataset[name] = replace(protocol, dimension=(ALL_DIMENSIONS,))
    return by_dataset


@dataclass(frozen=True, kw_only=True)
class RankOptions(shared.MeasuringOptions):
    """Options of `captau rank`."""

    examples: ClassVar[str] = """
captau rank dataset=thumb
captau rank dataset=thumb statistics.level=0.9         the intervals that Kasai et al. 2022 print
captau rank dataset=thumb 'rank.weights={precision: 0.5, recall: 0.5}'
captau rank dataset=file file.path=ratings.csv file.system=system
captau rank dataset=file file.path=pairs.csv rank.ties=rao_kupper      preferences between two captions
captau rank dataset=file file.path=pairs.csv control=length            with the captions' length held equal
"""
    writes: ClassVar[str] = """
Writes systems.csv, best_worst.csv, system_tests.csv, metric_orders.csv; by preferences wins.csv, elo.csv and, with control=, controls.csv; table.md, table.tex, run.json.
docs/rank.md explains what they hold.
"""
    objective: ClassVar[str] = (
        "the share of pairs of systems that the first metric puts in people's order (metrics=), of "
        "several datasets the mean"
    )

    datasets: dict[str, Protocol] = part(
        _protocols_of_systems,
        *shared.DATASETS,
        shared.NAMED_PROTOCOL,
        *shared.PROTOCOL,
        *shared.FILE,
    )
    weights: dict[str, float] = option(
        None,
        "adds a weighted total of dimensions: {precision: 0.5, recall: 0.5}; penalties and faults "
        "have negative weights",
        key="rank.weights",
        read=_weights_of,
        takes="{..}",
    )
    by: str | None = option(
        None,
        "ratings or preferences (default: ratings if the dataset has them)",
        key="rank.by",
        check=shared.one_of(SOURCES),
    )
    ties: str = option(
        "davidson",
        "the model of ties between two captions: davidson, rao_kupper",
        key="rank.ties",
        check=shared.one_of(TIE_MODELS),
    )
    control: tuple[str, ...] = option(
        None,
        "of preferences, adds a ranking with these features of captions held equal: {values}, or a metric of metrics=, such "
        "as a column of your own (metrics=mine.csv control=mine)",
        takes="FEATURE|A,B",
        read=shared.words_of,
        values=lambda: FEATURES,
    )
    best_worst: tuple[str, ...] = option(
        None,
        "the dimensions in which a system must be best, or worst, at once (default: all except "
        "penalties and totals)",
        key="rank.best_worst",
        takes="A,B",
        read=shared.words_of,
    )
    statistics: StatisticsOptions = shared.statistics_part(
        "interval",
        "replicates",
        "level",
        "seed",
        "correction",
        interval="expanded, percentile or bca, by resampling images; with none, nothing is tested",
    )

    details: bool = shared.details_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        shared.check_not_fisher(self.statistics)
        features = [*FEATURES, *(metric.spec for metric in self.metrics)]
        for name in self.control:
            shared.check_choice("feature", name, features)
