"""Ratings of few of the systems' captions, set beside the scores of all, and how those were chosen.

The estimates of `statistics.prediction_powered` hold where the rated images were drawn at random, or with probabilities that
somebody recorded. What can be seen of a file against this is refused here: images that stand next to each other in the file
of captions, and images whose scores differ from the others' by more than chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....datasets.errors import InputError
from ....datasets.reading.rating_files import (
    IMAGES,
    RatingFile,
    is_same_caption,
    match_rated_images,
)
from ....datasets.reading.table import read_table
from ...statistics.distributions import normal_share
from ...statistics.prediction_powered import RatedSample, Scores
from ...statistics.weighted_pairs import Floats, Ints

#: The least rated images; with fewer, no simulation has shown that intervals hold.
LEAST_RATED = 20
#: The p-value below which scores say that rated images were not drawn at random, over all metrics and systems.
LEAST_CHANCE = 0.001


@dataclass(frozen=True)
class ScoredSystems:
    """The captions of systems for the same images.

    Attributes:
        file_names: of each system's captions, for messages.
        images: in the order of the first file.
        captions: of each system, in the order of the images.
        scores: of each system, shape (n_images, n_metrics).
        metrics: the metrics' specs.
    """

    file_names: Mapping[str, str]
    images: Sequence[str]
    captions: Mapping[str, Sequence[str]]
    scores: Mapping[str, Floats]
    metrics: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The systems' names."""
        return list(self.captions)


@dataclass(frozen=True)
class RatedChoice:
    """The choice of the rated images.

    Attributes:
        strata: of each image, shape (n_images,).
        probabilities: with which each was chosen; None where images of a stratum had equal ones.
        chosen: the images that were to be rated; None where any may be.
        source: the file that says so; empty where the choice was random.
    """

    strata: Ints
    probabilities: Floats | None = None
    chosen: frozenset[str] | None = None
    source: str = ""

    @classmethod
    def random(cls, n_images: int) -> RatedChoice:
        """Return the choice in which every image is as likely as another."""
        return cls(np.zeros(n_images, dtype=np.int64))


def read_choice(path: Path, images: Sequence[str]) -> RatedChoice:
    """Read how images were chosen: `plan.csv`, or a table of one's own with `image_id` and `probability`.

    Args:
        path: the table; the column `stratum` says within what images were drawn at random, and `order` which were.
        images: all images.

    Raises:
        InputError: where the file cannot be read, lacks an image or a column, or a probability is none.
    """
    table = read_table(path)
    name = table.first_of(*IMAGES)
    if name is None:
        raise InputError(f"{path}: no column 'image_id'; it has {', '.join(table.names)}")

    probabilities = np.array(
        table.floats("probability", None, "; it says how likely each image was to be chosen")
    )
    bad = np.flatnonzero((probabilities <= 0) | (probabilities > 1))
    if bad.size:
        file_and_line = table.places[int(bad[0])]
        raise InputError(
            f"{file_and_line}: probability is {probabilities[bad[0]]:g}; a number above 0 and up to 1 is expected"
        )

    ids = table.filled(name)
    matched = match_rated_images(
        list(zip(table.places, ids, strict=True)), set(images), "candidates"
    )
    rows = {matched[image_id]: i for i, image_id in enumerate(ids)}
    missing = [image_id for image_id in images if image_id not in rows]
    if missing:
        raise InputError(
            f"{path}: it lacks {len(missing):,} of {len(images):,} images, such as '{missing[0]}'; "
            "the probability of every image is needed, also of those that were not chosen"
        )

    order = [rows[image_id] for image_id in images]
    images_to_rate: frozenset[str] | None = None
    if "order" in table:
        numbered: list[str] = []
        for image_id, cell in zip(ids, table.column("order"), strict=True):
            # The plan leaves the order of images empty that were not chosen.
            if str(cell).strip() not in ("", "None", "nan"):
                numbered.append(matched[image_id])
        images_to_rate = frozenset(numbered)

    if "stratum" not in table:
        strata = np.zeros(len(images), dtype=np.int64)
        return RatedChoice(strata, probabilities[order], images_to_rate, str(path))

    names = [str(cell) for cell in table.column("stratum")]
    _, strata = np.unique([names[i] for i in order], return_inverse=True)
    return RatedChoice(strata.astype(np.int64), None, images_to_rate, str(path))


@dataclass(frozen=True)
class PlacedRatings:
    """Ratings by image and system.

    Attributes:
        files_and_lines: where each stands, for messages.
        image: the number of each one's image, shape (n_ratings,).
        system: the name of its system; of comparisons the two names, the first one first in the order of the systems.
        rater: the number of its rater.
        values: the ratings; of comparisons 1 where the first system wins.
    """

    files_and_lines: Sequence[str]
    image: Ints
    system: Sequence[tuple[str, ...]]
    rater: Ints
    values: Floats

    def of_systems(self, *names: str) -> np.ndarray:
        """Return the numbers of the ratings of a system, or of the comparisons of two."""
        numbers: list[int] = []
        for number, system in enumerate(self.system):
            if system == names:
                numbers.append(number)
        return np.array(numbers, dtype=int)


def place_ratings(ratings: RatingFile, systems: ScoredSystems) -> PlacedRatings:
    """Find the image and system of each rating.

    Raises:
        InputError: where an image is not among the captions, a system is unknown or not told, or another caption was rated.
    """
    file_name = ", ".join(dict.fromkeys(systems.file_names.values()))
    ids = [(row.place, row.image_id) for row in ratings.rows]
    matched = match_rated_images(ids, dict.fromkeys(systems.images), file_name)
    number = {image_id: i for i, image_id in enumerate(systems.images)}
    raters: dict[str, int] = {}

    images: list[int] = []
    names: list[tuple[str, ...]] = []
    values: list[float] = []
    of_raters: list[int] = []
    for row in ratings.rows:
        image = number[matched[row.image_id]]
        row_systems: list[str] = []
        for system, caption in zip(row.systems, row.captions, strict=True):
            row_systems.append(_find_system(system, caption, row.place, image, systems))

        value = row.value
        if len(row_systems) == 2:
            if row_systems[0] == row_systems[1]:
                raise InputError(
                    f"{row.place}: it compares two captions of '{row_systems[0]}'; captions of two systems are expected"
                )
            # Comparisons of two systems are counted together, whichever of them stands first in a row.
            if systems.names.index(row_systems[0]) > systems.names.index(row_systems[1]):
                row_systems.reverse()
                value = 1 - value
        images.append(image)
        names.append(tuple(row_systems))
        values.append(value)
        of_raters.append(raters.setdefault(row.rater, len(raters)))

    return PlacedRatings(
        files_and_lines=[row.place for row in ratings.rows],
        image=np.array(images, dtype=np.int64),
        system=names,
        rater=np.array(of_raters, dtype=np.int64),
        values=np.array(values, dtype=np.float64),
    )


def _find_system(
    system: str, caption: str, file_and_line: str, image: int, systems: ScoredSystems
) -> str:
    """Return the system that a rated caption is of, by its name or by the caption."""
    if system and system not in systems.captions:
        raise InputError(
            f"{file_and_line}: system is '{system}', and candidates= has {', '.join(systems.names)}; "
            f"name it candidates={system}=FILE"
        )

    names = [system] if system else systems.names
    if caption:
        names = [n for n in names if is_same_caption(caption, systems.captions[n][image])]
    if len(names) == 1 or (names and caption):
        return names[0]
    if not names:
        system_caption = systems.captions[system or systems.names[0]][image]
        raise InputError(
            f"{file_and_line}: '{caption}' was rated, and the caption of image '{systems.images[image]}' is "
            f"'{system_caption}'; give the captions that were rated"
        )
    raise InputError(
        f"{file_and_line}: it does not say which of {', '.join(names)} was rated; add a column system or caption"
    )


def add_ties(placed: PlacedRatings, systems: ScoredSystems, choice: RatedChoice) -> PlacedRatings:
    """Add a tie for each chosen image of which two systems have equal captions, that studies do not show."""
    pairs = set(placed.system)
    if choice.chosen is None or len(pairs) != 1:
        return placed

    ((a, b),) = pairs
    compared = set(placed.image.tolist())
    ties: list[int] = []
    for i, image_id in enumerate(systems.images):
        is_equal = is_same_caption(systems.captions[a][i], systems.captions[b][i])
        if image_id in choice.chosen and is_equal and i not in compared:
            ties.append(i)

    return PlacedRatings(
        files_and_lines=[*placed.files_and_lines, *("" for _ in ties)],
        image=np.concatenate([placed.image, np.array(ties, dtype=np.int64)]),
        system=[*placed.system, *((a, b) for _ in ties)],
        # Whoever looks at equal captions sees a tie.
        rater=np.concatenate([placed.rater, np.zeros(len(ties), dtype=np.int64)]),
        values=np.concatenate([placed.values, np.full(len(ties), 0.5)]),
    )


def check_choice_of_images(
    placed: PlacedRatings, systems: ScoredSystems, choice: RatedChoice, *, is_shuffled: bool
) -> None:
    """Check that the rated images can be a random choice, or are of the recorded one.

    Raises:
        InputError: where they cannot, or are not.
    """
    rated = np.unique(placed.image)
    if choice.chosen is not None:
        for file_and_line, image in zip(placed.files_and_lines, placed.image, strict=True):
            if systems.images[image] not in choice.chosen:
                raise InputError(
                    f"{file_and_line}: image '{systems.images[image]}' was rated, and {choice.source} did not choose it; "
                    "leave such ratings out"
                )
    if choice.source or len(rated) < 2:
        return

    n_images = len(systems.images)
    file_name = next(iter(systems.file_names.values()))
    if not is_shuffled and len(rated) < n_images and np.ptp(rated) + 1 == len(rated):
        where = "first" if rated[0] == 0 else "last" if rated[-1] + 1 == n_images else "adjacent"
        raise InputError(
            f"the {len(rated):,} rated images are the {where} ones of {file_name}, which is no random choice; captau "
            "estimate plan=true chooses some, and chosen=shuffled says that the file was shuffled before"
        )

    chance, metric = _least_chance(rated, systems)
    if chance < LEAST_CHANCE:
        raise InputError(
            f"the {len(rated):,} rated images are no random choice of {n_images:,}: their scores by {metric} differ from the "
            f"others' (p = {chance:.1g}); name the file that recorded the choice, chosen=FILE, with image_id and probability"
        )


def _least_chance(rated: Ints, systems: ScoredSystems) -> tuple[float, str]:
    """Return the least p-value, over metrics and systems and corrected for their number, of rated images being drawn at random."""
    n_images = len(systems.images)
    free = 1 - len(rated) / n_images
    n_tests = len(systems.metrics) * len(systems.names)
    least_chance = (1.0, "")
    # Where every image is rated nothing was drawn.
    if not free:
        return least_chance

    for scores in systems.scores.values():
        for column, metric in enumerate(systems.metrics):
            of_metric = scores[:, column]
            error = float(of_metric.std(ddof=1)) * np.sqrt(free / len(rated))
            if not error:
                continue
            deviation = abs(float(of_metric[rated].mean() - of_metric.mean())) / error
            chance = min(1.0, n_tests * 2 * normal_share(-deviation))
            least_chance = min(least_chance, (chance, metric))
    return least_chance


def make_sample(
    placed: PlacedRatings,
    systems: ScoredSystems,
    choice: RatedChoice,
    names: tuple[str, ...],
    metrics: Sequence[str] | None = None,
) -> RatedSample:
    """Return a system's rated captions among all, or the comparisons of two systems.

    Args:
        placed: all ratings.
        systems, choice: the captions, and how they were chosen.
        names: the system, or the two; of two, scores are those of the first less those of the second.
        metrics: those that help; None for all.
    """
    numbers = placed.of_systems(*names)
    scores = systems.scores[names[0]]
    if len(names) == 2:
        scores = scores - systems.scores[names[1]]

    metric_columns = [systems.metrics.index(metric) for metric in metrics or systems.metrics]
    return RatedSample(
        scores=Scores.of(scores[:, metric_columns]),
        images=np.arange(len(systems.images)),
        strata=choice.strata,
        caption=placed.image[numbers],
        rater=placed.rater[numbers],
        values=placed.values[numbers],
        probabilities=choice.probabilities,
    )


def pair_samples(
    placed: PlacedRatings, systems: ScoredSystems, choice: RatedChoice, names: tuple[str, str]
) -> RatedSample | None:
    """Return the differences of two systems' ratings by image; None unless the same images of both were rated."""
    means: list[dict[int, float]] = []
    for name in names:
        numbers = placed.of_systems(name)
        sums = np.bincount(placed.image[numbers], weights=placed.values[numbers])
        counts = np.bincount(placed.image[numbers])
        means.append({int(i): float(sums[i] / counts[i]) for i in np.flatnonzero(counts)})
    if means[0].keys() != means[1].keys():
        return None

    rated = np.array(sorted(means[0]), dtype=np.int64)
    differences = np.array([means[0][int(i)] - means[1][int(i)] for i in rated])
    return RatedSample(
        scores=Scores.of(systems.scores[names[0]] - systems.scores[names[1]]),
        images=np.arange(len(systems.images)),
        strata=choice.strata,
        caption=rated,
        rater=np.zeros(len(rated), dtype=np.int64),
        values=differences,
        probabilities=choice.probabilities,
    )
