"""The marks by which a file says itself that a row of it is void: rejected, written beforehand or cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What a column says of a void row: VizWiz's `is_rejected` and `is_precanned`, Label Studio's `was_cancelled`, and
#: Mechanical Turk's `AssignmentStatus`.
FLAGS: dict[str, tuple[str, ...]] = {
    "is_rejected": ("true", "1", "1.0", "yes"),
    "is_precanned": ("true", "1", "1.0", "yes"),
    "was_cancelled": ("true", "1", "1.0", "yes"),
    "AssignmentStatus": ("rejected",),
}


def find_flags(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns that call a row void."""
    if not row:
        return ()

    flags: list[str] = []
    for name, values in FLAGS.items():
        if name in row and str(row[name]).strip().lower() in values:
            flags.append(name)
    return tuple(flags)
