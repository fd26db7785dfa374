"""`captau sensitivity`: curves, power and protocols, on the demo and on data with a known truth."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import captau
from captau.benchmarks.commands import sensitivity
from captau.benchmarks.commands.sensitivity import run
from captau.benchmarks.evaluation.sensitivity_analysis import SENSITIVITY_COLUMNS, find_duplicates
from captau.benchmarks.options.analyses import SensitivityOptions
from captau.benchmarks.reporting.charts.coefficient_charts import sensitivity_figure
from captau.benchmarks.scoring.catalog import resolve_metrics, usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import Locations
from captau.datasets.errors import InputError
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau, says


def config(
    *kinds: str, metrics: Any = ("rouge_1", "rouge_l"), draws: int | None = 40, **changes: Any
) -> SensitivityOptions:
    protocol = Protocol.resolve("demo", usual_protocol("demo"), changes)
    return SensitivityOptions(
        datasets={"demo": protocol}, metrics=resolve_metrics(metrics), kinds=kinds, draws=draws
    )


def test_a_band_of_lengths_has_the_coefficients_of_its_captions_alone():
    """Equal to tau_b over the captions of that length, by SciPy."""
    rows = run(config("length", coefficients=["tau_b"], ratings="mean")).frames["sensitivity.csv"]
    demo = captau.load("demo")
    table = demo.items.assign(
        words=demo.items["caption"].str.split().map(len),
        score=captau.metric("rouge_l").score(demo),
        rating=demo.items["item_id"].map(demo.ratings.groupby("item_id")["value"].mean()),
    )
    bands = rows[rows["metric"] == "rouge_l"]
    assert len(bands) > 1
    shortest = 0
    for band in bands.to_dict("records"):
        inside = table[(table["words"] > shortest) & (table["words"] <= band["size"])]
        expected = stats.kendalltau(inside["score"], inside["rating"]).statistic
        assert band["value"] == pytest.approx(expected, abs=1e-12)
        assert band["low"] < band["value"] < band["high"]
        assert f"{len(inside):,} judgements" in band["note"]
        shortest = band["size"]
    assert shortest == table["words"].max()


def test_images_move_less_the_more_there_are():
    rows = run(config("images", coefficients=["tau_c", "pearson"])).frames["sensitivity.csv"]
    assert tuple(rows.columns) == SENSITIVITY_COLUMNS
    assert rows["size"].unique().tolist() == [4, 8, 15, 30, 60, 120]
    whole = captau.bench(
        "demo",
        ["rouge_1", "rouge_l"],
        ceilings=False,
        protocol={"coefficients": ["tau_c", "pearson"]},
    ).correlations
    for key, curve in rows.groupby(["metric", "coefficient"]):
        width = (curve["high"] - curve["low"]).to_numpy()
        assert (np.diff(width) < 0).all()
        assert width[0] / width[4] == pytest.approx(math.sqrt(60 / 4), rel=0.6)
        value = whole[(whole["metric"] == key[0]) & (whole["coefficient"] == key[1])][
            "value"
        ].item()
        at_all = curve[curve["size"] == 60].iloc[0]
        assert at_all["low"] < value < at_all["high"]
        assert at_all["value"] == pytest.approx(value, abs=0.02)


def bench_tau_b(metrics: list[str], **changes: str) -> pd.DataFrame:
    """The rows of τ_b that bench writes for the demo."""
    protocol = {"coefficients": "tau_b", **changes}
    rows = captau.bench("demo", metrics, ceilings=False, protocol=protocol).correlations
    return rows[rows["coefficient"] == "tau_b"]


def test_raters_by_hand_and_by_bench():
    rows = run(config("raters", coefficients=["tau_b"], draws=8)).frames["sensitivity.csv"]
    assert rows["size"].unique().tolist() == [1, 2, 3]
    whole = bench_tau_b(["rouge_1"])
    mine = rows[rows["metric"] == "rouge_1"].set_index("size")
    # All three ratings of every item: nothing is drawn, and it is what bench says.
    assert mine.loc[3, "value"] == pytest.approx(whole["value"].item(), abs=1e-12)
    assert mine.loc[3, "draws"] == 1
    assert math.isnan(mine.loc[3, "low"])
    assert mine.loc[1, "low"] < mine.loc[1, "high"]


def test_means_of_more_raters_agree_better():
    rows = run(config("raters", coefficients=["pearson"], ratings="mean", draws=8)).frames[
        "sensitivity.csv"
    ]
    for _, curve in rows.groupby("metric"):
        assert (np.diff(curve["value"]) > 0).all()


def test_references_up_to_all():
    rows = run(config("references", metrics=["rouge_1"], coefficients=["tau_b"], draws=2)).frames[
        "sensitivity.csv"
    ]
    assert rows["size"].tolist() == [1, 2, 3, 4, 5]
    assert rows["draws"].tolist() == [2, 2, 2, 2, 1]
    whole = bench_tau_b(["rouge_1"])
    assert rows["value"].iloc[-1] == pytest.approx(whole["value"].item(), abs=1e-12)
    assert rows["value"].iloc[0] < rows["value"].iloc[-1]


def own(tmp_path, scores: dict[str, Any], frame: pd.DataFrame, kind: str, **changes: Any):
    """Of judgements and scores of one's own."""
    frame.assign(references="a").to_csv(tmp_path / "own.csv", index=False)
    items = frame.drop_duplicates(["image", "caption"])
    specs: list[str] = []
    for name, given in scores.items():
        path = tmp_path / f"{name}.csv"
        items.rename(columns={"image": "image_id"}).assign(score=given).to_csv(path, index=False)
        specs.append(f"file(path={path},name={name})")
    protocol = Protocol.resolve("file", usual_protocol("file"), changes)
    locations = Locations(
        use_cache=False, file_options={"path": str(tmp_path / "own.csv"), "low": -99, "high": 99}
    )
    return run(
        SensitivityOptions(
            datasets={"file": protocol},
            metrics=resolve_metrics(specs),
            kinds=(kind,),
            draws=400,
            locations=locations,
        )
    ).frames["sensitivity.csv"]


def two_metrics(rng: np.random.Generator, n_images: int, apart: float):
    """Captions in images with an effect of their own; the first metric is better by so much."""
    image = np.repeat(np.arange(n_images), 3)
    truth = rng.normal(size=image.size) + 0.5 * rng.normal(size=n_images)[image]
    noise = rng.normal(size=(2, image.size))
    ratings = truth + rng.normal(0, 0.7, image.size)
    a = truth + (1.0 - apart) * noise[0]
    b = truth + noise[1]
    return image, ratings, a, b


def test_power_is_how_often_the_difference_is_found(tmp_path):
    """120 images drawn from a known law: the standard error behind `value` is that of fresh samples,
    and a difference of that size is found about four times in five.
    """
    found: list[float] = []
    for seed in range(400):
        image, ratings, a, b = two_metrics(np.random.default_rng(seed), 120, 0.25)
        found.append(stats.pearsonr(a, ratings).statistic - stats.pearsonr(b, ratings).statistic)
    truth, error = float(np.mean(found)), float(np.std(found, ddof=1))
    image, ratings, a, b = two_metrics(np.random.default_rng(1000), 120, 0.25)
    frame = pd.DataFrame(
        {
            "image": [f"i{i}" for i in image],
            "caption": [f"c{i}" for i in range(image.size)],
            "value": np.clip(ratings, -99, 99),
        }
    )
    rows = own(tmp_path, {"A": a, "B": b}, frame, "power", coefficients=["pearson"])
    here = rows[rows["size"] == 120].iloc[0]
    needed = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert here["value"] == pytest.approx(needed * error, rel=0.15)
    assert here["difference"] == pytest.approx(truth, abs=3 * error)
    # The chance that fresh samples differ significantly, were the truth what can be detected.
    shifted = np.array(found) - truth + here["value"]
    assert 0.7 < (np.abs(shifted) > stats.norm.ppf(0.975) * error).mean() < 0.9
    # Four times the images halve what can be detected.
    quarter = rows[rows["size"] == 30].iloc[0]["value"]
    assert quarter / here["value"] == pytest.approx(2, rel=0.2)
    power = stats.norm.sf(stats.norm.ppf(0.975) - here["difference"] / (here["value"] / needed))
    assert here["power"] == pytest.approx(power, abs=0.08)


def test_protocols_are_those_of_bench():
    found = run(config("protocols"))
    rows = found.frames["sensitivity.csv"]
    one = rows[(rows["protocol"] == "median, max_over_single") & (rows["coefficient"] == "tau_b")]
    changes = {"ratings": "median", "references": "max_over_single"}
    bench = bench_tau_b(["rouge_1", "rouge_l"], **changes)
    assert one["value"].tolist() == pytest.approx(bench["value"].tolist(), abs=1e-12)
    assert one["rank"].tolist() == stats.rankdata(-one["value"]).tolist()
    assert rows["protocol"].nunique() == 16
    assert set(rows["coefficient"]) == {"tau_c", "tau_b", "spearman", "pearson"}
    spread = lines_of(found.tables[0])[0][1][0]
    values = rows[(rows["metric"] == "rouge_1") & (rows["coefficient"] == "tau_c")]["value"]
    assert spread == f"{100 * values.min():.1f} – {100 * values.max():.1f}"


def test_duplicates_out(tmp_path):
    """Of five captions one quotes its reference and one says again what another said."""
    frame = pd.DataFrame(
        {
            "image": ["1", "1", "1", "2", "2"],
            "caption": ["A dog. ", "a dog.", "a cat", "A ", "b"],
            "value": [1, 2, 3, 4, 5],
            "system": ["S", "T", "S", "S", "T"],
        }
    )
    rows = own(tmp_path, {"A": [1, 2, 3, 5, 4]}, frame, "protocols")
    sizes = dict(zip(rows["protocol"], rows["size"], strict=True))
    assert sizes == {
        "per_rating, all": 5,
        "per_rating, all, own_references=drop": 4,
        "per_rating, all, own_references=leave_out": 4,
        "per_rating, all, without duplicates": 3,
    }
    assert set(rows["note"]) >= {
        "1 copies of references left out",
        "1 copies of references scored without these, but for 1 left out that have no other",
        "2 duplicates left out",
    }
    items = pd.DataFrame(
        {
            "image_id": ["1", "1", "2"],
            "caption": ["x", " X", "x"],
            "references": [("y",), ("y",), ("X ",)],
        }
    )
    assert find_duplicates(items).tolist() == [False, True, True]


@pytest.mark.parametrize("kind", ["images", "power", "protocols"])
def test_undefined_says_why(kind, tmp_path):
    frame = pd.DataFrame({"image": list("aabb"), "caption": list("wxyz"), "value": [1, 2, 3, 4]})
    rows = own(tmp_path, {"A": [1, 2, 3, 4], "Flat": [1, 1, 1, 1]}, frame, kind)
    reason = "all scores are equal"
    flat = rows[(rows["metric"] == "Flat") | (rows["other"] == "Flat")]
    assert len(flat)
    assert flat["value"].isna().all()
    assert flat["note"].str.contains(f"undefined: {reason}").all()
    assert not (rows["value"] == 0).any()


@pytest.mark.parametrize("kind", ["images", "power"])
def test_one_image_leaves_nothing_to_draw(kind, tmp_path):
    """Samples of one image are all alike: bands of no width would say that all is certain."""
    frame = pd.DataFrame({"image": list("aaa"), "caption": list("wxy"), "value": [1, 2, 3]})
    with pytest.raises(InputError, match=r"too few images with judgements \(1\); kind="):
        own(tmp_path, {"A": [1, 3, 2], "B": [1, 2, 3]}, frame, kind, coefficients=["tau_b"])


def test_captions_of_one_length_have_no_bands(tmp_path):
    frame = pd.DataFrame({"image": list("aab"), "caption": list("wxy"), "value": [1, 2, 3]})
    with pytest.raises(InputError, match="kind=length compares captions of several lengths"):
        own(tmp_path, {"A": [1, 3, 2]}, frame, "length", coefficients=["tau_b"])


def test_a_band_within_one_image_has_no_interval(tmp_path):
    captions = ["w", "x", "y z", "z y"]
    frame = pd.DataFrame({"image": list("aabc"), "caption": captions, "value": [1, 2, 3, 4]})
    rows = own(tmp_path, {"A": [1, 2, 3, 4]}, frame, "length", coefficients=["tau_b"])
    assert rows["value"].tolist() == [1, 1]
    assert rows["low"].isna().tolist() == [True, False]


def test_what_is_undefined_everywhere_is_not_drawn():
    rows = run(config("images", coefficients=["soft_pairwise_accuracy"], level="system")).frames[
        "sensitivity.csv"
    ]
    assert rows["value"].isna().all()
    assert sensitivity_figure(rows, {"rouge_1": "A", "rouge_l": "B"}) == {}


@pytest.mark.slow
def test_the_command_writes_and_draws(tmp_path, capsys):
    arguments = ["metrics=[rouge_1]", "kind=[images,raters]", "draws=5", "seed=3"]
    assert run_captau("sensitivity", *arguments, f"output_dir={tmp_path / 'a'}") == 0
    capsys.readouterr()
    files = {p.name for p in (tmp_path / "a").iterdir() if p.is_file()}
    assert files == {
        "sensitivity.csv", "table.md", "table.tex", "sensitivity.svg", "sensitivity.png", "run.json"
    }  # fmt: skip
    assert (tmp_path / "a" / "sensitivity.png").read_bytes()[1:4] == b"PNG"
    assert "<svg" in (tmp_path / "a" / "sensitivity.svg").read_text()
    run_captau("sensitivity", *arguments, f"output_dir={tmp_path / 'b'}")
    again = [(tmp_path / d / "sensitivity.csv").read_bytes() for d in "ab"]
    assert again[0] == again[1]
    run_captau("sensitivity", *arguments[:3], "seed=4", f"output_dir={tmp_path / 'c'}")
    assert (tmp_path / "c" / "sensitivity.csv").read_bytes() != again[0]


def test_without_matplotlib_it_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run_captau("sensitivity", "metrics=[rouge_1]", "draws=5", f"output_dir={tmp_path}") == 0
    assert "pip install 'captau[report]'" in capsys.readouterr().out
    assert not (tmp_path / "sensitivity.png").exists()


def test_errors():
    with says("unknown kind 'image'", "did you mean images?"):
        config("image")
    with says("kind is empty"):
        config()
    with says("draws is 1"):
        config("images", draws=1)
    with says("draws is 1,000,000,000; at most 100,000 is expected"):
        config("images", draws=10**9)
    with says("kind=power compares metrics; name two at least"):
        run(config("power", metrics=["rouge_1"]))
    with says("protocol.coefficients names none of ratings"):
        run(config("images", coefficients=["accuracy"]))
    with says("protocol.dimension is empty"):
        run(config("images", dimension=()))
    with says("kind=references: none of the metrics uses references"):
        run(config("references", metrics=["python(builtins:len)"]))


def test_tables_over_protocols_by_hand() -> None:
    """Two metrics under two protocols, in two coefficients; they change their order in the first, and tie in the second."""
    values = {
        ("p", "tau_c"): ((0.5, 1), (0.25, 2)),
        ("q", "tau_c"): ((0.125, 2), (0.375, 1)),
        ("p", "tau_b"): ((0.5, math.nan), (0.5, math.nan)),
    }
    rows = pd.DataFrame(
        [
            (protocol, coefficient, metric, value, rank, "")
            for (protocol, coefficient), pair in values.items()
            for metric, (value, rank) in zip("ab", pair, strict=True)
        ],
        columns=["protocol", "coefficient", "metric", "value", "rank", "note"],
    )
    ranges, by_protocol = sensitivity.make_protocol_tables(rows, "d", "x", {"a": "A", "b": "B"})
    assert (ranges.title, ranges.heads) == (
        *("d, x: range of each metric over protocols", ["τ_c", "τ_b", "rank"]),
    )
    assert lines_of(ranges) == [
        ("A", ["12.5 – 50.0", "50.0 – 50.0", "1 – 2"]),
        ("B", ["25.0 – 37.5", "50.0 – 50.0", "1 – 2"]),
    ]
    assert ranges.notes == [
        "×100, least and greatest over 2 protocols a coefficient.",
        "Pairs of metrics whose order changes between some two of the 3 protocols: 1 of 1.",
    ]
    assert (by_protocol.title, by_protocol.heads) == ("d, x: τ_c by protocol", ["A", "B"])
    assert lines_of(by_protocol) == [
        ("p", ["50.0 (1)", "25.0 (2)"]),
        ("q", ["12.5 (2)", "37.5 (1)"]),
    ]
    assert by_protocol.notes == ["×100; in brackets the rank."]
    alone = rows[rows["coefficient"] == "tau_b"]
    ranges, by_protocol = sensitivity.make_protocol_tables(alone, "d", "x", {"a": "A", "b": "B"})
    assert [cells[-1] for _, cells in lines_of(ranges)] == ["–", "–"]
    assert lines_of(by_protocol) == [("p", ["50.0", "50.0"])]
    assert sensitivity.count_swaps(alone) == (0, 1)


def test_the_power_table_by_hand() -> None:
    """The last number of images is twice the dataset's; images grow with the square of the detectable difference."""
    columns = ["size", "metric", "other", "value", "difference", "power", "note"]
    rows = pd.DataFrame(
        [
            (1000, "a", "b", 0.04, 0.02, 0.5, "n"),
            (1000, "a", "c", 0.04, 0.0, 0.05, ""),
            (2000, "a", "b", 0.03, 0.02, 0.8, ""),
            (500, "a", "b", 0.06, 0.02, 0.25, ""),
        ],
        columns=columns,
    )
    table = sensitivity.make_power_table(rows, "T:", {"a": "A", "b": "B", "c": "C"})
    assert (table.title, table.heads) == (
        *("T: differences that 1,000 images can show",),
        *(["difference", "detectable", "power %", "images"],),
    )
    assert lines_of(table) == [
        ("A − B", ["2.0", "4.0", "50", "4,000"]),
        ("A − C", ["0.0", "4.0", "5", "–"]),
    ]
    alone = sensitivity.make_power_table(rows[rows["size"] == 500], "T:", {"a": "A", "b": "B"})
    assert lines_of(alone) == [("A − B", ["2.0", "6.0", "25", "4,500"])]
    assert alone.title == "T: differences that 500 images can show"
