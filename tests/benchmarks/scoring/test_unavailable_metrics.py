"""Metrics that cannot be computed are listed as missing; a run of which nothing is left is an error."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.runs.tables import MISSING, ResultTable, Row
from captau.benchmarks.scoring.catalog import optional_specs, resolve_metrics
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.unavailable_metrics import (
    add_unavailable_rows,
    find_unavailable,
    make_unavailable_rows,
    record_reasons,
    split_available,
    warn_unavailable,
)
from captau.datasets.errors import InputError, Lack, LackingError
from captau.datasets.registry import load
from captau.metrics.base import Metric, Unavailability, UnavailableError
from captau.metrics.registry import metric
from tests.conftest import run_captau

#: None of these has its weights where the tests look for them.
LACKING = ("bertscore", "clipscore", "refclipscore", "refonlyclipscore", "pac_s", "refpac_s")


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
    assert set(first["metric"]) >= {*LACKING, "sentence_cosine"}
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
    for name in LACKING:
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
    assert missing["clipscore"]["problem"].endswith("has none")
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


@dataclass(frozen=True)
class Toy(Metric):
    """A metric that lacks what it is told to, for items or for a dataset."""

    called: str
    lacks: str = ""
    of_dataset: str = ""

    @property
    def name(self):
        return self.called

    @property
    def spec(self):
        return self.called

    def compute(self, rows):
        return np.zeros(len(rows))

    def check_rows(self, rows):
        if self.lacks:
            raise UnavailableError(self.called, self.lacks, "get it")

    def check_dataset(self, rows):
        if self.of_dataset:
            raise UnavailableError(self.called, self.of_dataset)


HERE, THERE = Toy("a"), Toy("b", of_dataset="was trained on them")

NO_X, NO_X_2, NO_Y = Toy("c", "needs x"), Toy("d", "needs x"), Toy("e", "needs y")

X, Y = Unavailability("needs x", "get it"), Unavailability("needs y", "get it")

ITEMS = pd.DataFrame({"caption": ["a"], "references": [("a",)]})


def test_which_metrics_lack_something():
    everything = [NO_Y, HERE, NO_X, THERE]
    assert list(find_unavailable(everything, ITEMS).items()) == [(NO_Y, Y), (NO_X, X)]
    trained = Unavailability("was trained on them")
    of_several = find_unavailable(everything, ITEMS, is_one_of_several=True)
    assert list(of_several.items()) == [(NO_Y, Y), (NO_X, X), (THERE, trained)]
    assert find_unavailable([], ITEMS) == {}
    assert find_unavailable([NO_X], ITEMS, needs_one=False) == {NO_X: X}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([NO_X], "metric c needs x; get it"),
        ([NO_X, NO_X_2], "none of the metrics can be computed: c,d: needs x; get it"),
        (
            [NO_X, NO_Y, NO_X_2],
            "none of the metrics can be computed: c,d: needs x; get it. e: needs y; get it",
        ),
    ],
)
def test_nothing_is_left(metrics, message):
    with pytest.raises(LackingError) as caught:
        find_unavailable(metrics, ITEMS)
    assert (str(caught.value), caught.value.lack) == (message, Lack.METRICS)


def test_metrics_that_were_named_are_not_left_out():
    """A metric of a suite alone is left out where it lacks something; one that was named fails later."""
    demo, protocol = load("demo"), Protocol(dimension=("overall",), coefficients=("tau_c",))
    metrics = [HERE, NO_X, NO_Y]

    def split(*names):
        return split_available(metrics, frozenset(names), protocol, demo)

    assert split() == (metrics, {})
    assert split("c") == ([HERE, NO_Y], {NO_X: X})
    assert split("a", "c", "e") == ([HERE], {NO_X: X, NO_Y: Y})
    assert split_available([NO_X, HERE], frozenset("c"), protocol, demo) == ([HERE], {NO_X: X})
    with pytest.raises(LackingError, match="metric c needs x; get it"):
        split_available([NO_X], frozenset("c"), protocol, demo)


def test_reasons_of_run_json():
    need = "references"
    reasons = {NO_X: X, NO_Y: Unavailability("needs references", need=need)}
    assert record_reasons(reasons) == {
        "c": {"problem": "needs x", "remedy": "get it", "need": ""},
        "e": {"problem": "needs references", "remedy": "", "need": "references"},
    }


def test_a_row_for_each_missing_metric_dimension_and_coefficient():
    columns = [("overall", "tau_c"), ("wit", "tau_b")]
    rows = make_unavailable_rows("demo", "usual", columns, {NO_X: X, NO_Y: Y})
    assert rows.to_csv(index=False) == (
        "dataset,protocol,dimension,metric,coefficient,value,n_items,n_ratings,ci_low,ci_high,p_value,note\n"
        "demo,usual,overall,c,tau_c,,0,0,,,,missing: needs x; get it\n"
        "demo,usual,wit,c,tau_b,,0,0,,,,missing: needs x; get it\n"
        "demo,usual,overall,e,tau_c,,0,0,,,,missing: needs y; get it\n"
        "demo,usual,wit,e,tau_b,,0,0,,,,missing: needs y; get it\n"
    )


def test_rows_below_the_metrics_and_notes_below_the_others():
    cider = metric("cider")
    rows = [Row("a", ["1", "2"]), Row("CIDEr", ["3", "4"]), Row("length", ["5", "6"])]
    table = ResultTable("t", "metric", ["x", "y"], rows, notes=["first"])
    remarks = {"a": ["Cut short.", "odd"], "cider": ["Cut short."], "c": ["never"]}
    missing = {NO_X: X, NO_Y: Y, NO_X_2: X}
    assert add_unavailable_rows(table, [HERE, cider], remarks, missing) == replace(
        table,
        rows=[
            *rows[:2],
            *(Row(label, [MISSING, MISSING]) for label in "ced"),
            rows[2],
        ],
        notes=[
            *("first", "a, CIDEr: Cut short.", "a: odd."),
            *("c, d: missing: needs x; get it.", "e: missing: needs y; get it."),
        ],
    )
    assert add_unavailable_rows(table, [HERE, cider], {}, {}) == table


def test_one_warning_for_each_reason(caplog):
    with caplog.at_level(logging.WARNING):
        warn_unavailable([{NO_Y: Y, NO_X: X}, {NO_X_2: X, NO_X: X}, {}])
    assert caplog.messages == ["left out e: needs y; get it", "left out c,d: needs x; get it"]
