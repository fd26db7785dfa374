"""The numbers that papers print: `results/published/`, described by `conf/paper/`."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib import resources
from itertools import chain
from math import log10
from typing import Any

import pandas as pd

from ....conf import group, own_files
from ....datasets import registry
from ....datasets.errors import InputError
from ...runs.results import find_missing_reason
from ...scoring.catalog import dataset_names, read_config, usual_protocol
from ...scoring.protocol import CHOICES, Protocol
from ...statistics.coefficients.coefficient import find_coefficient
from ..judged_pairs import FLOORS
from ..wording import join_notes

#: The choices of a protocol that decide whether two numbers can be compared.
COMPARED_CHOICES = tuple(name for name, declared in CHOICES.items() if declared.is_compared)
#: Those that matter to metrics with references alone.
_OF_REFERENCES = ("references", "k", "corpus")
#: What differs from the usual protocol of `CHOICES` for a dataset that captau does not read.
PLAIN_PROTOCOL: dict[str, Any] = {"dimension": "overall", "coefficients": ["tau_c", "tau_b"]}

#: The columns of a CSV of printed numbers.
PUBLISHED_COLUMNS = (
    "table",
    "dataset",
    "row",
    "column",
    "published",
    "trained",
    "source",
    "note",
)

#: The kinds of tables whose cells are correlations of metrics with people.
CORRELATIONS = ("correlation", "author_scores")


@dataclass
class PaperTable:
    """One table of a paper, as its file in `conf/paper/` describes it.

    Attributes:
        table: its name, as "Table 1".
        kind: one of `published_cells.TABLE_KINDS`.
        dataset, title: what it is of, and what it is called.
        revision: the version of the dataset's judgements that the numbers are of; empty where there is one alone.
        scale: the factor of printed numbers.
        protocol: options of a protocol.
        rows, columns: by printed name, what is computed.
        row_protocols: options of a protocol by row, where one differs from the table's.
        row_raters: the learned raters of one's own that fill rows, by row: the recipe `rater`, the datasets that it was
            `trained_on` (any where none is named), and `options` that have a value, or are on or off.
        draws: what is said of draws of references, as `reference_draws.DrawOptions`, where the paper draws them at random;
            empty where it does not.
        author_scores: where the authors publish scores of a row's or a column's metric, by its printed name: the `dataset` that has
            them, its `dimension`, and a `note`; they fill cells that captau does not compute itself.
        is_printed: whether the paper prints the numbers; False for those made by running its authors' files.
        note: what the paper does that captau does not, so that cells may differ.
        recomputed_note: the reason why recomputed cells differ, where it is none that lies in the printed numbers.
    """

    table: str
    kind: str
    dataset: str
    title: str = ""
    revision: str = ""
    scale: float = 1.0
    protocol: Any = field(default_factory=dict[str, Any])
    rows: dict[str, Any] = field(default_factory=dict[str, Any])
    columns: dict[str, Any] = field(default_factory=dict[str, Any])
    row_protocols: dict[str, Any] = field(default_factory=dict[str, Any])
    row_raters: dict[str, Any] = field(default_factory=dict[str, Any])
    draws: dict[str, Any] = field(default_factory=dict[str, Any])
    author_scores: dict[str, Any] = field(default_factory=dict[str, Any])
    is_printed: bool = True
    note: str = ""
    recomputed_note: str = ""

    @property
    def difference_notes(self) -> list[str]:
        """Both notes on cells that differ, where there are any."""
        notes = [" ".join(note.split()) for note in (self.note, self.recomputed_note)]
        return [note for note in notes if note]


@dataclass(frozen=True)
class MetricInPrint:
    """A metric that papers print.

    Attributes:
        name: one name for all by which papers print it.
        label: what tables of several papers call it, where a paper's own name says too little there; empty elsewhere.
        has_references: whether it scores captions against references; True where no source says.
    """

    name: str
    label: str = ""
    has_references: bool = True


class Training(StrEnum):
    """Tell whether a metric learned from the judgements that a number is about."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PublishedNumber:
    """One number of a paper, in the unit of tables with the digits that were printed.

    Attributes:
        paper, row: the paper's name in `conf/paper/`, and its name for the row.
        spec: the metric in captau; None where there is none.
        dataset, dimension, coefficient: the column that it belongs to.
        text: the number.
        protocol: that of the paper's table.
        revision: the version of the dataset's judgements; empty where all papers use one.
        training: whether the metric learned from this dataset's judgements.
        table, column: where it stands.
        source, remark: the paper that the number comes from, and a remark on it.
        caveat: the way in which the whole table is unlike captau's beside its protocol.
    """

    paper: str
    row: str
    spec: str | None
    dataset: str
    dimension: str
    coefficient: str
    text: str
    protocol: Protocol
    revision: str
    training: Training
    table: str
    column: str
    source: str
    remark: str
    caveat: str

    @property
    def note(self) -> str:
        """The source where it is not the paper itself, and the remark."""
        is_own = self.source == f"{short_citation(self.paper)}, {self.table}"
        return join_notes("" if is_own else self.source, self.remark)


def short_citation(paper: str) -> str:
    """Return authors and year of a paper, `Hessel et al. 2021`."""
    return read_config("paper", paper)["title"].partition(",")[0]


def paper_files(paper: str) -> tuple[str, str]:
    """Return the names of a paper's YAML file and of the CSV with its numbers, for messages."""
    if own_file := own_files("paper").get(paper):
        return str(own_file), str(own_file.with_suffix(".csv"))

    return f"conf/paper/{paper}.yaml", f"results/published/{paper}.csv"


def read_published(paper: str) -> pd.DataFrame:
    """Read a paper's numbers as printed.

    Returns:
        columns `PUBLISHED_COLUMNS`, all str. `trained` is
        one of `Training` where the number is a metric's correlation, and empty elsewhere.

    Raises:
        InputError: as `_read_cells` does.
    """
    return pd.DataFrame(_read_cells(paper))


def mark_printed(comparison: pd.DataFrame) -> pd.Series:
    """Mark the cells that papers print; others were made with their authors' files (`PaperTable.is_printed`).

    Args:
        comparison: columns `paper` and `table`.
    """
    unprinted: set[tuple[str, str]] = set()
    known_papers = {*group("paper"), *own_files("paper")}
    for paper in set(comparison["paper"]) & known_papers:
        for table in read_config("paper", paper)["tables"]:
            if not table.get("is_printed", True):
                unprinted.add((paper, table["table"]))

    tables = zip(comparison["paper"], comparison["table"], strict=True)
    is_printed = [table not in unprinted for table in tables]
    return pd.Series(is_printed, index=comparison.index, dtype=bool)


def _read_cells(paper: str) -> list[dict[str, str]]:
    """Read the rows of a paper's CSV.

    Raises:
        InputError: where a column is missing, or a number names no source.
    """
    own_file = own_files("paper").get(paper)
    file = resources.files("captau.results") / "published" / f"{paper}.csv"
    if own_file is not None:
        file = own_file.with_suffix(".csv")

    # A spreadsheet program may have put a mark of the byte order at the beginning.
    reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")))
    cells = list(reader)
    column_names = reader.fieldnames or ()
    if missing_columns := [c for c in PUBLISHED_COLUMNS if c not in column_names]:
        raise InputError(f"{file}:1: no column {', '.join(missing_columns)}; add it")

    for line, cell in enumerate(cells, start=2):
        if not cell["source"]:
            raise InputError(
                f"{file}:{line}: a published number without a source; name the paper and the table that it was "
                "read from in the column source"
            )

    return cells


def read_numbers(paper: str) -> Iterator[PublishedNumber]:
    """Yield all correlations that a paper prints, in its order.

    Args:
        paper: its name in `conf/paper/`.
    """
    cells = _read_cells(paper)
    cell_by_place = {(c["table"], c["dataset"], c["row"], c["column"]): c for c in cells}
    datasets = dataset_names()

    for table in read_config("paper", paper)["tables"]:
        if table["kind"] not in CORRELATIONS or not table.get("is_printed", True):
            continue

        dataset = table["dataset"]
        usual = usual_protocol(dataset) if dataset in datasets else PLAIN_PROTOCOL
        for column, options in table["columns"].items():
            if "coefficient" not in options or "bound" in options:
                continue

            shared = {**(table.get("protocol") or {}), **(options.get("protocol") or {})}
            protocol_of_column = Protocol.resolve(dataset, usual, shared)
            for row in table["rows"]:
                cell = cell_by_place.get((table["table"], dataset, row, column))
                if cell is None:
                    continue

                # Hardly any row has a protocol of its own.
                protocol = protocol_of_column
                changes = (table.get("row_protocols") or {}).get(row)
                if changes:
                    protocol = Protocol.resolve(dataset, usual, {**shared, **changes})
                yield _make_number(paper, table, row, column, cell, protocol)


def _make_number(
    paper: str,
    table: Mapping[str, Any],
    row: str,
    column: str,
    cell: Mapping[str, str],
    protocol: Protocol,
) -> PublishedNumber:
    """Return the number of a cell.

    Args:
        paper: its name in `conf/paper/`.
        table: as the paper's file describes it.
        row, column: by their printed names.
        cell: its row in the paper's CSV.
        protocol: that of the row and column.
    """
    options = table["columns"][column]
    factor = find_coefficient(options["coefficient"]).scale / table.get("scale", 1)

    spec = table["rows"][row]
    is_metric = table["kind"] == "correlation" and spec and spec not in FLOORS
    if not is_metric or find_missing_reason(spec):
        spec = None

    return PublishedNumber(
        paper=paper,
        row=row,
        spec=spec,
        dataset=table["dataset"],
        dimension=options.get("dimension") or next(iter(protocol.dimension), ""),
        coefficient=options["coefficient"],
        # Shifted, not multiplied: 0.300 is 30.0, not 30.
        text=f"{Decimal(cell['published']).scaleb(round(log10(factor))):f}",
        protocol=protocol,
        revision=table.get("revision", ""),
        training=Training(cell["trained"]),
        table=table["table"],
        column=column,
        source=cell["source"],
        remark=cell["note"],
        caveat=join_notes(_draw_words(table, row), " ".join(table.get("note", "").split())),
    )


def _draw_words(table: Mapping[str, Any], row: str) -> str:
    """Say that a paper averages a row over random draws of references; empty where it does not."""
    draws = table.get("draws") or {}
    if row not in draws.get("rows", ()):
        return ""

    return (
        f"the paper averages {draws['averaged']} random draws of {draws['references']} references"
    )


def select_numbers(
    paper: str, dataset: str, columns: Sequence[tuple[str, str]], protocol: Protocol
) -> list[PublishedNumber]:
    """Select a paper's numbers for columns of a dataset, of any revision of it.

    Where several columns of the paper fit one, those of the nearest protocol are taken.

    Args:
        paper: its name in `conf/paper/`.
        dataset: of the columns.
        columns: their dimensions and coefficients.
        protocol: theirs.
    """
    fitting: dict[tuple[str, str], dict[tuple[str, str], list[PublishedNumber]]] = {}
    for number in read_numbers(paper):
        key = (number.dimension, number.coefficient)
        if number.dataset == dataset and key in columns:
            by_place = fitting.setdefault(key, {})
            by_place.setdefault((number.table, number.column), []).append(number)

    def distance(numbers: list[PublishedNumber]) -> int:
        return len(protocol_differences(numbers[0].protocol, protocol))

    closest = (min(by_place.values(), key=distance) for by_place in fitting.values())
    return list(chain.from_iterable(closest))


def rank_number(number: PublishedNumber, own_protocol: Protocol) -> tuple[bool, bool, int, str]:
    """Return the place of a number among those of one metric and column, the least first.

    One that is printed under the table's own protocol comes first, then one under the dataset's usual protocol, then the
    nearest; of equal ones the earliest paper's.
    """
    is_known = number.dataset in dataset_names()
    usual = usual_protocol(number.dataset) if is_known else PLAIN_PROTOCOL
    from_usual = differences(number, Protocol.resolve(number.dataset, usual, {}))
    from_own = differences(number, own_protocol)

    year = short_citation(number.paper).rpartition(" ")[2]

    return bool(from_own), bool(from_usual), len(from_own), year


def differences(number: PublishedNumber, own_protocol: Protocol) -> list[str]:
    """Describe in what a number's protocol, and its whole table, are unlike captau's.

    How references are used is no difference for a metric that has none.
    """
    ignored: list[str] = []
    if not find_printed_metric(number.row).has_references:
        ignored += _OF_REFERENCES
        # A caption among its own references may also be left out itself.
        if "drop" not in (number.protocol.own_references, own_protocol.own_references):
            ignored.append("own_references")
    caveats = [number.caveat] if number.caveat else []

    return [*protocol_differences(number.protocol, own_protocol, ignored), *caveats]


@cache
def read_printed_metrics() -> dict[str, MetricInPrint]:
    """Return the metric of each name by which papers print one, from `results/published/metrics.csv`."""
    file = resources.files("captau.results") / "published" / "metrics.csv"
    rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
    metrics: dict[str, MetricInPrint] = {}
    for row in rows:
        metric = MetricInPrint(row["metric"], row["label"], row["references"] != "no")
        for printed_name in row["printed_as"].split("|"):
            metrics[printed_name] = metric

    return metrics


def find_printed_metric(name: str) -> MetricInPrint:
    """Return the metric of a name by which a paper prints one; one of this name where none is known."""
    return read_printed_metrics().get(name, MetricInPrint(name))


def find_judgements(dataset: str, revision: str) -> str:
    """Return what papers call the version of a dataset's judgements in a revision: that of its card, else the revision itself."""
    if dataset in registry.names():
        card = registry.card(dataset)
        if card.judgements and card.revision == revision:
            return card.judgements

    return revision


def is_comparable(printed_version: str, version: str) -> bool:
    """Return whether a number may stand beside scores of a version of a dataset's judgements."""
    return printed_version in ("", version)


def describe_versions(dataset: str, printed_version: str, version: str) -> str:
    """Say why numbers on two versions of a dataset's judgements are not compared."""
    return f"printed on judgements of {dataset} that captau does not read: {printed_version}, not {version}"


def protocol_differences(
    paper: Protocol, own_protocol: Protocol, ignored: Collection[str] = ()
) -> list[str]:
    """Describe each difference of two protocols, but for ignored choices: `references mean_over_single (here all)`."""
    described: list[str] = []
    for name in COMPARED_CHOICES:
        if name in ignored:
            continue
        printed = getattr(paper, name)
        computed = getattr(own_protocol, name)
        if printed != computed:
            described.append(
                f"{name} {describe_choice(printed)} (here {describe_choice(computed)})"
            )

    return described


def describe_choice(value: Any) -> str:
    """Describe a protocol's choice."""
    if value is None:
        return "all"

    return ", ".join(value) if isinstance(value, tuple) else str(value)
