"""Tables of a measured dataset beside its correlations: differences between metrics, and corrected correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..runs.frames import groups_of, make_frame, records_by
from ..runs.tables import (
    ResultTable,
    Row,
    coefficient_cell,
    count_of,
    format_p_value,
    number_cells,
    p_value_cell,
)
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import find_coefficient
from ..statistics.intervals import p_value_column
from . import wording
from .judged_pairs import FLOORS
from .measured_dataset import MeasuredDataset

#: Heads of the columns of p-values.
_TEST_LABELS = {
    "bootstrap": "p bootstrap",
    "permutation": "p permutation",
    "williams": "p Williams",
    "mcnemar": "p McNemar",
}


def difference_tables(
    measured: MeasuredDataset, tests: Sequence[str], labels: Mapping[str, str]
) -> list[ResultTable]:
    """Return a table a coefficient with every two metrics, the better one first; all but the headline's are details.

    Args:
        measured: with differences; there are no tables without.
        tests: whose p-values are shown.
        labels: the metrics' names in tables.
    """
    if measured.differences is None or not tests:
        return []

    statistics = measured.statistics
    tables: list[ResultTable] = []
    groups = groups_of(measured.differences, "dimension", "coefficient")
    for (dimension, coefficient), differences in groups:
        coefficient_object = find_coefficient(coefficient)
        if not coefficient_object.is_summary(dimension):
            continue

        available_tests = [test for test in tests if test in set(differences["test"])]
        p_value = p_value_column(statistics.correction)
        rows: list[Row] = []
        for _, pair in groups_of(differences, "metric_a", "metric_b"):
            by_test = pair.set_index("test")
            rows.append(_difference_row(by_test, available_tests, p_value, labels))

        title = f"{measured.caption_set.card.title}, {dimension}: differences of {coefficient_object.symbol}"
        columns = ["difference", "from", "to", *(_TEST_LABELS[test] for test in available_tests)]
        notes = [
            f"from, to: {100 * statistics.level:g} % interval by resampling images; p is corrected for "
            f"{count_of(len(rows), 'pair')} ({wording.CORRECTION_LABELS[statistics.correction]}); significance.csv has every value."
        ]
        if note := _disagreement_note(differences, available_tests, statistics, labels):
            notes.append(note)
        is_detail = (dimension, coefficient) != measured.headline
        table = ResultTable(title, "metrics", columns, rows, notes=notes, is_detail=is_detail)
        tables.append(table)
    return tables


def _difference_row(
    by_test: Any, tests: Sequence[str], p_value: str, labels: Mapping[str, str]
) -> Row:
    first = by_test.iloc[0]
    metrics = [first["metric_a"], first["metric_b"]]
    ends = [first["ci_low"], first["ci_high"]]
    if first["difference"] < 0:
        # The better metric stands first, with the interval of its lead.
        metrics.reverse()
        ends = [-ends[1], -ends[0]]

    numbers = (abs(first["difference"]), *ends)
    cells = [coefficient_cell(float(v), first["coefficient"]) for v in numbers]
    cells += [p_value_cell(float(by_test.loc[test, p_value])) for test in tests]

    better, worse = (labels[metric] for metric in metrics)
    return Row(f"{better} over {worse}", cells)


def _disagreement_note(
    differences: pd.DataFrame,
    tests: Sequence[str],
    statistics: StatisticsOptions,
    labels: Mapping[str, str],
) -> str:
    """Say of which pairs tests disagree whether they differ significantly, and why; empty where none do.

    The test on which ranks rest is among them, printed or not.

    Args:
        differences: columns `SIGNIFICANCE_COLUMNS`, of one dimension and coefficient.
        tests: those that are printed.
        statistics: the level and the correction.
        labels: the metrics' names in tables.
    """
    ranking_test = find_coefficient(differences["coefficient"].iloc[0]).tests[0]
    compared_tests = list(dict.fromkeys((ranking_test, *tests)))
    p_value = p_value_column(statistics.correction)

    pairs: list[str] = []
    disagreeing_tests: set[str] = set()
    for _, pair in groups_of(differences, "metric_a", "metric_b"):
        by_test = records_by(pair, "test")
        p_values: dict[str, float] = {}
        for test in compared_tests:
            if test in by_test and not math.isnan(by_test[test][p_value]):
                p_values[test] = float(by_test[test][p_value])

        # The tests agree where all p-values are on one side of the level.
        verdicts = {p <= 1 - statistics.level for p in p_values.values()}
        if len(verdicts) < 2:
            continue

        row = by_test[compared_tests[0]]
        better = labels[row["metric_a"]]
        worse = labels[row["metric_b"]]
        if row["difference"] < 0:
            better, worse = worse, better
        numbers = [f"{test} {format_p_value(p)}" for test, p in p_values.items()]
        pairs.append(f"{better} over {worse} ({', '.join(numbers)})")
        disagreeing_tests |= set(p_values)

    if not pairs:
        return ""

    reasons = [wording.TEST_WORDS[test] for test in compared_tests if test in disagreeing_tests]
    return (
        f"The tests disagree on whether a lead is significant, {wording.list_words(pairs)}: "
        f"{wording.list_words(reasons, n_shown=len(reasons))}; ranks go by the p of {ranking_test}."
    )


def disattenuated_tables(measured: MeasuredDataset, labels: Mapping[str, str]) -> list[ResultTable]:
    """Return Pearson's r before and after correction for the ratings' noise, a table a dimension."""
    labels = {**FLOORS, **labels}
    tables: list[ResultTable] = []
    for dimension, group in groups_of(measured.disattenuated, "dimension"):
        rows: list[Row] = []
        for row in group.to_dict("records"):
            half_width = (row["ci_high"] - row["ci_low"]) / 2
            numbers = (row["pearson"], row["reliability"], row["corrected"], half_width)
            rows.append(Row(labels[row["metric"]], number_cells(numbers, 100, 1)))

        dataset = measured.caption_set.card.title
        title = f"{dataset}, {dimension}: r corrected for the ratings' noise"
        notes = ["corrected: r over the root of the reliability (disattenuated.csv says which)."]
        for note in filter(None, dict.fromkeys(group["note"])):
            notes.append(f"{note}.")
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
    for names, group in groups_of(frame, *keys):
        for metric in metrics:
            row: dict[str, Any] = dict(zip(keys, names, strict=True)) | {"metric": metric}
            # Each pair stands in the table once, and in the matrix on both sides of the diagonal.
            for side, opponent in (("metric_a", "metric_b"), ("metric_b", "metric_a")):
                pairs = group[group[side] == metric]
                row |= dict(zip(pairs[opponent], pairs[p_value], strict=True))
            rows.append(row)

    return frame, make_frame(rows, [*keys, "metric", *metrics])
