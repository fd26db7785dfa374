"""Cells of published tables, rebuilt of made-up data: worked by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.papers import published_cells, published_tables
from captau.benchmarks.evaluation.papers.published_cells import BOUNDS, TABLE_KINDS
from captau.benchmarks.evaluation.papers.published_numbers import PaperTable
from captau.benchmarks.evaluation.papers.published_sources import TableCell, TableSources
from captau.benchmarks.evaluation.papers.published_tables import TableRebuilder
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.scoring.score_store import Locations
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.learned.rater import RaterCard
from tests.conftest import says

BOTH = {"dimension": ["precision", "total"]}
#: Ratings of A's captions of images 1, 2 and 3, then of B's.
PRECISION = (5, 4, 3, 1, 4, 1)
TOTAL = (2, 2, 2, 4, 2, 0)


def made(name: str = "thumb") -> CaptionSet:
    items = make_items(
        ["1", "2", "3"] * 2,
        ["a dog", "a cat", "a cow", "one dog", "one cat", "a cow"],
        [(f"text {n}", "x") for n in range(3)] * 2,
        systems=["A"] * 3 + ["B"] * 3,
        splits=["train", "train", "test"] * 2,
    )
    rows = [
        (item, dimension, rater, float(value))
        for dimension, values in (("precision", PRECISION), ("total", TOTAL))
        for rater in ("r", "s")
        for item, value in zip(items["item_id"], values, strict=True)
    ]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    card = Card(
        *(name, "Made", "1", "none", "none", "none"),
        scales={"precision": Scale(1, 5, 1.0), "total": Scale(0, 4, 1.0)},
    )
    return CaptionSet(items, ratings=ratings, card=card)


class MadeSources(TableSources):
    """Sources whose correlations encode metric, dimension and coefficient, with a note of each."""

    def measure(self, table: Any, protocol: Any, specs: Any, statistics: Any = None) -> Any:
        selection = EvaluationSet.select(self.load(table.dataset), protocol)
        rows = [
            {
                "metric": spec,
                "dimension": dimension,
                "coefficient": coefficient,
                "value": (value := self.value(spec, dimension, coefficient, protocol)),
                "ci_low": value - 0.125,
                "ci_high": value + 0.25,
                "note": f"{spec} {dimension} {coefficient}",
            }
            for spec in specs
            for dimension in protocol.dimension
            for coefficient in protocol.coefficients
        ]
        by_metric = {s: pd.Series(np.arange(1.0, 7) * (1 + n)) for n, s in enumerate(specs)}
        CALLS.append((list(self.protocols)[-1], tuple(specs), statistics))
        return SimpleNamespace(
            correlations=pd.DataFrame(rows),
            selection=selection,
            items=selection.items,
            by_metric=by_metric,
        )

    @staticmethod
    def value(spec: str, dimension: str, coefficient: str, protocol: Any) -> float:
        parts = [len(spec) * 0.01, dimension == "total", 0.5 * (coefficient == "pearson")]
        return float(sum(parts)) + 2 * (protocol.ratings == "median")


CALLS: list[Any] = []


@pytest.fixture
def sources(tmp_path: Path) -> MadeSources:
    CALLS.clear()
    locations = Locations(data_root=tmp_path, use_cache=False)
    return MadeSources(
        locations,
        ("meteor",),
        locations.store(),
        StepProgress(None),
        caption_sets={"thumb": made(), "fleur": made("fleur")},
    )


def rebuild(sources: TableSources, table: PaperTable) -> dict[tuple[str, str], tuple[float, str]]:
    cells = TABLE_KINDS[table.kind](sources, table, "paper")
    return {key: (cell.value, cell.note) for key, cell in cells.items()}


def test_cells_of_correlations_are_those_of_their_metric_and_column(sources: MadeSources) -> None:
    table = PaperTable(
        "Table 1",
        "correlation",
        "thumb",
        scale=100,
        protocol=BOTH,
        rows={"B": "bleu_1", "R": "rouge_l", "len": "floor_length", "N": None, "M": "meteor"},
        columns={
            "first": {"coefficient": "tau_c"},
            "total": {"coefficient": "pearson", "dimension": "total"},
            "other": {"coefficient": "tau_c", "protocol": {"ratings": "median"}},
        },
        row_protocols={"R": {"ratings": "median"}},
    )
    cells = rebuild(sources, table)
    shown = {
        key: (pytest.approx(value), note)
        for key, (value, note) in cells.items()
        if note[:3] != "not"
    }
    values = {
        ("B", "first"): (6.0, "bleu_1 precision tau_c"),
        ("B", "total"): (156.0, "bleu_1 total pearson"),
        ("B", "other"): (206.0, "bleu_1 precision tau_c"),
        ("R", "first"): (207.0, "rouge_l precision tau_c"),
        ("R", "total"): (357.0, "rouge_l total pearson"),
        ("R", "other"): (207.0, "rouge_l precision tau_c"),
        ("len", "first"): (12.0, "floor_length precision tau_c"),
        ("len", "total"): (162.0, "floor_length total pearson"),
        ("len", "other"): (212.0, "floor_length precision tau_c"),
    }
    for row, reason in (("N", "this metric is not part of captau"), ("M", "leave_out=meteor")):
        for column in table.columns:
            value, note = cells.pop((row, column))
            assert math.isnan(value)
            assert note == TableCell.missing(reason).note
            shown.pop((row, column), None)
    assert shown == values
    none = CALLS[0][2]
    assert [
        ("paper first", ("bleu_1", "floor_length"), none),
        ("paper first R", ("rouge_l",), none),
        ("paper other", ("bleu_1", "floor_length"), none),
        ("paper other R", ("rouge_l",), none),
    ] == CALLS
    assert none.interval == "none"


def test_bounds_say_how_far_the_interval_reaches(sources: MadeSources) -> None:
    columns = {
        "value": {"coefficient": "tau_c", "dimension": "total"},
        "above": {"coefficient": "tau_c", "dimension": "total", "bound": "high"},
        "below": {"coefficient": "tau_c", "dimension": "total", "bound": "low"},
    }
    table = PaperTable(
        *("T", "bounds", "thumb"), scale=10, protocol=BOTH, rows={"B": "bleu_1"}, columns=columns
    )
    cells = rebuild(sources, table)
    assert [cells["B", column][0] for column in columns] == pytest.approx([10.6, 2.5, 1.25])
    assert [statistics for *_, statistics in CALLS] == [BOUNDS]
    assert (BOUNDS.interval, BOUNDS.level) == ("percentile", 0.9)
    assert list(sources.protocols) == ["paper"]


def test_a_table_of_metrics_that_are_missing_measures_nothing(sources: MadeSources) -> None:
    table = PaperTable(
        *("T", "correlation", "thumb"), rows={"N": None}, columns={"t": {"coefficient": "tau_c"}}
    )
    assert list(rebuild(sources, table)) == [("N", "t")]
    assert CALLS == []


def test_means_of_systems_are_those_of_their_captions(sources: MadeSources) -> None:
    """A's precision is (5 + 4 + 3) / 3, B's (1 + 4 + 1) / 3; scores are 1 to 6, A's first."""
    columns = {
        "P": {"dimension": "precision"},
        "above": {"dimension": "precision", "bound": "high"},
        "below": {"dimension": "precision", "bound": "low"},
        "BLEU": {"metric": "bleu_1", "scale": 1},
        "ROUGE": {"metric": "rouge_l"},
        "none": {"metric": "meteor"},
    }
    table = PaperTable(
        *("T", "system_means", "thumb"),
        scale=10,
        protocol=BOTH,
        rows={"a": "A", "b": "B"},
        columns=columns,
    )
    cells = rebuild(sources, table)
    values = {column: [cells[row, column][0] for row in "ab"] for column in columns}
    assert values["P"] == pytest.approx([40, 20])
    assert values["BLEU"] == pytest.approx([2, 5])
    assert values["ROUGE"] == pytest.approx([40, 100])
    # One resample in 27 draws A's 5 thrice, three more draw it twice beside the 4; likewise B's 4.
    assert values["above"] == pytest.approx([20 / 3, 10])
    assert values["below"] == pytest.approx([20 / 3, 10])
    for row in "ab":
        assert math.isnan(cells[row, "none"][0])
        assert cells[row, "none"][1] == TableCell.missing("leave_out=meteor").note
    assert [specs for _, specs, _ in CALLS] == [("bleu_1", "rouge_l")]


def test_single_captions_have_their_own_ratings_and_scores(sources: MadeSources) -> None:
    """A caption is named by its image and system, or by its item; the made scores count the items."""
    items = sources.load("thumb").items
    third = items.iloc[2]
    table = PaperTable(
        "T",
        "captions",
        "thumb",
        protocol=BOTH,
        rows={"by system": f"{third['image_id']}/{third['system']}", "by id": third["item_id"]},
        columns={
            "P": {"dimension": "precision"},
            "total": {"dimension": "total", "scale": -1},
            "BLEU": {"metric": "bleu_1", "scale": 10},
            "none": {"metric": "meteor"},
        },
    )
    cells = rebuild(sources, table)
    for row in table.rows:
        assert cells[row, "P"][0] == PRECISION[2]
        assert cells[row, "total"][0] == -TOTAL[2]
        assert cells[row, "BLEU"][0] == 30
        assert cells[row, "none"][1] == TableCell.missing("leave_out=meteor").note

    unknown = replace(table, rows={"x": "9/nobody"})
    with says("dataset thumb: it has 0 captions 9/nobody, where T shows one; captau data verify"):
        rebuild(sources, unknown)


def test_best_and_worst_are_counted(sources: MadeSources) -> None:
    """On precision A is best of images 1 and 3, both of 2; on the total B of 1, both of 2, A of 3."""
    table = PaperTable(
        "T",
        "best_worst",
        "thumb",
        protocol=BOTH,
        rows={"top": "best", "bottom": "worst"},
        columns={"a": {"system": "A"}, "b": {"system": "B"}},
    )
    cells = rebuild(sources, table)
    assert {key: value for key, (value, _) in cells.items()} == {
        ("top", "a"): 2.0,
        ("top", "b"): 1.0,
        ("bottom", "a"): 1.0,
        ("bottom", "b"): 2.0,
    }


def test_agreement_is_that_of_the_raters(sources: MadeSources) -> None:
    """Both raters say the same."""
    table = PaperTable(
        "T",
        "agreement",
        "thumb",
        scale=100,
        protocol={"dimension": "precision"},
        rows={"alpha": "krippendorff_alpha_interval", "equal": "percent_agreement"},
        columns={"x": {}, "y": {}},
    )
    cells = rebuild(sources, table)
    assert set(cells) == {(row, column) for row in table.rows for column in "xy"}
    assert [value for value, _ in cells.values()] == pytest.approx([100.0] * 4)


def test_scores_of_authors_are_joined_by_image_and_caption(sources: MadeSources) -> None:
    """The authors' scores are the ratings of five captions; the sixth is that of A once more."""
    authors = made("fleur")
    ratings = authors.ratings[authors.ratings["rater"] == "r"].copy()
    ratings["dimension"] = ratings["dimension"].map({"precision": "raw", "total": "smoothed"})
    card = Card(
        *("fleur", "Made", "1", "none", "none", "none"),
        scales={d: Scale(0, 5) for d in ("raw", "smoothed")},
    )
    items = authors.items.assign(system="part")[:5]  # both wrote the same of image 3
    ratings = ratings[ratings["item_id"].isin(items["item_id"])]
    sources.caption_sets["fleur"] = CaptionSet(items, ratings=ratings, card=card)
    table = PaperTable(
        "T",
        "author_scores",
        "thumb",
        scale=100,
        protocol={"dimension": ["precision", "total"], "ratings": "mean", "corpus": "dataset"},
        rows={"Raw": "raw", "Smooth": "smoothed"},
        columns={
            "P": {"coefficient": "pearson", "part": "part"},
            "T": {"coefficient": "pearson", "part": "part", "dimension": "total"},
        },
    )
    cells = rebuild(sources, table)
    raw, smooth = (5, 4, 3, 1, 4, 3), (2, 2, 2, 4, 2, 2)
    r = np.corrcoef([raw, smooth, PRECISION, TOTAL])
    assert {key: value for key, (value, _) in cells.items()} == pytest.approx(
        {
            ("Raw", "P"): 100 * r[0, 2],
            ("Raw", "T"): 100 * r[0, 3],
            ("Smooth", "P"): 100 * r[1, 2],
            ("Smooth", "T"): 100 * r[1, 3],
        }
    )
    sources.caption_sets["fleur"] = CaptionSet(
        items[:4], ratings=ratings[ratings["item_id"].isin(items["item_id"][:4])], card=card
    )
    with says("dataset fleur: the file of part has no score of 1 of 6 captions of thumb"):
        rebuild(sources, table)


def write(folder: Path, name: str, captions: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(captions), encoding="utf-8")


def test_human_captions_are_scored_against_the_file_of_references(
    sources: MadeSources, tmp_path: Path
) -> None:
    write(tmp_path, "refs.json", {"1": ["a dog runs"], "2": ["one cat"]})
    write(tmp_path, "held.json", {"1": "a dog runs", "2": "one cat", "3": "no"})
    column = {"references": "refs.json", "held_out": "held.json", "why": "see there"}
    table = PaperTable(
        "T",
        "human",
        "coco",
        scale=100,
        rows={"ROUGE": "rouge_l", "METEOR": "meteor"},
        columns={"c5": column, "c40": {**column, "references": "more.json"}},
    )
    cells = rebuild(sources, table)
    assert cells.pop(("ROUGE", "c5")) == (pytest.approx(100.0), "")
    notes = {key: note for key, (_, note) in cells.items()}
    absent = TableCell.missing("no file more.json under data.root; see there").note
    assert notes == {
        ("METEOR", "c5"): TableCell.missing("leave_out=meteor").note,
        ("ROUGE", "c40"): absent,
        ("METEOR", "c40"): absent,
    }
    assert list(sources.metrics) == ["rouge_l"]
    write(tmp_path, "held.json", {"1": "a dog runs"})
    with says("held.json: no caption of image '2' of"):
        rebuild(sources, table)


def test_images_and_captions_of_a_file_are_counted(sources: MadeSources, tmp_path: Path) -> None:
    write(tmp_path, "refs.json", {"1": ["a", "b", "c"], "2": ["d"]})
    table = PaperTable(
        "T",
        "counts",
        "coco",
        note="get it there",
        rows={"Train": "refs.json", "Test": "none.json"},
        columns={"Images": {"of": "images"}, "Captions": {"of": "captions"}},
    )
    cells = rebuild(sources, table)
    assert [cells["Train", column] for column in table.columns] == [(2.0, ""), (4.0, "")]
    note = TableCell.missing("no file none.json under data.root; get it there").note
    assert [cells["Test", column][1] for column in table.columns] == [note] * 2


def test_folds_are_counted(sources: MadeSources, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a\nb\nc\n", encoding="utf-8")
    of = ("samples", "images", "captions", "systems", "ratings", "raters", "pairs")
    table = PaperTable(
        "T",
        "fold_counts",
        "thumb",
        rows={"Train": "train", "All": "all", "Dev": "validation"},
        columns={
            **{name: {"of": name} for name in of},
            "lines": {"file": "list.txt"},
            "absent": {"file": "no.txt"},
        },
    )
    cells = rebuild(sources, table)
    # 4 captions in train, by both systems; "a cow" of image 3 stands there twice in all.
    assert [cells["Train", name][0] for name in (*of, "lines")] == [4, 2, 4, 2, 16, 2, 0, 3]
    assert [cells["All", name][0] for name in (*of, "lines")] == [6, 3, 5, 2, 24, 2, 0, 3]
    missing = TableCell.missing("the data are not here: fold validation of thumb").note
    assert {cells["Dev", name][1] for name in table.columns} == {missing}
    assert cells["All", "absent"][1] == TableCell.missing("no file no.txt under data.root").note


def test_missing_rows_and_columns_have_their_reason(sources: MadeSources, tmp_path: Path) -> None:
    write(tmp_path, "refs.json", {"1": ["a", "b", "c"]})
    locations = sources.locations
    rebuilder = TableRebuilder(locations, (), locations.store(), StepProgress(None))
    gone = TableCell.missing("gone")
    table = PaperTable(
        "T",
        "counts",
        "coco",
        rows={"Train": "refs.json", "Old": gone.note},
        columns={"Images": {"of": "images"}, "No": {"missing": "never"}},
    )
    cells = rebuilder.rebuild("paper", table)
    assert {key: cell.note for key, cell in cells.items()} == {
        ("Train", "Images"): "",
        ("Train", "No"): TableCell.missing("never").note,
        ("Old", "Images"): gone.note,
        ("Old", "No"): gone.note,
    }
    assert cells["Train", "Images"].value == 1.0
    strange = PaperTable(
        "T",
        "correlation",
        "of_nobody",
        rows={"B": "bleu_1", "N": None},
        columns={"t": {"coefficient": "tau_c"}},
    )
    notes = {row: cell.note for (row, _), cell in rebuilder.rebuild("paper", strange).items()}
    assert notes == {
        "B": TableCell.missing("the dataset is not in this version of captau").note,
        "N": TableCell.missing("this metric is not part of captau").note,
    }


def test_reasons_of_metrics(sources: MadeSources) -> None:
    assert sources.metric_reason(None) == "this metric is not part of captau"
    assert sources.metric_reason("floor_length") == ""
    assert sources.metric_reason("bleu_1") == ""
    assert sources.metric_reason("lost(a=1)") == "metric lost(a=1) is not in this version of captau"
    table = PaperTable("T", "correlation", "thumb")
    assert sources.unavailable_reason(table, "meteor(backend=java)") == "leave_out=meteor"
    assert sources.unavailable_reason(table, "floor_position") == ""
    assert sources.unavailable_reason(table, "rouge_l") == ""
    assert (
        sources.unavailable_reason(table, "lost") == "metric lost is not in this version of captau"
    )


class Rater:
    """A rater that was trained on two images."""

    def __init__(self, spec: str) -> None:
        self.spec = spec

    def training_overlap_note(self, images: list[str]) -> str | None:
        assert sorted(set(images)) == ["1", "2", "3"]
        return None if self.spec == "r2" else "chosen by 2 of these images"


@pytest.fixture
def raters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every metric be a `Rater`."""
    monkeypatch.setattr(published_cells, "metric", Rater)


ErrorMeasure = Callable[[Any, EvaluationSet], float]


@pytest.fixture
def measure_errors_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[ErrorMeasure], None]:
    """Return a function that puts another measure of a rater's errors in the place of captau's."""
    return lambda measure: monkeypatch.setattr(published_cells, "compute_rating_error", measure)


def test_errors_of_raters_are_against_mean_ratings(
    sources: MadeSources, raters: None, measure_errors_by: Callable[[ErrorMeasure], None]
) -> None:
    def measure_error(rater: Any, selection: EvaluationSet) -> float:
        measured.append((rater.spec, selection.protocol.ratings, selection.protocol.dimension))
        return 0.25 if rater.spec == "r1" else 0.5

    measured: list[Any] = []
    measure_errors_by(measure_error)
    table = PaperTable(
        "T",
        "correlation",
        "thumb",
        scale=10,
        protocol={"dimension": ["precision", "total"]},
        rows={"one": "r1", "two": "r2"},
        columns={
            "e": {"error": "mse", "protocol": {"dimension": "total", "ratings": "median"}},
            "f": {"error": "mse"},
        },
    )
    assert rebuild(sources, table) == {
        ("one", "e"): (2.5, "chosen by 2 of these images"),
        ("one", "f"): (2.5, "chosen by 2 of these images"),
        ("two", "e"): (5.0, ""),
        ("two", "f"): (5.0, ""),
    }
    both = ("precision", "total")
    assert measured == [
        *((spec, "mean", ("total",)) for spec in ("r1", "r2")),
        *((spec, "mean", both) for spec in ("r1", "r2")),
    ]
    assert list(sources.protocols) == ["paper e", "paper f"]


def test_errors_stand_beside_coefficients(
    sources: MadeSources, measure_errors_by: Callable[[ErrorMeasure], None]
) -> None:
    measure_errors_by(lambda *_: 0.5)
    table = PaperTable(
        *("T", "correlation", "thumb"),
        protocol=BOTH,
        rows={"B": "bleu_1"},
        columns={"tau": {"coefficient": "tau_c"}, "e": {"error": "mse"}},
    )
    assert {key: value for key, (value, _) in rebuild(sources, table).items()} == {
        ("B", "tau"): pytest.approx(0.06),
        ("B", "e"): 0.5,
    }


def test_histories_have_the_validation_of_a_stage(
    sources: MadeSources, raters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        published_cells, "read_best_validation", lambda rater, stage: len(rater.spec) + len(stage)
    )
    table = PaperTable(
        *("T", "histories", "thumb"),
        rows={"one": "r1", "two": "rr2"},
        columns={"a": {"stage": "pre"}, "b": {"stage": "train"}},
    )
    assert rebuild(sources, table) == {
        ("one", "a"): (5, ""),
        ("one", "b"): (7, ""),
        ("two", "a"): (6, ""),
        ("two", "b"): (8, ""),
    }


def write_features(folder: Path, image_ids: Sequence[str]) -> dict[str, str]:
    """Write features of images and of the captions of `made`, and return the options that name them."""
    ones = np.ones((len(image_ids), 2))
    np.savez(folder / "images.npz", image_id=np.array(image_ids), embedding=ones)
    captions = sorted(set(made().items["caption"]))
    np.savez(
        folder / "texts.npz", caption=np.array(captions), embedding=np.ones((len(captions), 2))
    )
    return {kind: str(folder / f"{kind}.npz") for kind in ("images", "texts")}


def test_a_row_of_raters_is_the_mean_of_those_that_fit(
    sources: MadeSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four raters two fit; the column of train images is refused to one that was trained on image 2."""

    def compute(sources: Any, table: PaperTable, label: str) -> Any:
        labels.append(label)
        values = {
            folder: (0.25, "seen") if folder.endswith("a") else (0.75, "seen")
            for folder in table.rows
        }
        return {(r, c): TableCell(*values[r]) for r in table.rows for c in table.columns}

    labels: list[str] = []
    monkeypatch.setitem(published_tables.TABLE_KINDS, "correlation", compute)
    features = write_features(tmp_path, image_ids=["1", "2", "3"])
    folders: list[Path] = []
    for name, rater, images in (
        ("a", "qe", ("2", "9")),
        ("b", "qe", ()),
        ("c", "icr", ()),
        ("d", "qe", ()),
    ):
        folder = tmp_path / name
        folder.mkdir()
        data = {"one": {}} if name != "d" else {}
        RaterCard(rater, features, 0, images, "f", {"data": data}).write(folder)
        folders.append(folder)
    rebuilder = TableRebuilder(
        *(sources.locations, (), sources.store, StepProgress(None)),
        caption_sets={"thumb": made()},
        rater_folders=tuple(folders),
    )
    columns = {
        "all": {"coefficient": "tau_c", "protocol": {"split": "test"}},
        "train": {"coefficient": "tau_c", "protocol": {"split": "train"}},
        "gone": {"missing": "never"},
        "error": {"missing": "never", "error": "mse"},
    }
    table = PaperTable(
        *("T", "correlation", "thumb"),
        protocol={"dimension": ["precision"]},
        rows={"QE": TableCell.missing("not here").note},
        columns=columns,
        row_raters={
            "QE": {"rater": "qe", "trained_on": ["one"]},
            "X": {"rater": "x", "trained_on": []},
        },
    )
    cells = {
        key: (cell.value, cell.note) for key, cell in rebuilder.rebuild("paper", table).items()
    }
    trained = f"{folders[0]} was trained on 1 of the {{}} images that it would be tested on"
    assert cells["QE", "all"] == (0.5, "2 raters of your own, not the paper's; seen")
    assert cells["QE", "train"][1] == TableCell.missing(trained.format(2)).note
    assert cells["QE", "error"][1] == TableCell.missing(trained.format(3)).note
    assert cells["QE", "gone"][1] == TableCell.missing("not here").note
    assert {row for row, _ in cells} == {"QE"}
    assert labels == ["paper T thumb"]
    one = replace(rebuilder, rater_folders=tuple(folders[1:]))
    cells = {key: (cell.value, cell.note) for key, cell in one.rebuild("paper", table).items()}
    assert cells["QE", "train"] == (0.75, "1 rater of your own, not the paper's; seen")
    filled = {key for key, cell in one.rebuild("paper", table).items() if cell.is_own_rater}
    assert {("QE", "all"), ("QE", "train")} <= filled
    assert ("QE", "gone") not in filled

    # Image 3, which train images are not, has no features any more.
    write_features(tmp_path, image_ids=["1", "2"])
    cells = {key: (cell.value, cell.note) for key, cell in one.rebuild("paper", table).items()}
    assert cells["QE", "train"][0] == 0.75
    assert cells["QE", "all"][1].startswith(
        f"missing: {folders[1]} lacks features of these captions"
    )

    nothing = replace(rebuilder, rater_folders=tuple(folders[2:]))
    assert {cell.note for cell in nothing.rebuild("paper", table).values()} == {
        TableCell.missing("not here").note
    }


def test_scores_that_authors_publish_fill_what_is_not_computed(sources: MadeSources) -> None:
    """A has scores of all its captions, B of two of three: worked by hand, B's mean has no value."""
    people = made()
    authors = made("authors")
    items = authors.items[:5]
    scores = pd.Series([1.0, 2.0, 6.0, 1.0, 2.0])
    columns = pd.Index(["item_id", "dimension", "rater", "value"])
    rows = [
        (item, "S", "authors", value) for item, value in zip(items["item_id"], scores, strict=True)
    ]
    card = Card(*("authors", "Made", "1", "none", "none", "none"), scales={"S": Scale(0, 9)})
    released = CaptionSet(items, ratings=pd.DataFrame(rows, columns=columns), card=card)
    rebuilder = TableRebuilder(
        *(sources.locations, (), sources.store, StepProgress(None)),
        caption_sets={"thumb": people, "authors": released},
    )
    about = {"dataset": "authors", "dimension": "S", "note": "of five references"}
    means = PaperTable(
        *("T", "system_means", "thumb"),
        protocol=BOTH,
        rows={"a": "A", "b": "B"},
        columns={"C": {"metric": "clipscore", "scale": 10}, "P": {"dimension": "precision"}},
        author_scores={"C": about},
    )
    cells = rebuilder.rebuild("paper", means)
    assert cells["a", "C"] == TableCell(
        30.0, "of the scores that the authors publish; of five references"
    )
    assert math.isnan(cells["b", "C"].value)
    assert cells["a", "P"].value == pytest.approx(4)

    of_a = {"coefficient": "pearson", "dimension": "precision", "protocol": {"systems": ["A"]}}
    correlations = PaperTable(
        *("T", "correlation", "thumb"),
        protocol={**BOTH, "ratings": "mean"},
        rows={"C": "clipscore"},
        columns={"A": of_a, "all": {"coefficient": "pearson", "dimension": "precision"}},
        author_scores={"C": about},
    )
    cells = rebuilder.rebuild("paper", correlations)
    # Scores 1, 2, 6 and ratings 5, 4, 3: -5 / sqrt(14 · 2).
    assert cells["C", "A"].value == pytest.approx(-5 / math.sqrt(28))
    assert math.isnan(cells["C", "all"].value)
