"""Options of `captau train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

from ...conf import group
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...metrics.base import Metric
from ...metrics.learned.common.recipe import Recipe, make_recipe
from ...metrics.neural.models import Device, resolve
from ..evaluation.training.training_designs import DESIGNS
from ..scoring.catalog import resolve_metrics
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from . import shared
from .declaration import Composed, Option, option, part

#: In a rater's file, an option that has no default.
_REQUIRED = "needed"


def _whole_numbers(value: Any, key: str) -> tuple[int, ...]:
    """Return one whole number, or several.

    Raises:
        InputError: where there is anything else.
    """
    numbers: Any = [value] if isinstance(value, int) else value
    if not isinstance(numbers, list | tuple) or not all(type(n) is int for n in numbers):
        raise InputError(f"{key} is {value!r}; whole numbers are expected, as {key}=0,1,2")
    return tuple(numbers)


def _rater_options(composed: Composed) -> dict[str, Any]:
    """Return the rater's name and options: those of its file, for the demo its own, then those typed.

    Raises:
        InputError: on a missing rater, or an option of it that is needed.
    """
    values = dict(composed["rater"])
    name = values.get("name")
    if name is None:
        raise InputError(f"the option rater=… is needed, one of {', '.join(group('rater'))}")
    for_demo = values.pop("demo", {})
    if set(composed["datasets"]) == {"demo"}:
        for key, value in for_demo.items():
            if f"rater.{key}" not in composed.typed:
                values[key] = value
    for key, value in values.items():
        if value == _REQUIRED:
            raise InputError(
                f"rater {name}: the option rater.{key}=… is needed; see captau train --help"
            )
    # A rater's card names its files wherever it is used from.
    return {k: _absolute(v) for k, v in values.items()}


def _absolute(value: Any) -> Any:
    """Return the path of a file that exists as one from the root; anything else as it is."""
    if not isinstance(value, str) or not (Path(value).suffix or "/" in value or "\\" in value):
        return value
    path = expand_home(value)
    return str(path.resolve()) if path.exists() else value


def _recipe_of(composed: Composed) -> Recipe:
    values = _rater_options(composed)
    return make_recipe(values.pop("name"), values)


def _configuration_of(composed: Composed) -> Mapping[str, Any]:
    return {**composed.plain, "rater": _rater_options(composed)}


def _keeps_raters(composed: Composed) -> bool:
    return composed["design"] != "folds" if composed["keep"] is None else composed["keep"]


def _device_of(value: Any, _: str) -> str:
    shared.check_choice("device", value, get_args(Device))
    return resolve(value)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(shared.ScoringOptions):
    """Options of `captau train`."""

    examples: ClassVar[str] = """
captau train rater=icr                                 on the embedded demo
captau train rater=icr seeds=0,1,2 metrics=text        three trainings, beside metrics that need none
captau train rater=icr dataset=cocog rater.images=vilbert_images.npz rater.texts=vilbert_texts.npz
"""
    notes: ClassVar[str] = """
rater.OPTION= sets an option of the rater; --cfg job shows them. protocol.* decide how predictions are judged. A training
that was stopped in output_dir goes on.
"""
    writes: ClassVar[str] = """
Writes a folder for each rater (rater.json and README.md, its card; its weights; training.csv), and training.csv,
correlations.csv, scores.parquet, table.md, table.tex, run.json; of raters that predict ratings rating_errors.csv (ρ and
mean squared error on validation and test); with metrics=… significance.csv, the differences of every two.
"""
    objective: ClassVar[str] = "the mean of the headline coefficients of the trained raters"

    recipe: Recipe = part(
        _recipe_of,
        Option("rater", None, "which rater (docs/raters.md)", takes="NAME", config_group="rater"),
    )
    datasets: dict[str, Protocol] = part(
        shared.protocols_of, *shared.DATASETS, shared.NAMED_PROTOCOL, *shared.PROTOCOL, *shared.FILE
    )
    configuration: Mapping[str, Any] = part(_configuration_of, default_factory=dict[str, Any])
    design: str = option(
        "split",
        "how images are divided; split: train on 64 %, choose on 16 % and test on 20 % of the "
        "images, or use the split that the data come with; transfer: split each dataset and test "
        "on all; folds: predict each fold of images by raters trained on the others; "
        "leave_one_out: predict each dataset by a rater trained on the others, without images that share an id or a "
        "reference with it; all: train one "
        "rater on everything, and test nothing",
        check=shared.one_of(DESIGNS, "value of design"),
    )
    folds: int = option(5, "the number of folds, with design=folds", check=shared.at_least(2))
    strict: bool = option(
        False,
        "true also leaves out the images of borrowed captions; with design=folds these are the "
        "images that a tested caption came from",
    )
    strict_control: bool = option(
        False,
        "true leaves out as many random images as strict=true; the difference shows what fewer "
        "images alone cost",
    )
    seeds: tuple[int, ...] = option(
        0,
        "the seeds of trainings and folds; with several, results are means and standard deviations",
        read=_whole_numbers,
        takes="N|A,B",
    )
    target: str | None = option(
        None, "the rated dimension to learn; the default is the only one, or overall, or total"
    )
    shuffled: bool = option(
        False,
        "true trains on ratings in random order; a rater should then learn nothing",
    )
    keep: bool = part(
        _keeps_raters,
        Option(
            "keep",
            None,
            "whether trained raters are kept (default: yes, except with design=folds)",
            bool | None,
            takes="true|false",
        ),
        default=True,
    )
    metrics: tuple[Metric, ...] = part(
        lambda composed: resolve_metrics(composed["metrics"]) if composed["metrics"] else (),
        shared.metrics_option(
            [], "suites and metrics to show beside the rater; they are computed on the same rows"
        ),
        default=(),
    )
    device: str = option("auto", "auto, cpu, cuda, mps", read=_device_of, type=str)
    threads: int | None = option(None, "the number of CPU threads", check=shared.at_least(1))
    details: bool = shared.details_option()
    statistics: StatisticsOptions = shared.statistics_part(
        "interval", "replicates", "level", "seed", "correction"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise InputError(
                f"seeds={','.join(map(str, self.seeds))}; different whole numbers from 0 on are expected"
            )
        if (self.strict or self.strict_control) and self.design != "folds":
            raise InputError("strict=true and strict_control=true need design=folds")
        if self.strict and self.strict_control:
            raise InputError("strict=true and strict_control=true are two runs; choose one")
