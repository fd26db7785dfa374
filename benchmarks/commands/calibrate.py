"""`captau calibrate`: whether the yes of a metric or a judge can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError, Lack
from ...datasets.reading.caption_files import ReferenceFile, read_references, read_systems
from ...datasets.reading.pair_answers import PairAnswerFile, read_pair_answers
from ...datasets.reading.source_files import sha256
from ...metrics.base import Metric
from ...metrics.neural.judge.metric import MllmJudge
from ...metrics.neural.judge.pairs import PairJudgements, judge_pairs
from ...metrics.rows import Rows
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.judge_audit import PairLengths, audit_judge
from ..evaluation.judges.answered_pairs import place_answers
from ..evaluation.judges.calibration import (
    LEAST_OF_A_KIND,
    MEASURE_COLUMNS,
    Calibration,
    CalibrationChoices,
    LabelledScores,
    Measure,
    calibrate_scores,
    draw_first_half,
    has_both_kinds,
    require_both_kinds,
    undefined_calibration,
)
from ..evaluation.judges.calibration_tables import (
    CalibratedDimension,
    CalibrationTableChoices,
    calibration_tables,
    pair_table,
)
from ..evaluation.judges.further_answers import measure_repeats, measure_unlabelled
from ..evaluation.judges.unlabelled_captions import UnlabelledCaptions
from ..evaluation.prepared_datasets import LeftOutDatasets, PreparedDataset, prepare_datasets
from ..evaluation.threshold_curves import curve_names, mark_good_captions
from ..evaluation.wording import interval_words, join_notes
from ..options.calibrate import PAIR_PRESETS, CalibrateOptions
from ..options.python_function import make_function
from ..reporting.charts.calibration_charts import reliability_figure, roc_figure
from ..reporting.run_results import Results
from ..runs.frames import make_frame, mean_of
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock, tables_as_csv
from ..runs.tables import ResultTable
from ..scoring.catalog import metric_labels
from ..scoring.unavailable_metrics import (
    check_works_without_references,
    find_unavailable,
    warn_unavailable,
)
from ..statistics.bootstrap import number_images
from ..statistics.weighted_pairs import Floats, Ints, Mask

BIN_COLUMNS = (
    "dataset",
    "dimension",
    "metric",
    "bin",
    "low",
    "high",
    "predicted",
    "share_good",
    "ci_low",
    "ci_high",
    "n_items",
    "n_images",
)
ROC_COLUMNS = ("dataset", "dimension", "metric", "threshold", "tpr", "fpr")
#: The papers of shares' intervals, and of the corrected share.
CITATION = """@article{korn1998confidence,
  title={Confidence Intervals for Proportions with Small Expected Number of Positive Counts Estimated from Survey Data},
  author={Korn, Edward L. and Graubard, Barry I.},
  journal={Survey Methodology},
  volume={24},
  number={2},
  pages={193--201},
  year={1998}
}

"""
CORRECTION_CITATION = """@article{rogan1978estimating,
  title={Estimating prevalence from the results of a screening test},
  author={Rogan, Walter J. and Gladen, Beth},
  journal={American Journal of Epidemiology},
  volume={107},
  number={1},
  pages={71--76},
  year={1978}
}
"""
#: The dimension of rows about pairs of captions.
PAIRS = "pairs"


@dataclass
class _Findings:
    """The findings so far.

    Attributes:
        calibration, bins, roc: rows of the files.
        dimensions: for the tables, of each dataset and dimension.
        tables: of pairs.
        has_answers: whether some of them are of a judge's answers from a file.
    """

    calibration: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    bins: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    roc: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dimensions: list[CalibratedDimension] = field(default_factory=list[CalibratedDimension])
    tables: list[ResultTable] = field(default_factory=list[ResultTable])
    has_answers: bool = False


def run(options: CalibrateOptions) -> Results:
    """Measure whether metrics' yes can be believed.

    Returns:
        `calibration.csv`, a row a measure, `bins.csv` and `roc.csv`.

    Raises:
        InputError: on an unknown name, missing or malformed data, or too few good or bad captions in a half.
    """
    clock = RunClock()
    findings = _Findings()
    every_metric = [*options.metrics, *options.repeats]
    unlabelled = _read_unlabelled(options)
    answers = None
    if isinstance(options.pairs, Path):
        answers = read_pair_answers(options.pairs)
    left_out = LeftOutDatasets()

    def check(selection: EvaluationSet) -> None:
        if selection.ratings.empty and selection.preferences.empty:
            raise selection.lacking(Lack.JUDGEMENTS, "it has no ratings and no preferences")
        # Answers of a file can be measured without any metric.
        find_unavailable(every_metric, selection.items, needs_one=answers is None)

    with StepProgress(None) as progress:
        if unlabelled is not None:
            unlabelled = unlabelled.scored(options.metrics, options.locations.store(), progress)
        prepared_datasets = prepare_datasets(
            options.datasets,
            every_metric,
            options.locations,
            progress,
            needs_ratings=False,
            check=check,
        )
        for prepared in prepared_datasets:
            with left_out.leave_out(prepared.name):
                _DatasetCalibrator.make(prepared, options, unlabelled, answers, findings).add_all()

    if answers is not None and not findings.has_answers:
        raise _unplaced_answers(answers, list(options.datasets))
    left_out.check(len(prepared_datasets))
    prepared_datasets.left_out.update(left_out)
    warn_unavailable([prepared.missing for prepared in prepared_datasets])

    record = prepared_datasets.record(
        "calibrate",
        options.configuration,
        "whether metrics' yes can be believed",
        clock,
        seed=options.statistics.seed,
    )
    if options.statistics.uses_resampling:
        record["intervals"] = _describe_intervals(options, is_corrected=unlabelled is not None)
    if unlabelled is not None:
        record["candidates"] = dict(unlabelled.hashes)
    if answers is not None:
        record["pairs"] = {answers.path.name: sha256(answers.path)}
    return _make_results(options, findings, metric_labels(every_metric), record)


def _unplaced_answers(answers: PairAnswerFile, datasets: Sequence[str]) -> InputError:
    """Return the error of answers that are about no pair of the datasets."""
    first = answers.answers[0]
    return InputError(
        f"{first.place}: no answer is about a pair of {', '.join(datasets)}: image '{first.image_id}' with the captions "
        f"'{first.captions[0]}' and '{first.captions[1]}' is not among their pairs; name the dataset whose pairs were judged"
    )


def _describe_intervals(options: CalibrateOptions, *, is_corrected: bool) -> dict[str, str]:
    """Return the words and the sources that `run.json` has of intervals."""
    words = (
        f"{interval_words(options.statistics)}, of shares Wilson's for as many captions as their images are worth, "
        f"seed {options.statistics.seed}"
    )
    correction = CORRECTION_CITATION if is_corrected else ""
    return {"words": words, "citation": CITATION + correction}


def _make_results(
    options: CalibrateOptions,
    findings: _Findings,
    labels: Mapping[str, str],
    record: dict[str, Any],
) -> Results:
    """Return the tables, figures and files of what was found."""
    frames = {
        "calibration.csv": make_frame(findings.calibration, MEASURE_COLUMNS),
        "bins.csv": make_frame(findings.bins, BIN_COLUMNS),
        "roc.csv": make_frame(findings.roc, ROC_COLUMNS),
    }
    table_choices = CalibrationTableChoices(
        good=options.good,
        choose=options.choose,
        precision=options.precision,
        threshold=options.threshold,
        rule=options.probabilities,
        statistics=options.statistics,
    )
    tables = [*calibration_tables(findings.dimensions, labels, table_choices), *findings.tables]
    figures = {
        **reliability_figure(frames["bins.csv"], labels),
        **roc_figure(frames["roc.csv"], frames["calibration.csv"], labels),
    }
    return Results(
        frames,
        record,
        tables=tables,
        figures=figures,
        other_files=tables_as_csv(tables),
        objective=_find_objective(frames["calibration.csv"], options.metrics[0].spec),
    )


def _find_objective(rows: pd.DataFrame, metric: str) -> float | None:
    is_kappa = (rows["metric"] == metric) & (rows["measure"] == "kappa")
    return mean_of(rows.loc[is_kappa, "value"])


def _read_unlabelled(options: CalibrateOptions) -> UnlabelledCaptions | None:
    """Read the captions of `candidates=`."""
    if options.candidates is None:
        return None

    references: ReferenceFile | None = None
    if options.references is not None:
        file = options.references
        references = read_references(file.path, file.content, options.columns)
    else:
        check_works_without_references(options.metrics)

    file = options.candidates
    systems = read_systems(file.path, file.content, options.columns)
    if len(systems) > 1:
        raise InputError(
            f"{file.path}: captions of {len(systems)} systems; captau calibrate takes those of one"
        )
    return UnlabelledCaptions.make(file.name, next(iter(systems.values())), references)


@dataclass(frozen=True)
class _DatasetCalibrator:
    """One dataset, whose measures are added to what was found.

    Attributes:
        prepared: the dataset and its metrics.
        options: of the command.
        unlabelled: captions that nobody judged; None where there are none.
        answers: of judges about pairs, from a file; None where there are none.
        findings: what was found so far.
        scores: by metric and item id, more is better.
        image: the number of each item's image, by item id.
        is_first: whether an image is of the first half, shape (n_images,).
    """

    prepared: PreparedDataset
    options: CalibrateOptions
    unlabelled: UnlabelledCaptions | None
    answers: PairAnswerFile | None
    findings: _Findings
    scores: dict[str, pd.Series]
    image: pd.Series
    is_first: Mask

    @classmethod
    def make(
        cls,
        prepared: PreparedDataset,
        options: CalibrateOptions,
        unlabelled: UnlabelledCaptions | None,
        answers: PairAnswerFile | None,
        findings: _Findings,
    ) -> _DatasetCalibrator:
        """Score a dataset and draw its halves."""
        item_ids = prepared.selection.items["item_id"]
        scored = list(prepared.metrics)
        if prepared.selection.ratings.empty and options.pairs in PAIR_PRESETS:
            # A judge that is asked about pairs need not be paid for scores of captions as well.
            scored = [metric for metric in scored if not isinstance(metric, MllmJudge)]
        image, n_images = number_images(prepared.selection.clusters.loc[item_ids])
        return cls(
            prepared=prepared,
            options=options,
            unlabelled=unlabelled,
            answers=answers,
            findings=findings,
            scores=prepared.scores(metrics=scored),
            image=pd.Series(image, index=item_ids),
            is_first=draw_first_half(n_images, options.statistics.seed),
        )

    def add_all(self) -> None:
        """Add what is found of the dataset's ratings and of its preferences."""
        selection = self.prepared.selection
        if not selection.ratings.empty:
            for name in curve_names(self.options.good, selection.protocol.dimension):
                self.add_dimension(name)
        if not selection.preferences.empty:
            self.add_pairs()

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that are calibrated, without repeats of one."""
        return [m for m in self.prepared.metrics if m not in self.options.repeats]

    @property
    def choices(self) -> CalibrationChoices:
        """The options of the calibration."""
        return CalibrationChoices(
            choose=self.options.choose,
            precision=self.options.precision,
            rule=self.options.probabilities,
            n_bins=self.options.bins,
            statistics=self.options.statistics,
        )

    def add_dimension(self, name: str) -> None:
        """Add what is found of one of `curve_names`.

        Raises:
            LackingError: where a half has too few good or bad captions.
        """
        selection = self.prepared.selection
        card = selection.caption_set.card
        marked = mark_good_captions(
            selection.ratings,
            name,
            scales=card.scales,
            good=self.options.good,
            dataset=self.prepared.name,
            faults=card.faults,
        )
        # In the order of the items, which rests on contents alone.
        is_good = marked.reindex(self.image.index).dropna().astype(np.float64)
        image = self.image.loc[is_good.index].to_numpy()
        thresholds = [self.options.threshold_of(metric.spec) for metric in self.metrics]
        require_both_kinds(
            np.asarray(is_good, dtype=np.float64),
            self.is_first[image],
            self.prepared.name,
            name,
            has_threshold=None not in thresholds,
        )

        measures = {m.spec: self.add_metric(m, name, is_good, image) for m in self.metrics}
        dimension = CalibratedDimension(
            selection=selection,
            dimension=name,
            n_good=int(is_good.sum()),
            n_items=len(is_good),
            n_first_images=int(self.is_first.sum()),
            n_second_images=int((~self.is_first).sum()),
            measures=measures,
            caveats=self.prepared.caveats,
            unlabelled="" if self.unlabelled is None else self.unlabelled.name,
        )
        self.findings.dimensions.append(dimension)

    def add_metric(
        self, metric: Metric, dimension: str, is_good: pd.Series, image: Ints
    ) -> list[Measure]:
        """Add a metric's rows, and return its measures.

        Args:
            metric: the metric.
            dimension: one of `curve_names`.
            is_good: 1 or 0, by item id.
            image: the number of each one's image.
        """
        column = self.scores_of(metric, is_good)
        sign = 1.0 if metric.higher_is_better else -1.0
        labelled = LabelledScores(column, is_good.to_numpy(dtype=np.float64), image, sign)
        calibration = _calibrate_metric(
            labelled,
            self.is_first,
            self.choices,
            self.options.threshold_of(metric.spec),
            drops_undefined=self.prepared.selection.protocol.undefined == "drop",
        )
        measures = list(calibration.measures)
        if repeats := self.repeats_of(metric, is_good):
            measures += measure_repeats(repeats, image, calibration.threshold, self.choices)
        if self.unlabelled is not None and metric.spec in self.unlabelled.scores:
            measures += measure_unlabelled(
                self.unlabelled.scores[metric.spec],
                self.unlabelled.image,
                calibration,
                self.choices,
                self.unlabelled.name,
            )

        names = {"dataset": self.prepared.name, "dimension": dimension, "metric": metric.spec}
        caveat = self.prepared.caveats.get(metric.spec, "")
        for measure in measures:
            row = {**names, **vars(measure), "note": join_notes(measure.note, caveat)}
            self.findings.calibration.append(row)
        self.findings.bins += [{**names, **row} for row in calibration.bins]
        self.findings.roc += [{**names, **row} for row in calibration.roc]
        return measures

    def repeats_of(self, metric: Metric, is_good: pd.Series) -> list[Floats]:
        """Return the scores of each time that a metric was asked; none where it was asked once."""
        if self.options.repeats:
            return [self.scores_of(m, is_good) for m in (metric, *self.options.repeats)]
        if not isinstance(metric, MllmJudge) or metric.votes < 2:
            return []

        # Its answers are kept, so that nothing is asked again.
        items = self.prepared.selection.items.set_index("item_id", drop=False)
        votes = metric.score_votes(Rows(items.loc[is_good.index].reset_index(drop=True)))
        return list(votes.T)

    def scores_of(self, metric: Metric, is_good: pd.Series) -> Floats:
        """Return a metric's scores of the captions that people called good or bad."""
        return self.scores[metric.spec].loc[is_good.index].to_numpy(dtype=np.float64)

    def add_pairs(self) -> None:
        """Add how far length, and of judges that are asked in both orders position, sways the choice of a caption."""
        audits = {metric.spec: self.audit(metric) for metric in self.metrics}
        labels = metric_labels(self.metrics)
        notes: list[str] = []
        if self.answers is not None:
            notes += self.answers.notes
            for judge, judgements in self.answered_pairs().items():
                self.findings.has_answers = True
                audits[judge] = self.audit_answers(judgements)
                labels[judge] = judge
                notes.append(_describe_answers(judge, judgements))
        for metric, audit in audits.items():
            for row in audit.to_dict("records"):
                measured = {
                    "dataset": self.prepared.name,
                    "dimension": PAIRS,
                    "metric": metric,
                    "measure": row["bias"],
                    "value": row["value"],
                    "ci_low": row["ci_low"],
                    "ci_high": row["ci_high"],
                    "n_items": row["n_pairs"],
                    "note": row["note"],
                }
                self.findings.calibration.append(measured)
                if not np.isnan(row["people"]):
                    people = {"measure": f"{row['bias']}_people", "value": row["people"]}
                    no_interval = {"ci_low": np.nan, "ci_high": np.nan}
                    self.findings.calibration.append({**measured, **people, **no_interval})

        statistics = self.options.statistics
        table = pair_table(self.prepared.name, audits, labels, statistics, notes)
        self.findings.tables.append(table)

    def answered_pairs(self) -> dict[str, PairJudgements]:
        """Return what each judge of the file of answers said of this dataset's pairs; those who said nothing are left out.

        Raises:
            InputError: where one has the name of a metric.
        """
        if self.answers is None:
            return {}

        specs = [metric.spec for metric in self.metrics]
        captions = self.prepared.selection.caption_set
        judgements: dict[str, PairJudgements] = {}
        for judge, answers in self.answers.by_judge.items():
            if judge in specs:
                raise InputError(
                    f"{self.answers.path}: the judge is called '{judge}', as a metric of metrics= is; give it another name"
                )
            placed = place_answers(answers, captions, judge)
            # The answers may be about the pairs of another dataset.
            if len(placed.orders):
                judgements[judge] = placed
        return judgements

    def audit_answers(self, judgements: PairJudgements) -> pd.DataFrame:
        """Return a judge's biases in the choice of one of two captions."""
        level = self.options.statistics.level
        audit = audit_judge(judgements, level=level)
        return self.without_intervals(audit[audit["bias"] != "self_preference"])

    def audit(self, metric: Metric) -> pd.DataFrame:
        """Return a metric's biases in the choice of one of two captions."""
        selection = self.prepared.selection
        level = self.options.statistics.level
        if self.options.pairs in PAIR_PRESETS and isinstance(metric, MllmJudge):
            preset: Any = self.options.pairs
            return self.audit_answers(judge_pairs(metric, selection.caption_set, preset))

        lengths = PairLengths.of_selection(selection)
        return self.without_intervals(lengths.audit(self.scores[metric.spec], level))

    def without_intervals(self, audit: pd.DataFrame) -> pd.DataFrame:
        """Return an audit without its intervals where none are asked for."""
        if self.options.statistics.uses_resampling:
            return audit
        return audit.assign(ci_low=np.nan, ci_high=np.nan)


def _describe_answers(judge: str, judgements: PairJudgements) -> str:
    """Say of how many pairs a judge's answers are, and in which orders."""
    n_pairs = judgements.captions.preferences["pair_id"].nunique()
    n_answered = len(judgements.orders)
    if judgements.asks_once:
        return (
            f"{judge} answered {n_answered:,} of {n_pairs:,} pairs, each in one order: whether the two orders contradict each other "
            "is not known, and position is fair at 50 only if the order was drawn at random."
        )
    return f"{judge} answered {n_answered:,} of {n_pairs:,} pairs in both orders; only these count."


def _calibrate_metric(
    labelled: LabelledScores,
    is_first: Mask,
    choices: CalibrationChoices,
    threshold: float | None,
    *,
    drops_undefined: bool,
) -> Calibration:
    """Calibrate a metric on the captions of which it has a score, or say why it cannot be."""
    is_defined = np.isfinite(labelled.scores)
    n_items = len(is_defined)
    n_undefined = n_items - int(is_defined.sum())
    if n_undefined and not drops_undefined:
        reason = (
            f"{n_undefined:,} of {n_items:,} captions have no finite score; "
            "protocol.undefined=drop leaves them out"
        )
        return undefined_calibration(n_items, reason)

    defined = labelled.part(is_defined)
    in_first = is_first[defined.image]
    if threshold is not None and not has_both_kinds(defined.is_good):
        reason = f"fewer than {LEAST_OF_A_KIND} good or bad captions have a score"
        return undefined_calibration(len(defined.scores), reason)
    halves = (defined.is_good[in_first], defined.is_good[~in_first])
    if threshold is None and not all(map(has_both_kinds, halves)):
        reason = f"a half has fewer than {LEAST_OF_A_KIND} good or bad captions with a score"
        return undefined_calibration(len(defined.scores), reason)

    return calibrate_scores(defined, in_first, choices, threshold)


calibrate = make_function(
    "calibrate",
    CalibrateOptions,
    run,
    summary="Measure whether the yes of metrics can be believed",
    returns="`Results`, whose `frames` have `calibration.csv`, a row a measure, `bins.csv` and `roc.csv`.",
    raises="as in `captau.bench`, or on too few good or bad captions in a half of the images.",
)
