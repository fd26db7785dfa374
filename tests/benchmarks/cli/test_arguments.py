"""Words of a command line as overrides and flags of Hydra."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.benchmarks.cli.arguments import spell_out, split_flags
from captau.benchmarks.cli.registry import COMMANDS
from tests.conftest import says


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
        ("score", "candidates=a.json,b.json", ["candidates='a.json,b.json'"], []),
        ("score", "candidates=here.json,b.json", ["candidates=['here.json','b.json']"], []),
        ("score", "candidates=[a.json,b.json]", ["candidates=['a.json','b.json']"], []),
        ("score", "candidates=x=here.json,y='b,c'", ["candidates=['x=here.json','y=b,c']"], []),
        ("train", "rater.anything=1", ["rater.anything=1"], []),
        ("data list", "data.root=~", [f"data.root='{Path.home()}'"], []),
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
        ("bench", "hydra.mode=RUN", ["hydra.mode cannot be set; --multirun runs a sweep"]),
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
        ("bench", "dataset=[demo] thumb", ["as in dataset=demo,thumb; see"]),
        ("check", "mine.yaml", ["write baseline=mine.yaml; see captau check --help"]),
        ("score", "mine.json", ["write candidates=mine.json references=FILE; see"]),
        ("score", "here", ["write candidates=here references=FILE; see"]),
        ("bench", "dataset=", ["dataset= is empty; known: "]),
        ("bench", "dataset=demos", ["unknown dataset 'demos'", "did you mean demo"]),
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
    ],
)
def test_words_are_spelt_in_full(typed: str, spelt: str) -> None:
    assert spell_out(COMMANDS["bench"], typed.split(" ")) == spelt.split(" ")


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("--flors", ["unknown flag of captau bench '--flors'"]),
        ("--output-dir", ["--output-dir"]),
        ("protocol=drop", ["protocol=drop may be ", "protocol.ties=drop", "; write one of them"]),
        ("level=0.9", ["level= may be protocol.level or statistics.level; write one of them"]),
        ("root=x", ["root= may be ", "data.root", " or ", "; write one of them"]),
    ],
)
def test_words_that_cannot_be_spelt_in_full_are_an_error(typed: str, parts: list[str]) -> None:
    with says(*parts):
        spell_out(COMMANDS["bench"], typed.split(" "))
