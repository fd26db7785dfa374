"""The overview of a report page: its table, its best cells and its sentences, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.evaluation.pair_tests import Standing
from captau.benchmarks.reporting.part_tables import CoefficientTable, ScoreTable, list_notes
from captau.benchmarks.runs.finished_run import FinishedRun
from captau.benchmarks.runs.tables import MISSING, Cell, ResultTable, number_cell
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from tests.benchmarks.printed import lines_of

NAN = math.nan


class Part(SimpleNamespace):
    def label(self, metric: str) -> str:
        return metric.upper()

    def metric_kind(self, metric: str) -> str:
        kinds = {"m": "given", "ceiling_oracle": "people", "floor_random": "floor"}
        return kinds.get(metric, "learned")

    def score_cell(self, value: float, metric: str) -> Cell:
        return number_cell(value, 1, 2)


ROWS = [
    ("p", "tau_c", "a", 0.2, 0.1, 0.3),
    ("p", "tau_c", "m", 0.4, 0.3, 0.5),
    ("p", "tau_c", "u", NAN, NAN, NAN),
    ("p", "tau_c", "ceiling_oracle", 0.9, 0.8, 0.95),
    ("p", "tau_b", "a", 0.4, NAN, NAN),
    ("p", "tau_b", "m", 0.4, NAN, NAN),
    ("fit", "accuracy", "a", 0.7, 0.6, 0.8),
    ("mean", "accuracy", "a", 0.8, 0.7, 0.9),
    ("mean", "accuracy", "m", 0.6, 0.5, 0.7),
]


def best_of(table: ResultTable) -> set[tuple[int, int]]:
    """Return the row and the column of each cell that is marked as the best."""
    return {
        (number, column)
        for number, row in enumerate(table.rows)
        for column, cell in enumerate(row.cells)
        if isinstance(cell, Cell) and cell.emphasis == "best"
    }


def part_of(rows: list[Any], names: str = "amu", **record: Any) -> Any:
    columns = ["dimension", "coefficient", "metric", "value", "ci_low", "ci_high"]
    frame = pd.DataFrame(rows, columns=columns).assign(n_items=1234, n_ratings=5678, note="note")
    ranks = {("d", "p", "tau_c", "m"): 1, ("d", "p", "tau_c", "a"): 2, ("e", "p", "tau_b", "a"): 3}
    run = SimpleNamespace(
        run=record,
        command="bench",
        rank_by_key=ranks,
        find_protocol=lambda *_: record.get("protocol"),
        find_reasons=FinishedRun(Path("run"), record).find_reasons,
        has_file=lambda _: False,
        verdicts=record.get("verdicts", {}),
    )
    return Part(
        correlations=frame,
        run=run,
        dataset="d",
        protocol="usual",
        metrics=list(names),
        title="T",
        n_systems=record.get("n_systems"),
    )


def test_coefficients_stand_beside_their_intervals_and_ranks() -> None:
    table = CoefficientTable(part_of(ROWS)).table()
    assert table.title == "Coefficients ×100, the best of each in bold"
    assert table.corner == "metric"
    heads = ["τ_c", "interval", "rank", "τ_b", "fit acc. %", "mean acc. %", "interval", "kind"]
    assert table.heads == heads
    assert lines_of(table) == [
        ("M", ["40.0", "30.0 – 50.0", "1", "40.0", "", "60.0", "50.0 – 70.0", "given"]),
        ("A", ["20.0", "10.0 – 30.0", "2", "40.0", "70.0", "80.0", "70.0 – 90.0", "learned"]),
        ("U", [MISSING, MISSING, "", "", "", "", "", "learned"]),
        ("CEILING_ORACLE", ["90.0", "80.0 – 95.0", "", "", "", "", "", "people"]),
    ]
    # The best of M, A and U in the columns 0, 3, 4 and 5; what people reach does not compete.
    assert best_of(table) == {(0, 0), (0, 3), (1, 3), (1, 4), (1, 5)}
    assert table.lines_below == [
        "U (p τ_c): note.",
        "Ranks: metrics that share a rank do not differ significantly.",
    ]
    undefined = CoefficientTable(part_of(ROWS[2:3], "u")).table()
    assert lines_of(undefined) == [("U", [MISSING, "learned"])]
    assert best_of(undefined) == set()


def test_dimensions_are_named_where_there_are_several() -> None:
    one = CoefficientTable(part_of(ROWS))
    assert not one.has_several_dimensions
    assert one.columns == [("p", "tau_c"), ("p", "tau_b"), ("fit", "accuracy"), ("mean", "accuracy")]  # fmt: skip
    two = CoefficientTable(part_of([*ROWS, ("q", "tau_c", "a", 0.5, NAN, NAN)]))
    assert two.has_several_dimensions
    assert [two.head(column) for column in (("p", "tau_c"), ("q", "tau_c"))] == ["p τ_c", "q τ_c"]
    assert one.head(("p", "tau_c")) == "τ_c"
    assert one.head(("fit", "accuracy")) == "fit acc. %"
    assert math.isnan(one.value("gone", ("p", "tau_c")))
    assert one.cell("gone", ("p", "tau_c")) == ""
    assert str(one.cell("a", ("p", "tau_c"))) == "20.0"


def test_the_leading_column_is_the_headline() -> None:
    rows = [*ROWS, ("q", "tau_c", "a", 0.5, NAN, NAN), ("q", "tau_c", "m", 0.1, NAN, NAN)]
    named = part_of(rows, data={"d": {"headline": "q"}}, protocol={"coefficients": ["tau_c"]})
    assert CoefficientTable(named).leading_column == ("q", "tau_c")
    assert CoefficientTable(named).names == ["a", "m", "u", "ceiling_oracle"]
    pairs = part_of(ROWS, protocol={"coefficients": ["accuracy"]})
    assert CoefficientTable(pairs).leading_column == ("mean", "accuracy")
    assert CoefficientTable(part_of(ROWS)).ranks == {("m", "p", "tau_c"): 1, ("a", "p", "tau_c"): 2}


def test_the_verdict_names_the_dimension_where_it_has_to() -> None:
    own = CoefficientTable(part_of(ROWS)).verdict()
    assert own == "M is first of two, 20.0 above A, significantly ahead of A."
    rows = [row for row in ROWS if row[2] != "m"]
    # The oracle is no person.
    assert CoefficientTable(part_of(rows)).verdict() == "A reaches τ_c 20.0."
    person = ("p", "tau_c", "ceiling_one_vs_one", 0.45, 0.4, 0.5)
    one = CoefficientTable(part_of([*rows, person])).verdict()
    assert one == "A reaches τ_c 20.0; one person reaches 45.0 against another."
    few = CoefficientTable(part_of(ROWS, n_systems=5))
    assert few.verdict() == (
        "M is first of two, 20.0 above A; too few systems (5) to tell whether its lead is more than chance."
    )
    assert few.table().notes[-1] == (
        "The tests draw or swap images of these 5 systems; ranks and intervals say nothing of other systems."
    )
    two = CoefficientTable(part_of([*rows, ("q", "tau_c", "a", 0.5, NAN, NAN)])).verdict()
    assert two.startswith("A reaches p τ_c 20.0.")
    pairs = CoefficientTable(part_of(ROWS[7:8])).verdict()
    assert pairs.startswith("A reaches mean acc. 80.0")


def test_the_sentence_that_the_run_printed_comes_first() -> None:
    """A run without significance.csv keeps ranks alone, which say less than its tests did."""
    printed = "M is first of two, level with A and B."
    table = CoefficientTable(part_of(ROWS, verdicts={"d": printed, "mean": "Another."}))
    assert table.verdict() == printed
    other = CoefficientTable(part_of(ROWS, verdicts={"mean": "Another."}))
    assert other.verdict() == "M is first of two, 20.0 above A, significantly ahead of A."


def test_the_verdict_says_where_no_metric_finds_more_than_chance_does() -> None:
    """One of four captions is to be found, so that chance reaches an average precision of 25."""
    rows = [("p", "average_precision", "a", 0.3, 0.2, 0.4)]
    protocol = {"coefficients": ["average_precision"], "ratings": "per_rating", "level": "pooled"}
    part = part_of(rows, "a", protocol=protocol)
    part.ratings = pd.DataFrame({"dimension": ["p"] * 4 + ["q"], "value": [0, 1, 0, 0, 1]})
    assert CoefficientTable(part).verdict() == (
        "No metric agrees with people beyond chance; the best is A (AP 30.0, interval 20.0 to 40.0; chance reaches 25.0)."
    )
    # Means over images have no chance in common.
    part.run.run["protocol"] |= {"level": "by_image"}
    assert CoefficientTable(part).verdict() == "A reaches AP 30.0."


PROTOCOL = vars(Protocol.resolve("thumb", usual_protocol("thumb"), {}))


def test_the_lead_counts_captions_and_judgements() -> None:
    sizes = "1,234 captions, 5,678"
    assert CoefficientTable(part_of(ROWS)).lead() == f"{sizes} ratings; protocol usual."
    assert (
        CoefficientTable(part_of(ROWS[6:])).lead() == f"{sizes} preference pairs; protocol usual."
    )
    said = CoefficientTable(part_of(ROWS, protocols={"d": PROTOCOL})).lead()
    assert said.startswith(f"{sizes} ratings; protocol usual: an item's ratings are averaged; ")
    odd = part_of(ROWS, protocols={"d": PROTOCOL | {"colour": "red"}})
    assert CoefficientTable(odd).lead() == f"{sizes} ratings; protocol usual."


def test_notes_tell_of_metrics_that_are_missing_once() -> None:
    record = {
        "metrics": {"a": {"note": "A's note."}, "m": {"note": "A's note."}},
        "missing": {"d": {"u": {"problem": "no images"}}, "e": {"a": {"problem": "no"}}},
        "config": {"statistics": {"interval": "percentile", "replicates": 40}},
    }
    part = part_of(ROWS, **record)
    assert list(map(str, list_notes(part, {"interval"}))) == [
        "A's note.",
        "U is missing: no images.",
        "Intervals: 95 % interval (percentile bootstrap over images, 40 replicates).",
    ]
    assert list(map(str, list_notes(part, {"rank"})[2:])) == [
        "Ranks: metrics that share a rank do not differ significantly."
    ]
    assert list_notes(part_of(ROWS[:2]), {"interval"}) == []


def systems(*names: str, **changes: Any) -> Any:
    metrics = ["m", "n"]
    values = {"x": (0.5, 0.4, 0.7), "y": (0.25, NAN, NAN), "z": (0.1, 0.0, 0.1)}
    rows = {
        (s, m): dict(zip(("score", "ci_low", "ci_high"), values[s], strict=True))
        for s in names
        for m in metrics
    }
    made = {
        "metrics": metrics,
        "leading_position": 0,
        "systems": list(names),
        "rows": rows,
        "dataset": "refs",
        "corpus": pd.DataFrame({"n_images": [1000, 1234]}),
        "has_several_references": False,
        "agreement": {"m": "τ_c 10.0 on d", "n": ""},
        "differences": [],
        "standings": {
            "m": [Standing(s, 0.0, n // 2 + 1) for n, s in enumerate(sorted(names))],
            "n": [Standing(s, 0.0) for s in sorted(names, reverse=True)],
        },
        "statistics": StatisticsOptions(level=0.9, correction="holm"),
        "run": SimpleNamespace(run=changes.pop("record", {})),
    }
    return Part(**(made | changes))


def test_systems_are_columns_and_the_best_of_a_row_are_bold() -> None:
    """By m x and y share rank 1; by n, which was not tested, z alone is the best."""
    table = ScoreTable(systems("y", "x", "z", record={"notes": ["more"]})).table()
    assert (table.title, table.corner) == ("Scores of all captions together", "metric")
    assert table.heads == ["y", "x", "z", "agreement with people"]
    cells = ["0.25", "0.50 ± 0.15", "0.10 ± 0.05"]
    assert lines_of(table) == [("M", [*cells, "τ_c 10.0 on d"]), ("N", [*cells, "not known"])]
    assert best_of(table) == {(0, 0), (0, 1), (1, 2)}
    assert table.notes == ["Bold: the best system of a row.", "more"]
    tested = ScoreTable(systems("x", "y", differences=[1])).table()
    assert tested.notes == [
        "Bold: the best system of a row and those that share its rank: they do not differ significantly (paired "
        "bootstrap over images, level 10 %, Holm)."
    ]
    alone = ScoreTable(systems("x", agreement={"m": "", "n": ""})).table()
    assert (alone.heads, alone.notes, best_of(alone)) == (["x"], [], set())
    # The metric by which the sentence orders systems comes first.
    assert [row.label for row in ScoreTable(systems("x", leading_position=1)).table().rows] == [
        "N",
        "M",
    ]


@pytest.mark.parametrize(
    ("names", "several", "text"),
    [
        ("x", False, "1,234 captions."),
        ("xy", False, "1,234 captions of each of 2 systems."),
        ("x", True, "1,234 captions, scored against the references refs."),
    ],
)
def test_the_lead_counts_systems(names: str, several: bool, text: str) -> None:
    assert ScoreTable(systems(*names, has_several_references=several)).lead() == text
