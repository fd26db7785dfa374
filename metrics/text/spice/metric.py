"""SPICE, by pycocoevalcap's jar (Anderson et al. 2016, "SPICE: Semantic Propositional Image Caption
Evaluation", section 3).

Captions are parsed into scene graphs: objects, their attributes, and relations between them. The
score is the F-measure of the candidate's tuples against those of all references together, where
words match that share a WordNet synset. Sub-scores count the tuples of one kind alone (section 5.4).

Parsing is slow, scoring is not: every distinct caption is parsed once, and stored (`SceneStore`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from ....datasets.cache import cache_folder
from ....datasets.download.permission import LargeDownload
from ...base import CorpusResampler, Floats, version_of
from ...progress import progress_counter
from ...registry import register
from ...rows import Items, Rows
from ..tokens.ptb import TokenMetric, tokenize_rows
from .jar_process import ParseFailure, Scene, SceneStore, limits, parse, score
from .models import CORENLP, check_permission, pending_download

logger = logging.getLogger(__name__)

#: The parts of the score: the category of tuples and the figure, in the jar's words.
PARTS = {
    "f": ("All", "f"),
    "precision": ("All", "pr"),
    "recall": ("All", "re"),
    "object": ("Object", "f"),
    "relation": ("Relation", "f"),
    "attribute": ("Attribute", "f"),
    "color": ("Color", "f"),
    "count": ("Cardinality", "f"),
    "size": ("Size", "f"),
}
Part = Literal[
    "f", "precision", "recall", "object", "relation", "attribute", "color", "count", "size"
]

# Parsed captions are stored at this interval in seconds: the work that a kill may lose.
_STORE_INTERVAL = 2.0


@dataclass(frozen=True)
class ParsedMetric(TokenMetric):
    """A metric that needs SPICE's parser of captions."""

    @property
    def programs(self) -> tuple[str, ...]:
        return (*super().programs, f"corenlp:{CORENLP}")

    def check_rows(self, rows: Rows) -> None:
        """Check the rows, and that the parser is here or may be downloaded.

        Raises:
            UnavailableError: where it may not.
        """
        super().check_rows(rows)
        check_permission(self.spec)

    def pending_download(self) -> LargeDownload | None:
        """Return the download of the parser; None where it is here."""
        return pending_download()


@register("spice", part="f")
@register("spice_precision", part="precision")
@register("spice_recall", part="recall")
@register("spice_object", part="object")
@register("spice_relation", part="relation")
@register("spice_attribute", part="attribute")
@register("spice_color", part="color")
@register("spice_count", part="count")
@register("spice_size", part="size")
@dataclass(frozen=True)
class Spice(ParsedMetric):
    """SPICE on PTB tokens: the F-measure, precision or recall of all tuples, or F of one kind.

    F of one kind is NaN if no reference has a tuple of that kind; any part is NaN if a caption
    cannot be parsed within the limits of `jar_process`, which is logged as a warning.
    """

    part: Part = "f"
    backend: Literal["pycocoevalcap"] = "pycocoevalcap"

    name_fields: ClassVar[tuple[str, ...]] = ("part",)

    @property
    def companions(self) -> tuple[str, ...]:
        if self.part != "f":
            return ()

        return tuple(f"spice_{part}" for part in PARTS if part != "f")

    def compute(self, rows: Rows) -> Floats:
        scores = rows.compute_once("spice", lambda: compute_parts(rows))
        return scores[:, list(PARTS).index(self.part)]

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute the mean over the rows where it is defined, as the jar does."""
        rows = Rows.from_items(items)
        values = self.score(rows) if scores is None else scores
        defined = ~np.isnan(values)
        if self.part == "f" or not defined.any():
            return super().corpus_score(rows, values)

        return float(np.average(values[defined], weights=rows.weights[defined]))

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """Return the mean over the rows where it is defined as a function of their weights."""
        defined = ~np.isnan(scores)
        if self.part == "f" or defined.all():
            return super().corpus_resampler(items, scores)

        def corpus_scores(weights: Floats) -> Floats:
            with np.errstate(invalid="ignore"):
                return scores[defined] @ weights[defined] / weights[defined].sum(axis=0)

        return corpus_scores

    def corpus_summands(self, items: Items, scores: Floats) -> Floats:
        """Return scores, 0 where undefined, and whether each is defined."""
        if self.part == "f":
            return np.stack([scores, np.ones(len(scores))], axis=1)
        is_defined = ~np.isnan(scores)

        return np.stack([np.nan_to_num(scores), is_defined], axis=1)

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """Compute the mean over the rows where it is defined."""
        return float(sums[0] / sums[1]) if sums[1] else float("nan")


def compute_parts(rows: Rows) -> Floats:
    """Compute all parts, shape (len(rows), len(PARTS)), in the order of `PARTS`."""
    scores = np.full((len(rows), len(PARTS)), np.nan)
    for i, by_kind in compute_figures(rows):
        values: list[float] = []
        for kind, figure in PARTS.values():
            value = by_kind[kind][figure]
            # The jar prints null where a figure is undefined.
            values.append(np.nan if value is None else value)
        scores[i] = values
    return scores


def compute_figures(rows: Rows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the figures of each row that could be parsed, by kind of tuple, as the jar prints them."""
    candidates, references = tokenize_rows(rows)
    texts = [(c, *refs) for c, refs in zip(candidates, references, strict=True)]
    scenes = parse_scenes(chain.from_iterable(texts))

    failures: dict[str, ParseFailure] = {}
    tuples: dict[str, Any] = {}
    for text, scene in scenes.items():
        if isinstance(scene, ParseFailure):
            failures[text] = scene
        else:
            tuples[text] = scene
    if failures:
        _warn(rows, texts, failures)

    parsed_rows: list[int] = []
    for i, row in enumerate(texts):
        # One caption or reference without a scene leaves its row without a score.
        if failures.keys().isdisjoint(row):
            parsed_rows.append(i)
    if not parsed_rows:
        return

    with progress_counter("SPICE, rows", len(parsed_rows)) as advance:
        requests = ([tuples[t] for t in texts[i]] for i in parsed_rows)
        for i, by_kind in zip(parsed_rows, score(requests), strict=True):
            yield i, by_kind
            advance(1)


def parse_scenes(captions: Iterable[str]) -> dict[str, Scene]:
    """Return the scene of each caption: its tuples, or the reason why it has none.

    Args:
        captions: PTB tokens; captions that no earlier run parsed are parsed now.

    Raises:
        InputError: if the jars cannot be fetched or Java fails; captions parsed before are stored.
    """
    distinct = list(dict.fromkeys(captions))
    name = f"scenes-pycocoevalcap-{version_of('pycocoevalcap')}-corenlp-{CORENLP}.sqlite"
    store = SceneStore(cache_folder("spice", name))

    scenes: dict[str, Scene] = {}
    for caption, scene in store.get(distinct).items():
        # A caption that failed is tried again where the limits have changed.
        has_same_limits = not isinstance(scene, ParseFailure) or scene.limits == limits()
        if has_same_limits:
            scenes[caption] = scene
    missing = [caption for caption in distinct if caption not in scenes]
    if not missing:
        return scenes

    unstored: dict[str, Scene] = {}
    last_stored = time.monotonic()
    try:
        with (
            progress_counter("SPICE, captions parsed", len(missing)) as advance,
            closing(parse(missing)) as results,
        ):
            for caption, scene in results:
                scenes[caption] = scene
                unstored[caption] = scene
                advance(1)
                if time.monotonic() - last_stored > _STORE_INTERVAL:
                    store.put(unstored)
                    unstored.clear()
                    last_stored = time.monotonic()
    finally:
        store.put(unstored)

    return scenes


def _warn(rows: Rows, texts: list[tuple[Any, ...]], failures: dict[str, ParseFailure]) -> None:
    """Log each caption that could not be parsed, with the first row that has it."""
    for caption, failure in failures.items():
        labels: list[str] = []
        for i, row in enumerate(texts):
            if caption in row:
                labels.append(rows.label(i))
        more = f" and {len(labels) - 1} rows more" if len(labels) > 1 else ""
        words = caption.split()
        beginning = " ".join(words[:8])
        if len(words) > 8:
            beginning += " …"

        logger.warning(
            f"SPICE of {labels[0]}{more} is undefined: a caption of {len(words):,} words could not be "
            f"parsed, {failure.reason}: {beginning}"
        )
