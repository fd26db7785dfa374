"""Section 6.2 of Levinboim et al. 2021 on a made file: worked by hand, and the reasons why a cell has no value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captau.benchmarks.evaluation.papers.extrinsic_cells import read_extrinsic_file
from captau.benchmarks.evaluation.papers.published_numbers import PaperTable
from captau.benchmarks.evaluation.papers.published_sources import Cells
from captau.benchmarks.evaluation.papers.published_tables import TableRebuilder
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.scoring.catalog import read_config
from captau.benchmarks.scoring.score_store import Locations, ScoreStore
from captau.metrics.learned.rater import RaterCard
from tests.conftest import run_captau, says

HEAD = "image,caption,system,ratings,correct,helpful,fluent,ext_good"
#: Captions of one to six words, the longest first. Most raters find the first, third and fifth both correct and helpful;
#: the second is not correct to most, the fourth not helpful, and half of the raters are no majority.
LINES = (
    "a.png,one two three four five six,s,3,1,1,1,1",
    "b.png,one two three four five,s,3,0.333333,1,1,0",
    "c.png,one two three four,s,3,0.666667,0.666667,0,1",
    "d.png,one two three,s,3,1,0.333333,1,0",
    "e.png,one two,s,3,1,1,1,1",
    "f.png,one,s,2,0.5,1,1,0",
)


def write_file(root: Path, *lines: str, head: str = HEAD) -> Path:
    path = root / "caption_ext" / "caption_ext.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def write_scores(root: Path) -> str:
    """Write the number of words of each caption as its score, and return the metric that reads them."""
    rows = ["image_id,caption,score"]
    for line in LINES:
        image, caption, *_ = line.split(",")
        rows.append(f"{image},{caption},{len(caption.split())}")
    (root / "scores.csv").write_text("\n".join(rows), encoding="utf-8")
    return f"file(path={root / 'scores.csv'})"


def section() -> dict[str, Any]:
    """The section as the paper's file has it."""
    tables = read_config("paper", "caption_quality_2021")["tables"]
    return next(table for table in tables if table["table"] == "Section 6.2")


def rebuild(root: Path, spec: str, folders: tuple[Path, ...] = ()) -> Cells:
    """Rebuild the section with a metric in the place of the first of the paper's models."""
    rows = dict(section()["rows"])
    if spec:
        rows["Bilinear (Pretrained)"] = spec
    rebuilder = TableRebuilder(
        *(Locations(root, use_cache=False), (), ScoreStore(None), StepProgress(None)),
        rater_folders=folders,
    )
    return rebuilder.rebuild("caption_quality_2021", PaperTable(**{**section(), "rows": rows}))


def test_captions_are_good_that_most_find_correct_and_most_helpful(tmp_path: Path) -> None:
    items, is_good = read_extrinsic_file(write_file(tmp_path, *LINES))
    assert is_good.tolist() == [1, 0, 1, 0, 1, 0]
    assert items["image_id"].tolist() == ["a.png", "b.png", "c.png", "d.png", "e.png", "f.png"]


def test_area_and_recall_at_precision_0_8_by_hand(tmp_path: Path) -> None:
    """Precisions 1, 1/2, 2/3, 1/2, 3/5, 1/2 at recalls 1/3, 1/3, 2/3, 2/3, 1, 1: (1 + 2/3 + 3/5) / 3, and 1/3 at 1."""
    write_file(tmp_path, *LINES)
    cells = rebuild(tmp_path, write_scores(tmp_path))
    assert cells["Bilinear (Pretrained)", "AUC"].value == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert cells["Bilinear (Pretrained)", "Recall at precision 0.8"].value == pytest.approx(1 / 3)


def test_without_the_file_a_cell_says_where_it_is_looked_for(tmp_path: Path) -> None:
    cells = rebuild(tmp_path, write_scores(tmp_path))
    assert cells["Bilinear (Pretrained)", "AUC"].note.startswith(
        "missing: no file caption_ext/caption_ext.csv under data.root"
    )
    assert cells["Bilinear (Pretrained), fine-tuned", "AUC"].note.startswith(
        "missing: neither Caption-Ext nor the models are published; raters=FOLDER fills the row"
    )


@pytest.mark.parametrize(
    ("lines", "head", "parts"),
    [
        (("a.png,x,s,3,1,1,1,1", "b.png,y,s,3,2,1,1,1"), HEAD, ("csv:3", "correct is '2'")),
        (("a.png,x,s,3,1,yes,1,1",), HEAD, ("csv:2", "helpful is 'yes', not a number")),
        (("a.png,,s,3,1,1,1,1",), HEAD, ("csv:2", "caption is empty")),
        (("a.png,x,1",), "image,caption,correct", ("no column 'helpful'",)),
        (LINES[:1], HEAD, ("all captions are correct and helpful",)),
        (LINES[1:2], HEAD, ("no caption is correct and helpful",)),
    ],
)
def test_a_faulty_file_is_named_with_its_line(
    lines: tuple[str, ...], head: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = write_file(tmp_path, *lines, head=head)
    with says(str(path), *parts):
        read_extrinsic_file(path)


@pytest.mark.training
def test_a_rater_of_ones_own_fills_its_row(tmp_path: Path) -> None:
    """It is pretrained and fine-tuned; without the features of an image the cell says so."""
    write_file(tmp_path, *LINES)
    images = [line.partition(",")[0] for line in LINES]
    captions = [line.split(",")[1] for line in LINES]
    rng = np.random.default_rng(0)
    features = {"images": tmp_path / "images.npz", "texts": tmp_path / "texts.npz"}
    np.savez(features["images"], image_id=images, embedding=rng.normal(size=(6, 16)))
    np.savez(features["texts"], caption=captions, embedding=rng.normal(size=(6, 16)))

    options = {"images": "demo", "texts": "demo", "labels": "null", "n_labels": "[0]"}
    options |= {"pretrain": "demo", "pretrain_epochs": "1", "epochs": "1"}
    words = [f"rater.{name}={value}" for name, value in options.items()]
    run = tmp_path / "run"
    status = run_captau("train", "rater=qe", "dataset=demo", *words, f"output_dir={run}")
    assert status == 0
    folder = run / "seed-0"
    card = RaterCard.read(folder)
    assert card.options["pretrain"]

    sources = {name: str(path) for name, path in features.items()}
    about = {**card.about, "data": {"caption_quality": {}}}
    own = RaterCard(card.rater, {**card.options, **sources}, card.seed, (), card.fingerprint, about)
    own.write(folder)
    cells = rebuild(tmp_path, "", (folder,))
    filled = cells["Bilinear (Pretrained), fine-tuned", "AUC"]
    assert 0 < filled.value <= 1
    assert filled.note == "1 rater of your own, not the paper's"
    assert cells["Bilinear (Pretrained)", "AUC"].note.startswith("missing: neither")

    np.savez(features["images"], image_id=images[1:], embedding=np.ones((5, 16)))
    cells = rebuild(tmp_path, "", (folder,))
    assert (
        "lacks features of these captions" in cells["Bilinear (Pretrained), fine-tuned", "AUC"].note
    )
