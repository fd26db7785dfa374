"""Rules that make the form of captions alike before they are scored (`protocol.normalise`)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd

#: What ends a sentence; and what may stand behind that.
_FINAL_MARKS = tuple(".!?…。！？")
_CLOSING = "\"'”’»)]"
_TAIL = re.compile(rf"[\s{re.escape(''.join(_FINAL_MARKS))}]+\Z")


def normalise_thumb(caption: str) -> str:
    """Return a caption by the rule of Kasai et al. 2022, section 2.2.3, "Text Processing".

    Spaces at the ends are removed, the first letter becomes a capital, and a period is added. A caption
    that ends with another final mark, or with one inside quotation marks or brackets, keeps it and gets
    no period; a space before the final mark is removed. An empty caption stays empty.

    Example:
        >>> [normalise_thumb(caption) for caption in ("a dog runs .", "what a dog !")]
        ['A dog runs.', 'What a dog!']
    """
    text = _TAIL.sub(lambda tail: "".join(tail[0].split()), caption.strip())
    if text and not text.rstrip(_CLOSING).endswith(_FINAL_MARKS):
        text = f"{text}."
    return text[:1].upper() + text[1:]


#: The rules by name; `none` leaves captions as they are.
NORMALISATIONS: dict[str, Callable[[str], str] | None] = {"none": None, "thumb": normalise_thumb}


def normalise_items(items: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Return items with their captions and references normalised by one of `NORMALISATIONS`.

    Item ids stay those of the captions as they were.
    """
    normalise = NORMALISATIONS[rule]
    if normalise is None:
        return items
    references = [tuple(map(normalise, texts)) for texts in items["references"]]
    return items.assign(
        caption=items["caption"].map(normalise),
        references=pd.Series(references, index=items.index, dtype=object),
    )
