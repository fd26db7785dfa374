"""CLIPScore (Hessel et al. 2021), RefOnlyC (Kasai et al. 2022) and PAC-S (Sarto et al. 2023).

With v, c and r the directions of an image, a candidate and a reference in CLIP's space, every text
with "A photo depicts " before it:

- CLIP-S = w max(cos(c, v), 0), with w = 2.5; PAC-S the same with w = 2 and weights of their own;
- RefOnlyC = max over r of max(cos(c, r), 0), the half of RefCLIP-S that sees no image;
- RefCLIP-S = the harmonic mean of CLIP-S and that; RefPAC-S of PAC-S and that. It is 0 where either is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..registry import register
from ..rows import Rows
from .clip import CONFIG, Clip, Precision, precision_on
from .models import MODEL_LOCK, Device, hash_of, need_extra, resolve
from .store import Features
from .text import LongPolicy, TextDirections, find_positions, measure_texts, normalise_rows

#: Rows at a time, which bounds memory.
CHUNK = 4096


@dataclass(frozen=True)
class _ClipMetric(Metric):
    """The common base of the CLIPScore family.

    Args:
        model: an architecture of open_clip, a folder with `open_clip_config.json`, or the name of one
            in the weights folder.
        checkpoint: a file of weights, one in the weights folder, or a tag of open_clip; None is the
            model's own.
        prefix: stands before every text.
        long: texts longer than the model's context are cut short, or split by sentences
            (`measure_texts`).
        batch_size: texts or images at a time.
        device: auto takes CUDA or MPS where they are.
        precision: auto is what the authors computed with: float16 on CUDA for CLIPScore, else float32.
    """

    model: str = "ViT-B-32-quickgelu"
    checkpoint: str | None = None
    prefix: str = "A photo depicts "
    long: LongPolicy = "truncate"
    batch_size: int = 64
    device: Device = "auto"
    precision: Precision = "auto"
    backend: Literal["open_clip"] = "open_clip"

    lock: ClassVar[AbstractContextManager[Any]] = MODEL_LOCK
    later_fields: ClassVar[tuple[str, ...]] = ("long",)
    distributions: ClassVar[tuple[str, ...]] = (
        "captau",
        "open_clip_torch",
        "torch",
        "torchvision",
        "pillow",
    )
    #: The factor of an image's cosine.
    weight: ClassVar[float] = 2.5
    #: Whether the authors computed with float16 on CUDA.
    half: ClassVar[bool] = True

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        need_extra(self.spec, ("torch", "open_clip"))
        self._clip()

    @property
    def programs(self) -> tuple[str, ...]:
        """Weights, device and precision, for the signature; `missing` where the weights are not here."""
        device = resolve(self.device) if self.device == "auto" else self.device
        precision = precision_on(self.precision, device, self.half)
        try:
            clip = Clip.of(
                metric=self.spec,
                model=self.model,
                checkpoint=self.checkpoint,
                device="cpu",
                precision=precision,
                batch_size=1,
            )
            configs = [clip.folder / CONFIG] if clip.folder else []
            weights = f"{clip.weights}|{hash_of(configs)}"
        except InputError:
            weights = "missing"
        return (f"weights:{weights}", f"on:{device}", f"precision:{precision}")

    def _clip(self) -> Clip:
        device = resolve(self.device)
        precision = precision_on(self.precision, device, self.half)
        return Clip.of(
            metric=self.spec,
            model=self.model,
            checkpoint=self.checkpoint,
            device=device,
            precision=precision,
            batch_size=self.batch_size,
        )

    def compute(self, rows: Rows) -> Floats:
        clip = self._clip()

        def remark(text: str) -> None:
            rows.add_remark(self.spec, text)

        if clip.note:
            remark(clip.note)
        texts = list(rows.captions)
        if "references" in self.needs:
            texts += chain.from_iterable(rows.references)
        unique = list(dict.fromkeys(texts))
        position = {text: i for i, text in enumerate(unique)}

        texts_of = self._measure_texts(clip, unique, remark)
        if texts_of.remark:
            remark(texts_of.remark)

        pictures = None
        paths = [image for image in rows.images if image is not None]
        picture_position = {path: i for i, path in enumerate(dict.fromkeys(paths))}
        if "images" in self.needs:
            pictures = clip.images(list(picture_position), remark)

        scores = np.empty(len(rows))
        for start in range(0, len(rows), CHUNK):
            chunk = range(start, min(start + CHUNK, len(rows)))
            captions = [[position[rows.captions[i]]] for i in chunk]
            candidates = texts_of.select(captions)
            # Several pieces a caption where it is split; the best of them counts.
            counts = [len(candidate.directions) for candidate in candidates]
            pieces = np.concatenate([candidate.directions for candidate in candidates])
            row_of_piece = np.repeat(np.arange(len(chunk)), counts)
            first_pieces = np.cumsum([0, *counts[:-1]])

            by_image = None
            by_text = None
            if pictures is not None:
                picture_rows = [picture_position[str(rows.images[i])] for i in chunk]
                directions = normalise_rows(pictures[picture_rows])
                cosines = (pieces * directions[row_of_piece]).sum(axis=1)
                best_cosines = np.maximum.reduceat(cosines, first_pieces)
                by_image = self.weight * np.maximum(best_cosines, 0)
            if "references" in self.needs:
                groups: list[list[int]] = []
                for i in chunk:
                    groups.append([position[text] for text in rows.references[i]])
                references = texts_of.select(groups)
                references_of_pieces = [references[row].directions for row in row_of_piece]
                closest = _closest(pieces, references_of_pieces)
                by_text = np.maximum.reduceat(closest, first_pieces)

            scores[start : start + len(chunk)] = _combine(by_image, by_text)

        return scores

    def _measure_texts(
        self, clip: Clip, texts: Sequence[str], remark: Callable[[str], None]
    ) -> TextDirections:
        """Return the directions of texts behind the prefix, which a piece of a long one has as well."""

        def encode(pieces: Sequence[str]) -> Features:
            return clip.texts([self.prefix + piece for piece in pieces], remark)

        features = encode(texts)
        return measure_texts(
            texts,
            features,
            long_positions=find_positions(features, 1),
            policy=self.long,
            fits=lambda text: clip.fits(self.prefix + text),
            encode=encode,
        )


def _closest(candidates: Floats, references: Sequence[Floats]) -> Floats:
    """Return the greatest cosine to a reference, or 0 where all are below; shape (n,)."""
    counts = [len(directions) for directions in references]
    # Each candidate beside each of its references.
    repeated_candidates = np.repeat(candidates, counts, axis=0)
    cosines = (repeated_candidates * np.concatenate(references)).sum(axis=1)

    first_references = np.cumsum([0, *counts[:-1]])
    greatest = np.maximum.reduceat(cosines, first_references)
    return np.maximum(greatest, 0)


def _combine(by_image: Floats | None, by_text: Floats | None) -> Floats:
    """Return the one that is given, or the harmonic mean of both, which is 0 where one of them is."""
    if by_image is None or by_text is None:
        alone = by_text if by_image is None else by_image
        assert alone is not None
        return alone

    total = by_image + by_text
    return 2 * by_image * by_text / np.where(total > 0, total, 1)


@register("clipscore")
@dataclass(frozen=True)
class ClipScore(_ClipMetric):
    """CLIP-S: 2.5 max(cos(c, v), 0) (Hessel et al. 2021, section 3)."""

    needs: ClassVar[frozenset[str]] = frozenset({"images"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 2.5)


@register("refclipscore")
@dataclass(frozen=True)
class RefClipScore(_ClipMetric):
    """RefCLIP-S: the harmonic mean of CLIP-S and RefOnlyC (Hessel et al. 2021, section 3)."""

    needs: ClassVar[frozenset[str]] = frozenset({"images", "references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 10 / 7)


@register("refonlyclipscore")
@dataclass(frozen=True)
class RefOnlyClipScore(_ClipMetric):
    """RefOnlyC: RefCLIP-S without the image (Kasai et al. 2022, section 3.2)."""

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)


@register("pac_s")
@dataclass(frozen=True)
class PacS(_ClipMetric):
    """PAC-S: 2 max(cos(c, v), 0) with the authors' weights (Sarto et al. 2023, section 3).

    The checkpoint is named as the authors' file is; they computed with float32 on CUDA as well.
    """

    checkpoint: str | None = "clip_ViT-B-32.pth"

    needs: ClassVar[frozenset[str]] = frozenset({"images"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 2.0)
    weight: ClassVar[float] = 2.0
    half: ClassVar[bool] = False


@register("refpac_s")
@dataclass(frozen=True)
class RefPacS(PacS):
    """RefPAC-S: the harmonic mean of PAC-S and the closest reference (Sarto et al. 2023, section 3)."""

    needs: ClassVar[frozenset[str]] = frozenset({"images", "references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 4 / 3)
