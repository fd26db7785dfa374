"""`captau agree`: agreement of people with people: on ratings, captions, or the words that they use.

What one person reaches against another is a goal for metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.reading.source_files import sha256
from ...datasets.schema import CaptionSet, Scale
from ...metrics.base import Metric
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.judged_pairs import PairAnswers
from ..evaluation.judges.calibration import MEASURE_COLUMNS
from ..evaluation.judges.compared_metrics import ComparedMetrics
from ..evaluation.people.agreement_tables import (
    FIRST_MEASURES,
    RaterAgreement,
    agreement_tables,
    distribution_table,
    histogram_table,
)
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
from ..evaluation.wording import (
    DISTRIBUTIONS_ONLY,
    MEASURE_LABELS,
    dataset_notes,
)
from ..options.analyses import AgreeOptions
from ..options.python_function import make_function
from ..reporting.charts.rating_charts import difference_figure, distribution_figure
from ..reporting.charts.word_charts import word_figure
from ..reporting.run_results import Results
from ..runs.frames import make_frame, mean_of
from ..runs.progress_bar import StepProgress
from ..runs.results import AGREEMENT_COLUMNS, RunClock
from ..runs.tables import ResultTable
from ..scoring.protocol import record_protocols
from ..scoring.unavailable_metrics import record_reasons, warn_unavailable
from ..statistics.bootstrap import StatisticsOptions, count_blocks
from ..statistics.rater_agreement import compute_measures
from ..statistics.rating_table import AgreementMeasure, RatingTable

#: The measure of words that a sweep may optimise.
_WORDS_OBJECTIVE = "human_precision"
#: What run.json says that the runs measure.
MEASURES = "how well people agree with each other"


def run(options: AgreeOptions) -> Results:
    """Measure how far people agree.

    Returns:
        `agreement.csv`; of ratings `distributions.csv` and, with metrics, `metric_raters.csv`, of captions
        `human.csv` and of words `words.csv` besides.

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


def _measure_raters(options: AgreeOptions) -> Results:
    clock = RunClock()
    measured, compared = _measure_datasets(options)

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
    if options.metrics:
        frames["metric_raters.csv"] = make_frame(compared.rows(), MEASURE_COLUMNS)

    caption_sets = [of_dataset.selection.caption_set for of_dataset in measured]
    record = {
        "command": "agree",
        "config": dict(options.configuration),
        "protocols": record_protocols(options.datasets),
        "seed": options.seed,
        "draws": options.draws,
        "rating_distribution": {name: d.counts for name, d in distributions.items()},
        "stability_histogram": histograms,
        **provenance(compared.metrics, caption_sets, options.locations, options.datasets.values()),
        **compared.record(),
        **clock.record(),
        "measures": MEASURES,
    }

    tables = agreement_tables(measured)
    has_findings = bool(tables) or bool(options.metrics)
    tables = [*compared.tables(), *tables]
    for name, distribution in distributions.items():
        # Without agreement the distributions are what the command found, and are printed.
        tables.append(distribution_table(name, distribution.counts, is_detail=has_findings))
    if histograms:
        tables.append(histogram_table(histograms))

    figures = distribution_figure(list(distributions.values())) | difference_figure(histograms)
    alphas = [row["value"] for row in rows if row["name"] == FIRST_MEASURES[0]]
    return Results(
        frames,
        record,
        tables=tables,
        figures=figures,
        summary="" if has_findings else DISTRIBUTIONS_ONLY,
        objective=mean_of(alphas),
    )


def _measure_datasets(options: AgreeOptions) -> tuple[list[RaterAgreement], ComparedMetrics]:
    """Measure how far the raters of each dataset agree with one another, and metrics with them."""
    measured: list[RaterAgreement] = []
    compared = ComparedMetrics()
    with StepProgress(len(options.datasets)) as progress:
        for name, protocol in options.datasets.items():
            with progress.step(name):
                # In order, so that virtual raters are drawn alike whatever the rows' order.
                selection = EvaluationSet.select(options.locations.load(name), protocol).in_order()
                measured.append(_measure_dataset(selection, options))

        if options.metrics:
            compared = ComparedMetrics.compare(
                options.datasets,
                options.metrics,
                options.locations,
                progress,
                epsilon=options.epsilon,
                seed=options.seed,
            )

    return measured, compared


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

    sources = selection.dimension_sources(data.dimensions)

    rows: list[dict[str, Any]] = []
    histograms: dict[str, dict[float, float]] = {}
    unrepeated: set[str] = set()

    for dimension in dict.fromkeys(sources.values()):
        table = RatingTable.from_ratings(
            data.ratings,
            data.item_ids,
            dimension,
            is_anonymous=card.anonymous_raters,
            n_orders=2 if data.is_of_pairs else 1,
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
                **_agreement_cells(measure, table),
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


def _agreement_cells(measure: AgreementMeasure, table: RatingTable) -> dict[str, Any]:
    return {
        "note": measure.note,
        "has_pairs": table.n_items > 0,
        **vars(measure),
        "n_items": measure.n_items // table.n_orders,
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
            f"{selection.name}: items are pairs of captions; their ratings are the strengths of preferences, and distributions have "
            "each pair in both orders."
        )
    if conditions := selection.caption_set.card.conditions:
        texts = [f"{name.replace('_', ' ')}: {text}" for name, text in conditions.items()]
        notes.append(f"{selection.name} was collected under these conditions: {'; '.join(texts)}.")
    return [*notes, *dataset_notes(selection.caption_set, selection.protocol)]


agree = make_function(
    "agree",
    AgreeOptions,
    run,
    summary="Measure how far people agree on ratings, captions or words",
    returns="`Results`, whose `frames` have `agreement.csv`; of ratings `distributions.csv` and, with metrics, `metric_raters.csv`, of captions `human.csv` and of words `words.csv` besides.",
    raises="on an unknown name, missing or malformed data, a dataset without ratings, or references of which no image has two.",
)
