"""Image files under the names and in the folders that their archives give them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captau.datasets.errors import MissingFileError
from captau.datasets.reading.source_files import (
    bibtex,
    count_parts,
    find,
    find_image,
    find_images,
    fits,
    git_blob,
    github_file,
    hub_file,
    identify_image,
    is_here,
    locate,
    locate_all,
    missing,
    missing_additions,
    partly,
    record_of,
    sha256,
    size,
    state,
    used,
    way_to_get,
    way_to_get_split,
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
    assert find_images([image_id], dataset, tmp_path) == [None]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert find_image(image_id, dataset, tmp_path) == path
    assert find_image(f"{image_id}0", dataset, tmp_path) is None
    ids = [image_id, f"{image_id}0", image_id]
    assert find_images(ids, dataset, tmp_path) == [str(path), None, str(path)]


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
    # Where it lies there as a whole, its own hash counts.
    (tmp_path / "h.csv").write_bytes(b"b")
    whole = SourceFile("h.csv", "u", hashlib.sha256(b"b").hexdigest(), parts=(right, unknown))
    assert state(tmp_path, card, whole) == "right"
    assert state(tmp_path, card, replace(whole, sha256=digest)) == "differs"
    # Elsewhere, but under its own name and before others of its pattern, it is checked.
    (tmp_path / "o").mkdir()
    for name in ("i.csv", "j.csv"):
        (tmp_path / "o" / name).write_bytes(b"b")
    elsewhere = replace(whole, path="i.csv", parts=(), also=("o/*.csv",))
    assert state(tmp_path, card, elsewhere) == "right"
    assert state(tmp_path, card, replace(elsewhere, path="j.csv")) == "unchecked"


def test_the_name_of_a_part_tells_how_many_there_are() -> None:
    paths = [Path(f"train-{k:05}-of-00004.parquet") for k in range(2)]
    assert [count_parts(p) for p in (paths, paths[:1], [Path("a.csv"), Path("b.csv")])] == [4, 4, 2]


def test_a_dataset_is_partly_there_where_some_but_not_all_files_lack(tmp_path: Path) -> None:
    sources = (SourceFile("a.csv", "u"), SourceFile("b.csv", "u"))
    card = Card("made", "Made", "1", "", "", "", sources=sources, partial=True)
    found = [partly(tmp_path, card)]
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).touch()
        found.append(partly(tmp_path, card))
    assert found == [False, True, False]


def test_an_image_id_does_not_climb(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").touch()
    assert find_image("../secret.jpg", "mine", tmp_path / "images") is None
    assert find_images(["../secret.jpg"], "mine", tmp_path / "images") == [None]


def test_a_file_of_github_is_downloaded_from_there_or_a_mirror() -> None:
    source = github_file("made/f.csv", "we/mine", "c0ffee", "data/f.csv", "0" * 64, split="test")
    assert source == SourceFile(
        "made/f.csv",
        "https://github.com/we/mine/blob/c0ffee/data/f.csv",
        "0" * 64,
        downloads=(
            "https://raw.githubusercontent.com/we/mine/c0ffee/data/f.csv",
            "https://cdn.jsdelivr.net/gh/we/mine@c0ffee/data/f.csv",
        ),
        split="test",
        revision="c0ffee",
    )
    other = github_file("f", "we/mine", "c0ffee", "f", url="https://we.example", optional=True)
    assert (other.url, other.sha256, other.optional) == ("https://we.example", "", True)


def test_a_file_of_the_hub_is_downloaded_from_its_page() -> None:
    source = hub_file("made/f.csv", "we/mine", "main", "data/f-*.csv", "0" * 64, also=("f-*.csv",))
    assert source == SourceFile(
        "made/f.csv",
        "https://huggingface.co/datasets/we/mine",
        "0" * 64,
        downloads=("https://huggingface.co/datasets/we/mine/resolve/main/data/f-*.csv",),
        also=("f-*.csv",),
    )
    assert hub_file("f", "we/mine", "main", "f").sha256 == ""


def test_the_citation_of_a_key_is_its_entry_alone() -> None:
    assert bibtex("aditya2015images") == (
        "@article{aditya2015images,\n"
        "  title={From Images to Sentences through Scene Description Graphs using Commonsense Reasoning\n"
        "         and Knowledge},\n"
        '  author={Aditya, Somak and Yang, Yezhou and Baral, Chitta and Ferm{\\"u}ller, Cornelia and\n'
        "          Aloimonos, Yiannis},\n"
        "  journal={arXiv preprint arXiv:1511.03292},\n"
        "  year={2015}\n"
        "}"
    )
    assert bibtex("cheng2025caparena").startswith(
        "@article{cheng2025caparena,\n  title={{CapArena}:"
    )


def test_where_a_file_is_missing_the_way_to_get_it_is_named(tmp_path: Path) -> None:
    card = Card("made", "Made", "1", "", "", "")
    source = SourceFile("other/f.csv", "https://we.example", split="test")
    by_hand = "get it from https://we.example and run captau data import dataset=made source=PATH"
    fetched = "run captau data fetch dataset=made (from https://we.example)"
    downloaded = replace(source, downloads=("https://we.example/f.csv",))
    assert (way_to_get(card, source), way_to_get(card, downloaded)) == (by_hand, fetched)
    for lacking, way in ((source, by_hand), (downloaded, fetched)):
        with pytest.raises(MissingFileError) as caught:
            find(tmp_path, card, lacking)
        assert str(caught.value) == (
            f"dataset made: the file {tmp_path}/other/f.csv does not exist; set CAPTAU_DATA or "
            f"data.root=DIR, or {way}"
        )
        assert locate(tmp_path, card, lacking) is None
    card = replace(card, sources=(replace(source, split="", path="all.csv"), source, downloaded))
    assert way_to_get_split(card, "test") == f"; other/f.csv has it: {by_hand}"
    assert way_to_get_split(card, "train") == ""
    # In a folder of the dataset's name; the place that the source says goes before.
    places = [tmp_path / "made" / "f.csv", tmp_path / "other" / "f.csv"]
    for path in places:
        path.parent.mkdir()
        path.touch()
        assert find(tmp_path, card, source) == locate(tmp_path, card, source) == path
        assert locate_all(tmp_path, card, source) == [path]


def test_the_first_pattern_with_files_counts(tmp_path: Path) -> None:
    card = Card("made", "Made", "1", "", "", "")
    source = SourceFile("f.csv", "u", also=("none-*", "b-*", "a-*"))
    for name in ("b-2", "b-1", "a-1"):
        (tmp_path / name).touch()
    (tmp_path / "b-3").mkdir()
    assert locate_all(tmp_path, card, source) == [tmp_path / "b-1", tmp_path / "b-2"]
    assert locate(tmp_path, card, source) == tmp_path / "b-1"
    parts = (SourceFile("b-2", "u"), SourceFile("a-1", "u"))
    assert locate_all(tmp_path, card, replace(source, parts=parts)) == [
        *(tmp_path / "b-2", tmp_path / "a-1")
    ]
    assert locate_all(tmp_path, card, replace(source, parts=(*parts, SourceFile("b-3", "u")))) == []
    assert size(tmp_path, replace(card, sources=(source,))) == 0
    (tmp_path / "b-2").write_text("abc")
    (tmp_path / "b-1").write_text("ab")
    assert size(tmp_path, replace(card, sources=(source,))) == 5


def test_hashes_of_a_file(tmp_path: Path) -> None:
    """As sha256sum and `git hash-object` print them; the empty file's are in their manuals' examples."""
    path = tmp_path / "f"
    path.touch()
    assert sha256(path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert git_blob(path) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    path.write_text("hello\n")
    assert sha256(path) == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert git_blob(path) == "ce013625030ba8dba906f756967f9e9ca394464a"


@pytest.mark.parametrize(
    ("image_id", "name"),
    [
        ("COCO_train2014_000000000009.jpg", "9"),
        ("COCO_test2015_000000391895.png", "391895"),
        ("a/b/000000391895.webp", "391895"),
        ("391895.gif", "391895.gif"),
        ("391895.jpeg", "391895"),
        ("0", "0"),
        ("0391895", "391895"),
        ("1234567", "1234567"),
        ("1000268201_693b08cb0e.jpg", "1000268201"),
        ("3637013_c675de7705_b.jpg", "3637013"),
        ("3637013_b.jpg", "3637013"),
        ("3637013_c675de770.jpg", "3637013"),
        ("3637013_c675de7.jpg", "3637013_c675de7"),
        ("363701_c675de7705.jpg", "363701_c675de7705"),
        ("3637013_c675de77051.jpg", "3637013_c675de77051"),
        ("COCO_val2014_.jpg", "COCO_val2014_"),
        ("COCO_val14_000000391895.jpg", "COCO_val14_000000391895"),
        ("dog", "dog"),
    ],
)
def test_the_one_name_of_an_image(image_id: str, name: str) -> None:
    assert identify_image(image_id) == name


def test_the_order_of_an_images_places(tmp_path: Path) -> None:
    """Each that is added goes before those added already."""
    number = [
        *("pascal50s/391895.jpg", "coco/000000391895.jpg", "391895", "391895.webp", "391895.png"),
        *("391895.jpeg", "391895.jpg", "train2017/000000391895.jpg", "000000391895.jpg"),
        *("val2017/000000391895.jpg", "train2014/COCO_train2014_000000391895.jpg"),
        *("COCO_val2014_000000391895.jpg", "val2014/COCO_val2014_000000391895.jpg"),
        *("mine/391895", "mine/391895.webp", "mine/391895.jpg", "mine/000000391895.jpg"),
    ]
    named = [
        *("pascal50s/a.jpg", "flickr30k/a.jpg", "flickr8k/images/a.jpg", "coco/a.jpg"),
        *("JPEGImages/a.png", "a.png", "images/a.jpg", "Images/a.jpg", "JPEGImages/a.jpg"),
        *("VOCdevkit/VOC2012/JPEGImages/a.jpg", "VOC2012/JPEGImages/a.jpg"),
        *("flickr30k_images/a.jpg", "flickr30k-images/a.jpg", "Flicker8k_Dataset/a.jpg"),
        *("a.jpg", "Flickr8k_Dataset/a.jpg", "mine/images/a.png", "mine/a.jpg"),
    ]
    for image_id, places in (("391895", number), ("a", named), ("x/a.webp", ["Images/a.webp"])):
        assert find_image(image_id, "mine", tmp_path) is None
        for place in places:
            path = tmp_path / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            assert find_image(image_id, "mine", tmp_path) == path, place
