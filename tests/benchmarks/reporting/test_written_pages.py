"""What report pages say, to the letter, but for their style, their script and their figures.

The golden files are under `tests/golden/pages/`. `CAPTAU_GOLDEN=write pytest
tests/benchmarks/reporting/test_written_pages.py` writes them anew; read the difference before it is committed. The
numbers are those of the runs whose files `test_written_files.py` holds.
"""

from __future__ import annotations

import hashlib
import inspect
import json
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
    _captions_lead,
    _cell,
    _enough,
    _facts,
    _find_best,
    _lead,
    _looks,
    _texts,
    build,
)
from captau.benchmarks.reporting.run_parts import RunDataset, run_datasets
from captau.benchmarks.runs.tables import MISSING, ResultTable
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
    record = json.loads((copy / "run.json").read_text(encoding="utf-8")) | RECORD
    record["signatures"] = {spec: f"{spec}|made:1" for spec in record.get("signatures", {})}
    for name in [name for name in record["files"] if name.endswith((".svg", ".png"))]:
        (copy / name).write_bytes(b"figure")
        record["files"][name] = hashlib.sha256(b"figure").hexdigest()
    text = json.dumps(record).replace(str(finished_run.parent), "/runs")
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
            table = ResultTable("left out", "a", ["b", "c"], [("d", [str(n), "5 – 6"])])
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
    monkeypatch.setattr(caption_browser, "_picture", lambda _: "data:image/png;base64,AAAA")
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


def test_what_is_enough_for_a_page() -> None:
    """The page and ten times the smallest room, 200,000 bytes, rounded up to a tenth of a megabyte."""
    assert [_enough("x" * n) for n in (0, 1, 100_000, 100_001)] == [0.2, 0.3, 0.3, 0.4]
    assert _enough("é" * 50_001) == 0.4


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


PEOPLE = (
    "What people and metrics said of each caption. A percentage is the share of captions with a lower score; two "
    "metrics disagree where theirs are far apart."
)
IMAGES = (
    "What each system said of each image. A percentage is the share of captions with a lower score."
)
ROOM = (
    " The page has room for 1,000 of 1,001 captions: half are those that are disputed most, the rest are taken "
    "evenly; percentages are of all. megabytes= sets how many."
)
PICTURES = " It has room for 1 of 2 pictures, of the most disputed captions first."


@pytest.mark.parametrize(
    ("embedded", "is_score", "text"),
    [
        (None, False, PEOPLE),
        (None, True, IMAGES),
        (Embedded("", 1001, 1001, 2, 2, 0), False, PEOPLE),
        (Embedded("", 1000, 1001, 2, 2, 0), True, IMAGES + ROOM),
        (Embedded("", 5, 5, 1, 2, 0), False, PEOPLE + PICTURES),
        (
            Embedded("", 5, 5, 2, 2, 1000),
            False,
            f"{PEOPLE} Pictures that could not be read: 1,000.",
        ),
    ],
)
def test_what_a_page_says_of_its_captions(
    embedded: Embedded | None, is_score: bool, text: str
) -> None:
    assert _captions_lead(embedded, is_score=is_score) == text


def run_of(record: dict[str, Any], *, is_score: bool = False) -> Any:
    return SimpleNamespace(run=record, command="bench", has_corpus_scores=is_score)


def test_a_page_says_what_was_run() -> None:
    record = {"started": "2026-01-02T03:04", "signatures": {"a": "", "b": ""}, "data": {"d": {}}}
    assert _lead(run_of(record)) == "captau bench, 2026-01-02: 2 metrics, 1 dataset."
    assert _lead(run_of(record, is_score=True)) == "captau bench, 2026-01-02: 2 metrics."
    assert _lead(run_of({"data": {"d": 1, "e": 2}})) == "captau bench, : 2 datasets."
    assert _lead(run_of({"signatures": {"a": ""}})) == "captau bench, : 1 metric."
    assert _lead(run_of({})) == "captau bench, ."
    facts = [("command", "captau x"), ("seconds", "2"), ("platform", "a, 3")]
    assert _facts({"command": "x", "seconds": 2, "platform": {"b": "a", "c": 3}}) == facts


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        *(("a", "p_x", "a"), (3, "n", "3"), (0.12345, "value", "0.1235"), (0.5, "p_bh", "0.500")),
        *((0.0001, "p_bh", "<0.001"), (0.0001, "pp", "0"), (float("nan"), "p_bh", MISSING)),
    ],
)
def test_cells_of_a_listing(value: Any, column: str, text: str) -> None:
    assert _cell(value, column) == text


@pytest.mark.parametrize(
    ("cells", "look"),
    [
        (["1", "", MISSING, "-2.5", "<0.001", "1,234", "1.2e-05", "5 – -6.1", "5 ± 6"], "n"),
        *((["", MISSING], "w"), (["1", "a"], "w"), (["x" * 24], "w"), (["x" * 25], "")),
        *((["τ 1"], "w"), (["1 to 2"], "w"), (["a 1"], "w"), (["x" * 24, "y" * 25], "")),
    ],
)
def test_columns_look_like_numbers_or_words(cells: list[str], look: str) -> None:
    rows = [("r", ["x" * 99, cell]) for cell in cells]
    assert _looks(ResultTable("t", "c", ["other", "h"], rows), 1) == look


def test_the_greatest_numbers_of_a_survey_are_found_as_printed() -> None:
    rows = [("a", ["1.0", "9", "1", "2.5"]), ("b", [MISSING, "8", "2", "-1"]), ("c", ["1.0", "", "3", "2.6"])]  # fmt: skip
    table = ResultTable("t", "c", ["x", "±", "rank", "y"], rows)
    assert _find_best(table) == {(0, 0), (2, 0), (2, 3)}
    assert _find_best(ResultTable("t", "c", ["x"], [("a", [MISSING]), ("b", [""])])) == set()


def test_texts_of_a_run() -> None:
    record = {
        "config": {"b": 1, "a": "é"},
        "protocols": {"d": {"k": 1}},
        "data": {"d": {"citation": " @a "}, "e": "a digest", "f": {}},
        "metrics": {"m": {"citation": "@b"}, "n": {"citation": "@a"}, "o": {}},
    }
    assert _texts(record) == [
        ("Configuration", "b: 1\na: é\n"),
        ("Protocols", "d:\n  k: 1\n"),
        ("To cite", "@a\n\n@b"),
    ]
    assert _texts({}) == []
    long = " ".join(["word"] * 30)
    ((_, text),) = _texts({"config": {"a": long}})
    assert [len(line) for line in text.splitlines()] == [len("a: ") + 99, 2 + 49]


def test_texts_of_a_papers_cells() -> None:
    frame = pd.DataFrame({"a": ["x"], "p_y": [0.25], "z": ["0.1"]})
    table = html_report._listing("T", frame)
    assert (table.title, table.corner, table.columns) == ("T", "a", ["p_y", "z"])
    assert table.rows == [("x", ["0.250", "0.1"])]


def test_good_captions_are_those_of_half_the_scale_unless_it_is_said() -> None:
    for function in (build, draw_charts, run_datasets, RunDataset):
        defaults = {n: p.default for n, p in inspect.signature(function).parameters.items()}
        assert (defaults["good"], defaults["precision"]) == (0.5, 0.8)


@pytest.mark.parametrize(
    ("finished_run", "megabytes", "limit"),
    [("compare", None, 3_000_000), ("score", None, 12_000_000), ("score", 0.5, 500_000)],
    indirect=["finished_run"],
)
def test_captions_have_the_room_that_tables_and_charts_leave(
    copied: Path,
    megabytes: float | None,
    limit: int,
    steps: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def embed(parts: Any, images: Path, room: int, _: object) -> Embedded:
        seen.append((len(parts), images, room))
        return Embedded("[1, 2]", 1, 1, 0, 0, 0)

    seen: list[Any] = []
    monkeypatch.setattr(html_report, "embed", embed)
    report = build(copied, images=copied, megabytes=megabytes)
    assert report.embedded == Embedded("[1, 2]", 1, 1, 0, 0, 0)
    n_parts = 2 if copied.name == "score" else 1
    assert seen == [(n_parts, copied, limit - (len(report.content) - 4) - 800)]


def test_pictures_of_a_run_are_its_own_figures(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_bytes(b"x")
    run: Any = SimpleNamespace(files=("a.svg", "a.png", "table.md"), path_of=tmp_path.joinpath)
    assert html_report._pictures(run) == [("a.svg", "data:image/svg+xml;base64,eA==")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("score", "scores of captions"), ("bench", "metrics against people"), ("rank", "how it is")],
)
def test_a_page_has_the_subject_of_its_run(kind: str, text: str) -> None:
    run: Any = SimpleNamespace(
        has_corpus_scores=kind == "score",
        has_correlations=kind == "bench",
        run={"measures": "how it is"},
    )
    assert html_report._subject(run) == text


def test_a_reproduced_paper_has_its_cells_in_its_page() -> None:
    frame = pd.DataFrame([("CIDEr", "43.9", "43.86")], columns=["metric", "printed", "found"])
    run = SimpleNamespace(
        has_file=lambda name: name == "comparison.csv",
        read_texts={"comparison.csv": frame}.__getitem__,
    )
    table = html_report._comparison(run)  # type: ignore[arg-type]
    assert table is not None
    assert (table.title, table.corner, table.columns) == (
        *("Cells of the paper, and what captau finds", "metric", ["printed", "found"]),
    )
    assert table.rows == [("CIDEr", ["43.9", "43.86"])]


@pytest.mark.parametrize("n_parts", [3, 4])
def test_a_pages_title_names_up_to_three_parts(
    n_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Any = SimpleNamespace(
        run={"command": "score"}, has_corpus_scores=True, has_correlations=False, command="score", has_file=lambda _: False,
        corpus=pd.DataFrame({"a": ["x"], "b": ["y"]}),
    )  # fmt: skip
    monkeypatch.setattr(html_report.DatasetsOverview, "of_run", lambda _: None)
    part = {"id": "i", "verdict": "", "lead": "", "overview": ResultTable("", "", [], []), "groups": []}  # fmt: skip
    parts = [{**part, "title": f"T{n}"} for n in range(n_parts)]
    page = html_report._page(run, parts, "", None)
    title = "T0, T1, T2" if n_parts == 3 else "4 sets of references"
    assert f"<title>{title}: scores of captions</title>" in page
