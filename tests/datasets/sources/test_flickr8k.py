"""Flickr8k-Expert: both readers on small files in the authors' formats, and on the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.datasets.reading.source_files import sha256
from captau.datasets.schema import CaptionSet, split_of
from captau.datasets.sources.flickr8k import (
    CROWD,
    CROWD_JSON,
    EXPERT_JSON,
    EXPERTS,
    FLICKR8K_EXPERT,
    TOKENS,
    flickr8k_references,
    load_flickr8k_cf,
    load_flickr8k_expert,
    read_token_file,
    references_of,
)
from tests.conftest import raises_exactly, says

# Two images of two references each. Blanks are as untidy as in the original.
TOKENS_TEXT = """\
a.jpg#0\tA dog  runs .
a.jpg#1\tThe dog is brown .

b.jpg#0\tTwo cats sit .
b.jpg#1\t Cats .

"""
# The second row pairs a.jpg with its own second reference, and has to go.
EXPERTS_TEXT = """\
a.jpg\tb.jpg#0\t1\t1\t2
a.jpg\ta.jpg#1\t4\t4\t4
 \t
b.jpg\ta.jpg#0\t1\t2\t3
b.jpg\ta.jpg#1\t1\t1\t1
"""
REFERENCES = {
    "a.jpg": ("A dog runs .", "The dog is brown ."),
    "b.jpg": ("Two cats sit .", "Cats ."),
}
WANTED = [
    ("a.jpg", "Two cats sit .", (1.0, 1.0, 2.0)),
    ("b.jpg", "A dog runs .", (1.0, 2.0, 3.0)),
    ("b.jpg", "The dog is brown .", (1.0, 1.0, 1.0)),
]


def judgement(caption: Any, rating: Any) -> dict[str, Any]:
    return {"image_id": "any", "image_path": "any.jpg", "caption": caption, "rating": rating}


def table() -> dict[str, Any]:
    """The small files' content as the CLIPScore authors' script writes it: one row a rating."""
    pairs = [*WANTED, ("a.jpg", "The dog is  brown .", (4, 4, 4))]
    return {
        image.removesuffix(".jpg"): {
            "image_path": f"Flickr8k_Dataset/{image}",
            "ground_truth": [f" {r}" for r in REFERENCES[image]],
            "human_judgement": [
                judgement(c, v) for i, c, ratings in pairs if i == image for v in ratings
            ],
        }
        for image in REFERENCES
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for source, text in (
        (TOKENS, TOKENS_TEXT),
        (EXPERTS, EXPERTS_TEXT),
        (EXPERT_JSON, json.dumps(table())),
    ):
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def read_text_files(folder: Path) -> CaptionSet:
    """Read a folder as if the JSON were not there."""
    path = folder / EXPERT_JSON.path
    hidden = path.rename(path.with_suffix(".hidden"))
    try:
        return load_flickr8k_expert(folder)
    finally:
        hidden.rename(path)


def read_json_file(folder: Path) -> CaptionSet:
    return load_flickr8k_expert(folder)


def link_text_files(data_root: Path, folder: Path) -> Path:
    """Make a data folder of the real text files alone."""
    (folder / "flickr8k").mkdir()
    for source in (TOKENS, EXPERTS):
        (folder / source.path).symlink_to(data_root / source.path)
    return folder


@pytest.mark.parametrize("read", [read_text_files, read_json_file])
def test_every_field(read, folder: Path) -> None:
    made = read(folder)
    items = made.items
    assert items["image_id"].tolist() == [w[0] for w in WANTED]
    assert items["caption"].tolist() == [w[1] for w in WANTED]
    assert items["references"].tolist() == [REFERENCES[w[0]] for w in WANTED]
    assert items["image"].tolist() == items["system"].tolist() == [None] * 3
    assert items["split"].tolist() == [split_of(i) for i in items["image_id"]]
    assert [i.partition(":")[0] for i in items["item_id"]] == [w[0] for w in WANTED]
    ratings = made.ratings
    assert ratings["item_id"].tolist() == [i for i in items["item_id"] for _ in range(3)]
    assert ratings["dimension"].tolist() == ["overall"] * 9
    assert ratings["rater"].tolist() == ["expert_1", "expert_2", "expert_3"] * 3
    assert ratings["value"].tolist() == [v for w in WANTED for v in w[2]]
    assert made.preferences.empty
    assert made.card is FLICKR8K_EXPERT


def test_both_readers_agree(folder: Path) -> None:
    assert read_text_files(folder).digest == read_json_file(folder).digest


@pytest.mark.parametrize("change", ["\r\n", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_change_nothing(change: str, folder: Path) -> None:
    before = read_text_files(folder).digest
    for source, text in ((TOKENS, TOKENS_TEXT), (EXPERTS, EXPERTS_TEXT)):
        changed = change + text if change == "\ufeff" else text.replace("\n", change)
        (folder / source.path).write_bytes(changed.encode())
    assert read_text_files(folder).digest == before


def test_the_text_files_stand_in_for_the_json(folder: Path) -> None:
    whole = load_flickr8k_expert(folder)
    (folder / EXPERT_JSON.path).unlink()
    assert load_flickr8k_expert(folder).digest == whole.digest
    (folder / EXPERTS.path).unlink()
    with says(EXPERT_JSON.path, EXPERT_JSON.url):
        load_flickr8k_expert(folder)


@pytest.mark.parametrize("has_json", [True, False])
@pytest.mark.parametrize("has_tokens", [True, False])
@pytest.mark.parametrize("has_ratings", [True, False])
def test_the_json_comes_first_and_both_texts_second(
    has_json: bool, has_tokens: bool, has_ratings: bool, folder: Path
) -> None:
    path = folder / EXPERT_JSON.path
    path.write_text(path.read_text().replace('"rating": 3.0', '"rating": 4.0'))
    present = {EXPERT_JSON: has_json, TOKENS: has_tokens, EXPERTS: has_ratings}
    for source, is_there in present.items():
        if not is_there:
            (folder / source.path).unlink()
    if has_json or (has_tokens and has_ratings):
        values = load_flickr8k_expert(folder).ratings["value"].tolist()
        assert values == [1, 1, 2, 1, 2, 4 if has_json else 3, 1, 1, 1]
    else:
        with says(EXPERT_JSON.path):
            load_flickr8k_expert(folder)


def test_photographs_are_named_where_they_are(folder: Path) -> None:
    photographs = folder / "flickr8k" / "Flickr8k_Dataset"
    plain = read_json_file(folder)
    photographs.mkdir()
    made = read_json_file(folder)
    assert made.items["image"].tolist() == [str(photographs / w[0]) for w in WANTED]
    assert made.digest == plain.digest


def test_references_from_either_file(folder: Path) -> None:
    assert flickr8k_references(folder, FLICKR8K_EXPERT) == REFERENCES
    (folder / TOKENS.path).unlink()
    assert flickr8k_references(folder, FLICKR8K_EXPERT) == REFERENCES
    (folder / EXPERT_JSON.path).unlink()
    with says(EXPERT_JSON.path, EXPERT_JSON.url):
        flickr8k_references(folder, FLICKR8K_EXPERT)


def test_a_caption_id_may_hold_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("x#y.jpg#0\ta\tb\n")
    assert references_of(read_token_file(path)) == {"x#y.jpg": ("a b",)}


TEXT_FAULTS = {
    "four columns": (EXPERTS, 3, "a.jpg\tb.jpg#0\t1\t1", [":3: ", "not 4 columns"]),
    "six columns": (EXPERTS, 1, "a.jpg\tb.jpg#0\t1\t1\t1\t1", [":1: ", "not 6 columns"]),
    "caption": (EXPERTS, 2, "a.jpg\tz.jpg#0\t1\t1\t1", [":2: caption 'z.jpg#0' is not in"]),
    "image": (EXPERTS, 5, "z.jpg\ta.jpg#0\t1\t1\t1", [":5: image 'z.jpg' is not in"]),
    "no number": (EXPERTS, 1, "a.jpg\tb.jpg#0\t1\tx\t1", [":1: a rating is not a number", "'x'"]),
    "off scale": (
        EXPERTS,
        1,
        "a.jpg\tb.jpg#0\t1\t5\t1",
        [":1: rating 5 is not on the scale 1 to 4"],
    ),
    "off step": (EXPERTS, 1, "a.jpg\tb.jpg#0\t1\t1\t1.5", [":1: rating 1.5 is not on"]),
    "not a number": (
        EXPERTS,
        1,
        "a.jpg\tb.jpg#0\tnan\t1\t1",
        [":1: a rating is not a number", "'nan'"],
    ),
    "no tab": (TOKENS, 2, "a.jpg#1 The dog", [":2: ", "a tab"]),
    "no hash": (TOKENS, 4, "b.jpg\tThe dog", [":4: ", "IMAGE.jpg#N"]),
    "not UTF-8": (TOKENS, 5, "b.jpg#1\tCaf\udce9", [":5: not UTF-8 text"]),
}


@pytest.mark.parametrize("fault", TEXT_FAULTS)
def test_faults_in_the_text_files(fault: str, folder: Path) -> None:
    source, line, text, parts = TEXT_FAULTS[fault]
    path = folder / source.path
    lines = path.read_text().split("\n")
    lines[line - 1] = text
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    with says(str(path), *parts):
        read_text_files(folder)


def test_a_line_of_ratings_twice(folder: Path) -> None:
    path = folder / EXPERTS.path
    path.write_text(EXPERTS_TEXT + "b.jpg\ta.jpg#0\t1\t2\t3\n")
    with says(f"{path}: image 'b.jpg', caption 'A dog runs .': ", "expected, not 6"):
        read_text_files(folder)


def test_half_of_a_surrogate_pair(folder: Path) -> None:
    path = folder / EXPERT_JSON.path
    path.write_text(path.read_text().replace("Two cats", r"Two\ud800 cats"))
    assert read_json_file(folder).items["caption"][0] == "Two\ufffd cats sit ."


@pytest.mark.parametrize("source", [TOKENS, EXPERTS])
def test_empty_text_files(source, folder: Path) -> None:
    (folder / source.path).write_text("")
    with says("flickr8k"):
        read_text_files(folder)


def altered(key: str, value: Any) -> Any:
    changed = table()
    changed["b"][key] = value
    return changed


def judged(row: Any) -> Any:
    return altered("human_judgement", [row])


def lacking(key: str) -> Any:
    changed = table()
    del changed["b"][key]
    return changed


def few(count: int) -> list[str]:
    return [f"image 'b.jpg', caption 'x y': the ratings of three experts are expected, not {count}"]


JSON_FAULTS = {
    "a list": ([], ["an object of images is expected"]),
    "an image a list": ({"b": []}, ["image 'b': an object is expected, not list"]),
    **{
        f"no {k}": (lacking(k), [f"image 'b': '{k}' is missing"])
        for k in ("image_path", "ground_truth", "human_judgement")
    },
    "path a number": (altered("image_path", 7), ["image 'b': 'image_path' is 7, not str"]),
    "references a text": (altered("ground_truth", "a"), ["'ground_truth' is 'a', not list"]),
    "reference null": (altered("ground_truth", [None]), ["image 'b': 'ground_truth' holds None"]),
    "no references": (altered("ground_truth", []), ["item 'b.jpg:", "has no references"]),
    "judgements an object": (altered("human_judgement", {}), ["'human_judgement' is {}, not list"]),
    "judgement a text": (judged("x"), ["image 'b': an object is expected, not str"]),
    "no caption": (judged({"rating": 1.0}), ["image 'b': 'caption' is missing"]),
    "caption a list": (judged(judgement(["x"], 1)), ["image 'b': 'caption' is ['x'], not str"]),
    "no rating": (judged({"caption": "x"}), ["image 'b': 'rating' is missing"]),
    "rating a text": (judged(judgement("x", "1")), ["image 'b': 'rating' is '1', not float"]),
    "rating true": (judged(judgement("x", True)), ["image 'b': 'rating' is True, not float"]),
    "rating off scale": (judged(judgement("x", 0)), ["image 'b': 'rating' is 0, not on"]),
    "rating NaN": (judged(judgement("x", float("nan"))), ["image 'b': 'rating' is NaN, not on"]),
    "one expert": (judged(judgement("x y", 1)), few(1)),
    "six ratings": (altered("human_judgement", [judgement("x y", 1)] * 6), few(6)),
    "an image twice": (
        altered("image_path", "elsewhere/a.jpg"),
        ["image 'b': its file a.jpg is that of image 'a' too"],
    ),
    "rating without end": (judged(judgement("x", 10**400)), ["image 'b': 'rating' is too large"]),
    "nothing": ({}, ["no items"]),
}


def test_an_image_twice_in_another_order(folder: Path) -> None:
    path = folder / EXPERT_JSON.path
    path.write_text(json.dumps(dict(reversed(altered("image_path", "a.jpg").items()))))
    with raises_exactly(f"{path}: image 'a': its file a.jpg is that of image 'b' too"):
        read_json_file(folder)


@pytest.mark.parametrize("fault", JSON_FAULTS)
def test_faults_in_the_json(fault: str, folder: Path) -> None:
    content, parts = JSON_FAULTS[fault]
    path = folder / EXPERT_JSON.path
    path.write_text(json.dumps(content))
    of_set = "item" in parts[0]
    with says("dataset flickr8k_expert: " if of_set else f"{path}: ", *parts):
        read_json_file(folder)


CUT = json.dumps(table(), indent=1)[:-20]
UNREADABLE = {
    "truncated": (CUT.encode(), [f":{1 + CUT.count(chr(10))}: not valid JSON", "truncated"]),
    "empty": (b"", [":1: not valid JSON"]),
    "malformed": (b'{\n"a": 1,,\n}', [":2: not valid JSON"]),
    "not UTF-8": (b'{"a":\n"caf\xe9"}', [":2: not UTF-8 text"]),
    "nested": (b"[" * 100_000, ["nested too deeply"]),
    "a key twice": (b'{"a": {}, "b": {}, "a": {}}', [": 'a' appears twice in one object"]),
}


@pytest.mark.parametrize("fault", UNREADABLE)
def test_a_json_that_cannot_be_read(fault: str, folder: Path) -> None:
    content, parts = UNREADABLE[fault]
    path = folder / EXPERT_JSON.path
    path.write_bytes(content)
    (folder / TOKENS.path).unlink()
    for read in (read_json_file, lambda root: flickr8k_references(root, FLICKR8K_EXPERT)):
        with says(str(path), *parts):
            read(folder)


@pytest.mark.parametrize("content", [[], {"b": []}, {"b": {}}])
def test_references_from_a_malformed_json(content: Any, folder: Path) -> None:
    (folder / TOKENS.path).unlink()
    (folder / EXPERT_JSON.path).write_text(json.dumps(content))
    with says(f"{folder / EXPERT_JSON.path}: "):
        flickr8k_references(folder, FLICKR8K_EXPERT)


# The real files. Golden: the facts that data/README.md states, and rows as the files print them.


@pytest.fixture(scope="module")
def real(data_root: Path) -> CaptionSet:
    return read_json_file(data_root)


def test_real_counts(real: CaptionSet) -> None:
    items = real.items
    assert FLICKR8K_EXPERT.expected == {
        "images": items["image_id"].nunique(),
        "items": len(items),
        "ratings": len(real.ratings),
    }
    assert FLICKR8K_EXPERT.expected == {"images": 1000, "items": 5664, "ratings": 16992}
    assert real.preferences.empty
    assert items["references"].map(len).eq(5).all()
    assert set(real.ratings["value"]) == {1.0, 2.0, 3.0, 4.0}
    assert not any(c in r for c, r in zip(items["caption"], items["references"], strict=True))


def test_real_readers_agree(real: CaptionSet, data_root: Path, tmp_path: Path) -> None:
    texts = load_flickr8k_expert(link_text_files(data_root, tmp_path))
    assert texts.digest == real.digest == load_flickr8k_expert(data_root).digest


def test_a_real_pair_with_its_own_reference_is_dropped(
    real: CaptionSet, data_root: Path, tmp_path: Path
) -> None:
    """The original file has such pairs, 158 of them; the one at hand has none, so one is added."""
    experts = link_text_files(data_root, tmp_path) / EXPERTS.path
    experts.unlink()
    image = "1056338697_4f7d7ce270.jpg"
    text = (data_root / EXPERTS.path).read_text()
    experts.write_text(f"{image}\t{image}#2\t4\t4\t4\n{text}")
    assert load_flickr8k_expert(tmp_path).digest == real.digest


def test_the_real_json_is_of_the_cards_revision(data_root: Path) -> None:
    assert sha256(data_root / EXPERT_JSON.path) == EXPERT_JSON.sha256


def test_real_rows(real: CaptionSet) -> None:
    items, ratings = real.items, real.ratings
    first, last = items.iloc[0], items.iloc[-1]
    assert first["image_id"] == "1056338697_4f7d7ce270.jpg"
    assert first["caption"] == (
        "A young child is wearing blue goggles and sitting in a float in a pool ."
    )
    assert first["references"][1] == "A blond woman is on the street hailing a taxi ."
    assert last["image_id"] == "997722733_0cb5439472.jpg"
    assert last["caption"] == "A person wearing a white hat climbs a rock ."
    # ExpertAnnotations.txt: 1056338697_4f7d7ce270.jpg 2718495608_d8533e3ac5.jpg#2 1 1 2
    second = items.iloc[1]
    assert second["caption"] == "A girl wearing a yellow shirt and sunglasses smiles ."
    of_second = ratings[ratings["item_id"] == second["item_id"]]
    assert of_second["value"].tolist() == [1.0, 1.0, 2.0]


CROWD_TOKENS_TEXT = """\
a.jpg#0\tA dog  runs .
a.jpg#1\tThe dog is brown .
a.jpg#2\tA dog .
b.jpg#0\tTwo cats sit .
b.jpg#1\tCats .
"""
# a.jpg's second caption is a candidate of its own image.
CROWD_TEXT = """\
a.jpg\tb.jpg#0\t0\t0\t3
a.jpg\ta.jpg#1\t1\t4\t0
b.jpg\ta.jpg#1\t0.333333333333333\t1\t2
"""
CROWD_WANTED = [
    ("a.jpg", "Two cats sit .", ("A dog runs .", "A dog ."), 0.0),
    ("a.jpg", "The dog is brown .", ("A dog runs .", "A dog ."), 1.0),
    ("b.jpg", "The dog is brown .", ("Two cats sit .", "Cats ."), 0.333333333333333),
]


def crowd_table() -> dict[str, Any]:
    """As the CLIPScore authors' script writes it: a candidate is taken out of its own references."""
    return {
        image: {
            "image_path": f"Flicker8k_Dataset/{image}",
            "ground_truth": next(list(w[2]) for w in CROWD_WANTED if w[0] == image),
            "human_judgement": [
                {"image_id": image, "caption": w[1], "rating": w[3]}
                for w in CROWD_WANTED
                if w[0] == image
            ],
        }
        for image in ("a.jpg", "b.jpg")
    }


@pytest.fixture
def crowd_folder(tmp_path: Path) -> Path:
    (tmp_path / "flickr8k").mkdir()
    for source, text in ((TOKENS, CROWD_TOKENS_TEXT), (CROWD, CROWD_TEXT)):
        (tmp_path / source.path).write_text(text)
    return tmp_path


def write_crowd_json(crowd_folder: Path, content: Any) -> CaptionSet:
    (crowd_folder / CROWD_JSON.path).write_text(json.dumps(content))
    return load_flickr8k_cf(crowd_folder)


def test_every_field_of_the_crowd_from_both(crowd_folder: Path) -> None:
    text = load_flickr8k_cf(crowd_folder)
    for made in (text, write_crowd_json(crowd_folder, crowd_table())):
        items = made.items
        found = zip(items["image_id"], items["caption"], items["references"], strict=True)
        assert list(found) == [w[:3] for w in CROWD_WANTED]
        assert made.ratings["value"].tolist() == [w[3] for w in CROWD_WANTED]
        assert made.ratings["rater"].tolist() == ["crowd_1"] * 3
        assert made.digest == text.digest


def test_line_ends_and_a_byte_order_mark_change_nothing_of_the_crowd(crowd_folder: Path) -> None:
    before = load_flickr8k_cf(crowd_folder).digest
    for source, text in ((TOKENS, CROWD_TOKENS_TEXT), (CROWD, CROWD_TEXT)):
        (crowd_folder / source.path).write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    assert load_flickr8k_cf(crowd_folder).digest == before


@pytest.mark.parametrize(
    ("times", "references"),
    [(1, ("A dog .", "It runs .")), (2, ("It runs .",)), (3, ("It runs .",))],
)
def test_a_rating_takes_one_of_equal_references_away(
    times: int, references: tuple[str, ...], crowd_folder: Path
) -> None:
    tokens = "a.jpg#0\tA dog .\na.jpg#1\tA dog .\na.jpg#2\tIt runs .\n"
    (crowd_folder / TOKENS.path).write_text(tokens)
    (crowd_folder / CROWD.path).write_text("a.jpg\ta.jpg#0\t1\t3\t0\n" * times)
    made = load_flickr8k_cf(crowd_folder)
    assert made.items["references"].tolist() == [references]
    assert made.ratings["rater"].tolist() == [f"crowd_{k + 1}" for k in range(times)]


def test_references_of_the_crowds_json_stay(crowd_folder: Path) -> None:
    """Of two equal references the script has taken one out."""
    content = crowd_table()
    content["a.jpg"]["ground_truth"] = ["The dog is brown .", "A dog ."]
    made = write_crowd_json(crowd_folder, content)
    assert made.items["references"].tolist()[:2] == [("The dog is brown .", "A dog .")] * 2


@pytest.mark.parametrize(
    ("numbers", "share"),
    [
        *(("0 0 3", 0.0), ("1 3 0", 1.0), ("0.33335 1 2", 0.33335), ("0.33331 1 2", 0.33331)),
        *(("0.5 1 1", None), ("0.3334 1 2", None), ("0.33325 1 2", None), ("1 -1 4", None)),
        *(("-0.333333333 -1 4", None), ("1.333333333 4 -1", None), ("1 2 0", None)),
    ],
)
def test_a_share_is_that_of_three_people_or_more(
    numbers: str, share: float | None, crowd_folder: Path
) -> None:
    path = crowd_folder / CROWD.path
    path.write_text(f"a.jpg b.jpg#0 {numbers}\n")
    if share is not None:
        assert load_flickr8k_cf(crowd_folder).ratings["value"].tolist() == [share]
        return
    share_of, yes, no = map(float, numbers.split())
    with raises_exactly(
        f"{path}:1: the share of yes {share_of:g} is not that of {yes:g} yes and {no:g} no, or these are "
        "fewer than three"
    ):
        load_flickr8k_cf(crowd_folder)


CROWD_FAULTS = {
    "another share": ("a.jpg\tb.jpg#0\t0.5\t1\t2", ":1: the share of yes 0.5 is not that of 1 yes"),
    "two people": ("a.jpg\tb.jpg#0\t0.5\t1\t1", "fewer than three"),
    "off scale": ("a.jpg\tb.jpg#0\t2\t2\t-1", ":1: the share of yes 2"),
    "no number": ("a.jpg\tb.jpg#0\tx\t1\t2", ":1: a rating is not a number"),
    "not a number": ("a.jpg\tb.jpg#0\tnan\t1\t2", ":1: a rating is not a number ('nan')"),
    "four columns": ("a.jpg\tb.jpg#0\t1\t3", ":1: image, caption id and the share of yes"),
    "caption": ("a.jpg\tc.jpg#0\t1\t3\t0", ":1: caption 'c.jpg#0' is not in"),
    "image": ("c.jpg\ta.jpg#0\t1\t3\t0", ":1: image 'c.jpg' is not in"),
}


@pytest.mark.parametrize("fault", CROWD_FAULTS)
def test_faults_in_the_text_of_the_crowd(fault: str, crowd_folder: Path) -> None:
    line, part = CROWD_FAULTS[fault]
    (crowd_folder / CROWD.path).write_text(f"{line}\n")
    with says(str(crowd_folder / CROWD.path), part):
        load_flickr8k_cf(crowd_folder)


def test_faults_in_the_json_of_the_crowd(crowd_folder: Path) -> None:
    content = crowd_table()
    content["b.jpg"]["human_judgement"][0]["rating"] = 1.25
    with says(
        f"{crowd_folder / CROWD_JSON.path}: image 'b.jpg': 'rating' is 1.25, not on the scale 0 to 1"
    ):
        write_crowd_json(crowd_folder, content)
    content = crowd_table()
    content["a.jpg"]["ground_truth"] = []
    with says("dataset flickr8k_cf: item 'a.jpg:", "has no references"):
        write_crowd_json(crowd_folder, content)
    (crowd_folder / CROWD_JSON.path).write_text(json.dumps(crowd_table())[:-9])
    with says(f"{crowd_folder / CROWD_JSON.path}:1: not valid JSON"):
        load_flickr8k_cf(crowd_folder)
