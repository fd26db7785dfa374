"""Options of `captau data`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ...conf import group
from ...datasets.errors import InputError
from .common import path_of, plain_of


@dataclass(frozen=True)
class DataConfig:
    """What `captau data fetch`, `import` and `verify` do.

    Attributes:
        names: datasets; all of them where none was named.
        named: whether the names were given one by one.
        models: what else was named: files that a metric needs.
        root: the data folder; None for the usual one.
        offline: whether to leave the network alone.
        source: what to import from.
        images: where image files lie.
    """

    names: tuple[str, ...]
    named: bool
    models: tuple[str, ...]
    root: Path | None
    offline: bool
    source: Path
    images: Path | None


def data_config(config: DictConfig, *, needed: bool = True) -> DataConfig:
    """From the composed configuration of `captau data fetch`, `import` and `verify`.

    Raises:
        InputError: where no dataset is given and one is `needed`.
    """
    plain = plain_of(config)
    chosen, models = tuple(plain["datasets"]), tuple(plain.get("models", ()))
    if needed and not chosen and not models:
        raise InputError(
            "the option dataset=… is needed: a name, [A,B] or all; see captau data list"
        )
    everything = tuple(group("dataset"))
    return DataConfig(
        names=chosen if chosen or models else everything,
        named=bool(chosen) and set(chosen) != set(everything),
        models=models,
        root=path_of(plain["data"]["root"]),
        offline=plain["data"].get("offline", False),
        source=path_of(plain.get("source")) or Path(),
        images=path_of(plain["data"].get("images")),
    )


def df_config(config: DictConfig) -> tuple[Path, Path]:
    """References and output file of `captau data df`."""
    plain = plain_of(config)
    return Path(plain["references"]).expanduser(), Path(plain["output"]).expanduser()
