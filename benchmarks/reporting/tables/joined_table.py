"""`captau table`: finished runs and published numbers as one table, for a paper.

A pure function of files: nothing is scored, and no dataset is read. `join` makes the table, which `table_layouts`
writes in each style; `written_table` is that of a run without correlations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from string import ascii_lowercase
from typing import Any

from ....datasets.errors import InputError, unknown
from ....datasets.reading.json_files import read_text
from ...evaluation.headline import ALL, HEADLINE, find_headline
from ...evaluation.overview import MEAN
from ...evaluation.papers.published_numbers import COMPARED_CHOICES, describe_choice
from ...evaluation.wording import number_word
from ...runs.finished_run import FinishedRun
from ...runs.tables import MISSING, AnyCell, Cell, ResultTable, Row
from ...scoring.catalog import METRIC_KINDS
from ...scoring.protocol import Protocol
from ...statistics.coefficients.coefficient import find_coefficient
from .coefficient_column import (
    CoefficientColumn,
    heading_of,
    shorten_dataset,
    spare_columns,
    with_headings,
)
from .joined_notes import origin_notes, table_notes
from .mean_over_runs import MEAN_COLUMN, add_mean_over_runs
from .named_run import ColumnKey, NamedRun, name_runs, shorten_hashes
from .published_rows import add_published_rows
from .systems_table import join_systems
from .table_choices import USUAL_CHOICES, TableChoices
from .table_rows import (
    RowDraft,
    choose_rows,
    computed_rows,
    emphasise,
    group_by_rank,
    name_rows,
    order_rows,
    remove_ranks,
    sort_rows,
    tell_published_apart,
)


def written_table(
    runs: Sequence[FinishedRun], choices: TableChoices, style: str, *, has_appendix: bool
) -> str:
    """Return the table that a run without correlations and corpus scores wrote itself.

    Raises:
        InputError: where choices ask for another table, there are several runs, or the table is not as the run
            wrote it.
    """
    (run, *other_runs) = runs
    name = {"markdown": "table.md", "latex": "table.tex"}.get(style, "")
    if not name or other_runs or has_appendix or choices != USUAL_CHOICES:
        unlike = [
            f"{choice.name}="
            for choice in fields(choices)
            if getattr(choices, choice.name) != getattr(USUAL_CHOICES, choice.name)
        ]
        # What was asked for is told first: one's last run may be of another command than one thinks.
        refused = f" and takes no {', '.join(unlike)}" if unlike else ""
        raise InputError(
            f"{run.folder} is a run of captau {run.command}, which has a table of its own{refused}: name a run of "
            "captau bench, compare or score with run=DIR, or one such run alone, with style=markdown or style=latex, "
            "and output= if you like"
        )
    return read_text(run.path_of(name))


def join(runs: Sequence[FinishedRun], choices: TableChoices = USUAL_CHOICES) -> ResultTable:
    """Join finished runs and published numbers into one table.

    Of a metric with one signature that two runs have, the first run counts.

    Raises:
        InputError: on runs over different data, a coefficient or dimension that no run has, or runs
            without any number.
    """
    if runs[0].has_corpus_scores:
        return join_systems(runs, choices)

    sources = name_runs(runs)
    # The tables of a paper have the columns that it prints, and its order.
    is_paper = runs[0].command == "reproduce"
    choices = _with_coefficients(choices, is_paper=is_paper)
    columns = _columns(sources, choices)

    datasets = {key.dataset for key in columns} - {MEAN}
    is_survey = choices.coefficients == (HEADLINE,) and len(datasets) > 1
    # Beside several datasets, numbers alone fill the text's width.
    intervals = choices.intervals or ("none" if is_survey else "subscript")
    choices = replace(choices, intervals=intervals)

    has_details = choices.notes == "full"
    computed = computed_rows(sources, columns, intervals)
    published = add_published_rows(columns, computed, choices.published, has_remarks=has_details)
    drafts = order_rows([*computed, *published.rows])
    if choices.rows:
        # Of a group that is named, the best row comes first, but a paper's rows stay as it prints them.
        drafts = drafts if is_paper else sort_rows(drafts, columns, ())
        drafts = choose_rows(drafts, choices.rows)
    if is_survey and not choices.rows:
        drafts = _without_bounds(drafts)

    mean_note = ""
    if is_survey and len(sources) > 1:
        mean_note = add_mean_over_runs(columns, drafts)
    has_dropped_clusters = _remove_clusters(columns, drafts)
    _finish_cells(columns, drafts)
    drafts = _order_and_name(drafts, columns, choices, is_paper=is_paper)

    notes: list[str] = []
    if choices.notes == "none":
        # Without texts, cells have no footnotes' letters.
        for draft in drafts:
            draft.texts.clear()
    else:
        notes += table_notes(sources, columns, drafts, choices, mean_note, is_survey=is_survey)
        notes += published.notes(drafts, has_details=has_details)
        notes += origin_notes(sources, choices, has_dropped_clusters=has_dropped_clusters)

    if choices.ranks != "superscript":
        remove_ranks(drafts)
    return _lay_out(drafts, columns, choices, intervals=intervals, notes=notes)


def find_printed_labels(
    runs: Sequence[FinishedRun], papers: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Return which rows the usual table of runs takes from which papers: their labels, by the papers' names in `conf/paper/`.

    Raises:
        InputError: as `join` does.
    """
    sources = name_runs(runs)
    is_paper = runs[0].command == "reproduce"
    columns = _columns(sources, _with_coefficients(USUAL_CHOICES, is_paper=is_paper))
    computed = computed_rows(sources, columns, "none")
    return add_published_rows(columns, computed, papers, has_remarks=False).labels_by_paper


def _with_coefficients(choices: TableChoices, *, is_paper: bool) -> TableChoices:
    """Return the choices with the usual coefficients where none is named: the headlines, or all of a paper's tables."""
    usual = (ALL,) if is_paper else (HEADLINE,)
    return replace(choices, coefficients=choices.coefficients or usual)


def _without_bounds(drafts: Sequence[RowDraft]) -> list[RowDraft]:
    """Return the rows of metrics: without floors and ceilings."""
    return [draft for draft in drafts if draft.kind not in ("floors", "ceilings")]


def _lay_out(
    drafts: Sequence[RowDraft],
    columns: Mapping[ColumnKey, CoefficientColumn],
    choices: TableChoices,
    *,
    intervals: str,
    notes: Sequence[str],
) -> ResultTable:
    """Make the table of rows that have their final cells, labels and order."""
    letters: dict[str, str] = {}
    rows: list[Row] = []
    headings: list[str] = []
    signatures: list[tuple[str, str]] = []
    for draft in drafts:
        rows.append(_row(draft, columns, letters))
        headings.append(draft.heading or heading_of(draft.kind))
        if draft.signature and choices.notes == "full":
            signatures.append((draft.label, shorten_hashes(draft.signature)))

    return ResultTable(
        choices.title or _title(columns, drafts),
        "metric",
        tuple(columns.values()),
        with_headings(rows, headings),
        notes=notes,
        spare=spare_columns(tuple(columns.values())),
        file="style=markdown",
        intervals=intervals,
        footnotes=tuple((letter, text) for text, letter in letters.items()),
        signatures=tuple(signatures),
        has_legend=choices.notes != "none",
        latex_label=choices.label or "",
    )


def _order_and_name(
    drafts: list[RowDraft],
    columns: Mapping[ColumnKey, CoefficientColumn],
    choices: TableChoices,
    *,
    is_paper: bool,
) -> list[RowDraft]:
    """Return the rows in their order and give them their final labels."""
    # Rows that somebody names, or a paper prints, stay in that order unless another one is asked for.
    has_own_order = bool(choices.rows) or is_paper
    if choices.sort or not has_own_order:
        drafts = sort_rows(drafts, columns, choices.sort)
    drafts = _by_kind(drafts)
    if choices.ranks == "groups":
        drafts = group_by_rank(drafts, columns, choices.sort)

    # Labels come last, since rows are found by their original names.
    name_rows(drafts, choices.names, choices.own)
    tell_published_apart(drafts, has_sources=choices.notes == "none")
    return drafts


def _by_kind(drafts: Sequence[RowDraft]) -> list[RowDraft]:
    """Return the rows of one kind after another; kinds and rows stay in their order."""
    kinds = list(dict.fromkeys(draft.kind for draft in drafts))
    return sorted(drafts, key=lambda draft: kinds.index(draft.kind))


def _title(columns: Mapping[ColumnKey, CoefficientColumn], drafts: Sequence[RowDraft]) -> str:
    """Name the datasets, or count those of which the table has a number."""
    titles: dict[str, None] = {}
    for key, column in columns.items():
        has_number = any(
            key in draft.cells and not math.isnan(draft.cells[key].value) for draft in drafts
        )
        # The mean stands over no dataset.
        if column.over and has_number:
            titles[column.over] = None

    if not titles:
        titles = {column.over: None for column in columns.values() if column.over}

    if len(titles) > 3:
        return f"Agreement of metrics with people on {number_word(len(titles))} datasets"
    return f"Agreement of metrics with people: {', '.join(titles)}"


def _finish_cells(
    columns: Mapping[ColumnKey, CoefficientColumn], drafts: Sequence[RowDraft]
) -> None:
    """Mark the best numbers, and say of each dataset on which a metric was not computed that it was not."""
    for key, column in columns.items():
        emphasise(key, drafts)
        for draft in drafts:
            is_gap = key not in draft.cells and key.dataset != MEAN
            if draft.kind in METRIC_KINDS and not draft.source and is_gap:
                draft.cells[key] = Cell(MISSING)
                draft.texts[key] = [f"not computed on {column.over}"]


def _row(draft: RowDraft, columns: Iterable[ColumnKey], letters: dict[str, str]) -> Row:
    """Return a row with its footnotes' letters, which are given out in the order of reading."""
    cells: list[AnyCell] = []
    for key in columns:
        cell = draft.cells.get(key, "")
        if isinstance(cell, Cell):
            marks: list[str] = []
            for text in draft.texts.get(key, []):
                # One text has one letter, wherever it stands.
                marks.append(letters.setdefault(text, _letter(len(letters))))
            cell = replace(cell, marks=tuple(marks))
        cells.append(cell)

    return Row(
        draft.label,
        cells,
        kind=draft.kind,
        source=draft.source,
        spec=draft.spec,
        signature=draft.signature,
    )


def _letter(index: int) -> str:
    """Return the letter of the footnote with an index from 0: a … z, aa, ab, …"""
    n_rounds, place = divmod(index, len(ascii_lowercase))
    # After z, the letter of the round stands before that of the place.
    prefix = _letter(n_rounds - 1) if n_rounds else ""
    return prefix + ascii_lowercase[place]


def _columns(
    sources: Sequence[NamedRun], choices: TableChoices
) -> dict[ColumnKey, CoefficientColumn]:
    """Return the columns in the runs' order, those of a dataset under one protocol side by side, and the mean last.

    Raises:
        InputError: where there are none, or one that was asked for is not there.
    """
    sources_by_key: dict[ColumnKey, tuple[NamedRun, Protocol]] = {}
    for source in sources:
        for key, row in source.rows:
            if key not in sources_by_key:
                sources_by_key[key] = source, source.protocol(row)

    if not sources_by_key:
        folder = sources[0].run.folder
        raise InputError(f"{folder} has no correlations; captau bench makes a run that has")

    # Columns of one dataset and protocol stand side by side, under their common head.
    blocks = list(dict.fromkeys(key[:2] for key in sources_by_key))
    keys = _choose_keys(sources_by_key, choices, sources[0].run)
    keys.sort(key=lambda key: blocks.index(key[:2]))
    columns: dict[ColumnKey, CoefficientColumn] = {}
    for key in keys:
        source, protocol = sources_by_key[key]
        columns[key] = _column(key, keys, blocks, source, protocol)

    mean_keys: set[ColumnKey] = set()
    for source in sources:
        mean_keys.update(key for key, _ in source.mean_rows)
    # Means over unlike datasets are not compared.
    may_have_mean = choices.coefficients == (HEADLINE,) and not choices.dimensions
    if may_have_mean and len(mean_keys) == 1:
        (mean_key,) = mean_keys
        columns[mean_key] = MEAN_COLUMN
    return columns


def _choose_keys(
    sources_by_key: Mapping[ColumnKey, tuple[NamedRun, Protocol]],
    choices: TableChoices,
    run: FinishedRun,
) -> list[ColumnKey]:
    """Return the columns that are asked for.

    Raises:
        InputError: where there are none, or one that was asked for is not there.
    """
    keys = list(sources_by_key)
    coefficients = choices.coefficients
    if coefficients == (HEADLINE,):
        keys = _headlines(sources_by_key, choices.dimensions)
        coefficients = ()
    elif coefficients == (ALL,):
        coefficients = ()
        keys = []
        for key, (_, protocol) in sources_by_key.items():
            if key.coefficient in protocol.coefficients:
                keys.append(key)

    # The coefficients' order comes first, and within one of them that of the dimensions.
    chosen_by_field = {"dimension": choices.dimensions, "coefficient": coefficients}
    for field, chosen_names in chosen_by_field.items():
        known_names = list(dict.fromkeys(getattr(key, field) for key in sources_by_key))
        for name in chosen_names:
            if name not in known_names:
                raise unknown(f"{field} of run={run.folder}", name, known_names)

        if chosen_names:
            matching_keys = [key for key in keys if getattr(key, field) in chosen_names]
            keys = sorted(matching_keys, key=lambda key: chosen_names.index(getattr(key, field)))

    if not keys:
        raise InputError("no column has both these dimensions= and these coefficients=")
    return keys


def _column(
    key: ColumnKey,
    keys: Sequence[ColumnKey],
    blocks: Sequence[tuple[str, tuple[Any, ...]]],
    source: NamedRun,
    protocol: Protocol,
) -> CoefficientColumn:
    """Return a column, with its head.

    The head names the dimension where the dataset's columns have several, where pairs are compared, and where the
    dataset's card quotes this dimension in its headline.

    Args:
        key: its key.
        keys: those of all columns that are shown.
        blocks: dataset and protocol of all that the runs have.
        source, protocol: the first run that has it.
    """
    dataset, _, dimension, coefficient = key
    data = source.run.run["data"][dataset]
    protocols = [choices for name, choices in blocks if name == dataset]
    style = find_coefficient(coefficient)

    rated_dimensions: set[str] = set()
    for other_key in keys:
        is_of_block = other_key[:2] == key[:2]
        if is_of_block and not find_coefficient(other_key.coefficient).is_of_preferences:
            rated_dimensions.add(other_key.dimension)
    is_quoted = dimension == data.get("headline")
    is_named = len(rated_dimensions) > 1 or style.is_of_preferences or is_quoted
    prefix = f"{dimension.replace('_', ' ')} " if is_named else ""

    over = _describe_dataset(data, protocol, protocols)
    head = prefix + style.symbol
    return CoefficientColumn(
        head=head,
        latex=prefix + style.latex,
        short=shorten_dataset(dataset, f"{over} {head}"),
        over=over,
        dataset=dataset,
        dimension=dimension,
        coefficient=coefficient,
        protocol=protocol,
        revision=data["revision"],
    )


def _describe_dataset(
    data: Mapping[str, Any], protocol: Protocol, protocols: Sequence[Sequence[Any]]
) -> str:
    """Return a dataset's title, with the choices of its protocol in which the dataset's protocols differ."""
    words = data["title"]
    if data["synthetic"]:
        words += " (synthetic)"
    for index, name in enumerate(COMPARED_CHOICES):
        values = {choices[index] for choices in protocols}
        if len(values) > 1:
            words += f", {name} {describe_choice(getattr(protocol, name))}"
    return words


def _headlines(
    sources_by_key: Mapping[ColumnKey, tuple[NamedRun, Protocol]], dimensions: Sequence[str]
) -> list[ColumnKey]:
    """Return the column of each dataset's headline; its coefficient on the dimensions, where these are named."""
    keys: list[ColumnKey] = []
    for block in dict.fromkeys(key[:2] for key in sources_by_key):
        block_keys = [key for key in sources_by_key if key[:2] == block]
        source, protocol = sources_by_key[block_keys[0]]
        quoted_dimension = source.run.run["data"][block[0]].get("headline", "")
        columns = [(key.dimension, key.coefficient) for key in block_keys]
        dimension, coefficient = find_headline(columns, protocol.coefficients, quoted_dimension)

        chosen_dimensions = dimensions or (dimension,)
        for key in block_keys:
            if key.dimension in chosen_dimensions and key.coefficient == coefficient:
                keys.append(key)
    return keys


def _remove_clusters(columns: Iterable[ColumnKey], drafts: Sequence[RowDraft]) -> bool:
    """Take the rank clusters out of columns that several runs fill: each run ranked its own metrics.

    Returns:
        whether there were such columns.
    """
    has_clusters = False
    for key in columns:
        ranked: list[RowDraft] = []
        for draft in drafts:
            if key in draft.runs and draft.kind in METRIC_KINDS:
                ranked.append(draft)
        clusters = [draft for draft in ranked if draft.cells[key].rank is not None]
        run_indices = {draft.runs[key] for draft in ranked}

        if clusters and len(run_indices) > 1:
            has_clusters = True
            for draft in clusters:
                draft.cells[key] = replace(draft.cells[key], rank=None)
    return has_clusters
