"""Pairs of captions: their items, answers that count once, strengths in a table, and files of votes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from captau.datasets.reading.pairs import PairColumns
from captau.datasets.reading.table import read_table
from captau.datasets.reading.votes import count_unread_pairs, has_votes, read_votes
from captau.datasets.reading.winners import read_strengths
from captau.datasets.schema import Card
from tests.conftest import says

CARD = Card("toy", "Toy", "1", "", "", "", remarks=("First.",), has_references=False)
KEPT = ["image_id", "caption", "references", "system", "split", "image"]


def pairs(**changes: Any) -> PairColumns:
    """The first two rows are of one pair, in either order; the others are pairs of their own."""
    columns: dict[str, Any] = {
        "places": ["f:2", "f:3", "f:4", "f:5"],
        "image_ids": ["x", "x", "x", "y"],
        "captions_a": ["dog", "cat", "dog", "dog"],
        "captions_b": ["cat", "dog", "cow", "cat"],
        "strengths": [3.0, 1.0, -2.0, 0.0],
        "dimensions": ["fit", "fit", "fit", "fit"],
    }
    return PairColumns(**(columns | changes))


def preferences(columns: PairColumns) -> list[list[Any]]:
    """Of each preference the captions, the dimension, the rater and the strength."""
    made = columns.caption_set(CARD)
    assert made.preferences is not None
    captions = made.items.set_index("item_id")["caption"]
    rows = made.preferences
    assert rows["pair_id"].tolist() == (rows["item_a"] + "|" + rows["item_b"]).tolist()
    assert rows.index.tolist() == list(range(len(rows)))
    return [
        [*captions[[row.item_a, row.item_b]], row.dimension, row.rater, row.strength]
        for row in rows.itertuples()
    ]


def test_judgements_without_raters_are_numbered_by_pair() -> None:
    assert preferences(pairs()) == [
        ["dog", "cat", "fit", "rating_1", 1],
        ["cat", "dog", "fit", "rating_2", 1],
        ["dog", "cow", "fit", "rating_1", -1],
        ["dog", "cat", "fit", "rating_1", 0],
    ]
    assert preferences(pairs(dimensions=["fit", "style", "fit", "fit"], is_graded=True)) == [
        ["dog", "cat", "fit", "rating_1", 3],
        ["cat", "dog", "style", "rating_1", 1],
        ["dog", "cow", "fit", "rating_1", -2],
        ["dog", "cat", "fit", "rating_1", 0],
    ]
    assert pairs().caption_set(CARD).card.remarks == ("First.",)


@pytest.mark.parametrize(
    ("is_graded", "strengths", "expected"),
    [
        (True, [3, 1, -2, 0], [1, -2, 0]),  # (3 - 1) / 2
        (False, [3, 1, -2, 0], [1, -1, 0]),
        (True, [1, 1, 2, -3], [0, 2, -3]),
        (False, [1, 1, 2, -3], [0, 1, -1]),
        (True, [1, 4, 0.5, 1], [-1.5, 0.5, 1]),
    ],
)
def test_the_mean_of_a_raters_answers_to_a_pair_counts(is_graded, strengths, expected) -> None:
    """The second of them names the captions in the other order."""
    raters = ["ann", "ann", "ann", "ann"]
    columns = pairs(raters=raters, strengths=strengths, is_graded=is_graded)
    assert preferences(columns) == [
        ["dog", "cat", "fit", "ann", expected[0]],
        ["dog", "cow", "fit", "ann", expected[1]],
        ["dog", "cat", "fit", "ann", expected[2]],
    ]
    assert columns.caption_set(CARD).card.remarks == (
        "First.",
        "1 answers are a rater's second or later one to a pair; the mean of the rater's answers counts.",
    )
    others = pairs(raters=["ann", "bob", "ann", "ann"], strengths=strengths, is_graded=True)
    assert [row[3:] for row in preferences(others)] == [
        [rater, strength]
        for rater, strength in zip(["ann", "bob", "ann", "ann"], strengths, strict=True)
    ]


def test_a_tie_has_no_sign() -> None:
    columns = pairs(strengths=[-0.0, 1, 1, -0.0], is_graded=True)
    signs = [math.copysign(1, row[-1]) for row in preferences(columns)]
    assert signs == [1, 1, 1, 1]


def test_each_caption_of_an_image_and_a_system_is_an_item() -> None:
    made = pairs(
        systems_a=["A", "B", "A", "A"],
        systems_b=["B", "A", "C", "B"],
        references=[("r",), ("r",), ("r",), ("s", "t")],
        splits=["train", "train", "train", "test"],
        images=["x.png", "x.png", "x.png", None],
        clusters=["k", "k", "k", "m"],
    ).caption_set(CARD)
    assert made.items[[*KEPT, "cluster"]].to_numpy().tolist() == [
        ["x", "dog", ("r",), "A", "train", "x.png", "k"],
        ["x", "cat", ("r",), "B", "train", "x.png", "k"],
        ["y", "dog", ("s", "t"), "A", "test", None, "m"],
        ["x", "cow", ("r",), "C", "train", "x.png", "k"],
        ["y", "cat", ("s", "t"), "B", "test", None, "m"],
    ]
    assert made.card.remarks == ("First.",)
    # Without any of them the columns are empty, and images of one id are of one split.
    bare = pairs().caption_set(CARD).items
    assert bare[["references", "system", "image"]].to_numpy().tolist() == [[(), None, None]] * 5
    assert "cluster" not in bare
    with says("f:4: split differs from f:2, which has the same image and caption"):
        pairs(splits=["train", "train", "test", "test"]).caption_set(CARD)
    with says("f:2: cluster differs from f:3, which has the same image and caption"):
        pairs(clusters=["k", "l", "k", "m"]).caption_set(CARD)


def test_a_caption_whose_references_differ_by_pair_is_an_item_for_each() -> None:
    references = [("r",), ("s",), ("r",), ("r",)]
    made = pairs(references=references).caption_set(CARD)
    assert made.items[["image_id", "caption", "references"]].to_numpy().tolist() == [
        ["x", "dog", ("r",)],
        ["x", "cat", ("s",)],
        ["y", "dog", ("r",)],
        ["x", "cat", ("r",)],
        ["x", "dog", ("s",)],
        ["x", "cow", ("r",)],
        ["y", "cat", ("r",)],
    ]
    remark = "captions have other references in other pairs; each of their sets is an item."
    assert made.card.remarks == ("First.", f"2 {remark}")
    made = pairs(references=references, references_b=[("b",)] * 4).caption_set(CARD)
    assert made.items.loc[made.items["caption"] == "cow", "references"].tolist() == [("b",)]
    assert made.card.remarks == ("First.", f"2 {remark}")


def test_equal_captions_are_a_pair_where_two_systems_wrote_them() -> None:
    same = {"captions_b": ["cat", "dog", " dog", "cat"]}
    message = (
        "f:4: both captions are 'dog'; a pair is of two captions, unless two systems wrote them "
        "(file.system_a=, file.system_b=)"
    )
    for systems in ({}, {"systems_a": list("ABAA"), "systems_b": list("BAAB")}):
        with says(message):
            pairs(**same, **systems).caption_set(CARD)
    made = pairs(**same, systems_a=list("ABAA"), systems_b=list("BABB")).caption_set(CARD)
    assert made.items["caption"].tolist()[:2] == ["dog", "cat"]
    made = pairs(
        captions_b=["cat", "dog", "dog", "cat"], systems_a=list("ABAA"), systems_b=list("BABB")
    ).caption_set(CARD)
    assert made.card.remarks == (
        "First.",
        "1 of 4 pairs are of two systems' equal captions, which metrics that read captions tie.",
    )


def strengths_of(text: str, folder: Path, strength: str | None = None) -> list[float]:
    (folder / "t.csv").write_text(text)
    return read_strengths(read_table(folder / "t.csv"), "winner", strength)


def test_strengths_are_graded_or_of_the_winner(tmp_path: Path) -> None:
    assert strengths_of("winner\na\n b \ntie\n", tmp_path) == [1, -1, 0]
    assert strengths_of("by\n2.5\n-1\n0\n", tmp_path, "by") == [2.5, -1, 0]
    assert strengths_of("winner,by\na,2.5\nb,-1\ntie,0\n", tmp_path, "by") == [2.5, -1, 0]
    for text, strength, message in [
        ("winner\na\nA\n", None, "t.csv:3: winner is 'A', not one of a, b, tie"),
        ("winner,by\na,1\nc,1\n", "by", "t.csv:3: winner is 'c', not one of a, b, tie"),
        ("winner,by\na,1\n,1\n", "by", "t.csv:3: winner is empty"),
        ("by\n1\nmuch\n", "by", "t.csv:3: by is 'much', not a number"),
        ("w\na\n", None, "t.csv: no column 'winner'; it has w; name it with file.winner="),
        ("w\na\n", "by", "t.csv: no column 'by'; it has w; name it with file.strength="),
        (
            "winner,by\na,1\ntie,-2\n",
            "by",
            "t.csv:3: winner is tie, and by prefers b; a positive strength prefers a, a negative b",
        ),
    ]:
        with says(message):
            strengths_of(text, tmp_path, strength)


def votes_of(entries: list[dict[str, Any]], folder: Path, *image: str) -> PairColumns:
    (folder / "v.json").write_text(json.dumps(entries))
    table = read_table(folder / "v.json")
    assert has_votes(table)
    return read_votes(table, *image)


ENTRY = {"references": ["r", "s", "t"], "HC": ["r", "s", "h1", "h2", [1, -1]]}


def test_votes_are_rows_without_the_pairs_own_captions(tmp_path: Path) -> None:
    """Where one caption is a reference both are scored without it, where both are each without itself."""
    entries = [
        {**ENTRY, "id": 7, "MM_2": ["a", "b", "m1", "m2", "3", [0]]},
        {"references": "r ||| s", "id": 8, "HM": ["r", "a", "h1", "m1", [1]], "HC": None},
    ]
    made = votes_of(entries, tmp_path)
    where = f"{tmp_path}/v.json: entry"
    assert made == PairColumns(
        places=(f"{where} 0: HC", f"{where} 0: HC", f"{where} 0: MM_2", f"{where} 1: HM"),
        image_ids=("7", "7", "7", "8"),
        captions_a=("r", "r", "a", "r"),
        captions_b=("s", "s", "b", "a"),
        strengths=(1.0, -1.0, 0.0, 1.0),
        dimensions=("HC", "HC", "MM", "HM"),
        systems_a=("h1", "h1", "m1", "h1"),
        systems_b=("h2", "h2", "m2", "m1"),
        references=(("s", "t"), ("s", "t"), ("r", "s", "t"), ("s",)),
        references_b=(("r", "t"), ("r", "t"), ("r", "s", "t"), ("s",)),
    )


@pytest.mark.parametrize(
    ("names", "image", "expected"),
    [
        (({}, {}), (), ("0", "1")),  # numbered
        (({"raw_name": "n"}, {"raw_name": "m"}), (), ("n", "m")),
        (({"raw_name": "n", "audio_id": "a"}, {"audio_id": "b"}), (), ("a", "b")),
        (({"id": 1, "file_name": "f"}, {"id": 2, "file_name": "g"}), (), ("f", "g")),
        (({"image_id": 1, "mine": "f"}, {"image_id": 2, "mine": "g"}), ("mine",), ("f", "g")),
        (({"image": "p", "raw_name": "n"}, {"image": "q", "raw_name": "m"}), (), ("p", "q")),
    ],
)
def test_the_recording_is_named_by_the_first_complete_key(names, image, expected, tmp_path) -> None:
    made = votes_of([{**ENTRY, **name} for name in names], tmp_path, *image)
    assert made.image_ids == (expected[0], expected[0], expected[1], expected[1])


BAD_PAIR = (
    "v.json: entry 1: HC is not [caption_a, caption_b, source_a, source_b, votes], "
    "votes being a list of 1, 0 and -1"
)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("r", BAD_PAIR),
        (["r", "s", "h1", [1]], BAD_PAIR),
        (["r", "s", "h1", "h2", 1, 1, [1]], BAD_PAIR),
        (["r", " ", "h1", "h2", [1]], BAD_PAIR),
        (["r", "s", "h1", 2, [1]], BAD_PAIR),
        (["r", "s", "h1", "h2", []], BAD_PAIR),
        (["r", "s", "h1", "h2", 1], BAD_PAIR),
        (["r", "s", "h1", "h2", [1, 2]], BAD_PAIR),
        (["r", "a", "h1", "h2", [1]], "entry 1: HC: no reference is left beside the pair's own"),
    ],
)
def test_a_pair_of_another_form_is_named(pair: Any, message: str, tmp_path: Path) -> None:
    with says(message):
        votes_of([ENTRY, {"references": ["r"], "HC": pair}], tmp_path)


def test_a_file_of_votes_has_references_and_votes(tmp_path: Path) -> None:
    with says(f"{tmp_path}/v.json: it has no votes"):
        votes_of([{"references": ["r"], "HC": None}], tmp_path)
    for entry in ({"references": ["r"], "HCX": 1}, {"HC": 1}, {"references": ["r"], "MM_x": 1}):
        (tmp_path / "v.json").write_text(json.dumps([entry]))
        assert not has_votes(read_table(tmp_path / "v.json"))
    for key in ("HC", "HI", "HM_12", "MM_1"):
        (tmp_path / "v.json").write_text(json.dumps([{"references": ["r"], key: 1}]))
        assert has_votes(read_table(tmp_path / "v.json"))


PAIR = ["a", "b", "s", "t", [1]]


def test_any_key_of_two_letters_or_two_words_is_a_kind(tmp_path: Path) -> None:
    """The keys are BRACE's, AudioCaps-Eval's and the long ones of the original."""
    keys = ["HH", "HM", "MM_1", "Human-Human", "Human-Machine_1", "human-machine_2"]
    made = votes_of(
        [{"references": ["r"], "file_name": "f", **dict.fromkeys(keys, PAIR)}], tmp_path
    )
    assert made.dimensions == (
        *("HH", "HM", "MM", "Human-Human"),
        *("Human-Machine", "human-machine"),
    )
    assert set(made.image_ids) == {"f"}
    assert count_unread_pairs(read_table(tmp_path / "v.json")) == ""


def test_a_key_of_two_letters_without_pairs_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    for cell in (7, "x", ["a"], [*PAIR[:4], 1], None):
        path.write_text(json.dumps([{"references": ["r"], "ID": cell, "pre-text": cell}]))
        assert not has_votes(read_table(path))


def test_pairs_below_other_keys_are_counted(tmp_path: Path) -> None:
    entries = [
        {"references": ["r"], "HM": PAIR, "pairs": PAIR, "HMX": PAIR, "note": "x"},
        {"references": ["r"], "HM": PAIR, "pairs": PAIR, "HMX": None, "note": "x"},
    ]
    assert len(votes_of(entries, tmp_path).places) == 2
    assert count_unread_pairs(read_table(tmp_path / "v.json")) == (
        "3 pairs are not read, of the keys pairs, HMX; a key of pairs is two letters or two words joined by a hyphen, "
        "and may have a number, such as HM_1 or Human-Machine_1."
    )
    _ = votes_of(entries[1:], tmp_path)
    assert count_unread_pairs(read_table(tmp_path / "v.json")).startswith("1 pair is not read, of")
