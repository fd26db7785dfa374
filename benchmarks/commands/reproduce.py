"""`captau reproduce`: rebuild published tables from their protocols and compare cell by cell.

A paper is a file in `conf/paper/` (which dataset, protocol and metric each cell comes from) and a
CSV in `results/published/` (the numbers as printed). Kinds of tables:

- `correlation`: a cell is a coefficient of a metric (row) for a dimension or category (column);
- `system_means`: a cell is the mean rating or score (column) of a system (row);
- `best_worst`: how often a system (column) is best or worst in all dimensions at once (row);
- `agreement`: a measure of `captau agree` (row);
- `human`: a metric's score (row) of one human caption an image against references (column), from files in the
  data folder;
- `counts`: how many images or captions (column) a file of references has (row).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from ...datasets import registry
from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ...metrics.registry import metric, metric_names
from ..evaluation.held_out_captions import score_trials
from ..evaluation.measured_dataset import MeasuredDataset, measure
from ..evaluation.provenance import provenance
from ..evaluation.published_numbers import read_published
from ..options.reproduce import PaperTable, ReproduceOptions
from ..runs.progress_bar import StepProgress
from ..runs.results import SCORE_COLUMNS, Results, describe_environment, make_correlations
from ..runs.tables import MISSING, ResultTable, format_number
from ..scoring.caption_files import read_candidates, read_references
from ..scoring.catalog import usual_protocol
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from ..statistics.rater_agreement import compute_measures
from ..statistics.rating_table import RatingTable

COMPARISON_COLUMNS = (
    "paper",
    "table",
    "dataset",
    "row",
    "column",
    "published",
    "reproduced",
    "delta",
    "decimals",
    "match",
    "note",
)


@dataclass(frozen=True)
class Cell:
    """A recomputed cell in the table's unit, or NaN and why."""

    value: float
    note: str = ""

    @classmethod
    def missing(cls, reason: str) -> Cell:
        return cls(float("nan"), f"missing: {reason}")


@dataclass
class Workshop:
    """What the tables of a run share: datasets read once, scores kept, rows for the results."""

    config: ReproduceOptions
    store: ScoreStore
    progress: StepProgress
    caption_sets: dict[str, CaptionSet] = field(default_factory=dict[str, CaptionSet])
    measured: list[MeasuredDataset] = field(default_factory=list[MeasuredDataset])
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    protocols: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _lacking: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def absent(self, table: PaperTable, spec: str | None) -> str:
        """Why a row's metric is not computed here; empty where it is."""
        if spec is None:
            return "this metric is not part of captau"
        if spec.startswith(_WHY):
            return spec.removeprefix(_WHY)
        name = spec.partition("(")[0]
        if name in self.config.leave_out:
            return f"leave_out={name}"
        if name not in metric_names():
            return f"metric {spec} is not in this version of captau"
        key = (table.dataset, spec)
        if key not in self._lacking:
            items = self.caption_set(table.dataset).items
            self._lacking[key] = metric(spec).unavailable_reason(items) or ""
        return self._lacking[key]

    def caption_set(self, name: str) -> CaptionSet:
        if name not in self.caption_sets:
            self.caption_sets[name] = registry.load(name, self.config.locations.data_root)
        return self.caption_sets[name]

    def protocol(self, table: PaperTable, label: str, changes: Mapping[str, Any]) -> Protocol:
        merged = {**table.protocol, **{k: v for k, v in changes.items() if v is not None}}
        merged["name"] = label
        protocol = Protocol.resolve(table.dataset, usual_protocol(table.dataset), merged)
        self.protocols[label] = vars(protocol)
        return protocol

    def measure(self, table: PaperTable, protocol: Protocol, specs: list[str]) -> MeasuredDataset:
        metrics = [metric(spec) for spec in dict.fromkeys(specs)]
        self.metrics.update({m.spec: m for m in metrics})
        found = measure(
            self.caption_set(table.dataset), protocol, metrics, self.store, self.progress
        )
        self.measured.append(found)
        return found


Cells = dict[tuple[str, str], Cell]


def run(config: ReproduceOptions) -> Results:
    """Rebuild the tables of papers.

    Raises:
        InputError: on missing or malformed data.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    frames: list[pd.DataFrame] = []
    tables: list[ResultTable] = []
    with StepProgress(sum(len(t.rows) for ts in config.papers.values() for t in ts)) as progress:
        workshop = Workshop(config, config.locations.store(), progress)
        for paper, paper_tables in config.papers.items():
            published = read_published(paper)
            for table in paper_tables:
                label = f"{paper} {table.table} {table.dataset}"
                cells = KINDS[table.kind](workshop, table, label)
                frame = compare(paper, table, cells, published)
                frames.append(frame)
                tables.append(_table_of(paper, table, frame))
            _check_covered(paper, paper_tables, published)
    comparison = pd.concat(frames, ignore_index=True)
    measured = workshop.measured
    empty_scores = pd.DataFrame(columns=pd.Index(SCORE_COLUMNS))
    scores = (
        pd.concat([m.scored.frame for m in measured], ignore_index=True)
        if measured
        else empty_scores
    )
    return Results(
        correlations=pd.concat([m.correlations for m in measured], ignore_index=True)
        if measured
        else make_correlations([]),
        scores=scores.drop_duplicates(ignore_index=True),
        run={
            "command": "reproduce",
            "config": dict(config.configuration),
            "protocols": workshop.protocols,
            **provenance(
                list(workshop.metrics.values()),
                list(workshop.caption_sets.values()),
                config.locations,
            ),
            **describe_environment(),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=tables,
        comparison=comparison,
        summary=summary(comparison),
    )


def compare(paper: str, table: PaperTable, cells: Cells, published: pd.DataFrame) -> pd.DataFrame:
    """One row a printed cell of the table, columns `COMPARISON_COLUMNS`."""
    chosen = published[
        (published["table"] == table.table)
        & (published["dataset"] == table.dataset)
        & published["column"].isin(list(table.columns))
    ]
    rows: list[dict[str, Any]] = []
    for printed in chosen.to_dict("records"):
        cell = cells.get((printed["row"], printed["column"]))
        if cell is None:
            raise InputError(
                f"conf/paper/{paper}.yaml: {table.table} has no row '{printed['row']}' for column "
                f"'{printed['column']}', which results/published/{paper}.csv has"
            )
        decimals = len(str(printed["published"]).partition(".")[2])
        value = float(printed["published"])
        known = not np.isnan(cell.value)
        matches = known and agrees(cell.value, value, decimals)
        notes = [cell.note, printed["note"]]
        if known and not matches:
            notes.append(table.note)
        rows.append(
            {
                "paper": paper,
                "table": table.table,
                "dataset": table.dataset,
                "row": printed["row"],
                "column": printed["column"],
                "published": printed["published"],
                "reproduced": f"{cell.value:.{decimals + 3}f}" if known else "",
                "delta": f"{cell.value - value:+.{decimals + 3}f}" if known else "",
                "decimals": decimals,
                "match": str(matches).lower() if known else "",
                "note": "; ".join(n for n in notes if n),
            }
        )
    return pd.DataFrame(rows, columns=pd.Index(COMPARISON_COLUMNS))


def agrees(value: float, published: float, decimals: int) -> bool:
    """Whether a value rounds to the printed number; exactly half a unit may go either way."""
    return abs(value - published) <= 0.5 * 10.0**-decimals + 1e-9


def summary(comparison: pd.DataFrame) -> str:
    """The closing line: how many cells match, differ, and are not there yet."""
    known = comparison[comparison["match"] != ""]
    matched = int((known["match"] == "true").sum())
    differ, missing = len(known) - matched, len(comparison) - len(known)
    line = f"{matched} of {len(known)} cells match; {differ} differ (see comparison.csv)"
    return line + (f"; {missing} not computed yet" if missing else "")


def _check_covered(paper: str, tables: tuple[PaperTable, ...], published: pd.DataFrame) -> None:
    """Every printed number belongs to a table of the paper's file: none is dropped silently."""
    known = {(t.table, t.dataset, c) for t in tables for c in t.columns}
    for printed in published.to_dict("records"):
        if (printed["table"], printed["dataset"], printed["column"]) not in known:
            raise InputError(
                f"results/published/{paper}.csv: {printed['table']}, {printed['dataset']}, column "
                f"'{printed['column']}' is in no table of conf/paper/{paper}.yaml"
            )


#: In a paper's file, before the reason why a row cannot be computed in its table.
_WHY = "missing: "


def _correlation(workshop: Workshop, table: PaperTable, label: str) -> Cells:
    specs = {row: spec for row, spec in table.rows.items() if not workshop.absent(table, spec)}
    cells: Cells = {
        (row, column): Cell.missing(workshop.absent(table, spec))
        for row, spec in table.rows.items()
        if workshop.absent(table, spec)
        for column in table.columns
    }
    if not specs:
        return cells
    # Columns that differ in nothing but coefficient and dimension come from one measurement.
    groups: dict[str, list[str]] = {}
    for column, options in table.columns.items():
        groups.setdefault(repr(options.get("protocol") or {}), []).append(column)
    for columns in groups.values():
        first = table.columns[columns[0]]
        changes = dict(first.get("protocol") or {})
        wanted = [table.columns[c]["coefficient"] for c in columns]
        changes["coefficients"] = list(dict.fromkeys(wanted))
        name = label + (f" {columns[0]}" if len(groups) > 1 else "")
        protocol = workshop.protocol(table, name, changes)
        frame = workshop.measure(table, protocol, list(specs.values())).correlations
        found = {
            (r["metric"], r["dimension"], r["coefficient"]): Cell(
                float(r["value"]) * table.scale, str(r["note"])
            )
            for r in frame.to_dict("records")
        }
        for column in columns:
            options = table.columns[column]
            dimension = options.get("dimension") or protocol.dimension[0]
            for row, spec in specs.items():
                key = (metric(spec).spec, dimension, options["coefficient"])
                cells[row, column] = found[key]
    return cells


def _system_means(workshop: Workshop, table: PaperTable, label: str) -> Cells:
    specs = {
        c: o["metric"]
        for c, o in table.columns.items()
        if o.get("metric") and not workshop.absent(table, o["metric"])
    }
    changes = {"coefficients": ["pearson"]}
    protocol = workshop.protocol(table, label, changes)
    measured = workshop.measure(table, protocol, list(specs.values()))
    items, cells = measured.items, Cells()
    for column, options in table.columns.items():
        scale = options.get("scale", table.scale)
        if "dimension" in options:
            points = protocol.data_points(measured.caption_set, items, options["dimension"])
            values = points.set_index("item_id")["value"].reindex(items["item_id"])
        elif column in specs:
            values = measured.by_metric[metric(specs[column]).spec]
        else:
            reason = workshop.absent(table, options["metric"])
            cells.update({(row, column): Cell.missing(reason) for row in table.rows})
            continue
        means = pd.Series(values.to_numpy(dtype=float)).groupby(items["system"]).mean()
        for row, system in table.rows.items():
            cells[row, column] = Cell(float(means[system]) * scale + 0.0)
    return cells


def _best_worst(workshop: Workshop, table: PaperTable, label: str) -> Cells:
    caption_set = workshop.caption_set(table.dataset)
    protocol = workshop.protocol(table, label, {})
    items = protocol.select_items(caption_set)
    best = worst = np.ones(len(items), dtype=bool)
    for dimension in protocol.dimension:
        points = protocol.data_points(caption_set, items, dimension).set_index("item_id")["value"]
        values = points.reindex(items["item_id"]).reset_index(drop=True)
        grouped = values.groupby(items["image_id"])
        best = best & (values == grouped.transform("max")).to_numpy()
        worst = worst & (values == grouped.transform("min")).to_numpy()
    counts = {
        "best": pd.Series(best).groupby(items["system"]).sum(),
        "worst": pd.Series(worst).groupby(items["system"]).sum(),
    }
    return {
        (row, column): Cell(float(counts[which][options["system"]]))
        for row, which in table.rows.items()
        for column, options in table.columns.items()
    }


def _agreement(workshop: Workshop, table: PaperTable, label: str) -> Cells:
    protocol = workshop.protocol(table, label, {"ratings": "per_rating"})
    caption_set = workshop.caption_set(table.dataset)
    items = protocol.select_items(caption_set)["item_id"]
    dimension = protocol.dimension[0]
    ratings = RatingTable.from_ratings(caption_set.ratings, items, dimension)
    found, _ = compute_measures(ratings, caption_set.card.scales[dimension])
    return {
        (row, column): Cell(found[name].value * table.scale, found[name].note)
        for row, name in table.rows.items()
        for column in table.columns
    }


def _human(workshop: Workshop, table: PaperTable, label: str) -> Cells:
    root = registry.data_root(workshop.config.locations.data_root)
    cells = Cells()
    for column, options in table.columns.items():
        names = options["references"], options["held_out"]
        files = [root / name for name in names]
        absent = [name for name, path in zip(names, files, strict=True) if not path.is_file()]
        for row, spec in table.rows.items():
            if absent:
                cells[row, column] = Cell.missing(
                    f"no file {absent[0]} under data.root; {options['why']}"
                )
            elif spec.partition("(")[0] in workshop.config.leave_out:
                cells[row, column] = Cell.missing(f"leave_out={spec.partition('(')[0]}")
            else:
                workshop.metrics[spec] = metric(spec)
        wanted = [metric(s) for r, s in table.rows.items() if (r, column) not in cells]
        if not wanted:
            continue
        references, held_out = read_references(files[0]).texts, read_candidates(files[1]).captions
        if lacking := [i for i in references if i not in held_out]:
            raise InputError(f"{files[1]}: no caption of image '{lacking[0]}' of {files[0]}")
        held_out = {i: held_out[i] for i in references}
        found, _ = score_trials(
            [(label, held_out, references)], wanted, workshop.store, workshop.progress, seed=0
        )
        for row, spec in table.rows.items():
            if (row, column) not in cells:
                cells[row, column] = Cell(float(found[metric(spec).spec].values[0]) * table.scale)
    return cells


def _counts(workshop: Workshop, table: PaperTable, label: str) -> Cells:
    root = registry.data_root(workshop.config.locations.data_root)
    cells = Cells()
    for row, file in table.rows.items():
        path = root / str(file)
        if str(file).startswith(_WHY) or not path.is_file():
            reason = str(file).removeprefix(_WHY)
            reason = reason if reason != file else f"no file {file} under data.root; {table.note}"
            cells.update({(row, column): Cell.missing(reason) for column in table.columns})
            continue
        references = read_references(path).texts
        counts = {"images": len(references), "captions": sum(map(len, references.values()))}
        for column, options in table.columns.items():
            cells[row, column] = Cell(float(counts[options["of"]]))
    return cells


KINDS: dict[str, Callable[[Workshop, PaperTable, str], Cells]] = {
    "correlation": _correlation,
    "system_means": _system_means,
    "best_worst": _best_worst,
    "agreement": _agreement,
    "human": _human,
    "counts": _counts,
}


def _table_of(paper: str, table: PaperTable, frame: pd.DataFrame) -> ResultTable:
    """The rebuilt table as it is printed: recomputed cells, the paper's beside where they differ."""
    texts: dict[tuple[str, str], str] = {}
    for cell in frame.to_dict("records"):
        text = MISSING
        if cell["match"]:
            text = format_number(float(cell["reproduced"]), 1, cell["decimals"])
            if cell["match"] == "false":
                text = f"{text} (printed {cell['published']})"
        texts[cell["row"], cell["column"]] = text
    columns = list(table.columns)
    rows = [
        (row, [texts.get((row, c), "") for c in columns])
        for row in table.rows
        if any((row, c) in texts for c in columns)
    ]
    notes = (
        [f"{MISSING}: not computed yet, see comparison.csv."] if MISSING in texts.values() else []
    )
    if table.note:
        notes.append(f"Note: {' '.join(table.note.split())}.")
    title = f"{paper}, {table.table}: {table.title}"
    return ResultTable(title, "", columns, rows, notes=notes)
