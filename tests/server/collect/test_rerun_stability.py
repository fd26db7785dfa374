"""A study and its re-run: numbers worked by hand, and two runs played through the site."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.reporting.charts.run_charts import draw_charts
from captau.benchmarks.reporting.citations import cite
from captau.benchmarks.reporting.html_report import build
from captau.benchmarks.reporting.tables.joined_table import written_table
from captau.benchmarks.reporting.tables.table_choices import USUAL_CHOICES
from captau.benchmarks.runs.finished_run import read_runs
from captau.datasets.sources.caption_quality import p_hat
from captau.server.collect.rerun_stability import compare_runs
from tests.conftest import says
from tests.server.collect.conftest import write_study


def write_export(folder, answers_by_caption, protocol="good_bad", dimension="good"):
    """Write an export of answers by caption, each list by different raters, and return its folder."""
    folder.mkdir()
    rows = [
        {"image": "p.png", "caption": c, "rater": f"r{k}", "dimension": dimension, "value": v}
        for c, values in answers_by_caption.items()
        for k, v in enumerate(values)
    ]
    pd.DataFrame(rows).to_csv(folder / "ratings.csv", index=False)
    record = {"command": "collect export", "form": "captau", "protocol": protocol, "study": "s"}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def good_bad_answers(good, bad):
    return [1] * good + [0] * bad


def test_differences_of_p_hat_match_those_worked_by_hand(tmp_path):
    """Eighths: 8/8 and 6/8, 4/8 and 4/8, 2/8 and 3/8, 0/8 and 8/8; one pair has seven answers only."""
    first = write_export(
        tmp_path / "a",
        {
            "c1": good_bad_answers(8, 0),
            "c2": good_bad_answers(4, 4),
            "c3": good_bad_answers(2, 6),
            "c4": good_bad_answers(0, 8),
            "c5": good_bad_answers(4, 3),
        },
    )
    # 7 of 9 is .778, by the paper's rounding 6/8; 4 of 10 is .4, 3/8.
    second = write_export(
        tmp_path / "b",
        {
            "c1": good_bad_answers(7, 2),
            "c2": good_bad_answers(4, 4),
            "c3": good_bad_answers(4, 6),
            "c4": good_bad_answers(8, 0),
            "c5": good_bad_answers(8, 0),
        },
    )
    comparison = compare_runs([first, second])
    measures = comparison.frames["stability.csv"]
    values = measures.set_index("measure")["value"]
    differences = [0.25, 0, -0.125, -1]  # mean -.21875
    assert values["mean"] == pytest.approx(-0.21875)
    # Squares .0625, 0, .015625, 1: their mean less the mean's square is .26953125 - .0478515625.
    assert values["std"] == pytest.approx(0.2216796875**0.5)
    assert values["within_0.25"] == 0.75
    # Ranks 4, 3, 2, 1 and 3, 2, 1, 4: Σd² = 1 + 1 + 1 + 9 = 12, ρ = 1 - 6 · 12 / 60.
    assert values["spearman"] == pytest.approx(-0.2)
    assert values["pearson"] == pytest.approx(
        np.corrcoef([1, 0.5, 0.25, 0], [0.75, 0.5, 0.375, 1])[0, 1]
    )
    assert set(measures["n_items"]) == {4}
    # p̂ is in eighths (section 3.2), so that the row of 0 holds equal ones alone.
    assert comparison.run["stability_histogram"]["good"] == {
        step / 8: differences.count(step / 8) / 4 for step in range(-8, 9)
    }
    # The paper's own (section 3.3 and Figure 3) stand beside.
    published = measures.set_index("measure")["published"].dropna()
    assert dict(published) == {"mean": 0.015, "std": 0.212, "within_0.25": 0.85}
    assert "| good: std | 0.471 | 0.212 | 4 |" in comparison.files()["table.md"].decode()
    measures = compare_runs([first, second], min_ratings=1).frames["stability.csv"]
    assert set(measures["n_items"]) == {5}


def test_differences_are_in_parts_of_the_scale_s_width(tmp_path):
    runs = [
        write_export(tmp_path / n, answers_by_caption, "game", "overall")
        for n, answers_by_caption in (
            ("a", {"x": [5, 4], "y": [1]}),
            ("b", {"x": [4], "y": [2, 2], "z": [3]}),
        )
    ]
    comparison = compare_runs(runs)
    measures = comparison.frames["stability.csv"]
    values = measures.set_index("measure")["value"]
    assert values["mean"] == pytest.approx((0.5 - 1) / 2 / 4)
    assert values["std"] == pytest.approx(0.75 / 4)
    assert measures["published"].isna().all()


def test_table_cite_report_and_plot_open_a_comparison(tmp_path):
    """Its run.json has a format, versions and digests, as every run's has; an edited table is refused."""
    folders = [
        write_export(tmp_path / name, {"c1": good_bad_answers(8, 0), "c2": answers})
        for name, answers in (("a", good_bad_answers(4, 4)), ("b", good_bad_answers(2, 6)))
    ]
    out = tmp_path / "out"
    out.mkdir()
    for name, content in compare_runs(folders).files().items():
        (out / name).write_bytes(content)
    printed = (out / "table.md").read_text()
    assert written_table(read_runs([out]), USUAL_CHOICES, "markdown", has_appendix=False) == printed
    assert "we measure how stable a study is when other raters repeat it." in cite([out])
    page = build(out, tmp_path / "page.html", None, None).content.decode()
    assert "A study and its re-run" in page
    assert set(draw_charts(out, (), ("svg",)).files) == {"stability.svg"}
    (out / "stability.csv").write_text("dimension,measure,value\n")
    with says("stability.csv is not as the run wrote it", "captau collect stability"):
        read_runs([out])


def test_folders_without_an_export_are_reported(tmp_path):
    export = write_export(tmp_path / "a", {"c": good_bad_answers(8, 0)})
    with says("run has 1 folders", "run=FIRST,AGAIN"):
        compare_runs([export])
    with says("nowhere", "captau collect export"):
        compare_runs([export, tmp_path / "nowhere"])
    with says("its protocol is game, not good_bad"):
        compare_runs([export, write_export(tmp_path / "b", {"c": [3]}, "game", "overall")])
    with says("no item has 8 ratings or more in both", "least="):
        compare_runs([export, write_export(tmp_path / "d", {"c": good_bad_answers(7, 0)})])
    (export / "run.json").write_text('{"command": "bench"}')
    with says("no folder of captau collect export"):
        compare_runs([export, export])


@pytest.mark.slow
def test_stability_of_a_simulated_study_matches_pandas(tmp_path, monkeypatch, capsys):
    """Two sets of ten honest raters: as stable as a law of large numbers lets them be."""
    monkeypatch.chdir(tmp_path)
    study = write_study(tmp_path, "good_bad", ratings=10)

    def captau(*words):
        with pytest.raises(SystemExit) as exit_info:
            main(list(words))
        output = capsys.readouterr()
        assert exit_info.value.code == 0, output.err
        return output.out

    for seed, name in ((1, "first"), (2, "again")):
        options = [f"study={study}", f"database={name}.sqlite3"]
        captau("collect", "simulate", *options, "players={honest: 10}", f"seed={seed}")
        captau("collect", "export", *options, f"output_dir={name}")
    output = captau("collect", "stability", "run=[first,again]", "output_dir=out")
    table = pd.read_csv(tmp_path / "out" / "stability.csv").set_index("measure")["value"]
    # The same by pandas alone.
    runs = [pd.read_csv(tmp_path / n / "ratings.csv") for n in ("first", "again")]
    means = [r.groupby(["image", "caption"])["value"].agg(["mean", "size"]) for r in runs]
    item_means = [m.loc[m["size"] >= 8, "mean"] for m in means]
    first, second = item_means[0].align(item_means[1], join="inner")
    differences = p_hat(first.to_numpy()) - p_hat(second.to_numpy())
    assert len(differences) > 9
    assert table["mean"] == pytest.approx(differences.mean())
    assert table["within_0.25"] == pytest.approx((abs(differences) <= 0.25).mean())
    assert "Levinboim et al. 2021" in output
