"""The user's cache folder: what is computed or downloaded once and may be thrown away at any time."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_keeps = [True]


def cache_root(root: str | Path | None = None) -> Path:
    """The cache folder: `root`, else the environment's `CAPTAU_CACHE`, else the user's."""
    chosen = root or os.environ.get("CAPTAU_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("captau")


def cache_folder(*parts: str) -> Path:
    """A folder inside the cache folder, such as `cache_folder("meteor")`; it need not exist."""
    return cache_root().joinpath(*parts)


def keep(choice: bool) -> None:
    """`cache.use=`: whether features that models computed may be kept for the next run."""
    _keeps[0] = choice


def keeps() -> bool:
    """Whether features may be kept."""
    return _keeps[0]
