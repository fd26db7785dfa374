"""Cells that say how well raters serve good captions alone, of a file of one's own like Caption-Ext (Levinboim et al. 2021, section 6.2).

The paper's file is not published. One like it is what `captau collect export` writes of a study with the form `extrinsic`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....datasets.reading.table import read_table
from ....datasets.schema import Scale, make_items
from ....metrics.base import Floats, Metric
from ....metrics.learned.rater import RaterMetric
from ....metrics.registry import metric
from ..threshold_curves import ThresholdCurve
from .published_numbers import PaperTable
from .published_sources import Cells, TableCell, TableSources
from .rater_rows import find_training_images

#: The dimensions of which a caption that is good needs a majority: at least partially correct, at least somewhat useful.
_MAJORITIES = ("correct", "helpful")


def extrinsic_cells(sources: TableSources, table: PaperTable, _label: str) -> Cells:
    """Return the areas under raters' curves of precision against recall, and the recall at a precision.

    A column has the `file` in the data folder, its `measure` (`auc` or `recall`), and the `precision` of a recall.

    Raises:
        InputError: on a malformed file.
    """
    cells: Cells = {}
    for column, options in table.columns.items():
        path = sources.data_file(options["file"])
        if not path.is_file():
            reason = f"no file {options['file']} under data.root; captau collect export writes one"
            for row in table.rows:
                cells[row, column] = TableCell.missing(reason)
            continue

        items, is_good = read_extrinsic_file(path)
        for row, spec in table.rows.items():
            rater = metric(spec)
            reason = _find_reason(rater, items)
            if reason:
                cells[row, column] = TableCell.missing(reason)
                continue
            curve = ThresholdCurve.compute(rater.score(items), is_good)
            value = curve.auc
            if options["measure"] == "recall":
                value, _ = curve.recall_at(options["precision"])
            note = rater.training_overlap_note(items["image_id"].tolist())
            cells[row, column] = TableCell(value * table.scale, note or "")

    return cells


def _find_reason(rater: Metric, items: pd.DataFrame) -> str:
    """Return why a rater, or another metric, cannot be tested on captions; empty where it can."""
    if isinstance(rater, RaterMetric):
        images = set(items["image_id"])
        n_trained = len(find_training_images(rater.card, images))
        if n_trained:
            return f"{rater.path} was trained on {n_trained:,} of the {len(images):,} images that it would be tested on"

    unavailability = rater.find_unavailability(items, is_one_of_several=True)
    return f"metric {rater.spec} {unavailability}" if unavailability else ""


def read_extrinsic_file(path: Path) -> tuple[pd.DataFrame, Floats]:
    """Read captions with the shares of raters above the lowest level of each dimension.

    Returns:
        the items, and 1 where more than half of the raters find the caption correct, and more than half helpful, else 0.

    Raises:
        InputError: where a column is missing, a share is no number from 0 to 1, or all captions are good, or none is.
    """
    rows = read_table(path)
    items = make_items(rows.filled("image"), rows.filled("caption"), [()] * len(rows.places))

    is_good = np.ones(len(items), dtype=np.float64)
    for name in _MAJORITIES:
        is_good *= np.array(rows.floats(name, Scale(0, 1))) > 0.5
    if is_good.all() or not is_good.any():
        which = "all captions are" if is_good.all() else "no caption is"
        raise InputError(
            f"{path}: {which} correct and helpful to most raters; precision and recall need both kinds"
        )

    return items, is_good
