"""The contract of the command line: commands, options, help, completion, and messages on bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.cli.registry import COMMANDS
from captau.datasets import registry
from tests.conftest import run_captau


def one_line(stderr):
    lines = stderr.strip().splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("captau: ")
    assert "Traceback" not in stderr
    return lines[0]


def test_bench_writes_a_fresh_folder_under_results_runs(captau, tmp_path):
    status, out, _ = captau("bench", "metrics=[rouge_1]")
    assert status == 0
    (folder,) = (tmp_path / "results" / "runs").iterdir()
    rows = pd.read_csv(folder / "correlations.csv").query("metric == 'rouge_1'")
    tau = rows.set_index(["dimension", "coefficient"]).at[("overall", "tau_c"), "value"]
    assert f"{100 * tau:.1f}" in next(line for line in out.splitlines() if "ROUGE-1" in line)
    assert str(folder.name) in out
    assert captau("bench", "metrics=[rouge_1]")[0] == 0
    assert len(list((tmp_path / "results" / "runs").iterdir())) == 2


def test_protocol_overrides_reach_the_numbers(captau, tmp_path):
    status, _, err = captau(
        "bench",
        "metrics=[rouge_1]",
        "protocol.coefficients=[pearson]",
        "protocol.ratings=mean",
        "protocol.references=first_k",
        "protocol.k=2",
        "output_dir=out",
    )
    assert status == 0, err
    frame = pd.read_csv(tmp_path / "out" / "correlations.csv")
    assert list(frame["coefficient"]) == ["pearson", "tau_c", "tau_b", "spearman"]
    assert set(frame["n_ratings"]) == {360}
    assert frame["protocol"].str.contains("ratings=mean").all()
    assert frame["protocol"].str.contains("k=2").all()


@pytest.mark.slow
def test_multirun_gives_each_job_its_own_folder(captau, tmp_path):
    status, _, err = captau(
        "bench", "--multirun", "metrics=[rouge_1],[rouge_2]", "output_dir=sweep"
    )
    assert status == 0, err
    metrics = [
        pd.read_csv(tmp_path / "sweep" / job / "correlations.csv")["metric"].iloc[0]
        for job in ("0", "1")
    ]
    assert metrics == ["rouge_1", "rouge_2"]


@pytest.mark.slow
def test_multiruns_at_once_have_a_folder_each(captau, tmp_path):
    for metric in ("rouge_1", "rouge_2"):
        assert captau("bench", "-m", f"metrics=[{metric}]")[0] == 0
    folders = sorted((tmp_path / "results" / "runs").iterdir())
    assert len(folders) == 2
    configs = [json.loads((folder / "0" / "run.json").read_text())["config"] for folder in folders]
    assert sorted(config["metrics"] for config in configs) == [["rouge_1"], ["rouge_2"]]


def test_a_path_may_have_any_letters_and_a_tilde(captau, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert captau("bench", "metrics=[rouge_1]", "output_dir=~/a, (b) 'c' {d}=e")[0] == 0
    record = json.loads((tmp_path / "a, (b) 'c' {d}=e" / "run.json").read_text())
    assert record["config"]["metrics"] == ["rouge_1"]


def test_data_help_lists_its_commands(captau):
    assert "data fetch" in captau("data", "--help")[1]
    assert captau("help", "bench") == captau("bench", "--help")


def test_cfg_job_shows_the_resolved_options(captau):
    status, out, _ = captau("bench", "dataset=thumb", "--cfg", "job")
    assert status == 0
    assert "corpus: per_system" in out


def test_the_overview_lists_every_command(captau):
    status, out, _ = captau()
    assert status == 0
    for command in COMMANDS:
        assert command in out
    assert captau("--version")[1].startswith("captau 0.")


def test_data_list_says_which_datasets_are_here(captau, tmp_path):
    status, out, _ = captau("data", "list", f"data.root={tmp_path}")
    assert status == 0
    assert "| demo | built in |" in out
    assert "| thumb | no |" in out
    assert len(out.splitlines()) <= len(registry.names()) + 10
    assert max(len(line) for line in out.splitlines() if line[:1] == "|") <= 80
    status, out, _ = captau("data", "list", "dataset=thumb", f"data.root={tmp_path}")
    assert status == 0
    assert "mscoco_THumB-1.0.jsonl from https://" in out


def test_score_writes_corpus_and_captions(captau, tmp_path):
    (tmp_path / "c.json").write_text(
        json.dumps([{"image_id": 1, "caption": "a dog runs"}, {"image_id": 2, "caption": "a cat"}])
    )
    (tmp_path / "r.json").write_text(
        json.dumps(
            {
                "annotations": [
                    {"image_id": 1, "id": 1, "caption": "a dog runs"},
                    {"image_id": 2, "id": 2, "caption": "a cat sits"},
                ]
            }
        )
    )
    status, _, err = captau(
        "score",
        "candidates=c.json",
        "references=r.json",
        "metrics=[bleu_1,rouge_l,sacrebleu]",
        "output_dir=out",
    )
    assert status == 0, err
    corpus = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert list(corpus) == ["bleu_1", "rouge_l", "sacrebleu"]
    # By hand: 5 of 5 unigrams match, brevity exp(1 - 6/5).
    assert corpus["bleu_1"] == pytest.approx(2.718281828459045 ** (1 - 6 / 5), abs=1e-8)
    scores = pd.read_csv(tmp_path / "out" / "scores.csv", dtype={"image_id": str})
    assert list(scores.columns) == ["item_id", "image_id", "bleu_1", "rouge_l", "sacrebleu"]
    assert list(scores["image_id"]) == ["1", "2"]


def test_a_single_image_scores_with_a_saved_df(captau, tmp_path):
    references = {
        "1": ["a dog runs on the grass"],
        "2": ["a cat sleeps on a mat"],
        "3": ["two men play chess"],
    }
    (tmp_path / "many.json").write_text(json.dumps(references))
    (tmp_path / "one.json").write_text(json.dumps({"1": references["1"]}))
    (tmp_path / "c.json").write_text(json.dumps({"1": "a dog runs on the grass"}))
    assert captau("score", "references=many.json", "save_df=df.json")[0] == 0
    for metric, expected in (("cider", 0.0), ('"cider(df=df.json)"', 10.0)):
        status, _, err = captau(
            "score",
            "candidates=c.json",
            "references=one.json",
            f"metrics=[{metric}]",
            "output_dir=out",
        )
        assert status == 0, err
        (value,) = json.loads((tmp_path / "out" / "corpus.json").read_text()).values()
        assert value == pytest.approx(expected, abs=1e-9)


#: Options of every kind that take a path, each with one in the home folder of an unknown user.
UNKNOWN_HOMES = (
    "bench data.root=~nobody-here/x",
    "bench cache.root=~nobody-here/x",
    "bench cache.scores=~nobody-here/x",
    "bench output_dir=~nobody-here/x",
    "bench run=~nobody-here/x",
    "bench metrics=cider(df=~nobody-here/x)",
    "bench metrics=meteor(paraphrases=~nobody-here/x)",
    "bench dataset=file file.path=~nobody-here/x",
    "bench java.home=~nobody-here/x metrics=meteor(backend=pycocoevalcap) cache.use=false",
    "bench --config-dir=~nobody-here/x",
    "bench --config-dir ~nobody-here/x",
    "score candidates=~nobody-here/x references=y",
    "score candidates=my=~nobody-here/x references=y",
    "score candidates=x,~nobody-here/x references=y",
    "score candidates=x references=~nobody-here/x",
    "score keep.run=~nobody-here/x keep.share=0.5",
    "compare run=x,~nobody-here/x",
    "table run=~nobody-here/x",
    "check baseline=~nobody-here/x",
    "train rater=qe weights.root=~nobody-here/x",
    "data fetch dataset=thumb data.root=~nobody-here/x",
    "collect study=~nobody-here/x",
    "collect export study=~nobody-here/x",
    "collect stability run=[~nobody-here/x,y]",
    "serve challenge=~nobody-here/x",
    "serve files=~nobody-here/x",
    "serve database=~nobody-here/x",
    "collect database=~nobody-here/x",
    "validate file=~nobody-here/x",
    "plot run=~nobody-here/x",
    "agree kind=words words.scores=~nobody-here/x",
    "submit file=~nobody-here/x",
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--multirun", "bench"], "a command comes first: captau bench --multirun; captau --help"),
        (["benhc"], "unknown command 'benhc': did you mean bench?"),
        (["collect", "exprt"], "unknown command 'collect exprt': did you mean collect export"),
        (["data"], "data list"),
        (["gather", "run=sweep"], "captau gather is now captau table run='DIR/*'"),
        (
            ["filter"],
            "captau filter is now captau score keep.run=DIR keep.metric=METRIC keep.above=",
        ),
        (["data", "df"], "captau data df is now captau score references=FILE save_df=FILE"),
        (["score", "save_df=x"], "save_df= needs references=FILE"),
        (["score", "save_df=x", "candidates=c"], "candidates= does not go with save_df="),
        (["score", "keep.run=x", "references=r"], "references= does not go with keep.run="),
        (["score", "candidates=c", "keep.precision=0.5"], "keep.precision= needs keep.run=DIR"),
        (["dataset=demo"], "a command comes first: captau bench dataset=demo"),
        (["bench", "dataset=flickr8k"], "did you mean flickr8k_cf or flickrg or flickr8k_expert?"),
        (["bench", "metrics=[cidr]"], "unknown metric or suite 'cidr': did you mean cider"),
        (["bench", "metrics=[]"], "metrics is empty"),
        (["bench", 'metrics=["cider(vraiant=d)"]'], "did you mean variant?"),
        (["bench", 'metrics=["cider(sigma=x)"]'], "sigma is 'x', not float"),
        (["bench", 'metrics=["cider(df=nowhere.json)"]'], "nowhere.json: cannot be read"),
        (["bench", "metrics=[cider(df=x)]"], "x: cannot be read"),
        (["bench", "metrics=cider,cider(df=x)"], "x: cannot be read"),
        (["bench", "metrics=bleu_4", "cider"], "as in metrics=bleu_4,cider"),
        (["bench", "--dataset"], "--dataset: a value is expected, as dataset=VALUE"),
        (["bench", "--dataset", "--seed=1"], "--dataset: a value is expected, as dataset=VALUE"),
        (["bench", "--datset", "demo"], "unknown flag of captau bench '--datset'"),
        (
            ["bench", "references=all"],
            "may be protocol.references or file.references; write one of them",
        ),
        (["bench", "protocol=drop"], "or protocol.own_references=drop"),
        (["score", "A.json", "B.json"], "A.json: cannot be read (No such file or directory)"),
        (["check", "golden.yaml"], "write baseline=golden.yaml"),
        (["bench", "demo"], "write dataset=demo"),
        (["bench", "help"], "captau bench --help shows the options"),
        (["bench", "foo=1"], "unknown option of captau bench 'foo'"),
        (["bench", "protocol.dimensoin=x"], "did you mean protocol.dimension"),
        (["bench", "protocol.dimension=x"], "unknown dimension of dataset demo 'x'"),
        (["bench", "protocol.ratings=maen"], "did you mean mean"),
        (["bench", "protocol.systems=[nobody]"], "unknown system"),
        (["bench", "protocol.k=abc"], "captau: protocol.k=abc: a whole number is expected"),
        (["bench", "cache.use=maybe"], "cache.use=maybe: true or false is expected"),
        (["score", "candidates="], "the option candidates=… is needed"),
        (["bench", "protocol=nothing"], "unknown protocol 'nothing'"),
        (["bench", "datset=demo"], "did you mean dataset"),
        (["bench", "dataset"], "'dataset' is not of the form key=value"),
        (["bench", "--mutlirun"], "did you mean --multirun"),
        (["bench", "metrics=["], "quote what has brackets"),
        (["bench", "output_dir=/proc/nothing/here"], "cannot be written"),
        (["bench", "dataset=thumb", "data.root=nowhere"], "the data folder nowhere does not exist"),
        (
            ["bench", "dataset=thumb", "data.root=."],
            "the file mscoco_references.json does not exist",
        ),
        (["bench", "java.home=nowhere", "cache.use=false"], "no Java program at nowhere"),
        (["reproduce"], "the option paper=… is needed: all, or some of caption_quality_2021,"),
        (["reproduce", "paper=clipscore"], "did you mean clipscore_2021"),
        (["bench", "++protocl.k=3"], "unknown option of captau bench '++protocl.k'"),
        (["bench", "+floors=true"], "An item is already at 'floors'; leave out the +"),
        (["bench", "~data="], "The value of 'data' is {'root': None} and not"),
        (["bench", "~statistics.seed"], "captau bench needs the option statistics.seed="),
        (["bench", "~nothing"], "'nothing' does not exist; leave out the ~"),
        (["bench", "statistics.seed=1,2"], "write [A,B] for a list, or add --multirun"),
        (["bench", "statistics.seed=choice(1,2)"], "; add --multirun"),
        (["bench", "-m", "hydra/launcher=rq"], "needs a plugin: pip install 'hydra-rq-launcher'"),
        (["bench", "protocol@x=usual"], "the defaults lack protocol@x; write +protocol@x=usual"),
        (["bench", "-cn", "nothing"], "there is no configuration 'nothing'; --config-dir DIR"),
        (["bench", "dataset=null"], "unknown dataset 'null'"),
        (["bench", "dataset=[]"], "dataset= is empty; known: billboard_thumb, caparena"),
        (["bench", "dataset=../protocol/usual"], "unknown dataset '../protocol/usual'"),
        (["bench", "protocol=5"], "unknown protocol '5'"),
        (["bench", "--cfg"], "--cfg: one of job, hydra, all is expected"),
        (["bench", "--cfg=banana"], "one of job, hydra, all is expected"),
        (["bench", "--multirun=1"], "it takes no value"),
        (["bench", "--resolve"], "--resolve goes with --cfg"),
        (["bench", "-m", "hydra/launcher=nope"], "unknown hydra/launcher 'nope'"),
        (["bench", "-m", "dataset=demo,nope"], "unknown dataset 'nope'"),
        (["bench", f"dataset={__file__}"], f"is a file; write dataset=file file.path={__file__}"),
        (["-sc"], "install=bash"),
        (["-sc", "install=tcsh"], "install=bash"),
        (["score", "candidates=a,b(1).json"], "a,b(1).json: cannot be read"),
        (["score"], "the option candidates=… is needed"),
        *[
            (arguments.split(), f"the option {arguments.split()[-1]}… is needed")
            for arguments in ("report run=", "check baseline=", "validate file=")
        ],
        (["cite", "run="], "run= is empty; name the folder of a finished run"),
        (["score", "candidates=nowhere.json"], "nowhere.json: cannot be read"),
        (["score", "references=nowhere.json", "save_df=x"], "nowhere.json: cannot be read"),
        (["score", f"candidates={'x' * 300}.json", "references=x"], "xxx.json: File name too long"),
        (["table", f"run={'x' * 300}"], "xxx: File name too long"),
        (["check", f"baseline={'x' * 300}.yaml"], "xxx.yaml: File name too long"),
        (["bench", f"cache.root={'x' * 300}", "metrics=bleu_1"], ".parquet: File name too long"),
        (["serve", "port=0", f"challenge={'x' * 300}.yaml"], "xxx.yaml: File name too long"),
        (
            ["bench", "dataset=file", "file.path=x", "file.high=inf"],
            "file.high is inf; a number is",
        ),
        (["score", "candidates=x", "keep.metric=cider", "keep.above=nan"], "keep.above is nan; a"),
        *[
            (arguments.split(), "~nobody-here/x: no user has this home folder; write ./~nobody")
            for arguments in UNKNOWN_HOMES
        ],
        (["bench", "statistics.replicates=1000000000"], "at most 1,000,000 is expected"),
        (["bench", "dataset=\x1b31m\u202e"], "unknown dataset '\\x1b31m\\u202e'"),
        (["bench", f"dataset={'x' * 100_000}"], f"unknown dataset '{'x' * 400}"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(captau, tmp_path, arguments, message):
    status, _, err = captau(*arguments)
    assert status == 2
    assert message in one_line(err).replace("./thumb/", "").replace("thumb/", "")
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert not files, "nothing half-written"


def test_a_debugger_or_a_coverage_tool_leaves_the_error_as_it_is(captau):
    tracer = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert captau("bench", "cache.use=maybe")[2] == (
            "captau: cache.use=maybe: true or false is expected\n"
        )
    finally:
        sys.settrace(tracer)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal_of_80_columns_and_names_every_option(captau, command):
    status, short, _ = captau(*command.split(), "--help")
    assert status == 0
    options = short[short.index("Options:") :]
    assert max(map(len, short.splitlines())) <= 80
    assert len(short.splitlines()) <= 40
    names = set(re.findall(r"[\w-]+", options))
    declared = COMMANDS[command].declared()
    assert {part for o in declared for part in o.key.split(".")} <= names
    _, full, _ = captau(*command.split(), "--help", "all")
    assert full.startswith(f"captau {command}: ")
    for option in declared:
        assert f"  {option.key}=" in full
        assert option.help_text.split()[-1] in full


def test_the_overview_fits_a_terminal_of_80_columns(captau):
    status, out, _ = captau("--help")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) <= 45
    names = captau("--help", "all")[1]
    assert names.startswith(out)
    assert "flickr8k_expert" in names


def test_lists_have_commas_and_need_no_brackets(captau, tmp_path):
    for number, metrics in enumerate(("metrics=[rouge_1,rouge_2]", "metrics=ROUGE-1,rouge_2")):
        status, _, err = captau("bench", "dataset=demo", metrics, f"output_dir={number}")
        assert status == 0, err
    tables = [(tmp_path / d / "correlations.csv").read_bytes() for d in "01"]
    assert tables[0] == tables[1]
    status, out, _ = captau(
        "bench", "dataset=demo,thumb", "protocol.coefficients=tau_b,tau_c", "--cfg", "job"
    )
    left_out = captau("reproduce", "paper=thumb_2022", "leave_out=spice", "--cfg", "job")[1]
    assert "leave_out:\n- spice" in left_out
    assert status == 0
    assert "coefficients:\n  - tau_b\n  - tau_c" in out.replace("    -", "  -")


def test_a_bug_of_captaus_is_a_traceback_and_not_a_line(captau, monkeypatch):
    """Only the user's faults become one line; a bug shows where it is."""
    import captau.benchmarks.commands.bench as run

    monkeypatch.setattr(run, "score_dataset", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["bench", "metrics=[rouge_1]"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("captau be", "bench"),
        ("captau data ", "\n".join(c.split()[1] for c in COMMANDS if c.startswith("data "))),
        ("captau bench dataset=flickr8k_e", "dataset=flickr8k_expert"),
        ("captau bench protocol.dim", "protocol.dimension="),
        ("captau reproduce paper=th", "paper=thumb_2022"),
        ("captau data list data.r", "data.root="),
        ("captau bench metrics=me", "metrics=meteor"),
        (
            "captau reproduce ",
            "cache. data. experiment= java. leave_out. output_dir= paper= raters. run= weights.",
        ),
    ],
)
def test_the_shell_completes_commands_options_and_values(captau, monkeypatch, line, expected):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    status, out, _ = captau("-sc", "query=bash")
    assert status == 0
    assert sorted(out.split()) == sorted(expected.split())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("bench metrics=cider,bleu_", "bleu_1 bleu_2 bleu_3 bleu_4"),
        ("bench metrics=bleu_1,bleu_", "bleu_2 bleu_3 bleu_4"),
        ("bench metrics=cider,mi", "mine.csv mine.py"),
        ("bench metrics=cider,folder/", "folder/deep.csv"),
        ("bench dataset=demo,thu", "thumb"),
        ("bench protocol.coefficients=tau_b,tau_", "tau_c tau_a"),
        ("bench protocol.ratings=me", "mean median"),
        ("table run=", "last results/runs/b results/runs/a folder/ results/"),
        ("cite run=last,results/runs/", "results/runs/b results/runs/a"),
        ("bench run=las", "last"),
        ("score candidates=mi", "mine.csv mine.py"),
        ("score candidates=old=folder/deep.csv,new=mine.c", "new=mine.csv"),
        ("score candidates=nothing/", ""),
    ],
)
def test_the_shell_completes_lists_files_and_runs(captau, monkeypatch, tmp_path, typed, expected):
    """Run folders come newest first, and one without run.json is an ordinary folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine.csv", "mine.py", "folder/deep.csv", "two words.csv", ".hidden.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for name, seconds in (("a", 1), ("b", 2)):
        folder = tmp_path / "results" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").touch()
        os.utime(folder / "run.json", (seconds, seconds))
    monkeypatch.setenv("COMP_LINE", line := f"captau {typed}")
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    before = (
        re.split(r"[\s,]", typed)[-1] if "," in typed else typed.split()[-1].partition("=")[0] + "="
    )
    start = typed.split()[-1].removesuffix(before) if "," in typed else before
    words = captau("-sc", "query=bash")[1].split()
    assert words == [f"{start}{word}" for word in expected.split()]


@pytest.mark.parametrize(
    ("typed", "full"),
    [
        ("--dataset demo --seed 3", "dataset=demo statistics.seed=3"),
        (
            "--dataset=demo k=1 protocol.references=first_k",
            "protocol.k=1 protocol.references=first_k",
        ),
        ("protocol=spearman,tau_b", "protocol.coefficients=spearman,tau_b"),
        ("protocol=umic_2021", "protocol=umic_2021"),
        ("protocol=by_image", "protocol.level=by_image"),
        ("--floors metrics=bleu_1", "floors=true metrics=bleu_1"),
        ("--floors false --output-dir x", "floors=false output_dir=x"),
    ],
)
def test_options_that_are_understood_exactly(captau, typed, full):
    composed = captau("bench", *typed.split(), "--cfg", "job")
    assert composed[0] == 0
    assert composed == captau("bench", *full.split(), "--cfg", "job")


@pytest.mark.slow
def test_the_last_run(captau, tmp_path):
    """`last` is the newest finished run, and the default of what reads runs; `./last` is a folder."""
    quick = ("statistics.replicates=20", "metrics=bleu_1")
    assert captau("bench", *quick)[0] == 0
    (first,) = Path("results/runs").iterdir()
    assert captau("bench", *quick, "protocol.coefficients=tau_c", "output_dir=last")[0] == 0
    assert captau("rank", *quick)[0] == 0
    (second,) = set(Path("results/runs").iterdir()) - {first}
    os.utime(first / "run.json", (1, 1))
    (tmp_path / "results" / "runs" / "unfinished").mkdir()
    for words in (("cite",), ("table",), ("cite", "run=last")):
        said = captau(*words)
        assert said[2].splitlines()[0] == f"captau: run={second}"
        assert said[1] == captau(words[0], f"run={second}")[1]
    assert captau("cite", "run=./last")[1] == captau("cite", f"run={tmp_path / 'last'}")[1]
    os.utime(second / "run.json", (0, 0))
    assert captau("bench", "run=last", "output_dir=again")[0] == 0
    for name in ("correlations.csv", "ranks.csv"):
        assert Path("again", name).read_bytes() == (first / name).read_bytes()
    assert "0 of" in captau("compare", "run=last,again")[1]


def test_shell_completion_installs_itself(captau):
    status, out, _ = captau("-sc", "install=bash")
    assert status == 0
    assert "complete -o nospace" in out
    zsh = captau("-sc", "install=zsh")[1]
    assert zsh.index("bashcompinit") < zsh.index("complete -o nospace")


def test_output_to_a_closed_pipe_is_quiet(tmp_path):
    code = "import sys; sys.argv[1:] = ['--help']; from captau.benchmarks.cli import run_program; run_program()"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" | true',
        shell=True,
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("redirection", "status", "problem"),
    [
        (">&-", 0, ""),
        pytest.param(
            ">/dev/full",
            2,
            "captau: standard output: No space left on device\n",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="elsewhere is no /dev/full"),
        ),
    ],
)
def test_output_that_cannot_be_written_ends_with_its_status(redirection, status, problem):
    code = "import sys; sys.argv[1:] = ['--version']; from captau.benchmarks.cli import run_program; run_program()"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" {redirection}',
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, problem)


@pytest.mark.parametrize(
    "redirection",
    [
        pytest.param(">&-", marks=pytest.mark.slow),
        pytest.param("2>&-", marks=pytest.mark.slow),
        "<&- >&- 2>&-",
    ],
)
def test_a_run_is_written_whole_where_a_standard_stream_is_closed(redirection, tmp_path):
    words = "['bench', 'metrics=bleu_1', 'output_dir=run']"
    code = f"import sys; sys.argv[1:] = {words}; from captau.benchmarks.cli import run_program; run_program()"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" {redirection}',
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "demo,usual,overall,bleu_1,tau_c," in (tmp_path / "run" / "correlations.csv").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's limit is needed")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_is_cut_off_is_an_error(unbuffered, tmp_path):
    """A write that has room for a part says so by its count alone."""
    code = "import sys; sys.argv[1:] = ['--help', 'all']; from captau.benchmarks.cli import run_program; run_program()"
    done = subprocess.run(
        f'ulimit -f 1; {sys.executable} -B -c "{code}" > {tmp_path / "help.txt"}',
        shell=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "captau: standard output: File too large\n")
    assert (tmp_path / "help.txt").stat().st_size in (512, 1024)


@pytest.mark.parametrize("value", ["${nowhere}", "${oc.env:NOT_SET}"])
def test_an_interpolation_that_does_not_resolve_is_one_line(value, captau):
    status, _, err = captau("bench", f"output_dir={value}")
    assert status == 2
    assert value[2:-1].rpartition(":")[2] in err
    assert err.endswith(" not found; write the value itself\n")


def test_a_sweep_without_runs_is_an_error(captau, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = captau("bench", "--multirun", "statistics.seed=range(0,0)")
    assert status == 2
    assert "the range has no values" in err
    assert not list(tmp_path.iterdir())


def test_the_end_of_a_process_runs_what_waits_for_it():
    """Files that are deleted at the end are, though the process ends at once."""
    code = """
import atexit
from captau.benchmarks.cli import main
def run(words):
    atexit.register(print, "deleted")
    return main.split_command(words)
main._run = run
main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "nothing"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "deleted\n")
    assert done.stderr.startswith("captau: ")


def test_a_program_that_calls_a_command_keeps_its_own_status_and_garbage_collection():
    """What the program does behind the command, and what it has registered before, is not cut off."""
    code = """
import atexit, gc, sys
atexit.register(print, "saved")
from captau.benchmarks.cli.main import main
threshold = gc.get_threshold()
try:
    main(["--version"])
except SystemExit:
    assert gc.get_threshold() == threshold
    sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (7, ["saved"])


@pytest.mark.parametrize("is_terminal", [False, True])
def test_names_in_the_data_cannot_steer_the_terminal(is_terminal, tmp_path, capsys, monkeypatch):
    """A file of judgements may come from anybody; its dimension and its system are in the table."""
    rows = [f"{k},a dog,a cat,{k},\x1b[2Js{k % 2},d\x1b]0;x\x07" for k in range(4)]
    lines = ["image,caption,references,value,system,dimension", *rows]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    status = run_captau(
        *("rank", "dataset=file", f"file.path={tmp_path / 'mine.csv'}", "metrics=rouge_1"),
        *("statistics.replicates=20", f"output_dir={tmp_path / 'out'}"),
    )
    printed = capsys.readouterr().out
    assert status == 0
    assert "d\\x1b]0;x\\x07" in printed
    assert "\x1b[2J" not in printed
    assert "\x07" not in printed
