"""SPIDEr: the mean of SPICE and CIDEr-D (Liu et al. 2017, "Improved Image Captioning via Policy Gradient optimization of SPIDEr")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ...datasets.download.permission import LargeDownload
from ..base import Floats
from ..registry import register
from ..rows import Rows
from .cider import Cider
from .spice.metric import Spice
from .spice.models import check_permission, pending_download
from .tokens.ptb import TokenMetric


@register("spider")
@dataclass(frozen=True)
class Spider(TokenMetric):
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

    @property
    def programs(self) -> tuple[str, ...]:
        return Spice().programs

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        check_permission(self.spec)

    def pending_download(self) -> LargeDownload | None:
        """Return the download of SPICE's parser; None where it is here."""
        return pending_download()

    def compute(self, rows: Rows) -> Floats:
        return (Spice().compute(rows) + Cider(df=self.df).compute(rows)) / 2
