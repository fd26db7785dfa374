"""The base of metrics from outside, whose scores come from a file, a function or a program of the user's."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..datasets.errors import InputError
from ..datasets.paths import expand_home
from .base import Metric
from .registry import metric_names

#: Names that results use for something else: their own columns, floors, and what people reach.
RESERVED = frozenset(
    {
        "item_id",
        "image_id",
        "ceiling_one_vs_one",
        "ceiling_one_vs_rest",
        "ceiling_oracle",
        "floor_random",
        "floor_length",
    }
)


@dataclass(frozen=True)
class OutsideMetric(Metric):
    """A metric whose scores captau cannot know to be the same tomorrow; it has a field `name`, empty for the default."""

    depends_only_on_content: ClassVar[bool] = False
    is_cacheable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.default_name)
        if not self.name.strip():
            raise InputError(f"{self.label}: its name is empty; give it one with name=…")
        if self.name in RESERVED or self.name in metric_names():
            raise InputError(
                f"{self.label}: the name '{self.name}' is taken; give it another with name=…"
            )

    @property
    @abstractmethod
    def default_name(self) -> str:
        """The name where the user chose none."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The metric as messages call it."""

    @property
    def spec(self) -> str:
        return self.name

    @property
    def code(self) -> str:
        """The function or file of the user's that it runs; empty where there is none."""
        return ""

    def find_file(self, path: str) -> Path:
        """Return a file that the metric reads; raise InputError if there is none."""
        file = expand_home(path)
        if not file.is_file():
            raise InputError(f"metric {self.name}: no file {file}")

        return file
