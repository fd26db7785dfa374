"""Draws of references: made-up pairs, worked by hand and against scores of single draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.papers.published_numbers import PaperTable
from captau.benchmarks.evaluation.papers.published_tables import TableRebuilder
from captau.benchmarks.evaluation.papers.reference_draws import (
    DrawnMean,
    ReferenceDraws,
    judged_pairs_of,
    measure_draws,
)
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import Locations, ScoreStore
from captau.datasets.schema import CaptionSetBuilder, Card
from captau.metrics.registry import metric
from tests.conftest import says

REFERENCES = {
    "1": ("a dog runs", "a brown dog runs fast", "the dog", "two dogs play", "a dog on grass"),
    "2": ("a cat sleeps", "the cat on a sofa", "one grey cat", "a kitten", "a cat lies down"),
}
PAIRS = [
    ("1", "a dog runs", "a tram in a street"),
    ("1", "a dog on a lawn", "dogs"),
    ("2", "a cat on a bed", "a sofa"),
    ("1", "a dog runs", "a tram in a street"),
]


def make_draws(size: int = 2) -> ReferenceDraws:
    return ReferenceDraws.of_pairs(PAIRS, REFERENCES, size)


def test_a_pair_s_own_captions_are_not_drawn() -> None:
    """Three distinct pairs; "a dog runs" is no reference of the pair that it is in."""
    draws = make_draws()
    assert draws.pairs == tuple(sorted(set(PAIRS)))
    assert dict(zip(draws.pairs, draws.pools, strict=True)) == {
        PAIRS[0]: REFERENCES["1"][1:],
        PAIRS[1]: REFERENCES["1"],
        PAIRS[2]: REFERENCES["2"],
    }


def test_a_draw_larger_than_the_references_of_an_image_is_refused() -> None:
    """Image 1 has five references, of which one is a caption of a pair."""
    with says("image '1' has 4 references beside the captions of a pair, and a draw takes 5"):
        make_draws(5)


def test_draws_are_without_repetition_and_each_reference_is_as_likely() -> None:
    """The n-th draw is the same whoever asks; two of five are drawn with probability 2/5 each."""
    draws = make_draws()
    places = np.array([draws.draw(number) for number in range(2000)])
    assert places.shape == (2000, 3, 2)
    assert (places[:, :, 0] != places[:, :, 1]).all()
    assert (draws.draw(7) == make_draws().draw(7)).all()
    for place, pool in enumerate(draws.pools):
        shares = np.bincount(places[:, place].ravel(), minlength=len(pool)) / len(places)
        assert shares == pytest.approx(2 / len(pool), abs=0.04)


def score_by_hand(spec: str, policy: str, draws: ReferenceDraws, number: int) -> list[float]:
    """The differences of a draw, of scores that `Metric.score` gives rows with these references."""
    drawn = [
        tuple(pool[place] for place in places)
        for pool, places in zip(draws.pools, draws.draw(number).tolist(), strict=True)
    ]
    scores: list[np.ndarray] = []
    for references in [drawn] if policy == "all" else [[(r[k],) for r in drawn] for k in (0, 1)]:
        rows = [
            {"caption": pair[side], "references": list(texts)}
            for side in (1, 2)
            for pair, texts in zip(draws.pairs, references, strict=True)
        ]
        scores.append(metric(spec).score(rows))
    joined = np.max(scores, axis=0) if policy == "max_over_single" else np.mean(scores, axis=0)
    return (joined[:3] - joined[3:]).tolist()


@pytest.mark.parametrize("policy", ["all", "mean_over_single", "max_over_single"])
@pytest.mark.parametrize(
    "spec", [pytest.param("meteor", marks=pytest.mark.slow), "rouge_l", "bleu_4", "cider"]
)
def test_each_draw_is_scored_as_if_it_were_the_data(spec: str, policy: str) -> None:
    """Whether scores against single references are joined, or every draw is scored anew."""
    draws = make_draws()
    steps: list[int] = []
    differences = draws.differences([metric(spec)], policy, 3, lambda: steps.append(1))
    expected = [score_by_hand(spec, policy, draws, number) for number in range(3)]
    assert differences[metric(spec).spec] == pytest.approx(np.array(expected), abs=1e-9)
    assert len(steps) == 3


def test_the_spread_is_two_standard_errors_of_both_means() -> None:
    """2 · 0.03 · √(1/5 + 1/200)."""
    drawn = DrawnMean(0.6, 0.03, 200)
    assert drawn.spread(5) == pytest.approx(0.06 * (0.205**0.5))
    assert drawn.spread(1) == pytest.approx(0.06 * (1.005**0.5))


def test_a_row_whose_draws_take_long_is_drawn_fewer_times() -> None:
    """Two people's preferences, and all references in a second dataset; ROUGE-L has a number of its own."""
    builders = {name: CaptionSetBuilder(joins_equal=True) for name in ("pascal50s", "nebula")}
    for number, (image, first, second) in enumerate(PAIRS[:3]):
        judged = builders["pascal50s"]
        a, b = (judged.add_item(image, caption, ("x",)) for caption in (first, second))
        judged.prefer(str(number), a, b, "X", "a")
        builders["nebula"].add_item(image, first, REFERENCES[image])
    caption_sets = {
        name: builder.build(Card(name, "Made", "1", "", "", ""))
        for name, builder in builders.items()
    }
    table = PaperTable(
        table="T",
        kind="correlation",
        dataset="pascal50s",
        protocol={"references": "all", "coefficients": ["accuracy"], "dimension": None},
        rows={"BLEU-1": "bleu_1", "ROUGE-L": "rouge_l"},
        columns={"X": {"coefficient": "accuracy", "dimension": "X"}},
        draws={
            "pool": "nebula",
            "references": 2,
            "averaged": 1,
            "rows": ["BLEU-1", "ROUGE-L"],
            "number": 7,
            "numbers": {"ROUGE-L": 3},
        },
    )
    with StepProgress(None) as progress:
        rebuilder = TableRebuilder(
            Locations(), (), ScoreStore(None), progress, caption_sets=caption_sets
        )
        cells = rebuilder.rebuild("p", table)
    drawn = {row: cell.note.partition(" of 2 references")[0] for (row, _), cell in cells.items()}
    assert drawn == {"BLEU-1": "the mean of 7 draws", "ROUGE-L": "the mean of 3 draws"}


def test_accuracies_are_those_of_the_draws() -> None:
    """Worked: in the first draw the metric prefers what people prefer of X, in the second it ties; of Y it is wrong."""
    builder = CaptionSetBuilder(joins_equal=True)
    for number, ((image, first, second), dimension) in enumerate(
        zip(PAIRS[:3], ("X", "X", "Y"), strict=True)
    ):
        # The second pair stands the other way round than the draws have it.
        captions = (second, first) if number == 1 else (first, second)
        a, b = (builder.add_item(image, caption, ("x",)) for caption in captions)
        builder.prefer(str(number), a, b, dimension, "a")
    caption_set = builder.build(Card("made", "Made", "1", "", "", ""))
    protocol = Protocol.resolve("made", {"dimension": None, "coefficients": ["accuracy"]}, {})
    selection = EvaluationSet.select(caption_set, protocol)
    draws = ReferenceDraws.of_pairs(judged_pairs_of(selection), REFERENCES, 2)
    order = [draws.pairs.index((i, *sorted((a, b)))) for i, a, b in PAIRS[:3]]
    by_pair = np.zeros((2, 3))
    by_pair[0, order] = [1.0, -1.0, -1.0]
    by_pair[1, order] = [0.0, 0.0, -1.0]
    accuracies = measure_draws(selection, draws, by_pair)
    deviation = pd.Series([1.0, 0.5]).std()
    assert accuracies == {
        "X": DrawnMean(0.75, pytest.approx(deviation), 2),
        "Y": DrawnMean(0.0, 0.0, 2),
        "mean": DrawnMean(0.375, pytest.approx(deviation / 2), 2),
    }
