"""What the options of several commands have in common, from Hydra's configuration to plain data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ...conf import group
from ...datasets.cache import keep
from ...datasets.errors import InputError, unknown
from ...datasets.streams import STDIN
from ...metrics.text.java import java_program
from ..scoring.catalog import optional_specs, read_config, resolve_metrics
from ..scoring.locations import OWN, Locations
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions


def check_shares(good: float, precision: float) -> None:
    """
    Raises:
        InputError: where what shall be a share is none.
    """
    for name, share in (("good", good), ("precision", precision)):
        if not 0 < share <= 1:
            raise InputError(f"{name} is {share}; a number above 0 and up to 1 is expected")


@dataclass(frozen=True)
class Named:
    """A file of the user's, `-` for standard input, and what results call it."""

    name: str
    path: Path


def scored(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What every command that scores datasets has, by field."""
    return {
        "datasets": datasets_of(plain),
        "metrics": resolve_metrics(plain["metrics"]),
        "optional": optional_specs(plain["metrics"]),
        "locations": locations_of(plain),
        "configuration": plain,
    }


def whole_numbers(given: Any, what: str) -> tuple[int, ...]:
    """One whole number, or several.

    Raises:
        InputError: where there is anything else.
    """
    numbers: Any = [given] if isinstance(given, int) else given
    if not isinstance(numbers, list | tuple) or not all(type(n) is int for n in numbers):
        raise InputError(f"{what} is {given!r}; whole numbers are expected, as {what}=[0,1,2]")
    return tuple(numbers)


def names_of(dataset: Any) -> list[str]:
    """Datasets' names, from one or several.

    Raises:
        InputError: where there is none, or something that is no name.
    """
    names: Any = [dataset] if isinstance(dataset, str) else dataset
    names = list(names) if isinstance(names, Iterable) else [names]
    if not names:
        raise InputError("dataset is empty; name one at least, see captau data list")
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"dataset is {dataset!r}; a name or a list of names is expected")
    return names


def changes_of(protocol: Any) -> dict[str, Any]:
    """What differs from the usual protocol: a mapping, or the name of a file in `conf/protocol/`.

    Raises:
        InputError: on an unknown name or option, or anything else.
    """
    if isinstance(protocol, str):
        if protocol not in group("protocol"):
            raise unknown("protocol", protocol, group("protocol"))
        protocol = read_config("protocol", protocol)
    if not isinstance(protocol, Mapping | None):
        raise InputError(f"protocol is {protocol!r}; a name or a dict of options is expected")
    changes = dict(protocol or {})
    known = Protocol.__dataclass_fields__
    for key in changes:
        if key not in known:
            raise unknown("option of protocol", str(key), known)
    return changes


def statistics_of(options: Any) -> StatisticsOptions:
    """From a mapping of options; None for the usual ones.

    Raises:
        InputError: on an unknown option, or a value that makes no sense.
    """
    if not isinstance(options, Mapping | None):
        raise InputError(f"statistics is {options!r}; a dict of options is expected")
    for key in options or {}:
        if key not in StatisticsOptions.__dataclass_fields__:
            raise unknown("option of statistics", str(key), StatisticsOptions.__dataclass_fields__)
    return StatisticsOptions(**(options or {}))


def datasets_of(plain: Mapping[str, Any]) -> dict[str, Protocol]:
    names_of(plain["datasets"])
    return {
        name: Protocol.resolve(name, options["protocol"], plain["protocol"])
        for name, options in plain["datasets"].items()
    }


def files_of(given: Any, option: str) -> tuple[Named, ...]:
    """Files, from one or several, each as `path` or `name=path`.

    A file without a name is called by its own without the ending, or, where two would be called
    alike, by its path.

    Raises:
        InputError: where there is none, or two have one name.
    """
    entries: Any = [given] if isinstance(given, str) else given
    if not isinstance(entries, list | tuple) or not entries or not all(entries):
        raise InputError(f"{option} is {given!r}; a file is expected, or several as [A,B]")
    found: list[tuple[str, Path]] = []
    for entry in map(str, entries):
        name, equals, rest = entry.partition("=")
        # A path may hold an equals sign as well: lr=0.1/results.json
        named = equals and rest and "/" not in name and not Path(entry).expanduser().exists()
        found.append((name, Path(rest)) if named else ("", Path(entry)))
    own = [_own_name(path) for name, path in found if not name]
    files = [
        Named(
            name or (_own_name(path) if own.count(_own_name(path)) == 1 else str(path)),
            path.expanduser(),
        )
        for name, path in found
    ]
    names = [one.name for one in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(
            f"two of {option} are called '{twice}'; name them: {option}=[a=FILE,b=FILE]"
        )
    return tuple(files)


def _own_name(path: Path) -> str:
    if path == STDIN:
        return "stdin"
    return path.with_suffix("").stem if path.suffix == ".gz" else path.stem


def use_java(home: str | None = None, spice: str | None = None) -> None:
    """`java.home=`, `java.spice=`: every Java that is started from here on, and by child processes.

    Raises:
        InputError: where `home` is no Java home, before anything is computed.
    """
    if spice:
        os.environ["CAPTAU_SPICE_JARS"] = spice
    if home:
        os.environ["CAPTAU_JAVA"] = home
        java_program()


def use_cache(root: str | None, use: bool) -> None:
    """`cache.root=`, `cache.use=`: also for what metrics keep, here and in child processes."""
    if root:
        os.environ["CAPTAU_CACHE"] = root
    keep(use)


def use_weights(root: str | None, download: bool) -> None:
    """`weights.root=` and `weights.download=`: where models lie, and whether they may be fetched."""
    if root:
        os.environ["CAPTAU_WEIGHTS"] = root
    if download:
        os.environ["CAPTAU_DOWNLOAD"] = "1"


def plain_of(config: DictConfig) -> dict[str, Any]:
    """Plain data, with the first option that is needed and not given named.

    Raises:
        InputError: where a needed option is missing.
    """
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise InputError(f"the option {missing[0]}=… is needed; see --help")
    plain: Any = OmegaConf.to_container(config, resolve=True)
    plain.pop("hydra", None)
    if weights := plain.get("weights"):
        use_weights(weights["root"], weights["download"])
    use_java(**(plain.get("java") or {}))
    if cache := plain.get("cache"):
        use_cache(cache["root"], cache.get("use", True))
    return plain


def locations_of(plain: Mapping[str, Any]) -> Locations:
    return Locations(
        data_root=path_of(plain["data"]["root"]),
        cache_root=path_of(plain["cache"]["root"]),
        use_cache=plain["cache"]["use"],
        cache_scores=plain["cache"].get("scores"),
        output_dir=path_of(plain["output_dir"]),
        file_options=file_options_of(plain),
    )


def file_options_of(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The given options of the dataset `file`.

    Raises:
        InputError: where there are some and it is not among the datasets.
    """
    given = {k: v for k, v in plain.get("file", {}).items() if v is not None}
    if given and OWN not in plain["datasets"]:
        raise InputError(f"file.{next(iter(given))}=… belongs to dataset=file; choose that too")
    return given


def path_of(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None


def runs_of(plain: Mapping[str, Any]) -> tuple[Path, ...]:
    """The folders of `run=`, each once.

    Raises:
        InputError: where there is none.
    """
    folders = listed(plain["run"], "run")
    if not folders:
        raise InputError("run= is empty; name the folder of a finished run, or several: run=[A,B]")
    return tuple(Path(folder).expanduser() for folder in folders)


def listed(given: Any, option: str) -> tuple[str, ...]:
    """One word or several, each once; none where nothing was given.

    Raises:
        InputError: where there is anything else.
    """
    words: Any = [] if given is None else given if isinstance(given, list) else [given]
    if not all(isinstance(word, str | int | float) for word in words):
        raise InputError(f"{option} is {given!r}; a name or a list of names is expected")
    return tuple(dict.fromkeys(str(word) for word in words))
