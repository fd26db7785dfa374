"""Ranges of captions and references: what evidence is about, and whether a user's captions lie within it.

A correlation that was measured on captions of ten words says nothing of captions of a hundred, or of Chinese ones.
`results/published/ranges.json` has the range of each dataset that papers print numbers of (`scripts/published/measure_ranges.py`
writes it), and each run's `run.json` those of its datasets; `evidence` compares them with a user's captions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from heapq import nsmallest
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...datasets.caption_texts import find_own_references, find_script
from ...datasets.errors import InputError

#: The quantiles between which a range lies, and its middle.
QUANTILES = (0.05, 0.5, 0.95)
#: How many of the most frequent words of captions a range has.
N_FREQUENT_WORDS = 50
#: Captions are of another language where the evidence's most frequent words are less than this part as frequent.
#: In other English texts, of other things, they are two thirds as frequent, in German ones a tenth.
LANGUAGE_FACTOR = 1 / 3
#: The least number of words of which the language is compared.
FEWEST_WORDS = 50
#: Evidence with five references speaks of captions with half as many to twice as many.
REFERENCES_FACTOR = 2
#: Of captions that systems wrote, up to 2 % are copies of a reference in the judged sets (THumB). Evidence speaks of
#: captions with a share of copies that is greater than its own by this much at most.
COPIES_MARGIN = 0.05
_RANGES = "ranges.json"
#: The fields of a dataset that was not at hand.
_UNKNOWN_LENGTHS: dict[str, Any] = {
    "n_captions": 0,
    "caption_words": None,
    "reference_words": None,
    "references": None,
    "frequent_words": {},
    "n_words": 0,
}


class Spread(NamedTuple):
    """The quantiles `QUANTILES` of a count."""

    low: int
    median: int
    high: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Spread:
        """Return the quantiles of some counts, each a count that occurs."""
        quantiles = np.quantile(counts, QUANTILES, method="inverted_cdf")
        return cls(*map(int, quantiles))

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class CaptionRange:
    """The range of some captions and their references.

    Attributes:
        n_captions: the number of captions.
        caption_words, reference_words: lengths in words, set apart by blanks; None where they are not known.
        references: the number of references of an image; it and `reference_words` are None where there are none.
        script: that of most letters of the captions.
        frequent_words: the shares of the most frequent words of captions, lower-cased.
        n_words: the number of words of the captions.
        language, systems: of a dataset, its language and who wrote the captions; empty where that is not known.
        n_copies: the number of captions that are one of their references, and are scored against it.
    """

    n_captions: int
    caption_words: Spread | None
    reference_words: Spread | None
    references: Spread | None
    script: str
    frequent_words: Mapping[str, float]
    n_words: int
    language: str = ""
    systems: str = ""
    n_copies: int = 0

    @property
    def share_of_copies(self) -> float:
        """The share of captions that are one of their references."""
        return self.n_copies / max(1, self.n_captions)

    def record(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        record: dict[str, Any] = {}
        for name, value in asdict(self).items():
            record[name] = list(value) if isinstance(value, Spread) else value

        return record

    @classmethod
    def from_record(cls, record: Any, source: str) -> CaptionRange:
        """Read what `record` returned.

        Args:
            record: plain data.
            source: where it stands, for messages.

        Raises:
            InputError: where a field is missing, unknown or of another kind.
        """
        try:
            spreads: dict[str, Spread | None] = {}
            for name in ("caption_words", "reference_words", "references"):
                numbers = record[name]
                spreads[name] = None if numbers is None else Spread(*map(int, numbers))

            values: dict[str, Any] = {**record, **spreads}
            return cls(**values)
        except (TypeError, KeyError, ValueError, IndexError) as error:
            raise InputError(
                f"{source}: the range of captions is malformed ({error}); measure it again"
            ) from error

    def with_policy(
        self, references: str, k: int | None, own_references: str = "keep"
    ) -> CaptionRange:
        """Return the range for scores under a protocol's policies over references.

        Args:
            references, k, own_references: as in `Protocol`.
        """
        captions = self
        # Any other policy takes away a copied reference, or the caption that copies it.
        if own_references != "keep":
            captions = replace(self, n_copies=0)

        n_used = k if references == "first_k" else None
        if references.endswith("_over_single"):
            n_used = 1
        if captions.references is None or n_used is None:
            return captions

        spread = Spread(*(min(n_used, n) for n in captions.references))
        return replace(captions, references=spread)

    def __str__(self) -> str:
        length = "unknown length"
        if self.caption_words is not None:
            length = f"{self.caption_words} words"
        parts = [f"captions of {length}"]
        if self.references is not None and self.reference_words is not None:
            reference = "reference" if self.references.high == 1 else "references"
            parts.append(f"{self.references} {reference} of {self.reference_words} words")
        parts.append(self.language or f"{self.script} script")
        sentences = [", ".join(parts)]

        if self.systems:
            sentences.append(self.systems)
        if self.n_copies:
            words = (
                "is one of its references" if self.n_copies == 1 else "are one of their references"
            )
            sentences.append(f"{self.n_copies:,} of {self.n_captions:,} {words}")

        return "; ".join(sentences)


def measure_range(items: pd.DataFrame, n_copies: int | None = None) -> CaptionRange:
    """Measure the range of captions and of their images' references.

    Args:
        items: with the columns `image_id, caption, references`; not empty.
        n_copies: how many captions are one of their references; None where they are still to be counted.
    """
    if n_copies is None:
        n_copies = find_own_references(items).n_copies
    captions: list[str] = items["caption"].tolist()
    # The captions of an image share their references, which count once.
    reference_sets = set(zip(items["image_id"], items["references"], strict=True))
    reference_counts: list[int] = []
    reference_lengths: list[int] = []
    for _, texts in reference_sets:
        if texts:
            reference_counts.append(len(texts))
            reference_lengths += [len(text.split()) for text in texts]

    caption_lengths = [len(caption.split()) for caption in captions]
    # Words as find_mismatch compares them: letters of any script, without digits.
    counts = Counter(re.findall(r"[^\W\d_]+", "\n".join(captions).lower()))
    n_words = counts.total()
    frequent = nsmallest(N_FREQUENT_WORDS, counts.items(), key=lambda pair: (-pair[1], pair[0]))

    return CaptionRange(
        n_captions=len(captions),
        caption_words=Spread.of(caption_lengths),
        reference_words=Spread.of(reference_lengths) if reference_lengths else None,
        references=Spread.of(reference_counts) if reference_counts else None,
        script=find_script(captions),
        frequent_words={word: round(count / n_words, 5) for word, count in frequent},
        n_words=n_words,
        n_copies=n_copies,
    )


def find_mismatch(evidence: CaptionRange, captions: CaptionRange, *, with_references: bool) -> str:
    """Say in which way captions lie outside the range of evidence; empty where they lie within.

    They do where another script or other words are usual, where more captions are copies of a reference, or where the
    median length of captions or references, or the median number of references, is outside what is usual there.

    Args:
        evidence: what people judged.
        captions: a user's, of which the text speaks: "have 106 words, the judged ones 6 to 20".
        with_references: whether the metric compares captions with references.
    """
    if captions.script and captions.script != evidence.script:
        return f"are in {captions.script} script, the judged ones in {evidence.script}"

    if captions.caption_words is None or evidence.caption_words is None:
        return ""

    # Shares of few words are chance.
    if captions.n_words >= FEWEST_WORDS:
        expected = sum(evidence.frequent_words.values())
        share = sum(captions.frequent_words.get(word, 0.0) for word in evidence.frequent_words)
        if share < LANGUAGE_FACTOR * expected:
            language = evidence.language or "the judged ones' language"
            return (
                f"do not look like {language}: the {len(evidence.frequent_words)} words that are the most frequent in "
                f"the judged captions make up {100 * expected:.0f} % of those and {100 * share:.0f} % of yours"
            )

    if not _lies_within(captions.caption_words, evidence.caption_words):
        median = captions.caption_words.median
        noun = "word" if median == 1 else "words"
        return f"have {median:,} {noun}, the judged ones {evidence.caption_words}"

    if not with_references or captions.references is None or evidence.references is None:
        return ""

    if captions.share_of_copies > evidence.share_of_copies + COPIES_MARGIN:
        return (
            f"are one of their references in {100 * captions.share_of_copies:.0f} % of cases, the judged ones in "
            f"{100 * evidence.share_of_copies:.0f} %"
        )
    if not _lies_within(captions.references, evidence.references, REFERENCES_FACTOR):
        count = captions.references.median
        noun = "reference" if count == 1 else "references"
        return f"have {count:,} {noun}, the judged ones {evidence.references}"

    if captions.reference_words is None or evidence.reference_words is None:
        return ""
    if not _lies_within(captions.reference_words, evidence.reference_words):
        median = captions.reference_words.median
        return f"have references of {median:,} words, the judged ones of {evidence.reference_words}"
    return ""


def _lies_within(captions: Spread, evidence: Spread, factor: int = 1) -> bool:
    return evidence.low / factor <= captions.median <= evidence.high * factor


@cache
def published_ranges() -> Mapping[str, CaptionRange]:
    """Read the ranges of the datasets that papers print numbers of; those that were not at hand have no lengths."""
    file = resources.files("captau.results") / "published" / _RANGES
    records: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["datasets"]
    ranges: dict[str, CaptionRange] = {}
    for name, record in records.items():
        record.pop("unknown", "")  # the reason, for readers
        full_record = {**_UNKNOWN_LENGTHS, **record}
        ranges[name] = CaptionRange.from_record(full_record, f"{_RANGES}: {name}")
    return ranges


def published_range(dataset: str) -> CaptionRange:
    """Return the range of a dataset that papers print numbers of.

    Raises:
        InputError: where `ranges.json` has none.
    """
    ranges = published_ranges()
    if dataset not in ranges:
        raise InputError(
            f"results/published/{_RANGES} has no range of {dataset}, which a paper in conf/paper/ prints numbers "
            f"of; add it, and measure it with scripts/published/measure_ranges.py"
        )
    return ranges[dataset]


def dataset_range(name: str, items: pd.DataFrame, n_copies: int | None = None) -> CaptionRange:
    """Measure a dataset's range; its language and systems are those of `published_ranges`, where it is there.

    Args:
        name: the dataset's.
        items, n_copies: as `measure_range` takes them.
    """
    described = published_ranges().get(name)
    measured = measure_range(items, n_copies)
    if described is None:
        return measured
    return replace(measured, language=described.language, systems=described.systems)
