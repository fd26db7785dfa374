"""`captau complement`: its rows and tables on the demo and on toy ratings, and bad input."""

from __future__ import annotations

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
