"""What figures show, to the letter: limits, ticks, lines, bars, squares, texts and legends with their places.

The golden files are under `tests/golden/figures/`. `CAPTAU_GOLDEN=write pytest tests/benchmarks/reporting/test_drawn_figures.py`
writes them anew; read the difference before it is committed. The numbers are those of the runs whose files
`test_written_files.py` holds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from captau.benchmarks.evaluation.overview import DatasetsOverview
from captau.benchmarks.reporting import figure_files
from captau.benchmarks.reporting.charts import make_charts
from captau.benchmarks.reporting.coefficient_charts import make_overview_chart
from captau.benchmarks.reporting.run_parts import CHART_TITLES, run_parts
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.runs.tables import markdown_of
from tests.benchmarks.commands.test_written_files import CASES, write_files
from tests.benchmarks.reporting.described_figures import describe
from tests.conftest import run_captau

GOLDEN = Path(__file__).parents[2] / "golden" / "figures"
#: Commands that draw a figure of their own.
DRAWING = (
    *("agree", "agree_words", "rank", "rank_pairs", "thresholds", "probe"),
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
        charts, reason = make_charts(part, kind)
        made.append(f"{part.title}: {len(charts)} charts {reason}".strip() + "\n")
        with figure_files.style():
            for chart in charts:
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
