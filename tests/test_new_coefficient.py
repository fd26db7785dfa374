"""A coefficient of another package: every command that prints, tests or draws coefficients knows it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

import captau
from tests.installed import run_all_beside, run_beside

pytestmark = pytest.mark.slow

MODULE = '''
"""Somers' D of scores given ratings: surplus / pairs that are not tied in the ratings (Somers 1962)."""

from captau.benchmarks.statistics.coefficients.kendall import KendallCoefficient
from captau.benchmarks.statistics.coefficients.coefficient import register


@register
class SomersD(KendallCoefficient):
    """Pairs in people's order less pairs against it, over the pairs that people tell apart."""

    name = "somers_d"
    symbol = "D"
    latex = "$D$"
    words = "Somers' $D$"
    source = "Somers 1962"

    def compute(self, pairs):
        return pairs.surplus / (pairs.total - pairs.tied_y)
'''
JUMPING = '''
"""Blomqvist's beta: the mean product of the signs of deviations from the medians (Blomqvist 1950)."""

import numpy as np

from captau.benchmarks.statistics.coefficients.coefficient import RatingCoefficient, register


@register
class Blomqvist(RatingCoefficient):
    """It jumps from value to value, and does not say that it is smooth."""

    name = "blomqvist"
    symbol = "β"
    latex = r"$\\beta$"
    words = r"Blomqvist's $\\beta$"
    source = "Blomqvist 1950"

    def prepare(self, points):
        def measure(sample):
            values = np.full(sample.weights.shape[1], np.nan)
            for replicate, weights in enumerate(sample.weights.T.astype(int)):
                scores = np.repeat(points.scores, weights[points.unit])
                ratings = np.repeat(points.ratings, weights[points.unit])
                if len(scores):
                    signs = np.sign(scores - np.median(scores)) * np.sign(ratings - np.median(ratings))
                    values[replicate] = signs.mean()
            return values

        return measure
'''
DEMO = ["dataset=demo", "metrics=bleu_1,rouge_l", "protocol.coefficients=somers_d,tau_b"]
LEVELS = ("by_image", "by_system", "system")
#: What is run beside the coefficients, by the name of its folder or output.
COMMANDS = {
    "bench": ["bench", *DEMO, "statistics.replicates=50", "output_dir=bench"],
    **{
        level: [
            "bench",
            *DEMO,
            f"protocol.level={level}",
            "statistics.replicates=20",
            f"output_dir={level}",
        ]
        for level in LEVELS
    },
    "compare": [
        "compare",
        *DEMO,
        "tests=bootstrap,permutation,williams",
        "statistics.replicates=50",
        "output_dir=compare",
    ],
    "jumping": [
        "compare",
        "dataset=demo",
        "metrics=bleu_1,bleu_4,rouge_l,cider",
        "tests=bootstrap",
        "protocol.coefficients=blomqvist",
        "statistics.replicates=999",
        "output_dir=jumping",
    ],
    "rank": ["rank", *DEMO, "statistics.replicates=20", "output_dir=rank"],
    "table": ["table", "run=bench", "style=latex"],
    "cite": ["cite", "run=bench"],
    "report": ["report", "run=bench", "output=page.html"],
    "plot": ["plot", "run=bench", "kind=forest", "output_dir=charts"],
    "help": ["bench", "--help", "all"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "somers.py").write_text(MODULE, encoding="utf-8")
    info = folder / "somers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somers\nVersion: 1.0\n")
    (folder / "blomqvist.py").write_text(JUMPING, encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[captau.coefficients]\nsomers_d = somers\nblomqvist = blomqvist\n"
    )
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path) -> dict[str, str]:
    """Run all commands there, in one process, and return what each prints."""
    return run_all_beside(folder, COMMANDS)


@pytest.fixture(scope="module")
def runs(folder: Path, printed: dict[str, str]) -> Path:
    """The folder in which the commands wrote their runs."""
    return folder


def test_bench_measures_it_with_intervals_and_ranks(runs: Path) -> None:
    """Parity: SciPy's Somers' D of the scores, given the ratings."""
    rows = pd.read_csv(runs / "bench" / "correlations.csv")
    row = rows[(rows["coefficient"] == "somers_d") & (rows["metric"] == "bleu_1")].iloc[0]
    demo = captau.load("demo")
    scores = captau.metric("bleu_1").score(demo.items)
    by_item = pd.Series(scores, index=demo.items["item_id"])
    rated = demo.ratings[demo.ratings["dimension"] == row["dimension"]]
    x, y = by_item.loc[rated["item_id"]].to_numpy(), rated["value"].to_numpy()
    assert row["value"] == pytest.approx(stats.somersd(y, x).statistic)
    assert row["p_value"] == pytest.approx(stats.kendalltau(x, y).pvalue)
    assert row["ci_low"] < row["value"] < row["ci_high"]
    ranks = pd.read_csv(runs / "bench" / "ranks.csv")
    assert set(ranks["coefficient"]) == {"somers_d", "tau_b"}
    assert "| metric | D |" in (runs / "bench" / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("level", LEVELS)
def test_it_has_every_level(runs: Path, level: str) -> None:
    rows = pd.read_csv(runs / level / "correlations.csv")
    values = rows[(rows["coefficient"] == "somers_d") & rows["metric"].isin(["bleu_1", "rouge_l"])]
    assert values[["value", "ci_low", "ci_high"]].notna().all(axis=None)


def test_compare_tests_it(runs: Path, printed: dict[str, str]) -> None:
    rows = pd.read_csv(runs / "compare" / "significance.csv")
    tests = rows[rows["coefficient"] == "somers_d"].set_index("test")["p_value"]
    assert set(tests.index) == {"bootstrap", "permutation"}
    assert tests.between(0, 1).all()
    assert "differences of D" in printed["compare"]


def test_p_of_a_coefficient_that_jumps_agrees_with_its_interval(runs: Path) -> None:
    """Law: p counts the replicates whose quantiles are the ends of the interval, which leaves 0 out where p is .05 or less."""
    rows = pd.read_csv(runs / "jumping" / "significance.csv")
    rows = rows[rows["coefficient"] == "blomqvist"]
    leaves_zero_out = (rows["ci_low"] > 0) | (rows["ci_high"] < 0)
    assert len(rows) == 6
    assert set(leaves_zero_out) == {True, False}
    assert ((rows["p_value"] <= 0.05) == leaves_zero_out).all()


def test_rank_takes_a_protocol_that_names_it(runs: Path) -> None:
    systems = pd.read_csv(runs / "rank" / "systems.csv")
    assert set(systems["system"]) == set(captau.load("demo").items["system"])


def test_table_and_cite_print_it(printed: dict[str, str]) -> None:
    assert "$D$" in printed["table"]
    cited = " ".join(printed["cite"].split())
    assert r"we report Somers' $D$ and Kendall's $\tau_b$" in cited


def test_report_and_plot_draw_it(runs: Path) -> None:
    assert "agrees best with people (D " in (runs / "page.html").read_text(encoding="utf-8")
    charts = [path.name for path in (runs / "charts").iterdir()]
    assert [name for name in charts if "somers_d" in name]


def test_help_and_completion_name_it(folder: Path, printed: dict[str, str]) -> None:
    assert "somers_d" in " ".join(printed["help"].split())
    line = "captau bench protocol.coefficients=so"
    words = run_beside(
        folder, "-sc", "query=bash", COMP_LINE=line, COMP_POINT=str(len(line))
    ).split()
    assert words == [
        "protocol.coefficients=soft_pairwise_accuracy",
        "protocol.coefficients=somers_d",
    ]
