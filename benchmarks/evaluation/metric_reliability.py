"""The reliability of metrics: their correlation with people, as papers print it or a run measured it.

`captau score` shows it beside corpus scores (`trust=published`, `trust=DIR`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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
from .published_numbers import read_numbers

#: The value of the option `trust` that stands for the papers' numbers.
PUBLISHED = "published"
#: The cell of a metric without a number.
UNKNOWN = "not known"
#: The dimensions, under any name, that rate a caption as a whole.
_OVERALL = ("", "overall", "total", "mean")


@dataclass(frozen=True)
class Reliability:
    """One metric's correlation with people.

    Attributes:
        coefficient, value: the correlation in its natural range.
        judgements: the dataset, and the rated dimension where it has a name of its own.
        source: where the number stands.
        citation: BibTeX; empty for a run.
        low, high: the ends of its interval, NaN where it has none.
    """

    coefficient: str
    value: float
    judgements: str
    source: str
    citation: str = ""
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        name, _, scale, decimals = COEFFICIENT_STYLE[self.coefficient]
        text = f"{name.removesuffix(' %')} {format_number(self.value, scale, decimals)}"
        if not math.isnan(self.high):
            text += f" ± {format_number((self.high - self.low) / 2, scale, decimals)}"
        return f"{text} on {self.judgements}"

    def record(self) -> dict[str, Any]:
        """Return the fields as `run.json` has them."""
        return {"on" if name == "judgements" else name: v for name, v in vars(self).items()}


@dataclass(frozen=True)
class _ComparableNumbers:
    """Numbers that can be compared: of one dataset, dimension, coefficient and protocol.

    `is_usual` where captions are rated as a whole, of all systems, against all references together.
    """

    is_usual: bool
    by_spec: dict[str, Reliability] = field(default_factory=dict[str, Reliability])


def look_up_reliability(specs: Iterable[str], trust: str | Path) -> dict[str, Reliability]:
    """Look up each metric's correlation with people, as far as possible in one column of numbers.

    Args:
        specs: the metrics.
        trust: `published`, or the folder of a finished run of `captau bench`.

    Returns:
        by spec, in the order of `specs`; metrics without a number are left out.

    Raises:
        InputError: where the folder holds no such run.
    """
    specs = list(specs)
    columns = _published_columns(specs) if trust == PUBLISHED else _run_columns(Path(trust))
    best = sorted(
        columns, key=lambda c: (not c.is_usual, -sum(spec in c.by_spec for spec in specs))
    )
    by_spec: dict[str, Reliability] = {}
    for column in best:
        for spec, reliability in column.by_spec.items():
            by_spec.setdefault(spec, reliability)
    return {spec: by_spec[spec] for spec in specs if spec in by_spec}


def _published_columns(specs: Iterable[str]) -> Iterable[_ComparableNumbers]:
    """Read the papers' correlations of some metrics, by the choices behind them."""
    names = {_name_of(spec) for spec in specs}
    columns: dict[tuple[Any, ...], _ComparableNumbers] = {}
    for paper in group("paper"):
        for number in read_numbers(paper):
            if number.spec is None or _name_of(number.spec) not in names:
                continue
            protocol = number.protocol
            key = (number.dataset, number.revision, number.dimension, number.coefficient)
            key += (protocol.references, protocol.ratings, protocol.systems)
            is_usual = protocol.references == "all" and not protocol.systems
            column = columns.setdefault(
                key, _ComparableNumbers(is_usual and number.dimension in _OVERALL)
            )
            reliability = Reliability(
                number.coefficient,
                float(number.text) / COEFFICIENT_STYLE[number.coefficient][2],
                _describe_judgements(
                    f"{number.dataset} (revision {number.revision})"
                    if number.revision
                    else number.dataset,
                    number.dimension,
                ),
                number.source + _describe_column(number.column, protocol.references),
                read_config("paper", paper)["citation"],
            )
            column.by_spec.setdefault(_normalise_spec(number.spec), reliability)
    return columns.values()


def _name_of(spec: str) -> str:
    return spec.partition("(")[0]


def _normalise_spec(spec: str) -> str:
    """Return a spec with its parameters in captau's order; a bare name stays, without an import."""
    return metric(spec).spec if "(" in spec else spec


def _run_columns(folder: Path) -> Iterable[_ComparableNumbers]:
    """Read the correlations of a run, by dataset, protocol, dimension and coefficient."""
    if not folder.expanduser().is_dir():
        raise InputError(f"trust={folder} is neither '{PUBLISHED}' nor the folder of a run")
    columns: dict[tuple[Any, ...], _ComparableNumbers] = {}
    for row in read_run(folder).correlations.to_dict("records"):
        if np.isnan(row["value"]) or row["coefficient"] not in COEFFICIENT_STYLE:
            continue
        key = (row["dataset"], row["protocol"], row["dimension"], row["coefficient"])
        column = columns.setdefault(key, _ComparableNumbers(row["dimension"] in _OVERALL))
        column.by_spec[row["metric"]] = Reliability(
            row["coefficient"],
            row["value"],
            _describe_judgements(row["dataset"], row["dimension"]),
            f"run {folder}, protocol {row['protocol']}",
            low=row["ci_low"],
            high=row["ci_high"],
        )
    return columns.values()


def _describe_judgements(dataset: str, dimension: str) -> str:
    return dataset if dimension in ("", "overall") else f"{dataset} ({dimension})"


def _describe_column(column: str, references: str) -> str:
    """Name the column of a table with several, and a use of references unlike that of `captau score`."""
    parts = [] if column in COEFFICIENT_STYLE else [f"column {column}"]
    parts += [] if references == "all" else [f"protocol.references={references}"]
    return f" ({', '.join(parts)})" if parts else ""


def list_sources(by_spec: Mapping[str, Reliability], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each source, with the metrics whose numbers come from there.

    Args:
        by_spec: as `look_up_reliability` returns it.
        labels: each metric's name in the table.
    """
    by_source: dict[str, list[str]] = {}
    for spec, reliability in by_spec.items():
        by_source.setdefault(reliability.source, []).append(labels[spec])
    return (f"{', '.join(names)}: {source}" for source, names in by_source.items())
