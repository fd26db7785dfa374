"""Rows of the joined table that papers print: the numbers that runs lack, and who printed which."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...evaluation.papers.published_numbers import (
    PublishedNumber,
    differences,
    find_judgements,
    find_printed_metric,
    is_comparable,
    rank_number,
    select_numbers,
    short_citation,
)
from ...runs.tables import (
    Cell,
    PrintedBy,
    TableNote,
    format_number,
)
from ...statistics.coefficients.coefficient import find_coefficient
from .coefficient_column import CoefficientColumn
from .named_run import ColumnKey, style_of
from .table_rows import RowDraft


@dataclass(frozen=True)
class PublishedRows:
    """The metrics that papers print and runs lack, a row each, and the numbers that have no room there.

    Attributes:
        rows: the rows.
        equal, left_out: rows whose numbers further papers print too, or print otherwise, by paper.
        refused: how many numbers of each paper are on other judgements of a dataset, by the dataset's title and the names
            of the two versions, the printed one first.
        is_asked: whether published numbers were asked for.
        labels_by_paper: by the name of each paper whose numbers stand in the rows, the labels of these rows.
    """

    rows: Sequence[RowDraft]
    equal: Mapping[str, Sequence[RowDraft]]
    left_out: Mapping[str, Sequence[RowDraft]]
    refused: Mapping[tuple[str, str, str], Mapping[str, int]]
    is_asked: bool
    labels_by_paper: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def notes(self, drafts: Sequence[RowDraft], *, has_details: bool) -> list[str]:
        """Say where the numbers of the rows that are shown are from, and which are left out."""
        if not self.is_asked:
            return []

        notes: list[str] = []
        for (title, printed_version, version), n_by_paper in self.refused.items():
            papers = ", ".join(f"{paper} ({n})" for paper, n in n_by_paper.items())
            notes.append(
                TableNote.detail(
                    f"Left out are numbers on other judgements of {title} ({printed_version}) than those here ({version}): {papers}."
                )
            )
        if not (self.rows or self.equal or self.left_out or self.refused):
            notes.append("No published number is of these datasets and coefficients.")
        elif has_details:
            notes.append("Published numbers stand as they are printed.")

        if equal_sources := _name_sources(self.equal, drafts):
            notes.append(TableNote.detail(f"The same numbers are printed by {equal_sources}."))
        if left_out_sources := _name_sources(self.left_out, drafts):
            words = f"Left out, since a metric has one number in a column, are numbers of {left_out_sources}."
            notes.append(TableNote.detail(words))
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
    numbers_by_place, refused = _group_numbers(columns, papers)

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
    labels_by_paper: dict[str, list[str]] = {}
    for name, numbers in chosen_numbers.items():
        _fill_row(rows[name], numbers, columns, kinds, has_remarks=has_remarks)
        for paper in dict.fromkeys(number.paper for number in numbers.values()):
            labels_by_paper.setdefault(paper, []).append(rows[name].label)

    equal: dict[str, list[RowDraft]] = {}
    left_out: dict[str, list[RowDraft]] = {}
    for row, key, number in further_numbers:
        is_equal = not (key in row.apart or differences(number, columns[key].protocol))
        by_source = equal if is_equal and _is_printed(row, key, number) else left_out
        by_source.setdefault(short_citation(number.paper), []).append(row)
    return PublishedRows(
        rows=list(rows.values()),
        equal=equal,
        left_out=left_out,
        refused=refused,
        is_asked=bool(papers),
        labels_by_paper=labels_by_paper,
    )


def _group_numbers(
    columns: Mapping[ColumnKey, CoefficientColumn], papers: Sequence[str]
) -> tuple[
    dict[tuple[str, ColumnKey], list[PublishedNumber]], dict[tuple[str, str, str], Counter[str]]
]:
    """Return the papers' numbers by metric and column, and how many were refused, as `PublishedRows.refused` has them."""
    numbers_by_place: dict[tuple[str, ColumnKey], list[PublishedNumber]] = {}
    refused: dict[tuple[str, str, str], Counter[str]] = {}
    for key, number in _fitting_numbers(columns, papers):
        column = columns[key]
        version = find_judgements(column.dataset, column.revision)
        if is_comparable(number.revision, version):
            # Papers spell one metric in several ways.
            name = find_printed_metric(number.row).name
            numbers_by_place.setdefault((name, key), []).append(number)
        else:
            versions = column.over, number.revision, version
            refused.setdefault(versions, Counter())[short_citation(number.paper)] += 1

    return numbers_by_place, refused


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
    printed_name = next(number.row for number in numbers.values() if number.paper == paper)
    row.label = find_printed_metric(printed_name).label or printed_name
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
            words = f"{source}: {', '.join(differing_choices)}"
            row.texts[key].append(PrintedBy(words, source, is_apart=True))
        else:
            row.texts[key].append(PrintedBy(f"as printed by {source}", source, is_apart=False))


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
