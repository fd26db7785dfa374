"""Metrics that blame words against words that people mark, on files of our own in the shape of HAT."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.commands.bench import bench
from captau.benchmarks.evaluation.correlation_rows import Ceilings, ceiling_rows
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.datasets.sources.aloha import CAPTIONS
from captau.metrics.base import Floats, WordMetric
from captau.metrics.rows import Rows
from tests.conftest import says


def entry(image: int, caption: str, faults: Sequence[str]) -> dict[str, object]:
    return {
        "caption": caption,
        "grounding": [[word, word in faults] for word in caption.split()],
        "contains_hallucination": bool(faults),
        "image_path": f"COCO_val2014_{image:012d}.jpg",
        "references": ["A dog and a cat."],
    }


ENTRIES = [
    entry(1, "a dog and a bus .", ["bus"]),
    entry(2, "a cat", []),
    entry(3, "a blue car on it", ["blue", "car"]),
    entry(4, "a dog eats", ["eats"]),
]


@pytest.fixture
def hat(tmp_path: Path) -> Path:
    path = tmp_path / CAPTIONS.path
    path.parent.mkdir()
    path.write_text(json.dumps(ENTRIES))
    return tmp_path


@dataclass(frozen=True)
class Lengths(WordMetric):
    """Blames long words, or one word too many."""

    surplus: int = 0

    @property
    def name(self) -> str:
        return "lengths"

    def compute(self, rows: Rows) -> Floats:
        return np.array([-max(map(len, caption.split())) for caption in rows.captions], dtype=float)

    def compute_blame(self, rows: Rows) -> list[Floats]:
        return [
            np.array([len(word) / 9 for word in caption.split()] + [0.0] * self.surplus)
            for caption in rows.captions
        ]


@pytest.mark.dev
def test_words_are_detected_as_scikit_learn_has_it(hat: Path, tmp_path: Path) -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    results = bench("hat", [Lengths(), "bleu_1"], data_root=hat, output_dir=tmp_path / "out")
    table = results.correlations
    words = table[table["dimension"] == "hallucination of words"].set_index("coefficient")
    assert set(words["metric"]) == {"lengths"}
    marks = [word[1] for e in ENTRIES for word in e["grounding"]]  # pyright: ignore[reportGeneralTypeIssues]
    lengths = [len(word[0]) for e in ENTRIES for word in e["grounding"]]  # pyright: ignore[reportGeneralTypeIssues]
    expected = [average_precision_score(marks, lengths), roc_auc_score(marks, lengths)]
    assert words["value"].tolist() == pytest.approx(expected)
    assert words["n_ratings"].tolist() == [16, 16]
    assert words["ci_low"].notna().all()
    written = pd.read_parquet(tmp_path / "out" / "words.parquet")
    assert written.groupby("source")["value"].sum().to_dict() == pytest.approx(
        {"people": 4, "lengths": sum(lengths) / 9}
    )


def test_chair_blames_the_objects_that_people_mark(hat: Path) -> None:
    """It blames bus and car, which people mark, of the four words that they mark: both precede every other word."""
    table = bench("hat", "chair_s", data_root=hat).correlations
    values = table.set_index(["dimension", "coefficient"])["value"]
    precision = (1 / 1 + 2 / 2) / 4 + 2 / 4 * (
        4 / 16
    )  # the 14 words that are left are found together
    assert values["hallucination of words", "average_precision"] == pytest.approx(precision)


def test_blame_of_another_number_of_words_is_refused(hat: Path) -> None:
    with says("metric lengths(surplus=1) returned 6 word scores for a caption of 5"):
        bench("hat", Lengths(surplus=1), data_root=hat)


@pytest.mark.parametrize(
    ("grounding", "message"),
    [
        (
            [["a", False], ["horse", True]],
            "'grounding': the word 'horse' is not word 2 of the caption",
        ),
        ([["a", False]], "'grounding': the word 'cat' of the caption is not among them"),
        ([["a", False], ["cat", False], ["!", True]], "the word '!' is not word 3 of the caption"),
        ([["a", 0]], "'grounding' holds ['a', 0], not a word and true or false"),
    ],
)
def test_marked_words_that_are_not_the_captions_are_refused(
    grounding: list[object], message: str, hat: Path
) -> None:
    path = hat / CAPTIONS.path
    path.write_text(json.dumps([{**ENTRIES[1], "grounding": grounding}]))
    with says(f"{path}: entry 0: ", message):
        bench("hat", "bleu_1", data_root=hat)


def test_without_a_metric_that_blames_words_there_are_no_rows_of_words(hat: Path) -> None:
    results = bench("hat", "bleu_1", data_root=hat)
    assert set(results.correlations["dimension"]) == {"hallucination"}
    assert results.tables[0].heads[:1] == ["AP"]


def test_words_count_in_pooled_detection_alone(hat: Path) -> None:
    for protocol in ({"coefficients": ["tau_b"]}, {"level": "by_image"}):
        table = bench("hat", Lengths(), protocol=protocol, data_root=hat).correlations
        assert set(table["dimension"]) == {"hallucination"}


def rated(*values: tuple[float, ...], **changes: object) -> EvaluationSet:
    """A caption for each list of ratings, by raters r0, r1 …"""
    items = make_items(
        [str(n) for n in range(len(values))], ["a"] * len(values), [("r",)] * len(values)
    )
    rows = [
        (item, "x", f"r{k}", value)
        for item, ratings in zip(items["item_id"], values, strict=True)
        for k, value in enumerate(ratings)
    ]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    card = Card(*("made", "Made", "1", "", "", ""), scales={"x": Scale(0, 9)})
    captions = CaptionSet(items, ratings=ratings, card=card)
    return EvaluationSet.select(captions, Protocol.resolve("made", {}, changes))


def test_ceilings_need_two_ratings_and_points_of_single_ones() -> None:
    """Both raters order the three captions alike: either is as good as can be."""
    twice = (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)
    none = Ceilings([], {})
    assert ceiling_rows(rated((1.0,), (2.0,), ratings="mean")) == none
    assert ceiling_rows(rated((1.0,), (2.0,))) == none
    reason = "What people reach needs single ratings: protocol.ratings=per_rating."
    assert ceiling_rows(rated(*twice, ratings="mean")) == Ceilings([], {}, reason)
    reason = "What people reach needs all ratings together: protocol.level=pooled."
    assert ceiling_rows(rated(*twice, level="by_image")) == Ceilings([], {}, reason)
    found = ceiling_rows(rated(*twice, coefficients=["tau_b", "pearson"]))
    assert found.remark == ""
    assert [(r["metric"], r["dimension"], r["coefficient"], r["value"]) for r in found.rows] == [
        (name, "x", coefficient, pytest.approx(1.0))
        for name in ("ceiling_one_vs_one", "ceiling_one_vs_rest", "ceiling_oracle")
        for coefficient in ("tau_b", "pearson")
    ]
    assert {(r["dataset"], r["n_items"]) for r in found.rows} == {("made", 3)}
    assert [extra.key for extra in found.draws["x"]] == [
        (name, "x", coefficient)
        for coefficient in ("tau_b", "pearson")
        for name in ("ceiling_one_vs_one", "ceiling_one_vs_rest", "ceiling_oracle")
    ]
