"""The choice of the evaluator for a challenge."""

from __future__ import annotations

from ..definition import Challenge
from .caption_evaluator import CaptionEvaluator
from .evaluator import Evaluator
from .metric_evaluator import MetricEvaluator


def make_evaluator(challenge: Challenge) -> Evaluator:
    """Return the evaluator of a challenge's submissions."""
    return (CaptionEvaluator if challenge.kind == "captions" else MetricEvaluator)(challenge)
