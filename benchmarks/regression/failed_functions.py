"""Functions of the user's that raise an error in a check: their rows say so, and the other metrics are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ...metrics.external import user_code_of
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.measured_dataset import MeasuredDataset, measure
from ..evaluation.scored_dataset import score_dataset
from ..runs.progress_bar import StepProgress
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from .baseline_file import Baseline, decimals_of
from .differences import Difference, score_text


def measure_without_failed(
    caption_set: CaptionSet, protocol: Protocol, metrics: Sequence[Metric], progress: StepProgress
) -> tuple[MeasuredDataset, dict[str, str]]:
    """Score and correlate metrics; leave out functions of the user's that raise an error.

    Returns:
        the measured dataset, and by the spec of a function the error that it raised.

    Raises:
        InputError: whatever else is wrong; and a function's error where no other metric is left.
    """
    store = ScoreStore(None)
    try:
        return measure(caption_set, protocol, metrics, store, progress), {}
    except InputError as error:
        # Which function raised it, and whether another does too, is found one by one.
        failures = _find_failures(caption_set, protocol, metrics, progress)
        remaining = [metric for metric in metrics if metric.spec not in failures]
        if not failures or not remaining:
            raise error

    return measure(caption_set, protocol, remaining, store, progress), failures


def _find_failures(
    caption_set: CaptionSet, protocol: Protocol, metrics: Sequence[Metric], progress: StepProgress
) -> dict[str, str]:
    """Return the errors of those functions of the user's that raise one, by spec."""
    selection = EvaluationSet.select(caption_set, protocol)
    failures: dict[str, str] = {}
    for metric in metrics:
        if not user_code_of(metric):
            continue
        try:
            score_dataset(selection, [metric], ScoreStore(None), progress)
        except InputError as error:
            failures[metric.spec] = str(error)

    return failures


def failure_differences(before: Baseline, failures: Mapping[str, str]) -> list[Difference]:
    """Return a failing line for each function that raised an error, in place of its scores."""
    digits = decimals_of(before.tolerance)
    lines: list[Difference] = []
    for name, message in failures.items():
        recorded = before.metrics[name]
        line = Difference(
            part="scores",
            metrics=(name,),
            subject=f"mean of all {recorded.items} items",
            before=score_text(recorded.mean, digits),
            now="error",
            cause=message,
        )
        lines.append(line)

    return lines
