"""The overview of the report page: a verdict, and the table of coefficients or of one's own captions' scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..evaluation.headline import find_headline, sort_by_headline
from ..evaluation.measured_dataset import row_key
from ..evaluation.pair_tests import PairTests, Standing
from ..evaluation.wording import (
    CORRECTION_LABELS,
    interval_words,
    metric_verdict,
    system_level_note,
)
from ..runs.frames import records_of
from ..runs.tables import MISSING, ResultTable, count_of, format_coefficient
from ..scoring.catalog import MetricStyle
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from .run_parts import RunDataset, ScoredCaptions
from .tables.corpus_score_tables import score_verdict

#: Metric, dimension and coefficient.
ColumnKey = tuple[str, str, str]


@dataclass(frozen=True)
class Overview:
    """The coefficients of a dataset, metrics sorted by the leading one.

    Attributes:
        part: the dataset.
    """

    part: RunDataset

    def lead(self) -> str:
        """Describe the captions, their judgements and the protocol in a line."""
        part = self.part
        counts = part.correlations[["n_items", "n_ratings"]].max()
        has_pairs_alone = are_of_preferences(part.correlations["coefficient"]).all()
        unit = "preference pair" if has_pairs_alone else "rating"
        sizes = f"{count_of(int(counts['n_items']), 'caption')}, {count_of(int(counts['n_ratings']), unit)}"
        options: Any = part.run.run.get("protocols", {}).get(part.dataset)
        try:
            protocol = Protocol.from_record(options)
        except (AttributeError, TypeError):
            return f"{sizes}; protocol {part.protocol}."
        return f"{sizes}; protocol {part.protocol}: {protocol.describe()}."

    @cached_property
    def row_by_key(self) -> dict[ColumnKey, dict[str, Any]]:
        """The rows of `correlations.csv` by metric, dimension and coefficient."""
        return {row_key(row): row for row in records_of(self.part.correlations)}

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Every dimension and coefficient, in the run's order."""
        return list(dict.fromkeys((d, c) for _, d, c in self.row_by_key))

    @cached_property
    def leading_column(self) -> tuple[str, str]:
        """The column by which metrics are sorted: the dataset's headline."""
        part = self.part
        options = part.run.find_protocol(part.dataset, part.protocol) or {}
        quoted = part.run.run.get("data", {}).get(part.dataset, {}).get("headline", "")
        return find_headline(self.columns, options.get("coefficients", ()), quoted)

    @cached_property
    def has_several_dimensions(self) -> bool:
        """Tell whether a coefficient's dimension has to be named."""
        return len({d for d, c in self.columns if not find_coefficient(c).is_of_preferences}) > 1

    @cached_property
    def ranks(self) -> dict[ColumnKey, int]:
        """The rank of each metric; empty where nothing was tested."""
        by_key = self.part.run.rank_by_key.items()
        return {(m, d, c): rank for (name, d, c, m), rank in by_key if name == self.part.dataset}

    def value(self, metric: str, column: tuple[str, str]) -> float:
        """Return a coefficient; NaN where there is none."""
        return float(self.row_by_key.get((metric, *column), {}).get("value", math.nan))

    @cached_property
    def names(self) -> list[str]:
        """The metrics from the best to the worst, then floors and what people reach."""
        values = {m: self.value(m, self.leading_column) for m in self.part.metrics}
        order = {metric: index for index, metric in enumerate(self.part.metrics)}
        return [
            *sort_by_headline(values, order),
            *(m for m in dict.fromkeys(r[0] for r in self.row_by_key) if m not in values),
        ]

    def head(self, column: tuple[str, str]) -> str:
        """Return the head of a column."""
        dimension, coefficient = column
        coefficient_object = find_coefficient(coefficient)
        is_named = self.has_several_dimensions or coefficient_object.is_of_preferences
        return f"{dimension} {coefficient_object.symbol}" if is_named else coefficient_object.symbol

    def format_value(self, metric: str, column: tuple[str, str]) -> str:
        """Return a coefficient as tables print it; empty where the run has no such row."""
        if (metric, *column) not in self.row_by_key:
            return ""
        return format_coefficient(self.value(metric, column), column[1])

    def verdict(self) -> str:
        """Say in one sentence where the user's own metrics stand, or which agrees best with people."""
        column = dimension, coefficient = self.leading_column
        is_named = self.has_several_dimensions or find_coefficient(coefficient).is_of_preferences
        standings: list[Standing] = []
        for m in self.names:
            value = self.value(m, column)
            if m in self.part.metrics and not math.isnan(value):
                row = self.row_by_key[m, *column]
                standing = Standing(
                    self.part.label(m),
                    value,
                    rank=self.ranks.get((m, *column)),
                    low=float(row["ci_low"]),
                    is_own=self.part.metric_kind(m) == "given",
                    name=m,
                    high=float(row["ci_high"]),
                )
                standings.append(standing)
        return metric_verdict(
            standings,
            self._find_tests(standings),
            coefficient,
            dimension if is_named else "",
            self.value("ceiling_one_vs_one", column),
            chance=self._chance(dimension, coefficient),
        )

    def _chance(self, dimension: str, coefficient: str) -> float:
        """Return what scores that say nothing reach in a dimension; NaN where that is unknown."""
        part = self.part
        protocol = part.run.find_protocol(part.dataset, part.protocol) or {}
        coefficient_object = find_coefficient(coefficient)
        ratings = np.empty(0)
        # At another level the value is a mean over groups, each with a chance of its own.
        if coefficient_object.chance is None and protocol.get("level", "pooled") == "pooled":
            of_dimension = part.ratings[part.ratings["dimension"] == dimension]
            values = of_dimension["value"]
            if protocol.get("ratings") != "per_rating":
                values = of_dimension.groupby("item_id")["value"].mean()
            ratings = values.to_numpy(dtype=np.float64)
        return coefficient_object.chance_on(ratings, protocol.get("ties", "half"))

    def _find_tests(self, standings: Sequence[Standing]) -> PairTests:
        """Return what the tests of every two metrics found, or what the ranks say of it where the run kept no tests."""
        part = self.part
        statistics = StatisticsOptions(**part.run.run.get("config", {}).get("statistics") or {})
        if part.run.has_file("significance.csv"):
            rows = part.run.significance
            rows = rows[rows["dataset"] == part.dataset]
            tests = PairTests.of_significance(rows, self.leading_column, statistics, part.n_systems)
            if tests.findings:
                return tests
        n_images = part.run.run.get("n_images", {}).get(part.dataset)
        return PairTests.of_ranks(standings, statistics, n_images, part.n_systems)

    def _interval(self, metric: str, column: tuple[str, str]) -> str:
        row = self.row_by_key.get((metric, *column))
        if row is None or pd.isna(row["ci_low"]):
            return MISSING
        low, high = (format_coefficient(float(row[c]), column[1]) for c in ("ci_low", "ci_high"))
        return f"{low} – {high}"

    def table(self) -> tuple[ResultTable, set[tuple[int, int]]]:
        """Return metrics as rows, coefficients with intervals and ranks as columns; and which cells are the best."""
        heads: list[str] = []
        columns: list[list[str]] = []
        best: set[tuple[int, int]] = set()
        for column in self.columns:
            cells = [self.format_value(m, column) for m in self.names]
            competing = [c for c in cells[: len(self.part.metrics)] if c not in ("", MISSING)]
            if competing:
                top = max(competing, key=float)
                rows = range(len(self.part.metrics))
                best |= {(row, len(columns)) for row in rows if cells[row] == top}
            heads.append(self.head(column))
            columns.append(cells)
            intervals = [self._interval(m, column) for m in self.names]
            is_summary = find_coefficient(column[1]).is_summary(column[0])
            if set(intervals) != {MISSING} and is_summary:
                heads.append("interval")
                columns.append(intervals)
            ranks = [self.ranks.get((m, *column)) for m in self.names]
            if any(rank is not None for rank in ranks):
                heads.append("rank")
                columns.append(["" if rank is None else str(rank) for rank in ranks])
        heads.append("kind")
        columns.append([self.part.metric_kind(m) for m in self.names])
        lines = [
            (self.part.label(m), [column[index] for column in columns])
            for index, m in enumerate(self.names)
        ]
        title, notes = "Coefficients ×100, the best of each in bold", _notes(self.part, set(heads))
        return ResultTable(title, "metric", heads, lines, notes=notes), best


def _notes(part: RunDataset, heads: set[str]) -> list[str]:
    styles = part.run.run.get("metrics", {})
    notes = [styles.get(m, {}).get("note", "") for m in part.metrics]
    missing = part.run.run.get("missing", {}).get(part.dataset, {})
    notes += [f"{part.label(m)} is missing: {reason}." for m, reason in missing.items()]
    is_missing = part.correlations["metric"].isin(list(missing))
    undefined = part.correlations[part.correlations["value"].isna() & ~is_missing]
    notes += [
        f"{part.label(r['metric'])}, {r['dimension']} {r['coefficient']}: {r['note']}."
        for r in undefined.to_dict("records")
    ]
    options = part.run.run.get("config", {}).get("statistics") or {}
    if "interval" in heads and options:
        notes.append(f"Intervals: {interval_words(StatisticsOptions(**options))}.")
    if "rank" in heads:
        notes.append("Ranks: metrics that share a rank do not differ significantly.")
        if part.n_systems is not None:
            notes.append(system_level_note(part.n_systems))
    return [note for note in dict.fromkeys(notes) if note]


@dataclass(frozen=True)
class ScoreOverview:
    """The corpus scores of a user's own captions.

    Attributes:
        part: the captions.
    """

    part: ScoredCaptions

    def lead(self) -> str:
        """Describe how many captions were scored against what."""
        part = self.part
        n_images = int(part.corpus["n_images"].max())
        systems = f" of each of {len(part.systems)} systems" if len(part.systems) > 1 else ""
        lead = f"{n_images:,} captions{systems}"
        if part.has_several_references:
            lead += f", scored against the references {part.dataset}"
        return f"{lead}."

    def verdict(self) -> str:
        """Say in one sentence which system is best by the leading metric."""
        styles = {spec: MetricStyle(**style) for spec, style in self.part.styles.items()}
        return score_verdict(self.part.corpus, self.part.standings, self.part.tests, styles)

    def table(self) -> tuple[ResultTable, set[tuple[int, int]]]:
        """Return metrics as rows and systems as columns; and which cells are the best or tied with it."""
        part = self.part
        has_agreement = any(part.agreement.values())
        rows: list[tuple[str, list[str]]] = []
        best: set[tuple[int, int]] = set()
        for row, metric in enumerate(part.metrics):
            cells = [self._cell(system, metric) for system in part.systems]
            cells += [part.agreement[metric] or MISSING] if has_agreement else []
            rows.append((part.label(metric), cells))
            if len(part.systems) > 1:
                places = part.standings[metric]
                leading = [s for s in places if s is places[0] or s.rank == 1]
                best |= {(row, part.systems.index(s.label)) for s in leading}
        notes: list[str] = []
        if best:
            tied = ""
            if len(part.differences):
                correction = CORRECTION_LABELS[part.statistics.correction]
                tied = (
                    " and those that share its rank: they do not differ significantly (paired bootstrap over images, "
                    f"level {100 * (1 - part.statistics.level):g} %, {correction})"
                )
            notes.append(f"Bold: the best system of a row{tied}.")
        heads = [*part.systems, *(["agreement with people"] if has_agreement else [])]
        notes += part.run.run.get("notes", [])
        title = "Scores of all captions together"
        return ResultTable(title, "metric", heads, rows, notes=notes), best

    def _cell(self, system: str, metric: str) -> str:
        """Return a score with half the width of its interval."""
        row = self.part.rows[system, metric]
        score = self.part.format_score(row["score"], metric)
        half_width = self.part.format_score((row["ci_high"] - row["ci_low"]) / 2, metric)
        return score if half_width == MISSING else f"{score} ± {half_width}"
