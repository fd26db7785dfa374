"""What figures show, to the letter: limits, ticks, lines, bars, squares, texts and legends with their places.

The golden files are under `tests/golden/figures/`. `CAPTAU_GOLDEN=write pytest tests/benchmarks/reporting/test_drawn_figures.py`
writes them anew; read the difference before it is committed. The numbers are those of the runs whose files
`test_written_files.py` holds.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.evaluation.overview import DatasetsOverview
from captau.benchmarks.reporting.charts import figure_files
from captau.benchmarks.reporting.charts import run_charts as charts
from captau.benchmarks.reporting.charts.coefficient_charts import make_overview_chart
from captau.benchmarks.reporting.charts.figure_files import Chart
from captau.benchmarks.reporting.charts.run_charts import draw_charts, make_charts
from captau.benchmarks.reporting.run_parts import CHART_TITLES, run_parts
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.runs.markdown_table import markdown_of
from captau.benchmarks.runs.tables import ResultTable
from tests.benchmarks.commands.test_written_files import CASES, write_files
from tests.benchmarks.reporting.described_figures import describe
from tests.conftest import run_captau, says

GOLDEN = Path(__file__).parents[2] / "golden" / "figures"
#: Commands that draw a figure of their own.
DRAWING = (
    *("agree", "agree_words", "rank", "rank_pairs", "thresholds", "calibrate", "probe"),
    "estimate",
    *("sensitivity_images", "sensitivity_raters", "sensitivity_length"),
)


def compare(made: str, golden: Path) -> None:
    assert made
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(made, encoding="utf-8", newline="")
    assert made == golden.read_bytes().decode()


@pytest.fixture
def drawn(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drawn_figures: list[str],
) -> str:
    """What a command draws."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    assert run_captau(*CASES[request.param], "output_dir=out") == 0
    return "\n".join(drawn_figures)


@pytest.mark.parametrize(("name", "drawn"), [(n, n) for n in DRAWING], indirect=["drawn"])
def test_commands_draw(name: str, drawn: str) -> None:
    compare(drawn, GOLDEN / f"{name}.txt")


@pytest.mark.parametrize(
    ("finished_run", "kind"),
    [
        *(("compare", kind) for kind in CHART_TITLES),
        *(("compare_pairs", kind) for kind in ("forest", "categories", "significance", "ratings")),
        *(("score", kind) for kind in CHART_TITLES if kind != "categories"),
    ],
    indirect=["finished_run"],
)
def test_charts_of_a_run(finished_run: Path, kind: str) -> None:
    """Each chart with its name, title, description and numbers, and the reason where there is none."""
    made: list[str] = []
    for part in run_parts(read_run(finished_run), 0.5, 0.8):
        found, reason = make_charts(part, kind)
        made.append(f"{part.title}: {len(found)} charts {reason}".strip() + "\n")
        with figure_files.style():
            for chart in found:
                assert chart.kind == kind
                made.append(f"{chart.name}\n{chart.description}\n{markdown_of(chart.table)}\n")
                made.append(describe(chart.draw()))
    compare("\n".join(made), GOLDEN / f"{finished_run.name}_{kind}.txt")


@pytest.mark.parametrize("finished_run", ["bench_datasets"], indirect=True)
def test_the_overview_of_several_datasets(finished_run: Path) -> None:
    overview = DatasetsOverview.of_run(read_run(finished_run))
    assert overview is not None
    chart = make_overview_chart(overview)
    with figure_files.style(9):
        figure = describe(chart.draw())
    made = [chart.kind, chart.name, chart.description, markdown_of(chart.table), figure]
    compare("\n".join(made), GOLDEN / "bench_datasets_overview.txt")


@pytest.fixture
def made_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each part have a chart of each kind, and one of the headline by its name; all are drawn as nothing."""

    def make(part: Any, kind: str) -> tuple[list[Chart], str]:
        if kind == "categories":
            return [], "there are none"
        names = [f"{kind}_{part.file_words[0]}"]
        if kind in ("forest", "significance"):
            names += [f"{kind}_file_usual_{d}_{c}" for d in ("precision", "recall") for c in ("tau_c", "tau_b")]  # fmt: skip
        table = ResultTable("t", "c", [], [])
        return [Chart(kind, name, "t", "d", table, lambda: None) for name in names], ""

    monkeypatch.setattr(charts, "make_charts", make)
    monkeypatch.setattr(figure_files, "_saved", lambda _figure, form, *_: form.encode())


HEADLINES = ["forest_file_usual_precision_tau_c", "significance_file_usual_precision_tau_c"]
OTHERS = ["ratings_file", "agreement_file", "correlations_file"]
NO_CATEGORIES = "ratings.csv: no categories: there are none"
NO_OVERVIEW = "no overview: a run of captau bench of several datasets has one"


@pytest.mark.parametrize("finished_run", ["compare"], indirect=True)
@pytest.mark.usefixtures("made_charts")
def test_the_usual_figures_are_those_of_the_headline(finished_run: Path) -> None:
    usual = draw_charts(finished_run)
    names = [*HEADLINES, *OTHERS]
    assert usual.files == {f"{n}.{e}": e.encode() for n in names for e in ("svg", "png")}
    assert usual.undrawn == ()
    every = draw_charts(finished_run, ("all",), ("pdf",))
    assert len(every.files) == 2 * 5 + 5
    assert {name.rpartition(".")[2] for name in every.files} == {"pdf"}
    assert every.undrawn == [NO_OVERVIEW, NO_CATEGORIES]
    two = draw_charts(finished_run, ("scores", "categories"), ("svg",))
    assert (list(two.files), two.undrawn) == (["scores_file.svg"], [NO_CATEGORIES])
    assert len(draw_charts(finished_run, ("forest",), ("svg",)).files) == 5
    with says(f"nothing to draw ({NO_OVERVIEW}; {NO_CATEGORIES})"):
        draw_charts(finished_run, ("overview", "categories"))
    assert draw_charts(finished_run, ("forest", "all"), ("pdf",)).files == every.files
    with says("unknown kind 'x'", "known: agreement, all, categories"):
        draw_charts(finished_run, ("x",))
    with says("unknown format 'gif'", "pdf, png, svg"):
        draw_charts(finished_run, formats=("svg", "gif"))


@pytest.mark.parametrize("finished_run", ["bench_datasets"], indirect=True)
@pytest.mark.usefixtures("made_charts")
def test_several_datasets_have_an_overview_first(finished_run: Path) -> None:
    files = list(draw_charts(finished_run, formats=("svg",)).files)
    assert files[0] == "overview.svg"
    assert len(files) == 1 + 3 + 3
    assert list(draw_charts(finished_run, ("overview",), ("svg",)).files) == ["overview.svg"]
    # A reason that holds for both datasets stands once.
    with says("nothing to draw (Demo, ratings.csv: no categories: there are none)"):
        draw_charts(finished_run, ("categories",))
    assert list(draw_charts(finished_run, ("ratings",), ("svg",)).files) == [
        *("ratings_demo.svg", "ratings_file.svg")
    ]


@pytest.mark.parametrize("finished_run", ["score"], indirect=True)
@pytest.mark.usefixtures("made_charts")
def test_all_figures_of_systems_are_usual(finished_run: Path) -> None:
    files = list(draw_charts(finished_run, formats=("svg",)).files)
    assert "forest_references.svg" in files
    assert len(files) == 2 * 5 + 8  # eight names are those of both sets of references


@pytest.mark.parametrize("finished_run", ["rank_pairs"], indirect=True)
def test_figures_that_a_run_drew_itself_are_chosen_by_their_beginning(finished_run: Path) -> None:
    names = ["systems.svg", "systems.png", "wins-file.svg", "wins-file.png"]
    drawn = draw_charts(finished_run)
    assert sorted(drawn.files) == sorted(names)
    assert all(drawn.files[n] == (finished_run / n).read_bytes() for n in names)
    assert sorted(draw_charts(finished_run, ("all",)).files) == sorted(names)
    assert list(draw_charts(finished_run, ("wins",), ("svg",)).files) == ["wins-file.svg"]
    assert len(draw_charts(finished_run, ("wins", "sys"), ("png",)).files) == 2
    with says(f"no figure of this kind and format; {finished_run} has ", "wins-file.svg"):
        draw_charts(finished_run, ("forest",))


def test_a_run_without_figures_says_where_they_are_from() -> None:
    run: Any = SimpleNamespace(files=("table.md",), folder="runs/a", command="rank")
    with says("nothing to draw: runs/a, a run of captau rank, has no figures; commands that draw"):
        charts._select_figures(run, (), ("svg",))
