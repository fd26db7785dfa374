"""Which values the options of commands refuse, and in which words.

`tests/golden/options/refused.txt` has the values that an option refuses by itself. After a wanted change
`CAPTAU_GOLDEN=write pytest tests/benchmarks/options/test_declared_options.py` writes it anew; read the difference
before it is committed. What it says was checked by eye.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_module
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict

from captau.benchmarks.cli.arguments import split_flags
from captau.benchmarks.cli.hydra_config import register
from captau.benchmarks.cli.hydra_runner import composed_of
from captau.benchmarks.cli.registry import COMMANDS
from captau.benchmarks.options.check import CheckOptions
from captau.benchmarks.options.declaration import Declaration, Options, declarations
from captau.benchmarks.options.finished_runs import TableOptions
from captau.benchmarks.options.large import is_large_path
from captau.benchmarks.options.score import (
    NamedFile,
    captions_from_python,
    files_of,
    threshold_of,
)
from captau.benchmarks.options.shared import names_of, words_of
from captau.benchmarks.regression.choices import CheckChoices
from captau.benchmarks.reporting.tables.table_choices import TableChoices
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.scoring.score_store import Locations
from captau.datasets.errors import InputError
from tests.conftest import says

GOLDEN = Path(__file__).parents[2] / "golden" / "options"
#: Values that some option refuses; 10⁵ and 10⁶ are the most draws and pairs.
PROBES = [-1, 0, 0.5, 1, 2, 1.5, 100_000, 100_001, 1_000_000, 1_000_001, "nothing"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CAPTAU_DATA", "CAPTAU_SPICE_JARS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("captau.benchmarks.options.shared.find_runs", lambda text: [Path(text)])
    monkeypatch.setattr("captau.benchmarks.options.finished_runs.find_run", Path)
    for name in ("a", "b"):
        Path(name).mkdir()


def checks_of(cls: type[Options]) -> Iterator[str]:
    fields_and_held: list[Declaration] = []
    for declaration in declarations(cls).values():
        fields_and_held += [declaration, *declaration.held_fields.values()]
    for declaration in fields_and_held:
        if declaration.check is None:
            continue
        for value in PROBES:
            # A check of numbers cannot take words, and one of words no numbers.
            with contextlib.suppress(TypeError):
                try:
                    declaration.check(value, declaration.options[0].key)
                except InputError as error:
                    yield str(error)


def read(name: str, typed: str) -> Options:
    command = COMMANDS[name]
    overrides, _ = split_flags(command, typed.split())
    register(command)
    with initialize_config_module("captau.conf", version_base="1.3"):
        config = compose(command.slug, overrides, return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        del config["hydra"]
    return command.options.read(composed_of(command, config))


def outcome_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or says on what it refuses."""
    try:
        return function(*arguments)
    except InputError as error:
        return str(error)


def is_as_in(file: Path, lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_choices_that_nobody_makes_are_the_defaults_of_the_domain() -> None:
    """YAML has None and lists where the dataclasses have empty values and tuples."""
    table = read("table", "run=a")
    assert isinstance(table, TableOptions)
    assert table.choices == TableChoices()
    check = read("check", "baseline=golden.yaml")
    assert isinstance(check, CheckOptions)
    # A check neither stores scores nor reads them back.
    assert check.choices == CheckChoices(locations=Locations(use_cache=False))


def refusals_of(name: str) -> list[str]:
    """Say which values the options of a command, and of its variants, refuse."""
    lines = [f"captau {name}"]
    cls = COMMANDS[name].options
    for kind in (cls, *cls.variants):
        lines += [f"  {message}" for message in dict.fromkeys(checks_of(kind))]
    return lines


def test_commands_refuse_these_values() -> None:
    lines = [line for name in COMMANDS for line in refusals_of(name)]
    is_as_in(GOLDEN / "refused.txt", lines)


@pytest.mark.parametrize(("name", "typed", "message"), [
    ("compare", "metrics=cider", "metrics=cider; two are needed to compare"),
    ("compare", "metrics=cider,meteor statistics.interval=none",
     "statistics.interval=none draws no images, which a comparison needs; choose expanded, percentile or bca"),
    ("compare", "run=a,b metrics=cider", "run=A,B compares two finished runs; leave out metrics="),
    ("compare", "run=a", "run= names 1 folders; two runs are compared"),
    ("compare", "run=a,b,c", "run= names 3 folders; two runs are compared"),
    ("check", "", "name the baseline, baseline=FILE, or captions, candidates=FILE against=FILE"),
    ("check", "baseline=a.yaml dataset=demo,thumb", "dataset=demo,thumb; a baseline has one dataset"),
    ("check", "candidates=a.json", "the option against=… is needed; see --help"),
    ("check", "against=a.json", "the option candidates=… is needed; see --help"),
    ("check", "candidates=a.json against=b.json sample=1", "sample= does not go with candidates=; leave one of them out"),
    ("check", "candidates=a.json against=b.json statistics.interval=fisher",
     "statistics.interval=fisher needs correlations; choose expanded, percentile, bca or none"),
    ("check", "candidates=a.json against=b.json statistics.interval=none", "statistics.interval=none has no test; leave it out"),
    ("data fetch", "", "the option dataset=… is needed: a name, A,B, a named set or all; see captau data list"),
    ("table", "run=a label=a_b{", "label=a_b{: LaTeX takes no blank and none of { } % \\ # in a label"),
    ("table", "run=a output=x.md appendix=x.md", "appendix=x.md: this is the file of output=; name another"),
    ("table", "run=a published=clipscore", "unknown paper 'clipscore'"),
    ("table", "run=a names=cider", "names is 'cider'; labels by metric are expected, as names={cider: CIDEr-D}"),
    ("rank", "rank.weights={overall:true}",
     "rank.weights is {'overall': True}; a number for each dimension is expected, as rank.weights={precision: 0.5, recall: 0.5}"),
    ("compare", "tests=[]", "tests is []; one or several of bootstrap,permutation,williams,mcnemar are expected"),
    ("rank", "statistics.interval=fisher",
     "statistics.interval=fisher needs correlations; choose expanded, percentile, bca or none"),
    ("reproduce", "", "the option paper=… is needed: all, or some of "),
    ("reproduce", "paper=umic_2021 leave_out=[spicy]", "unknown metric 'spicy'"),
    ("score", "", "the option candidates=… is needed: the captions to score; see --help"),
    ("score", "candidates=a.json references=b.json keep.metric=cider", "keep.metric=METRIC and keep.above=SCORE go together"),
    ("score", "candidates=a.json references=b.json keep.above=1", "keep.metric=METRIC and keep.above=SCORE go together"),
    ("score", "candidates=a.json references=b.json metrics=meteor keep.metric=cider keep.above=1", "unknown metric to keep by 'cider'"),
    ("score", "candidates=[a.json,c.json] references=b.json keep.metric=cider keep.above=1",
     "keep.metric= needs one system and one set of references"),
    ("score", "candidates=a.json references=b.json stdout=kept.json", "stdout=kept.json needs keep.metric=METRIC and keep.above=SCORE"),
    ("score", "candidates=- references=-", "standard input can be read only once; name a file for the others"),
    ("score", "candidates=a.json keep.share=0.5", "keep.share= needs keep.run=DIR, a finished captau score of shards"),
    ("score", "keep.run=a candidates=b.json", "candidates= does not go with keep.run=; leave one of them out"),
    ("score", "keep.run=a keep.above=1", "keep.metric=METRIC is needed: the metric that decides which captions are kept"),
    ("score", "keep.run=a keep.metric=cider",
     "say which captions are kept, in one way: keep.above=SCORE, keep.share=SHARE, or keep.thresholds=DIR keep.precision=SHARE"),
    ("score", "keep.run=a keep.metric=cider keep.above=1 keep.share=0.5", "say which captions are kept, in one way: "),
    ("score", "keep.run=a keep.metric=cider keep.precision=0.5",
     "keep.precision= needs keep.thresholds=DIR, a finished run of captau thresholds"),
    ("score", "save_df=x.json", "save_df= needs references=FILE, whose document frequencies it writes"),
    ("score", "save_df=x.json references=[a.json,b.json]", "save_df= counts one file of references; name one"),
    ("score", "save_df=x.json references=a.json metrics=cider", "metrics= does not go with save_df=; leave one of them out"),
    ("score", "candidates=a.json tokenize=zh", "tokenize= goes with save_df=; of a metric write 'metrics=cider(tokenize=zh)'"),
    ("score", "candidates=a.json workers=1", "workers= works on large sets only; add engine=local"),
    ("score", "candidates=a.json skip_corrupt=true", "skip_corrupt= works on large sets only; add engine=local"),
    ("score", "candidates=a.json rows=9", "rows= works on large sets only; add engine=local"),
    ("score", "candidates=a.json work=x", "work= works on large sets only; add engine=local"),
    ("score", "candidates=a.tar partial=true",
     "partial= does not work on large sets; leave it out, or leave out engine= if the files are small"),
    ("score", "candidates=a.tar stdout=corpus.csv", "stdout= does not work on large sets; "),
    ("score", "candidates=a.tar protocol.normalise=thumb", "protocol.normalise= does not work on large sets; "),
    ("score", "candidates=a.tar keep.metric=cider keep.above=1", "keep.metric= does not go with shards; score them first, then "),
    ("score", "candidates=a.tar engine=slurm", "unknown engine 'slurm': known: local, ray"),
    ("score", "candidates=a.tar workers=-1", "workers is -1; 0 (this process alone) or more is expected"),
    ("score", "candidates=a.tar workers=0", ""),
    ("score", "candidates=a.tar ray.address=host:1", "ray.address=host:1 goes with engine=ray"),
    ("score", "candidates=a.tar engine=ray ray.address=host:1", ""),
    ("score", "candidates=a.tar rows=0", "rows is 0; at least 1 is expected"),
    ("score", "candidates=a.tar rows=1", ""),
    ("score", "candidates=mine=a.tar engine=local",
     "candidates: 'mine=' names a system, but the files of a large set are shards of one; leave it out"),
    ("score", "candidates=[x/a.json,y/a.json] references=b.json", ""),
    ("score", "candidates=[x=a.json,x=c.json] references=b.json", "two of candidates are called 'x'; name them: candidates=a=FILE,b=FILE"),
    ("agree", "kind=figures", "unknown kind 'figures': known: captions, ratings, words"),
    ("agree", "words.n=5", "words.n=… belongs to kind=words"),
    ("agree", "k=5", "k=… belongs to kind=captions or kind=words"),
    ("agree", "kind=words by=human", "by=… belongs to kind=ratings"),
    ("agree", "kind=words held_out=draw", "held_out=draw needs kind=captions; for words, held_out=each is the mean of all draws"),
    ("agree", "kind=captions held_out=draw", ""),
    ("agree", "kind=words references=a.json dataset=thumb", "give references=FILE or dataset=NAME, not both"),
    ("sensitivity", "kind=[]", "kind is empty; name at least one of images,raters,references,power,protocols,length"),
    ("thresholds", "good=1.5", "good is 1.5; a number above 0 and up to 1 is expected"),
    ("probe", "dataset=demo,demo2", "unknown dataset 'demo2'"),
    ("probe", "candidates=a.json", "candidates= needs references=FILE"),
    ("probe", "metrics=[]", "metrics is empty; name a suite or metrics, such as metrics=cider"),
    ("probe", "statistics.interval=fisher", "statistics.interval=fisher needs correlations; "),
    ("train", "", "the option rater=… is needed, one of "),
    ("train", "rater=icr seeds=0,0", "seeds=0,0; different whole numbers from 0 on are expected"),
    ("train", "rater=icr seeds=-1", "seeds=-1; different whole numbers from 0 on are expected"),
    ("train", "rater=icr seeds=[]", "seeds=; different whole numbers from 0 on are expected"),
    ("train", "rater=icr seeds=0.5", "seeds is 0.5; whole numbers are expected, as seeds=0,1,2"),
    ("train", "rater=icr seeds=[true]", "seeds is [True]; whole numbers are expected, as seeds=0,1,2"),
    ("train", "rater=icr strict=true", "strict=true and strict_control=true need design=folds"),
    ("train", "rater=icr strict_control=true", "strict=true and strict_control=true need design=folds"),
    ("train", "rater=icr design=folds strict=true strict_control=true", "strict=true and strict_control=true are two runs; choose one"),
    ("train", "rater=icr design=folds strict=true", ""),
    ("validate", "file=a.csv references=b.json", ""),
    ("validate", "file=a.csv dataset=demo references=b.json", "references=… and member=… belong to captions; scores need dataset=NAME"),
    ("validate", "file=a.csv dataset=demo member=b", "references=… and member=… belong to captions; scores need dataset=NAME"),
    ("validate", "file=a.json kind=captions dataset=demo", "dataset=… belongs to scores; captions need references=FILE"),
    ("validate", "file=a.json kind=scores references=b", "references=… and member=… belong to captions; scores need dataset=NAME"),
    ("validate", "file=a.csv kind=captions references=b", ""),
    ("validate", "file=a.json references=b", ""),
    ("validate", "file=a.json dataset=demo,thumb", "dataset=demo,thumb; a file of scores is checked with one dataset"),
    ("collect stability", "run=[]", "run= is empty; name the folder of a finished run, or several: run=A,B"),
    ("bench", "file.path=a.csv", "file.path=… belongs to dataset=file; choose that too"),
])  # fmt: skip
def test_options_that_do_not_go_together_have_one_line(name: str, typed: str, message: str) -> None:
    """No message where they do go together."""
    outcome = outcome_of(read, name, typed)
    said = outcome if isinstance(outcome, str) else ""
    assert said.startswith(message) if message[-1:] in (" ", "'") else said == message


@pytest.mark.parametrize(("read_value", "value", "expected"), [
    (words_of, None, ()),
    (words_of, [], ()),
    (words_of, ["b", 1, "b", 0.5], ("b", "1", "0.5")),
    (words_of, 7, ("7",)),
    (words_of, ["a", None], "tests is ['a', None]; a name or a list of names is expected"),
    (files_of, "a.json", (NamedFile("a", Path("a.json")),)),
    (files_of, ["x/a.json", "y/a.json", "b.json"],
     (NamedFile("x/a.json", Path("x/a.json")), NamedFile("y/a.json", Path("y/a.json")), NamedFile("b", Path("b.json")))),
    (files_of, ["m=x/a.json", "lr=0.1/a.json", "x/m=a.json", "=c.json"],
     (NamedFile("m", Path("x/a.json")), NamedFile("lr", Path("0.1/a.json")), NamedFile("m=a", Path("x/m=a.json")),
      NamedFile("c", Path("c.json")))),
    (files_of, "-", (NamedFile("stdin", Path("-")),)),
    (files_of, [], "tests is []; a file is expected, or several as A,B"),
    (files_of, ["a", ""], "tests is ['a', '']; a file is expected, or several as A,B"),
])  # fmt: skip
def test_values_that_are_read(
    read_value: Callable[[Any, str], Any], value: Any, expected: Any
) -> None:
    assert outcome_of(read_value, value, "tests") == expected


@pytest.mark.parametrize(("value", "expected"), [
    ("demo", ["demo"]),
    (("demo", "thumb"), ["demo", "thumb"]),
    ([], "dataset is empty; name at least one, see captau data list"),
    (None, "dataset is None; a name or a list of names is expected"),
    (["demo", 1], "dataset is ['demo', 1]; a name or a list of names is expected"),
])  # fmt: skip
def test_names_of_datasets(value: Any, expected: Any) -> None:
    assert outcome_of(names_of, value) == expected


@pytest.mark.parametrize(("file", "spelling"), [
    (NamedFile("a", Path("x/a.json")), "x/a.json"),
    (NamedFile("x/a.json", Path("x/a.json")), "x/a.json"),
    (NamedFile("b", Path("x/a.json")), "b=x/a.json"),
    (NamedFile("a", Path("a.json.gz")), "a.json.gz"),
    (NamedFile("a", Path("a.jsonl.BZ2")), "a.jsonl.BZ2"),
    (NamedFile("a.b", Path("x/a.b.csv.xz")), "x/a.b.csv.xz"),
    (NamedFile("a.json", Path("a.json.gz")), "a.json=a.json.gz"),
    (NamedFile("a.b", Path("a.b.json")), "a.b.json"),
    (NamedFile("stdin", Path("-")), "-"),
])  # fmt: skip
def test_a_file_is_spelt_with_its_name(file: NamedFile, spelling: str) -> None:
    assert file.spelling == spelling


@pytest.mark.parametrize(("path", "is_large"), [
    ("a.json", False), ("a.jsonl", False), ("a.ndjson.gz", False), ("a.JSONL", False), ("a.csv", False), ("a.txt", False),
    ("a.parquet", False), ("a.tar", True), ("s3://b/a.json", True), ("a", True), ("a?.json", True),
    ("a.jsonl.zst", False), ("a.pq", False), ("b*/", True), ("nothing", False), ("*.json", True),
    ("a.jsonl.bz2", False), ("a.jsonl.xz", False), ("a.tar.gz", True), ("s3://b/a.parquet", True),
])  # fmt: skip
def test_which_paths_are_shards(path: str, is_large: bool) -> None:
    """The folders a and b are there."""
    assert is_large_path(path) is is_large


IMAGE = {"image_id": 1, "caption": "a dog"}


@pytest.mark.parametrize(("value", "key", "expected"), [
    (None, "candidates", ()),
    ("a.json", "candidates", (NamedFile("a", Path("a.json")),)),
    ([Path("x.json"), "n=y.json"], "references", (NamedFile("x", Path("x.json")), NamedFile("n", Path("y.json")))),
    ({1: "a dog"}, "candidates", (NamedFile("candidates", Path("candidates"), b'{"1": "a dog"}'),)),
    ([IMAGE], "candidates", (NamedFile("candidates", Path("candidates"), b'[{"image_id": 1, "caption": "a dog"}]'),)),
    ([IMAGE], "references",
     (NamedFile("references", Path("references"), b'{"annotations": [{"image_id": 1, "caption": "a dog"}]}'),)),
    ([{"image_id": 1, "references": ["a", "b"]}, {"image_id": 2, "references": ["c"]}], "references",
     (NamedFile("references", Path("references"),
                b'{"image_id": 1, "references": ["a", "b"]}\n{"image_id": 2, "references": ["c"]}'),)),
    ({"x": {1: "a"}, "y": Path("y.json")}, "candidates",
     (NamedFile("x", Path("candidates x"), b'{"1": "a"}'), NamedFile("y", Path("y.json")))),
    ({"x": [IMAGE]}, "candidates",
     (NamedFile("x", Path("candidates x"), b'[{"image_id": 1, "caption": "a dog"}]'),)),
    ({"annotations": [IMAGE]}, "references",
     (NamedFile("references", Path("references"), b'{"annotations": [{"image_id": 1, "caption": "a dog"}]}'),)),
    ({1: ["a", "b"]}, "references", (NamedFile("references", Path("references"), b'{"1": ["a", "b"]}'),)),
    (pd.DataFrame({"image_id": [1, 2, 1], "caption": ["a", "b", "c"], "system": ["t", "s", "s"]}), "candidates",
     (NamedFile("t", Path("candidates t"), b'[{"image_id": 1, "caption": "a", "system": "t"}]'),
      NamedFile("s", Path("candidates s"),
                b'[{"image_id": 2, "caption": "b", "system": "s"}, {"image_id": 1, "caption": "c", "system": "s"}]'))),
    (pd.DataFrame({"image_id": [1], "caption": ["a"], "system": [None]}), "candidates",
     "candidates: some rows have no value in the column 'system'; name their system"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "candidates", "candidates: two columns have one name; keep one"),
    ({1: "a", "1": "b"}, "candidates", "candidates: an image id is there twice, as a number and as text; keep one"),
    ({"x": {1: "a", "1": "b"}}, "candidates", "candidates x: an image id is there twice, as a number and as text; keep one"),
    (5, "candidates", "candidates: a path, a dict, a list of dicts or a DataFrame is expected, and not int"),
    ({1: {2}}, "references", "references: a set is in it; image ids and texts are expected"),
    ({1: np.array(["a"])}, "references", (NamedFile("references", Path("references"), b'{"1": ["a"]}'),)),
    ("a.tar", "candidates", "candidates: a.tar is a large set, in shards; the command captau score takes it (docs/large_sets.md)"),
    ("a.parquet", "candidates", (NamedFile("a", Path("a.parquet")),)),
    ("a.parquet", "references", (NamedFile("a", Path("a.parquet")),)),
])  # fmt: skip
def test_captions_of_python(value: Any, key: str, expected: Any) -> None:
    assert outcome_of(captions_from_python, value, key) == expected


def test_a_folder_of_parts_is_one_file_of_references(tmp_path: Path) -> None:
    """As on the command line; of candidates it is a large set, which the function does not score."""
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "part-0.parquet").touch()
    expected = (NamedFile("parts", folder),)
    assert outcome_of(captions_from_python, str(folder), "references") == expected
    with says(f"candidates: {folder} is a large set, in shards"):
        captions_from_python(str(folder), "candidates")


def test_a_threshold_is_of_a_metric_that_is_computed() -> None:
    metrics = resolve_metrics(["cider", "meteor"])
    assert threshold_of(None, None, metrics) is None
    assert threshold_of("meteor", 0.0, metrics) == ("meteor", 0.0)


@pytest.mark.parametrize("is_better", [True, False])
def test_the_highest_scores_are_kept_of_metrics_of_which_more_is_better(
    is_better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(spec="made", higher_is_better=is_better)
    monkeypatch.setattr("captau.benchmarks.options.large.resolve_metrics", lambda _: [made])
    outcome = outcome_of(read, "score", "keep.run=a keep.metric=made keep.share=0.5")
    if is_better:
        assert (outcome.metric, outcome.share) == ("made", 0.5)
    else:
        assert outcome == (
            "keep.share= keeps the highest scores, but low scores of made are better; name another metric"
        )
