"""The checks of single captions and references: what looks like a fault of a text, whatever the others are."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..caption_texts import is_unsegmented
from .caption_patterns import (
    CONTROL,
    ESCAPES,
    FAILURE_BEGINNINGS,
    FAILURE_PARTS,
    FAILURE_PHRASES,
    FAILURE_SIGNS,
    HTML,
    INVISIBLE,
    LATEX,
    LOOP_OF_LETTERS,
    MARKDOWN,
    MAYBE_TURNS,
    MISSING,
    NUMBER,
    PRINTED_OBJECT,
    THOUGHTS,
    TOKENS,
    TURNS,
    WIDE,
    WRONG_CODE,
    may_hold_markup,
)
from .cells import is_printed_list
from .suspected_faults import PlacedText, SuspectedFault, is_empty, make_finding, quote

#: How often a word, two words, or a longer phrase stands in a row where a model is caught in a loop; people write "very,
#: very, very tall".
_LOOPS = {1: 5, 2: 4}
_LOOP_OF_PHRASE = 3
#: The least number of words that repeat earlier ones where there is a loop: all but the first time.
_LEAST_REPEATED = min(n_words * (n_times - 1) for n_words, n_times in _LOOPS.items())
#: The most words of such a phrase.
_LONGEST_PHRASE = 12


@dataclass(frozen=True)
class TextCheck:
    """A check of single texts.

    Attributes:
        code: its name in docs and tests.
        has_fault: takes a text and its image's id.
        words: what such a text is or holds, from the verb in the plural on.
        is_of_captions, is_of_references: of which texts it is.
        is_fatal: whether a submission with such a caption is not valid.
        looks_at: which texts can have the fault: `all`, the `unusual` ones (those that are not `is_plain`), or the ones
            `with_sign` (the unusual ones that `may_hold_markup`).
        least_share: the share of a file's texts from which on it is a fault, where single whole texts may well have it;
            0 where one text is enough.
        least_count: how many texts at least such a share has to be.
    """

    code: str
    has_fault: Callable[[str, str], bool]
    words: str
    is_of_captions: bool = True
    is_of_references: bool = True
    is_fatal: bool = False
    looks_at: Literal["all", "unusual", "with_sign"] = "all"
    least_share: float = 0
    least_count: int = 3


def _has_pattern(pattern: re.Pattern[str]) -> Callable[[str, str], bool]:
    def search(text: str, _: str) -> bool:
        return pattern.search(text) is not None

    return search


def _is_image_id(text: str, image_id: str) -> bool:
    stripped = text.strip()
    # Nearly no caption is a part of an id.
    if stripped not in image_id:
        return False
    if stripped == image_id.strip():
        return True

    # With or without the ending of a file's name.
    name = image_id.rpartition("/")[2]
    return bool(stripped) and stripped in (name, name.rpartition(".")[0])


def _looks_failed(text: str, _: str) -> bool:
    # Two quick looks spare nearly all captions the long patterns.
    if text.isascii() and FAILURE_PARTS.search(text.lower()) is None:
        return False

    if FAILURE_BEGINNINGS.match(text) or FAILURE_PHRASES.search(text):
        return True

    return FAILURE_SIGNS.search(text) is not None


def _is_number(text: str, image_id: str) -> bool:
    return NUMBER.fullmatch(text) is not None and not _is_image_id(text, image_id)


def _is_one_word(text: str) -> bool:
    """Tell whether a text is a word, and no caption of a script that sets no blanks between words."""
    return len(text.split()) == 1 and (text.isascii() or not is_unsegmented(text))


def _is_loop(text: str) -> bool:
    """Tell whether the same words stand in a row several times, as where a model is caught in a loop."""
    words = [word.strip(".,;:!?") for word in text.lower().split()]
    # Nearly all captions have too few repeated words for any loop.
    n_repeated = len(words) - len(set(words))
    if n_repeated >= _LEAST_REPEATED:
        for n_words in range(1, min(_LONGEST_PHRASE, len(words) // 2) + 1):
            n_times = _LOOPS.get(n_words, _LOOP_OF_PHRASE)
            if _repeats(words, n_words, n_times):
                return True

    return not text.isascii() and LOOP_OF_LETTERS.search(text) is not None


def _repeats(words: Sequence[str], n_words: int, n_times: int) -> bool:
    """Tell whether a phrase of so many words stands so many times in a row."""
    # Each word but those of the last repetition is the same as the one a phrase's length later.
    needed = n_words * (n_times - 1)
    # A run of `needed` such words in a row has one at a multiple of `needed`. Nearly all texts are settled by a look there.
    if not any(map(operator.eq, words[::needed], words[n_words::needed])):
        return False

    n_alike = 0
    for word, later_word in zip(words, words[n_words:], strict=False):
        n_alike = n_alike + 1 if word == later_word else 0
        if n_alike == needed:
            return True

    return False


def _is_decomposed(text: str) -> bool:
    if text.isascii():
        return False

    return len(unicodedata.normalize("NFC", text)) < len(text)


def _is_printed(text: str, _: str) -> bool:
    return is_printed_list(text.strip()) or PRINTED_OBJECT.fullmatch(text) is not None


#: The checks of single texts, in the order of their weight.
TEXT_CHECKS = (
    TextCheck(
        code="empty",
        has_fault=lambda text, _: is_empty(text),
        words="are empty, punctuation apart",
        is_fatal=True,
        looks_at="unusual",
    ),
    TextCheck(
        code="missing",
        has_fault=lambda text, _: MISSING.fullmatch(text.strip()) is not None,
        words="are the word for a missing value",
        looks_at="unusual",
    ),
    TextCheck(
        code="failed",
        has_fault=_looks_failed,
        words="look like a failed request or a refusal",
        is_of_references=False,
    ),
    TextCheck(
        code="number",
        has_fault=_is_number,
        words="are a number alone",
        looks_at="unusual",
    ),
    TextCheck(
        code="one_word",
        has_fault=lambda text, _: _is_one_word(text),
        words="are one word, as if captions had been cut into words",
        is_of_captions=False,
        least_share=0.75,
        least_count=6,
        looks_at="unusual",
    ),
    TextCheck(
        code="loop",
        has_fault=lambda text, _: _is_loop(text),
        words="hold the same words over and over, as where a model is caught in a loop",
        is_of_references=False,
    ),
    TextCheck(
        code="image_id",
        has_fault=_is_image_id,
        words="are their image's id",
    ),
    TextCheck(
        code="thoughts",
        has_fault=_has_pattern(THOUGHTS),
        words="hold a model's thoughts",
        looks_at="with_sign",
    ),
    TextCheck(
        code="turns",
        has_fault=_has_pattern(TURNS),
        words="hold the turns of a chat",
        looks_at="with_sign",
    ),
    TextCheck(
        code="turns",
        has_fault=_has_pattern(MAYBE_TURNS),
        words="hold the turns of a chat",
        looks_at="with_sign",
        least_share=0.5,
    ),
    TextCheck(
        code="tokens",
        has_fault=_has_pattern(TOKENS),
        words="hold a model's special tokens",
        looks_at="with_sign",
    ),
    TextCheck(
        code="markdown",
        has_fault=_has_pattern(MARKDOWN),
        words="hold Markdown",
        looks_at="with_sign",
    ),
    TextCheck(
        code="html",
        has_fault=_has_pattern(HTML),
        words="hold HTML",
        looks_at="with_sign",
    ),
    TextCheck(
        code="latex",
        has_fault=_has_pattern(LATEX),
        words="hold LaTeX",
        looks_at="with_sign",
    ),
    TextCheck(
        code="escapes",
        has_fault=_has_pattern(ESCAPES),
        words="hold escapes (\\n and the like) that were written out",
        looks_at="with_sign",
    ),
    TextCheck(
        code="printed",
        has_fault=_is_printed,
        words="are a list or an object as a program prints it",
        looks_at="with_sign",
    ),
    TextCheck(
        code="half_character",
        has_fault=lambda text, _: "\ufffd" in text,
        words="hold the sign of a character that was lost, \ufffd",
        is_fatal=True,
        looks_at="with_sign",
    ),
    TextCheck(
        code="control",
        has_fault=_has_pattern(CONTROL),
        words="hold control characters (NUL and the like)",
        is_fatal=True,
        looks_at="with_sign",
    ),
    TextCheck(
        code="wrong_code",
        has_fault=_has_pattern(WRONG_CODE),
        words="hold letters that were read in a wrong code (Ã© for é)",
        looks_at="with_sign",
    ),
    TextCheck(
        code="decomposed",
        has_fault=lambda text, _: _is_decomposed(text),
        words="hold accents as characters of their own (Unicode's form NFD), which differ from composed letters",
        looks_at="unusual",
    ),
    TextCheck(
        code="wide",
        has_fault=lambda text, _: not text.isascii() and WIDE.fullmatch(text) is not None,
        words="hold full-width letters, which differ from the usual ones",
        looks_at="unusual",
    ),
    TextCheck(
        code="invisible",
        has_fault=lambda text, _: not text.isascii() and INVISIBLE.search(text) is not None,
        words="hold signs without width within words",
        looks_at="unusual",
    ),
)


def run_text_checks(
    checks: Iterable[TextCheck],
    texts: Sequence[PlacedText],
    unusual: Sequence[PlacedText],
    noun: str,
) -> list[SuspectedFault]:
    """Return the findings of some checks on captions or references, each code once.

    Args:
        checks: in the order of their weight.
        texts: of one file.
        unusual: those of them that are not `is_plain`.
        noun: `captions` or `references`.
    """
    with_sign = [text for text in unusual if may_hold_markup(text.text)]
    selections = {"all": texts, "unusual": unusual, "with_sign": with_sign}
    findings: dict[str, SuspectedFault] = {}
    for check in checks:
        candidates = selections[check.looks_at]
        faulty = [text for text in candidates if check.has_fault(text.text, text.image_id)]
        n_least = 1.0
        if check.least_share:
            n_least = max(check.least_count, check.least_share * len(texts))
        if len(faulty) >= n_least:
            finding = make_finding(
                check.code,
                check.words,
                faulty,
                len(texts),
                noun,
                is_fatal=check.is_fatal,
            )
            # Two checks may have one code; the one that finds more stands.
            earlier = findings.get(check.code)
            if earlier is None or len(finding.lines) > len(earlier.lines):
                findings[check.code] = finding

    return list(findings.values())


#: What `count_fatal` found of one check: how many captions have the fault, and one of them with its place.
FatalCount = tuple[int, str]


def count_fatal(texts: Sequence[PlacedText]) -> dict[str, FatalCount]:
    """Return, by the code of a check, how many captions have a fault with which a submission is not valid.

    Only these checks are quick enough for each of many millions of captions.
    """
    counts: dict[str, FatalCount] = {}
    for check in TEXT_CHECKS:
        if not check.is_fatal:
            continue
        faulty = [text for text in texts if check.has_fault(text.text, text.image_id)]
        if faulty:
            counts[check.code] = (len(faulty), quote(faulty[0]))
    return counts
