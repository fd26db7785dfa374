"""`captau agree`: agreement of people with people: on ratings, captions, or the words that they use.

What one person reaches against another is a goal for metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.reading.source_files import sha256
from ...datasets.schema import CaptionSet, Scale
from ...metrics.base import Metric
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.judged_pairs import PairAnswers
from ..evaluation.people.held_out_captions import ImageCaptions, score_held_out_captions
from ..evaluation.people.rating_distributions import (
    DISTRIBUTION_COLUMNS,
    RatingDistribution,
    group_items,
    rating_distributions,
)
from ..evaluation.people.word_measures import (
    WordMeasures,
    measure_words,
    summary_rows,
    summary_table,
    word_table,
)
from ..evaluation.prepared_datasets import provenance
from ..evaluation.verdicts import agreement_verdict
from ..evaluation.wording import (
    DISTRIBUTIONS_ONLY,
    MEASURE_LABELS,
    NO_AGREEMENT,
    dataset_notes,
    synthetic_note,
)
from ..options.analyses import AgreeOptions
from ..options.python_function import make_function
from ..reporting.charts.rating_charts import difference_figure, distribution_figure
from ..reporting.charts.word_charts import word_figure
from ..reporting.run_results import Results
from ..runs.frames import make_frame, mean_of
from ..runs.progress_bar import StepProgress
from ..runs.results import AGREEMENT_COLUMNS, RunClock
from ..runs.tables import AnyCell, Cell, ResultTable, Row, count_cell, number_cell
from ..scoring.protocol import record_protocols
from ..scoring.unavailable_metrics import record_reasons, warn_unavailable
from ..statistics.bootstrap import StatisticsOptions, count_blocks
from ..statistics.rater_agreement import MIN_ITEMS, compute_measures
from ..statistics.rating_table import AgreementMeasure, RatingTable

#: The measures that are printed without `details=true`, the one to report first on top.
_FIRST_MEASURES = (
    "krippendorff_alpha_ordinal",
    "percent_agreement",
    "split_half",
    "ceiling_one_vs_one",
    "ceiling_one_vs_rest",
)
#: The measure of words that a sweep may optimise.
_WORDS_OBJECTIVE = "human_precision"
TOO_FEW_ITEMS = f"Fewer than {MIN_ITEMS} items with two ratings do not say how well raters agree"
#: What run.json says that the runs measure.
MEASURES = "how well people agree with each other"


def run(options: AgreeOptions) -> Results:
    """Measure how far people agree.

    Returns:
        `agreement.csv`; of ratings `distributions.csv`, of captions `human.csv` and of words `words.csv`
        besides.

    Raises:
        InputError: on an unknown name, missing or malformed data, a dataset without ratings, or
            references of which no image has two.
    """
    kinds = {"ratings": _measure_raters, "captions": _score_captions, "words": _measure_words}
    return kinds[options.kind](options)


def _load_captions(options: AgreeOptions) -> list[ImageCaptions]:
    """Load the references of a file, or those of datasets."""
    if options.references is not None:
        return [ImageCaptions.from_file(options.references)]
    return [ImageCaptions.from_dataset(options.locations.load(name)) for name in options.datasets]


def _people_record(
    options: AgreeOptions, sources: Sequence[ImageCaptions], metrics: Sequence[Metric]
) -> dict[str, Any]:
    """Return what `run.json` says of people's captions and what they were compared by."""
    caption_sets: list[CaptionSet] = []
    digests: dict[str, str] = {}
    for source in sources:
        if source.caption_set is not None:
            caption_sets.append(source.caption_set)
        if source.file is not None:
            digests[str(source.file)] = sha256(source.file)
    return {
        "command": "agree",
        "config": dict(options.configuration),
        "kind": options.kind,
        "seed": options.seed,
        **provenance(metrics, caption_sets, options.locations),
        "references": digests,
    }


def _score_captions(options: AgreeOptions) -> Results:
    clock = RunClock()
    sources = _load_captions(options)
    scores = score_held_out_captions(
        sources,
        options.metrics,
        options.locations.store(),
        held_out=options.held_out,
        k=options.k,
        draws=options.draws,
        seed=options.seed,
    )
    warn_unavailable(list(scores.missing.values()))

    missing = {name: record_reasons(unavailable) for name, unavailable in scores.missing.items()}
    record = {
        **_people_record(options, sources, scores.metrics),
        "missing": missing,
        **clock.record(),
        "measures": MEASURES,
    }
    frames = {"agreement.csv": scores.agreement, "human.csv": scores.choices}
    # A sweep optimises the first metric that is named.
    is_first = scores.agreement["measure"] == options.metrics[0].spec
    return Results(
        frames,
        record,
        tables=scores.tables,
        objective=mean_of(scores.agreement.loc[is_first, "value"]),
    )


def _measure_words(options: AgreeOptions) -> Results:
    clock = RunClock()
    sources = _load_captions(options)
    measures: list[WordMeasures] = []
    # The command has no options of statistics; its intervals are the usual ones.
    n_replicates = StatisticsOptions().replicates
    with StepProgress(len(sources) * count_blocks(n_replicates)) as progress:
        for source in sources:
            of_source = measure_words(
                source,
                progress,
                n_words=options.n_words,
                named_words=options.label,
                system_scores=options.scores,
                held_out=options.held_out,
                k=options.k,
                has_parts=options.has_parts,
                seed=options.seed,
            )
            measures.append(of_source)

    agreement: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    for of_source in measures:
        rows = summary_rows(of_source)
        agreement += rows
        tables.append(word_table(of_source, options.label))
        tables.append(summary_table(of_source, rows))

    score_files: dict[str, str] = {}
    if options.scores is not None:
        score_files[str(options.scores)] = sha256(options.scores)
    record = {
        **_people_record(options, sources, []),
        "scores": score_files,
        "replicates": n_replicates,
        **clock.record(),
        "measures": MEASURES,
    }
    frames = {
        "agreement.csv": make_frame(agreement, AGREEMENT_COLUMNS),
        "words.csv": pd.concat([m.frame for m in measures], ignore_index=True),
    }
    objectives = [row["value"] for row in agreement if row["measure"] == _WORDS_OBJECTIVE]
    return Results(
        frames,
        record,
        tables=tables,
        figures=word_figure(measures, options.label),
        objective=mean_of(objectives),
    )


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


def _measure_raters(options: AgreeOptions) -> Results:
    clock = RunClock()
    measured: list[RaterAgreement] = []
    with StepProgress(len(options.datasets)) as progress:
        for name, protocol in options.datasets.items():
            with progress.step(name):
                # In order, so that virtual raters are drawn alike whatever the rows' order.
                selection = EvaluationSet.select(options.locations.load(name), protocol).in_order()
                measured.append(_measure_dataset(selection, options))

    rows: list[dict[str, Any]] = []
    histograms: dict[str, dict[float, float]] = {}
    distributions: dict[str, RatingDistribution] = {}
    for of_dataset in measured:
        rows += of_dataset.rows
        histograms |= of_dataset.histograms
        distributions |= of_dataset.distributions

    distribution_rows: list[dict[str, Any]] = []
    for distribution in distributions.values():
        distribution_rows += distribution.rows()

    frames = {
        "agreement.csv": make_frame(rows, AGREEMENT_COLUMNS),
        "distributions.csv": make_frame(distribution_rows, DISTRIBUTION_COLUMNS),
    }

    caption_sets = [of_dataset.selection.caption_set for of_dataset in measured]
    record = {
        "command": "agree",
        "config": dict(options.configuration),
        "protocols": record_protocols(options.datasets),
        "seed": options.seed,
        "draws": options.draws,
        "rating_distribution": {name: d.counts for name, d in distributions.items()},
        "stability_histogram": histograms,
        **provenance([], caption_sets, options.locations),
        **clock.record(),
        "measures": MEASURES,
    }

    tables = _agreement_tables(measured)
    has_agreement = bool(tables)
    for name, distribution in distributions.items():
        # Without agreement the distributions are what the command found, and are printed.
        tables.append(_distribution_table(name, distribution.counts, is_detail=has_agreement))
    if histograms:
        tables.append(_histogram_table(histograms))

    figures = distribution_figure(list(distributions.values())) | difference_figure(histograms)
    alphas = [row["value"] for row in rows if row["name"] == _FIRST_MEASURES[0]]
    return Results(
        frames,
        record,
        tables=tables,
        figures=figures,
        summary="" if has_agreement else DISTRIBUTIONS_ONLY,
        objective=mean_of(alphas),
    )


@dataclass(frozen=True)
class _AgreementData:
    """The ratings, or preferences as ratings of pairs, that people's agreement is measured on.

    Attributes:
        ratings: columns `item_id, dimension, rater, value`.
        item_ids: the items, or pairs.
        scales: by dimension.
        dimensions: those that are measured.
        groups: the group of each item, by item id, for the distributions.
        is_of_pairs: whether the items are pairs, each in both orders.
    """

    ratings: pd.DataFrame
    item_ids: list[str]
    scales: Mapping[str, Scale]
    dimensions: tuple[str, ...]
    groups: pd.Series
    is_of_pairs: bool

    @classmethod
    def select(cls, selection: EvaluationSet, by: str) -> _AgreementData:
        """Select what people agree on: ratings, or without any the strengths of preferences.

        Args:
            selection: the dataset.
            by: how distributions are grouped, as `group_items` takes it.

        Raises:
            InputError: where there is neither, or preferences are to be grouped.
        """
        item_ids = list(selection.items["item_id"])
        if selection.protocol.dimension or selection.preferences.empty:
            selection.require_ratings("it has neither ratings nor preferences to agree on")
            return cls(
                ratings=selection.ratings,
                item_ids=item_ids,
                scales=selection.caption_set.card.scales,
                dimensions=selection.protocol.dimension,
                groups=group_items(selection, by),
                is_of_pairs=False,
            )

        if by != "dataset":
            raise InputError(
                f"dataset {selection.name}: by={by} groups ratings, and the dataset has preferences between pairs"
            )
        answers = PairAnswers.from_preferences(selection.preferences, item_ids)
        return cls(
            ratings=answers.ratings,
            item_ids=answers.item_ids,
            scales=answers.scales,
            dimensions=tuple(answers.scales),
            groups=pd.Series("", index=answers.item_ids),
            is_of_pairs=True,
        )


def _measure_dataset(selection: EvaluationSet, options: AgreeOptions) -> RaterAgreement:
    """Measure how far the raters of a dataset agree, dimension by dimension."""
    card = selection.caption_set.card
    data = _AgreementData.select(selection, options.by)
    has_dimensions = len(data.dimensions) > 1

    def subject(dimension: str) -> str:
        return f"{selection.name} {dimension}" if has_dimensions else selection.name

    # A dimension that is made of the ratings of another has none of its own: people agree on that other one.
    sources: dict[str, str] = {}
    for dimension in data.dimensions:
        source = card.summaries.get(dimension, dimension)
        is_there = source in selection.caption_set.dimensions
        sources[dimension] = source if is_there else dimension

    rows: list[dict[str, Any]] = []
    histograms: dict[str, dict[float, float]] = {}
    unrepeated: set[str] = set()

    for dimension in dict.fromkeys(sources.values()):
        table = RatingTable.from_ratings(
            data.ratings, data.item_ids, dimension, is_anonymous=card.anonymous_raters
        )
        if not table.n_items:
            unrepeated.add(subject(dimension))

        measures, histogram = compute_measures(
            table, data.scales[dimension], options.seed, options.draws
        )
        prefix = f"{dimension}:" if has_dimensions else ""
        for name, measure in measures.items():
            row = {
                "dataset": selection.name,
                "measure": f"{prefix}{name}",
                "name": name,
                "label": MEASURE_LABELS[name],
                "subject": subject(dimension),
                **_agreement_cells(measure, table, data.is_of_pairs),
            }
            rows.append(row)
        if histogram:
            histograms[subject(dimension)] = histogram

    return RaterAgreement(
        selection=selection,
        rows=rows,
        histograms=histograms,
        distributions=_name_distributions(selection, data, subject),
        unrepeated=unrepeated,
        notes=_source_notes(selection, sources, data.is_of_pairs),
    )


def _name_distributions(
    selection: EvaluationSet, data: _AgreementData, subject: Callable[[str], str]
) -> dict[str, RatingDistribution]:
    """Return the distributions of mean ratings, by dataset, dimension and group; `subject` names the first two."""
    distributions = rating_distributions(
        selection.name,
        data.ratings,
        scales={dimension: data.scales[dimension] for dimension in data.dimensions},
        groups=data.groups,
        totals=selection.caption_set.card.totals,
    )
    named: dict[str, RatingDistribution] = {}
    for distribution in distributions:
        title = subject(distribution.dimension)
        if distribution.group:
            title += f", {distribution.group}"
        named[title] = distribution

    return named


def _agreement_cells(
    measure: AgreementMeasure, table: RatingTable, is_of_pairs: bool
) -> dict[str, Any]:
    return {
        "note": measure.note,
        "has_pairs": table.n_items > 0,
        **vars(measure),
        # Each pair stands in the table in both orders.
        "n_items": measure.n_items // 2 if is_of_pairs else measure.n_items,
    }


def _source_notes(
    selection: EvaluationSet, sources: Mapping[str, str], is_of_pairs: bool
) -> list[str]:
    """Say which ratings and splits the agreement is of.

    Args:
        selection: the dataset.
        sources: by dimension, the one whose ratings are measured.
        is_of_pairs: whether preferences are measured.
    """
    notes: list[str] = []
    for dimension, source in sources.items():
        if source != dimension:
            notes.append(
                f"{selection.name}: {dimension} is made of the ratings {source}, which are measured here."
            )
    if is_of_pairs:
        notes.append(
            f"{selection.name}: items are pairs of captions; their ratings are the strengths of preferences."
        )
    if conditions := selection.caption_set.card.conditions:
        texts = [f"{name.replace('_', ' ')}: {text}" for name, text in conditions.items()]
        notes.append(f"{selection.name} was collected under these conditions: {'; '.join(texts)}.")
    return [*notes, *dataset_notes(selection.caption_set, selection.protocol)]


def _agreement_tables(measured: Sequence[RaterAgreement]) -> list[ResultTable]:
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

    is_first = agreement["name"].isin(_FIRST_MEASURES)
    first = _measure_table("How well the raters agree", agreement[is_first], notes)

    other_title = "Other measures of the raters' agreement"
    other_measures = _measure_table(other_title, agreement[~is_first], [])

    alphas = agreement[agreement["name"] == _FIRST_MEASURES[0]].set_index("subject")["value"]
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
    for row in agreement.to_dict("records"):
        if row["note"]:
            subjects_of.setdefault((row["note"], row["label"]), []).append(row["subject"])

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
        notes.append(f"{subject}: {note}.")
    return notes


def _distribution_table(name: str, counts: Mapping[float, int], *, is_detail: bool) -> ResultTable:
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


def _histogram_table(histograms: Mapping[str, Mapping[float, float]]) -> ResultTable:
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


agree = make_function(
    "agree",
    AgreeOptions,
    run,
    summary="Measure how far people agree on ratings, captions or words",
    returns="`Results`, whose `frames` have `agreement.csv`; of ratings `distributions.csv`, of captions `human.csv` and of words `words.csv` besides.",
    raises="on an unknown name, missing or malformed data, a dataset without ratings, or references of which no image has two.",
)
