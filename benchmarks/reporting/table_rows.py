"""Rows of the joined table on their way: those of runs and of papers, their choice, order and names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...datasets.errors import InputError, unknown
from ..evaluation.published_numbers import (
    PublishedNumber,
    describe_revisions,
    is_comparable,
    protocol_differences,
    select_numbers,
    short_citation,
)
from ..runs.results import parse_missing_note
from ..runs.tables import format_coefficient, format_number
from ..scoring.catalog import METRIC_KINDS
from ..statistics.coefficients.coefficient import find_coefficient
from .named_run import ColumnKey, NamedRun, style_of
from .printed_table import GROUPS, CoefficientColumn, PrintedNumber


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


#: What marks a row of one's own.
OWN_MARK = " (ours)"


def fold_published_rows(
    drafts: Iterable[RowDraft],
) -> tuple[list[RowDraft], dict[str, list[RowDraft]]]:
    """Fold rows of papers into the row of the same metric that has the same numbers, at the paper's digits.

    A row under another protocol, and one with a number of its own, stays apart. Of papers that agree with each
    other, the first has the row.

    Returns:
        the rows, and those whose numbers further papers print, by paper.
    """
    rows: list[RowDraft] = []
    equal_by_source: dict[str, list[RowDraft]] = {}
    # Computed rows first, then papers' rows without footnotes.
    for draft in sorted(drafts, key=lambda d: (bool(d.source), any(d.texts.values()))):
        twin = next((row for row in rows if draft.source and _has_same_numbers(row, draft)), None)
        if twin is None:
            rows.append(draft)
        else:
            equal_by_source.setdefault(draft.source, []).append(twin)
    return rows, equal_by_source


def _has_same_numbers(row: RowDraft, published: RowDraft) -> bool:
    def is_equal(key: ColumnKey) -> bool:
        text = published.cells[key].text
        scale, decimals = find_coefficient(key[3]).scale, len(text.partition(".")[2])
        return format_number(row.cells[key].value, scale, decimals) == text

    return (
        (row.kind, row.spec or row.label) == (published.kind, published.spec or published.label)
        and not (row.apart or published.apart)
        and published.cells.keys() <= row.cells.keys()
        and all(map(is_equal, published.cells))
    )


def agreement_notes(
    equal_by_source: Mapping[str, Sequence[RowDraft]], drafts: Sequence[RowDraft]
) -> list[str]:
    """Say which of the shown rows papers print with the same numbers."""
    draft_ids = {id(draft) for draft in drafts}
    labels = {
        source: [row.label for row in rows if id(row) in draft_ids]
        for source, rows in equal_by_source.items()
    }
    texts = [f"{source} ({', '.join(names)})" for source, names in labels.items() if names]
    return [f"The same numbers are printed by {'; '.join(texts)}."] if texts else []


def choose_rows(drafts: Sequence[RowDraft], names: Sequence[str]) -> list[RowDraft]:
    """Return the named rows in the names' order, in the field's order where there are no names.

    A name is a metric, a label, or a group such as `ceilings`. Groups stand in the order of their first rows.

    Raises:
        InputError: where a name fits no row.
    """
    ordered = sorted(drafts, key=lambda d: (GROUPS.index(d.kind), d.order))
    if not names:
        return ordered
    rows = [draft for name in names for draft in find_rows(ordered, name, "rows")]
    return list({id(draft): draft for draft in rows}.values())


def find_rows(drafts: Sequence[RowDraft], name: str, option: str) -> list[RowDraft]:
    """Return the rows of a metric, label or group, whether in capitals or not.

    Raises:
        InputError: where there is none.
    """
    folded = name.casefold()
    rows = [
        draft
        for draft in drafts
        if folded in (draft.spec.casefold(), draft.label.casefold(), draft.kind)
    ]
    if not rows and folded not in GROUPS:
        raise unknown(f"row of {option}", name, dict.fromkeys(d.spec or d.label for d in drafts))
    return rows


def sort_rows(
    drafts: Sequence[RowDraft], columns: Iterable[ColumnKey], words: Sequence[str]
) -> list[RowDraft]:
    """Return each group's rows with the best of a column first; a metric's published rows stay below its own.

    Args:
        drafts: the rows, whose groups stay in their order.
        columns: the table's columns.
        words: what the column's dataset, dimension and coefficient are called; the first that has all counts.

    Raises:
        InputError: where no column has all of them.
    """
    if not words:
        return list(drafts)
    keys = list(columns)
    key = next((k for k in keys if set(words) <= {k[0], k[2], k[3]}), None)
    if key is None:
        names = " ".join(dict.fromkeys(str(part) for k in keys for part in (k[0], k[2], k[3])))
        raise InputError(f"sort={','.join(words)}: no column has these names; there are {names}")
    best: dict[str, float] = {}
    for draft in drafts:
        # A metric's own row decides, a paper's where there is none.
        if key in draft.cells and draft.cells[key].value == draft.cells[key].value:
            best.setdefault(draft.spec or draft.label, draft.cells[key].value)
    kinds = list(dict.fromkeys(draft.kind for draft in drafts))
    return sorted(
        drafts, key=lambda d: (kinds.index(d.kind), -best.get(d.spec or d.label, float("-inf")))
    )


def name_rows(drafts: Sequence[RowDraft], names: Mapping[str, str], own: Sequence[str]) -> None:
    """Give rows the labels that were chosen, and mark one's own; a chosen label is not marked.

    Raises:
        InputError: where a name fits no row, or two metrics would have one label.
    """
    original_names = [draft.spec or draft.label for draft in drafts]
    chosen = [
        (draft, label)
        for name, label in names.items()
        for draft in find_rows(drafts, name, "names")
    ]
    own_rows = {id(draft) for name in own for draft in find_rows(drafts, name, "own")}
    for draft in drafts:
        if id(draft) in own_rows and not draft.source:
            draft.label += OWN_MARK
    for draft, label in chosen:
        draft.label = label
    pairs = zip(original_names, drafts, strict=True)
    check_labels(names, ((name, draft.label) for name, draft in pairs if not draft.source))


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
