"""A trained rater as a metric: `rater(path=FOLDER)`, the folder being what `captau train` wrote."""

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
from ..base import Floats, Metric, UnavailableError
from ..neural.device import TURN
from ..neural.weights import hash_of
from ..registry import register
from ..rows import Rows
from .common.recipe import Model, Recipe, make_recipe

#: A rater's card; it is written last, so its presence says that the rater is whole.
CARD_FILE = "rater.json"
_FORMAT = 1
#: In a rater's folder, but not part of it.
_BESIDE = ("training.csv", "run.json")


@dataclass(frozen=True)
class RaterCard:
    """What a rater's folder says of it.

    Attributes:
        rater: the recipe's name.
        options: the recipe's options.
        seed: of the training.
        images: the image ids that it was trained on or chosen by, sorted.
        fingerprint: of all that its weights depend on.
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
        """The card in a folder.

        Raises:
            InputError: where there is none, or it is damaged.
        """
        path = folder / CARD_FILE
        try:
            table: Any = json.loads(path.read_text(encoding="utf-8"))
            if table.pop("format") != _FORMAT:
                raise InputError(f"{path}: of another version of captau; train the rater anew")
            images = table.pop("images")
            known = isinstance(images, list) and all(isinstance(i, str) for i in images)
            card = cls(images=tuple(images), **table)
            if not (known and isinstance(card.options, dict) and isinstance(card.about, dict)):
                raise TypeError("a field is of another type")
            return card
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: not the card of a rater, or damaged") from error

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        table = {"format": _FORMAT, **dataclasses.asdict(self)}
        with replacing(folder / CARD_FILE) as stream:
            stream.write(json.dumps(table, indent=1, ensure_ascii=False, default=str).encode())

    def recipe(self, **sources: str | None) -> Recipe:
        """The recipe, with features from other sources where those are given.

        Raises:
            InputError: where it has no such source.
        """
        given = {k: v for k, v in sources.items() if v is not None}
        try:
            made = make_recipe(self.rater, self.options)
        except TypeError as error:  # an option that has no default is not there
            raise InputError(f"rater {self.rater}: its card lacks options ({error})") from error
        for key in given:
            if key not in made.source_options:
                known = ", ".join(made.source_options) or "none"
                raise InputError(
                    f"rater {self.rater}: {key}={given[key]}; its sources are: {known}"
                )
        return dataclasses.replace(made, **given)


def find_rater_folder(path: str | Path) -> Path:
    """The folder of a rater: the one given, or the only one of a run of `captau train`.

    Raises:
        InputError: where there is none, or several.
    """
    given = Path(path).expanduser()
    if (given / CARD_FILE).is_file():
        return given
    found = sorted(card.parent for card in given.glob(f"*/{CARD_FILE}"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f.name for f in found[:5])
        raise InputError(f"{given}: several raters lie in it; name one: {names}")
    if not given.is_dir():
        raise UnavailableError(f"rater {path}: no such folder; captau train makes one")
    raise InputError(
        f"{given}: no {CARD_FILE} in it; was the training stopped? captau train goes on"
    )


@register("rater")
@dataclass(frozen=True)
class Rater(Metric):
    """What a trained rater predicts.

    Args:
        path: its folder.
        name: what results call it.
        seen: what becomes of a correlation on images that it was trained on or chosen by: it is
            refused, or reported and marked.
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

    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    #: A row's features may be found by its image's id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False
    lock: ClassVar[AbstractContextManager[Any]] = TURN

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What its recipe needs."""
        try:
            return self._recipe().needs
        except InputError:  # said when it is asked for scores
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
        parts = [
            p
            for p in sorted(folder.iterdir())
            if p.is_file() and p.name not in _BESIDE and not p.name.startswith(".")
        ]
        return (f"weights:{hash_of(parts)}", f"features:{features}")

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        self._recipe()

    @property
    def card(self) -> RaterCard:
        """The card of the rater.

        Raises:
            InputError: see `RaterCard.read`.
        """
        return RaterCard.read(find_rater_folder(self.path))

    def _recipe(self) -> Recipe:
        return self.card.recipe(
            images=self.images,
            texts=self.texts,
            labels=self.labels,
            regions=self.regions,
            model=self.model,
        )

    def training_overlap_note(self, image_ids: Sequence[str]) -> str | None:
        known = set(image_ids)
        met = len(known & set(self.card.images))
        if not met:
            return None
        said = f"was trained on, or chosen by, {met:,} of the {len(known):,} images"
        if self.seen == "refuse":
            raise InputError(
                f"metric {self.spec} {said}; protocol.split=test leaves out what the shared split trains "
                f"on, and rater(path=…,seen=mark) reports it even so"
            )
        return said

    def compute(self, rows: Rows) -> Floats:
        folder = find_rater_folder(self.path)
        return _loaded(folder, self._recipe(), (folder / CARD_FILE).stat().st_mtime_ns).predict(
            rows
        )


@lru_cache(maxsize=4)
def _loaded(folder: Path, made: Recipe, _modified: int) -> Model:
    return made.load(folder)
