"""Tables of a measured dataset: correlations, differences between metrics, and corrected correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.base import Metric
from ..runs.tables import ResultTable, format_coefficient, format_number, format_p_value
from ..scoring.catalog import MetricStyle, metric_style
from ..statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from ..statistics.intervals import p_value_column
from ..statistics.rating_table import CEILINGS
from .correlation_rows import word_dimension
from .judged_pairs import FLOOR_NOTES, FLOORS
from .measured_dataset import MeasuredDataset, row_key
from .wording import (
    CORRECTION_LABELS,
    copies_note,
    interval_words,
    level_notes,
    missing_splits_note,
    rank_words,
    synthetic_note,
)

#: Heads of the columns of p-values.
_TEST_LABELS = {
    "bootstrap": "p bootstrap",
    "permutation": "p permutation",
    "williams": "p Williams",
    "mcnemar": "p McNemar",
}


@dataclass(frozen=True)
class _PrintedColumn:
    """A column of the table: a coefficient's `value`, half its interval's `width`, or its `rank`."""

    content: str
    dimension: str
    coefficient: str
    head: str
    latex_head: str

    def cell(self, row: Mapping[str, Any] | None, rank: int | None) -> str:
        """Format a metric's cell; empty where the metric has none."""
        if self.content == "rank":
            return "" if row is None or rank is None else str(rank)
        if row is None:
            return ""
        value = row["value"]
        if self.content == "width":
            value = (row["ci_high"] - row["ci_low"]) / 2
        return format_coefficient(float(value), self.coefficient)


def correlation_table(measured: MeasuredDataset, metrics: Sequence[Metric]) -> ResultTable:
    """Return the printed table of one dataset: metrics, the best by the first coefficient on top, floors, ceilings.

    Undefined metrics stand last; equal ones in the field's order.
    """
    frame = measured.correlations
    styles = {m.spec: metric_style(m) for m in metrics}
    row_by_key = {row_key(row): row for row in _records(frame)}
    columns = _columns(measured)

    def sort_key(spec: str) -> tuple[float, float]:
        row = row_by_key.get((spec, columns[0].dimension, columns[0].coefficient))
        value = row["value"] if row is not None else np.nan
        return np.inf if np.isnan(value) else -value, styles[spec].order

    order = sorted(styles, key=sort_key)
    present = set(frame["metric"])
    below = {name: text for name, text in {**FLOORS, **CEILINGS}.items() if name in present}
    labels = {**{spec: label.label for spec, label in styles.items()}, **below}

    def cell(metric: str, column: _PrintedColumn) -> str:
        key = metric, column.dimension, column.coefficient
        return column.cell(row_by_key.get(key), measured.ranks.get(key))

    card = measured.caption_set.card
    title = card.title + (" (synthetic)" if card.synthetic else "")
    return ResultTable(
        f"{title}: agreement with people",
        "metric",
        [column.head for column in columns],
        [(labels[m], [cell(m, column) for column in columns]) for m in (*order, *below)],
        [column.latex_head for column in columns],
        _notes(measured, styles, order, labels, {column.content for column in columns}),
        spare=tuple(index for index, c in enumerate(columns) if c.content != "value"),
        own_labels=frozenset(style.label for style in styles.values() if style.kind == "given"),
    )


def _columns(measured: MeasuredDataset) -> list[_PrintedColumn]:
    frame = measured.correlations
    of_ratings = frame.loc[~are_of_preferences(frame["coefficient"]), "dimension"]
    has_dimensions = len(measured.protocol.dimension) > 1 or of_ratings.nunique() > 1
    ranked = {key[1:] for key in measured.ranks}
    columns: list[_PrintedColumn] = []
    grouped: Any = frame.groupby(["dimension", "coefficient"], sort=False)
    for (dimension, coefficient), rows in grouped:
        coefficient_object = find_coefficient(coefficient)
        head, latex_head = coefficient_object.symbol, coefficient_object.latex
        if has_dimensions or dimension not in measured.protocol.dimension:
            label = measured.caption_set.card.label(dimension)
            head = f"{label} {head}"
            latex_head = f"{label.replace('_', ' ')} {latex_head}"
        contents = [("value", head, latex_head)]
        if coefficient_object.is_summary(dimension):
            if rows["ci_low"].notna().any():
                contents.append(("width", "±", r"$\pm$"))
            if (dimension, coefficient) in ranked:
                contents.append(("rank", "rank", "rank"))
        columns += [_PrintedColumn(c, dimension, coefficient, h, tex) for c, h, tex in contents]
    return columns


def _notes(
    measured: MeasuredDataset,
    styles: Mapping[str, MetricStyle],
    order: Sequence[str],
    labels: Mapping[str, str],
    contents: set[str],
) -> list[str]:
    """Return the lines below the table."""
    frame = measured.correlations
    notes = ["Coefficients ×100."]
    if measured.caption_set.card.synthetic:
        notes.insert(0, synthetic_note("metrics"))
    words = [word_dimension(dimension) for dimension in measured.protocol.dimension]
    of_captions = frame[~frame["dimension"].isin(words)]
    counts = of_captions.groupby("coefficient", sort=False)[["n_items", "n_ratings"]].max()
    unit = "preference pairs" if are_of_preferences(frame["coefficient"]).all() else "data points"
    notes.append(
        f"{int(counts['n_items'].max()):,} items, {int(counts['n_ratings'].max()):,} {unit}; "
        f"protocol {measured.protocol.name}: {measured.protocol.describe()}."
    )
    if len(of_words := frame[frame["dimension"].isin(words)]):
        n_words = int(of_words["n_ratings"].max())
        notes.append(
            f"Rows about words compare the words that metrics blame with people's marks on {n_words:,} words."
        )
    notes += [note] if (note := copies_note(measured.selection)) else []
    tied = {d: n for d, n in measured.selection.judged_pairs.n_tied.items() if n}
    if tied and measured.selection.uses_preferences:
        label = measured.caption_set.card.label
        counts_of_ties = ", ".join(f"{label(d)} {n:,}" for d, n in tied.items())
        notes.append(f"Pairs on which people tied are left out: {counts_of_ties}.")
    if note := missing_splits_note(measured.caption_set, measured.protocol):
        notes.append(note)
    k = measured.protocol.k or 0
    if fewer := sum(len(r) < k for r in measured.items["references"]):
        notes.append(f"Items with fewer than {k} references, all of which are used: {fewer:,}.")
    notes += [note for note in dict.fromkeys(styles[spec].note for spec in order) if note]
    notes += [f"{FLOORS[name]}: {FLOOR_NOTES[name]}." for name in FLOORS if name in labels]
    of_people = frame[frame["metric"].isin(CEILINGS) & frame["value"].notna()]
    notes += dict.fromkeys(f"{CEILINGS[r['metric']]}: {r['note']}." for r in _records(of_people))
    notes += _statistics_notes(measured, contents)
    notes += [measured.ceiling_remark] if measured.ceiling_remark else []
    notes += level_notes(frame[frame["metric"].isin(order)], labels, measured.protocol.level)
    notes += [
        f"{labels[r['metric']]}, {r['dimension']} {r['coefficient']}: {r['note']}."
        for r in _records(frame[frame["value"].isna()])
    ]
    return notes


def _statistics_notes(measured: MeasuredDataset, contents: set[str]) -> list[str]:
    """Explain the columns of intervals and ranks."""
    statistics = measured.statistics
    notes: list[str] = []
    if "width" in contents:
        notes.append(
            f"±: half the width of the {interval_words(statistics)}; both ends in correlations.csv."
        )
    if "rank" in contents:
        notes.append(f"rank: {rank_words(statistics)}.")
        n_metrics = len(measured.scored.metrics)
        n_pairs = n_metrics * (n_metrics - 1) // 2
        min_replicates = int(np.ceil(2 * n_pairs / (1 - statistics.level)))
        if statistics.correction == "holm" and statistics.replicates < min_replicates:
            notes.append(
                f"Holm's correction for {n_pairs} pairs cannot find a difference with so few replicates: set "
                f"statistics.replicates={min_replicates} or more."
            )
    return notes


def difference_tables(
    measured: MeasuredDataset, tests: Sequence[str], labels: Mapping[str, str]
) -> list[ResultTable]:
    """Return a table a coefficient with every two metrics, the better one first.

    Args:
        measured: with differences; there are no tables without.
        tests: whose p-values are shown.
        labels: the metrics' names in tables.
    """
    if measured.differences is None or not tests:
        return []
    statistics = measured.statistics
    tables: list[ResultTable] = []
    grouped: Any = measured.differences.groupby(["dimension", "coefficient"], sort=False)
    for (dimension, coefficient), differences in grouped:
        coefficient_object = find_coefficient(coefficient)
        if not coefficient_object.is_summary(dimension):
            continue
        available_tests = [test for test in tests if test in set(differences["test"])]
        pairs = differences.groupby(["metric_a", "metric_b"], sort=False)
        rows = [
            _difference_row(
                pair.set_index("test"),
                available_tests,
                p_value_column(statistics.correction),
                labels,
            )
            for _, pair in pairs
        ]
        title = f"{measured.caption_set.card.title}, {dimension}: differences of {coefficient_object.symbol}"
        columns = ["difference", "from", "to", *(_TEST_LABELS[test] for test in available_tests)]
        notes = [
            f"from, to: {100 * statistics.level:g} % interval by resampling images; p is corrected for "
            f"{len(rows)} pair{'s' * (len(rows) != 1)} ({CORRECTION_LABELS[statistics.correction]}); significance.csv has every value."
        ]
        tables.append(ResultTable(title, "metrics", columns, rows, notes=notes))
    return tables


def _difference_row(
    by_test: Any, tests: Sequence[str], p_value: str, labels: Mapping[str, str]
) -> tuple[str, list[str]]:
    first = by_test.loc["bootstrap"]
    sign = -1 if first["difference"] < 0 else 1
    ends = sorted((sign * first["ci_low"], sign * first["ci_high"]))
    numbers = (abs(first["difference"]), *ends)
    cells = [format_coefficient(float(v), first["coefficient"]) for v in numbers]
    cells += [format_p_value(float(by_test.loc[test, p_value])) for test in tests]
    better, worse = (labels[first[side]] for side in ("metric_a", "metric_b")[::sign])
    return f"{better} over {worse}", cells


def disattenuated_tables(measured: MeasuredDataset, labels: Mapping[str, str]) -> list[ResultTable]:
    """Return Pearson's r before and after correction for the ratings' noise, a table a dimension."""
    labels = {**FLOORS, **labels}
    tables: list[ResultTable] = []
    grouped: Any = measured.disattenuated.groupby("dimension", sort=False)
    for dimension, group in grouped:
        rows: list[tuple[str, list[str]]] = []
        for row in group.to_dict("records"):
            numbers = [row[c] for c in ("pearson", "reliability", "corrected")]
            numbers.append((row["ci_high"] - row["ci_low"]) / 2)
            rows.append((labels[row["metric"]], [format_number(float(v), 100, 1) for v in numbers]))
        title = (
            f"{measured.caption_set.card.title}, {dimension}: r corrected for the ratings' noise"
        )
        notes = ["corrected: r over the root of the reliability (disattenuated.csv says which)."]
        notes += dict.fromkeys(f"{note}." for note in group["note"] if note)
        columns = ["r", "reliability", "corrected", "±"]
        tables.append(ResultTable(title, "metric", columns, rows, notes=notes))
    return tables


def significance_frames(
    measured: Sequence[MeasuredDataset], metrics: Sequence[str], tests: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the differences of all datasets, and their corrected p-values as a matrix.

    Returns:
        the differences by the requested tests; and a row a metric, columns `dataset, protocol,
        dimension, coefficient, test, metric` and the metrics.
    """
    frames = [m.differences for m in measured if m.differences is not None]
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[frame["test"].isin(tests)].reset_index(drop=True)
    p_value = p_value_column(measured[0].statistics.correction)
    keys = ["dataset", "protocol", "dimension", "coefficient", "test"]
    rows: list[dict[str, Any]] = []
    grouped: Any = frame.groupby(keys, sort=False)
    for names, group in grouped:
        for metric in metrics:
            row: dict[str, Any] = dict(zip(keys, names, strict=True)) | {"metric": metric}
            for side, opponent in (("metric_a", "metric_b"), ("metric_b", "metric_a")):
                pairs = group[group[side] == metric]
                row |= dict(zip(pairs[opponent], pairs[p_value], strict=True))
            rows.append(row)
    return frame, pd.DataFrame(rows, columns=pd.Index([*keys, "metric", *metrics]))


def _records(frame: pd.DataFrame) -> Any:
    return frame.to_dict("records")
