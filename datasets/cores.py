"""The number of processor cores that this process may use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Return the number of cores of this process' CPU affinity, where the system has one, else of the machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
