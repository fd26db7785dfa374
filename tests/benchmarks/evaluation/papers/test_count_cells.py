"""What FlickrG's raters rated in the game, and what was held out: small files of Flickr8k-Expert's and FlickrG's shapes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.evaluation.papers.published_numbers import PaperTable
from captau.benchmarks.evaluation.papers.published_tables import TableRebuilder
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.scoring.catalog import read_config
from captau.benchmarks.scoring.score_store import Locations, ScoreStore

#: Images a to d with a caption each; a.jpg's own caption is a candidate of a.jpg as well.
TOKENS = "".join(f"{name}.jpg#0\tA {name} .\n" for name in "abcd")
EXPERTS = """a.jpg\ta.jpg#0\t4\t4\t4
a.jpg\tb.jpg#0\t1\t1\t1
b.jpg\ta.jpg#0\t1\t1\t2
b.jpg\tc.jpg#0\t1\t1\t1
c.jpg\ta.jpg#0\t1\t1\t1
d.jpg\ta.jpg#0\t1\t1\t1
"""
#: The caption that is a.jpg's own was rated in the game as well.
GAME = """image,caption,rater,value
a.jpg,A a .,p1,5
a.jpg,A a .,p2,5
b.jpg,A a .,p1,2
b.jpg,A a .,p3,1
b.jpg,A a .,p4,1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, content in (
        ("flickr8k/Flickr8k.token.txt", TOKENS),
        ("flickr8k/ExpertAnnotations.txt", EXPERTS),
        ("flickrg/flickrg.csv", GAME),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content, encoding="utf-8")
    return tmp_path


def game_counts(folder: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Rebuild the table of the paper's file: the counts by column, and the notes of the columns without one."""
    (table,) = (
        table
        for table in read_config("paper", "iicr_2023")["tables"]
        if table["kind"] == "game_counts"
    )
    rebuilder = TableRebuilder(
        Locations(data_root=folder, use_cache=False), (), ScoreStore(None), StepProgress(None)
    )
    fields: dict[str, Any] = {"draws": {}, "protocol": {}, **table}
    cells = rebuilder.rebuild("iicr_2023", PaperTable(**fields))

    counts: dict[str, float] = {}
    notes: dict[str, str] = {}
    for (row, column), cell in cells.items():
        assert row == "Game"
        if cell.note:
            notes[column] = cell.note
        else:
            counts[column] = cell.value
    return counts, notes


def test_pairs_that_all_experts_rated_1_are_held_out_and_the_others_were_rated(
    folder: Path,
) -> None:
    """By hand: a.jpg and b.jpg have a pair above 1; of b.jpg, c.jpg and d.jpg four pairs in all are all ones."""
    assert game_counts(folder) == (
        {
            "Images": 2,
            "Pairs": 2,
            "Ratings": 5,
            "Raters": 4,
            "Images held out": 2,
            "Pairs held out": 4,
        },
        {},
    )


def test_each_count_needs_only_its_own_file(folder: Path) -> None:
    shutil.rmtree(folder / "flickrg")
    counts, notes = game_counts(folder)
    assert counts == {"Images": 2, "Pairs": 2, "Images held out": 2, "Pairs held out": 4}
    assert set(notes) == {"Ratings", "Raters"}
    assert all("flickrg.jsonl does not exist" in note for note in notes.values())


def test_a_release_of_means_has_no_ratings_to_count(folder: Path) -> None:
    (folder / "flickr8k" / "ExpertAnnotations.txt").unlink()
    (folder / "flickrg" / "flickrg.csv").write_text(
        "image,caption,value\nb.jpg,A a .,1.5\n", encoding="utf-8"
    )
    counts, notes = game_counts(folder)
    assert not counts
    assert "means alone" in notes["Ratings"]
    assert "ExpertAnnotations.txt does not exist" in notes["Pairs"]


def test_flickr8k_experts_original_file_has_the_numbers_that_scott_et_al_print(
    data_root: Path,
) -> None:
    """Section 3.3 of the paper: 21 images and 2,350 pairs were held out, 979 images and 3,472 pairs were rated."""
    counts, _ = game_counts(data_root)
    assert counts["Images held out"] == 21
    assert counts["Pairs held out"] == 2350
    assert counts["Images"] == 979
    assert counts["Pairs"] == 3472
