"""Finished runs as tables and reports read them (`benchmarks/runs/finished_run.py`)."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.runs.finished_run import check_same_data, read_run, read_runs
from captau.datasets.errors import InputError
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.reporting.made_runs import rewrite
from tests.benchmarks.runs.made_folders import make_run
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
    *parents, name = path.split(".")
    with edited_record(folder) as record:
        fields = record
        for parent in parents:
            fields = fields[parent]
        change(fields, name)


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
    with edited_record(copy) as record:
        record.pop("files")  # as captau 0.1 wrote it
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
    "train": ("train", "rater=icr", "rater.epochs=2", "statistics.interval=none"),
    "score": ("score", "candidates=mine.json", "references=references.json", "metrics=rouge_1"),
    "large": ("score", "candidates=rows.jsonl", "engine=local", "workers=0", "metrics=rouge_1"),
    "filter": ("score", "keep.run=large", "keep.metric=rouge_1", "keep.above=0.1"),
}


@pytest.fixture(scope="module")
def make_named_run(tmp_path_factory):
    """Return a function that makes a run of `RUNS` where a test first asks for it, and returns its folder."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mine.json").write_text('[{"image_id": "a", "caption": "a dog"}]')
    (folder / "references.json").write_text('{"a": ["the dog"]}')
    rows = [{"image_id": "a", "caption": "a dog", "references": ["the dog"]}] * 3
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def make(name):
        if name == "filter":
            make("large")
        if not (folder / name).exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                assert run_captau(*RUNS[name], f"output_dir={name}") == 0, name
        return folder / name

    return make


#: The marks of runs; those without one are opened in the quick tier, and the others by the same code.
MARKS = {"score": [], "train": pytest.mark.training}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, pytest.mark.slow)) for name in RUNS]
)
def test_every_command_opens_every_run_and_none_one_whose_numbers_were_edited(
    make_named_run, tmp_path, capsys, name
):
    folder = shutil.copytree(make_named_run(name), tmp_path / "run")
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


@pytest.mark.slow
def test_a_table_or_figure_that_was_edited_is_not_shown(make_named_run, tmp_path, capsys):
    """Where it is not shown it may be edited: people write into table.tex."""
    folder = shutil.copytree(make_named_run("rank"), tmp_path / "run")
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


HEAD = "dataset,protocol,dimension,metric,coefficient,value,n_items,n_ratings,ci_low,ci_high,p_value,note\n"

CORRELATIONS = HEAD + (
    "demo,usual,overall,NA,tau_c,0.5,9,18,,,,\n"
    "demo,usual,overall,NA,tau_b,0.25,9,18,,,,odd\n"
    "other,paper,,b,tau_b,0.125,9,18,,,,\n"
    "third,unknown,,b,rho,1,9,18,,,,\n"
)

PROTOCOLS = {
    "demo": {"name": "usual", "ratings": "mean", "coefficients": ["tau_c"]},
    "table 1": {"name": "paper", "ratings": "mean", "coefficients": ["tau_b"]},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_bench(**record: Any) -> Path:
    more = {"protocols": PROTOCOLS, "data": {}, "signatures": {}}
    return make_run({"correlations.csv": CORRELATIONS}, **{**more, **record})


def test_correlations_and_those_whose_coefficient_the_protocol_names(here: Path) -> None:
    run = read_run(make_bench())
    assert (run.command, run.files) == ("bench", ("correlations.csv",))
    assert (run.has_correlations, run.has_corpus_scores) == (True, False)
    assert run.correlations["metric"].tolist() == ["NA", "NA", "b", "b"]
    assert run.correlations["note"].tolist() == ["", "odd", "", ""]
    assert run.correlations["dimension"].tolist() == ["overall", "overall", "", ""]
    assert run.correlations["p_value"].isna().all()
    assert run.find_protocol("demo", "paper") == PROTOCOLS["demo"]
    assert run.find_protocol("x", "paper") == PROTOCOLS["table 1"]
    assert run.find_protocol("x", "y") is None
    printed = run.printed_correlations
    assert printed["value"].tolist() == [0.5, 0.125, 1]
    assert printed.index.tolist() == [0, 1, 2]
    assert run.rank_by_key == {}
    assert run.words.to_csv(index=False) == "dataset,item_id,position,word,source,value\n"


def test_every_table_of_a_run(here: Path) -> None:
    files = {
        "ranks.csv": "dataset,dimension,coefficient,metric,rank\nd,x,tau_c,a,2\nd,,tau_c,b,1\n",
        "overview.csv": "metric,dataset,dimension,coefficient,value,ci_low,ci_high,rank,note\na,d,,t,1,,,1,\n",
        "significance.csv": "dataset,protocol,dimension,coefficient,metric_a,metric_b,value_a,value_b,"
        "difference,ci_low,ci_high,test,p_value,p_holm,p_bh,n_ratings,n_images,replicates,note\n",
        "scores.csv": "item_id,image_id,NA\n01,NA,0.5\n",
        "differences.csv": "references,metric,system_a,system_b\n,m,NA,B\n",
        "texts.csv": "a,b\n,NA\n",
    }
    run = read_run(make_run(files, "compare"))
    pd.DataFrame(
        {"dataset": ["d"], "item_id": ["i"], "position": [0], "word": ["w"]}
        | {"source": ["people"], "value": [1.0]}
    ).to_parquet("run/words.parquet")
    assert run.rank_by_key == {("d", "x", "tau_c", "a"): 2, ("d", "", "tau_c", "b"): 1}
    assert run.overview["note"].tolist() == run.overview["dimension"].tolist() == [""]
    assert len(run.significance) == 0
    assert run.caption_scores.values.tolist() == [["01", "NA", 0.5]]
    assert run.differences.values.tolist() == [["", "m", "NA", "B"]]
    assert run.read_texts("texts.csv").values.tolist() == [["", "NA"]]
    assert run.words.empty, "the run did not write it"
    assert run.has_file("ranks.csv")
    assert not run.has_file("words.parquet")
    assert run.path_of("texts.csv") == Path("run/texts.csv")
    remedy = "run captau compare output_dir=run again"
    for name in ("table.md", "words.parquet"):
        with says(f"run/{name} is missing; {remedy}"):
            run.path_of(name)
    with says(f"run/absent.csv is missing; {remedy}"):
        run.read_texts("absent.csv")
    Path("run/texts.csv").write_text('a,b\n"')
    with says("run/texts.csv cannot be read (", f"); {remedy}"):
        run.read_texts("texts.csv")
    with says("run/texts.csv is not as the run wrote it: cut short, or edited; " + remedy):
        run.path_of("texts.csv")
    Path("run/ranks.csv").unlink()
    assert not run.has_file("ranks.csv")
    Path("run/overview.csv").write_text("metric,value\n")
    lost = "dataset, dimension, coefficient, ci_low, ci_high, rank, note"
    with says(f"run/overview.csv has no column {lost}; {remedy}"):
        _ = read_run("run", checks_numbers=False).overview


def test_words_that_the_run_wrote(here: Path) -> None:
    run = read_run(make_run({"words.parquet": ""}), checks_numbers=False)
    Path("run/words.parquet").unlink()
    assert run.words.empty, "it is not here any more"
    frame = {"dataset": ["d"], "item_id": ["i"], "position": [0], "word": ["w"]}
    pd.DataFrame({**frame, "source": ["people"], "value": [1.0]}).to_parquet("run/words.parquet")
    run = read_run("run", checks_numbers=False)
    assert run.words.values.tolist() == [["d", "i", 0, "w", "people", 1.0]]


def test_files_of_a_run_that_names_none(here: Path) -> None:
    folder = make_run({"wins.csv": "", "systems.csv": "", "table.md": "", "mine.csv": ""}, "rank")
    with edited_record(folder) as record:
        del record["files"]
    run = read_run(folder)
    assert run.files == ("systems.csv", "wins.csv", "table.md")


CORPUS = (
    "system,references,metric,score,ci_low,ci_high,n_images,agreement,agreement_coefficient,agreement_on,note\n"
    "NA,,cider,0.5,,,3,,,,\nNA,,bleu_1,0.5,,,3,,,,\n"
)

STYLE = {
    **{"label": "CIDEr", "note": "", "kind": "given", "citation": "", "order": 1, "scale": 1.0},
    **{"decimals": 1, "higher_is_better": True},
}


def test_corpus_scores(here: Path) -> None:
    record = {"signatures": {}, "config": {"statistics": {}}}
    styles = {"cider": STYLE, "bleu_1": STYLE}
    run = read_run(make_run({"corpus.csv": CORPUS}, "score", metrics=styles, **record))
    assert run.has_corpus_scores
    assert run.corpus["system"].tolist() == ["NA", "NA"]
    assert run.corpus["agreement_on"].tolist() == ["", ""]
    del run.run["metrics"]["bleu_1"]
    again = read_run(
        make_run({"corpus.csv": CORPUS}, "score", metrics={"cider": STYLE}, folder="b", **record)
    )
    with says("b/run.json: metrics.bleu_1 is missing; run captau score output_dir=b again"):
        _ = again.corpus
    make_run({"corpus.csv": CORPUS}, "score", metrics=styles, folder="c", signatures={})
    with says("c/run.json: config.statistics is missing; the file was edited; run it again"):
        read_run("c")
    null = {"config": {"statistics": None}}
    make_run({"corpus.csv": CORPUS}, "score", metrics=styles, folder="d", signatures={}, **null)
    with says("d/run.json: config.statistics is None, not dict; the file was edited; run it again"):
        read_run("d")
    assert read_run(make_bench(folder="e", **null)).run["config"] == {"statistics": None}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"versions": {}}, "versions.captau is missing"),
        ({"versions": {"captau": "9", "numpy": 2}}, "versions.numpy is 2, not str"),
        ({"config": []}, "config is [], not dict"),
        ({"n_images": {"a": True}}, "n_images.a is True, not int"),
        ({"n_images": {"a": 1.5}}, "n_images.a is 1.5, not int"),
        ({"unfinished": ["a", 1]}, "unfinished.1 is 1, not str"),
        ({"unfinished": {"a": "x"}}, "unfinished is {'a': 'x'}, not list"),
        ({"metrics": {"a": {**STYLE, "scale": "1"}}}, "metrics.a.scale is '1', not int or float"),
        (
            {"metrics": {"a": {**STYLE, "scale": False}}},
            "metrics.a.scale is False, not int or float",
        ),
        (
            {"metrics": {"a": {**STYLE, "higher_is_better": 1}}},
            "metrics.a.higher_is_better is 1, not bool",
        ),
        (
            {"protocols": {"a": {**PROTOCOLS["demo"], "split": 3}}},
            "protocols.a.split is 3, not str or null",
        ),
        (
            {"protocols": {"a": {"name": "x", "coefficients": []}}},
            "protocols.a.ratings is missing",
        ),
        ({"left_out": {"a": {}}}, "left_out.a.message is missing"),
        ({"data": {"a": 5}}, "data.a is 5, not dict"),
        (
            {"signatures": {"a": ["x" * 100]}},
            "signatures.a is ['" + "x" * 58 + ", not str",
        ),
    ],
)
def test_fields_of_another_type(here: Path, changes: dict[str, Any], line: str) -> None:
    make_run({}, **changes)
    with pytest.raises(InputError) as caught:
        read_run("run")
    assert str(caught.value) == f"run/run.json: {line}; the file was edited; run it again"


def test_a_run_of_score_may_have_data_of_its_own_make(here: Path) -> None:
    assert read_run(make_run({}, "score", data={"a": {"files": 5}})).run["data"] == {
        "a": {"files": 5}
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[]", "run/run.json names no command; it is not captau's"),
        ('{"command": 5}', "run/run.json names no command; it is not captau's"),
        (
            "{",
            "run/run.json cannot be read (Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)); run it again",
        ),
        (
            '{"a": Infinity}',
            "run/run.json cannot be read (Infinity is no number of JSON); run it again",
        ),
        (
            '{"command": "collect export"}',
            "run holds a study's answers, and no measure of them yet; run captau agree dataset=file "
            "file.path=run/ratings.csv output_dir=agreement, then captau report run=agreement",
        ),
        (
            '{"command": "bench", "format": 2, "versions": {"captau": "8"}}',
            "run was written in another form, by captau 8; run captau bench output_dir=run again",
        ),
        (
            '{"command": "bench", "versions": 3}',
            "run was written in another form, by captau another version; run captau bench output_dir=run again",
        ),
        (
            '{"command": "bench", "format": 1, "config": {"statistics": {"a": 1}}, "versions": {"captau": "9"}}',
            "run/run.json: config.statistics: StatisticsOptions.__init__() got an unexpected keyword argument 'a'; "
            "run it again",
        ),
    ],
)
def test_records_that_are_none(here: Path, text: str, line: str) -> None:
    make_run({})
    Path("run/run.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_run("run")
    assert str(caught.value) == line


def test_what_a_command_needs_of_a_run(here: Path) -> None:
    make_run({}, "agree")
    line = "run is a run of captau agree, which writes no scores.csv; name a run that has it"
    with pytest.raises(InputError) as caught:
        read_run("run", "scores.csv")
    assert str(caught.value) == line
    make_run({"table.md": "", "a.csv": "x"}, "agree", folder="b")
    with pytest.raises(InputError) as caught:
        read_run("b", "scores.csv")
    assert str(caught.value) == f"b{line[3:]}; table.md in it is its table"
    assert read_run("b", "a.csv").files == ("table.md", "a.csv")
    for name, is_of_numbers in (("table.md", False), ("a.csv", True)):
        Path("b", name).write_text("y")
        if is_of_numbers:
            with says("b/a.csv is not as the run wrote it: cut short, or edited"):
                read_run("b")
        assert read_run("b", checks_numbers=not is_of_numbers)
    with says("run=c is not a folder; captau bench says where it wrote to"):
        read_run("c")
    Path("c").mkdir()
    with says(
        "c has no run.json: the run is unfinished, or this is not a run's folder; run it again"
    ):
        read_run("c")


def test_a_warning_of_an_unfinished_run(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_run(make_run({}, unfinished=["a", "b"]))
        read_run(make_run({}, folder="b", unfinished=[]))
    line = "run is unfinished: a, b is missing; captau bench run=run output_dir=run completes it"
    assert caplog.messages == [line]


def test_runs_that_can_be_shown_together(here: Path) -> None:
    first, second, third = (make_bench(folder=name) for name in "abc")
    assert [run.folder for run in read_runs([first, second, third])] == [first, second, third]
    assert [run.folder for run in read_runs([third])] == [third]
    other = make_run({}, "agree", folder="d")
    with pytest.raises(InputError) as caught:
        read_runs([first, second, other])
    assert str(caught.value) == (
        "d is a run of captau agree, which has other results than a, one of captau bench; "
        "name runs with the same kind of results"
    )
    with says("a is a run of captau bench, which has other results than d, one of captau agree"):
        read_runs([other, first])


def test_runs_of_the_same_data(here: Path) -> None:
    plain = {"revision": "1", "title": "T", "citation": "", "synthetic": True}

    def run_of(folder: str, **digests: str) -> Any:
        data = {name: {**plain, "digest": digest * 64} for name, digest in digests.items()}
        return read_run(make_bench(folder=folder, data=data))

    runs = [run_of("a", x="1"), run_of("b", y="2"), run_of("c", x="1", y="2"), run_of("d", y="3")]
    check_same_data(runs[:3])
    check_same_data([read_run(make_run({}, folder="e")), *runs[:3]])
    with pytest.raises(InputError) as caught:
        check_same_data(runs)
    assert str(caught.value) == (
        "b and d measure different data: y has the digest 222222222222 in one and 333333333333 in the other; "
        "run one of them again"
    )
