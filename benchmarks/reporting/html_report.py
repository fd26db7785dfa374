"""`captau report`: a finished run as one page that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ...datasets.errors import InputError
from ..evaluation.wording import describe_protocol, interval_words
from ..options.report import CHARTS, ReportOptions
from ..runs.finished_run import FinishedRun, read_run
from ..runs.output_folder import write_file
from ..runs.progress_bar import StepProgress
from ..runs.tables import COEFFICIENT_STYLE, MISSING, ResultTable, format_number
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.preferences import MEAN_DIMENSION
from . import figure_files as figures
from .caption_browser import Embedded, embed
from .charts import make_charts
from .run_dataset import RunDataset, run_datasets

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


def run(config: ReportOptions) -> Report:
    """Make the page and write it.

    Raises:
        InputError: where a package is missing, the run is not a finished one, there is no room for
            the page within its size, or it cannot be written.
    """
    report = build(config)
    write_file(report.path, report.content)
    return report


def build(config: ReportOptions) -> Report:
    """Make the page; equal bytes for equal results.

    Raises:
        InputError: see `run`.
    """
    figures.needed("report", "matplotlib", "jinja2")
    finished = read_run(config.run)
    parts = run_datasets(finished, config.options)
    with StepProgress(len(parts) * len(CHARTS)) as progress, figures.style():
        part_data = [_part_data(part, number, progress) for number, part in enumerate(parts, 1)]
    judged = bool(parts) and all(part.has_judgements for part in parts)
    page = _page(finished, part_data, _ROOM if judged else "", None)
    embedded = None
    if judged:
        room = int(config.megabytes * 1e6) - len(page.encode()) - _REMARKS
        if room < _SMALLEST_ROOM:
            raise InputError(
                f"megabytes is {config.megabytes:g}: tables and charts of {finished.folder} alone "
                f"take {len(page.encode()) / 1e6:.1f}; set megabytes={_enough(page):g} or more"
            )
        with StepProgress(None) as progress:
            embedded = embed(parts, config.images, room, progress.advance)
        page = _page(finished, part_data, embedded.text, embedded)
    return Report(config.output or finished.folder / PAGE, page.encode(), embedded)


#: Up to so many letters a cell is not broken into lines.
_SHORT = 24
#: Bytes that are kept for what the page says of what had no room.
_REMARKS = 800
#: Bytes without which there is no use in a browser of captions.
_SMALLEST_ROOM = 20_000


def _enough(page: str) -> float:
    return -(-(len(page.encode()) + 10 * _SMALLEST_ROOM) // 100_000) / 10


def _page(
    finished: FinishedRun, parts: Sequence[dict[str, Any]], text: str, embedded: Embedded | None
) -> str:
    from jinja2 import Environment
    from markupsafe import Markup

    folder = resources.files(_PACKAGE) / "page"
    script, css, html = (
        (folder / f"report.{ending}").read_text(encoding="utf-8")
        for ending in ("js", "css", "html")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = Environment(autoescape=True, trim_blocks=True).from_string(html)
    record = finished.run
    titles = [str(part["title"]) for part in parts]
    titles_text = ", ".join(titles) if 0 < len(titles) <= 3 else f"{len(titles)} datasets"
    return template.render(
        # The page may show pictures that are in it, run its own script, and nothing else.
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        version=version("captau"),
        title=f"{titles_text}: metrics against people",
        lead=_lead(finished),
        css=Markup(css),
        script=Markup(script),
        parts=parts,
        command=finished.command,
        comparison=_comparison(finished),
        embedded=Markup(text),
        captions_lead=_captions_lead(embedded),
        facts=_facts(record),
        details=_details(finished),
        texts=_texts(record),
        looks=_looks,
    )


def _lead(finished: FinishedRun) -> str:
    record = finished.run
    metrics = len(record.get("signatures", {}))
    when = str(record.get("started", ""))[:10]
    return (
        f"captau {finished.command}, {when}: {metrics} metric{'s' if metrics != 1 else ''}, "
        f"{len(record.get('data', {}))} dataset{'s' if len(record.get('data', {})) != 1 else ''}."
    )


def _captions_lead(embedded: Embedded | None) -> str:
    lead = (
        "What people and metrics said of each caption. A percentage is the share of captions with a lower "
        "score; two metrics disagree where theirs are far apart."
    )
    if embedded is None:
        return lead
    if embedded.n_shown < embedded.n_total:
        lead += (
            f" The page has room for {embedded.n_shown:,} of {embedded.n_total:,} captions: half are those on "
            f"which metrics and people disagree most, the rest are taken evenly; percentages are of all."
        )
    if embedded.n_found > embedded.n_pictures:
        lead += (
            f" It has room for {embedded.n_pictures:,} of {embedded.n_found:,} pictures, of the most disputed "
            f"captions first."
        )
    if embedded.n_unreadable:
        lead += f" Pictures that could not be read: {embedded.n_unreadable:,}."
    return lead


def _part_data(part: RunDataset, number_of: int, progress: StepProgress) -> dict[str, Any]:
    """Make the template's data of a dataset."""
    from markupsafe import Markup

    identity = f"d{number_of}"
    groups: list[dict[str, Any]] = []
    for kind, title in CHARTS.items():
        charts, reason = make_charts(part, kind)
        drawn_charts: list[dict[str, Any]] = []
        for chart_number, chart in enumerate(charts, 1):
            name = f"{identity}-{kind}-{chart_number}"
            svg = figures.inline(chart.draw(), name, chart.title, chart.description)
            drawn_charts.append(
                {"id": name, "title": chart.title, "table": chart.table, "svg": Markup(svg)}
            )
        groups.append({"kind": kind, "title": title, "charts": drawn_charts, "reason": reason})
        progress.advance()
    table, best = _overview(part)
    data = part.run.run.get("data", {}).get(part.dataset, {})
    return {
        "id": identity,
        "title": part.title,
        "synthetic": data.get("synthetic", False),
        "lead": _protocol(part),
        "overview": table,
        "best": best,
        "groups": groups,
    }


def _protocol(part: RunDataset) -> str:
    counts = part.correlations[["n_items", "n_ratings"]].max()
    points = (
        "preference pairs" if set(part.correlations["coefficient"]) == {"accuracy"} else "ratings"
    )
    sizes = f"{int(counts['n_items']):,} captions, {int(counts['n_ratings']):,} {points}"
    options: Any = part.run.run.get("protocols", {}).get(part.dataset)
    try:
        protocol = Protocol.from_record(options)
    except (AttributeError, TypeError):
        return f"{sizes}; protocol {part.protocol}."
    return f"{sizes}; protocol {part.protocol}: {describe_protocol(protocol)}."


def _overview(part: RunDataset) -> tuple[ResultTable, set[tuple[int, int]]]:
    """Metrics as rows, coefficients with intervals and ranks as columns; which cells are the best."""
    frame = part.correlations
    ranks: dict[tuple[str, str, str], int] = {}
    if part.run.has_file("ranks.csv"):
        own_ranks = part.run.ranks[part.run.ranks["dataset"] == part.dataset]
        ranks = {
            (str(m), str(d), str(c)): int(r)
            for m, d, c, r in zip(
                own_ranks["metric"],
                own_ranks["dimension"],
                own_ranks["coefficient"],
                own_ranks["rank"],
                strict=True,
            )
        }
    records: Any = frame.to_dict("records")
    row_by_key = {(r["metric"], r["dimension"], r["coefficient"]): r for r in records}
    pairs = list(dict.fromkeys(zip(frame["dimension"], frame["coefficient"], strict=True)))
    has_several_dimensions = len({d for d, c in pairs if c != "accuracy"}) > 1
    floors_and_ceilings = [m for m in dict.fromkeys(frame["metric"]) if m not in part.metrics]
    names = [*part.metrics, *floors_and_ceilings]
    heads, columns = ["kind"], [[part.metric_kind(m) for m in names]]
    best: set[tuple[int, int]] = set()
    for dimension, coefficient in pairs:
        sign, _, factor, decimals = COEFFICIENT_STYLE[coefficient]
        head = (
            f"{dimension} {sign}" if has_several_dimensions or coefficient == "accuracy" else sign
        )
        rows = [row_by_key.get((m, dimension, coefficient)) for m in names]
        cells = [format_number(float(r["value"]), factor, decimals) if r else "" for r in rows]
        metric_values = [
            c for c, m in zip(cells, names, strict=True) if m in part.metrics and _is_number(c)
        ]
        if metric_values:
            top = max(metric_values, key=float)
            best |= {
                (index, len(columns)) for index in range(len(part.metrics)) if cells[index] == top
            }
        heads.append(head)
        columns.append(cells)
        if any(r is not None and pd.notna(r["ci_low"]) for r in rows) and (
            coefficient != "accuracy" or dimension == MEAN_DIMENSION
        ):
            heads.append("interval")
            columns.append([_interval(r, factor, decimals) for r in rows])
        if any((m, dimension, coefficient) in ranks for m in names):
            heads.append("rank")
            columns.append([str(ranks.get((m, dimension, coefficient), "")) for m in names])
    lines = [
        (part.label(m), [column[index] for column in columns]) for index, m in enumerate(names)
    ]
    table = ResultTable(
        f"{part.title}: coefficients ×100, the best of each in bold",
        "metric",
        heads,
        lines,
        notes=_notes(part, set(heads)),
    )
    return table, best


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d+)?", text))


def _interval(row: dict[str, Any] | None, factor: float, decimals: int) -> str:
    if row is None or pd.isna(row["ci_low"]):
        return MISSING
    low, high = (format_number(float(row[c]), factor, decimals) for c in ("ci_low", "ci_high"))
    return f"{low} – {high}"


def _notes(part: RunDataset, heads: set[str]) -> list[str]:
    styles = part.run.run.get("metrics", {})
    notes = [styles.get(m, {}).get("note", "") for m in part.metrics]
    missing = part.run.run.get("missing", {}).get(part.dataset, {})
    notes += [f"{part.label(m)} is missing: {reason}." for m, reason in missing.items()]
    is_missing = part.correlations["metric"].isin(list(missing))
    undefined = part.correlations[part.correlations["value"].isna() & ~is_missing]
    notes += [
        f"{part.label(r['metric'])}, {r['dimension']} {r['coefficient']}: {r['note']}."
        for r in undefined.to_dict("records")
    ]
    options = part.run.run.get("config", {}).get("statistics") or {}
    if "interval" in heads and options:
        notes.append(f"Intervals: {interval_words(StatisticsOptions(**options))}.")
    if "rank" in heads:
        notes.append("Ranks: metrics that share a rank do not differ significantly.")
    return [note for note in dict.fromkeys(notes) if note]


def _comparison(finished: FinishedRun) -> ResultTable | None:
    """A reproduced paper's cells beside the printed ones."""
    path = finished.folder / "comparison.csv"
    if not path.is_file():
        return None
    return _listing("Cells of the paper, and what captau finds", _csv(path))


def _csv(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} cannot be read ({reason}); run it again") from error


def _listing(title: str, frame: pd.DataFrame) -> ResultTable:
    """A table of texts as it stands."""
    rows = [(str(row[0]), [_cell(v) for v in row[1:]]) for row in frame.itertuples(index=False)]
    return ResultTable(title, str(frame.columns[0]), [str(c) for c in frame.columns[1:]], rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return MISSING if pd.isna(value) else f"{value:.6g}"
    return str(value)


def _looks(table: ResultTable, column: int) -> str:
    """The class of a column: of numbers, which stand to the right, or of words that stay on a line."""
    cells = [cells[column] for _, cells in table.rows if cells[column] not in ("", MISSING)]
    if cells and all(re.fullmatch(r"[<-]?\d[\d,.e+-]*( – -?[\d.]+)?", c) for c in cells):
        return "n"
    return "w" if all(len(c) <= _SHORT for c in cells) else ""


def _facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    platform = record.get("platform", {})
    facts = [
        ("command", f"captau {record['command']}"),
        ("started", str(record.get("started", ""))),
        ("seconds", str(record.get("seconds", ""))),
        ("captau", str(record.get("versions", {}).get("captau", ""))),
        ("platform", ", ".join(str(v) for v in platform.values())),
    ]
    return [(name, value) for name, value in facts if value]


def _details(finished: FinishedRun) -> list[ResultTable]:
    record = finished.run
    styles = record.get("metrics", {})
    signatures = [
        (styles.get(spec, {}).get("label", spec), [styles.get(spec, {}).get("kind", ""), signature])
        for spec, signature in record.get("signatures", {}).items()
    ]
    data = record.get("data", {})
    sets = [
        (
            name,
            [str(record_of_set.get(c) or "") for c in ("title", "revision", "licence", "digest")],
        )
        for name, record_of_set in data.items()
    ]
    files = [
        (path, [name, digest])
        for name, record_of_set in data.items()
        for path, digest in record_of_set.get("files", {}).items()
    ]
    versions = [
        (name, [package_version]) for name, package_version in record.get("versions", {}).items()
    ]
    tables = [
        ResultTable("Metrics and their signatures", "metric", ["kind", "signature"], signatures),
        ResultTable("Data", "dataset", ["title", "revision", "licence", "digest (SHA-256)"], sets),
        ResultTable("Files read", "file", ["dataset", "SHA-256"], files),
        ResultTable("Versions", "package", ["version"], versions),
        _listing("All coefficients", finished.correlations),
    ]
    return [table for table in tables if table.rows]


def _texts(record: dict[str, Any]) -> list[tuple[str, str]]:
    citations = [entry.get("citation", "") for entry in record.get("data", {}).values()]
    citations += [entry.get("citation", "") for entry in record.get("metrics", {}).values()]
    texts = [
        (title, yaml.safe_dump(record.get(key, {}), sort_keys=False, allow_unicode=True, width=100))
        for title, key in (("Configuration", "config"), ("Protocols", "protocols"))
    ]
    texts += [
        ("To cite", "\n\n".join(dict.fromkeys(c.strip() for c in citations if c))),
    ]
    return [(name, text) for name, text in texts if text.strip()]
