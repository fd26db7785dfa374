"""A trained rater as a metric: `rater(path=FOLDER)`, of a folder that `captau train` wrote."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..base import Floats, Metric, UnavailableError
from ..neural.models import MODEL_LOCK, hash_of
from ..registry import register
from ..rows import Rows
from .common.recipe import RaterModel, Recipe, make_recipe

#: A rater's card; it is written last, so its presence says that the rater is complete.
CARD_FILE = "rater.json"
_FORMAT = 2
#: The card as a page for people.
PAGE_FILE = "README.md"
#: Files in a rater's folder on which its scores do not depend.
_LOG_FILES = ("training.csv", "run.json", PAGE_FILE)


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
        images, texts, labels, regions: features from another source than it was trained with.
    """

    path: str
    name: str = "rater"  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    seen: Literal["refuse", "mark"] = "refuse"
    images: str | None = None
    texts: str | None = None
    labels: str | None = None
    regions: str | None = None

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

    def _recipe(self) -> Recipe:
        return self.card.make_recipe(
            images=self.images,
            texts=self.texts,
            labels=self.labels,
            regions=self.regions,
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
