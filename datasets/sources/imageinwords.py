"""ImageInWords: long descriptions side by side, with people's graded preferences on five dimensions (Garg et al. 2024).

`iiw_400` compares people's descriptions (`IIW-Human`) with a model's (`IIW-P5B`) on 100 images; the captions of its other
comparison, with GPT-4V, are not released. `iiw_docci` compares IIW's with DOCCI's, both by people, on 100 images of DOCCI's test
split. A strength of 2 is "substantially better", 1 "marginally better", 0 "Neutral"; positive prefers the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..reading.json_files import field, read_json_lines
from ..reading.source_files import bibtex, find, github_file
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card, SourceFile

_COMMIT = "96d393777e2528becd8a7afa1389eb4b65084793"
DIMENSIONS = {
    "metrics/Comprehensiveness": "comprehensiveness",
    "metrics/Specificity": "specificity",
    "metrics/Hallucination": "hallucination",
    "metrics/First few line(s) as tldr": "first_lines",
    "metrics/Human Like": "human_like",
}
GRADES = {"marginally": 1.0, "substantially": 2.0}
_BETTER = re.compile(r"(.+) is (marginally|substantially) better")
_CITATION = bibtex("garg2024imageinwords")


def _source(path: str, folder: str, sha256: str) -> SourceFile:
    name = f"datasets/{folder}/data.jsonl"
    return github_file(path, "google/imageinwords", _COMMIT, name, sha256)


def _card(name: str, title: str, source: SourceFile) -> Card:
    return Card(
        name=name,
        title=title,
        revision=_COMMIT,
        licence="CC BY 4.0",
        citation=_CITATION,
        homepage="https://github.com/google/imageinwords",
        sources=(source,),
        expected={"images": 100, "items": 200, "preferences": 500},
        has_references=False,
    )


IIW_400 = _card(
    "iiw_400",
    "ImageInWords, IIW-400",
    _source(
        "iiw/iiw_400.jsonl",
        "IIW-400",
        "88809dde73731208fa98f72430225a9122c8f7e3c4ebcde98e255d62c5f203f2",
    ),
)
IIW_DOCCI = _card(
    "iiw_docci",
    "ImageInWords, IIW against DOCCI",
    _source(
        "iiw_docci/iiw_docci.jsonl",
        "DOCCI_Test",
        "f422b726c1af21a5154282cf8790ce110e03d5c94457d77d7002a50f17c984d1",
    ),
)


@dataset(IIW_400)
def load_iiw_400(root: Path) -> CaptionSet:
    """Read the 100 images of IIW-400 on which people compared descriptions; the others have none to compare."""
    systems_by_key = {"IIW": "IIW-Human", "IIW-P5B": "IIW-P5B"}
    return _read(root, IIW_400, "image/key", systems_by_key, "iiw-human-sxs-iiw-p5b")


@dataset(IIW_DOCCI)
def load_iiw_docci(root: Path) -> CaptionSet:
    """Read IIW's and DOCCI's descriptions of the same images."""
    return _read(root, IIW_DOCCI, "image", {"IIW": "IIW", "DOCCI": "DOCCI"})


def _read(
    root: Path, card: Card, image_key: str, systems_by_key: Mapping[str, str], key: str = ""
) -> CaptionSet:
    """Read the lines that compare two descriptions.

    Args:
        root, card: the dataset's file and where it is.
        image_key: the key of the image's name.
        systems_by_key: the keys of both descriptions, with their names in preferences.
        key: the key of the object of preferences; empty where they stand in the line itself.
    """
    path = find(root, card, card.sources[0])
    systems = list(systems_by_key.values())
    # Every line is of another image, and its two descriptions are of different systems.
    builder = CaptionSetBuilder(joins_equal=False)
    for number, row in read_json_lines(path):
        where = f"{path}:{number}"
        # People compared descriptions of a part of the images alone.
        if key and key not in row:
            continue

        preferences: Mapping[str, Any] = field(row, key, dict, where) if key else row
        image = field(row, image_key, str, where)
        items: list[int] = []
        for name, system in systems_by_key.items():
            items.append(builder.add_item(image, field(row, name, str, where), system=system))
        for name, dimension in DIMENSIONS.items():
            strength = _strength(preferences, name, systems, where)
            builder.prefer(image, items[0], items[1], dimension, strength)

    return builder.build(card)


def _strength(
    preferences: Mapping[str, Any], name: str, systems: Sequence[str], where: str
) -> float:
    """Return a preference's strength, positive where the first description is better.

    Raises:
        InputError: where it prefers neither, and is not neutral.
    """
    text = field(preferences, name, str, where)
    if text == "Neutral":
        return 0.0

    match = _BETTER.fullmatch(text)
    if match is None or match[1] not in systems:
        raise InputError(
            f"{where}: '{name}' is '{text}'; Neutral, or '{systems[0]}' or '{systems[1]}' 'is marginally better' or "
            "'is substantially better' is expected"
        )

    sign = 1.0 if match[1] == systems[0] else -1.0
    return GRADES[match[2]] * sign
