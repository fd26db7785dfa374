"""Systems on the same images: which images count, and the table of the systems' differences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.scoring.corpus_scores import (
    DIFFERENCE_COLUMNS,
    SystemPanel,
    SystemScores,
    compare_on_images,
    compare_systems,
    make_caption_items,
    make_difference_table,
    make_scorer,
    score_system,
    select_images,
)
from captau.benchmarks.scoring.score_store import ScoreStore
from captau.benchmarks.statistics.bootstrap import Interval, StatisticsOptions
from captau.benchmarks.statistics.remarks import Undefined
from captau.benchmarks.statistics.significance import MetricDifference, PairedTest
from captau.datasets.errors import InputError
from captau.datasets.reading.caption_files import (
    CandidateFile,
    ReferenceFile,
    read_candidates,
    read_references,
)
from captau.metrics.registry import metric
from tests.conftest import says


def candidates(name: str, *images: str) -> CandidateFile:
    rows = ", ".join(f'"{image}": "a {name}"' for image in images)
    return read_candidates(Path(f"{name}.json"), f"{{{rows}}}".encode())


def references(name: str, *images: str, **texts: str) -> ReferenceFile:
    rows = ", ".join(f'"{image}": ["the {image}"]' for image in images)
    return read_references(Path(f"{name}.json"), f"{{{rows}}}".encode())


A, B, C = (candidates(name, *images) for name, images in (("A", "321"), ("B", "123"), ("C", "14")))
R, S = references("R", *"123"), references("S", *"23")


@pytest.mark.parametrize(
    ("systems", "sets", "partial", "expected"),
    [
        # In the order of the first system's file, whatever the order of the references.
        ({"A": A}, {"R": R}, False, {"R": ["3", "2", "1"]}),
        ({"B": B, "A": A}, {"R": R}, False, {"R": ["1", "2", "3"]}),
        # A set may have fewer images than another.
        ({"A": A, "B": B}, {"S": S, "R": R}, False, {"S": ["3", "2"], "R": ["3", "2", "1"]}),
        ({"A": A, "B": B}, {}, False, {"": ["3", "2", "1"]}),
        ({"B": B, "C": C}, {}, True, {"": ["1"]}),
        ({"C": C, "B": B}, {}, True, {"": ["1"]}),
        ({"B": B, "C": candidates("C", "1")}, {"R": R}, True, {"R": ["1"]}),
        ({"C": candidates("C", "3", "1")}, {"R": R}, True, {"R": ["3", "1"]}),
        ({"C": candidates("C", "3", "1")}, {"R": R, "S": S}, True, {"R": ["3", "1"], "S": ["3"]}),
    ],
)
def test_images_that_count(
    systems: Mapping[str, CandidateFile],
    sets: Mapping[str, ReferenceFile],
    partial: bool,
    expected: Any,
) -> None:
    assert select_images(systems, sets, partial) == expected


@pytest.mark.parametrize(
    ("systems", "sets", "partial", "line"),
    [
        (
            {"A": A, "C": C},
            {"R": R, "S": S},
            False,
            "C.json:1: image '4' has no references in R.json or S.json (1 of 2 images has none; an image there is '1'); add "
            "them, or score the others with partial=true",
        ),
        (
            {"A": A, "C": candidates("C", "1")},
            {"R": R},
            False,
            "C.json: 2 of the 3 images of R.json have no caption, such as '2'; add them, or score the others "
            "with partial=true",
        ),
        (
            {"A": A, "C": candidates("C", "3")},
            {},
            False,
            "C.json: 2 of the 3 images of A.json have no caption, such as '1'; add them, or score the others "
            "with partial=true",
        ),
        (
            {"C": candidates("C", "1"), "A": A},
            {},
            False,
            "A.json:1: image '3' is not in C.json; leave it out, or score the others with partial=true",
        ),
        (
            {"A": candidates("A", "2"), "C": candidates("C", "1")},
            {"R": R},
            True,
            "no image has a caption by A.json, C.json and references in R.json",
        ),
        (
            {"A": candidates("A", "2"), "C": candidates("C", "1")},
            {},
            True,
            "no image has a caption by A.json, C.json",
        ),
    ],
)
def test_images_that_do_not_match(
    systems: Mapping[str, CandidateFile],
    sets: Mapping[str, ReferenceFile],
    partial: bool,
    line: str,
) -> None:
    with pytest.raises(InputError) as caught:
        select_images(systems, sets, partial)
    assert str(caught.value) == line


def test_items_of_a_system(tmp_path: Path) -> None:
    items = make_caption_items(A, R, ["3", "1"], None)
    assert items["image_id"].tolist() == ["3", "1"]
    assert items["caption"].tolist() == ["a A", "a A"]
    assert items["references"].tolist() == [("the 3",), ("the 1",)]
    assert items["system"].isna().all()
    assert items["image"].isna().all()
    named = make_caption_items(A, None, ["3"], None, "mine")
    assert named["system"].tolist() == ["mine"]
    assert named["references"].tolist() == [()]
    assert make_caption_items(A, S, ["1", "2"], None)["references"].tolist() == [(), ("the 2",)]
    folder = tmp_path / "images"
    with says(f"images={folder} is not a folder"):
        make_caption_items(A, R, ["3"], folder)
    folder.mkdir()
    (folder / "2").mkdir()
    for name in ("1", "1.jpg", "3.png", "3.jpg"):
        (folder / name).touch()
    found = make_caption_items(A, R, ["3", "1"], folder)["image"].tolist()
    # By its whole name before its stem, and of one stem the last by name.
    assert found == [str(folder / "3.png"), str(folder / "1")]
    with says(f"A.json:1: image '2' has no file in {folder}"):
        make_caption_items(A, R, ["2"], folder)


def test_files_of_images_as_coco_names_them(tmp_path: Path) -> None:
    named = b"""{"images": [{"id": 7, "file_name": "val/tram.jpg"}, {"id": 8, "file_name": "bus.jpg"}],
        "annotations": [{"image_id": 7, "caption": "a tram"}, {"image_id": 8, "caption": "a bus"}]}"""
    described = read_references(tmp_path / "refs.json", named)
    captions = candidates("D", "7", "8")
    with says(
        f"D.json:1: image '7' has no file in {tmp_path}, nor has 'tram.jpg', as {described.source.name} calls it"
    ):
        make_caption_items(captions, described, ["7", "8"], tmp_path)

    # The folder may hold further images, and its name for one may be another format's.
    for name in ("tram.jpg", "bus.jpg", "car.jpg"):
        (tmp_path / name).touch()
    found = make_caption_items(captions, described, ["8", "7"], tmp_path)["image"].tolist()
    assert found == [str(tmp_path / "bus.jpg"), str(tmp_path / "tram.jpg")]

    # Without names, by the number in COCO's names of files; an image that has its own file keeps it.
    coco = tmp_path / "val2014"
    coco.mkdir()
    for name in ("COCO_val2014_000000000007.jpg", "8.jpg", "COCO_val2014_000000000009.jpg"):
        (coco / name).touch()
    found = make_caption_items(captions, None, ["7", "8"], coco)["image"].tolist()
    assert found == [str(coco / "COCO_val2014_000000000007.jpg"), str(coco / "8.jpg")]

    # A number that two files have is no name.
    (coco / "COCO_train2014_000000000007.jpg").touch()
    with says(f"D.json:1: image '7' has no file in {coco}"):
        make_caption_items(captions, None, ["7", "8"], coco)


def test_captions_count_once_each() -> None:
    scorer = make_scorer(make_caption_items(A, R, ["3", "1"], None))
    assert scorer.items["weight"].tolist() == [1, 1]
    assert scorer.items["weight"].dtype == np.int64
    assert (scorer.dataset, scorer.protocol.name) == ("captions", "score")
    assert (scorer.protocol.references, scorer.protocol.dimension) == ("all", ())
    made = scorer.protocol
    assert (made.ratings, made.coefficients) == ("mean", ("tau_c",))


def test_a_systems_scores() -> None:
    items = make_caption_items(A, R, ["3", "1"], None)
    metrics = [metric("bleu_1"), metric("rouge_l")]
    with StepProgress(2) as progress:
        made = score_system("A", "R", items, metrics, ScoreStore(None), progress)
    assert (made.system, made.references, list(made.scores)) == ("A", "R", ["bleu_1", "rouge_l"])
    # "a a" and "the 3" share no word; ROUGE-L is 0 for both captions.
    assert made.scores["rouge_l"].tolist() == [0.0, 0.0]
    assert made.corpus["rouge_l"] == 0
    assert (made.intervals, made.replicates, made.remarks) == (
        {},
        {},
        {"bleu_1": [], "rouge_l": []},
    )
    assert set(made.resamplers) == {"bleu_1", "rouge_l"}


def system(name: str, *scores: float) -> SystemScores:
    """A system whose corpus score of m is the mean of its scores by the images' weights, and of n has no resampler."""
    values = np.array(scores)
    items = pd.DataFrame({"item_id": [str(i) for i in range(len(scores))]})

    def resample(weights: np.ndarray) -> np.ndarray:
        return (values @ weights) / weights.sum(axis=0)

    return SystemScores(
        *(name, "R", items, {"m": values, "n": values}, {"m": float(values.mean()), "n": np.nan}),
        *({"m": resample}, {}),
    )


def test_why_there_is_no_corpus_score() -> None:
    made = system("A", 1.0, np.nan, np.inf, 2.0)
    assert made.undefined_note("n") == "undefined: 2 of 4 captions have no finite score"
    assert system("A", 1.0).undefined_note("m") == ""


OPTIONS = StatisticsOptions(interval="percentile", replicates=50)


def test_systems_are_compared_where_all_have_a_resampler() -> None:
    first, second = system("A", 1.0, 2.0, 3.0), system("B", 0.0, 1.0, 2.0)
    (a, b), (difference,) = compare_systems([first, second], OPTIONS)
    assert (a.system, b.system) == ("A", "B")
    assert list(a.intervals) == list(b.intervals) == list(a.replicates) == ["m"]
    assert a.replicates["m"].shape == (50,)
    # B is A less 1 in every image, and so in every draw.
    assert np.allclose(a.replicates["m"] - b.replicates["m"], 1.0, rtol=0, atol=1e-12)
    assert 1.0 <= a.intervals["m"].low < a.intervals["m"].high <= 3.0
    assert (difference.metric_a, difference.metric_b, difference.coefficient) == ("A", "B", "m")
    assert (difference.value_a, difference.value_b) == (2.0, 1.0)
    interval = difference.result.interval
    assert (interval.low, interval.high) == pytest.approx((1.0, 1.0), abs=1e-12)


def test_too_few_images_to_draw_from() -> None:
    measured, differences = compare_systems([system(name, 1.0) for name in "AB"], OPTIONS)
    assert differences == []
    for made in measured:
        assert list(made.intervals) == ["m"]
        assert np.isnan([made.intervals["m"].low, made.intervals["m"].high]).all()
        note = "no interval: too few images (1); two are needed"
        assert made.intervals["m"].note == note
        assert made.replicates == {}
    measured, (one,) = compare_systems([system(name, 1.0, 2.0) for name in "AB"], OPTIONS)
    assert measured[0].intervals["m"].low >= 1.0
    assert (one.value_a, one.n_images) == (1.5, 2)


def test_without_a_metric_that_can_be_resampled() -> None:
    bare = system("A", 1.0, 2.0)
    bare.resamplers.clear()
    measured, differences = compare_systems([bare, system("B", 1.0, 2.0)], OPTIONS)
    assert (differences, [s.intervals for s in measured]) == ([], [{}, {}])


def test_a_panel_of_systems() -> None:
    made = SystemPanel.from_resamplers(
        {s.system: s.resamplers for s in (system("A", 1.0, 3.0), system("B", 2.0, 5.0))}, ("m",), 2
    )
    assert made.metrics == ("A", "B")
    assert made.keys == [("", "m")]
    assert (made.n_images, made.image.tolist(), made.item.tolist()) == (2, [0, 1], [0, 1])
    assert made.undefined_value is Undefined.UNDEFINED_SYSTEM_SCORE
    assert made.find_coefficient("m") is None
    assert made.defined_points("A").tolist() == [True, True]
    assert made.standardise("A", "B", np.ones(2, bool)) is made
    statistic = made.prepare(["B", "A"], np.ones(2, bool), ())
    assert statistic(np.array([[1, 0], [1, 2]])).tolist() == [[3.5, 5.0]]


def test_a_comparison_counts_its_steps_and_names_its_statistics() -> None:
    panel = SystemPanel.from_statistics(
        {s: lambda w, k=k: np.stack([w.sum(axis=0) * k, w[0] * 1.0]) for k, s in enumerate("AB")},
        ("total", "first"),
        3,
    )
    steps: list[int] = []
    made = compare_on_images(panel, OPTIONS, lambda: steps.append(1))
    assert steps
    assert {s: list(x) for s, x in made.intervals.items()} == {s: ["total", "first"] for s in "AB"}
    assert {s: list(x) for s, x in made.replicates.items()} == {s: ["total", "first"] for s in "AB"}
    assert made.replicates["B"]["total"].tolist() == [3.0] * 50
    assert made.replicates["A"]["first"].tolist() == made.replicates["B"]["first"].tolist()
    assert [(d.metric_a, d.metric_b, d.coefficient) for d in made.differences] == [
        *(("A", "B", "total"), ("A", "B", "first")),
    ]


def difference(coefficient: str, a: float, b: float, p: float) -> MetricDifference:
    result = PairedTest(p_value=p, interval=Interval(low=a - b - 1, high=a - b + 1))
    return MetricDifference("", coefficient, "A", "B", "bootstrap", a, b, result, 5, 4)


def test_the_table_of_differences() -> None:
    """By hand: Holm doubles the smaller of two p-values, and Benjamini-Hochberg takes 2 / 1 and 2 / 2 of them."""
    table = make_difference_table(
        {
            "R": [
                difference("m", 0.5, 0.25, 0.01),
                difference("m", 1.0, 0.5, 0.04),
                difference("n", 1.0, 2.0, 0.5),
            ],
            "S": [difference("m", 2.0, 0.5, 0.03)],
        },
        OPTIONS,
    )
    assert (
        tuple(table.columns)
        == DIFFERENCE_COLUMNS
        == (
            *("references", "metric", "system_a", "system_b", "score_a", "score_b", "difference"),
            *("ci_low", "ci_high", "p_value", "p_holm", "p_bh", "n_images", "replicates", "note"),
        )
    )
    assert table.values.tolist() == [
        ["R", "m", "A", "B", 0.5, 0.25, 0.25, -0.75, 1.25, 0.01, 0.02, 0.02, 4, 50, ""],
        ["R", "m", "A", "B", 1.0, 0.5, 0.5, -0.5, 1.5, 0.04, 0.04, 0.04, 4, 50, ""],
        ["R", "n", "A", "B", 1.0, 2.0, -1.0, -2.0, 0.0, 0.5, 0.5, 0.5, 4, 50, ""],
        ["S", "m", "A", "B", 2.0, 0.5, 1.5, 0.5, 2.5, 0.03, 0.03, 0.03, 4, 50, ""],
    ]
    assert make_difference_table({}, OPTIONS).empty
