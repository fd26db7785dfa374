"""The table of a measured dataset's correlations; `difference_tables` has those beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.base import Metric
from ..runs.frames import groups_of, records_by, records_of
from ..runs.tables import (
    AnyCell,
    Column,
    ResultTable,
    Row,
    TableNote,
    coefficient_cell,
    count_cell,
    count_of,
)
from ..scoring.catalog import MetricStyle, metric_style, own_labels, style_notes, usual_protocol_of
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import MAX_REPLICATES, expand_tail
from ..statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from ..statistics.rating_table import CEILINGS
from . import wording
from .correlation_rows import word_dimension
from .headline import sort_by_headline
from .judged_pairs import FLOOR_NOTES, FLOORS, ORDER_NOTE
from .measured_dataset import MeasuredDataset, row_key
from .pair_tests import Standing
from .verdicts import metric_verdict


@dataclass(frozen=True)
class _PrintedColumn:
    """A column of the table: a coefficient's `value`, half its interval's `width`, or its `rank`."""

    content: str
    dimension: str
    coefficient: str
    head: str
    latex_head: str

    def cell(self, row: Mapping[str, Any] | None, rank: int | None) -> AnyCell:
        """Return a metric's cell; empty where the metric has none."""
        if row is None:
            return ""
        if self.content == "rank":
            return count_cell(rank)

        value = row["value"]
        if self.content == "width":
            value = (row["ci_high"] - row["ci_low"]) / 2
        return coefficient_cell(float(value), self.coefficient)


def correlation_table(
    measured: MeasuredDataset, metrics: Sequence[Metric], *, has_differences: bool = False
) -> ResultTable:
    """Return the printed table of one dataset: metrics, the best by the headline on top, floors, and what people reach.

    Undefined metrics stand last; equal ones in the field's order.
    """
    styles = {m.spec: metric_style(m) for m in metrics}
    frame = measured.printed_correlations
    row_by_key = {row_key(row): row for row in records_of(frame)}
    columns = _columns(measured)

    values: dict[str, float] = {}
    orders: dict[str, float] = {}
    labels: dict[str, str] = {}
    for spec, style in styles.items():
        row = row_by_key.get((spec, *measured.headline), {})
        values[spec] = row.get("value", math.nan)
        orders[spec] = style.order
        labels[spec] = style.label
    order = sort_by_headline(values, orders)

    # Floors and what people reach do not compete with the metrics, and stand below them.
    present = set(frame["metric"])
    below = [name for name in (*FLOORS, *CEILINGS) if name in present]
    for name in below:
        labels[name] = {**FLOORS, **CEILINGS}[name]

    rows: list[Row] = []
    for metric in (*order, *below):
        cells: list[AnyCell] = []
        for column in columns:
            key = (metric, column.dimension, column.coefficient)
            cells.append(column.cell(row_by_key.get(key), measured.ranks.get(key)))
        rows.append(Row(labels[metric], cells))

    card = measured.caption_set.card
    title = card.title + (" (synthetic)" if card.synthetic else "")
    contents = {column.content for column in columns}
    return ResultTable(
        f"{title}: agreement with people",
        "metric",
        [Column(column.head, latex=column.latex_head) for column in columns],
        rows,
        notes=_notes(measured, styles, order, labels, contents),
        spare=_spare_columns(columns, measured.headline),
        own_labels=own_labels(styles),
        verdict=_verdict(measured, styles, order, labels, has_differences=has_differences),
        dataset=measured.caption_set.name,
        details=_details(measured, columns),
    )


def _spare_columns(
    columns: Sequence[_PrintedColumn], headline: tuple[str, str]
) -> tuple[tuple[int, ...], ...]:
    """Return the columns beside the headline's: the last coefficients, then intervals and ranks, then the last dimension."""
    columns_by_coefficient: dict[str, list[int]] = {}
    values: list[tuple[int, ...]] = []
    intervals_and_ranks: list[int] = []
    for index, column in enumerate(columns):
        if (column.dimension, column.coefficient) == headline:
            continue
        if column.coefficient != headline[1]:
            columns_by_coefficient.setdefault(column.coefficient, []).append(index)
        elif column.content == "value":
            values.append((index,))
        else:
            intervals_and_ranks.append(index)

    # A terminal that is too narrow leaves columns out in this order, the headline's never.
    of_coefficients = [tuple(indices) for indices in columns_by_coefficient.values()]
    return (*reversed(of_coefficients), tuple(intervals_and_ranks), *reversed(values))


def _details(measured: MeasuredDataset, columns: Sequence[_PrintedColumn]) -> tuple[int, ...]:
    """Return the columns of coefficients other than the headline's; none where the protocol's are not the usual ones."""
    changes = usual_protocol_of(measured.caption_set)
    usual = Protocol.resolve("", changes, {}).for_dataset(measured.caption_set).coefficients

    if tuple(measured.protocol.coefficients) != tuple(usual):
        return ()

    details: list[int] = []
    for index, column in enumerate(columns):
        if column.coefficient != measured.headline[1]:
            details.append(index)
    return tuple(details)


def _verdict(
    measured: MeasuredDataset,
    styles: Mapping[str, MetricStyle],
    order: Sequence[str],
    labels: Mapping[str, str],
    *,
    has_differences: bool,
) -> str:
    """Say where the user's own metrics stand by the headline, or which metric agrees best with people."""
    dimension, coefficient = measured.headline
    defined = measured.correlations.dropna(subset="value")
    is_headline = (defined["dimension"] == dimension) & (defined["coefficient"] == coefficient)
    rows = records_by(defined[is_headline], "metric")
    standings: list[Standing] = []

    for spec in order:
        if row := rows.get(spec):
            rank = measured.ranks.get((spec, *measured.headline))
            is_own = styles[spec].kind == "given"
            standing = Standing(
                labels[spec],
                row["value"],
                rank=rank,
                low=row["ci_low"],
                is_own=is_own,
                name=spec,
                high=row["ci_high"],
            )
            standings.append(standing)

    person = rows.get("ceiling_one_vs_one", {}).get("value", math.nan)
    frame = measured.correlations
    is_named = frame.loc[frame["coefficient"] == coefficient, "dimension"].nunique() > 1
    label = measured.caption_set.card.label(dimension) if is_named else ""

    tests = measured.find_pair_tests(*measured.headline)
    chance = _chance(measured, dimension, coefficient)
    return metric_verdict(
        standings,
        tests,
        coefficient,
        label,
        person,
        chance=chance,
        has_differences=has_differences,
    )


def _chance(measured: MeasuredDataset, dimension: str, coefficient: str) -> float:
    """Return what scores that say nothing reach in a dimension; NaN where that is unknown."""
    protocol = measured.protocol
    ratings = np.empty(0)
    # At another level the value is a mean over groups, each with a chance of its own.
    if dimension in protocol.dimension and protocol.level == "pooled":
        ratings = measured.selection.points(dimension)["value"].to_numpy(dtype=np.float64)

    return find_coefficient(coefficient).chance_on(ratings, protocol.ties)


def _columns(measured: MeasuredDataset) -> list[_PrintedColumn]:
    frame = measured.printed_correlations
    of_ratings = frame.loc[~are_of_preferences(frame["coefficient"]), "dimension"]
    has_dimensions = len(measured.protocol.dimension) > 1 or of_ratings.nunique() > 1
    ranked = {key[1:] for key in measured.ranks}

    columns: list[_PrintedColumn] = []
    for (dimension, coefficient), rows in groups_of(frame, "dimension", "coefficient"):
        coefficient_object = find_coefficient(coefficient)
        head = coefficient_object.symbol
        latex_head = coefficient_object.latex
        if has_dimensions or dimension not in measured.protocol.dimension:
            label = measured.caption_set.card.label(dimension)
            head = f"{label} {head}"
            latex_head = f"{label.replace('_', ' ')} {latex_head}"

        columns.append(_PrintedColumn("value", dimension, coefficient, head, latex_head))

        if coefficient_object.is_summary(dimension):
            if rows["ci_low"].notna().any():
                columns.append(_PrintedColumn("width", dimension, coefficient, "±", r"$\pm$"))
            if (dimension, coefficient) in ranked:
                columns.append(_PrintedColumn("rank", dimension, coefficient, "rank", "rank"))

    return columns


def _notes(
    measured: MeasuredDataset,
    styles: Mapping[str, MetricStyle],
    order: Sequence[str],
    labels: Mapping[str, str],
    contents: set[str],
) -> list[str]:
    """Return the lines below the table."""
    frame = measured.printed_correlations
    notes = _data_notes(measured)

    notes += [TableNote.detail(note) for note in style_notes(styles[spec] for spec in order)]
    for name, label in FLOORS.items():
        if name in labels:
            notes.append(TableNote.detail(f"{label}: {FLOOR_NOTES[name]}.", (label,)))
    of_pairs = are_of_preferences(frame["coefficient"])
    has_pair_floors = {"floor_length"} & set(frame.loc[of_pairs, "metric"])
    if has_pair_floors and measured.selection.order_is_source:
        notes.append(ORDER_NOTE)

    of_people = frame[frame["metric"].isin(CEILINGS) & frame["value"].notna()]
    of_ceilings = wording.notes_by_subject(
        zip(
            of_people["metric"].map(CEILINGS),
            of_people["dimension"].astype(str),
            of_people["note"],
            strict=True,
        )
    )
    for index, note in enumerate(of_ceilings):
        brief = "" if index else "The last rows are what people reach (docs/agreement.md)."
        notes.append(TableNote(note, note.subjects, brief=brief))
    notes += _statistics_notes(measured, contents)
    notes += _unranked_notes(measured, order, labels)
    if measured.ceiling_remark:
        notes.append(measured.ceiling_remark)
    notes += wording.level_notes(frame[frame["metric"].isin(order)], labels, measured.protocol)
    notes += wording.undefined_notes(frame, labels, order)
    return notes


def _data_notes(measured: MeasuredDataset) -> list[str]:
    """Say what was measured: how many captions, pairs and words, by which protocol, and what was left out."""
    frame = measured.printed_correlations
    notes: list[str] = [TableNote.detail("Coefficients ×100.")]
    if measured.caption_set.card.synthetic:
        notes.insert(0, wording.synthetic_note("metrics"))

    word_dimensions = [word_dimension(dimension) for dimension in measured.protocol.dimension]
    is_of_words = frame["dimension"].isin(word_dimensions)
    counted_rows = frame[~is_of_words]
    of_metrics = counted_rows[~counted_rows["metric"].isin(CEILINGS)]
    if len(of_metrics):
        # What people reach is measured on all ratings, also on those that no metric meets.
        counted_rows = of_metrics
    counts = counted_rows[["n_items", "n_ratings"]].max()
    unit = "preference pair" if are_of_preferences(frame["coefficient"]).all() else "data point"
    items = count_of(int(counts["n_items"]), "item")
    ratings = count_of(int(counts["n_ratings"]), unit)
    counted = f"{items} of {count_of(measured.selection.n_images, 'image')}, {ratings}"
    protocol = f"protocol {measured.protocol.name}: {measured.protocol.describe()}"
    # The usual protocol is a detail; another one is what a reader must know.
    is_usual = measured.protocol.name == "usual"
    said = wording.references_words(measured.protocol) if is_usual else protocol
    brief = f"Coefficients ×100; {'; '.join(filter(None, (counted, said)))}."
    notes.append(TableNote(f"{counted}; {protocol}.", brief=brief))
    if is_of_words.any():
        n_words = int(frame.loc[is_of_words, "n_ratings"].max())
        notes.append(
            f"Rows about words compare the words that metrics blame with people's marks on {n_words:,} words."
        )

    if note := wording.copies_note(measured.selection):
        notes.append(note)
    if measured.selection.uses_preferences:
        notes += _tied_notes(measured)
    notes += wording.dataset_notes(measured.caption_set, measured.protocol)

    k = measured.protocol.k or 0
    n_fewer = int((measured.items["references"].map(len) < k).sum())
    if n_fewer:
        notes.append(f"Items with fewer than {k} references, all of which are used: {n_fewer:,}.")
    return notes


def _tied_notes(measured: MeasuredDataset) -> list[str]:
    """Say how many pairs are left out since people tied on them; no note where none is."""
    counts: list[str] = []
    for dimension, n_tied in measured.selection.judged_pairs.n_tied.items():
        if n_tied:
            counts.append(f"{measured.caption_set.card.label(dimension)} {n_tied:,}")

    if not counts:
        return []
    return [f"Pairs on which people tied are left out: {', '.join(counts)}."]


def _statistics_notes(measured: MeasuredDataset, contents: set[str]) -> list[str]:
    """Explain the columns of intervals and ranks."""
    statistics = measured.statistics
    n_images = measured.selection.n_images
    notes: list[str] = []
    if "width" in contents:
        unsure: list[str] = []
        for name in dict.fromkeys(measured.correlations["coefficient"]):
            coefficient = find_coefficient(name)
            if n_images < coefficient.min_images:
                unsure.append(f"{coefficient.symbol} (from {coefficient.min_images:,} on)")
        if unsure:
            notes.append(
                f"With {count_of(n_images, 'image')}, intervals and ranks are not reliable: {', '.join(unsure)}."
            )
        notes.append(wording.half_width_note(statistics, "correlations.csv"))
    if "rank" in contents:
        ranked = [coefficient for _, _, coefficient in measured.ranks]
        notes.append(wording.rank_note(statistics, ranked))
        if measured.n_systems is not None:
            notes.append(wording.system_level_note(measured.n_systems))
        n_metrics = len(measured.scored.metrics)
        n_pairs = n_metrics * (n_metrics - 1) // 2
        smallest_tail = (1 - statistics.level) / (2 * n_pairs) if n_pairs else 1.0
        if statistics.interval == "expanded":
            smallest_tail = expand_tail(smallest_tail, n_images)
        # With so few images that no number of replicates suffices, the note above warns.
        min_replicates = int(np.ceil(1 / max(smallest_tail, 1 / (MAX_REPLICATES + 1))))
        has_too_few = statistics.replicates < min_replicates <= MAX_REPLICATES
        if statistics.correction == "holm" and has_too_few:
            notes.append(
                f"Holm's correction for {n_pairs} pairs cannot find a difference with so few replicates: set "
                f"statistics.replicates={min_replicates} or more."
            )
    return notes


def _unranked_notes(
    measured: MeasuredDataset, order: Sequence[str], labels: Mapping[str, str]
) -> list[str]:
    """Say which metrics have a value and no rank, and why no test compares them."""
    notes: list[str] = []
    if measured.differences is None:
        return notes
    groups = groups_of(measured.differences, "dimension", "coefficient")
    for (dimension, coefficient), rows in groups:
        rows_of_own_test = rows[rows["test"] == find_coefficient(coefficient).tests[0]]
        values = dict(zip(rows_of_own_test["metric_a"], rows_of_own_test["value_a"], strict=True))
        values |= dict(zip(rows_of_own_test["metric_b"], rows_of_own_test["value_b"], strict=True))

        unranked: list[str] = []
        for metric in order:
            has_value = pd.notna(values.get(metric, np.nan))
            has_rank = (metric, dimension, coefficient) in measured.ranks
            if has_value and not has_rank:
                unranked.append(metric)

        if unranked and find_coefficient(coefficient).is_summary(dimension):
            untested = rows_of_own_test[rows_of_own_test["p_value"].isna()]
            reasons = "; ".join(filter(None, dict.fromkeys(untested["note"])))
            unranked_labels = ", ".join(labels[metric] for metric in unranked)
            notes.append(
                f"No rank in {dimension} {coefficient}, since no test compares them with every other metric: "
                f"{unranked_labels} ({reasons})."
            )
    return notes
