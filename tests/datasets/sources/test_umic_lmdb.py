"""CapEval1k and Composite: the reader on small databases of our own making, and on the real one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import lz4.frame
import msgpack
import numpy as np
import pytest

from captau.datasets.reading.source_files import missing, sha256
from captau.datasets.registry import card, load
from captau.datasets.schema import CaptionSet, split_of
from captau.datasets.sources import umic_lmdb
from captau.datasets.sources.umic_lmdb import (
    CAPEVAL1K,
    CAPEVAL_TABLE,
    COCO_REFERENCES,
    COMPOSITE_JSON,
    COMPOSITE_TEXTS,
    FLICKR8K_TOKENS,
    FLICKR30K_TOKENS,
    VOCABULARY,
    coco_references,
    image_id_of,
    named_image,
    read_lmdb,
)
from tests.conftest import raises_exactly, says

PIECES = ["[PAD]", "a", "dog", "##s", "run", "##ning", "don", "'", "t", ".", "é", "##!"]
NAMES = ["capeval1k", "composite_8k", "composite_30k", "composite_coco"]
# Eleven rows, so that the order of keys as texts (0, 1, 10, 2) is not that of numbers.
TEXTS = ["a dog", "dogs", "a dog running .", "don ' t run", "é!", "a dog", *["dog"] * 4, ""]
IDS = [[1, 2], [2, 3], [1, 2, 4, 5, 9], [6, 7, 8, 4], [10, 11], [1, 2], *[[2]] * 4, []]
# Of each dataset: two images' names in the database, and the ids their references go by.
IMAGES = {
    "capeval1k": (("coco_val2014_000000000042", "42"), ("coco_val2014_000000581929", "581929")),
    "composite_coco": (("coco_val2014_000000000042", "42"), ("coco_val2014_000000100", "100")),
    "composite_8k": (("flickr8k_77_a0", "77_a0.jpg"), ("flickr8k_104_b", "104_b.jpg")),
    "composite_30k": (("flickr30k_004683565867", "4683565867.jpg"), ("flickr30k_36", "36.jpg")),
}
REFERENCES = (("A dog.", "Dogs run ."), ("One é .",))
#: Of FLEUR's file of scores: an image's name and its caption.
BLOCK = "image file : Flickr8k_Dataset/{}\ncaption : {}\nmodel score : 0.5\nour score : 0.4\n"


def packed(ids: Any, image: Any, target: Any) -> bytes:
    row = {"input_ids": ids, "img_fname": image, "target": target}
    return lz4.frame.compress(msgpack.packb(row))


def targets(name: str) -> list[float]:
    return [0.05 * k if name == "capeval1k" else float(1 + k % 5) for k in range(len(TEXTS))]


def values(name: str) -> list[bytes]:
    """The rows of a small database; every third is about the second image."""
    return [
        packed(ids, f"{IMAGES[name][k % 3 == 2][0]}.npz", target)
        for k, (ids, target) in enumerate(zip(IDS, targets(name), strict=True))
    ]


def write_lmdb(folder: Path, rows: list[bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.mdb").unlink(missing_ok=True)
    with lmdb.open(str(folder), map_size=1 << 22) as env, env.begin(write=True) as transaction:
        for key, value in enumerate(rows):
            transaction.put(str(key).encode(), value)
    (folder / "lock.mdb").unlink()
    return folder / "data.mdb"


def write_text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_references(root: Path, name: str) -> None:
    by_id = {IMAGES[name][k][1]: REFERENCES[k] for k in (0, 1)}
    if card(name).sources[2] is COCO_REFERENCES:
        write_text(root / COCO_REFERENCES.path, json.dumps(by_id))
    else:
        lines = [f"{i}#{k}\t{text}\n" for i, refs in by_id.items() for k, text in enumerate(refs)]
        write_text(root / card(name).sources[2].path, "".join(lines))


@pytest.fixture
def make(tmp_path: Path):
    """Makes a data folder of a dataset, with these values in its database."""

    def make(name: str, rows: list[bytes] | None = None) -> Path:
        write_lmdb(tmp_path / name, values(name) if rows is None else rows)
        write_text(tmp_path / VOCABULARY.path, "\n".join(PIECES) + "\n")
        write_references(tmp_path, name)
        if COMPOSITE_TEXTS in card(name).sources:
            write_text(tmp_path / COMPOSITE_TEXTS.path, BLOCK.format("another.jpg", "another"))
        return tmp_path

    return make


@pytest.mark.parametrize("name", NAMES)
def test_every_field(name: str, make) -> None:
    made = load(name, make(name))
    items = made.items
    which = [k % 3 == 2 for k in range(len(TEXTS))]
    assert items["image_id"].tolist() == [IMAGES[name][k][1] for k in which]
    assert items["caption"].tolist() == TEXTS
    assert items["references"].tolist() == [REFERENCES[k] for k in which]
    assert items["image"].tolist() == items["system"].tolist() == [None] * len(TEXTS)
    assert items["split"].tolist() == [split_of(i) for i in items["image_id"]]
    assert items["item_id"].nunique() == len(TEXTS), "equal captions of an image are told apart"
    ratings = made.ratings
    assert ratings["item_id"].tolist() == items["item_id"].tolist()
    assert ratings["dimension"].tolist() == ["overall"] * len(TEXTS)
    assert ratings["rater"].tolist() == ["mean"] * len(TEXTS)
    assert ratings["value"].tolist() == targets(name)
    assert made.preferences.empty
    assert made.card is card(name)


def test_the_sources_are_what_their_papers_rest_on() -> None:
    assert [card(n).sources[2] for n in NAMES] == [
        COCO_REFERENCES,
        FLICKR8K_TOKENS,
        FLICKR30K_TOKENS,
        COCO_REFERENCES,
    ]


def test_composite_30k_joins_on_the_files_of_multi30k_as_well(make) -> None:
    """Five files of a line an image, in the order of a file of names, and no token file."""
    root = make("composite_30k")
    (root / FLICKR30K_TOKENS.path).unlink()
    *captions, names = [root / part.path for part in FLICKR30K_TOKENS.parts]
    image_ids = [image_id for _, image_id in IMAGES["composite_30k"]]
    write_text(names, "".join(f"{image_id}\n" for image_id in image_ids))
    for number, path in enumerate(captions):
        path.write_bytes(gzip.compress(f"a  dog {number}\nun é {number}\n".encode()))
    references = load("composite_30k", root).items.groupby("image_id")["references"].first()
    assert dict(references) == {
        image_id: tuple(f"{text} {number}" for number in range(5))
        for image_id, text in zip(image_ids, ("a dog", "un é"), strict=True)
    }
    for number in (1, 3):
        captions[1].write_bytes(gzip.compress(b"a line\n" * number))
        with raises_exactly(f"{captions[1]}: {number} lines, where {names} has 2"):
            load("composite_30k", root)
    captions[1].write_bytes(captions[0].read_bytes()[:-5])
    with says(f"{captions[1]}: not a complete gzip file of text", "get a new copy"):
        load("composite_30k", root)
    captions[1].unlink()
    with says("results_20130124.token does not exist", "captau data fetch dataset=composite_30k"):
        load("composite_30k", root)


def test_composite_8k_joins_on_the_json_as_well(make) -> None:
    root = make("composite_8k")
    on_tokens = load("composite_8k", root)
    (root / FLICKR8K_TOKENS.path).unlink()
    with says("composite_8k", "flickr8k/flickr8k.json", "https://"):
        load("composite_8k", root)
    table = {
        i.removesuffix(".jpg"): {
            "image_path": f"Flickr8k_Dataset/{i}",
            "ground_truth": REFERENCES[k],
            "human_judgement": [],
        }
        for k, (_, i) in enumerate(IMAGES["composite_8k"])
    }
    write_text(root / "flickr8k" / "flickr8k.json", json.dumps(table))
    assert load("composite_8k", root).digest == on_tokens.digest


# Composite in the FLEUR release's JSON: part → an image's name there, and its id.
PARTS = {
    "composite_8k": ("flickr8k", "Flickr8k_Dataset/77_a0.jpg", "77_a0.jpg"),
    "composite_30k": ("flickr30k", "Flickr30k_Dataset/36.jpg", "36.jpg"),
    "composite_coco": ("coco", "val2014/COCO_val2014_000000000042.jpg", "42"),
}


def composite(**changes: Any) -> str:
    """Two captions in each part; the second is rated 4."""
    rows = {
        part: [
            {"image": image, "caption": "A  dog", "human": k, "references": ["Dogs .", "a"]}
            for k in (1, 4)
        ]
        for part, image, _ in PARTS.values()
    }
    for part in rows.values():
        part[1] |= changes
    return json.dumps(rows)


@pytest.mark.parametrize("name", PARTS)
def test_composite_from_the_json(name: str, make, tmp_path: Path) -> None:
    write_text(tmp_path / COMPOSITE_JSON.path, composite())
    made = load(name, tmp_path)
    items = made.items
    assert items["image_id"].tolist() == [PARTS[name][2]] * 2
    assert items["caption"].tolist() == ["A dog"] * 2
    assert items["references"].tolist() == [("Dogs .", "a")] * 2
    assert made.ratings["value"].tolist() == [1.0, 4.0]
    assert items["item_id"].tolist() == made.ratings["item_id"].tolist()
    root = make(name)
    assert len(load(name, root).items) == len(TEXTS), "the database comes first"
    (root / card(name).sources[2].path).unlink()
    assert load(name, root).digest == made.digest, "a database without its references is not read"


def test_composites_captions_have_the_text_of_fleurs_file(make, tmp_path: Path) -> None:
    """Worked: blanks and capitals are those of FLEUR's file where letters and digits are equal, for this image alone."""
    root = make("composite_8k")
    before = load("composite_8k", root).items
    image_id, caption = before["image_id"][0], before["caption"][0]
    written = f"{caption.replace(' ', '  ').upper()}."
    other = BLOCK.format("another.jpg", before["caption"][1].upper())
    write_text(tmp_path / COMPOSITE_TEXTS.path, BLOCK.format(image_id, written) + other)
    after = load("composite_8k", root).items
    assert after["caption"].tolist() == [f"{caption.upper()}.", *before["caption"][1:]]
    assert after["image_id"].tolist() == before["image_id"].tolist()


@pytest.mark.parametrize("name", [n for n in NAMES if n != "capeval1k"])
def test_composite_is_not_read_without_the_published_text(name: str, make) -> None:
    """Word pieces alone would give other numbers in silence, and `captau data fetch` has the text."""
    root = make(name)
    (root / COMPOSITE_TEXTS.path).unlink()
    with says(f"dataset {name}: the file {root / COMPOSITE_TEXTS.path}", f"fetch dataset={name}"):
        load(name, root)
    assert missing(root, card(name)) == [COMPOSITE_TEXTS]


def test_composite_is_all_three_parts_together(tmp_path: Path) -> None:
    """As in Lee et al. 2021, Table 1: one coefficient over 2,991 + 2,973 + 6,021 = 11,985 rows."""
    assert card("composite").expected == {"images": 3995, "items": 11985, "ratings": 11985}
    write_text(tmp_path / COMPOSITE_JSON.path, composite())
    whole, parts = load("composite", tmp_path), [load(name, tmp_path) for name in PARTS]
    for column in ("image_id", "caption", "references", "item_id"):
        assert whole.items[column].tolist() == [v for p in parts for v in p.items[column].tolist()]
    assert whole.ratings["value"].tolist() == [1.0, 4.0] * 3
    assert len({source.path for source in card("composite").sources}) == len(
        card("composite").sources
    )


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"human": 6}, "[1]: 'human' is 6, not on the scale 1 to 5 in steps of 1"),
        ({"human": "4"}, "[1]: 'human' is '4', not float"),
        ({"references": []}, "[1]: 'references' is empty"),
        ({"references": "a"}, "[1]: 'references' is 'a', not list"),
        ({"caption": None}, "[1]: 'caption' is None, not str"),
    ],
)
@pytest.mark.parametrize("name", PARTS)
def test_faults_in_the_composite_json(
    name: str, changes: dict[str, Any], part: str, tmp_path: Path
) -> None:
    path = tmp_path / COMPOSITE_JSON.path
    write_text(path, composite(**changes))
    with says(f"{path}: {PARTS[name][0]}{part}"):
        load(name, tmp_path)
    write_text(path, "{}")
    with says(f"{path}: '{PARTS[name][0]}' is missing"):
        load(name, tmp_path)
    write_text(path, json.dumps({PARTS[name][0]: []}))
    with says(f"dataset {name}: it has no items"):
        load(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "image_id"),
    [
        ("coco_val2014_000000060623", "60623"),
        ("coco_train2014_000000000100", "100"),
        ("flickr8k_3482974845_db4f16befa", "3482974845_db4f16befa.jpg"),
        ("flickr30k_004683565867", "4683565867.jpg"),
        ("flickr30k_000000036979", "36979.jpg"),
        ("a_0012", "12.jpg"),
    ],
)
def test_image_ids(name: str, image_id: str) -> None:
    """Golden: names in the UMIC authors' databases; ids in the datasets' own files."""
    assert image_id_of(name) == image_id


@pytest.mark.parametrize(
    ("name", "image_id"),
    [
        ("coco_val2014_000000060623", "60623"),
        ("coco_test2015_000000000100", "100"),
        ("flickr8k_3482974845_db4f16befa", "3482974845_db4f16befa.jpg"),
        ("flickr30k_004683565867", "4683565867.jpg"),
        ("pascal50s_2008_005747", "2008_005747.jpg"),
        *((name, None) for name in ("60623", "coco_60623", "flickr8k_", "x_flickr8k_1")),
    ],
)
def test_a_source_in_front_of_a_name(name: str, image_id: str | None) -> None:
    assert named_image(name) == image_id


CAPEVAL = "image,caption,value{}\n000000000042.jpg,A dog.,0.25{}\n7,A cat.,1{}\n"


@pytest.mark.parametrize(
    ("cells", "references", "systems"),
    [
        (("", "", ""), [(), ()], [None, None]),
        ((",references", ",a ||| b", ",c"), [("a", "b"), ("c",)], [None, None]),
        ((",system", ",S", ","), [(), ()], ["S", None]),
    ],
)
def test_a_study_of_ones_own_in_capeval1ks_place(
    cells: tuple[str, str, str], references: list[Any], systems: list[Any], make, tmp_path: Path
) -> None:
    path = write_text(tmp_path / CAPEVAL_TABLE.path, CAPEVAL.format(*cells))
    made = load("capeval1k", tmp_path)
    assert made.items["image_id"].tolist() == ["42", "7"]
    assert made.items["caption"].tolist() == ["A dog.", "A cat."]
    assert made.items["references"].tolist() == references
    assert made.items["system"].tolist() == systems
    assert made.card.has_references == all(references)
    first, second = made.items["item_id"]
    assert made.ratings.to_numpy().tolist() == [
        [first, "overall", "mean", 0.25],
        [second, "overall", "mean", 1.0],
    ]
    path.write_text(CAPEVAL.format(*cells).replace("0.25", "1.25"))
    with raises_exactly(f"{path}:2: value is '1.25', not on the scale 0 to 1"):
        load("capeval1k", tmp_path)
    path.write_text("image,caption\n42,A dog.\n")
    hint = "no column 'value'; it has image, caption; image, caption and value are needed"
    with raises_exactly(f"{path}: {hint}"):
        load("capeval1k", tmp_path)
    assert len(load("capeval1k", make("capeval1k")).items) == len(TEXTS), "the database comes first"


def test_every_image_has_a_line_in_each_file(make) -> None:
    root = make("composite_30k")
    (root / FLICKR30K_TOKENS.path).unlink()
    *captions, names = [root / part.path for part in FLICKR30K_TOKENS.parts]
    image_ids = [i for _, i in IMAGES["composite_30k"]] + [f"{k}.jpg" for k in range(1000, 1257)]
    write_text(names, " ".join(image_ids))
    for number, path in enumerate(captions):
        lines = "".join(f"{number} {k}\n" for k in range(len(image_ids)))
        path.write_bytes(gzip.compress(lines.encode()))
    references = load("composite_30k", root).items["references"]
    assert references[0] == tuple(f"{number} 0" for number in range(5))
    assert references[2] == tuple(f"{number} 1" for number in range(5))


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"a\nb\n")[:-9],
        gzip.compress(b"a" * 99)[:12] + b"\xff" * 9,
        gzip.compress(b"caf\xe9\nb\n"),
    ],
    ids=["another format", "cut", "damaged", "not UTF-8"],
)
def test_references_that_cannot_be_unpacked(content: bytes, make) -> None:
    root = make("composite_30k")
    (root / FLICKR30K_TOKENS.path).unlink()
    *captions, names = [root / part.path for part in FLICKR30K_TOKENS.parts]
    write_text(names, "36.jpg 4683565867.jpg\n")
    for path in captions:
        path.write_bytes(gzip.compress(b"a\nb\n"))
    captions[3].write_bytes(content)
    with says(f"{captions[3]}: not a complete gzip file of text (", "); get a new copy"):
        load("composite_30k", root)


def test_a_database_that_is_none(make, tmp_path: Path, monkeypatch) -> None:
    """Of another process, or of LMDB itself where the file changes after that one."""
    root = make("capeval1k")
    path = root / "capeval1k" / "data.mdb"
    path.write_bytes(b"no LMDB " * 2000)
    message = f"{path}: not a complete LMDB; it is truncated or damaged; get a new copy"
    with raises_exactly(message):
        load("capeval1k", root)
    monkeypatch.setattr(umic_lmdb, "check_whole", lambda folder: None)
    with says(f"{path}: not a complete LMDB (", "); it may be truncated; get a new copy"):
        load("capeval1k", root)


def test_a_released_database_is_not_read_twice(make, monkeypatch) -> None:
    root = make("capeval1k")
    checked: list[Path] = []
    monkeypatch.setattr(umic_lmdb, "check_whole", checked.append)
    load("capeval1k", root)
    assert checked == [root / "capeval1k"]
    released = {sha256(root / "capeval1k" / "data.mdb")}
    monkeypatch.setattr(umic_lmdb, "_RELEASED_HASHES", released)
    load("capeval1k", root)
    assert checked == [root / "capeval1k"]


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_database_is_read_without_being_touched(make, end: str) -> None:
    root = make("capeval1k")
    folder, vocabulary = root / "capeval1k", root / VOCABULARY.path
    vocabulary.write_text("\n".join(PIECES) + end, encoding="utf-8")
    before = (folder / "data.mdb").read_bytes()
    names = [f"coco_val2014_{'000000581929' if k % 3 == 2 else '000000000042'}" for k in range(11)]
    assert read_lmdb(folder, vocabulary) == list(
        zip(names, TEXTS, targets("capeval1k"), strict=True)
    )
    assert (folder / "data.mdb").read_bytes() == before
    assert sorted(p.name for p in folder.iterdir()) == ["bert-base-cased-vocab.txt", "data.mdb"]


def frame(row: Any) -> bytes:
    return lz4.frame.compress(msgpack.packb(row))


IMAGE = "coco_val2014_000000000042.npz"
WHOLE = packed([1, 2] * 40, IMAGE, 0.5)
VALUES = {
    "not LZ4": (b"garbage", ["not LZ4-framed msgpack"]),
    "empty": (b"", ["not LZ4-framed msgpack"]),
    "cut LZ4": (WHOLE[:-9], ["not LZ4-framed msgpack"]),
    "a changed byte": (WHOLE[:20] + bytes([WHOLE[20] ^ 255]) + WHOLE[21:], ["not LZ4"]),
    "not msgpack": (lz4.frame.compress(b"\xc1"), ["not LZ4-framed msgpack"]),
    "cut msgpack": (lz4.frame.compress(msgpack.packb({"input_ids": [1]})[:-1]), ["not LZ4"]),
    "more after it": (lz4.frame.compress(msgpack.packb({}) * 2), ["not LZ4-framed msgpack"]),
    "not UTF-8": (lz4.frame.compress(b"\x81\xa1k\xa1\xff"), ["not LZ4", "utf-8"]),
    "a list": (frame([1]), ["an object is expected, not list"]),
    "no input_ids": (frame({"img_fname": IMAGE, "target": 0.5}), ["'input_ids' is missing"]),
    "no img_fname": (frame({"input_ids": [], "target": 0.5}), ["'img_fname' is missing"]),
    "no target": (frame({"input_ids": [], "img_fname": IMAGE}), ["'target' is missing"]),
    "ids a text": (packed("ab", IMAGE, 0.5), ["'input_ids' is 'ab', not list"]),
    "id a text": (packed([1, "2"], IMAGE, 0.5), ["a word piece is not in", "vocab.txt"]),
    "id negative": (packed([-1], IMAGE, 0.5), ["a word piece is not in", "vocab.txt"]),
    "id one too great": (packed([len(PIECES)], IMAGE, 0.5), ["a word piece is not in"]),
    "image a number": (packed([1], 42, 0.5), ["'img_fname' is 42, not str"]),
    "target a text": (packed([1], IMAGE, "0.5"), ["'target' is '0.5', not float"]),
    "target true": (packed([1], IMAGE, True), ["'target' is True, not float"]),
}


@pytest.mark.parametrize("fault", VALUES)
def test_a_damaged_value_is_named_by_its_key(fault: str, make) -> None:
    value, parts = VALUES[fault]
    rows = values("capeval1k")
    rows[10] = value
    root = make("capeval1k", rows)
    with says(f"{root / 'capeval1k' / 'data.mdb'}: key '10': ", *parts):
        load("capeval1k", root)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_without_references(name: str, make) -> None:
    stranger = f"{IMAGES[name][0][0]}9"
    root = make(name, [*values(name), packed([1], f"{stranger}.npz", 1.0)])
    path = card(name).sources[2].path
    with raises_exactly(
        f"dataset {name}: image '{image_id_of(stranger)}' has no references in {path}"
    ):
        load(name, root)


@pytest.mark.parametrize(
    ("name", "target", "shown"),
    [
        ("capeval1k", 1.01, "1.01 is not on the scale 0 to 1"),
        ("capeval1k", float("nan"), "NaN is not on the scale 0 to 1"),
        ("composite_8k", 0.0, "0 is not on the scale 1 to 5 in steps of 1"),
        ("composite_30k", 2.5, "2.5 is not on the scale 1 to 5 in steps of 1"),
        ("composite_coco", 6.0, "6 is not on the scale 1 to 5 in steps of 1"),
    ],
)
def test_a_rating_off_its_scale(name: str, target: float, shown: str, make) -> None:
    root = make(name, [*values(name), packed([1], f"{IMAGES[name][0][0]}.npz", target)])
    with says(f"dataset {name}: item '{IMAGES[name][0][1]}:", shown):
        load(name, root)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("[]", [": an object image id"]),
        ('{"42": "A dog."}', ["image '42': '42' is 'A dog.', not list"]),
        ('{"42": [1]}', ["image '42': '42' holds 1, not a text"]),
        ('{\n"42": ["A dog', [":2: not valid JSON"]),
        ('{"42": [], "581929": []}', ["item '42:", "has no references"]),
    ],
)
def test_faults_in_the_coco_references(content: str, parts: list[str], make) -> None:
    root = make("capeval1k")
    write_text(root / COCO_REFERENCES.path, content)
    with says("capeval1k" if "item" in parts[0] else str(root / COCO_REFERENCES.path), *parts):
        load("capeval1k", root)


def test_a_vocabulary_that_is_none(make) -> None:
    root = make("capeval1k")
    (root / VOCABULARY.path).write_bytes(b"a\ncaf\xe9\n")
    with says("vocab.txt:2: not UTF-8 text"):
        load("capeval1k", root)
    (root / VOCABULARY.path).write_text("")
    with says("a word piece is not in", "is it bert-base-cased's?"):
        load("capeval1k", root)
    (root / VOCABULARY.path).unlink()
    with says(VOCABULARY.path, VOCABULARY.url):
        load("capeval1k", root)


def test_an_empty_database(make) -> None:
    with says("dataset capeval1k: it has no items"):
        load("capeval1k", make("capeval1k", []))


#: Reads each file it is given, in a folder of its own, and says what came of it.
READ_EACH = """
import sys
from pathlib import Path
from captau.datasets.errors import InputError
from captau.datasets.sources.umic_lmdb import read_lmdb
for path in map(Path, sys.argv[2:]):
    print(path.parent.name, end="\\t", flush=True)
    try:
        print(len(read_lmdb(path.parent, Path(sys.argv[1]))))
    except InputError as error:
        print(error)
"""


def test_a_truncated_database_is_no_crash(make, tmp_path: Path) -> None:
    """LMDB maps its file, so reading a page that is not there kills the process, or used to."""
    rows = values("capeval1k") + [packed([1] * k, IMAGE, 0.5) for k in range(1, 9000, 90)]
    root = make("capeval1k", rows)
    whole = (root / "capeval1k" / "data.mdb").read_bytes()
    page = 4096
    cuts = [0, 1, 100, page, page + 9, 2 * page - 1, 2 * page, 3 * page, len(whole) // 2]
    cuts += [len(whole) - page, len(whole) - 1]
    contents = {str(cut): whole[:cut] for cut in cuts} | {"garbage": b"no LMDB " * 2000}
    paths = [tmp_path / name / "data.mdb" for name in (*contents, "whole")]
    for path, content in zip(paths, (*contents.values(), whole), strict=True):
        path.parent.mkdir()
        path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", READ_EACH, str(root / VOCABULARY.path), *map(str, paths)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split("\t") for line in done.stdout.splitlines())
    assert list(said) == [*contents, "whole"]
    assert said.pop("whole") == str(len(rows))
    for name, message in said.items():
        assert message.startswith(f"{tmp_path / name / 'data.mdb'}: "), message
        assert "truncated" in message
        assert "get a new copy" in message


# The real files. Golden: the facts that data/README.md states, and rows as the files hold them.


@pytest.fixture(scope="module")
def real(data_root: Path) -> CaptionSet:
    return load("capeval1k", data_root)


def test_real_counts(real: CaptionSet) -> None:
    assert CAPEVAL1K.expected == {
        "images": real.items["image_id"].nunique(),
        "items": len(real.items),
        "ratings": len(real.ratings),
    }
    assert CAPEVAL1K.expected == {"images": 250, "items": 1000, "ratings": 1000}
    assert real.items["references"].map(len).eq(5).all()
    assert real.items["image_id"].value_counts().eq(4).all(), "four systems"


def test_real_values_are_means_of_five_ratings_and_some_of_four_or_six(real: CaptionSet) -> None:
    """Lee et al. 2021, section 4.3, say five workers. A mean of n ratings of 1–5, scaled to 0–1, is a multiple of 1/(4n)."""
    values = real.ratings["value"].to_numpy()

    def can_be_of(n_ratings: int) -> np.ndarray:
        steps = values * 4 * n_ratings
        return np.abs(steps - np.rint(steps)) < 1e-4

    is_of_five = can_be_of(5)
    is_of_four = can_be_of(4)
    is_of_six = can_be_of(6)
    assert (is_of_five | is_of_four | is_of_six).all()
    assert (is_of_four & ~is_of_five & ~is_of_six).sum() == 76
    # Three ratings explain as much as six of these but for four values.
    is_only_of_six = is_of_six & ~is_of_five & ~is_of_four
    assert is_only_of_six.sum() == 9
    assert (is_only_of_six & ~can_be_of(3)).sum() == 4


def test_real_references(data_root: Path) -> None:
    references = coco_references(data_root, CAPEVAL1K)
    assert len(references) == 5000
    assert references["60623"][1] == "A young girl is preparing to blow out her candle."


@pytest.mark.parametrize("source", [s for s in CAPEVAL1K.sources if not s.alternative])
def test_the_real_files_are_of_the_cards_revision(source, data_root: Path) -> None:
    assert sha256(data_root / source.path) == source.sha256


def test_real_rows(real: CaptionSet) -> None:
    first, last = real.items.iloc[0], real.items.iloc[-1]
    assert first["image_id"] == "60623"
    assert first["caption"] == "a woman sitting at a table with a cake"
    assert last["image_id"] == "542509"
    assert last["caption"] == "a desk with three computer monitors and a keyboard"
    assert real.ratings["value"].tolist()[:3] == pytest.approx([0.6, 0.2, 0.8])
    pieces = real.items["caption"].str.contains("##")
    assert not pieces.any()
