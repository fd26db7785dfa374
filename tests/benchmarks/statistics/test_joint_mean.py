"""The mean of coefficients on datasets that share images, of statistics that are made up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from captau.benchmarks.statistics.coefficients.coefficient import (
    coefficient_names,
    find_coefficient,
)
from captau.benchmarks.statistics.joint_mean import (
    JOINT_KEY,
    JointPanel,
    JointPart,
    find_common_metrics,
    rescale,
)

NAN = float("nan")


def test_the_value_of_scores_that_say_nothing():
    assert {name: find_coefficient(name).chance for name in coefficient_names()} == {
        **dict.fromkeys(("tau_c", "tau_b", "tau_a", "gamma", "spearman", "pearson"), 0.0),
        **dict.fromkeys(("pairwise_difference_pearson", "kappa"), 0.0),
        **dict.fromkeys(("pairwise_accuracy", "auroc", "accuracy"), 0.5),
        **dict.fromkeys(("acc_eq", "soft_pairwise_accuracy", "average_precision")),
    }


@pytest.mark.parametrize(
    ("value", "coefficient", "expected"),
    [
        (0.25, "tau_c", 0.25),
        (-1.0, "tau_c", -1.0),
        (0.5, "accuracy", 0.0),
        (0.75, "accuracy", 0.5),
        (1.0, "accuracy", 1.0),
        (0.0, "auroc", -1.0),
    ],
)
def test_coefficients_on_one_scale(value, coefficient, expected):
    assert rescale(value, coefficient) == expected
    assert rescale(np.array([value]), coefficient).tolist() == [expected]


@dataclass
class Made:
    """A panel whose coefficients are the weighted sum of its points' images, times 1 and 2."""

    keys: list[tuple[str, str]]
    mask: np.ndarray | None

    def comparable_points(self, *metrics):
        return self.mask

    def prepare(self, metrics, mask, units):
        def statistic(weights):
            total = weights[units[0]].sum(axis=0) / 16
            return np.stack([total, 2 * total])

        return statistic


def test_the_mean_of_two_datasets_by_hand():
    """Images x, y and z; the first set has points of x, y and x, the second of z and y, and lacks the point of y."""
    keys = [("d", "tau_c"), ("d", "accuracy")]
    first = JointPart(Made(keys, np.array([True, True, True])), keys[0], ["x", "y", "x"])
    second = JointPart(Made(keys, np.array([True, False])), keys[1], ["z", "y"])
    panel = JointPanel.join([first, second], ["a", "b"])
    assert (panel.metrics, panel.keys, panel.n_images) == (("a", "b"), [JOINT_KEY], 3)
    assert panel.image.tolist() == panel.item.tolist() == [0, 1, 2]
    assert [images.tolist() for _, images in panel.parts] == [[0, 1, 0], [2, 1]]
    assert panel.defined_points("a").tolist() == [True] * 3
    assert panel.standardise("a", "b", np.ones(3, bool)) is None
    statistic = panel.prepare(["a"], np.ones(3, bool), [np.arange(3)])
    # (2·2 + 1) / 16 of the first; twice 6 / 16 is an accuracy of 0.75, and 0.5 on the scale of the mean.
    weights = np.array([[2.0, 0.0], [1.0, 0.0], [6.0, 4.0]])
    assert statistic(weights).tolist() == [[(5 / 16 + 0.5) / 2, 0.0]]
    nothing = JointPart(Made(keys, None), keys[0], ["x"])
    undefined = nothing.prepare(["a", "b"], [np.arange(1)] * 2, np.array([0]))
    assert np.isnan(undefined(np.ones((1, 3)))).all()
    assert undefined(np.ones((1, 3))).shape == (2, 3)


@pytest.mark.parametrize(
    ("values", "datasets", "metrics"),
    [
        ({}, [], []),
        ({"d": {"b": 1.0, "a": 0.0}}, ["d"], ["b", "a"]),
        ({"d": {"a": 1.0}, "e": {"a": NAN}}, ["d"], ["a"]),
        (
            {"d": {"b": 1.0, "a": 1.0}, "e": {"a": 1.0}, "f": {"a": 0.0, "b": 0.0}},
            ["d", "f"],
            ["b", "a"],
        ),
        ({"d": {"a": 1.0}, "e": {"b": 1.0}}, [], ["a", "b"]),
        ({"d": {"a": 1.0, "b": NAN}, "e": {"a": 1.0, "b": NAN}}, ["d", "e"], ["a"]),
    ],
)
def test_datasets_on_which_every_metric_has_a_value(values, datasets, metrics):
    assert find_common_metrics(values) == (datasets, metrics)
