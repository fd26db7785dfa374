"""How far to trust a metric: how well it agrees with people, as papers print it or a run measured it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...conf import group
from ...datasets.errors import InputError
from ...metrics.registry import metric
from ..runs.finished_run import read_run
from ..runs.tables import COEFFICIENT_STYLE, format_number
from ..scoring.catalog import read_config
from .published_numbers import numbers

#: The value of the option `trust` that stands for the papers' numbers.
PUBLISHED = "published"
UNKNOWN = "not known"
#: What a caption as a whole is rated by, under whichever name.
_WHOLE = ("", "overall", "total", "mean")


@dataclass(frozen=True)
class Agreement:
    """One metric's correlation with people.

    Attributes:
        value: in its natural range; `low` and `high` are the ends of its interval, NaN where it has none.
        on: the dataset, and what was rated where that has a name of its own.
        source: where the number stands.
        citation: BibTeX; empty for a run.
    """

    coefficient: str
    value: float
    on: str
    source: str
    citation: str = ""
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        name, _, scale, decimals = COEFFICIENT_STYLE[self.coefficient]
        text = f"{name.removesuffix(' %')} {format_number(self.value, scale, decimals)}"
        if not math.isnan(self.high):
            text += f" ± {format_number((self.high - self.low) / 2, scale, decimals)}"
        return f"{text} on {self.on}"


@dataclass
class _Column:
    """Numbers that compare: of one dataset, coefficient and protocol.

    `usual` where they are of captions as a whole, of all systems, against all references together.
    """

    usual: bool
    of: dict[str, Agreement] = field(default_factory=dict[str, Agreement])


def agreements(specs: Iterable[str], trust: str | Path) -> dict[str, Agreement]:
    """The agreement of each metric that has one, as far as can be from one column of numbers.

    Args:
        specs: the metrics.
        trust: `published`, or the folder of a finished run of `captau bench`.

    Raises:
        InputError: where the folder holds no such run.
    """
    specs = list(specs)
    columns = _published() if trust == PUBLISHED else _measured(Path(trust))
    best = sorted(columns, key=lambda c: (not c.usual, -sum(spec in c.of for spec in specs)))
    found = {spec: next((c.of[spec] for c in best if spec in c.of), None) for spec in specs}
    return {spec: one for spec, one in found.items() if one is not None}


def _published() -> list[_Column]:
    """The papers' correlations, each with the choices behind it, as `conf/paper/` has them."""
    columns: dict[tuple[Any, ...], _Column] = {}
    for paper in group("paper"):
        for one in numbers(paper):
            if one.spec is None:
                continue
            protocol = one.protocol
            key = (one.dataset, one.dimension, one.coefficient)
            key += (protocol.references, protocol.ratings, protocol.systems)
            usual = protocol.references == "all" and not protocol.systems
            column = columns.setdefault(key, _Column(usual and one.dimension in _WHOLE))
            agreement = Agreement(
                one.coefficient,
                float(one.text) / COEFFICIENT_STYLE[one.coefficient][2],
                _on(one.dataset, one.dimension),
                one.source + _unlike(one.column, protocol.references),
                read_config("paper", paper)["citation"],
            )
            column.of.setdefault(metric(one.spec).spec, agreement)
    return list(columns.values())


def _measured(folder: Path) -> list[_Column]:
    """The correlations of a run, by dataset, protocol, dimension and coefficient."""
    if not folder.expanduser().is_dir():
        raise InputError(f"trust={folder} is neither '{PUBLISHED}' nor the folder of a run")
    columns: dict[tuple[Any, ...], _Column] = {}
    for row in read_run(folder).correlations.to_dict("records"):
        if np.isnan(row["value"]) or row["coefficient"] not in COEFFICIENT_STYLE:
            continue
        key = (row["dataset"], row["protocol"], row["dimension"], row["coefficient"])
        columns.setdefault(key, _Column(row["dimension"] in _WHOLE)).of[row["metric"]] = Agreement(
            row["coefficient"],
            row["value"],
            _on(row["dataset"], row["dimension"]),
            f"run {folder}, protocol {row['protocol']}",
            low=row["ci_low"],
            high=row["ci_high"],
        )
    return list(columns.values())


def _on(dataset: str, rated: str) -> str:
    return dataset if rated in ("", "overall") else f"{dataset} ({rated})"


def _unlike(column: str, references: str) -> str:
    """Which column of a table with several, and whether references are not used as `captau score` does."""
    said = [] if column in COEFFICIENT_STYLE else [f"column {column}"]
    said += [] if references == "all" else [f"protocol.references={references}"]
    return f" ({', '.join(said)})" if said else ""


def sources(found: Mapping[str, Agreement], labels: Mapping[str, str]) -> list[str]:
    """A line for each source, with the metrics whose numbers are from there.

    Args:
        labels: each metric's name in the table.
    """
    said: dict[str, list[str]] = {}
    for spec, one in found.items():
        said.setdefault(one.source, []).append(labels[spec])
    return [f"{', '.join(names)}: {source}" for source, names in said.items()]
