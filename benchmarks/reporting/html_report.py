"""`captau report`: a finished run as one page that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ...datasets.errors import InputError
from ...datasets.reading.json_files import read_text
from ..evaluation.overview import DatasetsOverview
from ..evaluation.threshold_curves import Conjunction
from ..runs.finished_run import FinishedRun, read_run
from ..runs.progress_bar import StepProgress
from ..runs.tables import (
    MISSING,
    AnyCell,
    Cell,
    ResultTable,
    Row,
    count_of,
    mark_best,
    p_value_cell,
)
from .caption_browser import Embedded, embed
from .charts import figure_files as figures
from .charts.figure_files import short_cell
from .charts.run_charts import make_charts
from .part_tables import CoefficientTable, ScoreTable
from .run_parts import RunDataset, ScoredCaptions, run_parts

_PACKAGE = "captau.benchmarks.reporting"
#: The file's name in the run's folder.
PAGE = "report.html"
#: What stands for the captions until it is known how much room there is for them.
_ROOM = "{}"


@dataclass(frozen=True)
class Report:
    """A page.

    Attributes:
        path: where it belongs.
        content: the page.
        embedded: which captions it holds; None where the run kept none.
    """

    path: Path
    content: bytes
    embedded: Embedded | None

    @property
    def summary(self) -> str:
        """The page's size and content, in a line."""
        size = f"{self.path}: {len(self.content) / 1e6:.2f} MB"
        if self.embedded is None:
            return size
        captions = self.embedded
        parts = [f"{size}, {captions.n_shown:,} of {captions.n_total:,} captions"]
        if captions.n_found:
            parts.append(f"{captions.n_pictures:,} of {captions.n_found:,} pictures")
        if captions.n_unreadable:
            parts.append(f"{captions.n_unreadable:,} unreadable")
        return ", ".join(parts)


def build(
    folder: Path,
    output: Path | None = None,
    images: Path | None = None,
    megabytes: float | None = None,
    good: float | Conjunction = 0.5,
    precision: float = 0.8,
) -> Report:
    """Make the page of a finished run; equal bytes for equal results.

    Args:
        folder: the run's.
        output: where the page belongs; by default `PAGE` in the run's folder.
        images: a folder to look for pictures in first.
        megabytes: the largest size of the page; by default `DEFAULT_MEGABYTES`.
        good, precision: of precision-recall curves, as in `RunDataset`.

    Raises:
        InputError: where a package is missing, the run is not a finished one, or there is no room for
            the page within its size.
    """
    figures.require_packages("report", "matplotlib", "jinja2")
    finished = read_run(folder)
    parts = [] if finished.has_own_table else run_parts(finished, good, precision)
    with (
        StepProgress(sum(len(part.chart_titles) for part in parts)) as progress,
        figures.style(font_size=9),
    ):
        part_data: list[dict[str, Any]] = []
        for number, part in enumerate(parts, 1):
            part_data.append(_part_data(part, number, progress))

    # The captions get the room that the rest of the page leaves.
    has_captions = bool(parts) and finished.has_file("items.parquet")
    page = _page(finished, part_data, _ROOM if has_captions else "", None)
    embedded = None
    if has_captions:
        is_score = finished.has_corpus_scores
        megabytes = megabytes or (DEFAULT_SCORE_MEGABYTES if is_score else DEFAULT_MEGABYTES)
        room = int(megabytes * 1e6) - len(page.encode()) - _REMARKS
        if room < _SMALLEST_ROOM:
            raise InputError(
                f"megabytes is {megabytes:g}: tables and charts of {finished.folder} alone "
                f"take {len(page.encode()) / 1e6:.1f}; set megabytes={_enough(page):g} or more"
            )
        with StepProgress(None) as progress:
            embedded = embed(parts, images, room, progress.advance)
        page = _page(finished, part_data, embedded.text, embedded)

    return Report(output or finished.folder / PAGE, page.encode(), embedded)


#: How large a page may be, unless the user says it; and one of a user's own captions.
DEFAULT_MEGABYTES, DEFAULT_SCORE_MEGABYTES = 3.0, 12.0
#: Up to so many letters a cell is not broken into lines.
_SHORT = 24
#: Bytes that are kept for what the page says of what had no room.
_REMARKS = 800
#: Bytes without which there is no use in a browser of captions.
_SMALLEST_ROOM = 20_000


def _enough(page: str) -> float:
    """Return the megabytes, in tenths, that a page without captions needs to hold some."""
    return -(-(len(page.encode()) + 10 * _SMALLEST_ROOM) // 100_000) / 10


def _page(
    finished: FinishedRun, parts: Sequence[dict[str, Any]], text: str, embedded: Embedded | None
) -> str:
    from jinja2 import Environment
    from markupsafe import Markup

    folder = resources.files(_PACKAGE) / "page"
    script = (folder / "report.js").read_text(encoding="utf-8")
    css = (folder / "report.css").read_text(encoding="utf-8")
    html = (folder / "report.html").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = Environment(autoescape=True, trim_blocks=True).from_string(html)

    record = finished.run
    is_score = finished.has_corpus_scores
    titles = [str(part["title"]) for part in parts] or [f"captau {finished.command}"]
    unit = "sets of references" if is_score else "datasets"
    titles_text = ", ".join(titles) if len(titles) <= 3 else f"{len(titles)} {unit}"
    survey = DatasetsOverview.of_run(finished)
    survey_table = None if survey is None else _mark_best_columns(survey.table())
    return template.render(
        # The page may show pictures that are in it, run its own script, and nothing else.
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        version=version("captau"),
        title=f"{titles_text}: {_subject(finished)}",
        is_score=is_score,
        overview_title="Corpus scores" if is_score else "Agreement with people",
        lead=_lead(finished),
        css=Markup(css),
        script=Markup(script),
        parts=parts,
        # Of other runs the sentences are made of their numbers.
        verdicts={} if parts else finished.verdicts,
        survey=survey_table,
        printed_tables=""
        if parts
        else Markup(render_markdown(read_text(finished.path_of("table.md")))),
        pictures=[] if parts else _pictures(finished),
        command=finished.command,
        comparison=make_comparison_table(finished),
        embedded=Markup(text),
        captions_lead=_captions_lead(embedded, is_score=is_score),
        facts=_facts(record),
        details=_details(finished),
        texts=_texts(record),
        looks=_looks,
        printed=_with_minus,
    )


def _mark_best_columns(table: ResultTable) -> ResultTable:
    """Return a table in which the greatest number of each column is marked; half widths and ranks have none."""
    marked_columns: list[list[AnyCell]] = []
    for index, head in enumerate(table.heads):
        cells = [row.cells[index] for row in table.rows]
        marked_columns.append(cells if head in ("±", "rank") else mark_best(cells))

    rows: list[Row] = []
    for number, row in enumerate(table.rows):
        rows.append(replace(row, cells=[column[number] for column in marked_columns]))
    return replace(table, rows=rows)


def _subject(finished: FinishedRun) -> str:
    if finished.has_corpus_scores:
        return "scores of captions"
    if finished.has_correlations:
        return "metrics against people"
    return str(finished.run.get("measures", "results"))


def render_markdown(markdown: str) -> str:
    """Return a run's `table.md` as HTML; its tables look and sort as those of the page, and titles are heads."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(markdown)
    for opening, content, closing in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opening.type == "table_open":
            opening.attrSet("class", "data")
        elif opening.type == "paragraph_open" and re.fullmatch(r"\*\*[^*]+\*\*", content.content):
            opening.tag = closing.tag = "h3"

    page = str(reader.renderer.render(tokens, reader.options, {}))
    page = re.sub(r"(?<=>)-(?=[\d.]+(?:e[-+]?\d+)?</)", "−", page)
    scrolls = '<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table'
    return page.replace("<table", scrolls).replace("</table>", "</table></div>")


def _pictures(finished: FinishedRun) -> list[tuple[str, str]]:
    """Return the name and the data address of each figure that a run drew itself."""
    pictures: list[tuple[str, str]] = []
    for name in finished.files:
        if name.endswith(".svg"):
            content = base64.b64encode(finished.path_of(name).read_bytes()).decode()
            pictures.append((name, f"data:image/svg+xml;base64,{content}"))
    return pictures


def _lead(finished: FinishedRun) -> str:
    """Say which command ran when, and over how many metrics and datasets."""
    record = finished.run
    counts = {"metric": len(record.get("signatures", {}))}
    # The files of `score` are recorded where others have datasets.
    if not finished.has_corpus_scores:
        counts["dataset"] = len(record.get("data", {}))

    date = str(record.get("started", ""))[:10]
    lead = f"captau {finished.command}, {date}"
    counted_nouns: list[str] = []
    for noun, number in counts.items():
        if number:
            counted_nouns.append(count_of(number, noun))
    if counted_nouns:
        lead += f": {', '.join(counted_nouns)}"
    return f"{lead}."


def _captions_lead(embedded: Embedded | None, *, is_score: bool) -> str:
    lead = (
        "What people and metrics said of each caption. A percentage is the share of captions with a lower "
        "score; two metrics disagree where theirs are far apart."
    )
    if is_score:
        lead = "What each system said of each image. A percentage is the share of captions with a lower score."
    if embedded is None:
        return lead

    if embedded.n_shown < embedded.n_total:
        lead += (
            f" The page has room for {embedded.n_shown:,} of {embedded.n_total:,} captions: half are those that "
            f"are disputed most, the rest are taken evenly; percentages are of all. megabytes= sets how many."
        )
    if embedded.n_found > embedded.n_pictures:
        lead += (
            f" It has room for {embedded.n_pictures:,} of {embedded.n_found:,} pictures, of the most disputed "
            f"captions first."
        )
    if embedded.n_unreadable:
        lead += f" Pictures that could not be read: {embedded.n_unreadable:,}."
    return lead


def _part_data(
    part: RunDataset | ScoredCaptions, number_of: int, progress: StepProgress
) -> dict[str, Any]:
    """Make the template's data of a dataset."""
    from markupsafe import Markup

    identity = f"d{number_of}"
    groups: list[dict[str, Any]] = []
    for kind, heading in part.chart_titles.items():
        charts, reason = make_charts(part, kind)
        drawn_charts: list[dict[str, Any]] = []
        for chart_number, chart in enumerate(charts, 1):
            name = f"{identity}-{kind}-{chart_number}"
            figure = chart.draw()
            # The title stands below the chart.
            for axis in figure.axes:
                axis.set_title("")
            svg = figures.inline(figure, name, chart.title, chart.description)
            # The section says the part's name already.
            title = re.sub(rf"^{re.escape(part.title)}[,:] ", "", chart.title)
            table = replace(chart.table, title="")
            drawn_charts.append({"id": name, "title": title, "table": table, "svg": Markup(svg)})
        groups.append({"kind": kind, "title": heading, "charts": drawn_charts, "reason": reason})
        progress.advance()

    part_table = CoefficientTable(part) if isinstance(part, RunDataset) else ScoreTable(part)
    data = part.run.run.get("data", {}).get(part.dataset)
    return {
        "id": identity,
        "title": part.title,
        "synthetic": isinstance(data, dict) and data.get("synthetic", False),
        "verdict": part_table.verdict(),
        "lead": part_table.lead(),
        "overview": part_table.table(),
        "groups": groups,
    }


def make_comparison_table(finished: FinishedRun) -> ResultTable | None:
    """Return a reproduced paper's cells beside the printed ones; None of another run."""
    if not finished.has_file("comparison.csv"):
        return None

    frame = finished.read_texts("comparison.csv")
    return _listing("Cells of the paper, and what captau finds", frame)


def _listing(title: str, frame: pd.DataFrame) -> ResultTable:
    """A table of texts as it stands."""
    first, *columns = (str(column) for column in frame.columns)
    rows: list[Row] = []
    for label, *values in frame.itertuples(index=False):
        cells: list[AnyCell] = []
        for value, column in zip(values, columns, strict=True):
            cells.append(_cell(value, column))
        rows.append(Row(str(label), cells))
    return ResultTable(title, first, columns, rows)


def _cell(value: Any, column: str) -> AnyCell:
    """Return the cell of a value of a run's table."""
    if isinstance(value, int):
        return Cell(str(value), value, value)
    if not isinstance(value, float):
        return str(value)
    if column.startswith("p_") and not pd.isna(value):
        return p_value_cell(value)
    return short_cell(value)


#: A number below zero: a cell's whole text, or an end of an interval.
_BELOW_ZERO = re.compile(r"(?<![\w.)\]])-(?=\.?\d)")
_WHOLE_NUMBER = re.compile(r"-\.?\d[\d.,]*(?:e[-+]?\d+)?")


def _with_minus(cell: AnyCell) -> str:
    """Return a cell's text with a minus where a number begins with a hyphen, which is shorter; other texts stay."""
    text = str(cell)
    if isinstance(cell, Cell) or _WHOLE_NUMBER.fullmatch(text):
        return _BELOW_ZERO.sub("−", text)
    return text


def _looks(table: ResultTable, column: int) -> str:
    """The class of a column: of numbers, which stand to the right, or of words that stay on a line."""
    are_numbers = True
    are_short = True
    has_cells = False
    for row in table.rows:
        cell = row.cells[column]
        are_short = are_short and len(str(cell)) <= _SHORT
        # A gap among numbers leaves its column one of numbers.
        if str(cell) not in ("", MISSING):
            has_cells = True
            are_numbers = are_numbers and isinstance(cell, Cell)

    if has_cells and are_numbers:
        return "n"
    return "w" if are_short else ""


def _facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is known of how the run was made, by name."""
    platform = record.get("platform", {})
    facts = {
        "command": f"captau {record['command']}",
        "started": str(record.get("started", "")),
        "seconds": str(record.get("seconds", "")),
        "captau": str(record.get("versions", {}).get("captau", "")),
        "platform": ", ".join(map(str, platform.values())),
    }
    return [(name, value) for name, value in facts.items() if value]


def _details(finished: FinishedRun) -> list[ResultTable]:
    """Return the tables that stand folded at the page's end: signatures, data, files, versions and all numbers."""
    record = finished.run
    styles = record.get("metrics", {})
    data = record.get("data", {})

    signatures: list[Row] = []
    for spec, signature in record.get("signatures", {}).items():
        style = styles.get(spec, {})
        signatures.append(Row(style.get("label", spec), [style.get("kind", ""), signature]))
    heads = ["kind", "signature"]
    # Commands that print no kinds keep none.
    if not any(row.cells[0] for row in signatures):
        heads = heads[1:]
        signatures = [replace(row, cells=row.cells[1:]) for row in signatures]
    tables = [ResultTable("Metrics and their signatures", "metric", heads, signatures)]
    versions = [Row(name, [number]) for name, number in record.get("versions", {}).items()]
    version_table = ResultTable("Versions", "package", ["version"], versions)

    if finished.has_corpus_scores:
        files = [Row(name, [digest]) for name, digest in data.items()]
        tables += [ResultTable("Files read", "file", ["SHA-256"], files), version_table]
        tables.append(_listing("All scores", finished.corpus))
        if finished.has_file("differences.csv"):
            tables.append(_listing("All differences", finished.differences))
        return [table for table in tables if table.rows]

    sets: list[Row] = []
    files: list[Row] = []
    for name, entry in data.items():
        facts = [entry.get(key) or "" for key in ("title", "revision", "licence", "digest")]
        sets.append(Row(name, list(map(str, facts))))
        for path, digest in entry.get("files", {}).items():
            files.append(Row(path, [name, digest]))
    tables += [
        ResultTable("Data", "dataset", ["title", "revision", "licence", "digest (SHA-256)"], sets),
        ResultTable("Files read", "file", ["dataset", "SHA-256"], files),
        version_table,
    ]
    if finished.has_correlations:
        tables.append(_listing("All coefficients", finished.correlations))
    return [table for table in tables if table.rows]


def _texts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the options and protocols as YAML and what to cite as BibTeX, by heading."""
    # `score` records digests of files where others have datasets.
    data = [entry for entry in record.get("data", {}).values() if isinstance(entry, dict)]
    works: dict[str, None] = {}
    for entry in [*data, *record.get("metrics", {}).values()]:
        if citation := entry.get("citation"):
            works[citation.strip()] = None

    texts: list[tuple[str, str]] = []
    for title, key in (("Configuration", "config"), ("Protocols", "protocols")):
        if key in record:
            text = yaml.safe_dump(record[key], sort_keys=False, allow_unicode=True, width=100)
            texts.append((title, text))
    texts.append(("To cite", "\n\n".join(works)))
    return [(name, text) for name, text in texts if text.strip()]
