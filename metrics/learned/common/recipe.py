"""The interface of learned raters: a recipe with options, the examples it learns from, the trained model.

To add a rater, put `@register_recipe("icr")` over a `Recipe` in a module of `metrics/learned/`, and its
options as the paper has them into `conf/rater/icr.yaml`. `captau train` makes recipes with
`make_recipe`; the metric `rater` loads what they trained. Weight files are safetensors with a card of texts, read into modules
that they must fit. QE and UMIC learn without ratings, from captioned images: references, a file, or the demo's scenes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ....datasets.cache import replacing
from ....datasets.errors import InputError, unknown
from ....datasets.paths import expand_home
from ....datasets.reading.table import read_table
from ....datasets.sources import demo
from ....datasets.sources.umic_lmdb import named_image
from ...base import Floats
from ...neural.models import check_file
from ...registry import import_modules
from ...rows import Rows
from .training import TrainingSession

Ints = NDArray[np.intp]
Arrays = TypeVar("Arrays")
Coefficient = Literal["tau_c", "spearman"]
#: What selects an epoch: a coefficient on the validation rows, or nothing, so that the last is taken.
Selection = Literal[Coefficient, "last"]


@dataclass(frozen=True)
class Examples:
    """Captions with people's judgements of them.

    Attributes:
        rows: with the columns `dataset`, `item_id`, `image_id`, `image`, `caption`, `references`,
            `system`.
        ratings: every rating of each row, from 0 to 1 for the ends of its scale; may be empty.
        preferences: rows of the winner and the loser of each comparison, shape (n_pairs, 2).
    """

    rows: Rows
    ratings: tuple[Floats, ...]
    preferences: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def mean_ratings(self) -> Floats:
        """Mean ratings, shape (n,); NaN for rows without ratings."""
        return np.array([r.mean() if len(r) else np.nan for r in self.ratings], dtype=np.float64)

    @property
    def has_rating(self) -> NDArray[np.bool_]:
        """A mask of the rows with ratings, shape (n,)."""
        return np.array([len(r) > 0 for r in self.ratings], dtype=bool)

    @property
    def image_ids(self) -> NDArray[np.str_]:
        """Image ids, shape (n,)."""
        return self.rows.frame["image_id"].to_numpy(dtype=np.str_)

    def take(self, index: Ints) -> Examples:
        """Return the rows at `index` and the preferences between them."""
        new_row = np.full(len(self), -1, dtype=np.intp)
        new_row[index] = np.arange(len(index))
        pairs = new_row[self.preferences]
        return Examples(
            Rows(self.rows.frame.iloc[index].reset_index(drop=True)),
            tuple(self.ratings[i] for i in index),
            pairs[(pairs >= 0).all(axis=1)],
        )

    @classmethod
    def join(cls, parts: Sequence[Examples]) -> Examples:
        """Join several sets of examples into one."""
        starts = np.cumsum([0, *(len(p) for p in parts)])
        pairs = [p.preferences + start for p, start in zip(parts, starts, strict=False)]
        return cls(
            Rows(pd.concat([p.rows.frame for p in parts], ignore_index=True)),
            tuple(r for p in parts for r in p.ratings),
            np.concatenate(pairs).astype(np.intp),
        )

    def select_rated(self, *, must_vary: bool = True) -> Examples:
        """Return the rows with ratings.

        Args:
            must_vary: whether equal ratings are an error, since nothing can be learned from them.

        Raises:
            InputError: if no row has a rating, or all ratings are equal.
        """
        rated = self.take(np.flatnonzero(self.has_rating))
        if not len(rated):
            purpose = "train on" if must_vary else "choose by"
            raise InputError(
                f"no row with a rating is left to {purpose}; choose other data or rows"
            )
        if must_vary and len({float(v) for v in rated.mean_ratings}) == 1:
            raise InputError(
                f"all {len(rated)} captions to train on have the same rating; there is nothing to learn"
            )
        return rated


def correlate_with_ratings(
    predictions: Floats, examples: Examples, coefficient: Coefficient
) -> float:
    """Correlate predictions with ratings: tau_c with each single rating, spearman with their means.

    Args:
        predictions: shape (n,).
        examples: n rows with ratings.

    Returns:
        the coefficient; NaN if either side is constant.
    """
    if coefficient == "spearman":
        means = examples.mean_ratings
        if np.ptp(predictions) == 0 or np.ptp(means) == 0:
            return float("nan")
        return float(scipy.stats.spearmanr(predictions, means).statistic)
    repeated = np.repeat(predictions, [len(r) for r in examples.ratings])
    tau = scipy.stats.kendalltau(repeated, np.concatenate(examples.ratings), variant="c")
    return float(tau.statistic)


class RaterModel(ABC):
    """A trained rater."""

    @abstractmethod
    def predict(self, rows: Rows) -> Floats:
        """Return scores of shape (len(rows),). A row's score does not depend on the other rows."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write files for `Recipe.load`: safetensors, text and JSON only."""


@dataclass(frozen=True)
class Recipe(ABC):
    """A way to train a rater: its fields are the options, and all of them stand on the rater's card."""

    #: What rows must bring, as for a metric: "references", "images", or neither.
    needs: ClassVar[frozenset[str]] = frozenset()
    #: The options that say where features come from; a trained rater may take them from elsewhere.
    source_options: ClassVar[tuple[str, ...]] = ()

    if typing.TYPE_CHECKING:
        name: ClassVar[str]

    @abstractmethod
    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Train a rater.

        Args:
            train: to learn from.
            validation: to select by; of other images.
            session: the seed, and the training loop.

        Raises:
            InputError: if the examples lack what the recipe needs.
        """

    @abstractmethod
    def load(self, folder: Path) -> RaterModel:
        """Read the files of `Model.save`.

        Raises:
            InputError: if a file is missing, damaged, or of another architecture.
        """

    @property
    def rating_scale(self) -> tuple[float, float] | None:
        """Return the lowest and the highest rating of the predictions' scale; None where they only order captions."""
        return None

    @property
    def options(self) -> dict[str, Any]:
        """All fields, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def check_range(
        self, *names: str, low: float, high: float = math.inf, is_open: bool = False
    ) -> None:
        """Raise `InputError` for the first option outside [low, high), or (low, high) if `is_open`."""
        for name in names:
            option = getattr(self, name)
            numbers: tuple[float, ...] = option if isinstance(option, tuple) else (option,)
            outside = [v for v in numbers if not low <= v < high or (is_open and v == low)]
            if outside or not numbers:
                lower = f"more than {low:g}" if is_open else f"{low:g} or more"
                upper = f" and less than {high:g}" if high < math.inf else ""
                fault = f"is {outside[0]:g}" if outside else "is empty"
                raise InputError(f"rater.{name} {fault}; {lower}{upper} is expected")

    @property
    def signature(self) -> str:
        """Everything that a training depends on besides options and examples: features, their models."""
        return ""

    def check_features(self, rows: Rows) -> None:  # noqa: B027
        """Check that its sources of features have these rows, where they are of certain rows alone.

        Raises:
            UnavailableError: where one lacks a row.
        """


_RECIPES: dict[str, type[Recipe]] = {}
RecipeClass = TypeVar("RecipeClass", bound=type[Recipe])


def register_recipe(name: str) -> Callable[[RecipeClass], RecipeClass]:
    """Register a recipe class under a name."""

    def decorate(cls: RecipeClass) -> RecipeClass:
        if name in _RECIPES:
            raise ValueError(f"rater {name} is registered twice")
        _RECIPES[name] = cls
        cls.name = name
        return cls

    return decorate


def recipe_names() -> list[str]:
    """Return the names of all recipes in `metrics/learned/`, sorted."""
    import_modules((__package__ or "").rpartition(".")[0])
    return sorted(_RECIPES)


def make_recipe(name: str, options: Mapping[str, Any]) -> Recipe:
    """Make a recipe; options that are left out have their defaults.

    Raises:
        InputError: on an unknown name or option, or a value of another type.
    """
    if name not in recipe_names():
        raise unknown("rater", name, recipe_names())
    cls = _RECIPES[name]
    hints = typing.get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in fields:
            raise unknown(f"option of rater {name}", key, fields)
        values[key] = _convert_option(value, hints[key], f"rater.{key}")
    return cls(**values)


def _convert_option(value: Any, hint: Any, label: str) -> Any:
    """Return a value as its field's annotation requires; a list becomes a tuple.

    Raises:
        InputError: if it is of another type.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        values: Any = value if isinstance(value, list | tuple) else [value]
        return tuple(_convert_option(v, inner[0], label) for v in values)
    if origin is Literal:
        if value not in inner:
            raise unknown(f"value of {label}", str(value), [str(i) for i in inner])
        return value
    types = inner or (hint,)
    if value is None and type(None) in types:
        return None
    if tuples := [t for t in inner if typing.get_origin(t) is tuple]:
        return _convert_option(value, tuples[0], label)
    if isinstance(value, bool):
        if bool in types:
            return value
    elif isinstance(value, int | float) and float in types:
        return float(value)
    elif type(value) in types:
        return value
    expected = " or ".join(getattr(t, "__name__", str(t)) for t in types)
    raise InputError(f"{label} is {value!r}, not {expected}")


def save_tensors(path: Path, tensors: dict[str, Any], card: dict[str, str]) -> None:
    """Write tensors and a card of texts, whole or not at all."""
    from safetensors.torch import save

    cpu_tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    # The card is one entry: safetensors writes several in any order, and equal raters must be equal files.
    with replacing(path) as stream:
        stream.write(save(cpu_tensors, {"card": json.dumps(card, sort_keys=True)}))


def load_tensors(
    path: Path, card_keys: Sequence[str] = (), *, file_format: str = ""
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read the tensors and the card that `save_tensors` wrote.

    Args:
        card_keys: entries that the card must have.
        file_format: what its entry `format` must be; empty where it has none.

    Raises:
        InputError: if the file is missing, damaged or of another format, or its card lacks an entry.
    """
    check_file(path)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            card = parse_card(file.metadata())
            if file_format and card.get("format") != file_format:
                raise InputError(
                    f"{path}: a rater of another version of captau (format {card.get('format', 'unknown')}, here "
                    f"{file_format}); train it again with captau train, or use the version that trained it"
                )
            if missing := [k for k in card_keys if k not in card]:
                raise InputError(
                    f"{path}: its metadata lack {missing[0]}; train it again or get a new copy"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, card
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: not a safetensors file, or damaged; train it again or get a new copy"
        ) from error


def parse_card(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return the card in a file's metadata; empty if another program wrote the file."""
    try:
        card = json.loads((metadata or {}).get("card", "{}"))
    except ValueError:
        return {}
    return card if isinstance(card, dict) else {}


def make_arrays(cls: type[Arrays], path: Path, tensors: Mapping[str, Any]) -> Arrays:
    """Make an object of arrays from the tensors of a file.

    Raises:
        InputError: if it has other arrays.
    """
    try:
        return cls(**{name: tensor.numpy() for name, tensor in tensors.items()})
    except TypeError as error:
        raise InputError(f"{path}: the weights of another architecture ({error})") from error


def arrays_to_tensors(arrays: object | None) -> dict[str, Any]:
    """Return an object's arrays as tensors, by name; none for None."""
    import torch

    return {} if arrays is None else {k: torch.from_numpy(v) for k, v in vars(arrays).items()}


#: Further scenes of the demo; every tenth is for validation.
DEMO_SCENES = 2000
#: The share of a file's images that is for validation.
VALIDATION_SHARE = 0.1


#: Captions by image id, at least one each.
CaptionedImages = dict[str, tuple[str, ...]]


def load_captioned_images(
    origin: str, train: Examples, validation: Examples, session: TrainingSession
) -> tuple[CaptionedImages, CaptionedImages]:
    """Load captioned images to train on and to validate by.

    Args:
        origin: `references` (of the examples' images), `demo` (its further scenes), or a file (CSV, JSON
            lines, Parquet) with the columns `image_id` and `caption`; its column `split`, if it has one, says
            which images are to train on and which to validate by.
        train, validation: the examples; a file's images that are among `validation`, or that the
            session tests on, are left out.
        session: without a column `split` its seed draws a tenth of a file's images to validate by; the images
            that are read are added to its `extra_image_ids`.

    Raises:
        InputError: if there are none, or the column `split` has another word, two of an image, or one side alone.
    """
    if origin == "references":
        return _from_references(train), _from_references(validation)
    if origin == "demo":
        return _demo_scenes(is_validation=False), _demo_scenes(is_validation=True)
    captions, sides_of_images = _read_captions(expand_home(origin))
    for image_id in {*map(str, validation.image_ids), *session.test_image_ids}:
        captions.pop(image_id, None)
    if sides_of_images:
        captions = {i: c for i, c in captions.items() if sides_of_images[i] != "test"}
    if len(captions) < 2:
        raise InputError(
            f"{origin}: {len(captions)} captioned images to train on; at least two are needed"
        )
    session.extra_image_ids |= captions.keys()
    if sides_of_images:
        names = ("train", "validation")
        sides = [[i for i in captions if sides_of_images[i] == side] for side in names]
        for name, image_ids in zip(names, sides, strict=True):
            if len(image_ids) < 2:  # negatives are drawn among the images of a side
                raise InputError(
                    f"{origin}: the column split leaves {len(image_ids)} images of {name}; at least two are needed"
                )
    else:
        shuffled = [str(i) for i in session.rng("captioned").permutation(sorted(captions))]
        cut = max(1, round(VALIDATION_SHARE * len(shuffled)))
        sides = [sorted(shuffled[cut:]), sorted(shuffled[:cut])]
    train_side, validation_side = ({i: tuple(captions[i]) for i in side} for side in sides)
    return train_side, validation_side


def _demo_scenes(*, is_validation: bool) -> CaptionedImages:
    numbers = [n for n in range(DEMO_SCENES) if (n % 10 == 0) == is_validation]
    return {scene.image_id: captions for scene, captions in map(demo.further, numbers)}


def _from_references(examples: Examples) -> CaptionedImages:
    captions: CaptionedImages = {}
    for image_id, references in zip(examples.image_ids, examples.rows.references, strict=True):
        captions.setdefault(str(image_id), references)
    captions = {image_id: references for image_id, references in captions.items() if references}
    if not captions:
        raise InputError("no image has references to learn from; name a file of captions")
    return captions


#: The words of a column `split`, Karpathy's and other authors', and the sides that they mean.
_SIDES = {
    **dict.fromkeys(("train", "training", "restval"), "train"),
    **dict.fromkeys(("validation", "val", "dev"), "validation"),
    "test": "test",
}


def _read_captions(path: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Read the captions of each image from a file, and its side of the split (empty without such a column).

    Raises:
        InputError: if a row's split is unknown, or another than that of its image's first row.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no such file of captions; a file, references or demo is expected"
        )
    table = read_table(path)
    for column in ("image_id", "caption"):
        if column not in table:
            raise InputError(f"{path}: no column {column}; image_id and caption are needed")
    captions: dict[str, list[str]] = {}
    image_ids = [short_image_id(str(image)) for image in table.column("image_id")]
    for image_id, caption in zip(image_ids, table.column("caption"), strict=True):
        captions.setdefault(image_id, []).append(str(caption))
    sides: dict[str, str] = {}
    splits = table.texts("split") if "split" in table else []
    for place, image_id, split in zip(table.places, image_ids, splits, strict=False):
        side = _SIDES.get(split.lower())
        if side is None:
            raise InputError(f"{place}: split is '{split}'; one of {', '.join(_SIDES)} is expected")
        if sides.setdefault(image_id, side) != side:
            raise InputError(
                f"{place}: image '{image_id}' is in {side}, and on an earlier row in {sides[image_id]}"
            )
    return captions, sides


def short_image_id(image: str) -> str:
    """Return an image's id in our datasets, where a file has the long names of COCO's and UMIC's files."""
    return named_image(Path(image).stem.lower()) or image
