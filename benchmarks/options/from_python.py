"""Options of commands that Python calls with arguments instead of typed keys: `captau.bench`, `compare`, `rank`, `score`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ..scoring.catalog import changes_of, resolve_metrics, usual_protocol
from ..scoring.protocol import Protocol
from ..scoring.score_store import OWN, Locations
from .large import is_large_path
from .score import NamedFile, files_of
from .shared import names_of, statistics_of

#: Captions of one system, and a set of references: a file, or what its JSON would hold, or a DataFrame.
Captions: TypeAlias = str | Path | Mapping[Any, str] | Sequence[Mapping[str, Any]] | pd.DataFrame
References: TypeAlias = (
    str
    | Path
    | Mapping[Any, Sequence[str]]
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Any]
    | pd.DataFrame
)


def measuring_arguments(
    dataset: str | CaptionSet | Sequence[str | CaptionSet],
    metrics: str | Metric | Sequence[str | Metric],
    *,
    protocol: str | Mapping[str, Any] | None,
    statistics: Mapping[str, Any] | None,
    data_root: str | Path | None,
    cache_root: str | Path | None,
    output_dir: str | Path | None,
    file: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the fields of `MeasuringOptions`, and `statistics`, for the arguments that `captau.bench` explains.

    Raises:
        InputError: on an unknown name, or an argument of another kind.
    """
    entries = list(dataset) if isinstance(dataset, list | tuple) else [dataset]
    loaded = {entry.card.name: entry for entry in entries if isinstance(entry, CaptionSet)}
    named = [e.card.name if isinstance(e, CaptionSet) else e for e in entries]
    datasets = names_of(named if loaded else dataset)
    changes = changes_of(protocol)
    chosen_metrics = resolve_metrics(metrics)
    statistics_options = statistics_of(statistics)
    if file is not None and not isinstance(file, Mapping):
        raise InputError(f"file is {file!r}; a dict of options is expected")
    return {
        "datasets": {
            name: Protocol.resolve(name, usual_protocol(OWN if name in loaded else name), changes)
            for name in datasets
        },
        "metrics": chosen_metrics,
        "statistics": statistics_options,
        "locations": Locations(
            data_root=Path(data_root) if data_root else None,
            cache_root=Path(cache_root) if cache_root else None,
            output_dir=Path(output_dir) if output_dir else None,
            file_options=dict(file or {}),
            loaded=loaded,
        ),
        "configuration": {
            "dataset": datasets,
            **({"in_memory": ["dataset"]} if loaded else {}),
            "metrics": [m.spec for m in chosen_metrics],
            "protocol": changes,
            "statistics": vars(statistics_options),
            "data": {"root": data_root},
            "cache": {"root": cache_root},
            "output_dir": output_dir,
            "file": dict(file or {}),
        },
    }


def captions_from_python(value: Any, key: str) -> tuple[NamedFile, ...]:
    """Return candidates or references, `key`, of one set or several, as `captau.score` takes them.

    What is in memory becomes the JSON of a file, so that it is read and checked as a file is.

    Raises:
        InputError: where there is none, it is a large set, or it cannot be JSON.
    """
    if value is None:
        return ()
    paths = [value] if isinstance(value, str | Path) else value
    if isinstance(paths, list | tuple) and all(isinstance(path, str | Path) for path in paths):
        files = files_of([str(path) for path in paths], key)
    elif (
        isinstance(value, pd.DataFrame)
        and value.columns.is_unique
        and "system" in value.columns
        and key == "candidates"
    ):
        if value["system"].isna().any():
            raise InputError(
                f"{key}: some rows have no value in the column 'system'; name their system"
            )
        by_system = value.groupby("system", sort=False, observed=True)
        files = tuple(_in_memory(rows, key, str(name)) for name, rows in by_system)
    elif _has_sets(value):
        files = tuple(
            NamedFile(str(name), expand_home(captions))
            if isinstance(captions, Path)
            else _in_memory(captions, key, str(name))
            for name, captions in value.items()
        )
    else:
        files = (_in_memory(value, key),)
    for file in files:
        if file.content is None and is_large_path(str(file.path)):
            raise InputError(
                f"{key}: {file.path} is a large set, in shards; the command captau score takes it (docs/large_sets.md)"
            )
    return files


def _has_sets(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Say whether a value is a mapping of sets by name, and not one set."""
    sets = (Path, pd.DataFrame, Mapping)
    return (
        isinstance(value, Mapping)
        and "annotations" not in value  # COCO's form of one set
        and any(isinstance(v, sets) or _is_list_of_rows(v) for v in value.values())
    )


def _is_list_of_rows(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(row, Mapping) for row in value)


def _in_memory(value: Any, key: str, name: str = "") -> NamedFile:
    """Return captions in memory as a file's content.

    Raises:
        InputError: where they are of another kind.
    """
    where = f"{key} {name}".strip()
    if not isinstance(value, Mapping | list | tuple | pd.DataFrame):
        raise InputError(
            f"{where}: a path, a dict, a list of dicts or a DataFrame is expected, and not {type(value).__name__}"
        )
    if isinstance(value, pd.DataFrame):
        if not value.columns.is_unique:
            raise InputError(f"{where}: two columns have one name; keep one")
        value = value.to_dict("records")
    elif isinstance(value, Mapping):
        n_keys = len(value)
        value = {str(k): v for k, v in value.items()}
        if len(value) < n_keys:
            raise InputError(
                f"{where}: an image id is there twice, as a number and as text; keep one"
            )
    if key == "references" and isinstance(value, list | tuple):
        is_row_per_image = any(isinstance(row, Mapping) and "references" in row for row in value)
        values = value if is_row_per_image else [{"annotations": value}]
    else:
        values = [value]
    try:
        content = "\n".join(json.dumps(value, default=_plain) for value in values).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}; image ids and texts are expected") from error
    return NamedFile(name or key, Path(where), content)


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is in it")
