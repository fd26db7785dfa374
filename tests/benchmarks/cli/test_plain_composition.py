"""Plain options are composed without Hydra, to what Hydra composes; Hydra itself is the reference."""

from __future__ import annotations

import json

import pytest

from captau.benchmarks.cli import hydra_runner
from captau.benchmarks.cli.arguments import split_flags
from captau.benchmarks.cli.plain_composition import compose_plainly
from captau.benchmarks.cli.registry import COMMANDS

PLAIN = [
    ("bench", ""),
    ("bench", "dataset=flickr8k_expert,demo protocol=umic_2021 protocol.ratings=mean protocol.k=2"),
    ("bench", "protocol.coefficients=[pearson,tau_b] protocol.split=null cache.use=false"),
    ("bench", "statistics.level=0.9 statistics.replicates=100 data.root=../x output_dir='a b'"),
    ("compare", "tests=[bootstrap] metrics=bleu_4,cider(variant=plain)"),
    ("score", "candidates=a.json,b.json references=/tmp/c.json keep.above=0.5 keep.metric=cider"),
    ("agree", "words.label=[a,b] dataset=thumb"),
    ("data fetch", "dataset=thumb"),
]
#: Each takes a conversion, an error, a sweep, a package or a grammar that is Hydra's.
OTHERS = [
    "statistics.level=1",
    "statistics.replicates=many",
    "statistics.replicates=1e2",
    "cache.use=yes",
    "protocol.split=2014",
    "protocol.k=None",
    "protocol.dimension={a:1}",
    "protocol.dimension=${oc.env:HOME}",
    "protocol.name=a protocol.name=b",
    "hydra.job.name=x",
    "metrics=[]",
]


def compose(name, words):
    overrides, _ = split_flags(COMMANDS[name], words)
    return compose_plainly(COMMANDS[name], overrides), overrides


@pytest.mark.parametrize(("name", "words"), PLAIN)
def test_plain_options_are_composed_as_hydra_composes_them(name, words):
    """Keys, their order and the types of values are equal, as run.json records them."""
    plain, overrides = compose(name, words.replace("'a b'", "'a_b'").split())
    hydra_runner.register(COMMANDS[name])
    theirs = hydra_runner.composed_of(hydra_runner._compose(COMMANDS[name], overrides))
    assert plain is not None
    assert json.dumps(plain.plain) == json.dumps(theirs.plain)
    assert plain.typed == theirs.typed


@pytest.mark.parametrize("words", OTHERS)
def test_options_that_are_not_plain_are_left_to_hydra(words):
    assert compose("bench", words.split())[0] is None


def test_a_needed_option_and_own_files_are_left_to_hydra(monkeypatch, tmp_path):
    assert compose("report", [])[0] is None
    monkeypatch.setenv("CAPTAU_CONFIG_DIR", str(tmp_path))
    assert compose("bench", [])[0] is None
