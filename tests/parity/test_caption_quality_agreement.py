"""Agreement on Caption-Quality's real development fold, of which counts of yes and no are known.

Golden tier 2: each measure against another package, on the released counts expanded to answers by pandas alone.
"""

from __future__ import annotations

import csv

import krippendorff
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from captau.benchmarks.statistics.rating_table import fleiss_kappa
from captau.datasets.sources.caption_quality import CARD
from tests.conftest import run_captau


@pytest.fixture(scope="module")
def counts(data_root):
    """The answers no and yes of each pair, shape (2392, 2)."""
    path = data_root / CARD.sources[1].path
    table = pd.read_csv(path, sep="\t", keep_default_na=False, quoting=csv.QUOTE_NONE)
    good = table["COUNT_GOOD_RATINGS"]
    return pd.DataFrame({"no": table["COUNT_RATINGS"] - good, "yes": good}).to_numpy(int)


@pytest.fixture(scope="module")
def agreement(data_root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("agree") / "out"
    where = [f"data.root={data_root}", f"output_dir={folder}"]
    assert run_captau("agree", "dataset=caption_quality", "protocol.split=validation", *where) == 0
    return pd.read_csv(folder / "agreement.csv").set_index("measure")


@pytest.fixture(scope="module")
def answers(counts):
    """Each answer with the number of its pair: arrays (n_answers,) each."""
    pair = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    answer = np.concatenate([[0.0] * no + [1.0] * yes for no, yes in counts])
    return pair, answer


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_matches_krippendorff(level, agreement, counts):
    alpha = krippendorff.alpha(value_counts=counts, value_domain=[0, 1], level_of_measurement=level)
    assert agreement.loc[f"krippendorff_alpha_{level}", "value"] == pytest.approx(alpha, abs=1e-12)


def test_intraclass_correlation_follows_from_the_analysis_of_variance_of_scipy(agreement, counts):
    """Shrout and Fleiss 1979: (F - 1) / (F - 1 + k) and (F - 1) / F."""
    groups = [[0.0] * no + [1.0] * yes for no, yes in counts]
    f = stats.f_oneway(*groups).statistic
    n = counts.sum(axis=1)
    k = (n.sum() - (n**2).sum() / n.sum()) / (len(n) - 1)
    assert agreement.loc["icc1", "value"] == pytest.approx((f - 1) / (f - 1 + k))
    assert agreement.loc["icc1k", "value"] == pytest.approx((f - 1) / f)


@pytest.mark.dev
def test_fleiss_kappa_matches_statsmodels_and_the_draws_of_three_are_near(agreement, counts):
    """statsmodels needs equal numbers: pairs with nine answers; the command draws three of all pairs."""
    from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

    nine = counts[counts.sum(axis=1) == 9]
    matrix = np.array([[0.0] * no + [1.0] * yes for no, yes in nine])
    assert fleiss_kappa(matrix) == pytest.approx(statsmodels_fleiss(nine))
    rng = np.random.default_rng(7)
    drawn = rng.multivariate_hypergeometric
    kappas = [statsmodels_fleiss([drawn(pair, 3) for pair in counts]) for _ in range(10)]
    row = agreement.loc["fleiss_kappa"]
    assert row["value"] == pytest.approx(np.mean(kappas), abs=2 * row["std"])


def test_the_oracle_matches_kendalltau_of_scipy(agreement, counts, answers):
    pair, answer = answers
    mean = counts[:, 1] / counts.sum(axis=1)
    tau = stats.kendalltau(mean[pair], answer, variant="c").statistic
    assert agreement.loc["ceiling_oracle", "value"] == pytest.approx(tau)


def test_percent_agreement_follows_from_the_counts(agreement, counts):
    n = counts.sum(axis=1)
    share = (counts * (counts - 1)).sum(axis=1) / (n * (n - 1))
    assert agreement.loc["percent_agreement", "value"] == pytest.approx(share.mean())


def test_cohen_kappa_is_of_no_persons(agreement):
    assert "raters are anonymous" in agreement.loc["cohen_kappa", "note"]
