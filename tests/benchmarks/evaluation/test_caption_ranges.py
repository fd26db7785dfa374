"""Ranges of captions: measured by hand, their laws, and the file of those that papers print numbers of."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.evaluation.caption_ranges import (
    CaptionRange,
    Spread,
    dataset_range,
    find_mismatch,
    measure_range,
    published_range,
    published_ranges,
)
from captau.benchmarks.evaluation.evidence import load_evidence
from captau.benchmarks.evaluation.papers.published_numbers import read_numbers
from captau.conf import group
from tests.conftest import says

SCRIPT = Path(__file__).parents[3] / "scripts" / "published" / "measure_ranges.py"
TEXTS = st.text(alphabet="ab 狗é", max_size=30)
ROWS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=3).map(tuple)), min_size=1, max_size=6)


def items_of(rows: list[tuple[str, tuple[str, ...]]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "image_id": [str(i // 2) for i in range(len(rows))],
            "caption": [r[0] for r in rows],
            "references": pd.Series([r[1] for r in rows], dtype=object),
        }
    )


def test_a_range_is_measured_by_words() -> None:
    """Golden, worked: two captions an image, whose references count once."""
    refs = ("a dog", "the black dog runs"), ("a cat sleeps",)
    items = items_of([("A dog!", refs[0]), ("a dog runs", refs[0]), ("dogs", refs[1])])
    measured = measure_range(items)
    assert measured == CaptionRange(
        n_captions=3,
        caption_words=Spread(1, 2, 3),
        reference_words=Spread(2, 3, 4),
        references=Spread(1, 1, 2),
        script="latin",
        frequent_words={"a": 0.33333, "dog": 0.33333, "dogs": 0.16667, "runs": 0.16667},
        n_words=6,
        n_copies=1,
    )
    assert (
        str(measured)
        == "captions of 1 to 3 words, 1 to 2 references of 2 to 4 words, latin script; "
        "1 of 3 is one of its references"
    )
    assert measured.with_policy("mean_over_single", None).references == Spread(1, 1, 1)
    assert measured.with_policy("first_k", 1).references == Spread(1, 1, 1)
    assert measured.with_policy("all", None) == measured


def test_a_range_says_how_many_captions_are_copies_unless_they_are_scored_without() -> None:
    measured = measure_range(items_of([("A dog!", ("a dog", "a cat")), ("dogs", ("a dog",))]))
    assert str(measured).endswith("latin script; 1 of 2 is one of its references")
    assert measured.with_policy("all", None) == measured
    for policy in ("drop", "leave_out"):
        assert measured.with_policy("all", None, policy).n_copies == 0


@pytest.mark.parametrize(
    ("n_copies", "policy", "is_outside"),
    [
        (0, "keep", True),
        (9, "keep", True),
        (10, "keep", False),
        (20, "keep", False),
        (20, "leave_out", True),
    ],
)
def test_captions_that_copy_references_need_evidence_of_such(
    n_copies: int, policy: str, is_outside: bool
) -> None:
    """Worked by hand: 3 of 20 captions are copies, 15 %, and the evidence reaches 5 points beyond its own share."""
    refs = ("a dog runs", "the dog")
    evidence = measure_range(
        items_of([(refs[0] if i < n_copies else "a dog sits", refs) for i in range(100)])
    ).with_policy("all", None, policy)
    captions = measure_range(
        items_of([(refs[0] if i < 3 else "a dog sits", refs) for i in range(20)])
    )
    share = n_copies if policy == "keep" else 0
    expected = f"are one of their references in 15 % of cases, the judged ones in {share} %"
    reason = find_mismatch(evidence, captions, with_references=True)
    assert reason == (expected if is_outside else "")
    assert find_mismatch(evidence, captions, with_references=False) == ""


def test_shares_of_copies_are_printed_in_percent() -> None:
    """150 of 200 captions, 75 %, against 3 of 5."""
    refs = ("a dog runs", "the dog")
    sets = [
        items_of([(refs[0] if i < n_copies else "a dog sits", refs) for i in range(n)])
        for n_copies, n in ((3, 5), (150, 200))
    ]
    evidence, captions = map(measure_range, sets)
    assert find_mismatch(evidence, captions, with_references=True) == (
        "are one of their references in 75 % of cases, the judged ones in 60 %"
    )


def test_a_set_without_copies_does_not_vouch_for_copies() -> None:
    refs = ("two dogs run in the snow with a ball",) * 5
    copies = measure_range(items_of([(refs[0], refs)] * 200))
    evidence = load_evidence(["bleu_4"], "published").apply_to({"": copies})
    assert "flickr8k_expert" not in str(evidence.by_spec.get("bleu_4", ""))


def test_fifty_words_of_another_language_are_enough() -> None:
    evidence = published_ranges()["flickr8k_expert"]
    german = measure_range(items_of([("ein Hund läuft über die grüne Wiese am Haus", ())] * 6))
    assert find_mismatch(evidence, german, with_references=False).startswith(
        "do not look like English"
    )
    english = measure_range(items_of([("two children play in the snow with a red sled", ())] * 5))
    assert find_mismatch(evidence, english, with_references=False) == ""


@given(ROWS)
def test_captions_lie_within_their_own_range(rows: list[tuple[str, tuple[str, ...]]]) -> None:
    measured = measure_range(items_of(rows))
    for with_references in (True, False):
        assert find_mismatch(measured, measured, with_references=with_references) == ""
    assert CaptionRange.from_record(measured.record(), "here") == measured


@pytest.mark.parametrize(
    ("field", "value"),
    [("references", [1, 2]), ("caption_words", "abc"), ("colour", "red")],
)
def test_a_malformed_range_is_named(field: str, value: object) -> None:
    record = measure_range(items_of([("a dog", ("a cat",))])).record()
    with says("run.json: demo: the range of captions is malformed", "measure it again"):
        CaptionRange.from_record({**record, field: value}, "run.json: demo")
    lengths = ("n_captions", "caption_words", "reference_words", "frequent_words", "n_words")
    for missing in ("script", "references", *lengths):
        with says("malformed"):
            CaptionRange.from_record({k: v for k, v in record.items() if k != missing}, "x")


def test_every_dataset_of_published_numbers_has_a_range_or_says_why_not() -> None:
    datasets = {number.dataset for paper in group("paper") for number in read_numbers(paper)}
    assert datasets <= set(published_ranges())
    assert all(captions.language for captions in published_ranges().values())


def test_a_dataset_without_a_range_is_named() -> None:
    with says(
        "results/published/ranges.json has no range of nocaps",
        "scripts/published/measure_ranges.py",
    ):
        published_range("nocaps")


def test_lengths_that_are_not_known_are_not_compared() -> None:
    unknown = published_ranges()["polaris"]
    assert str(unknown) == "captions of unknown length, English"
    long = measure_range(items_of([("a dog " * 100, ("a cat",))]))
    assert find_mismatch(unknown, long, with_references=True) == ""
    thai = measure_range(items_of([("หมาดำ", ("a cat",))]))
    assert find_mismatch(unknown, thai, with_references=True) == (
        "are in thai script, the judged ones in latin"
    )


def test_the_published_ranges_are_those_of_the_real_sets(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is what `scripts/published/measure_ranges.py` writes where the data is at hand."""
    arguments = [str(SCRIPT), "--check", "--data", str(data_root)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 0


def spreads(**changes: Any) -> CaptionRange:
    fields: dict[str, Any] = {
        "caption_words": Spread(8, 10, 12),
        "reference_words": Spread(6, 8, 10),
        "references": Spread(4, 5, 5),
        "script": "latin",
        "frequent_words": {"a": 0.2, "in": 0.1},
    }
    return CaptionRange(**{"n_captions": 100, "n_words": 1000, **fields, **changes})


@pytest.mark.parametrize(
    ("captions", "evidence", "reason"),
    [
        ({}, {}, ""),
        ({"script": "han"}, {}, "are in han script, the judged ones in latin"),
        ({"script": ""}, {}, ""),
        ({"caption_words": None}, {}, ""),
        ({"caption_words": Spread(1, 8, 99)}, {}, ""),
        ({"caption_words": Spread(1, 12, 99)}, {}, ""),
        ({"caption_words": Spread(8, 7, 12)}, {}, "have 7 words, the judged ones 8 to 12"),
        ({"caption_words": Spread(8, 13, 12)}, {}, "have 13 words, the judged ones 8 to 12"),
        (
            {"caption_words": Spread(8, 13, 12)},
            {"caption_words": Spread(9, 9, 9)},
            "have 13 words, the judged ones 9",
        ),
        ({"references": Spread(2, 2, 2)}, {}, ""),
        ({"references": Spread(10, 10, 10)}, {}, ""),
        ({"references": Spread(1, 1, 1)}, {}, "have 1 reference, the judged ones 4 to 5"),
        ({"references": Spread(11, 11, 11)}, {}, "have 11 references, the judged ones 4 to 5"),
        ({"references": None}, {}, ""),
        ({"references": Spread(1, 1, 1)}, {"references": None}, ""),
        (
            {"reference_words": Spread(6, 11, 10)},
            {},
            "have references of 11 words, the judged ones of 6 to 10",
        ),
        (
            {"reference_words": Spread(6, 5, 10)},
            {},
            "have references of 5 words, the judged ones of 6 to 10",
        ),
        ({"reference_words": None}, {}, ""),
        ({"reference_words": Spread(6, 5, 10)}, {"reference_words": None}, ""),
        # A third of 0.3 is 0.1.
        ({"frequent_words": {"a": 0.1}}, {}, ""),
        (
            {"frequent_words": {"a": 0.05, "in": 0.045, "ein": 0.9}},
            {},
            "do not look like the judged ones' language: the 2 words that are the most frequent in the judged captions "
            "make up 30 % of those and 10 % of yours",
        ),
        (
            {"frequent_words": {}, "n_words": 50},
            {"language": "English"},
            "do not look like English: the 2 words that are the most frequent in the judged captions make up 30 % of "
            "those and 0 % of yours",
        ),
        ({"frequent_words": {}, "n_words": 49}, {}, ""),
        ({"n_copies": 5}, {}, ""),
        (
            {"n_copies": 6},
            {},
            "are one of their references in 6 % of cases, the judged ones in 0 %",
        ),
        ({"n_copies": 6}, {"n_copies": 1}, ""),
        (
            {"n_copies": 8},
            {"n_copies": 2},
            "are one of their references in 8 % of cases, the judged ones in 2 %",
        ),
    ],
)
def test_the_first_way_in_which_captions_lie_outside_is_said(
    captions: dict[str, Any], evidence: dict[str, Any], reason: str
) -> None:
    found = find_mismatch(spreads(**evidence), spreads(**captions), with_references=True)
    assert found == reason
    without = find_mismatch(spreads(**evidence), spreads(**captions), with_references=False)
    assert without == ("" if "reference" in reason else reason)


@pytest.mark.parametrize(
    ("captions", "text"),
    [
        ({}, "captions of 8 to 12 words, 4 to 5 references of 6 to 10 words, latin script"),
        (
            {"references": Spread(1, 1, 1), "language": "German", "systems": "by people"},
            "captions of 8 to 12 words, 1 reference of 6 to 10 words, German; by people",
        ),
        (
            {"references": Spread(0, 1, 1), "n_copies": 1},
            "captions of 8 to 12 words, 0 to 1 reference of 6 to 10 words, latin script; 1 of 100 is one of its "
            "references",
        ),
        (
            {"reference_words": None, "caption_words": None, "n_copies": 2000, "n_captions": 3000},
            "captions of unknown length, latin script; 2,000 of 3,000 are one of their references",
        ),
        ({"references": None}, "captions of 8 to 12 words, latin script"),
    ],
)
def test_a_range_in_words(captions: dict[str, Any], text: str) -> None:
    assert str(spreads(**captions)) == text


def test_long_captions_are_counted_in_thousands() -> None:
    captions = spreads(caption_words=Spread(8_000_000, 8_000_000, 8_000_000))
    found = find_mismatch(spreads(), captions, with_references=True)
    assert found.startswith("have 8,000,000 words, the judged ones ")


def test_policies_of_references_cut_their_number() -> None:
    captions = spreads(n_copies=3)
    assert captions.with_policy("first_k", 4).references == Spread(4, 4, 4)
    assert captions.with_policy("first_k", 5).references == Spread(4, 5, 5)
    assert captions.with_policy("max_over_single", 3).references == Spread(1, 1, 1)
    assert captions.with_policy("all", 3) == captions
    assert captions.with_policy("first_k", 2).n_copies == 3
    assert captions.with_policy("first_k", 2, "drop").n_copies == 0
    without = spreads(references=None, n_copies=3)
    assert without.with_policy("first_k", 2) == without
    assert without.with_policy("first_k", 2, "drop").n_copies == 0


def test_the_most_frequent_words_are_fifty_by_count_and_alphabet() -> None:
    texts = [
        " ".join(f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)),
        "wza wza 12 w_z",
    ]
    measured = measure_range(items_of([(text, ()) for text in texts]))
    assert measured.n_words == 64
    words = list(measured.frequent_words)
    assert len(words) == 50
    assert words[0] == "wza"
    assert words[1:4] == ["w", "waa", "wab"]
    assert measured.frequent_words["wza"] == round(2 / 64, 5)
    assert measured.caption_words == Spread(4, 4, 60)


def test_a_known_dataset_brings_its_language_and_systems() -> None:
    items = items_of([("a dog", ("a cat",))])
    described = published_ranges()["thumb"]
    found = dataset_range("thumb", items)
    assert (found.language, found.systems) == (described.language, described.systems)
    assert found.systems
    assert found.caption_words == Spread(2, 2, 2)
    assert dataset_range("nobodys", items) == measure_range(items)
