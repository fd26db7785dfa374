"""`captau calibrate`: files, halves, refusals, unlabelled captions, repeats and pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import captau
from captau.datasets.schema import CaptionSet
from tests.conftest import run_captau, says

FAST = ["metrics=[bleu_1,rouge_l]", "statistics.replicates=40"]


def write_judged(path: Path, n_images: int = 60, *, n_good: int | None = None) -> Path:
    """Write a caption of each image that people call good (1) or bad (0), half of them or so many."""
    rng = np.random.default_rng(8)
    good = rng.random(n_images) < 0.5 if n_good is None else np.arange(n_images) < n_good
    rows = [(f"{n}.jpg", f"a caption {n}", int(good[n]), "a caption") for n in range(n_images)]
    columns = pd.Index(["image", "caption", "value", "references"])
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


def write_scores(path: Path, judged: Path, *, tpr: float, tnr: float, turn: int = 0) -> Path:
    """Write a judge's yes (1) and no (0): of every twenty good and of every twenty bad captions as many are right."""
    rows = pd.read_csv(judged)
    number = rows.groupby("value").cumcount()
    is_right = (number + turn) % 20 < 20 * np.where(rows["value"] == 1, tpr, tnr)
    score = np.where(is_right, rows["value"], 1 - rows["value"])
    rows[["image", "caption"]].assign(score=score).to_csv(path, index=False)
    return path


def measures_of(out: Path) -> dict[str, dict[Any, Any]]:
    """Return the rows of a run of one metric, by measure."""
    rows = pd.read_csv(out / "calibration.csv").to_dict("records")
    return {str(row["measure"]): row for row in rows}


def of_file(judged: Path) -> list[str]:
    return ["dataset=file", f"file.path={judged}", "file.low=0", "file.high=1"]


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run_captau("calibrate", *FAST, f"output_dir={out}") == 0
    printed = capsys.readouterr().out
    assert "The largest κ is that of BLEU-1. Of the captions to which BLEU-1 says yes, " in printed

    rows = pd.read_csv(out / "calibration.csv")
    assert list(rows) == [
        *("dataset", "dimension", "metric", "measure", "value", "ci_low", "ci_high"),
        *("n_items", "note"),
    ]
    of_metric = rows[(rows["metric"] == "rouge_l") & (rows["dimension"] == "overall")]
    values = of_metric.set_index("measure")["value"]
    curve = pd.read_csv(out / "roc.csv")
    curve = curve[curve["metric"] == "rouge_l"]
    # The threshold was chosen on the other half, so that it need not be a score of this one.
    reached = curve[curve["threshold"] >= values["threshold"]].iloc[-1]
    assert reached["tpr"] == pytest.approx(values["tpr"])
    assert reached["fpr"] == pytest.approx(1 - values["tnr"])
    assert np.trapezoid(curve["tpr"], curve["fpr"]) == pytest.approx(values["auroc"])
    shares = of_metric.set_index("measure").loc[["tpr", "tnr", "precision", "npv"]]
    assert (shares["ci_low"] < shares["value"]).all()
    assert (shares["value"] < shares["ci_high"]).all()

    bins = pd.read_csv(out / "bins.csv")
    bins = bins[bins["metric"] == "rouge_l"]
    assert bins["n_items"].sum() == of_metric.set_index("measure").loc["brier", "n_items"]
    distances = (bins["predicted"] - bins["share_good"]).abs()
    error = (distances * bins["n_items"]).sum() / bins["n_items"].sum()
    assert error == pytest.approx(values["calibration_error"])
    for figure in ("reliability", "roc"):
        assert (out / f"{figure}.svg").read_text().count("<svg") == 1
    assert json.loads((out / "run.json").read_text())["command"] == "calibrate"

    assert run_captau("plot", f"run={out}", "kind=reliability", f"output_dir={tmp_path / 'p'}") == 0
    assert (tmp_path / "p" / "reliability.svg").read_bytes() == (
        (out / "reliability.svg").read_bytes()
    )
    assert run_captau("report", f"run={out}") == 0
    assert "reliability" in (out / "report.html").read_text()


@pytest.mark.slow
def test_the_seed_draws_the_halves_and_the_order_of_rows_does_not(tmp_path: Path) -> None:
    judged = write_judged(tmp_path / "judged.csv", 120)
    scores = write_scores(tmp_path / "judge.csv", judged, tpr=0.8, tnr=0.7)
    turned = tmp_path / "turned.csv"
    pd.read_csv(judged).iloc[::-1].to_csv(turned, index=False)

    found: list[pd.DataFrame] = []
    for number, (file, seed) in enumerate(((judged, 0), (turned, 0), (judged, 1))):
        out = tmp_path / f"run{number}"
        words = [*of_file(file), f"metrics={scores}", f"statistics.seed={seed}"]
        assert run_captau("calibrate", *words, f"output_dir={out}") == 0
        found.append(pd.read_csv(out / "calibration.csv"))
    pd.testing.assert_frame_equal(found[0], found[1])
    assert not found[0]["value"].equals(found[2]["value"])


def test_a_judge_of_known_errors_is_recovered(tmp_path: Path) -> None:
    judged = write_judged(tmp_path / "judged.csv", 800)
    scores = write_scores(tmp_path / "judge.csv", judged, tpr=0.85, tnr=0.7)
    out = tmp_path / "run"
    words = [*of_file(judged), f"metrics={scores}", "threshold=1", f"output_dir={out}"]
    assert run_captau("calibrate", *words) == 0
    rows = measures_of(out)
    for measure, truth in (("tpr", 0.85), ("tnr", 0.7)):
        assert rows[measure]["value"] == pytest.approx(truth, abs=0.01)
        assert rows[measure]["ci_low"] < truth < rows[measure]["ci_high"]
        assert rows[measure]["ci_high"] - rows[measure]["ci_low"] < 0.1
    assert rows["accuracy"]["n_items"] == 800


def test_a_threshold_of_ones_own_needs_no_halves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 60 captions 12 are good, fewer than 10 in each half; people and the judge answer in words."""
    judged = write_judged(tmp_path / "judged.csv", 60, n_good=12)
    scores = write_scores(tmp_path / "judge.csv", judged, tpr=0.75, tnr=0.9)
    rows = pd.read_csv(judged)
    rows.assign(value=rows["value"].map({1: "good", 0: "bad"})).to_csv(judged, index=False)
    answers = pd.read_csv(scores)
    answers["answer"] = answers.pop("score").map({1: "yes", 0: "no"})
    answers.to_csv(scores, index=False)
    words = ["dataset=file", f"file.path={judged}", f"metrics={scores}"]
    out = tmp_path / "run"
    assert run_captau("calibrate", *words, f"output_dir={out}") == 2
    assert "give a threshold of your own, which needs no halves (threshold=…)" in (
        capsys.readouterr().err
    )

    assert run_captau("calibrate", *words, "threshold=1", f"output_dir={out}") == 0
    measured = measures_of(out)
    # All of the first 12 good captions and 44 of 48 bad ones: numbers 18 and 19 of twenty are wrong.
    assert measured["tpr"]["n_items"] == 12
    assert measured["tpr"]["value"] == 1
    assert measured["tnr"]["value"] == pytest.approx(44 / 48)
    assert measured["brier"]["note"] == (
        "undefined: a half of the images has fewer than 10 good or bad captions"
    )
    assert "Ratings are words: good is 1, bad is 0." in (out / "table.md").read_text()


def test_a_judge_whose_yes_means_a_fault_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = write_judged(tmp_path / "judged.csv", 200)
    scores = write_scores(tmp_path / "judge.csv", judged, tpr=0.1, tnr=0.2)
    words = [*of_file(judged), f"metrics={scores}", "threshold=1", f"output_dir={tmp_path / 'r'}"]
    assert run_captau("calibrate", *words) == 0
    assert measures_of(tmp_path / "r")["kappa"]["ci_high"] < 0
    assert "its yes goes with bad captions. If its yes means a fault, turn its answers round" in (
        capsys.readouterr().out
    )


@pytest.mark.slow
def test_unlabelled_captions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenth of the new captions is bad, of which the judge sees 70 %, beside 15 % of the good ones."""
    judged = write_judged(tmp_path / "judged.csv", 800)
    scores = write_scores(tmp_path / "judge.csv", judged, tpr=0.85, tnr=0.7)
    rng = np.random.default_rng(1)
    luck = rng.random(900)
    says_no = np.where(np.arange(900) < 90, luck < 0.7, luck < 0.15)
    new = pd.DataFrame({"image": [f"new{n}.jpg" for n in range(900)], "caption": "words"})
    both = pd.concat([pd.read_csv(scores), new.assign(score=(~says_no).astype(int))])
    both.to_csv(scores, index=False)
    mine = new.rename(columns={"image": "image_id"})
    (tmp_path / "mine.json").write_text(mine.to_json(orient="records"))

    words = [*of_file(judged), f"metrics={scores}", "threshold=1"]
    out = tmp_path / "run"
    candidates = f"candidates={tmp_path / 'mine.json'}"
    assert run_captau("calibrate", *words, candidates, f"output_dir={out}") == 0
    assert "how many of 900 captions of mine are bad" in capsys.readouterr().out
    rows = measures_of(out)
    assert rows["said_bad"]["value"] == says_no.mean()
    t, f = rows["tnr"]["value"], 1 - rows["tpr"]["value"]
    corrected = rows["corrected_bad"]
    assert corrected["value"] == pytest.approx((says_no.mean() - f) / (t - f))
    assert corrected["ci_low"] < 0.1 < corrected["ci_high"]

    two = pd.concat([mine.assign(system="A"), mine.assign(system="B")])
    (tmp_path / "mine.json").write_text(two.to_json(orient="records"))
    assert run_captau("calibrate", *words, candidates, f"output_dir={out}") == 2
    assert "captions of 2 systems; captau calibrate takes those of one" in capsys.readouterr().err


def test_repeats_of_a_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged = write_judged(tmp_path / "judged.csv")
    first = write_scores(tmp_path / "judge.csv", judged, tpr=0.8, tnr=0.7)
    again = write_scores(tmp_path / "again.csv", judged, tpr=0.8, tnr=0.7, turn=9)
    words = [*of_file(judged), f"metrics={first}", f"repeats={again}", "threshold=1"]
    out = tmp_path / "run"
    assert run_captau("calibrate", *words, f"output_dir={out}") == 0
    assert "the same caption asked again" in capsys.readouterr().out
    rows = pd.read_csv(out / "calibration.csv")
    assert set(rows["metric"]) == {"judge"}
    equal = (pd.read_csv(first)["score"] == pd.read_csv(again)["score"]).mean()
    assert rows.set_index("measure").loc["self_agreement", "value"] == pytest.approx(equal)


def test_pairs_of_captions(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_captau("calibrate", *FAST, "protocol.dimension=[]", f"output_dir={out}") == 0
    rows = pd.read_csv(out / "calibration.csv")
    assert set(rows["dimension"]) == {"pairs"}
    assert rows[rows["metric"] == "rouge_l"]["measure"].tolist() == ["length", "length_people"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["threshold=high"], "threshold is 'high'; a number is expected, or one for each metric"),
        (["threshold={cidr: 1}"], "unknown metric of threshold 'cidr': known: bleu_1, rouge_l"),
        (["repeats=cider"], "repeats= are further runs of one metric; metrics= names 2"),
        (["references=refs.json"], "references= is for the captions of candidates=FILE"),
        (["statistics.interval=fisher"], "statistics.interval=fisher needs correlations"),
        (["bins=1"], "bins is 1; a whole number from 2 on is expected"),
        (["good=0"], "good is 0.0"),
    ],
)
def test_what_makes_no_sense(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_captau("calibrate", *FAST, *words, f"output_dir={tmp_path / 'r'}") == 2
    assert said in capsys.readouterr().err


def test_too_little_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"output_dir={tmp_path / 'r'}"
    few = write_judged(tmp_path / "few.csv", n_good=12)
    assert run_captau("calibrate", *of_file(few), "metrics=rouge_1", out) == 2
    error = capsys.readouterr().err
    assert "half of the images has" in error
    assert "10 of each kind are the least to measure errors on" in error

    one = write_judged(tmp_path / "one.csv", n_good=60)
    assert run_captau("calibrate", *of_file(one), "metrics=rouge_1", out) == 2
    assert "every caption is good at good=0.5" in capsys.readouterr().err

    # Beside a dataset that has enough of both it is left out.
    words = ["dataset=demo,file", *of_file(one)[1:], *FAST]
    assert run_captau("calibrate", *words, out) == 0
    assert "left out file: dataset file, overall: every caption is good" in capsys.readouterr().err
    assert set(pd.read_csv(tmp_path / "r" / "calibration.csv")["dataset"]) == {"demo"}


def test_a_constant_metric_has_no_threshold(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def constant(caption):\n    return 1.0\n")
    out = tmp_path / "run"
    assert run_captau("calibrate", f"metrics={mine}:constant", f"output_dir={out}") == 0
    rows = pd.read_csv(out / "calibration.csv")
    rows = rows[rows["dimension"] == "overall"]
    assert rows["value"].isna().all()
    assert set(rows["note"]) == {"undefined: all scores of the first half are equal"}
    assert pd.read_csv(out / "bins.csv").empty


@pytest.mark.slow
def test_undefined_scores(tmp_path: Path) -> None:
    judged = write_judged(tmp_path / "judged.csv", 120)
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def odd(caption):\n    n = int(caption.split()[-1])\n    return n if n % 5 else float('nan')\n"
    )
    out = tmp_path / "run"
    words = [*of_file(judged), f"metrics={mine}:odd", f"output_dir={out}"]
    assert run_captau("calibrate", *words) == 0
    rows = pd.read_csv(out / "calibration.csv")
    assert set(rows["note"]) == {
        "undefined: 24 of 120 captions have no finite score; protocol.undefined=drop leaves them out"
    }
    assert run_captau("calibrate", *words, "protocol.undefined=drop", "threshold=60") == 0
    rows = pd.read_csv(out / "calibration.csv").set_index("measure")
    assert rows.loc["accuracy", "n_items"] == 96


def test_from_python() -> None:
    demo = captau.load("demo")
    assert isinstance(demo, CaptionSet)
    results = captau.calibrate(demo, ["rouge_l"], threshold=0.5, statistics={"interval": "none"})
    rows = results.frames["calibration.csv"].set_index("measure")
    assert rows.loc["threshold", "value"] == 0.5
    assert results.objective == rows.loc["kappa", "value"]
    with says("unknown value of choose 'best'"):
        captau.calibrate(demo, choose="best")
