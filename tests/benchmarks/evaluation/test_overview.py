"""The overview of several datasets, its rows, table and notes whole: by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from captau.benchmarks.evaluation.overview import (
    DatasetsOverview,
    JointMean,
    OverviewColumn,
    compute_joint_mean,
)
from captau.benchmarks.runs.finished_run import FinishedRun
from captau.benchmarks.runs.results import OVERVIEW_COLUMNS
from captau.benchmarks.runs.tables import Column
from captau.benchmarks.scoring.catalog import MetricStyle
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import Interval, StatisticsOptions
from captau.metrics.base import Unavailability
from tests.benchmarks.printed import lines_of


def style(label: str, order: float, kind: str = "reference-based", note: str = "") -> MetricStyle:
    return MetricStyle(label, order, 1.0, 3, note, kind, True, "")


STYLES = {
    "m": style("M", 2, note="M is a metric."),
    "n": style("N", 1),
    "mine": style("Mine", 3, "given", "M is a metric."),
}
NO_REFERENCES = Unavailability(
    "needs references, which these captions do not have", "name others", need="references"
)
WHY = Unavailability("why.")


def row(
    value: float, low: float = math.nan, high: float = math.nan, note: str = ""
) -> dict[str, Any]:
    return {"value": value, "ci_low": low, "ci_high": high, "note": note}


def made(**changes: Any) -> DatasetsOverview:
    """Two datasets, of which the first quotes a dimension, with a mean of both; and one of ranks alone."""
    columns = [
        OverviewColumn(
            *("one", "One", "in_all", "tau_c"),
            {"m": row(0.5, 0.4, 0.6, "n1"), "n": row(0.25), "mine": row(0.375)},
            {"m": 1, "mine": 2},
            {},
            "in_all",
        ),
        OverviewColumn(
            *("thumb", "Two, long", "mean", "accuracy"),
            {"m": row(0.7), "n": row(0.8), "mine": row(math.nan)},
            {},
            {
                "mine": Unavailability("is broken."),
                "other": Unavailability("of no metric here"),
            },
        ),
    ]
    joint = JointMean(
        ["one", "thumb"],
        {"m": 0.45, "n": 0.425, "mine": 0.46},
        {"m": Interval(low=0.4, high=0.5), "mine": Interval(low=0.25, high=0.5)},
        {"m": 1, "n": 2, "mine": 1},
    )
    overview = DatasetsOverview(columns, joint, STYLES, StatisticsOptions(replicates=2000))
    return replace(overview, **changes)


WITHOUT = JointMean(reason="There is no mean.")


def test_metrics_stand_by_the_mean_and_then_by_the_first_dataset() -> None:
    assert made().metrics == ["mine", "m", "n"]
    assert made(joint=WITHOUT).metrics == ["m", "mine", "n"]
    equal = JointMean(["one"], {"m": 0.1, "n": 0.1, "mine": 0.2})
    assert made(joint=equal).metrics == ["mine", "m", "n"]
    undefined = replace(made().columns[0], rows={})
    assert made(columns=[undefined], joint=WITHOUT).metrics == ["n", "m", "mine"]


def test_rows_of_the_overview_are_a_metric_and_dataset_each_and_the_mean_last() -> None:
    frame = made().frame()
    assert tuple(frame.columns) == OVERVIEW_COLUMNS
    none = "None"
    note = "mean: over One; Two, long (an accuracy a counts as 2a − 1)."
    assert frame.astype(object).where(frame.notna(), none).to_numpy().tolist() == [
        ["m", "one", "in_all", "tau_c", 0.5, 0.4, 0.6, 1, "n1"],
        ["n", "one", "in_all", "tau_c", 0.25, none, none, none, ""],
        ["mine", "one", "in_all", "tau_c", 0.375, none, none, 2, ""],
        ["m", "thumb", "mean", "accuracy", 0.7, none, none, none, ""],
        ["n", "thumb", "mean", "accuracy", 0.8, none, none, none, ""],
        ["mine", "thumb", "mean", "accuracy", none, none, none, none, "is broken."],
        ["m", "mean", "", "mean", 0.45, 0.4, 0.5, 1, note],
        ["n", "mean", "", "mean", 0.425, none, none, 2, note],
        ["mine", "mean", "", "mean", 0.46, 0.25, 0.5, 1, note],
    ]
    without = made(joint=WITHOUT).frame()
    assert without["note"].tolist()[-3:] == ["There is no mean."] * 3
    assert without["value"].isna().tolist()[-3:] == [True] * 3
    missing = made(columns=[replace(made().columns[0], rows={}, ranks={})]).frame()
    assert missing["value"].isna().tolist()[:3] == [True] * 3
    assert missing["note"].tolist()[:3] == [""] * 3


def test_datasets_that_are_scored_one_reference_at_a_time_are_named_in_brief_notes() -> None:
    columns = [
        replace(made().columns[0], references_words="one reference counts"),
        made().columns[1],
    ]
    notes = [str(note) for note in made(columns=columns).table().without_details().notes]
    assert "One: one reference counts." in notes
    assert not [note for note in made().table().notes if "reference counts" in note]


def test_the_mean_says_which_datasets_it_leaves_out() -> None:
    """The second dataset has numbers of two metrics of three; one on which nothing has a number is no loss."""
    of_one = replace(made().joint, datasets=["one"])
    note = "mean: over One; Two, long is left out, since not all metrics have a number there."
    assert made(joint=of_one).mean_note() == note
    first, second = made().columns
    empty = replace(second, rows={})
    assert made(joint=of_one, columns=[first, empty]).mean_note() == "mean: over One."
    assert made(joint=of_one).table().notes[1] == note


def test_the_table_has_a_column_a_dataset_and_the_mean() -> None:
    table = made(absent=("x", "y")).table()
    assert table.title == "Agreement with people on several datasets"
    assert table.corner == "metric"
    assert table.heads == ["One in all τ_c", "Two, long acc. %", "mean", "±", "rank"]
    assert table.short_heads == ["One in all τ_c", "THumB acc. %", "mean", "±", "rank"]
    latex = [column.latex for column in table.columns if isinstance(column, Column)]
    assert latex == [r"One in all $\tau_c$", r"Two, long acc.\ \%"]
    assert lines_of(table) == [
        ("Mine", ["37.5", "–", "46.0", "12.5", "1"]),
        ("M", ["50.0", "70.0", "45.0", "5.0", "1"]),
        ("N", ["25.0", "80.0", "42.5", "–", "2"]),
    ]
    assert table.own_labels == {"Mine"}
    assert table.spare == ((1,),)
    assert table.verdict == (
        "Mine is first of three by the mean, 1.0 above M, but its lead over M is not significant."
    )
    assert table.notes == [
        "Coefficients ×100.",
        "mean: over One; Two, long (an accuracy a counts as 2a − 1).",
        "±: half the width of the 95 % interval (expanded percentile bootstrap over images, 2,000 replicates), "
        "an image drawn once for all datasets.",
        "rank: metrics that share a rank do not differ significantly (paired bootstrap over images, level 5 %, "
        "Benjamini-Hochberg).",
        "Two, long: Mine: is broken.",
        "M is a metric.",
        "Not here: x, y.",
    ]


def test_a_table_without_a_mean_has_neither_its_columns_nor_a_verdict() -> None:
    table = made(joint=WITHOUT).table()
    assert table.heads == ["One in all τ_c", "Two, long acc. %"]
    assert [len(cells) for _, cells in lines_of(table)] == [2, 2, 2]
    assert table.verdict == ""
    assert table.notes == [
        "Coefficients ×100.",
        "There is no mean.",
        "Two, long: Mine: is broken.",
        "M is a metric.",
    ]


@pytest.mark.parametrize(
    ("reasons", "notes"),
    [
        ([{"m": NO_REFERENCES}], ["One has no references, which M needs."]),
        (
            [{"m": NO_REFERENCES, "n": NO_REFERENCES}],
            ["One has no references, which M and N need."],
        ),
        (
            [dict.fromkeys(STYLES, NO_REFERENCES)],
            ["One has no references, which all of these metrics need."],
        ),
        (
            [dict.fromkeys(STYLES, NO_REFERENCES)] * 2,
            ["One, Two have no references, which all of these metrics need."],
        ),
        ([dict.fromkeys(STYLES, WHY)] * 2, ["One, Two: why."]),
        # Titles with commas are told apart.
        ([dict.fromkeys(STYLES, WHY)] * 3, ["One; Two; Three, short: why."]),
        (
            [{"m": WHY, "n": WHY}, {"m": WHY}],
            ["One: M, N: why.", "Two: M: why."],
        ),
        ([{"m": WHY}, {"m": WHY}], ["One, Two: M: why."]),
    ],
)
def test_reasons_stand_once_for_datasets_and_metrics(
    reasons: list[dict[str, Unavailability]], notes: list[str]
) -> None:
    columns = [
        OverviewColumn(f"d{n}", title, "x", "tau_c", reasons=of_dataset)
        for n, (title, of_dataset) in enumerate(
            zip(("One", "Two", "Three, short"), reasons, strict=False)
        )
    ]
    table = made(columns=columns, joint=WITHOUT).table()
    assert table.notes[2:-1] == notes


def test_a_column_is_that_of_a_measured_datasets_headline() -> None:
    names = ["metric", "dimension", "coefficient", "value", "note"]
    cells = [
        ("m", "x", "tau_c", 0.5, "a"),
        ("n", "x", "tau_c", math.nan, "undefined"),
        ("m", "x", "pearson", 0.9, ""),
        ("m", "y", "tau_c", 0.8, ""),
    ]
    card = SimpleNamespace(title="One", headline="x")
    measured = SimpleNamespace(
        headline=("x", "tau_c"),
        correlations=pd.DataFrame(cells, columns=pd.Index(names)),
        caption_set=SimpleNamespace(name="one", card=card),
        ranks={("m", "x", "tau_c"): 2, ("m", "x", "pearson"): 1, ("n", "y", "tau_c"): 3},
        protocol=Protocol.resolve("one", {}, {"references": "max_over_single"}),
    )
    reasons = {"k": Unavailability("needs a GPU")}
    found = OverviewColumn.of_dataset(cast(Any, measured), reasons)
    assert (found.dataset, found.title, found.dimension, found.coefficient, found.quoted) == (
        *("one", "One", "x", "tau_c", "x"),
    )
    assert {m: r["value"] for m, r in found.rows.items()}["m"] == 0.5
    assert list(found.rows) == ["m", "n"]
    assert found.ranks == {"m": 2}
    assert found.references_words.endswith("one reference at a time and the highest counts")
    assert found.reasons == {"n": Unavailability("undefined"), **reasons}
    assert found.value("m") == 0.5
    assert math.isnan(found.value("k"))


def test_heads_have_the_quoted_dimension_and_short_titles_those_of_cards() -> None:
    column = OverviewColumn("one", "One", "in_all", "tau_c")
    assert column.head("T", "s") == "T s"
    assert replace(column, quoted="in_all").head("T", "s") == "T in all s"
    assert replace(column, quoted="other").head("T", "s") == "T s"
    assert column.short_title == "One"
    assert replace(column, dataset="thumb").short_title == "THumB"
    assert replace(column, dataset="demo").short_title == "One"


RECORDS = [
    ("m", "one", "x", "tau_c", 0.5, 0.4, 0.6, 1, ""),
    ("n", "one", "x", "tau_c", 0.25, math.nan, math.nan, math.nan, ""),
    ("m", "thumb", "total", "pearson", 0.75, 0.4, 0.6, 2, ""),
    ("n", "thumb", "total", "pearson", math.nan, math.nan, math.nan, math.nan, "broken"),
]
MEANS = [
    ("m", "mean", "", "mean", 0.625, 0.5, 0.75, 1, "mean: over"),
    ("n", "mean", "", "mean", math.nan, math.nan, math.nan, math.nan, "mean: over"),
]


def finished(records: list[Any], *, is_there: bool = True, **changes: Any) -> Any:
    run = {
        "metrics": {"m": vars(STYLES["m"]), "n": vars(STYLES["n"])},
        "data": {"one": {"title": "The one", "headline": "x"}},
        "config": {"statistics": {"replicates": 7}, "absent": ["z"]},
        **changes,
    }
    frame = pd.DataFrame(records, columns=pd.Index(OVERVIEW_COLUMNS))
    return SimpleNamespace(
        has_file=lambda name: is_there,
        overview=frame,
        run=run,
        folder=Path(),
        find_reasons=FinishedRun(Path(), run).find_reasons,
        find_protocol=FinishedRun(Path(), run).find_protocol,
        verdicts=FinishedRun(Path(), run).verdicts,
    )


def test_an_overview_is_read_from_what_a_run_wrote() -> None:
    assert DatasetsOverview.of_run(finished([], is_there=False)) is None
    found = DatasetsOverview.of_run(finished([*RECORDS, *MEANS]))
    assert found is not None
    one, thumb = found.columns
    assert (one.dataset, one.title, one.dimension, one.coefficient, one.quoted) == (
        *("one", "The one", "x", "tau_c", "x"),
    )
    assert (one.value("m"), one.ranks, one.reasons) == (0.5, {"m": 1}, {})
    assert (thumb.dataset, thumb.title, thumb.dimension, thumb.quoted) == (
        *("thumb", "THumB 1.0", "total", ""),
    )
    assert (thumb.ranks, thumb.reasons) == ({"m": 2}, {"n": Unavailability("broken")})
    recorded = {"thumb": {"n": NO_REFERENCES.record()}}
    lacking = DatasetsOverview.of_run(finished([*RECORDS, *MEANS], missing=recorded))
    assert lacking is not None
    assert lacking.columns[1].reasons == {"n": NO_REFERENCES}
    assert found.joint == JointMean(
        ["one"], {"m": 0.625}, {"m": Interval(low=0.5, high=0.75)}, {"m": 1}
    )
    assert found.styles == {"m": STYLES["m"], "n": STYLES["n"]}
    assert found.statistics == StatisticsOptions(replicates=7)
    assert found.absent == ["z"]
    plain = DatasetsOverview.of_run(finished([*RECORDS, *MEANS], config={}))
    assert plain is not None
    assert (plain.statistics, plain.absent) == (StatisticsOptions(), ())


def test_a_run_without_a_mean_keeps_the_reason() -> None:
    without = [(*record[:4], *[math.nan] * 4, "no mean") for record in MEANS]
    found = DatasetsOverview.of_run(finished([*RECORDS, *without]))
    assert found is not None
    assert found.joint == JointMean(reason="no mean")
    assert found.mean_note() == "no mean"


def test_a_mean_needs_two_datasets_with_all_metrics_on_one_scale() -> None:
    columns = [
        OverviewColumn("one", "One", "x", "tau_c", {"m": row(0.5)}),
        OverviewColumn("two", "Two", "x", "average_precision", {"m": row(0.5)}),
        OverviewColumn("three", "Three", "x", "tau_b", {"n": row(0.5)}),
    ]
    found = compute_joint_mean([], columns, ["m"], StatisticsOptions(), cast(Any, None))
    assert found == JointMean(
        reason="There is no mean: fewer than two datasets with coefficients on one scale have all listed metrics."
    )
