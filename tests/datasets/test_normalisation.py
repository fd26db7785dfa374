"""`protocol.normalise`: the text rule of THumB, and that scores, signatures and protocols have it."""

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
from captau.datasets.normalisation import normalise_items, normalise_thumb
from captau.datasets.registry import load
from tests.conftest import run_captau, says


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
