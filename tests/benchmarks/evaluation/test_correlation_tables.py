"""Tables of a measured dataset, whole, of made-up numbers; and the columns that a narrow terminal spares."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from captau.benchmarks.evaluation.correlation_tables import correlation_table
from captau.benchmarks.evaluation.difference_tables import (
    difference_tables,
    disattenuated_tables,
    significance_frames,
)
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.pair_tests import PairTests
from captau.benchmarks.runs.tables import Column
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from captau.metrics.registry import metric
from tests.benchmarks.printed import lines_of

NAN = math.nan
NONE = StatisticsOptions(interval="none")
CORRELATION_NAMES = ["metric", "dimension", "coefficient", "value", "ci_low", "ci_high", "note"]
DIFFERENCE_NAMES = [
    "dimension",
    "coefficient",
    "metric_a",
    "metric_b",
    "test",
    "value_a",
    "value_b",
]
DIFFERENCE_NAMES += ["difference", "ci_low", "ci_high", "p_value", "p_bh", "p_holm", "note"]
DIFFERENCE_NAMES += ["n_images"]


def select(
    *, images: int = 2, winners: Any = (), dimensions: Any = ("x", "y_z"), **changes: Any
) -> EvaluationSet:
    """Captions of an image each, of which some have two references, rated on the dimensions."""
    fields = changes.pop("card", {})
    references = [("r", "s") if n % 2 else ("r",) for n in range(images)]
    items = make_items(
        [str(n) for n in range(images)], [f"c{n}" for n in range(images)], references
    )
    ids = items["item_id"].tolist()
    rows = [(i, d, "r", float(n % 3)) for d in dimensions for n, i in enumerate(ids)]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    pairs = [(f"p{k}", ids[a], ids[b], d, w) for k, (a, b, d, w) in enumerate(winners)]
    scales = {d: Scale(0, 9) for d in dimensions}
    card = Card(*("made", "Made", "1", "", "", ""), scales=scales, labels={"x": "X"}, **fields)
    captions = CaptionSet(items, ratings, preferences=make_preferences(pairs), card=card)
    return EvaluationSet.select(captions, Protocol.resolve("made", {}, changes))


def made(
    selection: EvaluationSet,
    rows: list[tuple[Any, ...]],
    *,
    headline: tuple[str, str] = ("x", "tau_c"),
    ranks: Any = None,
    statistics: StatisticsOptions = NONE,
    differences: list[tuple[Any, ...]] | None = None,
    metrics: int = 2,
    **changes: Any,
) -> Any:
    frame = pd.DataFrame(
        [(*row, 3, 4 if row[2] == "accuracy" else 1234) for row in rows],
        columns=pd.Index([*CORRELATION_NAMES, "n_items", "n_ratings"]),
    )
    is_printed = frame["coefficient"].isin(selection.protocol.coefficients)
    of_pairs = None
    if differences is not None:
        of_pairs = pd.DataFrame(differences, columns=pd.Index(DIFFERENCE_NAMES))

    def find_pair_tests(*column: str) -> PairTests:
        if of_pairs is None:
            return PairTests()
        return PairTests.of_significance(of_pairs, column, statistics, changes.get("n_systems"))

    return SimpleNamespace(
        correlations=frame,
        printed_correlations=frame[is_printed],
        headline=headline,
        caption_set=selection.caption_set,
        selection=selection,
        protocol=selection.protocol,
        items=selection.items,
        ranks=ranks or {},
        statistics=statistics,
        differences=of_pairs,
        ceiling_remark=changes.get("ceiling_remark", ""),
        find_pair_tests=find_pair_tests,
        n_systems=changes.get("n_systems"),
        scored=SimpleNamespace(metrics=range(metrics)),
    )


ROWS = [
    ("bleu_1", "x", "tau_c", 0.25, 0.2, 0.3, ""),
    ("bleu_1", "x", "pearson", 0.125, NAN, NAN, ""),
    ("bleu_1", "x", "tau_b", 0.9, NAN, NAN, ""),
    ("rouge_l", "x", "tau_c", 0.5, 0.375, 0.625, ""),
    ("cider", "x", "tau_c", NAN, NAN, NAN, "undefined: why"),
    ("floor_random", "x", "tau_c", -0.01, -0.1, 0.1, "by lot"),
    ("ceiling_oracle", "x", "tau_c", 0.75, 0.7, 0.8, "the mean of all"),
    ("ceiling_one_vs_one", "x", "tau_c", 0.625, 0.6, 0.65, "each of two"),
    ("ceiling_one_vs_rest", "x", "tau_c", NAN, NAN, NAN, "none"),
]
METRICS = [metric("bleu_1"), metric("cider"), metric("rouge_l")]


def test_a_table_has_the_best_metric_on_top_and_floors_and_ceilings_below() -> None:
    selection = select(coefficients=["tau_c", "pearson"], dimension=["x"])
    ranks = {("rouge_l", "x", "tau_c"): 1, ("bleu_1", "x", "tau_c"): 2}
    statistics = StatisticsOptions(replicates=300)
    differences = [difference("rouge_l", "bleu_1", 0.25, p_bh=0.05)]
    measured = made(selection, ROWS, ranks=ranks, statistics=statistics, differences=differences)
    table = correlation_table(measured, METRICS)
    assert table.title == "Made: agreement with people"
    assert table.corner == "metric"
    assert table.heads == ["τ_c", "±", "rank", "r"]
    assert [column.latex for column in table.columns if isinstance(column, Column)] == [
        r"$\tau_c$",
        r"$\pm$",
        "rank",
        "$r$",
    ]
    assert lines_of(table) == [
        ("ROUGE-L", ["50.0", "12.5", "1", ""]),
        ("BLEU-1", ["25.0", "5.0", "2", "12.5"]),
        ("CIDEr", ["–", "–", "", ""]),
        ("random scores", ["-1.0", "10.0", "", ""]),
        ("one person against another", ["62.5", "2.5", "", ""]),
        ("best virtual rater", ["–", "–", "", ""]),
        ("oracle (mean rating)", ["75.0", "5.0", "", ""]),
    ]
    assert table.spare == ((3,), ())
    assert table.details == ()
    assert table.own_labels == frozenset()
    assert table.verdict == (
        "ROUGE-L agrees best with people (τ_c 50.0), significantly ahead of BLEU-1; one person reaches "
        "62.5 against another."
    )
    describe = selection.protocol.describe()
    assert table.notes == [
        "Coefficients ×100.",
        f"3 items of 2 images, 1,234 data points; protocol {selection.protocol.name}: {describe}.",
        "CIDEr is CIDEr-D as pycocoevalcap computes it.",
        "random scores: each score is a random number.",
        "oracle (mean rating): the mean of all.",
        "one person against another: each of two.",
        "With 2 images, intervals and ranks are not reliable: τ_c (from 10 on), r (from 10 on), τ_b (from 10 on).",
        "±: half the width of the 95 % interval (expanded percentile bootstrap over images, 300 replicates); both ends "
        "in correlations.csv.",
        "rank: metrics that share a rank do not differ significantly (paired bootstrap over images, level 5 %, "
        "Benjamini-Hochberg).",
        "CIDEr (x τ_c): undefined: why.",
        "best virtual rater (x τ_c): none.",
    ]


def test_several_dimensions_stand_in_the_heads_and_synthetic_data_are_named() -> None:
    selection = select(
        winners=[(0, 1, "fit", "a")],
        card={"synthetic": True},
        coefficients=["tau_c", "tau_b", "accuracy"],
        k=2,
        references="first_k",
    )
    rows = [
        ("bleu_1", "x", "tau_c", 0.25, NAN, NAN, ""),
        ("bleu_1", "x", "tau_b", 0.25, NAN, NAN, ""),
        ("bleu_1", "y_z", "tau_c", 0.5, NAN, NAN, ""),
        ("bleu_1", "y_z", "tau_b", 0.5, NAN, NAN, ""),
    ]
    table = correlation_table(
        made(selection, rows, ceiling_remark="What people reach needs more."), METRICS[:1]
    )
    assert table.title == "Made (synthetic): agreement with people"
    assert table.heads == ["X τ_c", "X τ_b", "y_z τ_c", "y_z τ_b"]
    assert isinstance(table.columns[2], Column)
    assert table.columns[2].latex == r"y z $\tau_c$"
    assert lines_of(table) == [("BLEU-1", ["25.0", "25.0", "50.0", "50.0"])]
    assert table.details == (1, 3)  # the protocol's coefficients are the usual ones
    assert table.verdict == "BLEU-1 reaches X τ_c 25.0."
    assert table.notes[0] == (
        "SYNTHETIC data: it only shows that captau works, and says nothing about real metrics."
    )
    assert table.notes[1] == "Coefficients ×100."
    assert table.notes[3:] == [
        "Items with fewer than 2 references, all of which are used: 1.",
        "What people reach needs more.",
    ]


def test_preferences_have_their_unit_ties_and_floors() -> None:
    """The first caption always wins but for ties, so that the row of the first caption is left out."""
    winners = [(0, 1, "x", "a"), (0, 1, "x", "tie"), (1, 0, "y_z", "a"), (1, 0, "x", "tie")]
    selection = select(coefficients=["accuracy"], winners=winners, dimensions=())
    rows = [
        ("bleu_1", "x", "accuracy", 0.5, 0.4, 0.6, ""),
        ("bleu_1", "y_z", "accuracy", 0.75, 0.7, 0.8, ""),
        ("bleu_1", "mean", "accuracy", 0.625, 0.6, 0.65, ""),
        ("floor_length", "mean", "accuracy", 0.5, 0.4, 0.6, ""),
    ]
    table = correlation_table(
        made(selection, rows, headline=("mean", "accuracy"), statistics=StatisticsOptions()),
        METRICS[:1],
    )
    assert table.heads == ["X acc. %", "y_z acc. %", "mean acc. %", "±"]
    assert lines_of(table) == [
        ("BLEU-1", ["50.0", "75.0", "62.5", "2.5"]),
        ("longer caption", ["", "", "50.0", "10.0"]),
    ]
    assert table.verdict == "BLEU-1 reaches mean acc. 62.5."
    assert table.notes[1].startswith("3 items of 2 images, 4 preference pairs; protocol usual")
    assert table.notes[2:5] == [
        "Pairs on which people tied are left out: X 2.",
        "longer caption: the number of words in the caption.",
        "The row of the first caption is left out: in every pair of this dataset the first place says whose caption it is.",
    ]
    without = [row for row in rows if row[0] == "bleu_1"]
    notes = correlation_table(
        made(selection, without, headline=("mean", "accuracy")), METRICS[:1]
    ).notes
    assert not any(note.startswith("The row of the first") for note in notes)


@pytest.mark.parametrize(
    ("winners", "coefficients", "details"),
    [
        ((), None, (1,)),
        ([(0, 1, "fit", "a")], None, (1,)),
        ((), ["tau_c", "tau_b"], (1,)),
        ([(0, 1, "fit", "a")], ["tau_c", "tau_b"], ()),
        ((), ["tau_b", "tau_c"], ()),
    ],
)
def test_other_coefficients_are_details_unless_they_were_asked_for(
    winners: Any, coefficients: Any, details: tuple[int, ...]
) -> None:
    """The usual ones are τ_c and τ_b, and the accuracy where there are preferences."""
    changes = {"coefficients": coefficients} if coefficients else {}
    selection = select(winners=winners, dimension=["x"], **changes)
    rows = [("bleu_1", "x", c, 0.25, NAN, NAN, "") for c in ("tau_c", "tau_b")]
    assert correlation_table(made(selection, rows), METRICS[:1]).details == details


def test_rows_about_words_are_counted_apart() -> None:
    selection = select(coefficients=["auroc", "tau_c"], dimension=["x"])
    rows = [
        ("bleu_1", "x", "auroc", 0.5, NAN, NAN, ""),
        ("bleu_1", "x of words", "auroc", 0.5, NAN, NAN, ""),
    ]
    measured = made(selection, rows, headline=("x", "auroc"))
    is_of_words = measured.printed_correlations["dimension"] == "x of words"
    measured.printed_correlations = measured.printed_correlations.assign(
        n_ratings=[7_000 if of_words else 5 for of_words in is_of_words]
    )
    table = correlation_table(measured, METRICS[:1])
    assert table.heads == ["X AUROC", "x of words AUROC"]
    assert table.notes[1].startswith("3 items of 2 images, 5 data points; protocol")
    assert table.notes[2] == (
        "Rows about words compare the words that metrics blame with people's marks on 7,000 words."
    )


@pytest.mark.parametrize(
    ("options", "metrics", "least"),
    [
        ({"level": 0.93, "replicates": 85, "interval": "percentile"}, 3, 86),
        ({"level": 0.93, "replicates": 86, "interval": "percentile"}, 3, None),
        ({"level": 0.95, "replicates": 39, "interval": "percentile"}, 2, 40),
        ({"level": 0.93, "replicates": 85, "interval": "percentile", "correction": "bh"}, 3, None),
        ({"level": 0.95, "replicates": 3, "interval": "percentile"}, 1, None),
        ({"level": 0.95, "replicates": 3}, 2, None),
    ],
)
def test_too_few_replicates_for_holm_are_named(
    options: Any, metrics: int, least: int | None
) -> None:
    """Of 3 pairs at level 0.07 a tail is 0.07 / 6: 86 replicates. With two images an expanded tail is never reached."""
    selection = select(coefficients=["tau_c"], dimension=["x"])
    statistics = StatisticsOptions(**{"correction": "holm", **options})
    ranks = {("bleu_1", "x", "tau_c"): 1}
    measured = made(selection, ROWS[:1], ranks=ranks, statistics=statistics, metrics=metrics)
    notes = [n for n in correlation_table(measured, METRICS[:1]).notes if n.startswith("Holm")]
    n_pairs = metrics * (metrics - 1) // 2
    expected = (
        f"Holm's correction for {n_pairs} pairs cannot find a difference with so few replicates: set "
        f"statistics.replicates={least} or more."
    )
    assert notes == ([expected] if least else [])


def difference(a: str, b: str, value: float, **fields: Any) -> tuple[Any, ...]:
    """A row of a bootstrap on x and tau_c; the first metric has 0.5."""
    row = dict.fromkeys(DIFFERENCE_NAMES, NAN)
    row |= {"dimension": "x", "coefficient": "tau_c", "metric_a": a, "metric_b": b, "note": ""}
    row |= {"test": "bootstrap", "value_a": 0.5, "value_b": 0.5 - value, "difference": value}
    return tuple(
        {
            **row,
            "ci_low": value - 0.1,
            "ci_high": value + 0.2,
            "p_bh": 0.25,
            "p_holm": 0.5,
            "p_value": 0.1,
            "n_images": 100,
            **fields,
        }.values()
    )


LABELS = {"bleu_1": "BLEU-1", "cider": "CIDEr", "rouge_l": "ROUGE-L"}


def test_metrics_without_a_rank_are_named_with_the_reason() -> None:
    selection = select(coefficients=["tau_c"], dimension=["x"])
    rows = [
        (m, "x", "tau_c", v, NAN, NAN, "")
        for m, v in (("bleu_1", 0.5), ("cider", 0.25), ("rouge_l", NAN))
    ]
    differences = [
        difference("bleu_1", "cider", 0.25, p_value=NAN, note="too few"),
        difference("bleu_1", "rouge_l", NAN, value_b=NAN, p_value=NAN, note="too few"),
        difference("cider", "rouge_l", NAN, p_value=NAN),
        difference(
            "bleu_1", "cider", 0.25, test="permutation", p_value=NAN, note="of another test"
        ),
    ]
    measured = made(selection, rows, differences=differences, ranks={("cider", "x", "tau_c"): 1})
    notes = correlation_table(measured, METRICS).notes
    (note,) = (n for n in notes if n.startswith("No rank"))
    assert (
        note
        == "No rank in x tau_c, since no test compares them with every other metric: BLEU-1 (too few)."
    )
    ranked = made(
        selection,
        rows,
        differences=differences,
        ranks={(m, "x", "tau_c"): 1 for m in ("bleu_1", "cider")},
    )
    assert not [n for n in correlation_table(ranked, METRICS).notes if n.startswith("No rank")]


@pytest.mark.parametrize(
    ("by_test", "printed", "said"),
    [
        ({"bootstrap": 0.003, "permutation": 0.756}, ["bootstrap", "permutation"], True),
        ({"bootstrap": 0.003, "permutation": 0.756}, ["permutation"], True),
        ({"bootstrap": 0.003, "permutation": 0.05}, ["bootstrap", "permutation"], False),
        ({"bootstrap": 0.06, "permutation": 0.756}, ["bootstrap", "permutation"], False),
        ({"bootstrap": 0.003, "permutation": NAN}, ["bootstrap", "permutation"], False),
        ({"bootstrap": 0.003}, ["bootstrap"], False),
    ],
)
def test_where_two_tests_disagree_a_note_says_which_asks_what(
    by_test: dict[str, float], printed: list[str], said: bool
) -> None:
    selection = select(coefficients=["tau_c"], dimension=["x"])
    rows = [difference("cider", "bleu_1", -0.25, test=t, p_bh=p) for t, p in by_test.items()]
    measured = made(selection, ROWS, differences=rows, statistics=StatisticsOptions())
    (table,) = difference_tables(measured, printed, LABELS)
    notes = [note for note in table.notes if "disagree" in note]
    assert bool(notes) == said
    if said:
        assert notes == [
            "The tests disagree on whether a lead is significant, BLEU-1 over CIDEr (bootstrap 0.003, permutation 0.756): "
            "the bootstrap draws the images anew and asks whether the lead would hold on other images and the "
            "permutation test swaps the two metrics' scores at random and asks whether equally good metrics would differ "
            "as much; ranks go by the p of bootstrap."
        ]


def test_coefficients_of_few_systems_have_no_significant_lead() -> None:
    selection = select(coefficients=["tau_c"], dimension=["x"])
    differences = [difference("rouge_l", "bleu_1", 0.25, p_bh=0.001)]
    ranks = {("rouge_l", "x", "tau_c"): 1, ("bleu_1", "x", "tau_c"): 2}
    for n_systems, lead in ((5, "; too few systems (5) to tell"), (6, ", significantly ahead of")):
        measured = made(
            selection,
            ROWS,
            ranks=ranks,
            differences=differences,
            statistics=StatisticsOptions(),
            n_systems=n_systems,
        )
        table = correlation_table(measured, METRICS)
        assert f"(τ_c 50.0){lead}" in table.verdict
        assert (
            f"The tests draw or swap images of these {n_systems} systems; ranks and intervals say nothing of other systems."
            in table.notes
        )


def test_differences_have_the_better_metric_first() -> None:
    selection = select(coefficients=["tau_c"], dimension=["x"])
    differences = [
        difference("bleu_1", "cider", -0.25, p_bh=0.0005),
        difference("bleu_1", "cider", -0.25, test="williams", p_bh=0.03),
        difference("bleu_1", "rouge_l", 0.5, p_bh=0.04999),
        difference("bleu_1", "rouge_l", 0.5, test="williams", p_bh=NAN),
        difference("bleu_1", "cider", 0.125, coefficient="pearson", ci_low=-0.5, ci_high=0.25),
        difference("bleu_1", "cider", 0.1, coefficient="accuracy", dimension="colour"),
    ]
    measured = made(
        selection, ROWS, differences=differences, statistics=StatisticsOptions(level=0.9)
    )
    first, second = difference_tables(measured, ["permutation", "williams", "bootstrap"], LABELS)
    assert (first.title, first.corner) == ("Made, x: differences of τ_c", "metrics")
    assert first.heads == ["difference", "from", "to", "p Williams", "p bootstrap"]
    assert lines_of(first) == [
        ("CIDEr over BLEU-1", ["25.0", "5.0", "35.0", "0.030", "<0.001"]),
        ("BLEU-1 over ROUGE-L", ["50.0", "40.0", "70.0", "–", "0.050"]),
    ]
    assert first.notes == [
        "from, to: 90 % interval by resampling images; p is corrected for 2 pairs (Benjamini-Hochberg); "
        "significance.csv has every value."
    ]
    assert not first.is_detail
    assert second.title == "Made, x: differences of r"
    assert lines_of(second) == [("BLEU-1 over CIDEr", ["12.5", "-50.0", "25.0", "0.250"])]
    assert second.heads == ["difference", "from", "to", "p bootstrap"]
    assert "corrected for 1 pair (" in second.notes[0]
    assert second.is_detail
    assert difference_tables(measured, [], LABELS) == []
    assert difference_tables(made(selection, ROWS), ["bootstrap"], LABELS) == []


def test_p_values_stand_in_a_matrix_of_metrics() -> None:
    """Of both datasets; without differences there are none, and tests that were not asked for are left out."""
    names = ("dataset", "protocol")

    def with_names(dataset: str, rows: list[tuple[Any, ...]]) -> Any:
        frame = pd.DataFrame(rows, columns=pd.Index(DIFFERENCE_NAMES)).assign(
            dataset=dataset, protocol="p"
        )
        return SimpleNamespace(differences=frame, statistics=StatisticsOptions(correction="holm"))

    one = with_names(
        "one", [difference("a", "b", 0.25), difference("a", "b", 0.25, test="williams")]
    )
    two = with_names(
        "two", [difference("a", "c", 0.25, p_holm=0.75), difference("b", "c", 0.5, p_holm=0.0)]
    )
    frame, matrix = significance_frames(
        cast(Any, [one, SimpleNamespace(differences=None), two]), ["a", "b", "c"], ["bootstrap"]
    )
    assert frame[[*names[:1], "metric_a", "metric_b", "test"]].to_numpy().tolist() == [
        ["one", "a", "b", "bootstrap"],
        ["two", "a", "c", "bootstrap"],
        ["two", "b", "c", "bootstrap"],
    ]
    assert frame.index.tolist() == [0, 1, 2]
    assert list(matrix.columns) == [
        *("dataset", "protocol", "dimension", "coefficient", "test", "metric", "a", "b", "c"),
    ]
    cells = matrix.astype(object).where(matrix.notna(), None)
    assert cells[["dataset", "metric", "a", "b", "c"]].to_numpy().tolist() == [
        ["one", "a", None, 0.5, None],
        ["one", "b", 0.5, None, None],
        ["one", "c", None, None, None],
        ["two", "a", None, None, 0.75],
        ["two", "b", None, None, 0.0],
        ["two", "c", 0.75, 0.0, None],
    ]
    assert set(matrix["test"]) == {"bootstrap"}
    assert set(matrix["coefficient"]) == {"tau_c"}


def test_corrected_correlations_have_a_table_a_dimension() -> None:
    names = [
        "dimension",
        "metric",
        "pearson",
        "reliability",
        "corrected",
        "ci_low",
        "ci_high",
        "note",
    ]
    rows = [
        ("x", "bleu_1", 0.25, 0.64, 0.3125, 0.25, 0.5, "of two raters"),
        ("x", "floor_length", 0.1, 0.64, 0.125, NAN, NAN, "of two raters"),
        ("y", "bleu_1", 0.5, 1.0, 0.5, 0.4, 0.6, ""),
    ]
    measured = SimpleNamespace(
        disattenuated=pd.DataFrame(rows, columns=pd.Index(names)),
        caption_set=SimpleNamespace(card=SimpleNamespace(title="Made")),
    )
    first, second = disattenuated_tables(cast(Any, measured), LABELS)
    assert first.title == "Made, x: r corrected for the ratings' noise"
    assert first.heads == ["r", "reliability", "corrected", "±"]
    assert lines_of(first) == [
        ("BLEU-1", ["25.0", "64.0", "31.2", "12.5"]),
        ("longer caption", ["10.0", "64.0", "12.5", "–"]),
    ]
    note = "corrected: r over the root of the reliability (disattenuated.csv says which)."
    assert first.notes == [note, "of two raters."]
    assert second.title == "Made, y: r corrected for the ratings' noise"
    assert lines_of(second) == [("BLEU-1", ["50.0", "100.0", "50.0", "10.0"])]
    assert second.notes == [note]
