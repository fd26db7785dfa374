"""Parts of runs: titles, scores, standings and reasons, by hand."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from captau.benchmarks.evaluation.pair_tests import Standing
from captau.benchmarks.reporting.run_parts import (
    CHART_TITLES,
    RunDataset,
    ScoredCaptions,
    run_datasets,
    scored_parts,
)
from captau.datasets.preferences import PREFERENCE_COLUMNS
from captau.datasets.schema import RATING_COLUMNS, Scale
from tests.conftest import says


def scored(n_systems: int, references: tuple[str, ...] = ("refs",)) -> ScoredCaptions:
    """Systems a, b and so on, scored by three metrics."""
    systems = "abcde"[:n_systems]
    corpus = pd.DataFrame(
        [
            (of, system, metric, agreement)
            for of in references
            for system in systems
            for metric, agreement in (("m", 0.1), ("n", 0.3), ("o", 0.2))
        ],
        columns=pd.Index(["references", "system", "metric", "agreement"]),
    ).assign(agreement_coefficient="tau_c", agreement_on="d")
    run = SimpleNamespace(corpus=corpus, run={"metrics": {m: {"order": 0} for m in "mno"}})
    return ScoredCaptions(cast(Any, run), references[0])


@pytest.mark.parametrize(
    ("n_systems", "references", "title"),
    [
        (1, ("refs",), "a"),
        (3, ("refs",), "a, b, c"),
        (4, ("refs",), "4 systems"),
        (2, ("refs", "more"), "a, b, references refs"),
        (5, ("refs", "more"), "5 systems, references refs"),
    ],
)
def test_a_title_names_up_to_three_systems(
    n_systems: int, references: tuple[str, ...], title: str
) -> None:
    part = scored(n_systems, references)
    assert part.title == title
    assert part.systems == list("abcde"[:n_systems])
    assert part.has_several_references is (len(references) > 1)
    assert len(part.rows) == 3 * n_systems


def test_the_metric_that_agrees_best_with_people_leads() -> None:
    assert scored(2).leading_position == 1
    assert scored(1).is_by_image
    assert scored(1).file_words == ("refs",)
    assert scored(1, ("",)).file_words == ()
    assert (scored(1).refuse_chart("forest"), scored(1).refuse_chart("ratings")) == (
        "",
        "nobody rated these captions",
    )
    assert list(scored(1).chart_titles) == ["forest", "significance", "scores", "correlations"]


def test_agreement_is_told_in_words() -> None:
    part = scored(2)
    part.corpus["agreement_coefficient"] = ["tau_c", "", "pearson"] * 2
    part.corpus["agreement_on"] = "d"
    assert part.agreement == {"m": "τ_c 10.0 on d", "n": "", "o": "r 20.0 on d"}


def test_scores_are_printed_in_the_style_of_their_metric() -> None:
    part = scored(1)
    part.styles["m"] |= {"scale": 100, "decimals": 2}
    assert part.score_cell(0.12345, "m").text == "12.35"


def caption_run(references: tuple[str, ...], **changes: Any) -> ScoredCaptions:
    """Captions a and b of two images by systems x and y, and c of another set of references."""
    items = pd.DataFrame(
        {
            "dataset": ["refs", "refs", "refs", "other"],
            "item_id": ["b", "a", "a2", "c"],
            "image_id": ["2", "1", "1", "3"],
            "references": [("r", "s"), ("é",), ("é",), ()],
        }
    )
    suffixes = [f"@{name}" for name in references] if len(references) > 1 else [""]
    scores = pd.DataFrame({"item_id": ["c", "a2", "a", "b"]})
    for number, suffix in enumerate(suffixes):
        scores[f"m{suffix}"] = [number + n for n in range(4)]
    corpus = [
        (of, system, "m", score)
        for of in references
        for system, score in (("x", 0.5), ("y", 0.25), ("z", float("nan")))
    ]
    columns = ["references", "system", "metric", "score"]
    differences = pd.DataFrame(
        [("refs", "m", "x", "y", 0.01, 0.2), ("other", "m", "x", "y", 0.2, 0.2)],
        columns=["references", "metric", "system_a", "system_b", "p_bh", "p_holm"],
    )
    run = SimpleNamespace(
        items=items,
        caption_scores=scores,
        corpus=pd.DataFrame(corpus, columns=columns),
        differences=differences,
        has_file=lambda name: name in changes.get("files", ("differences.csv",)),
        run={
            "metrics": {"m": {"higher_is_better": changes.get("higher", True)}},
            "config": {"statistics": {"correction": changes.get("correction", "bh")}},
        },
    )
    return ScoredCaptions(cast(Any, run), "refs")


def test_captions_have_the_scores_against_their_references() -> None:
    one, two = caption_run(("refs",)), caption_run(("other", "refs"))
    assert one.items.index.tolist() == one.items["item_id"].tolist() == ["b", "a", "a2"]
    assert one.scores.to_dict() == {"m": {"b": 3.0, "a": 2.0, "a2": 1.0}}
    assert two.scores.to_dict() == {"m": {"b": 4.0, "a": 3.0, "a2": 2.0}}
    assert one.scores.dtypes.tolist() == [float]
    text = '[["1", ["\\u00e9"]], ["2", ["r", "s"]]]'
    assert one.digest == hashlib.sha256(text.encode()).hexdigest()


def test_systems_stand_by_the_tests_of_their_references() -> None:
    part = caption_run(("refs",))
    assert part.differences[["references", "p"]].to_numpy().tolist() == [["refs", 0.01]]
    assert part.standings == {"m": [Standing("x", 0.5, 1), Standing("y", 0.25, 2)]}
    holm = caption_run(("refs",), correction="holm", higher=False)
    assert holm.differences["p"].tolist() == [0.2]
    assert holm.standings == {"m": [Standing("y", -0.25, 1), Standing("x", -0.5, 1)]}
    without = caption_run(("refs",), files=())
    assert without.differences.empty
    assert without.standings == {"m": [Standing("x", 0.5), Standing("y", 0.25)]}


def dataset(files: tuple[str, ...] = (), **record: Any) -> RunDataset:
    data = {"d": {"title": "D", "scales": {"p": {"low": 1, "high": 5, "step": 1}}, **record}}
    printed = pd.DataFrame(
        [("d", "u", "n"), ("d", "u", "m"), ("d", "v", "o"), ("e", "u", "q"), ("d", "u", "floor_random")],
        columns=["dataset", "protocol", "metric"],
    )  # fmt: skip
    run = SimpleNamespace(
        run={
            "data": data,
            "metrics": {"m": {"label": "M", "order": 1, "kind": "learned"}, "n": {"order": 2, "higher_is_better": False}},
            "protocols": {"d": {"dimension": ["q", "p"]}},
        },
        command="reproduce",
        printed_correlations=printed,
        correlations=printed,
        ratings=pd.DataFrame(
            {"dataset": ["d", "e", "d"], "item_id": ["a", "a", "a"], "dimension": ["p", "q", "p"], "value": [1.0, 9.0, 2.0]}
        ),
        preferences=pd.DataFrame({"dataset": ["e", "d"], "n": [1, 2]}),
        words=pd.DataFrame({"dataset": ["e", "d"], "n": [3, 4]}),
        items=pd.DataFrame({"dataset": ["d", "d", "e"], "item_id": ["b", "a", "c"]}),
        scores=pd.DataFrame(
            [("d", i, metric, s) for metric, s in (("x", 3), ("n", 2), ("m", 1)) for i in "ab"] + [("e", "c", "m", 7)],
            columns=["dataset", "item_id", "metric", "score"],
        ),
        has_file=lambda name: name in files,
    )  # fmt: skip
    return RunDataset(cast(Any, run), "d", "u")


def test_a_dataset_has_its_own_rows_alone() -> None:
    part = dataset()
    assert (part.title, part.file_words, part.good, part.precision) == ("D", ("d", "u"), 0.5, 0.8)
    assert part.correlations["metric"].tolist() == ["n", "m", "floor_random"]
    assert part.metrics == ["m", "n"]
    assert list(part.scores.columns) == ["m", "n", "x"]
    assert part.scores.index.tolist() == ["b", "a"]
    assert part.scores.iloc[0].tolist() == [1.0, 2.0, 3.0]
    assert part.oriented.iloc[0].tolist() == [1.0, -2.0, 3.0]
    assert part.ratings["value"].tolist() == [1.0, 2.0]
    assert (part.preferences["n"].tolist(), part.words["n"].tolist()) == ([2], [4])
    assert part.scales == {"p": Scale(1, 5, 1)}
    assert part.people("p").tolist() == pytest.approx([float("nan"), 1.5], nan_ok=True)
    assert [part.label(m) for m in ("m", "n", "floor_random")] == ["M", "n", "random scores"]
    kinds = [part.metric_kind(m) for m in ("m", "n", "floor_random", "ceiling_oracle")]
    assert kinds == ["learned", "given", "floor", "people"]
    assert (part.is_by_image, part.leading_position) == (False, 0)
    assert part.sort_metrics(["z", "n", "m"]) == ["m", "n", "z"]
    assert (part.faults, part.has_anonymous_raters) == ((), False)
    other = dataset(faults=["q"], anonymous_raters=True)
    assert (other.faults, other.has_anonymous_raters) == (("q",), True)


@pytest.mark.parametrize("kind", CHART_TITLES)
def test_charts_of_items_need_items(kind: str) -> None:
    assert dataset(("items.parquet",)).refuse_chart(kind) == ""
    reason = dataset().refuse_chart(kind)
    if kind in ("forest", "categories", "significance"):
        assert reason == ""
    else:
        assert reason == "captau reproduce keeps no items and ratings; captau bench does"


def test_datasets_and_protocols_are_parts() -> None:
    parts = run_datasets(dataset().run)
    assert [part.file_words for part in parts] == [("d", "u"), ("d", "v"), ("e", "u")]
    assert {(part.good, part.precision) for part in parts} == {(0.5, 0.8)}
    (first, *_) = run_datasets(dataset().run, 0.6, 0.7)
    assert (first.good, first.precision) == (0.6, 0.7)


def test_captions_without_people_have_no_judgements() -> None:
    part = scored(1)
    assert (part.ratings.empty, part.preferences.empty, part.words.empty) == (True,) * 3
    assert part.scales == {}
    assert list(part.preferences.columns) == [*PREFERENCE_COLUMNS, "winner"]
    assert list(part.ratings.columns) == list(RATING_COLUMNS)


@pytest.mark.parametrize(("has_items", "metrics"), [(False, {"m": {}}), (True, {}), (True, None)])
def test_captions_of_an_earlier_captau_are_refused(has_items: bool, metrics: Any) -> None:
    run: Any = SimpleNamespace(
        folder="runs/a", has_file=lambda _: has_items, run={"metrics": metrics}
    )
    with says(
        "runs/a was written by an earlier captau, which stored no captions; run captau score"
    ):
        scored_parts(run)


def test_captions_are_parts_by_their_references() -> None:
    run: Any = SimpleNamespace(
        corpus=pd.DataFrame({"references": ["b", "a", "b"]}),
        has_file=lambda name: name == "items.parquet",
        run={"metrics": {"m": {}}},
    )
    assert [part.dataset for part in scored_parts(run)] == ["b", "a"]
