"""What Hydra documents, done with captau: each usage works as Hydra's does, or is refused in one line.

The usages are those of Hydra 1.3's documentation: its grammar of overrides, its command-line flags, its output folders,
its config groups and search path, and its sweeps.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from tests.conftest import run_captau

#: A run that takes a moment: a cheap metric, and no intervals.
CHEAP = ("metrics=rouge_1", "statistics.interval=none", "ceilings=false")
HYDRA_FILES = ["config.yaml", "hydra.yaml", "overrides.yaml"]

EXPERIMENT = """\
# @package _global_
defaults:
  - /model: big
  - override /protocol: mean_rating

metrics: rouge_1,rouge_2
protocol:
  coefficients: tau_b,spearman
statistics:
  interval: none
  seed: ${model.size}
"""

SWEPT = """\
hydra:
  mode: MULTIRUN
  sweep: {dir: s}
  sweeper:
    params:
      statistics.seed: 7,8
"""


@pytest.fixture
def my(tmp_path: Path) -> Path:
    """Write a folder of one's own files: an experiment, a group of its own and a primary file."""
    files = {
        "experiment/quick.yaml": EXPERIMENT,
        "experiment/swept.yaml": SWEPT,
        "model/big.yaml": "size: 30\n",
        "model/small.yaml": "size: 4\n",
        "my_bench.yaml": "defaults: [bench, _self_]\nmetrics: rouge_l\nstatistics: {interval: none}\n",
        "lone.yaml": "metrics: rouge_l\n",
    }
    for name, text in files.items():
        path = tmp_path / "my" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "my"


def hydra_files(folder: Path, name: str = ".hydra") -> list[str]:
    return sorted(path.name for path in (folder / name).iterdir())


def read_metrics(folder: Path) -> list[str]:
    return list(dict.fromkeys(pd.read_csv(folder / "correlations.csv")["metric"]))


def read_seed(folder: Path) -> int:
    return json.loads((folder / "run.json").read_text())["config"]["statistics"]["seed"]


def test_a_run_has_hydras_files_beside_its_own(captau, tmp_path):
    assert captau("bench", *CHEAP, "+note=mine", "hydra.verbose=false", "output_dir=run")[0] == 0
    folder = tmp_path / "run"
    assert hydra_files(folder) == HYDRA_FILES
    overrides = yaml.safe_load((folder / ".hydra" / "overrides.yaml").read_text())
    assert overrides == ['metrics=["rouge_1"]', *CHEAP[1:], "+note=mine", "output_dir='run'"]
    config = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text())
    assert (config["metrics"], config["note"], config["datasets"].keys()) == (
        ["rouge_1"],
        "mine",
        {"demo"},
    )
    hydra = yaml.safe_load((folder / ".hydra" / "hydra.yaml").read_text())["hydra"]
    assert hydra["runtime"]["output_dir"] == str(folder)
    assert hydra["overrides"]["hydra"] == ["hydra.verbose=false", "hydra.mode=RUN"]


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["hydra.run.dir=there"], "there"),
        (["hydra.run.dir=of/${hydra.job.name}/${protocol.name}"], "of/captau/usual"),
        (["output_dir=of/${statistics.seed}"], "of/0"),
        ([r"output_dir=of\,two\ words"], "of,two words"),
        (["hydra.run.dir=."], "."),
        (["hydra.run.dir=${oc.env:MY_FOLDER}"], "from/env"),
        (["hydra.job.name=mine", "hydra.run.dir=${hydra.job.name}"], "mine"),
    ],
)
def test_a_run_writes_where_hydra_is_told_to(words, folder, captau, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_FOLDER", "from/env")
    status, out, err = captau("bench", *CHEAP, *words)
    assert status == 0, err
    assert f"written to {tmp_path if folder == '.' else folder}\n" in out
    assert (tmp_path / folder / "run.json").is_file()
    assert hydra_files(tmp_path / folder) == HYDRA_FILES
    assert not (tmp_path / "results").exists()


def test_the_folder_of_hydras_files_has_the_name_that_is_typed(captau, tmp_path):
    assert captau("bench", *CHEAP, "output_dir=a", "hydra.output_subdir=hydra")[0] == 0
    assert hydra_files(tmp_path / "a", "hydra") == HYDRA_FILES
    assert captau("bench", *CHEAP, "output_dir=b", "hydra.output_subdir=null")[0] == 0
    assert (tmp_path / "b" / "run.json").is_file()
    assert not [path for path in (tmp_path / "b").iterdir() if path.is_dir()]


def test_a_job_works_in_its_folder_if_it_is_told_to(captau, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n\n"
        "def where(items):\n"
        "    Path('here').touch()\n"
        "    return [float(len(caption)) for caption in items['caption']]\n"
    )
    metric = f"metrics={tmp_path}/mine.py:where"
    words = (metric, *CHEAP[1:], "cache.use=false", "output_dir=run")
    assert captau("bench", *words, "hydra.job.chdir=true")[0] == 0
    assert (tmp_path / "run" / "here").is_file()
    assert Path.cwd() == tmp_path
    assert captau("bench", *words)[0] == 0
    assert (tmp_path / "here").is_file()


@pytest.mark.slow
def test_commands_without_a_run_leave_no_folder(captau, tmp_path):
    (tmp_path / "c.json").write_text('{"1": "a dog"}')
    (tmp_path / "r.json").write_text('{"1": ["a dog runs"]}')
    score = ("score", "candidates=c.json", "references=r.json", "metrics=bleu_1")
    for words in (
        ("data", "list"),
        (*score, "stdout=corpus.json"),
        ("score", "references=r.json", "save_df=df.json"),
    ):
        assert captau(*words)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "df.json", "r.json"]
    for folder in ("output_dir=run", "hydra.run.dir=there"):
        assert captau(*score, "stdout=corpus.json", folder)[0] == 0
        assert hydra_files(tmp_path / folder.partition("=")[2]) == HYDRA_FILES
        assert (tmp_path / folder.partition("=")[2] / "corpus.json").is_file()
    status, _, err = captau("data", "list", "hydra.run.dir=new")
    assert (status, err) == (
        2,
        "captau: captau data list writes no run here; leave out hydra.run.dir=\n",
    )
    assert not (tmp_path / "new").exists()


def test_a_run_that_fails_leaves_no_folder_that_it_made(captau, tmp_path):
    (tmp_path / "kept").mkdir()
    for folder in ("kept", "new/and/deep", None):
        words = () if folder is None else (f"output_dir={folder}",)
        status, _, err = captau("bench", "metrics=nowhere.csv", *words)
        assert (status, err.count("\n")) == (2, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("words", "status", "parts"),
    [
        (["+model.size=3", "--cfg", "job", "-p", "model"], 0, ["size: 3"]),
        (["++floors=true", "--cfg", "job", "--package", "floors"], 0, ["True"]),
        (["++fresh.key=[1,2]", "--cfg", "job", "-p", "fresh"], 0, ["key:", "- 1"]),
        (["+floors=true"], 2, ["An item is already at 'floors'; leave out the +"]),
        (["~cache.use", "--cfg", "job", "-p", "cache"], 0, ["root: null\nscores: null\n"]),
        (["~java", "--cfg", "job", "-p", "java"], 2, ["package 'java' not found in config"]),
        (["~floors"], 2, ["captau bench needs the option floors=", "leave out ~floors"]),
        (["~dataset"], 2, ["dataset is empty"]),
        (["+protocol@other=mean_rating", "--cfg", "job", "-p", "other"], 0, ["ratings: mean"]),
        (["protocol@other=usual"], 2, ["write +protocol@other=usual"]),
        (["+seeed=1", "+flors=true"], 2, ["unknown option", "did you mean floors"]),
        (["statistics.seed=1,2"], 2, ["add --multirun for a run of each"]),
        (["--cfg", "hydra", "-p", "hydra.job"], 0, ["name: captau"]),
        (["--cfg", "job", "--resolve", "title=x"], 2, ["unknown option of captau bench 'title'"]),
        (["--cfg", "all", "--multirun"], 2, ["--cfg does not go with --multirun"]),
        (["--info", "searchpath"], 0, ["captau.conf", "captau://"]),
        (["--info", "defaults"], 0, ["dataset/demo", "datasets.demo"]),
        (["-i", "defaults-tree"], 0, ["dataset: demo"]),
        (["--info", "plugins"], 0, ["BasicLauncher"]),
        (["--info", "config"], 0, ["replicates: 1000"]),
        (["--hydra-help"], 0, ["--config-dir,-cd"]),
        (["--run", *CHEAP, "output_dir=run"], 0, ["written to run"]),
        pytest.param(["-r", "hydra.mode=RUN", *CHEAP, "output_dir=run"], 0, ["written to run"], marks=pytest.mark.slow),
        (["-cp", "elsewhere"], 2, ["--config-dir DIR adds yours"]),
        (["--experimental-rerun", "job.pickle"], 2, ["run=DIR repeats a finished run"]),
        (["-m", "hydra/sweeper=optuna"], 2, ["pip install 'hydra-optuna-sweeper'"]),
        (["-m", "hydra/sweeper=nope"], 2, ["unknown hydra/sweeper 'nope': known: basic"]),
        (["-m", "hydra/launcher=nope"], 2, ["unknown hydra/launcher 'nope': known: basic"]),
        (["hydra.nothing=1"], 2, ["Hydra has no option hydra.nothing; +hydra.nothing=… adds it"]),
        (["+hydra.callbacks.x._target_=no.Class"], 2, ["Error locating target 'no.Class': No module"]),
        (["hydra.mode=NOTHING"], 2, ["NOTHING"]),
        (["--cfg", "nothing"], 2, ["--cfg nothing: one of job, hydra, all is expected"]),
        (["--info", "nothing"], 2, ["--info nothing: one of "]),
        (["--cfg", "job", "--package", "nothing"], 2, ["package 'nothing' not found in config"]),
        (["--hydra-help", *CHEAP], 0, ["--config-dir,-cd"]),
        (["hydra.help.template=x"], 2, ["hydra.help.template= changes nothing"]),
        (["hydra/help=default"], 2, ["hydra/help= changes nothing"]),
        (["hydra.searchpath=[file://nowhere]"], 2, ["path=nowhere is not available", "name a folder that is there"]),
        (["-m", "metrics=glob(bleu*)"], 2, ["glob() finds files of config groups", "write metrics=A,B"]),
        (["-m", "dataset=glob(nothing*)"], 2, ["no dataset matches; known: "]),
        (["-m", "statistics.seed=interval(1,3)"], 2, ["an interval needs a sweeper such as hydra/sweeper=optuna"]),
        (["-m", "statistics.seed=range(a)"], 2, ["captau: range(a): mismatch type argument start"]),
        (["-m", "statistics.seed=choice()"], 2, ["captau: choice(): empty choice is not legal"]),
        (["statistics.seed=int(x)"], 2, ["captau: int(x): invalid literal for int()"]),
        (["statistics.seed=nope(3)"], 2, ["Hydra 1.3 has no function nope; known: bool,choice,float,glob"]),
        (["+x=json_str({a:1})"], 2, ["Hydra 1.3 has no function json_str; known: "]),
        (["metrics=extend_list(bleu_1)"], 2, ["no function extend_list; write the whole list, as metrics=A,B"]),
        (["output_dir=o/${hydra.job.override_dirname}"], 2, ["write hydra.run.dir=… instead"]),
        (["-m", "hydra.run.dir=there"], 2, ["hydra.run.dir=there is of a single run; write hydra.sweep.dir="]),
        (["hydra.sweep.dir=there"], 2, ["hydra.sweep.dir=there is of a sweep; add --multirun"]),
        (["hydra.sweep.subdir=x", "-m", "hydra.mode=RUN"], 2, ["hydra.sweep.subdir=x is of a sweep"]),
        (["-m", "statistics.seed=1,2", "output_dir=s/${statistics.seed}"], 2, ["write hydra.sweep.subdir=${statistics.seed} beside it"]),
        (["-m", "hydra.sweeper.params={metrics: 'rouge_1,rouge_2'}"], 2, ["Hydra cannot set hydra.sweeper.params on"]),
        (["-m", "+hydra.sweeper.params.metrics=rouge_1"], 2, ["write KEY=A,B or KEY=range(…) there"]),
        (["-m", "hydra.sweeper.direction=[maximize,minimize]"], 2, ["a command returns one value"]),
        (["-m", "statistics.seed=range(3,1)"], 2, ["the range has no values"]),
        (["-m", "+hydra.sweeper.params.statistics.seed=1"], 2, ["Hydra cannot set hydra.sweeper.params on"]),
        (["hydra.run.dir=a", "output_dir=b"], 2, ["hydra.run.dir= and output_dir= name the same folder; leave one"]),
        (["-m", "hydra.sweep.dir=a", "output_dir=b"], 2, ["hydra.sweep.dir= and output_dir= name the same folder"]),
        (["hydra/launcher=basic"], 2, ["hydra/launcher=basic is of a sweep; add --multirun, or leave it out"]),
        (["hydra.sweeper.max_batch_size=3"], 2, ["hydra.sweeper.max_batch_size=3 is of a sweep"]),
        (["--cfg", "hydra", "-p", "hydra.sweep.dir", "hydra.sweep.dir=x"], 0, ["x\n"]),
        (["hydra.job.env_set={FOO:bar}"], 2, ["hydra.job.env_set has no FOO yet; +hydra.job.env_set=… adds it"]),
        (["~statistics"], 2, ["leave out ~statistics\n"]),
        (["++dataset=demo"], 2, ["force-add of config groups is not supported: '++dataset=demo'; leave out the ++"]),
        (["+dataset=demo"], 2, ["dataset appears more than once", "leave out the +"]),
        (["+protocol=mean_rating"], 2, ["Multiple values for protocol", "on the command line, leave out the +"]),
        (["protocol=usual,mean_rating"], 2, ["add --multirun for a run of each, or write protocol=[usual,mean_rating]"]),
        (["hydra.searchpath=[file://.]", "protocol=mine"], 2, ["a protocol of your own lies in --config-dir DIR"]),
        (["--config-dir=.", "--config-dir=."], 2, ["--config-dir is given 2 times; hydra.searchpath=[file://DIR] adds"]),
        (["+hydra.callbacks.x._target_=no.Class"], 2, ["PYTHONPATH=FOLDER says where a module of your own lies"]),
        (["statistics={seed:3,level:0.9}", "--cfg", "job", "-p", "statistics"], 0, ["seed: 3", "level: 0.9"]),
        (["statistics={sed:3}"], 2, ["'statistics.sed': did you mean statistics.seed"]),
        (["protocol={coefficients:[tau_b,pearson]}", "--cfg", "job", "-p", "protocol"], 0, ["- tau_b\n- pearson\n"]),
        (["--cfg", "job", "statistics.seed=int(3.0)", "+a.b=1"], 0, ["seed: 3", "b: 1"]),
        (["--cfg", "job", "--resolve", "statistics.seed=${oc.env:NOPE,5}"], 0, ["seed: 5"]),
        (["output_dir=${oc.env:NOPE}"], 2, ["Environment variable 'NOPE' not found"]),
        (["hydra/output=nothing"], 2, ["unknown hydra/output 'nothing': known: default"]),
        (["metrics=${oc.env:MY_METRIC}", *CHEAP[1:], "output_dir=run"], 0, ["ROUGE-2"]),
        pytest.param(["statistics.seed=${oc.decode:'7'}", *CHEAP, "output_dir=run"], 0, ["written to run"], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_hydras_grammar_and_flags(words, status, parts, captau, monkeypatch):
    monkeypatch.setenv("MY_METRIC", "rouge_2")
    returned, out, err = captau("bench", *words)
    assert returned == status, err
    assert status == 0 or err.count("\n") == 1, err
    for part in parts:
        assert part in (err if status else out)


@pytest.mark.parametrize(
    "words",
    [
        ["experiment=quick", "--config-dir=my"],
        ["+experiment=quick", "-cd", "my"],
        ["++experiment=quick", "--config-dir", "my"],
        ["+experiment=quick", "hydra.searchpath=[file://my]"],
    ],
)
def test_an_experiment_has_defaults_and_groups_of_its_own(words, my, captau, tmp_path):
    status, _, err = captau("bench", *words, "output_dir=run")
    assert status == 0, err
    folder = tmp_path / "run"
    assert read_metrics(folder)[:2] == ["rouge_1", "rouge_2"]
    assert read_seed(folder) == 30
    record = json.loads((folder / "run.json").read_text())
    protocol = record["protocols"]["demo"]
    assert (protocol["ratings"], protocol["coefficients"]) == ("mean", ["tau_b", "spearman"])


def test_what_is_typed_wins_over_an_experiment(my, captau, tmp_path):
    words = ("model=small", "protocol=usual", "metrics=rouge_l", "output_dir=run")
    status, _, err = captau("bench", "experiment=quick", *words, "--config-dir=my")
    assert status == 0, err
    assert read_seed(tmp_path / "run") == 4
    assert read_metrics(tmp_path / "run")[0] == "rouge_l"
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["protocols"]["demo"]["ratings"] == "per_rating"


def test_an_experiment_is_named_as_hydra_names_files(my, captau):
    (my / "experiment" / "deep").mkdir()
    (my / "experiment" / "deep" / "other.yaml").write_text(
        "# @package _global_\nstatistics: {seed: 21}\n"
    )
    (my / "chosen.yaml").write_text(
        "defaults: [bench, override experiment@_global_: deep/other, _self_]\n"
    )
    seed = ("--config-dir", my, "--cfg", "job", "-p", "statistics.seed")
    for words, value in {
        ("experiment=deep/other",): "21\n",
        ("-cn", "chosen"): "21\n",
        ("-cn", "chosen", "~experiment"): "0\n",
        ("-cn", "chosen", "experiment=null"): "0\n",
    }.items():
        assert captau("bench", *words, *seed)[:2] == (0, value)

    (my / "experiment" / "below.yaml").write_text("# @package statistics\nseed: 3\n")
    status, _, err = captau("bench", "experiment=below", "--config-dir", my)
    assert status == 2
    assert err.endswith(
        "below.yaml:1: the header '@package statistics' is not read in an experiment; leave it out, and write its keys below "
        "statistics:\n"
    )
    (my / "experiment" / "below.yaml").unlink()

    for word, reason in {
        "experiment=deep/none": "unknown experiment 'deep/none'; known: quick, swept",
        "experiment=glob(none*)": "experiment=glob(none*): no experiment matches; known: quick, swept",
    }.items():
        status, _, err = captau("bench", "-m", word, "--config-dir", my)
        assert (status, err) == (2, f"captau: {reason}\n")


@pytest.mark.slow
def test_experiments_and_dictionaries_are_swept(my, captau, tmp_path):
    for word, seeds in {
        'experiment=glob("qu[a-i]ck")': [30],
        "statistics={seed:4},{seed:5}": [4, 5],
    }.items():
        words = (word, "metrics=rouge_1", "statistics.interval=none", "output_dir=s")
        status, _, err = captau("bench", "-m", *words, "--config-dir", my)
        assert status == 0, err
        jobs = sorted(path.parent for path in (tmp_path / "s").glob("*/run.json"))
        assert [read_seed(job) for job in jobs] == seeds
        shutil.rmtree(tmp_path / "s")


def test_a_group_that_no_default_names_is_added_by_a_plus(my, captau):
    status, _, err = captau("bench", "model=big", "--config-dir=my", "--cfg", "job")
    assert (status, err) == (2, "captau: the defaults lack model; write +model=big\n")
    for word, line in {"+model=big": "model:", "+model@statistics.m=big": "  m:"}.items():
        status, out, _ = captau("bench", word, "--config-dir=my", "--cfg", "job")
        assert status == 0
        assert f"\n{line}\n" in out


def test_a_job_has_the_variables_and_the_name_that_are_typed(captau, tmp_path, monkeypatch):
    monkeypatch.delenv("MY_VARIABLE", raising=False)
    (tmp_path / "mine.py").write_text(
        "import os\n\ndef score(items):\n    return [float(os.environ['MY_VARIABLE'])] * len(items)\n"
    )
    (tmp_path / "c.json").write_text('{"1": "a dog"}')
    (tmp_path / "r.json").write_text('{"1": ["a dog runs"]}')
    words = ("candidates=c.json", "references=r.json", "metrics=mine.py:score")
    hydra = ("+hydra.job.env_set.MY_VARIABLE=7", "hydra.job.name=mine", "hydra/job_logging=default")
    status, _, err = captau("score", *words, *hydra, "output_dir=${hydra:job.name}")
    assert status == 0, err
    assert "MY_VARIABLE" not in os.environ
    corpus = json.loads((tmp_path / "mine" / "corpus.json").read_text())
    assert "7.0" in json.dumps(corpus)
    assert (tmp_path / "mine" / "mine.log").is_file()


@pytest.mark.slow
def test_a_primary_file_of_ones_own(my, captau, tmp_path):
    for flag in (["-cn", "my_bench"], ["--config-name=my_bench.yaml"]):
        status, _, err = captau("bench", *flag, "--config-dir", my, "output_dir=run")
        assert status == 0, err
        assert read_metrics(tmp_path / "run")[0] == "rouge_l"
    status, _, err = captau("bench", "-cn", "lone", "--config-dir", my)
    assert status == 2
    assert "begin your primary file with 'defaults: [bench, _self_]'" in err
    assert "~" not in err
    status, _, err = captau("rank", "-cn", "my_bench", "--config-dir", my)
    assert (status, err.count("\n")) == (2, 1)
    assert "[rank, _self_]" in err


@pytest.mark.slow
def test_files_are_swept_as_other_values_are(captau, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"1": f"{name} dog"}))
    (tmp_path / "r.json").write_text('{"1": ["a dog runs"]}')
    words = ("references=r.json", "metrics=bleu_1")
    for value, systems in {
        "a.json,b.json": [["a"], ["b"]],
        "sort(b.json,a.json)": [["a"], ["b"]],
        "[a.json,b.json],[b.json]": [["a", "b"], ["b"]],
    }.items():
        status, _, err = captau("score", "-m", f"candidates={value}", *words, "output_dir=s")
        assert status == 0, err
        tables = [pd.read_csv(tmp_path / "s" / str(job) / "corpus.csv") for job in (0, 1)]
        assert [table["system"].unique().tolist() for table in tables] == systems
        shutil.rmtree(tmp_path / "s")


@pytest.mark.slow
def test_the_jobs_of_a_sweep_draw_into_folders_of_their_own(captau, tmp_path):
    assert captau("bench", "-m", "metrics=rouge_1,rouge_2", *CHEAP[1:], "output_dir=s")[0] == 0
    status, _, err = captau("plot", "-m", "run=s/0,s/1", "output_dir=drawn")
    assert status == 0, err
    drawn = [{path.name for path in (tmp_path / "drawn" / job).glob("*.svg")} for job in "01"]
    assert drawn[0] == drawn[1] != set()
    assert not list((tmp_path / "drawn").glob("*.svg"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "log", "line"),
    [
        pytest.param("none", None, "captau: run=", marks=pytest.mark.slow),
        ("default", "captau.log", ""),
        pytest.param("disabled", None, "", marks=pytest.mark.slow),
    ],
)
def test_logging_is_hydras_if_it_is_asked_for(choice, log, line, captau, tmp_path):
    """`run=last` is logged; `disabled` turns loggers off for good, so that each choice has a process of its own."""
    assert captau("bench", *CHEAP)[0] == 0
    words = ("bench", "run=last", f"hydra/job_logging={choice}", "output_dir=run")
    code = "from captau.benchmarks.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(line)
    assert [path.name for path in (tmp_path / "run").glob("*.log")] == ([log] if log else [])


def test_an_option_of_a_log_that_hydra_does_not_write_says_so(captau):
    for sign in ("", "+", "++"):
        status, _, err = captau("bench", *CHEAP, f"{sign}hydra.job_logging.root.level=DEBUG")
        assert status == 2
        assert err == (
            "captau: hydra.job_logging.root.level= is of Hydra's own log; add hydra/job_logging=default, or write "
            "hydra.verbose=true for everybody's log\n"
        )
    words = ("hydra/job_logging=default", "hydra.job_logging.root.level=WARNING", "--cfg", "job")
    assert captau("bench", *CHEAP, *words)[0] == 0


@pytest.mark.slow
def test_verbose_shows_what_everybody_logs(captau, tmp_path):
    level = logging.getLogger().level
    status, _, err = captau("bench", "-m", *CHEAP, "hydra.verbose=true", "output_dir=sweep")
    assert status == 0
    assert logging.getLogger().level == level
    assert "Launching 1 jobs locally" in err
    assert "Launching" not in captau("bench", "-m", *CHEAP, "output_dir=quiet")[2]
    status, _, err = captau("bench", *CHEAP, "hydra.verbose=true", "output_dir=run")
    assert status == 0
    assert "Config search path" in err


@pytest.mark.parametrize(
    ("words", "folders"),
    [
        (["-m", "metrics=rouge_1,rouge_2", "output_dir=s"], ["s/0", "s/1"]),
        pytest.param(["--multirun", "metrics=[rouge_1,rouge_2],[rouge_l]", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
        pytest.param(["hydra.mode=MULTIRUN", "metrics=rouge_1,rouge_2", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "statistics.seed=range(1,4)", "output_dir=s"], ["s/0", "s/1", "s/2"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "statistics.seed=choice(5,6)", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "statistics.seed=sort(shuffle(5,6))", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "statistics.seed=tag(t,choice(5,6))", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "statistics.level=range(0.8,1,0.1)", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "dataset=glob([d*],exclude=demo2*)", "output_dir=s"], ["s/0"], marks=pytest.mark.slow),
        pytest.param(["-m", "metrics=rouge_1", "dataset=glob(dem*)", "output_dir=s"], ["s/0"], marks=pytest.mark.slow),
        pytest.param(
            ["-m", "metrics=rouge_1", "statistics.seed=1,2", "hydra.sweep.dir=s", "hydra.sweep.subdir=seed${statistics.seed}"],
            ["s/seed1", "s/seed2"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["-m", "metrics=rouge_1", "statistics.seed=1,2", "output_dir=s", "hydra.sweep.subdir=${hydra.job.override_dirname}",
             "hydra.job.config.override_dirname.exclude_keys=[output_dir,metrics,statistics.interval,ceilings]"],
            ["s/statistics.seed=1", "s/statistics.seed=2"],
            marks=pytest.mark.slow,
        ),
        (["+experiment=swept", "metrics=rouge_1", "--config-dir=my"], ["s/0", "s/1"]),
        pytest.param(["-m", "experiment=quick", "model=big,small", "--config-dir=my", "output_dir=s"], ["s/0", "s/1"], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_sweep_has_a_folder_for_each_job(words, folders, my, captau, tmp_path):
    status, out, err = captau("bench", *words, *CHEAP[1:])
    assert status == 0, err
    found = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("run.json"))
    assert found == folders
    for folder in folders:
        assert hydra_files(tmp_path / folder) == HYDRA_FILES
    assert (tmp_path / "s" / "multirun.yaml").is_file()
    assert "written to s: captau table 'run=s/*' joins the runs" in out


@pytest.mark.slow
def test_the_runs_of_a_sweep_are_joined(captau, tmp_path):
    words = ("metrics=rouge_1,rouge_2", "statistics.interval=none", "output_dir=s")
    assert captau("bench", "-m", *words)[0] == 0
    status, _, err = captau("table", "run=s/*", "style=csv", "output=joined.csv")
    assert status == 0, err
    joined = (tmp_path / "joined.csv").read_text()
    for folder in ("s/0", "s/1"):
        frame = pd.read_csv(tmp_path / folder / "correlations.csv")
        value = frame[frame["coefficient"] == "tau_c"]["value"].iloc[0]
        assert f",{100 * value:.1f}," in joined
    (tmp_path / "s" / "2").mkdir()
    assert "no finished run is in s/2" in captau("table", "run=s/*")[2]
    status, _, err = captau("table", "run=nothing/*")
    assert (status, err) == (
        2,
        "captau: run=nothing/*: no folder that matches holds a finished run\n",
    )


LAUNCHERS = [
    "basic",
    pytest.param("joblib", marks=pytest.mark.cluster),
    pytest.param("submitit_local", marks=pytest.mark.cluster),
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_job_that_fails_is_named_and_leaves_the_others_alone(launcher, captau, tmp_path):
    words = (f"hydra/launcher={launcher}", "metrics=rouge_1,nowhere.csv,rouge_2", *CHEAP[1:])
    status, _, err = captau("bench", "-m", *words, "output_dir=s")
    assert status == 1
    (line,) = {line for line in err.splitlines() if line.startswith("captau: job ")}
    assert line.startswith("captau: job s/1 (metrics=nowhere.csv ")
    assert line.endswith(") failed: metric nowhere: no file nowhere.csv")
    assert [(tmp_path / "s" / name / "run.json").is_file() for name in "012"] == [True, False, True]
    assert captau("bench", *CHEAP, "output_dir=alone")[0] == 0
    one, other = (tmp_path / name / "correlations.csv" for name in ("s/0", "alone"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("launcher", LAUNCHERS[1:])
def test_a_job_whose_process_is_killed_is_named(launcher, tmp_path):
    """The program has a process of its own: joblib keeps its processes, which work in the folder of an earlier test."""
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n\ndef score(items):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    code = "from captau.benchmarks.cli.main import main; main()"
    words = (f"hydra/launcher={launcher}", "metrics=./deadly.py:score", *CHEAP[1:])
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "-m", *words, "output_dir=s"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert any(line.startswith("captau: the sweep stopped: ") for line in lines)
    assert lines[-1].startswith("captau: job s/0 (metrics=./deadly.py")
    assert lines[-1].endswith(" wrote no run")


def test_a_fault_of_captaus_in_a_job_shows_its_place(captau, tmp_path):
    (tmp_path / "broken.py").write_text("def score(items):\n    raise ZeroDivisionError('here')\n")
    words = ("metrics=broken.py:score,rouge_1", *CHEAP[1:], "output_dir=s")
    status, _, err = captau("bench", "-m", *words)
    assert status == 1
    assert "broken.py" in err
    assert (tmp_path / "s" / "1" / "run.json").is_file()


@pytest.mark.slow
def test_a_job_leaves_no_variable_behind_for_the_next(captau):
    cache = os.environ["CAPTAU_CACHE"]
    words = ("metrics=rouge_1", "statistics.seed=1,2", "statistics.interval=none")
    assert captau("bench", "-m", *words, "cache.root=own", "output_dir=s")[0] == 0
    assert os.environ["CAPTAU_CACHE"] == cache


CALLBACK = """
from pathlib import Path

from hydra.experimental.callback import Callback


class Values(Callback):
    def on_job_end(self, config, job_return, **_):
        with Path("values.txt").open("a") as stream:
            print(job_return.return_value, file=stream)
"""


@pytest.fixture
def callback(tmp_path, monkeypatch):
    """Return the override that lets Hydra write what jobs return into values.txt."""
    (tmp_path / "my_values.py").write_text(CALLBACK)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_values", raising=False)
    return "+hydra.callbacks.mine._target_=my_values.Values"


@pytest.mark.parametrize(
    ("words", "name", "column"),
    [
        (("bench", *CHEAP), "correlations.csv", "value"),
        (("bench", "dataset=demo,file", "file.path=f.csv", *CHEAP), "overview.csv", "value"),
        (("compare", "metrics=rouge_1,rouge_2"), "correlations.csv", "value"),
        (("score", "candidates=c.json", "references=r.json", "metrics=bleu_1"), "corpus.csv", "score"),
        (("agree", "kind=captions", "metrics=rouge_1"), "agreement.csv", "value"),
        (("thresholds", "metrics=rouge_1"), "recall.csv", "auc"),
        (("score", "candidates=large.jsonl", "engine=local", "workers=1", "metrics=bleu_1"), "corpus.json", "bleu_1"),
        (("score", "references=r.json", "save_df=f.df"), None, None),
    ],
)  # fmt: skip
def test_a_command_returns_its_headline_value(words, name, column, captau, tmp_path, callback):
    """Sweepers optimise what a job returns; a callback of Hydra's sees the same."""
    files = {
        "c.json": '{"1": "a dog", "2": "a cat"}',
        "r.json": '{"1": ["a dog runs"], "2": ["a cat sits"]}',
        "f.csv": "image,caption,value,references\na,a dog runs,1,a dog\nb,a cat,3,a cat sits\nc,a bus,2,a bus\n",
        "large.jsonl": '{"image_id": "1", "caption": "a dog", "references": ["a dog runs"]}\n'
        '{"image_id": "2", "caption": "a cat", "references": ["a cat sits"]}\n',
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    folder = [] if name is None else ["output_dir=run"]
    status, _, err = captau(*words, callback, *folder)
    assert status == 0, err
    returned = (tmp_path / "values.txt").read_text().strip()
    if name is None:
        assert returned == "None"
        return
    if name == "corpus.json":
        assert float(returned) == json.loads((tmp_path / "run" / name).read_text())[column]
        return
    rows = pd.read_csv(tmp_path / "run" / name)
    if name == "overview.csv":
        rows = rows[rows["dataset"] == "mean"]
    elif name == "correlations.csv":
        rows = rows[rows["coefficient"] == "tau_c"]
    assert float(returned) == rows[column].iloc[0]


def test_a_refused_run_leaves_the_files_of_the_run_in_its_folder(tmp_path, monkeypatch):
    """A folder of another run keeps that run's `.hydra`, and one without it gets none."""
    monkeypatch.chdir(tmp_path)
    cheap = ("dataset=demo", "metrics=rouge_1", "statistics.interval=none", "ceilings=false")
    assert run_captau("bench", *cheap, "output_dir=run") == 0
    before = {path.name: path.read_bytes() for path in Path("run/.hydra").iterdir()}
    assert run_captau("bench", "dataset=nothing_like_it", "output_dir=run") == 2
    assert {path.name: path.read_bytes() for path in Path("run/.hydra").iterdir()} == before
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    assert run_captau("bench", "metrics=nothing_like_it", "output_dir=mine") == 2
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("words", "name", "column", "query"),
    [
        (("rank", "metrics=rouge_1", "statistics.interval=none"), "metric_orders.csv", "value",
         "metric == 'rouge_1' and coefficient == 'pairwise_accuracy'"),
        pytest.param(
            ("probe", "metrics=rouge_1,bleu_1", "statistics.interval=none"), "probes.csv", "value",
            "metric == 'rouge_1' and fault not in ['copy', 'other_reference', 'case', 'synonym']",
            marks=pytest.mark.slow,
        ),
        (("agree",), "agreement.csv", "value", "measure == 'krippendorff_alpha_ordinal'"),
        pytest.param(
            ("agree", "kind=words", "words.n=5"), "agreement.csv", "value", "measure == 'human_precision'",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_headline_value_is_a_mean_of_rows_that_are_written(
    words, name, column, query, captau, tmp_path, callback
):
    status, _, err = captau(*words, callback, "output_dir=run")
    assert status == 0, err
    rows = pd.read_csv(tmp_path / "run" / name).query(query)
    returned = float((tmp_path / "values.txt").read_text())
    assert returned == pytest.approx(rows[column].mean(), abs=1e-12)


@pytest.mark.slow
def test_the_headline_value_of_reproduce_is_the_share_of_cells_that_match(
    captau, tmp_path, callback
):
    """Of three printed cells one is as recomputed, and two are not."""
    paper = {
        "title": "Doe 2026",
        "citation": "@article{doe}",
        "tables": [
            {
                "table": "Table 1",
                "kind": "correlation",
                "dataset": "demo",
                "title": "Demo",
                "scale": 100,
                "rows": {"ROUGE": "rouge_l", "BLEU": "bleu_1", "BLEU-2": "bleu_2"},
                "columns": {"tau": {"coefficient": "tau_b"}},
            }
        ],
    }
    folder = tmp_path / "my" / "paper"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(yaml.safe_dump(paper))
    assert captau("bench", "metrics=rouge_l", *CHEAP[1:], "output_dir=bench")[0] == 0
    rows = pd.read_csv(tmp_path / "bench" / "correlations.csv")
    tau_b = 100 * rows.loc[rows["coefficient"] == "tau_b", "value"].iloc[0]
    printed = {"ROUGE": f"{tau_b:.1f}", "BLEU": "99.9", "BLEU-2": "12.3"}
    lines = ["table,dataset,row,column,published,trained,source,note"]
    lines += [f"Table 1,demo,{row},tau,{value},,Table 1," for row, value in printed.items()]
    (folder / "mine.csv").write_text("\n".join([*lines, ""]))
    words = ("paper=mine", "--config-dir=my", callback, "output_dir=run")
    status, _, err = captau("reproduce", *words)
    assert status == 0, err
    matches = pd.read_csv(tmp_path / "run" / "comparison.csv")["match"]
    assert matches.tolist() == [True, False, False]
    assert float((tmp_path / "values.txt").read_text()) == 1 / 3


def test_the_headline_value_of_estimate_is_the_powered_mean(captau, tmp_path, callback):
    captions = {str(k): f"a dog {'runs ' * (k % 3)}" for k in range(30)}
    (tmp_path / "c.json").write_text(json.dumps(captions))
    (tmp_path / "r.json").write_text(json.dumps({k: ["a dog runs"] for k in captions}))
    ratings = "".join(f"{k},{1 + k % 3}\n" for k in range(22))
    (tmp_path / "e.csv").write_text(f"image_id,value\n{ratings}")
    words = (
        "candidates=c.json",
        "references=r.json",
        "ratings=e.csv",
        "metrics=bleu_1",
        "chosen=shuffled",
    )
    status, _, err = captau("estimate", *words, callback, "output_dir=run")
    assert status == 0, err
    rows = pd.read_csv(tmp_path / "run" / "estimates.csv").set_index("method")
    assert float((tmp_path / "values.txt").read_text()) == rows.loc["powered", "value"]


#: A sweeper that optimises: it tries two seeds, and writes what the jobs return.
GREEDY = """
from pathlib import Path

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper


class Greedy(Sweeper):
    def setup(self, *, hydra_context, task_function, config):
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments):
        jobs = [[*arguments, f"statistics.seed={seed}"] for seed in (1, 2)]
        done = self.launcher.launch(jobs, initial_job_idx=0)
        Path("values.txt").write_text("\\n".join(str(job.return_value) for job in done))
"""


@pytest.fixture
def greedy(tmp_path, monkeypatch):
    """Install a package with a sweeper, beside the folder in which a test works."""
    plugins = tmp_path.with_name(f"{tmp_path.name}-plugins") / "hydra_plugins"
    plugins.mkdir(parents=True)
    (plugins / "greedy.py").write_text(GREEDY)
    monkeypatch.syspath_prepend(str(plugins.parent))
    monkeypatch.delitem(sys.modules, "hydra_plugins.greedy", raising=False)
    Plugins.instance().register(importlib.import_module("hydra_plugins.greedy").Greedy)
    node = {"_target_": "hydra_plugins.greedy.Greedy"}
    ConfigStore.instance().store("greedy", node, group="hydra/sweeper", package="hydra.sweeper")
    yield "hydra/sweeper=greedy"
    del ConfigStore.instance().repo["hydra"]["sweeper"]["greedy.yaml"]


def test_hydra_stores_the_last_command_of_a_process_alone(captau):
    """Hydra copies all that is stored whenever it composes: the hundredth command would take longer than the first."""
    for name in ("complement", "thresholds"):
        assert captau(name, "--cfg", "job")[0] == 0
    stored = ConfigStore.instance().list("captau")
    assert "thresholds.yaml" in stored
    assert "complement.yaml" not in stored


@pytest.mark.slow
def test_a_sweeper_optimises_what_a_command_returns(greedy, captau, tmp_path):
    status, _, err = captau("bench", "-m", greedy, *CHEAP, "output_dir=s")
    assert status == 0, err
    first, second = (tmp_path / "values.txt").read_text().split()
    frame = pd.read_csv(tmp_path / "s" / "1" / "correlations.csv")
    assert first == second
    assert float(second) == frame[frame["coefficient"] == "tau_c"]["value"].iloc[0]


@pytest.mark.parametrize("command", ["data list", "validate", "table", "check"])
def test_a_command_without_a_headline_value_says_so_to_a_sweeper(command, greedy, captau, tmp_path):
    status, _, err = captau(*command.split(), "-m", greedy)
    assert (status, err.count("\n")) == (2, 1), err
    assert (
        f"captau {command} returns no headline value, which hydra/sweeper=greedy would optimise"
        in err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_undefined_headline_value_is_said_to_a_sweeper(greedy, captau, tmp_path):
    (tmp_path / "constant.py").write_text("def score(items):\n    return [1.0] * len(items)\n")
    words = ("metrics=constant.py:score", *CHEAP[1:], "output_dir=s")
    status, _, err = captau("bench", "-m", greedy, *words)
    assert status == 1
    assert "captau bench returned no headline value with these options" in err
