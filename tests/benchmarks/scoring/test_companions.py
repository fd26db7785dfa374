"""Metrics that bring others along (SPICE its sub-scores): these are kept, and never correlated."""

from __future__ import annotations

import pandas as pd
import pytest

from captau.metrics.text.bleu import SacreBleu
from tests.conftest import run_captau


@pytest.mark.parametrize(
    ("command", "table", "more"),
    [
        ("bench", "correlations.csv", ["floors=true", "statistics.replicates=10"]),
        ("compare", "significance.csv", ["statistics.replicates=10"]),
        pytest.param(
            "sensitivity",
            "sensitivity.csv",
            ["kind=[images,raters,references,power]", "draws=2"],
            marks=pytest.mark.slow,
        ),
        pytest.param("sensitivity", "sensitivity.csv", ["kind=protocols"], marks=pytest.mark.slow),
        ("complement", "complementarity.csv", ["draws=2"]),
    ],
)
def test_no_command_trips_over_companions(command, table, more, tmp_path, monkeypatch):
    monkeypatch.setattr(SacreBleu, "companions", ("rouge_2",))
    out = tmp_path / "out"
    assert run_captau(command, "metrics=[sacrebleu,rouge_1]", *more, f"output_dir={out}") == 0
    rows = pd.read_csv(out / table)
    told = {name for c in rows.columns if c.startswith(("metric", "other")) for name in rows[c]}
    assert {"sacrebleu", "rouge_1"} <= told
    assert "rouge_2" not in told
    if command == "bench":
        assert "rouge_2" in set(pd.read_parquet(out / "scores.parquet")["metric"])
