"""The charts of a finished run and the files they become (`benchmarks/reporting/charts/run_charts.py`, `figure_files.py`)."""

from __future__ import annotations

import re
import shutil
import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captau
from captau.benchmarks.reporting.charts import figure_files as figures
from captau.benchmarks.reporting.charts import score_charts
from captau.benchmarks.reporting.charts.figure_files import slug
from captau.benchmarks.reporting.charts.run_charts import draw_charts, make_charts
from captau.benchmarks.reporting.run_parts import CHART_TITLES, run_datasets
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.runs.output_folder import OutputFolder, write_file
from captau.datasets.errors import InputError
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.printed import lines_of
from tests.benchmarks.reporting.made_runs import rewrite
from tests.conftest import run_captau, says

METRICS = ["bleu_1", "rouge_l", "cider"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A finished `captau compare` of the demo."""
    folder = tmp_path_factory.mktemp("charts") / "run"
    options = ["tests=[bootstrap]", "statistics.replicates=50", "floors=true"]
    assert (
        run_captau("compare", f"metrics=[{','.join(METRICS)}]", *options, f"output_dir={folder}")
        == 0
    )
    return folder


@pytest.fixture
def copy(compared, tmp_path):
    return shutil.copytree(compared, tmp_path / "run")


@pytest.fixture(scope="module")
def part(compared):
    (one,) = run_datasets(read_run(compared))
    return one


def only(part, kind):
    charts, reason = make_charts(part, kind)
    assert not reason
    return charts


def cells(table):
    return dict(lines_of(table))


def test_a_forest_has_the_numbers_of_the_run(part):
    first = only(part, "forest")[0]
    found = part.correlations[part.correlations["coefficient"] == "tau_c"].set_index("metric")
    shown = cells(first.table)
    assert [label for label, _ in lines_of(first.table)[:3]] == [
        part.label(m) for m in found.loc[METRICS].sort_values("value", ascending=False).index
    ]
    for metric in METRICS:
        row = found.loc[metric]
        assert shown[part.label(metric)][:3] == [
            f"{100 * row[c]:.1f}" for c in ("value", "ci_low", "ci_high")
        ]
    assert {"random scores", "oracle (mean rating)"} <= set(shown)
    assert [c.title for c in only(part, "forest")] == [
        "Demo, overall: τ_c",
        "Demo, overall: τ_b",
        "Demo, mean: acc. %",
    ]


def test_categories_are_those_of_the_preferences(part):
    titles = [c.title for c in only(part, "categories")]
    assert titles == [
        f"Demo, {c}: acc. %" for c in dict.fromkeys(captau.load("demo").preferences["dimension"])
    ]


def test_the_rating_bars_count_every_rating_and_item(part):
    (chart,) = only(part, "ratings")
    ratings = captau.load("demo").ratings["value"]
    assert [label for label, _ in lines_of(chart.table)] == ["1", "2", "3", "4", "5"]
    for label, (count, _, _, _) in lines_of(chart.table):
        assert int(count.replace(",", "")) == (ratings == float(label)).sum()
    assert sum(int(texts[2]) for _, texts in lines_of(chart.table)) == 360


def test_agreement_is_what_captau_agree_finds(part, tmp_path):
    assert run_captau("agree", f"output_dir={tmp_path}") == 0
    expected = pd.read_csv(tmp_path / "agreement.csv").set_index("measure")["value"]
    (chart,) = only(part, "agreement")
    shown = cells(chart.table)
    assert shown["Krippendorff's α, ordinal"][0] == (
        f"{100 * expected['krippendorff_alpha_ordinal']:.1f}"
    )
    assert shown["split-half reliability"][0] == f"{100 * expected['split_half']:.1f}"
    assert shown["oracle (mean rating), τ_c"][0] == f"{100 * expected['ceiling_oracle']:.1f}"
    assert len(shown) == len(expected)


def test_scores_by_rating_are_those_of_the_single_ratings(part):
    chart = next(c for c in only(part, "scores") if "CIDEr" in c.title)
    ratings = part.ratings.assign(
        score=part.scores["cider"].loc[part.ratings["item_id"]].to_numpy()
    )
    for label, (count, *quarters, mean) in lines_of(chart.table):
        group = ratings.loc[ratings["value"] == float(label), "score"]
        assert int(count) == len(group)
        expected = [*np.quantile(group, [0.25, 0.5, 0.75]), group.mean()]
        assert [*quarters, mean] == [f"{value:.4g}" for value in expected]


def test_the_heat_map_is_spearmans_rho(part):
    (chart,) = only(part, "correlations")
    people = part.ratings.groupby("item_id")["value"].mean()
    expected = part.scores["cider"].corr(people.loc[part.scores.index], method="spearman")
    assert cells(chart.table)["CIDEr"][-1] == f"{100 * expected:.1f}"
    assert lines_of(chart.table)[-1][0] == "people: overall"


def test_the_matrix_has_the_differences_and_p_values(part):
    chart = only(part, "significance")[0]
    rows = part.run.significance
    rows = rows[(rows["coefficient"] == "tau_c") & (rows["test"] == "bootstrap")]
    row = rows[(rows["metric_a"] == "bleu_1") & (rows["metric_b"] == "cider")].iloc[0]
    shown = cells(chart.table)["BLEU-1 − CIDEr"]
    assert shown[0] == f"{100 * row['difference']:.1f}"
    assert shown[3] == (f"{row['p_bh']:.3f}" if row["p_bh"] >= 0.001 else "<0.001")
    significant = (rows["p_bh"] < 0.05).sum()
    assert f"{significant} of 3 pairs differ" in chart.description


def test_the_curves_are_those_of_captau_thresholds(part, tmp_path, monkeypatch):
    words = ("metrics=[bleu_1,rouge_l,cider]", f"output_dir={tmp_path}")
    assert run_captau("thresholds", *words) == 0
    expected = pd.read_csv(tmp_path / "recall.csv").set_index("metric")
    (chart,) = only(part, "precision_recall")
    for metric in METRICS:
        row = expected.loc[metric]
        assert cells(chart.table)[part.label(metric)][:2] == [
            f"{100 * row['auc']:.1f}",
            f"{100 * row['recall']:.1f}",
        ]
    monkeypatch.setattr(
        score_charts, "POINTS", 5
    )  # fewer points are drawn; the areas stay those of all
    (chart,) = only(part, "precision_recall")
    legend = [text.get_text() for text in chart.draw().axes[0].get_legend().get_texts()]
    *curves, all_kept = legend
    assert sorted(curves) == sorted(
        f"{part.label(m)} (AUC {100 * expected.at[m, 'auc']:.1f})" for m in METRICS
    )
    # 200 of the demo's 360 captions are good.
    assert all_kept == "all kept (precision 55.6)"


def test_where_less_is_better_scores_are_turned(copy):
    (before,) = run_datasets(read_run(copy))
    with edited_record(copy) as record:
        record["metrics"]["cider"]["higher_is_better"] = False
    (after,) = run_datasets(read_run(copy))
    assert (after.oriented["cider"] == -before.oriented["cider"]).all()
    assert (after.oriented["bleu_1"] == before.oriented["bleu_1"]).all()
    assert (after.scores["cider"] == before.scores["cider"]).all()


def test_what_is_not_there_has_a_reason(copy):
    for name in ("significance.csv", "items.parquet"):
        (copy / name).unlink()
    (one,) = run_datasets(read_run(copy))
    assert make_charts(one, "significance") == (
        [],
        "captau compare tests every two metrics; this is a run without tests",
    )
    for kind in ("ratings", "agreement", "scores", "correlations", "precision_recall"):
        charts, reason = make_charts(one, kind)
        assert not charts
        assert "keeps no items" in reason
    assert len(make_charts(one, "forest")[0]) == 3


def test_no_caption_is_good(copy):
    ratings = pd.read_parquet(copy / "ratings.parquet")
    rewrite(copy, "ratings.parquet", ratings.assign(value=2.0))
    (one,) = run_datasets(read_run(copy), good=1)
    charts, reason = make_charts(one, "precision_recall")
    assert not charts
    assert "no caption is good" in reason


@pytest.mark.slow
def test_the_command_writes_each_figure_twice_and_always_the_same(compared, tmp_path, capsys):
    assert run_captau("plot", f"run={compared}", f"output_dir={tmp_path / 'a'}") == 0
    out = capsys.readouterr().out
    files = sorted((tmp_path / "a").iterdir())
    (one,) = run_datasets(read_run(compared))
    drawn = {kind: [c.name for c in make_charts(one, kind)[0]] for kind in CHART_TITLES}
    names = drawn["ratings"] + drawn["agreement"] + drawn["correlations"]
    headline = f"{one.dataset}_{one.protocol}_overall_tau_c"
    names += [f"forest_{headline}", f"significance_{headline}"]
    assert {p.name for p in files} == {f"{n}.{e}" for n in names for e in ("svg", "png")}
    assert set(out.split()) == {str(path) for path in files}
    every_name = {f"{name}.svg" for of_kind in drawn.values() for name in of_kind}
    assert set(draw_charts(compared, ("all",), ("svg",)).files) == every_name
    again = draw_charts(compared).files
    for path in files:
        content = path.read_bytes()
        assert content == again[path.name], path.name
        if path.suffix == ".png":
            assert content[:4] == b"\x89PNG"
        else:
            assert ElementTree.fromstring(content).tag.endswith("svg")
            assert b"<dc:date>" not in content


@pytest.mark.slow
def test_of_many_figures_one_line_says_how_many_and_where(compared, tmp_path, capsys):
    folder = tmp_path / "all"
    assert run_captau("plot", f"run={compared}", "kind=all", f"output_dir={folder}") == 0
    out = capsys.readouterr().out
    n_files = len(list(folder.iterdir()))
    assert n_files > 20
    assert f"{folder}: {n_files // 2} figures as SVG and PNG; kind= chooses some of them" in out
    assert ".svg" not in out


def test_unknown_kinds_and_formats_are_refused(compared):
    with pytest.raises(InputError, match="unknown kind 'forests'"):
        draw_charts(compared, kinds=("forests",))
    with pytest.raises(InputError, match="unknown format 'gif'"):
        draw_charts(compared, formats=("gif",))


@pytest.mark.slow
def test_a_name_in_a_run_cannot_steer_the_terminal_on_which_charts_are_missed(tmp_path, capsys):
    words = ("dataset=demo", "metrics=bleu_1", "statistics.interval=none")
    assert run_captau("bench", *words, f"output_dir={tmp_path}") == 0
    with edited_record(tmp_path) as record:
        record["data"]["demo"]["title"] = "De\x1b[2Jmo"
    assert run_captau("plot", f"run={tmp_path}", "kind=[ratings,significance]") == 0
    out = capsys.readouterr().out
    assert "De\\x1b[2Jmo: no significance" in out
    assert "\x1b" not in out


def test_some_kinds_go_into_the_runs_folder_and_with_the_next_run(copy, capsys):
    assert run_captau("plot", f"run={copy}", "kind=[ratings,correlations]") == 0
    there = {p.name for p in (copy / "plots").iterdir()}
    assert there == {
        f"{n}_demo_usual{d}.{e}"
        for n, d in (("ratings", "_overall"), ("correlations", ""))
        for e in ("svg", "png")
    }
    (copy / "report.html").write_text("old")
    OutputFolder(copy, "bench").write({"run.json": b"{}"})
    # Hydra's files say how the run was begun, which its own program writes anew.
    left = [p.name for p in copy.rglob("*") if p.is_file() and p.parent.name != ".hydra"]
    assert left == ["run.json"]


@pytest.mark.slow
def test_the_format_may_be_pdf_which_is_always_the_same(compared, tmp_path, capsys):
    for name in "ab":
        words = ("plot", f"run={compared}", "kind=forest", "format=pdf")
        assert run_captau(*words, f"output_dir={tmp_path / name}") == 0
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / d).iterdir()} for d in "ab")
    assert first == second
    assert all(name.endswith(".pdf") for name in first)
    assert all(content.startswith(b"%PDF-") for content in first.values())
    assert run_captau("plot", f"run={compared}", "format=gif") == 2
    assert "unknown format 'gif'" in capsys.readouterr().err


@pytest.mark.slow
def test_faults(compared, copy, tmp_path, capsys, monkeypatch):
    def said(*words: str) -> str:
        assert run_captau("plot", *words) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        return line

    monkeypatch.chdir(tmp_path)
    assert "there is no finished run in results/runs; name one with run=DIR" in said()
    assert "unknown kind 'forst'" in said(f"run={compared}", "kind=forst")
    assert "kind is empty" in said(f"run={compared}", "kind=[]")
    assert "is not a folder" in said(f"run={tmp_path / 'absent'}")
    assert "holds a run" in said(f"run={compared}", "kind=ratings", f"output_dir={copy}")
    assert (copy / "scores.parquet").is_file()
    (tmp_path / "file").touch()
    into = f"output_dir={tmp_path / 'file'}"
    assert "cannot be written" in said(f"run={compared}", "kind=ratings", into)
    assert "good is 0.0" in said(f"run={compared}", "good=0")
    (copy / "items.parquet").unlink()
    assert "nothing to draw" in said(f"run={copy}", "kind=ratings")
    (copy / "run.json").unlink()
    assert "unfinished" in said(f"run={copy}")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = said(f"run={compared}")
    assert "captau plot needs matplotlib: pip install 'captau[report]'" in line


def test_a_figure_inside_a_page(part):
    chart = only(part, "forest")[0]
    with figures.style():
        svg = figures.inline(chart.draw(), "one", "A <title>", "A & B")
        files = figures.files_of(chart.draw(), "f")
    assert "currentColor" in svg
    assert "var(--series-1)" in svg
    for sign in ("<style", "<metadata", "DejaVu", "xlink", "xmlns", figures.INK, figures.SERIES[0]):
        assert sign not in svg
    assert 'aria-labelledby="one-title one-desc"' in svg
    assert "A &lt;title&gt;" in svg
    root = ElementTree.fromstring(svg)
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    assert all(i.startswith("one-") for i in ids)
    pointed = set(re.findall(r'(?:href="#|url\(#)([\w-]+)', svg))
    assert pointed <= set(ids)
    assert figures.INK in files["f.svg"].decode()
    texts = {e.text for e in root.iter("text")}
    assert {"BLEU-1", "ROUGE-L", "CIDEr"} <= texts


def test_a_users_settings_do_not_matter(part):
    import matplotlib

    chart = only(part, "ratings")[0]
    with figures.style():
        expected = figures.files_of(chart.draw(), "f")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "savefig.dpi": 40}):
        with figures.style():
            assert figures.files_of(chart.draw(), "f") == expected
        assert matplotlib.rcParams["font.size"] == 30


def test_labels_are_no_formulas_and_all_are_in_the_legend():
    from matplotlib.figure import Figure

    with figures.style():
        figure = Figure()
        axis = figure.subplots()
        (line,) = axis.plot([1, 2], [1, 2])
        figures.legend(axis, [line], ["_$x$_<b>"])
        svg = figures.inline(figure, "i", "t", "d")
    assert "\u200b_$x$_&lt;b&gt;" in svg


@given(st.text(max_size=200), st.text(max_size=20))
def test_names_of_files_are_safe_and_their_own(one, other):
    a, b = slug("forest", one), slug("forest", other)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}", a)
    assert (a == b) == (one == other)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "page.html"
    write_file(path, b"one")
    assert path.read_bytes() == b"one"
    (tmp_path / "folder").mkdir()
    with says("folder", "cannot be written", "another file"):
        write_file(tmp_path / "folder", b"x")
    assert {p.name for p in tmp_path.iterdir()} == {"deep", "folder"}
