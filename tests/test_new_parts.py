"""A package that brings a metric, a dataset, a coefficient and a command: all commands know all four.

`test_new_coefficient` holds the coefficient's values against SciPy's; here they meet a dataset of the package.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.installed import run_beside

METRIC = '''
from dataclasses import dataclass
import captau


@captau.register("words")
@dataclass(frozen=True)
class Words(captau.Metric):
    """Count the words of a caption."""

    def compute(self, rows):
        return [float(len(caption.split())) for caption in rows.captions]
'''
DATASET = """
import pandas as pd
from captau.datasets.registry import dataset
from captau.datasets.schema import CaptionSet, Card, Scale, make_items

CARD = Card("mini", "Mini ratings", "1", "CC0-1.0", "", "", scales={"overall": Scale(1, 5, 1)})
CAPTIONS = ("a dog", "a dog runs", "a black dog runs fast", "a cat")


@dataset(CARD)
def load_mini(root):
    rows = [(str(i), "ab"[j % 2], c) for i in range(6) for j, c in enumerate(CAPTIONS)]
    images, systems, captions = map(list, zip(*rows))
    items = make_items(images, captions, [["a black dog runs", "a dog"]] * len(rows), systems=systems)
    value = [float(1 + (len(c.split()) + int(i)) % 5) for i, _, c in rows]
    ratings = pd.DataFrame({"item_id": items["item_id"], "dimension": "overall", "rater": "me", "value": value})
    return CaptionSet(items, ratings, card=CARD)
"""
COEFFICIENT = '''
from captau.benchmarks.statistics.coefficients.coefficient import register
from captau.benchmarks.statistics.coefficients.kendall import KendallCoefficient


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
COMMAND = '''
from __future__ import annotations
from dataclasses import dataclass
import pandas as pd
from captau.benchmarks.options.shared import MeasuringOptions
from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.runs.results import RunClock, describe_environment
from captau.benchmarks.runs.tables import ResultTable, Row, count_cell


@dataclass(frozen=True, kw_only=True)
class CountOptions(MeasuringOptions):
    """Options of captau count."""


def run(options):
    clock = RunClock()
    counts = {name: len(options.locations.load(name).items) for name in options.datasets}
    record = {"command": "count", "config": dict(options.configuration), **describe_environment()}
    frame = pd.DataFrame({"dataset": list(counts), "n": list(counts.values())})
    rows = [Row(name, [count_cell(n)]) for name, n in counts.items()]
    table = ResultTable("Items", "dataset", ["n"], rows)
    return Results({"counts.csv": frame}, record | clock.record(), tables=[table])
'''
ENTRY_POINTS = """
[captau.metrics]
words = mini_metric
[captau.datasets]
mini = mini_dataset
[captau.coefficients]
somers_d = mini_coefficient
[captau.commands]
count = mini_command:CountOptions
"""
pytestmark = pytest.mark.wheel
MINI = ("dataset=mini", "metrics=words,bleu_1", "protocol.coefficients=somers_d,tau_b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed, in which commands write their runs."""
    folder = tmp_path_factory.mktemp("installed")
    modules = {"metric": METRIC, "dataset": DATASET, "coefficient": COEFFICIENT, "command": COMMAND}
    for name, text in modules.items():
        (folder / f"mini_{name}.py").write_text(text, encoding="utf-8")
    about = folder / "mini-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mini\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    for name in ("bench", "compare", "rank"):
        run_beside(folder, name, *MINI, "statistics.replicates=50", f"output_dir={name}")
    return folder


def test_bench_measures_them_with_intervals(folder: Path) -> None:
    """By hand: all six images have captions of 2, 3, 5 and 2 words."""
    rows = pd.read_csv(folder / "bench" / "correlations.csv").set_index(["metric", "coefficient"])
    assert set(rows["dataset"]) == {"mini"}
    assert {("words", "somers_d"), ("words", "tau_b"), ("bleu_1", "somers_d")} <= set(rows.index)
    row = rows.loc[("words", "somers_d")]
    assert row["n_items"] == 24
    assert row["ci_low"] < row["value"] < row["ci_high"]
    scores = pd.read_parquet(folder / "bench" / "scores.parquet")
    counts = scores.loc[scores["metric"] == "words", "score"]
    assert counts.tolist() == [2, 3, 5, 2] * 6


def test_compare_and_rank_take_them(folder: Path) -> None:
    differences = pd.read_csv(folder / "compare" / "significance.csv")
    assert set(differences["coefficient"]) == {"somers_d", "tau_b"}
    assert set(differences["metric_a"]) | set(differences["metric_b"]) == {"words", "bleu_1"}
    systems = pd.read_csv(folder / "rank" / "systems.csv")
    assert set(systems["system"]) == {"a", "b"}


@pytest.mark.parametrize("name", ["bench", "compare", "rank", "count"])
def test_every_reader_opens_every_run(folder: Path, name: str) -> None:
    if name == "count":
        out = run_beside(folder, "count", "dataset=mini", "output_dir=count")
        assert "| mini | 24 |" in out
        assert (folder / "count" / "counts.csv").read_text() == "dataset,n\nmini,24\n"
    table = run_beside(folder, "table", f"run={name}")
    assert {"bench": "words", "compare": "words", "rank": "| a |", "count": "| mini | 24 |"}[
        name
    ] in table
    cited = " ".join(run_beside(folder, "cite", f"run={name}").split())
    assert ("we run its command count" if name == "count" else "Mini ratings") in cited
    # The record of `count` has no protocol.
    has = "all versions" if name == "count" else "the protocol and all versions"
    assert f"the appendix has {has}." in cited
    run_beside(folder, "report", f"run={name}", f"output={name}.html")
    assert "mini" in (folder / f"{name}.html").read_text(encoding="utf-8")
    if name != "count":  # which draws nothing
        run_beside(folder, "plot", f"run={name}", f"output_dir=plots-{name}")
        assert any((folder / f"plots-{name}").glob("*.svg"))


def test_help_and_completion_name_them(folder: Path) -> None:
    names = " ".join(run_beside(folder, "--help", "all").split())
    assert "mini" in names
    assert "words" in names
    assert "commands of other packages: count" in names
    assert "somers_d" in " ".join(run_beside(folder, "bench", "--help", "all").split())
    assert "dataset=" in run_beside(folder, "count", "--help")
    for typed, complete in (
        ("bench dataset=mi", "dataset=mini"),
        ("bench metrics=wor", "metrics=words"),
        ("bench protocol.coefficients=som", "protocol.coefficients=somers_d"),
    ):
        line = f"captau {typed}"
        words = run_beside(folder, "-sc", "query=bash", COMP_LINE=line, COMP_POINT=str(len(line)))
        assert complete in words.split()
