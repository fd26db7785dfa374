"""BILLBOARD's scores of THumB's captions: the reader on small files in the release's format, and on the real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from captau.datasets.registry import load
from captau.datasets.sources.billboard import FILES, load_billboard_thumb
from captau.datasets.sources.thumb import JUDGEMENTS, REFERENCES
from tests.conftest import says

SYSTEMS = ("VinVL-large", "VinVL-base", "Unified-VLP", "Up-Down")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images; each file scores both captions of its system, the n-th file 0.1 n and 0.05 more."""
    numbers = {"P": 4.0, "R": 3.0, "Fl": 0.0, "Inc": 0.0, "Con": 0.0, "human_score": 3.5}
    rows = [
        {"SYS": s, "seg_id": i, "set_id": 1, "hyp": f"{s} of {i}", "image": "i.jpg", **numbers}
        for s in (*SYSTEMS, "Human")
        for i in ("9", "12")
    ]
    references = [{"seg_id": i, "set_id": 1, "refs": ["A bus."]} for i in ("9", "12")]
    for source, content in ((JUDGEMENTS, rows), (REFERENCES, references)):
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")

    (tmp_path / "billboard_thumb").mkdir()
    for number, ((system, metric), source) in enumerate(FILES.items()):
        lines = [
            "SYS,seg_id,set_id,metric,score",
            f"{system},9,1,{metric},{0.1 * number:.2f}",
            f"{system},12,1,{metric},{0.1 * number + 0.05:.2f}",
        ]
        (tmp_path / source.path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_each_machine_has_two_scores_of_a_caption(folder: Path) -> None:
    made = load_billboard_thumb(folder)
    assert set(made.items["system"]) == set(SYSTEMS)
    assert len(made.items) == 8
    of_item = made.ratings.merge(made.items, on="item_id")
    found = of_item.set_index(["system", "image_id", "dimension"])["value"].to_dict()
    assert found["VinVL-large", "9", "CLIPS"] == 0.0
    assert found["Up-Down", "12", "CLIPS"] == 0.35
    assert found["Up-Down", "12", "RefCLIPS"] == 0.75
    assert made.items["caption"].iloc[0] == "VinVL-large of 9"


def test_a_score_of_no_caption_and_a_missing_file_are_named(folder: Path) -> None:
    path = folder / FILES["Up-Down", "CLIPS"].path
    path.write_text(path.read_text(encoding="utf-8").replace(",12,", ",13,"), encoding="utf-8")
    with says("CLIPS.csv:3: Up-Down has no caption of image '13' in THumB"):
        load_billboard_thumb(folder)
    path.unlink()
    with says("Up-Down||CLIPS.csv"):
        load_billboard_thumb(folder)


def test_the_real_scores_are_those_of_the_paper(data_root: Path) -> None:
    """Kasai et al. 2022: CLIP-S's means in Table 2, and in Table 4 its r without Human."""
    scores = load("billboard_thumb", data_root)
    people = load("thumb", data_root)
    clip = scores.ratings[scores.ratings["dimension"] == "CLIPS"].merge(scores.items, on="item_id")
    means = clip.groupby("system")["value"].mean().round(3)
    assert [means[system] for system in SYSTEMS] == [0.784, 0.779, 0.771, 0.746]

    places = ["image_id", "system"]
    rated = people.ratings.merge(people.items, on="item_id")
    both = clip[[*places, "value"]].merge(rated, on=places)
    for dimension, printed in (("precision", 0.18), ("recall", 0.27), ("total", 0.32)):
        of_dimension = both[both["dimension"] == dimension]
        r = stats.pearsonr(of_dimension["value_x"], of_dimension["value_y"]).statistic
        assert round(float(r), 2) == printed
