"""Polaris: 131,020 judgements by 550 people of captions by ten systems (Wada et al. 2024)."""

from __future__ import annotations

from pathlib import Path

from ..registry import dataset
from ..schema import CaptionSet, Card, Scale
from .hub_layout import read_hub, sources_of

_PAGE = "https://huggingface.co/datasets/yuwd/Polaris"

CARD = Card(
    name="polaris",
    title="Polaris",
    revision="2024",
    licence="BSD",
    citation="""@inproceedings{wada2024polos,
  title={Polos: Multimodal Metric Learning from Human Feedback for Image Captioning},
  author={Wada, Yuiga and Kaneda, Kanta and Saito, Daichi and Sugiura, Komei},
  booktitle={CVPR},
  pages={13559--13568},
  year={2024}
}""",
    homepage=_PAGE,
    scales={"overall": Scale(0, 1)},
    sources=sources_of("polaris", _PAGE),
    expected={"ratings": 131020},
    partial=True,
)


@dataset(CARD)
def load_polaris(root: Path) -> CaptionSet:
    """Polaris, whichever of its splits are there."""
    return read_hub(root, CARD)
