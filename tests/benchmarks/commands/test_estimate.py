"""`captau estimate`: mean ratings, differences and win rates from few ratings, plans, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import captau
from captau.datasets.errors import InputError
from tests.conftest import run_captau

N_IMAGES = 80
WORDS = ["dog", "cat", "bird", "horse", "boat", "tree", "house", "car"]
METRICS = "metrics=[bleu_1,rouge_l]"


def caption(number: int, n_right: int) -> str:
    """Return a caption of 6 words, so many of which are the reference's."""
    right = reference(number).split()
    return " ".join([*right[:n_right], *["thing"] * (6 - n_right)])


def reference(number: int) -> str:
    return " ".join(WORDS[(number * 3 + k) % len(WORDS)] for k in range(6))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captions of two systems, references, and images; `good` has 3 to 6 right words, `poor` 1 to 4."""
    path = tmp_path_factory.mktemp("estimate")
    rng = np.random.default_rng(0)
    right = rng.integers(3, 7, N_IMAGES)
    references = {f"{n}.jpg": [reference(n)] for n in range(N_IMAGES)}
    (path / "refs.json").write_text(json.dumps(references))
    good = {f"{n}.jpg": caption(n, int(right[n])) for n in range(N_IMAGES)}
    poor = {f"{n}.jpg": caption(n, int(right[n]) - 2) for n in range(N_IMAGES)}
    (path / "good.json").write_text(json.dumps(good))
    (path / "poor.json").write_text(json.dumps(poor))

    # A rating is the number of right words, and half a point more or less by the image.
    rated = np.sort(rng.choice(N_IMAGES, 40, replace=False))
    rows = []
    for n in rated.tolist():
        rows.append((f"{n}.jpg", "good", right[n] + (n % 2) / 2, f"r{n % 3}"))
        rows.append((f"{n}.jpg", "poor", right[n] - 2 + (n % 3) / 2, f"r{n % 4}"))
    table = pd.DataFrame(rows, columns=["image_id", "system", "value", "rater"])
    table.to_csv(path / "both.csv", index=False)
    table[table["system"] == "good"].drop(columns="system").to_csv(path / "one.csv", index=False)
    (path / "images").mkdir()
    for n in range(N_IMAGES):
        Image.new("RGB", (4, 4)).save(path / "images" / f"{n}.jpg")
    return path


def check_line(capsys: pytest.CaptureFixture[str], *parts: str) -> None:
    """Check that standard error has one line of captau's, with these parts."""
    line = capsys.readouterr().err
    assert line.startswith("captau: ")
    assert line.count("\n") == 1
    for part in parts:
        assert part in line


def words_for(folder: Path, systems: str = "good") -> list[str]:
    files = ",".join(f"{folder / name}.json" for name in systems.split(","))
    return ["estimate", f"candidates=[{files}]", f"references={folder / 'refs.json'}", METRICS]


def test_one_system(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*words_for(folder), f"ratings={folder / 'one.csv'}", f"output_dir={tmp_path / 'run'}"]
    assert run_captau(*words) == 0
    rows = pd.read_csv(tmp_path / "run" / "estimates.csv")
    assert list(rows) == [
        "system",
        "quantity",
        "method",
        "value",
        "ci_low",
        "ci_high",
        "n_rated",
        "n_captions",
        "effective_n",
        "note",
    ]
    assert rows["method"].tolist() == ["classical", "powered"]
    ratings = pd.read_csv(folder / "one.csv")["value"]
    classical, powered = rows.to_dict("records")
    assert classical["value"] == pytest.approx(ratings.mean())
    # 2.0227 is Student's t of 39 degrees of freedom.
    reach = 2.0227 * ratings.std() / np.sqrt(40)
    assert classical["ci_high"] - classical["value"] == pytest.approx(reach, abs=1e-4)
    assert classical["effective_n"] == classical["n_rated"] == 40
    # The metrics know nearly all of the ratings: what is left is of the images that are not rated.
    assert 60 < powered["effective_n"] <= 80
    assert powered["ci_high"] - powered["ci_low"] < classical["ci_high"] - classical["ci_low"]
    printed = capsys.readouterr().out
    assert "People's mean rating of good is" in printed
    assert f"40 ratings count as {powered['effective_n']:.0f}." in printed
    gains = pd.read_csv(tmp_path / "run" / "gains.csv")
    assert gains["metric"].tolist() == ["bleu_1", "rouge_l"]

    assert run_captau("cite", f"run={tmp_path / 'run'}") == 0
    cited = " ".join(capsys.readouterr().out.split())
    assert "interval (prediction-powered, Student's t) \\cite{angelopoulos2023ppi,angelopo" in cited
    assert "bootstrap" not in cited
    assert "Prediction-powered inference" in cited


def test_the_figure_has_both_intervals_of_each_quantity(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = [*words_for(folder, "poor,good"), f"ratings={folder / 'both.csv'}"]
    assert run_captau(*words, f"output_dir={run}") == 0
    svg = (run / "estimates.svg").read_text()
    rows = pd.read_csv(run / "estimates.csv").query("method == 'powered'")
    for label in ("ratings alone", "with the metrics' help", "good − poor", "difference (95 %"):
        assert label in svg
    for count in rows["effective_n"]:
        assert f"40 count as {count:.0f}" in svg

    copies = tmp_path / "plots"
    assert run_captau("plot", f"run={run}", "kind=estimates", f"output_dir={copies}") == 0
    assert (copies / "estimates.svg").read_text() == svg
    assert (copies / "estimates.png").read_bytes() == (run / "estimates.png").read_bytes()


def test_two_systems(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_for(folder, "poor,good")
    run = tmp_path / "run"
    assert run_captau(*words, f"ratings={folder / 'both.csv'}", f"output_dir={run}") == 0
    rows = pd.read_csv(run / "estimates.csv").query("method == 'powered'")
    assert rows["system"].tolist() == ["good", "poor", "good − poor"]
    assert rows["quantity"].tolist() == ["mean rating", "mean rating", "difference"]
    assert rows["ci_low"].iloc[2] > 0
    assert "People rate good better than poor" in capsys.readouterr().out

    wide = [f"ratings={folder / 'both.csv'}", "population=raters", f"output_dir={tmp_path / 'w'}"]
    assert run_captau(*words, *wide) == 0
    of_raters = pd.read_csv(tmp_path / "w" / "estimates.csv").query("method == 'powered'")
    width = rows["ci_high"] - rows["ci_low"]
    assert (of_raters["ci_high"] - of_raters["ci_low"] >= width - 1e-9).all()


def test_a_difference_of_shares_is_in_per_cent(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(folder / "both.csv")
    table["value"] = (table["value"] >= 3).astype(int)
    table.to_csv(tmp_path / "yes.csv", index=False)
    run = tmp_path / "r"
    words = [*words_for(folder, "poor,good"), f"ratings={tmp_path / 'yes.csv'}"]
    assert run_captau(*words, f"output_dir={run}") == 0
    rows = pd.read_csv(run / "estimates.csv").set_index(["quantity", "method"])
    value = rows.loc[("difference", "powered"), "value"].item()
    printed = capsys.readouterr().out
    assert f"the difference is {100 * value:.1f} (" in printed
    assert "Differences of shares of yes ×100" in printed
    assert "difference, % (95 % intervals)" in (run / "estimates.svg").read_text()


@pytest.mark.parametrize("answers", [("yes", "no"), (1, 0)])
def test_yes_and_no_are_a_share(folder: Path, tmp_path: Path, answers: tuple[Any, Any]) -> None:
    table = pd.read_csv(folder / "one.csv")
    yes, no = answers
    table["value"] = np.where(table["value"] >= 5, yes, no)
    table.to_csv(tmp_path / "yes.csv", index=False)
    words = [*words_for(folder), f"ratings={tmp_path / 'yes.csv'}", f"output_dir={tmp_path / 'r'}"]
    assert run_captau(*words) == 0
    rows = pd.read_csv(tmp_path / "r" / "estimates.csv")
    assert rows["quantity"].unique().tolist() == ["share of yes"]
    assert rows["value"].iloc[0] == pytest.approx((table["value"] == yes).mean())
    assert rows["ci_high"].max() <= 1


def test_comparisons_are_a_win_rate(folder: Path, tmp_path: Path) -> None:
    """Of 30 images `good` wins 20, 5 tie: (20 + 2.5) / 30; half of the rows name the captions the other way round."""
    images = [f"{n}.jpg" for n in range(0, N_IMAGES, 2)][:30]
    winners = ["good"] * 20 + ["tie"] * 5 + ["poor"] * 5
    rows = []
    for k, (image, winner) in enumerate(zip(images, winners, strict=True)):
        a, b = ("good", "poor") if k % 2 else ("poor", "good")
        rows.append((image, a, b, "tie" if winner == "tie" else "a" if winner == a else "b"))
    table = pd.DataFrame(rows, columns=["image", "system_a", "system_b", "winner"])
    table.to_csv(tmp_path / "pairs.csv", index=False)
    words = words_for(folder, "good,poor")
    run = tmp_path / "run"
    assert run_captau(*words, f"ratings={tmp_path / 'pairs.csv'}", f"output_dir={run}") == 0
    found = pd.read_csv(run / "estimates.csv")
    assert found["system"].unique().tolist() == ["good over poor"]
    assert found["quantity"].unique().tolist() == ["win rate"]
    assert found["value"].iloc[0] == pytest.approx(22.5 / 30)


@pytest.mark.parametrize("choose", ["random", "stratified", "guided"])
def test_a_plan_and_its_ratings(folder: Path, tmp_path: Path, choose: str) -> None:
    """The ratings of a plan's images are weighted by its probabilities, and a study of them can be served."""
    from captau.server.collect.study import read_study

    plan = tmp_path / "plan"
    wishes = ["plan=true", "n=40", f"choose={choose}", f"images={folder / 'images'}"]
    words = words_for(folder)
    assert run_captau(*words, *wishes, f"output_dir={plan}") == 0
    rows = pd.read_csv(plan / "plan.csv")
    assert list(rows) == ["image_id", "stratum", "probability", "order"]
    chosen = rows.dropna(subset=["order"])
    assert sorted(chosen["order"]) == list(range(1, 41))
    by_stratum = rows.groupby("stratum")
    assert by_stratum["probability"].first().tolist() == pytest.approx(
        (by_stratum["order"].count() / by_stratum.size()).tolist()
    )
    study = read_study(str(plan / "study.yaml"))
    assert sorted(unit.image_id for unit in study.units) == sorted(chosen["image_id"])

    ratings = chosen[["image_id"]].assign(value=np.arange(40) % 5)
    ratings.to_csv(tmp_path / "rated.csv", index=False)
    given = [f"ratings={tmp_path / 'rated.csv'}", f"chosen={plan / 'plan.csv'}"]
    assert run_captau(*words, *given, f"output_dir={tmp_path / 'run'}") == 0
    found = pd.read_csv(tmp_path / "run" / "estimates.csv")
    weights = 1 / chosen["probability"]
    expected = (weights * ratings["value"]).sum() / weights.sum()
    assert found["value"].iloc[0] == pytest.approx(expected)


def test_how_many(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*words_for(folder, "good,poor"), "plan=true", "population=captions"]
    out = f"output_dir={tmp_path / 'run'}"
    assert run_captau(*words, "width=0.5", f"ratings={folder / 'both.csv'}", out) == 0
    assert "No more than the 40 that are rated." in capsys.readouterr().out
    assert run_captau(*words, "difference=0.5", "sd=1", f"output_dir={tmp_path / 'two'}") == 0
    printed = " ".join(capsys.readouterr().out.split())
    # Of endless images 2 × (2.8 / 0.5)² = 63 and Student's t two more; of 80, where none is rated twice, 36 to 38.
    number = int(
        printed.split(
            " rated images, each with a rating of both systems' captions, are needed for a difference of 0.5"
        )[0].split()[-1]
    )
    assert 35 <= number <= 39


def write_ratings(path: Path, numbers: list[int], **columns: list[str]) -> Path:
    table = pd.DataFrame({"image_id": [f"{n}.jpg" for n in numbers], "value": 3.0, **columns})
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("numbers", "columns", "words"),
    [
        (list(range(30)), {}, "the 30 rated images are the first ones of good.json"),
        (list(range(0, 20, 2)), {}, "10 captions of 'good' are rated, and intervals are known to"),
        ([*range(0, 60, 2), 999], {}, "image '999.jpg' is not among the captions of good.json"),
        ([0, 2], {"caption": ["x", "y"]}, "'x' was rated, and the caption of image '0.jpg' is"),
        ([0, 2], {"system": ["mine", "mine"]}, "system is 'mine', and candidates= has good"),
        ([0, 2], {"dimension": ["a", "b"]}, "it has the dimensions a, b; name one with"),
    ],
)
def test_what_does_not_hold_is_refused(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    numbers: list[int],
    columns: dict[str, list[str]],
    words: str,
) -> None:
    path = write_ratings(tmp_path / "r.csv", numbers, **columns)
    assert run_captau(*words_for(folder), f"ratings={path}") == 2
    check_line(capsys, words)


def test_a_choice_by_score_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The 30 captions with the most right words."""
    captions = json.loads((folder / "good.json").read_text())
    order = sorted(captions, key=lambda image: captions[image].count("thing"))
    path = tmp_path / "best.csv"
    pd.DataFrame({"image_id": order[:30], "value": 5}).to_csv(path, index=False)
    assert run_captau(*words_for(folder), f"ratings={path}") == 2
    check_line(capsys, "are no random choice of 80: their scores by")


def test_ratings_beside_the_plan_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = pd.DataFrame({"image_id": [f"{n}.jpg" for n in range(N_IMAGES)], "probability": 0.5})
    plan["order"] = ["1" if n % 2 else "" for n in range(N_IMAGES)]
    plan.to_csv(tmp_path / "plan.csv", index=False)
    path = write_ratings(tmp_path / "r.csv", list(range(0, 60, 2)))
    given = [f"ratings={path}", f"chosen={tmp_path / 'plan.csv'}"]
    assert run_captau(*words_for(folder), *given) == 2
    check_line(capsys, "image '0.jpg' was rated, and", "did not choose it")
    plan.iloc[:70].to_csv(tmp_path / "plan.csv", index=False)
    assert run_captau(*words_for(folder), *given) == 2
    check_line(capsys, "it lacks 10 of 80 images, such as '70.jpg'")


def test_options_that_do_not_go_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_for(folder)
    assert run_captau(*words) == 2
    check_line(capsys, "ratings=FILE is needed")
    assert run_captau(*words, "plan=true", "width=1", "n=30") == 2
    check_line(capsys, "n= and width= say how many; give one")
    assert run_captau(*words, "plan=true", "width=1") == 2
    check_line(capsys, "width= and difference= need ratings=FILE of a pilot, or sd=")
    assert run_captau(*words, "plan=true", "width=0.01", "sd=1") == 2
    check_line(capsys, "is out of reach with 80 images, even if all are rated")
    assert run_captau(*words, "plan=true", "n=30", "form=good_bad") == 2
    check_line(capsys, "form=good_bad is the question of a study, and a study needs images=DIR")


def test_what_looks_like_a_fault_of_a_file_is_counted_as_score_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions = json.loads((folder / "good.json").read_text())
    first = next(iter(captions))
    path = tmp_path / "marked.json"
    path.write_text(json.dumps({**captions, first: f"**{captions[first]}**"}))
    words = [
        f"candidates={path}" if "good.json" in str(word) else word for word in words_for(folder)
    ]
    assert run_captau(*words, f"ratings={folder / 'one.csv'}", f"output_dir={tmp_path / 'o'}") == 0
    shown = capsys.readouterr().out
    assert "1 of 80 captions holds Markdown, such as" in shown
    assert "All of it is scored as it stands; captau validate lists each place." in shown


def test_from_python(folder: Path) -> None:
    results = captau.estimate(
        folder / "good.json",
        folder / "refs.json",
        folder / "one.csv",
        metrics=["bleu_1"],
        statistics={"level": 0.9},
    )
    rows = results.frames["estimates.csv"]
    assert results.objective == rows["value"].iloc[1]
    with pytest.raises(InputError, match="ratings=FILE is needed"):
        captau.estimate(folder / "good.json", folder / "refs.json")
