"""The list of checks of captions and references: what looks like a fault of a file, and moves scores without a word.

`captau validate` prints all that they find, line by line; every command that reads captions counts it below its table.
Nothing is changed or left out: a caption of `**bold**` text is scored as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .caption_patterns import LEAD_IN, is_plain
from .glued_texts import find_glued
from .suspected_faults import PlacedText, SuspectedFault, count_faulty, limit, make_finding, quote
from .text_checks import TEXT_CHECKS, FatalCount, run_text_checks

#: The fewest characters at which captions are cut.
_SHORTEST_CUT = 16


def check_captions(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return what looks like a fault of a file of captions, each check once.

    Args:
        texts: the captions of one system.
    """
    checks = [check for check in TEXT_CHECKS if check.is_of_captions]
    unusual = _find_unusual(texts)
    findings = run_text_checks(checks, texts, unusual, "captions")
    # The turns of a chat, and thoughts, stand on lines of their own.
    n_on_lines = 0
    for finding in findings:
        if finding.code in ("thoughts", "turns"):
            n_on_lines = max(n_on_lines, len(finding.lines))
    for glued in find_glued(texts, unusual, "captions"):
        if len(glued.lines) > n_on_lines:
            findings.append(glued)
    if len(texts) < 2:
        return findings

    # Of two or three captions, two may well be alike.
    different_texts = {text.text.strip() for text in texts}
    if len(texts) > 2 and len(different_texts) == 1 and texts[0].text.strip():
        summary = f"All {len(texts):,} captions are one text, {quote(texts[0])}."
        findings.append(SuspectedFault("same_text", summary, (summary,)))
    elif all(LEAD_IN.match(text.text) for text in texts):
        summary = (
            f"All {len(texts):,} captions begin with words about the image, such as {quote(texts[0])}; references "
            "rarely do."
        )
        findings.append(SuspectedFault("lead_in", summary, (summary,)))

    elif _have_same_words(texts):
        summary = (
            f"All {len(texts):,} captions begin with the same words, such as {quote(texts[0])}."
        )
        findings.append(SuspectedFault("same_words", summary, (summary,)))

    findings += _find_cut(texts)
    return findings


def _find_unusual(texts: Sequence[PlacedText]) -> list[PlacedText]:
    """Return the texts that are not plain; in most files they are few, and most checks need to look at no others."""
    return [text for text in texts if not is_plain(text.text)]


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
    return [make_finding("cut", words, cut, len(texts), "captions")]


def check_references(texts: Sequence[PlacedText]) -> list[SuspectedFault]:
    """Return what looks like a fault of a file of references, each check once.

    Args:
        texts: all references of all images.
    """
    checks = [check for check in TEXT_CHECKS if check.is_of_references]
    unusual = _find_unusual(texts)
    findings = run_text_checks(checks, texts, unusual, "references")
    glued = find_glued(texts, unusual, "references")
    # The first of them says most: it makes one reference of several.
    return [*glued, *findings]


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
            lines.append(f"{count_faulty(check.words, n_faulty, n_texts, 'captions', example)}.")
    findings = [finding for finding in check_captions(first) if finding.code not in totals]
    for finding in [*findings, *check_references(references)]:
        is_all = len(first) == n_texts
        lines.append(
            finding.summary if is_all else f"Of the first {len(first):,}: {finding.summary}"
        )

    return limit(lines, "All of it is scored as it stands.")
