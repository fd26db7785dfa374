"""The overview of several datasets: each metric's headline coefficients, and their joint mean with interval and rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ...datasets import registry
from ...datasets.reading.source_files import identify_image
from ...metrics.base import Unavailability
from ..runs.finished_run import FinishedRun
from ..runs.frames import groups_of, make_frame, records_by, records_of
from ..runs.latex_text import escape_latex
from ..runs.progress_bar import StepProgress
from ..runs.results import OVERVIEW_COLUMNS, make_significance
from ..runs.tables import (
    AnyCell,
    Column,
    ResultTable,
    Row,
    TableNote,
    coefficient_cell,
    count_cell,
    join_titles,
)
from ..scoring.catalog import MetricStyle, own_labels, style_notes
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import Interval, StatisticsOptions, count_steps
from ..statistics.coefficients.coefficient import find_coefficient
from ..statistics.intervals import measure_uncertainty
from ..statistics.joint_mean import JOINT_KEY, JointPanel, JointPart, find_common_metrics
from ..statistics.panels import PreferencePanel, RatingPanel
from . import wording
from .evaluation_set import EvaluationSet
from .headline import sort_by_headline
from .measured_dataset import MeasuredDataset, build_panels
from .pair_tests import PairTests, Standing
from .scored_dataset import describe_gaps
from .verdicts import metric_verdict

#: The name of the joint rows' dataset, and the head of their column.
MEAN = "mean"
#: The coefficient whose format and sign the mean has.
_LIKE = JOINT_KEY[1]


@dataclass(frozen=True)
class OverviewColumn:
    """A dataset in the overview.

    Attributes:
        dataset, title: its name, and what tables call it.
        dimension, coefficient: its headline.
        quoted: the dimension that the dataset's card names as the headline; empty for none.
        references_words: how references are used, where it is not all at once.
        gaps: what `protocol.undefined=drop` leaves out of rows, by metric.
        rows: the correlations by metric.
        ranks: by metric.
        reasons: why metrics have no value, by metric.
    """

    dataset: str
    title: str
    dimension: str
    coefficient: str
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    reasons: Mapping[str, Unavailability] = field(default_factory=dict[str, Unavailability])
    quoted: str = ""
    references_words: str = ""
    gaps: Mapping[str, str] = field(default_factory=dict[str, str])

    def head(self, title: str, symbol: str) -> str:
        """Return the head of the column, with the dimension where the dataset's card names one."""
        dimension = self.dimension if self.dimension == self.quoted else ""
        return " ".join(filter(None, (title, dimension.replace("_", " "), symbol)))

    @property
    def short_title(self) -> str:
        """The name of the dataset in narrow tables."""
        short_title = ""
        if self.dataset in registry.names():
            short_title = registry.card(self.dataset).short_title
        return short_title or self.title

    @classmethod
    def of_dataset(
        cls, measured: MeasuredDataset, missing: Mapping[str, Unavailability]
    ) -> OverviewColumn:
        """Make the column of a measured dataset; `missing` has the reasons of metrics that cannot be computed."""
        dimension, coefficient = measured.headline
        frame = measured.correlations
        is_headline = (frame["dimension"] == dimension) & (frame["coefficient"] == coefficient)
        rows = records_by(frame[is_headline], "metric")
        undefined = _undefined_reasons(rows)

        ranks: dict[str, int] = {}
        for metric in rows:
            rank = measured.ranks.get((metric, dimension, coefficient))
            if rank is not None:
                ranks[metric] = rank

        gaps: dict[str, str] = {}
        if measured.protocol.undefined == "drop":
            for metric, scores in measured.scored.by_metric.items():
                if text := describe_gaps(scores, measured.protocol):
                    gaps[metric] = text

        name = measured.caption_set.name
        card = measured.caption_set.card
        return cls(
            name,
            card.title,
            dimension,
            coefficient,
            rows=rows,
            ranks=ranks,
            reasons={**undefined, **missing},
            quoted=card.headline,
            references_words=wording.references_words(measured.protocol),
            gaps=gaps,
        )

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], run: FinishedRun) -> OverviewColumn:
        """Make the column of a dataset's rows in a run's `overview.csv`."""
        name = rows[0]["dataset"]
        data: Mapping[str, Any] = run.run["data"].get(name, {})
        title = registry.card(name).title if not data and name in registry.names() else name
        row_by_metric = {row["metric"]: row for row in rows}
        protocol = run.find_protocol(name, "")
        ranks: dict[str, int] = {}
        for metric, row in row_by_metric.items():
            if not math.isnan(row["rank"]):
                ranks[metric] = int(row["rank"])
        return cls(
            name,
            data.get("title", title),
            rows[0]["dimension"],
            rows[0]["coefficient"],
            rows=row_by_metric,
            ranks=ranks,
            reasons={**_undefined_reasons(row_by_metric), **run.find_reasons(name)},
            quoted=data.get("headline", ""),
            references_words=wording.references_words(Protocol.from_record(protocol))
            if protocol
            else "",
        )

    def value(self, metric: str) -> float:
        """Return a metric's headline; NaN where there is none."""
        return float(self.rows.get(metric, {}).get("value", math.nan))

    def values(self, metrics: Iterable[str]) -> dict[str, float]:
        """Return the headline of each metric, see `value`."""
        return {metric: self.value(metric) for metric in metrics}


def _undefined_reasons(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Unavailability]:
    """Return why metrics have no value, by metric, as their rows say."""
    reasons: dict[str, Unavailability] = {}
    for metric, row in rows.items():
        if math.isnan(row["value"]):
            reasons[metric] = Unavailability(str(row["note"]))
    return reasons


@dataclass(frozen=True)
class JointMean:
    """The mean over the datasets that all metrics have.

    Attributes:
        datasets: their names.
        values, intervals, ranks: by metric.
        tests: of every two metrics, where they were kept.
        reason: why there is no mean; empty where there is one.
    """

    datasets: Sequence[str] = ()
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    intervals: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    tests: PairTests | None = None
    reason: str = ""

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> JointMean:
        """Read the mean from its rows of `overview.csv`, which do not say over which datasets it is."""
        values: dict[str, float] = {}
        intervals: dict[str, Interval] = {}
        ranks: dict[str, int] = {}
        for row in rows:
            metric = row["metric"]
            if math.isnan(row["value"]):
                continue
            values[metric] = row["value"]
            if not math.isnan(row["ci_low"]):
                intervals[metric] = Interval(low=row["ci_low"], high=row["ci_high"])
            if not math.isnan(row["rank"]):
                ranks[metric] = int(row["rank"])

        # Where there is no mean, each of its rows has the reason.
        reason = "" if values else rows[-1]["note"]
        return cls(values=values, intervals=intervals, ranks=ranks, reason=reason)


def compute_joint_mean(
    measured: Sequence[MeasuredDataset],
    columns: Sequence[OverviewColumn],
    metrics: Sequence[str],
    options: StatisticsOptions,
    progress: StepProgress,
) -> JointMean:
    """Average the headlines over the datasets that all metrics have, on one scale, and resample them jointly.

    An image's weight is drawn once wherever it stands, since datasets share images.

    Args:
        measured, columns: the datasets, in one order.
        metrics: the metrics that are listed.
        options: the kind of intervals and ranks.
        progress: advanced by each block of replicates and pair of metrics.
    """
    names, common = _find_common(columns, metrics)
    if len(names) < 2:
        reason = "There is no mean: fewer than two datasets with coefficients on one scale have all listed metrics."
        return JointMean(reason=reason)
    joined = [m for m in measured if m.caption_set.name in names]
    panel = JointPanel.join([_joint_part(m) for m in joined], common)
    if not options.uses_resampling:
        everything = np.ones((panel.n_images, 1))
        points = panel.defined_points("")
        plain_means: dict[str, float] = {}
        for metric in common:
            compute_mean = panel.statistic(metric, points)
            plain_means[metric] = float(compute_mean(everything)[0, 0])
        return JointMean(names, plain_means)

    progress.add_steps(count_steps(options.replicates, len(common)), "mean: replicates")
    uncertainty = measure_uncertainty([panel], common, options, advance=progress.advance)
    means = {metric: uncertainty.values[metric, *JOINT_KEY] for metric in common}
    ranks = uncertainty.compute_ranks({(m, *JOINT_KEY): value for m, value in means.items()})
    rows = make_significance(MEAN, MEAN, uncertainty.differences, options.replicates)
    counts_of_systems = [m.n_systems for m in joined if m.n_systems is not None]
    # The dataset with the fewest systems bounds what the mean can show.
    n_systems = min(counts_of_systems, default=None)
    return JointMean(
        datasets=names,
        values=means,
        intervals={metric: interval for (metric, *_), interval in uncertainty.intervals.items()},
        ranks={metric: rank for (metric, *_), rank in ranks.items()},
        tests=PairTests.of_significance(rows, JOINT_KEY, options, n_systems),
    )


def _find_common(
    columns: Sequence[OverviewColumn], metrics: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the datasets of the mean, and the metrics that all of them have."""
    values_by_dataset: dict[str, dict[str, float]] = {}
    for column in columns:
        # A coefficient without a known chance cannot be put on one scale with the others.
        if find_coefficient(column.coefficient).chance is not None:
            values_by_dataset[column.dataset] = column.values(metrics)
    return find_common_metrics(values_by_dataset)


def _joint_part(measured: MeasuredDataset) -> JointPart:
    """Return a dataset's part in the mean: the panel of its headline."""
    scored = measured.scored.in_order()
    headline = measured.headline
    selection = scored.selection
    panels = [p for p in build_panels(selection, scored.oriented) if headline in p.keys]
    panel = panels[0]
    if isinstance(panel, RatingPanel):
        panel = replace(panel, coefficients=(headline[1],))
    images = _images_of(selection, panel)
    return JointPart(panel, headline, [identify_image(image) for image in images])


def _images_of(selection: EvaluationSet, panel: Any) -> list[str]:
    """Return the image, or cluster, of each point of a panel."""
    if isinstance(panel, PreferencePanel):
        return selection.clusters.loc[selection.judged_pairs.frame["item_a"]].tolist()
    if panel.dimension in selection.protocol.dimension:
        return selection.image_of(selection.points(panel.dimension)).tolist()
    frame = selection.all_pairs.frame  # graded preferences, each in both orders
    items = frame.loc[frame["dimension"] == panel.dimension, "item_a"]
    return selection.clusters.loc[items].tolist() * 2


@dataclass(frozen=True)
class DatasetsOverview:
    """The overview of a run of several datasets.

    Attributes:
        columns: the datasets.
        joint: their mean.
        styles: each metric's, by spec, in the order of the options.
        statistics: the kind of intervals and ranks.
        absent: datasets of a set that are not here.
        n_images: the images of the mean's datasets, one that stands in two of them counted twice; None where it is not
            known, or the tests are.
        verdict: the sentence that the run printed, which knew its tests; empty where it is made of the numbers.
    """

    columns: Sequence[OverviewColumn]
    joint: JointMean
    styles: Mapping[str, MetricStyle]
    statistics: StatisticsOptions
    absent: Sequence[str] = ()
    n_images: int | None = None
    verdict: str = ""

    @classmethod
    def of_run(cls, run: FinishedRun) -> DatasetsOverview | None:
        """Read the overview of a finished run; None where the run wrote none."""
        if not run.has_file("overview.csv"):
            return None
        styles = {spec: MetricStyle(**style) for spec, style in run.run["metrics"].items()}
        is_mean = run.overview["coefficient"] == MEAN

        columns: list[OverviewColumn] = []
        for _, rows in groups_of(run.overview[~is_mean], "dataset"):
            columns.append(OverviewColumn.of_rows(records_of(rows), run))

        joint = JointMean.of_rows(records_of(run.overview[is_mean]))
        if joint.values:
            joint = replace(joint, datasets=_find_common(columns, list(styles))[0])

        config = run.run["config"]
        statistics = StatisticsOptions(**config.get("statistics") or {})
        counts = [run.run.get("n_images", {}).get(name) for name in joint.datasets]
        n_images = None if None in counts else sum(counts)
        return cls(
            columns=columns,
            joint=joint,
            styles=styles,
            statistics=statistics,
            absent=config.get("absent", ()),
            n_images=n_images,
            verdict=run.verdicts.get(MEAN, ""),
        )

    @property
    def metrics(self) -> list[str]:
        """The metrics from the best to the worst, by the mean, or else by the first dataset."""
        order = {spec: style.order for spec, style in self.styles.items()}
        by_first = sort_by_headline(self.columns[0].values(self.styles), order)

        means = {metric: self.joint.values.get(metric, math.nan) for metric in self.styles}
        return sort_by_headline(means, {m: number for number, m in enumerate(by_first)})

    def frame(self) -> pd.DataFrame:
        """Return the rows of `overview.csv`, columns `OVERVIEW_COLUMNS`; those of the mean stand last."""
        rows: list[dict[str, Any]] = []
        for column in self.columns:
            for metric in self.styles:
                row = column.rows.get(metric, {})
                numbers = ("value", "ci_low", "ci_high")
                rows.append(
                    {
                        **{name: row.get(name, math.nan) for name in numbers},
                        "metric": metric,
                        "dataset": column.dataset,
                        "dimension": column.dimension,
                        "coefficient": column.coefficient,
                        "rank": column.ranks.get(metric),
                        "note": str(column.reasons.get(metric, row.get("note", ""))),
                    }
                )
        for metric in self.styles:
            interval = self.joint.intervals.get(metric, Interval())
            rows.append(
                {
                    "metric": metric,
                    "dataset": MEAN,
                    "dimension": "",
                    "coefficient": MEAN,
                    "value": self.joint.values.get(metric, math.nan),
                    "ci_low": interval.low,
                    "ci_high": interval.high,
                    "rank": self.joint.ranks.get(metric),
                    "note": interval.note or self.mean_note(),
                }
            )
        return make_frame(rows, OVERVIEW_COLUMNS).astype({"rank": "Int64"})

    @property
    def mean_words(self) -> str:
        """The datasets of the mean, in words."""
        titles: list[str] = []
        coefficients: list[str] = []
        for column in self.columns:
            if column.dataset in self.joint.datasets:
                titles.append(column.title)
                coefficients.append(column.coefficient)
        return wording.mean_words(titles, coefficients)

    def mean_note(self) -> str:
        """Say over which datasets the mean is and which it leaves out, or why there is none."""
        if self.joint.reason:
            return self.joint.reason

        left_out: list[str] = []
        for column in self.columns:
            # A coefficient without a known chance has no place in a mean, whoever has numbers.
            is_eligible = find_coefficient(column.coefficient).chance is not None
            values = column.values(self.styles).values()
            has_numbers = not all(math.isnan(value) for value in values)
            if column.dataset not in self.joint.datasets and is_eligible and has_numbers:
                left_out.append(column.title)
        return f"mean: {self.mean_words}{wording.left_out_words(left_out)}."

    def brief_mean_note(self) -> str:
        """Say the same as `mean_note` without the names of the datasets, where the mean is over all of them."""
        if len(self.joint.datasets) < len(self.columns):
            return self.mean_note()
        coefficients = [column.coefficient for column in self.columns]
        return f"mean: {wording.mean_words(['all datasets'], coefficients)}."

    def table(self) -> ResultTable:
        """Return the printed table: a row a metric, a column a dataset, and the mean with interval and rank."""
        columns: list[str | Column] = []
        for column in self.columns:
            coefficient = find_coefficient(column.coefficient)
            head = column.head(column.title, coefficient.symbol)
            short = column.head(column.short_title, coefficient.symbol)
            latex = column.head(escape_latex(column.title), coefficient.latex)
            columns.append(Column(head, latex=latex, short=short))

        rows: list[Row] = []
        for metric in self.metrics:
            cells: list[AnyCell] = []
            for column in self.columns:
                cells.append(coefficient_cell(column.value(metric), column.coefficient))
            if self.joint.values:
                cells += self._joint_cells(metric)
            rows.append(Row(self.styles[metric].label, cells))
        if self.joint.values:
            columns += [MEAN, "±", "rank"]

        return ResultTable(
            "Agreement with people on several datasets",
            "metric",
            columns,
            rows,
            notes=self._notes(),
            spare=tuple((index,) for index in self._spare_columns()),
            own_labels=own_labels(self.styles),
            verdict=self.verdict or self._verdict(),
            dataset=MEAN,
        )

    def _spare_columns(self) -> list[int]:
        """Return all columns but one, those first that are empty, and then those that the mean leaves out."""

        def use(index: int) -> tuple[bool, bool, int]:
            column = self.columns[index]
            values = column.values(self.styles).values()
            is_empty = all(math.isnan(value) for value in values)
            return not is_empty, column.dataset in self.joint.datasets, -index

        return sorted(range(len(self.columns)), key=use)[:-1]

    def _joint_cells(self, metric: str) -> list[AnyCell]:
        """Return the mean of a metric, half the width of its interval, and its rank."""
        interval = self.joint.intervals.get(metric, Interval())
        mean = self.joint.values.get(metric, math.nan)
        return [
            coefficient_cell(mean, _LIKE),
            coefficient_cell((interval.high - interval.low) / 2, _LIKE),
            count_cell(self.joint.ranks.get(metric)),
        ]

    def _verdict(self) -> str:
        """Say where one's own metrics stand by the mean, or which metric is best."""
        if not self.joint.values:
            return ""
        standings: list[Standing] = []
        for metric in self.metrics:
            if metric in self.joint.values:
                style = self.styles[metric]
                interval = self.joint.intervals.get(metric, Interval())
                standing = Standing(
                    style.label,
                    self.joint.values[metric],
                    rank=self.joint.ranks.get(metric),
                    low=interval.low,
                    is_own=style.kind == "given",
                    name=metric,
                    high=interval.high,
                )
                standings.append(standing)
        tests = self.joint.tests
        if tests is None:
            tests = PairTests.of_ranks(standings, self.statistics, self.n_images)
        return metric_verdict(standings, tests, _LIKE, head=MEAN)

    def _notes(self) -> list[str]:
        """Return the lines below the table."""
        mean_note = self.mean_note()
        has_mean = bool(self.joint.values)
        coefficients_note = "Coefficients ×100."
        notes: list[str] = [
            TableNote.detail(coefficients_note) if has_mean else coefficients_note,
            TableNote(mean_note, (MEAN,), brief=f"Coefficients ×100; {mean_note}")
            if has_mean
            else mean_note,
        ]
        if self.joint.intervals:
            remark = ", an image drawn once for all datasets"
            notes.append(wording.half_width_note(self.statistics, "", remark))
            notes.append(wording.rank_note(self.statistics))
        notes += self._references_notes()
        notes += self._gap_notes()
        notes += [TableNote.detail(note) for note in style_notes(self.styles.values())]
        if self.absent:
            notes.append(f"Not here: {', '.join(self.absent)}.")
        return notes

    def _references_notes(self) -> list[str]:
        """Say on which datasets candidates are not scored against all references at once."""
        titles_by_words: dict[str, list[str]] = {}
        for column in self.columns:
            if column.references_words:
                titles_by_words.setdefault(column.references_words, []).append(column.title)
        return [f"{join_titles(titles)}: {words}." for words, titles in titles_by_words.items()]

    def _gap_notes(self) -> list[str]:
        """Say why cells are empty: each reason once, with the metrics and the datasets that it holds for."""
        labels_by_gap: dict[tuple[str, Unavailability], list[str]] = {}
        for column in self.columns:
            for metric, reason in column.reasons.items():
                if metric in self.styles:
                    gap = (column.title, reason)
                    labels_by_gap.setdefault(gap, []).append(self.styles[metric].label)

        titles_by_reason: dict[tuple[Unavailability, tuple[str, ...]], list[str]] = {}
        for (title, reason), labels in labels_by_gap.items():
            titles_by_reason.setdefault((reason, tuple(labels)), []).append(title)

        notes: list[str] = []
        for (reason, labels), titles in titles_by_reason.items():
            are_all = len(labels) == len(self.styles)
            datasets = join_titles(titles)
            if reason.need:
                subject = wording.list_words(labels, len(labels))
                if are_all:
                    subject = "all of these metrics"
                verb = "needs" if len(labels) == 1 and not are_all else "need"
                have = "has" if len(titles) == 1 else "have"
                notes.append(f"{datasets} {have} no {reason.need}, which {subject} {verb}.")
            else:
                subject = "" if are_all else f" {', '.join(labels)}:"
                notes.append(f"{datasets}:{subject} {str(reason).removesuffix('.')}.")

        for column in self.columns:
            for metric, words in column.gaps.items():
                if metric in self.styles:
                    notes.append(f"{column.title}: {self.styles[metric].label}: {words}.")
        return notes
