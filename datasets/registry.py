"""The registry of datasets, and `load`, which reads one by its name.

To add a dataset, put `@dataset(CARD)` over a reader in a module of `sources/`, in a module of another package
that the entry-point group `captau.datasets` names, or in your own program. The reader takes the data folder, and options
by name where it has any, and returns a `CaptionSet`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from .errors import MissingFileError, unknown
from .paths import expand_home
from .plugins import import_plugins
from .reading.source_files import way_to_get
from .schema import CaptionSet, Card

Reader = Callable[..., CaptionSet]

_READERS: dict[str, tuple[Card, Reader]] = {}
_PROTOCOLS: dict[str, Mapping[str, Any]] = {}


def dataset(card: Card, protocol: Mapping[str, Any] | None = None) -> Callable[[Reader], Reader]:
    """Register a reader under its card's name.

    Args:
        card: its description.
        protocol: what differs in its usual protocol from every dataset's; captau's own datasets have a file in
            `conf/dataset/` instead.
    """

    def register(reader: Reader) -> Reader:
        if card.name in _READERS:
            raise ValueError(f"dataset {card.name} is registered twice")
        _READERS[card.name] = (card, reader)
        _PROTOCOLS[card.name] = dict(protocol or {})
        return reader

    return register


@cache
def _discover() -> None:
    package = importlib.import_module(f"{__package__}.sources")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    import_plugins("captau.datasets")


def names() -> list[str]:
    """List the registered datasets, sorted."""
    _discover()
    return sorted(_READERS)


def card(name: str) -> Card:
    """Return the card of a dataset.

    Raises:
        InputError: where no dataset has that name; the nearest ones are named.
    """
    _discover()
    if not isinstance(name, str) or name not in _READERS:
        raise unknown("dataset", str(name), _READERS)
    return _READERS[name][0]


def protocol_changes(name: str) -> Mapping[str, Any]:
    """Return what `@dataset` changes in a dataset's usual protocol."""
    card(name)
    return _PROTOCOLS[name]


def data_root(root: str | Path | None = None) -> Path:
    """Return the data folder: `root`, else the environment's `CAPTAU_DATA`, else the user's cache."""
    folder = root or os.environ.get("CAPTAU_DATA")
    return expand_home(folder) if folder else platformdirs.user_cache_path("captau") / "data"


def load(name: str, /, root: str | Path | None = None, **options: Any) -> CaptionSet:
    """Read a dataset.

    Args:
        name: a registered dataset, such as `flickr8k_expert`.
        root: the data folder; by default `CAPTAU_DATA`, else the user's cache folder.
        options: options of the dataset's reader, such as those of `file`, which reads your own judgements.

    Raises:
        InputError: if the name or an option is unknown, or a file is missing, truncated or malformed.
    """
    expected = card(name)
    option_names = list(inspect.signature(_READERS[name][1]).parameters)[1:]
    for option in options:
        if option not in option_names:
            raise unknown(f"option of dataset {name}", option, option_names)
    folder = data_root(root)
    if expected.sources and not folder.is_dir():
        where = expected.sources[0]
        raise MissingFileError(
            f"dataset {name}: the data folder {folder} does not exist; set CAPTAU_DATA or data.root=DIR, "
            f"or for {where.path} {way_to_get(expected, where)}"
        )
    return _READERS[name][1](folder, **options)
