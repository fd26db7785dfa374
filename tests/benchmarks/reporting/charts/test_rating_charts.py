"""Distributions of mean ratings and of differences: their numbers, their groups and their figures."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.people.rating_distributions import (
    RatingDistribution,
    rating_distributions,
)
from captau.benchmarks.reporting.charts import figure_files
from captau.benchmarks.reporting.charts.figure_files import UnavailableChart
from captau.benchmarks.reporting.charts.rating_charts import (
    _dots,
    agreement_charts,
    coarsen_scale,
    difference_figure,
    distribution_figure,
    draw_histograms,
)
from captau.benchmarks.statistics.rating_table import AgreementMeasure
from captau.datasets.schema import Scale
from tests.benchmarks.reporting.test_drawn_figures import GOLDEN, compare
from tests.conftest import run_captau

to_hex = pytest.importorskip("matplotlib.colors").to_hex
FixedLocator = pytest.importorskip("matplotlib.ticker").FixedLocator


def texts_of(figure: bytes) -> list[str]:
    """Return the texts of an SVG, which stay texts."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(figure).iter()][1:]


def write_ratings(folder: Path, name: str = "ratings.csv", high: int = 5) -> Path:
    """Write ratings of captions by a person and by two systems, on two dimensions."""
    rows = [
        f"i{i},caption {i} of {system},{system},{dimension},{value},{split}"
        for i, split in enumerate(("train", "train", "test"))
        for system, values in (("Human", (high, high, 4)), ("A", (1, 2, 2)), ("B", (1, 1, 4)))
        for dimension, value in (("precision", values[i]), ("recall", 1))
    ]
    path = folder / name
    path.write_text("\n".join(["image,caption,system,dimension,value,split", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("by", "group", "counts"),
    [
        ("human", "human", [0, 0, 0, 1, 2]),
        pytest.param("human", "machines", [3, 2, 0, 1, 0], marks=pytest.mark.slow),
        pytest.param("system", "A", [1, 2, 0, 0, 0], marks=pytest.mark.slow),
        ("split", "test", [0, 1, 0, 2, 0]),
        pytest.param("dataset", "", [3, 2, 0, 2, 2], marks=pytest.mark.slow),
    ],
)
def test_items_of_a_group_are_counted_by_their_mean_rating(
    by: str, group: str, counts: list[int], tmp_path: Path
) -> None:
    """Counted by hand from the nine captions of `write_ratings`."""
    options = ["dataset=file", f"file.path={write_ratings(tmp_path)}", "file.low=1", "file.high=5"]
    out = tmp_path / "out"
    assert run_captau("agree", *options, "file.step=1", f"by={by}", f"output_dir={out}") == 0
    frame = pd.read_csv(out / "distributions.csv", keep_default_na=False)
    assert list(frame) == ["dataset", "dimension", "group", "level", "n_items", "share"]
    rows = frame[(frame["dimension"] == "precision") & (frame["group"] == group)]
    assert rows["level"].tolist() == [1, 2, 3, 4, 5]
    assert rows["n_items"].tolist() == counts
    assert rows["share"].tolist() == pytest.approx([n / sum(counts) for n in counts])
    texts = texts_of((out / "rating_distribution.svg").read_bytes())
    name = group or "precision"
    assert any(text.startswith(name) for text in texts)
    assert (out / "rating_distribution.png").read_bytes().startswith(b"\x89PNG")


def test_datasets_of_different_scales_share_a_panel_from_0_to_1(tmp_path: Path) -> None:
    """As in Figure 4 of Lee et al. 2021; the synthetic demo has whole points, the file halves."""
    table = "image,caption,value\na,b,0\nc,d,0.5\ne,f,1\n"
    (tmp_path / "ratings.csv").write_text(table)
    options = ["file.low=0", "file.high=1", "file.step=0.5", f"output_dir={tmp_path / 'out'}"]
    words = ["dataset=[demo,file]", f"file.path={tmp_path / 'ratings.csv'}", *options]
    assert run_captau("agree", *words) == 0
    texts = texts_of((tmp_path / "out" / "rating_distribution.svg").read_bytes())
    assert {"overall", "demo (360)", "file (3)", "mean rating, scales set to 0–1", "density"} <= {
        text.strip() for text in texts
    }


def test_a_total_has_no_levels_far_from_its_ratings() -> None:
    """THumB's total reaches down to -9 on paper; 2 of one group and 4 of the other leave 2, 3 and 4."""
    rows = [(item, d, v) for d in ("total", "p") for item, v in (("a", 2.0), ("b", 4.0))]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "value"]))
    groups = pd.Series({"a": "human", "b": "machines"})
    scales = {"total": Scale(-9, 5, 1), "p": Scale(1, 5, 1)}
    totals, p = ({2.0: 1, 3.0: 0, 4.0: 0}, {2.0: 0, 3.0: 0, 4.0: 1}), (1.0, 2.0, 3.0, 4.0, 5.0)
    counts = [d.counts for d in rating_distributions("x", ratings, scales, groups, ["total"])]
    assert counts[:2] == list(totals)
    assert [tuple(c) for c in counts[2:]] == [p, p]
    scales = {"total": Scale(-9, 5)}
    first, _ = rating_distributions("x", ratings, scales, groups, ["total"])
    assert list(first.counts) == pytest.approx([2 + k / 5 for k in range(11)])


def test_differences_are_drawn_in_their_steps() -> None:
    """Figure 3 of Levinboim et al. 2021: p̂ is in eighths, and so are the differences."""
    shares = {step / 8: 1 / 17 for step in range(-8, 9)}
    files = difference_figure({"good": shares})
    assert set(files) == {"stability.svg", "stability.png"}
    assert files == difference_figure({"good": shares})
    assert "good" in {text.strip() for text in texts_of(files["stability.svg"])}
    assert difference_figure({}) == {}


@pytest.mark.parametrize(
    ("table", "by", "message"),
    [
        ("image,caption,value\na,b,1\nc,d,2\n", "system", "by=system needs the system of every"),
        (
            "image,caption,value,system\na,b,1,X\nc,d,2,Y\n",
            "human",
            "by=human needs a system called human; there are X, Y",
        ),
        ("image,caption,value\na,b,1\nc,d,2\n", "rater", "unknown value of by 'rater'"),
    ],
)
def test_groups_that_the_data_lack_give_one_line(
    table: str, by: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ratings.csv").write_text(table)
    words = ["dataset=file", f"file.path={tmp_path / 'ratings.csv'}", f"by={by}"]
    assert run_captau("agree", *words, f"output_dir={tmp_path / 'out'}") == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scale", "cut"),
    [
        (Scale(1, 5, 1), Scale(1, 5, 1)),
        (Scale(0, 12, 1), Scale(0, 12, 1)),
        (Scale(0, 13, 1), Scale(0, 13)),
        (Scale(0, 6.5, 0.5), Scale(0, 6.5)),
        (Scale(-2, 10.9, 1), Scale(-2, 10.9, 1)),
        (Scale(0, 100), Scale(0, 100)),
    ],
)
def test_a_scale_of_thirteen_steps_is_cut_into_ten(scale: Scale, cut: Scale) -> None:
    assert coarsen_scale(scale, np.array([scale.low, scale.high])) == cut
    assert coarsen_scale(scale, np.array([])) == cut


@pytest.mark.parametrize(
    ("scale", "values", "cut"),
    [
        # THumB's total, whose penalties leave no caption below 1.9.
        (Scale(-9, 5), [1.9, 4.2, 5], Scale(1.5, 5, 0.5)),
        (Scale(-5, 0), [-0.4, 0], Scale(-0.4, 0, 0.05)),
        (Scale(0, 100, 1), [3, 40], Scale(0, 40, 5)),
        (Scale(0, 100, 1), [30.5, 50], Scale(30, 50, 2)),
        (Scale(0, 1), [0.11, 0.2], Scale(0.11, 0.2, 0.01)),
        # The round steps would reach beyond the scale.
        (Scale(1, 100), [1, 40], Scale(1, 100)),
        (Scale(0, 100), [0, 50], Scale(0, 100)),
        (Scale(0, 100), [50, 50], Scale(0, 100)),
        (Scale(1, 5, 1), [5, 5], Scale(1, 5, 1)),
    ],
)
def test_a_scale_of_which_less_than_half_is_used_is_cut_around_its_values(
    scale: Scale, values: list[float], cut: Scale
) -> None:
    assert coarsen_scale(scale, np.array(values)) == cut


def test_of_more_series_than_colours_the_lines_are_dashed() -> None:
    """The eighth of seven colours' worth begins again; a level alone has a width of 1."""
    _, axis = figure_files.make_figure(1, 1)
    one = np.array([2.0]), np.array([5.0])
    draw_histograms(axis, {str(n): one for n in range(7)})
    outlines = [(to_hex(p.get_edgecolor()), p.get_linestyle()) for p in axis.patches[1::2]]
    dashed = [*((c, "-") for c in figure_files.SERIES), (figure_files.SERIES[0], "--")]
    assert outlines == dashed
    assert axis.patches[0].get_data()[1].tolist() == [1.5, 2.5]
    assert axis.get_ylim()[0] == 0


@pytest.mark.parametrize(("n_levels", "labels"), [(6, ["0", "1", "2", "3", "4", "5"]), (7, None)])
def test_up_to_six_levels_have_ticks(n_levels: int, labels: list[str] | None) -> None:
    _, axis = figure_files.make_figure(1, 1)
    levels = np.arange(n_levels, dtype=float)
    draw_histograms(axis, {"short": (levels[:2], levels[:2]), "a": (levels, levels)})
    assert isinstance(axis.xaxis.get_major_locator(), FixedLocator) == (labels is not None)
    if labels:
        assert [tick.get_text() for tick in axis.get_xticklabels()] == labels


def distribution(dataset: str, dimension: str, group: str, *counts: int) -> RatingDistribution:
    """Counts at whole points from 0 on."""
    scale = Scale(0, len(counts) - 1, 1)
    by_level = dict(zip(map(float, range(len(counts))), counts, strict=True))
    return RatingDistribution(dataset, dimension, group, scale, by_level)


def test_distributions_share_panels_by_dimension_or_dataset(drawn_figures: list[str]) -> None:
    """Half of 1,000 items on levels 0 to 2 is a density of 1, where a level is half of the width."""
    files = distribution_figure(
        [
            distribution("one", "p", "", 500, 500, 0),
            distribution("two", "p", "", 1, 1, 1, 1, 0),
            distribution("one", "p", "A", 0, 0, 0),
            distribution("one", "q", "A", 1, 3),
            distribution("one", "q", "B", 3, 1),
        ]
    )
    assert files == {"rating_distribution.svg": b"x", "rating_distribution.png": b"x"}
    compare(drawn_figures[0], GOLDEN / "distributions.txt")
    assert distribution_figure([]) == {}


def test_differences_are_drawn_in_panels(drawn_figures: list[str]) -> None:
    shares = {0.5: 0.25, -0.5: 0.25, 0.0: 0.5}
    assert set(difference_figure({"good": shares, "new": {0.0: 1.0, 0.25: 0.0}})) == {
        "stability.svg",
        "stability.png",
    }
    compare(drawn_figures[0], GOLDEN / "differences.txt")


def test_without_matplotlib_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert difference_figure({"good": {0.0: 1.0}}) == {}
    assert distribution_figure([distribution("one", "p", "", 1, 1)]) == {}


def part_of(ratings: pd.DataFrame, scales: dict[str, Scale], items: list[str]) -> Any:
    return SimpleNamespace(
        ratings=ratings,
        scales=scales,
        items=pd.DataFrame(index=items),
        has_anonymous_raters=False,
        title="T",
        dataset="d",
        protocol="p",
    )


def test_agreement_needs_two_ratings_of_an_item() -> None:
    columns = ["item_id", "dimension", "rater", "value"]
    rows = [("a", "one", "x", 1), ("b", "one", "y", 2)]
    once = part_of(pd.DataFrame(rows, columns=columns), {"one": Scale(1, 5, 1)}, ["a", "b"])
    with pytest.raises(UnavailableChart, match="agreement needs items with two ratings; there are"):
        list(agreement_charts(once))
    twice = [(i, "two", r, v) for r, vs in (("x", (1, 2)), ("y", (2, 1))) for i, v in zip("ab", vs, strict=True)]  # fmt: skip
    both = part_of(
        pd.DataFrame([*rows, *twice], columns=columns),
        {"one": Scale(1, 5, 1), "two": Scale(1, 5, 1)},
        ["a", "b"],
    )
    (chart,) = agreement_charts(both)
    assert (chart.name, chart.title) == ("agreement_d_p_two", "T, two: how well people agree")
    with pytest.raises(UnavailableChart, match="nobody rated these items; people preferred one"):
        list(agreement_charts(part_of(pd.DataFrame(), {}, [])))


@pytest.mark.parametrize(("value", "least"), [(-0.5, -52), (0.5, -2)])
def test_measures_below_zero_have_room(value: float, least: float) -> None:
    measures = {"kendall_w": AgreementMeasure(value, 2), "icc1": AgreementMeasure(0.9, 2)}
    figure = _dots(part_of(pd.DataFrame(), {}, []), "overall", measures)()
    assert figure.axes[0].get_xlim() == (least, 102)
