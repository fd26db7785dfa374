"""Scores that are read from a file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.scoring import catalog
from captau.datasets.errors import InputError
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.score_file import ScoreFile
from tests.conftest import says
from tests.metrics.metric_samples import (
    row,
)

ITEMS = pd.DataFrame(
    {
        "item_id": ["007", "8:ab", "9"],
        "image_id": ["007.jpg", "008.jpg", "007.jpg"],
        "caption": ['a dog, "running"', "NA", "Ein Mädchen 🐕"],
    }
)
SCORES = [0.25, -1.5, 3.0]
KEYS = pytest.mark.parametrize("keys", [["item_id"], ["image_id", "caption"]], ids="+".join)


def write(path: Path, table: pd.DataFrame) -> ScoreFile:
    """A score file of the kind that its ending says."""
    if path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".jsonl":
        lines = [json.dumps(r, ensure_ascii=False) for r in table.to_dict("records")]
        path.write_text("\n".join([*lines, "", ""]), encoding="utf-8")
    else:
        table.to_csv(path, index=False, encoding="utf-8")
    return ScoreFile(path=str(path), name="Mine")


@KEYS
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_scores_from_a_file(ending, keys, tmp_path):
    table = ITEMS[keys].assign(score=SCORES, other="x").iloc[::-1]
    extra = pd.DataFrame([{**dict.fromkeys(keys, "unasked"), "score": 9.0, "other": "x"}])
    instance = write(tmp_path / f"scores{ending}", pd.concat([table, extra, table]))
    assert instance.score(ITEMS).tolist() == SCORES
    assert instance.score(ITEMS.iloc[[2, 0, 2]]).tolist() == [3.0, 0.25, 3.0]


def test_scores_that_nobody_asked_for_are_counted_in_a_remark(tmp_path):
    """And where none is of an item, all items lack a score."""
    table = ITEMS[["item_id"]].assign(score=SCORES)
    instance = write(tmp_path / "scores.csv", table)
    for wanted, count in ((ITEMS, 0), (ITEMS.iloc[[0]], 2)):
        rows = Rows(wanted)
        instance.score(rows)
        remark = f"{count} of 3 scores in {instance.path} are of no item that is scored here"
        assert rows.remarks == ({instance.spec: [remark]} if count else {})
    with says("(3 of 3 items lack one)"):
        instance.score(ITEMS.assign(item_id=["7", "8", "10"]))


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("name", ["FLEUR", "007"])
def test_the_metric_column_picks_rows(ending, name, tmp_path):
    both = [
        ITEMS[["item_id"]].assign(metric=m, score=s)
        for m, s in [("8", [7.0, 7.0, 7.0]), (name, SCORES)]
    ]
    instance = write(tmp_path / f"scores{ending}", pd.concat(both))
    assert dataclasses.replace(instance, name=name).score(ITEMS).tolist() == SCORES
    with pytest.raises(
        InputError, match=rf"no row is of metric 'absent', but of .*{name}.*; choose"
    ):
        dataclasses.replace(instance, name="absent").score(ITEMS)


def test_the_metric_column_may_use_a_name_that_results_need(tmp_path):
    table = ITEMS[["item_id"]].assign(metric="cider", score=SCORES)
    instance = write(tmp_path / "scores.parquet", table)
    assert dataclasses.replace(instance, metric="cider").score(ITEMS).tolist() == SCORES
    assert (
        metric(f"file(path={instance.path},name=Old,metric=cider)").score(ITEMS).tolist() == SCORES
    )


def test_a_file_goes_by_its_name_and_has_one_metric(tmp_path):
    table = ITEMS[["item_id"]].assign(metric="FLEUR", score=SCORES)
    write(tmp_path / "mine.parquet", table)
    made = metric(f"{tmp_path}/mine.parquet")
    assert (made.spec, made.score(ITEMS).tolist()) == ("mine", SCORES)


@KEYS
def test_a_missing_score_is_an_error(keys, tmp_path):
    instance = write(tmp_path / "scores.csv", ITEMS[keys].assign(score=SCORES).iloc[:1])
    with pytest.raises(
        InputError, match=r"scores\.csv: no score for (8|008).*2 of 3 items lack one"
    ):
        instance.score(ITEMS)


@KEYS
def test_two_scores_for_an_item(keys, tmp_path):
    table = ITEMS[keys].assign(score=SCORES)
    instance = write(tmp_path / "scores.csv", pd.concat([table, table.iloc[:1].assign(score=0.5)]))
    with pytest.raises(
        InputError,
        match=r"scores\.csv:5: two scores for 007.*, the first at .*scores\.csv:\d; keep one",
    ):
        instance.score(ITEMS)


@pytest.mark.parametrize("bad", ["inf", "high", "-Infinity", "9" * 400])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_score_that_is_no_number(ending, bad, tmp_path):
    scores = ["0.25", bad, "3"]
    instance = write(tmp_path / f"scores{ending}", ITEMS[["item_id"]].assign(score=scores))
    line = 3 if ending == ".csv" else 2
    with pytest.raises(
        InputError, match=rf"scores{ending}:{line}: the score of 8:ab is not a number"
    ):
        instance.score(ITEMS)


def test_a_score_that_is_no_float_in_json_lines(tmp_path):
    path = tmp_path / "scores.jsonl"
    for bad in ("9" * 400, "true", "[1]"):
        path.write_text(f'{{"item_id": "007", "score": 1}}\n{{"item_id": "8", "score": {bad}}}\n')
        with pytest.raises(InputError, match=r"scores\.jsonl:2: the score of 8 is not a number"):
            ScoreFile(path=str(path), name="Mine").score(ITEMS)


@pytest.mark.parametrize("missing", ["NaN", "", "null"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_an_empty_cell_is_a_missing_score(ending: str, missing: str, tmp_path: Path) -> None:
    """As a row is that the file lacks: an error with its line, and undefined with `protocol.undefined=drop`."""
    table = ITEMS[["item_id"]].assign(score=["0.25", missing, "3"])
    instance = write(tmp_path / f"scores{ending}", table)
    line = 3 if ending == ".csv" else 2
    with says(
        f"scores{ending}:{line}: the score of 8:ab is missing ('{missing}'); every item needs one, unless "
        "protocol.undefined=drop"
    ):
        instance.score(ITEMS)
    np.testing.assert_equal(instance.score(Rows(ITEMS, allows_gaps=True)), [0.25, np.nan, 3.0])


def test_a_nan_in_parquet_and_an_absent_score_in_json_lines(tmp_path):
    table = ITEMS[["item_id"]].assign(score=[0.25, np.nan, 3.0])
    path = tmp_path / "scores.jsonl"
    path.write_text('{"item_id": "007", "score": 1}\n{"item_id": "8:ab"}\n')
    for instance in (write(tmp_path / "scores.parquet", table), ScoreFile(path=str(path))):
        with says("the score of 8:ab is missing"):
            instance.score(ITEMS)


def test_a_file_of_other_captions_shows_one(tmp_path: Path) -> None:
    """A reader sees how the file calls its items, and no remedy that would leave out all of them."""
    table = ITEMS[["item_id"]].assign(item_id=["7.jpg", "8.jpg", "9.jpg"], score=SCORES)
    instance = write(tmp_path / "scores.csv", table)
    for allows_gaps in (False, True):
        with says("(3 of 3 items lack one); what it has is of others, such as 7.jpg"):
            instance.score(Rows(ITEMS, allows_gaps=allows_gaps))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, r"metric Mine: no file .*absent\.csv"),
        ("scores.txt", b"item_id,score\n", "no score for 007"),
        ("scores", b"item_id,score\n", "no score for 007"),
        ("scores.csv", b"", r"scores\.csv: it is empty"),
        ("scores.csv", b"item_id,score\n007,1,2\n", r"scores\.csv:2: 3 cells"),
        ("scores.csv", b"item_id,value\n007,1\n", "no column score"),
        ("scores.csv", b"image_id,score\n007.jpg,1\n", "no column caption"),
        ("scores.csv", b"score\n1\n", "no column image_id"),
        ("scores.csv", b"item_id,score\n007,1\n\xff,2\n", r"scores\.csv:3: not UTF-8"),
        ("scores.jsonl", b'{"item_id": "007", "score": 1}\n{"item', r"scores\.jsonl:2: not valid"),
        ("scores.jsonl", b"[1]\n", r"scores\.jsonl: entry 0: an object is expected"),
        ("scores.parquet", b"PAR1", r"scores\.parquet: not a complete Parquet file"),
    ],
)
def test_a_score_file_that_is_wrong(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        ScoreFile(path=str(tmp_path / name), name="Mine").score(ITEMS)
    assert "\n" not in str(error.value)


def test_items_without_the_key_of_the_score_file(tmp_path):
    instance = write(tmp_path / "scores.csv", ITEMS[["item_id"]].assign(score=SCORES))
    with pytest.raises(InputError, match="the items to score have no item_id"):
        instance.score([row()])


# Scores that somebody published


def published_rows() -> Rows:
    """Two systems' captions of two images; those of image 7 are equal."""
    table = [
        ("COCO_val2014_000000000007.jpg", "A dog.", "one"),
        ("7", "A dog.", "two"),
        ("42", "A cat.", "one"),
        ("42", "Cats.", "two"),
    ]
    rows = [
        {"item_id": str(n), "image_id": image, "caption": caption, "system": system}
        for n, (image, caption, system) in enumerate(table)
    ]
    return Rows(pd.DataFrame(rows).assign(references=[()] * len(rows), image=None, weight=1))


PUBLISHED_FILES = {
    # The captions of image 7 are equal, and so are their scores.
    "captions": "image,caption,system,score\n000000000007.jpg,A dog.,one,1\n7,A dog.,two,1\n42,A cat.,one,3\n42,Cats.,two,4\n",
    # They have scores of their own, which the system tells apart.
    "systems besides": "image,caption,system,score\n7,A dog.,one,1\n7,A dog.,two,2\n42,A cat.,one,3\n42,Cats.,two,4\n",
    "systems alone": "image,system,score\n7,one,1\n7,two,2\n42,one,3\n42,two,4\n",
}


@pytest.mark.parametrize("form", PUBLISHED_FILES)
def test_a_table_of_images_captions_systems_and_scores(form, tmp_path):
    (tmp_path / "scores.csv").write_text(PUBLISHED_FILES[form])
    scores = ScoreFile(str(tmp_path / "scores.csv")).score(published_rows())
    assert scores.tolist() == [1, 1 if form == "captions" else 2, 3, 4]


def test_a_judges_answers_in_words(tmp_path):
    path = tmp_path / "judge.csv"
    path.write_text("image,system,answer\n7,one,yes\n7,two, No \n42,one,Good.\n42,two,**no**\n")
    assert metric(str(path)).score(published_rows()).tolist() == [1, 0, 1, 0]
    path.write_text("image,system,answer\n7,one,perhaps not\n")
    with says(
        "judge.csv:2: the score of 7 'one' is not a number, and none of yes, true, good",
        ": 'perhaps not'",
    ):
        metric(str(path)).score(published_rows())


def test_columns_of_other_names_and_the_mark_of_published_scores(tmp_path):
    """In the form of BILLBOARD's files: a system, COCO's number, a metric and a score."""
    lines = ["SYS,seg_id,set_id,metric,value"]
    lines += [f"{s},{i},5,CLIPS,{v}" for s, i, v in (("one", 7, 1), ("two", 7, 2), ("one", 42, 3))]
    lines += ["two,42,5,CLIPS,4", "two,42,5,SPICE,9"]
    path = tmp_path / "billboard.csv"
    path.write_text("\n".join(lines))
    names = "image=seg_id,system=SYS,score_column=value,source=BILLBOARD"
    published = metric(f"file(path={path},metric=CLIPS,name=CLIPScore,{names})")
    rows = published_rows()
    assert published.score(rows).tolist() == [1, 2, 3, 4]
    remark = "scores as BILLBOARD published them, not computed here"
    assert rows.remarks[published.spec] == [remark]
    assert published.spec == "CLIPScore"
    style = catalog.metric_style(published)
    assert (style.label, style.kind) == ("CLIPScore (published)", "released")
    assert catalog.metric_style(metric(f"file(path={path})")).kind == "given"
    wrong = metric(f"file(path={path},metric=CLIPS,image=seg_id,system=SYS)")
    with says(
        "no column score, which has the scores; name it with 'metrics=file(path=",
        "billboard.csv,score_column=NAME)'; it has SYS, ",
    ):
        wrong.score(rows)
    with says(
        "no column caption; a score file has score and either item_id, or image_id (or image)"
    ):
        metric(f"file(path={path},metric=CLIPS,image=seg_id,score_column=value)").score(rows)


def test_published_scores_of_thumb(data_root, tmp_path):
    """CLIPScore's r without Human as Kasai et al. 2022 print it: precision .18, recall .27, total .32."""
    parts = sorted((data_root / "billboard_thumb").glob("*CLIPS.csv"))
    tables = pd.concat([pd.read_csv(part) for part in parts])
    tables.to_csv(tmp_path / "billboard.csv", index=False)
    clipscore = ScoreFile(
        str(tmp_path / "billboard.csv"),
        name="CLIPScore",
        metric="CLIPS",
        image="seg_id",
        system="SYS",
        source="BILLBOARD",
    )
    systems = ["Up-Down", "Unified-VLP", "VinVL-base", "VinVL-large"]
    result = captau.bench(
        "thumb",
        clipscore,
        protocol={"systems": systems},
        data_root=data_root,
        statistics={"interval": "none"},
    )
    rows = result.correlations.query("metric == 'CLIPScore' and coefficient == 'pearson'")
    values = rows.set_index("dimension")["value"].round(2)
    assert values.to_dict() == {"precision": 0.18, "recall": 0.27, "total": 0.32}
