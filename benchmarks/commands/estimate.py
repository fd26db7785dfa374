"""`captau estimate`: people's mean rating of a system from the ratings of few captions and the metrics of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.caption_files import (
    CandidateFile,
    ReferenceFile,
    join_systems,
    read_references,
    read_systems,
)
from ...datasets.reading.rating_files import RatingFile, read_ratings
from ...metrics.base import Metric
from ..evaluation.prepared_datasets import provenance
from ..evaluation.systems.estimated_ratings import (
    EstimateChoices,
    estimate_rows,
    estimate_systems,
    estimate_tables,
    gain_rows,
)
from ..evaluation.systems.few_ratings import (
    PlacedRatings,
    RatedChoice,
    ScoredSystems,
    add_ties,
    check_choice_of_images,
    place_ratings,
    read_choice,
)
from ..evaluation.systems.planned_ratings import (
    Pilot,
    PlanWishes,
    make_study,
    plan_ratings,
    plan_table,
    read_pilot,
)
from ..options.estimate import RANDOM, SHUFFLED, EstimateOptions
from ..options.python_function import make_function
from ..reporting.charts.estimate_charts import estimate_figure
from ..reporting.run_results import Results
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock, tables_as_csv
from ..scoring.catalog import metric_labels, metric_style, record_styles
from ..scoring.corpus_scores import (
    PLAIN_PROTOCOL,
    make_scorer,
)
from ..scoring.scorer import score_all
from ..scoring.system_items import SystemItems, make_system_items
from ..scoring.unavailable_metrics import (
    check_works_without_references,
    find_unavailable,
    record_reasons,
    warn_unavailable,
)

#: The papers of the estimates.
CITATION = """@article{angelopoulos2023ppi,
  title={Prediction-powered inference},
  author={Angelopoulos, Anastasios N. and Bates, Stephen and Fannjiang, Clara and Jordan, Michael I. and Zrnic, Tijana},
  journal={Science},
  volume={382},
  pages={669--674},
  year={2023}
}

@article{angelopoulos2023ppipp,
  title={{PPI}++: Efficient Prediction-Powered Inference},
  author={Angelopoulos, Anastasios N. and Duchi, John C. and Zrnic, Tijana},
  journal={arXiv:2311.01453},
  year={2023}
}
"""


def run(options: EstimateOptions) -> Results:
    """Estimate systems' mean ratings, or with `plan` choose which captions to have rated.

    Raises:
        InputError: on a missing or malformed file, ratings of other captions, rated images that are no random or
            recorded choice, or too few of them.
    """
    clock = RunClock()
    ratings = None if options.ratings is None else read_ratings(options.ratings, options.dimension)
    captions = _read_captions(options)
    # What metrics need is the same for all systems: the first stands for all.
    missing = find_unavailable(options.metrics, next(iter(captions.items.values())))
    warn_unavailable([missing])
    metrics = [metric for metric in options.metrics if metric not in missing]
    systems, undefined = _score(captions, metrics, options)

    choice = RatedChoice.random(len(systems.images))
    if options.chosen not in (RANDOM, SHUFFLED):
        choice = read_choice(expand_home(options.chosen), systems.images)
    placed = None if ratings is None else _place(ratings, systems, choice, options)

    notes = [*captions.notes, *undefined, *(ratings.notes if ratings else ())]
    record = {
        "command": "estimate",
        "config": dict(options.configuration),
        "seed": options.statistics.seed,
        "candidates": {name: file.source.sha256 for name, file in captions.files.items()},
        **provenance(metrics, [], options.locations, [PLAIN_PROTOCOL]),
        "metrics": record_styles(metrics),
        "missing": record_reasons(missing),
        "measures": "people's mean ratings of systems from few ratings and metrics of all captions",
    }
    if not options.plan:
        words = f"{100 * options.statistics.level:g} % interval (prediction-powered, Student's t)"
        record["intervals"] = {"words": words, "citation": CITATION}
    if options.plan:
        results = _plan(options, captions, systems, placed, choice, notes)
    elif ratings is not None and placed is not None:
        results = _estimate(options, systems, ratings, placed, choice, notes)
    else:
        raise AssertionError("EstimateOptions asks for ratings or a plan")

    frames, tables, files = results
    figures: dict[str, bytes] = {}
    if not options.plan:
        figures = estimate_figure(frames["estimates.csv"], options.statistics.level)
    other_files = {**tables_as_csv(tables), **files}
    # Each quantity has two rows, of which the second is the powered estimate.
    objective = None if options.plan else float(frames["estimates.csv"]["value"].iloc[1])
    return Results(
        frames,
        {**record, **clock.record()},
        tables=tables,
        figures=figures,
        other_files=other_files,
        objective=objective,
    )


def _read_captions(options: EstimateOptions) -> SystemItems:
    """Read the captions and references, and match their images."""
    systems_by_file: list[tuple[str, dict[str, CandidateFile]]] = []
    for file in options.candidates:
        systems = read_systems(file.path, file.content, options.columns)
        systems_by_file.append((file.name, systems))

    files = join_systems(systems_by_file)
    references: ReferenceFile | None = None
    if options.references is not None:
        reference_file = options.references
        references = read_references(reference_file.path, reference_file.content, options.columns)
    else:
        check_works_without_references(options.metrics)

    return make_system_items(
        files,
        references,
        partial=options.partial,
        images=options.images,
        are_labelled=len(files) > 1,
    )


def _score(
    captions: SystemItems, metrics: Sequence[Metric], options: EstimateOptions
) -> tuple[ScoredSystems, list[str]]:
    """Score all captions, and leave out metrics that have no score of some."""
    store = options.locations.store()
    columns_by_system: dict[str, Any] = {}
    with StepProgress(len(metrics) * len(captions.items)) as progress:
        for name, items in captions.items.items():
            columns_by_system[name] = score_all(make_scorer(items), metrics, store, progress)

    specs: list[str] = []
    notes: list[str] = []
    for metric in metrics:
        gaps = 0
        for columns in columns_by_system.values():
            gaps += int((~np.isfinite(columns[metric.spec])).sum())
        # A score that is missing would have to be guessed, and a guess moves the estimate.
        if not gaps:
            specs.append(metric.spec)
            continue
        label = metric_style(metric).label
        notes.append(f"{label} is left out: {gaps:,} captions have no score by it.")

    scores: dict[str, Any] = {}
    for name, columns in columns_by_system.items():
        # Without any metric the array has the right number of rows all the same.
        none = np.zeros((len(captions.images), 0))
        scores[name] = np.column_stack([none, *(columns[spec] for spec in specs)])

    systems = ScoredSystems(
        file_names={name: file.source.path.name for name, file in captions.files.items()},
        images=captions.images,
        captions={name: items["caption"].tolist() for name, items in captions.items.items()},
        scores=scores,
        metrics=specs,
    )
    return systems, notes


def _place(
    ratings: RatingFile, systems: ScoredSystems, choice: RatedChoice, options: EstimateOptions
) -> PlacedRatings:
    """Set ratings beside the captions, and check that the rated ones can be believed to be a sample."""
    placed = place_ratings(ratings, systems)
    # Studies do not show equal captions; their ties are known without asking anybody.
    if ratings.is_compared:
        placed = add_ties(placed, systems, choice)
    check_choice_of_images(placed, systems, choice, is_shuffled=options.chosen == SHUFFLED)
    if options.population == "raters" and not ratings.has_raters:
        raise InputError(
            f"{ratings.path}: population=raters needs a column rater; population=images speaks of the given raters"
        )
    return placed


_Parts = tuple[dict[str, pd.DataFrame], list[Any], dict[str, bytes]]


def _estimate(
    options: EstimateOptions,
    systems: ScoredSystems,
    ratings: RatingFile,
    placed: PlacedRatings,
    choice: RatedChoice,
    notes: Sequence[str],
) -> _Parts:
    """Return the frames, tables and further files of the estimates."""
    choices = EstimateChoices(
        population=options.population,
        level=options.statistics.level,
        correction=options.statistics.correction,
        seed=options.statistics.seed,
    )
    quantities = estimate_systems(
        placed,
        systems,
        choice,
        choices,
        is_compared=ratings.is_compared,
        is_binary=ratings.is_binary,
    )

    all_labels = metric_labels(options.metrics)
    # Those without a score of some caption are left out of the estimates.
    labels = {spec: all_labels[spec] for spec in systems.metrics}
    lines = [*_choice_notes(options, placed, choice), *notes]
    lines.append(f"Metrics: {', '.join(labels.values()) or 'none'}.")
    tables = estimate_tables(quantities, choices, labels, lines)
    row_notes = [f"metrics: {', '.join(systems.metrics)}", f"population: {options.population}"]
    frames = {
        "estimates.csv": estimate_rows(quantities, choices, row_notes),
        "gains.csv": gain_rows(quantities),
    }
    return frames, tables, {}


def _choice_notes(
    options: EstimateOptions, placed: PlacedRatings, choice: RatedChoice
) -> list[str]:
    """Say how the rated images were chosen."""
    if not choice.source:
        return [
            "The rated images are taken to be a random choice; that they are is yours to know (chosen= names the file that "
            "recorded another one)."
        ]

    n_rated = len(np.unique(placed.image))
    line = f"The rated images are weighted by how likely {Path(choice.source).name} made each."
    if choice.chosen is not None and n_rated < len(choice.chosen):
        line += f" Of its {len(choice.chosen):,} images {n_rated:,} are rated; the others are taken to be missing at random."
    return [line]


def _plan(
    options: EstimateOptions,
    captions: SystemItems,
    systems: ScoredSystems,
    placed: PlacedRatings | None,
    choice: RatedChoice,
    notes: Sequence[str],
) -> _Parts:
    """Return the frames, tables and the study's files of a plan."""
    wishes = PlanWishes(
        n=options.n,
        width=options.width,
        difference=options.difference,
        power=options.power,
        sd=options.sd,
        choose=options.choose,
        population=options.population,
        level=options.statistics.level,
        seed=options.statistics.seed,
    )
    pilot: Pilot | None = None
    # A pilot says how much ratings scatter, and how much of that metrics explain.
    if placed is not None:
        if options.difference is not None and len(systems.names) < 2:
            raise InputError("difference= needs captions of two systems: candidates=A,B")
        pilot = read_pilot(placed, systems, choice, is_difference=options.difference is not None)

    plan = plan_ratings(systems, pilot, wishes)
    files: dict[str, bytes] = {}
    next_steps = ["plan.csv has each image's probability; give it as chosen= with the ratings."]
    if options.images is None:
        if options.form != "four":
            raise InputError(
                f"form={options.form} is the question of a study, and a study needs images=DIR, the folder of images"
            )
        next_steps.append("images=DIR also writes a study that captau collect serves.")
    else:
        first = next(iter(captions.items.values()))
        files = make_study(
            plan,
            systems,
            first["references"].tolist(),
            form=options.form,
            images=options.images,
            image_files=first["image"].tolist(),
        )
        next_steps.append(
            "captau collect study=DIR/study.yaml serves the study of this folder DIR."
        )
    table = plan_table(plan, systems, [*next_steps, *notes])
    return {"plan.csv": plan.rows}, [table], files


estimate = make_function(
    "estimate",
    EstimateOptions,
    run,
    summary="Estimate people's mean rating of systems from few ratings, and plan which captions to rate",
    returns="`Results`, whose `frames` have `estimates.csv` and `gains.csv`, or with `plan` `plan.csv`.",
    raises="on a missing or malformed file, ratings of other captions, rated images that are no random or recorded "
    "choice, or too few of them.",
)
