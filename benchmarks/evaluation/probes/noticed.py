"""The share of faults that a metric notices by a lower score, with intervals by image; tables and a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ....metrics.base import Metric
from ...runs.frames import records_of
from ...runs.tables import MISSING, Cell, ResultTable, Row, count_cell, number_cell
from ...scoring.catalog import metric_labels, metric_style
from ...statistics.bootstrap import (
    StatisticsOptions,
    number_images,
    resample,
    statistic_intervals,
)
from ...statistics.preferences import wilson_interval
from ...statistics.remarks import Note, remark
from ...statistics.weighted_pairs import Floats
from ..wording import join_notes, notes_by_subject, number_word
from .faults import CONTROLS, FAULTS

PROBE_COLUMNS = ("metric", "fault", "value", "ci_low", "ci_high", "n_pairs", "note")
#: Scores that differ by less than this share of a metric's scale are equal: they differ by rounding, or as BLEU's smallest
#: constants do, which stand for 0.
TIE_SHARE = 1e-6
#: A fault is weak for a metric whose interval reaches below this share; a control is where it is all above a half.
NOTICED_SHARE = 0.7
#: How a sentence names a fault.
FAULT_WORDS = {
    "object": "swapped object",
    "attribute": "swapped attribute",
    "number": "changed number",
    "gender": "gender swap",
    "roles": "exchange of roles",
    "negation": "negation",
    "addition": "invented object",
    "other_image": "caption of another image",
    "half": "caption cut in half",
    "twice": "caption said twice",
    "eight_times": "caption said eight times",
    "shuffled": "caption with its words shuffled",
    "sorted": "list of the references' words",
    "joined": "caption joined from references",
    "generic": "caption that says nothing",
    "empty": "empty caption",
}
#: The most kinds of published faults in a table, whose names are long.
_MOST_KINDS = 7
#: Tables of at most nine columns, which a terminal has room for: their titles and columns.
_TABLES = (
    ("one thing in the caption changed", list(FAULTS)[:7]),
    ("another text in its place", list(FAULTS)[7:]),
    ("controls, after which a caption should not lose", list(CONTROLS)),
)


def find_noticed(
    pairs: pd.DataFrame, scores: Mapping[str, pd.Series], metrics: Sequence[Metric]
) -> pd.DataFrame:
    """Return 1 where a metric scores the faulty caption lower, ½ where both are equal, 0 elsewhere; NaN undefined.

    Args:
        pairs: columns `item_id, pair_id`.
        scores: by metric and item id.
        metrics: those that were scored.

    Returns:
        A column a metric.
    """
    columns: dict[str, Floats] = {}
    for metric in metrics:
        of_metric = scores[metric.spec]
        original = of_metric.loc[pairs["item_id"]].to_numpy(np.float64)
        faulty = of_metric.loc[pairs["pair_id"]].to_numpy(np.float64)

        # Two infinite scores are equal, and their difference is not a number.
        with np.errstate(invalid="ignore"):
            difference = np.where(original == faulty, 0.0, original - faulty)
        difference *= 1.0 if metric.higher_is_better else -1.0

        tie = TIE_SHARE * _scale_of(metric, of_metric.to_numpy(np.float64))
        noticed = np.where(abs(difference) <= tie, 0.5, (difference > 0).astype(np.float64))
        columns[metric.spec] = np.where(np.isnan(difference), np.nan, noticed)

    return pd.DataFrame(columns, index=pairs.index)


def _scale_of(metric: Metric, scores: Floats) -> float:
    """Return the width of a metric's scale: between its bounds, or else between its least and greatest score."""
    low, high = metric.bounds
    if low is not None and high is not None:
        return high - low

    finite = scores[np.isfinite(scores)]
    return float(np.ptp(finite)) if len(finite) else 0.0


def measure_probes(
    pairs: pd.DataFrame,
    noticed: pd.DataFrame,
    notes: Mapping[str, str],
    options: StatisticsOptions,
) -> list[dict[str, Any]]:
    """Return the rows of `probes.csv`, columns `PROBE_COLUMNS`, metric by metric.

    Where all pairs of a fault come out alike, resampling has no spread; Wilson's interval stands there.

    Args:
        pairs: columns `fault, image_id`.
        noticed: what `find_noticed` returned of them.
        notes: by fault.
        options: the kind of intervals.
    """
    rows: list[dict[str, Any]] = []
    for fault, note in notes.items():
        is_of_fault = (pairs["fault"] == fault).to_numpy()
        for metric, column in noticed.loc[is_of_fault].items():
            values = column.to_numpy(np.float64)
            is_defined = ~np.isnan(values)
            n_undefined = int((~is_defined).sum())
            undefined = ""
            if n_undefined:
                undefined = f"pairs left out for want of a score: {n_undefined:,}"

            images = pairs.loc[is_of_fault, "image_id"][is_defined]
            value, low, high, comment = _share_with_interval(values[is_defined], images, options)
            if math.isnan(value):
                comment = "no pairs"

            row = {
                "metric": str(metric),
                "fault": fault,
                "value": value,
                "ci_low": low,
                "ci_high": high,
                "n_pairs": int(is_defined.sum()),
                "note": join_notes(comment, undefined, note),
            }
            rows.append(row)

    specs = list(noticed.columns)
    return sorted(rows, key=lambda row: specs.index(row["metric"]))


def _share_with_interval(
    values: Floats, image_ids: pd.Series, options: StatisticsOptions
) -> tuple[float, float, float, str]:
    """Return a mean, both ends of its interval, and a remark on it."""
    if not len(values):
        return math.nan, math.nan, math.nan, ""

    value = float(values.mean())
    if not options.uses_resampling:
        return value, math.nan, math.nan, ""

    image, n_images = number_images(image_ids)
    if n_images < 2:
        return value, math.nan, math.nan, str(remark(Note.TOO_FEW_IMAGES, n_images=n_images))

    sums = np.bincount(image, values)
    counts = np.bincount(image).astype(np.float64)
    if np.ptp(sums / counts) == 0 and value in (0.0, 1.0):
        return value, *wilson_interval(value, n_images, options.level), ""

    def share(weights: Floats) -> Floats:
        return (sums @ weights / (counts @ weights))[None]

    (replicates,) = resample([share], n_images, options.replicates, options.seed)
    (interval,) = statistic_intervals(share, np.array([value]), replicates, n_images, options)
    return value, interval.low, interval.high, interval.note


def probe_tables(
    rows: pd.DataFrame,
    metrics: Sequence[Metric],
    source: str,
    level: float,
    kinds: Sequence[str] = (),
) -> list[ResultTable]:
    """Return the printed tables: a row a metric, a column a fault.

    Args:
        rows: columns `PROBE_COLUMNS`.
        metrics: those of the rows.
        source: where the captions are from.
        level: of the intervals.
        kinds: of the faults that the dataset's authors made.
    """
    titles_and_faults: list[tuple[str, Sequence[str]]] = []
    # Many published kinds take several tables, as one would be too wide.
    for start in range(0, len(kinds), _MOST_KINDS):
        title = "published faults, which people checked"
        titles_and_faults.append((title, kinds[start : start + _MOST_KINDS]))
    titles_and_faults += _TABLES

    labels = metric_labels(metrics)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    single_notes: list[tuple[str, str, str]] = []
    for row in records_of(rows):
        cells[row["metric"], row["fault"]] = row
        single_notes.append((row["fault"], labels[row["metric"]], row["note"]))

    tables: list[ResultTable] = []
    for title, faults in titles_and_faults:
        columns = [fault for fault in faults if fault in set(rows["fault"])]
        if not columns:
            continue

        table_rows: list[Row] = []
        for spec, label in labels.items():
            row_cells = [probe_cell(cells[spec, fault]) for fault in columns]
            table_rows.append(Row(label, row_cells))

        first = next(iter(labels))
        counts = [count_cell(cells[first, fault]["n_pairs"]) for fault in columns]
        table_rows.append(Row("pairs", counts))
        tables.append(ResultTable(f"{source}: {title}", "metric", columns, table_rows))
    notes = [
        "The share of pairs, ×100, in which the changed caption scores lower; ties count ½.",
        f"! a fault whose {100 * level:g} % interval reaches below {100 * NOTICED_SHARE:.0f}, or a control after which "
        f"a caption loses more often than not.",
        *notes_by_subject(single_notes),
    ]
    tables[-1] = replace(tables[-1], notes=notes, verdict=weakest_sentences(rows, labels))
    return tables


def example_table(
    pairs: pd.DataFrame, noticed: pd.DataFrame, metrics: Sequence[Metric]
) -> ResultTable:
    """Return an example of each change, both captions side by side: the pair that the most metrics miss.

    Args:
        pairs: columns `fault, caption, faulty_caption`.
        noticed: what `find_noticed` returned of them.
        metrics: those of its columns.
    """
    rows: list[Row] = []
    for fault, part in pairs.groupby("fault", sort=False):
        example = noticed.loc[part.index].mean(axis=1).fillna(1.0).idxmin()
        labels: list[str] = []
        for metric in metrics:
            # A tie is ½, and not a fault that scores higher.
            if noticed.at[example, metric.spec] == 0.0:
                labels.append(metric_style(metric).label)
        caption = str(pairs.at[example, "caption"]).strip()
        faulty = str(pairs.at[example, "faulty_caption"]).strip()
        rows.append(Row(str(fault), [caption, faulty, ", ".join(labels) or MISSING]))

    columns = ["caption", "with the fault", "scored higher by"]
    title = "an example of each change: the pair that the most metrics miss"
    return ResultTable(title, "fault", columns, rows, numeric=False, is_detail=True)


def is_weak(row: Mapping[str, Any]) -> bool:
    """Return whether a metric does not notice a fault often enough, or punishes a control."""
    if row["fault"] in CONTROLS:
        return row["ci_low"] > 0.5

    low = row["value"] if math.isnan(row["ci_low"]) else row["ci_low"]
    return low < NOTICED_SHARE


def probe_cell(row: Mapping[str, Any]) -> Cell:
    """Return a share ×100, with an exclamation mark where it is weak."""
    cell = number_cell(row["value"], 100, 0)
    return replace(cell, text=f"{cell}!") if is_weak(row) else cell


def weakest_sentences(rows: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """Say which fault each of the three metrics with the weakest spots misses most often."""
    faults = rows[~rows["fault"].isin(list(CONTROLS))].dropna(subset=["value"])
    weakest = faults.sort_values("value", kind="stable").groupby("metric", sort=False).head(1)

    sentences: list[str] = []
    for row in weakest.head(3).to_dict("records"):
        words = FAULT_WORDS.get(row["fault"], f"fault of the kind {row['fault']}")
        share = _describe_share(row["value"], row["n_pairs"], words)
        sentences.append(f"{labels[row['metric']]} {share}.")

    return " ".join(sentences)


def _describe_share(value: float, n_pairs: int, fault: str) -> str:
    """Return "misses one gender swap out of three" or "notices only one negation out of four" for a share that is noticed.

    "Every" and "no" are said of all pairs and of none alone, but for rounding. A tie counts half, so that a share of less
    than one pair is that of a tie, and no fault is noticed.
    """
    missed = 1 - value
    if missed <= 1e-9:
        return f"notices every {fault}"
    if value * n_pairs < 1 - 1e-9:
        return f"notices no {fault}"

    verb = "misses"
    share = missed
    if missed > 0.5:
        verb = "notices only"
        share = value
    number = round(1 / share)
    number_text = number_word(number) if number <= 10 else f"{number:,}"

    return f"{verb} one {fault} out of {number_text}"
