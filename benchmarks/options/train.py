"""Options of `captau train`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from omegaconf import DictConfig

from ...conf import group
from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ...metrics.learned.common.recipe import Recipe, make_recipe
from ...metrics.neural.device import Device, resolve
from ..scoring.catalog import resolve_metrics
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from .common import Locations, datasets_of, locations_of, plain_of, statistics_of, whole_numbers

#: In a rater's file, an option that has no default.
NEEDED = "needed"

DESIGNS = ("split", "transfer", "folds", "leave_one_out")


@dataclass(frozen=True)
class TrainOptions:
    """What `captau train` does.

    Attributes:
        recipe: the rater with its options.
        datasets: with their protocols, by which predictions are judged.
        design: which images are trained, chosen and tested on; see `train`.
        folds: how many, for `design=folds`.
        strict: whether folds leave out of training the images that a tested caption was borrowed from.
        seeds: one training of each job for each.
        target: the dimension to learn; None where there is no choice.
        shuffled: train on ratings in another order: the control that every rater must beat.
        keep: whether the raters stay; after `design=folds` they do not as a rule.
        metrics: what the predictions are compared with, on the same rows.
        device, threads: of torch.
    """

    recipe: Recipe
    datasets: dict[str, Protocol]
    design: str = "split"
    folds: int = 5
    strict: bool = False
    seeds: tuple[int, ...] = (0,)
    target: str | None = None
    shuffled: bool = False
    keep: bool = True
    metrics: tuple[Metric, ...] = ()
    device: str = "cpu"
    threads: int | None = None
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise unknown("value of design", self.design, DESIGNS)
        if self.folds < 2:
            raise InputError(f"folds is {self.folds}; a whole number from 2 on is expected")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"threads is {self.threads}; a whole number from 1 on is expected")
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise InputError(
                f"seeds is {list(self.seeds)}; different whole numbers from 0 on are expected"
            )
        if self.strict and self.design != "folds":
            raise InputError("strict=true is of design=folds")


def train_config(config: DictConfig, given: Iterable[str] = ()) -> TrainOptions:
    """From the composed configuration of `captau train`.

    Args:
        given: the overrides as typed, `rater.epochs=10`: these stand against what a rater's file has
            for the demo.

    Raises:
        InputError: on a missing rater, or an option that makes no sense.
    """
    plain = plain_of(config)
    options = dict(plain["rater"])
    name = options.pop("name", None)
    if name is None:
        raise InputError(f"the option rater=… is needed: {', '.join(group('rater'))}")
    for_demo = options.pop("demo", {})
    typed = {word.partition("=")[0].lstrip("+") for word in given}
    if set(plain["datasets"]) == {"demo"}:
        options |= {k: v for k, v in for_demo.items() if f"rater.{k}" not in typed}
    lacking = [k for k, v in options.items() if v == NEEDED]
    if lacking:
        raise InputError(
            f"rater {name}: the option rater.{lacking[0]}=… is needed; see captau train --help"
        )
    if plain["device"] not in get_args(Device):
        raise unknown("device", plain["device"], get_args(Device))
    # A rater's card names its files wherever it is used from.
    options = {k: _absolute(v) for k, v in options.items()}
    seeds: Any = plain["seeds"]
    design = plain["design"]
    return TrainOptions(
        recipe=make_recipe(name, options),
        datasets=datasets_of(plain),
        design=design,
        folds=plain["folds"],
        strict=plain["strict"],
        seeds=whole_numbers(seeds, "seeds"),
        target=plain["target"],
        shuffled=plain["shuffled"],
        keep=design != "folds" if plain["keep"] is None else plain["keep"],
        metrics=resolve_metrics(plain["metrics"]) if plain["metrics"] else (),
        device=resolve(plain["device"]),
        threads=plain["threads"],
        statistics=statistics_of(plain["statistics"]),
        locations=locations_of(plain),
        configuration={**plain, "rater": {"name": name, **options}},
    )


def _absolute(value: Any) -> Any:
    """A path of something that is here as one from the root; anything else as it is."""
    if not isinstance(value, str) or not (Path(value).suffix or "/" in value or "\\" in value):
        return value
    path = Path(value).expanduser()
    return str(path.resolve()) if path.exists() else value
