"""Metrics and rows that the tests of all metrics share."""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from captau.metrics.base import Floats, Metric
from captau.metrics.registry import metric, metric_names
from captau.metrics.rows import Rows
from captau.metrics.text.cider import document_frequencies

#: Required parameters, by registered name.
REQUIRED = {
    "file": "(path=PATH,name=Mine)",
    "mllm_judge": "(model=m,temperature=1)",
    "python": "(math:sqrt)",
    "rater": "(path=PATH)",
    "script": "(path=PATH,name=Mine)",
}
#: Text metrics but SPICE, which would start a Java for every example.
TEXT_METRICS = [
    n
    for n in metric_names()
    if type(metric(n + REQUIRED.get(n, ""))).__module__.count(".text.")
    and not n.startswith(("spice", "spider"))
]
POOL = [
    "",
    "a dog",
    "a cat",
    "a dog runs across the grass",
    "a dog runs on the grass .",
    "the cat sleeps on a red sofa",
    "the grass runs across a dog",
    "A man, a plan: a canal!",
    "Ein Mädchen läuft 🐕",
    "a a a a dog dog dog dog",
]


@dataclass(frozen=True)
class Words(Metric):
    """The number of words, times `factor`; registered nowhere."""

    factor: float = 1.0
    kind: Literal["words"] = "words"

    needs: ClassVar[frozenset[str]] = frozenset({"references"})

    @property
    def name(self) -> str:
        return "words"

    def compute(self, rows: Rows) -> Floats:
        return np.array([self.factor * len(c.split()) for c in rows.captions])


@dataclass(frozen=True)
class Images(Words):
    needs: ClassVar[frozenset[str]] = frozenset({"images"})


def row(caption: str = "a dog", *references: str) -> dict[str, object]:
    return {"caption": caption, "references": references or ("a cat",)}


def make_metric(name: str, folder: Path) -> Metric:
    """Make a metric with its defaults, and a file if it requires one."""
    path = folder / "required.csv"
    path.write_text("item_id,score\nx,1\n")
    return metric(name + REQUIRED.get(name, "").replace("PATH", str(path)))


def alternative_values(instance: Metric, field: str, folder: Path) -> list[object]:
    """Return further values of a field; they are legal unless only one is."""
    value = getattr(instance, field)
    hint = typing.get_type_hints(type(instance))[field]
    if field in instance.file_fields:
        path = folder / "other.json"
        document_frequencies([("a dog",)]).write(path)
        return [str(path)]
    if (instance.name, field) == ("meteor", "language"):
        return ["en"]  # the others need another tokeniser
    if typing.get_origin(hint) is Literal:
        legal = [v for v in typing.get_args(hint) if v != value]
        return legal or ["another"]
    if value is None:
        return ["x", "None"] if str in typing.get_args(hint) else [3]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [2 * value + 1, math.nextafter(value, math.inf)]
    assert isinstance(value, str), f"how does {field} of {instance.name} change? Add a case"
    return [value + "x"]
