"""Checks and scores of submissions, one evaluator for each kind of challenge."""

from __future__ import annotations

from ..definition import Challenge
from .caption_evaluator import CaptionEvaluator
from .evaluator import Evaluator
from .metric_evaluator import MetricEvaluator


def make_evaluator(challenge: Challenge) -> Evaluator:
    """Return the evaluator of a challenge's submissions."""
    return (CaptionEvaluator if challenge.kind == "captions" else MetricEvaluator)(challenge)


__all__ = ["make_evaluator"]
