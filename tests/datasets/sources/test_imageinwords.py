"""ImageInWords: small files of our own in the release's two shapes, and the figures of the real IIW-400."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from captau.benchmarks.commands.bench import bench
from captau.benchmarks.evaluation.judged_pairs import ORDER_NOTE
from captau.datasets.registry import load
from captau.datasets.schema import Card
from captau.datasets.sources.imageinwords import DIMENSIONS, IIW_400, IIW_DOCCI
from tests.conftest import says
from tests.metrics.metric_samples import Words


@dataclass(frozen=True)
class Length(Words):
    """The number of words, which asks for nothing but captions."""

    needs: ClassVar[frozenset[str]] = frozenset()


ANSWERS = ["{a} is marginally better", "{b} is substantially better", "Neutral"]
STRENGTHS = [1, -2, 0, 0, 0]


def preferences(a: str, b: str) -> dict[str, str]:
    answers = [*ANSWERS, "Neutral", "Neutral"]
    return {k: text.format(a=a, b=b) for k, text in zip(DIMENSIONS, answers, strict=True)}


def iiw_400() -> list[dict[str, Any]]:
    """An image with descriptions that people compared, and one without."""
    compared = {
        "image/key": "one",
        "IIW": "A long description.",
        "IIW-P5B": "A short one.",
        "iiw-human-sxs-iiw-p5b": preferences("IIW-Human", "IIW-P5B"),
        "iiw-human-sxs-gpt4v": preferences("IIW-Human", "GPT-4V"),
    }
    return [{"image/key": "two", "IIW": "Another description.", "objects": []}, compared]


def iiw_docci() -> list[dict[str, Any]]:
    pair = {"image": "one", "IIW": "A long description.", "DOCCI": "A short one."}
    return [pair | preferences("IIW", "DOCCI")]


def write(root: Path, card: Card, rows: list[dict[str, Any]]) -> Path:
    path = root / card.sources[0].path
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("card", "rows", "systems"),
    [
        (IIW_400, iiw_400(), ["IIW-Human", "IIW-P5B"]),
        (IIW_DOCCI, iiw_docci(), ["IIW", "DOCCI"]),
    ],
    ids=["iiw_400", "iiw_docci"],
)
def test_every_field_of_imageinwords(
    card: Card, rows: list[dict[str, Any]], systems: list[str], tmp_path: Path
) -> None:
    write(tmp_path, card, rows)
    caption_set = load(card.name, tmp_path)
    items = caption_set.items
    assert items["caption"].tolist() == ["A long description.", "A short one."]
    assert items["system"].tolist() == systems
    assert items["image_id"].tolist() == ["one", "one"]
    judged = caption_set.preferences
    assert judged["dimension"].tolist() == list(DIMENSIONS.values())
    assert judged["strength"].tolist() == STRENGTHS
    assert judged["winner"].tolist() == ["a", "b", "tie", "tie", "tie"]
    assert set(judged["pair_id"]) == {"one"}
    assert set(judged["item_a"]) == {items["item_id"][0]}
    assert set(judged["item_b"]) == {items["item_id"][1]}
    assert set(judged["rater"]) == {"people"}
    assert items["references"].tolist() == [(), ()]


def test_strengths_of_every_preference(tmp_path: Path) -> None:
    answers = ["{} is substantially better", "{} is marginally better"]
    texts = [answer.format(name) for name in ("IIW", "DOCCI") for answer in answers]
    row = iiw_docci()[0] | dict(zip(DIMENSIONS, [*texts, "Neutral"], strict=True))
    write(tmp_path, IIW_DOCCI, [row])
    assert load("iiw_docci", tmp_path).preferences["strength"].tolist() == [2, 1, -2, -1, 0]


@pytest.mark.parametrize("text", ["GPT-4V is marginally better", "IIW is much better", "neutral"])
def test_a_preference_for_neither_is_refused(text: str, tmp_path: Path) -> None:
    rows = iiw_docci()
    rows[0]["metrics/Hallucination"] = text
    path = write(tmp_path, IIW_DOCCI, rows)
    with says(f"{path}:1: 'metrics/Hallucination' is '{text}'; Neutral, or 'IIW' or 'DOCCI'"):
        load("iiw_docci", tmp_path)


def test_text_metrics_are_listed_as_missing_without_references(tmp_path: Path) -> None:
    write(tmp_path, IIW_DOCCI, iiw_docci())
    table = bench("iiw_docci", [Length(), "text"], data_root=tmp_path).correlations
    missing = table[table["note"].str.startswith("missing")]
    assert set(missing["metric"]) == {
        *("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "meteor", "cider")
    }
    assert "words" not in set(missing["metric"])


def test_the_floors_stand_where_no_metric_can_be_computed(tmp_path: Path) -> None:
    """Both descriptions have three words, which is a tie; the first one is always the person's."""
    write(tmp_path, IIW_DOCCI, iiw_docci())
    results = bench("iiw_docci", data_root=tmp_path, statistics={"interval": "none"})
    table = results.correlations
    mean = table[(table["dimension"] == "mean") & table["value"].notna()]
    assert mean["metric"].tolist() == []
    first = table[(table["dimension"] == "comprehensiveness") & table["value"].notna()]
    assert first.set_index("metric")["value"].to_dict() == {
        "floor_length": 0.5,
    }
    assert ORDER_NOTE in results.tables[0].notes
    assert results.scores.empty


def test_the_longer_description_wins_in_iiw_400(data_root: Path) -> None:
    """Shares of the README beside the file, ties aside."""
    table = bench("iiw_400", Length(), data_root=data_root).correlations
    of_length = table[table["metric"] == "words"]
    values = (100 * of_length.set_index("dimension")["value"]).round(1)
    assert values.drop("mean").to_dict() == {
        "comprehensiveness": 93.2,
        "first_lines": 79.1,
        "hallucination": 88.0,
        "human_like": 83.3,
        "specificity": 95.8,
    }
    caption_set = load("iiw_400", data_root)
    expected = {"images": 100, "items": 200, "preferences": 500}
    assert caption_set.card.expected == expected
    assert len(caption_set.items) == 200
    assert len(caption_set.preferences) == 500
