"""The folder of docs/own_files.md, written out: every command knows its names, and errors name file and line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

import captau as python
from captau.benchmarks.cli.help import complete
from tests.benchmarks.edited_runs import edited_record
from tests.yaml_values import VALUES, name_of, paths_of, replaced

PAGE = Path(__file__).parents[3] / "docs" / "own_files.md"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Write the files that the page prints."""
    text = PAGE.read_text(encoding="utf-8")
    files = re.findall(
        r"^`(my/[\w./]+)` (?:is|has|stores) .*?^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert len(files) == 7
    for name, content in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return tmp_path / "my"


@pytest.mark.slow
def test_the_commands_of_the_page_run(own, captau, tmp_path):
    (block,) = re.findall(r"^```text\n(captau .*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    printed = [captau(*line.split()[1:]) for line in block.splitlines()]
    assert [status for status, _, _ in printed] == [0] * 5, printed
    overview, _, _, reproduced, table = [out for _, out, _ in printed]
    for names in ("datasets: .*street", "suites: .*short", "papers: .*doe_2026", "nts: quick"):
        assert re.search(names, overview, re.DOTALL)
    assert "1 of 1 recomputed cells match the printed digit" in reproduced
    assert "Streets" in table
    first = pd.read_csv(tmp_path / "run" / "correlations.csv")
    assert set(first["protocol"]) == {"one_reference references=first_k k=1"}
    assert set(first["metric"]) == {"bleu_1", "rouge_l", "cider(variant=plain)"}
    (quick,) = (tmp_path / "results" / "runs").glob("*-bench")
    rows = pd.read_csv(quick / "correlations.csv")
    assert set(rows["dataset"]) == {"street", "demo"}
    assert set(rows["coefficient"]) == {"tau_c", "tau_b", "spearman", "pearson"}
    assert set(pd.read_csv(quick / "ranks.csv")["coefficient"]) == {"tau_b"}
    assert "CAPTAU_CONFIG_DIR" not in os.environ


def test_typed_options_win_over_those_of_an_experiment(own, captau):
    words = ["experiment=quick", "dataset=demo", "--cfg", "job", "--config-dir", str(own)]
    _, out, err = captau("bench", *words)
    assert "replicates: 100" in out, err
    assert "street" not in out


@pytest.mark.slow
def test_own_names_are_swept_and_completed(own, captau, monkeypatch):
    monkeypatch.setenv("CAPTAU_CONFIG_DIR", "")  # so that what completion sets is undone
    flag = f"--config-dir={own}"
    words = ("-m", "dataset=street,demo", "metrics=bleu_1", "statistics.interval=none")
    assert captau("bench", *words, "output_dir=sweep", flag)[0] == 0
    for typed, expected in {
        "dataset=st": "dataset=street",
        "metrics=sh": "metrics=short",
        "experiment=": "experiment=quick",
    }.items():
        monkeypatch.setenv("COMP_LINE", f"captau bench {flag} {typed}")
        assert expected in complete(["-sc", "query=bash"]).split()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("protocol/strict.yaml", "references: all\nratings: meen\n", ":2: ratings: unknown value"),
        ("protocol/strict.yaml", "dimesion: x\n", ":1: dimesion: unknown field"),
        ("protocol/strict.yaml", "ratings: [\n", ":2: "),
        ("protocol/usual.yaml", "k: 1\n", ": captau has a protocol of this name"),
        ("protocol/strict.yaml", "", ":1: the file is empty; write its fields, or remove it"),
        (
            "dataset/mine.yaml",
            "file:\n  path: ratings.csv\n  low: one\n",
            ":3: file.low: 'one': a number is expected",
        ),
        ("suite/mine.yaml", "# mine\nmetrics: [blue]\n", ":2: metrics: unknown metric"),
        ("suite/mine.yaml", "metric: [cider]\n", ":1: metric: unknown field"),
        ("dataset/mine.yaml", "file:\n  path: none.csv\n", ":2: file.path: there is no file"),
        (
            "dataset/mine.yaml",
            "file:\n  path: ratings.csv\n  hi: 5\n",
            ":3: file.hi: unknown field",
        ),
        ("dataset/a-b.yaml", "file: {}\n", ": rename it"),
        ("datasets/mine.yaml", "file: {}\n", ": unknown folder 'datasets'"),
        ("paper/mine.yaml", "title: A\n", ":1: citation: "),
        ("experiment/mine.yaml", "metrics: short\nmetrcis: a\n", ":2: metrcis: unknown option"),
        (
            "experiment/mine.yaml",
            "statistics:\n  replicates: many\n",
            ":2: statistics.replicates: 'many': a whole number is expected",
        ),
    ],
)
def test_an_error_in_an_own_file_names_file_and_line(file, text, message, own, captau):
    path = own / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    words = ["experiment=mine"] if file.startswith("experiment") else []
    status, _, err = captau("bench", *words, "--config-dir", str(own))
    assert status == 2
    assert err.startswith(f"captau: {path}{message}"), err
    assert err.count("\n") == 1


#: The commands that take the files, by folder; no file of another folder is there.
READERS = {
    "dataset": ("bench", "dataset=mine"),
    "protocol": ("bench", "protocol=mine"),
    "suite": ("bench", "metrics=mine"),
    "paper": ("reproduce", "paper=mine"),
    "experiment": ("bench", "experiment=mine"),
}
#: Each folder's file with its keys, and the values among `VALUES` that a key may have, by its dotted name.
FUZZED = {
    "dataset": (
        {
            "file": {"path": "ratings.csv", "low": 1, "high": 5, "value": "rating", "scales": {"x": {"low": 1, "high": 5}}},
            "protocol": {"coefficients": ["tau_b"], "references": "first_k", "k": 1},
        },
        {
            "file.low": [None, 3.5],
            "file.high": [None, 3.5],
            "file.value": [None, 3.5, "one"],
            "file.scales": [None],
            "file.scales.x.low": [3.5],
            "file.scales.x.high": [3.5],
            "protocol": [None],
            "protocol.coefficients": [None],
        },
    ),
    "protocol": ({"ratings": "mean", "split": "test", "undefined": "nan"}, {
        "ratings": [None], "split": [None, 3.5, "one"], "undefined": [None],
    }),
    "suite": ({"metrics": ["bleu_1", "cider"]}, {}),
    "paper": (
        {
            "title": "Doe 2026",
            "citation": "@article{doe}",
            "tables": [
                {
                    "table": "Table 1",
                    "kind": "correlation",
                    "dataset": "demo",
                    "title": "Demo",
                    "scale": 100,
                    "protocol": {"ratings": "mean"},
                    "rows": {"ROUGE": "rouge_l"},
                    "columns": {"tau": {"coefficient": "tau_b", "protocol": {"ratings": "mean"}}},
                    "is_printed": True,
                    "note": "as printed",
                }
            ],
        },
        {
            "title": [3.5, "one"],
            "citation": [3.5, "one"],
            "tables[1].table": [3.5, "one"],
            "tables[1].title": [3.5, "one"],
            "tables[1].scale": [3.5],
            "tables[1].protocol": [None],
            "tables[1].protocol.ratings": [None],
            "tables[1].rows.ROUGE": [None],
            "tables[1].columns.tau.protocol": [None],
            "tables[1].columns.tau.protocol.ratings": [None],
            "tables[1].note": [3.5, "one"],
        },
    ),
    "experiment": (
        {
            "dataset": ["demo"],
            "metrics": ["bleu_1"],
            "protocol": {"coefficients": ["tau_b"], "ratings": "mean"},
            "statistics": {"replicates": 100, "level": 0.95, "interval": "none"},
            "details": True,
        },
        {
            "protocol.coefficients": [None],
            "protocol.ratings": [None],
            "statistics": [None],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, marks=[] if folder == "experiment" else pytest.mark.slow)
        for folder in FUZZED
    ],
)
def test_a_value_of_another_type_is_one_line_that_names_its_file(folder, captau, tmp_path):
    """Each value of each file is replaced by one of each type."""
    content, allowed = FUZZED[folder]
    file = tmp_path / "my" / folder / "mine.yaml"
    file.parent.mkdir(parents=True)
    (file.parent / "ratings.csv").write_text(
        "image,caption,rating,references\na,a dog,1,a dog runs\n"
    )
    (file.parent / "mine.csv").write_text(
        "table,dataset,row,column,published,trained,source,note\n"
    )
    for path in paths_of(content):
        name = name_of(path)
        for value in VALUES:
            changed = replaced(content, path, value)
            if changed == content or value in allowed.get(name, ()):
                continue
            file.write_text(yaml.safe_dump(changed))
            status, _, err = captau(*READERS[folder], "--config-dir=my", "--cfg", "job")
            assert (status, err.count("\n")) == (2, 1), (name, value, err)
            assert re.match(rf"captau: \S+/{folder}/mine.yaml:\d+: ", err), (name, value, err)

    # What is allowed is no error of the file.
    for name, values in allowed.items():
        path = tuple(
            int(key) - 1 if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", name)
        )
        file.write_text(yaml.safe_dump(replaced(content, path, values[-1])))
        status, _, err = captau(*READERS[folder], "--config-dir=my", "--cfg", "job")
        assert status == 0, (name, values[-1], err)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config-dir"], "--config-dir : a folder is expected"),
        (["--config-dir=nowhere"], "--config-dir nowhere: a folder is expected"),
        (["--config-dir=."], "no YAML file in it"),
        (["experiment=quick"], "unknown experiment 'quick'; known: none"),
    ],
)
def test_a_folder_or_experiment_that_is_not_there_is_one_line(words, message, captau):
    status, _, err = captau("bench", *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


def read_rows(folder):
    return pd.read_csv(folder / "correlations.csv")


def test_a_run_is_repeated_from_its_folder(captau, tmp_path):
    (tmp_path / "my ratings.csv").write_text(
        "image,caption,value,references\na,a dog runs,1,a dog\nb,a cat,3,a cat sits\nc,a bus,2,a bus\n"
    )
    words = [
        *("dataset=demo,file", "file.path=my ratings.csv", "file.high=5"),
        *("metrics=bleu_1,cider(variant=plain)", "protocol=mean_rating", "floors=true"),
        *("protocol.coefficients=tau_b", "statistics.replicates=50"),
    ]
    assert captau("bench", *words, "output_dir=first")[0] == 0
    status, _, err = captau("bench", "run=first", "output_dir=again")
    assert status == 0, err
    pd.testing.assert_frame_equal(read_rows(tmp_path / "again"), read_rows(tmp_path / "first"))
    first, again = (json.loads((tmp_path / f / "run.json").read_text()) for f in ("first", "again"))
    assert again["scores_computed"] == 0
    assert {**again["config"], "output_dir": "first"} == first["config"]


def test_typed_options_win_over_those_of_the_run(captau, tmp_path):
    assert captau("bench", "dataset=demo", "metrics=bleu_1,rouge_1", "output_dir=first")[0] == 0
    words = ("metrics=rouge_2", "statistics.interval=none", "output_dir=again")
    assert captau("bench", *words, "run=first")[0] == 0
    assert set(read_rows(tmp_path / "again")["metric"]) >= {"rouge_2"}
    assert "bleu_1" not in set(read_rows(tmp_path / "again")["metric"])


def test_a_run_from_python_and_one_of_another_command_give_their_options(captau, tmp_path):
    protocol = {"coefficients": ["pearson"]}
    metrics = ["bleu_1", "rouge_1"]
    python.bench("demo", metrics, protocol=protocol, output_dir=tmp_path / "first")
    words = ("run=first", "statistics.replicates=20", "output_dir=again")
    status, _, err = captau("compare", *words)
    assert status == 0, err
    rows = pd.read_csv(tmp_path / "again" / "significance.csv")
    assert set(rows["coefficient"]) == {"pearson"}
    assert set(rows["metric_a"]) == {"bleu_1"}


@pytest.mark.slow
def test_agree_takes_the_run_of_a_bench_without_its_metrics(captau, tmp_path):
    run = tmp_path / "bench"
    assert captau("bench", "metrics=bleu_1", f"output_dir={run}")[0] == 0
    assert captau("agree", f"run={run}", f"output_dir={tmp_path / 'agree'}")[0] == 0
    assert captau("agree", "dataset=demo", f"output_dir={tmp_path / 'demo'}")[0] == 0
    of_run, of_demo = (tmp_path / name / "agreement.csv" for name in ("agree", "demo"))
    assert of_run.read_bytes() == of_demo.read_bytes() != b""

    # What `agree` leaves open, `bench` has its own default for.
    again = ("bench", f"run={tmp_path / 'agree'}", "--cfg", "job")
    status, out, err = captau(*again)
    assert (status, err) == (0, "")
    assert "- text" in out or "metrics: text" in out


def test_a_score_run_is_repeated(captau, tmp_path):
    (tmp_path / "c, d.json").write_text(json.dumps({"1": "a dog", "2": "a cat"}))
    (tmp_path / "r.json").write_text(json.dumps({"1": ["a dog runs"], "2": ["a cat sits"]}))
    files = ("candidates=mine=c, d.json", "references=r.json", "metrics=bleu_1")
    assert captau("score", *files, "output_dir=first")[0] == 0
    assert captau("score", "run=first", "output_dir=again")[0] == 0
    first, again = (tmp_path / name / "corpus.json" for name in ("first", "again"))
    assert again.read_bytes() == first.read_bytes()


def test_a_score_run_from_python_is_repeated_with_all_its_options(captau, tmp_path):
    """Systems by name, the text rule, the threshold and `trust=None` are options of the run too."""
    for name, caption in (("a", "A dog, running"), ("b", "a CAT")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"1": caption, "2": "a bus"}))
    (tmp_path / "r.json").write_text(json.dumps({"1": ["a dog is running!"], "2": ["the bus"]}))
    a, b, references = (tmp_path / f"{name}.json" for name in "abr")
    options = {"normalise": "thumb", "trust": None}
    python.score({"mine": a, "b": b}, references, "rouge_l", output_dir=tmp_path / "two", **options)
    options |= {"keep_metric": "rouge_l", "keep_above": 0.5}
    python.score(a, references, "rouge_l", output_dir=tmp_path / "kept", **options)
    for folder, names in (("two", ["corpus.csv", "scores.csv"]), ("kept", ["kept.json"])):
        status, _, err = captau("score", f"run={folder}", "output_dir=again")
        assert status == 0, err
        for name in names:
            first, again = (tmp_path / place / name for place in (folder, "again"))
            assert again.read_bytes() == first.read_bytes()


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("bench", ["run=nowhere"], "run=nowhere is not a folder"),
        ("bench", ["run=first,first"], "one folder is expected"),
        ("score", ["run=first"], "first is a run of captau bench; one of score is expected"),
    ],
)
def test_a_run_that_cannot_be_repeated_is_one_line(command, words, message, captau):
    words_of_first = ("metrics=bleu_1", "statistics.interval=none", "output_dir=first")
    assert captau("bench", *words_of_first)[0] == 0
    status, _, err = captau(command, *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_java_that_a_run_names_is_started_only_if_it_is_typed_too(captau, tmp_path):
    words = ("dataset=demo", "metrics=bleu_1", "statistics.interval=none", "output_dir=first")
    assert captau("bench", *words)[0] == 0
    with edited_record(tmp_path / "first") as record:
        record["config"]["java"] = {"home": "./evil"}
    status, _, err = captau("bench", "run=first", "output_dir=again")
    assert status == 2
    assert "java.home of a stored run or experiment names programs to run" in err
    status, _, err = captau("bench", "run=first", "output_dir=again", "java.home=null")
    assert status == 0, err


def test_datasets_of_another_type_in_a_run_are_one_line(captau, tmp_path):
    words = ("dataset=demo", "metrics=bleu_1", "statistics.interval=none", "output_dir=first")
    assert captau("bench", *words)[0] == 0
    with edited_record(tmp_path / "first") as record:
        record["config"]["datasets"] = 7
    status, _, err = captau("bench", "run=first", "output_dir=again")
    assert status == 2
    assert "first/run.json: config.datasets is 7; names are expected" in err


def test_a_run_of_python_objects_is_repeated_only_with_files(captau, tmp_path):
    captions, references = {"1": "a dog"}, {"1": ["a dog runs"]}
    python.score(captions, references, "bleu_1", output_dir=tmp_path / "scored")
    for name, texts in (("c.json", captions), ("r.json", references)):
        (tmp_path / name).write_text(json.dumps(texts))
    files = [f"candidates={tmp_path / 'c.json'}", f"references={tmp_path / 'r.json'}"]
    status, _, err = captau("score", f"run={tmp_path / 'scored'}")
    assert status == 2
    assert "was run from Python objects that were not saved (candidates, references)" in err
    assert captau("score", f"run={tmp_path / 'scored'}", *files)[0] == 0
    python.bench(python.load("demo"), "bleu_1", output_dir=tmp_path / "measured")
    assert (
        "objects that were not saved (dataset)"
        in captau("bench", f"run={tmp_path / 'measured'}")[2]
    )
