"""Options of `captau agree`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...datasets.errors import InputError
from ...metrics.base import Metric
from ..scoring.catalog import resolve_metrics
from ..scoring.protocol import Protocol
from .declaration import Composed, option, part
from .shared import (
    DATASETS,
    FILE,
    MAX_DRAWS,
    PROTOCOL,
    ScoringOptions,
    at_least,
    check_choice,
    metrics_option,
    one_of,
    protocols_of,
    words_of,
)

#: What `captau agree` measures: ratings, captions, or the words that people use.
KINDS = ("ratings", "captions", "words")
#: Which caption of an image is held out.
HELD_OUT = ("each", "last", "draw")
#: Which items each distribution of ratings is of.
GROUPINGS = ("dataset", "system", "split", "human")
#: Options that not all kinds have, with the kinds that have them.
_KINDS_OF = {
    "by": ("ratings",),
    "references": ("captions", "words"),
    "held_out": ("captions", "words"),
    "k": ("captions", "words"),
    "metrics": ("captions",),
    "words.n": ("words",),
    "words.scores": ("words",),
    "words.label": ("words",),
    "words.parts": ("words",),
    "protocol.dimension": ("ratings",),
    "protocol.systems": ("ratings",),
    "protocol.split": ("ratings",),
}
#: The options of a protocol that bear on raters alone.
_PROTOCOL = [o for o in PROTOCOL if o.key in _KINDS_OF]


def _datasets_of(composed: Composed) -> dict[str, Protocol]:
    if not composed["references"]:
        return protocols_of(composed)
    if tuple(composed["datasets"]) != ("demo",):
        raise InputError("give references=FILE or dataset=NAME, not both")
    return {}


def _computed_metrics(composed: Composed) -> tuple[Metric, ...]:
    named = "text" if composed["metrics"] is None else composed["metrics"]
    return resolve_metrics(named) if composed["kind"] == "captions" else ()


@dataclass(frozen=True, kw_only=True)
class AgreeOptions(ScoringOptions):
    """Options of `captau agree`."""

    examples: ClassVar[str] = """
captau agree                                           the embedded demo
captau agree dataset=flickr8k_expert                   Table 3 of Scott et al. 2023
captau agree dataset=flickr8k_expert,demo            side by side
captau agree dataset=flickr8k_expert protocol.split=test
captau agree dataset=demo protocol.systems=exact,terse seed=7 draws=100
captau agree dataset=thumb protocol.dimension=precision,recall by=human      Figure 2 of Kasai et al. 2022
captau agree kind=captions references=captions_val2014.json      Chen et al. 2015, Table I
captau agree kind=words references=captions_val2014.json         its section 4.2
captau agree kind=words references=captions_val2014.json words.parts=true    its Figure 3
"""
    notes: ClassVar[str] = """
A dataset with one rating an item says nothing about agreement: its values are NaN, and the note gives the reason.
docs/agreement.md defines each measure; docs/human_agreement.md those of captions and words.

The options of caches, Java and weights are of use with kind=captions. Of several dimensions, a measure's name
begins with DIMENSION:
"""
    writes: ClassVar[str] = """
Writes agreement.csv, table.md, table.tex, run.json; with kind=ratings distributions.csv, rating_distribution.svg and
.png, stability.svg and .png; with kind=captions human.csv; with kind=words words.csv,
word_agreement.svg and .png.
"""

    headings: ClassVar[Mapping[str, str]] = {
        "references": "Options of kind=captions and kind=words"
    }

    kind: str = option("ratings", "what people agree on", takes="ratings|captions|words")
    datasets: dict[str, Protocol] = part(_datasets_of, *DATASETS, *_PROTOCOL, *FILE)
    by: str = option(
        "dataset",
        "how mean ratings are grouped into distributions; human sets the system called human "
        "against all others",
        takes="|".join(GROUPINGS),
        check=one_of(GROUPINGS, "value of by"),
    )
    seed: int = option(0, "the seed of all random draws", check=at_least(0))
    draws: int = option(
        20,
        "the number of random draws; of three ratings where there are more, of halves of the "
        "ratings, and of captions with held_out=draw",
        check=at_least(1, MAX_DRAWS),
    )
    references: Path | None = option(
        None,
        "captions by image (default: the dataset's); the forms are those of captau score",
        takes="FILE",
    )
    held_out: str = option(
        "each",
        "which caption of an image is scored against the others; each takes every caption in turn,"
        " last takes the last one, as the paper does, and draw takes a random one (kind=captions "
        "only)",
        takes="each|last|draw",
        check=one_of(HELD_OUT, "value of held_out"),
    )
    k: int | None = option(
        None,
        "the number of other captions; the first N + 1 captions of an image count (default: all; "
        "for kind=words one less than most images have)",
        check=at_least(1),
    )
    metrics: tuple[Metric, ...] = part(
        _computed_metrics,
        metrics_option(None, "suites and metrics for kind=captions (default: text)"),
        default=(),
    )
    n_words: int = option(
        1000, "the number of words; the most frequent ones count", key="words.n", check=at_least(1)
    )
    label: tuple[str, ...] = option(
        [],
        "words to show and to name in the figure",
        key="words.label",
        takes="[A,B]",
        read=words_of,
    )
    scores: Path | None = option(
        None,
        "a system's scores, for its precision at human recall; CSV, JSON lines or Parquet with "
        "image_id, word and score",
        key="words.scores",
        takes="FILE",
    )

    has_parts: bool = option(
        False,
        "true adds nouns, verbs, adjectives and others; this is Figure 3 of the paper, and needs "
        "captau[neural]",
        key="words.parts",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "words" and self.held_out == "draw":
            raise InputError(
                "held_out=draw needs kind=captions; for words, held_out=each is the mean of all draws"
            )

    @classmethod
    def read(cls, composed: Composed) -> AgreeOptions:
        """Make the options of a composed configuration.

        Raises:
            InputError: on an unknown kind, an option of another one, or a value that makes no sense.
        """
        kind = composed["kind"]
        check_choice("kind", kind, KINDS)
        for key in cls.changed_keys(composed, _KINDS_OF):
            if kind not in _KINDS_OF[key]:
                kinds = " or ".join(f"kind={name}" for name in _KINDS_OF[key])
                raise InputError(f"{key}=… belongs to {kinds}")
        return super().read(composed)
