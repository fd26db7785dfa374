"""`captau thresholds`: precision and recall by threshold (Levinboim et al. 2021, section 6.2)."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.benchmarks.evaluation.test_threshold_curves import ext_ratings
from tests.conftest import run_captau


def test_a_run(tmp_path, capsys):
    out = tmp_path / "run"
    words = (
        "thresholds",
        "metrics=[bleu_1,rouge_l]",
        "good=0.75",
        "precision=0.5",
        f"output_dir={out}",
    )
    assert run_captau(*words) == 0
    printed = capsys.readouterr().out
    assert "recall at precision 0.5" in printed
    curves = pd.read_csv(out / "thresholds.csv")
    found = pd.read_csv(out / "recall.csv").set_index("metric")
    assert set(found.index) == {"bleu_1", "rouge_l"}
    for name, part in curves.groupby("metric"):
        enough = part[part["precision"] >= 0.5]
        assert found.loc[name, "recall"] == enough["recall"].max()
        assert part["recall"].iloc[-1] == 1
        assert part["n_kept"].iloc[-1] == 360
        assert part["precision"].iloc[-1] == found.loc[name, "n_good"] / 360
    assert (out / "precision_recall.svg").read_text().count("<svg") == 1
    assert (out / "precision_recall.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((out / "run.json").read_text())["command"] == "thresholds"


@pytest.mark.slow
def test_a_run_with_conditions_on_two_dimensions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ext_ratings().rename(columns={"item_id": "image"}).assign(references="a ||| b")
    table["caption"] = table["image"]
    table.to_csv(tmp_path / "ext.csv", index=False)
    words = ["dataset=file", f"file.path={tmp_path / 'ext.csv'}", "metrics=[bleu_1]"]
    out = tmp_path / "run"
    good = "good=correct>=2 and helpful>=2"
    assert run_captau("thresholds", *words, good, f"output_dir={out}") == 0
    assert "1 of 3 rated captions is good" in capsys.readouterr().out
    rows = pd.read_csv(out / "recall.csv")
    assert rows["dimension"].tolist() == ["correct>=2 and helpful>=2"]
    assert rows["auc"].tolist() == pytest.approx([0.5])  # of a and b, which score alike, a is good
    assert run_captau("bench", *words, f"output_dir={tmp_path / 'bench'}", "ceilings=false") == 0
    plot = ["plot", f"run={tmp_path / 'bench'}", "kind=precision_recall"]
    assert run_captau(*plot, good) == 0
    assert list((tmp_path / "bench" / "plots").glob("precision_recall_file_usual_correct*.svg"))
    assert run_captau("thresholds", *words, "good=correct>=2 and useful>=2") == 2
    assert "unknown dimension of dataset file in good 'useful'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("good=0",), "good is 0.0"),
        (("precision=1.5",), "precision is 1.5"),
        (("dataset=file", "file.path=FILE", "good=1"), "no caption is good"),
        (("dataset=file", "file.path=FILE", "good=0.1"), "every caption is good"),
    ],
)
def test_what_makes_no_sense(words, said, tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("image,caption,value,references\na.jpg,a dog,2,a cat\nb.jpg,a cat,3,a cow\n")
    words = tuple(w.replace("FILE", str(path)) for w in words)
    extra = ("file.low=1", "file.high=5") if "dataset=file" in words else ()
    assert (
        run_captau("thresholds", "metrics=[bleu_1]", f"output_dir={tmp_path / 'r'}", *words, *extra)
        == 2
    )
    assert said in capsys.readouterr().err


def test_captions_are_kept_by_score(tmp_path, capsys):
    captions, references = tmp_path / "c.json", tmp_path / "r.json"
    captions.write_text(
        '[{"image_id": 7, "caption": "a dog"}, {"image_id": 8, "caption": "a sea"}]'
    )
    references.write_text('{"7": ["a dog"], "8": ["a cat"]}')
    words = ("score", f"candidates={captions}", f"references={references}", "metrics=[bleu_1]")
    out = tmp_path / "run"
    keep = ("keep.metric=bleu_1", "keep.above=0.9", f"output_dir={out}")
    assert run_captau(*words, *keep) == 0
    assert "Kept 1 of 2: bleu_1 of 0.9 or more" in capsys.readouterr().out
    assert json.loads((out / "kept.json").read_text()) == [{"image_id": 7, "caption": "a dog"}]
    assert run_captau(*words, "keep.above=0.9", f"output_dir={out}") == 2
    assert "go together" in capsys.readouterr().err
    assert run_captau(*words, "keep.metric=cider", "keep.above=1", f"output_dir={out}") == 2
    assert "unknown metric to keep by 'cider'" in capsys.readouterr().err
