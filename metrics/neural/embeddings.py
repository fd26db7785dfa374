"""Metrics of embeddings that another program computed and wrote to a file (`embedding_files.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.source_files import sha256
from ..base import Floats, Metric
from ..registry import register
from ..rows import Rows, look_up_all, row_keys
from .embedding_files import ENDINGS, Embeddings, Vectors
from .models import require, weights_root
from .text import normalise_rows


@dataclass(frozen=True)
class FromFiles(Metric):
    """A metric with fields that name files.

    Where one is not given, the file is looked for in the weights folder, as METRIC_FIELD with one of
    the field's endings (`vilbertscore_embeddings.npz`): so a paper's table finds it too.
    """

    #: The endings of each field's file.
    endings: ClassVar[Mapping[str, tuple[str, ...]]]
    #: A row's image is known by its id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False

    def file(self, field: str) -> Path:
        """Return the file of a field.

        Raises:
            UnavailableError: where it is not given, and none lies in the weights folder.
        """
        chosen_file = getattr(self, field)
        if chosen_file is not None:
            return expand_home(chosen_file)
        name = weights_root() / f"{self.name}_{field}{self.endings[field][0]}"
        return require(
            self._usual(field),
            f"metric {self.name}",
            "needs a file",
            f"give {field}=FILE, or put it at {name} (its layout: docs/metrics_from_files.md)",
        )

    def _usual(self, field: str) -> Path | None:
        root = weights_root()
        paths = (root / f"{self.name}_{field}{ending}" for ending in self.endings[field])
        return next((path for path in paths if path.is_file()), None)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        for field in self.endings:
            self.file(field)

    @property
    def programs(self) -> tuple[str, ...]:
        """The content of files that were not given, for the signature."""
        programs: list[str] = []
        for field in self.endings:
            if getattr(self, field) is None:
                path = self._usual(field)
                content = f"sha256-{sha256(path)}" if path else "missing"
                programs.append(f"{field}:{content}")
        return tuple(programs)


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

    bounds: ClassVar[tuple[float | None, float | None]] = (-1.0, 1.0)
    #: Reading the files takes longer than the cosines.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("images", "texts")
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"images": ENDINGS, "texts": ENDINGS}

    def compute(self, rows: Rows) -> Floats:
        """Cosines of shape (len(rows),).

        Raises:
            InputError: where a file is broken, the dimensions differ, or an item has no embedding.
        """
        images = Embeddings.read(self.file("images"))
        texts = Embeddings.read(self.file("texts"))
        if images.dimensions != texts.dimensions:
            raise InputError(
                f"{texts.path}: texts have {texts.dimensions} dimensions, but images "
                f"{images.dimensions} in {images.path}; use embeddings of one model"
            )

        v = images.of_rows(rows, ("item_id",), ("image_id",)).astype(np.float64)
        t = texts.of_rows(rows, ("item_id",), ("image_id", "caption"), ("caption",))
        cosines = np.einsum("ij,ij->i", v, t) / np.linalg.norm(v, axis=1)
        return np.clip(cosines / np.linalg.norm(t.astype(np.float64), axis=1), -1.0, 1.0)


_KEY = ("image_id", "caption")


@register("vilbertscore")
@dataclass(frozen=True)
class ViLBERTScore(FromFiles):
    """P, R or F of Lee et al. 2020, as the authors' code has them (hwanheelee1993/ViLBERTScore).

    With C the candidate's tokens, R a reference's, and s their cosine:

        P = 1/|C| Σ_c max_r s(c, r)    R = 1/|R| Σ_r max_c s(c, r)    F = 2PR / (P + R)

    A cosine below 0 counts as 0, as it does in that code. Of several references the scores are
    averaged (each F is of one reference). There is no idf weight and no baseline. A caption without
    tokens is undefined (NaN).

    The embeddings are read from a file of the layout of `embeddings.py`, of tokens, one entry for
    each pair of `image_id` and `caption`, candidates and references alike. The published figures
    are of the last layer of ViLBERT's text stream (multi-task model, task 7): the task token and all
    word pieces of the lower-cased caption, cut after the 36th, without [CLS], [SEP] and padding.

    Args:
        embeddings: the file.
        measure: which of the three.
    """

    embeddings: str | None = None
    measure: Literal["f", "p", "r"] = "f"
    backend: Literal["captau"] = "captau"

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Reading the file takes longer than the matching.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("embeddings",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"embeddings": ENDINGS}

    def compute(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),).

        Raises:
            InputError: where the file is broken, or a candidate or reference has no embeddings.
        """
        file = Embeddings.read(self.file("embeddings"), tokens=True)
        if missing := [column for column in _KEY if column not in file.keys]:
            raise InputError(
                f"{file.path}: no '{missing[0]}'; token embeddings need both {' and '.join(_KEY)}"
            )

        entries = file.entries(_KEY)
        keys = row_keys(rows, _KEY, file.path)
        # All that is missing is named before anything is computed.
        all_keys = dict.fromkeys(keys)
        for (image_id, *_), references in zip(keys, rows.references, strict=True):
            all_keys |= dict.fromkeys((image_id, reference) for reference in references)
        look_up_all(entries, list(all_keys), "embedding", file.path)

        measure = "prf".index(self.measure)
        scores = np.empty(len(rows))
        for i, (key, references) in enumerate(zip(keys, rows.references, strict=True)):
            candidate = file.vectors[entries[key]]
            total = 0.0
            for reference in references:
                match = greedy_match(candidate, file.vectors[entries[key[0], reference]])
                total += match[measure]
            scores[i] = total / len(references)

        return scores


@register("vilbert_alignment")
@dataclass(frozen=True)
class ViLBERTAlignment(FromFiles):
    """The probability that a caption fits its image, by ViLBERT's alignment head (Scott et al. 2023, section 4.2).

    The head is the one of ViLBERT's pretraining, before any fine-tuning. It gives two logits for each image and
    caption, alignment and non-alignment; the score is the first one's share of their softmax.

    Args:
        logits: a file of the layout of `embeddings.py` by `item_id`, or by `image_id` and `caption`, whose vectors are
            the two logits.
        aligned: which logit is that of alignment, the first as in the authors' code of ViLBERT.
    """

    logits: str | None = None
    aligned: Literal["first", "second"] = "first"
    backend: Literal["captau"] = "captau"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Reading the file takes longer than the softmax.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("logits",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"logits": ENDINGS}

    def compute(self, rows: Rows) -> Floats:
        """Probabilities of shape (len(rows),).

        Raises:
            InputError: where the file is broken, has other than two logits, or none of an item.
        """
        file = Embeddings.read(self.file("logits"))
        if file.dimensions != 2:
            raise InputError(
                f"{file.path}: vectors of {file.dimensions} numbers; two logits are expected"
            )

        logits = file.of_rows(rows, ("item_id",), _KEY).astype(np.float64)
        difference = logits[:, 0] - logits[:, 1]
        return expit(difference if self.aligned == "first" else -difference)


def greedy_match(candidate: Vectors, reference: Vectors) -> tuple[float, float, float]:
    """P, R and F of two captions' token embeddings, shapes (n_tokens, dimensions).

    Returns:
        three numbers from 0 to 1; NaN where a caption has no tokens; F is 0 where P and R are.
    """
    if not len(candidate) or not len(reference):
        return math.nan, math.nan, math.nan

    similarity = np.clip(normalise_rows(candidate) @ normalise_rows(reference).T, 0.0, 1.0)
    precision = float(similarity.max(axis=1).mean())
    recall = float(similarity.max(axis=0).mean())
    f = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return precision, recall, f
