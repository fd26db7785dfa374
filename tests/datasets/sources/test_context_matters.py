"""Context Matters: small files of our own in the authors' format, and the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import captau
from captau.datasets.registry import load
from captau.datasets.sources.context_matters import BLV, BLV_COLUMNS, SIGHTED, SIGHTED_COLUMNS
from tests.conftest import says

HEADER = {
    SIGHTED.name: [
        "context",
        "anon_worker_id",
        "img_id",
        "description",
        *SIGHTED_COLUMNS,
        "article_text",
    ],
    BLV.name: ["context", "participant", "img_id", "description", *BLV_COLUMNS, "article_text"],
}
CARDS = {card.name: card for card in (SIGHTED, BLV)}


def write(root: Path, name: str, rows: list[list[str]]) -> Path:
    path = root / CARDS[name].sources[0].path
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(",".join, [HEADER[name], *rows])), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", CARDS)
def test_a_description_of_an_image_in_an_article_is_an_item(name: str, tmp_path: Path) -> None:
    dimensions = tuple(CARDS[name].scales)
    grades = [str(1 + i % 5) for i in range(len(dimensions))]
    write(
        tmp_path,
        name,
        [
            ["Roof", "p1", "house_1", "A house.", *grades, "On roofs."],
            ["Window", "p1", "house_1", "A house.", *grades[::-1], "On windows."],
            ["Roof", "p2", "house_1", "A house.", *grades[::-1], "On roofs."],
        ],
    )
    caption_set = load(name, tmp_path)
    items, ratings = caption_set.items, caption_set.ratings
    assert items["context"].tolist() == ["On roofs.", "On windows."]
    assert items["caption"].tolist() == ["A house."] * 2
    assert items["image_id"].tolist() == ["house_1"] * 2
    assert items["references"].tolist() == [(), ()]
    first, second = items["item_id"]
    assert ratings["item_id"].tolist() == [i for i in (first, second, first) for _ in dimensions]
    assert ratings["dimension"].tolist() == list(dimensions) * 3
    values = [float(grade) for grade in grades]
    assert ratings["value"].tolist() == [*values, *values[::-1], *values[::-1]]
    assert ratings["rater"].tolist() == [r for r in ("p1", "p1", "p2") for _ in dimensions]
    assert caption_set.dimensions == dimensions


@pytest.mark.parametrize(
    ("change", "message"),
    [({4: "6"}, "not on the scale 1 to 5"), ({3: ""}, "description is empty"), ({4: "NA"}, "'NA'")],
)
def test_faults_name_file_and_line(change: dict[int, str], message: str, tmp_path: Path) -> None:
    row = ["Roof", "p1", "house_1", "A house.", *["3"] * len(BLV_COLUMNS), "On roofs."]
    broken = [change.get(i, cell) for i, cell in enumerate(row)]
    path = write(tmp_path, BLV.name, [row, broken])
    with says(f"{path}:3: ", message):
        load(BLV.name, tmp_path)


def shared_words(caption: str, context: str) -> int:
    return len({*caption.split()} & {*context.split()})


def test_a_function_gets_the_text_around_the_image(tmp_path: Path) -> None:
    """Worked: the first article shares "A" and "house." with the description, the second "A" alone."""
    grades = ["3"] * len(BLV_COLUMNS)
    texts = ["A house. Its roof.", "A car."]
    write(tmp_path, BLV.name, [["c", "p", "h", "A house.", *grades, text] for text in texts])
    assert captau.metric(shared_words).score(load(BLV.name, tmp_path)).tolist() == [2, 1]
    with says("needs the text around images, and row 0 has none"):
        captau.metric(shared_words).score([{"caption": "A house."}])


@pytest.mark.parametrize("name", CARDS)
def test_the_real_files(name: str, data_root: Path) -> None:
    """The counts are those that the data's description states: 986 and 272 rows, each with all dimensions."""
    caption_set = load(name, data_root)
    n_rows = {SIGHTED.name: 986, BLV.name: 272}[name]
    ratings = caption_set.ratings
    assert ratings["dimension"].value_counts().eq(n_rows).all()
    assert CARDS[name].expected == {
        "images": caption_set.items["image_id"].nunique(),
        "items": len(caption_set.items),
        "ratings": len(ratings),
    }
    assert caption_set.items["context"].nunique() == 17


def test_sighted_people_agree_little(data_root: Path, tmp_path: Path) -> None:
    """Krippendorff's α of the sighted overall ratings is about .21, by the krippendorff package as well."""
    import krippendorff

    ratings = load(SIGHTED.name, data_root).ratings
    overall = ratings[ratings["dimension"] == "overall_before"]
    table = overall.pivot(index="rater", columns="item_id", values="value")
    alpha = krippendorff.alpha(table.to_numpy(float), level_of_measurement="ordinal")
    assert round(alpha, 2) == 0.21
