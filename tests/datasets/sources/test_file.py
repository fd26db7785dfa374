"""Judgements of one's own: the walk-through in the docs as it stands, and what can go wrong."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import captau
from captau.datasets.registry import load
from captau.datasets.schema import Scale, SourceFile
from tests.conftest import raises_exactly, run_captau, says

DOCS = (Path(__file__).parents[3] / "docs" / "own_judgements.md").read_text(encoding="utf-8")
PLAIN = "image,caption,value\na,b,1\na,b,2\nc,d,3\n"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCS, re.S)
    assert found
    return found[1]


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(block("csv"), encoding="utf-8")
    return tmp_path / "mine.csv"


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return folder / name


def test_the_walk_through_on_the_command_line(template: Path, capsys) -> None:
    command = block("console").removeprefix("$ captau ").replace("\\\n", " ")
    assert run_captau(*shlex.split(command), "output_dir=out") == 0
    assert "mine: agreement with people" in capsys.readouterr().out
    found = pd.read_csv("out/correlations.csv")
    assert set(found["dataset"]) == {"mine"}
    assert (found["n_items"].max(), found["n_ratings"].max()) == (6, 12)


def test_ratings_in_words_are_ones_and_noughts(tmp_path: Path) -> None:
    path = write(tmp_path, "image,caption,value\na,b,yes\na,c,No\nb,d,good\n")
    made = load("file", path=path)
    assert made.ratings["value"].tolist() == [1, 0, 1]
    assert made.card.scales["overall"] == Scale(0, 1, 1)
    assert made.card.remarks == ("Ratings are words: yes is 1, no is 0, good is 1.",)
    mixed = write(tmp_path, "image,caption,value\na,b,yes\na,c,3\n", "mixed.csv")
    with says("mixed.csv:2: value is 'yes', not a number"):
        load("file", path=mixed)


def test_the_walk_through_in_python(template: Path, capsys) -> None:
    namespace: dict[str, Any] = {}
    exec(block("python"), namespace)
    assert "mine" in capsys.readouterr().out
    made = namespace["judged"]
    assert (len(made.items), len(made.ratings)) == (6, 12)
    assert made.items["references"].tolist()[2] == (
        "a man is cooking in a kitchen",
        "someone stirs a pot, smiling",
    )
    assert made.items["system"].tolist() == ["A", "B"] * 3
    assert made.card.scales["overall"].low == 1
    assert set(made.ratings["rater"]) == {"ann", "bob"}
    # A pair's unigram matches, by hand: "a dog runs along the beach" has `a`, `dog`, `the` of six.
    values = namespace["results"].scores
    first = values[(values["metric"] == "bleu_1") & (values["item_id"] == made.items["item_id"][0])]
    assert first["score"].tolist() == pytest.approx([3 / 6])


def test_agree_reads_it_too(template: Path, capsys) -> None:
    ended = run_captau(
        *shlex.split(
            "agree dataset=file file.path=mine.csv file.image=img file.caption=text "
            "file.value=score file.rater=who file.references=refs file.name=mine output_dir=out"
        )
    )
    assert ended == 0
    assert set(pd.read_csv("out/agreement.csv")["dataset"]) == {"mine"}


def test_the_usual_names_need_no_options(tmp_path: Path) -> None:
    text = "image,caption,value,rater,references,dimension,system,split\n7,b,1,r,x,fit,s,train\n"
    made = load("file", path=write(tmp_path, text))
    assert made.items.iloc[0].drop("item_id").tolist() == ["7", None, "b", ("x",), "s", "train"]
    assert made.ratings.iloc[0].tolist()[1:] == ["fit", "r", 1.0]
    assert (made.name, made.card.title) == ("file", "t.csv")


def test_without_them_there_are_none(tmp_path: Path) -> None:
    made = load("file", path=write(tmp_path, PLAIN))
    assert made.items["references"].tolist() == [(), ()]
    assert not made.card.has_references
    assert made.ratings["rater"].tolist() == ["rating_1", "rating_2", "rating_1"]
    assert (made.card.scales["overall"].low, made.card.scales["overall"].high) == (1, 3)


def test_several_dimensions_are_all_used(tmp_path: Path) -> None:
    rows = [f"i{i},c{i},{d},{(i * 7 + len(d)) % 5},r" for i in range(6) for d in ("fit", "fluency")]
    path = write(tmp_path, "\n".join(["image,caption,what,value,references", *rows]))
    options = {"path": path, "dimension": "what"}
    found = captau.bench("file", ["bleu_1"], file=options, ceilings=False).correlations
    assert set(found["dimension"]) == {"fit", "fluency"}
    assert set(found["protocol"]) == {"usual"}
    made = load("file", path=path, dimension="what", low=0, high=4)
    assert made.dimensions == ("fit", "fluency")
    assert load("file", path=path, dimension="adequacy").dimensions == ("adequacy",)


def test_images_are_seen_from_the_table(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    path = write(tmp_path, f"{PLAIN}{'n' * 300},e,1\n")
    assert load("file", path=path).items["image"].tolist() == [str(tmp_path / "a"), None, None]
    (tmp_path / "c").mkdir()
    assert load("file", path=path).items["image"].tolist() == [str(tmp_path / "a"), None, None]


SCALES = """scales:
  fit: {low: 0, high: 5, step: 1}
  fluency: {low: 1, high: 5}
totals: [fluency]
faults: [fit]
conditions: {pay: "$10 an hour"}
"""
RATED = "image,caption,value,dimension\na,b,1,fit\na,b,2.5,fluency\nc,d,3,fit\n"


def test_the_card_of_a_table_with_a_file_of_scales(tmp_path: Path) -> None:
    path = write(tmp_path, RATED)
    usual = load("file", root=tmp_path, path=path).card
    assert usual.sources == (SourceFile(str(path), "your own file"),)
    assert usual.scales == {"fit": Scale(1, 3), "fluency": Scale(2.5, 2.5)}
    assert (usual.totals, usual.faults, usual.conditions) == ((), (), {})
    assert usual.anonymous_raters
    scales = write(tmp_path, SCALES, "t.yaml")
    card = load("file", path=path).card
    assert card.sources == tuple(SourceFile(str(x), "your own file") for x in (path, scales))
    assert card.scales == {"fit": Scale(0, 5, 1), "fluency": Scale(1, 5)}
    assert (card.totals, card.faults) == (("fluency",), ("fit",))
    assert card.conditions == {"pay": "$10 an hour"}
    write(tmp_path, "image,caption,value,rater,references\na,b,1,r,x\n")
    (tmp_path / "t.yaml").unlink()
    named = load("file", path=path).card
    assert (named.anonymous_raters, named.has_references) == (False, True)


@pytest.mark.parametrize(
    ("options", "scales"),
    [
        ({}, [Scale(0, 5, 1), Scale(1, 5)]),
        ({"low": -1}, [Scale(-1, 5, 1), Scale(-1, 5)]),
        ({"high": 9}, [Scale(0, 9, 1), Scale(1, 9)]),
        ({"step": 0.5}, [Scale(0, 5, 0.5), Scale(1, 5, 0.5)]),
        ({"low": 0, "scales": {"fluency": {"low": 2, "high": 3}}}, [Scale(0, 5, 1), Scale(2, 3)]),
    ],
)
def test_parts_of_scales_are_changed(options: Any, scales: list[Scale], tmp_path: Path) -> None:
    write(tmp_path, SCALES, "t.yaml")
    made = load("file", path=write(tmp_path, RATED), **options)
    assert list(made.card.scales.values()) == scales


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 3, "high": 2}, "file.low=3, file.high=2, file.step=None"),
        ({"step": 0}, "file.low=1, file.high=3, file.step=0"),
        ({"step": -1}, "file.low=1, file.high=3, file.step=-1"),
        ({"low": 4}, "file.low=4, file.high=3, file.step=None"),
    ],
)
def test_ends_and_a_step_that_make_no_scale(options: Any, message: str, tmp_path: Path) -> None:
    ending = "these make no scale; low must not exceed high, and the step must be above 0"
    with raises_exactly(f"{message}: {ending}"):
        load("file", path=write(tmp_path, PLAIN), **options)


def test_a_scale_of_one_number(tmp_path: Path) -> None:
    path = write(tmp_path, "image,caption,value\na,b,2\n")
    assert load("file", path=path, low=2, high=2).card.scales == {"overall": Scale(2, 2)}
    with raises_exactly(f"{path}:2: value is 2, not on the scale 3 to 4 in steps of 0.5"):
        load("file", path=path, low=3, high=4, step=0.5)


def test_scales_of_other_dimensions(tmp_path: Path) -> None:
    path = write(tmp_path, RATED)
    option = {"fits": {"low": 1, "high": 5}}
    with says(f"unknown dimension of {path} in file.scales 'fits': did you mean fit"):
        load("file", path=path, scales=option)
    write(tmp_path, "scales:\n  look: {low: 0, high: 5}\n  form: {low: 0, high: 5}\n", "t.yaml")
    with raises_exactly(
        f"{tmp_path / 't.yaml'}:1: scales: t.csv has ratings of 'fit', which has no scale there; there are "
        "look, form; add it"
    ):
        load("file", path=path)
    option = {name: {"low": 0, "high": 5} for name in ("fit", "fluency")}
    assert list(load("file", path=path, scales=option).card.scales) == ["fit", "fluency"]
    with says("t.csv has ratings of 'fluency', which has no scale there"):
        load("file", path=path, scales={"fit": option["fit"]})


@pytest.mark.parametrize("name", ["demo", "thumb"])
def test_a_set_has_no_name_of_captaus(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    with raises_exactly(f"file.name={name} is one of captau's datasets; choose another name"):
        load("file", path=path, name=name)
    for other in ("a", f"{name}2", "Z.b-c_d", "file", "-file"[1:]):
        card = load("file", path=path, name=other).card
        assert (card.name, card.title) == (other, "t.csv" if other == "file" else other)
    for other in (".a", "a b", "", "a/b"):
        message = f"file.name is '{other}'; letters, digits, '_', '-' and '.' are expected"
        with raises_exactly(message):
            load("file", path=path, name=other)


def test_columns_of_ratings_by_name(tmp_path: Path) -> None:
    """What is named goes before the usual name."""
    text = (
        "i,c,v,w,rater,s,system,p,k,d\na,b,1,ann,x,S,y,train,k1,fit\na,b,2,bob,x,S,y,train,k1,fit\n"
    )
    options = dict(zip(("image", "caption", "value", "rater", "system"), "icvws", strict=True))
    path = write(tmp_path, text)
    made = load("file", path=path, **options, split="p", cluster="k", dimension="d")
    (item,) = made.items.to_dict("records")
    assert [item[k] for k in ("image_id", "caption", "system", "split", "cluster")] == [
        *("a", "b", "S", "train", "k1")
    ]
    assert made.ratings.iloc[:, 1:].to_numpy().tolist() == [
        ["fit", "ann", 1.0],
        ["fit", "bob", 2.0],
    ]


@pytest.mark.parametrize("option", ["image", "caption", "value"])
def test_a_column_that_is_not_there_is_named_with_its_option(option: str, tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    long = "; one row a rating is expected; where each rater has a column, name all: file.value=r1,r2 or file.value=rater_*"
    ending = long if option == "value" else ""
    with raises_exactly(
        f"{path}: no column 'x'; it has image, caption, value; name the column with file.{option}={ending}"
    ):
        load("file", path=path, **{option: "x"})


@pytest.mark.parametrize("option", ["rater", "system", "split", "cluster", "references"])
def test_a_column_of_ratings_that_is_not_there(option: str, tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    with raises_exactly(f"{path}: no column 'x'; it has image, caption, value; see file.{option}="):
        load("file", path=path, **{option: "x"})


def test_pairs_with_columns_of_other_names(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    text = "i,one,two,w,a,b,p,k,r\nx,A dog.,A cat.,b,S,T,train,k1,ref\n"
    options = {"image": "i", "caption_a": "one", "caption_b": "two", "winner": "w"}
    options |= {"system_a": "a", "system_b": "b", "split": "p", "cluster": "k", "references": "r"}
    path = write(tmp_path, text)
    made = load("file", path=path, **options)
    first, second = made.items["item_id"]
    assert made.items.drop(columns="item_id").to_numpy().tolist() == [
        ["x", str(tmp_path / "x"), "A dog.", ("ref",), "S", "train", "k1"],
        ["x", str(tmp_path / "x"), "A cat.", ("ref",), "T", "train", "k1"],
    ]
    assert made.preferences.to_numpy().tolist() == [
        [f"{first}|{second}", first, second, "overall", "rating_1", -1.0, "b"]
    ]
    assert made.card.has_references


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        *(
            (
                f"image,caption_a,caption_b,winner,{there}",
                f"no column '{other}'; name the column with file.{other}=",
            )
            for there, other in (("system_a", "system_b"), ("system_b", "system_a"))
        ),
        *(
            (
                ",".join(
                    k for k in ("image", "caption_a", "caption_b", "winner", "z") if k != name
                ),
                f"no column '{name}'; it has "
                + ", ".join(
                    k for k in ("image", "caption_a", "caption_b", "winner", "z") if k != name
                )
                + f"; name the column with file.{name}=",
            )
            for name in ("image", "caption_a", "caption_b")
        ),
    ],
)
def test_columns_of_pairs_that_are_not_there(columns: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"{columns}\n{','.join('ab' * 9)[: 2 * columns.count(',') + 1]}\n")
    with raises_exactly(f"{path}: {message}"):
        load("file", path=path)


PAIRS = "image,caption_a,caption_b,winner\n"
GRADED = "image,caption_a,caption_b,strength,rater,dimension,system_a,system_b,references\n"


def test_a_table_of_comparisons_is_read_as_preferences(tmp_path: Path) -> None:
    """A caption that stands in several pairs of an image is one item; rater and order stay."""
    path = write(
        tmp_path,
        f"{GRADED}x,one,two,2,ann,fit,A,B,r ||| s\nx,one,two,-0.5,bob,fit,A,B,r ||| s\n"
        "x,two,one,0,cid,fit,B,A,r ||| s\nx,one,three,1,ann,fluency,A,C,r ||| s\n",
    )
    judged = captau.load("file", path=path)
    assert judged.items["caption"].tolist() == ["one", "two", "three"]
    assert judged.items["system"].tolist() == ["A", "B", "C"]
    assert judged.items["references"].tolist() == [("r", "s")] * 3
    one, two, three = judged.items["item_id"]
    assert judged.preferences.to_numpy().tolist() == [
        [f"{one}|{two}", one, two, "fit", "ann", 2.0, "a"],
        [f"{one}|{two}", one, two, "fit", "bob", -0.5, "b"],
        [f"{two}|{one}", two, one, "fit", "cid", 0.0, "tie"],
        [f"{one}|{three}", one, three, "fluency", "ann", 1.0, "a"],
    ]


WIDE_ROWS = [
    ("1.jpg", "a dog runs on grass", 5, "a dog runs", "a dog on the grass"),
    ("1.jpg", "a cat sits, or lies", 1, "a dog runs", "a dog on the grass"),
    ("2.jpg", "two men play chess", 4, "two men at a board", ""),
    ("3.jpg", "a red bus in a street", 5, "", "a red bus"),
]
REFERENCES_OF_WIDE_ROWS = [
    ("a dog runs", "a dog on the grass"),
    ("a dog runs", "a dog on the grass"),
    ("two men at a board",),
    ("a red bus",),
]


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "jsonl", "parquet", "arrow", "xlsx"])
@pytest.mark.parametrize("names", ["ref1,ref2", "ref1, ref2", "[ref1,ref2]", "ref*"])
def test_each_reference_may_have_a_column(form: str, names: str, tmp_path: Path) -> None:
    wide = pd.DataFrame(WIDE_ROWS, columns=["image", "caption", "value", "ref1", "ref2"])
    path = tmp_path / f"t.{form}"
    if form == "json":
        wide.to_json(path, orient="records")
    elif form == "jsonl":
        wide.to_json(path, orient="records", lines=True)
    elif form == "parquet":
        wide.replace("", None).to_parquet(path)
    elif form == "arrow":
        wide.replace("", None).to_feather(path)
    elif form == "xlsx":
        wide.to_excel(path, index=False)
    else:
        wide.to_csv(path, index=False, sep="," if form == "csv" else "\t")

    items = load("file", path=path, references=names).items
    assert dict(zip(items["caption"], items["references"], strict=True)) == {
        row[1]: references
        for row, references in zip(WIDE_ROWS, REFERENCES_OF_WIDE_ROWS, strict=True)
    }


def test_columns_of_references_give_the_numbers_of_one_column(tmp_path: Path, capsys) -> None:
    wide = pd.DataFrame(WIDE_ROWS, columns=["image", "caption", "value", "ref1", "ref2"])
    wide.to_csv(tmp_path / "wide.csv", index=False)
    joined = [" ||| ".join(references) for references in REFERENCES_OF_WIDE_ROWS]
    wide[["image", "caption", "value"]].assign(references=joined).to_csv(
        tmp_path / "joined.csv", index=False
    )

    runs = {"joined": [], "wide": ["file.references=ref1,ref2"]}
    for name, words in runs.items():
        run_words = ["bench", "dataset=file", "metrics=cider,bleu_1,rouge_l", *words]
        paths = [f"file.path={tmp_path / name}.csv", f"output_dir={tmp_path / name}"]
        assert run_captau(*run_words, *paths) == 0
    columns = ["metric", "coefficient", "value", "ci_low", "ci_high", "n_items"]
    found, expected = (
        pd.read_csv(tmp_path / name / "correlations.csv")[columns] for name in ("wide", "joined")
    )
    assert expected["value"].notna().any()
    pd.testing.assert_frame_equal(found, expected, check_exact=True)

    # Without the option the error names it.
    path = f"file.path={tmp_path / 'wide.csv'}"
    assert run_captau("bench", "dataset=file", "metrics=cider", path) == 2
    assert "file.references= names their columns" in capsys.readouterr().err


def test_columns_of_references_that_are_not_there_or_empty(tmp_path: Path) -> None:
    path = write(tmp_path, "image,caption,value,ref1,ref2\na,b,1,c,d\na,e,2, ,\n")
    with says("no column 'ref3'; it has image, caption, value, ref1, ref2; see file.references="):
        load("file", path=path, references="ref1,ref3")
    with says("t.csv:3: no references in ref1, ref2; at least one is needed"):
        load("file", path=path, references="ref1,ref2")


def test_comparisons_may_have_a_column_for_each_reference(tmp_path: Path) -> None:
    path = write(
        tmp_path, "image,caption_a,caption_b,winner,ref1,ref2\na,one dog,two cats,a,a dog,dogs\n"
    )
    items = load("file", path=path, references="ref1,ref2").items
    assert set(items["references"]) == {("a dog", "dogs")}


def test_comparisons_without_raters_are_numbered(tmp_path: Path) -> None:
    path = write(tmp_path, f"{PAIRS}x,one,two,a\nx,one,two,tie\nx,one,three,b\n")
    judged = captau.load("file", path=path)
    assert judged.preferences["rater"].tolist() == ["rating_1", "rating_2", "rating_1"]
    assert judged.preferences["winner"].tolist() == ["a", "tie", "b"]
    assert not judged.card.has_references
    assert judged.card.anonymous_raters


def test_two_systems_equal_captions_are_a_pair(tmp_path: Path) -> None:
    text = "image,caption_a,caption_b,winner,system_a,system_b\nx,one,one,a,A,B\nx,one,two,b,A,B\n"
    judged = load("file", path=write(tmp_path, text))
    assert judged.items[["caption", "system"]].to_numpy().tolist() == [
        ["one", "A"],
        ["one", "B"],
        ["two", "B"],
    ]
    assert judged.preferences["winner"].tolist() == ["a", "b"]
    assert judged.card.remarks == (
        "1 of 2 pairs are of two systems' equal captions, which metrics that read captions tie.",
    )


@pytest.mark.parametrize(
    ("column", "answers", "strength"),
    [
        # Worked: the second answer stands in the other order, so that "b" and -3 there prefer the first caption as well.
        ("winner", ("a", "b"), 1.0),
        ("winner", ("a", "a"), 0.0),
        ("winner", ("a", "tie"), 1.0),
        ("strength", (1, -3), 2.0),
        ("strength", (1, 0), 0.5),
    ],
)
def test_a_raters_answers_to_a_pair_are_averaged(column, answers, strength, tmp_path: Path) -> None:
    text = (
        f"image,caption_a,caption_b,{column},rater\nx,one,two,{answers[0]},r\n"
        f"x,two,one,{answers[1]},r\nx,one,two,{answers[0]},s\n"
    )
    judged = load("file", path=write(tmp_path, text))
    assert judged.preferences["rater"].tolist() == ["r", "s"]
    assert judged.preferences["strength"].tolist()[0] == strength
    assert judged.preferences["item_a"].nunique() == 1
    assert judged.card.remarks == (
        "1 answers are a rater's second or later one to a pair; the mean of the rater's answers counts.",
    )


def test_references_may_differ_by_pair(tmp_path: Path) -> None:
    text = "image,caption_a,caption_b,winner,references\nx,one,two,a,r\nx,one,three,b,r ||| s\n"
    judged = load("file", path=write(tmp_path, text))
    assert judged.items[["caption", "references"]].to_numpy().tolist() == [
        ["one", ("r",)],
        ["one", ("r", "s")],
        ["two", ("r",)],
        ["three", ("r", "s")],
    ]
    assert judged.items["item_id"].is_unique
    assert judged.card.remarks == (
        "1 captions have other references in other pairs; each of their sets is an item.",
    )


def test_intervals_resample_clusters(tmp_path: Path, capsys) -> None:
    """A table whose images are the clusters has the same intervals, in each kind of judgement."""
    captions = [f"{'a dog runs ' * (i % 3 + 1)}{i}" for i in range(24)]
    rows = [
        (f"c{i // 4}", f"i{i}", c, captions[i - 1], "ab"[i % 5 < 2]) for i, c in enumerate(captions)
    ]
    tables = {
        "pairs": ("image,caption_a,caption_b,winner", lambda row: ",".join(row[2:])),
        "ratings": ("image,caption,value", lambda row: f"{row[2]},{len(row[3]) % 4}"),
    }
    for kind, (header, cells) in tables.items():
        found = []
        for clustered in (True, False):
            lines = [f"{row[clustered]},{cells(row)}{f',{row[0]}' * clustered}" for row in rows]
            path = write(tmp_path, "\n".join([header + ",cluster" * clustered, *lines]))
            options = {"path": path}
            run = captau.bench("file", [len_of_caption], file=options, ceilings=False)
            assert "24 items" in str(run) or kind == "pairs"
            columns = ["metric", "coefficient", "value", "ci_low", "ci_high"]
            found.append(run.correlations[columns])
        assert found[0]["ci_low"].notna().any()
        assert not (found[0]["ci_low"] == found[0]["value"]).all()
        pd.testing.assert_frame_equal(*found)
        with says("protocol.level=by_image does not go with clusters"):
            captau.bench(
                "file",
                [len_of_caption],
                file={
                    "path": write(
                        tmp_path,
                        "\n".join(
                            [
                                tables["ratings"][0] + ",cluster",
                                *(f"{r[1]},{tables['ratings'][1](r)},{r[0]}" for r in rows),
                            ]
                        ),
                    )
                },
                protocol={"level": "by_image"},
            )


def len_of_caption(caption: str) -> int:
    return len(caption)


#: Made up, in the shape of AudioCaps-Eval and Clotho-Eval (Zhou et al. 2022), whose entries differ in two places.
VOTES = [
    {
        "audio_id": "a",
        "raw_name": "a.wav",
        "references": ["r1", "r2", "r3"],
        "HC": ["r1", "r2", "human_1", "human_2", [1, -1, 0, 1]],
        "HI": ["r3", "other", "a_human_3", "b_human_1", [1, 1]],
        "MM_1": ["m1", "m2", "nn", "rl", [-1, 1]],
    },
    {
        "audio_id": "b",
        "references": ["s1", "s2"],
        "HM": ["s1", "m1", "human_1", "nn", 0, [0, -1]],
        "MM_2": ["m1", "m1", "nn", "rl", [1]],
    },
]


def test_votes_on_pairs_are_read_as_published(tmp_path: Path) -> None:
    """Worked by the rule: of two references each is scored without itself, of one both are."""
    path = write(tmp_path, json.dumps(VOTES), "votes.json")
    judged = load("file", path=path)
    items = judged.items.set_index("item_id")
    found = [
        (
            p.dimension,
            p.rater,
            p.strength,
            *(
                (
                    items.loc[side, "caption"],
                    items.loc[side, "system"],
                    items.loc[side, "references"],
                )
                for side in (p.item_a, p.item_b)
            ),
        )
        for p in judged.preferences.itertuples()
    ]
    hc = (("r1", "human_1", ("r2", "r3")), ("r2", "human_2", ("r1", "r3")))
    hi = (("r3", "a_human_3", ("r1", "r2")), ("other", "b_human_1", ("r1", "r2")))
    mm = (("m1", "nn", ("r1", "r2", "r3")), ("m2", "rl", ("r1", "r2", "r3")))
    assert found == [
        *(("HC", f"rating_{i + 1}", v, *hc) for i, v in enumerate((1, -1, 0, 1))),
        *(("HI", f"rating_{i + 1}", 1, *hi) for i in range(2)),
        *(("MM", f"rating_{i + 1}", v, *mm) for i, v in enumerate((-1, 1))),
        *(
            ("HM", f"rating_{i + 1}", v, ("s1", "human_1", ("s2",)), ("m1", "nn", ("s2",)))
            for i, v in enumerate((0, -1))
        ),
        ("MM", "rating_1", 1, ("m1", "nn", ("s1", "s2")), ("m1", "rl", ("s1", "s2"))),
    ]
    assert set(judged.items["image_id"]) == {"a", "b"}
    assert (judged.card.has_references, judged.card.anonymous_raters) == (True, True)
    assert len(judged.card.remarks) == 2
    results = captau.bench("file", ["rouge_l"], file={"path": path}).correlations
    assert {"HC", "HI", "HM", "MM", "mean"} == set(results["dimension"])


def test_the_majority_of_a_pairs_votes_counts_as_a_rule(tmp_path: Path) -> None:
    """Golden, worked: ROUGE-L prefers the first caption of each pair.

    Of the pairs' majorities one agrees, one does not, and one is even and left out: 1/2. Of the nine votes, of which none
    is 0, three, one and one agree: 5/9.
    """
    entries = [
        {
            "audio_id": str(number),
            "references": ["a dog barks"],
            "HH": ["a dog", "cars pass", "human_1", "human_2", votes],
        }
        for number, votes in enumerate(([1, 1, 1], [1, -1, -1, -1], [1, -1]))
    ]
    entries[0]["pair"] = entries[0]["HH"]
    path = write(tmp_path, json.dumps(entries), "votes.json")

    def accuracy_of(**protocol: Any) -> tuple[float, str]:
        results = captau.bench("file", ["rouge_l"], file={"path": path}, protocol=protocol)
        rows = results.correlations
        row = rows[(rows["metric"] == "rouge_l") & (rows["dimension"] == "HH")].iloc[0]
        assert set(rows["coefficient"]) == {"accuracy"}
        assert any("1 pair is not read, of the keys pair;" in n for n in results.tables[0].notes)
        return row["value"], row["protocol"]

    assert accuracy_of() == (0.5, "usual")
    assert accuracy_of(ratings="mean") == (0.5, "usual")
    assert accuracy_of(ratings="per_rating") == (
        pytest.approx(5 / 9),
        "usual ratings=per_rating",
    )


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (["a", "b", "s", "t"], "entry 1: HC is not [caption_a, caption_b, source_a, source_b"),
        (["a", "b", "s", "t", [2]], "votes being a list of 1, 0 and -1"),
        (["a", "b", "s", None, [1]], "entry 1: HC is not"),
        (["s1", "b", "s", "t", [1]], "entry 1: HC: no reference is left"),
    ],
)
def test_votes_that_are_malformed(pair: list[Any], message: str, tmp_path: Path) -> None:
    entry = {"audio_id": "b", "references": ["s1"], "HC": pair}
    with says(message):
        load("file", path=write(tmp_path, json.dumps([VOTES[0], entry]), "votes.json"))


def test_raters_of_votes_are_anonymous_whatever_keys_there_are(tmp_path: Path) -> None:
    entry = {"clip": "z", "rater": "ann", "references": ["r"], "MM_1": ["a", "b", "s", "t", [1]]}
    path = write(tmp_path, json.dumps([entry]), "votes.json")
    made = load("file", path=path, image="clip")
    assert made.card.anonymous_raters
    assert made.items["image_id"].tolist() == ["z", "z"]


FAULTS = {
    "a pair of one caption": (
        f"{PAIRS}x,one,two,a\nx,one, one,b\n",
        {},
        ":3: both captions are 'one'",
    ),
    "an empty caption": (f"{PAIRS}x,one,,a\n", {}, ":2: caption_b is empty"),
    "a winner that is neither": (
        f"{PAIRS}x,one,two,c\n",
        {},
        ":2: winner is 'c', not one of a, b, tie",
    ),
    "no verdict at all": (
        f"{PAIRS}x,one,two,\nx,one,three,skip\n",
        {},
        ":2: winner is empty or no verdict in each row",
    ),
    "a meaning that is none": (
        f"{PAIRS}x,one,two,c\n",
        {"winners": {"c": "left"}},
        "file.winners: 'c' is 'left', not a, b, tie or none",
    ),
    "no column of winners": (
        "image,caption_a,caption_b\nx,one,two\n",
        {},
        ": no column 'winner'; it has",
        "name it with file.winner=",
    ),
    "no second caption": (
        "image,caption_a,winner\nx,one,a\n",
        {},
        ": no column 'caption_b'; it has",
        "file.caption_b=",
    ),
    "a strength that is not a number": (
        "image,caption_a,caption_b,strength\nx,one,two,much\n",
        {},
        ":2: strength is 'much', not a number",
    ),
    "two opposite columns": (
        "image,caption_a,caption_b,winner,strength\nx,one,two,a,-1\n",
        {},
        ":2: winner is a, and strength prefers b",
    ),
    "one system alone": (
        "image,caption_a,caption_b,winner,system_a\nx,one,two,a,A\n",
        {},
        ": no column 'system_b'",
        "file.system_b=",
    ),
    "one system's equal captions": (
        "image,caption_a,caption_b,winner,system_a,system_b\nx,one,one,a,A,A\n",
        {},
        ":2: both captions are 'one'; a pair is of two captions, unless two systems wrote them",
    ),
    "a pair in two clusters": (
        "image,caption_a,caption_b,winner,cluster\nx,one,two,a,k\nx,one,three,b,m\n",
        {},
        ":3: cluster differs from",
    ),
    "off scale": (f"{PLAIN}e,f,9\n", {"low": 1, "high": 5}, ":5: value is 9, not on the scale"),
    "off one end": (f"{PLAIN}e,f,0\n", {"low": 1}, ":5: value is 0, not on the scale 1 to 3"),
    "off step": (f"{PLAIN}e,f,1.5\n", {"step": 1}, ":5: value is 1.5, not on"),
    "no number": (
        f"{PLAIN}e,f,\ng,h,2\ni,j,NA\n",
        {},
        ":5: value is '', not a number; 2 of 6 ratings are missing (lines 5, 7); file.missing=drop leaves them out",
    ),
    "no number at all": ("image,caption,value\na,b,\n", {"missing": "drop"}, ":2: value is ''"),
    "no image": (f"{PLAIN},f,1\n", {}, ":5: image is empty"),
    "cut": (f"{PLAIN}e,f\n", {}, ":5: 2 cells"),
    "not UTF-8": (f"{PLAIN}e,caf\udce9,1\n", {}, ":5: not UTF-8"),
    "twice": (
        "image,caption,value,rater\na,b,1,r\na,b,1,r\n",
        {},
        ":3: rater 'r' already rated this caption in",
    ),
    "wide": (
        "image,caption,r1,r2\na,b,1,2\n",
        {},
        ": no column 'value'; it has image, caption, r1, r2; name the column with file.value=; one "
        "row a rating is expected",
    ),
    "no column": (PLAIN, {"image": "img"}, ": no column 'img'; it has", "file.image="),
    "no rater": (PLAIN, {"rater": "who"}, ": no column 'who'; it has", "file.rater="),
    "no references": (PLAIN, {"references": "refs"}, ": no column 'refs'", "file.references="),
    "empty references": (
        "image,caption,value,references\na,b,1,x\nc,d,1,\n",
        {},
        ":3: no references in references; at least one is needed",
    ),
    "broken list": (
        'image,caption,value,references\na,b,1,"[""x"""\n',
        {},
        ":2: references is '[\"x\"', from which captions cannot be told apart",
    ),
    "other references": (
        "image,caption,value,references\na,b,1,x\na,b,1,y\n",
        {},
        ":3: references differs from",
    ),
    "no scale": (PLAIN, {"low": 5, "high": 1}, "file.low=5, file.high=1"),
    "no step": (PLAIN, {"step": 0}, "file.step=0: these make no scale"),
    "empty": ("", {}, ": it is empty"),
    "header alone": ("image,caption,value\n", {}, "it has no items"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_line_and_column(fault: str, tmp_path: Path) -> None:
    text, options, *parts = FAULTS[fault]
    path = write(tmp_path, text)
    whole = ("no scale", "no step", "header alone", "a meaning that is none")
    with says(*parts[:1] if fault in whole else (f"{path}{parts[0]}",), *parts[1:]):
        load("file", path=path, **options)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({}, "dataset file: the option file.path=FILE is needed"),
        ({"path": "none.csv"}, "none.csv: cannot be read (No such file"),
        ({"path": "none.doc"}, "none.doc: cannot be read (No such file"),
        ({"path": 3}, "file.path is 3; the path of a file is expected"),
        ({"path": "none.csv", "value": 3.5}, "file.value is 3.5; a text is expected, such as"),
        ({"path": "none.csv", "value": ["r1", "r2"]}, "and of several columns 'NAME,NAME'"),
        ({"path": "none.csv", "low": "one"}, "file.low is 'one'; a number is expected, such as"),
        ({"path": "none.csv", "missing": "ignore"}, "file.missing is 'ignore', not error or drop"),
        ({"path": "none.csv", "flagged": "yes"}, "file.flagged is 'yes', not drop or keep"),
        ({"path": "none.csv", "name": "a/b"}, "file.name is 'a/b'"),
        ({"path": "none.csv", "name": "thumb"}, "file.name=thumb is one of captau's datasets"),
        ({"pth": "none.csv"}, "unknown option of dataset file 'pth': did you mean path or split?"),
    ],
)
def test_faults_in_the_options(options: dict[str, Any], part: str) -> None:
    with says(part):
        load("file", **options)


def test_other_datasets_have_no_options() -> None:
    with says("unknown option of dataset demo 'path': known: none"):
        load("demo", path="x")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("bench dataset=file", "the option file.path=FILE is needed"),
        ("bench file.path=mine.csv", "file.path=… belongs to dataset=file"),
        ("bench dataset=file file.pth=mine.csv", "unknown option of captau bench 'file.pth'"),
        ("bench dataset=file file.low=much", "file.low=much: a number is expected"),
    ],
)
def test_faults_on_the_command_line(words: str, part: str, capsys) -> None:
    ended = run_captau(*words.split())
    assert ended == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("cell", ["1_0", "1e1_0", "٣", " nan ", "0x1", "infinity"])
def test_a_rating_that_only_python_reads_is_no_number(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"image,caption,value\na,b,1\na,c,{cell}\n")
    with says(f"t.csv:3: value is '{cell}', not a number"):
        load("file", path=str(tmp_path / "t.csv"))


PAIR_FRAME = pd.DataFrame(
    {
        "image": ["x", "y", "z"],
        "caption_a": ["a dog runs", "a cat sits", "a cow"],
        "caption_b": ["two dogs", "two cats", "two cows"],
    }
)


def remarks_on(
    tmp_path: Path, frame: pd.DataFrame, **options: Any
) -> tuple[list[float], list[str]]:
    frame.to_csv(tmp_path / "p.csv", index=False)
    judged = load("file", path=tmp_path / "p.csv", **options)
    return judged.preferences["strength"].tolist(), list(judged.card.remarks)


def test_a_winner_that_is_a_place_and_the_other_system_is_named(tmp_path: Path) -> None:
    frame = PAIR_FRAME.assign(
        winner=["A", "B", "A"], system_a=["B", "B", "A"], system_b=["A", "A", "B"]
    )
    strengths, remarks = remarks_on(tmp_path, frame)
    assert strengths == [-1, 1, 1]
    assert remarks == [
        "In 2 rows the winner, such as 'A', is a place and the name of the system in the other place; it is taken for the "
        "system ('file.winners={A: a, B: b}' takes it for the place)."
    ]
    strengths, remarks = remarks_on(tmp_path, frame, winners={"A": "a", "B": "b"})
    assert (strengths, remarks) == ([1, -1, 1], [])

    same = frame.assign(system_a="A", system_b="B")
    assert remarks_on(tmp_path, same) == ([1, -1, 1], [])
    small = frame.assign(winner=["a", "b", "a"], system_a="b", system_b="a")
    strengths, (remark,) = remarks_on(tmp_path, small)
    assert strengths == [1, -1, 1]
    assert "it is taken for the place (rename the systems)." in remark


@pytest.mark.parametrize(
    ("strengths", "remark"),
    [
        ([1, 2, 3], "No 'strength' is negative, so that the second caption is better in no pair"),
        ([0, 1, 1], "negative ones the second. 0 is a tie."),
        ([-1, -2, 0], "No 'strength' is positive, so that the first caption is better in no pair"),
        ([1, -2, 0], ""),
    ],
)
def test_strengths_of_one_sign_are_named(
    strengths: list[float], remark: str, tmp_path: Path
) -> None:
    frame = pd.concat([PAIR_FRAME, PAIR_FRAME.assign(image=["u", "v", "w"])])
    read, remarks = remarks_on(tmp_path, frame.assign(strength=[*strengths, *strengths]))
    assert read == [*strengths, *strengths]
    assert len(remarks) == bool(remark)
    assert remark in "".join(remarks)


@pytest.mark.parametrize(
    "names",
    [
        ("chosen", "rejected"),
        ("win", "lose"),
        ("winner", "loser"),
        ("better", "worse"),
        ("positive", "negative"),
    ],
)
def test_the_better_caption_may_be_told_by_its_column(
    names: tuple[str, str], tmp_path: Path
) -> None:
    frame = PAIR_FRAME.iloc[:2].set_axis(["image", *names], axis=1)
    strengths, remarks = remarks_on(tmp_path, frame)
    assert strengths == [1, 1]
    assert remarks == [f"The caption in '{names[0]}' is taken for the better one of each pair."]
    numbers = PAIR_FRAME.assign(win=[3, 1, 0], lose=[1, 2, 0], winner="a")
    assert remarks_on(tmp_path, numbers) == ([1, 1, 1], [])


def test_other_sheets_of_excel_are_named(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "p.xlsx") as writer:
        for name in ("first", "second"):
            PAIR_FRAME.assign(winner=["a", "b", "tie"]).to_excel(
                writer, sheet_name=name, index=False
            )
    judged = load("file", path=tmp_path / "p.xlsx")
    assert judged.card.remarks == ("Of p.xlsx, the sheet 'first' is read, and not 'second'.",)
