"""SPICE, by pycocoevalcap's jar (Anderson et al. 2016, "SPICE: Semantic Propositional Image Caption
Evaluation", section 3).

Captions are parsed into scene graphs: objects, their attributes, and relations between them. The
score is the F-measure of the candidate's tuples against those of all references together, where
words match that share a WordNet synset. Sub-scores count the tuples of one kind alone (section 5.4).

Parsing is slow, scoring is not: every distinct caption is parsed once, and kept (`spice_store.py`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ....datasets.cache import cache_folder
from ...base import CorpusResampler, Floats, version_of
from ...progress import progress_counter
from ...registry import register
from ...rows import Items, Rows
from ..tokens.ptb import TokenMetric, tokenize_rows
from .jar_process import limits, parse, score
from .models import CORENLP
from .scene_store import Failure, Parsed, SceneStore

#: Each part of the score: the category of tuples and the figure, as the jar calls them.
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

# Parsed captions are kept after so many seconds: what a kill may lose.
_KEEP_AFTER = 2.0


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
class Spice(TokenMetric):
    """SPICE on PTB tokens: the F-measure, precision or recall of all tuples, or F of one kind.

    F of one kind is NaN where no reference has a tuple of that kind; any part is where a caption
    cannot be parsed within the limits of `spice_java`, which is told on stderr.
    """

    part: Part = "f"
    backend: Literal["pycocoevalcap"] = "pycocoevalcap"

    name_fields: ClassVar[tuple[str, ...]] = ("part",)

    @property
    def name(self) -> str:
        return "spice" if self.part == "f" else f"spice_{self.part}"

    @property
    def programs(self) -> tuple[str, ...]:
        return (*super().programs, f"corenlp:{CORENLP}")

    @property
    def companions(self) -> tuple[str, ...]:
        return tuple(f"spice_{p}" for p in PARTS if p != "f") if self.part == "f" else ()

    def compute(self, rows: Rows) -> Floats:
        scores = rows.compute_once("spice", lambda: _scores(rows))
        return scores[:, list(PARTS).index(self.part)]

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """The mean over the rows where it is defined, as the jar's own average is."""
        rows = Rows.from_items(items)
        values = self.score(rows) if scores is None else scores
        defined = ~np.isnan(values)
        if self.part == "f" or not defined.any():
            return super().corpus_score(rows, values)
        return float(np.average(values[defined], weights=rows.weights[defined]))

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """The mean over the rows where it is defined."""
        defined = ~np.isnan(scores)
        if self.part == "f" or defined.all():
            return super().corpus_resampler(items, scores)

        def pooled(weights: Floats) -> Floats:
            with np.errstate(invalid="ignore"):
                return scores[defined] @ weights[defined] / weights[defined].sum(axis=0)

        return pooled

    def corpus_summands(self, items: Items, scores: Floats) -> Floats:
        """Scores, 0 where undefined, and whether each is defined."""
        if self.part == "f":
            return np.stack([scores, np.ones(len(scores))], axis=1)
        return np.stack([np.nan_to_num(scores), ~np.isnan(scores)], axis=1)

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """The mean over the rows where it is defined."""
        return float(sums[0] / sums[1]) if sums[1] else float("nan")


def _scores(rows: Rows) -> Floats:
    """Shape (len(rows), len(PARTS)), in the order of `PARTS`."""
    scores = np.full((len(rows), len(PARTS)), np.nan)
    for i, by_kind in figures(rows):
        values = [by_kind[kind][figure] for kind, figure in PARTS.values()]
        scores[i] = [np.nan if v is None else v for v in values]
    return scores


def figures(rows: Rows) -> Iterator[tuple[int, dict[str, Any]]]:
    """The figures of each row that could be parsed, by kind of tuple, as the jar prints them."""
    candidates, references = tokenize_rows(rows)
    texts = [(c, *refs) for c, refs in zip(candidates, references, strict=True)]
    parsed = scenes(t for row in texts for t in row)
    failed = {t: found for t, found in parsed.items() if isinstance(found, Failure)}
    scenes_of = {t: found for t, found in parsed.items() if not isinstance(found, Failure)}
    if failed:
        _warn(rows, texts, failed)
    whole = [i for i, row in enumerate(texts) if not any(t in failed for t in row)]
    if not whole:
        return
    with progress_counter("SPICE, rows", len(whole)) as advance:
        requests = ([scenes_of[t] for t in texts[i]] for i in whole)
        for i, by_kind in zip(whole, score(requests), strict=True):
            yield i, by_kind
            advance(1)


def scenes(captions: Iterable[str]) -> dict[str, Parsed]:
    """The tuples of each caption, or why there are none.

    Args:
        captions: as PTB tokens; each distinct one is parsed where it was not in an earlier run.

    Raises:
        InputError: where the jars cannot be had or Java fails; what was parsed until then is kept.
    """
    wanted = list(dict.fromkeys(captions))
    name = f"scenes-pycocoevalcap-{version_of('pycocoevalcap')}-corenlp-{CORENLP}.sqlite"
    store = SceneStore(cache_folder("spice", name))
    known = {
        caption: found
        for caption, found in store.get(wanted).items()
        if not (isinstance(found, Failure) and found.limits != limits())
    }
    new = [caption for caption in wanted if caption not in known]
    if not new:
        return known
    fresh: dict[str, Parsed] = {}
    kept = time.monotonic()
    try:
        with (
            progress_counter("SPICE, captions parsed", len(new)) as advance,
            closing(parse(new)) as done,
        ):
            for caption, found in done:
                fresh[caption] = known[caption] = found
                advance(1)
                if time.monotonic() - kept > _KEEP_AFTER:
                    store.put(fresh)
                    fresh.clear()
                    kept = time.monotonic()
    finally:
        store.put(fresh)
    return known


def _warn(rows: Rows, texts: list[tuple[Any, ...]], failed: dict[str, Failure]) -> None:
    """Name each caption that could not be parsed, with the first row it is in."""
    for caption, failure in failed.items():
        where = [rows.label(i) for i, row in enumerate(texts) if caption in row]
        more = f" and {len(where) - 1} rows more" if len(where) > 1 else ""
        words = caption.split()
        shown = " ".join(words[:8]) + (" …" if len(words) > 8 else "")
        print(
            f"captau: warning: SPICE of {where[0]}{more} is undefined: a caption of {len(words):,} words "
            f"could not be parsed, {failure.reason}: {shown}",
            file=sys.stderr,
        )
