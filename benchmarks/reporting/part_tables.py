"""Tables of the parts of a run on the report page, with a verdict: coefficients of a dataset, or scores of one's own captions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..evaluation.headline import find_headline, sort_by_headline
from ..evaluation.measured_dataset import row_key
from ..evaluation.pair_tests import PairTests, Standing
from ..evaluation.reliability import UNKNOWN
from ..evaluation.verdicts import metric_verdict
from ..evaluation.wording import (
    CORRECTION_LABELS,
    interval_words,
    list_words,
    system_level_note,
    undefined_notes,
)
from ..runs.frames import records_of
from ..runs.tables import (
    MISSING,
    AnyCell,
    Cell,
    ResultTable,
    Row,
    TableNote,
    coefficient_cell,
    count_cell,
    count_of,
    format_coefficient,
    mark_best,
)
from ..scoring.catalog import MetricStyle
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from .run_parts import RunDataset, ScoredCaptions
from .tables.corpus_score_tables import score_verdict

#: Metric, dimension and coefficient.
ColumnKey = tuple[str, str, str]


@dataclass(frozen=True)
class CoefficientTable:
    """The coefficients of a dataset, metrics sorted by the leading one.

    Attributes:
        part: the dataset.
    """

    part: RunDataset

    def lead(self) -> str:
        """Describe the captions, their judgements and the protocol in a line."""
        part = self.part
        counts = part.correlations[["n_items", "n_ratings"]].max()
        n_items, n_ratings = int(counts["n_items"]), int(counts["n_ratings"])
        has_pairs_alone = are_of_preferences(part.correlations["coefficient"]).all()
        # A coefficient without a value counts nothing, though people judged the captions.
        if part.correlations["value"].isna().all() and not has_pairs_alone:
            n_items, n_ratings = len(part.items), len(part.ratings)
        unit = "preference pair" if has_pairs_alone else "rating"
        sizes = f"{count_of(n_items, 'caption')}, {count_of(n_ratings, unit)}"
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
        names: dict[tuple[str, str], None] = {}
        for _, dimension, coefficient in self.row_by_key:
            names[dimension, coefficient] = None
        return list(names)

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
        dimensions: set[str] = set()
        for dimension, coefficient in self.columns:
            if not find_coefficient(coefficient).is_of_preferences:
                dimensions.add(dimension)
        return len(dimensions) > 1

    @cached_property
    def ranks(self) -> dict[ColumnKey, int]:
        """The rank of each metric; empty where nothing was tested."""
        ranks: dict[ColumnKey, int] = {}
        for key, rank in self.part.run.rank_by_key.items():
            dataset, dimension, coefficient, metric = key
            if dataset == self.part.dataset:
                ranks[metric, dimension, coefficient] = rank
        return ranks

    def value(self, metric: str, column: tuple[str, str]) -> float:
        """Return a coefficient; NaN where there is none."""
        return float(self.row_by_key.get((metric, *column), {}).get("value", math.nan))

    @cached_property
    def names(self) -> list[str]:
        """The metrics from the best to the worst, then floors and what people reach."""
        metrics = self.part.metrics
        values = {metric: self.value(metric, self.leading_column) for metric in metrics}
        order = {metric: index for index, metric in enumerate(metrics)}
        names = dict.fromkeys(sort_by_headline(values, order))
        # Rows of no metric of the run are those of floors and ceilings.
        for name, _, _ in self.row_by_key:
            names.setdefault(name, None)
        return list(names)

    def head(self, column: tuple[str, str]) -> str:
        """Return the head of a column."""
        dimension, coefficient = column
        coefficient_object = find_coefficient(coefficient)
        is_named = self.has_several_dimensions or coefficient_object.is_of_preferences
        return f"{dimension} {coefficient_object.symbol}" if is_named else coefficient_object.symbol

    def cell(self, metric: str, column: tuple[str, str]) -> AnyCell:
        """Return the cell of a coefficient; empty where the run has no such row."""
        if (metric, *column) not in self.row_by_key:
            return ""
        return coefficient_cell(self.value(metric, column), column[1])

    def verdict(self) -> str:
        """Say in one sentence where the user's own metrics stand, or which agrees best with people.

        It is the sentence that the run printed, whose tests it may not have kept; without one, that of the numbers.
        """
        if printed := self.part.run.verdicts.get(self.part.dataset, ""):
            return printed

        column = dimension, coefficient = self.leading_column
        is_named = self.has_several_dimensions or find_coefficient(coefficient).is_of_preferences
        standings: list[Standing] = []
        for metric in self.names:
            value = self.value(metric, column)
            if metric not in self.part.metrics or math.isnan(value):
                continue

            row = self.row_by_key[metric, *column]
            standing = Standing(
                self.part.label(metric),
                value,
                rank=self.ranks.get((metric, *column)),
                low=float(row["ci_low"]),
                is_own=self.part.metric_kind(metric) == "given",
                name=metric,
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
            has_differences=self.part.run.command == "compare",
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

    def _interval(self, metric: str, column: tuple[str, str]) -> AnyCell:
        """Return the cell of an interval's ends; empty where the run has no such row."""
        row = self.row_by_key.get((metric, *column))
        if row is None:
            return ""
        if pd.isna(row["ci_low"]):
            return Cell(MISSING)
        low = format_coefficient(float(row["ci_low"]), column[1])
        high = format_coefficient(float(row["ci_high"]), column[1])
        return Cell(f"{low} – {high}")

    def table(self) -> ResultTable:
        """Return metrics as rows, coefficients with intervals and ranks as columns; the best of a column is marked."""
        n_metrics = len(self.part.metrics)
        heads: list[str] = []
        columns: list[list[AnyCell]] = []
        for column in self.columns:
            cells = [self.cell(metric, column) for metric in self.names]
            heads.append(self.head(column))
            # Floors and what people reach do not compete.
            columns.append([*mark_best(cells[:n_metrics]), *cells[n_metrics:]])

            intervals = [self._interval(metric, column) for metric in self.names]
            has_intervals = any(str(interval) not in ("", MISSING) for interval in intervals)
            if has_intervals and find_coefficient(column[1]).is_summary(column[0]):
                heads.append("interval")
                columns.append([*intervals])

            ranks = [self.ranks.get((metric, *column)) for metric in self.names]
            if any(rank is not None for rank in ranks):
                heads.append("rank")
                columns.append([count_cell(rank) for rank in ranks])
        heads.append("kind")
        columns.append([self.part.metric_kind(metric) for metric in self.names])

        rows: list[Row] = []
        for index, metric in enumerate(self.names):
            rows.append(Row(self.part.label(metric), [column[index] for column in columns]))
        own_labels: set[str] = set()
        for metric in self.part.metrics:
            if self.part.metric_kind(metric) == "given":
                own_labels.add(self.part.label(metric))

        return ResultTable(
            "Coefficients ×100, the best of each in bold",
            "metric",
            heads,
            rows,
            notes=list_notes(self.part, set(heads)),
            own_labels=frozenset(own_labels),
        )


def list_notes(part: RunDataset, heads: set[str]) -> list[str]:
    """Return the lines below the table of coefficients."""
    styles = part.run.run.get("metrics", {})
    notes: list[str] = []
    for metric in part.metrics:
        notes.append(styles.get(metric, {}).get("note", ""))

    missing = part.run.find_reasons(part.dataset)
    # A reason that several metrics share stands once.
    labels_by_reason: dict[str, list[str]] = {}
    for metric, reason in missing.items():
        labels_by_reason.setdefault(str(reason), []).append(part.label(metric))
    for reason, labels in labels_by_reason.items():
        is_or_are = "is" if len(labels) == 1 else "are"
        names = list_words(labels, len(labels))
        notes.append(TableNote(f"{names} {is_or_are} missing: {reason}.", tuple(labels)))

    is_missing = part.correlations["metric"].isin(list(missing))
    computed = part.correlations[~is_missing]
    labels = {spec: part.label(spec) for spec in computed["metric"]}
    metrics = [spec for spec in part.metrics if spec not in missing]
    notes += undefined_notes(computed, labels, metrics)

    options = part.run.run.get("config", {}).get("statistics") or {}
    if "interval" in heads and options:
        words = interval_words(StatisticsOptions(**options))
        notes.append(TableNote(f"Intervals: {words}.", ("interval",)))
    if "rank" in heads:
        words = "Ranks: metrics that share a rank do not differ significantly."
        notes.append(TableNote(words, ("rank",)))
        if part.n_systems is not None:
            notes.append(system_level_note(part.n_systems))
    return [note for note in dict.fromkeys(notes) if note]


@dataclass(frozen=True)
class ScoreTable:
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

    def table(self) -> ResultTable:
        """Return metrics as rows and systems as columns; the best of a row, and those tied with it, are marked."""
        part = self.part
        has_agreement = any(part.agreement.values())
        # The metric by which the sentence above orders systems comes first, where its agreement with people is known.
        metrics = list(part.metrics)
        leading = metrics[part.leading_position]
        metrics.sort(key=lambda metric: metric != leading)

        rows: list[Row] = []
        for metric in metrics:
            best_systems = self._find_best_systems(metric)
            cells: list[AnyCell] = []
            for system in part.systems:
                cell = self._cell(system, metric)
                cells.append(replace(cell, emphasis="best") if system in best_systems else cell)
            if has_agreement:
                cells.append(part.agreement[metric] or UNKNOWN)
            rows.append(Row(part.label(metric), cells))

        heads = list(part.systems)
        if has_agreement:
            heads.append("agreement with people")
        notes: list[str] = [*self._legend(), *part.run.run.get("notes", [])]
        return ResultTable("Scores of all captions together", "metric", heads, rows, notes=notes)

    def _find_best_systems(self, metric: str) -> set[str]:
        """Return the systems that lead by a metric; none of a lone system."""
        standings = self.part.standings[metric]
        if len(self.part.systems) < 2:
            return set()

        best_systems: set[str] = set()
        for index, standing in enumerate(standings):
            # Systems share a rank where no test told them apart; without tests nobody has one.
            if index == 0 or standing.rank == 1:
                best_systems.add(standing.label)
        return best_systems

    def _legend(self) -> list[str]:
        """Explain what is bold; no line of a lone system."""
        part = self.part
        if len(part.systems) < 2:
            return []
        tied = ""
        if len(part.differences):
            correction = CORRECTION_LABELS[part.statistics.correction]
            tied = (
                " and those that share its rank: they do not differ significantly (paired bootstrap over images, "
                f"level {100 * (1 - part.statistics.level):g} %, {correction})"
            )
        return [f"Bold: the best system of a row{tied}."]

    def _cell(self, system: str, metric: str) -> Cell:
        """Return a score with half the width of its interval."""
        row = self.part.rows[system, metric]
        cell = self.part.score_cell(row["score"], metric)
        half_width = self.part.score_cell((row["ci_high"] - row["ci_low"]) / 2, metric)
        return cell if half_width.text == MISSING else replace(cell, text=f"{cell} ± {half_width}")
