"""The meaning of one cell of a table or one value of JSON: reference captions, numbers, and what stands for none.

Every reader of references uses `parse_references`, and every reader of numbers in text `parse_number`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pandas as pd

from ..caption_texts import replace_surrogates
from ..errors import InputError, shorten

#: The mark between the references in one cell of text.
SEPARATOR = " ||| "
#: A text in quotes, as Python writes it.
_QUOTED = r"""(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")"""
#: An element of a printed list of texts, of which one may be missing.
_ELEMENT = rf"(?:{_QUOTED}|None|nan)"
#: A list or tuple of texts, as Python prints it. Python would join two texts without a comma between them.
_LIST_OF_TEXTS = re.compile(rf"[\[(]\s*(?:{_ELEMENT}(?:\s*,\s*{_ELEMENT})*+\s*,?)?\s*[\])]")
_QUOTED_OR_NAN = re.compile(rf"({_QUOTED})|nan")
#: The beginnings of what programs print of lists, arrays, sets and generators. A quote before it is one that a table
#: without quoting keeps.
_PRINTED_BEGINNING = re.compile(
    rf"""
    "?(?:
      [\[{{][\s\[({{]*["']                          # ['a'   {{'a'   [('a'
    | \(\s*{_QUOTED}\s*(?:,\s*["'\[(]|,?\s*\)?"?\Z|["'])  # ('a', 'b   ('a',)   ('a' 'b'
    | \(\s*[\[({{][\s\[({{]*["']                    # (['a'   (('a'
    | [\[({{]?[A-Za-z_][\w.]*\((?:[\[({{]|["']|\)\Z)   # array(['a'   set()   [np.str_('a')
    | <[\w. ]*\b(?:object|generator)\b.*\bat\ 0x    # <generator object captions at 0x7f>
    )""",
    re.VERBOSE,
)
#: The end of a list whose beginning is missing.
_PRINTED_END = re.compile(r"""["'].*["']\s*,?\s*[\])}]"?""", re.DOTALL)
#: A text that is in brackets as a whole, or begins with one that is never closed.
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|\[[^\]]*|\{[^}]*", re.DOTALL)

#: A decimal number of ASCII digits.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


#: What stands for a rating that was not given.
_MISSING = ("", "na", "n/a", "nan", "none", "null", "<na>", "#n/a")
#: Where an object of a list of references has the text.
_TEXT_KEYS = ("raw", "caption", "text", "sentence")


def text_of(value: Any) -> Any:
    """Return the text of a reference that is an object, such as `{"raw": …}` or `{"caption": …}`; else the value."""
    if isinstance(value, dict):
        for key in _TEXT_KEYS:
            if isinstance(value.get(key), str):
                return value[key]

    return value


def check_one_text(value: Any, where: str, name: str = "caption") -> None:
    """Check that a value is not a list of several texts, where one is expected.

    Raises:
        InputError: where it is.
    """
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        advice = (
            _describe_list(value) or "; keep one, unless candidates= and references= are swapped"
        )
        raise InputError(
            f"{where}: '{name}' is {len(value):,} texts, {shorten(repr(value))}, where one is expected{advice}"
        )


def _describe_list(value: Any) -> str:
    """Say what to do about a list of words or letters in place of a text; empty where it is something else."""
    is_of_texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    if not is_of_texts or not value:
        return ""

    # One text of several words is a caption, and so are its neighbours.
    if any(len(text.split()) > 1 for text in value):
        return ""
    if set(map(len, value)) == {1}:
        return "; these are the letters of a text, join them"
    return "; these are the words of a text, join them with blanks"


def fill_empty(value: Any) -> Any:
    """Return an empty text for null and NaN, which are what an empty cell is called elsewhere; else the value."""
    is_nan = isinstance(value, float) and value != value
    return "" if value is None or is_nan else value


def parse_references(value: Any, where: str, name: str = "references") -> tuple[str, ...]:
    """Return the references that a value holds.

    A list of texts holds its texts, and null among them is an empty one. A text holds a JSON list, a list or tuple as Python prints it, or captions with
    ` ||| ` between them. What only looks like a list, such as NumPy's print, a set or half a list, is refused, and so
    is a text of several lines, since each line may be a caption.

    Args:
        value: a list, tuple, array or Series of texts, or a text.
        where: the place of the value, for messages.
        name: the name of the value, for messages.

    Raises:
        InputError: where the value is anything else.
    """
    references: Sequence[Any] | None = None
    if isinstance(value, str):
        references = _parse_text(value.strip())
    elif isinstance(value, np.ndarray | pd.Series):
        references = value.tolist()
    elif isinstance(value, list | tuple):
        references = cast("Sequence[Any]", value)
    else:
        raise InputError(f"{where}: {name} is {shorten(repr(value))}, not a list of texts")

    if references is not None:
        references = list(map(fill_empty, references))
    for text in references or ():
        if not isinstance(text, str):
            advice = _describe_list(text)
            raise InputError(f"{where}: {name} holds {shorten(repr(text))}, not a text{advice}")

    if references is None or any(map(is_printed_list, references)):
        raise InputError(
            f"{where}: {name} is {shorten(repr(value))}, from which captions cannot be told apart; write a JSON list, "
            f'["a dog", "a cat"], or captions with \'{SEPARATOR}\' between them'
        )

    return tuple(map(replace_surrogates, references))


def split_joined(captions: Sequence[str]) -> list[str]:
    """Return captions, each that joins several by ` ||| ` as those several."""
    texts: list[str] = []
    for caption in captions:
        parts = [part.strip() for part in caption.split(SEPARATOR.strip())]
        is_joined = len(parts) > 1
        texts += [part for part in parts if part] if is_joined else [caption]
    return texts


def _parse_text(text: str) -> Sequence[Any] | None:
    """Return the references in a text; None where they cannot be told apart."""
    for opening, parse in (("[", json.loads), (("[", "("), _parse_python)):
        try:
            values = parse(text) if text.startswith(opening) else None
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if values is not None:
            return values

    if is_printed_list(text) or _IN_BRACKETS.fullmatch(text):
        return None

    parts = [part.strip() for part in text.split(SEPARATOR.strip())]
    captions = tuple(filter(None, parts))
    # Each of several lines may be a caption of its own.
    if len(captions) == 1 and len(captions[0].splitlines()) > 1:
        return None

    return captions


def _parse_python(text: str) -> Any:
    """Return the list or tuple of texts that Python printed; None where it is none."""
    if not _LIST_OF_TEXTS.fullmatch(text):
        return None

    values = ast.literal_eval(_QUOTED_OR_NAN.sub(lambda match: match[1] or "None", text))
    return values if isinstance(values, list | tuple) else None


def is_printed_list(text: str) -> bool:
    """Return whether a text looks like what a program prints of several texts, or of a part of them."""
    if text[:1].isalpha() and "(" not in text:  # nearly always, and quickly
        return False

    if _PRINTED_BEGINNING.match(text):
        return True

    # The end of a list closes more brackets than it opens.
    pairs = ("[]", "()", "{}")
    is_unopened = any(text.count(closing) > text.count(opening) for opening, closing in pairs)
    return is_unopened and _PRINTED_END.fullmatch(text) is not None


def parse_number(value: Any) -> float:
    """Return a cell as a number; NaN where it is none.

    A text is a number where it is one in decimal notation with ASCII digits, such as `-0.5` or `1e-3`, with or without
    blanks around it: no `1_0`, `0x1`, `٣` or `inf`.
    """
    if isinstance(value, str):
        text = value.strip(" \t")
        return float(text) if _NUMBER.fullmatch(text) else float("nan")

    # True and False are whole numbers of Python.
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return float("nan")

    try:
        return float(value)
    except OverflowError:
        # A whole number of hundreds of digits; no scale holds infinity.
        return float("inf")


#: Words of yes-or-no questions, whose mean is the share of yes.
ANSWER_WORDS: Mapping[str, float] = {
    "yes": 1.0,
    "true": 1.0,
    "good": 1.0,
    "no": 0.0,
    "false": 0.0,
    "bad": 0.0,
}


def parse_answer(value: Any) -> float:
    """Return a cell as a number, 1 or 0 of a text that is one of `ANSWER_WORDS`; NaN where it is neither.

    A judge may end its word with a stop, or put it in quotes or asterisks: "Yes." and "**No**" are words, too.
    """
    word = value.strip(" \t\r\n.!\"'*").lower() if isinstance(value, str) else ""
    return ANSWER_WORDS[word] if word in ANSWER_WORDS else parse_number(value)


def is_missing(value: Any) -> bool:
    """Return whether a cell stands for no rating: empty, None, NaN, or one of these as text."""
    if value is None or value != value:
        return True

    return isinstance(value, str) and value.strip().lower() in _MISSING
