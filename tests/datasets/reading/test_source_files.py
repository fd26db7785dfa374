"""Image files under the names and in the folders that their archives give them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captau.datasets.reading import source_files
from captau.datasets.reading.source_files import (
    count_parts,
    find_image,
    fits,
    identify_image,
    is_here,
    locate_all,
    missing,
    missing_additions,
    partly,
    record_of,
    size,
    state,
    used,
    with_recorded_hash,
)
from captau.datasets.schema import Card, SourceFile
from tests.conftest import says


@pytest.mark.parametrize(
    ("dataset", "image_id", "place"),
    [
        ("thumb", "391895", "val2014/COCO_val2014_000000391895.jpg"),
        ("thumb", "391895", "train2014/COCO_train2014_000000391895.jpg"),
        ("capeval1k", "391895", "COCO_val2014_000000391895.jpg"),
        ("capeval1k", "391895", "val2017/000000391895.jpg"),
        ("composite_coco", "391895", "coco/val2014/COCO_val2014_000000391895.jpg"),
        ("flickr8k_expert", "1_a.jpg", "Flickr8k_Dataset/1_a.jpg"),
        ("flickr8k_expert", "1_a.jpg", "Flicker8k_Dataset/1_a.jpg"),
        ("flickr8k_expert", "1_a.jpg", "Images/1_a.jpg"),
        ("flickr8k_expert", "1_a.jpg", "flickr8k/Flickr8k_Dataset/1_a.jpg"),
        ("composite_30k", "12.jpg", "flickr30k-images/12.jpg"),
        ("pascal50s", "2008_005747.jpg", "VOC2012/JPEGImages/2008_005747.jpg"),
        ("pascal50s", "2008_005747.jpg", "2008_005747.jpg"),
        ("pascal50s", "2008_005747", "VOC2012/JPEGImages/2008_005747.jpg"),
        ("mine", "a.png", "mine/a.png"),
        ("mine", "a", "mine/a.png"),
    ],
)
def test_usual_places(tmp_path: Path, dataset: str, image_id: str, place: str) -> None:
    path = tmp_path / place
    assert find_image(image_id, dataset, tmp_path) is None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert find_image(image_id, dataset, tmp_path) == path
    assert find_image(f"{image_id}0", dataset, tmp_path) is None


def test_an_image_has_one_name_in_all_datasets() -> None:
    """COCO's number, Flickr's number, or the name without its ending."""
    names = {
        "COCO_val2014_000000391895.jpg": "391895",
        "val2017/000000391895.jpg": "391895",
        "391895": "391895",
        "1000268201_693b08cb0e.jpg": "1000268201",
        "2008_005747.jpg": "2008_005747",
        "a.b": "a.b",
    }
    assert {name: identify_image(name) for name in names} == names


A, B = SourceFile("made/a.csv", "u"), SourceFile("made/b.csv", "u")
STAND_IN = SourceFile("made/all.json", "u", alternative=True)
ADDED = SourceFile("made/more.csv", "u", optional=True, adds="references")


def test_the_files_in_use_are_the_regular_ones_or_all_stand_ins(tmp_path: Path) -> None:
    card = Card("made", "Made", "1", "", "", "", sources=(A, B, STAND_IN, ADDED))
    (tmp_path / "made").mkdir()
    seen = []
    for path in (None, "a.csv", "all.json", "b.csv", "more.csv"):
        if path:
            (tmp_path / "made" / path).write_text("12345"[: len(path) - 4])
        seen.append(
            (used(tmp_path, card), missing(tmp_path, card), missing_additions(tmp_path, card))
        )
    assert seen == [
        ([A, B], [A, B], [ADDED]),
        ([A, B], [B], [ADDED]),
        ([STAND_IN], [], [ADDED]),
        ([A, B], [], [ADDED]),
        ([A, B], [], []),
    ]
    assert size(tmp_path, card) == 2  # of a.csv and b.csv
    assert is_here(tmp_path, card)
    (tmp_path / "made" / "all.json").unlink()
    (tmp_path / "made" / "a.csv").unlink()
    assert not is_here(tmp_path, card)
    assert is_here(tmp_path, replace(card, partial=True))
    # A dataset without stand-ins has none to read instead.
    assert used(tmp_path, replace(card, sources=(A, B))) == [A, B]


def test_a_file_is_right_or_differs_or_nobody_knows(tmp_path: Path) -> None:
    card = Card("made", "Made", "1", "", "", "")
    digest = hashlib.sha256(b"a\n").hexdigest()
    blob = hashlib.sha1(b"blob 2\0a\n").hexdigest()  # git hash-object of the same
    source = SourceFile("f.csv", "u", also=("g-*.csv",))
    path = tmp_path / "f.csv"
    assert state(tmp_path, card, source) == "missing"
    path.write_bytes(b"a\n")
    hashes: list[dict[str, Any]] = [
        *({}, {"sha256": digest}, {"sha256": "0" * 64}, {"git_blob": blob}, {"git_blob": "0"}),
    ]
    states = [state(tmp_path, card, replace(source, **known)) for known in hashes]
    assert states == ["unchecked", "right", "differs", "right", "differs"]
    # The hash of the first download counts where the card knows none.
    record = record_of(path)
    assert record == tmp_path / "f.csv.sha256"
    for text, expected in ((f"{digest}  f.csv\n", "right"), (f"{'0' * 64}  f.csv\n", "differs")):
        record.write_text(text)
        assert state(tmp_path, card, source) == expected
    assert with_recorded_hash(tmp_path, replace(source, git_blob=blob)).sha256 == ""
    assert with_recorded_hash(tmp_path, replace(source, sha256=digest)).sha256 == digest
    for content in (b"abc", f"x{digest}".encode(), b"\xff"):
        record.write_bytes(content)
        with says(f"{record}: not a line of sha256sum; delete it, and fetch the file again"):
            state(tmp_path, card, source)
    with says(f"{tmp_path}: cannot be read (Is a directory)"):
        fits(tmp_path, replace(source, sha256=digest))
    # In another form it is not checked; in parts each is.
    path.rename(tmp_path / "g-00000-of-00002.csv")
    assert state(tmp_path, card, source) == "missing"  # one of two
    (tmp_path / "g-00001-of-00002.csv").write_bytes(b"b")
    assert locate_all(tmp_path, card, source) == sorted(tmp_path.glob("g-*.csv"))
    assert state(tmp_path, card, source) == "unchecked"
    names = ("g-00000-of-00002.csv", "g-00001-of-00002.csv")
    right, unknown = SourceFile(names[0], "u", digest), SourceFile(names[1], "u")
    for parts, expected in (
        ((right, replace(unknown, sha256=hashlib.sha256(b"b").hexdigest())), "right"),
        ((right, replace(unknown, sha256="0")), "differs"),
        ((right, SourceFile("none", "u")), "missing"),
    ):
        assert state(tmp_path, card, SourceFile("h.csv", "u", parts=parts)) == expected


def test_the_name_of_a_part_tells_how_many_there_are() -> None:
    paths = [Path(f"train-{k:05}-of-00004.parquet") for k in range(2)]
    assert [count_parts(p) for p in (paths, paths[:1], [Path("a.csv"), Path("b.csv")])] == [4, 4, 2]


def test_a_dataset_is_partly_there_where_some_but_not_all_files_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card("made", "Made", "1", "", "", "", partial=True)
    monkeypatch.setattr(source_files, "used", lambda root, card: ["a", "b"])
    found = {}
    for lacking in ([], ["a"], ["a", "b"]):
        monkeypatch.setattr(source_files, "missing", lambda root, card, lacking=lacking: lacking)
        found[len(lacking)] = partly(tmp_path, card)
    assert found == {0: False, 1: True, 2: False}


def test_an_image_id_does_not_climb(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").touch()
    assert find_image("../secret.jpg", "mine", tmp_path / "images") is None
