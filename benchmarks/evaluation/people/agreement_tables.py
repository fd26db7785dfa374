"""Tables of how far the raters of datasets agree, and of how their ratings are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pandas as pd

from ...runs.tables import AnyCell, Cell, ResultTable, Row, TableNote, count_cell, number_cell
from ...statistics.rater_agreement import MIN_ITEMS
from ...statistics.rating_table import CEILINGS
from ..evaluation_set import EvaluationSet
from ..verdicts import agreement_verdict
from ..wording import (
    NO_AGREEMENT,
    synthetic_note,
)
from .rating_distributions import (
    RatingDistribution,
)

#: The measures that are printed without `details=true`, the one to report first on top.
FIRST_MEASURES = (
    "krippendorff_alpha_ordinal",
    "percent_agreement",
    "split_half",
    "ceiling_one_vs_one",
    "ceiling_one_vs_rest",
)


TOO_FEW_ITEMS = f"Fewer than {MIN_ITEMS} items with two ratings do not say how well raters agree"


@dataclass(frozen=True)
class RaterAgreement:
    """The agreement of a dataset's raters.

    Attributes:
        selection: the dataset.
        rows: those of `agreement.csv`.
        histograms: by dataset and dimension, how far two halves of an item's raters are apart.
        distributions: of mean ratings, by dataset, dimension and group.
        unrepeated: the datasets and dimensions in which no item has two ratings.
        notes: sentences on which ratings and splits the agreement is of.
    """

    selection: EvaluationSet
    rows: list[dict[str, Any]]
    histograms: dict[str, dict[float, float]]
    distributions: dict[str, RatingDistribution]
    unrepeated: set[str]
    notes: list[str]


def agreement_tables(measured: Sequence[RaterAgreement]) -> list[ResultTable]:
    """Return two tables with a row a measure and a column a dimension of a dataset: the first four, and all others.

    Values are ×100, with the standard deviation over draws. Dimensions in which no item has two ratings are left out;
    without any other there is no table. Those in which few items have two stand in `agreement.csv` alone.
    """
    rows = chain.from_iterable(of_dataset.rows for of_dataset in measured)
    agreement = pd.DataFrame(list(rows))
    agreement = agreement[agreement["has_pairs"]]
    if agreement.empty:
        return []

    counts = agreement.groupby("subject", sort=False)["n_items"].max()
    small_counts = counts[counts < MIN_ITEMS]
    are_all_few = len(small_counts) == len(counts)
    if not are_all_few:
        agreement = agreement[~agreement["subject"].isin(small_counts.index)]
        counts = counts.drop(small_counts.index)

    notes: list[str] = []
    notes_of_datasets: list[str] = []
    unrepeated: list[str] = []
    for of_dataset in measured:
        caption_set = of_dataset.selection.caption_set
        if caption_set.card.synthetic:
            notes.append(f"{caption_set.name}: {synthetic_note('raters')}")
        notes_of_datasets += of_dataset.notes
        unrepeated += sorted(of_dataset.unrepeated)

    items = [f"{subject} {int(n):,}" for subject, n in counts.items()]
    notes.append(
        "Measures ×100; ± is the standard deviation over draws. "
        f"Items with two ratings or more: {', '.join(items)}."
    )
    notes += notes_of_datasets
    if unrepeated:
        notes.append(f"{', '.join(unrepeated)}: {NO_AGREEMENT}")
    if len(small_counts) and not are_all_few:
        subjects = [f"{subject} ({n})" for subject, n in small_counts.items()]
        notes.append(f"Not shown: {', '.join(subjects)}. {TOO_FEW_ITEMS} (agreement.csv has them).")

    is_first = agreement["name"].isin(FIRST_MEASURES)
    first = _measure_table("How well the raters agree", agreement[is_first], notes)

    other_title = "Other measures of the raters' agreement"
    other_measures = _measure_table(other_title, agreement[~is_first], [])

    alphas = agreement[agreement["name"] == FIRST_MEASURES[0]].set_index("subject")["value"]
    verdict = agreement_verdict({str(subject): alpha for subject, alpha in alphas.items()})
    if are_all_few and alphas.notna().any():
        verdict = f"{TOO_FEW_ITEMS}."
    return [replace(first, verdict=verdict), replace(other_measures, is_detail=True)]


def _measure_table(title: str, agreement: pd.DataFrame, notes: Sequence[str]) -> ResultTable:
    subjects = list(dict.fromkeys(agreement["subject"]))
    cells: dict[tuple[str, str], Cell] = {}
    measures: list[str] = []
    previous = ""
    for row in agreement.to_dict("records"):
        measure = row["label"]
        cell = number_cell(float(row["value"]), 100, 1)
        if not pd.isna(row["std"]):
            cell = replace(cell, text=f"{cell} ± {number_cell(float(row['std']), 100, 1)}")
        # A measure that earlier datasets lack stands after the one that it follows in this dataset.
        if measure not in measures:
            position = measures.index(previous) + 1 if previous in measures else 0
            measures.insert(position, measure)
        previous = measure
        cells[measure, row["subject"]] = cell

    rows: list[Row] = []
    for measure in measures:
        # A dataset may lack a measure of another.
        cells_of_measure = [cells.get((measure, subject), "") for subject in subjects]
        rows.append(Row(measure, cells_of_measure))
    notes = [*notes, *_measure_notes(agreement, len(subjects))]
    spare = tuple((index,) for index in reversed(range(1, len(subjects))))

    return ResultTable(title, "measure", subjects, rows, notes=notes, spare=spare)


def _measure_notes(agreement: pd.DataFrame, n_subjects: int) -> list[str]:
    """Return each note once, with the measures and the dimensions or datasets that it belongs to."""
    subjects_of: dict[tuple[str, str], list[str]] = {}
    # The notes of these say how they are computed, which is a detail.
    explained: set[str] = set()
    for row in agreement.to_dict("records"):
        if row["note"]:
            subjects_of.setdefault((row["note"], row["label"]), []).append(row["subject"])
            if row["name"] in (*CEILINGS, "split_half"):
                explained.add(row["label"])

    # Measures that say the same of the same subjects share a sentence.
    measures_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (note, measure), subjects in subjects_of.items():
        measures_of.setdefault((note, tuple(subjects)), []).append(measure)

    notes: list[str] = []
    for (note, subjects), measures in measures_of.items():
        quoted = [f"“{measure}”" for measure in measures]
        subject = ", ".join(quoted) if len(measures) <= 6 else f"{len(measures)} measures"
        if len(subjects) < n_subjects:
            subject += f" of {', '.join(subjects)}"
        words = f"{subject}: {note}."
        notes.append(TableNote.detail(words) if explained.issuperset(measures) else words)
    return notes


def distribution_table(name: str, counts: Mapping[float, int], *, is_detail: bool) -> ResultTable:
    """Return the distribution of the items' mean ratings, with bars."""
    total = sum(counts.values())
    largest = max(counts.values())
    rows: list[Row] = []
    for level, n in counts.items():
        bar = "█" * round(30 * n / largest)
        rows.append(Row(f"{level:g}", [count_cell(n), number_cell(n / total, 100, 1), bar]))

    title = f"{name}: mean ratings of the items, to the nearest level"
    return ResultTable(
        title, "rating", ["items", "%", ""], rows, numeric=False, is_detail=is_detail
    )


def histogram_table(histograms: Mapping[str, Mapping[float, float]]) -> ResultTable:
    """Return how far two halves of an item's raters are apart, in text."""
    steps = sorted(set(chain.from_iterable(histograms.values())))
    rows: list[Row] = []
    for step in steps:
        cells: list[AnyCell] = []
        for histogram in histograms.values():
            # A dataset whose scale has no such step has an empty cell, not a share of 0.
            cells.append(number_cell(histogram[step], 100, 1) if step in histogram else "")
        rows.append(Row(f"{step:+.3g}" if step else "0", cells))

    title = "Differences of the mean ratings by two halves of the raters"
    notes = [
        "Differences in parts of the scale's width; to the nearest eighth where they have no common step of "
        "1/12 or more. Shares in %."
    ]
    return ResultTable(title, "difference", list(histograms), rows, notes=notes, is_detail=True)
