"""The options of commands as arguments of captau's Python functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ...metrics.external import MetricSource
from ...metrics.registry import recipe_of
from ..scoring.catalog import (
    changes_of,
    expand_sets,
    leave_out_absent,
    resolve_metrics,
    usual_protocol,
)
from ..scoring.protocol import Protocol
from ..scoring.score_store import OWN, Locations
from .shared import names_of, statistics_of


def measuring_arguments(
    dataset: str | CaptionSet | Sequence[str | CaptionSet],
    metrics: MetricSource | Sequence[MetricSource],
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
    datasets, optional = expand_sets(names_of(named if loaded else dataset))
    root = Path(data_root) if data_root else None
    present, absent = leave_out_absent([d for d in datasets if d not in loaded], optional, root)
    datasets = [name for name in datasets if name in loaded or name in present]
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
            data_root=root,
            cache_root=Path(cache_root) if cache_root else None,
            output_dir=Path(output_dir) if output_dir else None,
            file_options=dict(file or {}),
            loaded=loaded,
        ),
        "configuration": {
            "dataset": datasets,
            "absent": absent,
            **describe_metrics(chosen_metrics, in_memory=["dataset"] if loaded else []),
            "protocol": changes,
            "statistics": vars(statistics_options),
            "data": {"root": data_root},
            "cache": {"root": cache_root},
            "output_dir": output_dir,
            "file": dict(file or {}),
        },
    }


def describe_metrics(metrics: Sequence[Metric], *, in_memory: Sequence[str]) -> dict[str, Any]:
    """Return `metrics` of a run's configuration, and `in_memory`: the arguments that it cannot spell.

    Args:
        in_memory: the other arguments that are Python objects; `metrics` joins them where one of the metrics is.
    """
    recipes = {m.spec: recipe_of(m) for m in metrics}
    unsaved = [*in_memory, *(["metrics"] if None in recipes.values() else [])]
    return {
        **({"in_memory": unsaved} if unsaved else {}),
        "metrics": [recipe or spec for spec, recipe in recipes.items()],
    }
