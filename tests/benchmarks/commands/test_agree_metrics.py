"""`captau agree metrics=…`: metrics as one more rater, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.judges.rater_comparison import MEASURES, PEOPLE
from tests.conftest import run_captau

COLUMNS = [
    "dataset",
    "dimension",
    "metric",
    "measure",
    "value",
    "ci_low",
    "ci_high",
    "n_items",
    "note",
]


@pytest.fixture
def ratings_file(tmp_path):
    """Forty captions that three people rate from 1 to 5, and a judge who answers on their scale."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for number in range(40):
        quality = int(rng.integers(1, 6))
        for person in ("ann", "bob", "cy"):
            rating = int(np.clip(quality + rng.integers(-1, 2), 1, 5))
            rows.append(
                {
                    "image": f"i{number}",
                    "caption": f"caption {number}",
                    "rater": person,
                    "rating": rating,
                }
            )
    frame = pd.DataFrame(rows)
    path = tmp_path / "ratings.csv"
    frame.to_csv(path, index=False)

    judge = frame.groupby(["image", "caption"], sort=False)["rating"].median().reset_index()
    judge = judge.rename(columns={"rating": "score"})
    judge.to_csv(tmp_path / "judge.csv", index=False)
    return path


def agree(tmp_path, *arguments):
    status = run_captau("agree", *arguments, f"output_dir={tmp_path / 'out'}")
    return status, tmp_path / "out"


def measured(folder):
    frame = pd.read_csv(folder / "metric_raters.csv")
    return frame, frame.set_index(["metric", "measure"])["value"]


def test_a_judge_on_peoples_scale(ratings_file, tmp_path, capsys):
    status, folder = agree(
        tmp_path, "dataset=file", f"file.path={ratings_file}", f"metrics={tmp_path / 'judge.csv'}"
    )
    out = capsys.readouterr().out
    assert status == 0
    frame, values = measured(folder)
    assert list(frame.columns) == COLUMNS
    assert list(frame.loc[frame["metric"] == "judge", "measure"]) == list(MEASURES)

    people = pd.read_csv(ratings_file)
    judge = pd.read_csv(tmp_path / "judge.csv").set_index("image")["score"]
    answers = people["image"].map(judge)
    # Squared differences of pairs of answers to one caption, against those of all pairs.
    ratings = people["rating"].to_numpy(dtype=float)
    observed = np.mean((answers.to_numpy(dtype=float) - ratings) ** 2)
    by_chance = np.mean((answers.to_numpy(dtype=float)[:, None] - ratings[None, :]) ** 2)
    assert values["judge", "cohen_kappa_quadratic"] == pytest.approx(1 - observed / by_chance)
    assert values["judge", "percent_agreement"] == pytest.approx(
        (answers == people["rating"]).mean()
    )
    # The median is nearer to two of three people than the third is, or as near.
    assert values["judge", "advantage_probability"] > 0.8
    assert values["judge", "winning_rate"] == 1
    assert "passes the alternative-annotator test" in out
    assert (frame["metric"] == PEOPLE).sum() == len(MEASURES) - 2

    with_interval = frame[frame["measure"] != "winning_rate"]
    assert (with_interval["ci_low"] <= with_interval["value"]).all()
    assert (with_interval["value"] <= with_interval["ci_high"]).all()
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["epsilon"] == 0.2
    assert list(record["signatures"]) == ["judge"]


def test_epsilon_moves_the_winning_rate_alone(tmp_path):
    _, folder = agree(tmp_path, "metrics=cider")
    usual = measured(folder)[1]
    _, folder = agree(tmp_path, "metrics=cider", "epsilon=0.9")
    generous = measured(folder)[1]
    moved = [name for name in usual.index if usual[name] != generous[name]]
    assert moved == [("cider", "winning_rate")]
    assert generous["cider", "winning_rate"] == 1


def test_agreement_of_people_is_the_same_with_and_without_metrics(tmp_path):
    _, folder = agree(tmp_path)
    before = (folder / "agreement.csv").read_bytes()
    assert not (folder / "metric_raters.csv").exists()
    _, folder = agree(tmp_path, "metrics=bleu_1")
    assert (folder / "agreement.csv").read_bytes() == before


def test_rows_and_names_move_nothing(ratings_file, tmp_path):
    options = ("dataset=file", f"file.path={ratings_file}", f"metrics={tmp_path / 'judge.csv'}")
    _, folder = agree(tmp_path, *options)
    before = measured(folder)[0]
    people = pd.read_csv(ratings_file)
    people["rater"] = people["rater"].map({"ann": "z", "bob": "y", "cy": "x"})
    people.sample(frac=1, random_state=1).to_csv(ratings_file, index=False)
    _, folder = agree(tmp_path, *options)
    pd.testing.assert_frame_equal(measured(folder)[0], before)


def test_one_rating_an_item_leaves_the_test_undefined_with_its_reason(tmp_path):
    rows = [{"image": f"i{n}", "caption": f"caption {n}", "rating": n % 5 + 1} for n in range(20)]
    path = tmp_path / "mine.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    scores = pd.DataFrame(rows).rename(columns={"rating": "score"})
    scores["score"] = scores["score"] * 0.1
    scores.to_csv(tmp_path / "s.csv", index=False)
    status, folder = agree(
        tmp_path, "dataset=file", f"file.path={path}", f"metrics={tmp_path / 's.csv'}"
    )
    assert status == 0
    frame, values = measured(folder)
    notes = frame.set_index("measure")["note"]
    assert np.isnan(values["s", "winning_rate"])
    assert notes["advantage_probability"].startswith("undefined: no item has two ratings")
    assert values["s", "cohen_kappa"] > 0
    assert set(frame["metric"]) == {"s"}


def test_scores_that_are_all_equal_or_undefined_have_a_reason(tmp_path):
    lines = "def same(caption): return 3.0\ndef none(caption): return float('nan')\n"
    (tmp_path / "odd.py").write_text(lines, encoding="utf-8")
    odd = f"{tmp_path / 'odd.py'}"
    status, folder = agree(tmp_path, f"metrics={odd}:same,{odd}:none")
    assert status == 0
    frame, _ = measured(folder)
    of_metrics = frame[frame["metric"] != PEOPLE]
    assert of_metrics["value"].isna().all()
    assert set(of_metrics["note"]) == {
        "undefined: all scores are equal",
        "undefined: 360 of 360 captions have no finite score",
    }


def test_preferences_and_a_lone_epsilon_get_a_line(tmp_path, capsys):
    pairs = pd.DataFrame(
        {
            "image": [f"i{n}" for n in range(12)],
            "caption_a": [f"a {n}" for n in range(12)],
            "caption_b": [f"b {n}" for n in range(12)],
            "winner": ["a", "b"] * 6,
        }
    )
    path = tmp_path / "pairs.csv"
    pairs.to_csv(path, index=False)
    words = f"metrics={tmp_path / 'words.py'}:words"
    (tmp_path / "words.py").write_text(
        "def words(caption): return len(caption)\n", encoding="utf-8"
    )
    assert agree(tmp_path, "dataset=file", f"file.path={path}", words)[0] == 2
    assert "no ratings for metrics= to be compared with" in capsys.readouterr().err

    assert agree(tmp_path, "epsilon=0.1")[0] == 2
    assert "name them too" in capsys.readouterr().err
    assert agree(tmp_path, "metrics=cider", "epsilon=2")[0] == 2
    assert "from 0 to 1" in capsys.readouterr().err


@pytest.mark.slow
def test_fleur_on_flickr8k_expert(data_root, tmp_path):
    """Real data: κ of all ratings by scikit-learn, of answers whose shares are people's."""
    fleur = f'"file(path={data_root}/fleur/fleur_flickr8k_expert.txt,name=FLEUR,source=FLEUR)"'
    status, folder = agree(
        tmp_path, "dataset=flickr8k_expert", f"metrics={fleur}", f"data.root={data_root}"
    )
    assert status == 0
    frame, values = measured(folder)
    assert values["FLEUR", "cohen_kappa_quadratic"] == pytest.approx(0.698, abs=5e-4)
    assert values["FLEUR", "advantage_probability"] == pytest.approx(0.861, abs=5e-4)
    assert np.isnan(values["FLEUR", "winning_rate"])
    # One person against another, in both orders, is Scott et al.'s Fleiss' κ: they print 48.8.
    assert values[PEOPLE, "cohen_kappa"] == pytest.approx(0.488, abs=5e-4)
    assert set(frame["n_items"]) == {5664}
