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


def describe_void(
    n_rows: int,
    counts: Mapping[str, int],
    *,
    noun: str,
    file_name: str,
    remark: str = "",
    option: str,
) -> str:
    """Say how many rows are left out since their file calls them void, by which flags, and what keeps them.

    Args:
        n_rows: their number.
        counts: how often each flag stands; a row may have several.
        noun: what a row is, as `reference`.
        file_name: of the file.
        remark: what else they take with them; empty for nothing.
        option: which reads them.
    """
    flags = ", ".join(f"{flag}: {n:,}" for flag, n in sorted(counts.items()))
    is_or_are = f"{noun} is" if n_rows == 1 else f"{noun}s are"
    left_out = f"{n_rows:,} {is_or_are} left out, which {file_name} flags as void ({flags})"
    return f"{left_out}{remark}; {option} keeps them."


def find_flags(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns that call a row void."""
    if not row:
        return ()

    flags: list[str] = []
    for name, values in FLAGS.items():
        if name in row and str(row[name]).strip().lower() in values:
            flags.append(name)
    return tuple(flags)
