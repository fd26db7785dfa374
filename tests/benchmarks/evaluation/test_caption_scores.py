"""Scores of a user's captions and the reliability of metrics beside them: worked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ruamel.yaml import YAML

from captau.benchmarks.evaluation.caption_ranges import CaptionRange, Spread
from captau.benchmarks.evaluation.caption_scores import (
    OUTSIDE,
    UNKNOWN,
    CaptionScores,
    MetricReliability,
    Reliability,
    keep_captions,
    load_evidence,
    reliability_notes,
)
from captau.benchmarks.evaluation.trusted_metric import describe_trusted_metric
from captau.benchmarks.runs.finished_run import read_run
from captau.benchmarks.scoring.corpus_scores import SystemScores
from captau.benchmarks.statistics.bootstrap import Interval
from captau.benchmarks.statistics.remarks import Note, remark
from captau.datasets.schema import ITEM_COLUMNS, make_items
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.reporting.made_runs import made_run
from tests.conftest import says

NAN = math.nan
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Reliability("tau_c", 0.4567, "d", "s"), "τ_c 45.7 on d"),
        (Reliability("tau_c", 0.4567, "d", "s", low=0.4, high=0.5), "τ_c 45.7 ± 5.0 on d"),
        (Reliability("tau_c", -0.1, "d", "s", high=0.0), "τ_c -10.0 ± – on d"),
        (
            Reliability("accuracy", 0.75, "d (x)", "s", has_range=False),
            "acc. 75.0 on d (x), range not known",
        ),
        (
            Reliability("pairwise_accuracy", 0.9, "d (x)", "s", n_systems=5),
            "same order 90.0 on d (x), 5 systems",
        ),
    ],
)
def test_a_reliability_in_words(number: Reliability, text: str) -> None:
    assert str(number) == text


def test_a_reliability_is_recorded_with_all_it_says() -> None:
    number = Reliability("tau_c", 0.5, "d", "s", "c", 0.25, 0.75, "r")
    assert number.record() == {
        "coefficient": "tau_c",
        "value": 0.5,
        "on": "d",
        "source": "s",
        "citation": "c",
        "low": 0.25,
        "high": 0.75,
        "captions": "r",
        "has_range": True,
        "n_systems": None,
    }


def test_what_there_is_of_some_metrics() -> None:
    one, two = Reliability("tau_c", 0.5, "d", "s"), Reliability("tau_c", 0.25, "d", "s")
    found = MetricReliability({"a": one, "b": two}, {"c": "long", "d": "short"})
    assert [found.cell(spec) for spec in "abcx"] == [
        "τ_c 50.0 on d",
        "τ_c 25.0 on d",
        OUTSIDE,
        UNKNOWN,
    ]
    assert found.select(["b", "c"]) == MetricReliability({"b": two}, {"c": "long"})
    assert found.select([]) == MetricReliability()


def test_notes_name_sources_captions_and_what_is_missing() -> None:
    reliability = MetricReliability(
        {
            "a": Reliability("tau_c", 0.5, "d", "paper 1", captions="of 1 word"),
            "b": Reliability("tau_c", 0.5, "d", "paper 2", captions="of 1 word"),
            "c": Reliability("tau_c", 0.5, "e", "paper 1", captions="of 2 words"),
        },
        {"f": "have 9 words (d)", "g": "have 9 words (d)", "h": "are long (e)"},
    )
    labels = {spec: spec.upper() for spec in "abcfghx"}
    bench = "run captau bench dataset=NAME output_dir=DIR on {}, and give trust=DIR here."
    alike = bench.format("rated captions that are like yours")
    told = [
        "d: of 1 word.",
        "e: of 2 words.",
        f"none for such captions, F, G: your captions have 9 words (d). To measure the agreement, {alike}",
        f"none for such captions, H: your captions are long (e). To measure the agreement, {alike}",
    ]
    head = "agreement with people: correlations ×100 of captions' scores with people's ratings, not of these captions but as"
    sources = "(A, C: paper 1; B: paper 2)."
    rated = bench.format("a dataset with ratings")
    assert list(reliability_notes("published", reliability, labels)) == [
        f"{head} published {sources}",
        *told,
        f"not known: no published number is known. To measure it, {rated}",
    ]
    assert list(reliability_notes("a/run", reliability, labels)) == [
        f"{head} measured {sources}",
        *told,
        "not known: not in the run a/run.",
    ]
    # In brief all of it is one line, with the first of the reasons.
    briefs = [note.brief for note in reliability_notes("published", reliability, labels)]
    assert briefs == [
        "agreement with people: correlations ×100 on the captions of d and e, not on yours. none for such captions: your "
        "captions have 9 words (d). not known: not measured yet; trust= takes a run of captau bench.",
        *[""] * (len(briefs) - 1),
    ]
    del labels["x"]
    assert list(reliability_notes("a/run", reliability, labels)) == [
        f"{head} measured {sources}",
        *told,
    ]
    assert list(reliability_notes("a/run", MetricReliability(), {})) == []


def scores_of(
    system: str, references: str, images: str, scores: dict[str, list[float]], **fields: Any
) -> SystemScores:
    items = make_items(
        list(images), [f"{system} of {image}" for image in images], [("r",)] * len(images)
    )
    columns = {spec: np.array(values) for spec, values in scores.items()}
    corpus = fields.pop("corpus", {spec: float(np.mean(v)) for spec, v in columns.items()})
    return SystemScores(system, references, items, columns, corpus, {}, {}, **fields)


ONE = scores_of("A", "r", "12", {"m": [0.5, 1.0], "n": [0.25, 0.75]})
OTHER = scores_of("B", "r", "12", {"m": [0.0, 1.0], "n": [NAN, 0.5]})
LARGER = scores_of("A", "r5", "123", {"m": [1.0, 2.0, 3.0], "n": [1.0, 1.0, 1.0]})
OTHER_LARGER = scores_of("B", "r5", "23", {"m": [4.0, 5.0], "n": [NAN, NAN]})


def test_corpus_scores_stand_below_system_and_references_where_there_are_several() -> None:
    found = CaptionScores([ONE], MetricReliability())
    assert (found.has_several_systems, found.has_several_references) == (False, False)
    assert found.corpus == {"m": 0.75, "n": 0.5}
    assert found.undefined == {}
    two = CaptionScores([ONE, OTHER], MetricReliability())
    assert (two.has_several_systems, two.has_several_references) == (True, False)
    assert two.corpus == {
        "A": {"m": 0.75, "n": 0.5},
        "B": {"m": 0.5, "n": pytest.approx(NAN, nan_ok=True)},
    }
    reason = "undefined: 1 of 2 captions have no finite score"
    assert two.undefined == {"A r": {}, "B r": {"n": reason}}
    assert CaptionScores([OTHER], MetricReliability()).undefined == {"n": reason}
    sets = CaptionScores([ONE, LARGER], MetricReliability())
    assert (sets.has_several_systems, sets.has_several_references) == (False, True)
    assert sets.corpus == {"r": {"m": 0.75, "n": 0.5}, "r5": {"m": 2.0, "n": 1.0}}
    four = CaptionScores([ONE, LARGER, OTHER], MetricReliability()).corpus
    assert {system: list(branch) for system, branch in four.items()} == {
        "A": ["r", "r5"],
        "B": ["r"],
    }


def test_rows_of_corpus_scores_have_the_agreement_of_their_metric() -> None:
    few = remark(Note.OTHER_RATERS)
    intervals = {"m": Interval(low=0.5, high=1.0), "n": Interval(remarks=(few,))}
    scored = scores_of("A", "r", "12", {s: [0.5, 1.0] for s in "mno"}, intervals=intervals)
    reliability = MetricReliability({"m": Reliability("tau_c", 0.25, "d", "s")}, {"n": "long (d)"})
    rows = CaptionScores([scored, OTHER], reliability).corpus_rows
    blank = "-"
    assert rows.astype(object).where(rows.notna(), blank).to_numpy().tolist() == [
        ["A", "r", "m", 0.75, 0.5, 1.0, 2, 0.25, "tau_c", "d", "s", ""],
        [*("A", "r", "n", 0.75, blank, blank, 2, blank), "", "", "", f"{Interval(remarks=(few,)).note}; agreement: {OUTSIDE}: your captions long (d)"],
        ["A", "r", "o", 0.75, blank, blank, 2, blank, "", "", "", ""],
        ["B", "r", "m", 0.5, blank, blank, 2, 0.25, "tau_c", "d", "s", ""],
        [*("B", "r", "n", blank, blank, blank, 2, blank), "", "", "", f"undefined: 1 of 2 captions have no finite score; agreement: {OUTSIDE}: your captions long (d)"],
    ]  # fmt: skip
    assert list(rows.columns) == [
        *("system", "references", "metric", "score", "ci_low", "ci_high", "n_images"),
        *("agreement", "agreement_coefficient", "agreement_on", "agreement_source", "note"),
    ]


def test_captions_are_joined_with_system_and_set() -> None:
    items = CaptionScores([ONE, OTHER_LARGER], MetricReliability()).items
    assert list(items.columns) == ["dataset", *ITEM_COLUMNS]
    assert items.index.tolist() == [0, 1, 2, 3]
    assert items[["dataset", "system", "caption"]].to_numpy().tolist() == [
        ["r", "A", "A of 1"],
        ["r", "A", "A of 2"],
        ["r5", "B", "B of 2"],
        ["r5", "B", "B of 3"],
    ]


def rows_of(frame: pd.DataFrame) -> list[list[Any]]:
    table = frame.drop(columns="item_id").astype(object)
    return table.where(table.notna(), None).to_numpy().tolist()


def test_scores_are_columns_and_those_of_several_sets_bear_their_names() -> None:
    one = CaptionScores([ONE], MetricReliability()).frame
    assert list(one.columns) == ["item_id", "image_id", "m", "n"]
    assert one["item_id"].tolist() == ONE.items["item_id"].tolist()
    assert rows_of(one) == [["1", 0.5, 0.25], ["2", 1.0, 0.75]]
    systems = [
        SystemScores(
            s.system, s.references, s.items.assign(system=s.system), s.scores, s.corpus, {}, {}
        )
        for s in (ONE, LARGER, OTHER, OTHER_LARGER)
    ]
    two = CaptionScores(systems[::2], MetricReliability()).frame
    assert list(two.columns) == ["item_id", "image_id", "system", "m", "n"]
    assert two.index.tolist() == [0, 1, 2, 3]
    assert rows_of(two) == [
        ["1", "A", 0.5, 0.25],
        ["2", "A", 1.0, 0.75],
        ["1", "B", 0.0, None],
        ["2", "B", 1.0, 0.5],
    ]
    four = CaptionScores(systems, MetricReliability()).frame
    assert list(four.columns) == [
        *("item_id", "image_id", "system", "m@r", "n@r", "m@r5", "n@r5"),
    ]
    assert rows_of(four) == [
        ["1", "A", 0.5, 0.25, 1.0, 1.0],
        ["2", "A", 1.0, 0.75, 2.0, 1.0],
        ["1", "B", 0.0, None, None, None],
        ["2", "B", 1.0, 0.5, 4.0, None],
        ["3", "A", None, None, 3.0, 1.0],
        ["3", "B", None, None, 5.0, None],
    ]


def test_captions_with_at_least_the_threshold_are_kept() -> None:
    scored = scores_of("A", "", ["12", "x1", "٣", "4"], {"m": [0.5, 1.0, 0.75, 0.25]})  # type: ignore
    captions = {"12": "a man", "x1": "two dogs", "٣": "as given", "4": "a cat"}
    assert keep_captions(scored, captions, "m", 0.5) == [
        {"image_id": 12, "caption": "a man"},
        {"image_id": "x1", "caption": "two dogs"},
        {"image_id": 3, "caption": "as given"},
    ]
    assert keep_captions(scored, captions, "m", 1.5) == []
    with says("keep.metric=n: it cannot be computed here"):
        keep_captions(scored, captions, "n", 0.5)
    with says("keep.metric=n: image '1' has no score"):
        keep_captions(OTHER, captions, "n", 0.5)


WORDS = {"a": 0.2, "in": 0.05}


def range_of(**changes: Any) -> CaptionRange:
    fields = {"caption_words": Spread(8, 10, 12), "reference_words": Spread(8, 10, 12)}
    fields |= {"references": Spread(5, 5, 5), "script": "latin", "frequent_words": WORDS}
    return CaptionRange(**{"n_captions": 100, "n_words": 1000, **fields, **changes})


RANGES = {"flickr8k_expert": range_of(), "thumb": range_of(caption_words=Spread(20, 30, 40))}
RUN_ROWS = [
    ("flickr8k_expert", "overall", "tau_c", "bleu_1", 0.25, 0.2, 0.3, 1, ""),
    ("flickr8k_expert", "overall", "tau_c", "meteor", None, None, None, None, "undefined"),
    ("flickr8k_expert", "style", "tau_c", "bleu_1", 0.9, 0.8, 1.0, 1, ""),
    ("flickr8k_expert", "style", "tau_c", "meteor", 0.5, 0.4, 0.6, 1, ""),
    ("flickr8k_expert", "style", "tau_c", "cider", 0.125, 0.1, 0.2, 1, ""),
    ("thumb", "total", "pearson", "cider", 0.5, None, None, None, ""),
    ("thumb", "total", "pearson", "umic", 0.75, None, None, None, ""),
]


def change_record(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with edited_record(folder) as record:
        change(record)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = made_run(tmp_path / "run", RUN_ROWS)

    def add_ranges(record: dict[str, Any]) -> None:
        for name, captions in RANGES.items():
            record["data"][name]["range"] = captions.record()

    change_record(run, add_ranges)
    return run


def test_evidence_of_a_run_is_that_of_captions_like_the_users(folder: Path) -> None:
    """A dimension that rates a caption as a whole comes first, though another has more of the metrics."""
    assert load_evidence(["m"], None) is None
    specs = ["umic", "cider", "meteor", "bleu_1"]
    evidence = load_evidence(specs, folder)
    assert evidence is not None
    assert evidence.specs == specs
    found = evidence.apply_to({"": range_of()})
    assert list(found.by_spec) == ["cider", "meteor", "bleu_1"]
    assert {spec: str(number) for spec, number in found.by_spec.items()} == {
        "cider": "τ_c 12.5 ± 5.0 on flickr8k_expert (style)",
        "meteor": "τ_c 50.0 ± 10.0 on flickr8k_expert (style)",
        "bleu_1": "τ_c 25.0 ± 5.0 on flickr8k_expert",
    }
    one = found.by_spec["bleu_1"]
    assert (one.coefficient, one.value, one.low, one.high) == ("tau_c", 0.25, 0.2, 0.3)
    assert (one.citation, one.has_range) == ("", True)
    assert one.source == f"run {folder}, protocol usual"
    assert one.captions == "captions of 8 to 12 words, 5 references of 8 to 12 words, latin script"
    assert found.outside == {"umic": "have 10 words, the judged ones 20 to 40 (thumb (total))"}
    long = evidence.apply_to({"a": range_of(caption_words=Spread(20, 30, 40)), "b": range_of()})
    assert long.by_spec == {}
    assert long.outside == {
        "umic": "(b) have 10 words, the judged ones 20 to 40 (thumb (total))",
        "cider": "(b) have 10 words, the judged ones 20 to 40 (thumb (total))",
        "meteor": "(a) have 30 words, the judged ones 8 to 12 (flickr8k_expert (style))",
        "bleu_1": "(a) have 30 words, the judged ones 8 to 12 (flickr8k_expert)",
    }


def test_references_do_not_matter_to_metrics_without_them(folder: Path) -> None:
    evidence = load_evidence(["bleu_1", "meteor"], str(folder))
    assert evidence is not None
    captions = {"": range_of(references=Spread(1, 1, 1))}
    found = evidence.apply_to(captions, ["meteor"])
    assert list(found.by_spec) == ["meteor"]
    assert found.outside == {"bleu_1": "have 1 reference, the judged ones 5 (flickr8k_expert)"}


def test_the_range_of_a_run_is_that_of_its_protocol(folder: Path) -> None:
    def one_reference(record: dict[str, Any]) -> None:
        record["protocols"]["flickr8k_expert"] |= {"references": "first_k", "k": 1}

    change_record(folder, one_reference)
    evidence = load_evidence(["bleu_1"], folder)
    assert evidence is not None
    assert evidence.apply_to({"": range_of()}).outside == {
        "bleu_1": "have 5 references, the judged ones 1 (flickr8k_expert)"
    }
    assert list(evidence.apply_to({"": range_of(references=Spread(1, 1, 1))}).by_spec) == ["bleu_1"]


def test_a_run_that_cannot_vouch_is_refused(folder: Path, tmp_path: Path) -> None:
    with says(f"trust={tmp_path / 'no'} is neither 'published' nor the folder of a run"):
        load_evidence(["m"], tmp_path / "no")
    change_record(folder, lambda record: record["data"]["thumb"].pop("range"))
    with says(
        f"{folder}: run.json has no range of thumb's captions, so that its numbers cannot be applied to others; "
        "run captau bench again"
    ):
        load_evidence(["m"], folder)


def test_printed_numbers_are_in_their_natural_range() -> None:
    """Hessel et al. 2021, Table 1: CIDEr's τ_c is 43.9; Kasai et al. 2022, Table 4, prints .13."""
    cider, bleu = (
        evidence.apply_to({}).by_spec[spec]
        for spec in ("cider", "sacrebleu")
        if (evidence := load_evidence([spec], "published")) is not None
    )
    assert (cider.value, cider.coefficient, cider.judgements) == (0.439, "tau_c", "flickr8k_expert")
    assert cider.source == "Hessel et al. 2021, Table 1"
    assert (bleu.value, bleu.judgements) == (0.13, "thumb (total)")
    assert bleu.source == "Kasai et al. 2022, Table 4 (column w/ Human Total)"
    assert math.isnan(cider.low)
    assert cider.captions.startswith("captions of 6 to 20 words, 5 references of ")


def test_what_captau_measured_stands_where_no_paper_prints_a_number() -> None:
    evidence = load_evidence(["bleu_1", "bleu_2"], "published")
    assert evidence is not None
    found = evidence.apply_to({})
    assert str(found.by_spec["bleu_2"]) == "τ_c 32.5 on flickr8k_expert"
    assert found.by_spec["bleu_2"].source == "measured by captau (results/measured.csv)"
    # Of a metric that a paper has, the paper's number stands.
    assert found.by_spec["bleu_1"].source == "Hessel et al. 2021, Table 1"


def test_measured_numbers_are_those_of_the_committed_baseline() -> None:
    baseline = YAML(typ="safe").load(ROOT / "results/golden/flickr8k_expert.yaml")
    measured = pd.read_csv(ROOT / "results/measured.csv")
    rows = measured.to_dict("records")
    assert {row["metric"] for row in rows} == set(baseline["metrics"])
    for row in rows:
        correlations = baseline["metrics"][row["metric"]]["correlations"]
        assert row["value"] == correlations[f"{row['dimension']} {row['coefficient']}"]


def test_a_run_says_which_metrics_agree_best_by_its_tests(tmp_path: Path) -> None:
    """Metrics of one rank are named together, and what the ranks do not tell is not said: of A and C that they differ."""
    labels = {"cider": "A", "meteor": "B", "bleu_1": "C"}

    def sentence(name: str, ranks: tuple[int | None, ...], **choices: Any) -> str:
        rows = [
            ("flickr8k_expert", "overall", "tau_c", spec, value, 0.0, 1.0, rank, "")
            for spec, value, rank in zip(labels, (0.5, 0.4, 0.3), ranks, strict=True)
        ]
        run = made_run(tmp_path / name, rows)
        change_record(run, lambda record: record["protocols"]["flickr8k_expert"].update(choices))
        numbers = {
            row[3]: Reliability("tau_c", row[4], "flickr8k_expert", f"run {run}") for row in rows
        }
        return describe_trusted_metric(read_run(run), MetricReliability(numbers), labels)

    end = "; how metrics order systems was not tested"
    assert sentence("level", (1, 1, 2)) == (
        "Caption by caption on flickr8k_expert, A and B agree best with people, without a significant difference"
        f"{end} (run {tmp_path / 'level'})."
    )
    assert sentence("ahead", (1, 2, 2)) == (
        "Caption by caption on flickr8k_expert, A agrees best with people (τ_c 50.0), significantly ahead of B"
        f"{end} (run {tmp_path / 'ahead'})."
    )
    assert sentence("untested", (None, None, None)) == ""
    some_run = read_run(tmp_path / "level")
    assert describe_trusted_metric(some_run, MetricReliability(), labels) == ""
