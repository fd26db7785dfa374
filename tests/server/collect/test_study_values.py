"""A value of each type of YAML's in each key of a study's file, for every form, of its translations and of a file of scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from captau.datasets.reading.rating_scales import read_scales
from captau.server.collect.study import read_study
from tests.server.collect.conftest import write_study
from tests.yaml_values import VALUES, check_change, paths_of

PAIR = {"image": "p0.png", "caption": "practice", "explanation": "It says what is there."}
LEVELS = [{"value": v, "text": f"level {v}", "name": f"no. {v}"} for v in (1, 2)]
DIMENSIONS = [{"name": "sense", "question": "Well?", "note": "Look.", "levels": LEVELS}]
#: The fields that every form has.
COMMON = {
    "name": "small",
    "participants": "crowd",
    "title": "A small study",
    "intro": "Look, then judge.",
    "consent": "You take part in a test.",
    "lang": "de",
    "translations": "own.yaml",
    "question": "How good is it?",
    "instructions": "Look.",
    "items": {
        "file": "captions.jsonl",
        "images": ".",
        "systems": ["sys-5", "sys-4"],
        "shares": {"sys-5": 0.5, "mismatched": 1},
        "mismatched_from": "sys-4",
        "limit": 6,
        "seed": 1,
    },
    "attention_every": 2,
    "ratings": 3,
    "per_rater": 4,
    "nicknames": True,
    "crowd": {"parameter": "PID", "completion": "C0DE"},
    "limits": {"joins": 60, "logins": 10, "requests": 20},
    "conditions": {"countries": "US", "pay": "$10 an hour"},
}
#: The fields of each form's own.
OWN: dict[str, dict[str, Any]] = {
    "four": {"dimensions": DIMENSIONS, "attention": [{**PAIR, "accepted": [1, 2]}]},
    "references": {"min_words": 9},
    "ab": {
        "attention": [
            {"image": "p0.png", "caption_a": "one", "caption_b": "two", "accepted": ["a", "tie"]}
        ]
    },
    "thumb": {
        "participants": "invitation",
        "thumb": {
            "annotators": [
                {"first": "ann", "second": "bob", "third": "cem", "fluency": "dee", "images": ["p1.png"]},
                {"first": "ann", "second": "dee"},
            ],
            "native_speakers": ["dee"],
            "fluency_check": False,
        },
    },
    "game": {
        "game": {
            "wait": 1.5,
            "tutorial_pairs": 1,
            "pairs": 2,
            "points": 1,
            "attempts": 2,
            "cold_start": [{"metric": "rouge_l", "low": 0, "high": 1}, "bleu_1"],
            "tutorial": [{**PAIR, "ratings": [4, 5]}],
            "probation": [{**PAIR, "ratings": 3}, {**PAIR, "caption": "another", "ratings": 3}],
        }
    },
}  # fmt: skip


def write(folder: Path, protocol: str) -> tuple[dict[str, Any], Path]:
    """Write the tables and images of a study, and return the content that its file has, and its path."""
    own = OWN[protocol]
    needed: dict[str, Any] = {"name": "small", "protocol": protocol, "consent": "Yes."}
    needed["items"] = {"file": "captions.jsonl", "limit": 6}
    content = {**needed, **(COMMON if protocol == "four" else {}), **own}
    (folder / "own.yaml").write_text("Next: Weiter\n")
    return content, write_study(folder, protocol)


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param("four", marks=pytest.mark.slow),
        pytest.param("game", marks=pytest.mark.slow),
        "references",
        "ab",
        "thumb",
    ],
)
def test_a_value_of_each_type_in_each_key_is_read_or_named_with_file_and_line(
    protocol: str, tmp_path: Path
) -> None:
    content, path = write(tmp_path, protocol)
    path.write_text(yaml.safe_dump(content))
    assert read_study(str(path)).form.name == protocol
    own = OWN[protocol]
    for keys in paths_of(content):
        # Fields that other forms have too are tried with one of them.
        if keys and protocol != "four" and keys[0] not in own:
            continue
        for value in VALUES:
            check_change(lambda: read_study(str(path)), path, content, keys, value)


def test_a_value_of_each_type_in_each_key_of_translations_and_scales(tmp_path: Path) -> None:
    study = write_study(tmp_path, "good_bad", lang="de", translations="own.yaml")
    translations = tmp_path / "own.yaml"
    table = tmp_path / "ratings.csv"
    scales = tmp_path / "ratings.yaml"
    texts = {"Next": "Weiter"}
    content = {
        "scales": {"a": {"low": 1, "high": 5, "step": 1}, "one": {"low": 0, "high": 1}},
        "totals": ["a"],
        "faults": ["one"],
        "conditions": {"countries": "US"},
    }
    for value in VALUES:
        for keys in paths_of(texts):
            check_change(lambda: read_study(str(study)), translations, texts, keys, value)
        for keys in paths_of(content):
            check_change(lambda: read_scales(table), scales, content, keys, value)
