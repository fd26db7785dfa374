"""Options of `captau collect` and its kin."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from .common import plain_of


def collect_config(config: DictConfig) -> dict[str, Any]:
    """The options of `captau collect` and its kin, as plain data; the web side makes of them what it needs."""
    return plain_of(config)
