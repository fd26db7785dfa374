"""What report pages say, to the letter, but for their style, their script and their figures.

The golden files are under `tests/golden/pages/`. `CAPTAU_GOLDEN=write pytest
tests/benchmarks/reporting/test_written_pages.py` writes them anew; read the difference before it is committed. The
numbers are those of the runs whose files `test_written_files.py` holds.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.reporting import caption_browser, html_report
from captau.benchmarks.reporting.caption_browser import Embedded
from captau.benchmarks.reporting.charts.figure_files import Chart
from captau.benchmarks.reporting.charts.run_charts import draw_charts
from captau.benchmarks.reporting.html_report import (
    PAGE,
    Report,
    build,
)
from captau.benchmarks.reporting.run_parts import RunDataset, run_datasets
from captau.benchmarks.runs.tables import Cell, ResultTable, Row, count_cell
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.printed import lines_of
from tests.conftest import says

pytest.importorskip("matplotlib")

GOLDEN = Path(__file__).parents[2] / "golden" / "pages"
#: What differs from one machine, day and version to the next.
RECORD = {
    "started": "2026-01-02T03:04:05",
    "seconds": 1.5,
    "platform": {"system": "Linux", "machine": "x"},
    "versions": {"captau": "1.2.3", "numpy": "2.0.0"},
}


@pytest.fixture
def copied(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run that is the same on all machines."""
    copy = Path(shutil.copytree(finished_run, tmp_path / finished_run.name))
    with edited_record(copy) as record:
        record.update(RECORD)
        record["signatures"] = {spec: f"{spec}|made:1" for spec in record.get("signatures", {})}
        for name in [name for name in record["files"] if name.endswith((".svg", ".png"))]:
            (copy / name).write_bytes(b"figure")
            record["files"][name] = hashlib.sha256(b"figure").hexdigest()

    text = (copy / "run.json").read_text(encoding="utf-8")
    text = text.replace(str(finished_run.parent), "/runs")
    (copy / "run.json").write_text(text, encoding="utf-8")
    return copy


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Let a kind of charts be two, one or none, whose figures are texts; return the steps of bars of progress."""

    class Steps:
        def __init__(self, total: int | None) -> None:
            steps.append(total)

        def __enter__(self) -> Steps:
            return self

        def __exit__(self, *_: object) -> None: ...

        def advance(self) -> None:
            steps.append(-1)

    def make(part: Any, kind: str) -> tuple[list[Chart], str]:
        count = {"forest": 2, "scores": 1}.get(kind, 0)
        charts = []
        for n in range(count):
            table = ResultTable(
                "left out", "a", ["b", "c"], [Row("d", [count_cell(n), Cell("5 – 6")])]
            )
            figure = SimpleNamespace(axes=[SimpleNamespace(set_title=titles.append)])
            title = f"{part.title}{',:'[n % 2]} {kind} of {part.title}, {n}"
            charts.append(Chart(kind, kind, title, f"told <{n}>", table, lambda f=figure: f))
        return charts, "" if charts else f"no {kind} & more"

    def inline(figure: Any, identity: str, title: str, description: str) -> str:
        assert titles.pop() == ""
        return f"<svg>{identity} | {title} | {description}</svg>"

    steps: list[int | None] = []
    titles: list[str] = []
    monkeypatch.setattr(html_report, "make_charts", make)
    monkeypatch.setattr(html_report.figures, "inline", inline)
    monkeypatch.setattr(html_report, "StepProgress", Steps)
    monkeypatch.setattr(caption_browser, "make_thumbnail", lambda _: "data:image/png;base64,AAAA")
    return steps


def plain(page: str) -> Iterator[str]:
    """Yield a page's lines without its style and script, and captau's version."""
    page = re.sub(r"(<style>).*?(</style>)|(<script>).*?(</script>)", r"\1\2\3\4", page, flags=re.S)
    page = re.sub(r"sha256-[\w+/=]+", "sha256-…", page)
    page = re.sub(r"(captau|by captau) \d[\w.]+(?=[\" ])", r"\1 …", page)
    for line in page.splitlines():
        yield from re.sub(r"(</tr>|</option>|</li>|</dd>|,(?=\{))", r"\1\n", line).splitlines()


@pytest.fixture
def report(copied: Path, steps: object) -> Report:
    return build(copied, megabytes=1.0)


@pytest.mark.parametrize(
    ("finished_run", "n_steps"),
    [("compare", 8), ("bench_datasets", 16), ("score", 8), ("rank_pairs", 0)],
    indirect=["finished_run"],
)
def test_golden(copied: Path, n_steps: int, report: Report, steps: list[int | None]) -> None:
    assert report.path == copied / PAGE
    assert steps[: n_steps + 1] == [n_steps, *[-1] * n_steps]
    n_pictures = 60 if copied.name == "bench_datasets" else 0
    assert steps[n_steps + 1 :] == ([None, *[-1] * n_pictures] if n_steps else [])
    page = report.content.decode()
    if copied.name == "bench_datasets":  # the demo's captions are many
        page = re.sub(r'(id="data">).*?(</script>)', r"\1\2", page, flags=re.S)
    lines = list(plain(page))
    made = "\n".join([report.summary.removeprefix(f"{copied}/"), *lines]) + "\n"
    golden = GOLDEN / f"{copied.name}.html"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(made, encoding="utf-8", newline="")
    assert made == golden.read_bytes().decode()


@pytest.mark.parametrize("finished_run", ["compare"], indirect=True)
def test_a_page_without_room_is_refused(copied: Path, steps: object) -> None:
    other = copied / "other.html"
    full = build(copied, other)
    assert full.path == other
    assert full.embedded is not None
    size = len(full.content) - len(full.embedded.text) + 2
    least = size + 800 + 20_000
    with says(
        f"megabytes is {(least - 1) / 1e6:g}: tables and charts of {copied} alone take "
        f"{size / 1e6:.1f}; set megabytes={-(-(size + 200_000) // 100_000) / 10:g} or more"
    ):
        build(copied, megabytes=(least - 1) / 1e6)
    assert build(copied, megabytes=least / 1e6).content != b""


@pytest.mark.parametrize(
    ("embedded", "text"),
    [
        (None, "run/report.html: 1.23 MB"),
        (Embedded("", 10, 1000, 0, 0, 0), "run/report.html: 1.23 MB, 10 of 1,000 captions"),
        (
            Embedded("", 1000, 1000, 1, 1200, 0),
            "run/report.html: 1.23 MB, 1,000 of 1,000 captions, 1 of 1,200 pictures",
        ),
        (
            Embedded("", 1, 1, 0, 0, 1001),
            "run/report.html: 1.23 MB, 1 of 1 captions, 1,001 unreadable",
        ),
    ],
)
def test_a_page_in_a_line(embedded: Embedded | None, text: str) -> None:
    assert Report(Path("run/report.html"), b"x" * 1_230_000, embedded).summary == text


def test_good_captions_are_those_of_half_the_scale_unless_it_is_said() -> None:
    for function in (build, draw_charts, run_datasets, RunDataset):
        defaults = {n: p.default for n, p in inspect.signature(function).parameters.items()}
        assert (defaults["good"], defaults["precision"]) == (0.5, 0.8)


def test_a_reproduced_paper_has_its_cells_in_its_page() -> None:
    frame = pd.DataFrame([("CIDEr", "43.9", "43.86")], columns=["metric", "printed", "found"])
    run = SimpleNamespace(
        has_file=lambda name: name == "comparison.csv",
        read_texts={"comparison.csv": frame}.__getitem__,
    )
    table = html_report.make_comparison_table(run)  # type: ignore[arg-type]
    assert table is not None
    assert (table.title, table.corner, table.columns) == (
        *("Cells of the paper, and what captau finds", "metric", ["printed", "found"]),
    )
    assert lines_of(table) == [("CIDEr", ["43.9", "43.86"])]
