"""Numbers that papers print, for the columns of another table: `results/published/` by `conf/paper/`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from math import log10
from typing import Any

import pandas as pd

from ..runs.tables import COEFFICIENT_STYLE
from ..scoring.catalog import read_config, usual_protocol
from ..scoring.protocol import Protocol

#: What of a protocol decides whether two numbers can be compared.
COMPARED = (
    "ratings",
    "references",
    "k",
    "corpus",
    "systems",
    "split",
    "undefined",
    "level",
)


@dataclass(frozen=True)
class Printed:
    """One number of a paper, in the unit of `COEFFICIENT_STYLE` with the digits that were printed.

    Attributes:
        paper, row: the paper's name in `conf/paper/`, and what it calls the row.
        spec: the metric in captau; None where there is none.
        dataset, dimension, coefficient: what it is of.
        text: the number.
        protocol: that of the paper's table.
        table, column: where it stands.
        source, said: whose number it is, and what is said of it.
        caveat: how else than by protocol the whole table is unlike captau's.
    """

    paper: str
    row: str
    spec: str | None
    dataset: str
    dimension: str
    coefficient: str
    text: str
    protocol: Protocol
    table: str
    column: str
    source: str
    said: str
    caveat: str

    @property
    def note(self) -> str:
        """Whose number it is where it is not the paper's own, and what is said of it."""
        own = self.source == f"{short(self.paper)}, {self.table}"
        return "; ".join(n for n in ("" if own else self.source, self.said) if n)


def short(paper: str) -> str:
    """Authors and year of a paper, `Hessel et al. 2021`."""
    return read_config("paper", paper)["title"].partition(",")[0]


def read_published(paper: str) -> pd.DataFrame:
    """The numbers of a paper as printed: columns `table, dataset, row, column, published, …`, all str."""
    file = resources.files("captau.results") / "published" / f"{paper}.csv"
    return pd.DataFrame(list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))))


def numbers(paper: str) -> Iterator[Printed]:
    """All correlations that a paper prints, in its order.

    Args:
        paper: its name in `conf/paper/`.
    """
    cells = read_published(paper).to_dict("records")
    by_cell = {(c["table"], c["dataset"], c["row"], c["column"]): c for c in cells}
    for table in read_config("paper", paper)["tables"]:
        if table["kind"] != "correlation":
            continue
        dataset = table["dataset"]
        for column, options in table["columns"].items():
            changes = {**(table.get("protocol") or {}), **(options.get("protocol") or {})}
            protocol = Protocol.resolve(dataset, usual_protocol(dataset), changes)
            dimension = options.get("dimension") or next(iter(protocol.dimension), "")
            factor = COEFFICIENT_STYLE[options["coefficient"]][2] / table.get("scale", 1)
            for row, spec in table["rows"].items():
                cell = by_cell.get((table["table"], dataset, row, column))
                if cell is not None:
                    yield Printed(
                        paper,
                        row,
                        None if spec is None or spec.startswith("missing: ") else spec,
                        dataset,
                        dimension,
                        options["coefficient"],
                        # Shifted, not multiplied: 0.300 is 30.0, not 30.
                        text=f"{Decimal(cell['published']).scaleb(round(log10(factor))):f}",
                        protocol=protocol,
                        table=table["table"],
                        column=column,
                        source=cell["source"],
                        said=cell["note"],
                        caveat=" ".join(table.get("note", "").split()),
                    )


def printed(
    paper: str, dataset: str, wanted: Sequence[tuple[str, str]], here: Protocol
) -> list[Printed]:
    """A paper's numbers for columns of a dataset; where several of its columns fit one, those of the
    protocol nearest to `here`.

    Args:
        paper: its name in `conf/paper/`.
        dataset: of the columns.
        wanted: their dimensions and coefficients.
        here: their protocol.
    """
    columns: dict[tuple[str, str], dict[tuple[str, str], list[Printed]]] = {}
    for one in numbers(paper):
        key = one.dimension, one.coefficient
        if one.dataset == dataset and key in wanted:
            columns.setdefault(key, {}).setdefault((one.table, one.column), []).append(one)
    return [
        one
        for fitting in columns.values()
        for one in min(fitting.values(), key=lambda c: len(differences(c[0].protocol, here)))
    ]


def differences(paper: Protocol, here: Protocol) -> list[str]:
    """In what two protocols differ: `references mean_over_single (here all)`."""
    return [
        f"{name} {show(getattr(paper, name))} (here {show(getattr(here, name))})"
        for name in COMPARED
        if getattr(paper, name) != getattr(here, name)
    ]


def show(value: Any) -> str:
    """A protocol's choice in words."""
    return "all" if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)
