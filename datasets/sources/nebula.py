"""Nebula: judgements by 805 people of captions of 32,978 images (Matsuda et al. 2024).

A caption's score is the mean over its raters: of the test split's values many are twelfths or twenty-eighths.
The test split is downloaded as EXPERT publishes it, the others from Hugging Face's hub, as Parquet files with the images
inside: about ten of 480 MB for the train split. Papers after it print numbers on another version of the scores
("Spica"), which are 0.6 to 0.8 higher: the two are not to be mixed.
"""

from __future__ import annotations

from pathlib import Path

from ..reading.source_files import HUB, bibtex, github_file
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale
from .polaris import read_hub, sources_of

_REPOSITORY = "Ka2ukiMatsuda/Nebula"
_REVISION = "a4c99b14818d834bca2b9a8b1fa3741deda94b47"
_EXPERT = "74bbef41209fce20551f2d707bc7642400d7eddf"
_TRAIN, _VALIDATION, _TEST = sources_of("nebula", _REPOSITORY, _REVISION, "data/{}*.parquet")
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
    revision=f"{_REVISION} for train and validation, whose download was not tried; EXPERT's file for test",
    licence="see the page of the dataset",
    citation=bibtex("matsuda2024deneb"),
    homepage=f"{HUB}/datasets/{_REPOSITORY}",
    scales={"overall": Scale(0, 1)},
    sources=(_TRAIN, _VALIDATION, TEST),
    expected={"images": 32978, "ratings": 32978},
    partial=True,
    single_values={"overall": "the mean over its raters"},
    # EXPERT's authors publish the scores that their paper uses; they were corrected later, beside the dataset Spica.
    judgements="2024",
)


@dataset(CARD)
def load_nebula(root: Path) -> CaptionSet:
    """Nebula, whichever of its splits are there."""
    return read_hub(root, CARD)
