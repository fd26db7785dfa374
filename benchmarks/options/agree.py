"""Options of `captau agree`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ..scoring.catalog import optional_specs, resolve_metrics
from ..scoring.protocol import Protocol
from .common import Locations, datasets_of, locations_of, names_of, path_of, plain_of


@dataclass(frozen=True)
class AgreeOptions:
    """What `captau agree` does: datasets with their protocols, and what is drawn by lot."""

    datasets: dict[str, Protocol]
    seed: int = 0
    draws: int = 20
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"draws is {self.draws}; a whole number from 1 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


#: What `captau agree` measures: ratings, captions, or the words that people use.
AGREED = ("ratings", "captions", "words")

#: Which caption of an image is held out.
HELD_OUT = ("each", "last", "draw")


@dataclass(frozen=True)
class HumanConfig:
    """What `captau agree kind=captions` and `kind=words` do.

    Attributes:
        kind: `captions` or `words`.
        references: a file of them; None for those of the datasets.
        held_out: which caption of an image is held out, see `human.held_out`.
        k: how many captions the held-out one is set against; the first k + 1 of an image count.
        n_words: how many words, the most frequent ones.
        scores: a system's file of `image_id, word, score`.
        label: words to name in the figure; empty for some of all.
    """

    kind: str
    datasets: tuple[str, ...]
    references: Path | None = None
    metrics: tuple[Metric, ...] = ()
    optional: frozenset[str] = frozenset()
    held_out: str = "each"
    k: int | None = None
    seed: int = 0
    draws: int = 20
    n_words: int = 1000
    scores: Path | None = None
    label: tuple[str, ...] = ()
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.held_out not in HELD_OUT:
            raise unknown("value of held_out", self.held_out, HELD_OUT)
        if self.kind == "words" and self.held_out == "draw":
            raise InputError(
                "held_out=draw is of kind=captions; of words, held_out=each is the mean of all draws"
            )
        for name, value in (("draws", self.draws), ("k", self.k), ("words.n", self.n_words)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; a whole number from 1 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


#: Options of `captau agree` that not all kinds have: which have them, and what they are where nobody says.
_OF_KINDS: dict[str, tuple[tuple[str, ...], Any]] = {
    "references": (("captions", "words"), None),
    "held_out": (("captions", "words"), "each"),
    "k": (("captions", "words"), None),
    "metrics": (("captions",), None),
    "words.n": (("words",), 1000),
    "words.scores": (("words",), None),
    "words.label": (("words",), []),
    "protocol.dimension": (("ratings",), None),
    "protocol.systems": (("ratings",), None),
    "protocol.split": (("ratings",), None),
}


def _agreed(config: DictConfig) -> dict[str, Any]:
    """The plain configuration of `captau agree`.

    Raises:
        InputError: on an unknown kind, or an option of another one.
    """
    plain = plain_of(config)
    if plain["kind"] not in AGREED:
        raise unknown("kind", plain["kind"], AGREED)
    for name, (kinds, usual) in _OF_KINDS.items():
        group_, _, key = name.rpartition(".")
        value = (plain[group_] if group_ else plain)[key]
        if value != usual and plain["kind"] not in kinds:
            raise InputError(f"{name}=… belongs to {' or '.join(f'kind={k}' for k in kinds)}")
    return plain


def agree_config(config: DictConfig) -> AgreeOptions:
    """From the composed configuration of `captau agree kind=ratings`."""
    plain = _agreed(config)
    return AgreeOptions(
        datasets_of(plain), plain["seed"], plain["draws"], locations_of(plain), plain
    )


def human_config(config: DictConfig) -> HumanConfig:
    """From the composed configuration of `captau agree kind=captions` or `kind=words`.

    Raises:
        InputError: where both a file of references and a dataset are given, or an option makes no
            sense.
    """
    plain = _agreed(config)
    references, datasets = path_of(plain["references"]), tuple(plain["datasets"])
    if references is not None and datasets != ("demo",):
        raise InputError("give references=FILE or dataset=NAME, not both")
    names_of(plain["datasets"])
    words, captions = plain["words"], plain["kind"] == "captions"
    wanted = "text" if plain["metrics"] is None else plain["metrics"]
    label: Any = [words["label"]] if isinstance(words["label"], str) else words["label"]
    return HumanConfig(
        kind=plain["kind"],
        datasets=datasets if references is None else (),
        references=references,
        metrics=resolve_metrics(wanted) if captions else (),
        optional=optional_specs(wanted) if captions else frozenset(),
        held_out=plain["held_out"],
        k=plain["k"],
        seed=plain["seed"],
        draws=plain["draws"],
        n_words=words["n"],
        scores=path_of(words["scores"]),
        label=tuple(map(str, label)),
        locations=locations_of(plain),
        configuration=plain,
    )
