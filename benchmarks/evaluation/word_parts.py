"""Agreement on words by part of speech: nouns, verbs, adjectives (Chen et al. 2015, section 4.2 and Figure 3).

`word_measures` calls this for `captau agree kind=words words.parts=true`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from ...metrics.text.tokens.ptb import tag_parts, tokenize

#: First letters of Penn Treebank's tags, and the parts of speech that they are; all others are `other`.
_PART_BY_LETTER = {"N": "noun", "V": "verb", "J": "adjective"}
#: In the order of the tables.
PARTS = (*_PART_BY_LETTER.values(), "other")


def find_parts(captions: Iterable[str], words: Sequence[str]) -> list[str]:
    """Return the part of speech that each word has most often in the captions, one of `PARTS`.

    Equal counts go by the order of `PARTS`; a word that no caption has is `other`.

    Raises:
        UnavailableError: if the tagger is not installed.
    """
    counts: dict[str, Counter[str]] = {word: Counter() for word in words}
    for text in tokenize(captions):
        for word, tag in tag_parts(text.split()):
            if word in counts:
                counts[word][_PART_BY_LETTER.get(tag[:1], "other")] += 1
    return [
        max(PARTS, key=lambda part: (of_word[part], -PARTS.index(part))) if of_word else "other"
        for of_word in counts.values()
    ]


def part_rows(frame: pd.DataFrame) -> Iterator[tuple[str, float, float, str]]:
    """Yield measure, mean, standard deviation and note for each part of speech that words have.

    Args:
        frame: a row a word, columns `word_measures.WORD_COLUMNS`; without parts of speech there are no rows.
    """
    measures = {
        "human_recall": "recall",
        "human_precision": "precision",
        "precision_at_human_recall": "precision_at_human_recall",
    }
    for part in PARTS:
        of_part = frame[frame["part"] == part]
        for measure, column in measures.items():
            values = of_part[column].dropna()
            if values.empty:
                continue
            note = f"mean over {len(values)} words; std over words"
            if measure == "precision_at_human_recall":
                of_people = float(of_part.loc[values.index, "precision"].mean())
                note = f"{note}; people's precision on these is {of_people:.4f}"
            std = float(values.std()) if len(values) > 1 else float("nan")
            yield f"{measure}_{part}", float(values.mean()), std, note
