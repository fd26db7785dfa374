"""`captau table`: finished runs and published numbers as one table, for a paper.

A pure function of files: nothing is scored, and no dataset is read. `join` makes a `JoinedTable`,
which `layouts` prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pandas as pd

from ...datasets.errors import InputError, unknown
from ...metrics.registry import metric
from ..evaluation.floors import FLOOR_NOTES
from ..evaluation.published_numbers import (
    COMPARED_CHOICES,
    PublishedNumber,
    describe_choice,
    describe_revisions,
    is_comparable,
    protocol_differences,
    select_numbers,
    short_citation,
)
from ..evaluation.wording import describe_protocol, interval_words, level_notes, rank_words
from ..options.table import TableOptions
from ..runs.finished_run import FinishedRun, check_same_data, read_run
from ..runs.missing_notes import parse_missing_note
from ..runs.tables import COEFFICIENT_STYLE, MISSING, format_number
from ..scoring.catalog import METRIC_KINDS, MetricStyle, metric_style
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions

#: How rows are grouped, in this order.
GROUPS = (*METRIC_KINDS, "published", "floors", "ceilings")
_HEADINGS = {"given": "given as scores or functions", "published": "published alone"}


@dataclass(frozen=True)
class CoefficientColumn:
    """A coefficient of a dataset.

    Attributes:
        dataset, dimension, coefficient, protocol: of what.
        revision: the dataset's, as the run read it.
        over: the head that it shares with its neighbours.
        head, latex: its own, in plain text and for LaTeX.
    """

    dataset: str
    dimension: str
    coefficient: str
    protocol: Protocol
    revision: str
    over: str
    head: str
    latex: str


@dataclass(frozen=True)
class PrintedNumber:
    """A number as it is printed.

    Attributes:
        text: the number, `MISSING` where there is none.
        value: in its natural range; NaN where there is none.
        low, high, reach: the interval's ends and half its width, as printed; empty where there is none.
        rank: the cluster of metrics that cannot be told apart; None where there is none.
        emphasis: `best`, `second` or nothing.
        marks: letters of the footnotes.
    """

    text: str
    value: float
    low: str = ""
    high: str = ""
    reach: str = ""
    rank: int | None = None
    emphasis: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableRow:
    """A metric's numbers, one a column; None where there is nothing to say.

    Attributes:
        source: who printed them; empty where captau computed them.
        spec, signature: of the metric; empty where a paper's is not in captau.
    """

    label: str
    source: str
    spec: str
    signature: str
    cells: tuple[PrintedNumber | None, ...]


@dataclass(frozen=True)
class RowGroup:
    """Rows of one kind, one of `GROUPS`."""

    kind: str
    rows: tuple[TableRow, ...]

    @property
    def heading(self) -> str:
        """The text above the columns."""
        return _HEADINGS.get(self.kind, self.kind)


@dataclass(frozen=True)
class JoinedTable:
    """The table that `captau table` prints.

    Attributes:
        label: for LaTeX's `\\ref`; empty for none.
        marks: footnotes with their letters.
        notes: what else stands below.
        signatures: the metrics' labels and signatures, which stand there too.
        intervals: how intervals are shown: `subscript`, `plusminus` or `none`.
    """

    title: str
    label: str
    columns: tuple[CoefficientColumn, ...]
    groups: tuple[RowGroup, ...]
    marks: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    signatures: tuple[tuple[str, str], ...]
    intervals: str

    @property
    def cells(self) -> list[PrintedNumber]:
        """All that there are, row by row."""
        rows = [row for group in self.groups for row in group.rows]
        return [cell for row in rows for cell in row.cells if cell is not None]

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The heads that columns share, and over how many."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.over:
                spans[-1] = column.over, spans[-1][1] + 1
            else:
                spans.append((column.over, 1))
        return spans


#: Dataset, what of its protocol decides, dimension, coefficient.
ColumnKey = tuple[str, tuple[Any, ...], str, str]


@dataclass(frozen=True)
class NamedRun:
    """A finished run: its correlations with the columns that they belong to.

    Attributes:
        name: what tells it from the others.

    Raises:
        InputError: from rows of which run.json knows nothing.
    """

    run: FinishedRun
    name: str

    @cached_property
    def rows(self) -> list[tuple[ColumnKey, dict[str, Any]]]:
        records: Any = self.run.correlations.to_dict("records")
        return [(self._key(row), row) for row in records]

    def _key(self, row: Mapping[str, Any]) -> ColumnKey:
        decides = tuple(getattr(self.protocol(row), name) for name in COMPARED_CHOICES)
        return row["dataset"], decides, row["dimension"], row["coefficient"]

    def protocol(self, row: Mapping[str, Any]) -> Protocol:
        """The protocol of a row; run.json has it by dataset, or by a paper's table."""
        protocols: dict[str, Any] = self.run.run["protocols"]
        of_name = (p for p in protocols.values() if p["name"] == row["protocol"])
        options = protocols.get(row["dataset"]) or next(of_name, None)
        if options is None or row["dataset"] not in self.run.run["data"]:
            raise InputError(
                f"{self.run.folder}: run.json knows nothing of {row['dataset']}, {row['protocol']} in "
                f"correlations.csv; run captau {self.run.command} again"
            )
        return Protocol.from_record(options)

    @cached_property
    def styles(self) -> dict[str, MetricStyle]:
        """The style of each metric, by spec."""
        recorded_styles = self.run.run.get("metrics", {})
        default_kind = "learned" if self.run.command == "train" else "given"
        return {
            spec: MetricStyle(**recorded_styles[spec])
            if spec in recorded_styles
            else style_of(spec, default_kind)
            for spec in dict.fromkeys(self.run.correlations["metric"])
        }

    @cached_property
    def below(self) -> dict[str, dict[str, str]]:
        """Labels of what stands below the metrics, by kind and name."""
        return {kind: self.run.run.get(kind, {}) for kind in ("floors", "ceilings")}

    @cached_property
    def ranks(self) -> dict[tuple[str, str, str, str], int]:
        """By dataset, dimension, coefficient and metric."""
        if not self.run.has_file("ranks.csv"):
            return {}
        names = ["dataset", "dimension", "coefficient", "metric", "rank"]
        rows: Any = self.run.ranks[names].itertuples(index=False, name=None)
        return {tuple(key): int(rank) for *key, rank in rows}


def read_sources(folders: Sequence[Path]) -> list[NamedRun]:
    """Finished runs, with names.

    Raises:
        InputError: on a run that cannot be read, or runs over different data.
    """
    runs = [read_run(folder) for folder in folders]
    check_same_data(runs)
    unique = len({run.folder.name for run in runs}) == len(runs)
    return [NamedRun(run, run.folder.name if unique else str(run.folder)) for run in runs]


def style_of(spec: str, otherwise: str) -> MetricStyle:
    """The style of a metric by its spec; of `otherwise`'s kind where that is none, but a label."""
    try:
        return metric_style(metric(spec))
    except InputError:
        return MetricStyle(spec, 1000, 1, 3, "", otherwise, True, "")


@dataclass
class _RowDraft:
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


def join(config: TableOptions) -> JoinedTable:
    """Finished runs and published numbers as one table.

    Of a metric with one signature that two runs have, the first run counts.

    Raises:
        InputError: on a run that cannot be read, runs over different data, a coefficient or
            dimension that no run has, or runs without any number.
    """
    sources = read_sources(config.runs)
    columns = _columns(sources, config)
    drafts = _computed(sources, columns, config.intervals)
    drafts += _published(columns, drafts, config.published)
    has_dropped_clusters = _without_clusters(columns, drafts)
    for key, column in columns.items():
        _emphasise(key, drafts)
        for draft in drafts:
            if draft.kind in METRIC_KINDS and not draft.source and key not in draft.cells:
                draft.cells[key] = PrintedNumber(MISSING, math.nan)
                draft.texts[key] = [f"not computed on {column.over}"]
    drafts.sort(key=lambda d: (GROUPS.index(d.kind), d.order))
    notes = _notes(sources, columns, drafts, config)
    if has_dropped_clusters:
        notes.append("No clusters where the metrics of several runs meet: each run ranked its own.")
    versions = dict.fromkeys(source.run.run["versions"]["captau"] for source in sources)
    letters: dict[str, str] = {}
    groups: list[RowGroup] = []
    for kind in dict.fromkeys(d.kind for d in drafts):
        rows = [_row(d, columns, letters) for d in drafts if d.kind == kind]
        groups.append(RowGroup(kind, tuple(rows)))
    titles = dict.fromkeys(column.over for column in columns.values())
    return JoinedTable(
        config.title or f"Agreement of metrics with people: {', '.join(titles)}",
        config.label or "",
        tuple(columns.values()),
        tuple(groups),
        tuple((letter, text) for text, letter in letters.items()),
        (*notes, f"Computed by captau {', '.join(versions)}."),
        tuple((d.label, brief(d.signature)) for d in drafts if d.signature),
        config.intervals,
    )


def brief(signature: str) -> str:
    """A signature with the first twelve digits of each hash, which tell files apart on paper."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b", r"\1", signature)


def _row(draft: _RowDraft, columns: Iterable[ColumnKey], letters: dict[str, str]) -> TableRow:
    """A row with its footnotes' letters, which are given out in the order of reading."""
    cells: list[PrintedNumber | None] = []
    for key in columns:
        cell = draft.cells.get(key)
        if cell is not None:
            texts = draft.texts.get(key, [])
            marks = [letters.setdefault(text, _letter(len(letters))) for text in texts]
            cell = replace(cell, marks=tuple(marks))
        cells.append(cell)
    return TableRow(draft.label, draft.source, draft.spec, draft.signature, tuple(cells))


def _letter(index: int) -> str:
    """Footnotes' letters: a … z, aa, ab, …"""
    more, rest = divmod(index, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[rest]


def _columns(
    sources: Sequence[NamedRun], config: TableOptions
) -> dict[ColumnKey, CoefficientColumn]:
    """The columns in the runs' order, those of a dataset under one protocol side by side.

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
    blocks = list(dict.fromkeys(key[:2] for key in sources_by_key))
    keys = list(sources_by_key)
    for index, option, chosen_names in (
        (2, "dimension", config.dimensions),
        (3, "coefficient", config.coefficients),
    ):
        known_names = list(dict.fromkeys(str(key[index]) for key in sources_by_key))
        for name in chosen_names:
            if name not in known_names:
                raise unknown(f"{option} of run={sources[0].run.folder}", name, known_names)
        if chosen_names:
            matching_keys = [key for key in keys if key[index] in chosen_names]
            keys = sorted(matching_keys, key=lambda key: chosen_names.index(str(key[index])))
    if not keys:
        raise InputError("no column has both these dimensions= and these coefficients=")
    columns: dict[ColumnKey, CoefficientColumn] = {}
    for key in sorted(keys, key=lambda key: blocks.index(key[:2])):
        dataset, _, dimension, coefficient = key
        source, protocol = sources_by_key[key]
        data = source.run.run["data"][dataset]
        over = data["title"] + (" (synthetic)" if data["synthetic"] else "")
        other_protocols = [block[1] for block in blocks if block[0] == dataset]
        over += "".join(
            f", {name} {describe_choice(getattr(protocol, name))}"
            for name, *values in zip(COMPARED_CHOICES, *other_protocols, strict=True)
            if len(set(values)) > 1
        )
        plain, latex, *_ = COEFFICIENT_STYLE[coefficient]
        rated = {k[2] for k in keys if k[:2] == key[:2] and k[3] != "accuracy"}
        prefix = (
            f"{dimension.replace('_', ' ')} " if len(rated) > 1 or coefficient == "accuracy" else ""
        )
        columns[key] = CoefficientColumn(
            dataset,
            dimension,
            coefficient,
            protocol,
            data["revision"],
            over,
            prefix + plain,
            prefix + latex,
        )
    return columns


def _computed(
    sources: Sequence[NamedRun], columns: Mapping[ColumnKey, CoefficientColumn], intervals: str
) -> list[_RowDraft]:
    """The rows of the runs."""
    drafts: dict[tuple[str, str, str], _RowDraft] = {}
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
                drafts[kind, spec, signature] = _RowDraft(kind, order, label, spec, signature)
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
    scale = COEFFICIENT_STYLE[row["coefficient"]][2:]
    cell = PrintedNumber(format_number(value, *scale), value, rank=rank)
    if intervals == "none" or math.isnan(low) or math.isnan(high):
        return cell
    ends = [format_number(v, *scale) for v in (low, high, (high - low) / 2)]
    return replace(cell, low=ends[0], high=ends[1], reach=ends[2])


def _describe_gap(note: str) -> str:
    """Say why a row has no value; without the remedy, which a table's reader has no use for."""
    missing = parse_missing_note(note)
    return missing.problem if missing else note or "undefined"


def _published(
    columns: Mapping[ColumnKey, CoefficientColumn],
    computed: Sequence[_RowDraft],
    papers: Sequence[str],
) -> list[_RowDraft]:
    """The rows of papers: below the metric that captau has for it, or among themselves."""
    drafts: dict[tuple[str, str], _RowDraft] = {}
    kinds = {d.spec: d.kind for d in computed}
    for key, published in _fitting_numbers(columns, papers):
        column = columns[key]
        if not is_comparable(published.revision, column.revision):
            continue
        place = published.paper, published.row
        if place not in drafts:
            drafts[place] = _paper_draft(published, kinds)
        draft = drafts[place]
        value = float(published.text) / COEFFICIENT_STYLE[published.coefficient][2]
        draft.cells[key] = PrintedNumber(published.text, value)
        draft.texts[key] = [published.note] if published.note else []
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


def _refusals(columns: Mapping[ColumnKey, CoefficientColumn], papers: Sequence[str]) -> list[str]:
    """Say which papers' numbers are left out because they are of another revision of a dataset."""
    reasons: dict[tuple[str, str], int] = {}
    for key, number in _fitting_numbers(columns, papers):
        column = columns[key]
        if not is_comparable(number.revision, column.revision):
            why = describe_revisions(column.over, number.revision, column.revision)
            place = short_citation(number.paper), why
            reasons[place] = reasons.get(place, 0) + 1
    return [f"Left out: {n} of {paper}, {why}." for (paper, why), n in reasons.items()]


def _paper_draft(published: PublishedNumber, kinds: Mapping[str, str]) -> _RowDraft:
    source = short_citation(published.paper)
    if published.spec is None:
        return _RowDraft("published", (0, 0, ""), published.row, source=source)
    style = style_of(published.spec, "published")
    kind = kinds.get(published.spec, style.kind)
    return _RowDraft(kind, (style.order, 1, source), published.row, published.spec, source=source)


def _without_clusters(columns: Iterable[ColumnKey], drafts: Sequence[_RowDraft]) -> bool:
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


def _emphasise(key: ColumnKey, drafts: Sequence[_RowDraft]) -> None:
    """Mark the best and the second best number of a column, as printed: ties share it.

    More is better: of a metric where less is, the runs hold the negative's coefficients. Floors and
    ceilings do not compete, nor does a paper's number under another protocol, or beside our own.
    """
    filled = [d for d in drafts if key in d.cells and d.cells[key].text != MISSING]
    computed_specs = {d.spec for d in filled if not d.source}
    competing = [
        d
        for d in filled
        if d.kind in (*METRIC_KINDS, "published")
        and not (d.source and (d.spec in computed_specs or key in d.apart))
    ]
    if len(competing) < 2:
        return
    values = sorted({Decimal(d.cells[key].text) for d in competing}, reverse=True)
    for draft in competing:
        rank_index = values.index(Decimal(draft.cells[key].text))
        if rank_index < 2:
            emphasis = ("best", "second")[rank_index]
            draft.cells[key] = replace(draft.cells[key], emphasis=emphasis)


def _notes(
    sources: Sequence[NamedRun],
    columns: Mapping[ColumnKey, CoefficientColumn],
    drafts: Sequence[_RowDraft],
    config: TableOptions,
) -> list[str]:
    """List the notes below the table, except footnotes, signatures and the meaning of bold."""
    cells = [c for d in drafts for c in d.cells.values()]
    notes = ["Coefficients ×100."]
    datasets = {column.dataset for column in columns.values()}
    if any(s.run.run["data"].get(name, {}).get("synthetic") for s in sources for name in datasets):
        notes.insert(
            0,
            "SYNTHETIC data: it only shows that captau works, and says nothing about real metrics.",
        )
    if any(c.low for c in cells):
        meanings = {"subscript": "Subscripts: the", "plusminus": "±: half the width of the"}
        notes += [f"{meanings[config.intervals]} {w}." for w in words_of(sources, interval_words)]
    if any(c.rank is not None for c in cells):
        notes += [f"Superscript numbers, ranks: {w}." for w in words_of(sources, rank_words)]
    for source in sources:
        rows = [(key, row) for key, row in source.rows if key in columns]
        notes += _on_data(source, rows, columns)
        notes += [source.styles[row["metric"]].note for _, row in rows]
        below = {**source.below["floors"], **source.below["ceilings"]}
        notes += [
            f"{below[row['metric']]}: {FLOOR_NOTES.get(row['metric']) or row['note']}."
            for _, row in rows
            if row["metric"] in below and not math.isnan(row["value"])
        ]
    if config.published:
        citations = dict.fromkeys(d.source for d in drafts if d.source)
        notes.append(
            f"Published numbers stand as they are printed: {', '.join(citations)}."
            if citations
            else "No published number is of these datasets and coefficients."
        )
        notes += _refusals(columns, config.published)
    return [note for note in dict.fromkeys(notes) if note]


def words_of(sources: Sequence[NamedRun], words: Callable[[StatisticsOptions], str]) -> list[str]:
    """Describe the runs' statistics, with the run's name where they differ."""
    text_by_run = {
        source.name: words(StatisticsOptions(**options))
        for source in sources
        if (options := source.run.run["config"].get("statistics"))
    }
    together: dict[str, list[str]] = {}
    for name, text in text_by_run.items():
        together.setdefault(text, []).append(name)
    if len(together) < 2:
        return list(together)
    return [f"{text} ({', '.join(names)})" for text, names in together.items()]


def _on_data(
    source: NamedRun,
    rows: Sequence[tuple[ColumnKey, dict[str, Any]]],
    columns: Mapping[ColumnKey, CoefficientColumn],
) -> list[str]:
    """Describe each dataset under each protocol: its revision, its sizes, and every choice."""
    notes: list[str] = []
    labels = {spec: style.label for spec, style in source.styles.items()}
    for block in dict.fromkeys(key[:2] for key, _ in rows):
        same = pd.DataFrame([row for key, row in rows if key[:2] == block])
        column = next(column for key, column in columns.items() if key[:2] == block)
        protocol, data = column.protocol, source.run.run["data"][column.dataset]
        unit = "preference pairs" if set(same["coefficient"]) == {"accuracy"} else "data points"
        notes.append(
            f"{column.over}, revision {data['revision'][:12]}: {same['n_items'].max():,} items, "
            f"{same['n_ratings'].max():,} {unit}; protocol {protocol.name}: {describe_protocol(protocol)}."
        )
        ours = same[~same["metric"].isin([*source.below["floors"], *source.below["ceilings"]])]
        notes += level_notes(ours, labels, protocol.level)
    return notes
