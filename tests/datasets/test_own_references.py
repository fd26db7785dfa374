"""Captions that are one of their references: the rule worked by hand, its laws, and counts of the real sets."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.datasets import registry
from captau.datasets.own_references import (
    comparison_form,
    find_own_references,
    leave_out_copies,
)

TEXTS = st.text(alphabet="aB1 .-é狗", max_size=6)
ROWS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=4).map(tuple)), max_size=8)


def items_of(rows: list[tuple[str, tuple[str, ...]]]) -> pd.DataFrame:
    captions, references = [r[0] for r in rows], pd.Series([r[1] for r in rows], dtype=object)
    return pd.DataFrame({"caption": captions, "references": references})


@pytest.mark.parametrize(
    ("a", "b", "is_equal"),
    [
        ("A dog's ball.", "a dog ' s ball", True),  # word pieces that were joined again
        ("  A  DOG\t", "a dog", True),
        ("a dog, a cat", "a dog a cat", True),
        ("a dog", "a dogs", False),
        ("a dog", "adog", False),
        ("2 dogs", "3 dogs", False),
        ("naïve", "na ve", True),
        ("一只狗", "一只猫", False),  # the rule alone would leave nothing of either
        ("一只狗。", "一 只 狗", True),
        ("", "...", True),
        ("٣ كلاب", "٤ كلاب", False),
        ("\N{DOG FACE}", "\N{CAT FACE}", False),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}", True),
        (
            "\N{HIRAGANA LETTER GA}",
            "\N{HIRAGANA LETTER KA}\N{COMBINING KATAKANA-HIRAGANA VOICED SOUND MARK}",
            True,
        ),
    ],
)
def test_texts_are_compared_without_case_and_punctuation(a: str, b: str, is_equal: bool) -> None:
    """Golden, worked: lower case, every run of characters other than a–z and 0–9 one blank, ends trimmed."""
    assert (comparison_form(a) == comparison_form(b)) == is_equal


def test_copies_are_marked_and_their_references_left_out() -> None:
    """Golden, worked: a copy letter by letter, one but for a full stop, one without another reference, and none."""
    items = items_of(
        [
            ("a dog", ("a dog", "the dog")),
            ("A dog.", ("a dog", "a dog !", "the dog")),
            ("a cat", ("A CAT",)),
            ("a cat", ("a dog",)),
            ("a cat", ()),
        ]
    )
    copies = find_own_references(items)
    assert copies.is_copy.tolist() == [True, True, True, False, False]
    assert copies.is_exact.tolist() == [True, False, False, False, False]
    assert copies.is_single.tolist() == [False, False, True, False, False]
    assert (copies.n_copies, copies.n_exact) == (3, 1)
    assert leave_out_copies(items) == [("the dog",), ("the dog",), (), ("a dog",), ()]


@given(ROWS)
def test_without_its_copies_no_item_has_any(rows: list[tuple[str, tuple[str, ...]]]) -> None:
    items = items_of(rows)
    copies, others = find_own_references(items), leave_out_copies(items)
    without = find_own_references(items.assign(references=pd.Series(others, dtype=object)))
    assert without.n_copies == 0
    assert find_own_references(items[~copies.is_copy]).n_copies == 0
    assert not (copies.is_exact & ~copies.is_copy).any()
    assert [
        len(o) < len(r) for o, (_, r) in zip(others, rows, strict=True)
    ] == copies.is_copy.tolist()


@pytest.mark.parametrize(
    ("name", "n_copies", "n_exact"),
    [("thumb", 48, 48), ("capeval1k", 2, 0), ("flickr8k_cf", 1, 1), ("flickr8k_expert", 0, 0)],
)
def test_copies_of_the_real_sets(name: str, n_copies: int, n_exact: int, data_root: Path) -> None:
    """Golden: counted independently of captau for THumB, CapEval1k and Flickr8k-CF."""
    copies = find_own_references(registry.load(name, data_root).items)
    assert (copies.n_copies, copies.n_exact) == (n_copies, n_exact)


def test_copies_of_hat(data_root: Path) -> None:
    """Golden: three of HAT's 400 captions, data/README.md."""
    rows = json.loads((data_root / "hat" / "hat-trainval.json").read_text())
    items = items_of([(row["caption"], tuple(row["references"])) for row in rows])
    copies = find_own_references(items)
    assert (len(items), copies.n_copies) == (400, 3)
    assert not copies.is_single.any()
