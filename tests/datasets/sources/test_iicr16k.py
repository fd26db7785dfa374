"""CocoG, FlickrG and IICR16k: small files of our own making in the interchange format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.registry import load
from captau.datasets.schema import Scale, split_of
from captau.datasets.sources.coco_captions import COCO_CAPTIONS, COCO_REFERENCES
from captau.datasets.sources.flickr8k import EXPERT_JSON
from tests.conftest import raises_exactly, run_captau, says

NAMES = ["cocog", "flickrg", "iicr16k"]
# A caption of COCO's own, with the blanks of a person; and two of systems.
COCOG = [
    ("COCO_val2014_000000000042.jpg", "A dog  runs.", "p1", 5, "coco"),
    ("COCO_val2014_000000000042.jpg", "A dog  runs.", "p2", 4, "coco"),
    ("000000000042.jpg", "a dog", "p1", 3, "pythia"),
    ("7", "a cow", "p3", 1, ""),
]
CAPTIONS = {"42": ("A dog runs.", "Dogs run."), "7": ("A cat.",)}
# b.jpg's pairs were played; of a.jpg's, one is all ones, one is not, and one is its own reference.
FLICKRG = [
    ("b.jpg", "A dog .", "p1", 2, "game"),
    ("b", "A dog .", "p2", 3, "game"),
    ("b.jpg", "Two cats .", "p1", 5, "game"),
]
PAIRS = [
    ("a.jpg", "Two cats .", 1, 1, 1),
    ("b.jpg", "A cow .", 1, 1, 2),
    ("b.jpg", "A dog .", 1, 1, 1),
]
REFERENCES = {"a.jpg": ("A dog .", "Dogs ."), "b.jpg": ("Two cats .",)}


def write(root: Path, path: str, content: str) -> Path:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(content)
    return root / path


def rows(of: list[tuple[Any, ...]], ending: str) -> str:
    names = ("image", "caption", "rater", "value", "source")
    if ending == "jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in of)
    return "\n".join(",".join(map(str, row)) for row in [names, *of])


@pytest.fixture(params=["jsonl", "csv"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name, of in (("cocog", COCOG), ("flickrg", FLICKRG)):
        write(tmp_path, f"{name}/{name}.{request.param}", rows(of, request.param))
    experts = {
        image: {
            "image_path": f"Flickr8k_Dataset/{image}",
            "ground_truth": list(references),
            "human_judgement": [
                {"caption": caption, "rating": rating}
                for of, caption, *ratings in PAIRS
                if of == image
                for rating in ratings
            ],
        }
        for image, references in REFERENCES.items()
    }
    write(tmp_path, EXPERT_JSON.path, json.dumps(experts))
    write(tmp_path, COCO_REFERENCES.path, json.dumps(CAPTIONS))
    return tmp_path


def told(made: Any) -> list[tuple[Any, ...]]:
    items = made.items
    columns = ("image_id", "caption", "references", "system")
    return list(zip(*(items[c] for c in columns), strict=True))


COCOG_ITEMS = [
    ("42", "A dog runs.", CAPTIONS["42"], "coco"),
    ("42", "a dog", CAPTIONS["42"], "pythia"),
    ("7", "a cow", CAPTIONS["7"], None),
]
FLICKRG_ITEMS = [
    ("b.jpg", "A dog .", ("Two cats .",), "game"),
    ("a.jpg", "Two cats .", REFERENCES["a.jpg"], None),
]


def test_cocog(folder: Path) -> None:
    made = load("cocog", folder)
    assert told(made) == COCOG_ITEMS
    assert made.ratings["value"].tolist() == [5.0, 4.0, 3.0, 1.0]
    assert made.ratings["rater"].tolist() == ["p1", "p2", "p1", "p3"]
    assert made.items["split"].tolist() == [split_of(i) for i in ("42", "42", "7")]
    assert made.card.has_references


@pytest.mark.parametrize("name", ["cocog", "iicr16k"])
def test_the_protocol_decides_on_cocos_own_captions(name: str, folder: Path) -> None:
    """The usual one compares none with itself; the loader gives every caption all references of its image."""
    made = load(name, folder)
    for changes, expected in (({}, ("Dogs run.",)), ({"own_references": "keep"}, CAPTIONS["42"])):
        protocol = Protocol.resolve(name, usual_protocol(name), changes)
        items = protocol.select_items(made)
        assert items["references"].iloc[0] == expected
        assert items["references"].iloc[1] == CAPTIONS["42"]


def test_flickrg_has_the_pairs_that_all_experts_rated_one(folder: Path) -> None:
    """And not the one that is its image's own reference, nor again the one that was played."""
    made = load("flickrg", folder)
    assert told(made) == FLICKRG_ITEMS
    assert made.ratings["value"].tolist() == [2.0, 3.0, 1.0, 1.0, 1.0]
    assert made.ratings["rater"].tolist() == ["p1", "p2", "expert_1", "expert_2", "expert_3"]


def test_iicr16k_is_both(folder: Path) -> None:
    made = load("iicr16k", folder)
    assert told(made) == COCOG_ITEMS + FLICKRG_ITEMS
    assert len(made.ratings) == 9


def test_the_papers_counts_add_up() -> None:
    """Scott et al. 2023, section 3.3."""
    from captau.datasets.registry import card

    one, two, both = (card(name).expected for name in NAMES)
    assert {k: one[k] + two[k] for k in both} == both
    assert both == {"images": 9990, "items": 15646, "ratings": 68217}


def test_real_pairs_that_all_experts_rated_one(data_root: Path, tmp_path: Path) -> None:
    """Section 3.3 held out 2,350 pairs; with 3,472 − 158 played ones they make FlickrG's 5,664."""
    write(tmp_path, EXPERT_JSON.path, (data_root / EXPERT_JSON.path).read_text("utf-8"))
    write(tmp_path, "flickrg/flickrg.csv", "image,caption,rater,value\n")
    made = load("flickrg", tmp_path)
    assert (len(made.items), len(made.ratings)) == (2350, 3 * 2350)
    assert made.card.expected["items"] == 2350 + 3472 - 158


def test_cocos_own_captions_and_none_at_all(folder: Path) -> None:
    annotations = [
        {"image_id": 42, "id": 1, "caption": "Dogs\nrun."},
        {"image_id": 42, "id": 2, "caption": "A dog runs."},
    ]
    path = write(folder, COCO_CAPTIONS.path, json.dumps({"annotations": annotations}))
    made = load("cocog", folder)
    assert made.items["references"].tolist() == [("Dogs run.", "A dog runs.")] * 2 + [()]
    assert not made.card.has_references
    path.unlink()
    (folder / COCO_REFERENCES.path).unlink()
    assert load("cocog", folder).items["references"].tolist() == [()] * 3


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_a_header_alone_has_no_items(name: str, tmp_path: Path) -> None:
    header = "image,caption,rater,value\n"
    for of in ("cocog", "flickrg"):
        write(tmp_path, f"{of}/{of}.csv", header)
    image = {
        "image_path": "a.jpg",
        "ground_truth": ["A dog ."],
        "human_judgement": [{"caption": "A cat .", "rating": 2}] * 3,
    }
    write(tmp_path, EXPERT_JSON.path, json.dumps({"a": image}))
    with raises_exactly(
        f"dataset {name}: it has no items; its files are empty or of another format"
    ):
        load(name, tmp_path)


def test_what_is_missing_of_cocog_is_counted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (folder / "cocog").iterdir():
        path.unlink()
    lines = [f"{image},a dog,p1,3" for image in (9, 42, 8, 7, 9)]
    lines[-1] = "9,a cat,p1,3"
    write(folder, "cocog/cocog.csv", "\n".join(["image,caption,rater,value", *lines]))
    write(folder, COCO_REFERENCES.path, json.dumps({"42": ["A dog."]}))
    made = load("cocog", folder)
    assert made.items["references"].tolist() == [(), ("A dog.",), (), (), ()]
    assert caplog.messages == [
        "dataset cocog: 3 of the 4 images of CocoG have no references, such as 7; "
        "coco/captions_val2014.json has them (http://images.cocodataset.org/annotations/annotations_trainval2014.zip)"
    ]


@pytest.mark.parametrize(("cocog", "flickrg"), [(True, False), (False, True), (False, False)])
def test_means_and_ratings_together(
    cocog: bool, flickrg: bool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Either part may be an aggregated release; the experts' ones go with the form of FlickrG's."""
    for name, has_raters, row in (
        ("cocog", cocog, "42,a dog"),
        ("flickrg", flickrg, "b.jpg,A cow ."),
    ):
        for path in (folder / name).iterdir():
            path.unlink()
        text = "image,caption,rater,value\n" if has_raters else "image,caption,value\n"
        value = ",p1,2" if has_raters else ",2.5"
        write(folder, f"{name}/{name}.csv", f"{text}{row}{value}\n")
    made = load("iicr16k", folder)
    values = [2.0 if x else 2.5 for x in (cocog, flickrg)]
    raters = ["p1" if x else "mean" for x in (cocog, flickrg)]
    experts = ["expert_1", "expert_2", "expert_3"] if flickrg else ["mean"]
    # Of the experts' pairs two are of ones alone, one of each image.
    assert made.ratings["value"].tolist() == [*values, *[1.0] * (2 * len(experts))]
    assert made.ratings["rater"].tolist() == [*raters, *experts * 2]
    assert set(made.ratings["dimension"]) == {"overall"}
    assert made.card.scales == {"overall": Scale(1, 5)}
    assert made.card.expected == {"images": 9990, "items": 15646}
    assert caplog.messages == [
        "dataset iicr16k: without a column rater its values are means of ratings; the agreement of raters (captau "
        "agree) and correlations with single ratings cannot be measured"
    ]


FAULTS = {
    "off scale": ("42,a dog,p1,6", ":2: value is '6', not on the scale 1 to 5 in steps of 1"),
    "half a point": ("42,a dog,p1,2.5", ":2: value is '2.5', not on"),
    "no number": ("42,a dog,p1,good", ":2: value is 'good', not a number"),
    "no rater": ("42,a dog,,1", ":2: rater is empty"),
    "no image": (",a dog,p1,1", ":2: image is empty"),
    "rated twice": ("42,a dog,p1,1\n42,a dog,p1,2", ":3: rater 'p1' already rated this caption"),
    "cut": ("42,a dog", ":2: 2 cells"),
    "not UTF-8": ("42,caf\udce9,p1,1", ":2: not UTF-8"),
}


@pytest.mark.parametrize("name", ["cocog", "flickrg"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_and_line(name: str, fault: str, folder: Path) -> None:
    text, part = FAULTS[fault]
    if name == "flickrg":
        text = text.replace("42,", "b.jpg,")
    (folder / name / f"{name}.jsonl").unlink(missing_ok=True)
    path = folder / name / f"{name}.csv"
    path.write_bytes(f"image,caption,rater,value\n{text}\n".encode("utf-8", "surrogateescape"))
    for of in (name, "iicr16k"):
        with says(f"{path}{part}"):
            load(of, folder)


def test_other_faults(folder: Path) -> None:
    for name in ("cocog", "flickrg"):
        (folder / name / f"{name}.jsonl").write_text('{"image": "b", "rater": "p", "value": 1}\n')
        with says(
            f"{name}.jsonl: no column 'caption'", "image, caption, rater and value are needed"
        ):
            load(name, folder)
    (folder / "flickrg" / "flickrg.jsonl").write_text(
        '{"image": "z.jpg", "caption": "c", "rater": "p", "value": 1}\n'
    )
    with says("flickrg.jsonl:1: image 'z.jpg' is not one of Flickr8k's"):
        load("flickrg", folder)
    (folder / "cocog" / "cocog.jsonl").write_text("")
    with says("cocog"):
        load("cocog", folder)


def test_an_aggregated_release_loads_and_says_what_cannot_be_measured(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mean a caption and no raters: Scott et al. 2023 do not say in which form they publish the ratings."""
    means = [("b.jpg", "A dog .", 2.5, "game"), ("b.jpg", "Two cows .", 4.25, "game")]
    for path in (folder / "flickrg").iterdir():
        path.unlink()
    lines = ["image,caption,value,source", *(",".join(map(str, row)) for row in means)]
    write(folder, "flickrg/flickrg.csv", "\n".join(lines))
    made = load("flickrg", folder)
    assert made.ratings["value"].tolist() == [
        2.5,
        4.25,
        1.0,
    ]  # the pair of three ones is one mean, too
    assert set(made.ratings["rater"]) == {"mean"}
    assert made.card.scales["overall"] == Scale(1, 5)
    assert "ratings" not in made.card.expected
    assert "the agreement of raters (captau agree)" in caplog.text
    write(folder, "flickrg/flickrg.csv", "image,caption,value\nb.jpg,A dog .,5.5\n")
    with says("flickrg.csv:2", "5.5"):
        load("flickrg", folder)


def test_the_file_of_cocog_s_references_is_named(
    folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """CocoG's 8,990 images are of COCO's validation set, of which Karpathy's test split is a part."""
    write(folder, COCO_REFERENCES.path, json.dumps({"42": CAPTIONS["42"]}))
    assert not load("cocog", folder).card.has_references
    assert "1 of the 2 images of CocoG have no references, such as 7" in caplog.text
    assert "coco/captions_val2014.json has them" in caplog.text
    assert run_captau("data", "list", "dataset=cocog", f"data.root={folder}") == 0
    printed = capsys.readouterr().out
    assert "part" in printed
    assert "Missing: coco/captions_val2014.json, which adds references, from http" in printed
    annotations = [{"image_id": 7, "id": 1, "caption": "A cat."}]
    write(folder, COCO_CAPTIONS.path, json.dumps({"annotations": annotations}))
    assert run_captau("data", "list", "dataset=cocog", f"data.root={folder}") == 0
    assert "Missing" not in capsys.readouterr().out


def with_splits(folder: Path, name: str, splits: list[str]) -> None:
    """Add a column `split` to a file of the folder, one entry a row."""
    path = next((folder / name).iterdir())
    given = {"cocog": COCOG, "flickrg": FLICKRG}[name]
    lines = [(*row, split) for row, split in zip(given, splits, strict=True)]
    names = ("image", "caption", "rater", "value", "source", "split")
    path.unlink()
    text = "\n".join(",".join(map(str, row)) for row in [names, *lines])
    write(folder, f"{name}/{name}.csv", text)


def test_a_column_split_is_the_authors_own(folder: Path) -> None:
    """A pair that was held out is in its image's split where the file says it, and otherwise in none that is known."""
    assert not load("cocog", folder).has_own_splits
    with_splits(folder, "cocog", ["test", "test", "val", "Training"])
    made = load("cocog", folder)
    assert made.items["split"].tolist() == ["test", "validation", "train"]
    assert made.has_own_splits

    with_splits(folder, "flickrg", ["test", "test", "test"])
    assert load("flickrg", folder).items["split"].tolist() == ["test", "unknown"]
    assert load("iicr16k", folder).items["split"].tolist() == [
        *("test", "validation", "train", "test", "unknown")
    ]


def test_one_file_with_splits_is_not_enough_for_both(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_splits(folder, "cocog", ["test", "test", "val", "train"])
    made = load("iicr16k", folder)
    assert not made.has_own_splits
    assert "5 of its 9 ratings have no split of the authors'" in caplog.text


def test_another_word_for_a_split_is_refused(folder: Path) -> None:
    with_splits(folder, "cocog", ["test", "test", "fold 2", "train"])
    with says("cocog.csv:4: split is 'fold 2'; write one of train, validation and test"):
        load("cocog", folder)
