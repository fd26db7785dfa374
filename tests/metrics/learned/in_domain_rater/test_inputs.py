"""What the captions of other images tell: against the Gaussians' own densities, and whose captions count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from captau.metrics.learned.in_domain_rater.inputs import SPHERICAL_SHARE, TEMPERATURES, Background
from captau.metrics.learned.in_domain_rater.recipe import InDomain
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD

pytestmark = pytest.mark.neural

IMAGES = {
    "1.jpg": ("a red circle", "one circle that is red", "a dog"),
    "2.jpg": ("two blue squares below a cat", "a cat above squares"),
    "3.jpg": ("a dog runs", "the dog is running on grass", "a running dog"),
}


def rows_of(images: dict[str, tuple[str, ...]], captions: list[str]) -> Rows:
    table = {"image_id": list(images), "caption": captions, "references": list(images.values())}
    return Rows(pd.DataFrame(table))


@pytest.fixture(scope="module")
def seen(tiny):
    """Three images whose captions are known, and texts of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPTAU_WEIGHTS", str(tiny))
        rows = rows_of(IMAGES, ["a cat", "a cat", "a red dog"])
        texts = InDomain().encode_texts(rows, "cpu")
        yield rows, texts, Background.learn(texts, rows)


def named(background: Background, texts, rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(background.compare(texts, rows)[0], columns=list(Background.NAMES))


def test_the_likelihood_ratio_is_that_of_two_gaussians(seen):
    """log p(candidate, references | one image) − log p(candidate) − log p(references)."""
    rows, texts, found = seen
    rng = np.random.default_rng(0)
    width = found.means.shape[1]
    axes = rng.normal(size=(width, width)) + 2 * np.eye(width)
    variances = rng.uniform(0.1, 3, width)
    one = replace(found, axes=np.stack([axes] * 4), variances=np.stack([variances] * 4))
    wording = np.linalg.inv(axes @ axes.T)
    back = np.linalg.inv(axes)
    between = back.T @ np.diag(variances) @ back
    for row, count in enumerate((3, 2, 3)):
        candidate = texts.sentences[texts.candidates[row], 3] - found.means[3]
        references = texts.sentences[texts.references[row], 3].mean(0) - found.means[3]
        alone = between + wording
        of_several = between + wording / count
        both = np.block([[alone, between], [between, of_several]])
        zero = np.zeros(width)
        expected = (
            multivariate_normal(np.zeros(2 * width), both).logpdf([*candidate, *references])
            - multivariate_normal(zero, alone).logpdf(candidate)
            - multivariate_normal(zero, of_several).logpdf(references)
        )
        ratio = named(one, texts, rows)["same_image_3_ratio"][row]
        assert ratio == pytest.approx(expected, rel=1e-4)


def test_along_the_axes_wording_is_round(seen):
    _, texts, found = seen
    owned = [texts.sentences[own, 2].astype(float) for own in texts.references]
    gaps = np.concatenate([own - own.mean(0) for own in owned])
    within = gaps.T @ gaps / (8 - 3)
    size = len(within)
    within = (1 - SPHERICAL_SHARE) * within + SPHERICAL_SHARE * np.trace(within) / size * np.eye(
        size
    )
    round_ = found.axes[2].T @ within @ found.axes[2]
    np.testing.assert_allclose(round_, np.eye(size), atol=1e-6)
    # Three images differ in two directions.
    assert (found.variances[2] > 1e-3).sum() == 2


def test_smoothing_is_the_weighted_mean_of_other_images(seen):
    _, _, found = seen
    rows = rows_of({"4.jpg": ("a green dog",)}, ["a cat runs"])
    texts = InDomain().encode_texts(rows, "cpu")

    def smoothed(vector, temperature):
        weights = np.exp(found.centroids @ vector / temperature)
        mean = weights @ found.centroids
        return mean / np.linalg.norm(mean)

    left, right = texts.sentences[[texts.candidates[0], texts.references[0][0]], 3]
    table = named(found, texts, rows)
    for t in TEMPERATURES:
        both = smoothed(left, t) @ smoothed(right, t)
        assert table[f"smoothed_{t:g}_both"][0] == pytest.approx(both, abs=1e-5)
        assert table[f"smoothed_{t:g}_left"][0] == pytest.approx(
            smoothed(left, t) @ right, abs=1e-5
        )
        assert table[f"smoothed_{t:g}_right"][0] == pytest.approx(
            left @ smoothed(right, t), abs=1e-5
        )


@pytest.mark.parametrize(
    ("caption", "references"),
    [
        ("A DOG runs .", ("a green dog",)),  # borrowed from the third image
        ("a cat", ("The dog is running on grass", "a green dog")),  # its own
    ],
)
def test_an_image_is_no_neighbour_of_its_own_captions(seen, caption, references):
    _, _, found = seen
    rows = rows_of({"4.jpg": references}, [caption])
    texts = InDomain().encode_texts(rows, "cpu")
    elsewhere = found.centroids.copy()
    elsewhere[2] = -elsewhere[2]
    moved = replace(found, centroids=elsewhere)
    np.testing.assert_array_equal(
        named(found, texts, rows).to_numpy(), named(moved, texts, rows).to_numpy()
    )
    elsewhere[1] = -elsewhere[1]  # another one's matters
    assert (named(moved, texts, rows) != named(found, texts, rows)).any(axis=None)


def test_without_neighbours_an_embedding_stays_what_it_is(seen):
    rows = rows_of({"1.jpg": IMAGES["1.jpg"]}, ["a cat"])
    texts = InDomain().encode_texts(rows, "cpu")
    table = named(Background.learn(texts, rows), texts, rows)
    centroid = texts.sentences[texts.references[0], 3].mean(0)
    cosine = texts.sentences[texts.candidates[0], 3] @ centroid / np.linalg.norm(centroid)
    smoothed = [n for n in Background.NAMES if n.startswith("smoothed")]
    np.testing.assert_allclose(table.loc[0, smoothed].to_numpy(float), cosine, atol=1e-5)


@pytest.mark.parametrize(
    "images",
    [
        {"1.jpg": ("a dog",)},
        {"1.jpg": ("a dog",), "2.jpg": ("a cat",)},
        {"1.jpg": tuple(AWKWARD), "2.jpg": ("a cat", "a cat")},
    ],
)
def test_few_captions_tell_little_but_nothing_undefined(seen, images):
    rows = rows_of(images, ["a red circle", ""][: len(images)])
    texts = InDomain().encode_texts(rows, "cpu")
    values, vectors = Background.learn(texts, rows).compare(texts, rows)
    assert np.isfinite(values).all()
    assert np.isfinite(vectors).all()
