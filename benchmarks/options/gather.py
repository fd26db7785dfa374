"""Options of `captau gather`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from .common import path_of, plain_of


@dataclass(frozen=True)
class GatherOptions:
    """What `captau gather` does.

    Attributes:
        run: a sweep's folder.
        rerun: whether to run first what is not done.
        output_dir: where to write; None for the sweep's folder.
    """

    run: Path
    rerun: bool = False
    output_dir: Path | None = None


def gather_config(config: DictConfig) -> GatherOptions:
    """From the composed configuration of `captau gather`."""
    plain = plain_of(config)
    return GatherOptions(
        Path(plain["run"]).expanduser(), plain["rerun"], path_of(plain["output_dir"])
    )
