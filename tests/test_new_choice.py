"""A choice of the protocol that is a number, declared in one field as CONTRIBUTING says: all commands know it.

The packages are copied, so that the field can be added to `Protocol`.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from tests.installed import run_beside

ROOT = Path(__file__).resolve().parents[1]
FUNCTION = """def _leave_out_few(_: CaptionSet, ratings: pd.DataFrame, least: int) -> pd.DataFrame:
    n_ratings = ratings.groupby(["dimension", "item_id"])["value"].transform("size")
    return ratings[n_ratings >= least]


"""
FIELD = """    min_raters: int = choice(
        1,
        "the least number of ratings of an item that counts",
        type=int,
        takes="N",
        least=1,
        words="items with fewer than {value} ratings are left out",
        said_of="ratings",
        is_later=True,
        change_ratings=_leave_out_few,
        left_out="are of items with too few ratings",
    )

"""
pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captau and the choice, and ratings of 12 items, of which four have two raters and eight three."""
    folder = tmp_path_factory.mktemp("choice")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages: dict[str, str] = config["tool"]["setuptools"]["package-dir"]
    shutil.copytree(ROOT / packages["captau"], folder / "captau")
    for name, place in packages.items():
        if name != "captau":
            target = folder / "captau" / name.partition(".")[2]
            shutil.copytree(ROOT / place, target, ignore=shutil.ignore_patterns("__pycache__"))

    path = folder / "captau" / "benchmarks" / "scoring" / "protocol.py"
    text = path.read_text(encoding="utf-8")
    for mark, added in (
        ("@dataclass(frozen=True)\nclass Protocol:", FUNCTION),
        ("    #: Fields that older files and digests lack", FIELD),
    ):
        assert text.count(mark) == 1
        text = text.replace(mark, added + mark)
    path.write_text(text, encoding="utf-8")

    rows = ["image,caption,rater,value,references"]
    for item in range(12):
        caption = " ".join(["a", "dog", "runs", "on", "grass"][: 2 + item % 4])
        for rater in range(2 if item % 3 == 0 else 3):
            value = 1 + (item + rater * (item % 2)) % 5
            rows.append(f"i{item},{caption},r{rater},{value},a dog runs on green grass")
    (folder / "mine.csv").write_text("\n".join(rows) + "\n")
    return folder


MINE = (
    "dataset=file",
    "file.path=mine.csv",
    "file.rater=rater",
    "file.references=references",
    "file.low=1",
    "file.high=5",
    "protocol.min_raters=3",
)


def test_bench_counts_what_the_choice_leaves_out(folder: Path) -> None:
    """By hand: four items of two ratings and eight of three are 32 ratings, of which 24 stay."""
    table = run_beside(folder, "bench", *MINE, "metrics=bleu_1,rouge_l", "output_dir=run")
    assert "8 of 32 ratings are of items with too few ratings." in table
    assert "z-score" not in table
    assert "min_raters=3" in table
    rows = pd.read_csv(folder / "run" / "correlations.csv")
    metrics = rows[rows["metric"] == "bleu_1"]
    assert set(metrics["n_items"]) == {8}
    assert set(metrics["n_ratings"]) == {24}


def test_where_the_choice_leaves_nothing_no_data_point_is_counted(folder: Path) -> None:
    words = (*MINE[:-1], "protocol.min_raters=99", "metrics=bleu_1,rouge_l", "output_dir=none")
    table = run_beside(folder, "bench", *words)
    assert "32 of 32 ratings are of items with too few ratings." in table
    assert "0 items of 0 images, 0 data points" in table


def test_help_and_cite_have_its_words(folder: Path) -> None:
    run_beside(folder, "bench", *MINE, "metrics=bleu_1,rouge_l", "output_dir=cited")
    cited = " ".join(run_beside(folder, "cite", "run=cited").split())
    assert "items with fewer than 3 ratings are left out" in cited
    text = " ".join(run_beside(folder, "bench", "--help", "all").split())
    assert "the least number of ratings of an item that counts" in text


def test_a_baseline_holds_it_as_a_number(folder: Path) -> None:
    run_beside(folder, "check", *MINE, "metrics=bleu_1", "baseline=b.yaml", "update=true")
    assert "min_raters: 3" in (folder / "b.yaml").read_text(encoding="utf-8")
    assert "as in the baseline" in run_beside(folder, "check", "baseline=b.yaml")
