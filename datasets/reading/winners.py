"""Verdicts on pairs of captions in a table: winners in words or numbers, and graded strengths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, shorten
from ..preferences import STRENGTHS, derive_winners
from .cells import is_missing, parse_number
from .table import Table

#: A side of a pair in a verdict, in lower case: `a`, `model_a`, `Caption 1`, `left`, `A is better`.
_SIDE = re.compile(
    r"(?:(?:caption|text|response|answer|option|candidate|model|system|assistant|output|image|choice|description)[\s_-]*)?"
    r"(a|b|1|2|first|second|left|right)(?:\s+(?:caption|one))?(?:\s+(?:is\s+better|wins))?"
)
#: A comparison: `A>B`, `A>>B`, `1 < 2`, `A=B`.
_COMPARISON = re.compile(r"(a|b|1|2)\s*(>+|<+|=+|~)\s*(a|b|1|2)")
#: The most characters of a word that an error repeats.
_SHOWN_WORD = 40
#: What the first caption of a pair does, where that is all that a word says.
_OUTCOMES = {
    "win": "a",
    "wins": "a",
    "won": "a",
    "lose": "b",
    "loses": "b",
    "loss": "b",
    "lost": "b",
}
#: Whom each name of a side means.
_SIDES = {
    **dict.fromkeys(("a", "1", "first", "left"), "a"),
    **dict.fromkeys(("b", "2", "second", "right"), "b"),
}
#: Words for neither caption being better.
_TIES = (
    "tie",
    "tied",
    "equal",
    "equally good",
    "draw",
    "same",
    "no difference",
    "no preference",
    "both",
    "neither",
    "both good",
    "both bad",
    "bothbad",
    "tie (bothbad)",
    "tie (both bad)",
    "[[c]]",  # so judges are asked to write
)
#: Words of those who gave no verdict.
_NO_VERDICT = ("skip", "skipped", "bad", "invalid", "unsure", "not sure", "cannot tell")


def read_winners(
    table: Table,
    winner: str,
    systems: tuple[str | None, str | None],
    words: Mapping[str, str] | None,
    sides: Mapping[str, str] | None = None,
) -> tuple[Table, list[str]]:
    """Return the rows with a verdict, their winners as `a`, `b` or `tie`, and a sentence on those without.

    Args:
        table: the rows.
        winner: the column of winners: `a`, `b`, `tie`, another word for one, or the name of the row's own system.
        systems: the columns of the captions' systems; None where there are none.
        words: what other words mean: `a`, `b`, `tie` or `none`.
        sides: what the columns' own names of the two captions mean, such as 0 and 1 of `caption_0` and `caption_1`.

    Raises:
        InputError: on words that say nothing of this, or where no row has a verdict.
    """
    if winner not in table:
        return table, []

    meanings = dict(sides or {})
    for word, meaning in (words or {}).items():
        meanings[str(word).strip().lower()] = str(meaning)
    for word, meaning in meanings.items():
        if meaning not in (*STRENGTHS, "none"):
            raise InputError(f"file.winners: '{word}' is '{meaning}', not a, b, tie or none")
    columns = [None if name is None else table.column(name) for name in systems]

    verdicts: list[str] = []
    judged_rows: list[int] = []
    left_out: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    unread: dict[str, str] = {}
    for row, (where, cell) in enumerate(zip(table.places, table.column(winner), strict=True)):
        row_systems = ["" if column is None else str(column[row]) for column in columns]
        verdict = _find_winner(cell, row_systems, meanings)
        if verdict in STRENGTHS and _is_other_side(cell, row_systems, meanings):
            doubtful[str(cell).strip()] += 1
        if verdict == "none":
            left_out["empty" if is_missing(cell) else str(cell).strip()] += 1
        elif verdict in STRENGTHS:
            verdicts.append(verdict)
            judged_rows.append(row)
        else:
            unread.setdefault(str(cell).strip(), where)

    if unread:
        raise _unread_winners(winner, unread)
    if not judged_rows and len(table):
        raise InputError(f"{table.places[0]}: {winner} is empty or no verdict in each row")
    read = table.keep(judged_rows).with_columns({winner: list(verdicts)})
    return read, [*_describe_left_out(left_out), *_describe_doubtful(doubtful, winner)]


def _describe_left_out(left_out: Counter[str]) -> list[str]:
    """Say how many rows have no verdict, and by which words; nothing where all have one."""
    if not left_out:
        return []

    n_left_out = left_out.total()
    is_or_are = "row has no verdict and is" if n_left_out == 1 else "rows have no verdict and are"
    counts = ", ".join(f"{word}: {count:,}" for word, count in left_out.items())
    return [f"{n_left_out:,} {is_or_are} left out ({counts})."]


def _is_other_side(cell: Any, systems: Sequence[str], meanings: Mapping[str, str]) -> bool:
    """Tell whether a winner is a place, and the name of the system in the other place: `A` where the second caption is of A."""
    text = str(cell).strip()
    if text.lower() in meanings or systems[0] == systems[1] or text not in systems:
        return False

    return _read_verdict(text.lower()) not in ("", "ab"[systems.index(text)])


def _describe_doubtful(doubtful: Mapping[str, int], winner: str) -> list[str]:
    """Say how many winners are both a place and the system in the other place, and as what they were read."""
    if not doubtful:
        return []

    word, _ = next(iter(doubtful.items()))
    n_rows = sum(doubtful.values())
    row_or_rows = "row" if n_rows == 1 else "rows"
    read_as = "system"
    remedy = "'file.winners={A: a, B: b}' takes it for the place"
    if word in STRENGTHS:
        # The letters `a` and `b` are places, whatever systems are called.
        read_as = "place"
        remedy = "rename the systems"
    return [
        f"In {n_rows:,} {row_or_rows} the {winner}, such as '{word}', is a place and the name of the system in the other place; it is "
        f"taken for the {read_as} ({remedy})."
    ]


#: From so many pairs on, strengths of one sign are of another scale more likely than by chance.
_FEWEST_STRENGTHS = 5


def describe_strengths(table: Table, strength: str | None) -> list[str]:
    """Say where strengths prefer the first caption in no pair, or the second, as numbers of another scale do."""
    if strength is None or len(table) < _FEWEST_STRENGTHS:
        return []

    numbers = [parse_number(cell) for cell in table.column(strength)]
    has_negative = any(number < 0 for number in numbers)
    has_positive = any(number > 0 for number in numbers)
    if has_negative and has_positive:
        return []
    sign, side = ("negative", "second") if has_positive else ("positive", "first")
    ties = " 0 is a tie." if 0 in numbers else ""
    return [
        f"No '{strength}' is {sign}, so that the {side} caption is better in no pair: positive numbers prefer the first one, "
        f"negative ones the second.{ties}"
    ]


def _unread_winners(winner: str, unread: Mapping[str, str]) -> InputError:
    """Return the error for words of no meaning, each with the place of its first row."""
    word, where = next(iter(unread.items()))
    numbers = [parse_number(text) for text in unread]
    if any(number < 0 for number in numbers):
        return InputError(
            f"{where}: {winner} is '{shorten(word)}'; file.strength={winner} reads numbers, positive where a is better and "
            "negative where b is"
        )

    if "0" in unread:
        return InputError(
            f"{where}: {winner} is '{shorten(word)}', and 0 is the first caption for some and a tie for others; say what each "
            "number means: 'file.winners={0: a, 1: b}' or 'file.winners={0: tie, 1: a, 2: b}'"
        )

    example_words = [text[:_SHOWN_WORD] for text in unread][:3]
    examples: list[str] = []
    for example_word, side in zip(example_words, "aba", strict=False):
        examples.append(f"{example_word}: {side}")
    usual_words = ", ".join((*STRENGTHS, "skip"))
    return InputError(
        f"{where}: {winner} is '{shorten(word)}', not one of {usual_words}, nor a system of the row; say what it means, such as "
        f"'file.winners={{{', '.join(examples)}}}' (a, b, tie or none)"
    )


def _find_winner(cell: Any, systems: Sequence[str], meanings: Mapping[str, str]) -> str:
    """Return `a`, `b`, `tie`, `none` for no verdict, or an empty text for a word of no meaning."""
    if is_missing(cell):
        return meanings.get("", "none")

    # A column of whole numbers with a gap in it is one of floats.
    is_whole = isinstance(cell, float) and cell.is_integer()
    text = str(int(cell)) if is_whole else str(cell).strip()
    if text.lower() in meanings:
        return meanings[text.lower()]
    if "0" in meanings and text.isdecimal():
        # Beside 0 the usual 1 may be the second.
        return ""
    if text in STRENGTHS:
        return text
    if systems[0] != systems[1] and text in systems:
        return "ab"[systems.index(text)]

    return _read_verdict(text.lower())


def _read_verdict(word: str) -> str:
    """Return what a word in lower case means; an empty text for nothing."""
    if word.replace("_", " ") in _TIES:
        return "tie"
    if word in _NO_VERDICT:
        return "none"

    bare = word.strip(" []()\"'.*")
    if bare in _OUTCOMES:
        return _OUTCOMES[bare]
    if match := _SIDE.fullmatch(bare):
        return _SIDES[match[1]]
    if match := _COMPARISON.fullmatch(bare):
        first = _SIDES[match[1]]
        second = _SIDES[match[3]]
        if first == second:
            return ""
        if match[2][0] in "=~":
            return "tie"
        return first if match[2][0] == ">" else second

    return ""


def read_strengths(table: Table, winner: str, strength: str | None) -> list[float]:
    """Return each row's strength: the graded one, else 1 where `a` wins, -1 where `b` does, 0 for `tie`.

    Args:
        table: the rows.
        winner: the column of winners.
        strength: the column of grades; None where there is none.

    Raises:
        InputError: on a winner that is none of the three, a strength that is not a number, or where the two columns
            disagree.
    """
    winners = None
    if winner in table or strength is None:
        winners = [text.strip() for text in table.filled(winner, "; name it with file.winner=")]
        for location, text in zip(table.places, winners, strict=True):
            if text not in STRENGTHS:
                raise InputError(
                    f"{location}: {winner} is '{text}', not one of {', '.join(STRENGTHS)}"
                )

    if strength is None:
        return [STRENGTHS[text] for text in winners or ()]

    strengths = table.floats(strength, None, "; name it with file.strength=")

    # Without winners there is nothing to compare the strengths with.
    derived_winners = derive_winners(strengths)
    for location, text, derived in zip(table.places, winners or (), derived_winners, strict=False):
        if text != derived:
            raise InputError(
                f"{location}: {winner} is {text}, and {strength} prefers {derived}; a positive strength prefers a, a "
                "negative b"
            )

    return strengths
