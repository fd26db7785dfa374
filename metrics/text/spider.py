"""SPIDEr: the mean of SPICE and CIDEr-D (Liu et al. 2017, "Improved Image Captioning via Policy Gradient optimization of SPIDEr")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..base import Floats
from ..registry import register
from ..rows import Rows
from .cider import Cider
from .spice.metric import ParsedMetric, Spice


@register("spider")
@dataclass(frozen=True)
class Spider(ParsedMetric):
    """(SPICE + CIDEr-D) / 2, CIDEr being between 0 and 10 as the COCO server has it.

    Args:
        df: CIDEr's document frequencies, as of `cider`.
    """

    df: str | None = None
    backend: Literal["pycocoevalcap"] = "pycocoevalcap"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 5.5)
    depends_on_corpus: ClassVar[bool] = True
    file_fields: ClassVar[tuple[str, ...]] = ("df",)
    distributions: ClassVar[tuple[str, ...]] = Cider.distributions

    def compute(self, rows: Rows) -> Floats:
        return (Spice().compute(rows) + Cider(df=self.df).compute(rows)) / 2
