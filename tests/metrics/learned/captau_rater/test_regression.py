"""captau's rater that learns from ratings: its kernel regression, its similarities, and all of it on the demo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from captau.metrics.learned.captau_rater import similarities
from captau.metrics.learned.captau_rater.kernel_ridge import PENALTIES, fit_kernel_ridge
from captau.metrics.learned.captau_rater.recipe import Captau, compute_midranks
from captau.metrics.learned.captau_rater.similarities import (
    compute_comparison_vectors,
    compute_similarities,
)
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.common.weight_files import load_tensors, save_tensors
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, lend_tables, says
from tests.metrics.learned.demo_ratings import demo_examples, make_rows, shuffle_ratings

REGRESSION = Captau(learns_from="ratings", spice=False)


@pytest.fixture(scope="module")
def trained(encoders):
    """A rater of the demo's training images."""
    return REGRESSION.fit(demo_examples("train"), demo_examples("validation"), TrainingSession(3))


# Kernel regression


@pytest.mark.neural
def test_with_all_rows_as_landmarks_it_is_kernel_ridge_regression():
    from sklearn.kernel_ridge import KernelRidge

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=60)
    fitted = fit_kernel_ridge(x, y, np.arange(60), rng, shares=np.array([1, 1, 0.5, 0]))
    z = np.clip((x - x.mean(0)) / x.std(0), -4, 4) * [1, 1, 0.5, 0]
    distances = np.sqrt(((z[:, None] - z) ** 2).sum(2))
    assert fitted.numbers[1] == pytest.approx(np.median(distances), rel=1e-5)
    table = np.exp(-distances / np.median(distances))
    expected = [
        y.mean()
        + KernelRidge(alpha=penalty, kernel="precomputed").fit(table, y - y.mean()).predict(table)
        for penalty in PENALTIES
    ]
    found = fitted.predict(x)
    assert min(np.abs(found - e).max() for e in expected) < 1e-3


def test_a_constant_input_has_no_effect():
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=50), np.full(50, 7.0)])
    fitted = fit_kernel_ridge(x, x[:, 0], np.arange(50), rng, shares=np.ones(2))
    other = x.copy()
    other[:, 1] = -100
    np.testing.assert_array_equal(fitted.predict(x), fitted.predict(other))


def test_targets_are_mean_mid_ranks_by_dataset():
    rows = Rows(pd.DataFrame({"caption": ["a", "b", "c"], "dataset": ["one", "one", "two"]}))
    ratings = (np.array([0.0, 0.0]), np.array([0.0, 1.0]), np.array([0.5]))
    found = compute_midranks(Examples(rows, ratings, np.empty((0, 2), dtype=np.intp)))
    # Of one's four ratings three are 0, of mid-rank 2, and one is 1, of rank 4; (2 - ½)/4, (4 - ½)/4.
    np.testing.assert_allclose(found, [0.375, (0.375 + 0.875) / 2, 0.5])


# Similarities


def test_a_caption_that_is_its_reference_has_similarity_1(encoders):
    rows = make_rows(["a red circle", "a blue square left of a dog"], ("a red circle",))
    texts = REGRESSION.encode_texts(rows, "cpu")
    names, values = compute_similarities(texts, rows, has_spice=False)
    table = pd.DataFrame(values, columns=names)
    ones = [n for n in names if n.startswith(("cosine", "centroid", "precision", "f_", "rouge_l"))]
    np.testing.assert_allclose(table.loc[0, ones].to_numpy(), 1.0, atol=2e-3)
    assert (table.loc[1, ones] < 1.0).all()
    assert len(set(names)) == values.shape[1]
    vectors = compute_comparison_vectors(texts)
    assert vectors.shape == (2, 8 * 32)
    np.testing.assert_allclose(vectors[0].reshape(2, 4, 32)[1], 0, atol=1e-3)


def test_tokens_are_matched_as_bertscore_matches_them(encoders):
    """By loops over pairs of tokens, special ones left out, of two references of unequal length."""
    rows = make_rows(["a red circle above a cat"], ("a red circle", "two blue squares below a cat"))
    texts = REGRESSION.encode_texts(rows, "cpu")
    names, values = compute_similarities(texts, rows, has_spice=False)
    found = dict(zip(names, values[0], strict=True))
    candidate, *references = (
        s[1:-1, 3] / np.linalg.norm(s[1:-1, 3], axis=1, keepdims=True)
        for s in texts.states([texts.candidates[0], *texts.references[0]])
    )
    # The special tokens weigh nothing, but are there to be matched with.
    whole = [
        s[:, 3] / np.linalg.norm(s[:, 3], axis=1, keepdims=True)
        for s in texts.states([texts.candidates[0], *texts.references[0]])
    ]
    precision = [np.mean([max(t @ u for u in r) for t in candidate]) for r in whole[1:]]
    recall = [np.mean([max(t @ u for u in whole[0]) for t in r]) for r in references]
    assert found["precision_3_max"] == pytest.approx(max(precision), abs=1e-5)
    assert found["recall_3_mean"] == pytest.approx(np.mean(recall), abs=1e-5)


# The whole rater


def test_save_and_load_give_the_same_to_the_bit(trained, encoders, tmp_path):
    test = demo_examples("test").rows
    before = trained.predict(test)
    trained.save(tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".safetensors"}
    np.testing.assert_array_equal(REGRESSION.load(tmp_path).predict(test), before)
    assert np.ptp(before) > 0


def test_order_company_and_order_of_references_do_not_matter(
    trained, encoders, tmp_path, monkeypatch
):
    frame = demo_examples("test").rows.frame
    before = trained.predict(Rows(frame))
    turned = frame.assign(references=[tuple(reversed(r)) for r in frame["references"]])
    some = np.random.default_rng(0).permutation(len(frame))[:7]
    np.testing.assert_allclose(trained.predict(Rows(turned.iloc[some])), before[some], atol=1e-6)
    lend_tables(tmp_path)
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))  # where no state is kept yet
    for i in some[:3]:
        # States are kept as 16 bits, the last of which may turn with the batch.
        assert trained.predict(Rows(turned.iloc[[i]]))[0] == pytest.approx(before[i], abs=2e-4)


def test_awkward_captions_have_finite_scores(trained, encoders):
    for references in (("a dog runs",), tuple(AWKWARD)):
        assert np.isfinite(trained.predict(make_rows(AWKWARD, references))).all()
    with says("rater captau needs references, and row 0 has none"):
        trained.predict(Rows(pd.DataFrame({"caption": ["a"], "references": [()]})))


def test_files_that_do_not_fit_are_refused(trained, encoders, tmp_path):
    trained.save(tmp_path)
    tensors, card = load_tensors(tmp_path / "regression.safetensors")
    save_tensors(tmp_path / "regression.safetensors", tensors, {**card, "names": '["length"]'})
    with says("trained on other similarities than this version computes"):
        REGRESSION.load(tmp_path).predict(demo_examples("test").rows)
    save_tensors(
        tmp_path / "regression.safetensors", {**tensors, "more": tensors["mean"].clone()}, card
    )
    with says("regression.safetensors", "the weights of another architecture"):
        REGRESSION.load(tmp_path)
    (tmp_path / "regression.safetensors").unlink()
    with says("regression.safetensors", "cannot be read"):
        REGRESSION.load(tmp_path)
    with says("the same rating"):
        same = demo_examples("train")
        REGRESSION.fit(
            replace(same, ratings=tuple(r * 0 for r in same.ratings)),
            demo_examples("test").take(np.empty(0, dtype=np.intp)),
            TrainingSession(0),
        )


@pytest.mark.neural
@pytest.mark.training
def test_it_learns_the_demos_rule_and_nothing_from_shuffled_ratings(monkeypatch):
    """With the real encoder's frozen features: seconds."""
    monkeypatch.delenv("CAPTAU_WEIGHTS", raising=False)
    frozen = REGRESSION
    train, test = demo_examples("train"), demo_examples("test")
    no_validation = train.take(np.empty(0, dtype=np.intp))

    def correlation(examples: Examples) -> float:
        predictions = frozen.fit(examples, no_validation, TrainingSession(0)).predict(test.rows)
        return float(
            np.corrcoef(pd.Series(predictions).rank(), pd.Series(test.mean_ratings).rank())[0, 1]
        )

    assert correlation(train) > 0.6
    assert abs(correlation(shuffle_ratings(train))) < 0.4


def test_the_parser_is_here_if_all_its_files_are(monkeypatch):
    for missing in ([], ["one.jar"]):
        monkeypatch.setattr(
            similarities.spice_models, "missing_jars", lambda folder, files=missing: files
        )
        assert similarities.has_parser() is (not missing)
