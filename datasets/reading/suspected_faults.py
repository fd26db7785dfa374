"""A suspected fault of a file of captions or references, and its words: a sentence that counts, and a line a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import shorten

#: The verbs of `TextCheck.words` in the singular.
_SINGULAR = {"are": "is", "hold": "holds", "look": "looks"}
#: The most lines below a table about faults of files.
_MOST_LINES = 5


class PlacedText(NamedTuple):
    """A caption or a reference, with its image and where it stands: a file's name and the line."""

    location: str
    image_id: str
    text: str


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


def is_empty(text: str) -> bool:
    """Return whether a text has no letter and no digit."""
    return not any(map(str.isalnum, text))


def make_finding(
    code: str,
    words: str,
    faulty: Sequence[PlacedText],
    n_texts: int,
    noun: str,
    *,
    remedy: str = "",
    is_fatal: bool = False,
) -> SuspectedFault:
    """Put the finding of a check into words.

    Args:
        code: the check's.
        words: what the texts are or hold, from the verb in the plural on.
        faulty: these texts, at least one.
        n_texts: the number of all texts.
        noun: `captions` or `references`.
        remedy: what to do, where it is not plain.
        is_fatal: as of the check.
    """
    summary = count_faulty(words, len(faulty), n_texts, noun, quote(faulty[0]))
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


def count_faulty(words: str, n_faulty: int, n_texts: int, noun: str, example: str) -> str:
    """Return the beginning of a sentence that counts texts and shows one of them."""
    predicate = _in_singular(words) if n_faulty == 1 else words
    # With one caption in all, "1 of 1 captions" is said as well.
    return f"{n_faulty:,} of {n_texts:,} {noun} {predicate}, such as {example}"


def quote(text: PlacedText) -> str:
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
    return limit(lines, "All of it is scored as it stands; captau validate lists each place.")


def limit(lines: Sequence[str], closing: str) -> list[str]:
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
