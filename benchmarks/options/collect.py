"""Options of `captau collect` and its kin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError
from .common import plain_of, runs_of


def collect_config(config: DictConfig) -> dict[str, Any]:
    """The options of `captau collect` and its kin, as plain data; the web side makes of them what it needs."""
    return plain_of(config)


def stability_config(config: DictConfig) -> tuple[tuple[Path, ...], int | None, str | None]:
    """The folders that `captau collect stability` compares, `least` and the output folder.

    Raises:
        InputError: where `least` is no number of ratings.
    """
    plain = plain_of(config)
    least = plain["least"]
    if least is not None and least < 1:
        raise InputError(f"least={least}: a number from 1 on is expected")
    return runs_of(plain), least, plain["output_dir"]
