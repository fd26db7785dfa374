"""SPICE at the command line: further columns, getting its jars, leaving it out. No Java is started."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.commands.bench import bench
from captau.datasets.errors import InputError
from captau.metrics.registry import metric
from captau.metrics.text.spice import metric as spice
from captau.metrics.text.spice import models as spice_models
from captau.metrics.text.spice.models import Jar, jar_folder
from tests.conftest import give_stdin

pytestmark = pytest.mark.java

PARTS = [f"spice_{part}" for part in list(spice.PARTS)[1:]]


@pytest.fixture
def figures(monkeypatch):
    """Row i has the figure (i + 1) / 1000 in each part; no caption has a size."""

    def scores(rows):
        column = (np.arange(len(rows)) + 1) / 1000
        table = np.repeat(column[:, None], len(spice.PARTS), axis=1)
        table[:, -1] = np.nan
        return table

    monkeypatch.setattr(spice, "compute_parts", scores)
    monkeypatch.setattr(spice_models, "JARS", ())


@pytest.fixture
def small(monkeypatch, tmp_path):
    """SPICE needs one small jar, and its folder is empty."""
    sha = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"  # of "hello\n"
    monkeypatch.setattr(spice_models, "JARS", (Jar("org.example", "tool", "1.0", "", 6, sha),))
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(tmp_path / "jars"))
    spice_models._check_hashes.cache_clear()


@pytest.fixture
def serve_jars(monkeypatch):
    """Return a function after which Maven Central has the small jar."""

    def from_maven(jar, staging, advance, needed):
        path = staging / jar.file
        path.parent.mkdir()
        path.write_text("hello\n")
        return path

    return lambda: monkeypatch.setattr(spice_models, "_fetch_from_maven", from_maven)


# Companions


def test_bench_adds_the_parts_to_the_scores_and_correlates_what_was_asked_for(figures, tmp_path):
    found = bench(
        "demo", ["spice", "spice_recall"], cache_root=tmp_path, output_dir=tmp_path / "out"
    )
    assert list(found.scores["metric"].unique()) == [
        "spice",
        "spice_recall",
        *[p for p in PARTS if p != "spice_recall"],
    ]
    assert found.scores.groupby("metric").size().nunique() == 1
    assert found.scores.set_index("metric").loc["spice_size", "score"].isna().all()
    assert set(found.run["signatures"]) == {"spice", "spice_recall"}
    metrics = set(pd.read_csv(tmp_path / "out" / "correlations.csv")["metric"])
    assert {m for m in metrics if not m.startswith(("ceiling", "floor"))} == {
        "spice",
        "spice_recall",
    }
    again = bench("demo", ["spice"], cache_root=tmp_path)
    assert again.run["scores_computed"] == 0
    assert len(again.scores) == len(found.scores)


def test_an_undefined_part_is_no_error_unless_it_was_asked_for(figures, tmp_path):
    strict = {"undefined": "error"}
    assert len(bench("demo", "spice", protocol=strict, cache_root=tmp_path).scores)
    with pytest.raises(InputError, match="metric spice_size is undefined for"):
        bench("demo", "spice_size", protocol=strict, cache_root=tmp_path)


def test_score_writes_the_parts_as_further_columns(figures, captau, tmp_path):
    Path("c.json").write_text(json.dumps({"1": "a dog", "2": "two cats"}))
    Path("r.json").write_text(json.dumps({"1": ["a dog"], "2": ["cats", "a cat"]}))
    status, out, err = captau(
        *["score", "candidates=c.json", "references=r.json", "metrics=[spice,bleu_1]"],
        *["output_dir=out", "cache.use=false"],
    )
    assert (status, err) == (0, "")
    table = pd.read_csv("out/scores.csv")
    assert list(table.columns) == ["item_id", "image_id", "spice", "bleu_1", *PARTS]
    assert table["spice_color"].tolist() == [0.001, 0.002]
    assert table["spice_size"].isna().all()
    assert set(json.loads(Path("out/corpus.json").read_text())) == {"spice", "bleu_1"}
    assert "SPICE colours" not in out


def test_a_metric_without_companions_has_none():
    assert metric("bleu_1").companions == ()
    assert metric("spice_color").companions == ()
    assert metric("spice").companions == tuple(PARTS)


# The question before the download


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """No jar is here; return a function that types an answer on a terminal, and the folders that are fetched into."""
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "")
    folders = []

    def fetch(root):
        folders.append(root)
        raise InputError("fetched here")

    def type_answer(text):
        give_stdin(monkeypatch, text.encode(), is_terminal=True)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    monkeypatch.setattr(spice_models, "fetch_jars", fetch)
    return type_answer, folders


REFUSAL = (
    "captau: metric spice needs SPICE's parser, 387 MB that are not on this machine; "
    "captau data fetch dataset=spice_models downloads them, and so does weights.download=true\n"
)


def test_without_a_terminal_nothing_large_is_downloaded(captau, asked):
    assert captau("bench", "metrics=spice") == (2, "", REFUSAL)
    status, out, _ = captau("bench", "metrics=rouge_1,spice")
    assert (status, asked[1]) == (0, [])
    assert "SPICE: missing: needs SPICE's parser" in out


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_a_no_on_a_terminal_is_asked_for_once_and_downloads_nothing(captau, asked, answer):
    asked[0](answer)
    status, _, err = captau("bench", "metrics=spice,spice_recall")
    assert (status, asked[1]) == (2, [])
    question = (
        "captau: The metric SPICE needs a parser: Stanford CoreNLP 3.6.0 with its models, and Rhino (387 MB, licence "
        "GPL-3.0-or-later (CoreNLP), MPL-2.0 (Rhino)). Download now? [y/N] "
    )
    assert err.startswith(question)
    assert err.count("Download now?") == 1


@pytest.mark.parametrize(
    "words", [("reproduce", "paper=clipscore_2021"), ("train", "rater=icr", "metrics=spice")]
)
def test_reproduce_and_train_ask_as_bench_does(words, captau, asked):
    asked[0]("n\n")
    _, _, err = captau(*words)
    assert err.count("387 MB, licence GPL-3.0-or-later") == 1
    assert asked[1] == []


def test_a_yes_on_a_terminal_downloads(captau, asked, tmp_path):
    asked[0]("yes\n")
    status, _, err = captau("bench", "metrics=spice")
    assert asked[1][0] == tmp_path / "jars"
    assert status == 2
    assert err.endswith("captau: fetched here\n")


def test_the_option_downloads_without_a_question(captau, asked, tmp_path):
    _, _, err = captau("bench", "metrics=spice", "weights.download=true")
    assert asked[1][0] == tmp_path / "jars"
    assert "[y/N]" not in err


# captau data …


def test_the_models_are_fetched_by_name(captau, small, serve_jars):
    assert "captau data fetch dataset=spice_models downloads them" in captau("data", "list")[1]
    status, out, err = captau("data", "fetch", "dataset=spice_models", "data.offline=true")
    assert status == 2
    assert "not fetched: tool-1.0.jar (org.example:tool:1.0) from Maven Central" in err
    serve_jars()
    status, out, err = captau("data", "fetch", "dataset=[demo,spice_models]")
    assert (status, err) == (0, "")
    assert "licence: GPL-3.0-or-later" in out
    assert "anderson2016spice" in out
    assert "tool-1.0.jar: 6 bytes from org.example:tool:1.0" in out
    assert "demo: nothing to fetch" in out or "demo: built in" in out
    assert (jar_folder() / "tool-1.0.jar").read_text() == "hello\n"
    assert "nothing to fetch" in captau("data", "fetch", "dataset=spice_models")[1]
    assert "spice_models" not in captau("data", "list")[1], "nothing is missing"


def test_the_models_are_verified_by_name(captau, small):
    status, out, _ = captau("data", "verify", "dataset=spice_models")
    assert status == 1
    assert "1 missing" in out
    jar_folder().mkdir()
    (jar_folder() / "tool-1.0.jar").write_text("hallo\n")
    status, out, _ = captau("data", "verify", "dataset=[demo,spice_models]")
    assert status == 1
    assert "1 differs" in out
    assert "is not org.example:tool:1.0: its hash differs" in out
    (jar_folder() / "tool-1.0.jar").write_text("hello\n")
    status, out, _ = captau("data", "verify", "dataset=spice_models")
    assert status == 0
    assert "1 right" in out


def test_the_models_are_fetched_and_verified_in_another_folder(
    captau, small, serve_jars, monkeypatch
):
    serve_jars()
    status, _, err = captau("data", "fetch", "dataset=spice_models", "java.spice=carried")
    assert (status, err) == (0, "")
    assert Path("carried/tool-1.0.jar").read_text() == "hello\n"
    monkeypatch.setenv("CAPTAU_SPICE_JARS", "elsewhere")
    status, out, _ = captau("data", "verify", "dataset=spice_models", "java.spice=carried")
    assert status == 0
    assert "1 right" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "dataset=spice_models"], "unknown dataset 'spice_models'"),
        (["data", "fetch", "dataset=spice_model"], "did you mean spice_models"),
        (
            ["reproduce", "paper=all", "leave_out=[spyce]"],
            "unknown metric 'spyce': did you mean spice",
        ),
    ],
)
def test_bad_input(captau, arguments, said):
    status, _, err = captau(*arguments)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1


def test_another_folder_for_the_jars(captau, small, monkeypatch, tmp_path):
    """`java.spice=` is heeded, and the message names the folder it led to."""
    monkeypatch.delenv("CAPTAU_SPICE_JARS")

    def closed(jar, staging, advance, needed):
        raise spice_models._fetch_error(needed, "no network")

    monkeypatch.setattr(spice_models, "_fetch_from_maven", closed)
    status, _, err = captau(
        *["bench", "metrics=[spice]", "output_dir=out", "cache.use=false"],
        f"java.spice={tmp_path}/a b",
    )
    assert status == 2
    assert f"put the files into {tmp_path}/a b" in err
    assert not Path("out").exists()
    monkeypatch.delenv("CAPTAU_SPICE_JARS")
