"""`captau report`, `plot`, `table` and `cite` of runs of `captau score`: the user's own captions."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

import captau
from tests.benchmarks.reporting.report_pages import data_of, texts
from tests.conftest import run_captau

SYSTEMS = ("exact", "terse", "unrelated")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Captions of three systems of the demo, their references, and the images in a folder."""
    folder = tmp_path_factory.mktemp("files")
    items = captau.load("demo").items
    images = folder / "images"
    images.mkdir()
    for image_id, path in zip(items["image_id"], items["image"], strict=True):
        if not (images / image_id).exists():
            shutil.copy(path, images / image_id)
    first = items.drop_duplicates("image_id")
    references = dict(zip(first["image_id"], map(list, first["references"]), strict=True))
    (folder / "refs.json").write_text(json.dumps(references))
    for system in SYSTEMS:
        rows = items[items["system"] == system]
        captions = dict(zip(rows["image_id"], rows["caption"], strict=True))
        (folder / f"{system}.json").write_text(json.dumps(captions))
    return folder


def score(files, folder, *options, systems=SYSTEMS):
    """Score systems into a folder."""
    candidates = ",".join(str(files / f"{system}.json") for system in systems)
    arguments = [f"candidates={candidates}", f"references={files / 'refs.json'}"]
    options = options or ("metrics=bleu_1,cider",)
    status = run_captau(
        "score", *arguments, *options, "statistics.replicates=50", f"output_dir={folder}"
    )
    assert status == 0
    return folder


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    """A run of three systems, with its page."""
    folder = score(files, tmp_path_factory.mktemp("score") / "run")
    assert run_captau("report", f"run={folder}", f"images={files / 'images'}") == 0
    return folder


def test_the_page_holds_every_caption_with_references_scores_and_image(run, files):
    (part,) = data_of(run)
    scores = pd.read_csv(run / "scores.csv")
    assert part["systems"] == list(SYSTEMS)
    assert len(part["items"]["caption"]) == len(scores) == 180
    assert len(part["pictures"]) == len(part["images"]) == 60
    expected = json.loads((files / "refs.json").read_text())
    for image, codes in zip(part["items"]["image"], part["items"]["references"], strict=True):
        assert part["references"][codes] == expected[part["images"][image]]


def test_the_verdict_names_the_best_system_and_whether_its_lead_is_significant(
    run, files, tmp_path
):
    """Checked against corpus.csv and differences.csv."""
    corpus = pd.read_csv(run / "corpus.csv").pivot(index="system", columns="metric", values="score")
    assert corpus["cider"].idxmax() == corpus["bleu_1"].idxmax() == "exact"
    differences = pd.read_csv(run / "differences.csv")
    is_lead = (differences["system_a"] == "exact") & (differences["metric"] == "cider")
    assert (differences.loc[is_lead, "p_bh"] < 0.05).all()
    page = (run / "report.html").read_text(encoding="utf-8")
    assert f"exact is best ({100 * corpus['cider']['exact']:.1f})" in page
    others = corpus["cider"].drop("exact").sort_values(ascending=False).index
    names = " and ".join(others)
    assert f"significantly ahead of {names}; 2 of 2 metrics put it first." in page
    shutil.copy(files / "exact.json", tmp_path / "exact.json")
    shutil.copy(files / "exact.json", tmp_path / "twin.json")
    shutil.copy(files / "refs.json", tmp_path)
    twins = score(tmp_path, tmp_path / "run", "metrics=cider", systems=("exact", "twin"))
    assert run_captau("report", f"run={twins}") == 0
    assert "exact and twin have the same score" in (twins / "report.html").read_text("utf-8")


def test_a_browser_sorts_images_by_the_difference_between_systems(looked_at, run):
    """The order is that of the ranges of CIDEr in scores.csv."""
    page = looked_at(run)
    scores = pd.read_csv(run / "scores.csv")
    by_image = scores.groupby("image_id")["cider"]
    ranges = (by_image.max() - by_image.min()).sort_values(ascending=False)
    page.select_option("#first", label="CIDEr")
    first = texts(page, "#list > li:first-child button")[0].removeprefix("Image ")
    assert ranges[first] == pytest.approx(ranges.iloc[0])
    assert len(texts(page, "#list > li:first-child .version")) == 3
    page.select_option("#system", label="unrelated")
    page.select_option("#order", label="worst score first")
    assert len(texts(page, "#list > li:first-child .version")) == 1
    page.select_option("#order", label="best score first")
    first = texts(page, "#list > li:first-child button")[0].removeprefix("Image ")
    own = scores[scores["system"] == "unrelated"].set_index("image_id")["cider"]
    assert own[first] == pytest.approx(own.max())
    page.fill("#search", f"{first} ")
    page.locator("#list > li").nth(1).wait_for(state="detached")
    page.click("#list button")
    assert texts(page, "#caption-text") == [f"Image {first}"]
    assert len(texts(page, "#caption-body tbody tr")) == 2
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_without_room_keeps_all_captions_of_an_image_together(run, tmp_path):
    output = tmp_path / "report.html"
    assert run_captau("report", f"run={run}", "megabytes=0.12", f"output={output}") == 0
    (part,) = data_of(tmp_path)
    counts = pd.Series(part["items"]["image"]).value_counts()
    assert 0 < len(counts) < 60
    assert set(counts) == {3}
    assert output.stat().st_size <= 120_000


def test_plot_draws_scores_differences_and_distributions_of_systems(run, tmp_path):
    assert (
        run_captau(
            "plot", f"run={run}", "kind=all", "format=svg", f"output_dir={tmp_path / 'plots'}"
        )
        == 0
    )
    names = sorted(path.name for path in (tmp_path / "plots").iterdir())
    kinds = ("forest", "scores", "significance")
    expected = [f"{kind}_refs_{metric}.svg" for kind in kinds for metric in ("bleu_1", "cider")]
    assert names == sorted([*expected, "correlations_refs.svg"])


def test_a_run_without_its_captions_is_refused_with_the_remedy(run, tmp_path, capsys):
    old = shutil.copytree(run, tmp_path / "run")
    (old / "items.parquet").unlink()
    assert run_captau("report", f"run={old}") == 2
    assert "stored no captions; run captau score" in capsys.readouterr().err


def test_a_table_has_systems_as_rows_and_marks_the_best(run, capsys):
    """The numbers are those of corpus.csv, x100; the ranks follow from differences.csv."""
    assert run_captau("table", f"run={run}", "style=json", "sort=cider", "notes=none") == 0
    table = json.loads(capsys.readouterr().out)
    assert [column["head"] for column in table["columns"]] == ["BLEU-1", "CIDEr"]
    corpus = pd.read_csv(run / "corpus.csv").pivot(index="system", columns="metric", values="score")
    (group,) = table["groups"]
    assert [row["label"] for row in group["rows"]] == list(
        corpus["cider"].sort_values(ascending=False).index
    )
    for row in group["rows"]:
        values = [cell["value"] for cell in row["cells"]]
        assert values == pytest.approx(list(corpus.loc[row["label"], ["bleu_1", "cider"]]))
    assert group["rows"][0]["cells"][1]["emphasis"] == "best"
    assert group["rows"][0]["cells"][1]["rank"] == 1


def test_a_table_names_systems_and_metrics_and_marks_ones_own(run, capsys):
    names = "names={cider: CIDEr-D, terse: Short}"
    assert run_captau("table", f"run={run}", names, "own=exact,terse", "style=csv") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "CIDEr-D" in head
    assert [row.split(",")[1] for row in rows] == ["exact (ours)", "Short", "unrelated"]


def test_two_runs_against_the_same_references_share_columns(run, files, tmp_path, capsys):
    other = score(files, tmp_path / "other", systems=("terse",))
    capsys.readouterr()
    arguments = ["intervals=none", "notes=none", "coefficients=[cider]", "style=csv"]
    assert run_captau("table", f"run={run},{other}", *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "kind,system,published by,CIDEr,notes"
    numbers = dict(line.split(",")[1:4:2] for line in lines[1:])
    assert list(numbers) == ["exact", "terse (run)", "unrelated", "terse (other)"]
    assert numbers["terse (run)"] == numbers["terse (other)"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["coefficients=[meteor]"], "meteor"),
        (["published=all"], "published= works on runs that measure agreement with people"),
        (["rows=[nobody]"], "nobody"),
        (["sort=meteor"], "metric to sort by"),
        (["names={terse: exact}"], "names: the rows exact and terse would both be called 'exact'"),
        (["names={nobody: x}"], "unknown system or metric of names 'nobody'"),
        (["own=nobody"], "unknown system or metric of own 'nobody'"),
    ],
)
def test_options_that_do_not_fit_a_score_run_give_one_line(run, capsys, options, message):
    assert run_captau("table", f"run={run}", *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_cite_names_the_systems_the_metrics_and_their_papers(run, capsys):
    assert run_captau("cite", f"run={run}") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Captions of 60 images are scored: exact, terse, unrelated." in text
    for key in ("captau", "papineni2002bleu", "vedantam2015cider"):
        assert f"{{{key}," in text


def test_runs_of_score_and_of_bench_are_not_mixed(run, tmp_path, capsys):
    bench = tmp_path / "bench"
    captau.bench("demo", "bleu_1", statistics={"interval": "none"}, output_dir=bench)
    assert run_captau("table", f"run={run},{bench}") == 2
    assert "is a run of captau bench, which has other results than" in capsys.readouterr().err
