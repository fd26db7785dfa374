"""The notes below the table that joins finished runs: how to read its numbers, and what data and rows are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ...evaluation.judged_pairs import FLOOR_NOTES
from ...evaluation.overview import MEAN
from ...evaluation.wording import (
    brief_rank_words,
    interval_words,
    level_notes,
    rank_words,
    revision_words,
    synthetic_note,
)
from ...runs.tables import (
    INTERVALS,
    Cell,
    TableNote,
)
from ...scoring.protocol import Protocol
from ...statistics.coefficients.coefficient import are_of_preferences
from ...statistics.joint_mean import JOINT_KEY
from .coefficient_column import (
    CoefficientColumn,
)
from .named_run import ColumnKey, NamedRun, describe_statistics
from .table_choices import TableChoices
from .table_rows import (
    RowDraft,
)

#: The name of a protocol in which nothing is changed.
_USUAL_PROTOCOL = Protocol.__dataclass_fields__["name"].default


def table_notes(
    sources: Sequence[NamedRun],
    columns: Mapping[ColumnKey, CoefficientColumn],
    drafts: Sequence[RowDraft],
    choices: TableChoices,
    mean_note: str,
    *,
    is_survey: bool,
) -> list[str]:
    """List the notes below the table, except footnotes, signatures and the meaning of bold.

    Brief ones say how to read the numbers; full ones also what metrics and rows are, and where numbers are from.

    Args:
        sources, columns, drafts, choices: what the table is made of.
        mean_note: of a mean of several runs; empty for none.
        is_survey: whether it has a headline of several datasets.
    """
    notes = [*_number_notes(sources, columns, drafts, choices)]

    specs = {draft.spec for draft in drafts}
    rows_by_source: list[list[tuple[ColumnKey, dict[str, Any]]]] = []
    for source in sources:
        rows: list[tuple[ColumnKey, dict[str, Any]]] = []
        for key, row in source.rows:
            if key in columns and row["metric"] in specs:
                rows.append((key, row))
        rows_by_source.append(rows)

    has_details = choices.notes == "full"
    is_short = is_survey and not has_details
    notes += [*_data_notes(sources, rows_by_source, columns, is_short=is_short), mean_note]

    # A mean of several runs has a note of its own.
    has_mean = not mean_note and MEAN in {key[0] for key in columns}
    for source, rows in zip(sources, rows_by_source, strict=True):
        if source.overview is not None and has_mean:
            mean = source.overview.mean_note()
            notes.append(TableNote(mean, brief=source.overview.brief_mean_note()))
        if has_details:
            notes += _row_notes(source, rows)
    return [note for note in dict.fromkeys(notes) if note]


def _row_notes(source: NamedRun, rows: Sequence[tuple[ColumnKey, Mapping[str, Any]]]) -> list[str]:
    """Say what the metrics of a run are, and then what its floors and ceilings are."""
    below = {**source.below["floors"], **source.below["ceilings"]}
    metric_notes: list[str] = []
    bound_notes: list[str] = []
    for _, row in rows:
        metric = row["metric"]
        metric_notes.append(source.styles[metric].note)
        if metric in below and not math.isnan(row["value"]):
            meaning = FLOOR_NOTES.get(metric) or row["note"]
            bound_notes.append(f"{below[metric]}: {meaning}.")
    return [*metric_notes, *bound_notes]


def _number_notes(
    sources: Sequence[NamedRun],
    columns: Mapping[ColumnKey, CoefficientColumn],
    drafts: Sequence[RowDraft],
    choices: TableChoices,
) -> Iterator[str]:
    """Yield the notes on how to read numbers, their intervals and their ranks; the arguments are those of `table_notes`."""
    datasets = {column.dataset for column in columns.values()}
    for source in sources:
        cards = source.run.run["data"]
        if any(cards.get(name, {}).get("synthetic") for name in datasets):
            yield synthetic_note("metrics")
            break
    yield "Coefficients ×100."

    cells: list[Cell] = []
    for draft in drafts:
        cells += draft.cells.values()

    if any(cell.low for cell in cells):
        meaning = "Pairs of numbers: the ends of the"
        if choices.intervals == "plusminus":
            meaning = "±: half the width of the"
        for words in describe_statistics(sources, interval_words):
            yield TableNote(f"{meaning} {words}.", (INTERVALS,))

    if choices.ranks != "none" and any(cell.rank is not None for cell in cells):
        look = "Headings" if choices.ranks == "groups" else "Superscript numbers"
        # The mean's ranks are those of the scale on which it is taken.
        ranked_coefficients: list[str] = []
        for dataset, _, _, coefficient in columns:
            ranked_coefficients.append(JOINT_KEY[1] if dataset == MEAN else coefficient)
        phrases = describe_statistics(
            sources, lambda options: rank_words(options, ranked_coefficients)
        )
        brief_phrases = describe_statistics(
            sources, lambda options: brief_rank_words(options, ranked_coefficients)
        )
        # Runs that differ in the test's details alone have one brief phrase.
        if len(brief_phrases) != len(phrases):
            brief_phrases = phrases
        for words, brief_words in zip(phrases, brief_phrases, strict=True):
            yield TableNote(f"{look}, ranks: {words}.", brief=f"{look}: {brief_words}.")


def _data_notes(
    sources: Sequence[NamedRun],
    rows_by_source: Sequence[Sequence[tuple[ColumnKey, dict[str, Any]]]],
    columns: Mapping[ColumnKey, CoefficientColumn],
    *,
    is_short: bool,
) -> list[str]:
    """Describe the datasets of all runs; where it shall be short, usual protocols stand in one line for all."""
    n_items: dict[str, int] = {}
    notes: list[str] = []
    for source, rows in zip(sources, rows_by_source, strict=True):
        notes += _on_data(source, rows, columns, n_items if is_short else None)
    if not n_items:
        return notes

    sizes = ", ".join(f"{title} {n:,}" for title, n in n_items.items())
    return [TableNote.detail(f"Items, each dataset under its usual protocol: {sizes}."), *notes]


def _on_data(
    source: NamedRun,
    rows: Sequence[tuple[ColumnKey, dict[str, Any]]],
    columns: Mapping[ColumnKey, CoefficientColumn],
    n_items_by_title: dict[str, int] | None,
) -> list[str]:
    """Describe each dataset under each protocol: its revision, its sizes, and every choice.

    Args:
        source: the run.
        rows: its rows that the table has.
        columns: those of the table.
        n_items_by_title: takes the number of items of datasets under their usual protocols, which then have no note.
    """
    notes: list[str] = []
    labels = {spec: style.label for spec, style in source.styles.items()}
    rows_by_block: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for key, row in rows:
        rows_by_block.setdefault(key[:2], []).append(row)

    for block, records in rows_by_block.items():
        block_rows = pd.DataFrame(records)
        # Columns of one block share dataset and protocol.
        column = next(column for key, column in columns.items() if key[:2] == block)
        protocol = column.protocol
        data = source.run.run["data"][column.dataset]

        is_of_pairs = are_of_preferences(block_rows["coefficient"]).all()
        unit = "preference pairs" if is_of_pairs else "data points"
        n_images = source.run.run.get("n_images", {}).get(column.dataset)
        images = f" of {n_images:,} images" if n_images else ""
        n_items = int(block_rows["n_items"].max())

        if n_items_by_title is not None and protocol.name == _USUAL_PROTOCOL:
            if n_items:
                n_items_by_title[column.over] = max(n_items, n_items_by_title.get(column.over, 0))
        else:
            notes.append(
                f"{column.over}, {revision_words(data, protocol.split)}: {n_items:,} items{images}, "
                f"{block_rows['n_ratings'].max():,} {unit}; protocol {protocol.name}: {protocol.describe()}."
            )

        names_below = [*source.below["floors"], *source.below["ceilings"]]
        metric_rows = block_rows[~block_rows["metric"].isin(names_below)]
        notes += level_notes(metric_rows, labels, protocol)
    return notes


def origin_notes(
    sources: Sequence[NamedRun], choices: TableChoices, *, has_dropped_clusters: bool
) -> list[str]:
    """Say which runs ranked what, and in full notes which versions computed the numbers."""
    notes: list[str] = []
    if has_dropped_clusters:
        notes.append("No clusters where the metrics of several runs meet: each run ranked its own.")
    if choices.notes == "full":
        versions = dict.fromkeys(source.run.run["versions"]["captau"] for source in sources)
        notes.append(f"Computed by captau {', '.join(versions)}.")
    return notes
