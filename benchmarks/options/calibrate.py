"""Options of `captau calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.table import Columns
from ...metrics.base import Metric
from ..evaluation.threshold_curves import THRESHOLD_RULES
from ..scoring.catalog import resolve_metrics
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.probabilities import RULES
from . import shared
from .analyses import CurveOptions
from .declaration import Composed, PythonValue, option, part
from .large import columns_part
from .score import CANDIDATES_FROM_PYTHON, REFERENCES_FROM_PYTHON, NamedFile, one_file_of

#: How a judge of pairs is asked; the presets of `judge_pairs`.
PAIR_PRESETS = ("pairwise", "pairwise_references")

_REPEATS = replace(
    shared.metrics_option(
        None,
        "further runs of the one metric of metrics=, such as score files of the same judge asked again",
    ),
    key="repeats",
)


def _thresholds_of(value: Any, key: str) -> float | dict[str, float] | None:
    """Return one threshold of all metrics, or one a metric; None for None.

    Raises:
        InputError: where there is anything else.
    """
    if value is None:
        return None
    if _is_number(value):
        return float(value)
    if isinstance(value, Mapping) and all(map(_is_number, value.values())):
        return {str(metric): float(threshold) for metric, threshold in value.items()}

    raise InputError(
        f"{key} is {value!r}; a number is expected, or one for each metric, as {key}={{cider: 0.8, bleu_4: 0.3}}"
    )


def _is_number(value: Any) -> bool:
    # To `isinstance`, true and false would be whole numbers.
    return type(value) in (int, float)


def _pairs_of(value: Any, key: str) -> str | Path | None:
    """Return how a judge of pairs is asked, or the file of its answers.

    Raises:
        InputError: on what is neither.
    """
    if value is None or value in PAIR_PRESETS:
        return value

    path = expand_home(str(value))
    if not path.is_file():
        raise InputError(
            f"{key} is '{value}', neither {' nor '.join(PAIR_PRESETS)} nor a file of answers that is here"
        )
    return path


def _repeats_of(composed: Composed) -> tuple[Metric, ...]:
    typed = composed.get("repeats")
    return resolve_metrics(typed) if typed else ()


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(CurveOptions, shared.MeasuringOptions):
    """Options of `captau calibrate`."""

    examples: ClassVar[str] = """
captau calibrate                                       the embedded demo
captau calibrate dataset=hat metrics=rouge_l,cider
captau calibrate dataset=flickr8k_expert metrics=judge.csv threshold=0.5
captau calibrate dataset=flickr8k_expert metrics=cider candidates=mine.json references=refs.json
captau calibrate dataset=flickr8k_expert metrics=judge.csv repeats=again.csv
"""
    notes: ClassVar[str] = """
A caption gets a yes where its score reaches a threshold. The threshold is chosen, and the rule of probabilities fitted, on one
half of the images, drawn at random; all else is measured on the other half (docs/calibrate.md).
"""
    writes: ClassVar[str] = """
Writes calibration.csv, bins.csv, roc.csv, reliability.svg and .png, roc.svg and .png, table.md, table.tex, table.csv, run.json.
"""
    objective: ClassVar[str] = (
        "the first metric's κ with people on the second half, the mean over datasets and dimensions"
    )
    references_replace_datasets: ClassVar[bool] = False

    choose: str = option(
        "youden",
        "what the threshold is chosen for; youden (the greatest TPR + TNR), kappa, or precision (the greatest recall at "
        "precision=)",
        takes="RULE",
        check=shared.one_of(THRESHOLD_RULES, "value of choose"),
    )
    threshold: float | dict[str, float] | None = option(
        None,
        "captions with this score or a better one get a yes, instead of a chosen threshold; a number, or one a metric: "
        "{cider: 0.8}",
        takes="SCORE|{..}",
        type=Any,
        read=_thresholds_of,
        python=PythonValue("float | Mapping[str, float] | None"),
    )
    probabilities: str = option(
        "logistic",
        "the rule from scores to probabilities of a good caption; logistic, isotonic, or none, where scores are "
        "probabilities",
        takes="RULE",
        check=shared.one_of(RULES, "rule of probabilities"),
    )
    bins: int = option(
        10, "the most bins of the reliability diagram", check=shared.at_least(2, 1000)
    )
    repeats: tuple[Metric, ...] = part(_repeats_of, _REPEATS, default=())
    pairs: str | Path | None = option(
        None,
        "a judge's answers about the pairs of datasets with preferences: a file with the columns image, caption_a, caption_b, "
        "answer and order (ab or ba), or pairwise or pairwise_references, which ask each mllm_judge of metrics= in both orders, "
        "with the image or with the references",
        takes="FILE|PRESET",
        read=_pairs_of,
        python=PythonValue("str | Path | None"),
    )
    candidates: NamedFile | None = option(
        None,
        "captions that nobody judged, in the forms that captau score takes; adds the share of bad ones, corrected for "
        "the metric's errors",
        read=lambda value, key: one_file_of(value, key, "captau calibrate"),
        takes="FILE",
        is_literal=True,
        python=replace(CANDIDATES_FROM_PYTHON, annotation="Captions | None"),
    )
    references: NamedFile | None = option(
        None,
        "captions by image, for candidates=",
        read=lambda value, key: one_file_of(value, key, "captau calibrate"),
        takes="FILE",
        is_literal=True,
        python=replace(REFERENCES_FROM_PYTHON, annotation="References | None"),
    )
    columns: Columns = columns_part()
    statistics: StatisticsOptions = shared.statistics_part(
        "interval",
        "replicates",
        "level",
        "seed",
        interval="expanded, percentile or bca (bootstrap over images), with which shares have Wilson's, or none",
        seed="the seed of the halves and of all other draws",
    )
    details: bool = shared.details_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        shared.check_not_fisher(self.statistics)
        if self.references and not self.candidates:
            raise InputError("references= is for the captions of candidates=FILE; name them too")
        if self.repeats and len(self.metrics) != 1:
            raise InputError(
                f"repeats= are further runs of one metric; metrics= names {len(self.metrics)}"
            )
        if isinstance(self.threshold, Mapping):
            specs = [metric.spec for metric in self.metrics]
            for metric in self.threshold:
                shared.check_choice("metric of threshold", metric, specs)

    def threshold_of(self, metric: str) -> float | None:
        """Return the given threshold of a metric; None where one is to be chosen."""
        if isinstance(self.threshold, Mapping):
            return self.threshold.get(metric)
        return self.threshold
