"""Words of a command line as overrides and flags of Hydra."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.benchmarks.cli.arguments import spell_out, split_flags
from captau.benchmarks.cli.registry import COMMANDS
from tests.conftest import run_captau, says


@pytest.mark.parametrize(
    ("command", "typed", "overrides", "flags"),
    [
        ("bench", "dataset=demo,thumb", ["dataset=[demo,thumb]"], []),
        ("bench", "dataset=[demo,thumb]", ["dataset=[demo,thumb]"], []),
        ("bench", "-m dataset=demo,thumb", ["dataset=demo,thumb"], ["-m"]),
        ("bench", "metrics=cider,bleu_4", ['metrics=["cider","bleu_4"]'], []),
        ("bench", "--multirun metrics=cider,bleu_4", ["metrics=cider,bleu_4"], ["--multirun"]),
        ("bench", "metrics='cider',mine.csv", ["metrics=['cider',\"mine.csv\"]"], []),
        ("bench", 'metrics=[a(b="c")]', ["metrics=['a(b=\"c\")']"], []),
        ("bench", "protocol.coefficients=tau_b,tau_c", ["protocol.coefficients=[tau_b,tau_c]"], []),
        ("bench", "--cfg job", [], ["--cfg", "job"]),
        ("bench", "--cfg=job --resolve", [], ["--cfg", "job", "--resolve"]),
        ("bench", "file.path=it's.csv", ["file.path='it\\'s.csv'"], []),
        ("bench", "file.path=null", ["file.path=null"], []),
        ("bench", "hydra.verbose=true", ["hydra.verbose=true"], []),
        ("score", "a.json", ["candidates='a.json'"], []),
        ("score", "a.json r.json", ["candidates='a.json'", "references='r.json'"], []),
        ("score", "- r.json", ["candidates='-'", "references='r.json'"], []),
        ("score", "a.json -", ["candidates='a.json'", "references='-'"], []),
        (
            "score",
            "a.json b.json r.json statistics.seed=1",
            ["statistics.seed=1", "candidates=['a.json','b.json']", "references='r.json'"],
            [],
        ),
        (
            "score",
            "a.json references=r.json b.json",
            ["references='r.json'", "candidates=['a.json','b.json']"],
            [],
        ),
        ("score", "candidates=a.json,b.json", ["candidates='a.json,b.json'"], []),
        ("score", "candidates=here.json,b.json", ["candidates=['here.json','b.json']"], []),
        ("score", "candidates=[a.json,b.json]", ["candidates=['a.json','b.json']"], []),
        ("score", "candidates=x=here.json,y='b,c'", ["candidates=['x=here.json','y=b,c']"], []),
        ("train", "rater.anything=1", ["rater.anything=1"], []),
        ("data list", "data.root=~", [f"data.root='{Path.home()}'"], []),
        ("data list", "demo", ["dataset=demo"], []),
        ("validate", "a.json references=r.json", ["file='a.json'", "references='r.json'"], []),
        ("bench", "-h", [], ["-h"]),
        ("bench", "--help all", [], ["--help", "all"]),
        ("bench", "-c all --resolve", [], ["-c", "all", "--resolve"]),
        ("bench", "-i defaults-tree floors=true", ["floors=true"], ["-i", "defaults-tree"]),
        ("bench", "--info", [], ["--info"]),
        ("bench", "--cfg job -p=statistics", [], ["--cfg", "job", "-p", "statistics"]),
        ("bench", "--cfg job --package=file", [], ["--cfg", "job", "--package", "file"]),
        ("bench", "-cn=mine floors=true", ["floors=true"], ["-cn", "mine"]),
        ("bench", "--config-name=mine --run", [], ["--config-name", "mine", "--run"]),
        ("bench", "-r floors=true", ["floors=true"], ["-r"]),
        ("bench", "+model=a ++b=1 ~floors", ["+model=a", "++b=1", "~floors"], []),
        ("bench", "protocol@x=usual", ["protocol@x=usual"], []),
        ("bench", "+experiment=a", ["experiment@_global_=a"], []),
        ("bench", "experiment=a,b", ["experiment@_global_=[a,b]"], []),
        ("bench", "-m experiment=a,b", ["experiment@_global_=a,b"], ["-m"]),
        ("bench", "-m dataset=glob(demo*)", ["dataset=glob(demo*)"], ["-m"]),
        (
            "bench",
            "hydra.mode=MULTIRUN metrics=a,b",
            ["hydra.mode=MULTIRUN", "metrics=a,b"],
            [],
        ),
        ("bench", "hydra/launcher=x datasets.a=b", ["hydra/launcher=x", "datasets.a=b"], []),
        ("bench", "metrics=[a,b", ["metrics=[a,b"], []),
        ("bench", "metrics=[a,,b]", ['metrics=["a","b"]'], []),
        ("bench", "metrics=a]", ["metrics=a]"], []),
        ("bench", "metrics='a",  ["metrics='a"], []),
        ("bench", "metrics=a(b=1,c=2),d", ['metrics=["a(b=1,c=2)","d"]'], []),
        ("bench", "metrics='a'b,c", ["metrics=[\"'a'b\",\"c\"]"], []),
        ("bench", "-m metrics=[a,b]", ["metrics=[a,b]"], ["-m"]),
        ("bench", "-m metrics=a(b=1),c", ['metrics="a(b=1)",c'], ["-m"]),
        ("bench", "-m metrics=choice(a,b)", ["metrics=choice(a,b)"], ["-m"]),
        ("bench", "-m metrics=['a(b=1)'],[c]", ["metrics=['a(b=1)'],[c]"], ["-m"]),
        ("bench", "dataset='demo','thumb'", ["dataset=[demo,thumb]"], []),
        ("bench", "dataset=demo", ["dataset=demo"], []),
        ("bench", "file.path='a.csv'", ["file.path='a.csv'"], []),
        ("bench", "file.path=", ["file.path="], []),
        ("bench", r"file.path=a\b", [r"file.path='a\\b'"], []),
        ("score", "candidates=b.json,here.json", ["candidates=['b.json','here.json']"], []),
        ("score", "candidates=here,b.json", ["candidates='here,b.json'"], []),
        ("score", "candidates=a,b", ["candidates='a,b'"], []),
        ("score", "candidates=[x='a,b',y=c]", ["candidates=['x=a,b','y=c']"], []),
        ("score", "-m candidates=a,here.json", ["candidates='a','here.json'"], ["-m"]),
        ("score", "-m candidates=[a,here.json],[b]", ["candidates=['a','here.json'],['b']"], ["-m"]),
        ("score", "-m candidates=choice(a,b)", ["candidates=choice(a,b)"], ["-m"]),
        ("score", "-m candidates='a,b',c", ["candidates='a,b',c"], ["-m"]),
        ("score", "-m output_dir=a,b", ["output_dir='a,b'"], ["-m"]),
        ("score", "candidates=[a", ["candidates='[a'"], []),
        ("score", "candidates=a]", ["candidates='a]'"], []),
    ],
)  # fmt: skip
def test_words_become_overrides_and_flags(
    command: str,
    typed: str,
    overrides: list[str],
    flags: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lists are quoted but in sweeps, where Hydra makes a run of each; commas divide where a file is there."""
    monkeypatch.chdir(tmp_path)
    Path("here.json").touch()
    assert split_flags(COMMANDS[command], typed.split(" ")) == (overrides, flags)


@pytest.mark.parametrize(
    ("command", "typed", "parts"),
    [
        ("bench", "-c hydra --info all", ["-c does not go with --info"]),
        ("bench", "--info -m floors=true", ["-m does not go with --info"]),
        ("bench", "-p=statistics", ["-p goes with --cfg: --cfg job -p statistics"]),
        ("bench", "rater.anything=1", ["unknown option of captau bench 'rater.anything'"]),
        ("bench", "--cfg", ["--cfg: one of ", "job", " is expected"]),
        ("bench", "--cfg=jib", ["--cfg=jib: one of "]),
        ("bench", "--resolve", ["--resolve goes with --cfg: --cfg job --resolve"]),
        ("bench", "--multirun=yes", ["--multirun=yes: it takes no value"]),
        ("bench", "help", ["captau bench --help shows the options"]),
        ("bench", "demo", ["'demo' is not of the form key=value; write dataset=demo"]),
        ("bench", "floors", ["write floors=VALUE; see captau bench --help"]),
        ("bench", "anything", ["key=value; see captau bench --help"]),
        ("bench", "dataset=demo thumb", ["as in dataset=demo,thumb; see"]),
        ("bench", "floors=true dataset=demo thumb", ["as in dataset=demo,thumb; see"]),
        ("bench", "dataset=demo floors=true thumb", ["as in floors=true,thumb; see"]),
        ("bench", "dataset=[demo] thumb", ["as in dataset=demo,thumb; see"]),
        ("check", "mine.yaml", ["write baseline=mine.yaml; see captau check --help"]),
        (
            "score",
            "candidates=mine.json refs.json",
            ["write references=refs.json; see"],
        ),
        (
            "score",
            "mine.json candidates=base.json",
            ["candidates= is given 2 times; several are written candidates=A,B"],
        ),
        ("bench", "dataset=", ["dataset= is empty; known: "]),
        ("bench", "dataset=demos", ["unknown dataset 'demos'", "did you mean demo"]),
        ("bench", "--cfg=jib", ["--cfg=jib: one of job, hydra, all is expected"]),
        ("bench", "-c", ["-c: one of job, hydra, all is expected"]),
        ("bench", "--cfg -m", ["--cfg: one of job, hydra, all is expected"]),
        ("bench", "?", ["captau bench --help shows the options"]),
        ("check", "mine.yml", ["write baseline=mine.yml; see captau check --help"]),
        (
            "bench",
            "mine.yaml",
            ["'mine.yaml' is not of the form key=value; see captau bench --help"],
        ),
        (
            "bench",
            "mine.json",
            ["'mine.json' is not of the form key=value; see captau bench --help"],
        ),
        *(
            ("probe", f"x.{ending}", [f"write candidates=x.{ending} references=FILE; see"])
            for ending in ("jsonl", "csv", "tsv", "gz", "parquet")
        ),
        (
            "score",
            "x.txt",
            ["'x.txt' is not of the form key=value, and there is no file of this name; see captau"],
        ),
        (
            "score",
            "mine.json refs",
            ["'refs' is not of", ", and there is no file of this name; see"],
        ),
        (
            "score",
            "a=here refs.json",
            ["option of captau score 'a'; a file gets a name", "candidates=a=here references=FILE"],
        ),
        ("score", "mine=- refs.json", ["candidates=mine=- references=FILE"]),
        ("check", "here", ["write candidates=here against=FILE references=FILE; see"]),
        ("bench", "here", ["write dataset=file file.path=here; see captau bench --help"]),
        (
            "calibrate",
            "here",
            [
                "write dataset=file file.path=here for judgements, else candidates=here references=FILE"
            ],
        ),
        ("score", "metrics=a stdout", ["as in metrics=[a,stdout".replace("[", ""), "; see"]),
        (
            "data list",
            "demo thumb",
            ["a list has commas and no blanks, as in dataset=demo,thumb; see"],
        ),
        ("bench", "+flors=1", ["unknown option of captau bench '+flors'", "did you mean floors"]),
        (
            "bench",
            "++seeed=1 ++stastics.seed=1",
            ["'++stastics.seed': did you mean statistics.seed"],
        ),
        ("bench", "dataset=''", ["dataset= is empty; known: "]),
        (
            "score",
            "metrics=bleu_1 partial=true metrics=cider",
            ["metrics= is given 2 times; several are written metrics=A,B"],
        ),
        (
            "bench",
            "statistics.seed=1 statistics.seed=2",
            ["statistics.seed= is given 2 times; leave one of them out"],
        ),
    ],
)
def test_words_that_are_no_options_have_advice(
    command: str, typed: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").touch()
    with says(*parts):
        split_flags(COMMANDS[command], typed.split(" "))


@pytest.mark.parametrize(
    ("typed", "spelt"),
    [
        ("seed=1", "statistics.seed=1"),
        ("--seed 1 --replicates=9", "statistics.seed=1 statistics.replicates=9"),
        ("--floors --details", "floors=true details=true"),
        ("--floors false metrics=a", "floors=false metrics=a"),
        ("--floors metrics=a", "floors=true metrics=a"),
        ("--output-dir x", "output_dir=x"),
        ("-m seed=1", "-m statistics.seed=1"),
        ("word metrics=a", "word metrics=a"),
        ("protocol=tau_b", "protocol.coefficients=tau_b"),
        ("protocol=mean_rating", "protocol=mean_rating"),
        ("protocol=[spearman,pearson]", "protocol.coefficients=[spearman,pearson]"),
        ("protocol=nothing", "protocol=nothing"),
        ("protocol=", "protocol="),
        ("--seed=", "statistics.seed="),
        ("-cn mine -p=file --cfg job", "-cn=mine -p=file --cfg job"),
        ("--config-name mine --run seed=1", "--config-name=mine --run statistics.seed=1"),
        ("-seed=5", "statistics.seed=5"),
        ("--output-dir -x", "output_dir=-x"),
        ("--floors true --details=false", "floors=true details=false"),
        ("--floors true", "floors=true"),
        ("--dataset demo", "dataset=demo"),
        ("a.b=c=d", "a.b=c=d"),
        ("protocol=tau_b,spearman", "protocol.coefficients=tau_b,spearman"),
        ("protocol=tau_b,usual", "protocol=tau_b,usual"),
        ("protocol='tau_b'", "protocol.coefficients='tau_b'"),
    ],
)
def test_words_are_spelt_in_full(typed: str, spelt: str) -> None:
    assert spell_out(COMMANDS["bench"], typed.split(" ")) == spelt.split(" ")


@pytest.mark.parametrize("command", ["score", "probe", "check"])
def test_columns_of_one_file_are_options_of_captions(command: str) -> None:
    """`candidates` is a file, below which Hydra has no place for an option."""
    typed = ["candidates.columns.image_id=doc.id", "--references.columns.image_id=id"]
    spelt = ["columns.candidate_id=doc.id", "columns.image_id=id"]
    assert spell_out(COMMANDS[command], typed) == spelt


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("--flors", ["unknown flag of captau bench '--flors'"]),
        ("--output-dir", ["--output-dir: a value is expected, as output_dir=VALUE"]),
        ("--run last", ["--run last: write run=last; --run by itself is Hydra's flag"]),
        ("--run=last", ["--run last: write run=last"]),
        ("-cn", ["-cn: a name is expected, as -cn my_bench"]),
        ("--cfg job -p", ["-p: a name is expected, as -p statistics"]),
        ("-cp x", ["-cp: captau's own files stay; --config-dir DIR adds yours"]),
        ("--experimental-rerun=x", ["captau unpickles no file; run=DIR repeats a finished run"]),
        ("--version", ["--version: captau --version prints the version"]),
        ("-sc install=bash", ["-sc: captau -sc install=bash comes without a command"]),
        ("--seed --floors", ["--seed: a value is expected, as statistics.seed=VALUE"]),
        ("split=x", ["split= may be ", "file.split", "protocol.split", "; write one of them"]),
        ("protocol=drop", ["protocol=drop may be ", "protocol.ties=drop", "; write one of them"]),
        ("level=0.9", ["level= may be protocol.level or statistics.level; write one of them"]),
        ("root=x", ["root= may be ", "data.root", " or ", "; write one of them"]),
    ],
)
def test_words_that_cannot_be_spelt_in_full_are_an_error(typed: str, parts: list[str]) -> None:
    with says(*parts):
        spell_out(COMMANDS["bench"], typed.split(" "))


@pytest.mark.parametrize(
    ("command", "typed", "meanings"),
    [
        ("train", "seed=3", "seeds or statistics.seed"),
        ("score", "metric=cider", "metrics or keep.metric"),
    ],
)
def test_a_word_whose_plural_is_an_option_may_be_that_one(
    command: str, typed: str, meanings: str
) -> None:
    """`seed=3` of a training was read as the seed of intervals, and the rater was that of seed 0."""
    with says(f"{typed.partition('=')[0]}= may be {meanings}; write one of them"):
        spell_out(COMMANDS[command], [typed])


@pytest.mark.parametrize(
    ("prefix", "part"),
    [
        ("frobs=", "unknown option of captau score 'frobs'"),
        ("", "is not of the form key=value"),
    ],
)
def test_a_text_longer_than_a_files_name_is_no_file(prefix: str, part: str, capsys) -> None:
    assert run_captau("score", f"{prefix}{'a dog runs ' * 100}") == 2
    assert part in capsys.readouterr().err
