"""The list of checks of captions and references: what looks like a fault of a file, and moves scores without a word.

`captau validate` prints all that they find, line by line; every command that reads captions counts it below its table.
Nothing is changed or left out: a caption of `**bold**` text is scored as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import shorten
from .cells import is_printed_list


class PlacedText(NamedTuple):
    """A caption or a reference, with its image and its place: a file's name and the line."""

    place: str
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
        needs_sign: whether only a text with one of `_SIGNS` can have the fault.
    """

    code: str
    has_fault: Callable[[str, str], bool]
    words: str
    is_of_captions: bool = True
    is_of_references: bool = True
    is_fatal: bool = False
    needs_sign: bool = False


@dataclass(frozen=True)
class SuspectedFault:
    """What one check found in a file.

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
#: The most lines below a table about faults of files.
_MOST_LINES = 5

#: A text without any of these holds no markup; nearly all captions are told so at once.
_SIGNS = re.compile(r"[<>\[{*#`&:\\_|\n\ufffd▁Ġ◁•]|^\s*-\s|\b(?:start|end)seq\b|^\(")

_MISSING = re.compile(r"nan|none|null|nil|n/?a|<na>|#n/a|undefined|missing", re.IGNORECASE)
_FAILURES = re.compile(
    r"""
      \bfailed\ to\ (?:obtain|get|generate|fetch|load|process|parse)\b
    | ^\s*(?:an?\ )?(?:\w+\ )?error\b(?:\s*[:(]|\s+(?:code|occurred|\d)|\s*$)
    | \b(?:api|request|server|connection|timeout|rate\ limit)\s?error\b
    | \brate\ limit\b | \bexceeded\ your\b.*\bquota\b | ^traceback\ \(most\ recent
    | ^\s*(?:no|empty)\ (?:response|answer|caption|output)\b.{0,25}$
    | ^\s*(?:i['’]?m|i\ am|we\ are|we['’]re)?\s*(?:very\ |so\ )?sorry\b
    | \bi\ (?:can['’]t|can(?:\ )?not|won['’]t|am\ (?:unable|not\ able)\ to)\ (?:assist|help|see|view|access|process|provide
        |describe|identify|analy[sz]e|comply|fulfil|generate|continue|do|discuss|caption)
    | \bi['’]m\ (?:unable|not\ able)\ to\b
    | \bas\ an?\ (?:ai\b|(?:large\ )?language\ model) | \bcontent\ (?:policy|filter)
    | 抱歉 | 对不起 | 無法 | 无法(?:回答|提供|描述)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_THOUGHTS = re.compile(
    r"</?(?:think|thinking|thought|thoughts|reasoning|scratchpad)>|◁/?think▷|<\|channel\|>",
    re.IGNORECASE,
)
_TURNS = re.compile(
    r"""
      (?:^|\s)(?:USER|ASSISTANT|HUMAN|SYSTEM|BOT|GPT|AI)\s?:
    | ^\s*(?:User|Assistant|Human|System|Bot|Model)\s?:
    | \[/?INST\] | \#\#\#\s?(?:Human|Assistant|User|Response|Instruction)\b
    | <(?:start|end)_of_turn>
    """,
    re.VERBOSE,
)
_TOKENS = re.compile(
    r"""
      <\|[^<>|]{1,40}\|> | </?s> | </w> | (?:^|\s)\#\#\w | [▁Ġ]
    | <(?:pad|unk|eos|bos|sos|eot|eoc|sep|cls|mask|image|img|video|start|end|startseq|endseq|endoftext|end_of_utterance)>
    | \[(?:pad|sep|cls|unk|eos|bos|mask|img)\] | \b(?:start|end)seq\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MARKDOWN = re.compile(
    r"\*\*|\b__\w|\w__\b|```|\]\(https?://|^\s{0,3}(?:\#{1,6}\s|[-*•]\s+\S|>\s)", re.MULTILINE
)
_HTML = re.compile(
    r"</?(?:p|br|b|i|em|strong|div|span|a|li|ul|ol|h\d|caption|answer|body|html)\b[^<>]*>"
    r"|&(?:amp|quot|lt|gt|nbsp|apos|\#\d+);",
    re.IGNORECASE,
)
_ESCAPES = re.compile(r"\\[nt\"']|\\u[0-9a-fA-F]{4}")
_PRINTED_OBJECT = re.compile(r"""\s*\{\s*["'].*["']\s*:.*\}\s*""", re.DOTALL)
_LEAD_IN = re.compile(
    r"\s*(?:(?:in\s+)?(?:the|this)\s+(?:given\s+|provided\s+)?(?:image|picture|photo|photograph|video|scene|audio)\b"
    r"|(?:sure|certainly|here\s+is|here['’]s)\b|(?:image\s+)?(?:caption|description)\s*:)",
    re.IGNORECASE,
)


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


def _is_printed(text: str, _: str) -> bool:
    return is_printed_list(text.strip()) or _PRINTED_OBJECT.fullmatch(text) is not None


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
        has_fault=lambda text, _: _MISSING.fullmatch(text.strip()) is not None,
        words="are the word for a missing value",
    ),
    TextCheck(
        code="failed",
        has_fault=lambda text, _: _FAILURES.search(text) is not None,
        words="look like a failed request or a refusal",
        is_of_references=False,
    ),
    TextCheck(
        code="image_id",
        has_fault=_is_image_id,
        words="are their image's id",
    ),
    TextCheck(
        code="thoughts",
        has_fault=_has_pattern(_THOUGHTS),
        words="hold a model's thoughts",
        needs_sign=True,
    ),
    TextCheck(
        code="turns",
        has_fault=_has_pattern(_TURNS),
        words="hold the turns of a chat",
        needs_sign=True,
    ),
    TextCheck(
        code="tokens",
        has_fault=_has_pattern(_TOKENS),
        words="hold a model's special tokens",
        needs_sign=True,
    ),
    TextCheck(
        code="markdown",
        has_fault=_has_pattern(_MARKDOWN),
        words="hold Markdown",
        needs_sign=True,
    ),
    TextCheck(
        code="html",
        has_fault=_has_pattern(_HTML),
        words="hold HTML",
        needs_sign=True,
    ),
    TextCheck(
        code="escapes",
        has_fault=_has_pattern(_ESCAPES),
        words="hold escapes, such as \\n, written out",
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
    ),
)


@dataclass(frozen=True)
class Separator:
    """A sign between captions that were joined into one text.

    Attributes:
        shown: the sign for messages.
        pattern: finds it.
        is_common: whether it stands in whole captions too; it then counts where half of all references hold it and no
            image has several.
    """

    shown: str
    pattern: re.Pattern[str]
    is_common: bool = False


#: What people set between the references of one cell, the surest first; ` ||| ` is captau's own in tables, not in JSON.
SEPARATORS = (
    Separator("|||", re.compile(r"\|\|\|")),
    Separator("||", re.compile(r"\|\|")),
    Separator("|", re.compile(r"\|")),
    Separator("<sep>", re.compile(r"<\|?sep\|?>|\[sep\]", re.IGNORECASE)),
    Separator("###", re.compile(r"\w[^\n]*\#\#\#")),
    Separator("a tab", re.compile(r"\S\t\s*\S")),
    Separator("@@", re.compile(r"@@")),
    Separator("&&", re.compile(r"&&")),
    Separator("1. … 2. …", re.compile(r"^\s*\(?1[.)]\s.*\b2[.)]\s", re.DOTALL)),
    Separator("a line end", re.compile(r"\S[ \t]*[\r\n]+\s*\S"), is_common=True),
    Separator(";", re.compile(r";\s*\S"), is_common=True),
    Separator("/", re.compile(r"\w\s*/\s*\w"), is_common=True),
)


def check_captions(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return what looks like a fault of a file of captions, each check once.

    Args:
        texts: the captions of one system.
    """
    checks = [check for check in TEXT_CHECKS if check.is_of_captions]
    findings = _run_text_checks(checks, texts, "captions")
    if len(texts) < 2:
        return findings

    # Of two or three captions, two may well be alike.
    if len(texts) > 2 and len({text.text.strip() for text in texts}) == 1 and texts[0].text.strip():
        summary = f"All {len(texts):,} captions are one text, {_quote(texts[0])}."
        findings.append(SuspectedFault("same_text", summary, (summary,)))
    elif all(_LEAD_IN.match(text.text) for text in texts):
        summary = (
            f"All {len(texts):,} captions begin with words about the image, such as {_quote(texts[0])}; references "
            "rarely do."
        )
        findings.append(SuspectedFault("lead_in", summary, (summary,)))

    return findings


def check_references(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return what looks like a fault of a file of references, each check once.

    Args:
        texts: all references of all images.
    """
    checks = [check for check in TEXT_CHECKS if check.is_of_references]
    findings = _run_text_checks(checks, texts, "references")
    glued = _find_glued(texts)
    # The first of them says most: it makes one reference of several.
    return [*glued, *findings]


def _find_glued(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return the finding of the separator that most references hold; nothing where none looks glued."""
    has_one_each = len({text.image_id for text in texts}) == len(texts)
    held: dict[str, list[PlacedText]] = {}
    for separator in SEPARATORS:
        if separator.is_common and not has_one_each:
            continue
        holding = [text for text in texts if separator.pattern.search(text.text)]
        if holding and not (separator.is_common and 2 * len(holding) < len(texts)):
            held[separator.shown] = holding
    if not held:
        return []

    shown = max(held, key=lambda name: len(held[name]))
    sign = shown if shown.startswith("a ") else f"'{shown}'"
    words = f"hold {sign}, as if several captions were joined by it"
    remedy = "write a JSON list, or ' ||| ' between them in a table"
    return [_make_finding("glued", words, held[shown], len(texts), "references", remedy=remedy)]


def _run_text_checks(
    checks: Iterable[TextCheck], texts: Sequence[PlacedText], noun: str
) -> list[SuspectedFault]:
    # Nearly all texts have no sign, and seven checks need not look at them.
    with_sign = [text for text in texts if _SIGNS.search(text.text)]
    findings: list[SuspectedFault] = []
    for check in checks:
        candidates = with_sign if check.needs_sign else texts
        faulty = [text for text in candidates if check.has_fault(text.text, text.image_id)]
        if faulty:
            finding = _make_finding(
                check.code,
                check.words,
                faulty,
                len(texts),
                noun,
                is_fatal=check.is_fatal,
            )
            findings.append(finding)

    return findings


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
    verb, _, rest = words.partition(" ")
    singular = f"{_SINGULAR[verb]} {rest}"
    predicate = singular if len(faulty) == 1 else words
    # With one caption in all, "1 of 1 captions" is said as well.
    summary = f"{len(faulty):,} of {n_texts:,} {noun} {predicate}, such as {_quote(faulty[0])}"
    summary += f"; {remedy}." if remedy else "."

    what = noun.removesuffix("s")
    lines: list[str] = []
    for text in faulty:
        shown = "" if is_empty(text.text) else f": '{shorten(text.text)}'"
        lines.append(f"{text.place}: image '{text.image_id}': the {what} {singular}{shown}")
    return SuspectedFault(code, summary, tuple(lines), is_fatal)


def _quote(text: PlacedText) -> str:
    """Return a text with its place, cut where it is long."""
    shown = shorten(" ".join(text.text.split()))
    where = f"of image '{text.image_id}' ({text.place})"
    return f"'{shown}' {where}" if shown else f"that {where}"


def summarise(findings: Sequence[SuspectedFault]) -> list[str]:
    """Return the lines below a table about what looks like a fault of the files: at most five, each with an example.

    Args:
        findings: in the order of their weight.
    """
    lines = list(dict.fromkeys(finding.summary for finding in findings))
    if not lines:
        return []

    shown = lines[: _MOST_LINES - 1]
    n_left_out = len(lines) - len(shown)
    more = ""
    if n_left_out == 1:
        more = "One more check found something. "
    elif n_left_out:
        more = f"{n_left_out:,} more checks found something. "
    return [*shown, f"{more}All of it is scored as it stands; captau validate lists each place."]
