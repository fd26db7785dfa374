"""Distributions of mean ratings and of differences: their numbers, their groups and their figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from captau.benchmarks.evaluation.rating_distributions import rating_distributions
from captau.benchmarks.reporting.rating_charts import difference_figure
from captau.datasets.schema import Scale
from tests.conftest import run_captau


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
        ("human", "machines", [3, 2, 0, 1, 0]),
        ("system", "A", [1, 2, 0, 0, 0]),
        ("split", "test", [0, 1, 0, 2, 0]),
        ("dataset", "", [3, 2, 0, 2, 2]),
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
