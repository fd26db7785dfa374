"""The text of metric specs: where their parts end, and how a name is spelt."""

from __future__ import annotations

import re


def split_at_commas(text: str) -> list[str] | None:
    """Split a text at the commas that stand in no brackets and no quotes; None where these do not match."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return None
        if character == "," and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return None if quote or depth else parts


def plain_name(name: str) -> str:
    """Return a name as metrics are registered: `BLEU-4` becomes `bleu_4`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
