"""A run is repeated from its folder: the options of its run.json, but for those that are typed."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import captau as python


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


def test_datasets_of_another_type_in_a_run_are_one_line(captau, tmp_path):
    words = ("dataset=demo", "metrics=bleu_1", "statistics.interval=none", "output_dir=first")
    assert captau("bench", *words)[0] == 0
    record = json.loads((tmp_path / "first" / "run.json").read_text())
    record["config"]["datasets"] = 7
    (tmp_path / "first" / "run.json").write_text(json.dumps(record))
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
