"""What is read of folders of runs that were written by hand, and the whole line where something is wrong."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.runs import output_folder
from captau.benchmarks.runs.finished_run import check_same_data, read_run, read_runs
from captau.benchmarks.runs.output_folder import (
    check_writable,
    find_run,
    is_process_alive,
    list_runs,
    write_file,
)
from captau.datasets.errors import InputError
from tests.conftest import says

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


def make_run(files: Mapping[str, str], command: str = "bench", **record: Any) -> Path:
    """Write files and a run.json with their digests into the folder `run`, or another that is named."""
    folder = Path(record.pop("folder", "run"))
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    digests = {n: hashlib.sha256(t.encode()).hexdigest() for n, t in files.items()}
    plain = {"command": command, "format": 1, "config": {}, "versions": {"captau": "9"}}
    (folder / "run.json").write_text(json.dumps({**plain, "files": digests, **record}))
    return folder


def make_bench(**record: Any) -> Path:
    more = {"protocols": PROTOCOLS, "data": {}, "signatures": {}}
    return make_run({"correlations.csv": CORRELATIONS}, **{**more, **record})


def test_correlations_and_those_whose_coefficient_the_protocol_names(here: Path) -> None:
    run = read_run(make_bench())
    assert (run.command, run.files, run.main_table) == (
        *("bench", ("correlations.csv",), "correlations.csv"),
    )
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
    record = json.loads((folder / "run.json").read_text())
    del record["files"]
    (folder / "run.json").write_text(json.dumps(record))
    run = read_run(folder)
    assert run.files == ("systems.csv", "wins.csv", "table.md")
    assert run.main_table == "systems.csv"
    run = read_run(make_run({"table.md": ""}, "cite", folder="b"))
    with says("b is a run of captau cite, which has no numbers to join"):
        _ = run.main_table


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


def test_the_last_run_is_the_newest_finished_one(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert list_runs() == []
    with says("there is no finished run in results/runs; name one with run=DIR"):
        find_run("last")
    with says("the option run=… is needed; see --help"):
        find_run("")
    for number, name in enumerate(("c", "a", "b", "d")):
        folder = make_run({}, folder=f"results/runs/{name}")
        os.utime(folder / "run.json", ns=(0, (5, 7, 7, 1)[number]))
    Path("results/runs/unfinished").mkdir()
    folders = [Path("results/runs") / name for name in "bacd"]
    assert list_runs() == folders
    with caplog.at_level(logging.INFO):
        assert find_run("last") == folders[0]
    assert caplog.messages == ["run=results/runs/b"]
    assert find_run("./last") == Path("last")
    assert find_run("~/x") == Path("~/x").expanduser()


def test_where_a_file_can_be_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(Path("new/deep/a.csv"))
    assert list(here.iterdir()) == []
    Path("folder").mkdir()
    remedy = "make room or name another file"
    with says(f"{here / 'folder'}: cannot be written (it is a folder); {remedy}"):
        check_writable(Path("folder"))
    Path("a.csv").write_text("x")
    with says(f"{here / 'a.csv' / 'b'}: cannot be written (Not a directory); {remedy}"):
        check_writable(Path("a.csv/b"))
    check_writable(Path("a.csv"))
    assert Path("a.csv").read_text() == "x"
    touched = []
    touch = Path.touch
    monkeypatch.setattr(Path, "touch", lambda path: (touched.append(path.parent), touch(path)))
    check_writable(Path("folder/sub/a.csv"))
    assert touched == [here / "folder"]
    assert sorted(p.name for p in here.rglob("*")) == ["a.csv", "folder"]


def test_a_file_is_written_whole_and_a_link_stays_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(Path("new/deep/a.csv"), b"one")
    Path("link").symlink_to("new/deep/a.csv")
    write_file(Path("link"), b"two")
    assert Path("link").is_symlink()
    assert Path("new/deep/a.csv").read_bytes() == b"two"
    dead = f".a.csv.{2**22 + 1}.tmp"  # no process of Linux has this number
    others = [f".b.csv.{2**22 + 1}.tmp", f".a.csv.{os.getppid()}.tmp", ".axcsv.1.tmp"]
    for name in (dead, *others):
        Path("new/deep", name).touch()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with says("cannot be written (No space left on device); make room or name another file"):
            write_file(Path("new/deep/a.csv"), b"three")
    assert Path("new/deep/a.csv").read_bytes() == b"two"
    assert {p.name for p in Path("new/deep").iterdir()} == {"a.csv", *others}
    monkeypatch.setattr(output_folder, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_file(Path("new/deep/a.csv"), b"three")


def test_which_processes_live(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_process_alive(os.getpid())
    asked: list[tuple[int, int]] = []
    for error, expected in ((None, True), (PermissionError(), True), (ProcessLookupError(), False)):

        def kill(pid: int, number: int, raised: OSError | None = error) -> None:
            asked.append((pid, number))
            if raised:
                raise raised

        monkeypatch.setattr(output_folder.os, "kill", kill)
        assert is_process_alive(7) is expected
    assert asked == [(7, 0)] * 3
