"""Nebula: judgements by 805 people of captions of 32,978 images (Matsuda et al. 2024)."""

from __future__ import annotations

from pathlib import Path

from ..registry import dataset
from ..schema import CaptionSet, Card, Scale
from .hub_layout import read_hub, sources_of

_PAGE = "https://huggingface.co/datasets/Ka2ukiMatsuda/Nebula"

CARD = Card(
    name="nebula",
    title="Nebula",
    revision="2024",
    licence="see the page of the dataset",
    citation="""@inproceedings{matsuda2024deneb,
  title={DENEB: A Hallucination-Robust Automatic Evaluation Metric for Image Captioning},
  author={Matsuda, Kazuki and Wada, Yuiga and Sugiura, Komei},
  booktitle={ACCV},
  pages={3570--3586},
  year={2024}
}""",
    homepage=_PAGE,
    scales={"overall": Scale(0, 1)},
    sources=sources_of("nebula", _PAGE),
    expected={"images": 32978, "ratings": 32978},
    partial=True,
)


@dataset(CARD)
def load_nebula(root: Path) -> CaptionSet:
    """Nebula, whichever of its splits are there."""
    return read_hub(root, CARD)
