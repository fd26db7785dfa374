"""Complementarity: fits against scikit-learn, partial correlations by regression, and the command."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from captau.benchmarks.commands.complement import (
    COMPLEMENT_COLUMNS,
    CrossValidation,
    partial_correlation,
    run,
)
from captau.benchmarks.options.studies import ComplementOptions
from captau.benchmarks.scoring.catalog import resolve_metrics, usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import Locations
from tests.conftest import run_captau, says


def made(n_images: int = 40, seed: int = 0):
    """Two metrics that each know a part, one that knows nothing, and one that repeats the first."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(n_images), 4)
    a, b, noise = rng.normal(size=(3, len(image)))
    ratings = a + 0.5 * b + rng.normal(0, 0.5, len(image))
    return [a, 10 * b + 3, noise, 2 * a - 1], ratings, image


@pytest.mark.dev
def test_r2_and_tau_are_those_of_scikit_learn_on_the_same_folds():
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score

    scores, ratings, image = made()
    fit = CrossValidation.prepare(scores, ratings, image, seed=0)
    ones = np.ones(40)
    for chosen in ([0], [0, 1], [1, 2], [0, 1, 2]):
        x = np.stack([scores[c] for c in chosen], axis=1)
        predicted, plain = np.zeros(len(ratings)), np.zeros(len(ratings))
        for fold in range(5):
            held = fit.fold[image] == fold
            model = LinearRegression().fit(x[~held], ratings[~held])
            predicted[held] = model.predict(x[held])
            plain[held] = ratings[~held].mean()
        wanted = 1 - ((ratings - predicted) ** 2).sum() / ((ratings - plain) ** 2).sum()
        assert fit.r2(chosen, ones) == pytest.approx(wanted, abs=1e-9)
        assert fit.r2(chosen, ones) == pytest.approx(r2_score(ratings, predicted), abs=0.01)
        tau = stats.kendalltau(predicted, ratings).statistic
        assert fit.tau(chosen, ones) == pytest.approx(tau, abs=1e-9)


def test_folds_divide_images():
    scores, ratings, image = made()
    fit = CrossValidation.prepare(scores, ratings, image, seed=3)
    assert np.bincount(fit.fold).tolist() == [8] * 5
    assert not np.array_equal(
        fit.fold, CrossValidation.prepare(scores, ratings, image, seed=4).fold
    )


def test_weights_are_repeated_images():
    scores, ratings, image = made(12)
    weights = np.array([2.0, 0, 1, 1, 3, 1, 0, 1, 1, 1, 2, 1])
    fit = CrossValidation.prepare(scores, ratings, image, seed=0)
    place = np.concatenate(
        [np.tile(np.flatnonzero(image == i), int(w)) for i, w in enumerate(weights)]
    )
    # The same columns, repeated, in the same folds.
    repeated = CrossValidation(
        fit.columns[place], image[place], fit.grams * weights[:, None, None], fit.fold
    )
    ones = np.ones(12)
    assert fit.r2([0, 1], weights) == pytest.approx(repeated.r2([0, 1], ones), abs=1e-12)
    assert fit.tau([0, 1], weights) == pytest.approx(repeated.tau([0, 1], ones), abs=1e-9)


@pytest.mark.parametrize("criterion", ["r2", "tau_b"])
def test_selection_takes_what_adds_most(criterion):
    scores, ratings, image = made(200)
    path = CrossValidation.prepare(scores, ratings, image, seed=0).select(criterion, np.ones(200))
    order = [metric for metric, _ in path]
    assert {order[0], order[1]} in ({0, 1}, {3, 1})
    assert sorted(order) == [0, 1, 2, 3]
    reached = [value for _, value in path]
    assert reached[1] > reached[0] + 0.05
    assert reached[3] == pytest.approx(reached[1], abs=0.01)  # a copy and noise add nothing


def test_partial_correlation_is_that_of_residuals():
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    x, y = z + rng.normal(size=300), 2 * z + rng.normal(size=300)
    left = [v - np.poly1d(np.polyfit(z, v, 1))(z) for v in (x, y)]
    assert partial_correlation(x, y, z) == pytest.approx(stats.pearsonr(*left).statistic, abs=1e-12)
    assert partial_correlation(x, y, np.ones(300)) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert math.isnan(partial_correlation(z, y, z))


def test_the_command(tmp_path, capsys):
    assert (
        run_captau(
            "complement", "metrics=[rouge_1,rouge_2,cider]", "draws=3", f"output_dir={tmp_path}"
        )
        == 0
    )
    out = capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "complementarity.csv")
    assert tuple(rows.columns) == COMPLEMENT_COLUMNS
    matrix = rows[rows["kind"] == "correlation"]
    assert len(matrix) == 2 * 6  # three metrics and length, two coefficients
    chosen = rows[(rows["kind"] == "selection") & (rows["criterion"] == "r2")]
    assert sorted(set(chosen["metric"])) == ["cider", "rouge_1", "rouge_2"]
    often = rows[rows["kind"] == "inclusion"]
    assert often["value"].between(0, 1).all()
    # In each draw one metric is the first, and all are among the last.
    assert often.groupby(["criterion", "step"])["value"].sum().tolist() == [1, 2, 3] * 2
    assert "forward selection by R²" in out
    again = tmp_path / "again"
    run_captau("complement", "metrics=[rouge_1,rouge_2,cider]", "draws=3", f"output_dir={again}")
    assert (again / "complementarity.csv").read_bytes() == (
        tmp_path / "complementarity.csv"
    ).read_bytes()


def toy(scores: list[float], ratings: list[float], images: str, tmp_path):
    """A dataset of one's own with a metric from a file."""
    frame = pd.DataFrame(
        {"image": list(images), "caption": [f"c{i} x" for i in range(len(images))]}
    )
    frame.assign(value=ratings, references="a").to_csv(tmp_path / "own.csv", index=False)
    table = frame.rename(columns={"image": "image_id"}).assign(score=scores)
    table.to_csv(tmp_path / "scores.csv", index=False)
    protocol = Protocol.resolve("file", usual_protocol("file"), {})
    return ComplementOptions(
        datasets={"file": protocol},
        metrics=resolve_metrics([f"file(path={tmp_path}/scores.csv,name=Mine)", "rouge_1"]),
        draws=2,
        locations=Locations(
            use_cache=False, file_options={"path": str(tmp_path / "own.csv"), "low": 1, "high": 5}
        ),
    )


@pytest.mark.parametrize(
    ("scores", "ratings", "images", "reason"),
    [
        ([1, 2, 3], [1, 2, 3], "aaa", "1 images; two are needed"),
        ([1, 2, 3], [2, 2, 2], "abc", "no metric is defined"),
        ([2, 2, 2], [1, 2, 3], "abc", "no metric is defined"),
    ],
)
def test_undefined_says_why(scores, ratings, images, reason, tmp_path):
    found = run(toy(scores, ratings, images, tmp_path)).frames["complementarity.csv"]
    selection = found[found["kind"] == "selection"]
    assert selection["value"].isna().all()
    assert set(selection["note"]) == {f"undefined: {reason}"}
    # No caption has a word of its reference.
    constant = found[(found["kind"] == "partial") & (found["metric"] == "rouge_1")]
    assert constant["value"].isna().all()
    assert constant["note"].str.startswith("undefined: all").all()


def test_errors():
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    with says("name two at least"):
        run(ComplementOptions(datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1")))
    with says("draws is 0"):
        ComplementOptions(datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1"), draws=0)
    with says("draws is 1,000,000,000; at most 100,000 is expected"):
        ComplementOptions(
            datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1"), draws=10**9
        )
    with says("seed is -1"):
        ComplementOptions(datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1"), seed=-1)
