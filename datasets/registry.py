"""The registry of datasets, and `load`, which reads one by its name.

To add a dataset, put `@dataset(CARD)` over a reader in a module of `sources/`, in a module of another package
that the entry-point group `captau.datasets` names, or in your own program. The reader takes the data folder, and options
by name where it has any, and returns a `CaptionSet`.

A module of `sources/` is imported when one of its datasets is asked for: a reader there is called `load_NAME`, which tells
where the dataset NAME is.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import platformdirs

from .errors import MissingFileError, unknown
from .paths import expand_home
from .plugins import import_plugins
from .reading.source_files import find_images, way_to_get
from .schema import CaptionSet, Card

Reader = Callable[..., CaptionSet]

_READERS: dict[str, tuple[Card, Reader]] = {}
_PROTOCOLS: dict[str, Mapping[str, Any]] = {}
_OPTIONS: dict[str, type[Any]] = {}

_SOURCES = f"{__package__}.sources"
#: A registration in a module of `sources/`, and one whose reader says by its name which dataset it reads.
_REGISTRATION = re.compile(r"^@dataset\(", re.MULTILINE)
_NAMED_REGISTRATION = re.compile(r"^@dataset\([^@]*?\)\ndef load_(\w+)\(", re.MULTILINE)


def dataset(
    card: Card, protocol: Mapping[str, Any] | None = None, *, options: type[Any] | None = None
) -> Callable[[Reader], Reader]:
    """Register a reader under its card's name.

    Args:
        card: its description.
        protocol: what differs in its usual protocol from every dataset's; captau's own datasets have a file in
            `conf/dataset/` instead.
        options: a dataclass whose fields are the reader's options, of which the reader takes one object; None for a
            reader that takes its options by name, if it has any.
    """

    def register(reader: Reader) -> Reader:
        module = getattr(reader, "__module__", "")
        own_module = _source_modules().get(card.name)
        if card.name in _READERS or own_module not in (None, module):
            raise ValueError(f"dataset {card.name} is registered twice")
        if own_module is None and module.startswith(f"{_SOURCES}."):
            raise ValueError(f"{module}: call the reader of dataset {card.name} load_{card.name}")
        if own_module is not None and protocol:
            raise ValueError(f"{module}: put the protocol into conf/dataset/{card.name}.yaml")

        _READERS[card.name] = (card, reader)
        _PROTOCOLS[card.name] = dict(protocol or {})
        if options is not None:
            _OPTIONS[card.name] = options
        return reader

    return register


@cache
def _source_modules() -> dict[str, str]:
    """Return the modules of captau's own datasets, by the datasets' names.

    They are read and not imported: a command needs one or two of them, and importing all takes longer than most do.

    Raises:
        ValueError: where the name of a reader does not say which dataset it reads.
    """
    modules: dict[str, str] = {}
    for file in resources.files(_SOURCES).iterdir():
        if not file.name.endswith(".py"):
            continue
        text = file.read_text(encoding="utf-8")
        dataset_names = _NAMED_REGISTRATION.findall(text)
        if len(dataset_names) != len(_REGISTRATION.findall(text)):
            raise ValueError(
                f"{file}: call each reader load_NAME, by its dataset's name, right below @dataset"
            )
        module = f"{_SOURCES}.{file.name.removesuffix('.py')}"
        modules |= dict.fromkeys(dataset_names, module)

    return modules


def names() -> list[str]:
    """List the registered datasets, sorted."""
    import_plugins("captau.datasets")
    return sorted({*_source_modules(), *_READERS})


def _find(name: str) -> tuple[Card, Reader]:
    """Return the card and the reader of a dataset, after importing the module that registers it.

    Raises:
        InputError: where no dataset has that name; the nearest ones are named.
    """
    if not isinstance(name, str):
        raise unknown("dataset", str(name), names())

    if name not in _READERS and name in _source_modules():
        importlib.import_module(_source_modules()[name])
    elif name not in _READERS:
        import_plugins("captau.datasets")
    if name not in _READERS:
        raise unknown("dataset", name, names())

    return _READERS[name]


def card(name: str) -> Card:
    """Return the card of a dataset.

    Raises:
        InputError: where no dataset has that name; the nearest ones are named.
    """
    return _find(name)[0]


def reader(name: str) -> Reader:
    """Return the function that reads a dataset.

    Raises:
        InputError: where no dataset has that name; the nearest ones are named.
    """
    return _find(name)[1]


def protocol_changes(name: str) -> Mapping[str, Any]:
    """Return what `@dataset` changes in a dataset's usual protocol: of captau's own datasets nothing.

    Raises:
        InputError: where no dataset has that name; the nearest ones are named.
    """
    if name in _source_modules():
        return {}

    _find(name)
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

    The images of a dataset that has files of its own are looked for in the data folder (`source_files.find_images`).

    Raises:
        InputError: if the name or an option is unknown, or a file is missing, truncated or malformed.
    """
    dataset_card, reader = _find(name)
    options_class = _OPTIONS.get(name)
    if options_class is None:
        option_names = list(inspect.signature(reader).parameters)[1:]
    else:
        option_names = [field.name for field in fields(options_class)]
    for option in options:
        if option not in option_names:
            raise unknown(f"option of dataset {name}", option, option_names)

    folder = data_root(root)
    if dataset_card.sources and not folder.is_dir():
        first_file = dataset_card.sources[0]
        raise MissingFileError(
            f"dataset {name}: the data folder {folder} does not exist; set CAPTAU_DATA or data.root=DIR, "
            f"or for {first_file.path} {way_to_get(dataset_card, first_file)}"
        )

    if options_class is None:
        caption_set = reader(folder, **options)
    else:
        caption_set = reader(folder, options_class(**options))

    items = caption_set.items
    if dataset_card.sources and items["image"].isna().all():
        files = find_images(items["image_id"].tolist(), name, folder)
        if any(files):
            return caption_set.with_images(files)
    return caption_set
