"""Nebula: judgements by 805 people of captions of 32,978 images (Matsuda et al. 2024).

The test split is downloaded as EXPERT publishes it. Papers after it print numbers on another version of the scores
("Spica"), which are 0.6 to 0.8 higher: the two are not to be mixed.
"""

from __future__ import annotations

from pathlib import Path

from ..reading.source_files import bibtex, github_file
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale
from .polaris import read_hub, sources_of

_PAGE = "https://huggingface.co/datasets/Ka2ukiMatsuda/Nebula"
_EXPERT = "74bbef41209fce20551f2d707bc7642400d7eddf"
_TRAIN, _VALIDATION, _TEST = sources_of("nebula", _PAGE)
TEST = github_file(
    "nebula/nebula_test.json",
    "hjkim811/EXPERT",
    _EXPERT,
    "annotations/nebula_test.json",
    "ac70204016a35ccc3a81603a7c1c9c836152ab8d7d3fea6a33e84eafe937df39",
    also=_TEST.also,
    split=_TEST.split,
)

CARD = Card(
    name="nebula",
    title="Nebula",
    revision="2024",
    licence="see the page of the dataset",
    citation=bibtex("matsuda2024deneb"),
    homepage=_PAGE,
    scales={"overall": Scale(0, 1)},
    sources=(_TRAIN, _VALIDATION, TEST),
    expected={"images": 32978, "ratings": 32978},
    partial=True,
)


@dataset(CARD)
def load_nebula(root: Path) -> CaptionSet:
    """Nebula, whichever of its splits are there."""
    return read_hub(root, CARD)
