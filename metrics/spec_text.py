"""The text of metric specs: where their parts end, and how a name is spelt."""

from __future__ import annotations

import re
from typing import Any


def split_at_commas(text: str) -> list[str] | None:
    """Split a text at the commas that stand in no brackets and no quotes; None where these do not match."""
    parts = [""]
    depth = 0
    quote = ""  # the one that the text so far has opened
    for character in text:
        if quote:
            if character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if depth < 0:
            return None

        if character == "," and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += character

    return None if quote or depth else parts


#: `mine.py:overlap` and `mine.csv`, with parameters in brackets or without.
_FUNCTION = re.compile(
    r"\s*([^\s()\[\]{}'\",=][^()\[\]{}'\",=]*:\w+)\s*(?:\((.*)\))?\s*", re.DOTALL
)
_SCORE_FILE = re.compile(
    r"\s*([^()\[\]{}'\",=]+\.(?:csv|tsv|jsonl|json|ndjson|parquet)(?:\.(?:gz|bz2|xz|zst|lz4))?)\s*(?:\((.*)\))?\s*",
    re.DOTALL,
)


def spell_out(spec: str) -> str:
    """Return `python(mine.py:overlap)` for `mine.py:overlap`, `file(mine.csv)` for `mine.csv`, and other specs as they are."""
    for name, pattern in (("python", _FUNCTION), ("file", _SCORE_FILE)):
        if match := pattern.fullmatch(spec):
            parameters = [group for group in match.groups() if group]
            return f"{name}({','.join(parameters)})"

    return spec


def plain_name(name: str) -> str:
    """Return a name as metrics are registered: `BLEU-4` becomes `bleu_4`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def format_value(value: Any) -> str:
    """Write a value as in a signature."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def quote_value(value: Any) -> str:
    """Write a value as in a spec, quoting texts that would otherwise be read as something else."""
    text = format_value(value)
    if not isinstance(value, str) or not re.search(
        r"[,()\[\]{}'\"]|^\s|\s$|^(none|null)?$", text, re.IGNORECASE
    ):
        return text

    quote = '"' if "'" in text else "'"
    return f"{quote}{text}{quote}"
