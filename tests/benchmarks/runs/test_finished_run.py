"""Finished runs as tables and reports read them (`benchmarks/runs/finished_run.py`)."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.runs.finished_run import check_same_data, read_run
from tests.benchmarks.reporting.made_runs import rewrite
from tests.conftest import run_captau, says


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    results = captau.bench(
        "demo", ["bleu_1", "cider"], statistics={"replicates": 50}, output_dir=folder
    )
    return folder, results


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "run")


def test_what_was_written_comes_back(finished):
    folder, results = finished
    run = read_run(folder)
    assert run.command == "bench"
    pd.testing.assert_frame_equal(run.correlations, results.correlations, check_dtype=False)
    pd.testing.assert_frame_equal(run.ranks, results.ranks, check_dtype=False)
    assert run.scores["score"].tolist() == results.scores["score"].tolist()


def test_the_folder_has_what_people_said(finished):
    """A report needs neither the dataset nor the network."""
    run, demo = read_run(finished[0]), captau.load("demo")
    chosen = run.items["item_id"]
    assert chosen.tolist() == demo.items["item_id"].tolist()
    assert [tuple(r) for r in run.items["references"]] == demo.items["references"].tolist()
    assert len(run.ratings) == demo.ratings["item_id"].isin(chosen).sum() > 0
    assert run.preferences["winner"].tolist() == demo.preferences["winner"].tolist()
    assert run.run["data"]["demo"]["digest"] == demo.digest
    assert run.run["metrics"]["cider"]["kind"] == "reference-based"
    assert set(run.ranks["metric"]) == {"bleu_1", "cider"}


def test_preferences_of_a_run_of_captau_0_1_are_read(copy):
    """Version 0.1 wrote `category` and `winner`, and its digest of the same data is today's."""
    now = read_run(copy).preferences
    columns = ["dataset", "pair_id", "item_a", "item_b", "category", "winner"]
    then = now.rename(columns={"dimension": "category"})[columns]
    rewrite(copy, "preferences.parquet", then)
    upgraded = read_run(copy).preferences
    assert set(upgraded.columns) == set(now.columns)
    pd.testing.assert_frame_equal(upgraded[list(now.columns)], now)


def test_only_the_chosen_items_are_kept(tmp_path):
    captau.bench(
        "demo",
        "bleu_1",
        protocol={"split": "test"},
        statistics={"interval": "none"},
        output_dir=tmp_path,
    )
    run = read_run(tmp_path)
    assert set(run.items["split"]) == {"test"}
    assert set(run.ratings["item_id"]) == set(run.items["item_id"])
    here = set(run.items["item_id"])
    assert set(run.preferences["item_a"]) | set(run.preferences["item_b"]) <= here
    assert run.ranks.empty


def test_no_folder(tmp_path):
    with says("absent", "is not a folder"):
        read_run(tmp_path / "absent")


def test_an_unfinished_run(copy):
    (copy / "run.json").unlink()
    with says(str(copy), "unfinished"):
        read_run(copy)


def test_a_broken_record(copy):
    (copy / "run.json").write_text("{")
    with says("run.json", "cannot be read"):
        read_run(copy)


def test_a_record_that_is_nested_too_deeply(copy):
    (copy / "run.json").write_text("[" * 100_000)
    with says("run.json", "cannot be read", "recursion"):
        read_run(copy)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("data", [], "data is [], not dict"),
        ("data.demo", 3, "data.demo is 3, not dict"),
        ("data.demo.digest", None, "data.demo.digest is None, not str"),
        ("data.demo.scales.overall.low", "1", "data.demo.scales.overall.low is '1', not int or"),
        ("protocols.demo", "usual", "protocols.demo is 'usual', not dict"),
        ("protocols.demo.coefficients", [["tau_c"]], "coefficients.0 is ['tau_c'], not str"),
        ("protocols.demo.dimension", "overall", "dimension is 'overall', not list"),
        ("versions", None, "versions is None, not dict"),
        ("versions.captau", 1, "versions.captau is 1, not str"),
        ("signatures", ["x"], "signatures is ['x'], not dict"),
        ("metrics.cider.decimals", True, "metrics.cider.decimals is True, not int"),
        ("missing.demo", {"cider": 3}, "missing.demo.cider is 3, not str"),
        ("files", "none", "files is 'none', not dict"),
        ("config", None, "config is None, not dict"),
        ("config.statistics", {"a": 1}, "config.statistics: "),
    ],
)
def test_a_field_of_another_type(copy, path, value, message):
    change_record(copy, path, lambda fields, name: fields.update({name: value}))
    with says(f"{copy / 'run.json'}: ", message, "run it again"):
        read_run(copy)


@pytest.mark.parametrize(
    "path", ["data", "config", "versions.captau", "data.demo.digest", "data.demo.citation"]
)
def test_a_field_that_is_missing(copy, path):
    change_record(copy, path, lambda fields, name: fields.pop(name))
    with says(f"{copy / 'run.json'}: {path} is missing", "run it again"):
        read_run(copy)


def test_a_number_that_json_does_not_know(copy):
    """json.loads takes NaN, of which no table can be made; captau writes none."""
    change_record(copy, "metrics.cider.scale", lambda fields, name: fields.update({name: np.nan}))
    with says("run.json", "cannot be read", "NaN is no number of JSON"):
        read_run(copy)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("signatures", "signatures is missing"),
        ("config.statistics", "config.statistics is missing"),
        ("metrics", "metrics is missing"),
        ("metrics.rouge_1", "metrics.rouge_1 is missing"),
    ],
)
def test_a_field_that_is_missing_from_a_run_of_score(tmp_path, path, message):
    (tmp_path / "mine.json").write_text('[{"image_id": "a", "caption": "a dog"}]')
    (tmp_path / "references.json").write_text('{"a": ["the dog"]}')
    folder = tmp_path / "scored"
    captau.score(tmp_path / "mine.json", tmp_path / "references.json", "rouge_1", output_dir=folder)
    change_record(folder, path, lambda fields, name: fields.pop(name))
    with says(f"{folder / 'run.json'}: {message}"):
        assert read_run(folder).corpus.empty  # never reached


def change_record(folder, path, change):
    """Change a field of run.json, named by its dotted path."""
    record = json.loads((folder / "run.json").read_text())
    *parents, name = path.split(".")
    fields = record
    for parent in parents:
        fields = fields[parent]
    change(fields, name)
    (folder / "run.json").write_text(json.dumps(record))


def test_a_study_s_answers_are_no_run(copy):
    (copy / "run.json").write_text(json.dumps({"command": "collect export", "answers": 480}))
    with says(str(copy), "captau agree dataset=file", f"file.path={copy / 'ratings.csv'}"):
        read_run(copy)


def test_another_form(copy):
    record = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(record | {"format": 0}))
    with says("another form", f"captau {record['versions']['captau']}", "again"):
        read_run(copy)


def test_a_run_of_another_command(copy):
    record = json.loads((copy / "run.json").read_text())
    record["files"].pop("correlations.csv")
    (copy / "run.json").write_text(json.dumps(record | {"command": "agree"}))
    with says("captau agree", "no correlations.csv"):
        read_run(copy, needs="correlations.csv")


@pytest.mark.parametrize("name", ["correlations.csv", "scores.parquet"])
def test_a_missing_a_truncated_and_a_foreign_table(copy, name):
    table = name.partition(".")[0]
    record = json.loads((copy / "run.json").read_text())
    record.pop("files")  # as captau 0.1 wrote it
    (copy / "run.json").write_text(json.dumps(record))
    (copy / name).write_bytes(b"")
    with says(name, "cannot be read", "again"):
        getattr(read_run(copy), table)
    frame = pd.DataFrame({"dataset": ["demo"]})
    frame.to_csv(copy / name) if name.endswith("csv") else frame.to_parquet(copy / name)
    with says(name, "has no column", "metric"):
        getattr(read_run(copy), table)
    (copy / name).unlink()
    with says(name, "is missing", "again"):
        getattr(read_run(copy), table)


def test_a_table_that_was_cut_short_or_edited(copy):
    path = copy / "correlations.csv"
    whole = path.read_text()
    for changed in (whole[: len(whole) // 2], whole.replace("0.3", "0.4", 1)):
        path.write_text(changed)
        with says(str(path), "not as the run wrote it", "again"):
            read_run(copy)


#: How each command that writes a run is called on the demo; a large set and its filter rest on one another.
RUNS = {
    "bench": ("bench", "metrics=bleu_1", "statistics.interval=none"),
    "compare": ("compare", "metrics=bleu_1,cider", "statistics.replicates=20"),
    "rank": ("rank", "metrics=bleu_1", "statistics.replicates=20"),
    "agree": ("agree", "draws=2"),
    "complement": ("complement", "metrics=bleu_1,cider", "draws=2"),
    "sensitivity": ("sensitivity", "metrics=bleu_1", "draws=2"),
    "thresholds": ("thresholds", "metrics=bleu_1"),
    "train": ("train", "rater=combination", "rater.metrics=[bleu_1]", "rater.roots=[]"),
    "score": ("score", "candidates=mine.json", "references=references.json", "metrics=rouge_1"),
    "large": ("score", "candidates=rows.jsonl", "engine=local", "workers=0", "metrics=rouge_1"),
    "filter": ("score", "keep.run=large", "keep.metric=rouge_1", "keep.above=0.1"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mine.json").write_text('[{"image_id": "a", "caption": "a dog"}]')
    (folder / "references.json").write_text('{"a": ["the dog"]}')
    rows = [{"image_id": "a", "caption": "a dog", "references": ["the dog"]}] * 3
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, arguments in RUNS.items():
            assert run_captau(*arguments, f"output_dir={name}") in (None, 0), name
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_every_command_opens_every_run_and_none_one_whose_numbers_were_edited(
    runs, tmp_path, capsys, name
):
    folder = shutil.copytree(runs / name, tmp_path / "run")
    draws = name not in ("complement", "large", "filter")
    for command in ("table", "cite", "report", *(["plot"] if draws else [])):
        assert run_captau(command, f"run={folder}") in (None, 0), command
    record = json.loads((folder / "run.json").read_text())
    digests = record["files"]
    assert {"table.md", "table.tex"} <= set(digests)
    written = {p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")}
    assert set(digests) == written - {"run.json", "report.html"}
    edited = folder / next(file for file in digests if file.endswith(".csv"))
    content = edited.read_bytes()
    edited.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    capsys.readouterr()
    for command in ("table", "cite", "report", "plot"):
        assert run_captau(command, f"run={folder}") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{edited} is not as the run wrote it: cut short, or edited; run captau" in line


def test_a_table_or_figure_that_was_edited_is_not_shown(runs, tmp_path, capsys):
    """Where it is not shown it may be edited: people write into table.tex."""
    folder = shutil.copytree(runs / "rank", tmp_path / "run")
    for name, refused in (("table.md", ("table", "report")), ("systems.svg", ("report", "plot"))):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" ")
        for command in ("table", "cite", "report", "plot"):
            is_refused = run_captau(command, f"run={folder}") == 2
            assert is_refused == (command in refused)
            assert (f"{name} is not as the run wrote it" in capsys.readouterr().err) == is_refused
        (folder / name).write_bytes(content)


def test_two_runs_over_different_data(finished, copy):
    runs = [read_run(finished[0]), read_run(copy)]
    check_same_data(runs)
    runs[1].run["data"]["demo"]["digest"] = "0" * 64
    with says(str(finished[0]), str(copy), "different data", "demo"):
        check_same_data(runs)


def test_texts_are_texts(copy):
    """A column of remarks may be empty from top to bottom, and a metric be called NA."""
    for name in ("correlations.csv", "ranks.csv"):
        frame = pd.read_csv(copy / name)
        frame["metric"] = "NA"
        if "note" in frame:
            frame["note"] = ""
        rewrite(copy, name, frame)
    run = read_run(copy)
    assert set(run.correlations["note"]) == {""}
    assert set(run.correlations["metric"]) == set(run.ranks["metric"]) == {"NA"}
