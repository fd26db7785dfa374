"""A trained rater as a metric: `rater(path=FOLDER)`, of a folder that `captau train` wrote.

A rater may come with a calibration of its scores: the rating to be expected, and the probability that a caption is good.
These are isotonic regressions on the rated captions that it was trained on, one a dataset and one of all of them, each dataset
counting the same. Raters write one with `Calibration.write`; `captau thresholds` reads it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..base import Floats, Metric, UnavailableError
from ..neural.models import MODEL_LOCK, hash_of
from ..registry import register
from ..rows import Rows
from .common.examples import Examples, Ints
from .common.recipe import RaterModel, Recipe, make_recipe

CALIBRATION_FILE = "calibration.json"
#: The name of the curve of all datasets.
ALL = "all"
#: A caption is good where most of its ratings are at least this share of the scale, as in `captau thresholds`.
GOOD_SHARE = 0.5
#: Captions of similar score count as one point of a curve; so many points at most.
_POINTS = 100
#: The number of rows of a reliability table.
_FIFTHS = 5


@dataclass(frozen=True)
class Curve:
    """Expected rating and probability of being good by score; between the points it is linear, beyond them constant.

    Attributes:
        scores: in ascending order.
        ratings: the mean rating expected, as a share of the scale.
        good: the probability that a caption is good.
    """

    scores: tuple[float, ...]
    ratings: tuple[float, ...]
    good: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.scores) == len(self.ratings) == len(self.good):
            raise ValueError("a curve's rows are of unequal lengths")
        table = np.array([self.scores, self.ratings, self.good])
        if not (np.isfinite(table).all() and table.size and (np.diff(table) >= -1e-9).all()):
            raise ValueError("a curve falls, or is no row of numbers")

    @classmethod
    def fit(cls, scores: Floats, ratings: Floats, is_good: Floats, weights: Floats) -> Curve:
        """Fit both regressions; all arguments have shape (n,)."""
        order = np.argsort(scores, kind="stable")
        parts = np.array_split(order, min(_POINTS, len(order)))
        groups = [part for part in parts if len(part)]
        totals = np.array([weights[group].sum() for group in groups])

        def average(values: Floats) -> Floats:
            return np.array([values[group] @ weights[group] for group in groups]) / totals

        def rise(values: Floats) -> tuple[float, ...]:
            return tuple(isotonic_regression(average(values), weights=totals).x.tolist())

        return cls(tuple(average(scores).tolist()), rise(ratings), rise(is_good))

    def expect(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the expected ratings and the probabilities of being good, shape (n,) each."""
        ratings = np.interp(scores, self.scores, self.ratings)
        good = np.interp(scores, self.scores, self.good)
        return ratings, good

    def threshold(self, precision: float) -> float:
        """Return the least score from which on at least this share of captions of that score is good; or NaN."""
        reached = np.flatnonzero(np.array(self.good) >= precision)
        return self.scores[reached[0]] if reached.size else float("nan")


@dataclass(frozen=True)
class Calibration:
    """The curves by dataset, and of all under `ALL`."""

    curves: Mapping[str, Curve]

    @classmethod
    def fit(cls, examples: Examples, scores: Floats) -> Calibration:
        """Fit the curves to the rated rows; there are none where no row is rated."""
        rated, ratings, is_good = _rated_rows(examples)
        names = examples.rows.frame["dataset"].astype(str).to_numpy()[rated]
        sizes = {name: int((names == name).sum()) for name in np.unique(names).tolist()}
        # Each dataset counts the same, however many captions it has.
        weights = np.array([1 / sizes[name] for name in names])

        masks = {name: names == name for name in sizes}
        if sizes:
            masks[ALL] = np.ones(len(rated), dtype=bool)
        curves: dict[str, Curve] = {}
        for name, mask in masks.items():
            curves[name] = Curve.fit(
                scores=scores[rated][mask],
                ratings=ratings[mask],
                is_good=is_good[mask],
                weights=weights[mask],
            )
        return cls(curves)

    def curve_of(self, dataset: str) -> Curve | None:
        """Return the curve of a dataset, or of all where it has none of its own; None without any."""
        return self.curves.get(dataset, self.curves.get(ALL))

    def measure_reliability(self, examples: Examples, scores: Floats) -> list[dict[str, float]]:
        """Compare what the curve of all datasets expects of unseen captions with what people said.

        Args:
            examples: captions of a dataset that the curves were not fitted to.
            scores: shape (n,).

        Returns:
            A row for each fifth of the rated captions by score, from the lowest on: means of the score, the expected
            and the actual rating, the expected and the actual share of good captions; and the number of captions.
        """
        rated, ratings, is_good = _rated_rows(examples)
        curve = self.curves.get(ALL)
        if not len(rated) or curve is None:
            return []

        expected_ratings, expected_good = curve.expect(scores[rated])
        columns = {
            "score": scores[rated],
            "rating": ratings,
            "good": is_good,
            "expected_rating": expected_ratings,
            "expected_good": expected_good,
        }
        rows: list[dict[str, float]] = []
        for part in np.array_split(np.argsort(scores[rated], kind="stable"), _FIFTHS):
            if len(part):
                row = {name: float(values[part].mean()) for name, values in columns.items()}
                rows.append(row | {"n_items": len(part)})
        return rows

    def write(self, folder: Path) -> None:
        """Write the calibration, whole or not at all."""
        table = {name: asdict(curve) for name, curve in self.curves.items()}
        with replacing(folder / CALIBRATION_FILE) as stream:
            stream.write(json.dumps({"good": GOOD_SHARE, "curves": table}, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Calibration | None:
        """Read the calibration in a rater's folder; None where it has none.

        Raises:
            InputError: if it is damaged.
        """
        path = folder / CALIBRATION_FILE
        if not path.is_file():
            return None

        try:
            table: Any = json.loads(path.read_text(encoding="utf-8"))
            curves: dict[str, Curve] = {}
            for name, columns in table["curves"].items():
                curves[name] = Curve(**{key: tuple(map(float, columns[key])) for key in columns})
            return cls(curves)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: damaged ({error}); train the rater again") from error


def _rated_rows(examples: Examples) -> tuple[Ints, Floats, Floats]:
    """Return the rows with ratings, the mean ratings of each, and 1 where it is good, shape (n_rated,) each."""
    rated = np.flatnonzero(examples.has_rating)
    is_good = [float((examples.ratings[i] >= GOOD_SHARE - 1e-9).mean() > 0.5) for i in rated]
    return rated, examples.mean_ratings[rated], np.array(is_good)


#: A rater's card; it is written last, so its presence says that the rater is complete.
CARD_FILE = "rater.json"
_FORMAT = 2
#: The card as a page for people.
PAGE_FILE = "README.md"
#: Files in a rater's folder on which its scores do not depend.
_LOG_FILES = ("training.csv", "run.json", CALIBRATION_FILE, PAGE_FILE)


@dataclass(frozen=True)
class RaterCard:
    """The description of a rater in its folder.

    Attributes:
        rater: the recipe's name.
        options: the recipe's options.
        seed: of the training.
        images: ids of the images that it was trained on or selected by, sorted.
        fingerprint: of everything that its weights depend on.
        about: data, splits, hashes, versions and scores, for people.
    """

    rater: str
    options: dict[str, Any]
    seed: int
    images: tuple[str, ...]
    fingerprint: str
    about: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> RaterCard:
        """Read the card in a folder; raise `InputError` if there is none, or it is damaged."""
        path = folder / CARD_FILE
        try:
            table: Any = json.loads(path.read_text(encoding="utf-8"))
            if (number := table.pop("format")) != _FORMAT:
                age = "former" if number < _FORMAT else "later"
                raise InputError(
                    f"{folder}: a rater of a {age} version of captau (format {number}, here {_FORMAT}); "
                    f"train it again with captau train, or use the version that trained it"
                )
            images = table.pop("images")
            are_ids = isinstance(images, list) and all(isinstance(image, str) for image in images)
            card = cls(images=tuple(images), **table)
            if not (are_ids and isinstance(card.options, dict) and isinstance(card.about, dict)):
                raise TypeError("a field is of another type")
            return card
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: not the card of a rater, or damaged") from error

    def write(self, folder: Path) -> None:
        """Write the card, whole or not at all."""
        table = {"format": _FORMAT, **dataclasses.asdict(self)}
        with replacing(folder / CARD_FILE) as stream:
            stream.write(json.dumps(table, indent=1, ensure_ascii=False, default=str).encode())

    def make_recipe(self, **sources: str | None) -> Recipe:
        """Make the recipe, with features from other sources where they are not None.

        Raises:
            InputError: if it has no such source.
        """
        try:
            recipe = make_recipe(self.rater, self.options)
        # An option that has no default is missing.
        except TypeError as error:
            raise InputError(f"rater {self.rater}: its card lacks options ({error})") from error

        changes = {key: source for key, source in sources.items() if source is not None}
        for key, source in changes.items():
            if key not in recipe.source_options:
                names = ", ".join(recipe.source_options) or "none"
                raise InputError(f"rater {self.rater}: {key}={source}; its sources are: {names}")
        return dataclasses.replace(recipe, **changes)


def find_rater_folder(path: str | Path) -> Path:
    """Return `path` if it is a rater's folder, else the only rater in it, as a run of `captau train`.

    Raises:
        InputError: if there is none, or several.
    """
    raters = list_rater_folders(path)
    if len(raters) == 1:
        return raters[0]

    names = ", ".join(rater.name for rater in raters[:5])
    raise InputError(f"{expand_home(path)}: several raters lie in it; name one: {names}")


def list_rater_folders(path: str | Path) -> list[Path]:
    """Return `path` if it is a rater's folder, else the folders of all raters in it, one a seed.

    Raises:
        InputError: if there is none.
    """
    folder = expand_home(path)
    if (folder / CARD_FILE).is_file():
        return [folder]
    if raters := sorted(card.parent for card in folder.glob(f"*/{CARD_FILE}")):
        return raters
    if not folder.is_dir():
        raise UnavailableError(f"rater {path}", "is not a folder", "captau train makes one")
    raise InputError(
        f"{folder}: no {CARD_FILE} in it; if the training was stopped, start the same captau train again"
    )


@register("rater")
@dataclass(frozen=True)
class RaterMetric(Metric):
    """Predictions of a trained rater.

    Args:
        path: its folder.
        name: for results.
        seen: on images that it was trained on or selected by, `refuse` a correlation, or report and
            `mark` it.
        images, texts, labels, regions, model: features from another source than it was trained with.
    """

    path: str
    name: str = "rater"  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    seen: Literal["refuse", "mark"] = "refuse"
    images: str | None = None
    texts: str | None = None
    labels: str | None = None
    regions: str | None = None
    model: str | None = None

    #: A row's features may be looked up by its image's id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False
    lock: ClassVar[AbstractContextManager[Any]] = MODEL_LOCK

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The needs of its recipe."""
        try:
            return self._recipe().needs
        # Scoring will raise it.
        except InputError:
            return frozenset()

    @property
    def spec(self) -> str:
        return super().spec if self.name == "rater" else self.name

    @property
    def programs(self) -> tuple[str, ...]:
        try:
            folder = find_rater_folder(self.path)
            features = self._recipe().signature
        except InputError:
            return ("weights:missing",)

        files: list[Path] = []
        for path in sorted(folder.iterdir()):
            is_log = path.name in _LOG_FILES or path.name.startswith(".")
            if path.is_file() and not is_log:
                files.append(path)

        return (f"weights:{hash_of(files)}", f"features:{features}")

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        self._recipe()

    def check_dataset(self, rows: Rows) -> None:
        self.training_overlap_note(rows.frame["image_id"].tolist())
        self._recipe().check_features(rows)

    @property
    def card(self) -> RaterCard:
        """The card of the rater.

        Raises:
            InputError: see `RaterCard.read`.
        """
        return RaterCard.read(find_rater_folder(self.path))

    @property
    def rating_scale(self) -> tuple[float, float] | None:
        return self._recipe().rating_scale

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the scores; None if its recipe has none.

        Raises:
            InputError: if its file is damaged.
        """
        return Calibration.read(find_rater_folder(self.path))

    def _recipe(self) -> Recipe:
        return self.card.make_recipe(
            images=self.images,
            texts=self.texts,
            labels=self.labels,
            regions=self.regions,
            model=self.model,
        )

    def training_overlap_note(self, image_ids: Sequence[str]) -> str | None:
        distinct = set(image_ids)
        n_shared = len(distinct & set(self.card.images))
        if not n_shared:
            return None

        remark = f"was trained on, or chosen by, {n_shared:,} of the {len(distinct):,} images"
        if self.seen == "refuse":
            raise UnavailableError(
                f"metric {self.spec}",
                remark,
                "protocol.split=test leaves out the images of design=split's training, and rater(path=…,seen=mark) "
                "keeps and marks them",
            )
        return remark

    def compute(self, rows: Rows) -> Floats:
        folder = find_rater_folder(self.path)
        modified = (folder / CARD_FILE).stat().st_mtime_ns
        return _load_model(folder, self._recipe(), modified).predict(rows)


@lru_cache(maxsize=4)
def _load_model(folder: Path, recipe: Recipe, _modified: int) -> RaterModel:
    return recipe.load(folder)
