"""Classes that stand in for pycocoevalcap's and for other packages' metric interfaces."""

from captau.benchmarks.scoring.coco_compat import AccumulatedMetric, COCOEvalCap, EvaluateMetric

__all__ = ["AccumulatedMetric", "COCOEvalCap", "EvaluateMetric"]
