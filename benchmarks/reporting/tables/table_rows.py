"""Rows of the joined table on their way: what is asked of it, the rows of runs and of papers, their choice, order and names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....datasets.errors import InputError, unknown
from ...evaluation.overview import MEAN
from ...evaluation.training.training_designs import name_mean
from ...runs.tables import (
    MISSING,
    Cell,
    coefficient_cell,
    format_coefficient,
    rank_printed,
)
from ...scoring.catalog import METRIC_KINDS
from .coefficient_column import GROUPS, CoefficientColumn
from .named_run import ColumnKey, NamedRun


@dataclass
class RowDraft:
    """A row of the joined table before it has its final cells, label and place.

    Attributes:
        kind: the group of the row, such as `text` or `ceilings`.
        order: its place within the group; rows are sorted by these.
        label: what it is called.
        spec, signature: of its metric; empty where it is none.
        source: the paper of a published row; empty of a computed one.
        texts: what its cells' footnotes say.
    """

    kind: str
    order: tuple[float, int, str]
    label: str
    spec: str = ""
    signature: str = ""
    source: str = ""
    cells: dict[ColumnKey, Cell] = field(default_factory=dict[ColumnKey, Cell])
    texts: dict[ColumnKey, list[str]] = field(default_factory=dict[ColumnKey, list[str]])
    #: The run that a cell came from; nothing of a published one.
    runs: dict[ColumnKey, int] = field(default_factory=dict[ColumnKey, int])
    #: Columns in which a paper's protocol is another.
    apart: set[ColumnKey] = field(default_factory=set[ColumnKey])
    #: The heading above it and its neighbours; the kind's where it is empty.
    heading: str = ""


def computed_rows(
    sources: Sequence[NamedRun], columns: Mapping[ColumnKey, CoefficientColumn], intervals: str
) -> list[RowDraft]:
    """Return the rows of the runs."""
    drafts: dict[tuple[str, str, str], RowDraft] = {}
    for index, source in enumerate(sources):
        n_points = _count_points(source)
        for key, row in [*source.rows, *source.mean_rows]:
            if key not in columns:
                continue

            spec = row["metric"]
            style = source.styles[spec]
            kind = style.kind
            for kind_below, names in source.below.items():
                if spec in names:
                    kind = kind_below
            signature = source.run.run["signatures"].get(spec, "")

            # Metrics of one spec and unlike signatures have unlike scores.
            if (kind, spec, signature) not in drafts:
                label = source.below.get(kind, {}).get(spec, style.label)
                # The second of one spec is told from the first by its run.
                if any(draft.kind == kind and draft.spec == spec for draft in drafts.values()):
                    label += f" ({source.name})"
                order = (style.order if kind in METRIC_KINDS else 0, 0, "")
                drafts[kind, spec, signature] = RowDraft(kind, order, label, spec, signature)

            draft = drafts[kind, spec, signature]
            # Of a metric that several runs have, the first one counts.
            if key not in draft.cells:
                rank = source.ranks.get((key.dataset, key.dimension, key.coefficient, spec))
                draft.cells[key] = _cell(row, rank, intervals)
                draft.runs[key] = index
                if math.isnan(row["value"]):
                    reason = source.run.find_reasons(key.dataset).get(spec)
                    # The remedy is of no use to a table's reader.
                    text = reason.problem if reason else row["note"]
                    draft.texts[key] = [text or "undefined"]
                elif kind in METRIC_KINDS and key in n_points and row["n_ratings"] < n_points[key]:
                    # Of fewer captions than its neighbours', a number is hardly compared with theirs.
                    counted = f"{int(row['n_ratings']):,} of {n_points[key]:,}"
                    draft.texts[key] = [
                        f"of {counted} data points; of the others the score is undefined"
                    ]

    return list(drafts.values())


def _count_points(source: NamedRun) -> dict[ColumnKey, int]:
    """Return the most data points of a row in each column of which `protocol.undefined=drop` may leave some out."""
    n_points: dict[ColumnKey, int] = {}
    for key, row in source.rows:
        protocol = source.run.find_protocol(key.dataset, row["protocol"]) or {}
        if protocol.get("undefined") == "drop":
            n_points[key] = max(n_points.get(key, 0), int(row["n_ratings"]))
    return n_points


def _cell(row: Mapping[str, Any], rank: int | None, intervals: str) -> Cell:
    """Return the cell of a row of `correlations.csv`."""
    coefficient = row["coefficient"]
    low = float(row["ci_low"])
    high = float(row["ci_high"])
    cell = replace(coefficient_cell(float(row["value"]), coefficient), rank=rank)
    if intervals == "none" or math.isnan(low) or math.isnan(high):
        return cell

    return replace(
        cell,
        low=format_coefficient(low, coefficient),
        high=format_coefficient(high, coefficient),
        reach=format_coefficient((high - low) / 2, coefficient),
    )


#: What marks a row of one's own.
OWN_MARK = " (ours)"
#: What marks a paper's row beside a computed one of the same metric.
PUBLISHED_MARK = " (published)"


def order_rows(drafts: Sequence[RowDraft]) -> list[RowDraft]:
    """Return rows in the field's order: one group after another."""
    return sorted(drafts, key=lambda d: (GROUPS.index(d.kind), d.order))


def choose_rows(drafts: Sequence[RowDraft], names: Sequence[str]) -> list[RowDraft]:
    """Return the named rows in the names' order; those of one name stay in their order.

    A name is a metric, a label, or a group such as `ceilings`.

    Raises:
        InputError: where a name fits no row.
    """
    # A row that two names fit stands where the first one has it.
    rows: dict[int, RowDraft] = {}
    for name in names:
        for draft in find_rows(drafts, name, "rows"):
            rows.setdefault(id(draft), draft)
    return list(rows.values())


def find_rows(drafts: Sequence[RowDraft], name: str, option: str) -> list[RowDraft]:
    """Return the rows of a metric, label or group, whether in capitals or not.

    Raises:
        InputError: where there is none.
    """
    folded = name.casefold()
    rows: list[RowDraft] = []
    for draft in drafts:
        if folded in (draft.spec.casefold(), draft.label.casefold(), draft.kind):
            rows.append(draft)
    if not rows and folded not in GROUPS:
        raise unknown(f"row of {option}", name, dict.fromkeys(d.spec or d.label for d in drafts))
    return rows


def emphasise(key: ColumnKey, drafts: Sequence[RowDraft]) -> None:
    """Mark the best and the second best number of a column, as printed: ties share it.

    The greatest is the best, also of a metric of which less is better, as its coefficients are those of the negative
    scores. Floors and ceilings do not compete, nor does a paper's number under another protocol, or beside our own, nor
    a rater of one seed beside the mean over the seeds.
    """
    filled: list[RowDraft] = []
    for draft in drafts:
        if key in draft.cells and draft.cells[key].text != MISSING:
            filled.append(draft)
    computed_specs = {draft.spec for draft in filled if not draft.source}

    competing: list[RowDraft] = []
    for draft in filled:
        is_metric = draft.kind in (*METRIC_KINDS, "published")
        is_repeated = draft.spec in computed_specs or key in draft.apart
        mean = name_mean(draft.spec)
        has_mean = bool(mean) and mean in computed_specs
        if is_metric and not has_mean and not (draft.source and is_repeated):
            competing.append(draft)
    if len(competing) < 2:
        return

    emphasis = rank_printed(draft.cells[key] for draft in competing)
    for draft in competing:
        cell = draft.cells[key]
        draft.cells[key] = replace(cell, emphasis=emphasis.get(cell.printed, ""))


def sort_rows(
    drafts: Sequence[RowDraft], columns: Iterable[ColumnKey], words: Sequence[str]
) -> list[RowDraft]:
    """Return each group's rows with the best of a column first; floors and ceilings stay as they are unless a column is named.

    Args:
        drafts: the rows, whose groups stay in their order.
        columns: the table's columns.
        words: what the column's dataset, dimension and coefficient are called; the first that has all counts. Without
            words it is the mean, or else the first column, and where a row has no number there the next one.

    Raises:
        InputError: where no column has all of them.
    """
    keys = _sorting_columns(columns, words)
    best: dict[tuple[str, ColumnKey], float] = {}
    for draft in drafts:
        # A metric's own row decides, a paper's where there is none.
        for key, cell in draft.cells.items():
            if not math.isnan(cell.value):
                best.setdefault((draft.spec or draft.label, key), cell.value)

    kinds = list(dict.fromkeys(draft.kind for draft in drafts))

    def order(draft: RowDraft) -> tuple[int, list[float]]:
        kind_index = kinds.index(draft.kind)
        is_sorted = bool(words) or draft.kind in (*METRIC_KINDS, "published")
        if not is_sorted:
            return kind_index, []

        name = draft.spec or draft.label
        values = [-best.get((name, key), -math.inf) for key in keys]
        return kind_index, values

    return sorted(drafts, key=order)


def _sorting_columns(columns: Iterable[ColumnKey], words: Sequence[str]) -> list[ColumnKey]:
    """Return the columns by which rows are sorted; the arguments are those of `sort_rows`."""
    # The mean comes first.
    keys = sorted(columns, key=lambda key: key.dataset != MEAN)
    return [_find_column(keys, words)] if words else keys


def remove_ranks(drafts: Iterable[RowDraft]) -> None:
    """Take the ranks out of all cells."""
    for draft in drafts:
        for key, cell in draft.cells.items():
            draft.cells[key] = replace(cell, rank=None)


def group_by_rank(
    drafts: Sequence[RowDraft], columns: Iterable[ColumnKey], words: Sequence[str]
) -> list[RowDraft]:
    """Return the rows with those of one rank under a heading, and the rows without a rank after them.

    Args:
        drafts: the rows.
        columns: the table's columns.
        words: what the column is called whose ranks count; without words it is the mean, or else the first column.

    Raises:
        InputError: where no column has all of these words.
    """
    key = _sorting_columns(columns, words)[0]
    drafts_by_rank: dict[int, list[RowDraft]] = {}
    without_rank: list[RowDraft] = []
    for draft in drafts:
        rank = draft.cells[key].rank if key in draft.cells else None
        if rank is None:
            without_rank.append(draft)
            continue
        draft.heading = f"rank {rank}"
        drafts_by_rank.setdefault(rank, []).append(draft)

    grouped: list[RowDraft] = []
    for rank in sorted(drafts_by_rank):
        grouped += drafts_by_rank[rank]
    return [*grouped, *without_rank]


def _find_column(keys: Iterable[ColumnKey], words: Sequence[str]) -> ColumnKey:
    """Return the first column whose dataset, dimension and coefficient have all words.

    Raises:
        InputError: where there is none.
    """
    names: dict[str, None] = {}
    for key in keys:
        dataset, _, dimension, coefficient = key
        if set(words) <= {dataset, dimension, coefficient}:
            return key
        names |= dict.fromkeys((dataset, dimension, coefficient))

    known_names = " ".join(names)
    raise InputError(f"sort={','.join(words)}: no column has these names; there are {known_names}")


def name_rows(drafts: Sequence[RowDraft], names: Mapping[str, str], own: Sequence[str]) -> None:
    """Give rows the labels that were chosen, and mark one's own; a chosen label is not marked.

    The heading "your metrics" marks the rows below it already.

    Raises:
        InputError: where a name fits no row, or two metrics would have one label.
    """
    original_names = [draft.spec or draft.label for draft in drafts]

    # All rows are found before the first one has another label.
    chosen_labels: list[tuple[RowDraft, str]] = []
    for name, label in names.items():
        chosen_labels += [(draft, label) for draft in find_rows(drafts, name, "names")]
    own_rows: set[int] = set()
    for name in own:
        own_rows |= {id(draft) for draft in find_rows(drafts, name, "own")}

    has_headings = len({draft.kind for draft in drafts}) > 1
    for draft in drafts:
        is_marked = has_headings and draft.kind == "given" and not draft.heading
        if id(draft) in own_rows and not draft.source and not is_marked:
            draft.label += OWN_MARK
    for draft, label in chosen_labels:
        draft.label = label

    pairs = zip(original_names, drafts, strict=True)
    check_labels(names, ((name, draft.label) for name, draft in pairs if not draft.source))


def tell_published_apart(drafts: Sequence[RowDraft], *, has_sources: bool) -> None:
    """Say in a published row's label that it is one, where a computed row has the same.

    Args:
        drafts: the rows, with their final labels.
        has_sources: whether a label names the paper instead, as where no footnote does.
    """
    computed_labels = {draft.label for draft in drafts if not draft.source}
    for draft in drafts:
        if not draft.source:
            continue
        if has_sources:
            draft.label += f" (printed by {draft.source})"
        elif draft.label in computed_labels:
            draft.label += PUBLISHED_MARK


def check_labels(names: Mapping[str, str], labels: Iterable[tuple[str, str]]) -> None:
    """Check that `names=` gives no two rows or columns one label.

    Args:
        names: the option.
        labels: the original name of each row or column, and its label.

    Raises:
        InputError: with the first two that it does.
    """
    first_names: dict[str, str] = {}
    for name, label in labels:
        first = first_names.setdefault(label, name)
        if label in names.values() and first != name:
            raise InputError(
                f"names: the rows {first} and {name} would both be called '{label}'; give them different labels"
            )
