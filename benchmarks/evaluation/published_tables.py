"""Published tables rebuilt from their protocols, for `captau reproduce`.

A paper is a file in `conf/paper/` (the dataset, protocol and metric that each cell comes from) and a
CSV in `results/published/` (the numbers as printed). Kinds of tables:

- `correlation`: a cell is a coefficient of a metric (row) for a dimension or category (column);
- `system_means`: a cell is the mean rating or score (column) of a system (row);
- `best_worst`: how often a system (column) is best or worst in all dimensions at once (row);
- `author_scores`: the same of scores that the metric's authors publish (row: `raw` or `smoothed` of dataset `fleur`);
- `agreement`: a measure of `captau agree` (row);
- `human`: a metric's score (row) of one human caption an image against references (column), from files in the
  data folder;
- `fold_counts`: how many samples, images, captions, systems, ratings, raters or pairs (column) a fold of a dataset
  has, or `all` of it (row);
- `bounds`: as `correlation`; the paper prints numbers such as `<0.1`, below which the coefficients are;
- `histories`: the best validation score of a stage (column) of the training of a rater of one's own (row);
- `counts`: how many images or captions (column) a file of references has (row).

A row `floor_length` of a `correlation` table is captau's "longer caption", which prefers the one with more words.
`row_protocols` changes the protocol of single rows. A column's `bound: high` or `low` asks how far the 90 % interval reaches above or below the value. A row's or a
column's `missing: REASON` says why its cells cannot be computed. A row of `row_raters` is computed where a rater that fits it is given; a
column's `error: mse` is then the mean squared error against mean ratings.

To add a kind, write a function like `_system_mean_cells` and name it in `TABLE_KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...conf import own_files
from ...datasets import registry
from ...datasets.errors import InputError, MissingFileError
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ...metrics.learned.rater import RaterCard, RaterMetric
from ...metrics.registry import metric, metric_names
from ..runs.progress_bar import StepProgress
from ..runs.results import missing_note, parse_missing_note
from ..scoring.caption_files import read_candidates, read_references
from ..scoring.catalog import usual_protocol
from ..scoring.protocol import Protocol
from ..scoring.score_store import Locations, ScoreStore
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.rater_agreement import compute_measures
from ..statistics.rating_table import RatingTable
from .correlation_rows import metric_rows
from .evaluation_set import EvaluationSet
from .held_out_captions import score_trials
from .judged_pairs import PAIR_FLOORS
from .measured_dataset import (
    NO_INTERVALS,
    MeasuredDataset,
    correlate_dataset,
    score_dataset,
)
from .published_numbers import PaperTable, describe_revisions, is_comparable
from .rater_rows import compute_rating_error, fits_row, read_best_validation
from .system_ranking import count_best_worst, rank_systems


@dataclass(frozen=True)
class TableCell:
    """A recomputed cell in the table's unit, or NaN and the reason."""

    value: float
    note: str = ""

    @classmethod
    def missing(cls, reason: str) -> TableCell:
        """Return a cell that is not computed."""
        return cls(float("nan"), missing_note(reason))


#: The intervals of a column with a `bound`: Kasai et al. 2022 print those of 90 %.
BOUNDS = StatisticsOptions(interval="percentile", level=0.9)
#: By row and column.
Cells = dict[tuple[str, str], TableCell]


@dataclass(frozen=True)
class TableRebuilder:
    """The rebuilding of the tables of a run, which share datasets, scores and measurements.

    Attributes:
        locations: where the datasets are.
        leave_out: the metrics that are left out.
        rater_folders: of learned raters of one's own, which fill rows (`PaperTable.row_raters`).
        store, progress: where scores are kept and steps are counted.
        caption_sets: the datasets that were read, by name.
        measured: the measurements of `correlation` and `system_means` tables.
        metrics: those that were computed, by spec.
        protocols: by table, as `run.json` has them.
        absent_files: the errors about datasets that are not in the data folder.
    """

    locations: Locations
    leave_out: tuple[str, ...]
    store: ScoreStore
    progress: StepProgress
    rater_folders: tuple[Path, ...] = ()
    caption_sets: dict[str, CaptionSet] = field(default_factory=dict[str, CaptionSet])
    measured: list[MeasuredDataset] = field(default_factory=list[MeasuredDataset])
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    protocols: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    absent_files: list[MissingFileError] = field(default_factory=list[MissingFileError])
    _reasons: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def rebuild(self, paper: str, table: PaperTable) -> Cells:
        """Recompute the cells of a table; where its dataset is not here, each cell says so.

        Raises:
            InputError: on malformed data.
        """
        row_reasons = {r: str(s) for r, s in table.rows.items() if parse_missing_note(str(s))}
        column_reasons = {c: str(o["missing"]) for c, o in table.columns.items() if "missing" in o}
        rows = {r: spec for r, spec in table.rows.items() if r not in row_reasons}
        columns = {c: o for c, o in table.columns.items() if c not in column_reasons}
        computable = replace(table, rows=rows, columns=columns)
        cells = self._rebuild_computable(paper, computable) if rows and columns else {}
        for column, reason in column_reasons.items():
            cells.update({(row, column): TableCell.missing(reason) for row in table.rows})
        for row, note in row_reasons.items():
            reason = str(parse_missing_note(note))
            cells.update({(row, column): TableCell.missing(reason) for column in table.columns})
        for row, wanted in table.row_raters.items():
            cells.update(self._compute_rater_row(paper, table, row, wanted))
        return cells

    def _compute_rater_row(
        self, paper: str, table: PaperTable, row: str, wanted: Mapping[str, Any]
    ) -> Cells:
        """Compute a row by the raters that fit it, the mean over several seeds; empty without any."""
        folders = [f for f in self.rater_folders if fits_row(RaterCard.read(f), wanted)]
        # On images that chose a rater, as the development fold did, the cell says so.
        specs = {str(f): RaterMetric(str(f), seen="mark").spec for f in folders}
        columns = {c: o for c, o in table.columns.items() if "missing" not in o or "error" in o}
        if not specs or not columns:
            return {}
        found = self._rebuild_computable(paper, replace(table, rows=specs, columns=columns))
        cells: Cells = {}
        for column in columns:
            of_seeds = [found[name, column] for name in specs]
            note = f"{len(specs)} rater{'s' * (len(specs) > 1)} of your own, not the paper's"
            notes = [note, *dict.fromkeys(cell.note for cell in of_seeds if cell.note)]
            mean = float(np.mean([cell.value for cell in of_seeds]))
            cells[row, column] = TableCell(mean, "; ".join(notes[1:] if np.isnan(mean) else notes))
        return cells

    def _rebuild_computable(self, paper: str, table: PaperTable) -> Cells:
        reason = self._dataset_reason(table)
        if not reason:
            try:
                return TABLE_KINDS[table.kind](
                    self, table, f"{paper} {table.table} {table.dataset}"
                )
            except MissingFileError as error:
                self.absent_files.append(error)
                reason = f"the data are not here: {error}"
        return {
            (row, column): TableCell.missing(
                (table.kind in ("correlation", "bounds") and self._metric_reason(spec)) or reason
            )
            for row, spec in table.rows.items()
            for column in table.columns
        }

    def _dataset_reason(self, table: PaperTable) -> str:
        """Return the reason why a table's dataset cannot be read at all; empty where it can."""
        if table.kind not in KINDS_OF_DATASETS or table.dataset in own_files("dataset"):
            return ""
        if table.dataset not in registry.names():
            return "the dataset is not in this version of captau"
        revision = registry.card(table.dataset).revision
        if not is_comparable(table.revision, revision):
            return describe_revisions(table.dataset, table.revision, revision)
        return ""

    def _metric_reason(self, spec: str | None) -> str:
        """Return the reason why a row's metric is not computed on any data; empty where it is."""
        if spec is None:
            return "this metric is not part of captau"
        if spec in PAIR_FLOORS:
            return ""
        if spec.partition("(")[0] not in metric_names():
            return f"metric {spec} is not in this version of captau"
        return ""

    def unavailable_reason(self, table: PaperTable, spec: str | None) -> str:
        """Return the reason why a row's metric is not computed here; empty where it is."""
        reason = self._metric_reason(spec)
        if reason or spec is None or spec in PAIR_FLOORS:
            return reason
        name = spec.partition("(")[0]
        if name in self.leave_out:
            return f"leave_out={name}"
        key = (table.dataset, spec)
        if key not in self._reasons:
            items = self.load(table.dataset).items
            unavailability = metric(spec).find_unavailability(items)
            self._reasons[key] = f"metric {spec} {unavailability}" if unavailability else ""
        return self._reasons[key]

    def load(self, name: str) -> CaptionSet:
        """Read a dataset once."""
        if name not in self.caption_sets:
            self.caption_sets[name] = self.locations.load(name)
        return self.caption_sets[name]

    def resolve_protocol(
        self, table: PaperTable, label: str, changes: Mapping[str, Any]
    ) -> Protocol:
        """Resolve the protocol of a table, and note it for `run.json`."""
        merged = {**table.protocol, **{k: v for k, v in changes.items() if v is not None}}
        merged["name"] = label
        protocol = Protocol.resolve(table.dataset, usual_protocol(table.dataset), merged)
        self.protocols[label] = vars(protocol)
        return protocol

    def measure(
        self,
        table: PaperTable,
        protocol: Protocol,
        specs: list[str],
        statistics: StatisticsOptions = NO_INTERVALS,
    ) -> MeasuredDataset:
        """Score a table's dataset with metrics, and correlate."""
        metrics = [metric(spec) for spec in dict.fromkeys(specs) if spec not in PAIR_FLOORS]
        self.metrics.update({m.spec: m for m in metrics})
        selection = EvaluationSet.select(self.load(table.dataset), protocol)
        scored = score_dataset(selection, metrics, self.store, self.progress)
        has_floors = any(spec in PAIR_FLOORS for spec in specs)
        measured = correlate_dataset(
            scored, self.progress, statistics=statistics, pair_floors=has_floors
        )
        self.measured.append(measured)
        return measured

    def data_file(self, name: str) -> Path:
        """Return the path of a file in the data folder."""
        return registry.data_root(self.locations.data_root) / name


def _error_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    """Return mean squared errors of raters' predictions against mean ratings on the same scale."""
    cells: Cells = {}
    for column, options in table.columns.items():
        changes = {**(options.get("protocol") or {}), "ratings": "mean"}
        protocol = rebuilder.resolve_protocol(table, f"{label} {column}", changes)
        selection = EvaluationSet.select(rebuilder.load(table.dataset), protocol)
        for row, spec in table.rows.items():
            error = compute_rating_error(metric(spec), selection)
            cells[row, column] = TableCell(error * table.scale)
    return cells


def _history_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    return {
        (row, column): TableCell(read_best_validation(metric(spec), options["stage"]))
        for row, spec in table.rows.items()
        for column, options in table.columns.items()
    }


def _correlation_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    if errors := {c: o for c, o in table.columns.items() if "error" in o}:
        others = {c: o for c, o in table.columns.items() if c not in errors}
        cells = _error_cells(rebuilder, replace(table, columns=errors), label)
        if others:
            cells.update(_correlation_cells(rebuilder, replace(table, columns=others), label))
        return cells
    reasons = {row: rebuilder.unavailable_reason(table, spec) for row, spec in table.rows.items()}
    specs = {row: spec for row, spec in table.rows.items() if not reasons[row]}
    cells: Cells = {
        (row, column): TableCell.missing(reason)
        for row, reason in reasons.items()
        if reason
        for column in table.columns
    }
    if not specs:
        return cells
    # Columns that differ in nothing but coefficient and dimension come from one measurement.
    groups: dict[str, list[str]] = {}
    for column, options in table.columns.items():
        groups.setdefault(repr(options.get("protocol") or {}), []).append(column)
    rows_by_protocol: dict[str, list[str]] = {}
    for row in specs:
        rows_by_protocol.setdefault(repr(table.row_protocols.get(row) or {}), []).append(row)
    for columns, rows in product(groups.values(), rows_by_protocol.values()):
        row_changes = table.row_protocols.get(rows[0]) or {}
        changes = {**(table.columns[columns[0]].get("protocol") or {}), **row_changes}
        coefficients = [table.columns[c]["coefficient"] for c in columns]
        changes["coefficients"] = list(dict.fromkeys(coefficients))
        name = " ".join([label, *columns[: len(groups) > 1], *(rows[:1] if row_changes else ())])
        protocol = rebuilder.resolve_protocol(table, name, changes)
        has_bounds = any("bound" in table.columns[c] for c in columns)
        measured = rebuilder.measure(
            table,
            protocol,
            [specs[row] for row in rows],
            BOUNDS if has_bounds else NO_INTERVALS,
        )
        by_key = {
            (r["metric"], r["dimension"], r["coefficient"]): r
            for r in measured.correlations.to_dict("records")
        }
        for column in columns:
            options = table.columns[column]
            dimension = options.get("dimension") or measured.selection.protocol.dimension[0]
            for row in rows:
                name = specs[row] if specs[row] in PAIR_FLOORS else metric(specs[row]).spec
                correlation = by_key[name, dimension, options["coefficient"]]
                ends = correlation["ci_low"], correlation["ci_high"]
                value = _bound_or_value(options, correlation["value"], *ends)
                cells[row, column] = TableCell(value * table.scale, str(correlation["note"]))
    return cells


def _bound_or_value(options: Mapping[str, Any], value: float, low: float, high: float) -> float:
    """Return what a column shows: a value, or how far its interval reaches above or below it."""
    return {"high": high - value, "low": value - low}.get(options.get("bound", ""), float(value))


def _author_score_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    cells: Cells = {}
    authors = rebuilder.load("fleur")
    scored = authors.items.merge(authors.ratings, on="item_id")
    coefficients = list(dict.fromkeys(o["coefficient"] for o in table.columns.values()))
    protocol = rebuilder.resolve_protocol(table, label, {"coefficients": coefficients})
    for row, score in table.rows.items():
        for column, options in table.columns.items():
            has_own_labels = options.get("labels") == "authors"
            people = authors if has_own_labels else rebuilder.load(table.dataset)
            selection = EvaluationSet.select(people, protocol)
            # A caption that stands in two of the authors' files may have two scores.
            is_of_column = (scored["system"] == options["part"]) & (scored["dimension"] == score)
            keys = ["image_id", "caption"]
            values = selection.items[keys].merge(scored[is_of_column], "left", on=keys)["value"]
            scores = pd.Series(values.to_numpy(), index=selection.items["item_id"])
            n_unscored = 0 if selection.uses_preferences else int(values.isna().sum())
            if n_unscored:
                raise InputError(
                    f"dataset fleur: the file of {options['part']} has no score of {n_unscored:,} of "
                    f"{len(values):,} captions of {table.dataset}; captau data verify dataset=fleur says whether it "
                    "is the authors'"
                )
            dimension = options.get("dimension") or selection.protocol.dimension[0]
            for correlation in metric_rows(selection, row, scores, ""):
                key = correlation["dimension"], correlation["coefficient"]
                if key == (dimension, options["coefficient"]):
                    value = correlation["value"] * table.scale
                    cells[row, column] = TableCell(value, correlation["note"])
    return cells


def _system_mean_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    specs = {
        column: options["metric"]
        for column, options in table.columns.items()
        if options.get("metric") and not rebuilder.unavailable_reason(table, options["metric"])
    }
    protocol = rebuilder.resolve_protocol(table, label, {"coefficients": ["pearson"]})
    measured = rebuilder.measure(table, protocol, list(specs.values()))
    items, cells = measured.items, Cells()
    bounded = [options["dimension"] for options in table.columns.values() if "bound" in options]
    intervals = _mean_intervals(measured.selection, list(dict.fromkeys(bounded)))
    for column, options in table.columns.items():
        scale = options.get("scale", table.scale)
        if "dimension" in options:
            points = measured.selection.points(options["dimension"])
            values = points.set_index("item_id")["value"].reindex(items["item_id"])
        elif column in specs:
            values = measured.by_metric[metric(specs[column]).spec]
        else:
            reason = rebuilder.unavailable_reason(table, options["metric"])
            cells.update({(row, column): TableCell.missing(reason) for row in table.rows})
            continue
        by_system = pd.Series(values.to_numpy(dtype=float)).groupby(items["system"])
        for row, system in table.rows.items():
            ends = intervals.get((options.get("dimension", ""), system), (np.nan, np.nan))
            mean = float(by_system.get_group(system).to_numpy().mean())
            value = _bound_or_value(options, mean, *ends)
            cells[row, column] = TableCell(value * scale + 0.0)
    return cells


def _mean_intervals(
    selection: EvaluationSet, dimensions: Sequence[str]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the interval of each system's mean rating, by dimension and system.

    It is that of `BOUNDS`, of so many replicates that the printed digit does not depend on the draws.
    """
    if not dimensions:
        return {}
    points = {dimension: selection.points(dimension) for dimension in dimensions}
    options = replace(BOUNDS, replicates=20 * BOUNDS.replicates)
    rows = rank_systems(selection, points, options).systems.to_dict("records")
    return {(r["dimension"], r["system"]): (r["ci_low"], r["ci_high"]) for r in rows}


def _best_worst_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    protocol = rebuilder.resolve_protocol(table, label, {})
    selection = EvaluationSet.select(rebuilder.load(table.dataset), protocol)
    counts = count_best_worst(selection, selection.protocol.dimension)
    by_rank = {
        rank: dict(zip(counts["system"], counts[rank], strict=True)) for rank in ("best", "worst")
    }
    return {
        (row, column): TableCell(float(by_rank[rank][options["system"]]))
        for row, rank in table.rows.items()
        for column, options in table.columns.items()
    }


def _agreement_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    protocol = rebuilder.resolve_protocol(table, label, {"ratings": "per_rating"})
    selection = EvaluationSet.select(rebuilder.load(table.dataset), protocol)
    caption_set, dimension = selection.caption_set, selection.protocol.dimension[0]
    ratings = RatingTable.from_ratings(caption_set.ratings, selection.items["item_id"], dimension)
    measures, _ = compute_measures(ratings, caption_set.card.scales[dimension])
    return {
        (row, column): TableCell(measures[name].value * table.scale, measures[name].note)
        for row, name in table.rows.items()
        for column in table.columns
    }


def _human_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    cells = Cells()
    for column, options in table.columns.items():
        names = options["references"], options["held_out"]
        files = [rebuilder.data_file(name) for name in names]
        absent = [name for name, path in zip(names, files, strict=True) if not path.is_file()]
        for row, spec in table.rows.items():
            name = spec.partition("(")[0]
            if absent:
                reason = f"no file {absent[0]} under data.root; {options['why']}"
                cells[row, column] = TableCell.missing(reason)
            elif name in rebuilder.leave_out:
                cells[row, column] = TableCell.missing(f"leave_out={name}")
            else:
                rebuilder.metrics[spec] = metric(spec)
        specs = {row: s for row, s in table.rows.items() if (row, column) not in cells}
        if not specs:
            continue
        references, held_out = read_references(files[0]).texts, read_candidates(files[1]).captions
        if missing := [image for image in references if image not in held_out]:
            raise InputError(f"{files[1]}: no caption of image '{missing[0]}' of {files[0]}")
        trial = label, {image: held_out[image] for image in references}, references
        metrics = [metric(spec) for spec in specs.values()]
        scores, _ = score_trials([trial], metrics, rebuilder.store, rebuilder.progress, seed=0)
        for row, spec in specs.items():
            value = float(scores[metric(spec).spec].values[0])
            cells[row, column] = TableCell(value * table.scale)
    return cells


def _count_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    cells = Cells()
    for row, file in table.rows.items():
        path = rebuilder.data_file(str(file))
        if not path.is_file():
            reason = f"no file {file} under data.root; {table.note}"
            cells.update({(row, column): TableCell.missing(reason) for column in table.columns})
            continue
        references = read_references(path).texts
        counts = {"images": len(references), "captions": sum(map(len, references.values()))}
        for column, options in table.columns.items():
            cells[row, column] = TableCell(float(counts[options["of"]]))
    return cells


def _fold_count_cells(rebuilder: TableRebuilder, table: PaperTable, label: str) -> Cells:
    caption_set = rebuilder.load(table.dataset)
    items = caption_set.items
    cells: Cells = {}
    for row, split in table.rows.items():
        fold = items[(items["split"] == split) | (split == "all")]
        if fold.empty:
            reason = f"the data are not here: fold {split} of {table.dataset}"
            cells.update({(row, column): TableCell.missing(reason) for column in table.columns})
            continue
        counts = {
            "samples": len(fold),
            "images": fold["image_id"].nunique(),
            "captions": fold["caption"].nunique(),
            "systems": fold["system"].nunique(),
            "ratings": len(ratings := _of_items(caption_set.ratings, "item_id", fold)),
            "raters": ratings["rater"].nunique(),
            "pairs": _of_items(caption_set.preferences, "item_a", fold)["pair_id"].nunique(),
        }
        for column, options in table.columns.items():
            cells[row, column] = TableCell(float(counts[options["of"]]))
    return cells


def _of_items(judgements: pd.DataFrame, column: str, items: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of items."""
    return judgements[judgements[column].isin(items["item_id"])]


TABLE_KINDS: dict[str, Callable[[TableRebuilder, PaperTable, str], Cells]] = {
    "correlation": _correlation_cells,
    "bounds": _correlation_cells,
    "histories": _history_cells,
    "author_scores": _author_score_cells,
    "system_means": _system_mean_cells,
    "best_worst": _best_worst_cells,
    "agreement": _agreement_cells,
    "human": _human_cells,
    "counts": _count_cells,
    "fold_counts": _fold_count_cells,
}
#: The kinds of tables whose cells rest on a registered dataset.
KINDS_OF_DATASETS = (
    "correlation",
    "bounds",
    "author_scores",
    "fold_counts",
    "system_means",
    "best_worst",
    "agreement",
)
