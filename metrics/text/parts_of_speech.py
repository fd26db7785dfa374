"""English words with their parts of speech, by TextBlob's tagger: for negatives of captions, and for nouns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..base import UnavailableError

_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")

#: A word and its part of speech.
TaggedWord = tuple[str, str]


def tag_words(caption: str) -> list[TaggedWord]:
    """Split a caption into words and punctuation marks, with Penn tags by TextBlob's tagger.

    Raises:
        UnavailableError: if TextBlob is not installed.
    """
    return tag_parts(_WORD.findall(caption))


def tag_parts(words: Sequence[str]) -> list[TaggedWord]:
    """Tag the words of one text, in its order; see `tag_words`."""
    return [(str(word), str(part)) for word, part in _load_tagger()(words)] if words else []


@cache
def _load_tagger() -> Callable[[Sequence[str]], Any]:
    try:
        from textblob.en import parser
    except ImportError as error:
        raise UnavailableError(
            "tagging words",
            "needs textblob, which is not installed",
            "pip install 'captau[neural]'",
        ) from error

    return parser.find_tags
