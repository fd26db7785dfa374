"""`captau table` of runs of `captau score`: systems as rows, metrics as columns, as captioning papers print them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ....datasets.errors import InputError, unknown
from ...evaluation.wording import interval_words, rank_words
from ...runs.finished_run import FinishedRun
from ...runs.latex_text import escape_latex
from ...runs.tables import INTERVALS, MISSING, Cell, ResultTable, Row, TableNote, rank_printed
from ...scoring.catalog import MetricStyle
from ...scoring.corpus_scores import PLAIN_PROTOCOL
from ..run_parts import ScoredCaptions, scored_parts
from .coefficient_column import GROUPS, CoefficientColumn, spare_columns
from .corpus_score_tables import scale_note
from .named_run import shorten_hashes
from .table_choices import TableChoices
from .table_rows import OWN_MARK, check_labels

#: The digest of images and references, the metric and its signature.
ColumnKey = tuple[str, str, str]


def join_systems(runs: Sequence[FinishedRun], choices: TableChoices) -> ResultTable:
    """Join the systems of runs of `captau score` in one table.

    Systems that were scored against the same references by the same metrics share columns.

    Raises:
        InputError: on an unknown metric, an option for judgements, or as `scored_parts` does.
    """
    _refuse_other_choices(choices)
    intervals = choices.intervals or "subscript"
    parts: list[ScoredCaptions] = []
    for run in runs:
        parts += scored_parts(run)
    part_by_key = _select_columns(parts, choices)
    rows = _name_rows(parts)
    _check_names(runs[0], parts, rows, choices)

    # Each run ranked its own systems alone.
    has_ranks = len(runs) == 1 and choices.ranks == "superscript"
    cells: dict[str, list[Cell]] = {}
    for name in choices.rows or rows:
        cells[name] = []
        for key in part_by_key:
            cells[name].append(_cell(rows[name], key, intervals, has_ranks=has_ranks))
    for index, ((_, metric, _), part) in enumerate(part_by_key.items()):
        _mark_column(cells, index, higher_is_better=part.styles[metric]["higher_is_better"])
    check_labels(choices.names, ((name, choices.names.get(name, name)) for name in cells))

    has_details = choices.notes == "full"
    digests = {digest for digest, _, _ in part_by_key}
    has_several_references = len(digests) > 1
    table_rows: list[Row] = []
    for name, row in _sort(cells, part_by_key, choices.sort).items():
        own_label = name + (OWN_MARK if name in choices.own else "")
        table_rows.append(Row(choices.names.get(name, own_label), row, kind="systems"))

    columns: list[CoefficientColumn] = []
    for (_, metric, _), part in part_by_key.items():
        columns.append(_column(part, metric, has_several_references, choices.names))
    return ResultTable(
        choices.title or "Scores of captioning systems",
        "system",
        columns,
        table_rows,
        notes=list(_notes(parts, cells, has_details)) if choices.notes != "none" else [],
        spare=spare_columns(columns),
        file="style=markdown",
        intervals=intervals,
        signatures=_signatures(part_by_key) if has_details else (),
        has_legend=choices.notes != "none",
        latex_label=choices.label or "",
    )


def _refuse_other_choices(choices: TableChoices) -> None:
    """Refuse what works on judgements alone.

    Raises:
        InputError: with the option that does.
    """
    for name in ("published", "dimensions"):
        if getattr(choices, name):
            raise InputError(
                f"{name}= works on runs that measure agreement with people; captau score does not"
            )
    if choices.ranks == "groups":
        raise InputError(
            "ranks=groups works on runs that measure agreement with people; write ranks=none or ranks=superscript"
        )


def _check_names(
    run: FinishedRun,
    parts: Sequence[ScoredCaptions],
    rows: Mapping[str, object],
    choices: TableChoices,
) -> None:
    """Check that the systems and metrics that options name are there.

    Raises:
        InputError: with the first name that is not.
    """
    for name in choices.rows:
        if name not in rows:
            raise unknown(f"system of run={run.folder}", name, list(rows))

    metrics: list[str] = []
    for part in parts:
        metrics += part.metrics
    for option, names in (("names", choices.names), ("own", choices.own)):
        for name in names:
            if name not in (*rows, *metrics, *GROUPS):
                raise unknown(f"system or metric of {option}", name, [*rows, *metrics])


def _select_columns(
    parts: Sequence[ScoredCaptions], choices: TableChoices
) -> dict[ColumnKey, ScoredCaptions]:
    """Return the first part of each column, in the order of columns: by references, then by metric.

    Raises:
        InputError: on an unknown metric.
    """
    part_by_key: dict[ColumnKey, ScoredCaptions] = {}
    for part in parts:
        signatures: Mapping[str, str] = part.run.run["signatures"]
        for metric in part.metrics:
            part_by_key.setdefault((part.digest, metric, signatures.get(metric, "")), part)

    metrics = dict.fromkeys(metric for _, metric, _ in part_by_key)
    for name in choices.coefficients:
        if name not in metrics:
            raise unknown(f"metric of run={parts[0].run.folder}", name, metrics)

    order = choices.coefficients or tuple(parts[0].sort_metrics(metrics))
    keys = [key for key in part_by_key if key[1] in order]
    digests = list(dict.fromkeys(key[0] for key in keys))
    keys.sort(key=lambda key: (digests.index(key[0]), order.index(key[1])))
    return {key: part_by_key[key] for key in keys}


def _signatures(part_by_key: Mapping[ColumnKey, ScoredCaptions]) -> tuple[tuple[str, str], ...]:
    """Return the labels of the metrics that have a signature, each with its signature."""
    signatures: dict[str, str] = {}
    for (_, metric, signature), part in part_by_key.items():
        if signature:
            signatures[part.label(metric)] = shorten_hashes(signature)
    return tuple(signatures.items())


def _sort(
    cells: dict[str, list[Cell]],
    part_by_key: Mapping[ColumnKey, ScoredCaptions],
    sort: Sequence[str],
) -> dict[str, list[Cell]]:
    """Return the rows from the best to the worst in the column of a metric.

    Raises:
        InputError: where no column has the metric.
    """
    if not sort:
        return cells

    metrics = [metric for _, metric, _ in part_by_key]
    if len(sort) > 1 or sort[0] not in metrics:
        raise unknown("metric to sort by", ", ".join(sort), metrics)

    index = metrics.index(sort[0])
    part = list(part_by_key.values())[index]
    sign = 1 if part.styles[sort[0]]["higher_is_better"] else -1

    def order(name: str) -> float:
        """Return what rows are sorted by; one without a score stands last."""
        value = sign * cells[name][index].value
        return math.inf if math.isnan(value) else -value

    return {name: cells[name] for name in sorted(cells, key=order)}


def _name_rows(parts: Sequence[ScoredCaptions]) -> dict[str, list[tuple[ScoredCaptions, str]]]:
    """Return the parts in which a row's system was scored; equal names of two runs get the run's."""
    folders_by_system: dict[str, set[Path]] = {}
    for part in parts:
        for system in part.systems:
            folders_by_system.setdefault(system, set()).add(part.run.folder)

    rows: dict[str, list[tuple[ScoredCaptions, str]]] = {}
    for part in parts:
        for system in part.systems:
            is_of_several_runs = len(folders_by_system[system]) > 1
            name = f"{system} ({part.run.folder.name})" if is_of_several_runs else system
            rows.setdefault(name, []).append((part, system))
    return rows


def _cell(
    row: Sequence[tuple[ScoredCaptions, str]], key: ColumnKey, intervals: str, *, has_ranks: bool
) -> Cell:
    """Return a system's score in a column; `MISSING` where it was not scored so."""
    digest, metric, signature = key
    for part, system in row:
        if part.digest != digest or part.run.run["signatures"].get(metric, "") != signature:
            continue

        score = part.rows[system, metric]
        low = float(score["ci_low"])
        high = float(score["ci_high"])
        ranks = {standing.label: standing.rank for standing in part.standings[metric]}
        rank = ranks.get(system) if has_ranks else None
        cell = replace(part.score_cell(float(score["score"]), metric), rank=rank)
        if intervals == "none" or math.isnan(low):
            return cell

        return replace(
            cell,
            low=part.score_cell(low, metric).text,
            high=part.score_cell(high, metric).text,
            reach=part.score_cell((high - low) / 2, metric).text,
        )

    return Cell(MISSING)


def _mark_column(cells: dict[str, list[Cell]], index: int, *, higher_is_better: bool) -> None:
    """Mark the best and the second best number of a column as printed, unless one stands alone."""
    column: list[Cell] = []
    for row in cells.values():
        if row[index].text != MISSING:
            column.append(row[index])
    if len(column) < 2:
        return

    emphasis = rank_printed(column, higher_is_better=higher_is_better)
    for row in cells.values():
        row[index] = replace(row[index], emphasis=emphasis.get(row[index].printed, ""))


def _column(
    part: ScoredCaptions, metric: str, has_several_references: bool, names: Mapping[str, str]
) -> CoefficientColumn:
    """Return the column of a metric's scores against one set of references."""
    label = names.get(metric, part.label(metric))
    over = f"references {part.dataset}" if has_several_references else ""
    return CoefficientColumn(
        head=label,
        latex=escape_latex(label),
        over=over,
        dataset=part.dataset,
        dimension="",
        coefficient=metric,
        protocol=PLAIN_PROTOCOL,
        revision=part.digest,
    )


def _notes(
    parts: Sequence[ScoredCaptions],
    cells: Mapping[str, Sequence[Cell]],
    has_details: bool,
) -> Iterator[str]:
    """Yield the notes below the table."""
    styles: list[MetricStyle] = []
    counts: set[int] = set()
    for part in parts:
        styles += [MetricStyle(**style) for style in part.styles.values()]
        counts |= {int(row["n_images"]) for row in part.rows.values()}
    printed_counts = ", ".join(f"{count:,}" for count in sorted(counts))
    yield f"Images: {printed_counts}. {scale_note(styles)}."

    numbers: list[Cell] = []
    for row in cells.values():
        numbers += row
    if any(number.low for number in numbers):
        words = dict.fromkeys(interval_words(part.statistics) for part in parts)
        yield TableNote(f"Intervals: {'; '.join(words)}.", (INTERVALS,))
    if any(number.rank is not None for number in numbers):
        # The words are those of rankings of metrics; these rank systems.
        words = dict.fromkeys(rank_words(part.statistics) for part in parts)
        yield f"Superscript numbers, ranks: {'; '.join(words)}.".replace("metrics", "systems")

    if has_details:
        yield from dict.fromkeys(style.note for style in styles if style.note)
        versions = dict.fromkeys(part.run.run["versions"]["captau"] for part in parts)
        yield f"Computed by captau {', '.join(versions)}."
