"""The rows of the joined table: their choice, order and names; `joined_table` calls these in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...datasets.errors import InputError, unknown
from ..runs.tables import format_number
from ..statistics.coefficients.registry import find_coefficient
from .named_run import ColumnKey
from .printed_table import GROUPS
from .row_drafts import RowDraft

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
