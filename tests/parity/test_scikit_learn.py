"""Golden tier 2: what scikit-learn computes on the same answers and scores as `captau calibrate`."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.evaluation.judges.calibration import (
    Calibration,
    CalibrationChoices,
    LabelledScores,
    calibrate_scores,
)
from captau.benchmarks.evaluation.threshold_curves import ThresholdCurve
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.benchmarks.statistics.probabilities import ProbabilityBins, brier_score, fit_rule

pytestmark = pytest.mark.dev
SEEDS = (0, 1, 2)


def made(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties that tell something of 0 and 1."""
    rng = np.random.default_rng(seed)
    is_good = (rng.random(n) < 0.4).astype(float)
    return np.round(rng.normal(size=n) + is_good, 1), is_good


def calibrated(seed: int) -> tuple[Calibration, np.ndarray, np.ndarray, np.ndarray]:
    """Return a calibration, and scores, goodness and halves."""
    scores, is_good = made(seed)
    in_first = np.arange(len(scores)) % 2 == 0
    choices = CalibrationChoices("youden", 0.8, "isotonic", 5, StatisticsOptions(interval="none"))
    labelled = LabelledScores(scores, is_good, np.arange(len(scores)))
    return calibrate_scores(labelled, in_first, choices), scores, is_good, in_first


@pytest.mark.parametrize("seed", SEEDS)
def test_answers(seed: int) -> None:
    from sklearn import metrics

    calibration, scores, is_good, in_first = calibrated(seed)
    held_out = is_good[~in_first]
    answers = scores[~in_first] >= calibration.threshold
    tn, fp, fn, tp = metrics.confusion_matrix(held_out, answers).ravel()
    expected = {
        "tpr": tp / (tp + fn),
        "tnr": tn / (tn + fp),
        "precision": metrics.precision_score(held_out, answers),
        "npv": tn / (tn + fn),
        "accuracy": metrics.accuracy_score(held_out, answers),
        "kappa": metrics.cohen_kappa_score(held_out, answers),
        "auroc": metrics.roc_auc_score(held_out, scores[~in_first]),
        "share_good": held_out.mean(),
        "share_yes": answers.mean(),
    }
    assert {m: calibration.value(m) for m in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_roc_curve_and_youdens_threshold(seed: int) -> None:
    from sklearn.metrics import roc_curve

    calibration, scores, is_good, in_first = calibrated(seed)
    false, true, _ = roc_curve(is_good[~in_first], scores[~in_first], drop_intermediate=False)
    assert [row["fpr"] for row in calibration.roc] == pytest.approx(false.tolist())
    assert [row["tpr"] for row in calibration.roc] == pytest.approx(true.tolist())

    false, true, thresholds = roc_curve(is_good[in_first], scores[in_first])
    assert calibration.threshold == thresholds[np.argmax(np.round(true - false, 12))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_threshold_of_the_greatest_kappa(seed: int) -> None:
    from sklearn.metrics import cohen_kappa_score

    scores, is_good = made(seed)
    chosen = ThresholdCurve.compute(scores, is_good).choose("kappa", 0.8)
    kappas = {t: cohen_kappa_score(is_good, scores >= t) for t in np.unique(scores)}
    assert kappas[chosen] == pytest.approx(max(kappas.values()))


@pytest.mark.parametrize("seed", SEEDS)
def test_probabilities(seed: int) -> None:
    from sklearn.calibration import calibration_curve
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import brier_score_loss

    scores, is_good = made(seed)
    new_scores, new_good = made(seed + 100)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, is_good).predict(new_scores)
    isotonic = fit_rule("isotonic", scores, is_good)(new_scores)
    assert isotonic == pytest.approx(theirs, abs=1e-9)
    assert brier_score(isotonic, new_good) == pytest.approx(brier_score_loss(new_good, theirs))

    # Platt's targets are weights of a good and of a bad twin of each caption.
    n_good = is_good.sum()
    targets = np.where(is_good > 0, (n_good + 1) / (n_good + 2), 1 / (len(is_good) - n_good + 2))
    twins = np.concatenate([scores, scores])[:, None]
    kinds = np.repeat([1, 0], len(scores))
    fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        twins, kinds, sample_weight=np.concatenate([targets, 1 - targets])
    )
    expected = fit.predict_proba(new_scores[:, None])[:, 1]
    logistic = fit_rule("logistic", scores, is_good)(new_scores)
    assert logistic == pytest.approx(expected, abs=1e-5)

    bins = ProbabilityBins.cut(logistic, new_good, 8)
    observed, predicted = calibration_curve(new_good, logistic, n_bins=8, strategy="quantile")
    assert bins.observed == pytest.approx(observed)
    assert bins.predicted == pytest.approx(predicted)
