"""Published tables rebuilt from their protocols, for `captau reproduce`.

A paper is a file in `conf/paper/` (the dataset, protocol and metric that each cell comes from) and a
CSV in `results/published/` (the numbers as printed). Kinds of tables:

- `correlation`: a cell is a coefficient of a metric (row) for a dimension or category (column);
- `system_means`: a cell is the mean rating or score (column) of a system (row), or of `all`; with `of: penalised`, how many of
  its captions have a rating other than 0;
- `captions`: a cell is the rating or the score (column) of a single caption (row: its `IMAGE/SYSTEM`, or its item's id);
- `best_worst`: how often a system (column) is best or worst in all dimensions at once (row);
- `author_scores`: the same of scores that the metric's authors publish (row: `raw` or `smoothed` of dataset `fleur`);
- `agreement`: a measure of `captau agree` (row); one of virtual raters that are drawn is held against the spread of the draws;
- `human`: a metric's score (row) of one human caption an image against references (column), from files in the
  data folder;
- `fold_counts`: how many samples, images, captions, systems, ratings, raters or pairs (column) a fold of a dataset
  has, or `all` of it (row); a column's `file` is one of the data folder, whose lines are counted;
- `game_counts`: what the raters of FlickrG rated in the game, and what was held out (column), of Flickr8k-Expert's and
  FlickrG's files;
- `bounds`: as `correlation`; the paper prints numbers such as `<0.1`, below which the coefficients are;
- `extrinsic`: how well a rater of one's own (row) serves good captions alone, of a file in the data folder (`extrinsic_cells`);
- `histories`: the best validation score of a stage (column) of the training of a rater of one's own (row);
- `counts`: how many images or captions (column) a file of references has (row).

A table's `draws` says which rows are the mean over random draws of references (`reference_draws`); a printed number within their
spread is neither a match nor a difference. These rows need the dataset that has all references of each image. Where it is not here,
they are computed from the references of the table's own dataset.

A protocol's `split` is that of the dataset's authors. Where the files do not say what it is, the cell is of captau's own split of that
name, and neither a match nor a difference.

Further keys of a table, its rows and its columns:

- `row_protocols` changes the protocol of single rows;
- a row `floor_length` of a `correlation` table is captau's "longer caption", which prefers the one with more words;
- a row's or a column's `missing: REASON` says why its cells cannot be computed;
- a column's `bound: high` or `low` asks how far the 90 % interval reaches above or below the value;
- a row of `row_raters` is computed where a rater that fits it is given, and is then neither a match nor a difference; a column's
  `error: mse` is the mean squared error against mean ratings.

To add a kind, write a function like `_system_mean_cells` and name it in `TABLE_KINDS` (`published_cells`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....conf import own_files
from ....datasets import registry
from ....datasets.errors import MissingFileError
from ....metrics.learned.rater import RaterCard, RaterMetric
from ....metrics.registry import metric
from ...runs.results import find_missing_reason
from ...runs.tables import count_of
from ...scoring.catalog import usual_protocol
from ...scoring.protocol import Protocol
from ..evaluation_set import EvaluationSet
from ..wording import join_notes
from .author_scores import fill_author_scores
from .published_cells import KINDS_OF_DATASETS, TABLE_KINDS
from .published_numbers import (
    PaperTable,
    describe_versions,
    find_judgements,
    is_comparable,
)
from .published_sources import Cells, TableCell, TableSources
from .rater_rows import find_training_images, fits_row


@dataclass(frozen=True)
class TableRebuilder(TableSources):
    """The rebuilding of the tables of a run.

    Attributes:
        rater_folders: of learned raters of one's own, which fill rows (`PaperTable.row_raters`).
        absent_files: the errors about datasets that are not in the data folder.
    """

    rater_folders: tuple[Path, ...] = ()
    absent_files: list[MissingFileError] = field(default_factory=list[MissingFileError])

    def rebuild(self, paper: str, table: PaperTable) -> Cells:
        """Recompute the cells of a table; where its dataset is not here, each cell says so.

        Raises:
            InputError: on malformed data.
        """
        rows: dict[str, Any] = {}
        row_reasons: dict[str, str] = {}
        for row, spec in table.rows.items():
            reason = find_missing_reason(str(spec))
            if reason:
                row_reasons[row] = reason
            else:
                rows[row] = spec

        columns: dict[str, Any] = {}
        column_reasons: dict[str, str] = {}
        for column, options in table.columns.items():
            if "missing" in options:
                column_reasons[column] = str(options["missing"])
            else:
                columns[column] = options

        cells: Cells = {}
        if rows and columns:
            computable = replace(table, rows=rows, columns=columns)
            cells |= self._rebuild_computable(paper, computable)

        for column, reason in column_reasons.items():
            for row in table.rows:
                cells[row, column] = TableCell.missing(reason)
        # Where both say why, the row's reason stands.
        for row, reason in row_reasons.items():
            for column in table.columns:
                cells[row, column] = TableCell.missing(reason)
        if table.author_scores and cells:
            cells.update(fill_author_scores(self, table, cells))
        for row, description in table.row_raters.items():
            cells.update(self._compute_rater_row(paper, table, row, description))

        return self._mark_other_split(table, cells)

    def _mark_other_split(self, table: PaperTable, cells: Cells) -> Cells:
        """Mark the cells of a split that is captau's, because the dataset's files do not say what its authors' is."""
        caption_set = self.caption_sets.get(table.dataset)
        if caption_set is None or caption_set.has_own_splits:
            return cells

        marked: Cells = {}
        for (row, column), cell in cells.items():
            changes = table.columns[column].get("protocol") or {}
            split = changes.get("split") or table.protocol.get("split")
            if split and not np.isnan(cell.value):
                note = f"on captau's own {split} split, as the authors' is not in the files"
                cell = replace(cell, note=join_notes(note, cell.note), is_other_split=True)
            marked[row, column] = cell

        return marked

    def _compute_rater_row(
        self, paper: str, table: PaperTable, row: str, description: Mapping[str, Any]
    ) -> Cells:
        """Compute a row by the raters that fit it, the mean over several seeds; empty without any."""
        folders = [f for f in self.rater_folders if fits_row(RaterCard.read(f), description)]
        # `mark`: on images by which a rater was chosen, such as a development fold's, a cell has a note and no error.
        spec_by_folder = {str(f): RaterMetric(str(f), seen="mark").spec for f in folders}
        columns: dict[str, Any] = {}
        for column, options in table.columns.items():
            # A column of errors is missing for published metrics, which predict no ratings; raters predict them.
            if "missing" not in options or "error" in options:
                columns[column] = options
        if not spec_by_folder or not columns:
            return {}

        cells: Cells = {}
        computable: dict[str, Any] = {}
        for column, options in columns.items():
            reason = self._find_rater_reason(table, options, spec_by_folder)
            if reason:
                cells[row, column] = TableCell.missing(reason)
            else:
                computable[column] = options
        if not computable:
            return cells

        rater_table = replace(table, rows=spec_by_folder, columns=computable)
        rater_cells = self._rebuild_computable(paper, rater_table)
        for column in computable:
            column_cells = [rater_cells[folder, column] for folder in spec_by_folder]
            mean = float(np.mean([cell.value for cell in column_cells]))
            distinct_notes = dict.fromkeys(cell.note for cell in column_cells)
            notes = list(filter(None, distinct_notes))
            # A cell without a value has no rater of one's own to speak of.
            if not np.isnan(mean):
                raters = count_of(len(spec_by_folder), "rater")
                notes.insert(0, f"{raters} of your own, not the paper's")
            cells[row, column] = TableCell(mean, "; ".join(notes), is_own_rater=True)

        return cells

    def _find_rater_reason(
        self, table: PaperTable, options: Mapping[str, Any], spec_by_folder: Mapping[str, str]
    ) -> str:
        """Return why raters do not fill a column: one was trained on its images, or lacks their features; empty else."""
        if table.kind != "correlation" or self._dataset_reason(table):
            return ""
        try:
            caption_set = self.load(table.dataset)
        except MissingFileError:
            # The cells say so themselves.
            return ""

        changes = {**table.protocol, **(options.get("protocol") or {})}
        protocol = Protocol.resolve(table.dataset, usual_protocol(table.dataset), changes)
        selection = EvaluationSet.select(caption_set, protocol)
        images = set(selection.items["image_id"])
        for folder, spec in spec_by_folder.items():
            n_shared = len(find_training_images(RaterCard.read(Path(folder)), images))
            if n_shared:
                return f"{folder} was trained on {n_shared:,} of the {len(images):,} images that it would be tested on"

            unavailability = metric(spec).find_unavailability(
                selection.items, is_one_of_several=True
            )
            if unavailability:
                return f"{folder} {unavailability}"

        return ""

    def _rebuild_computable(self, paper: str, table: PaperTable) -> Cells:
        reason = self._dataset_reason(table)
        if not reason:
            try:
                label = f"{paper} {table.table} {table.dataset}"
                return TABLE_KINDS[table.kind](self, table, label)
            except MissingFileError as error:
                self.absent_files.append(error)
                reason = f"the data are not here: {error}"

        cells: Cells = {}
        is_of_metric = table.kind in ("correlation", "bounds")
        for row, spec in table.rows.items():
            metric_reason = self.metric_reason(spec) if is_of_metric else ""
            cell = TableCell.missing(metric_reason or reason)
            for column in table.columns:
                cells[row, column] = cell

        return cells

    def _dataset_reason(self, table: PaperTable) -> str:
        """Return the reason why a table's dataset cannot be read at all; empty where it can."""
        if table.kind not in KINDS_OF_DATASETS or table.dataset in own_files("dataset"):
            return ""
        if table.dataset not in registry.names():
            return "the dataset is not in this version of captau"

        version = find_judgements(table.dataset, registry.card(table.dataset).revision)
        if not is_comparable(table.revision, version):
            return describe_versions(table.dataset, table.revision, version)

        return ""
