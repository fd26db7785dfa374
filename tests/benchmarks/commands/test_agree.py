"""`captau agree` and the ceilings of `captau bench`: their files, their options and published numbers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.commands import agree as agree_module
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.judged_pairs import PAIR_FLOORS
from captau.benchmarks.evaluation.wording import DISTRIBUTIONS_ONLY, NO_AGREEMENT
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.rater_agreement import (
    HALF_MEASURES,
    compute_measures,
)
from captau.benchmarks.statistics.rating_table import (
    CEILINGS,
)
from captau.benchmarks.statistics.remarks import Note, remark
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from tests.benchmarks.printed import lines_of
from tests.benchmarks.statistics.rating_matrices import table_of_matrix
from tests.conftest import run_captau

FIVE = Scale(1, 5, 1)


@pytest.fixture
def agree(capsys, tmp_path, monkeypatch):
    """Runs `captau agree`; gives status, stdout, stderr and the folder it wrote to."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        ended = run_captau("agree", *arguments, "output_dir=out")
        captured = capsys.readouterr()
        return ended, captured.out, captured.err, tmp_path / "out"

    return run


def made(ratings, scales=None):
    """A caption set of a list of dimension → ratings, one an item."""
    scales = scales or {"overall": FIVE}
    n = len(ratings)
    items = make_items(
        [f"image_{i}" for i in range(n)],
        ["a caption"] * n,
        [("a reference",)] * n,
        systems=["a" if i % 2 else "b" for i in range(n)],
    )
    rows = [
        (item_id, dimension, f"rater_{k}", float(value))
        for item_id, of_item in zip(items["item_id"], ratings, strict=True)
        for dimension, values in of_item.items()
        for k, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    card = Card("demo", "Made here", "1", "none", "", "", scales=scales)
    return CaptionSet(items, frame, card=card)


@pytest.fixture
def serve_demo(monkeypatch):
    """Return a function that puts a caption set in the place of the demo."""
    load = "captau.benchmarks.scoring.score_store.Locations.load"
    return lambda caption_set: monkeypatch.setattr(load, lambda *_: caption_set)


def test_the_files_are_the_contract(agree):
    status, out, err, folder = agree()
    assert status == 0, err
    frame = pd.read_csv(folder / "agreement.csv", keep_default_na=False)
    assert list(frame.columns) == ["dataset", "measure", "value", "std", "n_items", "note"]
    expected, _ = compute_measures(
        table_of_matrix(np.random.default_rng(0).integers(1.0, 6.0, (20, 3))), FIVE
    )
    assert list(frame["measure"]) == list(expected)
    assert set(frame["dataset"]) == {"demo"}
    assert set(frame["n_items"]) == {360}
    assert set(frame.loc[frame["std"] != "", "measure"]) == set(HALF_MEASURES)
    assert {p.name for p in folder.iterdir()} == {
        *("agreement.csv", "distributions.csv", "table.md", "table.tex", "run.json", ".hydra"),
        *("rating_distribution.svg", "rating_distribution.png", "stability.svg", "stability.png"),
    }
    markdown = (folder / "table.md").read_text(encoding="utf-8")
    assert markdown.startswith(out.partition("\n\nwritten to ")[0])
    assert agree("details=true")[1].startswith(markdown.strip())
    assert "SYNTHETIC" in markdown
    assert r"\toprule" in (folder / "table.tex").read_text(encoding="utf-8")
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert (record["command"], record["seed"], record["draws"]) == ("agree", 0, 20)
    assert record["data"]["demo"]["digest"] == captau.load("demo").digest
    assert sum(record["stability_histogram"]["demo"].values()) == pytest.approx(1)
    assert list(record["versions"])


@pytest.mark.slow
def test_runs_with_one_seed_write_equal_bytes(agree):
    folder = agree("seed=3", "draws=4")[3]
    before = {
        p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name != "run.json"
    }
    agree("seed=3", "draws=4")
    assert {name: (folder / name).read_bytes() for name in before} == before
    agree("seed=4", "draws=4")
    assert (folder / "agreement.csv").read_bytes() != before["agreement.csv"]


def test_systems_choose_the_items(agree):
    status, _, err, folder = agree("protocol.systems=[exact,terse]")
    assert status == 0, err
    assert set(pd.read_csv(folder / "agreement.csv")["n_items"]) == {120}


def test_one_dimension_has_no_prefix_and_several_do(agree, serve_demo):
    """As conf/dataset/demo.yaml asks for `overall`, others are asked for here."""
    ratings = [
        {"overall": [1 + i % 5, 1 + i % 4, 1 + i % 5], "detail": [1 + i % 3, 1 + i % 2]}
        for i in range(30)
    ]
    caption_set = made(ratings, {"overall": FIVE, "detail": Scale(1, 4, 1)})
    serve_demo(caption_set)
    folder = agree("protocol.dimension=detail")[3]
    frame = pd.read_csv(folder / "agreement.csv").set_index("measure")
    assert "icc1" in frame.index
    assert "fleiss_kappa_4=5" not in frame.index
    folder = agree("protocol.dimension=[overall,detail]")[3]
    both = pd.read_csv(folder / "agreement.csv").set_index("measure")
    assert both.index.str.startswith(("overall:", "detail:")).all()
    assert both.loc["detail:icc1", "value"] == frame.loc["icc1", "value"]
    assert "overall:fleiss_kappa_4=5" in both.index
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert set(record["stability_histogram"]) == {"demo overall", "demo detail"}


def test_one_rating_an_item_is_undefined_and_says_so(agree, serve_demo):
    caption_set = made([{"overall": [1 + i % 5]} for i in range(20)])
    serve_demo(caption_set)
    status, out, err, folder = agree()
    assert status == 0, err
    frame = pd.read_csv(folder / "agreement.csv")
    assert frame["value"].isna().all()
    assert frame["note"].str.startswith("undefined: no item has t").all()
    assert set(frame["n_items"]) == {0}
    assert "demo: mean ratings of the items" in out, "what the command found is printed"
    assert DISTRIBUTIONS_ONLY in " ".join(out.split())
    assert "Krippendorff" not in out, "no table of dashes"


def test_dimensions_without_second_ratings_have_no_rows_beside_those_that_have(agree, serve_demo):
    caption_set = made(
        [{"overall": [1 + i % 5, 1 + i % 4], "detail": [1 + i % 3]} for i in range(30)],
        {"overall": FIVE, "detail": FIVE},
    )
    serve_demo(caption_set)
    _, out, _, folder = agree("protocol.dimension=[overall,detail]")
    assert "| measure | demo overall |" in out
    assert f"demo detail: {NO_AGREEMENT}" in out
    assert "detail:icc1" in set(pd.read_csv(folder / "agreement.csv")["measure"])


def write_judgements(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_constant_dimension_without_a_scale_is_undefined(agree, tmp_path):
    """The ends of the scale are then the one rating that there is."""
    rows = [f"{image},a dog,{rater},3" for image in (1, 2, 3) for rater in "ab"]
    path = write_judgements(tmp_path / "own.csv", "image,caption,rater,value", rows)
    status, out, err, folder = agree("dataset=file", f"file.path={path}")
    assert status == 0, err
    frame = pd.read_csv(folder / "agreement.csv").set_index("measure")
    assert frame.loc["percent_agreement", "value"] == 1
    assert frame["value"].drop("percent_agreement").isna().all()
    assert frame.loc["krippendorff_alpha_ordinal", "note"].startswith("undefined")
    assert "undefined for these ratings" in out


def test_ratings_without_a_column_of_raters_are_anonymous(agree, tmp_path):
    rows = [f"{i},a dog,{1 + (i * k) % 5},r{k}" for i in range(20) for k in (1, 2)]
    path = write_judgements(tmp_path / "own.csv", "image,caption,value,who", rows)
    options = ["dataset=file", f"file.path={path}"]
    options += ["details=true"]
    assert "raters are anonymous" in agree(*options)[1]
    assert "raters are anonymous" not in agree(*options, "file.rater=who")[1]


def test_raters_that_are_sorted_ratings_are_told(agree, data_root):
    sorted_note = str(remark(Note.SORTED_RATINGS))
    _, out, _, _ = agree("dataset=flickr8k_expert", "details=true", f"data.root={data_root}")
    assert sorted_note in out
    assert sorted_note not in agree("details=true")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["draws=0"], "draws is 0; a whole number from 1 on is expected"),
        (["draws=1000000000"], "draws is 1,000,000,000; at most 100,000 is expected"),
        (["draws=many"], "a whole number is expected"),
        (["seed=-1"], "seed is -1; a whole number from 0 on is expected"),
        (["dataset=dmeo"], "did you mean demo"),
        (["protocol.dimension=x"], "unknown dimension of dataset demo 'x'"),
        (["protocol.systems=[nobody]"], "unknown system"),
        (["protocol.split=nowhere"], "unknown split"),
        (["protocol.ratings=mean"], "unknown option of captau agree 'protocol.ratings'"),
        (
            ["kind=words", "metrics=[cider]"],
            "metrics=… belongs to kind=captions or kind=ratings",
        ),
    ],
)
def test_bad_input_gets_one_line_and_status_2(agree, arguments, said):
    status, _, err, folder = agree(*arguments)
    assert status == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not folder.exists()


def test_raters_agree_on_labels(agree, tmp_path):
    """Ten of twelve labels are equal, and each rater gave seven 1s.

    κ = (10/12 - 74/144) / (1 - 74/144), whatever the weights; α = 1 - 23·4 / (24² - 14² - 10²), at any level.
    """
    ann = [1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1]
    bob = [1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1]
    rows = ["image,caption,rater,rating"]
    for number, labels in enumerate(zip(ann, bob, strict=True)):
        rows.append(f"{number}.jpg,a cat,ann,{labels[0]}")
        rows.append(f"{number}.jpg,a cat,bob,{labels[1]}")
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")

    status, _, err, folder = agree("dataset=file", "file.path=labels.csv")
    assert status == 0, err
    values = pd.read_csv(folder / "agreement.csv").set_index("measure")["value"]
    for kappa in ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic"):
        assert values[kappa] == pytest.approx(46 / 70)
    for level in ("nominal", "ordinal", "interval"):
        assert values[f"krippendorff_alpha_{level}"] == pytest.approx(1 - 92 / 280)


def test_raters_agree_on_pairs_whichever_caption_stands_first(agree, tmp_path):
    """Three of four pairs are equal; the second rater saw the last pair in the other order."""
    rows = ["x,a,b,a,ann", "x,a,b,a,bob", "y,a,b,tie,ann", "y,a,b,tie,bob", "z,a,b,b,ann"]
    rows += ["z,a,b,a,bob", "w,a,b,a,ann", "w,b,a,b,bob"]
    header = "image,caption_a,caption_b,winner,rater"
    (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]) + "\n")
    status, out, err, folder = agree("dataset=file", "file.path=pairs.csv")
    assert status == 0, err
    values = pd.read_csv(folder / "agreement.csv").set_index("measure")["value"]
    assert values["percent_agreement"] == 0.75
    # Both orders count: of 16 answers 6 prefer one caption, 6 the other, 4 tie, and two of eight items differ:
    # α = 1 - 15·4 / (16² - 6² - 6² - 4²), nominal.
    assert values["krippendorff_alpha_nominal"] == pytest.approx(1 - 15 * 4 / (256 - 88))
    assert "items are pairs of captions" in out
    n_items = pd.read_csv(folder / "agreement.csv").set_index("measure")["n_items"]
    assert n_items["percent_agreement"] == 4


def test_pairs_that_are_left_out_are_counted_once(agree, tmp_path):
    """Of three pairs one has a single answer."""
    rows = ["x,a,b,a,ann", "x,a,b,a,bob", "y,a,b,b,ann", "y,b,a,b,bob", "z,a,b,b,ann"]
    header = "image,caption_a,caption_b,winner,rater"
    (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]) + "\n")
    status, _, err, folder = agree("dataset=file", "file.path=pairs.csv")
    assert status == 0, err
    row = pd.read_csv(folder / "agreement.csv").set_index("measure").loc["percent_agreement"]
    assert row["n_items"] == 2
    assert row["note"] == "items left out, with fewer than 2 ratings: 1"


def test_metrics_against_pair_votes_are_sent_to_bench(agree, tmp_path):
    rows = ["x,a dog,a cat,a,ann,a dog", "x,a dog,a cat,a,bob,a dog"]
    header = "image,caption_a,caption_b,winner,rater,references"
    (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]) + "\n")
    status, _, err, _ = agree("dataset=file", "file.path=pairs.csv", "metrics=rouge_l")
    assert status == 2
    assert "captau bench takes preferences" in err
    # It does.
    words = ["bench", "dataset=file", f"file.path={tmp_path / 'pairs.csv'}", "metrics=rouge_l"]
    assert run_captau(*words, f"output_dir={tmp_path / 'b'}") == 0
    rows = pd.read_csv(tmp_path / "b" / "correlations.csv").query("metric == 'rouge_l'")
    assert rows.set_index("coefficient").loc["accuracy", "value"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("change", ["renamed", "exchanged"])
def test_agreement_on_pairs_depends_on_no_spelling_and_no_order(agree, tmp_path, change):
    def values_of(rows):
        header = "image,caption_a,caption_b,strength,rater"
        (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]) + "\n")
        status, _, err, folder = agree("dataset=file", "file.path=pairs.csv", "draws=20")
        assert status == 0, err
        values = pd.read_csv(folder / "agreement.csv").set_index("measure")["value"]
        return values[[m for m in values.index if "alpha" in m or m.startswith("icc")]]

    rng = np.random.default_rng(0)
    answers = [
        (image, rater, rng.integers(-2, 3)) for image in range(9) for rater in ("ann", "bob")
    ]
    before = values_of([f"{i},b{i},d{i},{s},{r}" for i, r, s in answers])
    after = values_of(
        [
            f"{i},{'e' if i % 2 else 'c'}{i},d{i},{s},{r}"
            if change == "renamed"
            else f"{i},d{i},b{i},{-s},{r}"
            for i, r, s in answers
        ]
    )
    assert len(before) > 2
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_pairs_with_one_answer_have_no_agreement(agree, data_root):
    status, out, _, _ = agree("dataset=pascal50s", f"data.root={data_root}")
    assert status == 0
    assert f"pascal50s HC, pascal50s HI: {NO_AGREEMENT}" in out


def test_flickr8k_expert_is_as_printed(agree, data_root):
    """Golden: Scott et al. 2023, Table 3, Flickr8k (section 4.2 calls 54.8 the best human rater).

    70.6 of the oracle and 47.9 of one person against another are of no paper: they follow from the data by their
    definitions.
    """
    status, out, err, folder = agree(
        "dataset=[flickr8k_expert,demo]", "details=true", f"data.root={data_root}"
    )
    assert status == 0, err
    frame = pd.read_csv(folder / "agreement.csv")
    values = frame[frame["dataset"] == "flickr8k_expert"].set_index("measure")["value"]
    printed = {
        "tau_X-YZ": 47.7,
        "tau_Y-XZ": 54.8,
        "tau_Z-XY": 54.0,
        "kendall_w": 84.0,
        "fleiss_kappa": 48.8,
        "ceiling_one_vs_one": 47.9,
        "ceiling_one_vs_rest": 54.8,
        "ceiling_oracle": 70.6,
    }
    assert {m: round(100 * values[m], 1) for m in printed} == printed
    assert "| measure | flickr8k_expert | demo |" in out
    shown = [line.split(" |")[0] for line in out.splitlines()]
    # Five levels are the demo's alone; its row stands where it belongs.
    label = "| Fleiss' κ, the two highest of five levels as one"
    assert shown.index(label) == shown.index("| Fleiss' κ") + 1


# What people reach, in `captau bench`.


def test_bench_has_ceilings_below_the_metrics(data_root):
    results = captau.bench("flickr8k_expert", "rouge_1", data_root=data_root)
    frame = results.correlations
    assert list(dict.fromkeys(frame["metric"])) == ["rouge_1", *CEILINGS]
    tau_c = frame[frame["coefficient"] == "tau_c"].set_index("metric")
    assert round(100 * tau_c.loc["ceiling_one_vs_one", "value"], 1) == 47.9
    assert round(100 * tau_c.loc["ceiling_one_vs_rest", "value"], 1) == 54.8
    assert round(100 * tau_c.loc["ceiling_oracle", "value"], 1) == 70.6
    assert "Y-XZ" in tau_c.loc["ceiling_one_vs_rest", "note"]
    assert list(tau_c["n_ratings"]) == [16992, 16992, 2 * 5664, 16992]
    (table,) = results.tables
    assert [label for label, _ in lines_of(table)[-3:]] == list(CEILINGS.values())
    assert lines_of(table)[-3][1][0] == "47.9"
    assert lines_of(table)[-2][1][0] == "54.8"
    assert lines_of(table)[-1][1][0] == "70.6"


def test_ceilings_have_no_accuracy_and_can_be_left_out():
    results = captau.bench("demo", "rouge_1")
    of_people = results.correlations["metric"].isin(list(CEILINGS))
    assert set(results.correlations.loc[of_people, "coefficient"]) == {"tau_c", "tau_b"}
    assert [c for c in lines_of(results.tables[0])[-1][1] if not c]
    without = captau.bench("demo", "rouge_1", ceilings=False).correlations
    pd.testing.assert_frame_equal(without, results.correlations[~of_people])


@pytest.mark.parametrize("ratings", ["mean", "rounded_mean", "median"])
def test_pooled_ratings_have_no_ceilings(ratings):
    results = captau.bench("demo", "rouge_1", protocol={"ratings": ratings})
    assert set(results.correlations["metric"]) == {"rouge_1", *PAIR_FLOORS}
    assert any(note.startswith("What people reach needs ") for note in results.tables[0].notes)


def test_a_rating_an_item_has_no_ceilings(data_root):
    results = captau.bench(
        "capeval1k", "rouge_1", protocol={"ratings": "per_rating"}, data_root=data_root
    )
    assert set(results.correlations["metric"]) == {"rouge_1"}


def test_equal_ratings_have_undefined_ceilings(serve_demo):
    caption_set = made([{"overall": [2, 2, 2]} for _ in range(9)])
    serve_demo(caption_set)
    results = captau.bench("demo", "rouge_1", protocol={"coefficients": ["tau_c"]})
    frame = results.correlations.set_index("metric")
    assert frame["value"].isna().all()
    assert frame.loc["ceiling_oracle", "note"].startswith("undefined: all scores are equal")
    note = (
        "oracle (mean rating): undefined: all scores are equal; an item's mean rating against each "
        "of its ratings."
    )
    assert note in results.tables[0].notes


def test_few_items_do_not_say_how_well_raters_agree(agree, data_root):
    """Of PASCAL-50S's HM one pair has two answers: its α of 100 stands in the file, not in the table or the verdict."""
    status, out, _, folder = agree("dataset=flickr8k_expert,pascal50s")
    assert status == 0
    assert "Not shown: pascal50s HM (1), pascal50s MM (2). Fewer than 10 items" in out
    assert "α 100" not in out
    measures = pd.read_csv(folder / "agreement.csv").set_index(["dataset", "measure"])["value"]
    assert measures["pascal50s", "HM:krippendorff_alpha_ordinal"] == 1


@pytest.mark.parametrize("has_answers", [True, False])
def test_a_dimension_made_of_answers_is_measured_by_them_where_they_are_known(has_answers):
    """As `overall` of Caption-Quality, the rounded mean of `good`, which not every fold has."""
    items = make_items(["a", "b"], ["a dog", "a cat"], [("A dog.",), ("A cat.",)])
    first, second = items["item_id"]
    overall = [(first, "overall", "", 0.5), (second, "overall", "", 1.0)]
    answers = [(i, "good", rater, 1.0) for i in (first, second) for rater in "xyz"]
    rows = [*overall, *(answers if has_answers else [])]
    ratings = pd.DataFrame(rows, columns=["item_id", "dimension", "rater", "value"])
    scales = {"overall": Scale(0, 1), "good": Scale(0, 1, 1)}
    card = Card("d", "D", "1", "", "", "", scales=scales, summaries={"overall": "good"})
    protocol = Protocol.resolve("file", usual_protocol("file"), {"dimension": "overall"})
    selection = EvaluationSet.select(CaptionSet(items, ratings, card=card), protocol)
    options = SimpleNamespace(by="dataset", seed=0, draws=2)
    found = agree_module._measure_dataset(selection, options)
    made_of = "d: overall is made of the ratings good, which are measured here."
    assert (made_of in found.notes) == has_answers
    assert found.unrepeated == (set() if has_answers else {"d"})
    assert {row["subject"] for row in found.rows} == {"d"}
    assert max(row["n_items"] for row in found.rows) == (2 if has_answers else 0)
