"""The plan of which images to have rated next and how many, and the study in which people rate them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....datasets.reading.rating_files import is_same_caption
from ...runs.frames import make_frame
from ...runs.results import to_csv
from ...runs.tables import ResultTable, Row, number_cell
from ...statistics.prediction_powered import PoweredMean, RatedSample, estimate_mean
from ...statistics.rating_plan import (
    allocate,
    captions_for_difference,
    captions_for_width,
    draw,
    error_of,
    measure_errors,
    normal_scores,
    stratify,
)
from ...statistics.weighted_pairs import Floats, Ints
from .few_ratings import (
    LEAST_RATED,
    PlacedRatings,
    RatedChoice,
    ScoredSystems,
    make_sample,
    pair_samples,
)

PLAN_COLUMNS = ("image_id", "stratum", "probability", "order")
#: The images that are rated where nothing says how many.
USUAL_NUMBER = 100
#: Of a question for two systems.
COMPARISON = "ab"


@dataclass(frozen=True)
class PlanWishes:
    """The goal of a plan.

    Attributes:
        n: the images that are rated in all; None where a width or a difference says how many.
        width: of the interval, from low to high.
        difference: between two systems.
        power: with which it is to be found.
        sd: the standard deviation of ratings, where no pilot tells it.
        choose: one of `statistics.rating_plan.CHOICES`.
        population: of whom intervals are to speak.
        level: of the intervals.
        seed: of the draw.
    """

    n: int | None
    width: float | None
    difference: float | None
    power: float
    sd: float | None
    choose: str
    population: str
    level: float
    seed: int


@dataclass(frozen=True)
class Pilot:
    """The estimates from the ratings so far.

    Attributes:
        rated: the images that are rated, shape (n_rated,).
        ratings, residual: the variances of ratings, and of what metrics leave unexplained of them.
        residuals: of each rated image, shape (n_rated,).
    """

    rated: Ints
    ratings: float
    residual: float
    residuals: Floats


@dataclass(frozen=True)
class RatingPlan:
    """Images to have rated.

    Attributes:
        rows: columns `PLAN_COLUMNS`; `order` is 0 of images that are rated already, and empty of those not chosen.
        chosen: the new images in their order.
        notes: sentences on how they were chosen.
    """

    rows: pd.DataFrame
    chosen: Sequence[int]
    notes: Sequence[str]


def read_pilot(
    placed: PlacedRatings, systems: ScoredSystems, choice: RatedChoice, *, is_difference: bool
) -> Pilot:
    """Return what a pilot says of the first system, or of the difference of the first two.

    Raises:
        InputError: where it has too few ratings.
    """
    # Judgements of pairs are of two systems; ratings are read of the first system.
    names = placed.system[0]
    if len(names) != 2:
        names = (systems.names[0],)
    sample: RatedSample | None = None
    if is_difference and len(names) == 1:
        sample = pair_samples(placed, systems, choice, (systems.names[0], systems.names[1]))
    if sample is None:
        sample = make_sample(placed, systems, choice, names)

    rated = np.unique(sample.caption)
    if len(rated) < LEAST_RATED:
        raise InputError(
            f"the pilot has {len(rated)} rated images, and {LEAST_RATED} or more are needed; leave ratings= out, or give n="
        )

    mean = estimate_mean(sample)
    # The variance for the given captions is smaller by the share that is rated, which has no error: dividing by the rest
    # gives the variance for many captions.
    unrated_share = max(1e-9, 1 - len(rated) / len(systems.images))
    return Pilot(
        rated=rated,
        ratings=_variance(mean, "classical", len(rated)) / unrated_share,
        residual=_variance(mean, "powered", len(rated)) / unrated_share,
        residuals=_residuals(sample, rated),
    )


def _variance(mean: PoweredMean, method: str, n_rated: int) -> float:
    """Return n times the variance of the estimate for the given captions."""
    return n_rated * getattr(mean, method).influences.variance("captions")


def _residuals(sample: RatedSample, rated: Ints) -> Floats:
    """Return what the metrics leave unexplained of each rated image's mean rating, by least squares."""
    sums = np.bincount(sample.caption, weights=sample.values, minlength=len(sample.scores))
    counts = np.bincount(sample.caption, minlength=len(sample.scores))
    ratings = sums[rated] / counts[rated]
    columns = np.column_stack(
        [np.ones(len(rated)), normal_scores(sample.scores.standardised)[rated]]
    )
    slopes, *_ = np.linalg.lstsq(columns, ratings, rcond=None)
    return ratings - columns @ slopes


def plan_ratings(systems: ScoredSystems, pilot: Pilot | None, wishes: PlanWishes) -> RatingPlan:
    """Choose the images to have rated.

    Raises:
        InputError: where nothing says how far ratings differ, no number is enough, or the choice needs more metrics.
    """
    n_images = len(systems.images)
    notes: list[str] = []
    n_rated = _find_number(n_images, pilot, wishes, notes)
    # By ranks, so that metrics with scales of their own count alike.
    scores = np.mean([normal_scores(scores) for scores in systems.scores.values()], axis=0)

    strata = np.zeros(n_images, dtype=np.int64)
    errors = np.ones(1)
    if wishes.choose == "stratified":
        _check_metrics(systems, 1)
        strata = stratify(scores.mean(axis=1), n_rated)
        errors = np.ones(int(strata.max()) + 1)
    elif wishes.choose == "guided":
        _check_metrics(systems, 2)
        # Where metrics disagree, they leave the most to people.
        disagreement = scores.std(axis=1)
        strata = stratify(disagreement, n_rated)
        errors = np.bincount(strata, weights=disagreement) / np.bincount(strata)
        if pilot is not None:
            errors = measure_errors(strata, pilot.rated, pilot.residuals)

    is_rated = np.zeros(n_images, dtype=bool)
    if pilot is not None:
        is_rated[pilot.rated] = True
    n_strata = len(errors)
    already = np.bincount(strata[is_rated], minlength=n_strata)
    counts = allocate(strata, errors, n_rated, already)
    drawn_images = draw(strata, counts, is_rated, wishes.seed)

    order_by_image: dict[int, int] = {}
    for number, image in enumerate(drawn_images, start=1):
        order_by_image[int(image)] = number
    sizes = np.bincount(strata, minlength=n_strata)
    rows: list[tuple[object, ...]] = []
    for i, image_id in enumerate(systems.images):
        stratum = int(strata[i])
        probability = counts[stratum] / sizes[stratum]
        order: object = 0 if is_rated[i] else order_by_image.get(i, "")
        rows.append((image_id, stratum, probability, order))

    n_before = int(is_rated.sum())
    if not len(drawn_images):
        notes.append(f"No more than the {n_before:,} that are rated.")
        return RatingPlan(make_frame(rows, PLAN_COLUMNS), [], notes)

    notes.append(
        f"{len(drawn_images):,} of {n_images:,} images are chosen at random"
        + (f" within {n_strata} strata" if n_strata > 1 else "")
        + (f", beside {n_before:,} that are rated." if n_before else ".")
    )
    return RatingPlan(make_frame(rows, PLAN_COLUMNS), drawn_images.tolist(), notes)


def _check_metrics(systems: ScoredSystems, min_metrics: int) -> None:
    if len(systems.metrics) < min_metrics:
        raise InputError(
            f"choose= needs {min_metrics} metrics or more that score all captions; choose=random needs none"
        )


def _find_number(n_images: int, pilot: Pilot | None, wishes: PlanWishes, notes: list[str]) -> int:
    """Return how many images are to be rated in all, and note why."""
    if wishes.width is None and wishes.difference is None:
        return min(wishes.n or USUAL_NUMBER, n_images)

    is_difference = wishes.difference is not None
    if pilot is not None:
        ratings, residual = pilot.ratings, pilot.residual
        notes.append(
            f"In the pilot of {len(pilot.rated):,} images the {'differences' if is_difference else 'ratings'} have the "
            f"standard deviation {ratings**0.5:.2f}, of which metrics leave {residual**0.5:.2f}."
        )
    elif wishes.sd is not None:
        ratings = wishes.sd**2 * (2 if is_difference else 1)
        residual = ratings
        notes.append(
            f"Ratings are taken to have the standard deviation {wishes.sd:g}, those of two systems to be independent, and "
            "metrics to explain nothing; ratings= of a pilot would tell all three."
        )
    else:
        raise InputError(
            "width= and difference= need ratings=FILE of a pilot, or sd=, the standard deviation of ratings (about 1 on a "
            "scale from 1 to 5)"
        )

    def error(n: int) -> float:
        # Which images were drawn adds no error where the interval speaks of these alone.
        variance_of_images = 0.0 if wishes.population == "captions" else ratings
        return error_of(n, residual=residual, ratings=variance_of_images, n_captions=n_images)

    number = _least_number(error, wishes, n_images)
    if number is None:
        if wishes.width is not None:
            aim = f"an interval as narrow as {wishes.width:g}"
        else:
            aim = f"a difference of {wishes.difference:g} at a power of {wishes.power:g}"
        assumed = ""
        if wishes.sd is not None and is_difference:
            assumed = ", by sd= and with the two systems' ratings taken as independent (ratings= of a pilot would tell)"
        raise InputError(
            f"{aim} is out of reach with {n_images:,} images, even if all are rated{assumed}; give more captions, or "
            "population=captions if only these count"
        )

    if wishes.width is not None:
        aim = f"an interval no wider than {wishes.width:g}"
    else:
        aim = f"a difference of {wishes.difference:g} to be found with probability {wishes.power:g}"
    each = ", each with a rating of both systems' captions," if is_difference else ""
    notes.append(f"{number:,} rated images{each} are needed for {aim}.")
    # Of fewer ratings than these, intervals are not known to hold.
    return min(max(number, LEAST_RATED), n_images)


def _least_number(error: Callable[[int], float], wishes: PlanWishes, n_images: int) -> int | None:
    if wishes.width is not None:
        return captions_for_width(error, wishes.width, wishes.level, n_images)

    assert wishes.difference is not None  # one of the two is named
    return captions_for_difference(
        error, float(wishes.difference), wishes.power, wishes.level, n_images
    )


def plan_table(plan: RatingPlan, systems: ScoredSystems, notes: Sequence[str]) -> ResultTable:
    """Return the table of the strata: their images, and how many of them are to be rated."""
    rows: list[Row] = []
    n_strata = plan.rows["stratum"].nunique()
    for stratum, part in plan.rows.groupby("stratum", sort=True):
        n_before = int((part["order"] == 0).sum())
        n_new = len(part) - n_before - int((part["order"] == "").sum())
        counts = [number_cell(n, 1, 0) for n in (len(part), n_before, n_new)]
        probability = number_cell(float(part["probability"].iloc[0]), 100, 1)
        label = "all images" if n_strata == 1 else f"stratum {stratum}"
        rows.append(Row(label, [*counts, probability]))

    names = " and ".join(systems.names)
    return ResultTable(
        f"Which images to have rated, for {names}",
        "stratum",
        ["images", "rated", "to rate", "probability %"],
        rows,
        notes=notes,
        verdict=" ".join(plan.notes),
    )


_STUDY = """# A study of captau collect: captau collect study=study.yaml
name: estimate
title: {title}
protocol: {form}
consent: |
  Your answers are kept with the time you took, and nothing else about you. You may stop at any time, and have
  everything deleted.
items:
  file: captions.csv
  images: {images}
# More images tell more than more ratings of each.
ratings: 1
participants: open
"""
_TITLES = {
    "four": "How good are these captions?",
    "good_bad": "Good or bad?",
    "ab": "Which caption is better?",
}


def make_study(
    plan: RatingPlan,
    systems: ScoredSystems,
    references: Sequence[Sequence[str]],
    *,
    form: str,
    images: Path,
    image_files: Sequence[str],
) -> dict[str, bytes]:
    """Return the files of a study of the chosen images: `study.yaml` and its table `captions.csv`.

    Args:
        plan: the chosen images.
        systems: the captions.
        references: of each image.
        form: the study's question.
        images: the folder of images.
        image_files: of each image.

    Raises:
        InputError: where two systems are to be compared and there are not two.
    """
    if form == COMPARISON and len(systems.names) != 2:
        raise InputError("form=ab compares two systems; give candidates=A,B")

    rows: list[dict[str, str]] = []
    for i in plan.chosen:
        captions = [(name, systems.captions[name][i]) for name in systems.names]
        image = {"image": str(Path(image_files[i]).relative_to(images))}
        if references[i]:
            image["references"] = json.dumps(list(references[i]), ensure_ascii=False)
        if form != COMPARISON:
            for name, caption in captions:
                rows.append({**image, "caption": caption, "system": name})
            continue

        (name_a, a), (name_b, b) = captions
        # Equal captions tie without a look; `add_ties` counts them.
        if not is_same_caption(a, b):
            of_pair = {"caption_a": a, "caption_b": b, "system_a": name_a, "system_b": name_b}
            rows.append({**image, **of_pair})

    study = _STUDY.format(title=_TITLES[form], form=form, images=json.dumps(str(images.resolve())))
    return {"study.yaml": study.encode(), "captions.csv": to_csv(pd.DataFrame(rows))}
