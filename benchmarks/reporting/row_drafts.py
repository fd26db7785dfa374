"""Rows of the joined table on their way: those of runs, and those of papers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..evaluation.published_numbers import (
    PublishedNumber,
    describe_revisions,
    is_comparable,
    protocol_differences,
    select_numbers,
    short_citation,
)
from ..runs.results import parse_missing_note
from ..runs.tables import format_coefficient
from ..scoring.catalog import METRIC_KINDS
from ..statistics.coefficients.registry import find_coefficient
from .named_run import ColumnKey, NamedRun, style_of
from .printed_table import CoefficientColumn, PrintedNumber


@dataclass
class RowDraft:
    """A row on its way; `texts` are what its cells' footnotes shall say."""

    kind: str
    order: tuple[float, int, str]
    label: str
    spec: str = ""
    signature: str = ""
    source: str = ""
    cells: dict[ColumnKey, PrintedNumber] = field(default_factory=dict[ColumnKey, PrintedNumber])
    texts: dict[ColumnKey, list[str]] = field(default_factory=dict[ColumnKey, list[str]])
    #: The run that a cell came from; nothing of a published one.
    runs: dict[ColumnKey, int] = field(default_factory=dict[ColumnKey, int])
    #: Columns in which a paper's protocol is another.
    apart: set[ColumnKey] = field(default_factory=set[ColumnKey])


def computed_rows(
    sources: Sequence[NamedRun], columns: Mapping[ColumnKey, CoefficientColumn], intervals: str
) -> list[RowDraft]:
    """The rows of the runs."""
    drafts: dict[tuple[str, str, str], RowDraft] = {}
    for index, source in enumerate(sources):
        for key, row in source.rows:
            if key not in columns:
                continue
            spec = row["metric"]
            style = source.styles[spec]
            kind = next((k for k, names in source.below.items() if spec in names), style.kind)
            signature = source.run.run["signatures"].get(spec, "")
            if (kind, spec, signature) not in drafts:
                label = source.below.get(kind, {}).get(spec, style.label)
                if any(k[:2] == (kind, spec) for k in drafts):  # another metric of that name
                    label += f" ({source.name})"
                order = (style.order if kind in METRIC_KINDS else 0, 0, "")
                drafts[kind, spec, signature] = RowDraft(kind, order, label, spec, signature)
            draft = drafts[kind, spec, signature]
            if key not in draft.cells:
                rank = source.ranks.get((key[0], key[2], key[3], spec))
                draft.cells[key] = _cell(row, rank, intervals)
                draft.runs[key] = index
                if math.isnan(row["value"]):
                    draft.texts[key] = [_describe_gap(row["note"])]
    return list(drafts.values())


def _cell(row: Mapping[str, Any], rank: int | None, intervals: str) -> PrintedNumber:
    value, low, high = (float(row[name]) for name in ("value", "ci_low", "ci_high"))
    coefficient = row["coefficient"]
    cell = PrintedNumber(format_coefficient(value, coefficient), value, rank=rank)
    if intervals == "none" or math.isnan(low) or math.isnan(high):
        return cell
    ends = [format_coefficient(v, coefficient) for v in (low, high, (high - low) / 2)]
    return replace(cell, low=ends[0], high=ends[1], reach=ends[2])


def _describe_gap(note: str) -> str:
    """Say why a row has no value; without the remedy, which a table's reader has no use for."""
    missing = parse_missing_note(note)
    return missing.problem if missing else note or "undefined"


def published_rows(
    columns: Mapping[ColumnKey, CoefficientColumn],
    computed: Sequence[RowDraft],
    papers: Sequence[str],
    *,
    has_remarks: bool,
) -> list[RowDraft]:
    """The rows of papers: below the metric that captau has for it, or among themselves.

    Args:
        columns: the table's columns.
        computed: the rows of runs.
        papers: names in `conf/paper/`.
        has_remarks: whether footnotes say more of a number than that its protocol is another.
    """
    drafts: dict[tuple[str, str], RowDraft] = {}
    kinds = {d.spec: d.kind for d in computed}
    for key, published in _fitting_numbers(columns, papers):
        column = columns[key]
        if not is_comparable(published.revision, column.revision):
            continue
        row_key = published.paper, published.row
        if row_key not in drafts:
            drafts[row_key] = _paper_draft(published, kinds)
        draft = drafts[row_key]
        value = float(published.text) / find_coefficient(published.coefficient).scale
        draft.cells[key] = PrintedNumber(published.text, value)
        draft.texts[key] = [published.note] if has_remarks and published.note else []
        differ = protocol_differences(published.protocol, column.protocol)
        if differ := [*differ, *([published.caveat] if published.caveat else [])]:
            draft.apart.add(key)
            draft.texts[key].append(f"{draft.source}: {', '.join(differ)}")
    return list(drafts.values())


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
            numbers = select_numbers(
                paper, column.dataset, list(key_by_coefficient), column.protocol
            )
            for number in numbers:
                yield key_by_coefficient[number.dimension, number.coefficient], number


def refusal_notes(
    columns: Mapping[ColumnKey, CoefficientColumn], papers: Sequence[str]
) -> list[str]:
    """Say which papers' numbers are left out because they are of another revision of a dataset."""
    counts = Counter[tuple[str, str]]()
    for key, number in _fitting_numbers(columns, papers):
        column = columns[key]
        if not is_comparable(number.revision, column.revision):
            why = describe_revisions(column.over, number.revision, column.revision)
            counts[short_citation(number.paper), why] += 1
    return [f"Left out: {n} of {paper}, {why}." for (paper, why), n in counts.items()]


def _paper_draft(published: PublishedNumber, kinds: Mapping[str, str]) -> RowDraft:
    source = short_citation(published.paper)
    if published.spec is None:
        return RowDraft("published", (0, 0, ""), published.row, source=source)
    style = style_of(published.spec, "published")
    kind = kinds.get(published.spec, style.kind)
    return RowDraft(kind, (style.order, 1, source), published.row, published.spec, source=source)
