"""THumB 1.0: the reader on small files in the release's format, and on the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.statistics.rating_table import count_by_level
from captau.datasets.caption_texts import normalise_thumb
from captau.datasets.reading.source_files import sha256
from captau.datasets.schema import CaptionSet, split_of
from captau.datasets.sources.thumb import CARD, DIMENSIONS, JUDGEMENTS, REFERENCES, load_thumb
from tests.conftest import says

REFS = [
    {"seg_id": "9", "set_id": 1, "refs": ["A red\u2028bus.", "One bus."]},
    {"seg_id": "12", "set_id": 2, "refs": ["A cow."]},
]
KEYS = tuple(DIMENSIONS)
VALUES = [(4.0, 3.0, -0.5, -0.0, -0.1, 2.9), (5, 2, 0, 0, 0, 3.5), (1.0, 5.0, 0.0, 0.0, 0.0, 3.0)]


def rows() -> list[dict[str, Any]]:
    """Two systems' captions of one image, equal word for word, and one of another image."""
    captions = [("S1", "9", "A bus."), ("S2", "9", "A bus."), ("S1", "12", "A cow!")]
    return [
        {
            "SYS": s,
            "seg_id": i,
            "set_id": 1,
            "hyp": c,
            "image": "i.jpg",
            **dict(zip(KEYS, v, strict=True)),
        }
        for (s, i, c), v in zip(captions, VALUES, strict=True)
    ]


def lines(content: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "thumb").mkdir()
    (tmp_path / JUDGEMENTS.path).write_text(lines(rows()), encoding="utf-8")
    (tmp_path / REFERENCES.path).write_text(lines(REFS), encoding="utf-8")
    return tmp_path


def test_every_field(folder: Path) -> None:
    made = load_thumb(folder)
    items = made.items
    assert items["image_id"].tolist() == ["9", "9", "12"]
    assert items["caption"].tolist() == ["A bus.", "A bus.", "A cow!"]
    assert items["system"].tolist() == ["S1", "S2", "S1"]
    bus, cow = ("A red\u2028bus.", "One bus."), ("A cow.",)
    assert items["references"].tolist() == [bus, bus, cow]
    assert items["image"].tolist() == [None] * 3
    assert items["split"].tolist() == [split_of(i) for i in items["image_id"]]
    assert items["item_id"].nunique() == 3, "the system tells equal captions apart"
    ratings = made.ratings
    assert ratings["item_id"].tolist() == [i for i in items["item_id"] for _ in KEYS]
    assert ratings["dimension"].tolist() == list(DIMENSIONS.values()) * 3
    assert ratings["rater"].tolist() == ["authors"] * 18
    assert ratings["value"].tolist() == [v for row in VALUES for v in row]
    assert "-0.0" not in map(repr, ratings["value"].tolist())
    assert made.dimensions == tuple(CARD.scales) == tuple(DIMENSIONS.values())
    assert made.preferences.empty
    assert made.card is CARD


def test_blank_lines_and_a_missing_last_line_end_change_nothing(folder: Path) -> None:
    before = load_thumb(folder).digest
    (folder / JUDGEMENTS.path).write_text("\r\n" + lines(rows()).strip().replace("\n", "\r\n\n"))
    assert load_thumb(folder).digest == before


def altered(key: str, value: Any) -> dict[str, Any]:
    return {**rows()[1], key: value}


def lacking(key: str) -> dict[str, Any]:
    return {k: v for k, v in rows()[1].items() if k != key}


FAULTS = {
    "a list": ([1], ["an object is expected, not list"]),
    **{f"no {k}": (lacking(k), [f"'{k}' is missing"]) for k in ("SYS", "seg_id", "hyp", *KEYS)},
    **{
        f"{k} {v!r}": (altered(k, v), [f"'{k}' is {v!r}, not {kind}"])
        for k, v, kind in [
            ("seg_id", 9, "str"),
            ("hyp", None, "str"),
            ("SYS", ["S"], "str"),
            ("P", "4", "float"),
            ("R", False, "float"),
            ("human_score", None, "float"),
        ]
    },
    "unknown image": (altered("seg_id", "10"), ["image '10' has no line in"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_and_line(fault: str, folder: Path) -> None:
    row, parts = FAULTS[fault]
    path = folder / JUDGEMENTS.path
    path.write_text(lines([rows()[0], row, rows()[2]]))
    with says(f"{path}:2: ", *parts):
        load_thumb(folder)


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("P", 0.5, "'P' is 0.5, not on the scale 1 to 5"),
        ("R", 4.5, "'R' is 4.5, not on the scale 1 to 5 in steps of 1"),
        ("Fl", 0.1, "'Fl' is 0.1, not on the scale -5 to 0"),
        ("human_score", float("nan"), "'human_score' is NaN, not on"),
    ],
)
def test_faults_in_what_is_rated(key: str, value: Any, part: str, folder: Path) -> None:
    path = folder / JUDGEMENTS.path
    path.write_text(lines([rows()[0], altered(key, value)]))
    with says(f"{path}:2: ", part):
        load_thumb(folder)


def test_a_system_has_one_caption_of_an_image(folder: Path) -> None:
    path = folder / JUDGEMENTS.path
    path.write_text(lines([rows()[0], altered("SYS", "S1")]))
    with says(f"{path}:2: system 'S1' has a caption of image '9' on line 1 already; keep one"):
        load_thumb(folder)


@pytest.mark.parametrize("source", [JUDGEMENTS, REFERENCES])
@pytest.mark.parametrize(
    ("second", "parts"),
    [
        (b'{"seg_id": "9", ', [":2: not valid JSON"]),
        (b"caption", [":2: not valid JSON"]),
        (b'"text"', [":2: an object is expected, not str"]),
        (b'{"seg_id": "caf\xe9"}', [":2: not UTF-8 text"]),
        (b"{}", [":2: 'seg_id' is missing"]),
    ],
)
def test_a_malformed_line_is_numbered(
    source, second: bytes, parts: list[str], folder: Path
) -> None:
    path = folder / source.path
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n" + second + b"\n")
    with says(str(path), *parts):
        load_thumb(folder)


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ({"seg_id": "9"}, [":1: 'refs' is missing"]),
        ({"seg_id": "9", "refs": "A bus."}, [":1: 'refs' is 'A bus.', not list"]),
        ({"seg_id": "9", "refs": ["A bus.", 3]}, [":1: 'refs' holds 3, not a text"]),
        ({"seg_id": 9, "refs": []}, [":1: 'seg_id' is 9, not str"]),
        ({"seg_id": "9", "refs": []}, ["item '9:", "has no references"]),
    ],
)
def test_faults_in_the_references(row: dict[str, Any], parts: list[str], folder: Path) -> None:
    (folder / REFERENCES.path).write_text(lines([row, REFS[1]]))
    with says(*parts):
        load_thumb(folder)


@pytest.mark.parametrize("source", [JUDGEMENTS, REFERENCES])
def test_a_missing_or_empty_file(source, folder: Path) -> None:
    (folder / source.path).write_text("")
    with says("no items" if source is JUDGEMENTS else "image '9' has no line in"):
        load_thumb(folder)
    (folder / source.path).unlink()
    with says("dataset thumb: the file", source.path, source.url):
        load_thumb(folder)


# The real files. Golden: the facts that data/README.md states, and rows as the files print them.


@pytest.fixture(scope="module")
def real(data_root: Path) -> CaptionSet:
    return load_thumb(data_root)


def test_real_counts_systems_and_dimensions(real: CaptionSet) -> None:
    items = real.items
    assert CARD.expected == {
        "images": items["image_id"].nunique(),
        "items": len(items),
        "ratings": len(real.ratings),
    }
    assert CARD.expected == {"images": 500, "items": 2500, "ratings": 15000}
    systems = ["Up-Down", "Unified-VLP", "VinVL-base", "VinVL-large", "Human"]
    assert items["system"].value_counts(sort=False).to_dict() == dict.fromkeys(systems, 500)
    assert items["references"].map(len).eq(4).all()
    assert real.dimensions == (
        "precision",
        "recall",
        "fluency",
        "inclusive",
        "conciseness",
        "total",
    )
    assert real.ratings["dimension"].value_counts().eq(2500).all()


def test_every_caption_and_reference_has_the_form_of_the_papers_text_rule(
    real: CaptionSet,
) -> None:
    """Kasai et al. 2022, section 2.2.3: a capital, a period at the end, no space before it; no text ends otherwise."""
    references = real.items["references"].explode().tolist()
    for text in [*real.items["caption"].tolist(), *references]:
        assert text[0].upper() == text[0], text
        assert text.endswith("."), text
        assert not text.endswith(" ."), text
        assert text == text.strip(), text
        assert text == normalise_thumb(text), text


def test_the_total_is_made_of_the_parts(real: CaptionSet) -> None:
    """Kasai et al. 2022, section 2.1: (P + R) / 2 less the penalties."""
    wide = real.ratings.pivot_table(index="item_id", columns="dimension", values="value")
    made = (wide["precision"] + wide["recall"]) / 2
    made += wide["fluency"] + wide["inclusive"] + wide["conciseness"]
    assert made.sub(wide["total"]).abs().max() < 1e-9


def test_precision_and_recall_are_counted_by_whole_points(real: CaptionSet) -> None:
    """The release rates both in whole points; the counts were taken from the file by hand."""
    scales = real.card.scales
    counts = {
        dimension: count_by_level(
            real.ratings[real.ratings["dimension"] == dimension], scales[dimension]
        )
        for dimension in ("precision", "recall")
    }
    assert counts["precision"] == {1: 3, 2: 77, 3: 298, 4: 424, 5: 1698}
    assert counts["recall"] == {1: 0, 2: 96, 3: 771, 4: 899, 5: 734}


def test_images_of_ties_do_not_explain_the_printed_worst_counts(real: CaptionSet) -> None:
    """docs/reproduction.md, on "# Worst" of Kasai et al. 2022, Table 3 (printed 65 128 150 190 269)."""
    wide = real.ratings.pivot_table(index="item_id", columns="dimension", values="value")
    judged = wide.reindex(real.items["item_id"])[["precision", "recall"]].reset_index(drop=True)
    images = real.items["image_id"].reset_index(drop=True)
    is_tied = (judged.groupby(images).transform("nunique") == 1).all(axis=1)
    is_worst = (judged == judged.groupby(images).transform("min")).all(axis=1)
    assert images[is_tied].nunique() == 29
    counts = real.items["system"].reset_index(drop=True)[is_worst & ~is_tied].value_counts()
    systems = ["Human", "VinVL-large", "VinVL-base", "Unified-VLP", "Up-Down"]
    assert counts[systems].tolist() == [44, 107, 129, 170, 255]


@pytest.mark.parametrize("source", [JUDGEMENTS, REFERENCES])
def test_the_real_files_are_of_the_cards_revision(source, data_root: Path) -> None:
    assert sha256(data_root / source.path) == source.sha256


def test_real_rows(real: CaptionSet) -> None:
    items, ratings = real.items, real.ratings
    first, last = items.iloc[0], items.iloc[-1]
    assert (first["image_id"], first["system"]) == ("974", "Up-Down")
    assert first["caption"] == "A group of people riding on the back of an elephant."
    assert first["references"] == (
        "A man riding on and elephants neck and guiding it while children ride on a seat behind him.",
        "A group of people ride atop of an elephant.",
        "A guide and three people riding an elephant.",
        "A few people riding on an elephants back.",
    )
    assert (last["image_id"], last["system"]) == ("576714", "Human")
    assert last["caption"] == "A sheep standing in a open grass field."
    assert ratings["value"].tolist()[:6] == [4.0, 3.0, 0.0, 0.0, 0.0, 3.5]
