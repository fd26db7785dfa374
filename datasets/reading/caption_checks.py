"""The list of checks of captions and references: what looks like a fault of a file, and moves scores without a word.

`captau validate` prints all that they find, line by line; every command that reads captions counts it below its table.
Nothing is changed or left out: a caption of `**bold**` text is scored as it stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..caption_texts import find_script, is_unsegmented
from ..errors import shorten
from .caption_patterns import (
    CONTROL,
    ESCAPES,
    FAILURE_PARTS,
    FAILURES,
    HTML,
    INDEFINITE,
    INVISIBLE,
    LATEX,
    LEAD_IN,
    LOOP_OF_LETTERS,
    MARKDOWN,
    MAYBE_TURNS,
    MISSING,
    NUMBER,
    PRINTED_OBJECT,
    SIGNS,
    THOUGHTS,
    TOKENS,
    TURNS,
    WIDE,
    WRONG_CODE,
)
from .cells import is_printed_list


class PlacedText(NamedTuple):
    """A caption or a reference, with its image and where it stands: a file's name and the line."""

    location: str
    image_id: str
    text: str


@dataclass(frozen=True)
class TextCheck:
    """A check of single texts.

    Attributes:
        code: its name in docs and tests.
        has_fault: takes a text and its image's id.
        words: what such a text is or holds, from the verb in the plural on.
        is_of_captions, is_of_references: of which texts it is.
        is_fatal: whether a submission with such a caption is not valid.
        needs_sign: whether only a text with one of `caption_patterns.SIGNS` can have the fault.
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
    needs_sign: bool = False
    least_share: float = 0
    least_count: int = 3


@dataclass(frozen=True)
class SuspectedFault:
    """The finding of one check in a file.

    Attributes:
        code: the check's.
        summary: a sentence that counts the texts and shows one of them with its place.
        lines: a line for each of the texts.
        is_fatal: as of the check.
    """

    code: str
    summary: str
    lines: tuple[str, ...]
    is_fatal: bool = False


#: The verbs of `TextCheck.words` in the singular.
_SINGULAR = {"are": "is", "hold": "holds", "look": "looks"}
#: The fewest characters at which captions are cut.
_SHORTEST_CUT = 16
#: How often a word, two words, or a longer phrase stands in a row where a model is caught in a loop; people write "very,
#: very, very tall".
_LOOPS = {1: 5, 2: 4}
_LOOP_OF_PHRASE = 3
#: The most words of such a phrase.
_LONGEST_PHRASE = 12
#: The most lines below a table about faults of files.
_MOST_LINES = 5


def is_empty(text: str) -> bool:
    """Return whether a text has no letter and no digit."""
    return not any(map(str.isalnum, text))


def _has_pattern(pattern: re.Pattern[str]) -> Callable[[str, str], bool]:
    def search(text: str, _: str) -> bool:
        return pattern.search(text) is not None

    return search


def _is_image_id(text: str, image_id: str) -> bool:
    stripped = text.strip()
    if stripped == image_id.strip():
        return True

    # With or without the ending of a file's name.
    name = image_id.rpartition("/")[2]
    return bool(stripped) and stripped in (name, name.rpartition(".")[0])


def _looks_failed(text: str, _: str) -> bool:
    if text.isascii() and FAILURE_PARTS.search(text.lower()) is None:
        return False

    return FAILURES.search(text) is not None


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
    if n_repeated >= min(_LOOPS.values()):
        for n_words in range(1, min(_LONGEST_PHRASE, len(words) // 2) + 1):
            n_times = _LOOPS.get(n_words, _LOOP_OF_PHRASE)
            if _repeats(words, n_words, n_times):
                return True

    return not text.isascii() and LOOP_OF_LETTERS.search(text) is not None


def _repeats(words: Sequence[str], n_words: int, n_times: int) -> bool:
    """Tell whether a phrase of so many words stands so many times in a row."""
    # Each word but those of the last repetition is the same as the one a phrase's length later.
    needed = n_words * (n_times - 1)
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
    ),
    TextCheck(
        code="missing",
        has_fault=lambda text, _: MISSING.fullmatch(text.strip()) is not None,
        words="are the word for a missing value",
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
    ),
    TextCheck(
        code="one_word",
        has_fault=lambda text, _: _is_one_word(text),
        words="are one word, as if captions had been cut into words",
        is_of_captions=False,
        least_share=0.75,
        least_count=6,
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
        needs_sign=True,
    ),
    TextCheck(
        code="turns",
        has_fault=_has_pattern(TURNS),
        words="hold the turns of a chat",
        needs_sign=True,
    ),
    TextCheck(
        code="turns",
        has_fault=_has_pattern(MAYBE_TURNS),
        words="hold the turns of a chat",
        needs_sign=True,
        least_share=0.5,
    ),
    TextCheck(
        code="tokens",
        has_fault=_has_pattern(TOKENS),
        words="hold a model's special tokens",
        needs_sign=True,
    ),
    TextCheck(
        code="markdown",
        has_fault=_has_pattern(MARKDOWN),
        words="hold Markdown",
        needs_sign=True,
    ),
    TextCheck(
        code="html",
        has_fault=_has_pattern(HTML),
        words="hold HTML",
        needs_sign=True,
    ),
    TextCheck(
        code="latex",
        has_fault=_has_pattern(LATEX),
        words="hold LaTeX",
        needs_sign=True,
    ),
    TextCheck(
        code="escapes",
        has_fault=_has_pattern(ESCAPES),
        words="hold escapes (\\n and the like) that were written out",
        needs_sign=True,
    ),
    TextCheck(
        code="printed",
        has_fault=_is_printed,
        words="are a list or an object as a program prints it",
        needs_sign=True,
    ),
    TextCheck(
        code="half_character",
        has_fault=lambda text, _: "\ufffd" in text,
        words="hold the sign of a character that was lost, \ufffd",
        is_fatal=True,
        needs_sign=True,
    ),
    TextCheck(
        code="control",
        has_fault=_has_pattern(CONTROL),
        words="hold control characters (NUL and the like)",
        is_fatal=True,
        needs_sign=True,
    ),
    TextCheck(
        code="wrong_code",
        has_fault=_has_pattern(WRONG_CODE),
        words="hold letters that were read in a wrong code (Ã© for é)",
        needs_sign=True,
    ),
    TextCheck(
        code="decomposed",
        has_fault=lambda text, _: _is_decomposed(text),
        words="hold accents as characters of their own (Unicode's form NFD), which differ from composed letters",
    ),
    TextCheck(
        code="wide",
        has_fault=lambda text, _: not text.isascii() and WIDE.fullmatch(text) is not None,
        words="hold full-width letters, which differ from the usual ones",
    ),
    TextCheck(
        code="invisible",
        has_fault=lambda text, _: not text.isascii() and INVISIBLE.search(text) is not None,
        words="hold signs without width within words",
    ),
)


@dataclass(frozen=True)
class Separator:
    """A sign between captions that were joined into one text.

    Attributes:
        sign: the sign for messages.
        pattern: finds it.
        is_common: whether it stands in whole captions too; it then counts where half of all references hold it and no
            image has several.
    """

    sign: str
    pattern: re.Pattern[str]
    is_common: bool = False


#: What people set between the references of one cell, the surest first; ` ||| ` is captau's own in tables, not in JSON.
SEPARATORS = (
    Separator("|||", re.compile(r"\|\|\|")),
    Separator("||", re.compile(r"\|\|")),
    Separator("|", re.compile(r"(?<!<)\|(?!>)")),
    Separator("<sep>", re.compile(r"<\|?sep\|?>", re.IGNORECASE)),
    Separator("[SEP]", re.compile(r"\[sep\]", re.IGNORECASE)),
    Separator("\\n", re.compile(r"\S\s*\\[nrt]\s*\S")),
    Separator("###", re.compile(r"\w\W*(?<!#)###(?!#)\s*[^\W\d_]")),
    Separator("a tab", re.compile(r"\S\t\s*\S")),
    Separator("@@", re.compile(r"(?:^|\s)@@|@@(?=\S)")),
    Separator("&&", re.compile(r"&&")),
    Separator("1. … 2. …", re.compile(r"^\s*\(?1[.):]\s.*\b2[.):]\s", re.DOTALL)),
    Separator("a line end", re.compile(r"\S[ \t]*[\r\n\u2028]+\s*\S"), is_common=True),
    Separator(";", re.compile(r"[;；]\s*\S"), is_common=True),
    Separator("/", re.compile(r"\w\s*/\s*\w"), is_common=True),
    Separator("quotes", re.compile(r"[\"”]\s*,?\s*[\"“]\S|['’]\s*[,;]\s*['‘]\S"), is_common=True),
)
#: Where sentences, or parts of one, may be captions of their own.
_FULL_STOP = re.compile(r"\.\s+")
_SENTENCE_END = re.compile(r"[.!?]\s+[A-Z]")
_COMMA = re.compile(r",\s+")
#: The most words of five captions that are joined; a text of more is one long description.
_LONGEST_JOINED = 80
#: The fewest words of a part between commas that may be a caption.
_SHORTEST_PART = 6
#: The patterns of markup that may be a separator as well.
_MARKUP = (TOKENS, HTML, THOUGHTS, re.compile(r"^[*_]+$"))
#: A sign or a tag within a text that whole captions have now and then, and nearly no set of captions in each.
_RARE_SIGN = re.compile(r"\S\s*(</?\w+\s*/?>|--+|::+|\.\.\.+|[^\w\s.,:'\"’“”!?()%-]+)\s*(?=\S)")


def check_captions(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return what looks like a fault of a file of captions, each check once.

    Args:
        texts: the captions of one system.
    """
    checks = [check for check in TEXT_CHECKS if check.is_of_captions]
    findings = _run_text_checks(checks, texts, "captions")
    # The turns of a chat, and thoughts, stand on lines of their own.
    n_on_lines = 0
    for finding in findings:
        if finding.code in ("thoughts", "turns"):
            n_on_lines = max(n_on_lines, len(finding.lines))
    for glued in _find_glued(texts, "captions"):
        if len(glued.lines) > n_on_lines:
            findings.append(glued)
    if len(texts) < 2:
        return findings

    # Of two or three captions, two may well be alike.
    different_texts = {text.text.strip() for text in texts}
    if len(texts) > 2 and len(different_texts) == 1 and texts[0].text.strip():
        summary = f"All {len(texts):,} captions are one text, {_quote(texts[0])}."
        findings.append(SuspectedFault("same_text", summary, (summary,)))
    elif all(LEAD_IN.match(text.text) for text in texts):
        summary = (
            f"All {len(texts):,} captions begin with words about the image, such as {_quote(texts[0])}; references "
            "rarely do."
        )
        findings.append(SuspectedFault("lead_in", summary, (summary,)))

    elif _have_same_words(texts):
        summary = (
            f"All {len(texts):,} captions begin with the same words, such as {_quote(texts[0])}."
        )
        findings.append(SuspectedFault("same_words", summary, (summary,)))

    findings += _find_cut(texts)
    return findings


def _have_same_words(texts: Sequence[PlacedText]) -> bool:
    """Tell whether five captions or more all begin with the same three words, such as those of a prompt."""
    if len(texts) < 5:
        return False

    first = texts[0].text.split()[:3]
    return len(first) == 3 and all(text.text.split(maxsplit=3)[:3] == first for text in texts)


def _find_cut(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return the finding of captions that were cut at a number of characters, or end in an ellipsis."""
    longest = max(len(text.text) for text in texts)
    of_length = [text for text in texts if len(text.text) == longest]
    with_dots = [text for text in texts if text.text.rstrip().endswith(("...", "…"))]
    cut: list[PlacedText] = []
    words = ""
    if len(of_length) > 2 and 3 * len(of_length) >= len(texts) and longest >= _SHORTEST_CUT:
        cut = of_length
        words = f"are {longest:,} characters long, the most of any caption, as if they were cut"
    elif len(with_dots) > 2 and 2 * len(with_dots) >= len(texts):
        cut = with_dots
        words = "are cut, as they end in '...'"
    # Equal captions have one length.
    if len({text.text for text in cut}) < 3:
        return []
    return [_make_finding("cut", words, cut, len(texts), "captions")]


def check_references(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return what looks like a fault of a file of references, each check once.

    Args:
        texts: all references of all images.
    """
    checks = [check for check in TEXT_CHECKS if check.is_of_references]
    findings = _run_text_checks(checks, texts, "references")
    glued = _find_glued(texts, "references")
    # The first of them says most: it makes one reference of several.
    return [*glued, *findings]


def _find_glued(texts: Sequence[PlacedText], noun: str) -> list[SuspectedFault]:
    """Return the finding of the separator that most captions or references hold; nothing where none looks glued."""
    is_of_captions = noun == "captions"
    has_one_each = len({text.image_id for text in texts}) == len(texts)
    separators = list(SEPARATORS)
    if has_one_each:
        separators += _find_rare_signs(texts, without_markup=is_of_captions)
    texts_by_sign: dict[str, list[PlacedText]] = {}
    # A long description has many signs.
    n_words = sum(len(text.text.split()) for text in texts)
    is_long = n_words > _LONGEST_JOINED * len(texts)
    for separator in separators:
        if separator.is_common and not has_one_each:
            continue
        is_character = len(separator.sign) == 1
        if is_long and (separator.is_common or is_character):
            continue
        # What is markup in captions has a check of its own.
        if is_of_captions and any(pattern.search(separator.sign) for pattern in _MARKUP):
            continue

        holding = [text for text in texts if separator.pattern.search(text.text)]
        if separator.is_common:
            holding = [text for text in holding if not _is_prose(text.text, separator.pattern)]
        # One caption may hold a bar that joins nothing.
        is_common = separator.is_common or (is_of_captions and is_character)
        is_rare = 2 * len(holding) < len(texts)
        if holding and not (is_common and is_rare):
            texts_by_sign[separator.sign] = holding

    if has_one_each and not texts_by_sign:
        texts_by_sign = _find_glued_sentences(texts)
    if not texts_by_sign:
        return []

    sign = max(texts_by_sign, key=lambda sign: len(texts_by_sign[sign]))
    quoted_sign = sign if sign.startswith(("a ", "quotes")) else f"'{sign}'"
    pronoun = "them" if sign == "quotes" else "it"
    words = f"hold {quoted_sign}, as if several captions were joined by {pronoun}"
    remedy = "write a JSON list, or ' ||| ' between them in a table"
    if is_of_captions:
        remedy = "keep one caption of each image"
    return [_make_finding("glued", words, texts_by_sign[sign], len(texts), noun, remedy=remedy)]


def _is_prose(text: str, pattern: re.Pattern[str]) -> bool:
    """Tell whether a text has more sentences than parts between a sign, as a long description has."""
    n_parts = 1 + sum(1 for _ in pattern.finditer(text))
    n_sentences = 1 + sum(1 for _ in _SENTENCE_END.finditer(text))
    return n_sentences > n_parts


def _find_glued_sentences(texts: Sequence[PlacedText]) -> dict[str, list[PlacedText]]:
    """Return the texts whose sentences, or parts between commas, each begin as a caption does, by the sign between them.

    It counts where it is at least three, and half of all: within a description, later sentences mostly begin with what
    was named before.
    """
    texts_by_sign: dict[str, list[PlacedText]] = {}
    for sign, pattern in (("a full stop", _FULL_STOP), ("a comma", _COMMA)):
        glued = [text for text in texts if _has_captions_between(text.text, pattern)]
        if len(glued) > 2 and 2 * len(glued) >= len(texts):
            texts_by_sign[sign] = [text for text in texts if pattern.search(text.text)]

    return texts_by_sign


def _has_captions_between(text: str, pattern: re.Pattern[str]) -> bool:
    parts = pattern.split(text.strip())
    if len(parts) < 2:
        return False

    for part in parts:
        is_short = len(part.split()) < _SHORTEST_PART
        if is_short or not INDEFINITE.match(part):
            return False
    return True


def _find_rare_signs(texts: Sequence[PlacedText], *, without_markup: bool) -> list[Separator]:
    """Return the rare sign that most of at least three texts hold, as a separator of common signs.

    Args:
        texts: of one file.
        without_markup: whether what is markup is no sign, as it has a check of its own.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        words = text.text
        if without_markup and SIGNS.search(words):
            words = HTML.sub(" ", TOKENS.sub(" ", words))
        # In the order of the text, so that the first of two equally frequent signs is named.
        for sign in dict.fromkeys(_RARE_SIGN.findall(words)):
            if not _is_of_script(sign, text.text):
                counts[sign] += 1

    separators: list[Separator] = []
    for sign, count in counts.most_common(1):
        if count > 2:
            pattern = re.compile(rf"\S\s*{re.escape(sign)}\s*\S")
            separators.append(Separator(sign, pattern, is_common=True))
    return separators


def _is_of_script(sign: str, text: str) -> bool:
    """Tell whether a sign is a vowel sign, or of the punctuation of a script that is not Latin."""
    # Unicode's categories: M are marks such as vowel signs, C formats, S symbols, Pi and Pf quotes.
    categories = {unicodedata.category(character) for character in sign}
    kinds = {category[0] for category in categories}
    if sign.isascii() or kinds <= {"S"}:
        return False

    # Quotes are of every script.
    if not kinds.isdisjoint("MC") or not categories.isdisjoint(("Pi", "Pf")):
        return True
    return find_script([text]) != "latin"


def _run_text_checks(
    checks: Iterable[TextCheck], texts: Sequence[PlacedText], noun: str
) -> list[SuspectedFault]:
    # Nearly all texts have no sign, and most checks need not look at them.
    with_sign = [text for text in texts if SIGNS.search(text.text)]
    findings: dict[str, SuspectedFault] = {}
    for check in checks:
        candidates = with_sign if check.needs_sign else texts
        faulty = [text for text in candidates if check.has_fault(text.text, text.image_id)]
        n_least = 1.0
        if check.least_share:
            n_least = max(check.least_count, check.least_share * len(texts))
        if len(faulty) >= n_least:
            finding = _make_finding(
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


def _make_finding(
    code: str,
    words: str,
    faulty: Sequence[PlacedText],
    n_texts: int,
    noun: str,
    *,
    remedy: str = "",
    is_fatal: bool = False,
) -> SuspectedFault:
    summary = _count_faulty(words, len(faulty), n_texts, noun, _quote(faulty[0]))
    summary += f"; {remedy}." if remedy else "."

    singular = _in_singular(words)
    text_noun = noun.removesuffix("s")
    lines: list[str] = []
    for text in faulty:
        quoted = "" if is_empty(text.text) else f": '{shorten(text.text)}'"
        where = f"{text.location}: image '{text.image_id}'"
        lines.append(f"{where}: the {text_noun} {singular}{quoted}")
    return SuspectedFault(code, summary, tuple(lines), is_fatal)


def _in_singular(words: str) -> str:
    verb, _, rest = words.partition(" ")
    return f"{_SINGULAR[verb]} {rest}"


def _count_faulty(words: str, n_faulty: int, n_texts: int, noun: str, example: str) -> str:
    """Return the beginning of a sentence that counts texts and shows one of them."""
    predicate = _in_singular(words) if n_faulty == 1 else words
    # With one caption in all, "1 of 1 captions" is said as well.
    return f"{n_faulty:,} of {n_texts:,} {noun} {predicate}, such as {example}"


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
            counts[check.code] = (len(faulty), _quote(faulty[0]))
    return counts


def describe_large(
    counts: Iterable[Mapping[str, FatalCount]],
    n_texts: int,
    first: Sequence[PlacedText],
    references: Sequence[PlacedText] = (),
) -> list[str]:
    """Return the lines below a table on a set of captions that is too large to hold.

    Args:
        counts: what `count_fatal` found in each part.
        n_texts: the number of all captions.
        first: the first of them, which all checks read.
        references: those of the same images.
    """
    totals: dict[str, FatalCount] = {}
    for counts_of_part in counts:
        for code, (n_faulty, example) in counts_of_part.items():
            n_before, first_example = totals.get(code, (0, example))
            totals[code] = (n_before + n_faulty, first_example)

    lines: list[str] = []
    for check in TEXT_CHECKS:
        if check.code in totals:
            n_faulty, example = totals[check.code]
            lines.append(f"{_count_faulty(check.words, n_faulty, n_texts, 'captions', example)}.")
    findings = [finding for finding in check_captions(first) if finding.code not in totals]
    for finding in [*findings, *check_references(references)]:
        is_all = len(first) == n_texts
        lines.append(
            finding.summary if is_all else f"Of the first {len(first):,}: {finding.summary}"
        )

    return _limit(lines, "All of it is scored as it stands.")


def _quote(text: PlacedText) -> str:
    """Return a text with its place, cut where it is long."""
    words = shorten(" ".join(text.text.split()))
    where = f"of image '{text.image_id}' ({text.location})"
    return f"'{words}' {where}" if words else f"that {where}"


def summarise(findings: Sequence[SuspectedFault]) -> list[str]:
    """Return the lines below a table about what looks like a fault of the files: at most five, each with an example.

    Args:
        findings: in the order of their weight.
    """
    lines = list(dict.fromkeys(finding.summary for finding in findings))
    return _limit(lines, "All of it is scored as it stands; captau validate lists each place.")


def _limit(lines: Sequence[str], closing: str) -> list[str]:
    """Return at most five lines, of which the last says how many there are more, and how they are scored."""
    if not lines:
        return []

    first_lines = lines[: _MOST_LINES - 1]
    n_left_out = len(lines) - len(first_lines)
    more = ""
    if n_left_out == 1:
        more = "One more check found something. "
    elif n_left_out:
        more = f"{n_left_out:,} more checks found something. "
    return [*first_lines, f"{more}{closing}"]
