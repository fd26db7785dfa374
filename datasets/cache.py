"""The cache folder: what captau keeps for the next run, and may be deleted at any time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass
class _Chosen:
    root: Path | None = None
    keep: bool = True


_chosen = _Chosen()


def choose_cache(root: Path | None, keep: bool) -> None:
    """What a run's `cache.root=` and `cache.use=` say; None is the usual folder."""
    _chosen.root, _chosen.keep = root, keep


def cache_folder(*parts: str) -> Path:
    """A folder of the cache: `cache.root=`, else the environment's `CAPTAU_CACHE`, else the user's.

    It is not made here.
    """
    chosen = _chosen.root or os.environ.get("CAPTAU_CACHE")
    root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("captau")
    return root.joinpath(*parts)


def keeps() -> bool:
    """Whether what is computed may be kept for the next run."""
    return _chosen.keep
