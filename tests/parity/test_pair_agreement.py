"""Agreement of people on votes about pairs, against krippendorff and scikit-learn, each pair in both orders.

Golden tier 2: the votes of VALSE's and PASCAL-50S's pairs as captau loads them; the measures by the other packages.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
import pytest

import captau
from tests.conftest import run_captau

#: A dataset with a dimension and its number of pairs.
SETS = [("valse", "foil_it", 124), ("valse", "relations", 70), ("pascal50s_votes", "HC", 1000)]


def votes_in_both_orders(dataset: str, dimension: str, data_root: Path) -> pd.DataFrame:
    """Return the votes, a row a pair in one order and a column a rater."""
    preferences = captau.load(dataset, root=data_root).preferences
    own = preferences[preferences["dimension"] == dimension]
    own = own.assign(pair=own["item_a"] + "|" + own["item_b"])
    votes = own.pivot_table(index="pair", columns="rater", values="strength")
    return pd.concat([votes, -votes], ignore_index=True)


@pytest.mark.dev
@pytest.mark.parametrize(("dataset", "dimension", "n_pairs"), SETS)
def test_agreement_on_votes(
    dataset: str, dimension: str, n_pairs: int, data_root: Path, tmp_path: Path
) -> None:
    from sklearn.metrics import cohen_kappa_score

    out = tmp_path / "out"
    words = [f"dataset={dataset}", f"data.root={data_root}", "draws=2", f"output_dir={out}"]
    assert run_captau("agree", *words) == 0
    rows = pd.read_csv(out / "agreement.csv").set_index("measure")
    votes = votes_in_both_orders(dataset, dimension, data_root)
    assert len(votes) == 2 * n_pairs
    assert rows.loc[f"{dimension}:percent_agreement", "n_items"] == n_pairs

    table = votes.to_numpy(dtype=float).T
    for level in ("nominal", "ordinal", "interval"):
        alpha = krippendorff.alpha(table, level_of_measurement=level)
        value = rows.loc[f"{dimension}:krippendorff_alpha_{level}", "value"]
        assert value == pytest.approx(alpha, abs=1e-9)

    kappas: list[float] = []
    equal: list[pd.Series] = []
    for first, second in combinations(votes.columns, 2):
        both = votes[[first, second]].dropna()
        kappas.append(cohen_kappa_score(both[first], both[second], weights="quadratic"))
        equal.append((both[first] == both[second]).reindex(votes.index))
    value = rows.loc[f"{dimension}:cohen_kappa_quadratic", "value"]
    assert value == pytest.approx(np.mean(kappas), abs=1e-9)
    # The share of equal pairs of votes by pair of captions, and its mean.
    shares = pd.concat(equal, axis=1).astype(float).mean(axis=1)
    value = rows.loc[f"{dimension}:percent_agreement", "value"]
    assert value == pytest.approx(shares.mean(), abs=1e-9)
