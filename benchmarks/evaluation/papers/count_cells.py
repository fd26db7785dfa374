"""Cells that count: the images and captions of files, the folds of datasets, and the pairs and ratings of FlickrG's game."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ....datasets.errors import MissingFileError
from ....datasets.reading.caption_files import read_references
from ....datasets.reading.json_files import read_text
from ....datasets.sources.flickr8k import read_expert_pairs
from ....datasets.sources.iicr16k import read_game_raters
from .published_numbers import PaperTable
from .published_sources import Cells, TableCell, TableSources


def count_cells(sources: TableSources, table: PaperTable, _label: str) -> Cells:
    """Return how many images or captions (column) a file of references has (row)."""
    cells: Cells = {}
    for row, file in table.rows.items():
        path = sources.data_file(str(file))
        if not path.is_file():
            reason = f"no file {file} under data.root; {table.note}"
            for column in table.columns:
                cells[row, column] = TableCell.missing(reason)
            continue

        references = read_references(path).texts
        n_captions = sum(len(texts) for texts in references.values())
        counts = {"images": len(references), "captions": n_captions}
        for column, options in table.columns.items():
            cells[row, column] = TableCell(float(counts[options["of"]]))

    return cells


def fold_count_cells(sources: TableSources, table: PaperTable, _label: str) -> Cells:
    """Return how many samples, images, captions and so on (column) a fold of a dataset has (row)."""
    caption_set = sources.load(table.dataset)
    items = caption_set.items
    cells: Cells = {}
    for row, split in table.rows.items():
        fold = items[(items["split"] == split) | (split == "all")]
        if fold.empty:
            reason = f"the data are not here: fold {split} of {table.dataset}"
            for column in table.columns:
                cells[row, column] = TableCell.missing(reason)
            continue

        ratings = _of_items(caption_set.ratings, "item_id", fold)
        preferences = _of_items(caption_set.preferences, "item_a", fold)
        counts: dict[str, float] = {
            "samples": len(fold),
            "images": fold["image_id"].nunique(),
            "captions": fold["caption"].nunique(),
            "systems": fold["system"].nunique(),
            "ratings": len(ratings),
            "raters": ratings["rater"].nunique(),
            "pairs": preferences["pair_id"].nunique(),
        }

        for column, options in table.columns.items():
            if "file" not in options:
                cells[row, column] = TableCell(float(counts[options["of"]]))
            elif (path := sources.data_file(options["file"])).is_file():
                cells[row, column] = TableCell(float(len(read_text(path).splitlines())))
            else:
                reason = f"no file {options['file']} under data.root"
                cells[row, column] = TableCell.missing(reason)

    return cells


def _of_items(judgements: pd.DataFrame, column: str, items: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of items."""
    return judgements[judgements[column].isin(items["item_id"])]


def game_count_cells(sources: TableSources, table: PaperTable, _label: str) -> Cells:
    """Return what FlickrG's raters rated in the game, and which pairs were held out (Scott et al. 2023, section 3.3).

    Which pairs were rated follows from Flickr8k-Expert alone: those that not all experts rated 1. Ratings and raters are
    those of FlickrG's file, the ratings of captions among their own references included, which the dataset leaves out.
    """
    counts: dict[str, float] = {}
    reasons: dict[str, str] = {}
    sources_of_counts = (
        (("images", "pairs", "images_held_out", "pairs_held_out"), _count_pairs),
        (("ratings", "raters"), _count_game_ratings),
    )
    for names, count in sources_of_counts:
        try:
            counts |= count(sources.data_file("."))
        except MissingFileError as error:
            reasons |= dict.fromkeys(names, f"the data are not here: {error}")

    # A release of means has neither ratings nor raters to count.
    means_alone = "a release without a column rater has means alone"
    cells: Cells = {}
    for row in table.rows:
        for column, options in table.columns.items():
            name = options["of"]
            if name in counts:
                cells[row, column] = TableCell(counts[name])
            else:
                cells[row, column] = TableCell.missing(reasons.get(name, means_alone))

    return cells


def _count_pairs(root: Path) -> dict[str, float]:
    """Count the pairs of Flickr8k-Expert that were rated in the game, and those that were held out, by the name of a count."""
    images: set[str] = set()
    images_rated: set[str] = set()
    n_held_out = 0
    n_rated = 0
    for pair in read_expert_pairs(root):
        images.add(pair.image_id)
        if max(pair.ratings) > 1:
            images_rated.add(pair.image_id)
            n_rated += 1
        else:
            n_held_out += 1

    return {
        "images": len(images_rated),
        "pairs": n_rated,
        "images_held_out": len(images - images_rated),
        "pairs_held_out": n_held_out,
    }


def _count_game_ratings(root: Path) -> dict[str, float]:
    """Count the ratings of FlickrG's file, and its raters; nothing of a file of means."""
    raters = read_game_raters(root)
    if None in raters:
        return {}

    return {"ratings": len(raters), "raters": len(set(raters))}
