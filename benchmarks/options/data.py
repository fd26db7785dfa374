"""Options of `captau data` and its commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ...conf import own_files
from ...datasets import registry
from ...datasets.errors import InputError
from ...datasets.reading.source_files import is_here
from ..scoring.catalog import HERE
from . import shared
from .declaration import NEEDED, Composed, Option, Options, option, part

_ROOT = replace(shared.DATA_ROOT, heading="")
_TARGET = replace(
    _ROOT,
    help="where to put the files (default: $CAPTAU_DATA, else the user's cache folder); the other commands need the "
    "same",
)
_NAMES = "NAME|A,B|all"
#: Where named sets are taken as well.
_NAMES_OR_SETS = "NAME|A,B|core|classic|here|all"
_DATASETS = shared.dataset_options(None, "which datasets (captau data list)", _NAMES)
#: Files that a metric needs, which are named like datasets; they arrive under a key of their own.
_MODELS = Option("models", [], "", list[str])
_SPICE = replace(
    shared.JAVA_SPICE,
    help="the folder of spice_models (default: $CAPTAU_SPICE_JARS; docs/spice.md)",
    heading="",
)


def _models_of(composed: Composed) -> tuple[str, ...]:
    return tuple(composed.get("models") or ())


def _all_names() -> tuple[str, ...]:
    """Return all datasets but those of own files, which lie where their files say."""
    return tuple(registry.names())


def _listed_names_of(composed: Composed) -> tuple[str, ...]:
    """Return the datasets that are named, those of sets among them; of `here`, those whose files are here."""
    names = tuple(composed["datasets"])
    optional = composed.get("optional_datasets") or ()
    if HERE not in optional:
        return names

    folder = registry.data_root(shared.data_root_of(composed))
    present: list[str] = []
    for name in names:
        if name not in optional or is_here(folder, registry.card(name)):
            present.append(name)
    if not present:
        raise InputError(
            f"dataset={HERE}: no dataset is in the data folder {folder}; captau data list shows which there are"
        )
    return tuple(present)


def _names_of(composed: Composed) -> tuple[str, ...]:
    own_names = own_files("dataset")
    names = tuple(name for name in _listed_names_of(composed) if name not in own_names)
    return names if names or _models_of(composed) else _all_names()


def _is_named(composed: Composed) -> bool:
    return bool(composed["datasets"]) and not set(_all_names()) <= set(composed["datasets"])


def _required_names_of(composed: Composed) -> tuple[str, ...]:
    """Return the datasets that the user named one by one, of which an absent one is a fault."""
    if not _is_named(composed):
        return ()
    optional = composed.get("optional_datasets") or ()
    return tuple(name for name in composed["datasets"] if name not in optional)


def _needed_names_of(composed: Composed) -> tuple[str, ...]:
    if not composed["datasets"] and not _models_of(composed):
        raise InputError(
            "the option dataset=… is needed: a name, A,B, a named set or all; see captau data list"
        )
    return _names_of(composed)


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """Options of `captau data list`: datasets to show in full, none for all in short, and the data folder."""

    takes_sets: ClassVar[bool] = True
    positional: ClassVar[tuple[str, ...]] = ("dataset",)
    examples: ClassVar[str] = """
captau data list
captau data list dataset=thumb                         licence, scale, and where missing files come from
captau data list dataset=classic                       the same of each dataset of a named set
captau data list data.root=~/captions
"""
    notes: ClassVar[str] = """
Status: yes; no; differs (here, but a hash is not that of the known revision); built in; your own. Items and ratings are
what the dataset should hold; captau data verify counts what it does.
"""

    names: tuple[str, ...] = part(
        _listed_names_of,
        *shared.dataset_options(None, "which datasets to show in full", _NAMES_OR_SETS),
        shared.OPTIONAL_DATASETS,
    )
    root: Path | None = part(shared.data_root_of, _ROOT)


@dataclass(frozen=True, kw_only=True)
class FetchOptions(Options):
    """Options of `captau data fetch`: datasets, models of metrics, the data folder, and no use of the network."""

    takes_all: ClassVar[str] = "dataset"
    takes_sets: ClassVar[bool] = True
    positional: ClassVar[tuple[str, ...]] = ("dataset",)
    model_names: ClassVar[tuple[str, ...]] = ("spice_models",)
    examples: ClassVar[str] = """
captau data fetch dataset=thumb
captau data fetch dataset=flickr8k_expert,capeval1k data.root=~/captions
captau data fetch dataset=classic           the datasets of which papers on metrics print numbers
captau data fetch dataset=all
captau data fetch dataset=spice_models      what the metric spice needs (387 MB, docs/spice.md)
"""
    notes: ClassVar[str] = """
The licence and the citation of a dataset with missing files are shown first. A file takes its name only when its hash is that of the card's revision. Where
no hash is known, that of the first download is printed and recorded in NAME.sha256, and later ones have to be the same. A file that is there already with the right hash is not fetched again; one with another
hash is replaced. An address that fails is tried
again twice, and then the mirror.

Sets on Hugging Face's hub that ask you to accept terms need HF_TOKEN; HF_ENDPOINT names a mirror of the hub.

Some datasets are given out on request, or have to be downloaded by hand. For those the output names the page, the files
to get from it, and the command that takes them in: captau data import --help.

The command ends with status 2 where a file could not be downloaded; all others are fetched even so.
"""
    environment: ClassVar[tuple[Option, ...]] = (
        replace(
            _SPICE,
            help="where to put spice_models (default: $CAPTAU_SPICE_JARS, else the cache folder)",
        ),
    )

    names: tuple[str, ...] = part(
        _needed_names_of,
        *shared.dataset_options(
            None, "which datasets (captau data list), or a named set of them", _NAMES_OR_SETS
        ),
        shared.OPTIONAL_DATASETS,
    )
    models: tuple[str, ...] = part(_models_of, _MODELS)
    root: Path | None = part(shared.data_root_of, _TARGET)
    offline: bool = option(
        False,
        "true uses no network, and lists the missing files with their addresses",
        key="data.offline",
    )


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Options):
    """Options of `captau data import`."""

    takes_all: ClassVar[str] = "dataset"
    positional: ClassVar[tuple[str, ...]] = ("dataset",)
    examples: ClassVar[str] = """
captau data import dataset=composite_30k source=~/Downloads/flickr30k.tar.gz
captau data import dataset=flickr8k_expert,composite_8k source=Flickr8k_text.zip
captau data import dataset=all source=~/captions
"""
    notes: ClassVar[str] = """
The files are found by their names, however deep they lie, and copied. Where two have one name, the hash decides, then
the folder. A file of another hash than the known one is taken with a warning, since releases differ; captau data verify
then checks what is in it. With dataset=all it is left, and so are files of common names. A file that is there with
the right hash stays. An archive with links, or with names that lead out of it, is refused.
"""

    names: tuple[str, ...] = part(_needed_names_of, *_DATASETS)
    named: bool = part(_is_named)
    source: Path = option(
        NEEDED, "a folder, an archive or a file from the authors; archives are zip, tar and tar.gz"
    )
    root: Path | None = part(shared.data_root_of, _TARGET)


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Options):
    """Options of `captau data verify`."""

    takes_all: ClassVar[str] = "dataset"
    takes_sets: ClassVar[bool] = True
    positional: ClassVar[tuple[str, ...]] = ("dataset",)
    model_names: ClassVar[tuple[str, ...]] = ("spice_models",)
    examples: ClassVar[str] = """
captau data verify
captau data verify dataset=thumb,flickr8k_expert
captau data verify dataset=thumb data.images=~/coco
captau data verify dataset=spice_models
"""
    notes: ClassVar[str] = """
The command ends with status 1 where a file is damaged or of another revision, cannot be read, or holds other numbers of
images, items, ratings or preferences than it should; or where a dataset that you named by its own name is not here. It also counts the
captions that are one of their image's references (protocol.own_references, docs/protocols.md), which is no fault.
"""
    environment: ClassVar[tuple[Option, ...]] = (_SPICE,)

    names: tuple[str, ...] = part(
        _names_of,
        *shared.dataset_options(
            None, "which datasets (default: all that are here)", _NAMES_OR_SETS
        ),
        shared.OPTIONAL_DATASETS,
    )
    required: tuple[str, ...] = part(_required_names_of)
    models: tuple[str, ...] = part(_models_of, _MODELS)
    root: Path | None = part(shared.data_root_of, _ROOT)
    images: Path | None = option(
        None,
        "a folder of images: counts how many of each dataset's are not there, which is no fault. Usual places: "
        "val2014/COCO_val2014_000000391895.jpg (COCO), Flickr8k_Dataset/, flickr30k-images/, "
        "VOC2012/JPEGImages/; or all in DIR",
        key="data.images",
        takes="DIR",
    )


@dataclass(frozen=True, kw_only=True)
class OverlapOptions(Options):
    """Options of `captau data overlap`: datasets, and the data folder; None for the usual one."""

    takes_all: ClassVar[str] = "dataset"
    positional: ClassVar[tuple[str, ...]] = ("dataset",)
    examples: ClassVar[str] = """
captau data overlap dataset=capeval1k,composite_coco
captau data overlap dataset=thumb,capeval1k,composite_coco
"""

    names: tuple[str, ...] = part(
        _needed_names_of,
        *shared.dataset_options(None, "two datasets or more", "[A,B,...]|all"),
    )
    root: Path | None = part(shared.data_root_of, _ROOT)
