"""Metrics' scores of a small dataset and their agreement with people: by hand and against SciPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.measured_dataset import (
    MeasuredDataset,
    ScoredDataset,
    build_panels,
    correlate_dataset,
    join_correlations,
    join_scores,
    measure,
    score_dataset,
)
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.runs.results import CORRELATION_COLUMNS, SCORE_COLUMNS
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import ScoreStore
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.base import Floats, Metric
from captau.metrics.rows import Rows
from tests.conftest import says

TEXTS = ["a", "a b", "a b c", "a b c d", "a b", "a"]
VALUES = [1.0, 2.0, 4.0, 3.0, 0.0, 5.0]
#: First and second caption, and strength.
PAIRS = [(0, 1, -1.0), (2, 3, 1.0), (4, 5, 2.0), (5, 4, -1.0)]


@dataclass(frozen=True)
class Words(Metric):
    """Counts words; an instance may say that fewer are better."""

    label: str = "words"

    @property
    def name(self) -> str:
        return self.label

    @property
    def spec(self) -> str:
        return self.label

    def compute(self, rows: Rows) -> Floats:
        return np.array([float(len(caption.split())) for caption in rows.captions])


@dataclass(frozen=True)
class Fewer(Words):
    label: str = "fewer"
    higher_is_better: ClassVar[bool] = False


def captions(*, pairs: bool = False) -> CaptionSet:
    items = make_items([str(n // 2) for n in range(6)], TEXTS, [("r",)] * 6)
    ids = items["item_id"].tolist()
    rows = {"item_id": ids, "dimension": "x", "rater": "r", "value": VALUES}
    answers = [
        (f"p{n}", ids[a], ids[b], "fit", s) for n, (a, b, s) in enumerate(PAIRS if pairs else ())
    ]
    card = Card(*("made", "Made", "1", "", "", ""), scales={"x": Scale(0, 9)})
    return CaptionSet(items, pd.DataFrame(rows), make_preferences(answers), card=card)


def scored(*metrics: Metric, pairs: bool = False, **changes: Any) -> ScoredDataset:
    protocol = Protocol.resolve("made", {}, changes)
    selection = EvaluationSet.select(captions(pairs=pairs), protocol)
    return score_dataset(selection, metrics or (Words(),), ScoreStore(None), StepProgress(None))


def correlate(
    *metrics: Metric, options: Any = None, pairs: bool = False, **changes: Any
) -> MeasuredDataset:
    return correlate_dataset(
        scored(*metrics, pairs=pairs, **changes), StepProgress(None), **(options or {})
    )


N_WORDS = [1.0, 2.0, 3.0, 4.0, 2.0, 1.0]


def test_scores_are_by_item_and_more_is_better() -> None:
    found = scored(Words(), Fewer())
    ids = found.selection.items["item_id"].tolist()
    assert {m: s.to_dict() for m, s in found.by_metric.items()} == {
        name: dict(zip(ids, N_WORDS, strict=True)) for name in ("words", "fewer")
    }
    assert found.oriented["words"].tolist() == N_WORDS
    assert found.oriented["fewer"].tolist() == [-n for n in N_WORDS]
    frame = found.frame
    assert tuple(frame.columns) == SCORE_COLUMNS
    assert frame["metric"].tolist() == ["words"] * 6 + ["fewer"] * 6
    assert frame["score"].tolist() == N_WORDS * 2
    assert set(frame["dataset"]) == {"made"}
    assert frame.index.tolist() == list(range(12))
    ordered = found.in_order()
    assert ordered.by_metric["words"].index.tolist() == ordered.selection.items["item_id"].tolist()
    assert sorted(ordered.by_metric["words"]) == sorted(N_WORDS)
    assert tuple(join_scores([]).columns) == SCORE_COLUMNS
    assert tuple(join_correlations([]).columns) == CORRELATION_COLUMNS


def test_coefficients_are_those_of_scipy() -> None:
    found = measure(
        captions(),
        Protocol.resolve("made", {}, {}),
        [Words(), Fewer()],
        ScoreStore(None),
        StepProgress(None),
    )
    table = found.correlations.set_index(["metric", "coefficient"])["value"]
    expected = {
        "tau_b": stats.kendalltau(N_WORDS, VALUES).statistic,
        "tau_c": stats.kendalltau(N_WORDS, VALUES, variant="c").statistic,
        "spearman": stats.spearmanr(N_WORDS, VALUES).statistic,
        "pearson": stats.pearsonr(N_WORDS, VALUES).statistic,
    }
    for name, value in expected.items():
        assert table["words", name] == pytest.approx(value)
        assert table["fewer", name] == pytest.approx(-value)
    assert set(found.correlations["metric"]) == {"words", "fewer"}
    assert found.correlations["ci_low"].isna().all()
    assert found.differences is None
    assert (dict(found.ranks), found.ceiling_remark, len(found.disattenuated)) == ({}, "", 0)
    assert found.headline == ("x", "tau_c")
    assert set(found.printed_correlations["coefficient"]) == {"tau_c", "tau_b"}
    assert found.columns == [("x", name) for name in ("tau_c", "tau_b", "spearman", "pearson")]
    both = join_correlations([found, found])
    assert both.index.tolist() == list(range(len(both)))
    assert len(both) == 2 * len(found.correlations)


def test_there_are_ceilings_and_floors_where_they_are_asked_for_alone() -> None:
    """Each caption is rated twice."""
    one = captions()
    twice = pd.concat([one.ratings, one.ratings.assign(rater="s")], ignore_index=True)
    protocol = Protocol.resolve("made", {}, {})
    selection = EvaluationSet.select(CaptionSet(one.items, twice, card=one.card), protocol)
    found = score_dataset(selection, [Words()], ScoreStore(None), StepProgress(None))
    plain = correlate_dataset(found, StepProgress(None))
    assert set(plain.correlations["metric"]) == {"words"}
    assert plain.differences is None
    above = correlate_dataset(found, StepProgress(None), ceilings=True)
    assert list(dict.fromkeys(above.correlations["metric"])) == [
        "words",
        "ceiling_one_vs_one",
        "ceiling_one_vs_rest",
        "ceiling_oracle",
    ]


def test_floors_stand_beside_the_metrics_where_they_are_asked_for() -> None:
    every = {"floors": True}
    assert list(dict.fromkeys(correlate(options=every).correlations["metric"])) == [
        *("words", "floor_random", "floor_length"),
    ]
    coefficients = ["tau_b", "accuracy"]
    found = correlate(options=every, pairs=True, coefficients=coefficients).correlations
    of_pairs = found[found["coefficient"] == "accuracy"]
    assert list(dict.fromkeys(of_pairs["metric"])) == [
        *("words", "floor_random", "floor_length", "floor_position"),
    ]
    rows = of_pairs[of_pairs["dimension"] == "fit"].set_index("metric")
    # Words prefer b, b, a and a; people b, a, a and a. The first caption is preferred twice.
    assert rows.loc[["words", "floor_length", "floor_position"], "value"].tolist() == [
        0.75,
        0.75,
        0.5,
    ]
    assert rows.loc["floor_length", "note"] == "the number of words in the caption"
    some = correlate(options={"pair_floors": True}, pairs=True, coefficients=coefficients)
    assert set(some.correlations["metric"]) == {"words", "floor_length", "floor_position"}
    of_ratings = some.correlations[some.correlations["coefficient"] == "pearson"]
    assert set(of_ratings["metric"]) == {"words"}
    without = correlate(options={"pair_floors": True}, coefficients=coefficients)
    assert set(without.correlations["metric"]) == {"words"}


def test_panels_join_scores_to_ratings_and_preferences() -> None:
    found = scored(pairs=True, coefficients=["tau_b", "accuracy"], undefined="drop").in_order()
    panels = build_panels(found.selection, found.oriented)
    assert [panel.drops_undefined for panel in panels] == [True] * 3
    rated, preferred, graded = panels
    assert (rated.dimension, rated.coefficients) == ("x", ("tau_b",))
    assert preferred.coefficients == ("accuracy",)
    assert (graded.dimension, graded.coefficients) == ("fit", ("tau_b",))
    assert build_panels(found.selection, {})[0].metrics == ()


def test_intervals_ranks_and_differences_need_resampling() -> None:
    statistics = StatisticsOptions(replicates=64, interval="percentile")
    found = correlate(Words(), Fewer(), options={"statistics": statistics}, coefficients=["tau_b"])
    rows = found.correlations
    assert rows["ci_low"].notna().all()
    assert set(rows["coefficient"]) == {"tau_b", "tau_c", "spearman", "pearson"}
    assert found.differences is not None
    assert set(found.differences["coefficient"]) == {"tau_b"}
    assert set(found.ranks) == {(m, "x", "tau_b") for m in ("words", "fewer")}
    alone = correlate(
        Words(),
        Fewer(),
        options={"statistics": statistics, "compares": False},
        coefficients=["tau_b"],
    )
    assert alone.differences is not None
    assert alone.differences.empty
    fisher = correlate(
        options={"statistics": StatisticsOptions(interval="fisher")}, coefficients=["pearson"]
    )
    row = fisher.correlations.set_index("coefficient").loc["pearson"]
    z, half = math.atanh(row["value"]), stats.norm.ppf(0.975) / math.sqrt(6 - 3)
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(
        [math.tanh(z - half), math.tanh(z + half)]
    )
    with says(
        "statistics.interval=fisher needs protocol.level=pooled; with protocol.level=by_image set "
        "statistics.interval to expanded, percentile or bca"
    ):
        correlate(options={"statistics": StatisticsOptions(interval="fisher")}, level="by_image")


@pytest.mark.parametrize(
    ("metrics", "tests", "coefficients", "message"),
    [
        (
            1,
            ("permutation",),
            ["tau_b"],
            "dataset made: only words can be computed here; a comparison needs two metrics",
        ),
        (
            2,
            ("williams",),
            ["tau_b", "spearman"],
            "dataset made: tests=williams compare pearson, and the run has spearman,tau_b; name another test, or another "
            "of protocol.coefficients",
        ),
        (
            2,
            ("williams", "mcnemar"),
            ["tau_b"],
            "tests=williams,mcnemar compare pearson and accuracy, and the run has tau_b;",
        ),
    ],
)
def test_a_comparison_that_no_test_can_make_is_refused(
    metrics: int, tests: tuple[str, ...], coefficients: list[str], message: str
) -> None:
    options = {"statistics": StatisticsOptions(replicates=8), "tests": tests}
    with says(message):
        correlate(*[Words(), Fewer()][:metrics], options=options, coefficients=coefficients)
