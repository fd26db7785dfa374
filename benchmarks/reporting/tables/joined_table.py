"""`captau table`: finished runs and published numbers as one table, for a paper.

A pure function of files: nothing is scored, and no dataset is read. `join` makes the table, which `table_layouts`
writes in each style; `written_table` is that of a run without correlations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from string import ascii_lowercase
from typing import Any

import pandas as pd

from ....datasets.errors import InputError, unknown
from ....datasets.reading.json_files import read_text
from ...evaluation.headline import ALL, HEADLINE, find_headline
from ...evaluation.judged_pairs import FLOOR_NOTES
from ...evaluation.overview import MEAN
from ...evaluation.papers.published_numbers import COMPARED_CHOICES, describe_choice
from ...evaluation.wording import (
    interval_words,
    level_notes,
    mean_words,
    number_word,
    rank_words,
    revision_words,
    synthetic_note,
)
from ...runs.finished_run import FinishedRun
from ...runs.tables import (
    INTERVALS,
    MISSING,
    AnyCell,
    Cell,
    ResultTable,
    Row,
    TableNote,
    coefficient_cell,
)
from ...scoring.catalog import METRIC_KINDS
from ...scoring.corpus_scores import PLAIN_PROTOCOL
from ...scoring.protocol import Protocol
from ...statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from ...statistics.joint_mean import JOINT_KEY, find_common_metrics, rescale
from .coefficient_column import (
    CoefficientColumn,
    heading_of,
    shorten_dataset,
    spare_columns,
    with_headings,
)
from .named_run import ColumnKey, NamedRun, describe_statistics, name_runs, shorten_hashes
from .systems_table import join_systems
from .table_choices import USUAL_CHOICES, TableChoices
from .table_rows import (
    RowDraft,
    add_published_rows,
    choose_rows,
    computed_rows,
    emphasise,
    group_by_rank,
    name_rows,
    remove_ranks,
    sort_rows,
    tell_published_apart,
)

#: The name of a protocol in which nothing is changed.
_USUAL_PROTOCOL = Protocol.__dataclass_fields__["name"].default
MEAN_COLUMN = CoefficientColumn(
    head=MEAN,
    latex=MEAN,
    dataset=MEAN,
    dimension="",
    coefficient=MEAN,
    protocol=PLAIN_PROTOCOL,
    revision="",
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
        raise InputError(
            f"{run.folder} is a run of captau {run.command}, which has a table of its own: name one such run, "
            "with style=markdown or style=latex, and output= if you like"
        )
    return read_text(run.path_of(name))


def join(runs: Sequence[FinishedRun], choices: TableChoices = USUAL_CHOICES) -> ResultTable:
    """Finished runs and published numbers as one table.

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
    coefficients = choices.coefficients or (ALL if is_paper else HEADLINE,)
    choices = replace(choices, coefficients=coefficients)
    columns = _columns(sources, choices)

    datasets = {key[0] for key in columns} - {MEAN}
    is_survey = choices.coefficients == (HEADLINE,) and len(datasets) > 1
    # Beside several datasets, numbers alone fill the text's width.
    intervals = choices.intervals or ("none" if is_survey else "subscript")
    choices = replace(choices, intervals=intervals)

    has_details = choices.notes == "full"
    computed = computed_rows(sources, columns, intervals)
    published = add_published_rows(columns, computed, choices.published, has_remarks=has_details)
    drafts = choose_rows([*computed, *published.rows], choices.rows)
    if is_survey and not choices.rows:
        drafts = [draft for draft in drafts if draft.kind not in ("floors", "ceilings")]

    mean_note = _average_runs(columns, drafts) if is_survey and len(sources) > 1 else ""
    has_dropped_clusters = _without_clusters(columns, drafts)
    _finish_cells(columns, drafts)
    drafts = _order_and_name(drafts, columns, choices, is_paper=is_paper)

    notes = _notes(sources, columns, drafts, choices, mean_note, is_survey=is_survey)
    notes += published.notes(drafts, has_details=has_details)
    if has_dropped_clusters:
        notes.append("No clusters where the metrics of several runs meet: each run ranked its own.")
    if has_details:
        versions = dict.fromkeys(source.run.run["versions"]["captau"] for source in sources)
        notes.append(f"Computed by captau {', '.join(versions)}.")
    if choices.notes == "none":
        notes = []
        # Without texts, cells have no footnotes' letters.
        for draft in drafts:
            draft.texts.clear()

    if choices.ranks != "superscript":
        remove_ranks(drafts)
    letters: dict[str, str] = {}
    rows = [_row(draft, columns, letters) for draft in drafts]
    headings = [draft.heading or heading_of(draft.kind) for draft in drafts]

    signed = [draft for draft in drafts if draft.signature and has_details]
    signatures = [(draft.label, shorten_hashes(draft.signature)) for draft in signed]
    return ResultTable(
        choices.title or _title(columns),
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
    # Who names rows wants them in that order.
    if choices.sort or not (choices.rows or is_paper):
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


def _title(columns: Mapping[ColumnKey, CoefficientColumn]) -> str:
    titles = list(dict.fromkeys(column.over for column in columns.values() if column.over))
    if len(titles) > 3:
        return f"Agreement of metrics with people on {number_word(len(titles))} datasets"
    return f"Agreement of metrics with people: {', '.join(titles)}"


def _average_runs(columns: dict[ColumnKey, CoefficientColumn], drafts: Sequence[RowDraft]) -> str:
    """Add the mean over the datasets that all metrics of several runs have; it has no interval and no rank.

    Returns:
        its note; empty where there is no such mean, or the runs have one.
    """
    datasets = [key[0] for key in columns]
    if MEAN in datasets or len(set(datasets)) < len(datasets):
        return ""

    # Two runs may have a metric of one spec, so that its place in the list is its name here.
    own_drafts: dict[str, RowDraft] = {}
    for index, draft in enumerate(drafts):
        if draft.kind in METRIC_KINDS and not draft.source:
            own_drafts[str(index)] = draft

    # Only coefficients with a value of chance can be put on the mean's scale.
    keys = {key[0]: key for key in columns if find_coefficient(key[3]).chance is not None}
    nothing = Cell(MISSING)
    values: dict[str, dict[str, float]] = {}
    for dataset, key in keys.items():
        values[dataset] = {
            name: draft.cells.get(key, nothing).value for name, draft in own_drafts.items()
        }

    common_datasets, metrics = find_common_metrics(values)
    if len(common_datasets) < 2:
        return ""

    mean_key = (MEAN, tuple(common_datasets), "", MEAN)
    columns[mean_key] = MEAN_COLUMN
    for name in metrics:
        rescaled = [rescale(values[d][name], keys[d][3]) for d in common_datasets]
        own_drafts[name].cells[mean_key] = coefficient_cell(fmean(rescaled), JOINT_KEY[1])

    titles = [columns[keys[dataset]].over for dataset in common_datasets]
    coefficients = [keys[dataset][3] for dataset in common_datasets]
    words = mean_words(titles, coefficients)
    return f"mean: {words}. Of several runs it has no interval and no rank."


def _finish_cells(
    columns: Mapping[ColumnKey, CoefficientColumn], drafts: Sequence[RowDraft]
) -> None:
    """Mark the best numbers, and say of each dataset on which a metric was not computed that it was not."""
    for key, column in columns.items():
        emphasise(key, drafts)
        for draft in drafts:
            is_gap = key not in draft.cells and key[0] != MEAN
            if draft.kind in METRIC_KINDS and not draft.source and is_gap:
                draft.cells[key] = Cell(MISSING)
                draft.texts[key] = [f"not computed on {column.over}"]


def _row(draft: RowDraft, columns: Iterable[ColumnKey], letters: dict[str, str]) -> Row:
    """Return a row with its footnotes' letters, which are given out in the order of reading."""
    cells: list[AnyCell] = []
    for key in columns:
        cell = draft.cells.get(key, "")
        if isinstance(cell, Cell):
            texts = draft.texts.get(key, [])
            # One text has one letter, wherever it stands.
            marks = [letters.setdefault(text, _letter(len(letters))) for text in texts]
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
    """Footnotes' letters: a … z, aa, ab, …"""
    more, rest = divmod(index, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[rest]


def _columns(
    sources: Sequence[NamedRun], choices: TableChoices
) -> dict[ColumnKey, CoefficientColumn]:
    """The columns in the runs' order, those of a dataset under one protocol side by side, and the mean last.

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
    columns = {key: _column(key, keys, blocks, *sources_by_key[key]) for key in keys}

    means: dict[ColumnKey, None] = {}
    for source in sources:
        means |= dict.fromkeys(key for key, _ in source.mean_rows)
    # Means over unlike datasets are not compared.
    has_mean = choices.coefficients == (HEADLINE,) and not choices.dimensions
    if has_mean and len(means) == 1:
        columns |= dict.fromkeys(means, MEAN_COLUMN)
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
        keys = [key for key in keys if key[3] in sources_by_key[key][1].coefficients]

    for index, option, chosen_names in (
        (2, "dimension", choices.dimensions),
        (3, "coefficient", coefficients),
    ):
        known_names = list(dict.fromkeys(str(key[index]) for key in sources_by_key))
        for name in chosen_names:
            if name not in known_names:
                raise unknown(f"{option} of run={run.folder}", name, known_names)
        if chosen_names:
            matching_keys = [key for key in keys if key[index] in chosen_names]
            keys = sorted(matching_keys, key=lambda key: chosen_names.index(str(key[index])))

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
    """Return a column; its head names the dimension among several, of pairs, and where it is the card's headline.

    Args:
        key: its key.
        keys: those of all columns that are shown.
        blocks: dataset and protocol of all that the runs have.
        source, protocol: the first run that has it.
    """
    dataset, _, dimension, coefficient = key
    data = source.run.run["data"][dataset]
    protocols = [block[1] for block in blocks if block[0] == dataset]
    style = find_coefficient(coefficient)

    rated_dimensions: set[str] = set()
    for other_key in keys:
        is_of_block = other_key[:2] == key[:2]
        if is_of_block and not find_coefficient(other_key[3]).is_of_preferences:
            rated_dimensions.add(other_key[2])
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
    for name, *values in zip(COMPARED_CHOICES, *protocols, strict=True):
        if len(set(values)) > 1:
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
        columns = [(key[2], key[3]) for key in block_keys]
        dimension, coefficient = find_headline(columns, protocol.coefficients, quoted_dimension)

        chosen_dimensions = dimensions or (dimension,)
        for key in block_keys:
            if key[2] in chosen_dimensions and key[3] == coefficient:
                keys.append(key)
    return keys


def _without_clusters(columns: Iterable[ColumnKey], drafts: Sequence[RowDraft]) -> bool:
    """Take the rank clusters out of columns that several runs fill: each run ranked its own metrics.

    Returns:
        whether there were such columns.
    """
    has_clusters = False
    for key in columns:
        ranked = [d for d in drafts if key in d.runs and d.kind in METRIC_KINDS]
        clusters = [d for d in ranked if d.cells[key].rank is not None]
        if clusters and len({d.runs[key] for d in ranked}) > 1:
            has_clusters = True
            for draft in clusters:
                draft.cells[key] = replace(draft.cells[key], rank=None)
    return has_clusters


def _notes(
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
        rows = [(k, row) for k, row in source.rows if k in columns and row["metric"] in specs]
        rows_by_source.append(rows)

    has_details = choices.notes == "full"
    is_short = is_survey and not has_details
    notes += [*_data_notes(sources, rows_by_source, columns, is_short=is_short), mean_note]

    # A mean of several runs has a note of its own.
    has_mean = not mean_note and any(key[0] == MEAN for key in columns)
    for source, rows in zip(sources, rows_by_source, strict=True):
        if source.overview is not None and has_mean:
            notes.append(source.overview.mean_note())
        if not has_details:
            continue

        notes += [source.styles[row["metric"]].note for _, row in rows]
        below = {**source.below["floors"], **source.below["ceilings"]}
        notes += [
            f"{below[row['metric']]}: {FLOOR_NOTES.get(row['metric']) or row['note']}."
            for _, row in rows
            if row["metric"] in below and not math.isnan(row["value"])
        ]
    return [note for note in dict.fromkeys(notes) if note]


def _number_notes(
    sources: Sequence[NamedRun],
    columns: Mapping[ColumnKey, CoefficientColumn],
    drafts: Sequence[RowDraft],
    choices: TableChoices,
) -> Iterator[str]:
    """Yield the notes on how to read numbers, their intervals and their ranks; the arguments are those of `_notes`."""
    datasets = {column.dataset for column in columns.values()}
    cards = [source.run.run["data"].get(name, {}) for source in sources for name in datasets]
    if any(card.get("synthetic") for card in cards):
        yield synthetic_note("metrics")
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
        ranked_coefficients = [JOINT_KEY[1] if key[0] == MEAN else key[3] for key in columns]
        phrases = describe_statistics(
            sources, lambda options: rank_words(options, ranked_coefficients)
        )
        for words in phrases:
            yield f"{look}, ranks: {words}."


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
    return [f"Items, each dataset under its usual protocol: {sizes}.", *notes]


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
    for block in dict.fromkeys(key[:2] for key, _ in rows):
        block_rows = pd.DataFrame([row for key, row in rows if key[:2] == block])
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
