"""Tables of correlations, of differences between metrics, and of corrected correlations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from ...metrics.base import Metric
from ..options import BenchOptions
from ..runs.tables import COEFFICIENT_STYLE, ResultTable, format_number
from ..scoring.catalog import metric_style
from ..statistics.intervals import (
    p_value_column,
)
from ..statistics.levels import remarks
from ..statistics.preferences import MEAN_CATEGORY
from ..statistics.rater_agreement import CEILINGS
from .floors import FLOOR_NOTES, FLOORS
from .measured_dataset import Measured, row_key
from .wording import describe_protocol, interval_words, rank_words


def table_of(measured: Measured, metrics: Sequence[Metric]) -> ResultTable:
    """The printed table of one dataset: metrics as rows in the field's order."""
    frame = measured.correlations
    styles = {m.spec: metric_style(m) for m in metrics}
    order = sorted(styles, key=lambda spec: styles[spec].order)
    found = {row_key(row): row for row in cast("Any", frame.to_dict("records"))}
    several = len(measured.protocol.dimension) > 1
    heads: list[str] = []
    latex: list[str] = []
    columns: list[tuple[str, str, str]] = []
    spare: list[int] = []
    for dimension, coefficient in dict.fromkeys(
        zip(frame["dimension"], frame["coefficient"], strict=True)
    ):
        plain, tex, _, _ = COEFFICIENT_STYLE[coefficient]
        if several or coefficient == "accuracy":
            plain, tex = f"{dimension} {plain}", f"{dimension.replace('_', ' ')} {tex}"
        shown = [("value", plain, tex)]
        if coefficient != "accuracy" or dimension == MEAN_CATEGORY:
            here = (frame["dimension"] == dimension) & (frame["coefficient"] == coefficient)
            if frame.loc[here, "ci_low"].notna().any():
                shown.append(("reach", "±", r"$\pm$"))
            if any(key[1:] == (dimension, coefficient) for key in measured.ranks):
                shown.append(("rank", "rank", "rank"))
        for what, head, latex_head in shown:
            spare += [len(heads)] if what != "value" else []
            heads.append(head)
            latex.append(latex_head)
            columns.append((what, dimension, coefficient))

    def cell(metric: str, what: str, dimension: str, coefficient: str) -> str:
        key = (metric, dimension, coefficient)
        if key not in found or (what == "rank" and key not in measured.ranks):
            return ""
        if what == "rank":
            return str(measured.ranks[key])
        row = found[key]
        value = row["value"] if what == "value" else (row["ci_high"] - row["ci_low"]) / 2
        return format_number(float(value), *COEFFICIENT_STYLE[coefficient][2:])

    below = {
        name: label
        for name, label in {**FLOORS, **CEILINGS}.items()
        if name in set(frame["metric"])
    }
    labels = {**{spec: one.label for spec, one in styles.items()}, **below}
    rows = [
        (labels[name], [cell(name, *column) for column in columns]) for name in (*order, *below)
    ]
    card = measured.caption_set.card
    counts = frame.groupby("coefficient", sort=False)[["n_items", "n_ratings"]].max()
    notes = ["Coefficients ×100."]
    if card.synthetic:
        notes.insert(0, "SYNTHETIC data, drawn by rule: nothing about real metrics follows.")
    what = "preference pairs" if set(frame["coefficient"]) == {"accuracy"} else "data points"
    notes.append(
        f"{int(counts['n_items'].max()):,} items, {int(counts['n_ratings'].max()):,} {what}; "
        f"protocol {measured.protocol.name}: {describe_protocol(measured.protocol)}."
    )
    if k := measured.protocol.k:
        fewer = sum(len(r) < k for r in measured.items["references"])
        if fewer:
            notes.append(f"Items with fewer than {k} references, of which all count: {fewer:,}.")
    notes += [n for n in dict.fromkeys(styles[spec].note for spec in order) if n]
    notes += [f"{FLOORS[name]}: {FLOOR_NOTES[name]}." for name in below if name in FLOORS]
    of_people = frame[frame["metric"].isin(CEILINGS) & ~frame["note"].str.startswith("undefined")]
    notes += dict.fromkeys(
        f"{CEILINGS[r['metric']]}: {r['note']}." for r in of_people.to_dict("records")
    )
    notes += _statistics_notes(measured, {what for what, _, _ in columns})
    notes += [measured.remark] if measured.remark else []
    notes += remarks(frame[frame["metric"].isin(order)], labels, measured.protocol.level)
    undefined = frame[frame["note"].str.startswith("undefined")]
    notes += [
        f"{labels[r['metric']]}, {r['dimension']} {r['coefficient']}: {r['note']}."
        for r in undefined.to_dict("records")
    ]
    title = card.title + (" (synthetic)" if card.synthetic else "")
    return ResultTable(
        f"{title}: agreement with people", "metric", heads, rows, latex, notes, spare=tuple(spare)
    )


def significance_frames(
    measured: Sequence[Measured], config: BenchOptions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The differences by the tests that were asked for; and the corrected p-values as a matrix with a
    row a metric, columns `dataset, protocol, dimension, coefficient, test, metric` and the metrics.
    """
    frames = [
        m.uncertainty.difference_table(m.caption_set.name, m.protocol.name)
        for m in measured
        if m.uncertainty is not None
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[frame["test"].isin(config.tests)].reset_index(drop=True)
    p_value = p_value_column(config.statistics.correction)
    metrics = [m.spec for m in config.metrics]
    rows: list[dict[str, Any]] = []
    keys = ["dataset", "protocol", "dimension", "coefficient", "test"]
    grouped: Any = frame.groupby(keys, sort=False)
    for names, group in grouped:
        for metric in metrics:
            row: dict[str, Any] = dict(zip(keys, names, strict=True)) | {"metric": metric}
            for side, other in (("metric_a", "metric_b"), ("metric_b", "metric_a")):
                here = group[group[side] == metric]
                row |= dict(zip(here[other], here[p_value], strict=True))
            rows.append(row)
    return frame, pd.DataFrame(rows, columns=pd.Index([*keys, "metric", *metrics]))


def difference_tables(measured: Measured, config: BenchOptions) -> list[ResultTable]:
    """What `captau compare` prints: of each coefficient every two metrics, the better one first."""
    if measured.uncertainty is None or not config.tests:
        return []
    options = config.statistics
    labels = {m.spec: metric_style(m).label for m in config.metrics}
    frame = measured.uncertainty.difference_table(measured.caption_set.name, measured.protocol.name)
    p_value = p_value_column(options.correction)
    heads = {
        "bootstrap": "p bootstrap",
        "permutation": "p permutation",
        "williams": "p Williams",
        "mcnemar": "p McNemar",
    }
    tables: list[ResultTable] = []
    grouped: Any = frame.groupby(["dimension", "coefficient"], sort=False)
    for (dimension, coefficient), group in grouped:
        if coefficient == "accuracy" and dimension != MEAN_CATEGORY:
            continue
        name, _, *scale = COEFFICIENT_STYLE[coefficient]
        shown = [t for t in config.tests if t in set(group["test"])]
        rows: list[tuple[str, list[str]]] = []
        for (a, b), pair in group.groupby(["metric_a", "metric_b"], sort=False):
            by_test = pair.set_index("test")
            first = by_test.loc["bootstrap"]
            sign = -1 if first["difference"] < 0 else 1
            ends = sorted((sign * first["ci_low"], sign * first["ci_high"]))
            cells = [format_number(float(v), *scale) for v in (abs(first["difference"]), *ends)]
            cells += [_p(float(by_test.loc[test, p_value])) for test in shown]
            better, worse = (labels[m] for m in ((a, b) if sign > 0 else (b, a)))
            rows.append((f"{better} over {worse}", cells))
        title = f"{measured.caption_set.card.title}, {dimension}: differences of {name}"
        columns = ["difference", "from", "to", *(heads[test] for test in shown)]
        how = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "none"}[options.correction]
        notes = [
            f"from, to: the {100 * options.level:g} % interval, images resampled; "
            f"correction of p for {len(rows)} pairs: {how}; all in significance.csv."
        ]
        tables.append(ResultTable(title, "metrics", columns, rows, notes=notes))
    return tables


def disattenuated_tables(measured: Measured, config: BenchOptions) -> list[ResultTable]:
    """Pearson's r before and after correction for the ratings' noise, a table a dimension."""
    labels = {**FLOORS, **{m.spec: metric_style(m).label for m in config.metrics}}
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


def _p(value: float) -> str:
    """A p-value as it is printed."""
    return "<0.001" if value < 0.001 else format_number(value, 1, 3)


def _statistics_notes(measured: Measured, shown: set[str]) -> list[str]:
    """What the columns of intervals and ranks mean."""
    options = measured.statistics
    notes: list[str] = []
    if "reach" in shown:
        notes.append(
            f"±: half the width of the {interval_words(options)}; both ends in correlations.csv."
        )
    if "rank" in shown:
        notes.append(f"rank: {rank_words(options)}.")
        competing = len(measured.asked)
        pairs = competing * (competing - 1) // 2
        needed = int(np.ceil(2 * pairs / (1 - options.level)))
        if options.correction == "holm" and options.replicates < needed:
            notes.append(
                f"Holm's correction for {pairs} pairs finds nothing with so few replicates: set "
                f"statistics.replicates={needed} or more."
            )
    return notes
