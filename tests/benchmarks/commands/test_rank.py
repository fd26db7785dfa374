"""`captau rank`: its files and tables on the demo, Kasai et al. 2022 on the real ratings, and bad input."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.commands import rank as rank_module
from captau.benchmarks.evaluation.systems.system_ranking import (
    BEST_WORST_COLUMNS,
    SYSTEM_COLUMNS,
    SYSTEM_TEST_COLUMNS,
)
from captau.benchmarks.evaluation.wording import number_word
from captau.benchmarks.reporting.charts.figure_files import can_draw
from captau.benchmarks.runs.results import ORDER_COLUMNS
from captau.benchmarks.statistics.bradley_terry import fit_strengths
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau, says


def rank(output, *words):
    """Run `captau rank` and return its four tables by file name."""
    assert run_captau("rank", *words, f"output_dir={output}") == 0
    names = ("systems", "best_worst", "system_tests", "metric_orders")
    return {name: pd.read_csv(output / f"{name}.csv") for name in names}


def test_the_files_have_the_columns_of_the_contract(tmp_path, capsys):
    tables = rank(tmp_path, "metrics=[bleu_4,rouge_l]", "statistics.replicates=100")
    columns = {
        "systems": SYSTEM_COLUMNS,
        "best_worst": BEST_WORST_COLUMNS,
        "system_tests": SYSTEM_TEST_COLUMNS,
        "metric_orders": ORDER_COLUMNS,
    }
    assert {name: tuple(table.columns) for name, table in tables.items()} == columns
    systems, tests = tables["systems"], tables["system_tests"]
    n_systems = systems["system"].nunique()
    assert len(tests) == n_systems * (n_systems - 1) // 2
    assert systems["value"].is_monotonic_decreasing
    assert (systems["ci_low"] <= systems["value"]).all()
    assert (systems["value"] <= systems["ci_high"]).all()
    assert (tests["p_corrected"] >= tests["p_value"]).all()
    orders = tables["metric_orders"]
    assert set(orders["metric"]) == {"bleu_4", "rouge_l"}
    assert set(orders["coefficient"]) == {"tau_b", "pearson", "pairwise_accuracy"}
    assert (orders["n_systems"] == n_systems).all()
    files = {"table.md", "table.tex", "run.json"}
    files |= {"systems.svg", "systems.png"} if can_draw() else set()
    assert files <= {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "how people and metrics order the systems" in printed
    of_exact = tests[(tests["system_a"] == "exact") | (tests["system_b"] == "exact")]
    assert (of_exact["p_corrected"] <= 0.05).all()
    first, *others = systems["system"]
    assert first == "exact"
    names = f"{', '.join(others[:-1])} and {others[-1]}"
    if len(others) > 4:
        names = f"all {number_word(len(others))} others"
    sentence = f"People put exact first (mean overall 4.700), significantly ahead of {names}."
    assert sentence in " ".join(printed.split())
    best_worst = "| exact | 59 | 0 |"
    assert best_worst not in printed
    assert best_worst in (tmp_path / "table.md").read_text(encoding="utf-8")
    rank(tmp_path / "all", "metrics=[rouge_l]", "statistics.replicates=100", "details=true")
    assert best_worst in capsys.readouterr().out


@pytest.mark.slow
def test_two_runs_write_the_same_tables(tmp_path):
    words = ("metrics=[rouge_l]", "statistics.replicates=100")
    first, second = (rank(tmp_path / name, *words) for name in ("a", "b"))
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, second[name])


def test_thumb_has_the_published_means_intervals_and_best_counts(data_root, tmp_path, capsys):
    """Kasai et al. 2022: Table 2's totals with 90 % intervals, and Table 3's best counts."""
    tables = rank(
        tmp_path,
        *("dataset=thumb", "metrics=[rouge_score_l]", "statistics.level=0.9"),
        "rank.weights={precision: 0.5, recall: 0.5}",
    )
    systems = tables["systems"].set_index(["dimension", "system"])
    published = {
        "Human": (4.56, 0.03),
        "VinVL-large": (4.25, 0.04),
        "VinVL-base": (4.21, 0.04),
        "Unified-VLP": (4.06, 0.04),
        "Up-Down": (3.88, 0.05),
    }
    for system, (total, half_width) in published.items():
        row = systems.loc[("total", system)]
        assert round(row["value"], 2) == total
        # The paper's draws are not known, so that an end may round to the digit beside it.
        assert row["ci_high"] - row["value"] == pytest.approx(half_width, abs=0.01)
        assert row["value"] - row["ci_low"] == pytest.approx(half_width, abs=0.01)
        mean = (
            systems.at[("precision", system), "value"] + systems.at[("recall", system), "value"]
        ) / 2
        assert systems.at[("weighted", system), "value"] == pytest.approx(mean)
    best = tables["best_worst"].set_index("system")["best"]
    assert [best[system] for system in published] == [327, 180, 161, 112, 74]
    assert set(tables["best_worst"]["dimensions"]) == {"precision+recall"}
    assert systems.at[("fluency", "Human"), "value"] == pytest.approx(-0.019)
    printed = capsys.readouterr().out
    systems = tables["systems"]
    weighted = systems[systems["dimension"] == "weighted"].iloc[0]
    ends = " | ".join(f"{weighted[name]:.3f}" for name in ("value", "ci_low", "ci_high"))
    assert f"| Human | {ends} | 1 | 4.820 | 4.352 | 0.019 |" in printed
    assert "| system | weighted | low | high | rank | precision | recall | fluency |" in printed
    assert "weighted = 0.5·precision + 0.5·recall." in printed


@pytest.mark.parametrize(("weight", "sign"), [(2, 1), (-2, -1)])
def test_metrics_are_compared_with_a_weighted_total_as_with_a_dimension(weight, sign, tmp_path):
    """A law: the total of one dimension alone has its coefficients, and the opposite ones if its weight is negative."""
    words = ("metrics=[rouge_l,cider]", "statistics.interval=none", "protocol.ratings=per_rating")
    orders = rank(tmp_path, *words, f"rank.weights={{overall: {weight}}}")["metric_orders"]
    orders = orders[orders["coefficient"] != "pairwise_accuracy"]
    values = orders.pivot(index=["metric", "coefficient"], columns="dimension", values="value")
    assert values["weighted"].tolist() == pytest.approx((sign * values["overall"]).tolist())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["protocol.systems=[exact]"], "it has one system alone"),
        (["rank.weights=3"], "rank.weights is 3; a number for each dimension is expected"),
        (["rank.weights={overal: 1}"], "unknown dimension of dataset demo 'overal'"),
        (["rank.best_worst=[beauty]"], "dataset demo has no dimension 'beauty'"),
        (["statistics.interval=fisher"], "choose expanded, percentile, bca or none"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, message, tmp_path, capsys):
    assert run_captau("rank", "metrics=[rouge_l]", *words, f"output_dir={tmp_path / 'out'}") == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_a_dataset_whose_systems_are_not_known_is_refused(data_root, tmp_path, capsys):
    assert run_captau("rank", "dataset=pascal50s", f"output_dir={tmp_path / 'out'}") == 2
    assert "dataset pascal50s: it has items whose system is not known" in capsys.readouterr().err


PAIRS = "image,caption_a,caption_b,winner,system_a,system_b,references\n"


def write_pairs(folder, *rows):
    """Write a table of comparisons of the systems A to D; a row is image, systems and winner."""
    lines = [f"{i},{a} saw {i},{b} saw {i},{w},{a},{b},A saw it\n" for i, a, b, w in rows]
    path = folder / "pairs.csv"
    path.write_text(PAIRS + "".join(lines), encoding="utf-8")
    return path


#: Of nine comparisons on six images A wins most; two are tied.
BATTLES = [
    *(("i1", "A", "B", "a"), ("i2", "A", "B", "a"), ("i3", "B", "A", "a"), ("i4", "A", "B", "tie")),
    *(("i1", "B", "C", "a"), ("i5", "C", "B", "a"), ("i6", "B", "C", "a")),
    *(("i2", "A", "C", "a"), ("i6", "C", "A", "tie")),
]


def test_preferences_are_ranked_by_strengths_with_ties(tmp_path, capsys):
    """Wins and ties counted by hand; the strengths are those of the model on these counts."""
    path = write_pairs(tmp_path, *BATTLES)
    out = tmp_path / "out"
    words = ("dataset=file", f"file.path={path}", "metrics=[rouge_l]", "statistics.replicates=200")
    tables = rank(out, *words)
    wins = pd.read_csv(out / "wins.csv")
    assert wins.drop(columns=["dataset", "dimension"]).to_numpy().tolist() == [
        ["A", "B", 2, 1, 1],
        ["A", "C", 1, 0, 1],
        ["B", "C", 2, 1, 0],
    ]
    counted = np.array([[0, 2, 1], [1, 0, 2], [0, 1, 0]], dtype=float)[:, :, None]
    tied = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=float)[:, :, None]
    systems = tables["systems"].set_index("system")
    expected = fit_strengths(counted, tied, "davidson").values[:, 0]
    assert systems.loc[["A", "B", "C"], "value"].tolist() == pytest.approx(expected, abs=1e-9)
    assert systems.index.tolist() == ["A", "B", "C"]
    assert systems["n_judgements"].tolist() == [6, 7, 5]
    assert tables["best_worst"].empty
    assert len(tables["system_tests"]) == 3
    elo = pd.read_csv(out / "elo.csv")
    assert set(elo["system"]) == {"A", "B", "C"}
    assert (elo["n_orders"] == 100).all()
    printed = capsys.readouterr().out
    # The model is a detail, which the file has.
    assert "Davidson's Bradley–Terry model with ties" in (out / "table.md").read_text("utf-8")
    assert "longer caption" in printed
    assert "first caption" in printed
    other = rank(tmp_path / "other", *words, "rank.ties=rao_kupper")["systems"]
    expected = fit_strengths(counted, tied, "rao_kupper").values[:, 0]
    assert other.set_index("system").loc[["A", "B", "C"], "value"].tolist() == pytest.approx(
        expected, abs=1e-9
    )


def test_answers_that_were_merged_are_counted_as_bench_counts_them(tmp_path, capsys):
    """Ann answers the first pair twice, and the two answers are one; the table of each command says so once."""
    path = tmp_path / "pairs.csv"
    path.write_text(
        "image,caption_a,caption_b,system_a,system_b,rater,winner,references\n"
        "1,a dog runs,a cat sits,A,B,ann,a,a dog\n"
        "1,a dog runs,a cat sits,A,B,ann,b,a dog\n"
        "1,a dog runs,a cat sits,A,B,bob,a,a dog\n"
        "2,one tree,two trees,A,B,ann,b,a tree\n",
        encoding="utf-8",
    )
    note = "file: 1 answers are a rater's second or later one to a pair; the mean of the rater's answers counts."
    words = ("dataset=file", f"file.path={path}", "metrics=[rouge_1]", "statistics.interval=none")
    for command in ("bench", "rank"):
        assert run_captau(command, *words, f"output_dir={tmp_path / command}") == 0
        capsys.readouterr()
        table = (tmp_path / command / "table.md").read_text(encoding="utf-8")
        assert table.count(note) == 1, command


def test_an_order_without_interval_has_a_dash_and_the_reason(tmp_path, capsys):
    """Few battles of one winner each: many samples leave a strength without bound."""
    path = write_pairs(tmp_path, *BATTLES[:3], *BATTLES[4:6])
    words = ("dataset=file", f"file.path={path}", "metrics=[rouge_l]", "statistics.replicates=50")
    rank(tmp_path / "out", *words)
    printed = capsys.readouterr().out
    assert "– to –" not in printed
    assert (
        "an interval is left out where that happens in more than 10 % of the resamples" in printed
    )


def test_rank_from_python_is_the_command(tmp_path):
    path = write_pairs(tmp_path, *BATTLES)
    options = {"file": {"path": str(path)}, "statistics": {"replicates": 50}}
    output = captau.rank("file", "rouge_l", **options)
    table = rank(
        *(tmp_path / "out", "dataset=file", f"file.path={path}", "metrics=[rouge_l]"),
        "statistics.replicates=50",
    )["systems"]
    # A CSV file has no empty texts.
    table["note"] = table["note"].astype(object).fillna("")
    pd.testing.assert_frame_equal(output.frames["systems.csv"], table, check_dtype=False)


def test_a_system_that_never_loses_has_an_infinite_strength_and_the_first_rank(tmp_path):
    """A wins all of its 40 comparisons with B, which wins half of those with C."""
    games = [(f"a{i}", "A", "B", "a") for i in range(40)]
    games += [(f"c{i}", "B", "C", "ab"[i % 2]) for i in range(40)]
    path = write_pairs(tmp_path, *games)
    plain = {"interval": "percentile"}  # its p-value is a share of replicates
    frames = captau.rank("file", "rouge_l", file={"path": str(path)}, statistics=plain).frames
    systems = frames["systems.csv"].set_index("system")
    assert systems["value"].tolist() == [math.inf, -math.inf, -math.inf]
    assert systems.index[0] == "A"
    assert systems["rank"].tolist() == [1, 2, 2]
    reason = "no other system beats or ties A, so that strengths have no bound"
    assert systems.at["A", "note"] == reason
    tests = frames["system_tests.csv"].set_index(["system_a", "system_b"])
    assert tests.at[("A", "B"), "difference"] == math.inf
    assert tests.at[("A", "B"), "p_value"] == pytest.approx(2 / 1001)
    assert tests.at[("B", "C"), "difference"] == pytest.approx(0, abs=1e-9)


def test_resamples_without_the_only_loss_count_as_infinite(tmp_path):
    """A wins 69 of 70; (69 / 70) ** 70 = 36.5 % of the resamples lack its loss, and there it is above B for ever."""
    path = write_pairs(tmp_path, *[(f"i{i}", "A", "B", "a" if i else "b") for i in range(70)])
    plain = {"interval": "percentile"}  # its p-value is a share of replicates
    frames = captau.rank("file", "rouge_l", file={"path": str(path)}, statistics=plain).frames
    systems = frames["systems.csv"].set_index("system")
    assert systems["rank"].to_dict() == {"A": 1, "B": 2}
    assert systems.at["A", "value"] == pytest.approx(math.log(69) / 2)
    assert systems.at["A", "ci_high"] == math.inf
    (test,) = frames["system_tests.csv"].to_dict("records")
    assert test["p_value"] == pytest.approx(2 / 1001)
    assert 0 < test["ci_low"] < math.log(69) < test["ci_high"] == math.inf


def test_systems_that_never_meet_are_named(tmp_path):
    path = write_pairs(
        tmp_path, ("i1", "A", "B", "a"), ("i2", "C", "D", "b"), ("i3", "B", "A", "a")
    )
    with says(
        "overall: 2 groups of systems are never compared with each other",
        "A,B | C,D; protocol.systems=A,B ranks",
    ):
        captau.rank("file", "rouge_l", file={"path": str(path)})


def test_bad_choices_of_rank(tmp_path):
    with says("unknown rank.ties 'glicko'"):
        captau.rank("demo", "rouge_l", ties="glicko")
    with says("dataset demo, colour: 5 groups of systems are never compared"):
        captau.rank("demo", "rouge_l", by="preferences")


def test_pairs_without_systems_are_refused_with_the_names_of_their_columns(tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    path.write_text("image,caption_a,caption_b,winner\n1,A saw 1,B saw 1,a\n")
    assert run_captau("rank", "dataset=file", f"file.path={path}", "metrics=[rouge_l]") == 2
    assert "file.system_a= and file.system_b=" in capsys.readouterr().err


def test_systems_are_ranked_where_no_metric_can_be_computed(tmp_path, capsys):
    """A wins two comparisons, B one, and one is tied: d = ln 2, and Davidson's ν = 1/√2."""
    rows = ["1,a dog,a cat,a,A,B", "2,a x,a y,a,A,B", "3,x y,z,b,A,B", "4,x y,z w,tie,A,B"]
    header = "image,caption_a,caption_b,winner,system_a,system_b"
    (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]) + "\n")
    words = ("dataset=file", f"file.path={tmp_path / 'pairs.csv'}", "statistics.interval=none")
    assert run_captau("rank", *words, f"output_dir={tmp_path / 'out'}") == 0
    assert "needs references" in capsys.readouterr().err
    strengths = pd.read_csv(tmp_path / "out" / "systems.csv").set_index("system")["value"]
    assert strengths["A"] - strengths["B"] == pytest.approx(float(np.log(2)), abs=1e-6)


def test_of_a_fault_the_system_with_the_least_is_the_first():
    """People's places, and those of a metric, of which more is better."""
    people = pd.DataFrame(
        {"dimension": "harm", "system": ["A", "B", "C"], "value": [0.1, 0.3, 0.2]}
    )
    orders = pd.DataFrame(
        {
            "dimension": ["harm", "harm", "other"],
            "coefficient": ["tau_b", "pairwise_accuracy", "pairwise_accuracy"],
            "metric": "bleu_1",
            "value": [0.5, 2 / 3, 1.0],
        }
    )
    card = SimpleNamespace(faults=("harm",))
    prepared = SimpleNamespace(
        name="d",
        metrics=[captau.metric("bleu_1")],
        selection=SimpleNamespace(caption_set=SimpleNamespace(card=card)),
    )
    ranking = SimpleNamespace(
        prepared=prepared,
        systems=["A", "C", "B"],
        leading_dimension="harm",
        people=SimpleNamespace(systems=people),
        orders=orders,
        metric_means={"bleu_1": pd.Series({"A": 0.5, "B": 0.25, "C": 0.75})},
    )
    table = rank_module._orders_table(ranking)
    assert lines_of(table) == [("people", ["1", "2", "3", ""]), ("BLEU-1", ["2", "1", "3", "67"])]


def write_biased_pairs(path, n_images):
    """Write comparisons of two equally good systems; the longer caption wins 3 of 4 times, and `long` writes longer ones."""
    rows = []
    for n in range(n_images):
        # The difference of words is 4, 8, -4 and 12 in turn: of 4 images `long` is the longer one in three.
        n_more = [4, 8, -4, 12][n % 4]
        longer_wins = (n // 4) % 4 != 3
        wins = (n_more > 0) == longer_wins
        long_caption = f"image {n} " + "word " * (14 + n_more)
        short_caption = f"image {n} " + "word " * 14
        rows.append(
            (f"{n}.jpg", long_caption, short_caption, "a" if wins else "b", "long", "short")
        )
    columns = ["image", "caption_a", "caption_b", "winner", "system_a", "system_b"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    metric = "def count(caption, references): return len(caption.split())\n"
    (path.parent / "words.py").write_text(metric)


def test_with_length_held_equal_the_longer_system_is_no_better(tmp_path, capsys):
    write_biased_pairs(tmp_path / "pairs.csv", 160)
    words = ["dataset=file", f"file.path={tmp_path / 'pairs.csv'}", "statistics.replicates=100"]
    tables = rank(tmp_path / "run", *words, f"metrics={tmp_path}/words.py:count", "control=length")
    systems = tables["systems"].set_index(["dimension", "system"])
    assert systems.loc[("overall", "long"), "rank"] == 1
    assert systems.loc[("overall", "short"), "rank"] == 2
    held = systems.loc["overall (length held equal)"]
    assert held["rank"].tolist() == [1, 1]
    assert held["ci_low"].max() < 0 < held["ci_high"].min()

    controls = pd.read_csv(tmp_path / "run" / "controls.csv")
    columns = ["dataset", "dimension", "feature", "effect", "ci_low", "ci_high", "note"]
    assert list(controls) == columns
    assert controls["feature"].tolist() == ["length"]
    row = controls.iloc[0]
    assert 0.5 < row["ci_low"] < row["effect"] < row["ci_high"] < 1
    printed = " ".join(capsys.readouterr().out.split())
    sentence = (
        f"A caption 10 words longer wins {100 * row['effect']:.0f} % of the time, all else equal"
    )
    assert sentence in printed

    # How often the system that mostly has the longer caption has it, by the file itself.
    pairs = pd.read_csv(tmp_path / "pairs.csv")
    difference = pairs["caption_a"].str.split().str.len() - pairs["caption_b"].str.split().str.len()
    difference *= np.where(pairs["system_a"] < pairs["system_b"], 1, -1)
    share = max((difference > 0).mean(), (difference < 0).mean())
    assert (
        f"length: in {100 * share:.0f} % of the comparisons it is greater for the same one"
        in printed
    )


@pytest.mark.slow
def test_a_column_of_ones_own_is_held_equal(tmp_path, capsys):
    """The number of words as a column: the strengths are those of control=length, and effects are of a standard deviation."""
    write_biased_pairs(tmp_path / "pairs.csv", 160)
    pairs = pd.read_csv(tmp_path / "pairs.csv")
    captions = pd.concat(
        [pairs[["image", f"caption_{k}"]].set_axis(["image", "caption"], axis=1) for k in "ab"]
    )
    sizes = captions["caption"].str.split().str.len()
    captions.assign(size=sizes).to_csv(tmp_path / "own.csv", index=False)
    words = ["dataset=file", f"file.path={tmp_path / 'pairs.csv'}", "statistics.replicates=100"]
    words.append(f'metrics=["file(path={tmp_path}/own.csv,name=size,score_column=size)"]')
    by_length = rank(tmp_path / "length", *words, "control=length")["systems"]
    by_size = rank(tmp_path / "size", *words, "control=size")["systems"]
    columns = ["system", "value", "ci_low", "ci_high", "rank"]
    expected = by_length[by_length["dimension"] == "overall (length held equal)"][columns]
    held = by_size[by_size["dimension"] == "overall (size held equal)"][columns]
    pd.testing.assert_frame_equal(held, expected)

    effect, of_words = (
        pd.read_csv(tmp_path / name / "controls.csv")["effect"].item()
        for name in ("size", "length")
    )
    # Both effects are of one logistic slope, told for a standard deviation and for ten words.
    step = captions.assign(size=sizes).drop_duplicates(["image", "caption"])["size"].std(ddof=0)
    slope = np.log(of_words / (1 - of_words)) / 10
    assert np.log(effect / (1 - effect)) / slope == pytest.approx(step, rel=0.02)
    assert "A caption whose size is greater by" in " ".join(capsys.readouterr().out.split())


def test_features_are_held_equal_only_where_pairs_tell(tmp_path, capsys):
    write_biased_pairs(tmp_path / "pairs.csv", 16)
    words = ["dataset=file", f"file.path={tmp_path / 'pairs.csv'}", "statistics.replicates=100"]
    tables = rank(tmp_path / "run", *words, f"metrics={tmp_path}/words.py:count", "control=length")
    held = tables["systems"].query("dimension == 'overall (length held equal)'")
    assert held["value"].isna().all()
    assert (
        held["note"]
        .str.contains("16 comparisons of 2 systems, and holding length equal needs 30")
        .all()
    )
    capsys.readouterr()

    with says(
        "control= holds features of two compared captions equal, and demo is ranked by ratings"
    ):
        captau.rank("demo", "bleu_1", control="length")
    with says("unknown feature 'beauty'"):
        captau.rank("demo", "bleu_1", control="beauty")
