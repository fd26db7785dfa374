"""Numbers that papers print, for the columns of another table: `results/published/` by `conf/paper/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import log10
from typing import Any

from .config import read, usual_protocol
from .protocol import Protocol
from .reproduce import read_published
from .tables import COEFFICIENT_STYLE

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
        dimension, coefficient: the column it belongs to.
        text: the number.
        protocol: that of the paper's table.
        table: which table.
        note: whose number it is where it is not the paper's own, and what the paper says of it.
    """

    paper: str
    row: str
    spec: str | None
    dimension: str
    coefficient: str
    text: str
    protocol: Protocol
    table: str
    note: str


def short(paper: str) -> str:
    """Authors and year of a paper, `Hessel et al. 2021`."""
    return read("paper", paper)["title"].partition(",")[0]


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
    nearest: dict[tuple[str, str], tuple[int, list[Printed]]] = {}
    numbers = read_published(paper)
    for table in read("paper", paper)["tables"]:
        if table["kind"] != "correlation" or table["dataset"] != dataset:
            continue
        for column, options in table["columns"].items():
            changes = {**(table.get("protocol") or {}), **(options.get("protocol") or {})}
            protocol = Protocol.resolve(dataset, usual_protocol(dataset), changes)
            dimension = options.get("dimension") or next(iter(protocol.dimension), "")
            key = dimension, options["coefficient"]
            far = len(differences(protocol, here))
            if key not in wanted or (key in nearest and nearest[key][0] <= far):
                continue
            of_column = numbers[
                (numbers["table"] == table["table"])
                & (numbers["dataset"] == dataset)
                & (numbers["column"] == column)
            ]
            nearest[key] = (
                far,
                [
                    _printed(paper, table, row, key, protocol)
                    for row in of_column.to_dict("records")
                ],
            )
    return [one for _, found in nearest.values() for one in found]


def _printed(
    paper: str,
    table: Mapping[str, Any],
    row: Mapping[Any, str],
    key: tuple[str, str],
    protocol: Protocol,
) -> Printed:
    spec = table["rows"][row["row"]]
    factor = COEFFICIENT_STYLE[key[1]][2] / table.get("scale", 1)
    own = row["source"] == f"{short(paper)}, {table['table']}"
    return Printed(
        paper,
        row["row"],
        None if spec is None or spec.startswith("missing: ") else spec,
        *key,
        # Shifted, not multiplied: 0.300 is 30.0, not 30.
        text=f"{Decimal(row['published']).scaleb(round(log10(factor))):f}",
        protocol=protocol,
        table=table["table"],
        note="; ".join(n for n in ("" if own else row["source"], row["note"]) if n),
    )


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
