"""`captau train`: train a learned rater on some images, and see how it agrees with people on others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Floats, Metric
from ...metrics.learned.common.captioned_images import DEMO, OWN_REFERENCES
from ...metrics.learned.common.training import HISTORY_COLUMNS
from ...metrics.learned.rater import CARD_FILE, RaterCard
from ..evaluation.correlation_tables import correlation_table
from ..evaluation.measured_dataset import (
    MeasuredDataset,
    correlate_dataset,
    join_correlations,
    join_scores,
)
from ..evaluation.prepared_datasets import provenance
from ..evaluation.scored_dataset import ScoredDataset, by_item
from ..evaluation.training import rater_training
from ..evaluation.training.headline_table import headline_table
from ..evaluation.training.seed_means import compute_seed_means, make_mean_tables
from ..evaluation.training.training_designs import (
    TrainingCorpus,
    TrainingJob,
    TrainingPlan,
    plan_jobs,
)
from ..evaluation.training.transfer_table import transfer_table
from ..evaluation.wording import synthetic_note
from ..options.train import TrainOptions
from ..reporting.run_results import Results
from ..runs.output_folder import RUN_FILE, hold_lock
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock, make_correlations
from ..runs.tables import ResultTable
from ..scoring.protocol import Protocol, record_protocols
from ..scoring.score_store import ScoreStore
from ..scoring.scorer import Scorer, metric_caveats, score_all

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class TrainResults(Results):
    """Results of `captau train`.

    Their frames are `correlations.csv`, with a row `… mean` for several seeds; `scores.parquet`, the predictions for
    test rows and compared metrics' scores; `training.csv`, a row an epoch, columns `rater` and `HISTORY_COLUMNS`;
    `significance.csv`, differences of every two of the raters and compared metrics, if there are such and intervals;
    and `rating_errors.csv`, errors of predictions against mean ratings, if the rater predicts ratings.

    Attributes:
        spare: folders of raters that are not kept, to be removed when all is written.
    """

    spare: Sequence[Path] = ()


@dataclass(frozen=True)
class _Trainings:
    """The raters of all jobs.

    Attributes:
        cards: by job.
        histories: a frame a job.
        predictions: by dataset and label, NaN for rows that are not tested.
        estimates: of all jobs' validation and test rows.
        spare: see `TrainResults`.
    """

    cards: dict[str, RaterCard]
    histories: list[pd.DataFrame]
    predictions: dict[str, dict[str, Floats]]
    estimates: list[rater_training.RatingEstimates]
    spare: list[Path]


def run(options: TrainOptions, folder: Path) -> TrainResults:
    """Train raters into folders of their own in `folder`, and measure their predictions.

    A training of the same options that was stopped there continues; one that was finished is
    not repeated.

    Raises:
        InputError: on unknown names, data that cannot be had, a split that leaks, another training's
            remains in the folder, or what the recipe itself rejects.
    """
    clock = RunClock()
    corpora = _load_corpora(options)
    jobs = plan_jobs(make_plan(options), corpora)
    rater_names = {job.label for job in jobs}
    names_in_both = rater_names & {metric.spec for metric in options.metrics}
    if names_in_both:
        raise InputError(f"metrics: two different metrics are called '{min(names_in_both)}'")

    store = options.locations.store()
    problem = f"{folder}: another run trains there; set another output_dir"
    with hold_lock(folder / ".lock", problem), StepProgress(len(jobs)) as progress:
        logger.info(
            "training in %s; if it is stopped, the same command with output_dir=%s continues it",
            folder,
            folder,
        )
        trainings = _train(options, jobs, corpora, folder, store, progress)
        measured = _measure_all(options, jobs, corpora, trainings, store, progress)
        correlations = join_correlations(measured)
        # A fold's figures are of all folds.
        if options.design != "folds":
            _add_scores(jobs, trainings.cards, correlations, folder)

    means = compute_seed_means(correlations, options.seeds)
    errors = rater_training.error_rows(trainings.estimates)
    is_tested = bool(measured and options.metrics) and options.statistics.uses_resampling
    leads = _lead_tables(measured, options) if is_tested else []

    details = make_mean_tables(means, options.seeds)
    if len(errors):
        details.append(rater_training.error_table(errors))
    tables = _tables(
        measured,
        details=details,
        leads=leads,
        short=_short_table(options, jobs, measured, leads),
        notes=design_notes(options, jobs, corpora),
    )

    with_means = pd.concat([correlations, make_correlations(means)], ignore_index=True)
    further_frames = _further_frames(trainings, measured, errors, is_tested=is_tested)
    return TrainResults(
        {"correlations.csv": with_means, **further_frames},
        _record(options, jobs, corpora, trainings.cards) | clock.record(),
        tables=tables,
        summary=_usage(options, jobs, folder) if options.keep else "",
        objective=_average_headlines(measured),
        spare=trainings.spare,
    )


def _further_frames(
    trainings: _Trainings,
    measured: Sequence[MeasuredDataset],
    errors: pd.DataFrame,
    *,
    is_tested: bool,
) -> dict[str, pd.DataFrame]:
    """Return the tables beside the correlations, by file name."""
    histories = pd.concat(trainings.histories, ignore_index=True)
    frames = {
        "scores.parquet": join_scores(measured),
        "training.csv": histories[["rater", *HISTORY_COLUMNS]],
    }
    if len(errors):
        frames["rating_errors.csv"] = errors
    if is_tested:
        frames["significance.csv"] = pd.concat([m.differences for m in measured], ignore_index=True)
    return frames


def _tables(
    measured: Sequence[MeasuredDataset],
    details: Sequence[ResultTable],
    leads: Sequence[ResultTable],
    short: Sequence[ResultTable],
    notes: Sequence[str],
) -> list[ResultTable]:
    """Return the printed tables: the short ones with the design's notes, then each dataset's own and other details."""
    dataset_tables: list[ResultTable] = []
    is_synthetic = False
    for dataset in measured:
        table = correlation_table(dataset, dataset.scored.metrics)
        dataset_tables.append(replace(table, notes=[*table.notes, *notes]))
        is_synthetic = is_synthetic or dataset.caption_set.card.synthetic

    # A dataset's own table says by itself that it is synthetic.
    notes_of_short = [synthetic_note("metrics"), *notes] if is_synthetic else notes
    tables = [replace(table, notes=[*table.notes, *notes_of_short]) for table in short]

    other_leads = [table for table in leads if table not in short]
    for table in (*dataset_tables, *details, *other_leads):
        tables.append(replace(table, is_detail=True))
    return tables


def _short_table(
    options: TrainOptions,
    jobs: Sequence[TrainingJob],
    measured: Sequence[MeasuredDataset],
    leads: list[ResultTable],
) -> list[ResultTable]:
    """Return the one table that is printed without `details=true`; none where nothing was tested."""
    if not measured:
        return []
    if options.design == "transfer":
        return [transfer_table(jobs, measured)]
    # Each seed has a lead of its own, which would be a row each.
    if leads and len(options.seeds) == 1:
        return leads
    return [headline_table(measured, options.target)]


def _lead_tables(measured: Sequence[MeasuredDataset], options: TrainOptions) -> list[ResultTable]:
    """Return the table of raters' leads; none where there was too little to test."""
    leads = rater_training.lead_table(measured, options.metrics)
    return [leads] if leads.rows else []


def _average_headlines(measured: Sequence[MeasuredDataset]) -> float | None:
    """Return the mean of the raters' headline coefficients; None where nothing was tested."""
    values: list[float] = []
    for dataset in measured:
        for metric in dataset.scored.metrics:
            value = dataset.headline_value(metric.spec)
            if isinstance(metric, rater_training.TrainedRater) and value is not None:
                values.append(value)
    return fmean(values) if values else None


def _load_corpora(options: TrainOptions) -> dict[str, TrainingCorpus]:
    """Load the datasets, with the ratings of the dimension that is learned, by the names of their cards.

    A file of the user's own is `file` as an option, and has the name `file.name` everywhere else.
    """
    corpora: dict[str, TrainingCorpus] = {}
    for option_name, protocol in options.datasets.items():
        caption_set = options.locations.load(option_name)
        corpus = TrainingCorpus.prepare(caption_set, protocol, options.target)
        corpora[corpus.name] = corpus

    return corpora


def _measure_all(
    options: TrainOptions,
    jobs: Sequence[TrainingJob],
    corpora: Mapping[str, TrainingCorpus],
    trainings: _Trainings,
    store: ScoreStore,
    progress: StepProgress,
) -> list[MeasuredDataset]:
    """Measure the predictions on each dataset of which rows were predicted."""
    measured: list[MeasuredDataset] = []
    for name, columns in trainings.predictions.items():
        if columns:
            of_dataset = _measure(
                name,
                corpora[name],
                jobs=jobs,
                columns=columns,
                options=options,
                store=store,
                progress=progress,
            )
            measured.append(of_dataset)

    return measured


def make_plan(options: TrainOptions) -> TrainingPlan:
    """Return what is trained, and on which images."""
    return TrainingPlan(
        options.recipe,
        options.design,
        options.seeds,
        options.folds,
        strict=options.strict,
        strict_control=options.strict_control,
        shuffled=options.shuffled,
        device=options.device,
        threads=options.threads,
    )


def _train(
    options: TrainOptions,
    jobs: Sequence[TrainingJob],
    corpora: Mapping[str, TrainingCorpus],
    folder: Path,
    store: ScoreStore,
    progress: StepProgress,
) -> _Trainings:
    """Train the rater of each job, and predict its test rows."""
    plan = make_plan(options)
    is_finished = (folder / RUN_FILE).is_file()
    cards: dict[str, RaterCard] = {}
    histories: list[pd.DataFrame] = []
    predictions: dict[str, dict[str, Floats]] = {name: {} for name in corpora}
    estimates: list[rater_training.RatingEstimates] = []
    spare: list[Path] = []

    for job in jobs:
        with progress.step(job.name):
            rater_folder = folder / job.name
            # Raters of a finished run that kept them stay; those of one that was killed do not.
            was_kept = is_finished and (rater_folder / CARD_FILE).is_file()
            if not options.keep and not was_kept:
                spare.append(rater_folder)
            model, card = rater_training.train_rater(plan, job, corpora, rater_folder)
            rater = rater_training.TrainedRater(job.label, model, options.recipe.needs)

            tested: dict[str, Floats] = {}
            for name, rows in job.test.items():
                selection = corpora[name].selection
                # Each fold of a rater fills its rows of one column.
                unknown = np.full(len(selection.items), np.nan)
                column = predictions[name].setdefault(job.label, unknown)
                items = selection.items.iloc[rows].reset_index(drop=True)
                column[rows] = Scorer(name, items, selection.protocol).score(rater, store)
                tested[name] = column[rows]

            cards[job.name] = card
            estimates += rater_training.estimate_ratings(plan.recipe, job, model, tested, corpora)
            history = pd.read_csv(rater_folder / rater_training.HISTORY_FILE)
            histories.append(history.assign(rater=job.name))

    return _Trainings(cards, histories, predictions, estimates, spare)


def _measure(
    name: str,
    corpus: TrainingCorpus,
    jobs: Sequence[TrainingJob],
    columns: Mapping[str, Floats],
    options: TrainOptions,
    store: ScoreStore,
    progress: StepProgress,
) -> MeasuredDataset:
    """Correlate predictions and compared metrics on the rows that were predicted."""
    is_tested = np.zeros(len(corpus.items), dtype=bool)
    for job in jobs:
        if name in job.test:
            is_tested[job.test[name]] = True

    selection = corpus.selection.with_items(corpus.items.iloc[is_tested].reset_index(drop=True))
    raters: list[Metric] = [rater_training.TrainedRater(label) for label in columns]
    scores = {label: column[is_tested] for label, column in columns.items()}
    # Raters are tested on images that they have not seen; other metrics may have been trained on them.
    caveats = metric_caveats(options.metrics, selection.items)

    if options.metrics:
        scorer = Scorer(corpus.name, selection.items, selection.protocol)
        progress.add_steps(len(options.metrics), "scores")
        scores |= score_all(scorer, options.metrics, store, progress)

    metrics = (*raters, *options.metrics)
    scored = ScoredDataset(selection, metrics, by_item(scores, selection.items), caveats)
    return correlate_dataset(scored, progress, statistics=options.statistics)


def _add_scores(
    jobs: Sequence[TrainingJob],
    cards: Mapping[str, RaterCard],
    correlations: pd.DataFrame,
    folder: Path,
) -> None:
    """Write onto each rater's card how it agrees with people on its test rows."""
    columns = ["dataset", "dimension", "coefficient", "value", "n_items"]
    for job in jobs:
        is_own = correlations["metric"] == job.label
        rows = correlations[is_own & correlations["dataset"].isin(list(job.test))]
        card = cards[job.name]
        about = {**card.about, "test": rows[columns].to_dict("records")}
        rater_training.write_card(replace(card, about=about), folder / job.name)


def _record(
    options: TrainOptions,
    jobs: Sequence[TrainingJob],
    corpora: Mapping[str, TrainingCorpus],
    cards: Mapping[str, RaterCard],
) -> dict[str, Any]:
    """Return what `run.json` says of the run, but for its time."""
    caption_sets: list[CaptionSet] = []
    protocols: dict[str, Protocol] = {}
    for name, corpus in corpora.items():
        caption_sets.append(corpus.selection.caption_set)
        protocols[name] = corpus.selection.protocol

    raters: dict[str, dict[str, Any]] = {}
    for job in jobs:
        raters[job.name] = {
            "seed": job.seed,
            "train": len(job.train),
            "validation": len(job.validation),
            "test": {name: len(rows) for name, rows in job.test.items()},
            "dropped": job.n_dropped,
            "fingerprint": cards[job.name].fingerprint,
        }

    return {
        "command": "train",
        "config": dict(options.configuration),
        "rater": options.recipe.name,
        "options": options.recipe.options,
        "design": options.design,
        "protocols": record_protocols(protocols),
        "raters": raters,
        **provenance(options.metrics, caption_sets, options.locations, list(protocols.values())),
    }


def _name_split(corpora: Mapping[str, TrainingCorpus]) -> str:
    """Name the split of all datasets: the shared one, or that which the data come with."""
    names = [name for name, corpus in corpora.items() if not corpus.has_shared_split]
    if not names:
        return "the shared split"
    data_split = "the split that the data come with"
    if len(names) == len(corpora):
        return data_split
    return f"the shared split ({', '.join(names)}: {data_split})"


def design_notes(
    options: TrainOptions, jobs: Sequence[TrainingJob], corpora: Mapping[str, TrainingCorpus]
) -> list[str]:
    """Describe the design below each table."""
    captions = _captions_elsewhere(options)
    if captions is None:
        design = _describe_design(options, corpora)
    else:
        # Whatever the design is, such a rater learns nothing from the datasets; it decides what is tested.
        source = "the demo's further scenes" if captions == DEMO else Path(captions).name
        tested = "without the images that are tested here"
        if options.design == "all":
            tested = "and tested on nothing"
        design = f"learned from the captions of {source} and from no ratings, {tested}"
    notes = [f"{options.recipe.name}: {design}."]

    if n_dropped := sum(job.n_dropped for job in jobs):
        notes.append(f"{n_dropped:,} rows left out of training in all.")
    if options.shuffled:
        notes.append(f"CONTROL: trained on {options.recipe.control}.")
    return notes


def _captions_elsewhere(options: TrainOptions) -> str | None:
    """Return where the captions come from of a rater that learns nothing from the datasets; None of another."""
    captions = options.recipe.options.get("captions", OWN_REFERENCES)
    return None if captions == OWN_REFERENCES else captions


def _describe_design(options: TrainOptions, corpora: Mapping[str, TrainingCorpus]) -> str:
    """Say what a rater that learns from the datasets was trained on and chosen by, and what it is tested on."""
    choice = "chosen on its validation images"
    if options.recipe.options.get("select") == "last":
        choice = "the last epoch taken"
    design = {
        "split": f"trained on the training images of {_name_split(corpora)}, {choice}; all rows here are of "
        "its test images",
        "transfer": "each trained on one dataset's training images; all rows here are of test images",
        "folds": f"predicted by raters that had not seen the image ({options.folds} folds)",
        "leave_one_out": "trained on the other datasets; images that this one shares with them left out",
        "all": "trained on every row, so that nothing is left to test on",
    }[options.design]
    if options.design == "folds":
        design += "; trained on this dataset's other images, so supervised on it"
        if options.strict:
            design += ", but for images that a tested caption was borrowed from"
        elif options.strict_control:
            design += ", but for as many random images as a tested caption was borrowed from"

    return design


def _usage(options: TrainOptions, jobs: Sequence[TrainingJob], folder: Path) -> str:
    """Say how the first rater is used as a metric."""
    # The folder of a run stands for the only rater in it.
    path = folder if len(jobs) == 1 else folder / jobs[0].name
    if options.design == "all":
        learned = "trained on every row: no image of these datasets can test it"
        if _captions_elsewhere(options) is not None:
            learned = "the images of its captions cannot test it"
        return (
            f"{learned}; for captions of your own: "
            f"captau score candidates=FILE references=FILE 'metrics=rater(path={path})'"
        )
    if options.design == "folds":
        data = ""
    elif options.design == "leave_one_out":
        left_out = next(iter(jobs[0].test), "")
        data = f" dataset={left_out}"
    else:
        data = " protocol.split=test"
    return f"as a metric: 'metrics=rater(path={path})'{data}"
