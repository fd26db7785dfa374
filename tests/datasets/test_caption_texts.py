"""Captions' texts: their scripts, the rule of THumB, and captions that are one of their references, counted on the real sets too."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captau
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets import registry
from captau.datasets.caption_texts import (
    comparison_form,
    find_own_references,
    find_script,
    is_unsegmented,
    leave_out_of_pairs,
    letter_script,
    normalise_items,
    normalise_thumb,
)
from captau.datasets.preferences import make_preferences
from captau.datasets.registry import load
from captau.datasets.schema import make_items
from tests.conftest import AWKWARD, run_captau, says

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
        ("a dog", "adog", True),
        ("a t shirt", "A T-shirt.", True),
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
    """Golden, worked: lower case, and no character but letters and digits, blanks included."""
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
    assert copies.other_references == [("the dog",), ("the dog",), (), ("a dog",), ()]


def test_a_copied_reference_is_left_out_for_every_caption_of_its_image() -> None:
    """Golden, worked: of image 1 two references are copied, by its first and third captions; none of image 2's own is."""
    references = ("A dog runs.", "the dog", "a hound")
    rows = [("a dog runs", references), ("a bird", references), ("The dog!", references)]
    items = make_items(
        ["1", "1", "1", "2"],
        [caption for caption, _ in rows] + ["a cat"],
        [texts for _, texts in rows] + [("a dog runs", "a cat sits")],
    )
    copies = find_own_references(items, of_image=True)
    assert copies.is_copy.tolist() == [True, False, True, False]
    assert not copies.is_single.any()
    assert copies.other_references == [*3 * [("a hound",)], ("a dog runs", "a cat sits")]
    own = find_own_references(items)
    assert own.other_references[:3] == [references[1:], references, (references[0], references[2])]
    only = items.assign(references=pd.Series(4 * [references[:2]], dtype=object))
    assert find_own_references(only, of_image=True).is_single.tolist() == [True, True, True, False]


def test_a_pair_lacks_the_references_that_one_of_its_captions_is() -> None:
    """Golden, worked: both captions of a pair are scored beside the same references, whatever other pairs they stand in.

    "a cat" meets "A dog." without "a dog", and "a cow" with it; "a bird" loses its only reference; "a fish" meets none.
    """
    references = ("a dog", "the dog", "a hound")
    captions = ["A dog.", "a cat", "a cow", "a bird", "a fish"]
    items = make_items(
        ["1", "1", "1", "1", "2"],
        captions,
        [references, references, references, ("a bird",), ("a fish",)],
    )
    dog, cat, cow, bird, fish = items["item_id"]
    preferences = make_preferences(
        [("p0", dog, cat, "X", "a"), ("p1", cow, cat, "X", "b"), ("p2", bird, cow, "X", "tie")]
    )

    left_out = leave_out_of_pairs(items, preferences)
    assert left_out.items[["item_id", "caption", "references"]].to_numpy().tolist() == [
        [dog, "A dog.", ("the dog", "a hound")],
        [cat, "a cat", references],
        [f"{cat}#2", "a cat", ("the dog", "a hound")],
        [cow, "a cow", references],
        [bird, "a bird", ()],
        [fish, "a fish", ("a fish",)],
    ]
    assert left_out.source_ids.tolist() == [dog, cat, cat, cow, bird, fish]
    assert left_out.is_without.tolist() == [False, False, False, False, True, False]
    assert left_out.is_pair_without.tolist() == [False, False, True]
    assert left_out.preferences[["item_a", "item_b"]].to_numpy().tolist() == [
        [dog, f"{cat}#2"],
        [cow, cat],
        [bird, cow],
    ]
    assert left_out.preferences["strength"].tolist() == [1, -1, 0]


def test_ids_of_pairs_depend_on_no_order_of_rows() -> None:
    """The set of most references keeps the id; of sets as large, the first in the order of texts does."""
    references = ("x", "y", "z")
    items = make_items(["1"] * 4, ["z", "y", "x", "q"], [references] * 4)
    z, y, x, q = items["item_id"]
    rows = [("p0", z, q, "X", "a"), ("p1", y, q, "X", "a"), ("p2", x, q, "X", "a")]
    for order in (rows, rows[::-1]):
        left_out = leave_out_of_pairs(items, make_preferences(order))
        of_q = left_out.items[left_out.source_ids == q]
        assert dict(zip(of_q["item_id"], of_q["references"], strict=True)) == {
            q: ("x", "y"),
            f"{q}#2": ("x", "z"),
            f"{q}#3": ("y", "z"),
        }
        met = dict(zip(left_out.preferences["item_a"], left_out.preferences["item_b"], strict=True))
        assert met == {z: q, y: f"{q}#2", x: f"{q}#3"}


@given(ROWS)
def test_without_its_copies_no_item_has_any(rows: list[tuple[str, tuple[str, ...]]]) -> None:
    items = items_of(rows)
    copies = find_own_references(items)
    others = copies.other_references
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


@pytest.mark.parametrize(
    ("name", "n_images"), [("composite_8k", 997), ("composite_30k", 991), ("composite_coco", 2007)]
)
def test_each_image_of_composite_has_a_copy(name: str, n_images: int, data_root: Path) -> None:
    """Golden, data/README.md: a person's caption among its own references in all 3,995 images."""
    items = registry.load(name, data_root).items
    copies = find_own_references(items, of_image=True)
    assert items["image_id"][copies.is_copy].nunique() == items["image_id"].nunique() == n_images
    assert not copies.is_single.any()
    n_left = pd.Series(list(map(len, copies.other_references)))
    assert (n_left < items["references"].map(len)).all()


def test_copies_of_hat(data_root: Path) -> None:
    """Golden: three of HAT's 400 captions, data/README.md."""
    rows = json.loads((data_root / "hat" / "hat-trainval.json").read_text())
    items = items_of([(row["caption"], tuple(row["references"])) for row in rows])
    copies = find_own_references(items)
    assert (len(items), copies.n_copies) == (400, 3)
    assert not copies.is_single.any()


# A black dog runs on the grass.
CHINESE, CUT_CHINESE = "一只黑色的狗在草地上奔跑。", "一 只 黑色 的 狗 在 草地 上 奔跑 。"
JAPANESE, CUT_JAPANESE = "黒い犬が草の上を走っている", "黒い 犬 が 草 の 上 を 走って いる"
THAI, CUT_THAI = "หมาดำวิ่งบนหญ้าสีเขียว", "หมา ดำ วิ่ง บน หญ้า สี เขียว"


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("a dog", "latin"),
        ("ein schönes Mädchen", "latin"),
        ("e\N{COMBINING ACUTE ACCENT}", "latin"),
        (CHINESE, "han"),
        (JAPANESE, "kana"),
        ("スケートボード", "kana"),
        (THAI, "thai"),
        ("чёрная собака", "cyrillic"),
        ("काला कुत्ता", "devanagari"),
        ("검은 개", "hangul"),
        ("a dog named 狗", "latin"),
        ("12:30 🐕", ""),
        ("", ""),
    ],
)
def test_the_script_of_a_text_is_that_of_most_of_its_letters(text: str, script: str) -> None:
    assert find_script([text]) == script
    assert find_script([text, ""]) == script


def test_digits_signs_and_accents_are_of_no_script() -> None:
    for character in "1½²-\N{COMBINING ACUTE ACCENT}\N{VARIATION SELECTOR-16}🐕":
        assert letter_script(character) == ""


@pytest.mark.parametrize(
    "text", [CHINESE, JAPANESE, THAI, "两个人在看 iPhone 手机里的照片", "ខ្មែររត់លើស្មៅបៃតង"]
)
def test_texts_without_blanks_between_words_are_unsegmented(text: str) -> None:
    assert is_unsegmented(text)


@pytest.mark.parametrize(
    "text",
    [
        *AWKWARD,
        CUT_CHINESE,
        CUT_JAPANESE,
        CUT_THAI,
        "狗",
        "黑狗",
        "스케이트보드를 타는 남자",
        "काला कुत्ता दौड़ता है",
    ],
)
def test_texts_with_blanks_between_words_are_segmented(text: str) -> None:
    assert not is_unsegmented(text)


@pytest.mark.parametrize(
    ("caption", "normalised"),
    [
        ("  a dog runs . ", "A dog runs."),
        ("a dog", "A dog."),
        ("A dog.", "A dog."),
        ("what a dog !", "What a dog!"),
        ("is it a dog?", "Is it a dog?"),
        ("dogs ...", "Dogs..."),
        ('a sign that says "stop."', 'A sign that says "stop."'),
        ('a sign that says "stop"', 'A sign that says "stop".'),
        ("a U.S. flag", "A U.S. flag."),
        ("2 dogs", "2 dogs."),
        ("élan", "Élan."),
        ("犬がいる。", "犬がいる。"),
        ("", ""),
        ("  ", ""),
    ],
)
def test_the_rule_of_thumb_by_hand(caption: str, normalised: str) -> None:
    """Kasai et al. 2022, section 2.2.3: blanks, capital, period; never a second final mark."""
    assert normalise_thumb(caption) == normalised


@given(st.text(alphabet=st.sampled_from("aB .!?…\"') \tßǆ。"), max_size=12))
def test_a_normalised_caption_is_left_as_it_is(caption: str) -> None:
    normalised = normalise_thumb(caption)
    assert normalise_thumb(normalised) == normalised
    assert normalised == normalised.strip()


def test_thumbs_release_is_in_this_form(data_root: Path) -> None:
    """The release's captions and references are the same after the rule."""
    items = load("thumb", data_root).items
    normalised = normalise_items(items, "thumb")
    pd.testing.assert_frame_equal(normalised, items)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Four rated captions, of which two differ from their references in form alone."""
    path = tmp_path / "ratings.csv"
    path.write_text(
        "image,caption,value,references\n"
        "i1,a dog runs on grass .,5,A dog runs on grass.\n"
        "i2,a cat sits on a mat,4,A cat sits on a mat.\n"
        "i3,a man,2,A woman walks on the street.\n"
        "i4,two red cars on a road,1,A child plays with a ball.\n"
    )
    return path


def test_bench_scores_normalised_captions_and_signs_them(ratings: Path) -> None:
    runs = {
        rule: captau.bench(
            "file",
            ["sacrebleu", "bleu_1"],
            protocol={"normalise": rule},
            file={"path": ratings},
            ceilings=False,
        )
        for rule in ("none", "thumb")
    }
    scores = {
        rule: run.scores.pivot(index="item_id", columns="metric", values="score")
        for rule, run in runs.items()
    }
    assert scores["none"].index.equals(scores["thumb"].index)
    # Equal to their references but for the form: 100 by definition once that is alike.
    assert (scores["thumb"]["sacrebleu"] > 99.9).sum() == 2
    assert (scores["none"]["sacrebleu"] > 99.9).sum() == 0
    # Tokens without case and punctuation are the same.
    assert scores["none"]["bleu_1"].equals(scores["thumb"]["bleu_1"])
    assert not runs["none"].run["signatures"]["sacrebleu"].endswith("thumb")
    for signature in runs["thumb"].run["signatures"].values():
        assert signature.endswith("|normalise:thumb")
    assert set(runs["thumb"].correlations["protocol"]) == {"usual normalise=thumb"}


def test_score_has_the_rule_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    candidates, references = tmp_path / "mine.json", tmp_path / "refs.json"
    candidates.write_text(json.dumps({"1": "a dog runs on grass", "2": "a cat sits on a mat !"}))
    references.write_text(
        json.dumps({"1": ["A dog runs on grass."], "2": ["A cat sits on a mat!"]})
    )
    options = [f"candidates={candidates}", f"references={references}", "metrics=[sacrebleu]"]
    for rule, is_equal in (("none", False), ("thumb", True)):
        out = tmp_path / rule
        words = [*options, f"protocol.normalise={rule}", "trust=null", f"output_dir={out}"]
        assert run_captau("score", *words) == 0
        corpus = json.loads((out / "corpus.json").read_text())
        assert (corpus["sacrebleu"] > 99.9) == is_equal
        signature = json.loads((out / "run.json").read_text())["signatures"]["sacrebleu"]
        assert signature.endswith("|normalise:thumb") == is_equal
        printed = "normalised by the rule thumb" in capsys.readouterr().out
        assert printed == is_equal


def test_unknown_rules_and_large_sets_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_captau("score", "candidates=a.json", "protocol.normalise=thum") == 2
    assert "protocol.normalise 'thum': did you mean thumb?" in capsys.readouterr().err
    words = ["candidates=shards", "engine=local", "protocol.normalise=thumb"]
    assert run_captau("score", *words) == 2
    assert "protocol.normalise= does not work on large sets" in capsys.readouterr().err
    with says("unknown value of protocol.normalise 'thum': did you mean thumb?"):
        Protocol.resolve("demo", usual_protocol("demo"), {"normalise": "thum"})


def test_protocols_from_before_the_option_score_captions_as_they_are() -> None:
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})
    record = {name: value for name, value in vars(protocol).items() if name != "normalise"}
    assert Protocol.from_record(record) == protocol
    assert protocol.normalise == "none"
