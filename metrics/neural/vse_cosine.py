"""The cosine of an image and a text in a joint space that another program embedded them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ..base import Floats
from ..registry import register
from ..rows import Rows
from .embeddings import ENDINGS, Embeddings
from .from_files import FromFiles


@register("vse_cosine")
@dataclass(frozen=True)
class VseCosine(FromFiles):
    """v · t / (|v| |t|) of an image's and a caption's embedding (as VSE++ has it, Faghri et al. 2018).

    Any model that embeds images and texts in one space will do. The layout of the files is that of
    `embeddings.py`, one vector an entry.

    Args:
        images: embeddings by `item_id`, or else by `image_id`.
        texts: embeddings of the same dimension by `item_id`, by `image_id` and `caption`, or else by
            `caption`.
    """

    images: str | None = None
    texts: str | None = None
    backend: Literal["captau"] = "captau"

    needs: ClassVar[frozenset[str]] = frozenset()
    bounds: ClassVar[tuple[float | None, float | None]] = (-1.0, 1.0)
    #: Reading the files takes longer than the cosines.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("images", "texts")
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"images": ENDINGS, "texts": ENDINGS}

    @property
    def name(self) -> str:
        return "vse_cosine"

    def compute(self, rows: Rows) -> Floats:
        """Cosines of shape (len(rows),).

        Raises:
            InputError: where a file is broken, the dimensions differ, or an item has no embedding.
        """
        images, texts = (Embeddings.read(self.file(f)) for f in self.endings)
        if images.dimensions != texts.dimensions:
            raise InputError(
                f"{texts.path}: texts have {texts.dimensions} dimensions, but images "
                f"{images.dimensions} in {images.path}; they are of two spaces"
            )
        v = images.of_rows(rows, ("item_id",), ("image_id",)).astype(np.float64)
        t = texts.of_rows(rows, ("item_id",), ("image_id", "caption"), ("caption",))
        cosines = np.einsum("ij,ij->i", v, t) / np.linalg.norm(v, axis=1)
        return np.clip(cosines / np.linalg.norm(t.astype(np.float64), axis=1), -1.0, 1.0)
