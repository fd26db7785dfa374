"""Several datasets in one run: named sets, what is not here, and what a dataset lacks; small files made for the tests."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

import captau
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.overview import DatasetsOverview
from captau.benchmarks.reporting.charts.coefficient_charts import make_overview_chart
from captau.benchmarks.reporting.charts.figure_files import style as figure_style
from captau.benchmarks.reporting.tables.joined_table import join
from captau.benchmarks.reporting.tables.table_layouts import LAYOUTS
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.runs.markdown_table import markdown_of
from captau.benchmarks.runs.tables import Column
from captau.benchmarks.scoring.catalog import DATASET_SETS, usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import BLOCK, draw_weights
from captau.benchmarks.statistics.rating_table import CEILINGS
from captau.datasets.reading.source_files import identify_image
from captau.datasets.registry import load
from captau.datasets.sources.coco_captions import COCO_REFERENCES
from captau.datasets.sources.flickr8k import EXPERT_JSON
from captau.datasets.sources.pascal50s import CATEGORIES, PAIRS
from tests.conftest import run_captau, says
from tests.terminal import run_in_terminal

#: A metric of one's own that needs no references.
LENGTH = '''from dataclasses import dataclass
import captau

@captau.register("letters")
@dataclass(frozen=True)
class Length(captau.Metric):
    """Count the characters of a caption."""

    def compute(self, rows):
        return [float(len(caption)) for caption in rows.captions]
'''
FAST = {"replicates": 64}
WORDS = [
    "a",
    "dog",
    "runs",
    "on",
    "green",
    "grass",
    "while",
    "two",
    "old",
    "men",
    "watch",
    "the",
    "red",
    "ball",
    "fly",
]


@dataclasses.dataclass(frozen=True)
class FirstLetter(captau.Metric):
    """Order captions by their first letters, which say nothing."""

    def compute(self, rows: Any) -> list[float]:
        return [float(ord(text[0])) for text in rows.captions]


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def caption(rng: np.random.Generator, reference: str, n_wrong: int) -> str:
    """A reference with some words replaced."""
    words = reference.split()
    for place in rng.choice(len(words), n_wrong, replace=False):
        words[place] = f"x{rng.integers(9)}"
    return " ".join(words)


def draw_judgements(seed: int, n_images: int) -> list[tuple[int, str, str, int]]:
    """Image number, reference, caption and rating from 1 to 4: fewer wrong words, a better rating, but for noise."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, str, str, int]] = []
    for image in range(n_images):
        reference = " ".join(rng.permutation(WORDS)[:8])
        for _ in range(2):
            n_wrong = int(rng.integers(7))
            rating = int(np.clip(4 - n_wrong // 2 + rng.integers(-1, 2), 1, 4))
            rows.append((image, reference, caption(rng, reference, n_wrong), rating))
    return rows


def write_expert(root: Path) -> None:
    """Flickr8k-Expert, 24 images."""
    table: dict[str, Any] = {}
    for image, reference, text, rating in draw_judgements(1, 24):
        entry = table.setdefault(f"{1000000 + image}_aaaaaaaaaa.jpg", {"ground_truth": [reference]})
        ratings = [{"caption": text, "rating": r} for r in (rating, rating, min(4, rating + 1))]
        entry.setdefault("human_judgement", []).extend(ratings)
    table = {k: v | {"image_path": f"Flickr8k_Dataset/{k}"} for k, v in table.items()}
    write(root, EXPERT_JSON.path, json.dumps(table))


def write_pascal(root: Path) -> None:
    """PASCAL-50S, six pairs a category, the first caption nearer to the reference in five of them."""
    rng = np.random.default_rng(2)
    table: dict[str, Any] = {}
    for category in CATEGORIES:
        for number in range(6):
            reference = " ".join(rng.permutation(WORDS)[:8])
            texts = [caption(rng, reference, n) for n in (1, 4)]
            pair = {"image": f"VOC2012/JPEGImages/{category}{number}.jpg", "captions": texts}
            pair |= {"label": int(number == 5), "references": [reference]}
            table.setdefault(category, []).append(pair)
    write(root, PAIRS.path, json.dumps(table))


def write_quality(root: Path) -> None:
    """Caption-Quality's development fold, which has no references."""
    lines = ["IMAGE_KEY\tCAPTION_PRED\tCOUNT_RATINGS\tCOUNT_GOOD_RATINGS"]
    for image, _, text, rating in draw_judgements(3, 12):
        lines.append(f"k{image}\t{text}\t8\t{2 * rating}")
    write(root, "caption_quality/OID-rated-image-captions.v1.dev.tsv", "\n".join([*lines, ""]))


def write_coco(root: Path) -> None:
    """COCO's references of 24 images."""
    references = {str(i): [text, f"{text} too"] for i, text, *_ in draw_judgements(4, 24)}
    write(root, COCO_REFERENCES.path, json.dumps(references))


def write_gold(root: Path) -> None:
    """CocoG and FlickrG, which together are IICR16k: two captions of each of 24 images whose references are there."""
    coco = json.loads((root / COCO_REFERENCES.path).read_text())
    flickr = json.loads((root / EXPERT_JSON.path).read_text())
    rng = np.random.default_rng(5)
    for name, references in (
        ("cocog", {f"{int(i):012d}.jpg": texts for i, texts in coco.items()}),
        ("flickrg", {i: entry["ground_truth"] for i, entry in flickr.items()}),
    ):
        lines: list[str] = []
        for image in list(references)[:24]:
            reference = references[image][0]
            for rater in ("p1", "p2"):
                n_wrong = int(rng.integers(min(7, len(reference.split()))))
                rating = int(np.clip(5 - n_wrong // 2 + rng.integers(-1, 2), 1, 5))
                text = caption(rng, reference, n_wrong)
                row = {"image": image, "caption": text, "rater": rater, "value": rating}
                lines.append(json.dumps(row))
        write(root, f"{name}/{name}.jsonl", "\n".join(lines))


def write_files(root: Path) -> Path:
    for make in (write_expert, write_pascal, write_quality):
        make(root / "data")
    return root / "data"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def test_a_set_leaves_out_what_is_not_here(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = captau.bench("core", "text", data_root=folder, statistics=FAST)
    assert set(results.correlations["dataset"]) == {"flickr8k_expert", "caption_quality"}
    (line,) = (r.getMessage() for r in caplog.records if "not here" in r.getMessage())
    absent = [n for n in DATASET_SETS["core"] if n not in ("flickr8k_expert", "caption_quality")]
    assert all(name in line for name in absent)
    assert f"captau data fetch dataset={','.join(absent)}" in line
    for reasons in results.run["missing"]["caption_quality"].values():
        assert reasons["need"] == "references"


@pytest.mark.parametrize("ceilings", [True, False])
def test_a_dataset_that_no_metric_fits_has_rows_with_the_reason(
    folder: Path, *, ceilings: bool
) -> None:
    """Caption-Quality has no references: every value is empty, in the coefficients of its usual protocol at least."""
    datasets = ["flickr8k_expert", "caption_quality"]
    options: Any = {"data_root": folder, "statistics": FAST, "ceilings": ceilings}
    results = captau.bench(datasets, ["rouge_l", "bleu_1"], **options)
    frame = results.correlations
    of_quality = frame[(frame["dataset"] == "caption_quality") & ~frame["metric"].isin(CEILINGS)]
    assert set(of_quality["metric"]) == {"rouge_l", "bleu_1"}
    assert {"tau_c", "tau_b", "spearman", "pearson"} <= set(of_quality["coefficient"])
    overview = results.frames["overview.csv"]
    column = overview[overview["dataset"] == "caption_quality"]
    assert column[["dimension", "coefficient"]].drop_duplicates().to_numpy().tolist() == [
        ["overall", "spearman"]
    ]
    for rows in (of_quality, column):
        assert rows["value"].isna().all()
        assert rows["note"].str.contains("needs references").all()
    assert not results.run["left_out"]
    with says("needs references"):
        captau.bench("caption_quality", ["rouge_l", "bleu_1"], **options)
    card = dataclasses.replace(captau.load("caption_quality", folder).card, name="twin")
    first = captau.load("caption_quality", folder)
    twin = captau.CaptionSet(first.items, first.ratings, first.preferences, card=card)
    with says("none of the metrics can be computed", "needs references"):
        captau.bench([first, twin], ["rouge_l", "bleu_1"], **options)


def test_an_overview_says_what_undefined_scores_leave_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric is not measured on all captions of each dataset, and another one beside it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gaps.py").write_text(
        "def gaps(items):\n    s = items['caption'].str.len().astype(float)\n    s.iloc[:2] = None\n    return s\n"
    )
    results = captau.bench(
        ["demo", "flickr8k_expert"],
        ["rouge_l", "gaps.py:gaps"],
        protocol={"undefined": "drop"},
        data_root=folder,
        statistics=FAST,
    )
    notes = results.tables[0].notes
    assert "Demo: gaps: undefined for 2 of 360 items, left out of its row." in notes
    assert sum("left out of its row" in note for note in notes) == 2


def test_a_metric_that_no_dataset_can_compute_stops_the_run(folder: Path) -> None:
    """Also where comparisons have floors, which an overview does not show."""

    def bright(caption: str, image: str) -> float:
        return float(len(caption) + len(image))

    with says("needs images", "docs/neural.md says where they are looked for"):
        captau.bench(["flickr8k_expert", "pascal50s"], [bright], data_root=folder, statistics=FAST)


def test_a_narrow_terminal_keeps_the_mean_with_interval_and_rank(folder: Path) -> None:
    """Heads are shortened and the empty column goes; its reason stands once, and no warning repeats it."""
    sets = "dataset=flickr8k_expert,pascal50s,caption_quality"
    words = [sets, "metrics=rouge_l,bleu_1", "statistics.replicates=64", f"data.root={folder}"]
    status, shown = run_in_terminal("bench", *words, "output_dir=out", folder=folder, columns=42)
    assert status == 0
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).splitlines()
    head = next(line for line in lines if line.startswith("metric"))
    assert head.split()[-3:] == ["mean", "±", "rank"]
    assert "F8k-" in shown
    text = " ".join(" ".join(lines).split())
    assert "too narrow for Caption-Quality ρ: widen it" in text
    assert text.count("Caption-Quality has no references, which all of these metrics need.") == 1
    assert "left out" not in text


def test_rank_goes_on_where_a_dataset_names_no_systems(folder: Path, tmp_path: Path) -> None:
    words = ["metrics=rouge_l", "statistics.replicates=64", f"data.root={folder}"]
    out = tmp_path / "out"
    assert run_captau("rank", "dataset=demo,flickr8k_expert", *words, f"output_dir={out}") == 0
    assert set(pd.read_csv(out / "systems.csv")["dataset"]) == {"demo"}
    left_out = json.loads((out / "run.json").read_text())["left_out"]
    assert {name: reason["lack"] for name, reason in left_out.items()} == {
        "flickr8k_expert": "system"
    }
    assert run_captau("rank", "dataset=flickr8k_expert", *words, f"output_dir={out}") == 2


@pytest.mark.slow
@pytest.mark.neural
def test_a_rater_has_an_empty_cell_where_it_cannot_be_tested(tmp_path: Path, folder: Path) -> None:
    """The demo's features are of the demo alone, and its rater was trained on some of its images."""
    rater = tmp_path / "rater"
    train = ["rater=icr", "rater.images=demo", "rater.texts=demo", "rater.epochs=1"]
    assert run_captau("train", *train, "statistics.interval=none", f"output_dir={rater}") == 0
    options: Any = {"data_root": folder, "statistics": FAST, "ceilings": False}
    mine = f"rater(path='{rater}',name=Mine)"
    results = captau.bench(["demo", "flickr8k_expert"], [mine, "rouge_l"], **options)
    overview = results.frames["overview.csv"].set_index(["metric", "dataset"])
    assert "was trained on" in overview.loc[("Mine", "demo"), "note"]
    assert "lacks features of these captions" in overview.loc[("Mine", "flickr8k_expert"), "note"]
    assert overview.loc["Mine", "value"].isna().all()
    assert overview.loc["rouge_l", "value"].notna().all()
    for dataset, words in (
        ("demo", "was trained on"),
        ("flickr8k_expert", "the demo has no image"),
    ):
        with says(words):
            captau.bench(dataset, [mine, "rouge_l"], **options)


@pytest.mark.slow
def test_the_command_line_takes_sets(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [f"data.root={folder}", "metrics=rouge_l", "statistics.replicates=64"]
    assert run_captau("bench", "dataset=core,pascal50s", *words, f"output_dir={out}") == 0
    run = json.loads((out / "run.json").read_text())
    assert list(run["data"]) == ["flickr8k_expert", "caption_quality", "pascal50s"]
    assert run["config"]["absent"] == ["cocog", "flickrg", "iicr16k", "capeval1k", "thumb"]
    assert run_captau("bench", "dataset=here", *words, f"output_dir={out}") == 0
    run = json.loads((out / "run.json").read_text())
    assert set(run["data"]) | set(run["left_out"]) == {
        "flickr8k_expert",
        "pascal50s",
        "caption_quality",
    }
    # Again with the options of the finished run: what was here is named, what was not is not asked for.
    again = tmp_path / "again"
    assert run_captau("bench", f"run={out}", f"output_dir={again}") == 0
    assert (again / "correlations.csv").read_text() == (out / "correlations.csv").read_text()


def test_a_named_dataset_that_is_not_here_is_an_error_before_any_work(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ["dataset=demo,thumb,core,foil", f"data.root={folder}", f"output_dir={out}"]
    assert run_captau("bench", *words) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "thumb, foil; captau data fetch dataset=thumb,foil" in message
    assert not (out / "run.json").exists()
    with says("dataset thumb", "captau data fetch dataset=thumb"):
        captau.bench(["demo", "thumb"], "rouge_l", data_root=folder)
    with says("not in the data folder", "flickr8k_expert"):
        captau.bench("core", "rouge_l", data_root=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "lack"),
    [
        ({"coefficients": ["tau_c", "tau_b"]}, "judgements"),
        ({"dimension": "HC"}, "dimension"),
        ({"systems": ["A"]}, "system"),
        ({"split": "test"}, "split"),
    ],
)
def test_what_one_dataset_lacks_stops_the_run_only_where_nothing_is_left(
    protocol: dict[str, Any], lack: str, folder: Path
) -> None:
    """PASCAL-50S has preferences alone, Flickr8k-Expert no dimension HC, neither of them systems; of Caption-Quality one split is here."""
    sets = ["flickr8k_expert", "pascal50s"]
    if lack == "split":
        write_quality(folder)
        sets = ["flickr8k_expert", "caption_quality"]
    options: dict[str, Any] = {"data_root": folder, "statistics": FAST, "protocol": protocol}
    if lack == "system":
        with says("unknown system", "flickr8k_expert", "pascal50s"):
            captau.bench(sets, "rouge_l", **options)
        return
    results = captau.bench(sets, "rouge_l", **options)
    ((name, reason),) = results.run["left_out"].items()
    assert reason["lack"] == lack
    assert set(results.correlations["dataset"]) == set(sets) - {name}
    with says(f"dataset {name}"):
        captau.bench(name, "rouge_l", **options)


@pytest.mark.slow
def test_compare_and_sensitivity_go_on_too(folder: Path, tmp_path: Path) -> None:
    sets = ["flickr8k_expert", "caption_quality"]
    metrics = ["rouge_l", "bleu_1"]
    compared = captau.compare(sets, metrics, data_root=folder, statistics=FAST)
    assert compared.significance is not None
    assert set(compared.significance[0]["dataset"]) == {"flickr8k_expert"}
    assert list(compared.run["left_out"]) == ["caption_quality"]
    differences = [table for table in compared.tables if "differences of" in table.title]
    assert [(table.title[-3:], table.is_detail) for table in differences] == [
        ("τ_c", False),  # the headline
        ("τ_b", True),
    ]
    out = tmp_path / "out"
    words = [
        "dataset=flickr8k_expert,pascal50s",
        "metrics=rouge_l",
        "draws=8",
        f"data.root={folder}",
    ]
    assert run_captau("sensitivity", *words, "kind=raters", f"output_dir={out}") == 0
    assert set(pd.read_csv(out / "sensitivity.csv")["dataset"]) == {"flickr8k_expert"}
    # Its items have one reference each.
    assert run_captau("sensitivity", *words, "kind=raters,references", f"output_dir={out}") == 0
    assert set(pd.read_csv(out / "sensitivity.csv")["kind"]) == {"raters"}
    assert run_captau("sensitivity", *words, "kind=references") == 2


def bench_pair(folder: Path, *, renamed: bool) -> pd.DataFrame:
    """The overview of Flickr8k-Expert beside its copy, whose images may have other names."""
    first = captau.load("flickr8k_expert", folder)
    items = first.items
    if renamed:
        items["image_id"] = "other_" + items["image_id"]
    card = dataclasses.replace(first.card, name="twin")
    twin = captau.CaptionSet(items, first.ratings, first.preferences, card=card)
    options: Any = {"data_root": folder, "ceilings": False, "statistics": {"replicates": 512}}
    changes = {"dimension": "overall", "coefficients": "tau_c"}
    return captau.bench([first, twin], ["rouge_l", "bleu_1"], protocol=changes, **options).frames[
        "overview.csv"
    ]


def test_an_image_is_drawn_once_wherever_it_stands(folder: Path) -> None:
    """Law: of a dataset and its copy on the same images the mean has the interval of the one; on others, a narrower one."""
    same = bench_pair(folder, renamed=False).set_index(["dataset", "metric"])
    columns = ["value", "ci_low", "ci_high"]
    mean, alone = same.loc["mean", columns], same.loc["flickr8k_expert", columns]
    assert mean.to_numpy(float) == pytest.approx(alone.to_numpy(float), abs=1e-12)
    assert same.loc["mean", "rank"].tolist() == same.loc["flickr8k_expert", "rank"].tolist()
    other = bench_pair(folder, renamed=True).set_index(["dataset", "metric"]).loc["mean"]
    assert other["value"].tolist() == pytest.approx(mean["value"].tolist(), abs=1e-12)
    widths = [(frame["ci_high"] - frame["ci_low"]).mean() for frame in (mean, other)]
    assert widths[1] / widths[0] == pytest.approx(1 / math.sqrt(2), abs=0.12)


def test_the_joint_mean_is_that_of_numpy(folder: Path) -> None:
    """Independent: SciPy's τ_c of points repeated as often as their images were drawn, the mean, its quantiles and rank."""
    write_coco(folder)
    write_gold(folder)
    statistics = {"interval": "percentile", "replicates": BLOCK}
    sets = ["flickr8k_expert", "flickrg"]
    metrics = ["rouge_l", FirstLetter()]
    results = captau.bench(sets, metrics, data_root=folder, statistics=statistics, ceilings=False)
    frames = results.frames
    specs = list(dict.fromkeys(frames["scores.parquet"]["metric"]))
    scores = frames["scores.parquet"].set_index(["dataset", "metric", "item_id"])["score"]
    items = frames["items.parquet"].assign(image=lambda f: f["image_id"].map(identify_image))
    # Images are drawn by their content, not as the file has them.
    protocol = Protocol.resolve(sets[0], usual_protocol(sets[0]), {})
    drawn_items = EvaluationSet.select(load(sets[0], folder), protocol).in_order().items
    images = list(dict.fromkeys(map(identify_image, drawn_items["image_id"])))
    assert len(images) == 24  # both datasets have all of them
    image_of = items.set_index(["dataset", "item_id"])["image"].map(images.index)
    values: dict[str, np.ndarray] = {}
    weights = np.column_stack([np.ones(len(images)), draw_weights(len(images), 0, 0)]).astype(int)
    for spec in specs:
        means = np.zeros(weights.shape[1])
        for name in sets:
            ratings = frames["ratings.parquet"].query("dataset == @name")
            x = scores[name, spec].loc[ratings["item_id"]].to_numpy()
            y = ratings["value"].to_numpy()
            n_drawn = weights[image_of[name].loc[ratings["item_id"]].to_numpy()]
            means += [
                kendalltau(np.repeat(x, n), np.repeat(y, n), variant="c").statistic / 2
                for n in n_drawn.T
            ]
        values[spec] = means
    overview = frames["overview.csv"].set_index(["dataset", "metric"]).loc["mean"]
    for spec in specs:
        row = overview.loc[spec]
        assert row["value"] == pytest.approx(values[spec][0], abs=1e-12)
        ends = np.quantile(values[spec][1:], [0.025, 0.975])
        assert [row["ci_low"], row["ci_high"]] == pytest.approx(ends.tolist(), abs=1e-12)
    differences = values[specs[0]][1:] - values[specs[1]][1:]
    p_value = 2 * (min((differences <= 0).sum(), (differences >= 0).sum()) + 1) / (BLOCK + 1)
    assert p_value <= 0.05
    assert overview["rank"].to_dict() == {specs[0]: 1, specs[1]: 2}


def test_the_overview(folder: Path, tmp_path: Path) -> None:
    """Worked: the mean of τ_c and of 2a − 1, over the datasets that all listed metrics have."""
    write(tmp_path, "mine.py", LENGTH)
    out = tmp_path / "out"
    metrics = f"rouge_l,bleu_1,{tmp_path}/mine.py:Length"
    words = ["dataset=flickr8k_expert,pascal50s,caption_quality", f"metrics={metrics}"]
    words += [f"data.root={folder}", "statistics.replicates=256", "statistics.interval=percentile"]
    words.append(f"output_dir={out}")
    assert run_captau("bench", *words) == 0
    overview = pd.read_csv(out / "overview.csv", keep_default_na=False, na_values=[""])
    assert list(overview.columns) == [
        *("metric", "dataset", "dimension", "coefficient"),
        *("value", "ci_low", "ci_high", "rank", "note"),
    ]
    by_key = overview.set_index(["dataset", "metric"])
    correlations = pd.read_csv(out / "correlations.csv")
    for dataset, dimension, coefficient in (
        ("flickr8k_expert", "overall", "tau_c"),
        ("pascal50s", "mean", "accuracy"),
    ):
        rows = correlations[
            (correlations["dataset"] == dataset)
            & (correlations["dimension"] == dimension)
            & (correlations["coefficient"] == coefficient)
        ].set_index("metric")
        for metric in ("rouge_l", "bleu_1", "letters"):
            assert by_key.loc[(dataset, metric), "value"] == rows.loc[metric, "value"]
    # Caption-Quality has no references: only the length can be computed there, so that it is not in the mean.
    quality = by_key.loc["caption_quality"]
    assert quality["value"].isna().tolist() == [True, True, False]
    assert "needs references" in quality.loc["rouge_l", "note"]
    for metric in ("rouge_l", "bleu_1", "letters"):
        tau, accuracy = (by_key.loc[(d, metric), "value"] for d in ("flickr8k_expert", "pascal50s"))
        assert by_key.loc[("mean", metric), "value"] == pytest.approx((tau + 2 * accuracy - 1) / 2)
    means = by_key.loc["mean"]
    assert (means["ci_low"] < means["value"]).all()
    assert (means["value"] < means["ci_high"]).all()
    assert means.loc["letters", "rank"] == means["rank"].max() > 1
    table = (out / "table.md").read_text()
    first = table.split("\n\n**")[0]
    labels = [line.split("|")[1].strip() for line in first.splitlines() if line.startswith("| ")]
    assert labels[0] == "metric"
    assert labels[-1] == "letters *"
    assert "letters is third of three" in first
    assert "an accuracy a counts as 2a − 1" in first
    assert table.count("**Flickr8k-Expert: agreement with people**") == 1


def check_core(root: Path, present: list[str]) -> None:
    """Bench `core` on what is in a folder: each value is that of the dataset alone, and the mean that of its columns."""
    metrics = ["rouge_l", "bleu_1"]
    options: Any = {"data_root": root, "statistics": FAST, "ceilings": False}
    results = captau.bench("core", metrics, **options)
    overview = results.frames["overview.csv"]
    assert list(dict.fromkeys(overview["dataset"])) == [*present, "mean"]
    values = overview.set_index(["dataset", "metric"])["value"]
    headlines = {"caption_quality": "spearman", "capeval1k": "tau_b", "thumb": "pearson"}
    computed = [name for name in present if name != "caption_quality"]
    for name in computed:
        alone = captau.bench(name, metrics, **options).correlations
        dimension = "total" if name == "thumb" else "overall"
        is_headline = alone["coefficient"] == headlines.get(name, "tau_c")
        rows = alone[is_headline & (alone["dimension"] == dimension)].set_index("metric")
        for metric in metrics:
            assert values[name, metric] == rows.loc[metric, "value"]
    for metric in metrics:
        assert math.isnan(values["caption_quality", metric])
        mean = sum(values[name, metric] for name in computed) / len(computed)
        assert values["mean", metric] == pytest.approx(mean, abs=1e-12)


def test_core_on_small_files(folder: Path) -> None:
    write_coco(folder)
    write_gold(folder)
    check_core(folder, [n for n in DATASET_SETS["core"] if n not in ("capeval1k", "thumb")])


def test_core_on_the_real_data(data_root: Path, tmp_path: Path) -> None:
    """All seven, of which CocoG, FlickrG and IICR16k are files of our own; and what is left without these."""
    for place in data_root.iterdir():
        (tmp_path / place.name).symlink_to(place)
    gold = ("cocog", "flickrg", "iicr16k")
    check_core(tmp_path, [n for n in DATASET_SETS["core"] if n not in gold])
    write_gold(tmp_path)
    check_core(tmp_path, list(DATASET_SETS["core"]))


def test_the_run_prints_the_overview_alone_unless_details_are_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["dataset=flickr8k_expert,pascal50s", "metrics=rouge_l,bleu_1", f"data.root={folder}"]
    words += ["statistics.replicates=64", f"output_dir={tmp_path}/out"]
    for details, n_tables in (("false", 1), ("true", 3)):
        assert run_captau("bench", *words, f"details={details}") == 0
        shown = capsys.readouterr().out
        assert shown.count("| metric |") == n_tables
        assert shown.count("do not differ significantly") == 1  # notes stand once


@pytest.mark.parametrize(
    ("image_id", "name"),
    [
        ("1056338697_4f7d7ce270.jpg", "1056338697"),
        ("1056338697.jpg", "1056338697"),
        ("COCO_val2014_000000000042.jpg", "42"),
        ("000000000042.jpg", "42"),
        ("42", "42"),
        ("2008_005747.jpg", "2008_005747"),
        ("59cf362fd6a5ed162f0e46e580383b53", "59cf362fd6a5ed162f0e46e580383b53"),
        ("aar_test_04600", "aar_test_04600"),
    ],
)
def test_an_image_has_one_name_in_all_datasets(image_id: str, name: str) -> None:
    """The forms in which the datasets name images: Flickr8k, Flickr30k, COCO, PASCAL, Nebula, ImageInWords."""
    assert identify_image(image_id) == name


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run over Flickr8k-Expert and PASCAL-50S with a metric of one's own, which is worse than the others."""
    root = tmp_path_factory.mktemp("survey")
    folder = write_files(root)
    write(root, "own.py", "def symbols(caption, references):\n    return float(len(caption))\n")
    words = ["dataset=flickr8k_expert,pascal50s", f"data.root={folder}", "floors=true"]
    words += [f"metrics=bleu_1,bleu_4,{root}/own.py:symbols", "statistics.replicates=64"]
    assert run_captau("bench", *words, f"output_dir={root}/out") == 0
    return root / "out"


def read_table(run: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    """Return the rows of `captau table` of a run."""
    capsys.readouterr()
    assert run_captau("table", f"run={run}", "style=csv", *words) == 0
    return list(csv.DictReader(capsys.readouterr().out.splitlines()))


def test_a_table_for_a_paper_has_one_column_a_dataset_and_the_mean(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers are those of overview.csv; `coefficients=all` has the protocols' coefficients, without ρ and r."""
    rows = read_table(survey, capsys)
    ranked = ["Flickr8k-Expert τ_c", "PASCAL-50S mean acc. %", "mean"]
    heads = [head for name in ranked for head in (name, f"{name} rank")]
    assert list(rows[0]) == ["kind", "metric", "published by", *heads, "notes"]
    overview = pd.read_csv(survey / "overview.csv").set_index(["dataset", "metric"])
    (own,) = {metric for _, metric in overview.index} - {"bleu_1", "bleu_4"}
    labels = {"bleu_1": "BLEU-1", "bleu_4": "BLEU-4", own: "symbols"}
    assert {row["metric"] for row in rows} == set(labels.values())
    by_label = {row["metric"]: row for row in rows}
    for metric, label in labels.items():
        for dataset, head in zip(("flickr8k_expert", "pascal50s", "mean"), ranked, strict=True):
            value, rank = overview.loc[(dataset, metric), ["value", "rank"]]
            assert by_label[label][head] == f"{100 * value:.1f}"
            assert by_label[label][f"{head} rank"] == f"{rank:.0f}"
    ours = [float(row["mean"]) for row in rows if row["kind"] == "reference-based"]
    assert ours == sorted(ours, reverse=True)
    whole = read_table(survey, capsys, "coefficients=all")
    assert "Flickr8k-Expert τ_b" in whole[0]
    assert "PASCAL-50S HC acc. %" in whole[0]
    assert not any("ρ" in head or head == "mean" for head in whole[0])
    assert {row["kind"] for row in whole} > {"floors", "ceilings"}


@pytest.mark.slow
def test_intervals_sort_and_dimensions_of_a_table_of_several_datasets(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half the mean's interval is that of overview.csv, and `sort=mean` the joint mean beside PASCAL-50S's."""
    overview = pd.read_csv(survey / "overview.csv").set_index(["dataset", "metric"])
    reach = overview["ci_high"] - overview["ci_low"]
    rows = read_table(survey, capsys, "intervals=plusminus", "rows=given,bleu_1,bleu_4")
    assert [row["metric"] for row in rows] == ["symbols", "BLEU-1", "BLEU-4"]
    assert rows[1]["mean ±"] == f"{50 * reach['mean', 'bleu_1']:.1f}"
    rows = read_table(survey, capsys, "sort=mean", "rows=reference-based")
    means = [float(row["mean"]) for row in rows]
    assert means == sorted(means, reverse=True)
    (head,) = [h for h in read_table(survey, capsys, "dimensions=HC")[0] if h.endswith("acc. %")]
    assert head == "PASCAL-50S HC acc. %"


def test_two_runs_share_the_column_of_a_mean_over_the_same_datasets(
    survey: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mean is that of its own run, and nothing ranks the two runs together."""
    words = ["dataset=flickr8k_expert,pascal50s", f"data.root={folder}", "metrics=bleu_2,bleu_3"]
    words += ["statistics.replicates=64", f"output_dir={tmp_path}/again"]
    assert run_captau("bench", *words) == 0
    capsys.readouterr()
    assert run_captau("table", f"run={survey},{tmp_path}/again", "style=csv") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert "mean rank" not in rows[0]
    again = pd.read_csv(tmp_path / "again" / "overview.csv").set_index(["dataset", "metric"])
    (row,) = [row for row in rows if row["metric"] == "BLEU-2"]
    assert row["mean"] == f"{100 * again.loc[('mean', 'bleu_2'), 'value']:.1f}"


def test_a_finished_run_gives_back_its_overview(survey: Path) -> None:
    """The table of the files is the one that the run wrote first."""
    overview = DatasetsOverview.of_run(read_run(survey))
    assert overview is not None
    written = (survey / "table.md").read_text()
    assert written.startswith(markdown_of(overview.table()) + "\n\n**")


@pytest.mark.slow
def test_a_terminal_draws_the_table(survey: Path) -> None:
    """Nothing of Markdown is in it, no line is wider than the terminal, and the best is first."""
    status, shown = run_in_terminal("table", f"run={survey}", folder=survey.parent)
    assert status == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("<su" in line or "**" in line or line.startswith("|") for line in lines)
    overview = pd.read_csv(survey / "overview.csv").set_index(["dataset", "metric"])["value"]
    best = "BLEU-1" if overview["mean", "bleu_1"] > overview["mean", "bleu_4"] else "BLEU-4"
    drawn = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert drawn[:2] == ["reference-based", best]
    status, shown = run_in_terminal(
        "table", f"run={survey}", "style=markdown", folder=survey.parent
    )
    assert "| *reference-based* |" in shown


@pytest.mark.slow
def test_a_report_begins_with_the_overview(survey: Path) -> None:
    """One verdict and one table stand above the datasets, with one's own metric marked."""
    assert run_captau("report", f"run={survey}") == 0
    page = (survey / "report.html").read_text()
    overview = DatasetsOverview.of_run(read_run(survey))
    assert overview is not None
    header = page.partition("</header>")[0]
    assert header.count('class="verdict"') == 1
    assert overview.table().verdict in header
    first = page.partition("<section")[2].partition("</section>")[0]
    assert "All datasets" in first
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', first)
    assert heads == ["metric", *overview.table().heads]
    labels = re.findall(r'<th scope="row"[^>]*>(.+?)</th>', first)
    assert sorted(labels) == ["BLEU-1", "BLEU-4", 'symbols <span class="yours">yours</span>']
    values = overview.joint.values
    assert f"<strong>{100 * max(values.values()):.1f}</strong>" in first


def test_the_overview_is_one_figure(survey: Path) -> None:
    """Its table is the overview's, it names each dataset and metric once, and it is drawn by default."""
    overview = DatasetsOverview.of_run(read_run(survey))
    assert overview is not None
    chart = make_overview_chart(overview)
    assert chart.table == overview.table()
    with figure_style():
        axes = chart.draw().axes
    titles = [" ".join(axis.get_title("left").split()) for axis in axes]
    assert titles == ["Flickr8k- Expert τ_c", "PASCAL-50S acc. %", "mean"]
    labels = [overview.styles[metric].label for metric in overview.metrics]
    assert [label.get_text() for label in axes[0].get_yticklabels()] == labels
    points = [[line.get_xdata()[0] for line in a.lines if line.get_marker() == "o"] for a in axes]
    values = [100 * overview.joint.values[metric] for metric in overview.metrics]
    assert points[2] == pytest.approx(values)
    assert [len(xs) for xs in points] == [3, 3, 3]
    assert run_captau("plot", f"run={survey}", "format=svg") == 0
    assert (survey / "plots" / "overview.svg").is_file()


def test_a_score_file_has_an_empty_cell_where_it_lacks_a_dataset(
    folder: Path, tmp_path: Path
) -> None:
    """A file with the lengths of Flickr8k-Expert's captions alone says nothing of PASCAL-50S."""
    items = captau.load("flickr8k_expert", folder).items
    scores = items[["image_id", "caption"]].assign(score=items["caption"].str.len())
    scores.drop_duplicates(["image_id", "caption"]).to_csv(tmp_path / "mine.csv", index=False)
    metrics = ["bleu_1", str(tmp_path / "mine.csv")]
    options: Any = {"data_root": folder, "statistics": FAST}
    results = captau.bench(["flickr8k_expert", "pascal50s"], metrics, **options)
    rows = results.frames["overview.csv"].set_index(["dataset", "metric"])
    assert not math.isnan(rows.loc[("flickr8k_expert", "mine"), "value"])
    assert math.isnan(rows.loc[("pascal50s", "mine"), "value"])
    assert "has no score of these captions" in rows.loc[("pascal50s", "mine"), "note"]
    assert not math.isnan(rows.loc[("pascal50s", "bleu_1"), "value"])


@pytest.mark.slow
def test_several_runs_have_a_mean_over_what_all_their_metrics_have(
    survey: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Worked: half of τ_c and of 2a − 1; Caption-Quality, which one run alone has, is not in it. Items stand once."""
    write(tmp_path, "wide.py", "def width(caption, references):\n    return float(len(caption))\n")
    sets = "dataset=flickr8k_expert,pascal50s,caption_quality"
    words = [sets, f"data.root={folder}", f"metrics={tmp_path}/wide.py:width"]
    words.append(f"output_dir={tmp_path}/again")
    assert run_captau("bench", *words, "statistics.replicates=64") == 0
    capsys.readouterr()
    assert run_captau("table", f"run={survey},{tmp_path}/again") == 0
    shown = capsys.readouterr().out
    assert shown.count("Items, each dataset") == 1
    assert "mean: over Flickr8k-Expert, PASCAL-50S; an accuracy a counts as 2a − 1." in shown
    assert run_captau("table", f"run={survey},{tmp_path}/again", "style=csv") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    for row in rows:
        tau, accuracy = (float(row[h]) for h in ("Flickr8k-Expert τ_c", "PASCAL-50S mean acc. %"))
        assert float(row["mean"]) == pytest.approx((tau + 2 * accuracy - 100) / 2, abs=0.13)
    assert run_captau("cite", f"run={survey}") == 0
    assert "The mean is taken over Flickr8k-Expert, PASCAL-50S" in " ".join(
        capsys.readouterr().out.split()
    )


def test_the_table_of_a_paper_fits_its_column(survey: Path) -> None:
    """Type is never below LaTeX's scriptsize: what does not fit at that size takes the page's width."""
    table = join([read_run(survey)])
    beside = table.columns[0]
    assert isinstance(beside, Column)
    metrics = [row for row in table.rows if row.cells and row.kind == table.rows[-1].kind]
    for n_columns, is_wide in ((5, False), (12, True)):
        columns = [dataclasses.replace(beside, over=f"Set {i}") for i in range(n_columns)]
        rows = [
            dataclasses.replace(row, label=row.label[:8], cells=n_columns * list(row.cells[:1]))
            for row in metrics
        ]
        text = LAYOUTS["latex"](dataclasses.replace(table, columns=columns, rows=rows))
        assert ("table*" in text) == is_wide
        # Heads stand one word above the other, wherever the table stands.
        assert r"\rotatebox" not in text
        assert text.count(r"Set \\ ") == n_columns
