"""SugarCrepe and VALSE: small files of our own in the releases' shapes, and the figures of the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import captau
from captau.datasets.registry import load
from captau.datasets.sources import sugarcrepe, valse
from captau.datasets.sources.coco_captions import COCO_CAPTIONS, COCO_REFERENCES
from tests.conftest import run_captau, says

REFERENCES = {"42": ["A dog runs on grass.", "A brown dog runs on the grass.", "Dogs run."]}
ROW = {
    "filename": "000000000042.jpg",
    "caption": "A dog  runs on grass.",
    "negative_caption": "A cat runs on grass.",
}
VALSE_ROW = {
    "dataset": "FOIL dataset",
    "image_file": "COCO_val2014_000000000042.jpg",
    "caption": "A dog runs on grass.",
    "foil": "A cat runs on grass.",
    "mturk": {"foil": 0, "caption": 2, "other": 1},
}
#: Numbers in names of other sets' files are no COCO ids.
FOREIGN = ["foraging_42.jpg", "v7w_42.jpg", "VisualDialog_val2018_000000000042.jpg"]


def write(root: Path, path: str, content: Any) -> Path:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(json.dumps(content))
    return root / path


def write_sugarcrepe(root: Path, **rows: Any) -> None:
    write(root, COCO_REFERENCES.path, REFERENCES)
    for kind, source in sugarcrepe.FILES.items():
        write(root, source.path, rows.get(kind, {}))


def write_valse(root: Path, **rows: Any) -> None:
    write(root, COCO_REFERENCES.path, REFERENCES)
    for name, source in valse.FILES.items():
        write(root, source.path, rows.get(name.replace("-", "_"), {}))


def test_a_pair_of_sugarcrepe(tmp_path: Path) -> None:
    other_image = {**ROW, "filename": "000000000007.jpg"}
    swapped = {**ROW, "negative_caption": "Grass runs on a dog."}
    write_sugarcrepe(tmp_path, replace_obj={"0": ROW, "1": other_image}, swap_obj={"0": swapped})
    made = load("sugarcrepe", tmp_path)
    captions = ["A dog runs on grass.", "A cat runs on grass.", "Grass runs on a dog."]
    assert made.items["caption"].tolist() == captions
    assert made.items["image_id"].tolist() == ["42"] * 3
    # No reader leaves out the right caption; the usual protocol does.
    assert made.items["references"].tolist() == [tuple(REFERENCES["42"])] * 3
    right, cat, grass = made.items["item_id"]
    assert made.preferences.to_numpy().tolist() == [
        ["replace_obj-0", right, cat, "replace_obj", "people", 1.0, "a"],
        ["swap_obj-0", right, grass, "swap_obj", "people", 1.0, "a"],
    ]
    (remark,) = made.card.remarks
    assert remark.startswith("1 of 3 pairs are left out: their images are not in coco/karpathy")


def test_cocos_own_captions_stand_for_the_references(tmp_path: Path) -> None:
    write_sugarcrepe(tmp_path, add_att={"5": {**ROW, "filename": "000000000007.jpg"}})
    with says("no pair is of an image with references; get coco/karpathy_test_references.json"):
        load("sugarcrepe", tmp_path)

    (tmp_path / COCO_REFERENCES.path).unlink()
    rows = [{"image_id": 7, "caption": "A dog runs."}]
    write(tmp_path, COCO_CAPTIONS.path, {"annotations": rows})
    made = load("sugarcrepe", tmp_path)
    assert made.items["references"].tolist() == [("A dog runs.",)] * 2
    assert made.card.remarks == ()
    # The card's counts are those of the Karpathy test images.
    assert made.card.expected == {}


def test_neither_caption_is_scored_against_the_right_one(tmp_path: Path) -> None:
    """The scores are those against the two other references."""
    write_sugarcrepe(tmp_path, replace_obj={"0": ROW})
    result = captau.bench(
        "sugarcrepe", "bleu_1", data_root=tmp_path, statistics={"interval": "none"}
    )
    scores = captau.metric("bleu_1").score(
        [
            {"caption": caption, "references": REFERENCES["42"][1:]}
            for caption in ("A dog runs on grass.", "A cat runs on grass.")
        ]
    )
    assert result.scores["score"].tolist() == pytest.approx(scores.tolist())


def test_the_votes_of_valse(tmp_path: Path) -> None:
    against = {**VALSE_ROW, "foil": "A cow runs.", "mturk": {"foil": 2, "caption": 1, "other": 0}}
    foreign = {name: {**VALSE_ROW, "image_file": name} for name in FOREIGN}
    write_valse(tmp_path, foil_it={"9": VALSE_ROW}, actant_swap={"1": against, **foreign})
    made = load("valse", tmp_path)
    right, cow, cat = made.items["item_id"]
    assert made.preferences.to_numpy().tolist() == [
        ["actant_swap-1", right, cow, "actant_swap", "vote_1", 1.0, "a"],
        ["actant_swap-1", right, cow, "actant_swap", "vote_2", -1.0, "b"],
        ["actant_swap-1", right, cow, "actant_swap", "vote_3", -1.0, "b"],
        ["foil_it-9", right, cat, "foil_it", "vote_1", 1.0, "a"],
        ["foil_it-9", right, cat, "foil_it", "vote_2", 1.0, "a"],
        ["foil_it-9", right, cat, "foil_it", "vote_3", 0.0, "tie"],
    ]
    (remark,) = made.card.remarks
    assert remark.startswith("3 of 5 pairs are left out")


SUGARCREPE_FAULTS = {
    "a list": ([ROW], "swap_att.json: 'pairs' is"),
    "a text": ({"0": "x"}, "swap_att.json: 0: an object is expected, not str"),
    "no foil": ({"0": {"filename": "1.jpg", "caption": "A."}}, "0: 'negative_caption' is missing"),
    "an image that is no name": ({"0": {**ROW, "filename": 42}}, "0: 'filename' is 42, not str"),
}


@pytest.mark.parametrize("fault", SUGARCREPE_FAULTS)
def test_faults_of_sugarcrepe_name_file_and_pair(fault: str, tmp_path: Path) -> None:
    content, said = SUGARCREPE_FAULTS[fault]
    write_sugarcrepe(tmp_path, swap_att=content)
    with says(str(tmp_path), said):
        load("sugarcrepe", tmp_path)


VALSE_FAULTS = {
    "no votes": ({"foil": 0, "caption": 0, "other": 0}, "no votes; mturk counts those for"),
    "fewer than none": ({"foil": -1, "caption": 3, "other": 0}, "mturk: 'foil' is -1; a number"),
    "a count that is missing": ({"foil": 0, "caption": 3}, "mturk: 'other' is missing"),
    "a count that is no number": ({"foil": 0, "caption": "3", "other": 0}, "'caption' is '3', not"),
}


@pytest.mark.parametrize("fault", VALSE_FAULTS)
def test_faults_of_votes_name_file_and_pair(fault: str, tmp_path: Path) -> None:
    votes, said = VALSE_FAULTS[fault]
    write_valse(tmp_path, foil_it={"9": {**VALSE_ROW, "mturk": votes}})
    with says(str(tmp_path / "valse" / "foil-it.json"), "9: ", said):
        load("valse", tmp_path)


@pytest.mark.slow
def test_verify_counts_what_the_files_should_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With COCO's own captions, whose counts the card does not know, no count is a fault."""
    write_sugarcrepe(tmp_path, replace_obj={"0": ROW})
    assert run_captau("data", "verify", "dataset=sugarcrepe", f"data.root={tmp_path}") == 1
    assert "1 preferences, where 852 are expected" in capsys.readouterr().out
    annotations = [{"image_id": 42, "caption": caption} for caption in REFERENCES["42"]]
    write(tmp_path, COCO_CAPTIONS.path, {"annotations": annotations})
    run_captau("data", "verify", "dataset=sugarcrepe", f"data.root={tmp_path}")
    assert "are expected" not in capsys.readouterr().out


def test_counts_of_the_real_pairs(data_root: Path) -> None:
    """Those of the README beside the files."""
    made = load("sugarcrepe", data_root)
    assert len(made.preferences) == 852
    assert made.card.remarks[0].startswith("6,659 of 7,511 pairs are left out")
    made = load("valse", data_root)
    pairs = made.preferences.drop_duplicates("pair_id")
    assert pairs["dimension"].value_counts().to_dict() == {
        "foil_it": 124,
        "plurals": 121,
        "relations": 70,
        "coreference_standard": 30,
    }
    assert len(made.preferences) == 345 * 3
    assert made.card.remarks[0].startswith(f"{8782 - 345:,} of 8,782 pairs are left out")
    for name in ("sugarcrepe", "valse"):
        made = load(name, data_root)
        n_images = made.items["image_id"].nunique()
        assert made.card.expected == {"images": n_images, "preferences": len(made.preferences)}


def test_accuracies_on_sugarcrepe(data_root: Path) -> None:
    """Those of the README beside the files, the source reference left out for both, to the printed digit."""
    printed = {"cider": 88.1, "bleu_4": 78.6, "meteor": 76.3, "bleu_1": 73.8}
    result = captau.bench(
        "sugarcrepe", list(printed), data_root=data_root, statistics={"interval": "none"}
    )
    of_metrics = result.correlations[result.correlations["metric"].isin(list(printed))]
    rows = of_metrics[of_metrics["dimension"] == "mean"]
    values = (100 * rows.set_index("metric")["value"]).round(1)
    assert values.to_dict() == printed
