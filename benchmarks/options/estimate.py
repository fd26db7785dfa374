"""Options of `captau estimate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ...datasets.errors import InputError
from ...datasets.reading.table import Columns
from ...metrics.base import Metric
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.prediction_powered import POPULATIONS
from ..statistics.rating_plan import CHOICES
from . import shared
from .declaration import option
from .large import columns_part
from .score import CANDIDATES_FROM_PYTHON, REFERENCES_FROM_PYTHON, NamedFile, files_of, one_file_of

#: What `chosen=` says without a file.
RANDOM = "random"
SHUFFLED = "shuffled"
#: The questions of a study that `plan=true` writes.
FORMS = ("four", "good_bad", "ab")


def _check_positive(value: float, key: str) -> None:
    if value <= 0:
        raise InputError(f"{key} is {value:g}; a number above 0 is expected")


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(shared.ScoringOptions):
    """Options of `captau estimate`."""

    examples: ClassVar[str] = """
captau estimate plan=true candidates=mine.json references=refs.json n=40 images=photos output_dir=plan
captau estimate candidates=mine.json references=refs.json ratings=rated/ratings.csv chosen=plan/plan.csv
captau estimate candidates=mine.json references=refs.json ratings=hundred.csv      rated at random
captau estimate candidates=mine.json,base.json references=refs.json ratings=both.csv
"""
    notes: ClassVar[str] = """
People's mean rating of all captions, from the ratings of few and the metrics of all; it holds however poor the metrics are
(docs/estimate.md). The rated images have to be drawn at random, or with recorded probabilities, as plan=true draws them.
"""
    writes: ClassVar[str] = """
Writes estimates.csv, gains.csv, estimates.svg and .png, table.md, table.tex, table.csv, run.json; plan=true: plan.csv and, with
images=, a study for captau collect.
"""
    objective: ClassVar[str] = (
        "people's mean rating of the first system by ratings and metrics; none with plan=true"
    )
    python_positional: ClassVar[tuple[str, ...]] = ("candidates", "references", "ratings")

    candidates: tuple[NamedFile, ...] = option(
        None,
        "all captions of your system, or of several, in the forms that captau score takes",
        read=files_of,
        takes="FILE|A,B",
        is_literal=True,
        has_several=True,
        python=replace(CANDIDATES_FROM_PYTHON, is_needed=True),
    )
    references: NamedFile | None = option(
        None,
        "captions by image, in the forms that captau score takes",
        read=lambda value, key: one_file_of(value, key, "captau estimate"),
        takes="FILE",
        is_literal=True,
        python=replace(REFERENCES_FROM_PYTHON, annotation="References | None"),
    )
    ratings: Path | None = option(
        None,
        "ratings of some of them: a table with image_id and value (numbers, or yes and no), and perhaps system, caption, "
        "rater, dimension; or of comparisons with winner or strength",
        takes="FILE",
    )
    metrics: tuple[Metric, ...] = shared.metrics_part(shared.METRICS)
    chosen: str = option(
        RANDOM,
        "how the rated images were chosen; random, shuffled (the first ones of a file that had been shuffled), or a file "
        "with image_id and probability, such as plan.csv",
        takes="random|shuffled|FILE",
        is_literal=True,
    )
    dimension: str | None = option(
        None, "of the dimensions of the ratings, the one to estimate", takes="NAME"
    )
    population: str = option(
        "images",
        "of what intervals speak; captions: these alone, images: images like these, raters: raters like these as well",
        takes="|".join(POPULATIONS),
        check=shared.one_of(POPULATIONS, "population"),
    )
    plan: bool = option(False, "true chooses which captions to rate next, and says how many")
    n: int | None = option(
        None, "with plan=true, the number of images to have rated in all", check=shared.at_least(3)
    )
    width: float | None = option(
        None,
        "with plan=true, as many as give an interval of this width, from low to high",
        check=_check_positive,
    )
    difference: float | None = option(
        None,
        "with plan=true, as many as show a difference of this size between two systems",
        check=_check_positive,
    )
    power: float = option(
        0.8, "the probability with which difference= is to be found", check=shared.check_share
    )
    sd: float | None = option(
        None,
        "the standard deviation of ratings, where no ratings= of a pilot tell it",
        check=_check_positive,
    )
    choose: str = option(
        "random",
        "how plan=true chooses; random, stratified (by score), guided (more where metrics or the pilot's ratings disagree)",
        takes="|".join(CHOICES),
        check=shared.one_of(CHOICES, "value of choose"),
    )
    form: str = option(
        "four",
        "the study's question; four: a rating from 1 to 5, good_bad: yes or no, ab: which of two systems",
        takes="|".join(FORMS),
        check=shared.one_of(FORMS, "form"),
    )
    images: Path | None = option(
        None, "the folder of images, for the study and for metrics that look at them", takes="DIR"
    )
    columns: Columns = columns_part()
    partial: bool = option(False, "true takes the images that all systems have captioned")
    statistics: StatisticsOptions = shared.statistics_part("level", "seed", "correction")
    details: bool = shared.details_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.candidates:
            raise InputError("the option candidates=… is needed: all captions of your system")
        sizes: list[str] = []
        for name in ("n", "width", "difference"):
            if getattr(self, name) is not None:
                sizes.append(name)
        if not self.plan and sizes:
            raise InputError(f"{sizes[0]}= goes with plan=true")
        if not self.plan and self.ratings is None:
            raise InputError(
                "ratings=FILE is needed, the ratings of some of the captions; plan=true chooses which to rate"
            )
        if len(sizes) > 1:
            keys = " and ".join(f"{name}=" for name in sizes)
            raise InputError(f"{keys} say how many; give one")
        if self.power >= 1:
            raise InputError(f"power is {self.power:g}; a number below 1 is expected")
