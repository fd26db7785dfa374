"""The user's cache folder: what lies in it can be had or computed again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder(*parts: str) -> Path:
    """A folder or file below the environment's `CAPTAU_CACHE`, else the user's cache folder.

    Args:
        parts: names below it; nothing is made.
    """
    chosen = os.environ.get("CAPTAU_CACHE")
    root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("captau")
    return root.joinpath(*parts)
