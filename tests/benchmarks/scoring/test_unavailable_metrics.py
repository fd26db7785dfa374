"""Metrics that cannot be computed are listed as missing; a run of which nothing is left is an error."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import captau
from captau.benchmarks.scoring.catalog import optional_specs, resolve_metrics
from captau.datasets.errors import InputError
from captau.metrics.registry import metric
from tests.conftest import run_captau

#: None of these has its weights where the tests look for them.
MISSING = ("bertscore", "clipscore", "refclipscore", "refonlyclipscore", "pac_s", "refpac_s")


@pytest.fixture
def no_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    return tmp_path


@pytest.mark.parametrize("names", ["reference_free", "clipscore,pac_s"])
def test_a_run_lists_what_is_missing_and_warns_with_the_remedy(names, no_weights, capsys):
    out = no_weights / "out"
    assert run_captau("bench", f"metrics=bleu_4,{names}", f"output_dir={out}") == 0
    table, warnings = capsys.readouterr()
    assert "| CLIP-S | – |" in table
    assert "CLIP-S: missing: needs the weights of ViT-B-32-quickgelu" in table
    assert "captau: warning: left out clipscore: needs the weights" in warnings
    assert "captau: warning: left out pac_s: needs the checkpoint 'clip_ViT-B-32.pth'" in warnings
    rows = pd.read_csv(out / "correlations.csv")
    missing = rows[rows["metric"] == "clipscore"]
    present = rows[rows["metric"] == "bleu_4"]
    assert len(missing) == len(present)
    assert missing["value"].isna().all()
    assert missing["note"].str.startswith("missing: needs the weights").all()
    record = json.loads((out / "run.json").read_text())
    assert set(record["missing"]["demo"]) == {"clipscore", "pac_s"}
    assert set(record["signatures"]) == {"bleu_4"}
    assert set(pd.read_parquet(out / "scores.parquet")["metric"]) == {"bleu_4"}


def test_the_neural_suite_runs_on_the_pictures_of_the_demo(weights, tmp_path, capsys):
    out = tmp_path / "out"
    assert run_captau("bench", "metrics=neural", f"output_dir={out}") == 0
    printed = capsys.readouterr().out
    assert "RANDOM weights" in printed
    assert "missing" not in printed
    first = pd.read_csv(out / "correlations.csv")
    assert set(first["metric"]) >= {*MISSING, "sentence_cosine"}
    assert first["value"].notna().all()
    assert run_captau("bench", "metrics=neural", f"output_dir={out}") == 0
    assert json.loads((out / "run.json").read_text())["scores_computed"] == 0
    pd.testing.assert_frame_equal(pd.read_csv(out / "correlations.csv"), first)


@pytest.mark.parametrize(
    ("command", "table", "more"),
    [
        ("compare", "significance.csv", ["statistics.replicates=10"]),
        ("sensitivity", "sensitivity.csv", ["draws=2"]),
        ("complement", "complementarity.csv", ["draws=2"]),
        ("rank", "metric_orders.csv", ["statistics.interval=none"]),
    ],
)
def test_every_command_goes_on_with_the_metrics_that_are_there(
    command, table, more, no_weights, capsys
):
    out = no_weights / "out"
    metrics = "metrics=bleu_4,rouge_1,clipscore,pac_s"
    assert run_captau(command, metrics, *more, f"output_dir={out}") == 0
    assert "left out clipscore: needs the weights" in capsys.readouterr().err
    record = json.loads((out / "run.json").read_text())
    assert set(record["missing"]["demo"]) == {"clipscore", "pac_s"}
    assert set(record["signatures"]) == {"bleu_4", "rouge_1"}
    rows = pd.read_csv(out / table)
    assert "bleu_4" in set(rows["metric_a" if command == "compare" else "metric"])


def test_a_comparison_needs_two_metrics_that_are_there(no_weights, capsys):
    out = no_weights / "out"
    assert run_captau("compare", "metrics=bleu_4,clipscore", f"output_dir={out}") == 2
    message = capsys.readouterr().err
    assert "left out clipscore: needs the weights" in message
    assert "only bleu_4 can be computed here" in message


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("clipscore", "captau: metric clipscore needs the weights"),
        ("bleu_4,clipscor", "captau: unknown metric or suite 'clipscor'"),
    ],
)
def test_a_metric_alone_or_misspelt_is_an_error(names, message, no_weights, capsys):
    assert run_captau("bench", f"metrics={names}", f"output_dir={no_weights / 'out'}") == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_suite_of_which_nothing_is_there_is_an_error(no_weights, capsys):
    out = f"output_dir={no_weights / 'out'}"
    assert run_captau("bench", "metrics=reference_free", out) == 2
    message = capsys.readouterr().err
    assert message.startswith(
        "captau: none of the metrics can be computed: clipscore: needs the weights"
    )
    assert ". pac_s: needs the checkpoint" in message


def test_a_dataset_without_references_names_metrics_that_need_none(data_root, tmp_path, capsys):
    where = [f"data.root={data_root}", f"output_dir={tmp_path / 'out'}"]
    assert run_captau("bench", "dataset=caption_quality", *where) == 2
    message = capsys.readouterr().err
    assert message.startswith("captau: none of the metrics can be computed: bleu_1,bleu_2,")
    assert "which these captions do not have" in message
    assert message.endswith("metrics=reference_free names metrics that need none\n")
    assert message.count("\n") == 1


def test_which_metrics_only_suites_ask_for():
    assert optional_specs("text") == {m.spec for m in resolve_metrics("text")}
    assert optional_specs(["text", "cider", "sacrebleu"]) == {
        m.spec for m in resolve_metrics("text")
    } - {"cider"}
    assert optional_specs("cider") == optional_specs(metric("cider")) == frozenset()


def test_every_weight_that_is_missing_has_a_remedy(no_weights):
    row = [{"caption": "a", "references": ["b"], "image": "x.png"}]
    for name in MISSING:
        reason = metric(name).find_unavailability(row)
        assert reason is not None
        assert "weights.download=true" in reason.remedy or "github.com" in reason.remedy


def test_score_lists_them_too(no_weights, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"1": "a dog"}))
    (tmp_path / "r.json").write_text(json.dumps({"1": ["a dog runs"]}))
    given = [f"candidates={tmp_path / 'c.json'}", f"references={tmp_path / 'r.json'}"]
    out = tmp_path / "out"
    assert run_captau("score", *given, "metrics=sacrebleu,clipscore", f"output_dir={out}") == 0
    assert set(json.loads((out / "corpus.json").read_text())) == {"sacrebleu"}
    missing = json.loads((out / "run.json").read_text())["missing"]
    assert "has none" in missing["clipscore"]
    assert run_captau("score", given[0], "metrics=text", f"output_dir={out}") == 2


def test_a_published_row_says_why_it_is_not_computed(no_weights, data_root, tmp_path):
    out = tmp_path / "out"
    where = [f"data.root={data_root}", f"output_dir={out}"]
    arguments = ["paper=pac_s_2023", "leave_out=[spice]", *where]
    assert run_captau("reproduce", *arguments) == 0
    rows = pd.read_csv(out / "comparison.csv", dtype=str, keep_default_na=False)
    of_clip = rows[rows["row"].isin(["CLIP-S", "RefCLIP-S", "PAC-S", "RefPAC-S"])]
    assert len(of_clip) == 11
    assert of_clip["note"].str.startswith("missing: ").all()
    assert (of_clip["reproduced"] == "").all()


def test_remarks_come_back_with_scores_that_were_kept(tmp_path, monkeypatch):
    from captau.metrics.base import Floats
    from captau.metrics.rows import Rows
    from captau.metrics.text.bleu import SacreBleu

    true = SacreBleu.compute

    def remarks(self, rows: Rows) -> Floats:
        rows.add_remark(self.spec, "3 texts were cut short")
        return true(self, rows)

    monkeypatch.setattr(SacreBleu, "compute", remarks)
    for misses in (1, 0):
        found = captau.bench("demo", "sacrebleu", cache_root=tmp_path)
        assert found.run["scores_computed"] == misses
        assert "sacreBLEU: 3 texts were cut short." in found.tables[0].notes


def test_an_image_that_was_replaced_is_scored_anew(tmp_path):
    from captau.benchmarks.scoring.catalog import usual_protocol
    from captau.benchmarks.scoring.protocol import Protocol
    from captau.benchmarks.scoring.score_store import ScoreStore
    from captau.benchmarks.scoring.scorer import Scorer

    path = tmp_path / "a.png"
    path.write_bytes(b"one")
    frame = captau.load("demo").items.head(2).assign(image=str(path), weight=1)
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    store = ScoreStore(tmp_path)
    before = Scorer("demo", frame, protocol).path(metric("clipscore"), store)
    assert Scorer("demo", frame, protocol).path(metric("clipscore"), store) == before
    path.write_bytes(b"another")
    assert Scorer("demo", frame, protocol).path(metric("clipscore"), store) != before


def test_nothing_is_missing_quietly_from_python(no_weights):
    with pytest.raises(InputError, match="needs the weights"):
        captau.bench("demo", "clipscore")
