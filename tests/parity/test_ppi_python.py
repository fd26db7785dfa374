"""Golden tier 2: the mean of ppi-python 0.2.3 (`ppi_mean_pointestimate`, `ppi_mean_ci`), recorded on inputs made here."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.statistics.prediction_powered import RatedSample, Scores, estimate_mean

#: n, N, noise; then ppi-python's estimate and the ends of its 95 % interval with the fitted λ, and its interval with λ = 0.
#: It was given the standardised scores; its unlabelled ones are those of the captions that are not rated.
RECORDED = [
    (
        (100, 1001, 0.5),
        3.0012558084085077,
        (2.9267224516729238, 3.0757891651440916),
        (2.8733225896720382, 3.0959995765265687),
    ),
    (
        (200, 501, 1.0),
        3.0017197541559875,
        (2.8966488541704005, 3.1067906541415744),
        (2.876315443283941, 3.1067534416081326),
    ),
    (
        (500, 5003, 0.2),
        3.0006862700300463,
        (2.983233652125174, 3.0181388879349185),
        (2.9599618705109645, 3.041504258992684),
    ),
]


def make_sample(n_rated: int, n_captions: int, noise: float) -> RatedSample:
    number = np.arange(n_captions, dtype=float)
    scores = np.sin(number * 1.7) + 0.3 * np.cos(number * 0.37)
    ratings = 3 + 0.6 * scores + noise * np.sin(number * 2.9 + 1)
    rated = (np.arange(n_rated) * 7) % n_captions
    images = np.arange(n_captions)
    return RatedSample.draw(Scores.of(scores[:, None]), images, rated, ratings[rated])


@pytest.mark.parametrize(("design", "estimate", "interval", "classical"), RECORDED)
def test_equal_to_ppi_python(
    design: tuple[int, int, float],
    estimate: float,
    interval: tuple[float, float],
    classical: tuple[float, float],
) -> None:
    mean = estimate_mean(make_sample(*design))
    n_rated, n_captions, _ = design

    # ppi-python divides λ's variance by N - 1, and here it is divided by N.
    alone = mean.classical.value
    correction = (mean.powered.value - alone) * (n_captions - 1) / n_captions
    assert alone + correction == pytest.approx(estimate, abs=1e-12)
    assert alone == pytest.approx(sum(classical) / 2, abs=1e-12)

    # It takes the normal distribution and no correction for the fitted λ, which ours tends to with n.
    normal = 1.959963984540054
    their_error = (interval[1] - interval[0]) / 2 / normal
    assert mean.powered.standard_error("images") == pytest.approx(their_error, rel=1.3 / n_rated)
    their_error = (classical[1] - classical[0]) / 2 / normal
    assert mean.classical.standard_error("images") == pytest.approx(their_error, rel=0.6 / n_rated)
