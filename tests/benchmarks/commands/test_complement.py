"""`captau complement`: its rows and tables on the demo and on toy ratings, and bad input."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.commands.complement import (
    COMPLEMENT_COLUMNS,
    run,
)
from captau.benchmarks.options.analyses import ComplementOptions
from captau.benchmarks.scoring.catalog import resolve_metrics, usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import Locations
from tests.conftest import run_captau, says


def test_the_command(tmp_path, capsys):
    assert (
        run_captau(
            "complement", "metrics=[rouge_1,rouge_2,cider]", "draws=3", f"output_dir={tmp_path}"
        )
        == 0
    )
    out = capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "complementarity.csv")
    assert tuple(rows.columns) == COMPLEMENT_COLUMNS
    matrix = rows[rows["kind"] == "correlation"]
    assert len(matrix) == 2 * 6  # three metrics and length, two coefficients
    chosen = rows[(rows["kind"] == "selection") & (rows["criterion"] == "r2")]
    assert sorted(set(chosen["metric"])) == ["cider", "rouge_1", "rouge_2"]
    often = rows[rows["kind"] == "inclusion"]
    assert often["value"].between(0, 1).all()
    # In each draw one metric is the first, and all are among the last.
    assert often.groupby(["criterion", "step"])["value"].sum().tolist() == [1, 2, 3] * 2
    assert "forward selection by R²" in out
    again = tmp_path / "again"
    run_captau("complement", "metrics=[rouge_1,rouge_2,cider]", "draws=3", f"output_dir={again}")
    assert (again / "complementarity.csv").read_bytes() == (
        tmp_path / "complementarity.csv"
    ).read_bytes()


def measured(rows: pd.DataFrame, kind: str, metric: str, coefficient: str = "r2") -> float:
    """The one value of a kind, a metric and a coefficient."""
    is_named = (rows["kind"] == kind) & (rows["metric"] == metric)
    found = rows.loc[is_named & rows["coefficient"].eq(coefficient), "value"]
    assert len(found) == 1, (kind, metric)
    return float(found.iloc[0])


def test_what_a_metric_adds_is_r2_with_it_less_r2_without_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def odd(caption):\n    return float(len(caption) % 7)\n")
    words = ["draws=50", f"output_dir={tmp_path / 'out'}"]
    assert run_captau("complement", "metrics=cider,mine.py:odd", *words) == 0
    out = capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "out" / "complementarity.csv")

    # The last step of the selection has both metrics.
    is_last = (rows["kind"] == "selection") & (rows["step"] == 2) & (rows["criterion"] == "r2")
    with_both = float(rows.loc[is_last & (rows["coefficient"] == "r2"), "value"].iloc[0])
    for metric, other in (("cider", "odd"), ("odd", "cider")):
        without = measured(rows, "without", metric)
        assert without == measured(rows, "alone", other)
        assert measured(rows, "addition", metric) == pytest.approx(with_both - without)

    # The question is about the user's metric, and letters modulo seven add nothing that is sure.
    r2_of_cider = 100 * measured(rows, "alone", "cider")
    assert f"the R² of {r2_of_cider:.1f}" in " ".join(out.split())
    assert "odd adds" in out
    assert "that it adds anything is not sure" in out


def test_a_metric_that_surely_adds_is_said_to_do_so(tmp_path):
    """Ratings are the sum of what two files have."""
    rng = np.random.default_rng(3)
    images = [f"i{number}" for number in range(60)]
    halves = rng.normal(size=(2, 60))
    captions = pd.DataFrame({"image": images, "caption": [f"{image} x" for image in images]})
    captions.assign(value=halves.sum(axis=0)).to_csv(tmp_path / "own.csv", index=False)
    for name, scores in zip(("first", "second"), halves, strict=True):
        table = captions.rename(columns={"image": "image_id"}).assign(score=scores)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    metrics = [f"file(path={tmp_path}/{name}.csv,name={name})" for name in ("first", "second")]
    options = ComplementOptions(
        datasets={"file": Protocol.resolve("file", usual_protocol("file"), {})},
        metrics=resolve_metrics(metrics),
        draws=40,
        locations=Locations(use_cache=False, file_options={"path": str(tmp_path / "own.csv")}),
    )
    additions = run(options).tables[0]
    assert additions.title == "file, overall: what each metric adds"
    sentence = additions.notes[0]
    assert re.match(r"first adds \d+\.\d to the R² of \d+\.\d that second reaches", sentence)
    assert sentence.endswith("and R² is greater with it in 40 of 40 resampled datasets.")
    # Together they are the ratings.
    assert "of all metrics together 100.0" in additions.notes[-1]


def test_plain_correlations_stand_beside_partial_ones(tmp_path, capsys):
    words = ["metrics=rouge_1,cider", "draws=2", f"output_dir={tmp_path}"]
    assert run_captau("complement", *words) == 0
    rows = pd.read_csv(tmp_path / "complementarity.csv")
    assert run_captau("bench", "metrics=rouge_1,cider", f"output_dir={tmp_path / 'bench'}") == 0
    correlations = pd.read_csv(tmp_path / "bench" / "correlations.csv")
    for metric in ("rouge_1", "cider"):
        for coefficient in ("pearson", "spearman"):
            is_named = correlations["metric"].eq(metric) & correlations["coefficient"].eq(
                coefficient
            )
            expected = correlations.loc[is_named, "value"].iloc[0]
            assert measured(rows, "plain", metric, coefficient) == pytest.approx(expected)
    assert "| metric | r | partial r | ρ | partial ρ |" in capsys.readouterr().out


def test_a_second_selection_is_printed_where_its_order_is_another(tmp_path, capsys):
    """Both selections of one metric first and of the other are in the file."""
    assert (
        run_captau("complement", "metrics=rouge_1,cider", "draws=2", f"output_dir={tmp_path}") == 0
    )
    rows = pd.read_csv(tmp_path / "complementarity.csv")
    steps = rows[(rows["kind"] == "selection") & (rows["coefficient"] == "r2")]
    orders = [part["metric"].tolist() for _, part in steps.groupby("criterion")]
    out = capsys.readouterr().out
    is_same = orders[0] == orders[1]
    assert ("By τ_b the order is the same." in out) == is_same
    assert ("forward selection by τ_b" in out) != is_same


def toy(scores: list[float], ratings: list[float], images: str, tmp_path):
    """A dataset of one's own with a metric from a file."""
    frame = pd.DataFrame(
        {"image": list(images), "caption": [f"c{i} x" for i in range(len(images))]}
    )
    frame.assign(value=ratings, references="a").to_csv(tmp_path / "own.csv", index=False)
    table = frame.rename(columns={"image": "image_id"}).assign(score=scores)
    table.to_csv(tmp_path / "scores.csv", index=False)
    protocol = Protocol.resolve("file", usual_protocol("file"), {})
    return ComplementOptions(
        datasets={"file": protocol},
        metrics=resolve_metrics([f"file(path={tmp_path}/scores.csv,name=Mine)", "rouge_1"]),
        draws=2,
        locations=Locations(
            use_cache=False, file_options={"path": str(tmp_path / "own.csv"), "low": 1, "high": 5}
        ),
    )


@pytest.mark.parametrize(
    ("scores", "ratings", "images", "reason"),
    [
        ([1, 2, 3], [1, 2, 3], "aaa", "1 image; two are needed"),
        ([1, 2, 3], [2, 2, 2], "abc", "no metric is defined"),
        ([2, 2, 2], [1, 2, 3], "abc", "no metric is defined"),
    ],
)
def test_undefined_says_why(scores, ratings, images, reason, tmp_path):
    found = run(toy(scores, ratings, images, tmp_path)).frames["complementarity.csv"]
    selection = found[found["kind"] == "selection"]
    assert selection["value"].isna().all()
    assert set(selection["note"]) == {f"undefined: {reason}"}
    # No caption has a word of its reference.
    constant = found[(found["kind"] == "partial") & (found["metric"] == "rouge_1")]
    assert constant["value"].isna().all()
    assert constant["note"].str.startswith("undefined: all").all()


def test_errors():
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    with says("name two at least"):
        run(ComplementOptions(datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1")))
    with says("draws is 0"):
        ComplementOptions(datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1"), draws=0)
    with says("draws is 1,000,000,000; at most 100,000 is expected"):
        ComplementOptions(
            datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1"), draws=10**9
        )
    with says("seed is -1"):
        ComplementOptions(datasets={"demo": protocol}, metrics=resolve_metrics("rouge_1"), seed=-1)
