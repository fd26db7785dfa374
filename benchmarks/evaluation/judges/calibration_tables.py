"""The printed tables of `captau calibrate`: what a yes is worth, scores as probabilities, unlabelled captions, repeats and pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ...runs.frames import records_of
from ...runs.tables import (
    AnyCell,
    ResultTable,
    Row,
    TableNote,
    coefficient_cell,
    count_cell,
    format_number,
    is_empty_column,
    number_cell,
    number_cells,
)
from ...statistics.bootstrap import StatisticsOptions
from ..evaluation_set import EvaluationSet
from ..threshold_curves import Conjunction, describe_good
from ..wording import copies_note, notes_by_subject, synthetic_note
from .calibration import Measure

#: What a rule of `THRESHOLD_RULES` chooses a threshold for, in words.
RULE_WORDS = {
    "youden": "the greatest TPR + TNR",
    "kappa": "the greatest κ",
    "precision": "the greatest recall at a precision of {precision:g}",
}
#: How scores become probabilities, in words.
PROBABILITY_WORDS = {
    "logistic": "by a logistic curve that was fitted on the first half (Platt 1999)",
    "isotonic": "by the best rising steps (isotonic regression) on the first half",
    "none": "as they are",
}


@dataclass(frozen=True)
class CalibrationTableChoices:
    """The choices of a calibration, of which its tables speak.

    Attributes:
        good: when a caption is good.
        choose, precision: how thresholds were chosen.
        threshold: that was given, or those by metric; None where all are chosen.
        rule: from scores to probabilities.
        statistics: of intervals.
    """

    good: float | Conjunction
    choose: str
    precision: float
    threshold: float | Mapping[str, float] | None
    rule: str
    statistics: StatisticsOptions


@dataclass(frozen=True)
class CalibratedDimension:
    """The measurements of a dataset's dimension.

    Attributes:
        selection: the dataset.
        dimension: its name.
        n_good, n_items: the numbers of good and of all captions.
        n_first_images, n_second_images: the numbers of images of both halves.
        measures: by metric.
        caveats: notes on metrics that were trained on related data.
        unlabelled: the name of the captions that nobody judged; empty without any.
    """

    selection: EvaluationSet
    dimension: str
    n_good: int
    n_items: int
    n_first_images: int
    n_second_images: int
    measures: Mapping[str, Sequence[Measure]]
    caveats: Mapping[str, str]
    unlabelled: str

    @property
    def title(self) -> str:
        """The dataset and dimension, for titles."""
        return f"{self.selection.name}, {self.dimension}"

    def find(self, metric: str, measure: str) -> Measure:
        """Return a measure of a metric."""
        return self.measures_of(metric)[measure]

    def measures_of(self, metric: str) -> dict[str, Measure]:
        """Return the measures of a metric by their name."""
        return {m.measure: m for m in self.measures[metric]}

    def has(self, measure: str) -> bool:
        """Tell whether a measure was made of some metric."""
        return any(measure in self.measures_of(metric) for metric in self.measures)


def calibration_tables(
    dimensions: Sequence[CalibratedDimension],
    labels: Mapping[str, str],
    choices: CalibrationTableChoices,
) -> list[ResultTable]:
    """Return the tables of every dataset and dimension."""
    tables: list[ResultTable] = []
    for dimension in dimensions:
        tables.append(_answer_table(dimension, labels, choices))
        tables.append(_probability_table(dimension, labels, choices))
        if dimension.has("corrected_bad"):
            tables.append(_unlabelled_table(dimension, labels, choices))
        if dimension.has("self_agreement"):
            tables.append(_repeat_table(dimension, labels))

    return [_without_empty_reaches(table) for table in tables]


def _answer_table(
    dimension: CalibratedDimension, labels: Mapping[str, str], choices: CalibrationTableChoices
) -> ResultTable:
    rows: list[Row] = []
    for metric in dimension.measures:
        # Downwards, as in captau thresholds: the caption whose score it is must keep its yes.
        threshold = dimension.find(metric, "threshold").value
        cells: list[AnyCell] = [
            number_cell(
                math.floor(threshold * 1e4) / 1e4 if math.isfinite(threshold) else threshold, 1, 4
            )
        ]
        for measure in ("tpr", "tnr", "precision", "npv", "kappa"):
            cells += _with_reach(dimension.find(metric, measure))
        rows.append(Row(labels[metric], cells, spec=metric))

    columns = ["threshold"]
    for head in ("TPR", "TNR", "precision", "NPV", "κ"):
        columns += [head, "±"]
    level = 100 * choices.statistics.level
    notes = [
        TableNote(
            "Shares and κ ×100. TPR, TNR: the shares of good captions that get a yes, and of bad ones that get a no. precision, NPV: "
            "the shares of good ones among yes, and of bad ones among no. κ: Cohen's, of yes and people's good.",
            brief="×100. TPR: good captions with a yes; TNR: bad ones with a no; κ: Cohen's.",
        ),
        describe_good(
            choices.good,
            dimension.n_good,
            dimension.n_items,
            scale=dimension.selection.caption_set.card.scales.get(dimension.dimension),
            is_fault=dimension.dimension in dimension.selection.caption_set.card.faults,
        ),
        _threshold_note(dimension, choices),
    ]
    if choices.statistics.uses_resampling:
        notes.append(
            TableNote(
                f"±: half the width of the {level:g} % interval; both ends in calibration.csv. Shares have Wilson's, for as many "
                "captions as their images are worth; κ and what is below is resampled by images.",
                brief=f"±: half the width of the {level:g} % interval; both ends in calibration.csv.",
            )
        )
    notes += _metric_notes(dimension, labels)
    card = dimension.selection.caption_set.card
    notes += [TableNote.detail(remark) for remark in card.remarks]
    if note := copies_note(dimension.selection):
        notes.append(note)
    if card.synthetic:
        notes.append(synthetic_note("metrics"))
    return ResultTable(
        f"{dimension.title}: can a yes be believed?",
        "metric",
        columns,
        rows,
        notes=notes,
        verdict=_verdict(dimension, labels),
        spare=((8,), (7,), (2, 4, 6, 10), (9,)),
    )


def _without_empty_reaches(table: ResultTable) -> ResultTable:
    """Return a table without columns of intervals where there are none."""
    empty_columns: list[int] = []
    for number, head in enumerate(table.heads):
        if head in ("±", "low", "high") and is_empty_column(table.rows, number):
            empty_columns.append(number)
    return table.without_columns(empty_columns)


def _with_reach(measure: Measure) -> list[AnyCell]:
    """Return the cell of a measure and that of half the width of its interval, both ×100."""
    reach = (measure.ci_high - measure.ci_low) / 2
    return [number_cell(measure.value, 100, 1), number_cell(reach, 100, 1)]


def _threshold_note(dimension: CalibratedDimension, choices: CalibrationTableChoices) -> str:
    first = dimension.n_first_images
    second = dimension.n_second_images
    words = RULE_WORDS[choices.choose].format(precision=choices.precision)
    choice_words = (
        f"chosen on {first:,} images, a random half, for {words}; all else is measured on the other "
        f"{second:,}."
    )
    if choices.threshold is None:
        return TableNote(
            f"Thresholds are {choice_words}",
            brief=f"Thresholds are chosen on {first:,} images; all else is measured on {second:,} others.",
        )

    sentence = "A given threshold is held against all captions."
    of_metrics = choices.threshold
    if not isinstance(of_metrics, Mapping) or dimension.measures.keys() <= of_metrics.keys():
        return sentence
    return f"{sentence} Others are {choice_words}"


def _metric_notes(dimension: CalibratedDimension, labels: Mapping[str, str]) -> list[str]:
    """Return what there is to say of single metrics, each sentence once."""
    notes: list[tuple[str, str, str]] = []
    for metric, measures in dimension.measures.items():
        for measure in measures:
            # The notes of these stand below their own tables.
            if measure.measure not in (
                "calibration_error",
                "said_bad",
                "corrected_bad",
                "self_agreement",
                "self_kappa",
            ):
                notes.append((labels[metric], measure.measure, measure.note))
    for metric, caveat in dimension.caveats.items():
        if metric in dimension.measures:
            notes.append((labels[metric], "caveat", caveat))
    return list(notes_by_subject(notes))


def _verdict(dimension: CalibratedDimension, labels: Mapping[str, str]) -> str:
    """Say in words what the yes and the no of the metric with the largest κ are worth."""
    kappas: dict[str, float] = {}
    for metric in dimension.measures:
        kappa = dimension.find(metric, "kappa").value
        if not math.isnan(kappa):
            kappas[metric] = kappa
    if not kappas:
        return ""

    # κ counts both kinds of errors, and not more than chance would get right.
    metric = max(kappas, key=kappas.__getitem__)
    lead = "" if len(dimension.measures) == 1 else f"The largest κ is that of {labels[metric]}. "
    share_good = format_number(dimension.find(metric, "share_good").value, 100, 1)
    yes = _percent(dimension.find(metric, "precision"))
    no = _percent(dimension.find(metric, "npv"))
    words = (
        f"{lead}Of the captions to which {labels[metric]} says yes, {yes} are good, where {share_good} % of all captions are "
        f"good; of those to which it says no, {no} are bad."
    )
    kappa_measure = dimension.find(metric, "kappa")
    if kappa_measure.ci_high < 0:
        # A judge that flags faults says yes where captau's good is a no.
        words += (
            " Its κ is below 0 by more than chance: its yes goes with bad captions. If its yes means a fault, turn its answers round "
            "(no for yes, or 1 − score)."
        )
    elif kappa_measure.ci_low <= 0:
        words += " Its κ is not above 0 by more than chance: do not believe its yes."
    return words


def _percent(measure: Measure) -> str:
    """Return a share in per cent, with its interval where there is one."""
    text = f"{format_number(measure.value, 100, 1)} %"
    if math.isnan(measure.ci_low):
        return text
    low, high = (format_number(v, 100, 1) for v in (measure.ci_low, measure.ci_high))
    return f"{text} ({low} to {high})"


def _probability_table(
    dimension: CalibratedDimension, labels: Mapping[str, str], choices: CalibrationTableChoices
) -> ResultTable:
    rows: list[Row] = []
    for metric in dimension.measures:
        auroc = dimension.find(metric, "auroc")
        brier = dimension.find(metric, "brier")
        cells: list[AnyCell] = [
            coefficient_cell(auroc.value, "auroc"),
            coefficient_cell((auroc.ci_high - auroc.ci_low) / 2, "auroc"),
            number_cell(brier.value, 1, 3),
            number_cell((brier.ci_high - brier.ci_low) / 2, 1, 3),
            number_cell(dimension.find(metric, "brier_base").value, 1, 3),
            number_cell(dimension.find(metric, "calibration_error").value, 1, 3),
        ]
        rows.append(Row(labels[metric], cells, spec=metric))

    notes = [
        TableNote.detail(
            "AUROC ×100: the area under the ROC curve (roc.csv). Brier: the mean squared distance of the probability of a good "
            "caption from what people say; of the base rate: of always saying the first half's share of good ones. calibration "
            "error: how far probabilities are from the shares of good captions, over the bins of bins.csv."
        ),
        TableNote(
            f"Scores are taken as probabilities {PROBABILITY_WORDS[choices.rule]}, and measured on the other half.",
            brief="Brier and calibration error: of probabilities, on a random half of the images; 0 is best.",
        ),
    ]
    return ResultTable(
        f"{dimension.title}: scores as probabilities",
        "metric",
        ["AUROC", "±", "Brier", "±", "Brier of the base rate", "calibration error"],
        rows,
        notes=notes,
        spare=((1, 3),),
    )


def _unlabelled_table(
    dimension: CalibratedDimension, labels: Mapping[str, str], choices: CalibrationTableChoices
) -> ResultTable:
    rows: list[Row] = []
    notes: list[tuple[str, str, str]] = []
    n_items = 0
    for metric in dimension.measures:
        measures = dimension.measures_of(metric)
        if "said_bad" not in measures:
            continue

        said_bad = measures["said_bad"]
        corrected = measures["corrected_bad"]
        n_items = corrected.n_items
        shares = (said_bad.value, corrected.value, corrected.ci_low, corrected.ci_high)
        rows.append(Row(labels[metric], number_cells(shares, 100, 1), spec=metric))

        # Whose captions these are stands in the title already.
        in_title = f"captions of {dimension.unlabelled}"
        remarks = [part for part in corrected.note.split("; ") if part != in_title]
        notes.append((labels[metric], "corrected", "; ".join(remarks)))

    level = 100 * choices.statistics.level
    lines = [
        TableNote(
            f"Shares ×100. said: the share of the captions of {dimension.unlabelled} that get a no. corrected: the share of bad ones that "
            "this stands for, by the metric's TPR and TNR (Rogan and Gladen 1978). It holds where the metric errs on these captions as "
            f"often as on those of {dimension.selection.name}.",
            brief="Shares ×100. said: captions with a no; corrected: bad ones, if the metric errs as often as on "
            f"{dimension.selection.name}.",
        ),
        TableNote(
            f"low, high: the {level:g} % interval, which counts what is not known of TPR and TNR (Fieller 1954), from 0 to 100.",
            brief=f"low, high: the {level:g} % interval.",
        ),
        *notes_by_subject(notes),
    ]
    return ResultTable(
        f"{dimension.title}: how many of {n_items:,} captions of {dimension.unlabelled} are bad",
        "metric",
        ["said", "corrected", "low", "high"],
        rows,
        notes=lines,
    )


def _repeat_table(dimension: CalibratedDimension, labels: Mapping[str, str]) -> ResultTable:
    rows: list[Row] = []
    notes: list[tuple[str, str, str]] = []
    for metric in dimension.measures:
        agreement = dimension.find(metric, "self_agreement")
        kappa = dimension.find(metric, "self_kappa")
        cells = [*_with_reach(agreement), coefficient_cell(kappa.value, "kappa")]
        rows.append(Row(labels[metric], [*cells, count_cell(agreement.n_items)], spec=metric))
        notes += [(labels[metric], m.measure, m.note) for m in (agreement, kappa)]

    return ResultTable(
        f"{dimension.title}: the same caption asked again",
        "metric",
        ["same answer", "±", "κ", "captions"],
        rows,
        notes=["Shares and κ ×100, the mean over every two repeats.", *notes_by_subject(notes)],
    )


def pair_table(
    dataset: str,
    audits: Mapping[str, pd.DataFrame],
    labels: Mapping[str, str],
    statistics: StatisticsOptions,
    notes: Sequence[str] = (),
) -> ResultTable:
    """Return the table of biases in the choice of one of two captions.

    Args:
        dataset: its name.
        audits: by metric, columns `AUDIT_COLUMNS`.
        labels: the metrics' names.
        statistics: of intervals.
        notes: on answers that were read from a file.
    """
    rows: list[Row] = []
    biases = set[str]()
    for metric, audit in audits.items():
        for row in records_of(audit):
            biases.add(row["bias"])
            shares = (row["value"], row["ci_low"], row["ci_high"], row["people"])
            cells = number_cells(shares, 100, 1)
            label = f"{labels[metric]}, {row['bias']}"
            rows.append(Row(label, [*cells, count_cell(row["n_pairs"])], spec=metric))

    table = ResultTable(
        f"{dataset}: biases in the choice of one of two captions",
        "metric, bias",
        ["share", "low", "high", "people", "n"],
        rows,
        notes=[*_bias_notes(biases, statistics), *notes],
    )
    return _without_empty_reaches(table)


def _bias_notes(biases: set[str], statistics: StatisticsOptions) -> Iterator[str]:
    level = 100 * statistics.level
    if statistics.uses_resampling:
        yield f"Shares ×100. low, high: the {level:g} % interval (Wilson's, for as many pairs as their images are worth)."
    yield "length: the share of the pairs that it decides in which the caption with more words is preferred; people: the same of people."
    if "position" in biases:
        yield "position: the share of answers that prefer the caption shown first, 50 where place does not matter. order: the share of pairs in which the answers in both orders contradict each other."
