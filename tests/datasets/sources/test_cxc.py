"""Crisscrossed Captions: small files of our own in the release's shape, and the figures of the real ones."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import spearmanr

import captau
from captau.datasets.registry import load
from captau.datasets.sources.coco_captions import COCO_CAPTIONS, COCO_REFERENCES, TEST_CAPTION_IDS
from tests.conftest import says

REFERENCES = {
    "7": ["A cat sleeps.", "A cat on a bed.", "One  cat.", "The cat is grey.", "A grey cat."],
    "42": ["A dog runs.", "Dogs run.", "A brown dog.", "A dog in a park.", "The dog is wet.\n"],
}
#: The annotation ids of each image, of which the lowest is that of its first reference.
IDS = {"42": [60, 10, 20, 30, 50], "7": [5, 1, 2, 4, 3]}
TEXTS = {
    **dict(zip(["1", "2", "3", "4", "5"], REFERENCES["7"], strict=True)),
    **dict(zip(["10", "20", "30", "50", "60"], REFERENCES["42"], strict=True)),
}
HEAD = "caption,image,agg_score,sampling_method\n"
SITS = f"""{HEAD}COCO_val2014:sentid:60,COCO_val2014_000000000042.jpg,4.9,c2i_original
COCO_val2014:sentid:60,COCO_val2014_000000000007.jpg,0.5,c2i_intrasim
COCO_val2014:sentid:3,COCO_val2014_000000000042.jpg,1,c2i_intrasim
"""
STS = """caption1,caption2,agg_score,sampling_method
COCO_val2014:sentid:1,COCO_val2014:sentid:3,3.5,c2c_cocaption
COCO_val2014:sentid:20,COCO_val2014:sentid:1,0.25,c2c_isim
"""


def write(root: Path, path: str, content: Any) -> Path:
    (root / path).parent.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (root / path).write_text(text)
    return root / path


def write_ids(root: Path) -> None:
    write(root, COCO_REFERENCES.path, REFERENCES)
    write(root, TEST_CAPTION_IDS.path, IDS)


def write_texts(root: Path) -> None:
    write(root, COCO_REFERENCES.path, REFERENCES)
    write(root, "cxc/sentid_to_caption_test.json", TEXTS)


def write_annotations(root: Path) -> None:
    """COCO's own file, whose annotations follow in no order."""
    images = dict.fromkeys(["1", "2", "3", "4", "5"], 7)
    rows = [
        {"id": int(number), "image_id": images.get(number, 42), "caption": text}
        for number, text in reversed(TEXTS.items())
    ]
    write(root, COCO_CAPTIONS.path, {"annotations": rows})


CAPTION_FILES = {"ids": write_ids, "texts": write_texts, "COCO's own": write_annotations}


@pytest.fixture(params=CAPTION_FILES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data folder with the judgements, and with captions in each of the forms that are read."""
    CAPTION_FILES[request.param](tmp_path)
    write(tmp_path, "cxc/sits_test.csv", SITS)
    write(tmp_path, "cxc/sts_test.csv", STS)
    return tmp_path


def test_captions_beside_images(root: Path) -> None:
    made = load("cxc_sits", root)
    cat = ("A cat sleeps.", "A cat on a bed.", "One cat.", "The cat is grey.", "A grey cat.")
    dog = ("A dog runs.", "Dogs run.", "A brown dog.", "A dog in a park.", "The dog is wet.")
    assert made.items["image_id"].tolist() == ["42", "7", "42"]
    assert made.items["caption"].tolist() == ["The dog is wet.", "The dog is wet.", "One cat."]
    assert made.items["references"].tolist() == [dog, cat, dog]
    assert made.ratings["item_id"].tolist() == made.items["item_id"].tolist()
    assert made.ratings["dimension"].tolist() == ["original", "intrasim", "intrasim"]
    assert made.ratings["value"].tolist() == [4.9, 0.5, 1.0]
    assert set(made.ratings["rater"]) == {"mean"}


def test_pairs_of_captions(root: Path) -> None:
    made = load("cxc_sts", root)
    assert made.items["image_id"].tolist() == ["7", "42"]
    assert made.items["caption"].tolist() == ["A cat sleeps.", "Dogs run."]
    assert made.items["references"].tolist() == [("One cat.",), ("A cat sleeps.",)]
    first, second = made.items["item_id"]
    assert made.ratings.drop(columns="rater").to_numpy().tolist() == [
        [first, "overall", 3.5],
        [second, "overall", 0.25],
        [first, "cocaption", 3.5],
        [second, "isim", 0.25],
    ]


def test_a_dimension_has_its_own_items_and_its_usual_rule(tmp_path: Path) -> None:
    """Of two intrasim captions none is a reference of its image; the original one is scored without itself."""
    root = tmp_path
    write_ids(root)
    write(root, "cxc/sits_test.csv", SITS)
    result = captau.bench("cxc_sits", "bleu_1", data_root=root, statistics={"interval": "none"})
    of_other_images = load("cxc_sits", root).items.iloc[1:]
    expected = captau.metric("bleu_1").score(of_other_images).tolist()
    assert result.scores["score"].tolist() == pytest.approx(expected)
    protocol = {"dimension": "original"}
    result = captau.bench("cxc_sits", "bleu_1", protocol=protocol, data_root=root)
    (score,) = result.scores["score"]
    assert 0 < score < 1
    kept = captau.bench(
        "cxc_sits", "bleu_1", protocol={**protocol, "own_references": "keep"}, data_root=root
    )
    assert kept.scores["score"].tolist() == [pytest.approx(1.0)]


FAULTS = {
    "an id of no caption": (
        SITS.replace("sentid:3,", "sentid:99,"),
        "sits_test.csv:4: caption is 'COCO_val2014:sentid:99', and no caption has this annotation id",
    ),
    "an image of no caption": (
        SITS.replace("000007.jpg", "000008.jpg"),
        "sits_test.csv:3: COCO's captions have none of the image 8",
    ),
    "another way of sampling": (
        SITS.replace("c2i_original", "c2c_isim"),
        "sits_test.csv:2: sampling_method is 'c2c_isim'; c2i_original or c2i_intrasim is expected",
    ),
    "a score above the scale": (SITS.replace("4.9", "5.9"), "sits_test.csv:2: agg_score is '5.9'"),
    "no column": (SITS.replace("agg_score", "score"), "no column 'agg_score'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_judgements_name_file_and_line(fault: str, tmp_path: Path) -> None:
    content, said = FAULTS[fault]
    write_ids(tmp_path)
    write(tmp_path, "cxc/sits_test.csv", content)
    with says(said):
        load("cxc_sits", tmp_path)


CAPTION_FAULTS = {
    "an image without references": ({**IDS, "9": [9]}, "image 9: 1 annotation ids, where"),
    "an id too few": ({**IDS, "7": [1, 2, 3, 4]}, "image 7: 4 annotation ids, where"),
    "an id that is no number": ({**IDS, "7": [1, 2, 3, 4, None]}, "annotation id None is not a"),
    "no list": ({**IDS, "7": 5}, "image 7: '7' is 5, not list"),
    "a list": ([1], "an object of annotation ids is expected"),
    "texts of other images": (
        {**TEXTS, "1": "A cow."},
        "the captions 1, 2, 3, 4, 5 are not the references of an image in",
    ),
}


@pytest.mark.parametrize("fault", CAPTION_FAULTS)
def test_faults_of_the_captions_name_file_and_image(fault: str, tmp_path: Path) -> None:
    content, said = CAPTION_FAULTS[fault]
    write(tmp_path, COCO_REFERENCES.path, REFERENCES)
    path = write(tmp_path, TEST_CAPTION_IDS.path, content)
    write(tmp_path, "cxc/sits_test.csv", SITS)
    with says(str(path), said):
        load("cxc_sits", tmp_path)


def test_counts_and_means_of_the_real_judgements(data_root: Path) -> None:
    """Those of the README beside the files."""
    made = load("cxc_sits", data_root)
    by_dimension = made.ratings.groupby("dimension")["value"]
    assert by_dimension.size().to_dict() == {"original": 25000, "intrasim": 19833}
    assert by_dimension.mean().round(3).to_dict() == {"original": 4.891, "intrasim": 2.906}
    counts = {"images": made.items["image_id"].nunique(), "items": len(made.items)}
    assert {**counts, "ratings": len(made.ratings)} == made.card.expected


def test_word_overlap_of_captions_of_one_image(data_root: Path) -> None:
    """Spearman's ρ of the README beside the files, .5205; with the ids of an image reversed it is .240."""
    made = load("cxc_sts", data_root)
    ratings = made.ratings.query("dimension == 'cocaption'").set_index("item_id")["value"]
    items = made.items.set_index("item_id").loc[ratings.index]

    def words(text: str) -> set[str]:
        return {word.strip(string.punctuation) for word in text.lower().split()}

    shares: list[float] = []
    for caption, (reference,) in zip(items["caption"], items["references"], strict=True):
        first, second = words(caption), words(reference)
        shares.append(len(first & second) / len(first | second))

    value = spearmanr(shares, ratings).statistic
    assert value == pytest.approx(0.5205, abs=0.0005)


#: ρ of the README beside the files, against the image's five references.
PRINTED = {
    "cider": 56.9,
    "bleu_1": 50.5,
    "bleu_2": 47.1,
    "rouge_l": 45.9,
    "bleu_3": 44.4,
    "bleu_4": 43.3,
}


@pytest.mark.parametrize(
    "printed", [PRINTED, pytest.param({"meteor": 53.9}, marks=pytest.mark.java)]
)
def test_rank_correlations_of_captions_of_other_images(
    printed: dict[str, float], data_root: Path
) -> None:
    """To the printed digit; METEOR takes long, and its tables the first time as well."""
    result = captau.bench(
        "cxc_sits", list(printed), data_root=data_root, statistics={"interval": "none"}
    )
    of_metrics = result.correlations[result.correlations["metric"].isin(list(printed))]
    rows = of_metrics[of_metrics["coefficient"] == "spearman"]
    values = (100 * rows.set_index("metric")["value"]).round(1)
    assert values.to_dict() == printed
    assert set(rows["dimension"]) == {"intrasim"}
    assert set(rows["n_items"]) == {19833}
