"""Judgements as platforms export them, of our own making: Mechanical Turk, Label Studio, Qualtrics, and a column a rater.

The columns are those of the platforms' public documentation: a batch's results with `AssignmentStatus` and `Answer.*`, Label
Studio's JSON and JSON-MIN, the three rows of heads of Qualtrics.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.registry import load
from tests.conftest import says

IMAGES = ("x.jpg", "y.jpg")
CAPTIONS = {"x.jpg": "a dog runs", "y.jpg": "a cat sits"}
#: Two raters' ratings of the two images, and one that is void.
RATINGS = [("x.jpg", "r1", 4), ("x.jpg", "r2", 5), ("y.jpg", "r1", 1), ("y.jpg", "r2", 2)]


def load_rows(folder: Path, rows: list[dict[str, Any]], name: str = "t.csv", **options: Any):
    path = folder / name
    if name.endswith(".csv"):
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        path.write_text(json.dumps(rows))
    return load("file", path=path, **options)


def ratings_of(caption_set: Any) -> list[tuple[str, str, float]]:
    merged = caption_set.ratings.merge(caption_set.items, on="item_id")
    return list(zip(merged["image_id"], merged["rater"], merged["value"], strict=True))


def mturk(image: str, rater: str, answer: dict[str, Any], status: str = "Approved"):
    return {
        "HITId": f"h{image}",
        "AssignmentId": f"a{image}{rater}",
        "WorkerId": rater,
        "AssignmentStatus": status,
        "Input.image_url": image,
        "Input.caption": CAPTIONS[image],
        "Input.references": "a dog ||| an animal",
        **answer,
        "Approve": "",
    }


def plain_answer(value: int) -> dict[str, Any]:
    return {"Answer.quality": value}


def task_answers(value: int) -> dict[str, Any]:
    buttons = {str(level): level == value for level in range(1, 6)}
    return {"Answer.taskAnswers": json.dumps([{"quality": buttons}])}


def radio_buttons(value: int) -> dict[str, Any]:
    return {f"Answer.quality.{level}": str(level == value).lower() for level in range(1, 6)}


@pytest.mark.parametrize("answer", [plain_answer, task_answers, radio_buttons])
def test_a_batch_of_mechanical_turk(answer: Any, tmp_path: Path) -> None:
    rows = [mturk(image, rater, answer(value)) for image, rater, value in RATINGS]
    rows.append(mturk("x.jpg", "bot", answer(1), status="Rejected"))
    found = load_rows(tmp_path, rows)
    assert ratings_of(found) == RATINGS
    assert found.items["references"].tolist() == [("a dog", "an animal")] * 2
    assert found.card.remarks == (
        "1 row is left out, which t.csv flags as void (AssignmentStatus: 1); file.flagged=keep keeps them.",
        "image is the column 'image_url', rater is the column 'WorkerId'.",
    )
    kept = load_rows(tmp_path, rows, flagged="keep")
    assert len(kept.ratings) == 5
    assert kept.card.remarks == found.card.remarks[1:]


def test_a_batch_without_a_choice_has_a_missing_rating(tmp_path: Path) -> None:
    rows = [mturk(image, rater, task_answers(value)) for image, rater, value in RATINGS]
    rows[1] |= {"Answer.taskAnswers": '[{"quality": {"1": false, "2": false}}]'}
    with says(":3: value is None, not a number; 1 of 4 ratings is missing (line 3)"):
        load_rows(tmp_path, rows)
    rows[1] |= {"Answer.taskAnswers": "[{"}
    with says(":3: Answer.taskAnswers is not JSON"):
        load_rows(tmp_path, rows)


@pytest.mark.parametrize("name", ["t.json", "t.csv"])
def test_label_studios_small_json(name: str, tmp_path: Path) -> None:
    rows = [
        {
            "image": image,
            "caption": CAPTIONS[image],
            "id": 7,
            "rating": value,
            "annotator": rater,
            "annotation_id": number,
            "lead_time": 3.5,
            "was_cancelled": False,
        }
        for number, (image, rater, value) in enumerate(RATINGS)
    ]
    rows.append({**rows[0], "annotator": "r3", "was_cancelled": True})
    found = load_rows(tmp_path, rows, name)
    assert ratings_of(found) == RATINGS
    left_out = f"1 row is left out, which {name} flags as void (was_cancelled: 1)"
    assert left_out in found.card.remarks[0]


def label_studio_task(image: str, answers: dict[str, Any], kind: str, data: dict[str, Any]):
    annotations = [
        {
            "completed_by": {"id": rater, "email": "nobody"},
            "was_cancelled": value is None,
            "result": [{"from_name": "quality", "type": kind, "value": {kind: value}}],
        }
        for rater, value in answers.items()
    ]
    return {"id": image, "annotations": annotations, "data": {"image": image, **data}}


def test_label_studios_whole_export(tmp_path: Path) -> None:
    tasks = [
        label_studio_task(
            image,
            {r: v for i, r, v in RATINGS if i == image} | {"r3": None},
            "rating",
            {"caption": CAPTIONS[image]},
        )
        for image in IMAGES
    ]
    with says("no column 'value'; it has image, caption, was_cancelled, rater, quality"):
        load_rows(tmp_path, tasks, "t.json")
    found = load_rows(tmp_path, tasks, "t.json", value="quality")
    assert ratings_of(found) == RATINGS
    assert found.card.remarks[0].startswith("2 rows are left out, which t.json flags as void")


def test_label_studios_choice_of_two_captions(tmp_path: Path) -> None:
    captions = {"caption_a": "a dog", "caption_b": "a cat"}
    tasks = [label_studio_task("x.jpg", {1: "left", 2: "right", 3: "left"}, "selected", captions)]
    found = load_rows(tmp_path, tasks, "t.json")
    assert found.preferences["strength"].tolist() == [1, -1, 1]
    small = [{"image": "x.jpg", **captions, "pick": {"selected": "right"}, "annotator": 1}]
    assert load_rows(tmp_path, small, "t.json").preferences["winner"].tolist() == ["b"]


def test_the_three_rows_of_heads_of_qualtrics(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "StartDate,image,caption,value\n"
        "Start Date,image,caption,How good is it?\n"
        '"{""ImportId"":""startDate""}","{""ImportId"":""i""}","{""ImportId"":""c""}","{""ImportId"":""Q2""}"\n'
        "2026,x.jpg,a dog runs,4\n2026,y.jpg,a cat sits,1\n"
    )
    found = load("file", path=path)
    assert ratings_of(found) == [("x.jpg", "rating_1", 4.0), ("y.jpg", "rating_1", 1.0)]


@pytest.mark.parametrize("value", ["r1,r2", "r*", "r1, r2"])
def test_a_column_a_rater(value: str, tmp_path: Path) -> None:
    rows = [
        {"image": image, "caption": CAPTIONS[image], "r1": a, "r2": b}
        for image, a, b in (("x.jpg", 4, 5), ("y.jpg", 1, ""))
    ]
    found = load_rows(tmp_path, rows, value=value)
    assert ratings_of(found) == RATINGS[:3]
    assert found.card.remarks == ("1 cell of a rater's column is empty, and no rating.",)
    with says("no column 'r3'; it has image, caption, r1, r2"):
        load_rows(tmp_path, rows, value="r1,r3")
    with says("write file.value=r1,r2"):
        load_rows(tmp_path, rows)


@pytest.mark.parametrize("cell", ["", "NA", "n/a", "None", "nan", " "])
def test_a_missing_rating_is_dropped_where_asked(cell: str, tmp_path: Path) -> None:
    rows = [
        {"image": image, "caption": CAPTIONS[image], "rater": rater, "value": value}
        for image, rater, value in RATINGS
    ]
    rows[2]["value"] = cell
    with says(
        "not a number; 1 of 4 ratings is missing (line 4); file.missing=drop leaves them out"
    ):
        load_rows(tmp_path, rows)
    found = load_rows(tmp_path, rows, missing="drop")
    assert ratings_of(found) == [*RATINGS[:2], RATINGS[3]]
    assert found.card.remarks == ("1 of 4 ratings is missing (line 4) and left out.",)


def pairs(*winners: Any) -> list[dict[str, Any]]:
    captions = {"image": "x.jpg", "caption_a": "a dog", "caption_b": "a cat"}
    systems = {"system_a": "mine", "system_b": "theirs"}
    return [{**captions, **systems, "rater": str(n), "winner": w} for n, w in enumerate(winners)]


@pytest.mark.parametrize(
    ("words", "winner"),
    [
        (("a", "A", "1", 1, "left", "Left", "model_a", "system_a", "mine", "first"), "a"),
        (("b", "B", "2", 2, "right", "model_b", "theirs", "second"), "b"),
        (("tie", "Tie", "equal", "same", "draw", "tie (bothbad)"), "tie"),
    ],
)
def test_a_winner_in_words(words: tuple[Any, ...], winner: str, tmp_path: Path) -> None:
    found = load_rows(tmp_path, pairs(*words), "t.json")
    assert found.preferences["winner"].tolist() == [winner] * len(words)


def test_what_is_no_verdict_is_left_out_and_counted(tmp_path: Path) -> None:
    found = load_rows(tmp_path, pairs("a", "skip", None, "bad", "b", "skip", ""), "t.json")
    assert found.preferences["winner"].tolist() == ["a", "b"]
    expected = "5 rows have no verdict and are left out (skip: 2, empty: 2, bad: 1)."
    assert found.card.remarks == (expected,)


def test_other_words_are_given_a_meaning(tmp_path: Path) -> None:
    rows = pairs("good", "poor", "meh", "a")
    with says(
        "winner is 'good', not one of a, b, tie, skip, nor a system of the row; say what it means, such as "
        "'file.winners={good: a, poor: b, meh: a}' (a, b, tie or none)"
    ):
        load_rows(tmp_path, rows, "t.json")
    meanings = {"good": "a", "poor": "b", "meh": "none"}
    found = load_rows(tmp_path, rows, "t.json", winners=meanings)
    assert found.preferences["winner"].tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("a", "b", "tie"),
    [
        ("A>B", "B>A", "A=B"),
        ("A >> B", "A<B", "A~B"),
        ("[[A]]", "[[B]]", "[[C]]"),
        ("Caption A", "Caption B", "both bad"),
        ("response_1", "response_2", "no preference"),
        ("A is better", "(b)", "bothbad"),
        ("first caption", "second caption", "equally good"),
        (1.0, 2.0, "tie (bothbad)"),
    ],
)
def test_winners_in_the_words_of_others(a: object, b: object, tie: object, tmp_path: Path) -> None:
    found = load_rows(tmp_path, pairs(a, b, tie), "t.json")
    assert found.preferences["winner"].tolist() == ["a", "b", "tie"]


def test_0_has_to_be_given_a_meaning_and_1_with_it(tmp_path: Path) -> None:
    """Where 0 is the first caption, the usual 1 is the second."""
    rows = pairs(0, 1, 0)
    with says("winner is '0', and 0 is the first caption for some", "{0: a, 1: b}"):
        load_rows(tmp_path, rows, "t.json")
    with says("winner is '1', not one of a, b, tie"):
        load_rows(tmp_path, rows, "t.json", winners={"0": "a"})
    found = load_rows(tmp_path, rows, "t.json", winners={"0": "a", "1": "b"})
    assert found.preferences["winner"].tolist() == ["a", "b", "a"]


def test_winners_that_are_strengths_are_called_so(tmp_path: Path) -> None:
    with says("winner is '-1'; file.strength=winner reads numbers, positive where a is better"):
        load_rows(tmp_path, pairs(1, -1, 1), "t.json")


def test_captions_that_are_counted_from_0_have_winners_of_their_numbers(tmp_path: Path) -> None:
    rows = [
        {"image": "x.jpg", "caption_0": "a dog", "caption_1": "a cat", "label": 0},
        {"image": "x.jpg", "caption_0": "a fox", "caption_1": "an owl", "label": 1},
    ]
    assert load_rows(tmp_path, rows, "t.json").preferences["winner"].tolist() == ["a", "b"]


def test_chosen_captions_are_better_than_rejected_ones(tmp_path: Path) -> None:
    rows = [{"image": "x.jpg", "chosen": "a dog", "rejected": "a cat"}]
    found = load_rows(tmp_path, rows, "t.json")
    assert found.preferences["winner"].tolist() == ["a"]
    assert found.card.remarks == (
        "The caption in 'chosen' is taken for the better one of each pair.",
    )


def test_columns_of_numbers_are_what_raters_may_have_given(tmp_path: Path) -> None:
    rows = [{"image": "x.jpg", "caption": "a dog", "ann": 1, "bob": 2}]
    with says("where each rater has a column, write file.value=ann,bob"):
        load_rows(tmp_path, rows, "t.json")
    assert len(load_rows(tmp_path, rows, "t.json", value="ann,bob").ratings) == 2


def test_a_system_is_not_taken_for_the_other_captions_letter(tmp_path: Path) -> None:
    """Where systems are called B and A, the winner A is the second caption, whose system it is."""
    rows = [{**row, "system_a": "B", "system_b": "A"} for row in pairs("A", "B")]
    assert load_rows(tmp_path, rows, "t.json").preferences["winner"].tolist() == ["b", "a"]


def test_the_shape_of_caparena(tmp_path: Path) -> None:
    battle = {
        "img": "x.jpg",
        "source1": "human",
        "source2": "bot",
        "caption1": "a dog",
        "caption2": "a cat",
        "ref": "a dog runs",
    }
    winners = ("human", "bot", "equal", "skip", "bad")
    found = load_rows(tmp_path, [{**battle, "winner": w} for w in winners], "t.json")
    assert found.preferences["winner"].tolist() == ["a", "b", "tie"]
    assert found.items["references"].tolist() == [("a dog runs",)] * 2
    assert "2 rows have no verdict and are left out (skip: 1, bad: 1)." in found.card.remarks


def test_rows_are_chosen_by_a_column(tmp_path: Path) -> None:
    rows = [
        {"image": i, "caption": CAPTIONS[i], "value": 1, "kind": k}
        for i, k in zip(IMAGES, "pq", strict=True)
    ]
    assert load_rows(tmp_path, rows, where="kind=q").items["image_id"].tolist() == ["y.jpg"]
    with says("no row has kind=z; kind is p, q"):
        load_rows(tmp_path, rows, where="kind=z")
    with says("file.where is 'kind'; COLUMN=VALUE is expected"):
        load_rows(tmp_path, rows, where="kind")


def test_what_looks_like_a_fault_of_the_texts_is_a_remark(tmp_path: Path) -> None:
    rows = [
        {"image": i, "caption": f"**{CAPTIONS[i]}**", "value": 1, "references": "a|b"}
        for i in IMAGES
    ]
    glued, markdown, _ = load_rows(tmp_path, rows).card.remarks
    assert glued.startswith("2 of 2 references hold '|', as if several captions were joined by it")
    assert markdown.startswith(
        "2 of 2 captions hold Markdown, such as '**a dog runs**' of image 'x.jpg'"
    )


def test_outcomes_of_the_first_caption_and_neither(tmp_path: Path) -> None:
    found = load_rows(tmp_path, pairs("win", "lose", "neither", "Loss"), "t.json")
    assert found.preferences["winner"].tolist() == ["a", "b", "tie", "b"]


def test_a_label_of_each_caption_says_which_is_better(tmp_path: Path) -> None:
    """Pick-a-Pic's shape: 1 and 0, or 0.5 and 0.5 for a tie."""
    rows = [
        {
            "image": "x.jpg",
            "caption_0": f"a dog {n}",
            "caption_1": "a cat",
            "label_0": first,
            "label_1": second,
        }
        for n, (first, second) in enumerate([(1, 0), (0, 1), (0.5, 0.5)])
    ]
    assert load_rows(tmp_path, rows, "t.json").preferences["winner"].tolist() == ["a", "b", "tie"]


@pytest.mark.parametrize(
    ("image", "caption", "references", "value"),
    [
        ("image", "candidate", "refs", "human_score"),
        ("imgid", "cand", "references", "score"),
        ("image_id", "prediction", "ground_truth", "human_judgement"),
        ("file_name", "generated_caption", "gts", "mos"),
    ],
)
def test_ratings_are_read_by_usual_names(
    image: str, caption: str, references: str, value: str, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = []
    for name, _, rating in RATINGS:
        rows.append({image: name, caption: CAPTIONS[name], references: '["a dog"]', value: rating})
    read = load_rows(tmp_path, rows)
    assert dict(zip(read.items["image_id"], read.items["caption"], strict=True)) == CAPTIONS
    assert set(read.items["references"]) == {("a dog",)}
    assert sorted(read.ratings["value"]) == [1, 2, 4, 5]


def test_scores_of_a_model_are_no_captions(tmp_path: Path) -> None:
    rows = [{"image": "x.jpg", "prediction": 0.5, "rating": 4}]
    with says("no column 'caption'", "file.caption="):
        load_rows(tmp_path, rows)


def test_columns_of_other_names_are_told_unless_an_option_names_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "img,caption,rating,mos,refs\na.jpg,a dog,1,2,one\na.jpg,two dogs,5,4,one\n",
        encoding="utf-8",
    )
    found = load("file", path=str(path))
    assert found.card.remarks == (
        "image is the column 'img', references is the column 'refs', value is the column 'rating'.",
    )
    assert found.ratings["value"].tolist() == [1.0, 5.0]
    chosen = load("file", path=str(path), value="mos")
    assert chosen.card.remarks == ("image is the column 'img', references is the column 'refs'.",)

    pairs = tmp_path / "pairs.csv"
    pairs.write_text("image,caption1,caption2,winner\na.jpg,a dog,two dogs,1\n", encoding="utf-8")
    told = load("file", path=str(pairs)).card.remarks
    assert "caption_a is the column 'caption1', caption_b is the column 'caption2'." in told
