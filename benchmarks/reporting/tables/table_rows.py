"""Rows of the joined table on their way: what is asked of it, the rows of runs and of papers, their choice, order and names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....datasets.errors import InputError, unknown
from ...evaluation.overview import MEAN
from ...evaluation.papers.published_numbers import (
    PublishedNumber,
    describe_revisions,
    differences,
    is_comparable,
    rank_number,
    read_metric_names,
    select_numbers,
    short_citation,
)
from ...runs.tables import (
    MISSING,
    Cell,
    coefficient_cell,
    format_coefficient,
    format_number,
    rank_printed,
)
from ...scoring.catalog import METRIC_KINDS
from ...statistics.coefficients.coefficient import find_coefficient
from .coefficient_column import GROUPS, CoefficientColumn
from .named_run import ColumnKey, NamedRun, style_of


@dataclass
class RowDraft:
    """A row on its way; `texts` are what its cells' footnotes shall say."""

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
    """The rows of the runs."""
    drafts: dict[tuple[str, str, str], RowDraft] = {}
    for index, source in enumerate(sources):
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
                named_before = {other_key[:2] for other_key in drafts}
                if (kind, spec) in named_before:
                    label += f" ({source.name})"
                order = (style.order if kind in METRIC_KINDS else 0, 0, "")
                drafts[kind, spec, signature] = RowDraft(kind, order, label, spec, signature)

            draft = drafts[kind, spec, signature]
            # Of a metric that several runs have, the first one counts.
            if key not in draft.cells:
                rank = source.ranks.get((key[0], key[2], key[3], spec))
                draft.cells[key] = _cell(row, rank, intervals)
                draft.runs[key] = index
                if math.isnan(row["value"]):
                    reason = source.run.find_reasons(key[0]).get(spec)
                    # The remedy is of no use to a table's reader.
                    text = reason.problem if reason else row["note"]
                    draft.texts[key] = [text or "undefined"]

    return list(drafts.values())


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


@dataclass(frozen=True)
class PublishedRows:
    """The metrics that papers print and runs lack, a row each, and the numbers that have no room there.

    Attributes:
        rows: the rows.
        equal, left_out: rows whose numbers further papers print too, or print otherwise, by paper.
        refused: how many numbers of a paper are of another revision of a dataset, and why they are not compared.
        is_asked: whether published numbers were asked for.
    """

    rows: Sequence[RowDraft]
    equal: Mapping[str, Sequence[RowDraft]]
    left_out: Mapping[str, Sequence[RowDraft]]
    refused: Mapping[tuple[str, str], int]
    is_asked: bool

    def notes(self, drafts: Sequence[RowDraft], *, has_details: bool) -> list[str]:
        """Say where the numbers of the rows that are shown are from, and which are left out."""
        if not self.is_asked:
            return []

        notes: list[str] = []
        for (paper, reason), n_numbers in self.refused.items():
            notes.append(f"Left out: {n_numbers} of {paper}, {reason}.")
        if not (self.rows or self.equal or self.left_out or self.refused):
            notes.append("No published number is of these datasets and coefficients.")
        elif has_details:
            notes.append("Published numbers stand as they are printed.")

        if equal_sources := _name_sources(self.equal, drafts):
            notes.append(f"The same numbers are printed by {equal_sources}.")
        if left_out_sources := _name_sources(self.left_out, drafts):
            notes.append(
                f"Left out, since a metric has one number in a column, are numbers of {left_out_sources}."
            )
        return notes


def _name_sources(
    rows_by_source: Mapping[str, Sequence[RowDraft]], drafts: Sequence[RowDraft]
) -> str:
    """Name papers with those of their rows that are shown; empty where none is."""
    shown_rows = {id(draft) for draft in drafts}
    texts: list[str] = []
    for source, rows in rows_by_source.items():
        labels: dict[str, None] = {}
        for row in rows:
            if id(row) in shown_rows:
                labels[row.label] = None
        if labels:
            texts.append(f"{source} ({', '.join(labels)})")
    return "; ".join(texts)


def add_published_rows(
    columns: Mapping[ColumnKey, CoefficientColumn],
    computed: Sequence[RowDraft],
    papers: Sequence[str],
    *,
    has_remarks: bool,
) -> PublishedRows:
    """Make a row for each metric that papers print, with the numbers that no run has.

    Of several numbers in a column the first by `rank_number` counts. The row belongs to the paper that prints most of its
    numbers, and footnotes name the others.

    Args:
        columns: the table's columns.
        computed: the rows of runs.
        papers: names in `conf/paper/`.
        has_remarks: whether footnotes say more of a number than that its protocol is another.
    """
    metric_names = read_metric_names()
    numbers_by_place: dict[tuple[str, ColumnKey], list[PublishedNumber]] = {}
    refused = Counter[tuple[str, str]]()
    for key, number in _fitting_numbers(columns, papers):
        column = columns[key]
        if is_comparable(number.revision, column.revision):
            # Papers spell one metric in several ways.
            name = metric_names.get(number.row, number.row)
            numbers_by_place.setdefault((name, key), []).append(number)
        else:
            reason = describe_revisions(column.over, number.revision, column.revision)
            refused[short_citation(number.paper), reason] += 1

    specs: dict[str, set[str | None]] = {}
    for (name, _), numbers in numbers_by_place.items():
        specs.setdefault(name, set()).update(number.spec for number in numbers)

    chosen_numbers: dict[str, dict[ColumnKey, PublishedNumber]] = {}
    rows: dict[str, RowDraft] = {}
    further_numbers: list[tuple[RowDraft, ColumnKey, PublishedNumber]] = []
    for (name, key), numbers in numbers_by_place.items():
        protocol = columns[key].protocol
        ranked = sorted(numbers, key=lambda number: rank_number(number, protocol))
        row = _find_own(computed, specs[name], key)
        if row is None:
            # No run has a number there: the first paper's stands in a row of its own.
            first = ranked.pop(0)
            chosen_numbers.setdefault(name, {})[key] = first
            row = rows.setdefault(name, RowDraft("published", (0, 0, ""), first.row))
        further_numbers += [(row, key, number) for number in ranked]

    kinds = {draft.spec: draft.kind for draft in computed}
    for name, numbers in chosen_numbers.items():
        _fill_row(rows[name], numbers, columns, kinds, has_remarks=has_remarks)

    equal: dict[str, list[RowDraft]] = {}
    left_out: dict[str, list[RowDraft]] = {}
    for row, key, number in further_numbers:
        is_equal = not (key in row.apart or differences(number, columns[key].protocol))
        by_source = equal if is_equal and _is_printed(row, key, number) else left_out
        by_source.setdefault(short_citation(number.paper), []).append(row)
    return PublishedRows(list(rows.values()), equal, left_out, refused, bool(papers))


def _find_own(
    computed: Sequence[RowDraft], specs: Collection[str | None], key: ColumnKey
) -> RowDraft | None:
    """Return the row of a run that has a number of one of these metrics in a column."""
    for draft in computed:
        if draft.spec in specs and key in draft.cells and not math.isnan(draft.cells[key].value):
            return draft
    return None


def _is_printed(row: RowDraft, key: ColumnKey, number: PublishedNumber) -> bool:
    """Tell whether a row's number is a published one, at the paper's digits."""
    scale = find_coefficient(key[3]).scale
    decimals = len(number.text.partition(".")[2])
    return format_number(row.cells[key].value, scale, decimals) == number.text


def _fill_row(
    row: RowDraft,
    numbers: Mapping[ColumnKey, PublishedNumber],
    columns: Mapping[ColumnKey, CoefficientColumn],
    kinds: Mapping[str, str],
    *,
    has_remarks: bool,
) -> None:
    """Fill a published metric's row: its name in the paper that prints most of it, and its numbers with who printed them."""
    paper = Counter(number.paper for number in numbers.values()).most_common(1)[0][0]
    row.source = short_citation(paper)
    row.label = next(number.row for number in numbers.values() if number.paper == paper)
    specs = [number.spec for number in numbers.values() if number.spec]
    if specs:
        spec = specs[0]
        style = style_of(spec, "published")
        row.kind = kinds.get(spec, style.kind)
        row.spec = spec
        row.order = style.order, 1, row.source

    for key, number in numbers.items():
        value = float(number.text) / find_coefficient(number.coefficient).scale
        row.cells[key] = Cell(number.text, value, float(number.text))
        row.texts[key] = [number.note] if has_remarks and number.note else []
        source = short_citation(number.paper)
        if differing_choices := differences(number, columns[key].protocol):
            row.apart.add(key)
            row.texts[key].append(f"{source}: {', '.join(differing_choices)}")
        else:
            row.texts[key].append(f"printed by {source}")


def _fitting_numbers(
    columns: Mapping[ColumnKey, CoefficientColumn], papers: Sequence[str]
) -> Iterator[tuple[ColumnKey, PublishedNumber]]:
    """Yield the papers' numbers that belong to the columns, of any revision of their dataset."""
    blocks: dict[tuple[Any, ...], list[ColumnKey]] = {}
    for key in columns:
        blocks.setdefault(key[:2], []).append(key)

    for paper in papers:
        for keys in blocks.values():
            column = columns[keys[0]]
            key_by_coefficient = {(key[2], key[3]): key for key in keys}
            names = list(key_by_coefficient)
            for number in select_numbers(paper, column.dataset, names, column.protocol):
                yield key_by_coefficient[number.dimension, number.coefficient], number


#: What marks a row of one's own.
OWN_MARK = " (ours)"
#: What marks a paper's row beside a computed one of the same metric.
PUBLISHED_MARK = " (published)"


def choose_rows(drafts: Sequence[RowDraft], names: Sequence[str]) -> list[RowDraft]:
    """Return the named rows in the names' order, in the field's order where there are no names.

    A name is a metric, a label, or a group such as `ceilings`. Groups stand in the order of their first rows.

    Raises:
        InputError: where a name fits no row.
    """
    ordered = sorted(drafts, key=lambda d: (GROUPS.index(d.kind), d.order))
    if not names:
        return ordered

    # A row that two names fit stands where the first one has it.
    rows: dict[int, RowDraft] = {}
    for name in names:
        for draft in find_rows(ordered, name, "rows"):
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

    More is better: of a metric where less is, the runs hold the negative's coefficients. Floors and
    ceilings do not compete, nor does a paper's number under another protocol, or beside our own.
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
        if is_metric and not (draft.source and is_repeated):
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
    keys = sorted(columns, key=lambda key: key[0] != MEAN)
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
            draft.label += f" ({draft.source})"
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
        if label in names.values() and (first := first_names.setdefault(label, name)) != name:
            raise InputError(
                f"names: the rows {first} and {name} would both be called '{label}'; give them different labels"
            )
