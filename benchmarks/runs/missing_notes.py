"""The note of a number that was not computed: written and read back here alone.

It stands in `correlations.csv` and `comparison.csv`, and in a paper's file in place of a metric.
"""

from __future__ import annotations

from ...metrics.base import Unavailability

_MARK = "missing: "


def missing_note(reason: Unavailability | str) -> str:
    """Return the note of a number that was not computed for this reason."""
    return f"{_MARK}{reason}"


def parse_missing_note(note: str) -> Unavailability | None:
    """Return the reason that `missing_note` wrote; None for any other note."""
    return Unavailability.parse(note.removeprefix(_MARK)) if note.startswith(_MARK) else None
