"""`captau bench`, through Python and the command line, on the embedded demo."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.evaluation.judged_pairs import PAIR_FLOORS
from captau.benchmarks.runs.results import CORRELATION_COLUMNS, SCORE_COLUMNS, to_json
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.statistics.rating_table import CEILINGS
from captau.datasets.errors import InputError
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau

QUICK = ["bleu_1", "rouge_l", "cider"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "out"
    return folder, captau.bench("demo", QUICK, output_dir=folder)


def test_files_and_columns_are_the_contract(run):
    folder, results = run
    frame = pd.read_csv(folder / "correlations.csv")
    assert tuple(frame.columns) == CORRELATION_COLUMNS
    rated, of_preferences = {"tau_c", "tau_b", "spearman", "pearson"}, {"accuracy"}
    assert set(frame["coefficient"]) == rated | of_preferences
    scores = pd.read_parquet(folder / "scores.parquet")
    assert tuple(scores.columns) == SCORE_COLUMNS
    assert len(scores) == 360 * len(QUICK)
    assert set(results.correlations["metric"]) == {*QUICK, *CEILINGS, *PAIR_FLOORS}


def test_values_are_in_their_natural_range(run):
    values = run[1].correlations["value"]
    assert values.between(-1, 1).all()


def test_correlations_follow_from_the_scores(run):
    """SciPy on the written scores and the dataset's ratings gives the written coefficient."""
    from scipy import stats

    results = run[1]
    ratings = captau.load("demo").ratings
    scores = results.scores[results.scores["metric"] == "cider"].set_index("item_id")["score"]
    expected = stats.kendalltau(scores.loc[ratings["item_id"]], ratings["value"], variant="c")
    frame = results.correlations
    row = frame[(frame["metric"] == "cider") & (frame["coefficient"] == "tau_c")].iloc[0]
    assert row["value"] == expected.statistic
    assert row["p_value"] == expected.pvalue
    assert (row["n_items"], row["n_ratings"]) == (360, 1080)
    values = scores.loc[ratings["item_id"]], ratings["value"]
    for name, statistic in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        row = frame[(frame["metric"] == "cider") & (frame["coefficient"] == name)].iloc[0]
        assert row["value"] == pytest.approx(statistic(*values).statistic, abs=1e-12)
        assert row["ci_low"] < row["value"] < row["ci_high"]


def test_the_protocol_says_what_is_printed_ranked_and_tested():
    """Of ratings the files hold τ_c, τ_b, ρ and r, whichever of them the protocol names."""
    options = {"ceilings": False, "statistics": {"replicates": 64}}
    one = captau.bench("demo", QUICK[:2], protocol={"coefficients": "pearson"}, **options)
    assert one.tables[0].heads == ["r", "±", "rank"]
    assert set(one.ranks["coefficient"]) == {"pearson"}
    coefficients = list(dict.fromkeys(one.correlations["coefficient"]))
    assert coefficients == ["pearson", "tau_c", "tau_b", "spearman"]
    usual = captau.bench("demo", QUICK[:2], **options).correlations
    keys = ["metric", "dimension", "coefficient"]
    both = one.correlations.merge(usual, on=keys, suffixes=("", "_usual"))
    assert len(both) == 8
    for column in ("value", "ci_low", "ci_high", "p_value"):
        assert both[column].tolist() == both[f"{column}_usual"].tolist()


def test_compare_from_python_tests_what_the_command_tests(tmp_path):
    metrics = ["rouge_1", "rouge_2"]
    results = captau.compare("demo", metrics, tests=["bootstrap"], output_dir=tmp_path / "python")
    words = ("metrics=rouge_1,rouge_2", "tests=bootstrap", f"output_dir={tmp_path / 'typed'}")
    assert run_captau("compare", *words) == 0
    typed, python = ((tmp_path / d / "significance.csv").read_bytes() for d in ("typed", "python"))
    assert typed == python
    assert results.significance is not None
    assert set(results.significance[0]["test"]) == {"bootstrap"}
    with pytest.raises(InputError, match="two are needed to compare"):
        captau.compare("demo", "rouge_1")


def test_a_notebook_shows_the_printed_tables(run):
    html = run[1]._repr_html_()
    assert html.count("<table>") == len(run[1].tables)
    assert ">CIDEr</th>" in html
    assert "SYNTHETIC data" in html
    assert "CIDEr" in run[1].to_markdown()
    assert r"\toprule" in run[1].to_latex()


def test_the_table_says_that_the_demo_is_synthetic(run):
    folder, _ = run
    for name in ("table.md", "table.tex"):
        text = (folder / name).read_text(encoding="utf-8")
        assert "(synthetic)" in text
        assert "SYNTHETIC" in text


def test_run_json_says_what_the_numbers_rest_on(run):
    record = json.loads((run[0] / "run.json").read_text(encoding="utf-8"))
    assert set(record["signatures"]) == set(QUICK)
    assert record["protocols"]["demo"]["ratings"] == "per_rating"
    assert record["data"]["demo"]["digest"] == captau.load("demo").digest
    assert {"captau", "numpy", "scipy", "pycocoevalcap"} <= set(record["versions"])
    assert record["platform"]["python"]
    assert record["seconds"] > 0


def test_second_run_computes_nothing_and_writes_equal_bytes(run, tmp_path):
    folder, _ = run
    again = captau.bench("demo", QUICK, output_dir=tmp_path)
    assert again.run["scores_computed"] == 0
    for name in ("correlations.csv", "scores.parquet", "table.md", "table.tex", "table.csv"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_order_of_metrics_moves_no_number(run):
    frame = captau.bench("demo", QUICK[::-1]).correlations
    keys = ["metric", "dimension", "coefficient"]
    left = frame.set_index(keys)["value"].sort_index()
    right = run[1].correlations.set_index(keys)["value"].sort_index()
    pd.testing.assert_series_equal(left, right)


def test_a_score_file_is_a_metric(run, tmp_path):
    """bench's own score file, read back as a metric, correlates as the metric did."""
    results = run[1]
    scores = results.scores[results.scores["metric"] == "cider"]
    scores[["item_id", "score"]].to_csv(tmp_path / "mine.csv", index=False)
    frame = captau.bench(
        "demo", [f"file(path={tmp_path / 'mine.csv'},name=Mine)", "cider"]
    ).correlations
    values = frame.pivot(index=["dimension", "coefficient"], columns="metric", values="value")
    np.testing.assert_array_equal(values["Mine"], values["cider"])


def test_a_score_file_that_misses_an_item_stops_the_run(run, tmp_path):
    scores = run[1].scores.query("metric == 'cider'").iloc[1:]
    scores[["item_id", "score"]].to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(InputError, match="1 of 360 items"):
        captau.bench("demo", f"file(path={tmp_path / 'mine.csv'},name=Mine)")


def test_a_python_function_is_a_metric(tmp_path, monkeypatch):
    (tmp_path / "my_metric.py").write_text(
        "def length(items):\n    return items['caption'].str.len()\n"
    )
    monkeypatch.chdir(tmp_path)
    results = captau.bench("demo", "python(my_metric:length)")
    lengths = results.scores["caption"].str.len().astype(float)
    np.testing.assert_array_equal(results.scores["score"], lengths)


def count_shared(caption, references):
    return len(set(caption.split()) & set(references[0].split()))


MINE = """
from dataclasses import dataclass
import captau

def count_shared(caption, references):
    return len(set(caption.split()) & set(references[0].split()))

@captau.register("words_of_mine")
@dataclass(frozen=True)
class Words(captau.Metric):
    def compute(self, rows):
        return [float(len(caption.split())) for caption in rows.captions]
"""


def test_functions_classes_and_files_of_ones_own(tmp_path, monkeypatch, capsys):
    """The command line and Python give the same scores, which the items' captions and references give by hand."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    items = captau.load("demo").items
    shared = [
        float(count_shared(c, r))
        for c, r in zip(items["caption"], items["references"], strict=True)
    ]
    items.assign(score=range(len(items)))[["item_id", "score"]].to_csv("mine.csv", index=False)
    words = ("statistics.replicates=20", "output_dir=typed")
    assert run_captau("bench", "metrics=mine.py:count_shared,mine.py:Words,mine.csv", *words) == 0
    given = captau.bench("demo", [count_shared, "mine.py:Words", "mine.csv"], output_dir="given")
    typed = pd.read_parquet("typed/scores.parquet")
    pd.testing.assert_frame_equal(typed, given.scores, check_dtype=False)
    assert typed.query("metric == 'count_shared'")["score"].tolist() == shared
    counts = items["caption"].str.split().map(len).astype(float)
    assert typed.query("metric == 'words_of_mine'")["score"].tolist() == counts.tolist()
    assert typed.query("metric == 'mine'")["score"].tolist() == list(range(len(items)))
    assert run_captau("bench", "run=typed", "statistics.replicates=20", "output_dir=again") == 0
    pd.testing.assert_frame_equal(pd.read_parquet("again/scores.parquet"), typed)
    assert run_captau("bench", "run=given") == 2
    assert "Python objects that were not saved (metrics)" in capsys.readouterr().err
    captions, references = {"1": "a dog"}, {"1": ["a dog runs"]}
    scores = captau.score(captions, references, [count_shared, "mine.py:Words"]).corpus["score"]
    assert scores.tolist() == [2.0, 2.0]
    assert captau.reward(count_shared, references)(["a dog", "it runs"], ["1", "1"]) == [2.0, 1.0]
    assert captau.reward(lambda items: items["references"].str[0].str.len(), references)(
        ["a"], ["1"]
    ) == [10.0]
    compared = captau.compare("demo", [count_shared, "mine.csv"], statistics={"replicates": 20})
    assert compared.significance[0]["metric_a"].unique().tolist() == ["count_shared"]
    ranked = captau.rank("demo", count_shared, statistics={"replicates": 20})
    assert set(ranked.frames["metric_orders.csv"]["metric"]) == {"count_shared"}


def test_tables_begin_with_the_best_metric_and_files_keep_the_order_of_the_options(
    tmp_path, monkeypatch
):
    """By the headline; a metric without a value stands last, and a `*` marks your own."""
    (tmp_path / "even.py").write_text("def even(items):\n    return [1.0] * len(items)\n")
    monkeypatch.chdir(tmp_path)
    metrics = ["python(even:even)", "bleu_1", "rouge_l"]
    results = captau.bench("demo", metrics, protocol={"coefficients": ["tau_c"]}, ceilings=False)
    assert [label for label, _ in lines_of(results.tables[0])] == ["ROUGE-L", "BLEU-1", "even"]
    assert "\n| even * | – |" in results.to_markdown()
    printed = results.correlations[results.correlations["coefficient"] == "tau_c"]
    assert list(printed["metric"]) == ["even", "bleu_1", "rouge_l"]


def test_constant_scores_are_undefined_with_a_reason(tmp_path, monkeypatch):
    (tmp_path / "flat.py").write_text("def flat(items):\n    return [1.0] * len(items)\n")
    monkeypatch.chdir(tmp_path)
    results = captau.bench("demo", "python(flat:flat)")
    (metric,) = results.scores["metric"].unique()
    flat = results.correlations[results.correlations["metric"] == metric]
    rated = flat.query("coefficient != 'accuracy'")
    assert len(rated) == 4
    assert rated["value"].isna().all()
    assert rated["note"].str.contains("all scores are equal").all()
    accuracy = flat.query("coefficient == 'accuracy' and dimension == 'mean'")
    assert accuracy["value"].item() == 0.5


@pytest.mark.parametrize(
    ("undefined", "value_is_nan", "note", "told"),
    [
        ("nan", True, "3 of 1080 data points", "; protocol.undefined=drop leaves such items out"),
        ("drop", False, "3 of 1080 data points dropped", ", left out of its row"),
    ],
)
def test_undefined_scores(tmp_path, monkeypatch, undefined, value_is_nan, note, told):
    (tmp_path / "gap.py").write_text(
        "def gap(items):\n    s = items['caption'].str.len().astype(float)\n    s.iloc[0] = None\n    return s\n"
    )
    monkeypatch.chdir(tmp_path)
    protocol = {"undefined": undefined, "coefficients": ["tau_c"]}
    results = captau.bench("demo", "python(gap:gap)", protocol=protocol)
    row = results.correlations.iloc[0]
    assert np.isnan(row["value"]) == value_is_nan
    assert note in row["note"]
    assert f"gap: undefined for 1 of 360 items{told}." in results.tables[0].notes


def test_undefined_scores_can_stop_the_run(tmp_path, monkeypatch):
    (tmp_path / "gap2.py").write_text("def gap(items):\n    return [float('nan')] * len(items)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="undefined for 360 of 360 items"):
        captau.bench("demo", "python(gap2:gap)", protocol={"undefined": "error"})


def test_several_datasets_and_protocol_changes(data_root):
    results = captau.bench(
        ["thumb", "capeval1k"],
        "rouge_1",
        protocol={"coefficients": ["spearman"]},
        data_root=data_root,
    )
    frame = results.correlations
    assert list(dict.fromkeys(frame["dataset"])) == ["thumb", "capeval1k"]
    assert set(frame["coefficient"]) == {"tau_c", "tau_b", "spearman", "pearson"}
    assert len(results.tables) == 3  # the overview and one of each dataset


def test_what_python_gets_wrong():
    for arguments, message in [
        (("dmeo", "cider"), "did you mean demo"),
        (("demo", "cidr"), "did you mean cider"),
        (("demo", []), "metrics is empty"),
        (("demo", 5), "metrics is 5"),
        (("demo", True), "metrics is True"),
        (("demo", {"cider": 1}), "metrics is {'cider': 1}"),
        (([], "cider"), "dataset is empty"),
        ((5, "cider"), "dataset is 5"),
        (([5], "cider"), "a name or a list of names"),
    ]:
        with pytest.raises(InputError, match=message):
            captau.bench(*arguments)
    with pytest.raises(InputError, match="did you mean dimension"):
        captau.bench("demo", "cider", protocol={"dimenson": "overall"})
    with pytest.raises(InputError, match="did you mean mean_rating"):
        captau.bench("demo", "cider", protocol="mean_ratings")
    for wrong in (5, ["mean_rating"]):
        with pytest.raises(InputError, match="a name or a dict"):
            captau.bench("demo", "cider", protocol=wrong)
    with pytest.raises(InputError, match="file is 5"):
        captau.bench("demo", "cider", file=5)


def test_a_named_protocol_and_blanks_around_a_suite():
    results = captau.bench("demo", [" rouge_1 "], protocol="mean_rating")
    record = results.run["protocols"]["demo"]
    assert (record["name"], record["ratings"]) == ("mean_rating ratings=mean", "mean")
    assert [m.spec for m in resolve_metrics([" text "])] == [
        m.spec for m in resolve_metrics("text")
    ]


def test_run_json_from_python_has_every_option():
    config = captau.bench("demo", QUICK, protocol={"dimension": "overall"}).run["config"]
    assert config["metrics"] == QUICK
    changes = {key: value for key, value in config["protocol"].items() if value is not None}
    assert changes == {"dimension": "overall"}
    assert list(config["datasets"]) == ["demo"]
    assert {"ceilings", "data", "cache", "output_dir", "file"} <= set(config)


def test_dimensions_of_other_weights_stop_metrics_with_corpus_statistics_alone(tmp_path):
    rows = ["image,caption,references,dimension,rater,value"]
    for item, (caption, raters) in enumerate([("a dog", 2), ("two cats", 1), ("a red bus", 1)]):
        for dimension, count in (("wit", 1), ("truth", raters)):
            rows += [
                f"{item}.jpg,{caption},the {caption},{dimension},{r},{item + r}"
                for r in range(count)
            ]
    (tmp_path / "mine.csv").write_text("\n".join(rows) + "\n")
    file = {"path": str(tmp_path / "mine.csv")}
    with pytest.raises(InputError, match="one at a time, protocol"):
        captau.bench("file", ["rouge_1", "cider"], file=file)
    captau.bench("file", "rouge_1", file=file)
    captau.bench("file", "cider", file=file, protocol={"dimension": "truth"})


def test_no_dimension_says_which_there_are():
    with pytest.raises(InputError, match=r"protocol\.dimension is empty; .*overall"):
        captau.bench("demo", "rouge_1", protocol={"dimension": [], "coefficients": ["tau_c"]})


def test_accuracy_leaves_out_what_is_undefined_and_counts_what_it_uses(tmp_path, monkeypatch):
    pairs = captau.load("demo").preferences
    gone = pairs["item_a"].iloc[0]
    (tmp_path / "gap3.py").write_text(
        "def gap(items):\n"
        f"    return items['caption'].str.len().where(items['item_id'] != {gone!r})\n"
    )
    monkeypatch.chdir(tmp_path)

    def accuracy(undefined):
        protocol = {"undefined": undefined, "coefficients": ["accuracy"]}
        frame = captau.bench("demo", "python(gap3:gap)", protocol=protocol).correlations
        return frame[~frame["metric"].isin(PAIR_FLOORS)].set_index("dimension")

    kept = pairs[(pairs["item_a"] != gone) & (pairs["item_b"] != gone) & (pairs["winner"] != "tie")]
    dropped = accuracy("drop")
    assert dropped["value"].notna().all()
    assert dropped.loc["mean", "n_ratings"] == len(kept)
    assert dropped["note"].str.contains("pairs dropped: undefined score").any()
    stays = accuracy("nan")
    assert np.isnan(stays.loc["mean", "value"])
    assert stays.loc["mean", "note"].startswith("undefined: accuracy of ")
    assert stays.loc["mean", "n_ratings"] == (pairs["winner"] != "tie").sum()


def test_the_table_says_how_many_items_have_fewer_references():
    protocol = {"references": "first_k", "k": 99, "coefficients": ["tau_c"]}
    notes = captau.bench("demo", "rouge_1", protocol=protocol).tables[0].notes
    assert "Items with fewer than 99 references, all of which are used: 360." in notes


def test_json_has_no_word_for_nan():
    told = {"a": float("nan"), "b": [1.5, (float("inf"),)]}
    assert json.loads(to_json(told)) == {"a": None, "b": [1.5, [None]]}


def test_the_headline_is_printed_and_details_are_asked_for(tmp_path, capsys):
    """The demo's headline is τ_c; METEOR's and BLEU-1's values and ranks are those of correlations.csv and ranks.csv."""
    words = ("metrics=[meteor,bleu_1]", "statistics.replicates=200")
    assert run_captau("bench", *words, f"output_dir={tmp_path / 'brief'}") == 0
    brief = capsys.readouterr().out
    assert "| metric | τ_c | ± | rank |\n" in brief
    assert "longer caption" not in brief
    frame = pd.read_csv(tmp_path / "brief" / "correlations.csv")
    rows = frame[frame["coefficient"] == "tau_c"].set_index("metric")["value"]
    assert rows["meteor"] > rows["bleu_1"]
    assert f"METEOR agrees best with people (τ_c {100 * rows['meteor']:.1f}), signific" in brief
    assert run_captau("bench", *words, "details=true", f"output_dir={tmp_path / 'all'}") == 0
    printed = capsys.readouterr().out
    table = (tmp_path / "brief" / "table.md").read_text(encoding="utf-8")
    assert printed.startswith(table.strip())
    assert "| τ_b | ± | rank | colour acc. % | relation acc. % |" in table
    typed = ("protocol.coefficients=[tau_c,spearman]", f"output_dir={tmp_path / 'typed'}")
    assert run_captau("bench", *words, *typed) == 0
    assert "| metric | τ_c | ± | rank | ρ | ± | rank |" in capsys.readouterr().out


def test_pascal50s_is_sorted_by_the_mean_accuracy(data_root, tmp_path, capsys):
    """METEOR has the best mean, though BLEU-2 has the better HC."""
    words = ("dataset=pascal50s", "metrics=[bleu_2,meteor]", f"output_dir={tmp_path / 'run'}")
    assert run_captau("bench", *words) == 0
    frame = pd.read_csv(tmp_path / "run" / "correlations.csv")
    values = frame.set_index(["dimension", "metric"])["value"]
    assert values["HC", "bleu_2"] > values["HC", "meteor"]
    assert values["mean", "meteor"] > values["mean", "bleu_2"]
    printed = capsys.readouterr().out
    assert printed.index("| METEOR |") < printed.index("| BLEU-2 |")
    assert (
        f"METEOR agrees best with people (mean acc. {100 * values['mean', 'meteor']:.1f})"
        in printed
    )
