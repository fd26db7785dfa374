"""Comparing recomputed cells with printed ones, and the papers' files themselves."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import captau
from captau.benchmarks.commands.reproduce import (
    COMPARISON_COLUMNS,
    compare,
    matches,
    summarise,
)
from captau.benchmarks.evaluation.papers.published_cells import TABLE_KINDS, choose_bound
from captau.benchmarks.evaluation.papers.published_numbers import (
    CORRELATIONS,
    PaperTable,
    Training,
    read_numbers,
    read_published,
)
from captau.benchmarks.evaluation.papers.published_sources import TableCell
from captau.benchmarks.evaluation.papers.published_tables import TableRebuilder
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.runs.results import find_missing_reason
from captau.benchmarks.scoring.catalog import read_config
from captau.benchmarks.scoring.score_store import Locations, ScoreStore
from captau.conf import group
from captau.datasets.errors import InputError
from captau.datasets.registry import load
from captau.metrics.learned.rater import list_rater_folders
from captau.metrics.registry import metric, metric_names
from tests.conftest import run_captau, says


@pytest.mark.parametrize(
    ("value", "published", "decimals", "match"),
    [
        (43.8908, 43.9, 1, True),
        (43.85, 43.9, 1, True),
        (43.849, 43.9, 1, False),
        (43.951, 43.9, 1, False),
        (0.0749, 0.07, 2, True),
        (0.0751, 0.07, 2, False),
        (327.0, 327.0, 0, True),
        (328.0, 327.0, 0, False),
        (-0.004, 0.0, 2, True),
    ],
)
def test_agrees_at_the_printed_precision(value, published, decimals, match):
    assert matches(value, published, decimals) == match


def table(**changes):
    fields = {
        "table": "Table 1",
        "kind": "correlation",
        "dataset": "demo",
        "title": "",
        "scale": 100,
        "protocol": {},
        "rows": {"A": "a", "B": "b", "C": None},
        "columns": {"tau_c": {}},
        "note": "drawn by lot",
    }
    return PaperTable(**{**fields, **changes})


PUBLISHED = pd.DataFrame(
    [
        {
            "table": "Table 1",
            "dataset": "demo",
            "row": r,
            "column": "tau_c",
            "published": p,
            "note": n,
        }
        for r, p, n in [("A", "43.9", ""), ("B", "30.80", ""), ("C", "1.0", "marked *")]
    ]
)


def test_compare_says_match_difference_and_missing():
    cells = {
        ("A", "tau_c"): TableCell(43.8908),
        ("B", "tau_c"): TableCell(31.0),
        ("C", "tau_c"): TableCell.missing("this metric is not part of captau"),
    }
    frame = compare("p", table(), cells, PUBLISHED)
    assert tuple(frame.columns) == COMPARISON_COLUMNS
    assert list(frame["match"]) == ["true", "false", ""]
    assert list(frame["decimals"]) == [1, 2, 1]
    assert list(frame["published"]) == ["43.9", "30.80", "1.0"]
    assert list(frame["delta"]) == ["-0.0092", "+0.20000", ""]
    assert list(frame["note"]) == [
        "",
        "drawn by lot",
        "missing: this metric is not part of captau; marked *",
    ]
    assert summarise(frame) == (
        "1 of 2 recomputed cells match the printed digit; 1 differ: 1 of p on demo; "
        "1 of 3 printed cells are not recomputed (comparison.csv says why of each)"
    )
    assert summarise(frame[:1]) == "1 of 1 recomputed cells match the printed digit"


def test_a_number_within_the_spread_of_draws_is_neither_a_match_nor_a_difference():
    """Worked: 43.9 may be 43.85 to 43.95; a spread of 0.3 about 44.2 begins at 43.9, and one of 0.2 about 44.3 at 44.1."""
    cells = {
        ("A", "tau_c"): TableCell(44.2, "the mean of 200 draws", 0.3),
        ("B", "tau_c"): TableCell(30.8, "", 0.2),
        ("C", "tau_c"): TableCell(1.3, "", 0.2),
    }
    frame = compare("p", table(), cells, PUBLISHED)
    assert list(frame["match"]) == ["within_draw", "within_draw", "false"]
    assert list(frame["note"]) == ["the mean of 200 draws", "", "marked *; drawn by lot"]
    assert summarise(frame) == (
        "0 of 3 recomputed cells match the printed digit; 2 lie within the spread of random draws; "
        "1 differ: 1 of p on demo (comparison.csv says why of each)"
    )


def test_a_cell_of_another_split_is_shown_and_not_counted():
    """It is neither a match nor a difference, though 43.9 is the printed number."""
    cells = {
        ("A", "tau_c"): TableCell(43.9, "on captau's own test split", is_other_split=True),
        ("B", "tau_c"): TableCell(30.8),
        ("C", "tau_c"): TableCell(1.3, is_other_split=True),
    }
    frame = compare("p", table(), cells, PUBLISHED)
    assert list(frame["match"]) == ["other_split", "true", "other_split"]
    assert list(frame["reproduced"]) == ["43.9000", "30.80000", "1.3000"]
    assert summarise(frame) == (
        "1 of 1 recomputed cells match the printed digit; 2 more are of another split than the paper's, and not compared"
    )


def test_a_cell_of_ones_own_rater_is_shown_and_not_counted():
    """It is neither a match nor a difference: 30.8 is printed of the paper's own model."""
    cells = {
        ("A", "tau_c"): TableCell(43.9),
        ("B", "tau_c"): TableCell(30.8, "1 rater of your own", is_own_rater=True),
        ("C", "tau_c"): TableCell(9.9, is_own_rater=True),
    }
    frame = compare("p", table(), cells, PUBLISHED)
    assert list(frame["match"]) == ["true", "own_rater", "own_rater"]
    assert list(frame["reproduced"]) == ["43.9000", "30.80000", "9.9000"]
    assert summarise(frame) == (
        "1 of 1 recomputed cells match the printed digit; 2 more are of raters of your own, and not compared"
    )


def test_a_split_that_the_files_do_not_name_is_captaus_own():
    """The demo has captau's splits; a column without a split is of all its captions."""
    columns = {
        "all": {"coefficient": "tau_c"},
        "tested": {"coefficient": "tau_c", "protocol": {"split": "test"}},
    }
    with StepProgress(None) as progress:
        rebuilder = TableRebuilder(Locations(), (), ScoreStore(None), progress)
        cells = rebuilder.rebuild("p", table(rows={"A": "bleu_1"}, columns=columns))
    assert [cell.is_other_split for cell in cells.values()] == [False, True]
    assert cells["A", "tested"].note == (
        "on captau's own test split, as the authors' is not in the files"
    )


def test_a_printed_row_without_a_rule_is_an_error():
    with pytest.raises(InputError, match="no row 'B'"):
        compare("p", table(), {("A", "tau_c"): TableCell(1.0)}, PUBLISHED)


def test_a_published_number_without_a_source_is_named_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "published").mkdir()
    head = "table,dataset,row,column,published,trained,source,note"
    lines = [head, "Table 1,demo,A,tau_c,1.0,no,P. 2020,", "Table 1,demo,B,tau_c,1.0,no,,", ""]
    (tmp_path / "published" / "p_2020.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    with says("p_2020.csv:3: a published number without a source"):
        read_published("p_2020")


@pytest.mark.parametrize("paper", group("paper"))
def test_every_printed_number_belongs_to_a_table(paper):
    published = read_published(paper)
    assert not published.duplicated(["table", "dataset", "row", "column"]).any()
    assert (published["source"] != "").all()
    known = {
        (t["table"], t["dataset"], row, column)
        for t in read_config("paper", paper)["tables"]
        for row in t["rows"]
        for column in t["columns"]
    }
    for cell in published.to_dict("records"):
        assert (cell["table"], cell["dataset"], cell["row"], cell["column"]) in known
        float(cell["published"].removeprefix("<"))
    assert {t["kind"] for t in read_config("paper", paper)["tables"]} <= set(TABLE_KINDS)


@pytest.mark.parametrize("paper", group("paper"))
def test_each_correlation_says_whether_its_metric_learned_from_the_dataset(paper):
    correlations = {
        (t["table"], t["dataset"], column)
        for t in read_config("paper", paper)["tables"]
        if t["kind"] in CORRELATIONS
        for column, options in t["columns"].items()
        if "bound" not in options
    }
    for cell in read_published(paper).to_dict("records"):
        is_correlation = (cell["table"], cell["dataset"], cell["column"]) in correlations
        assert (cell["trained"] in list(Training)) == is_correlation, cell
        assert cell["trained"] or not is_correlation, cell


def test_polos_and_expert_learned_from_what_their_repositories_name():
    """Polos' configs/polos-trainer.yaml names Polaris; EXPERT's README.md names Polaris-exp and Nebula-exp."""
    learned = {
        (number.row, number.dataset)
        for paper in group("paper")
        for number in read_numbers(paper)
        if number.training == Training.YES and number.row in ("Polos", "EXPERT")
    }
    assert learned == {("Polos", "polaris"), ("EXPERT", "polaris"), ("EXPERT", "nebula")}


def test_twelve_papers_at_least_print_the_numbers():
    assert len(group("paper")) >= 12
    assert all(len(read_published(paper)) for paper in group("paper"))


def test_cells_are_the_correlations_of_bench_on_the_scale_of_the_table():
    """Two columns of one protocol and one of another, against `bench` itself."""
    with StepProgress(None) as progress:
        rebuilder = TableRebuilder(Locations(), (), ScoreStore(None), progress)
        columns = {
            "tau_c": {"coefficient": "tau_c"},
            "r": {"coefficient": "pearson"},
            "mean": {"coefficient": "tau_c", "protocol": {"ratings": "mean"}},
        }
        rows = {"A": "bleu_1", "B": "rouge_l"}
        cells = rebuilder.rebuild("p", table(rows=rows, columns=columns))
    assert len(cells) == 6
    for ratings, names in (("per_rating", ("tau_c", "r")), ("mean", ("mean",))):
        protocol = {"ratings": ratings, "coefficients": ["tau_c", "pearson"]}
        found = captau.bench("demo", ["bleu_1", "rouge_l"], protocol=protocol)
        values = found.correlations.set_index(["metric", "coefficient"])["value"]
        for (row, spec), name in product(rows.items(), names):
            expected = values[spec, columns[name]["coefficient"]]
            assert cells[row, name].value == pytest.approx(100 * expected)


def test_a_column_may_say_why_it_cannot_be_computed():
    columns = {"Original": {"missing": "nobody says how"}}
    rebuilder = TableRebuilder(Locations(), (), store=None, progress=None)
    cells = rebuilder.rebuild("p", table(columns=columns))
    assert {cell.note for cell in cells.values()} == {"missing: nobody says how"}
    assert list(cells) == [("A", "Original"), ("B", "Original"), ("C", "Original")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"revision": "Spica"}, "printed on judgements of demo that captau does not read: Spica"),
        ({"dataset": "not_read_here"}, "the dataset is not in this version of captau"),
    ],
)
def test_a_table_of_data_that_is_not_here_says_so_in_each_cell(changes, reason):
    rebuilder = TableRebuilder(Locations(), (), store=None, progress=None)
    rows = {"A": "bleu_1", "C": None}
    cells = rebuilder.rebuild("p", table(rows=rows, columns={"tau_c": {}}, **changes))
    assert cells["A", "tau_c"].note.startswith(f"missing: {reason}")
    assert cells["C", "tau_c"].note == "missing: this metric is not part of captau"


def test_a_bound_is_how_far_the_interval_reaches():
    """Of the ends 3.9 and 4.2 of a value of 4.0, 0.2 lies above and 0.1 below."""
    reaches = [choose_bound({"bound": bound}, 4.0, 3.9, 4.2) for bound in ("high", "low")]
    assert reaches == pytest.approx([0.2, 0.1])
    assert choose_bound({}, 4.0, 3.9, 4.2) == 4.0


def test_the_folds_of_a_dataset_are_counted_and_an_absent_one_says_so():
    rebuilder = TableRebuilder(Locations(), (), store=None, progress=None)
    counts = table(
        kind="fold_counts",
        rows={"Test": "test", "Other": "no_such_fold"},
        columns={name: {"of": name} for name in ("samples", "images", "captions", "systems")},
    )
    cells = rebuilder.rebuild("p", counts)
    fold = load("demo").items.query("split == 'test'")
    assert [cells["Test", name].value for name in counts.columns] == [
        len(fold),
        fold["image_id"].nunique(),
        fold["caption"].nunique(),
        fold["system"].nunique(),
    ]
    assert cells["Other", "samples"].note == (
        "missing: the data are not here: fold no_such_fold of demo"
    )


def test_the_lines_of_a_file_are_counted_and_an_absent_one_says_so(tmp_path):
    """Flickr8k-Expert's pairs before the loader leaves some out."""
    (tmp_path / "three.txt").write_text("a\tb\nc\td\ne\tf\n")
    rebuilder = TableRebuilder(Locations(data_root=str(tmp_path)), (), store=None, progress=None)
    columns = {name: {"file": f"{name}.txt"} for name in ("three", "none")}
    cells = rebuilder.rebuild("p", table(kind="fold_counts", rows={"A": "all"}, columns=columns))
    assert cells["A", "three"].value == 3
    assert cells["A", "none"].note == "missing: no file none.txt under data.root"


def test_papers_without_their_data_are_an_error_that_says_how_to_get_them(tmp_path, capsys):
    where = [f"data.root={tmp_path}", f"output_dir={tmp_path / 'out'}"]
    assert run_captau("reproduce", "paper=iicr_2023", *where) == 2
    assert "captau data fetch dataset=flickr8k_expert" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_authors_scores_of_other_captions_are_an_error(data_root, tmp_path, capsys):
    for folder in ("flickr8k", "pascal50s"):
        (tmp_path / folder).symlink_to(data_root / folder)
    shutil.copytree(data_root / "fleur", tmp_path / "fleur")
    path = tmp_path / "fleur" / "fleur_flickr8k_expert.txt"
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    path.chmod(0o600)
    path.write_text("\n\n".join(blocks[100:]), encoding="utf-8")
    where = [f"data.root={tmp_path}", f"output_dir={tmp_path / 'out'}"]
    assert run_captau("reproduce", "paper=fleur_2024", *where) == 2
    assert capsys.readouterr().err.startswith(
        "captau: dataset fleur: the file of flickr8k_expert has no score of 100 of 5,664 captions"
    )


def test_printed_means_are_the_means_of_the_printed_categories():
    """A check on the typing of CLIPScore's Table 4: its last column is the mean of the others."""
    published = read_published("clipscore_2021").query("table == 'Table 4'")
    wide = published.pivot(index="row", columns="column", values="published").astype(float)
    means = wide[["HC", "HI", "HM", "MM"]].mean(axis=1)
    assert ((means - wide["Mean"]).abs() <= 0.1).all()


def test_a_row_may_say_why_it_cannot_be_computed():
    rebuilder = TableRebuilder(Locations(), ("spice",), store=None, progress=None)
    assert rebuilder.unavailable_reason(table(), "spice") == "leave_out=spice"
    cells = rebuilder.rebuild("p", table(rows={"A": "missing: no such thing"}))
    assert cells["A", "tau_c"].note == "missing: no such thing"
    assert rebuilder.unavailable_reason(table(), None) == "this metric is not part of captau"
    assert rebuilder.unavailable_reason(table(), "absent(x=1)") == (
        "metric absent(x=1) is not in this version of captau"
    )


def test_numbers_made_with_authors_files_are_counted_apart():
    """Worked: of FLEUR's tables one is printed, and one was made by running its authors' program."""
    tables = ["Table 1", "Table 1", "compute_correlation.py"]
    comparison = pd.DataFrame(
        {"paper": "fleur_2024", "table": tables, "dataset": "d", "match": ["true", "", "true"]}
    )
    assert summarise(comparison) == (
        "1 of 1 recomputed cells match the printed digit; 1 of 2 printed cells are not recomputed (comparison.csv says "
        "why of each); of 1 numbers made with authors' files, which no paper prints, 1 match"
    )


def test_umics_bertscore_is_the_maximum_of_the_references():
    """Lee et al. 2021, note to Table 1; the other metrics' scores are averaged."""
    numbers = [n for n in read_numbers("umic_2021") if n.dataset == "composite"]
    by_row = {n.row: n.protocol.references for n in numbers}
    assert by_row["BERTScore"] == "max_over_single"
    assert by_row["BERT-TBR"] == "all"
    assert {by_row[row] for row in ("BLEU-1", "CIDEr", "SPICE")} == {"mean_over_single"}


@pytest.mark.neural
def test_a_maximum_over_references_is_computed_from_each_alone(weights):
    """UMIC's BERTScore on a tiny model: the best of the scores against single references, not their mean."""
    metric_spec = "bertscore(padding=ignore)"
    row_protocols = read_config("paper", "umic_2021")["tables"][0]["row_protocols"]
    umic = PaperTable(
        table="Table 1",
        kind="correlation",
        dataset="demo",
        protocol={"ratings": "mean", "references": "mean_over_single"},
        rows={"BERTScore": metric_spec, "Mean": metric_spec},
        columns={"Demo": {"coefficient": "tau_b"}},
        row_protocols={"BERTScore": row_protocols["BERTScore"]},
    )
    with StepProgress(None) as progress:
        cells = TableRebuilder(Locations(), (), ScoreStore(None), progress).rebuild("p", umic)
    items, ratings = load("demo").items, load("demo").ratings
    n_references = items["references"].map(len).min()
    assert n_references == items["references"].map(len).max() > 1
    alone = [
        metric(metric_spec).score(items.assign(references=[(r[k],) for r in items["references"]]))
        for k in range(n_references)
    ]
    means = ratings.groupby("item_id")["value"].mean()[items["item_id"]]
    for row, scores in (("BERTScore", np.max(alone, axis=0)), ("Mean", np.mean(alone, axis=0))):
        expected = stats.kendalltau(scores, means).statistic
        assert cells[row, "Demo"].value == pytest.approx(expected, abs=1e-3), row
    assert abs(cells["BERTScore", "Demo"].value - cells["Mean", "Demo"].value) > 0.01


@pytest.mark.neural
def test_raters_of_one_s_own_fill_the_rows_of_the_papers_models(tmp_path):
    """ICR's and QE's rows, the mean over seeds; source: what `captau train` wrote of the same raters, and `bench`'s metric."""
    pytest.importorskip("torch")
    quick = ["statistics.interval=none", "rater.epochs=3", "threads=1"]
    icr, qe = tmp_path / "icr", tmp_path / "qe"
    words = ["rater=icr", "rater.hidden=[8]", "seeds=[0,1]", *quick, f"output_dir={icr}"]
    assert run_captau("train", *words) == 0
    pretraining = ["rater.pretrain=demo", "rater.pretrain_epochs=1"]
    assert run_captau("train", "rater=qe", *pretraining, *quick, f"output_dir={qe}") == 0
    folders = tuple(f for folder in (icr, qe) for f in list_rater_folders(folder))
    assert len(folders) == 3
    row_raters = {
        "ICR": {"rater": "icr", "trained_on": ["demo"]},
        "Elsewhere": {"rater": "icr", "trained_on": ["cocog"]},
        "Pretrained": {
            "rater": "qe",
            "trained_on": ["demo"],
            "options": {"pretrain": True, "epochs": True},
        },
        "Unrated": {"rater": "qe", "trained_on": ["demo"], "options": {"epochs": False}},
    }
    of_test = {"split": "test"}
    changes = {"rows": dict.fromkeys(row_raters, "missing: not here"), "row_raters": row_raters}
    made = table(
        kind="correlation",
        scale=1,
        protocol={"ratings": "mean"},
        columns={
            "rho": {"coefficient": "spearman", "protocol": of_test},
            "MSE": {"error": "mse", "protocol": of_test, "missing": "no model"},
            "chosen": {"error": "mse", "protocol": {"split": "validation"}},
            "trained": {"coefficient": "spearman", "protocol": {"split": "train"}},
            "all": {"error": "mse"},
        },
        **changes,
    )
    with StepProgress(None) as progress:
        rebuilder = TableRebuilder(
            Locations(), (), ScoreStore(None), progress, rater_folders=folders
        )
        cells = rebuilder.rebuild("p", made)
        stages = {"accuracy": {"stage": "pretraining"}}
        history = rebuilder.rebuild(
            "p", table(kind="histories", scale=1, columns=stages, **changes)
        )
    for folder, row in ((icr, "ICR"), (qe, "Pretrained")):
        errors = pd.read_csv(folder / "rating_errors.csv").query("split == 'test'")
        assert cells[row, "rho"].value == pytest.approx(errors["spearman"].mean(), abs=1e-6)
        assert cells[row, "MSE"].value == pytest.approx(errors["mse"].mean(), rel=1e-4)
    assert "2 raters of your own" in cells["ICR", "rho"].note
    # Images that chose a rater are named; images that it was trained on fill no cell.
    n_images = load("demo").items.groupby("split")["image_id"].nunique()
    n_chosen, n_trained = n_images["validation"], n_images["train"]
    for row, folder in (("ICR", folders[0]), ("Pretrained", folders[2])):
        assert "of your own" not in cells[row, "trained"].note
        assert cells[row, "trained"].note == (
            f"missing: {folder} was trained on {n_trained} of the {n_trained} images that it would be tested on"
        )
        assert f"{folder} was trained on {n_trained} of the {n_images.sum()}" in (
            cells[row, "all"].note
        )
        assert f"chosen by, {n_chosen} of the {n_chosen} images" in cells[row, "chosen"].note
        assert "trained on" not in cells[row, "rho"].note
    for row in ("Elsewhere", "Unrated"):
        assert cells[row, "rho"].note == "missing: not here"
    training = pd.read_csv(folders[2] / "training.csv").query("best")
    expected = training[training["stage"].str.startswith("pretraining")]["validation"].item()
    assert history["Pretrained", "accuracy"].value == pytest.approx(expected)
    assert history["Unrated", "accuracy"].note == "missing: not here"


def test_a_printed_bound_matches_what_is_below_it():
    """Kasai et al. 2022, Table 4: all metrics correlate less than 0.1 with fluency."""
    published = pd.DataFrame(
        [["Table 1", "demo", row, "A", "<0.1", "", "", ""] for row in ("low", "high")],
        columns=["table", "dataset", "row", "column", "published", "trained", "source", "note"],
    )
    cells = {("low", "A"): TableCell(0.0999), ("high", "A"): TableCell(0.1)}
    made = table(kind="bounds", rows={"low": "bleu_1", "high": "bleu_4"}, columns={"A": {}})
    frame = compare("p", made, cells, published)
    assert frame["match"].tolist() == ["true", "false"]
    assert frame["delta"].tolist() == ["-0.0001", "+0.0000"]


def rebuild_own_paper(
    folder: Path, *, scale: int, metrics: Mapping[str, str], printed: str
) -> Path:
    """Rebuild Table 3 of a paper of one's own, of Pearson's r on the demo, and return the folder of the run.

    Args:
        folder: where the paper's files and the run go.
        scale: of the printed numbers.
        metrics: by printed row.
        printed: the number in every row.
    """
    papers = folder / "conf" / "paper"
    papers.mkdir(parents=True)
    rows = ", ".join(f"{row}: {metric_name}" for row, metric_name in metrics.items())
    (papers / "doe_2026.yaml").write_text(
        f"""# @package papers.doe_2026
title: "Doe et al. 2026, A Study"
citation: "@misc{{doe2026, title={{A Study}}, year={{2026}}}}"
tables:
  - table: Table 3
    title: Agreement
    kind: correlation
    dataset: demo
    scale: {scale}
    rows: {{{rows}}}
    columns: {{r: {{coefficient: pearson}}}}
""",
        encoding="utf-8",
    )
    lines = ["table,dataset,row,column,published,trained,source,note"]
    for row in metrics:
        lines.append(f'Table 3,demo,{row},r,{printed},no,"Doe et al. 2026, Table 3",')
    (papers / "doe_2026.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    out = folder / "out"
    where = ["--config-dir", str(papers.parent), f"output_dir={out}"]
    assert run_captau("reproduce", "paper=doe_2026", *where) == 0
    return out


def test_a_number_below_a_bound_is_shown_with_a_digit_more_than_the_bound(tmp_path):
    """Rounded as the bound is, 0.95 would stand as 1 below `<1`, as if it were not less."""
    out = rebuild_own_paper(tmp_path, scale=1, metrics={"CIDEr": "cider"}, printed="<1")
    (cell,) = pd.read_csv(out / "comparison.csv").to_dict("records")
    assert cell["match"]
    assert f"| CIDEr | {cell['reproduced']:.1f} |" in (out / "table.md").read_text("utf-8")


def test_tables_are_named_as_people_cite_them_and_rows_by_signs(tmp_path: Path) -> None:
    metrics = {"tau_X-YZ": "cider", "kappa": "bleu_1"}
    out = rebuild_own_paper(tmp_path, scale=100, metrics=metrics, printed="10.0")
    text = (out / "table.tex").read_text("utf-8")
    assert r"\caption{Doe et al. 2026, Table 3: Agreement}" in text
    assert r"    $\tau$\textsubscript{X-YZ} & " in text
    assert r"    $\kappa$ & " in text


@pytest.mark.neural
def test_bert_tbr_is_computed_once_its_model_and_stop_words_are_there(tiny, tmp_path, monkeypatch):
    """Lee et al. 2021, Table 1, with a tiny model under the authors' names; source: SciPy's τ_b of the metric's scores."""
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    umic = read_config("paper", "umic_2021")["tables"][1]
    made = table(
        dataset="demo",
        scale=1,
        protocol=umic["protocol"],
        rows={"BERT-TBR": umic["rows"]["BERT-TBR"]},
        row_protocols={"BERT-TBR": umic["row_protocols"]["BERT-TBR"]},
        columns={"A": umic["columns"]["CapEval1k"]},
    )

    def rebuild():
        with StepProgress(None) as progress:
            return TableRebuilder(Locations(), (), ScoreStore(None), progress).rebuild("p", made)

    assert "give stop_words=FILE" in rebuild()["BERT-TBR", "A"].note
    (tmp_path / "bert_tbr_stop_words.txt").write_text("a\nthe\non\n.\n")
    assert "needs the model 'bert-base-uncased'" in rebuild()["BERT-TBR", "A"].note
    (tmp_path / "bert-base-uncased").symlink_to(tiny / "roberta-large")  # a BERT of 17 layers
    items, ratings = load("demo").items, load("demo").ratings
    means = ratings.groupby("item_id")["value"].mean()[items["item_id"]]
    expected = stats.kendalltau(metric("bert_tbr").score(items), means).statistic
    assert rebuild()["BERT-TBR", "A"].value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("row", ["VSEPP", "VBAalignment"])
def test_rows_are_computed_once_their_features_are_there(row, tmp_path, monkeypatch):
    """Scott et al. 2023, Table 4, on files of our own in the weights folder, as `captau reproduce` finds them."""
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    spec = next(
        t["rows"][row]
        for t in read_config("paper", "iicr_2023")["tables"]
        if t["table"] == "Table 4" and t["dataset"] == "flickrg"
    )
    items = load("demo").items
    made = table(kind="correlation", rows={row: spec}, columns={"A": {"coefficient": "tau_c"}})

    def rebuild():
        with StepProgress(None) as progress:
            return TableRebuilder(Locations(), (), ScoreStore(None), progress).rebuild("p", made)

    assert "docs/metrics_from_files.md" in rebuild()[row, "A"].note
    rng = np.random.default_rng(0)
    ids = items["item_id"].to_numpy(dtype=str)
    for field in metric(spec).endings:
        np.savez(
            tmp_path / f"{spec}_{field}.npz", item_id=ids, embedding=rng.normal(size=(len(ids), 2))
        )
    assert abs(rebuild()[row, "A"].value) < 20


def test_numbers_that_no_paper_prints_stand_in_no_table():
    """FLEUR's coefficients of its authors' program and of its score files are compared by `reproduce` alone."""
    assert {n.table for n in read_numbers("fleur_2024")} == {"Table 1"}
    assert {*read_published("fleur_2024")["table"]} > {"Table 1"}


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def test_no_reason_contradicts_the_registry():
    """Neither a name that captau lists, as it or a paper spells it, nor one that another paper's table takes is "not part of captau"."""
    papers = [read_config("paper", paper) for paper in group("paper")]
    tables = [t for p in papers for t in p["tables"] if t["kind"] == "correlation"]
    labels = [str(read_config("metric", name).get("label", "")) for name in group("metric")]
    known = {_letters(name) for name in (*metric_names(), *labels)} - {""}
    known |= {
        _letters(row)
        for t in tables
        for row, spec in t["rows"].items()
        if spec and not find_missing_reason(spec)
    }
    denied = {row for t in tables for row, spec in t["rows"].items() if spec is None}
    assert denied
    assert not {row for row in denied if _letters(row) in known}
    cells = pd.read_csv(
        Path(__file__).parents[3] / "docs" / "reproduction.csv", dtype=str, keep_default_na=False
    )
    absent = cells[cells["match"] == ""]
    says_so = absent[absent["note"].str.startswith("missing: this metric is not part of captau")]
    assert {*says_so["row"]} <= denied
    needed = absent["note"].str.extract(r"^missing: metric ([a-z_0-9]+) needs")[0].dropna()
    assert {*needed} <= {*metric_names()}
    assert not absent["note"].str.contains("is not in this version of captau").any()
